package perf

// Scenarios that are one load, and the loads themselves.

import (
	"fmt"
	"time"
)

// window is the tubes that connection i watches: those of the block that its own is in, so that all who watch a tube also put
// into it, as scripts want it.
func (s *session) window(i int) (tubes []string) {
	w := s.cfg.Watch
	first := i % s.cfg.Tubes / w * w
	for t := first; t < min(first+w, s.cfg.Tubes); t++ {
		tubes = append(tubes, s.tube(t))
	}
	return tubes
}

// cycle is the load of connections that put and take.
func (s *session) cycle(name string, m mix) plan {
	c := &s.cfg
	return plan{name: name, rate: c.Rate, warmUp: c.WarmUp, duration: c.Duration, groups: []*group{{
		name: "connection", n: c.Connections, depth: c.Depth, mix: m, counted: opDelete, quota: -1,
		again: c.Rate == 0, starts: c.Rate > 0, use: s.tube, watch: s.window,
	}}}
}

// needs says what a load of connections that put and take cannot do without.
func (s *session) needs() error {
	if s.cfg.Connections < 1 {
		return fmt.Errorf("%s needs --connections", s.scenario.Name)
	}
	if _, most := s.cfg.Delay.Bounds(); most > 0 {
		return fmt.Errorf("%s takes what it has put at once, so it cannot have a --delay; handoff, fanin and delayed can", s.scenario.Name)
	}
	return nil
}

func runCycle(s *session) error {
	if err := s.needs(); err != nil {
		return err
	}
	_, err := s.measure(s.cycle("", always(scriptCycle)))
	return err
}

func runMixed(s *session) error {
	if err := s.needs(); err != nil {
		return err
	}
	day := mixDay
	if s.cfg.Watch > 1 { // kick is for the used tube, and what was buried may be of another
		day = append(mix(nil), day...)
		for i := range day {
			day[i].script = append(script(nil), day[i].script...)
			for j, o := range day[i].script {
				if o == opKick {
					day[i].script[j] = opKickJob
				}
			}
		}
	}
	_, err := s.measure(s.cycle("", day))
	return err
}

// fill puts that many jobs as fast as it can, or as the scenario says.
func (s *session) fill(n int) plan {
	c := &s.cfg
	return plan{name: "filling", groups: []*group{{
		name: "producer", n: max(min(8, n), min(c.Tubes, n)), depth: 64, mix: always(scriptProduce), counted: opPut, quota: int64(n), again: true,
		use: s.tube,
	}}}
}

// drain takes jobs until there is none, at most for that long; 0 is no limit.
func (s *session) drain(limit time.Duration) plan {
	return plan{name: "draining", duration: limit, groups: []*group{{
		name: "consumer", n: max(8, s.cfg.Tubes), depth: 64, mix: always(scriptDrain), counted: opDelete, quota: -1, again: true,
		watch: func(i int) []string { return []string{s.tube(i)} },
	}}}
}

// rounds measures a load that uses something up, with a preparation before or after each round, until it was measured for
// the whole duration. The first rounds warm up.
func (s *session) rounds(name string, before, after func() (plan, bool), round func(time.Duration) plan) error {
	var sum measurement
	warm, done := time.Duration(0), time.Duration(0)
	var p plan
	var failed error
	for failed == nil && done < s.cfg.Duration {
		if p, is := before(); is {
			if _, failed = s.drive(p, p.name); failed != nil {
				break
			}
		}
		warming, left := warm < s.cfg.WarmUp, s.cfg.Duration-done
		if warming {
			left = s.cfg.WarmUp - warm
		}
		var m *measurement
		p = round(left)
		m, failed = s.drive(p, name)
		if m == nil {
			break
		}
		if failed == nil && m.elapsed <= 0 {
			return fmt.Errorf("nothing was answered within %v", s.cfg.Duration)
		}
		if warming {
			warm += m.elapsed
		} else {
			sum.add(m, done)
			done += m.elapsed
		}
		if p, is := after(); is && failed == nil {
			_, failed = s.drive(p, p.name)
		}
	}
	if sum.rec.answers > 0 {
		p.name = ""
		s.report(&sum, &p)
	}
	return failed
}

// add appends a round that began when at had been measured before.
func (m *measurement) add(round *measurement, at time.Duration) {
	m.rec.merge(&round.rec)
	m.elapsed += round.elapsed
	m.clientCPU += round.clientCPU
	cpu := m.server.cpu + round.server.cpu
	m.server = round.server
	m.server.cpu = cpu
	for _, s := range round.series {
		s.At += at.Seconds()
		m.series = append(m.series, s)
	}
}

func nothing() (plan, bool) { return plan{}, false }

func runProduce(s *session) error {
	if err := s.needs(); err != nil {
		return err
	}
	c := &s.cfg
	return s.rounds("putting", nothing, func() (plan, bool) { return s.drain(0), true }, func(limit time.Duration) plan {
		return plan{rate: c.Rate, duration: limit, groups: []*group{{
			name: "producer", n: c.Connections, depth: c.Depth, mix: always(scriptProduce), counted: opPut, quota: int64(max(c.Jobs, 1)),
			again: c.Rate == 0, starts: c.Rate > 0, use: s.tube,
		}}}
	})
}

func runConsume(s *session) error {
	if err := s.needs(); err != nil {
		return err
	}
	c := &s.cfg
	return s.rounds("taking", func() (plan, bool) { return s.fill(max(c.Jobs, 1)), true }, nothing, func(limit time.Duration) plan {
		return plan{rate: c.Rate, duration: limit, groups: []*group{{
			name: "consumer", n: c.Connections, depth: c.Depth, mix: always(scriptDrain), counted: opDelete, quota: -1,
			again: c.Rate == 0, starts: c.Rate > 0, watch: s.share,
		}}}
	})
}

// share is the tubes that consumer i watches: none is left out, also where there are more tubes than consumers.
func (s *session) share(i int) []string {
	tubes := s.window(i)
	for t := i + s.cfg.Connections; t < s.cfg.Tubes; t += s.cfg.Connections {
		tubes = append(tubes, s.tube(t))
	}
	return tubes
}

// pairs is the load of producers, and workers that wait in reserve. In a closed loop a producer has as many jobs under way
// as its depth says, and puts the next when one of them is done.
func (s *session) pairs() plan {
	c := &s.cfg
	return plan{rate: c.Rate, hands: true, warmUp: c.WarmUp, duration: c.Duration, groups: []*group{{
		name: "producer", n: c.Producers, depth: c.Depth, mix: always(scriptProduce), counted: numOps, quota: -1,
		starts: true, use: s.tube,
	}, {
		name: "worker", n: c.Workers, depth: 1, mix: always(scriptWork), counted: opDelete, quota: -1, waits: true,
		watch: func(i int) (tubes []string) {
			for w := range c.Watch {
				tubes = append(tubes, s.tube(i*c.Watch+w))
			}
			return tubes
		},
	}}}
}

func runPairs(s *session) error {
	c := &s.cfg
	switch {
	case c.Producers < 1 || c.Workers < 1:
		return fmt.Errorf("%s needs --producers and --workers", s.scenario.Name)
	case min(c.Tubes, c.Producers) > c.Workers*c.Watch:
		return fmt.Errorf("%d workers that watch %d tubes each leave some of %d tubes without one", c.Workers, c.Watch, c.Tubes)
	}
	p := s.pairs()
	_, delay := c.Delay.Bounds()
	p.warmUp += time.Duration(delay) * time.Second // before that there are fewer jobs than later
	_, err := s.measure(p)
	return err
}
