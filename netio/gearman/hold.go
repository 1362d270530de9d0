package gearman

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A client that waits for its job hears JOB_CREATED and a moment later the result:
// two writes here, and two wake-ups there, of which the first is for nothing. Where
// jobs are done so fast, it is better to hold JOB_CREATED back and say both at once.
//
// That must not make a client wait that does something on JOB_CREATED, submit the
// next job for instance. So it is done only for a client that has been seen to
// submit a job, to say nothing until its end, and to come with the next one soon
// after, many times in a row. As nobody can be seen not to wait for what is held,
// every so often it is not. And a client that does wait for it comes later with the
// next job, counted from the end of the one before, when it was held than when it
// was not.

const (
	// alone is how many jobs must have been the only one of the client, and fast.
	// Each time when it was wrong to hold, it is doubtful times as many.
	alone    = 16
	doubtful = 8
	// holdsInRow is how many JOB_CREATED are held until one is not.
	holdsInRow = 15
	// Whether the client comes later is judged by so many pairs of jobs: one whose
	// JOB_CREATED was not held, and the next, whose was. It does if it came later in
	// latePairs of them. Until that has been judged for the first time, every other
	// JOB_CREATED is held.
	pairs     = 16
	latePairs = 12
)

// pace is what a session knows of how its client waits for jobs. The zero value is
// ready.
type pace struct {
	// Of the last job that was the only one: when it was submitted, and when it
	// ended. Zero if there is none, or if it has not.
	submit, end time.Time
	held        bool // its JOB_CREATED was

	good  int // how many were the only ones; less if some were slow
	holds int // how many JOB_CREATED were held in a row
	wrong int // how often it was wrong to hold

	judged      bool
	pairs, late int           // since that
	pause       time.Duration // in the first of a pair: from the end of the job to the next submit
}

// enough is what good must be.
func (p *pace) enough() int {
	n := alone
	for range p.wrong {
		n *= doubtful
	}
	return n
}

// submitted notes the submit of a job that is the only one, and reports whether
// JOB_CREATED is to be held.
func (p *pace) submitted(now time.Time) bool {
	if !p.end.IsZero() {
		p.learn(p.end.Sub(p.submit), now.Sub(p.end))
	}
	p.submit, p.end = now, time.Time{}
	most := holdsInRow
	if !p.judged {
		most = 1
	}
	if p.held = p.good >= p.enough() && p.holds < most; p.held {
		p.holds++
	} else {
		p.holds = 0
	}
	return p.held
}

// learn learns from the last job, which took so long, and the time from its end
// until the client came with the next one.
func (p *pace) learn(took, pause time.Duration) {
	enough := p.enough()
	if took > moment || pause > moment {
		p.good = max(p.good-enough/4, 0)
		return
	}
	p.good = min(p.good+1, enough)
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

// busy notes that the client says something before its job has ended.
func (p *pace) busy() {
	if !p.submit.IsZero() && p.end.IsZero() && p.good >= p.enough() {
		p.distrust()
	}
	p.good, p.submit, p.end = 0, time.Time{}, time.Time{}
}

func (p *pace) distrust() {
	p.wrong = min(p.wrong+1, 6) // four million jobs
	p.good = 0
	p.judged, p.pairs, p.late = false, 0, 0
}

// ended notes the end of a job.
func (p *pace) ended() {
	if !p.submit.IsZero() {
		p.end = time.Now()
	}
}

// A hold is a JOB_CREATED that has not been said yet.
type hold struct {
	id    uint64 // of the job; 0: there is none
	count uint64 // how many the keeper has been given
	// state is count while the keeper is to look after it, overdue when it has been
	// held for a moment, and otherwise 0. The session's goroutine stores count and 0;
	// the timer's only swaps the count that it was given for overdue, so it cannot
	// take a later hold for that one.
	state atomic.Uint64
}

const overdue = ^uint64(0)

// A keeper sees to it that nothing is held for longer than a moment. It is one for
// all sessions: a timer for each would have to be set and stopped with each job.
type keeper struct {
	mu    sync.Mutex  // guards what follows, for sessions and the timer
	timer *time.Timer // made when it is needed; set while anything is kept
	kept  []kept      // in the order of time; what is not held any more stays until then
}

type kept struct {
	s     *session
	count uint64 // of its hold
	until time.Time
}

// keep has the session poked in a moment if it still holds what it does now. The
// session's goroutine calls it.
func (k *keeper) keep(s *session, now time.Time) {
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

// ring is the timer's.
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
