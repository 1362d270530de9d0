package perf

// The open loop, and that it forgets no stall of the server.

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimetable(t *testing.T) {
	const parts = 3
	var all []int64
	for part := range parts {
		a := newArrivals(1000, 30_000, 1.0/parts, part, false)
		for range 1000 {
			all = append(all, a.take())
		}
		// Thirds of a nanosecond do not add up to an error.
		if want := 1000 + int64(1e9/30_000.0*float64(part)) + int64(1e9/10_000.0*1000); a.next != want {
			t.Errorf("part %d: the 1000th is due at %d, want %d", part, a.next, want)
		}
	}
	if len(all) != 3000 {
		t.Fatal(len(all))
	}
	a, sum := newArrivals(0, 1000, 1, 0, true), 0
	for a.take() < 100e9 {
		sum++
	}
	if math.Abs(float64(sum)-100_000) > 1500 {
		t.Errorf("Poisson arrivals: %d in 100 s, want about 100,000", sum)
	}
	if none := newArrivals(5, 0, 1, 0, false); none.next != math.MaxInt64 {
		t.Errorf("a closed loop has an arrival at %d", none.next)
	}
}

// A server that answers in 1 ms, and stands still for a second once in ten: of
// 1000 jobs a second, a tenth is late. A closed loop would tell of one late job
// in 9000.
func TestNoCoordinatedOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() int64 { return int64(time.Since(start)) }
		open, closed := recorder{to: math.MaxInt64}, recorder{to: math.MaxInt64}
		a := newArrivals(0, 1000, 1, 0, false)
		answer := func(i int) {
			if time.Sleep(900 * time.Microsecond); i == 2500 {
				time.Sleep(time.Second)
			}
		}
		for i := range 10_000 {
			due := a.take()
			time.Sleep(time.Duration(due - clock()))
			sent := clock()
			answer(i)
			open.latency(int(opPut), due, clock())
			closed.latency(int(opPut), sent, clock())
		}
		at := func(r *recorder, percentile float64) time.Duration {
			return time.Duration(r.hist[opPut].ValueAtPercentile(percentile))
		}
		if p := at(&closed, 99.9); p > 2*time.Millisecond {
			t.Errorf("p99.9 from when jobs were sent is %v, want about 1 ms", p)
		}
		// A second of arrivals waits; the backlog melts by a tenth of the rate.
		if p := at(&open, 80); p < 100*time.Millisecond {
			t.Errorf("p80 from when jobs were due is %v, want more than 100 ms", p)
		}
		if p := at(&open, 99.9); p < 900*time.Millisecond || p > 1100*time.Millisecond {
			t.Errorf("p99.9 from when jobs were due is %v, want about a second", p)
		}
	})
}

// The same with sockets: half of the time the server stands still.
func TestOpenLoopSeesAStall(t *testing.T) {
	const stall = 150 * time.Millisecond
	for _, tt := range []struct {
		scenario string
		main     string
	}{{"cycle", "cycle"}, {"handoff", "handoff"}, {"produce", "put"}} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, flaws{stall: stall, stallAt: 50})
			s := newTestSession(t, f.addr(), tt.scenario, func(c *Config) {
				c.WarmUp, c.Duration, c.Rate, c.Poisson = 0, 2*stall, Rate{jobs: 1000}, tt.scenario == "handoff"
				c.Tubes = 4
			})
			if err := s.scenario.run(s); err != nil {
				t.Fatal(err)
			}
			l := s.result.Loads[0]
			if l.main().Name != tt.main || l.Rate != 1000 {
				t.Errorf("%s at a rate of %v", l.main().Name, l.Rate)
			}
			// Half of the jobs were due while nothing moved, and waited for
			// half of the stall in the mean.
			if p := l.main().P90; p < float64(stall.Microseconds())/2 {
				t.Errorf("p90 is %s after a stall of %v", micros(p), stall)
			}
			least, most := int64(240), int64(320)
			if s.cfg.Poisson { // by five standard deviations; how many come depends on the number of threads
				least, most = 240-5*17, 300+5*17
			}
			if n := l.main().Count; n < least || n > most {
				t.Errorf("%d latencies, want about 300", n)
			}
		})
	}
}

// What the timetable could not send before the end has waited until then.
func TestArrivalsThatWereMissed(t *testing.T) {
	f := newFake(t, flaws{stall: 150 * time.Millisecond, stallAt: 50})
	s := newTestSession(t, f.addr(), "cycle", func(c *Config) {
		c.WarmUp, c.Duration, c.Rate, c.Connections, c.Depth, c.Tubes = 0, 100*time.Millisecond, Rate{jobs: 1000}, 1, 1, 1
	})
	if err := s.scenario.run(s); err != nil {
		t.Fatal(err)
	}
	l := s.result.Loads[0]
	if l.Late < 10 || l.Late > 110 || l.main().Count < 90 || l.main().Count > 110 {
		t.Errorf("%d late and %d latencies, want 50 or more and about 100", l.Late, l.main().Count)
	}
	if notes := strings.Join(s.result.Notes, "\n"); !strings.Contains(notes, "the rate was not reached") {
		t.Errorf("notes: %s", notes)
	}
}

// What has no answer when nobody waits any longer has taken at least until then.
// The server stands still for good in the middle of the load.
func TestCommandsThatWereNotAnswered(t *testing.T) {
	const window, grace = 200 * time.Millisecond, 200 * time.Millisecond
	for _, tt := range []struct {
		scenario string
		rate     float64
		flaws
		main  string
		parts []string
		count int64
	}{
		{"cycle", 500, flaws{stall: time.Second, stallAt: 50}, "cycle", []string{"put"}, 100},
		{"cycle", 0, flaws{stall: time.Second, stallAt: 50}, "cycle", []string{"put"}, 49},
		{"produce", 500, flaws{stall: time.Second, stallAt: 50}, "put", nil, 100},
		{"handoff", 500, flaws{stall: time.Second, stallAt: 50}, "handoff", []string{"put"}, 100},
		{"handoff", 500, flaws{lose: 10}, "handoff", nil, 100},
	} {
		t.Run(fmt.Sprintf("%s at a rate of %v", tt.scenario, tt.rate), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, tt.flaws)
			s := newTestSession(t, f.addr(), tt.scenario, func(c *Config) {
				c.WarmUp, c.Duration, c.Grace, c.Rate = 0, window, grace, Rate{jobs: tt.rate}
				if tt.rate == 0 { // with many in flight the server may stand still before it has answered one
					c.Connections, c.Depth = 1, 1
				}
			})
			err := s.scenario.run(s)
			if err == nil || len(s.result.Loads) != 1 {
				t.Fatalf("%v: %+v", err, s.result)
			}
			l := &s.result.Loads[0]
			if m := l.main(); m.Name != tt.main || m.Max < float64(grace.Microseconds()) || m.Count < tt.count*9/10 {
				t.Errorf("%d × %s, at most %s; %v", m.Count, m.Name, micros(m.Max), err)
			}
			for _, part := range tt.parts {
				i := slices.IndexFunc(l.Latency, func(of Latency) bool { return of.Name == part })
				if i < 0 || l.Latency[i].Max < float64(grace.Microseconds()) {
					t.Errorf("%s: %+v", part, l.Latency)
				}
			}
		})
	}
	for name, flaws := range map[string]gearmanFlaws{"submits": {mute: 50}, "jobs": {forget: 50}} {
		t.Run("Gearman "+name, func(t *testing.T) {
			t.Parallel()
			f := newGearmanFake(t, flaws)
			s := newTestSession(t, f.addr(), "gearman-foreground", func(c *Config) {
				c.WarmUp, c.Duration, c.Grace, c.Rate = 0, window, grace, Rate{jobs: 500}
				c.Tubes = 16 // an answer that is missing would be taken by the one behind it
			})
			if err := s.scenario.run(s); err == nil || len(s.result.Loads) != 1 || s.result.Loads[0].main().Max < float64(grace.Microseconds()) {
				t.Errorf("%v: %+v", err, s.result.Loads)
			}
		})
	}
}

// The time without an answer is the grace period and the longest delay.
func TestTimeWithoutAnswers(t *testing.T) {
	cfg := base.with(func(c *Config) { c.Grace, c.Delay = time.Second, Fixed(2) })
	g := &group{name: "producer", mix: always(scriptProduce)}
	c := &conn{group: g, ring: make([]pending, 2), tail: 1}
	l := &load{cfg: &cfg, wire: newWire(&cfg), conns: []*conn{c}, longestDelay: cfg.longestDelay()}
	if got := l.describeUnanswered(); !strings.Contains(got, "had no answer 3s after the load") {
		t.Error(got)
	}
}

func TestLatenciesOfTheWindow(t *testing.T) {
	r := recorder{from: 100, to: 200}
	r.latency(0, 99, 150)
	r.latency(0, 200, 300)
	r.latency(0, 100, 50) // clocks that disagree
	r.latency(0, 199, int64(2*longestLatency))
	if n := r.hist[0].TotalCount(); n != 2 {
		t.Errorf("%d latencies, want 2", n)
	}
	other := recorder{from: 100, to: 200, answers: 3, jobs: 2, late: 1, last: 9}
	other.latency(0, 150, 160)
	other.latency(1, 150, 160)
	r.merge(&other)
	if r.hist[0].TotalCount() != 3 || r.hist[1].TotalCount() != 1 || r.answers != 3 || r.jobs != 2 || r.late != 1 || r.last != 9 {
		t.Errorf("merged: %+v", r)
	}
}

// A job that comes too early is none that came at once.
func TestJobsThatComeEarly(t *testing.T) {
	const second = int64(time.Second)
	r := recorder{to: math.MaxInt64}
	r.handoff(5*second, 2*second, 3*second)
	r.handoff(5*second, 2*second, 4*second)
	if r.early != 2 || r.earliest != 2*second || r.hist[handoff] != nil {
		t.Errorf("%d early, by up to %d", r.early, r.earliest)
	}
	r.handoff(5*second, 2*second, 5*second-int64(5*time.Millisecond)) // clocks that disagree
	r.handoff(9*second, 2*second, 5*second)                           // a body that was damaged
	r.handoff(5*second, 2*second, 6*second)
	if r.early != 2 || r.hist[handoff].TotalCount() != 3 {
		t.Errorf("%d early, and %d in time or late", r.early, r.hist[handoff].TotalCount())
	}
}

// How far it is, on a terminal.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		p := NewProgress(&screen, func() int { return 60 })
		show := p.showing("cycle", "sheafd", 2, 5)
		show("measuring", stage{})
		// Too soon to be shown:
		show("measuring", stage{elapsed: time.Second, total: 5 * time.Second, answers: 123_456})
		time.Sleep(time.Second)
		show("measuring", stage{elapsed: 2 * time.Second, total: 5 * time.Second, answers: 123_456})
		time.Sleep(time.Second)
		show("filling", stage{quota: 1000, jobs: 500, jobRate: 50, answers: 50})
		p.Clear()
		p.Clear()
		const want = "\r\x1b[Kcycle on sheafd, round 2 of 5: measuring" +
			"\r\x1b[Kcycle on sheafd, round 2 of 5: mea…, 123,456 ops/s, 3s left" + // cut to the width
			"\r\x1b[Kcycle on sheafd, round 2 of 5: filling, 50 ops/s, 10s left" +
			"\r\x1b[K"
		if got := screen.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		for width, want := range map[int]string{40: "cycle on sheaf…, 123,456 ops/s, 3s left", 20: ", 123,456 ops/s, 3…", 1: "cycle on sheafd: measuring, 123,456 ops/s, 3s left"} {
			screen.Reset()
			p := NewProgress(&screen, func() int { return width })
			p.showing("cycle", "sheafd", 1, 1)("measuring", stage{elapsed: 2 * time.Second, total: 5 * time.Second, answers: 123_456})
			if got := screen.String(); got != "\r\x1b[K"+want {
				t.Errorf("%d columns: %q, want %q", width, got, want)
			}
		}
		var pipe *Progress
		if pipe.showing("cycle", "sheafd", 1, 1) != nil {
			t.Error("a pipe is shown progress")
		}
		pipe.Clear()
	})
}
