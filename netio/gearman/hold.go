package gearman

// Holding a JOB_CREATED back for a moment, where jobs end fast, to say it together with
// the result.
//
// A client that waits for its job hears JOB_CREATED and a moment later the result: two
// writes here and two wake-ups there, the first of which is for nothing. Where jobs are
// done that fast, it is better to hold JOB_CREATED back and say both at once.
//
// That must not delay a client that does something on JOB_CREATED, such as submitting
// the next job. So it is done only for a client that has been seen, many times in a row,
// to submit a job, to say nothing until its end, and to submit the next one soon after.
// While every JOB_CREATED is held there is no telling whether the client waits for it,
// so every so often one is not held. A client that does wait for it submits its next job
// later, counted from the end of the one before, if that one's JOB_CREATED was held.

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// trustAtFirst is how many jobs in a row must have been the client's only one, and
	// fast. Each time that holding turns out to be wrong, it is distrustFactor times as
	// many.
	trustAtFirst   = 16
	distrustFactor = 8
	// holdsInRow is how many consecutive JOB_CREATED are held before one is not.
	holdsInRow = 15
	// Whether the client comes later is judged by this many pairs of jobs: one whose
	// JOB_CREATED was not held, and the next, whose was. The answer is yes if it came
	// later in latePairs of them. Until the first judgement, every other JOB_CREATED is
	// held.
	pairs     = 16
	latePairs = 12
)

// pace is what a session knows about how its client waits for jobs. The zero value is
// ready. It belongs to the connection's goroutine.
type pace struct {
	// When the last job that was the client's only one was submitted, and when it ended.
	// Zero if there is no such job, or if it has not ended.
	submit, end time.Time
	held        bool // its JOB_CREATED was held

	trust int // how many jobs were the only one; less if some were slow
	holds int // how many consecutive JOB_CREATED were held
	wrong int // how often it was wrong to hold

	judged      bool          // there was a judgement since the client was last distrusted
	pairs, late int           // since the last judgement
	pause       time.Duration // in the first of a pair: from the end of the job to the next submit
}

// enough is how much trust it takes to hold.
func (p *pace) enough() int {
	n := trustAtFirst
	for range p.wrong {
		n *= distrustFactor
	}
	return n
}

// submitted notes the submit of a job that is the client's only one. It reports whether
// JOB_CREATED should be held.
func (p *pace) submitted(now time.Time) bool {
	if !p.end.IsZero() {
		p.learn(p.end.Sub(p.submit), now.Sub(p.end))
	}
	p.submit, p.end = now, time.Time{}
	most := holdsInRow
	if !p.judged {
		most = 1
	}
	if p.held = p.trust >= p.enough() && p.holds < most; p.held {
		p.holds++
	} else {
		p.holds = 0
	}
	return p.held
}

// learn draws conclusions from how long the last job took, and how long after its end
// the client submitted the next one.
func (p *pace) learn(took, pause time.Duration) {
	enough := p.enough()
	if took > moment || pause > moment {
		p.trust = max(p.trust-enough/4, 0)
		return
	}
	p.trust = min(p.trust+1, enough)
	switch {
	case !p.held:
		p.pause = pause
		return
	case p.holds > 1:
		return
	case pause > p.pause+took/2:
		p.late++
	}
	if p.pairs++; p.pairs < pairs {
		return
	}
	comesLater := p.late >= latePairs
	p.judged, p.pairs, p.late = true, 0, 0
	if comesLater {
		p.distrust()
	}
}

// busy notes that the client said something before its job had ended.
func (p *pace) busy() {
	if !p.submit.IsZero() && p.end.IsZero() && p.trust >= p.enough() {
		p.distrust()
	}
	p.trust, p.submit, p.end = 0, time.Time{}, time.Time{}
}

// distrust notes that it was wrong to hold.
func (p *pace) distrust() {
	p.wrong = min(p.wrong+1, 6) // at 6, enough is four million jobs
	p.trust = 0
	p.judged, p.pairs, p.late = false, 0, 0
}

// ended notes the end of a job.
func (p *pace) ended() {
	if !p.submit.IsZero() {
		p.end = time.Now()
	}
}

// A hold is a JOB_CREATED that has not been said yet. id and count belong to the
// connection's goroutine.
type hold struct {
	id    uint64 // of the job; 0 if nothing is held
	count uint64 // how many holds the keeper has been given; the number of the latest
	// state is count while the keeper watches the hold, overdue when it has lasted for a
	// moment, and 0 otherwise. The connection's goroutine stores count and 0. The keeper's
	// timer only swaps the count it was given for overdue, so it cannot mistake a later
	// hold for that one.
	state atomic.Uint64
}

const overdue = ^uint64(0)

// A keeper makes sure that nothing is held for longer than a moment. All sessions share
// one: a timer for each would have to be set and stopped with each job.
type keeper struct {
	mu    sync.Mutex  // guards what follows, between sessions and the timer
	timer *time.Timer // made when it is first needed; set while anything is in kept
	kept  []kept      // by until; holds that have ended earlier stay until then, too
}

type kept struct {
	s     *session
	count uint64 // of its hold
	until time.Time
}

// watch has the session poked in a moment if it is still holding what it holds now. The
// connection's goroutine calls it.
func (k *keeper) watch(s *session, now time.Time) {
	s.hold.count++
	s.hold.state.Store(s.hold.count)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, kept{s, s.hold.count, now.Add(moment)})
	if len(k.kept) > 1 {
		return
	}
	if k.timer == nil {
		k.timer = time.AfterFunc(moment, k.ring)
	} else {
		k.timer.Reset(moment)
	}
}

// ring is called by the timer. It pokes the sessions whose holds are overdue.
func (k *keeper) ring() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	n := 0
	for ; n < len(k.kept); n++ {
		e := k.kept[n]
		state := &e.s.hold.state
		if state.Load() != e.count {
			continue
		}
		if left := e.until.Sub(now); left > 0 {
			k.timer.Reset(left)
			break
		}
		if state.CompareAndSwap(e.count, overdue) {
			e.s.conn.Poke()
		}
	}
	k.kept = slices.Delete(k.kept, 0, n)
}
