package perf

// Loads say so where a server is broken, and do not measure it as if it were
// right.

import (
	"context"
	"errors"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// runBroken runs a scenario against a fake for a moment, and for a longer one
// where nothing came of that: on a machine that is busy no job may be done in a
// short one.
func runBroken(t *testing.T, f flaws, scenario string, change func(*Config)) (res Result, err error) {
	t.Helper()
	sc, err := Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	for moment := 100 * time.Millisecond; moment < 10*time.Second; moment *= 3 {
		cfg := sc.Config.with(func(c *Config) {
			c.WarmUp, c.Duration, c.Grace, c.Threads = 0, moment, 200*time.Millisecond, 2
			change(c)
		})
		fake := newFake(t, f)
		res, err = runSession(t.Context(), sc, cfg, &Target{Name: "fake", Addr: fake.addr()}, nil, nil)
		if err != nil && (f.lose == 1 || f.late > 0 || len(res.Loads) > 0 && res.Loads[0].Jobs > 0) {
			break
		}
	}
	return res, err
}

func TestLoadOfAServerThatLosesJobs(t *testing.T) {
	rate := func(c *Config) { c.Rate = Rate{jobs: 500} }
	for _, tt := range []struct {
		name, scenario string
		change         func(*Config)
	}{
		{"closed loop", "handoff", func(*Config) {}},
		{"closed loop", "fanin", func(*Config) {}},
		{"open loop", "handoff", rate},
		{"open loop", "fanin", rate},
		{"open loop", "delayed", func(c *Config) { c.Rate, c.Delay = Rate{jobs: 500}, Dist{shape: listed, list: []int64{0, 1}} }},
	} {
		t.Run(tt.scenario+", "+tt.name, func(t *testing.T) {
			t.Parallel()
			res, err := runBroken(t, flaws{lose: 10}, tt.scenario, tt.change)
			if err == nil || !strings.HasPrefix(err.Error(), "of the jobs that were put, ") || !strings.Contains(err.Error(), " did not come within ") {
				t.Fatalf("%v", err)
			}
			if len(res.Loads) == 0 || res.Loads[0].Jobs == 0 {
				t.Errorf("what was measured is not told: %+v", res)
			}
		})
	}
}

// Where only jobs are missing the tubes are emptied, as after any load.
func TestNothingIsLeftOfSlowJobs(t *testing.T) {
	t.Parallel()
	sc, err := Find("handoff")
	if err != nil {
		t.Fatal(err)
	}
	cfg := sc.Config.with(func(c *Config) {
		c.WarmUp, c.Duration, c.Grace, c.Rate = 0, 100*time.Millisecond, 100*time.Millisecond, Rate{jobs: 500}
	})
	f := newFake(t, flaws{keep: 10})
	_, err = runSession(t.Context(), sc, cfg, &Target{Name: "fake", Addr: f.addr()}, nil, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "of the jobs that were put, ") {
		t.Error(err)
	}
	if n := f.left(); n > 0 {
		t.Errorf("%d jobs were left on the server", n)
	}
}

// Memory per job is told with a warning on a server that has done other things.
func TestMemoryOfAServerThatRan(t *testing.T) {
	t.Parallel()
	sc, err := Find("backlog")
	if err != nil {
		t.Fatal(err)
	}
	var res Result
	// On a machine that is busy nothing may be answered in a moment.
	for moment := 50 * time.Millisecond; moment < 10*time.Second; moment *= 3 {
		cfg := sc.Config.with(func(c *Config) { c.WarmUp, c.Duration, c.Rate, c.Jobs = 0, moment, Rate{}, 500 })
		f := newFake(t, flaws{})
		if res, err = runSession(t.Context(), sc, cfg, &Target{Name: "fake", Addr: f.addr(), Pid: os.Getpid()}, nil, nil); err == nil {
			break
		}
	}
	if notes := strings.Join(res.Notes, "\n"); err != nil || !strings.Contains(notes, "the memory per waiting job leaves out") {
		t.Errorf("%v; notes: %s", err, notes)
	}
}

// In a closed loop each job that is lost stops its producer. When all stand
// still before anything is measured, it is still told why.
func TestLoadOfAServerThatLosesAllJobs(t *testing.T) {
	t.Parallel()
	_, err := runBroken(t, flaws{lose: 1}, "handoff", func(c *Config) { c.WarmUp = 100 * time.Millisecond })
	if err == nil || err.Error() != "of the jobs that were put, 32 did not come within 200ms after the load" {
		t.Error(err)
	}
}

// Who finds that a job has gone to another learns which flag to look at.
func TestLoadWhoseJobsOutliveTheirTTR(t *testing.T) {
	t.Parallel()
	_, err := runBroken(t, flaws{late: 1300 * time.Millisecond, lateOf: 5}, "handoff", func(c *Config) {
		c.Duration, c.Grace, c.TTR, c.Producers, c.Workers, c.Tubes = 3*time.Second, 5*time.Second, 1, 2, 6, 1
	})
	if err == nil || !strings.Contains(err.Error(), `got "NOT_FOUND"; the job may have outlived its --ttr of 1 s`) {
		t.Error(err)
	}
}

func TestLoadOfAServerThatIgnoresDelays(t *testing.T) {
	t.Parallel()
	res, err := runBroken(t, flaws{hasty: 2}, "delayed", func(c *Config) {
		c.WarmUp, c.Rate, c.Delay = 0, Rate{jobs: 500}, Fixed(1)
	})
	if err == nil || !strings.Contains(err.Error(), " jobs came before the delay was over, by up to ") {
		t.Fatal(err)
	}
	// By the timetable as many jobs were to be ready in the measured time as were
	// put in it, and half of them came before.
	l := res.Loads[0].Latency
	if l[0].Name != "lateness" || l[1].Name != "put" || l[0].Count == 0 || l[0].Count > l[1].Count*9/10 {
		t.Errorf("%d × %s, %d × %s", l[0].Count, l[0].Name, l[1].Count, l[1].Name)
	}
}

// A server may have fewer connections than a load wants.
func TestLoadOfAServerThatIsCrowded(t *testing.T) {
	for _, tt := range []struct{ scenario, want string }{
		{"cycle", "connection 20: the server closed the connection (sent \"use t-4\"); it has answered on 20 connections before, so this may be its limit on open files"},
		{"idle", "it has answered on 20 connections before, so this may be its limit on open files"},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, flaws{crowd: 20})
			s := newTestSession(t, f.addr(), tt.scenario, func(c *Config) {
				c.WarmUp, c.Duration, c.Rate = 0, 50*time.Millisecond, Rate{}
				if c.Beside > 0 {
					c.Beside, c.Connections = 40, 1
				} else {
					c.Connections = 40
				}
			})
			var err error
			if tt.scenario == "idle" {
				var undo func() error
				_, undo, err = layConnections(s)
				undo()
			} else {
				err = s.scenario.run(s)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	silent := closedError(os.ErrDeadlineExceeded, "sent x")
	if got := explainLimit(silent, 1).Error(); !strings.HasPrefix(got, "the server does not answer within 10s (sent x); it has answered on 1 connection before, so ") {
		t.Error(got)
	}
	if explainLimit(silent, 0) != silent {
		t.Error("one that answers nobody is called crowded")
	}
}

// Who ends a load while connections are made does not wait for the server.
func TestInterruptWhileConnecting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it accepts nobody
	s := newTestSession(t, l.Addr().String(), "cycle", func(*Config) {})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s.ctx = ctx
	began := time.Now()
	if err := s.scenario.run(s); !errors.Is(err, errInterrupted) || time.Since(began) > dialTimeout/2 {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// Jobs that are delayed for longer than it is measured may come beside that.
func TestBurstsBesideTheWindow(t *testing.T) {
	t.Parallel()
	f := newFake(t, flaws{})
	s := newTestSession(t, f.addr(), "cycle", func(c *Config) {
		c.WarmUp, c.Duration, c.Delay = 500*time.Millisecond, 100*time.Millisecond, Fixed(1)
	})
	// All that is put at first is ready after a second, and what is put then after two.
	err := s.scenario.run(s)
	if want := regexp.MustCompile(`^nothing was answered within 100ms, but \d+ commands before or after that; jobs have delays of 1 s, so --duration has to be longer$`); err == nil || !want.MatchString(err.Error()) {
		t.Errorf("%v, want %v", err, want)
	}
}
