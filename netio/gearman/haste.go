package gearman

import "time"

// A worker that is told NO_JOB says PRE_SLEEP, hears NOOP when there is a job, and
// asks again: more packets than the job takes itself. Where jobs come so fast that
// the NOOP follows within a moment, it is better to leave the GRAB_JOB unanswered
// for that moment and answer with the job.
//
// A worker that asks several servers waits for each of them in turn, so a server
// must not make it wait for nothing: that happens once, and then only after jobs
// have come fast again.
//
// What a client gains where its jobs end fast stands in hold.go.

// moment is how long a GRAB_JOB waits for a job, or a JOB_CREATED for the result.
const moment = time.Millisecond

// fastEnough is how many jobs in a row must have come within a moment.
const fastEnough = 2

// haste is what a session knows of how fast jobs come. The zero value is ready.
type haste struct {
	since time.Time // of the last NO_JOB
	fast  int       // jobs that came within a moment of it, in a row
}

// patience returns how long the next GRAB_JOB may wait; 0 is not at all.
func (h *haste) patience() time.Duration {
	if h.fast < fastEnough {
		return 0
	}
	return moment
}

// refused notes a NO_JOB, after a wait or not.
func (h *haste) refused(waited bool) {
	h.since = time.Now()
	if waited {
		h.fast = 0
	}
}

// woken notes a NOOP.
func (h *haste) woken(now time.Time) {
	if h.since.IsZero() || now.Sub(h.since) > moment {
		h.fast = 0
	} else if h.fast < fastEnough {
		h.fast++
	}
}
