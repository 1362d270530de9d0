package perf

// The report as one page that needs nothing else.

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// What the page's template is given.
type (
	pageData struct {
		Report  *Report
		Machine string
		Method  string
		Servers []legend
		Summary [][]string
		Entries []pageEntry
	}
	legend struct {
		Name, Command, Version string
		Color                  int
	}
	pageEntry struct {
		*Entry
		Describe     string
		Head         []string
		Rows         [][]string
		Plots        []pagePlot
		Loads, Notes []string
	}
	pagePlot struct {
		Title, Note string
		SVG         template.HTML
	}
)

// WriteHTML writes a page with tables and plots that refers to nothing outside of
// itself.
func (r *Report) WriteHTML(w io.Writer) error {
	p := pageData{Report: r, Machine: r.describeMachine(), Method: r.method()}
	for i, s := range r.Servers {
		p.Servers = append(p.Servers, legend{s.Name, strings.Join(s.Command, " "), s.Version, i % colors})
	}
	p.Summary = r.summary()
	for i := range r.Entries {
		p.Entries = append(p.Entries, r.pageEntry(&r.Entries[i]))
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// summary returns a table of the most important ratios, a row for each scenario.
// It is empty if there is nothing to compare.
func (r *Report) summary() (table [][]string) {
	if r.Baseline == "" {
		return nil
	}
	figures := []string{figureThroughput, figureCPU, "p99", figureMemory}
	head := []string{"scenario"}
	for _, s := range r.Servers {
		if s.Name != r.Baseline {
			for _, f := range figures {
				head = append(head, s.Name+": "+f)
			}
		}
	}
	table = append(table, head)
	for i := range r.Entries {
		rows := r.Rows(&r.Entries[i])
		line := []string{r.Entries[i].Scenario}
		for s := range r.Servers {
			if r.Servers[s].Name == r.Baseline {
				continue
			}
			for _, f := range figures {
				// A scenario with several loads is represented by its last,
				// the one beside the burden, and its latencies by the first,
				// the most telling.
				at := -1
				for j, row := range rows {
					if (row.Name == f || strings.HasSuffix(row.Name, " "+f)) && (at < 0 || rows[at].Load != row.Load) {
						at = j
					}
				}
				if at < 0 || rows[at].Ratios[s].N == 0 {
					line = append(line, "–")
				} else {
					line = append(line, fmt.Sprintf("%.2f ×", rows[at].Ratios[s].Median))
				}
			}
		}
		if slices.ContainsFunc(line[1:], func(cell string) bool { return cell != "–" }) {
			table = append(table, line)
		}
	}
	return table
}

func (r *Report) pageEntry(e *Entry) pageEntry {
	p := pageEntry{Entry: e, Describe: e.Config.Describe(), Head: r.header(), Notes: r.notes(e, true)}
	rows := r.Rows(e)
	load := ""
	for _, row := range rows {
		if row.Load != load {
			load = row.Load
			p.Rows = append(p.Rows, []string{loadName(load)})
		}
		p.Rows = append(p.Rows, r.cells(&row))
	}
	p.Loads = loadNames(e)
	plot := func(title, note, svg string) {
		if svg != "" {
			p.Plots = append(p.Plots, pagePlot{title, note, template.HTML(svg)})
		}
	}
	plot("Throughput", "jobs/s, more is better; a dot is a round", plotBars("throughput", r.bars(e, rows, figureJobs)))
	plot("CPU per operation", "µs of the server, less is better", plotBars("CPU per operation", r.bars(e, rows, figureCPU)))
	percentiles, series, name := r.curves(e)
	plot("Latency: "+name, "medians of the rounds, less is better; both axes are logarithmic", plotPercentiles(percentiles))
	plot("Throughput over time", "operations/s, all rounds", plotSeries(series))
	for _, f := range e.extraFigures() {
		better := "less"
		if f.More {
			better = "more"
		}
		plot(f.Name, f.Unit+", "+better+" is better", plotBars(f.Name, r.bars(e, rows, f.Name)))
	}
	return p
}

// extraFigures returns what was measured beyond the loads, each figure once.
func (e *Entry) extraFigures() (all []Figure) {
	for i := range e.Results {
		for _, f := range e.Results[i].Figures {
			if !slices.ContainsFunc(all, func(g Figure) bool { return g.Name == f.Name }) {
				all = append(all, f)
			}
		}
	}
	return all
}

// bars returns the bars for a figure: one for each server and load.
func (r *Report) bars(e *Entry, rows []Row, figure string) (bars []bar) {
	for _, row := range rows {
		if row.Name != figure {
			continue
		}
		for s, v := range row.Values {
			if v.N == 0 {
				continue
			}
			b := bar{name: strings.TrimSpace(r.Servers[s].Name + " " + row.Load), color: s, spread: v}
			for i := range e.Results {
				for _, f := range e.Results[i].comparedFigures() {
					if e.Results[i].Server == r.Servers[s].Name && r.counts(&e.Results[i]) && f.Load == row.Load && f.Name == row.Name {
						b.rounds = append(b.rounds, f.Value)
					}
				}
			}
			bars = append(bars, b)
		}
	}
	return bars
}

// curves returns, for each server and load, the most telling latency and the
// throughput over time; name is that of the latency.
func (r *Report) curves(e *Entry) (percentiles, series []curve, name string) {
	for s := range r.Servers {
		for _, load := range loadNames(e) {
			var rounds [][]float64
			samples := 0.0 // of the round that has most
			for i := range e.Results {
				res := &e.Results[i]
				for j := range res.Loads {
					l := &res.Loads[j]
					if res.Server != r.Servers[s].Name || l.Name != load {
						continue
					}
					label := strings.TrimSpace(res.Server + " " + load)
					if res.Error != "" {
						label += ", failed"
					}
					c := curve{name: fmt.Sprintf("%s, round %d", label, res.Round), color: s, dash: slices.Index(loadNames(e), load)}
					for _, at := range l.Series {
						if at.At >= 0 {
							c.points = append(c.points, [2]float64{at.At, at.Answers})
						}
					}
					series = append(series, c)
					if t := l.main(); t != nil && r.counts(res) {
						name = t.Name
						rounds = append(rounds, t.Values)
						samples = max(samples, float64(t.Count))
					}
				}
			}
			if len(rounds) == 0 {
				continue
			}
			c := curve{name: strings.TrimSpace(r.Servers[s].Name + " " + load), color: s, dash: slices.Index(loadNames(e), load)}
			// Beyond the quantile that one sample exceeds, only the largest repeats.
			for q := 0; q < len(Quantiles) && samples*(1-Quantiles[q]) >= 1; q++ {
				var at []float64
				for _, values := range rounds {
					at = append(at, values[q])
				}
				c.points = append(c.points, [2]float64{1 / (1 - Quantiles[q]), spreadOf(at).Median})
			}
			percentiles = append(percentiles, c)
		}
	}
	return percentiles, series, name
}

func loadNames(e *Entry) (names []string) {
	for i := range e.Results {
		for _, l := range e.Results[i].Loads {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	return names
}
