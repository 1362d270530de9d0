package perf

// Bodies that are too large to have many of them in memory.

import (
	"testing"
	"time"
)

// A connection has few bodies to write at once, however many its depth allows, and
// all scripts come to their end.
func TestLargeBodiesAreNotHeaped(t *testing.T) {
	const body, depth, jobs = 1 << 20, 48, 100
	sound := func(t *testing.T, s *session, p plan) {
		t.Helper()
		l := &load{plan: p, cfg: &s.cfg, wire: s.wire, gearman: s.scenario.Gearman}
		m, err := l.run(t.Context(), s.target, nil)
		if err != nil || m.broken() != nil {
			t.Fatal(err, m.broken())
		}
		if p.duration == 0 && m.rec.jobs != jobs {
			t.Errorf("%d jobs were done, want %d", m.rec.jobs, jobs)
		}
		for _, c := range l.conns {
			if cap(c.out) > 12<<20 {
				t.Errorf("%s %d had up to %d bytes to write", c.group.name, c.number, cap(c.out))
			}
		}
	}
	change := func(c *Config) {
		c.WarmUp, c.Duration, c.Body, c.Depth, c.Content = 0, 300*time.Millisecond, Fixed(body), depth, ContentZero
		if c.Connections > 0 {
			c.Connections = 2
		} else {
			c.Producers, c.Workers = 2, 2
		}
		c.Tubes, c.Rate = 2, Rate{}
	}
	for _, rate := range []float64{0, 1000} {
		s := newTestSession(t, newFake(t, flaws{}).addr(), "cycle", change)
		p := s.cycle("", rate, always(scriptCycle))
		if rate == 0 {
			p.groups[0].quota, p.duration = jobs, 0
		}
		sound(t, s, p)
	}
	s := newTestSession(t, newFake(t, flaws{}).addr(), "handoff", change)
	sound(t, s, s.pairs("", 0))
	s = newTestSession(t, newGearmanFake(t, gearmanFlaws{}).addr(), "gearman-foreground", change)
	sound(t, s, s.foreground("", 0))
}

// What would not fit into the memory all the same is refused, and nothing else.
func TestBodiesThatTakeAllMemory(t *testing.T) {
	for _, sc := range Scenarios() {
		if c := sc.Config; c.memoryNeeded() > 0 {
			t.Errorf("%s takes %d bytes", sc.Name, c.memoryNeeded())
		}
	}
	c := base.with(func(c *Config) { c.Connections, c.Body = 8, Fixed(1<<30) })
	if got := c.memoryNeeded(); got != 34<<30 {
		t.Errorf("8 connections with 1 GiB each take %d", got)
	}
}
