package perf

// Runs of scenarios against servers, in turn, and what they show together.

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Run runs all scenarios, each on all servers in turn and that Rounds times: A B A B. On a machine that others use as well,
// what is next to each other in time is alike, so ratios of neighbours say more than those of sums. A run that fails is told in
// its result and in the error, and the others go on. When ctx ends, what was measured until then is reported.
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

// A Report is everything that a bench has shown.
type Report struct {
	Began       time.Time `json:"began"`
	Machine     Machine   `json:"machine"`
	Command     string    `json:"command,omitempty"`
	Servers     []Target  `json:"servers"`
	Baseline    string    `json:"baseline,omitempty"`
	Rounds      int       `json:"rounds"`
	Entries     []Entry   `json:"scenarios"`
	Interrupted bool      `json:"interrupted,omitempty"`
}

// An Entry is a scenario and its runs, in the order in which they were made.
type Entry struct {
	Scenario string   `json:"scenario"`
	About    string   `json:"about"`
	Config   Config   `json:"config"`
	Results  []Result `json:"results"`
}

// A Spread is the median of some numbers, and how far they lie apart.
type Spread struct {
	Median, Least, Most float64
	N                   int
}

func spreadOf(values []float64) Spread {
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	return Spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Least: v[0], Most: v[n-1], N: n}
}

// A Row is a figure over all servers and rounds.
type Row struct {
	Figure          // Value is not set
	Values []Spread // of each server; N is 0 for one that does not have it
	Ratios []Spread // of each server to the baseline, round by round; N is 0 for the baseline
}

// Rows compares an entry's figures.
func (r *Report) Rows(e *Entry) (rows []Row) {
	type key struct {
		load, name string
		round      int
	}
	values := make([]map[key]float64, len(r.Servers))
	for s := range r.Servers {
		values[s] = make(map[key]float64)
		for i := range e.Results {
			res := &e.Results[i]
			if res.Server != r.Servers[s].Name {
				continue
			}
			for _, f := range res.figures() {
				if !slices.ContainsFunc(rows, func(row Row) bool { return row.Load == f.Load && row.Name == f.Name }) {
					rows = append(rows, Row{Figure: Figure{Load: f.Load, Name: f.Name, Unit: f.Unit, More: f.More}})
				}
				values[s][key{f.Load, f.Name, res.Round}] = f.Value
			}
		}
	}
	base := slices.IndexFunc(r.Servers, func(t Target) bool { return t.Name == r.Baseline })
	for i := range rows {
		row := &rows[i]
		for s := range r.Servers {
			var all, ratios []float64
			for round := 1; round <= r.Rounds; round++ {
				v, is := values[s][key{row.Load, row.Name, round}]
				if !is {
					continue
				}
				all = append(all, v)
				if base < 0 || s == base {
					continue
				}
				if b, is := values[base][key{row.Load, row.Name, round}]; is && b != 0 {
					ratios = append(ratios, v/b)
				}
			}
			row.Values = append(row.Values, spreadOf(all))
			row.Ratios = append(row.Ratios, spreadOf(ratios))
		}
	}
	return rows
}

// Notes lists the remarks of all runs, each once, and what failed.
func (e *Entry) Notes(several bool) (notes []string) {
	add := func(n string) {
		if !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
	}
	for _, res := range e.Results {
		who := ""
		if several {
			who = res.Server + ": "
		}
		for _, n := range res.Notes {
			add(who + n)
		}
		if res.Interrupted {
			add(who + "interrupted: the figures are of the time until then")
		}
		if res.Error != "" {
			add(who + "failed: " + res.Error)
		}
	}
	return notes
}
