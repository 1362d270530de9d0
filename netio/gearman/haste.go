package gearman

// Letting a GRAB_JOB wait for a moment where jobs come fast.
//
// A worker that is told NO_JOB says PRE_SLEEP, hears NOOP when there is a job, and asks
// again: more packets than the job itself takes. Where jobs come so fast that the NOOP
// would follow within a moment, it is better to leave the GRAB_JOB unanswered for that
// moment and answer it with the job.
//
// A worker that asks several servers waits for each of them in turn, so a server should
// not make it wait in vain: when that has happened once, GRAB_JOB is answered at once
// until jobs have come fast again.
//
// hold.go has the same idea for clients whose jobs end fast.

import "time"

// moment is how long a GRAB_JOB waits for a job, or a JOB_CREATED for the result.
const moment = time.Millisecond

// fastEnough is how many consecutive jobs must have come within a moment.
const fastEnough = 2

// haste is what a session knows about how fast jobs come. The zero value is ready.
type haste struct {
	since time.Time // when the last NO_JOB was said
	fast  int       // consecutive jobs that came within a moment of it, at most fastEnough
}

// patience returns how long the next GRAB_JOB may wait; 0 means not at all.
func (h *haste) patience() time.Duration {
	if h.fast < fastEnough {
		return 0
	}
	return moment
}

// refused notes a NO_JOB, and whether the GRAB_JOB had waited in vain.
func (h *haste) refused(waited bool) {
	h.since = time.Now()
	if waited {
		h.fast = 0
	}
}

// woken notes a NOOP, said now.
func (h *haste) woken(now time.Time) {
	if h.since.IsZero() || now.Sub(h.since) > moment {
		h.fast = 0
	} else if h.fast < fastEnough {
		h.fast++
	}
}
