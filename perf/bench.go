package perf

// Runs of scenarios against servers, in turn.

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Bench is scenarios to run against servers, in turn.
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

// Run runs all scenarios, each on all servers in turn, Rounds times: A B A B. On
// a machine that others use as well, runs next to each other in time meet similar
// conditions, so ratios of neighbours say more than ratios of sums. A run that
// fails is reported in its result and, once for all rounds, in the error. The
// others go on, unless the error is ErrNoServer. When ctx ends, what was measured
// until then is reported. Nothing else may use the Targets meanwhile.
func (b *Bench) Run(ctx context.Context) (*Report, error) {
	r := &Report{Began: time.Now(), Machine: ThisMachine(), Command: b.Command, Rounds: b.Rounds, Quantiles: Quantiles, Baseline: b.Baseline, Entries: []Entry{}}
	if r.Baseline == "" && len(b.Targets) > 1 {
		r.Baseline = b.Targets[len(b.Targets)-1].Name
	}
	var failures []error
	for _, choice := range b.Loads {
		e, gone := b.rounds(ctx, choice)
		if len(e.Results) > 0 {
			r.Entries = append(r.Entries, e)
		}
		for _, t := range b.Targets {
			if how, why := e.failure(t.Name); how != "" {
				failures = append(failures, fmt.Errorf("%s on %s %s: %s", e.Scenario, t.Name, how, why))
			}
		}
		if gone != nil {
			r.Error = gone.Error()
			failures = append(failures, gone)
			break
		}
	}
	for _, t := range b.Targets { // now that their versions are known
		s := Target{Name: t.Name, Version: t.Version, Command: t.Command}
		if !t.started() {
			s.Addr, s.Pid = t.Addr, t.Pid
		}
		r.Servers = append(r.Servers, s)
	}
	r.Interrupted = ctx.Err() != nil
	return r, errors.Join(failures...)
}

// rounds runs one scenario. The error is ErrNoServer, with which everything else
// would fail, too.
func (b *Bench) rounds(ctx context.Context, choice Choice) (Entry, error) {
	e := Entry{Scenario: choice.Name, About: choice.About, Config: choice.Config}
	for round := 1; round <= b.Rounds; round++ {
		for _, t := range b.Targets {
			if ctx.Err() != nil {
				return e, nil
			}
			show := b.Progress.showing(choice.Name, t.Name, round, b.Rounds)
			res, err := runSession(ctx, choice.Scenario, choice.Config, t, nil, show)
			b.Progress.Clear()
			if errors.Is(err, ErrNoServer) {
				return e, err
			}
			res.Server, res.Round = t.Name, round
			if err != nil {
				res.Error = err.Error()
			}
			if len(res.Loads)+len(res.Figures) > 0 || err != nil {
				e.Results = append(e.Results, res)
			}
		}
	}
	return e, nil
}
