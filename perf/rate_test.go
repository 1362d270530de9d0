package perf

import (
	"strings"
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]struct {
		rate   Rate
		prints string
	}{
		"0": {Rate{}, "0"}, "5000": {Rate{jobs: 5000}, "5000"}, "1e6": {Rate{jobs: 1e6}, "1000000"}, "0.5": {Rate{jobs: 0.5}, "0.5"},
		"70%": {Rate{part: 0.7}, "70%"}, "7.5 %": {Rate{part: 0.075}, "7.5%"}, "120%": {Rate{part: 1.2}, "120%"},
	} {
		var r Rate
		if err := r.Set(text); err != nil || r != want.rate || r.String() != want.prints {
			t.Errorf("%q is %+v and prints as %s: %v", text, r, r, err)
		}
	}
	for _, text := range []string{"", "x", "%", "-1", "0%", "-5%", "2000%", "1e10", "NaN", "70%%", "5k"} {
		var r Rate
		if err := r.Set(text); err == nil {
			t.Errorf("%q is taken as %+v", text, r)
		}
	}
}

// At a part of a closed loop's rate: that loop goes first.
func TestPartOfAClosedLoop(t *testing.T) {
	for _, scenario := range []string{"cycle", "produce", "handoff", "backlog"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			var s *session
			// On a machine that is busy nothing may be answered in a moment.
			for moment := 100 * time.Millisecond; ; moment *= 3 {
				f := newFake(t, flaws{})
				s = newTestSession(t, f.addr(), scenario, func(c *Config) {
					c.WarmUp, c.Duration, c.Rate, c.Jobs = 0, moment, Rate{part: 0.5}, min(c.Jobs, 500)
				})
				err := s.scenario.run(s)
				if err == nil {
					break
				}
				if moment > 5*time.Second {
					t.Fatal(err)
				}
			}
			n := len(s.result.Loads)
			closed, open := s.result.Loads[n-2], s.result.Loads[n-1]
			if closed.Rate != 0 || open.Rate != closed.JobRate/2 || !strings.HasSuffix(open.Name, "at 50% of the closed loop's rate") {
				t.Errorf("%q did %v jobs/s, then %q was to do %v", closed.Name, closed.JobRate, open.Name, open.Rate)
			}
		})
	}
}

// A closed loop that finishes no job has no rate to take a part of: an open loop
// at a rate of 0 would be a closed one again, under the name of an open one.
func TestPartOfNothing(t *testing.T) {
	s := newTestSession(t, "", "cycle", func(c *Config) { c.Rate = Rate{part: 0.5} })
	loads := 0
	_, err := s.atRate("", func(string, float64) (Load, error) {
		loads++
		return Load{AnswerRate: 100}, nil
	})
	if err == nil || !strings.Contains(err.Error(), "no job was finished") || loads != 1 {
		t.Errorf("%d loads: %v", loads, err)
	}
}

func TestRateThatIsTooHigh(t *testing.T) {
	for text, want := range map[string]string{
		"2000000000": "2000000000 is more than 1,000,000,000 jobs a second",
		"1001%":      "1001% is more than 1000%",
		"5k":         `"5k" is neither a number of jobs a second, such as 5000, nor a share of the closed loop's rate, such as 70%`,
	} {
		if err := new(Rate).Set(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Behind a closed loop more may be in flight, if anything is pipelined at all.
func TestDepthOfAnOpenLoop(t *testing.T) {
	for _, tt := range []struct {
		rate  Rate
		depth int
		want  int
		says  string
	}{
		{Rate{}, 16, 16, "; closed loop"},
		{Rate{jobs: 5000}, 16, 16, "; open loop, 5,000 jobs/s"},
		{Rate{jobs: 3}, 16, 16, "; open loop, 3 jobs/s"},
		{Rate{jobs: 0.001}, 16, 16, "; open loop, 0.001 jobs/s"},
		{Rate{part: 0.7}, 1, 1, "; closed loop, then an open one at 70% of its rate"},
		{Rate{part: 0.7}, 2, 16, "; closed loop, then an open one at 70% of its rate with up to 16 in flight"},
	} {
		s := newTestSession(t, "", "cycle", func(c *Config) { c.Rate, c.Depth = tt.rate, tt.depth })
		if closed, open := s.depth(0), s.depth(1000); closed != tt.depth || open != tt.want {
			t.Errorf("--rate %s --depth %d: %d and then %d in flight, want %d", tt.rate, tt.depth, closed, open, tt.want)
		}
		if got := s.cfg.Describe(); !strings.HasSuffix(got, tt.says) {
			t.Errorf("--rate %s --depth %d: %s", tt.rate, tt.depth, got)
		}
	}
}
