package main_test

// Time. Two servers cannot read their clocks at one instant, so the test keeps
// every command away from any instant at which something happens by itself.
//
// A span is what is known of the instant at which both servers did something:
// no earlier than the test sent the bytes, no later than it had both answers.
// From it follow the spans in which a deadline is reached on both. Before a
// command is sent, any deadline closer than diffGuard is waited for; after it
// was answered, the run is given up (inconclusive, not failed) if a deadline
// came meanwhile after all, because the machine was slow. So it is with all else
// that a run does to the servers: see guarded.
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

// diffSlowest is how much longer than diffGuard commands stay from deadlines at
// most where the last ones have taken long.
const diffSlowest = 200 * time.Millisecond

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

// past tells how many of l have come between the times calm and now, their
// guard over, and not before which time the first of them did.
func (l diffDeadlines) past(calm, now time.Time, slow time.Duration) (n int, from time.Time) {
	for _, s := range l {
		if s.near(calm, now, diffGuard) && !s.near(now, now.Add(slow), diffGuard) {
			if n == 0 || s.lo.Before(from) {
				from = s.lo
			}
			n++
		}
	}
	return n, from
}

// diffCrowd is how far apart two deadlines have to be for the run to stop
// between them, even if it sleeps for somewhat longer than it means to.
const diffCrowd = 4 * diffGuard

// crowd returns the first deadline of l after t and before end that has another
// one behind it within gap, so that the run cannot stop between the two: the
// servers may see them in either order. l is sorted.
func (l diffDeadlines) crowd(t, end time.Time, gap time.Duration) (diffSpan, bool) {
	for i := 0; i+1 < len(l); i++ {
		a, b := l[i], l[i+1]
		if a.hi.Before(t.Add(-diffGuard)) || a.lo.After(end) {
			continue
		}
		if b.lo.Sub(a.hi) < gap {
			return a, true
		}
	}
	return diffSpan{}, false
}

// guarded does step, which is given the time at which it begins, when all was
// calm just now (see wakeful). It gives the run up if anything may have happened
// by itself since, or at one of phases: the servers need not have been at the
// same point of the step then. That is so whatever the step has found. Deadlines
// that the step itself has made count from half a second on: the last second of
// a TTR of one second begins at once, on both.
func (r *diffRun) guarded(phases diffDeadlines, step func(lo time.Time) error) error {
	lo := time.Now()
	due := r.model.deadlines(r.clients, r.calm, lo.Add(diffPatience+2*time.Second))
	err := step(lo)
	hi := time.Now()
	if _, ok := append(due, phases...).within(r.calm, hi, diffGuard/8); ok {
		return fmt.Errorf("%w: a step took %v, %v after all was calm", errDiffInconclusive, hi.Sub(lo), lo.Sub(r.calm))
	}
	for _, s := range r.model.deadlines(r.clients, lo, hi.Add(time.Second)) {
		if s.lo.Sub(lo) > time.Second/2 && s.near(lo, hi, diffGuard/8) {
			return fmt.Errorf("%w: a step took %v", errDiffInconclusive, hi.Sub(lo))
		}
	}
	if err == nil {
		r.calm = hi
	}
	r.slow = min(max(hi.Sub(lo), r.slow*15/16), diffSlowest)
	return err
}

// wakeful waits until all is calm: nothing is about to happen by itself, and
// what was has been compared. requests are those about to be sent.
func (r *diffRun) wakeful(requests []diffRequest) error {
	for tries := 0; ; tries++ {
		now := time.Now()
		l := r.model.deadlines(r.clients, r.calm, now.Add(2*time.Second))
		next, near := l.within(now, now.Add(r.slow), diffGuard)
		// What came while a deadline was waited for, or while the run slept or
		// stood still for longer than it meant to.
		past, from := l.past(r.calm, now, r.slow)
		if past == 0 {
			if !near { // or it may have been just now
				r.calm = now
			}
			if err := r.uncrowd(); err != nil {
				return err
			}
		} else if r.waiting() > 0 {
			// Which comes first decides what who waits gets; and a TTR that the
			// reference has overlooked (see nudge) comes last there.
			felt := r.model.felt(r.clients, r.calm, now.Add(2*time.Second))
			n, _ := felt.past(r.calm, now, r.slow)
			if _, near := felt.within(now, now.Add(r.slow), diffGuard); n > 1 || n == 1 && near {
				return fmt.Errorf("%w: another one came before the first was seen to", errDiffInconclusive)
			}
		}
		if near {
			time.Sleep(next.hi.Add(diffGuard + time.Millisecond).Sub(now))
			continue
		}
		late := r.model.expire(now.Add(-diffGuard))
		if past > 0 || len(late) > 0 {
			if past == 0 {
				from = now.Add(-diffGuard)
			}
			r.calm = now
			if err := r.guarded(nil, func(time.Time) error { return r.nudge(late, from) }); err != nil {
				return err
			}
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
			return fmt.Errorf("%w: no time for a command that shows several", errDiffInconclusive)
		}
		time.Sleep(d)
	}
}

// nudge has clients, whose jobs' TTRs have just run out, send a command each. The
// reference overlooks a TTR when it looks in the very microsecond in which it
// ends, which it often does, since it spins through the last millisecond; it
// looks again after the client's next command. All happened after from. What it
// has overlooked of one client may answer another, so all are sent before
// anything is compared.
func (r *diffRun) nudge(clients []*diffClient, from time.Time) error {
	const line = "list-tube-used"
	for _, c := range clients {
		if c.waiting() || c.sock[0].fd < 0 {
			continue
		}
		r.logf("%s> %s", c.name, line)
		c.asked = append(c.asked, diffRequest{line: line})
		for _, s := range c.sock {
			if err := s.send([]byte(line + "\r\n")); err != nil {
				return &diffFound{fmt.Sprintf("sending: %v", err)}
			}
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
	l := r.model.felt(r.clients, now, now.Add(2*time.Second))
	s, ok := l.crowd(now, now.Add(600*time.Millisecond), diffCrowd+r.slow)
	if !ok {
		return nil
	}
	if s.near(now, now, diffGuard/2) {
		return fmt.Errorf("%w: several at once", errDiffInconclusive)
	}
	c := r.leaver((*diffClient).waiting)
	if c == nil {
		return fmt.Errorf("%w: several are about to, and nobody can be hung up", errDiffInconclusive)
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
