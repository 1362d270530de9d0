package perf

// Loads of several threads: nothing is left to the thread that began it.

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestThreads(t *testing.T) {
	two, many := &group{n: 2}, []*group{{n: 1000}}
	far, near := "192.0.2.1:11300", "127.0.0.1:11300"
	half := max(1, cpus/2)
	for _, tt := range []struct {
		asked, want int
		groups      []*group
		target      Target
	}{
		{3, 3, []*group{{n: 8}}, Target{Addr: near}},
		{3, 2, []*group{two}, Target{Addr: near}},
		{3, 1, []*group{{n: 1}, {n: 1}}, Target{Addr: near}}, // a producer and its worker stay together
		{3, 2, []*group{{n: 1}, two}, Target{Addr: near}},
		{0, 1, []*group{{n: 1}}, Target{Addr: far}},
		{1, 1, []*group{{n: 8}}, Target{Addr: far}},
		{0, cpus, many, Target{Addr: far}},
		{0, cpus, many, Target{Addr: "server.example:11300"}},
		{0, half, many, Target{Addr: near}},
		{0, half, many, Target{Addr: "[::1]:11300"}},
		{0, half, many, Target{Addr: "localhost:11300"}},
		{0, half, many, Target{Addr: ":11300"}},
		{0, half, many, Target{Addr: "0.0.0.0:11300"}},
		{0, half, many, Target{Addr: "unix:/run/sheafd"}},
		{0, half, many, Target{Addr: far, Pid: 1}},
		{0, half, many, Target{Addr: far, Command: []string{"sheafd"}}},
	} {
		l := &load{plan: plan{groups: tt.groups}, cfg: &Config{Threads: tt.asked}}
		if n := l.threads(&tt.target); n != tt.want {
			t.Errorf("--threads %d, widest group of %d, server at %s: %d threads, not %d", tt.asked, tt.groups[len(tt.groups)-1].n, tt.target.Addr, n, tt.want)
		}
	}
}

// driveFor carries out a plan against a fake and returns the load as well.
func driveFor(t *testing.T, scenario string, change func(*Config), build func(*session) plan) (*load, *measurement) {
	t.Helper()
	f := newFake(t, flaws{})
	s := newTestSession(t, f.addr(), scenario, func(c *Config) {
		c.WarmUp, c.Duration = 0, 200*time.Millisecond
		change(c)
	})
	l := &load{plan: build(s), cfg: &s.cfg, wire: s.wire}
	m, err := l.run(t.Context(), s.target, nil)
	if err != nil || m.unanswered != "" {
		t.Fatal(err, m.unanswered)
	}
	return l, m
}

// Workers of one thread take what producers of another have put. Each producer
// goes on, and with no more in flight than its depth.
func TestWorkersOfAnotherThread(t *testing.T) {
	for _, producers := range []int{1, 4} {
		var l *load
		var m *measurement
		for _, moment := range []time.Duration{200 * time.Millisecond, 2 * time.Second, 8 * time.Second} { // a busy machine does little in a short one
			l, m = driveFor(t, "fanin", func(c *Config) {
				c.Producers, c.Workers, c.Tubes, c.Watch, c.Threads = producers, 4, 4, 4, 4
				c.Duration = moment
			}, func(s *session) plan { return s.pairs("", 0) })
			if m.rec.jobs >= 10 {
				break
			}
		}
		if len(l.drivers) != 4 || m.rec.jobs < 10 {
			t.Errorf("%d producers: %d threads did %d jobs", producers, len(l.drivers), m.rec.jobs)
		}
		for _, c := range l.starters {
			if len(c.ring) != 2 {
				t.Errorf("more than its depth of 1 was in flight on producer %d", c.number)
			}
		}
	}
}

// A server that compresses what it keeps must not find all jobs alike.
func TestBodiesDiffer(t *testing.T) {
	f := newFake(t, flaws{})
	s := newTestSession(t, f.addr(), "backlog", func(c *Config) {})
	if _, err := s.drive(s.fill(50), ""); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		seen[string(j.body[headerFrom:])] = true
	}
	if len(seen) != 50 {
		t.Errorf("50 jobs have %d bodies", len(seen))
	}
}

// A thread that has no producer has no part in the timetable either.
func TestTimetableOfFewProducers(t *testing.T) {
	for _, producers := range []int{1, 3} {
		l, m := driveFor(t, "handoff", func(c *Config) {
			c.Producers, c.Workers, c.Tubes, c.Threads = producers, 4, producers, 4
		}, func(s *session) plan { return s.pairs("", 500) })
		due := m.rec.hist[handoff].TotalCount() // those that were late count, too
		if len(l.drivers) != 4 || due < 95 || due > 105 {
			t.Errorf("%d producers: %d threads had %d jobs due, want about 100", producers, len(l.drivers), due)
		}
	}
}

// What arrives at a connection wakes its driver and no other thread: no poller but the
// driver's knows the descriptor. There are processors for others while drivers wait,
// but only then.
func TestDriversWakeNobody(t *testing.T) {
	f := newFake(t, flaws{})
	s := newTestSession(t, f.addr(), "cycle", func(c *Config) {
		c.Connections, c.Threads, c.WarmUp, c.Duration = 4, 2, 0, 400*time.Millisecond
	})
	l := &load{plan: s.cycle("", 0, always(scriptCycle)), cfg: &s.cfg, wire: s.wire}
	looked := false
	_, err := l.run(t.Context(), s.target, func(stage) {
		if looked {
			return
		}
		looked = true
		if n := runtime.GOMAXPROCS(0); n != cpus+2 {
			t.Errorf("GOMAXPROCS is %d beside two drivers, where it was %d", n, cpus)
		}
		pollers := pollersOf(t)
		for _, c := range l.conns {
			if n := pollers[c.fd]; n != 1 {
				t.Errorf("%d pollers watch a connection", n)
			}
		}
	})
	if err != nil || !looked {
		t.Fatalf("looked: %v; %v", looked, err)
	}
	if n := runtime.GOMAXPROCS(0); n != cpus {
		t.Errorf("GOMAXPROCS is %d after a load, where it was %d", n, cpus)
	}
}

// pollersOf counts the epoll instances of this process that watch a descriptor; see
// proc_pid_fdinfo(5).
func pollersOf(t *testing.T) map[int]int {
	t.Helper()
	pollers := make(map[int]int)
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil || len(infos) == 0 {
		t.Fatal("no descriptors", err)
	}
	for _, info := range infos {
		text, err := os.ReadFile(info)
		if err != nil {
			continue // it was the one that listed the others
		}
		for _, line := range strings.Split(string(text), "\n") {
			var fd int
			if n, _ := fmt.Sscanf(line, "tfd: %d", &fd); n == 1 {
				pollers[fd]++
			}
		}
	}
	return pollers
}
