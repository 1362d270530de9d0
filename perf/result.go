package perf

// What a run has measured, as numbers.

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Result is one run of one scenario against one server.
type Result struct {
	Server      string   `json:"server"`
	Round       int      `json:"round"` // from 1
	Loads       []Load   `json:"loads"`
	Figures     []Figure `json:"figures,omitempty"` // beyond those of the loads
	Notes       []string `json:"notes,omitempty"`
	Interrupted bool     `json:"interrupted,omitempty"`
	Error       string   `json:"error,omitempty"` // why the run failed
}

// A Figure is a number that can be compared.
type Figure struct {
	Load  string  `json:"load,omitempty"` // which load it is of, if the scenario has several
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	More  bool    `json:"more_is_better"`
}

// A Load is what was measured while one load ran. Rates are per second of the
// measured time. CPU figures are 0 where the process is not known.
type Load struct {
	Name       string    `json:"name,omitempty"` // when a scenario has several
	Seconds    float64   `json:"seconds"`
	Answers    int64     `json:"answers"`
	Jobs       int64     `json:"jobs"`
	AnswerRate float64   `json:"answers_per_second"`
	JobRate    float64   `json:"jobs_per_second"`
	Rate       float64   `json:"rate,omitempty"` // jobs a second that an open loop was asked for
	Late       int64     `json:"late,omitempty"` // jobs that were due and not sent before the end
	Server     Usage     `json:"server"`
	Client     Usage     `json:"client"`
	Threads    int       `json:"client_threads"`
	Latency    []Latency `json:"latency"` // the most telling first
	Series     []Sample  `json:"series,omitempty"`
}

// A Usage is what a process used while a load ran.
type Usage struct {
	CPU          float64 `json:"cpu_seconds"`
	Cores        float64 `json:"cores"` // CPU over time
	CPUPerAnswer float64 `json:"cpu_us_per_answer"`
	CPUPerJob    float64 `json:"cpu_us_per_job"`
	RSS          int64   `json:"rss,omitempty"` // bytes, at the end
	Peak         int64   `json:"peak_rss,omitempty"`
}

// A Latency is a distribution. All values are microseconds.
type Latency struct {
	Name   string    `json:"name"`
	Count  int64     `json:"count"`
	Mean   float64   `json:"mean_us"`
	P50    float64   `json:"p50_us"`
	P90    float64   `json:"p90_us"`
	P99    float64   `json:"p99_us"`
	P999   float64   `json:"p999_us"`
	P9999  float64   `json:"p9999_us"`
	Max    float64   `json:"max_us"`
	Values []float64 `json:"at_quantiles"` // those of Quantiles
}

// Quantiles are where the values of a latency's distribution are kept: those with
// a share of 1, 1/2, 1/4 … of slower ones.
var Quantiles = func() []float64 {
	q := make([]float64, 0, 22)
	for slower := 1.0; len(q) < cap(q); slower /= 2 {
		q = append(q, 1-slower)
	}
	return q
}()

func latencyOf(name string, h *hdrhistogram.Histogram) Latency {
	at := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1e3 }
	l := Latency{
		Name: name, Count: h.TotalCount(), Mean: h.Mean() / 1e3,
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: float64(h.Max()) / 1e3,
	}
	for _, q := range Quantiles {
		l.Values = append(l.Values, at(100*q))
	}
	return l
}

// load makes a Load of what was measured; names are the scenario's for handoff
// and wholeScript.
func (m *measurement) load(p *plan, names [2]string) Load {
	seconds := m.elapsed.Seconds()
	l := Load{
		Name: p.name, Seconds: seconds, Answers: m.rec.answers, Jobs: m.rec.jobs, Rate: p.rate, Late: m.rec.late,
		Client: usage(m.clientCPU, m.elapsed, m.rec.answers, m.rec.jobs), Threads: m.threads, Series: m.series,
		Latency: []Latency{},
	}
	if seconds > 0 {
		l.AnswerRate, l.JobRate = float64(l.Answers)/seconds, float64(l.Jobs)/seconds
	}
	if m.server.known {
		l.Server = usage(m.server.cpu, m.server.span, m.server.answers, m.server.jobs)
		l.Server.CPU = l.Server.Cores * seconds
		l.Server.RSS, l.Server.Peak = m.server.rss, m.server.peak
	}
	for i, kind := range []int{handoff, wholeScript} {
		if h := m.rec.hist[kind]; h != nil && h.TotalCount() > 0 {
			l.Latency = append(l.Latency, latencyOf(names[i], h))
		}
	}
	for kind := range numOps {
		if h := m.rec.hist[kind]; h != nil && h.TotalCount() > 0 {
			l.Latency = append(l.Latency, latencyOf(ops[kind].name, h))
		}
	}
	return l
}

// usage relates CPU time to the time, answers and jobs that it was spent on.
func usage(cpu, span time.Duration, answers, jobs int64) Usage {
	u := Usage{CPU: cpu.Seconds()}
	if span > 0 {
		u.Cores = cpu.Seconds() / span.Seconds()
	}
	if answers > 0 {
		u.CPUPerAnswer = cpu.Seconds() * 1e6 / float64(answers)
	}
	if jobs > 0 {
		u.CPUPerJob = cpu.Seconds() * 1e6 / float64(jobs)
	}
	return u
}

// main returns the most telling distribution, or nil.
func (l *Load) main() *Latency {
	if len(l.Latency) == 0 {
		return nil
	}
	return &l.Latency[0]
}

// Names of figures that pages look for.
const (
	figureThroughput = "throughput"
	figureJobs       = "jobs"
	figureCPU        = "CPU per operation"
	figureMemory     = "memory (RSS)"
)

// comparedFigures returns the figures of a result that are compared between
// servers.
func (r *Result) comparedFigures() (all []Figure) {
	for i := range r.Loads {
		l := &r.Loads[i]
		add := func(name, unit string, value float64, more bool) {
			if value > 0 {
				all = append(all, Figure{l.Name, name, unit, value, more})
			}
		}
		add(figureThroughput, "ops/s", l.AnswerRate, true)
		add(figureJobs, "jobs/s", l.JobRate, true)
		add(figureCPU, "µs", l.Server.CPUPerAnswer, false)
		add("CPU per job", "µs", l.Server.CPUPerJob, false)
		add(figureMemory, "MiB", float64(l.Server.RSS)/(1<<20), false)
		for j := range l.Latency {
			t := &l.Latency[j]
			// Nobody reads a comparison of all latencies of all loads.
			if j > 0 && (len(r.Loads) > 1 || t.Name != "put" && t.Name != "reserve" && t.Name != "delete") {
				continue
			}
			add(t.Name+" p50", "µs", t.P50, false)
			add(t.Name+" p99", "µs", t.P99, false)
			add(t.Name+" p99.9", "µs", t.P999, false)
		}
	}
	return append(all, r.Figures...)
}
