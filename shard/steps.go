package shard

// A request that may touch millions of jobs is served in steps, so that nobody has to
// wait for long, and no segment of the log grows too large. Others are served between
// the steps, and see what has been done so far; each step leaves everything as if it
// were the last. So a large kick looks to others like several smaller ones in a row.

// stepJobs is how many jobs a step touches at most: a millisecond or so.
const stepJobs = 1024

// stepEffort is how much effort goes into a chain before the rest of it is put off: a
// millisecond or so. It is counted in tubes that a reserve looks through. So a client that
// watches no more than a thousand tubes is never put off for its reserves, since its
// chains are not that long. A job that is kicked, and an event for a client that waits for
// a job, count for more.
const (
	stepEffort  = 128 * 1024
	kickEffort  = 2 * stepEffort / stepJobs
	eventEffort = stepEffort / stepJobs
)

// mostGiven is how many bytes of large bodies there may be in the answers to a chain
// before the rest of it is left Unserved. A client that does not read its answers holds
// on to these bodies, though their jobs may have gone and no cap counts them any more.
const mostGiven = 1 << 20

// progress is how far a request has come that takes more than one step.
type progress struct {
	// For Kick: how many it has kicked, how many it may still kick, and the last burial
	// before it began, 0 if it kicks delayed jobs.
	kicked, left uint64
	burial       int64

	// For DropFunction: the id to look on from, and the last one before it began.
	from, last uint64
}

// filled tells whether a step has to end because the log's batch is full.
func (s *Shard) filled() bool { return s.log != nil && s.log.Filled() }

// putOff leaves r and the rest of its chain for the next turn, or for when the log has
// room. It returns the request behind the chain.
func (s *Shard) putOff(r *Request) (next *Request) {
	last := r
	for !last.last && r.Op != Detach { // a Detach was sent: it is alone, and has no last
		last = last.next
	}
	next, last.next = last.next, nil
	s.effort = 0
	if s.lacksRoom {
		s.stall(r)
	} else {
		s.unfinished = append(s.unfinished, r)
	}
	return next
}

// cutShort answers the chain of r, which was served, and leaves the rest of it, from next
// on, unserved: the client posts it again when it has dealt with what was answered. It
// returns the request behind the chain.
func (s *Shard) cutShort(r, next *Request) *Request {
	for last := false; !last; {
		rest := next
		last, next, rest.next = rest.last, rest.next, nil
	}
	s.effort, r.Client.given = 0, 0
	s.answer(r.Client.waiter, r.Op)
	return next
}

// goOn does a step of each request that was left unfinished.
func (s *Shard) goOn() {
	chains := s.unfinished
	s.unfinished = nil
	for _, r := range chains {
		s.serveAll(r)
	}
}

// kickSome serves Kick: it kicks up to N buried jobs of a tube, in the order of burying,
// or if there are none up to N delayed ones, soonest first. It does a step of that, and
// reports whether there is more to do. Jobs that are buried after it has begun stay
// buried. Jobs that are delayed after that may be kicked, as if they had come before,
// but no more in all than were delayed when it began.
func (s *Shard) kickSome(r *Request) (more bool) {
	t, k := r.Tube, s.kickSoFar(r)
	for range stepJobs {
		j := k.next(t)
		if j == nil || s.refused(r) {
			break
		}
		s.kick(j)
		s.effort += kickEffort
		k.kicked++
		k.left--
		if s.filled() {
			break
		}
	}
	if k.next(t) != nil && (r.Status == OK || s.roomComes()) {
		on := k // a copy, so that k itself is on the stack
		r.progress = &on
		return true
	}
	if r.N = k.kicked; r.N > 0 && r.Status == OutOfMemory {
		r.Status = OK // some were
	}
	return false
}

// kickSoFar returns how far a kick has come.
func (s *Shard) kickSoFar(r *Request) progress {
	switch t := r.Tube; {
	case r.progress != nil:
		return *r.progress
	case t.buried.head != nil:
		return progress{left: r.N, burial: int64(s.burials)}
	default:
		return progress{left: min(r.N, uint64(t.delayed.len()))}
	}
}

// next returns the job that a kick of t kicks next, nil if there is none.
func (k *progress) next(t *Tube) *job {
	switch {
	case k.left == 0:
		return nil
	case k.burial == 0:
		return t.delayed.top()
	}
	if j := t.buried.head; j != nil && j.at <= k.burial {
		return j
	}
	return nil
}
