package perf

// Scenarios that consist of one load.

import (
	"slices"
	"time"
)

// tubeBlock returns the tubes that connection i watches: a block of --watch tubes
// that contains its own. So all who watch a tube also put into it, as scripts
// require.
func (s *session) tubeBlock(i int) (tubes []string) {
	w := s.cfg.Watch
	first := i % s.cfg.Tubes / w * w
	for t := first; t < min(first+w, s.cfg.Tubes); t++ {
		tubes = append(tubes, s.tube(t))
	}
	return tubes
}

// cycle is the load of connections that put and take.
func (s *session) cycle(name string, rate float64, m mix) plan {
	c := &s.cfg
	return plan{name: name, rate: rate, warmUp: s.warmUp(), duration: c.Duration, groups: []*group{{
		name: "connection", n: c.Connections, depth: s.depth(rate), mix: m, counted: opDelete, quota: -1,
		repeats: rate == 0, starts: rate > 0, use: s.tube, watch: s.tubeBlock,
	}}}
}

// depth is how many scripts a connection may run at once, at that rate; a rate of
// 0 is a closed loop.
func (s *session) depth(rate float64) int {
	if rate > 0 {
		return s.cfg.openDepth()
	}
	return s.cfg.Depth
}

// warmUp is long enough for as many jobs to become ready as are put.
func (s *session) warmUp() time.Duration { return s.cfg.WarmUp + s.cfg.longestDelay() }

// noteTubes adds a note if fewer tubes are used than --tubes says.
func (s *session) noteTubes() {
	if c := &s.cfg; c.Connections < c.Tubes {
		s.note("a connection uses one tube, so only %d of %d tubes are used; raise --connections to use more", c.Connections, c.Tubes)
	}
}

func runCycle(s *session) error { return s.runMix(always(scriptCycle)) }

func runMixed(s *session) error {
	if s.cfg.Watch == 1 {
		return s.runMix(mixDay)
	}
	// kick takes from the tube in use, and the buried job may be in another.
	day := slices.Clone(mixDay)
	for i := range day {
		day[i].script = slices.Clone(day[i].script)
		for j, o := range day[i].script {
			if o == opKick {
				day[i].script[j] = opKickJob
			}
		}
	}
	return s.runMix(day)
}

func (s *session) runMix(m mix) error {
	s.noteTubes()
	_, err := s.atRate("", func(name string, rate float64) (Load, error) {
		return s.measure(s.cycle(name, rate, m))
	})
	return err
}

// pairs is the load of producers, and workers that wait in reserve. In a closed
// loop a producer has as many jobs under way as its depth says, and puts the next
// one when one of them is done.
func (s *session) pairs(name string, rate float64) plan {
	c := &s.cfg
	return plan{name: name, rate: rate, timesHandoff: true, warmUp: s.warmUp(), duration: c.Duration, groups: []*group{{
		name: "producer", n: c.Producers, depth: s.depth(rate), mix: always(scriptProduce), counted: numOps, quota: -1,
		starts: true, use: s.tube,
	}, {
		name: "worker", n: c.Workers, depth: 1, mix: always(scriptWork), counted: opDelete, quota: -1, isWorker: true,
		watch: func(i int) (tubes []string) {
			for w := range c.Watch {
				tubes = append(tubes, s.tube(i*c.Watch+w))
			}
			return tubes
		},
	}}}
}

func runPairs(s *session) error { return s.runPlan(s.pairs) }

// runPlan measures a load of producers and workers.
func (s *session) runPlan(plan func(name string, rate float64) plan) error {
	_, err := s.atRate("", func(name string, rate float64) (Load, error) {
		return s.measure(plan(name, rate))
	})
	return err
}
