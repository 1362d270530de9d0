package perf

// Loads say so where a server is broken, and do not measure it as if it were
// right.

import (
	"os"
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
		if err != nil && (f.lose == 1 || len(res.Loads) > 0 && res.Loads[0].Jobs > 0) {
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
			if err == nil || !strings.HasPrefix(err.Error(), "of the jobs that were put ") || !strings.Contains(err.Error(), " did not come within ") {
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
	if err == nil || !strings.HasPrefix(err.Error(), "of the jobs that were put ") {
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
	cfg := sc.Config.with(func(c *Config) {
		c.WarmUp, c.Duration, c.Rate, c.Jobs = 0, 50*time.Millisecond, Rate{}, 500
	})
	f := newFake(t, flaws{})
	res, err := runSession(t.Context(), sc, cfg, &Target{Name: "fake", Addr: f.addr(), Pid: os.Getpid()}, nil, nil)
	if notes := strings.Join(res.Notes, "\n"); err != nil || !strings.Contains(notes, "is not in the memory per waiting job") {
		t.Errorf("%v; notes: %s", err, notes)
	}
}

// In a closed loop each job that is lost stops its producer. When all stand
// still before anything is measured, it is still told why.
func TestLoadOfAServerThatLosesAllJobs(t *testing.T) {
	t.Parallel()
	_, err := runBroken(t, flaws{lose: 1}, "handoff", func(c *Config) { c.WarmUp = 100 * time.Millisecond })
	if err == nil || err.Error() != "of the jobs that were put 32 did not come within 200ms after the load" {
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
