package main_test

// Time. Two servers cannot read their clocks at one instant, so the test keeps
// every command away from any instant at which something happens by itself.
//
// A span is what is known of the instant at which both servers did something:
// no earlier than the test sent the bytes, no later than it had both answers.
// From it follow the spans in which a deadline is reached on both. Before a
// command is sent, any deadline closer than diffGuard is waited for; after it
// was answered, the run is given up (inconclusive, not failed) if a deadline
// came meanwhile after all, because the machine was slow.
//
// Seconds shown in YAML (age, time-left, pause-time-left) change at the spans'
// phases; a command that shows them keeps away from those in the same way.

import (
	"cmp"
	"slices"
	"time"
)

// diffGuard is how far commands stay from deadlines. It covers a server's
// timer being late and the time a command needs to reach a server.
const diffGuard = 80 * time.Millisecond

// A diffSpan is an instant as far as it is known: between lo and hi.
type diffSpan struct{ lo, hi time.Time }

func (s diffSpan) add(d time.Duration) diffSpan { return diffSpan{s.lo.Add(d), s.hi.Add(d)} }
func (s diffSpan) set() bool                    { return !s.hi.IsZero() }

// near says whether an instant from t to u could be the span's.
func (s diffSpan) near(t, u time.Time, guard time.Duration) bool {
	return s.lo.Before(u.Add(guard)) && s.hi.After(t.Add(-guard))
}

// clear says how long to wait at t for the span to be over, where it is within
// the guard; otherwise 0.
func (s diffSpan) clear(t time.Time) time.Duration {
	if !s.near(t, t, diffGuard) {
		return 0
	}
	return max(s.hi.Add(diffGuard).Sub(t), 0)
}

// phase returns the span moved by whole seconds to where it next is relevant
// at t: the last one whose guard has not passed.
func (s diffSpan) phase(t time.Time) diffSpan {
	d := t.Sub(s.hi.Add(diffGuard))
	n := d / time.Second
	if d > 0 {
		n++
	}
	return s.add(n * time.Second)
}

// diffDeadlines are spans in order of their ends.
type diffDeadlines []diffSpan

func (l diffDeadlines) sort() {
	slices.SortFunc(l, func(a, b diffSpan) int { return cmp.Compare(a.hi.UnixNano(), b.hi.UnixNano()) })
}

// within returns the first deadline of l that could lie between t and u.
func (l diffDeadlines) within(t, u time.Time, guard time.Duration) (diffSpan, bool) {
	for _, s := range l {
		if s.near(t, u, guard) {
			return s, true
		}
	}
	return diffSpan{}, false
}

// crowd returns the first deadline of l after t and before end that has
// another one so close behind it that the run cannot stop between the two: the
// servers may see them in either order. l is sorted.
func (l diffDeadlines) crowd(t, end time.Time) (diffSpan, bool) {
	for i := 0; i+1 < len(l); i++ {
		a, b := l[i], l[i+1]
		if a.hi.Before(t) || a.lo.After(end) {
			continue
		}
		if b.lo.Sub(a.hi) < 9*diffGuard/4 {
			return a, true
		}
	}
	return diffSpan{}, false
}
