package perf

// Scenarios that use jobs up or heap them up, and so go in rounds.

import (
	"errors"
	"fmt"
	"time"
)

// A vocabulary is how jobs are put, and taken until there are none, in a
// protocol, and the command by which a job is counted for each.
type vocabulary struct {
	putJob, takeJob      script
	countPut, countTaken op
}

func (s *session) vocabulary() vocabulary {
	if s.scenario.Gearman {
		return vocabulary{scriptBackground, scriptGrab, opSubmitBG, opGrab}
	}
	return vocabulary{scriptProduce, scriptDrain, opPut, opDelete}
}

// fill puts n jobs into all tubes, as fast as it can, whatever the load's rate.
func (s *session) fill(n int) plan {
	c := &s.cfg
	return plan{name: "filling", groups: []*group{{
		name: "producer", n: min(n, max(8, c.Connections, c.Tubes)), depth: max(64, c.Depth), mix: always(s.vocabulary().putJob),
		counted: s.vocabulary().countPut, quota: int64(n), repeats: true, use: s.tube,
	}}}
}

// drain takes jobs until there are none, for at most limit; 0 is no limit.
func (s *session) drain(limit time.Duration) plan {
	return plan{name: "draining", duration: limit, groups: []*group{{
		name: "consumer", n: max(8, s.cfg.Tubes), depth: 64, mix: always(s.vocabulary().takeJob), counted: s.vocabulary().countTaken, quota: -1, repeats: true,
		watch: func(i int) []string { return []string{s.tube(i)} },
	}}}
}

// rounds measures a load that uses jobs up, until it was measured for the whole
// duration: before and after prepare each round, and are not measured; round
// returns the load for the time that is left. The first rounds warm up.
func (s *session) rounds(doing string, before, after func() error, round func(time.Duration) plan) (Load, error) {
	var sum measurement
	var p plan
	var failed error
	for warm, done := time.Duration(0), time.Duration(0); failed == nil && done < s.cfg.Duration; {
		if failed = before(); failed != nil {
			break
		}
		warming, left := warm < s.cfg.WarmUp, s.cfg.Duration-done
		if warming {
			left = s.cfg.WarmUp - warm
		}
		var m *measurement
		p = round(left)
		m, failed = s.drive(p, doing)
		if m == nil {
			break
		}
		if failed == nil && m.elapsed <= 0 {
			failed = fmt.Errorf("nothing was answered within %v", left)
			break
		}
		if failed == nil && m.elapsed < left && m.rec.jobs == 0 {
			failed = errors.New("of the jobs that were put, none came")
			break
		}
		if warming {
			warm += m.elapsed
		} else {
			sum.add(m, done)
			done += m.elapsed
		}
		if failed == nil {
			failed = after()
		}
	}
	if sum.rec.answers == 0 {
		if failed == nil {
			failed = fmt.Errorf("nothing was answered within %v", s.cfg.Duration)
		}
		return Load{}, failed
	}
	return s.report(&sum, &p), failed
}

// add adds a round that began when at had been measured before it.
func (m *measurement) add(round *measurement, at time.Duration) {
	m.rec.merge(&round.rec)
	m.elapsed += round.elapsed
	m.clientCPU += round.clientCPU
	m.busiest += round.busiest
	m.threads = round.threads
	before := m.server
	m.server = round.server // with its memory
	m.server.cpu += before.cpu
	m.server.span += before.span
	m.server.answers += before.answers
	m.server.jobs += before.jobs
	for _, s := range round.series {
		s.At += at.Seconds()
		m.series = append(m.series, s)
	}
}

func noStep() error { return nil }

func runProduce(s *session) error {
	s.noteTubes()
	c := &s.cfg
	_, err := s.atRate("", func(name string, rate float64) (Load, error) {
		return s.rounds("putting", noStep, s.empty, func(limit time.Duration) plan {
			return plan{name: name, rate: rate, duration: limit, groups: []*group{{
				name: "producer", n: c.Connections, depth: s.depth(rate), mix: always(s.vocabulary().putJob), counted: s.vocabulary().countPut, quota: int64(c.Jobs),
				repeats: rate == 0, starts: rate > 0, use: s.tube,
			}}}
		})
	})
	return err
}

// empty deletes all jobs.
func (s *session) empty() error {
	if s.cfg.longestDelay() > 0 {
		if err := s.kickTubes(); err != nil {
			return err
		}
	}
	p := s.drain(0)
	_, err := s.drive(p, p.name)
	return err
}

func runConsume(s *session) error {
	c := &s.cfg
	fill := func() error {
		p := s.fill(c.Jobs)
		_, err := s.drive(p, p.name)
		return err
	}
	_, err := s.atRate("", func(name string, rate float64) (Load, error) {
		return s.rounds("taking", fill, noStep, func(limit time.Duration) plan {
			return plan{name: name, rate: rate, duration: limit, groups: []*group{{
				name: "consumer", n: c.Connections, depth: s.depth(rate), mix: always(s.vocabulary().takeJob), counted: s.vocabulary().countTaken, quota: -1,
				repeats: rate == 0, starts: rate > 0, watch: s.tubesOfConsumer,
			}}}
		})
	})
	return err
}

// tubesOfConsumer returns the tubes that consumer i watches. None is left out,
// even if there are more tubes than consumers.
func (s *session) tubesOfConsumer(i int) []string {
	tubes := s.tubeBlock(i)
	for t := i + s.cfg.Connections; t < s.cfg.Tubes; t += s.cfg.Connections {
		tubes = append(tubes, s.tube(t))
	}
	return tubes
}
