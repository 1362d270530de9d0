package shard

// On a full disk there is room for changes as fast as cleaning makes it. A change that
// finds none waits, with the rest of its chain, as long as there is something to clean:
// so a client that is too fast is slowed down, not refused. That goes for reserves, too,
// since they are counted, and for the end of a time to run. Puts do not wait: the room
// that they take does not come back before jobs are deleted.

// stallMost is how long the changes of one chain wait for room at most, taken together;
// stallRetry is after what time they look whether other shards have made some.
const (
	stallMost  = 5 * second
	stallRetry = second / 20
)

// stalls are the chains that wait for room.
type stalls struct {
	due    due
	chains []stalled // in the order in which they came
	trying stalled   // taken from chains, and being served again
	// lacksRoom says that the request being served has found no room for a change.
	lacksRoom bool
	// reserve says that the request being served is to wait until it can be noted that a
	// job was reserved.
	reserve bool
	// recheck says that the chains are to be tried: there may be room, or none will come.
	recheck bool
}

// stalled is a request that waits for room, with its chain behind it.
type stalled struct {
	request *Request
	until   int64 // on the shards' clock: then it is refused
}

// roomComes tells whether the request being served has found no room for its change, and
// is to wait for some.
func (s *Shard) roomComes() bool {
	if !s.lacksRoom || s.failed || s.ending || s.stalls.trying.request != nil && s.stalls.trying.until <= s.now {
		return false
	}
	if s.tidy(); s.cleaning || s.toClean || s.log.Dropping() || s.now < s.cleanAfter {
		return true
	}
	// It may have come meanwhile: then the request just goes on in the next turn.
	s.lacksRoom = !s.log.FitsChange(s.copies())
	return !s.lacksRoom
}

// awaitsRoom tells whether a change of j's counters alone is to wait for room, while
// cleaning is at work. If none comes the change is made all the same: then only the counters
// are wrong, after a restart. It is not worth a longer wait: those who reserve jobs delete
// them, and so make room.
func (s *Shard) awaitsRoom(j *job) bool {
	if !s.logs(j) || s.log.FitsChange(s.copies()) {
		return false
	}
	s.lacksRoom = s.now >= s.cleanAfter // else cleaning has just found none for its copies
	if s.roomComes() {
		return true
	}
	s.lacksRoom = false
	return false
}

// reserveWaits tells whether the request being served, which is about to reserve j, a ready
// job, is to wait for room, since the job's reserves are counted.
func (s *Shard) reserveWaits(j *job) bool {
	s.stalls.reserve = s.awaitsRoom(j)
	return s.stalls.reserve
}

// stall leaves r, with its chain behind it, for when there is room.
func (s *Shard) stall(r *Request) {
	l := &s.stalls
	until := s.now + stallMost
	if l.trying.request != nil { // r is of its chain
		until = l.trying.until
	}
	l.chains = append(l.chains, stalled{r, until})
	l.due.owner = l
	s.schedule(&l.due, min(until, s.now+stallRetry))
}

// tryAgain serves what waits for room.
func (s *Shard) tryAgain() {
	l := &s.stalls
	chains := l.chains
	l.chains, l.recheck = nil, false
	for _, c := range chains {
		l.trying = c
		s.serveAll(c.request)
	}
	l.trying = stalled{}
}

// expire implements due.owner: it tries all chains again, so that those that have waited
// long enough are refused.
func (l *stalls) expire(s *Shard) int64 {
	if l.trying.request != nil {
		return s.now + stallRetry // they are being tried
	}
	s.tryAgain()
	return 0 // stall has scheduled those that still wait
}
