package perf

// What runs show together.

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Report is all results of a Bench.
type Report struct {
	Began       time.Time `json:"began"`
	Machine     Machine   `json:"machine"`
	Command     string    `json:"command,omitempty"`
	Servers     []Target  `json:"servers"`
	Baseline    string    `json:"baseline,omitempty"`
	Rounds      int       `json:"rounds"`
	Quantiles   []float64 `json:"quantiles"` // of each latency's at_quantiles
	Entries     []Entry   `json:"scenarios"`
	Interrupted bool      `json:"interrupted,omitempty"`
	Error       string    `json:"error,omitempty"` // why the bench could not go on; errors of runs are in their results
}

// Measured reports whether anything was measured.
func (r *Report) Measured() bool {
	return slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.measured() })
}

// An Entry is a scenario and its runs, in the order in which they were made.
type Entry struct {
	Scenario string   `json:"scenario"`
	About    string   `json:"about"`
	Config   Config   `json:"config"`
	Results  []Result `json:"results"`

	// Compared is Rows, for JSON. It is set by WriteJSON alone, and where there
	// is something to compare.
	Compared []Compared `json:"compared,omitempty"`
}

// A Compared is a Row in the form that it has in JSON.
type Compared struct {
	Load    string           `json:"load,omitempty"` // as in Figure
	Name    string           `json:"name"`
	Unit    string           `json:"unit"`
	More    bool             `json:"more_is_better"`
	Servers []ComparedServer `json:"servers"` // those that have the figure
}

// A ComparedServer is one server's figure over the rounds that have not failed.
type ComparedServer struct {
	Server string `json:"server"`
	Spread
	Ratio *Spread `json:"ratio_to_baseline,omitempty"` // of runs in the same round; the baseline has none
}

func (e *Entry) measured() bool {
	return slices.ContainsFunc(e.Results, func(res Result) bool { return len(res.Loads)+len(res.Figures) > 0 })
}

// A Spread is the median and the extremes of some numbers.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	N      int     `json:"rounds"`
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

// counts reports whether a run is compared. One that has failed is not, since its
// load was not carried out as intended. A single run is shown even so: its
// figures are all there are, and the failure stands beside them.
func (r *Report) counts(res *Result) bool { return res.Error == "" || r.singleRun() }

// Rows returns all figures of an entry, without those of runs that have failed.
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
			if res.Server != r.Servers[s].Name || !r.counts(res) {
				continue
			}
			for _, f := range res.comparedFigures() {
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

// compared returns Rows in the form for JSON.
func (r *Report) compared(e *Entry) (all []Compared) {
	for _, row := range r.Rows(e) {
		c := Compared{Load: row.Load, Name: row.Name, Unit: row.Unit, More: row.More}
		for s, v := range row.Values {
			if v.N == 0 {
				continue
			}
			of := ComparedServer{Server: r.Servers[s].Name, Spread: v}
			if row.Ratios[s].N > 0 {
				of.Ratio = &row.Ratios[s]
			}
			c.Servers = append(c.Servers, of)
		}
		all = append(all, c)
	}
	return all
}

// method explains the numbers of a comparison; it is empty if there is none.
func (r *Report) method() string {
	var parts []string
	if r.Rounds > 1 {
		parts = append(parts, fmt.Sprintf("Medians of %d rounds, with the least and the most in brackets.", r.Rounds))
	}
	if len(r.Servers) > 1 {
		parts = append(parts, fmt.Sprintf("Servers took turns. Each ratio is of a run to that of %s in the same round.", r.Baseline))
		if r.Rounds > 1 {
			parts = append(parts, "So the median of the ratios is not the ratio of the medians.")
		}
	}
	return strings.Join(parts, " ")
}

// failure says how many runs on a server failed, and why the first of them did.
// how is empty if none did.
func (e *Entry) failure(server string) (how, why string) {
	failed, of := 0, 0
	for i := range e.Results {
		res := &e.Results[i]
		if res.Server != server {
			continue
		}
		if of++; res.Error != "" {
			if failed++; failed == 1 {
				why = res.Error
			}
		}
	}
	switch {
	case failed == 0:
		return "", ""
	case of == 1:
		return "failed", why
	}
	return fmt.Sprintf("failed in %d of %d rounds", failed, of), why
}

// notes returns the remarks of all runs of an entry, each once, and which failed.
// Why they failed is added if reasons is true; the error of Bench.Run says it as
// well.
func (r *Report) notes(e *Entry, reasons bool) (notes []string) {
	several := len(r.Servers) > 1
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
			add(who + "interrupted: the figures cover the time until then")
		}
		if how, why := e.failure(res.Server); how != "" {
			if slices.ContainsFunc(e.Results, func(of Result) bool {
				return of.Server == res.Server && len(of.Loads)+len(of.Figures) > 0 && !r.counts(&of)
			}) {
				how += "; figures of failed rounds are left out"
			}
			if reasons {
				how += ": " + why
			}
			add(who + how)
		}
	}
	return notes
}
