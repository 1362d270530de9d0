package perf

// Runs of scenarios against servers, in turn.

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Bench is what is to be run.
type Bench struct {
	Loads    []Choice
	Targets  []*Target
	Rounds   int
	Baseline string // the server that others are compared with; the last one if empty
	Progress *Progress
	Command  string // stands in the report
}

// A Choice is a scenario with its numbers.
type Choice struct {
	*Scenario
	Config Config
}

// Run runs all scenarios, each on all servers in turn and that Rounds times: A
// B A B. On a machine that others use as well, what is next to each other in
// time is alike, so ratios of neighbours say more than those of sums. A run
// that fails is told in its result and in the error, and the others go on. When
// ctx ends, what was measured until then is reported.
func (b *Bench) Run(ctx context.Context) (*Report, error) {
	r := &Report{Began: time.Now(), Machine: ThisMachine(), Command: b.Command, Rounds: b.Rounds, Baseline: b.Baseline}
	if r.Baseline == "" && len(b.Targets) > 1 {
		r.Baseline = b.Targets[len(b.Targets)-1].Name
	}
	var failures []error
	for _, choice := range b.Loads {
		e := Entry{Scenario: choice.Name, About: choice.About, Config: choice.Config}
		for round := 1; round <= b.Rounds && ctx.Err() == nil; round++ {
			for _, t := range b.Targets {
				if ctx.Err() != nil {
					break
				}
				show := b.Progress.showing(choice.Name, t.Name, round, b.Rounds)
				res, err := runSession(ctx, choice.Scenario, choice.Config, t, nil, show)
				b.Progress.Clear()
				res.Server, res.Round = t.Name, round
				if err != nil {
					res.Error = err.Error()
					failures = append(failures, fmt.Errorf("%s on %s: %w", choice.Name, t.Name, err))
				}
				if len(res.Loads)+len(res.Figures) > 0 || err != nil {
					e.Results = append(e.Results, res)
				}
			}
		}
		if len(e.Results) > 0 {
			r.Entries = append(r.Entries, e)
		}
	}
	for _, t := range b.Targets { // now that their versions are known
		s := Target{Name: t.Name, Version: t.Version, Command: t.Command}
		if !t.local() {
			s.Addr, s.Pid = t.Addr, t.Pid
		}
		r.Servers = append(r.Servers, s)
	}
	r.Interrupted = ctx.Err() != nil
	return r, errors.Join(failures...)
}
