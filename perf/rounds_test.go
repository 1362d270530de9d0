package perf

// Scenarios that use something up.

import (
	"testing"
	"time"
)

// A reserve that finds nothing is no operation: with a job a round, nearly all of
// them would be that.
func TestConsumeCountsEachJobOnce(t *testing.T) {
	for _, jobs := range []int{1, 500} {
		f := newFake(t, flaws{})
		s := newTestSession(t, f.addr(), "consume", func(c *Config) {
			c.WarmUp, c.Duration, c.Jobs = 0, 50*time.Millisecond, jobs
		})
		if err := s.scenario.run(s); err != nil {
			t.Fatal(err)
		}
		l := &s.result.Loads[0]
		if l.Jobs == 0 || l.Answers > 2*l.Jobs+int64(jobs) { // the last round ends before all its jobs are deleted
			t.Errorf("%d jobs, %d operations", l.Jobs, l.Answers)
		}
		for _, of := range l.Latency {
			if of.Count == 0 || of.Count > l.Answers {
				t.Errorf("%d jobs, %d operations, %d × %s", l.Jobs, l.Answers, of.Count, of.Name)
			}
			if over := of.Count - l.Jobs; over > int64(jobs) {
				t.Errorf("%d jobs, %d × %s", l.Jobs, of.Count, of.Name)
			}
		}
	}
}

func TestConsumeWhereNothingCame(t *testing.T) {
	f := newFake(t, flaws{lose: 1})
	s := newTestSession(t, f.addr(), "consume", func(c *Config) { c.WarmUp, c.Jobs = 0, 100 })
	if err := s.scenario.run(s); err == nil || err.Error() != "of the jobs that were put, none came" || len(s.result.Loads) > 0 {
		t.Errorf("%v: %+v", err, s.result.Loads)
	}
}
