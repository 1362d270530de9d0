package shard

// What may be about millions of jobs is done in steps, so that nobody has to wait
// for long, and a segment of the log is left in time. Others are served between
// the steps, and see how far it has come; each step leaves all as if it were the
// last. So a large kick is to others as several smaller ones, one after the other.

// stepJobs is how many jobs a step is about at most: a millisecond or so.
const stepJobs = 1024

// stepWatches is how many tubes the reserves of a chain look through until the rest
// of the chain is put off: a millisecond or so. Who watches no more than a thousand
// tubes is not put off.
const stepWatches = 128 * 1024

// progress is how far a request has come that takes more than one step.
type progress struct {
	kicked uint64 // by Kick
	left   uint64 // for Kick, at most
	burial int64  // the last one before the Kick began; 0 if it is of delayed jobs

	// For DropFunction: the id to look on from, and the last one before it began.
	from, last uint64
}

// filled tells whether a step has to end because the batch does.
func (s *Shard) filled() bool { return s.log != nil && s.log.Filled() }

// putOff leaves r for the next turn, or for when there is room, with what is
// behind it in its chain. It returns what comes behind that.
func (s *Shard) putOff(r *Request) (next *Request) {
	last := r
	for !last.last && r.Op != Detach { // which was sent, and is alone
		last = last.next
	}
	next, last.next = last.next, nil
	s.looked = 0
	if s.lacksRoom {
		s.stall(r)
	} else {
		s.unfinished = append(s.unfinished, r)
	}
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

// kickSome kicks up to N buried jobs of a tube, in the order of burying, or if
// there is none up to N delayed ones, soonest first. It does a step of that, and
// reports whether there is more to do. What is buried after it has begun stays
// buried. What is delayed after that may be kicked, as if it had come before; but
// no more are than there were.
func (s *Shard) kickSome(r *Request) (more bool) {
	t, k := r.Tube, s.kickSoFar(r)
	for range stepJobs {
		j := k.next(t)
		if j == nil || s.refused(r) {
			break
		}
		s.kick(j)
		k.kicked++
		k.left--
		if s.filled() {
			break
		}
	}
	if k.next(t) != nil && (r.Status == OK || s.roomComes()) {
		on := k // which is on the heap, unlike k
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

// next returns the job that a kick is to kick next, nil if there is none.
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
