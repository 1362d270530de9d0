package perf

// What is left on a server that goes on, however a load has ended.

import (
	"context"
	"strings"
	"testing"
	"time"
)

// fails runs a scenario that fails, and returns how.
func fails(t *testing.T, addr, scenario string, change func(*Config)) error {
	t.Helper()
	sc, err := Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sc.Config.with(func(c *Config) {
		c.WarmUp, c.Duration, c.Grace, c.Rate, c.Threads = 0, 10*time.Second, 200*time.Millisecond, Rate{}, 2
		change(c)
	})
	_, err = runSession(t.Context(), sc, cfg, &Target{Name: "fake", Addr: addr}, nil, nil)
	if err == nil {
		t.Error("the load has not failed")
	}
	return err
}

// A server may refuse jobs and still give up those that it has.
func TestNothingIsLeftOfALoadThatFailed(t *testing.T) {
	for _, tt := range []struct {
		name, scenario string
		flaws
		want string
	}{
		{"refused", "produce", flaws{full: 3000}, "DRAINING"},
		{"refused", "cycle", flaws{full: 3000}, "DRAINING"},
		{"refused", "handoff", flaws{full: 3000}, "DRAINING"},
		{"nonsense", "mixed", flaws{nonsens: 500}, "PARDON"},
		{"hung up", "produce", flaws{hangup: 3000}, "closed the connection"},
		{"unanswered", "produce", flaws{mute: 500}, "had no answer"},
	} {
		t.Run(tt.name+" in "+tt.scenario, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, tt.flaws)
			err := fails(t, f.addr(), tt.scenario, func(c *Config) {
				c.Jobs, c.Depth = 20_000, 4
				if tt.mute > 0 {
					c.Duration = time.Second // long enough for 500 puts on any machine
				}
			})
			if n := f.left(); n > 0 {
				t.Errorf("%d jobs were left; %v", n, err)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "left") {
				t.Errorf("%v", err)
			}
		})
	}
}

// What was put beside a load is deleted by its ids, of which some are known from
// the answers in front of the one that failed, and some from those behind it.
func TestNothingIsLeftOfTubesThatCouldNotBeMade(t *testing.T) {
	t.Parallel()
	f := newFake(t, flaws{nonsens: 1500})
	s := newTestSession(t, f.addr(), "manytubes", func(c *Config) { c.Beside = 3000 })
	_, undo, err := layTubes(s)
	if err == nil || !strings.Contains(err.Error(), "PARDON") || f.left() == 0 {
		t.Errorf("%v; %d jobs", err, f.left())
	}
	if err := undo(); err != nil || f.left() > 0 {
		t.Errorf("%v; %d jobs are left", err, f.left())
	}
}

func TestNothingIsLeftOfAGearmanLoadThatFailed(t *testing.T) {
	t.Parallel()
	f := newGearmanFake(t, gearmanFlaws{nonsense: 3000})
	err := fails(t, f.addr(), "gearman-background", func(c *Config) { c.Jobs = 20_000 })
	if functions, jobs := f.left(); functions+jobs > 0 {
		t.Errorf("%d functions with %d jobs were left; %v", functions, jobs, err)
	}
}

// What could not be deleted is told, also when the user has ended the load.
func TestWhatIsLeftIsTold(t *testing.T) {
	t.Parallel()
	f := newFake(t, flaws{full: 500, refuse: 400})
	err := fails(t, f.addr(), "produce", func(c *Config) { c.Tubes = 1 })
	for _, want := range []string{"DRAINING", " jobs are left in sheafperf-", "INTERNAL_ERROR"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if n := f.left(); n < 100 {
		t.Errorf("%d jobs are left", n)
	}

	// One that says nothing at all is not waited for.
	for name, l := range map[string]*ledger{"run": nil, "check": newLedger(0, 0)} {
		sc, err := Find("cycle")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f = newFake(t, flaws{})
		var began time.Time
		time.AfterFunc(200*time.Millisecond, func() {
			f.mu.Lock() // from now on
			began = time.Now()
			cancel()
		})
		res, err := runSession(ctx, sc, sc.Config, &Target{Name: "fake", Addr: f.addr()}, l, nil)
		if ctx.Err() == nil {
			t.Fatalf("%s: it ended by itself: %v", name, err)
		}
		took := time.Since(began)
		f.mu.Unlock()
		if !res.Interrupted || err == nil || !strings.Contains(err.Error(), "-0 to sheafperf-") || !strings.Contains(err.Error(), "-7: the server does not answer within 1s") {
			t.Errorf("%s: interrupted: %v, %v", name, res.Interrupted, err)
		}
		if took > 5*time.Second {
			t.Errorf("%s: it took %v to end", name, took)
		}
	}
}

// Of a server that is gone there is nothing to say beside that.
func TestNothingIsLeftOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	f := newFake(t, flaws{})
	time.AfterFunc(200*time.Millisecond, func() {
		f.l.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for c := range f.conns {
			c.Close()
		}
	})
	if err := fails(t, f.addr(), "cycle", func(*Config) {}); err != nil && (strings.Contains(err.Error(), "left") || strings.Contains(err.Error(), "\n")) {
		t.Error(err)
	}
}
