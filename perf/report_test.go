package perf

// Reports: what is made of numbers.

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// testReport is a comparison with a load of each kind, and something that must
// be escaped.
func testReport(rounds int, servers ...string) *Report {
	r := &Report{Began: time.Unix(1e9, 0), Machine: Machine{"CPU <1>", 2, 4 << 30, "Linux 6"}, Command: "sheafperf compare '<x>'", Rounds: rounds}
	cfg := base.with(func(c *Config) { c.Connections = 8 })
	one, two := Entry{Scenario: "cycle", About: "about <it>", Config: cfg}, Entry{Scenario: "backlog", About: "waiting", Config: cfg}
	for s, name := range servers {
		r.Servers = append(r.Servers, Target{Name: name, Command: []string{name, "-p", "{port}"}, Version: "1.<2>"})
		for round := 1; round <= rounds; round++ {
			load := func(name string, f float64) Load {
				v := f * float64(100*(s+1)+round)
				h := newHistogram()
				for i := range 1000 {
					h.RecordValue(int64(v*1000) + int64(i*i))
				}
				return Load{
					Name: name, Seconds: 1, Answers: 10, Jobs: 5, AnswerRate: 1000 * v, JobRate: 300 * v,
					Server:  Usage{CPU: 1, Cores: 1, CPUPerAnswer: 10 * v, CPUPerJob: 30 * v, RSS: 5 << 20, Peak: 6 << 20},
					Client:  Usage{CPU: 1, Cores: 0.5, CPUPerAnswer: 2},
					Threads: 2,
					Latency: []Latency{latencyOf("cycle", h), latencyOf("put", h), latencyOf("bury", h)},
					Series:  []Sample{{At: -0.1, Answers: 1}, {At: 0.1, Answers: v}, {At: 0.2, Answers: v + 1}},
				}
			}
			one.Results = append(one.Results, Result{Server: name, Round: round, Loads: []Load{load("", 1)}, Notes: []string{"a <note>"}})
			two.Results = append(two.Results, Result{
				Server: name, Round: round, Loads: []Load{load("empty", 1), load("full", 2)},
				Figures: []Figure{{Name: "memory of a job", Unit: "B", Value: 300}},
			})
		}
	}
	r.Entries = []Entry{one, two}
	if len(servers) > 1 {
		r.Baseline = servers[len(servers)-1]
	}
	return r
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 1}},
		{[]float64{9, 1, 4}, Spread{4, 1, 9, 3}},
		{[]float64{9, 1, 4, 6}, Spread{5, 1, 9, 4}},
	} {
		if got := spreadOf(tt.in); got != tt.want {
			t.Errorf("%v: %+v, want %+v", tt.in, got, tt.want)
		}
	}
}

// Ratios are of neighbours in time: the machine may have been twice as fast in
// the second round.
func TestRatios(t *testing.T) {
	r := testReport(2, "new", "old")
	of := func(server string, round int) *Load {
		for i := range r.Entries[0].Results {
			if res := &r.Entries[0].Results[i]; res.Server == server && res.Round == round {
				return &res.Loads[0]
			}
		}
		return nil
	}
	of("new", 1).AnswerRate, of("old", 1).AnswerRate = 300, 100
	of("new", 2).AnswerRate, of("old", 2).AnswerRate = 800, 200
	row := r.Rows(&r.Entries[0])[0]
	if row.Name != figureThroughput || row.Values[0] != (Spread{550, 300, 800, 2}) || row.Ratios[0] != (Spread{3.5, 3, 4, 2}) || row.Ratios[1].N != 0 {
		t.Errorf("%+v", row)
	}
	// A round that failed for one of them has no ratio.
	r.Entries[0].Results = r.Entries[0].Results[1:]
	if row := r.Rows(&r.Entries[0])[0]; row.Values[0].N != 1 || row.Ratios[0] != (Spread{4, 4, 4, 1}) {
		t.Errorf("%+v", row)
	}
}

// What a run that has failed shows is not mixed with what others show, but where
// it is all there is.
func TestFailedRunsAreNotCompared(t *testing.T) {
	r := testReport(3, "new", "old")
	e := &r.Entries[0]
	e.Results[0].Error = "it broke" // the first of new
	rows := r.Rows(e)
	if v := rows[0].Values[0]; v.N != 2 || v.Least != 102_000 || rows[0].Ratios[0].N != 2 || rows[0].Values[1].N != 3 {
		t.Errorf("%+v", rows[0])
	}
	if bars := r.bars(e, rows, figureJobs); len(bars[0].rounds) != 2 || len(bars[1].rounds) != 3 {
		t.Errorf("%+v", bars)
	}
	percentiles, series, _ := r.curves(e)
	if want := e.Results[1].Loads[0].Latency[0].P50; percentiles[0].points[1][1] < want {
		t.Errorf("the median of p50 is %v, less than that of the better of the runs, %v", percentiles[0].points[1][1], want)
	}
	if len(series) != 6 || series[0].name != "new, failed, round 1" {
		t.Errorf("%d series; %s", len(series), series[0].name)
	}
	for i := range e.Results {
		e.Results[i].Error = "it broke"
	}
	var text, markdown strings.Builder
	if err := errors.Join(r.WriteText(&text), r.WriteMarkdown(&markdown)); err != nil || len(r.Rows(e)) != 0 ||
		strings.Count(text.String(), "new / old") != 1 || strings.Count(markdown.String(), "new / old") != 1 {
		t.Errorf("%v\n%s%s", err, text.String(), markdown.String())
	}
	one := testReport(1, "new")
	if one.Entries[0].Results[0].Error = "it broke"; len(one.Rows(&one.Entries[0])) == 0 {
		t.Error("the only run there is has no figures")
	}
}

// A report says where it may not be the server that was measured.
func TestReportOfABusyClient(t *testing.T) {
	s := newTestSession(t, "", "cycle", func(*Config) {})
	m := measurement{elapsed: time.Second, threads: 1, busiest: 800 * time.Millisecond}
	if s.report(&m, &plan{}); len(s.result.Notes) != 0 {
		t.Errorf("80 %% of a thread: %q", s.result.Notes)
	}
	m.busiest = 950 * time.Millisecond
	if s.report(&m, &plan{name: "full"}); len(s.result.Notes) != 1 || !strings.HasPrefix(s.result.Notes[0], "full: a thread of the client was busy") {
		t.Errorf("95 %% of a thread: %q", s.result.Notes)
	}
}

// A report says so where another process than the server was measured.
func TestReportOfAnIdleProcess(t *testing.T) {
	for _, tt := range []struct {
		target Target
		cpu    time.Duration
		want   string
	}{
		{Target{Pid: 77}, 0, "process 77 took next to no CPU, so it is not the server, "},
		{Target{Command: []string{"sh"}}, 10 * time.Microsecond, "the process that the command is took next to no CPU, "},
		{Target{Pid: 77}, 300 * time.Microsecond, ""},
	} {
		s := newTestSession(t, "", "cycle", func(*Config) {})
		s.target = &tt.target
		m := measurement{elapsed: time.Second, threads: 1, rec: recorder{answers: 1000}}
		m.server = serverUsage{procUsage: procUsage{known: true, cpu: tt.cpu}, span: time.Second, answers: 1000}
		s.report(&m, &plan{})
		if notes := strings.Join(s.result.Notes, "\n"); !strings.HasPrefix(notes, tt.want) || (notes == "") != (tt.want == "") {
			t.Errorf("%v: %q, want %q", tt.cpu, notes, tt.want)
		}
	}
}

// A server's CPU is that of what was answered between two readings, also if these
// were taken late.
func TestCPUThatWasReadLate(t *testing.T) {
	before := reading{procUsage{known: true, cpu: time.Second}, 900, 90, 9}
	after := reading{procUsage{known: true, cpu: time.Second + 25*time.Millisecond, rss: 5}, 900 + int64(100*time.Millisecond), 190, 19}
	m := measurement{elapsed: time.Second, server: after.since(before)}
	m.rec.answers, m.rec.jobs = 1000, 100
	l := m.load(&plan{}, [2]string{})
	if want := (Usage{CPU: 0.25, Cores: 0.25, CPUPerAnswer: 250, CPUPerJob: 2500, RSS: 5}); l.Server != want {
		t.Errorf("got %+v, want %+v", l.Server, want)
	}
	var sum measurement
	sum.add(&m, 0)
	sum.add(&m, 0)
	if l := sum.load(&plan{}, [2]string{}); l.Server.CPUPerAnswer != 250 || l.Server.Cores != 0.25 {
		t.Errorf("in two rounds: %+v", l.Server)
	}
}

func TestTextReport(t *testing.T) {
	contains := func(r *Report, parts ...string) {
		t.Helper()
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(` +`).ReplaceAllString(b.String(), " ")
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("there is no %q in\n%s", part, b.String())
			}
		}
	}
	contains(testReport(1, "old"), "cycle: about <it>", "101,000 ops/s, 30,300 jobs/s", "1,010 µs of CPU per operation", "50 % of a core; 2 threads", "bury 1,000", " full\n",
		"memory of a job: 300 B", "! a <note>")
	contains(testReport(2, "new", "old"), "new / old", "throughput (ops/s) 101,500 (101,000 – 102,000)", "0.50 × (0.50 – 0.50)", "! new: a <note>",
		"\nMedians of 2 rounds, with the least and the most in brackets. Servers took turns. Each ratio is of a run to that of old in the same round.")
	contains(testReport(2, "old"), "throughput (ops/s) 101,500 (101,000 – 102,000)\n")
	failed := testReport(1, "old")
	failed.Interrupted = true
	failed.Entries[0].Results[0] = Result{Server: "old", Round: 1, Error: "it broke", Interrupted: true}
	contains(failed, "! failed\n", "! interrupted", "\ninterrupted\n")
	half := testReport(2, "new", "old")
	half.Entries[0].Results[0].Loads, half.Entries[0].Results[0].Error = nil, "it broke"
	contains(half, "! new: failed in 1 of 2 rounds\n")
	half = testReport(2, "new", "old")
	half.Entries[0].Results[0].Error = "it broke"
	contains(half, "! new: failed in 1 of 2 rounds; figures of failed rounds are left out\n")
}

func TestMarkdownReport(t *testing.T) {
	var b strings.Builder
	if err := testReport(2, "new", "o|d").WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	columns := 0
	for line := range strings.Lines(b.String()) {
		switch n := strings.Count(line, "|") - strings.Count(line, `\|`); {
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns == 0:
			columns = n
		case n != columns:
			t.Errorf("%d cells, the table has %d: %s", n-1, columns-1, line)
		}
	}
	for _, part := range []string{"### cycle", "| throughput (ops/s) | 101,500 (101,000 – 102,000) | 201,500", "| **full** |", "| **in all** |", "- new: `new -p {port}`",
		"|  | new | o\\|d | new / o\\|d |\n"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("there is no %q in\n%s", part, b.String())
		}
	}
}

func TestJSONReport(t *testing.T) {
	want := testReport(2, "new", "old")
	var b bytes.Buffer
	if err := want.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	l := got.Entries[1].Results[3].Loads[1]
	if b, err := json.Marshal((&measurement{}).load(&plan{}, [2]string{})); err != nil || !bytes.Contains(b, []byte(`"latency":[]`)) {
		t.Errorf("a load without a latency: %s, %v", b, err)
	}
	if got.Entries[1].Config.Body.String() != "128" || l.Name != "full" || l.AnswerRate != 404_000 || len(l.Latency[0].Values) != len(Quantiles) {
		t.Errorf("read back: %+v", l)
	}
}

// JSON has what the tables of a comparison have.
func TestJSONOfAComparison(t *testing.T) {
	r := testReport(3, "new", "old")
	r.Entries[0].Results[0].Error = "it broke"
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Scenarios []struct {
			Compared []struct {
				Load, Name, Unit string
				More             bool `json:"more_is_better"`
				Servers          []struct {
					Server              string
					Median, Least, Most float64
					Rounds              int
					Ratio               *struct {
						Median, Least, Most float64
						Rounds              int
					} `json:"ratio_to_baseline"`
				}
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i := range r.Entries {
		rows, compared := r.Rows(&r.Entries[i]), got.Scenarios[i].Compared
		if len(compared) != len(rows) || len(rows) == 0 {
			t.Fatalf("%d figures, want %d\n%s", len(compared), len(rows), b.String())
		}
		for j, c := range compared {
			row := rows[j]
			if c.Load != row.Load || c.Name != row.Name || c.Unit != row.Unit || c.More != row.More || len(c.Servers) != 2 {
				t.Fatalf("%+v, want %+v", c, row)
			}
			of := c.Servers[0]
			if of.Server != "new" || (Spread{of.Median, of.Least, of.Most, of.Rounds}) != row.Values[0] || of.Ratio == nil ||
				(Spread{of.Ratio.Median, of.Ratio.Least, of.Ratio.Most, of.Ratio.Rounds}) != row.Ratios[0] || c.Servers[1].Ratio != nil {
				t.Errorf("%+v, want %+v", c, row)
			}
		}
	}
	if r.Entries[0].Compared != nil {
		t.Error("the report was changed")
	}
	b.Reset()
	if err := testReport(1, "new").WriteJSON(&b); err != nil || bytes.Contains(b.Bytes(), []byte(`"compared"`)) {
		t.Errorf("a single run is compared: %v\n%s", err, b.String())
	}
}

// Why a run failed stands on standard error beside tables, and in what is kept.
func TestReportOfAFailure(t *testing.T) {
	r := testReport(1, "old")
	r.Entries[0].Results[0].Error = "it broke"
	r.Error = "no server at x"
	var text, markdown, json, page strings.Builder
	for _, err := range []error{r.WriteText(&text), r.WriteMarkdown(&markdown), r.WriteJSON(&json), r.WriteHTML(&page)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, report := range map[string]string{"text": text.String(), "Markdown": markdown.String(), "JSON": json.String(), "page": page.String()} {
		kept := name == "JSON" || name == "page"
		if strings.Contains(report, "it broke") != kept || strings.Contains(report, "no server at x") != kept {
			t.Errorf("%s:\n%s", name, report)
		}
	}
	if !r.Measured() || (&Report{Entries: []Entry{{Results: []Result{{Error: "it broke"}}}}}).Measured() {
		t.Error("what was measured is not known")
	}
}

// The page is well-formed, says what it should, and needs nothing from outside.
func TestPage(t *testing.T) {
	for _, r := range []*Report{testReport(3, "new", "old"), testReport(1, "old"), testReport(2, "a", "b", "c", "d", "e", "f", "g"), {Rounds: 1}} {
		var b bytes.Buffer
		if err := r.WriteHTML(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if found := regexp.MustCompile(`(?i)(src|href|url|@import|<script|<link|https?:)[=(\s]?.{0,20}`).FindString(page); found != "" {
			t.Errorf("the page refers to %q", found)
		}
		for _, bad := range []string{"NaN", "Inf", "<it>", "%!", "ZgotmplZ", "<no value>"} {
			if strings.Contains(page, bad) {
				t.Errorf("the page has %q in it", bad)
			}
		}
		want := 0
		for i := range r.Entries {
			want += 4 + len(r.Entries[i].Results[0].Figures)
		}
		if strings.Count(page, "<svg") != want {
			t.Errorf("%d plots, want %d", strings.Count(page, "<svg"), want)
		}
		d := xml.NewDecoder(strings.NewReader(page))
		d.Entity = xml.HTMLEntity
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("the page is not well-formed: %v", err)
			}
		}
	}
}

// A report says how large the bodies are that are sent, and not which were asked for.
func TestBodiesAreDescribed(t *testing.T) {
	for _, tt := range []struct{ scenario, body, want string }{
		{"cycle", "0", "bodies of 0 bytes"},
		{"handoff", "0", "bodies of 12 bytes, the minimum here"},
		{"handoff", "12", "bodies of 12 bytes"},
		{"fanin", "uniform:0-10", "bodies of 12 bytes, the minimum here"},
		{"delayed", "uniform:0-100", "bodies of uniform:0-100 bytes, but at least 12"},
		{"gearman-foreground-1", "4", "bodies of 12 bytes, the minimum here"},
		{"gearman-background", "4", "bodies of 4 bytes"},
	} {
		s := newTestSession(t, "", tt.scenario, func(c *Config) {
			if err := c.Body.Set(tt.body); err != nil {
				t.Fatal(err)
			}
		})
		if got := s.cfg.Describe(); !strings.Contains(got+",", ", "+tt.want+";") && !strings.Contains(got, ", "+tt.want+",") {
			t.Errorf("%s with %s: %s", tt.scenario, tt.body, got)
		}
		least, _ := s.cfg.Body.Bounds()
		for _, p := range s.wire.puts {
			if p.size < s.cfg.LeastBody || int64(p.size) < least {
				t.Errorf("%s with %s: a body of %d bytes", tt.scenario, tt.body, p.size)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		a    axis
		want int // at least
	}{
		{axis{least: 0, most: 1e6}, 3}, {axis{least: 0, most: 3}, 3}, {axis{least: 0, most: 0.07}, 3},
		{axis{least: 3, most: 90, log: true}, 3}, {axis{least: 20, most: 3e6, log: true}, 4}, {axis{least: 40, most: 45, log: true}, 0},
	} {
		ticks := tt.a.ticks()
		if len(ticks) < tt.want || len(ticks) > 12 {
			t.Errorf("from %g to %g: %v", tt.a.least, tt.a.most, ticks)
		}
		for _, v := range ticks {
			if v < tt.a.least*0.99 || v > tt.a.most*1.01 {
				t.Errorf("from %g to %g: %g", tt.a.least, tt.a.most, v)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01234: "0.0123", 0.5: "0.500", 1.234: "1.23", 9.999: "10.0", 99.96: "100", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.5: "0.500 µs", 999: "999 µs", 1500: "1.50 ms", 2.5e6: "2.50 s"} {
		if got := micros(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
