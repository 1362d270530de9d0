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
	"fmt"
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

// wakeful waits until nothing is about to happen by itself, and what was has
// been compared. requests are those about to be sent.
func (r *diffRun) wakeful(requests []diffRequest) error {
	var from time.Time // of the first deadline that was waited for
	for tries := 0; ; tries++ {
		if err := r.uncrowd(); err != nil {
			return err
		}
		now := time.Now()
		l := r.model.deadlines(r.clients, now, now.Add(2*time.Second))
		if s, ok := l.within(now, now, diffGuard); ok {
			if from.IsZero() {
				from = s.lo
			}
			time.Sleep(s.clear(now) + time.Millisecond)
			continue
		}
		late := r.model.expire(now.Add(-diffGuard))
		if !from.IsZero() || len(late) > 0 {
			if from.IsZero() {
				from = now.Add(-diffGuard)
			}
			for _, c := range late {
				if err := r.nudge(c, from); err != nil {
					return err
				}
			}
			if err := r.settle(from); err != nil {
				return err
			}
			from = time.Time{}
			continue
		}
		var d time.Duration
		for _, q := range requests {
			for _, s := range r.model.phases(q) {
				d = max(d, s.phase(now).clear(now))
			}
		}
		if d == 0 {
			return nil
		}
		if tries > 50 {
			return errDiffInconclusive
		}
		time.Sleep(d)
	}
}

// nudge has c, whose job's TTR has just run out, send a command. The reference
// overlooks a TTR when it looks in the very microsecond in which it ends, which
// it often does, since it spins through the last millisecond; it looks again
// after the client's next command. All happened after from.
func (r *diffRun) nudge(c *diffClient, from time.Time) error {
	if c.waiting() || c.sock[0].fd < 0 {
		return nil
	}
	const line = "list-tube-used"
	r.logf("%s> %s", c.name, line)
	c.asked = append(c.asked, diffRequest{line: line})
	for _, s := range c.sock {
		if err := s.send([]byte(line + "\r\n")); err != nil {
			return &diffFound{fmt.Sprintf("sending: %v", err)}
		}
	}
	return r.settle(from)
}

// uncrowd hangs up waiting clients before several deadlines come at once.
func (r *diffRun) uncrowd() error {
	if r.waiting() == 0 {
		return nil
	}
	now := time.Now()
	l := r.model.deadlines(r.clients, now, now.Add(2*time.Second))
	s, ok := l.crowd(now, now.Add(600*time.Millisecond))
	if !ok {
		return nil
	}
	if s.near(now, now, diffGuard/2) {
		return errDiffInconclusive
	}
	c := r.queued(nil)
	for _, o := range r.clients {
		if c == nil && o.waiting() && !r.scatters(o) {
			c = o
		}
	}
	if c == nil || r.scatters(c) {
		return errDiffInconclusive
	}
	r.logf("%s closes, for deadlines are crowded", c.name)
	if err := r.hangUp(c); err != nil {
		return err
	}
	return r.uncrowd()
}

// rest lets d go by, one deadline after the other.
func (r *diffRun) rest(d time.Duration) error {
	r.logf("%v go by", d)
	end := time.Now().Add(d)
	for {
		if err := r.wakeful(nil); err != nil {
			return err
		}
		now := time.Now()
		left := end.Sub(now)
		if left <= 0 {
			return nil
		}
		// Short enough not to miss a crowd, which is looked for 600 ms ahead.
		nap := min(left, 200*time.Millisecond)
		for _, s := range r.model.deadlines(r.clients, now, now.Add(time.Second)) {
			if s.lo.After(now.Add(diffGuard)) {
				nap = min(nap, s.lo.Sub(now)-diffGuard/2)
				break
			}
		}
		time.Sleep(nap)
	}
}
