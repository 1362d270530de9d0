package shard

// A full disk has room for changes as fast as cleaning makes it. A change that
// finds none waits while there is something to clean, with what is behind it in
// its chain: so a client that is faster than that is slowed down, not refused.
// Puts do not wait: what they take does not come back before jobs are deleted.

// stallMost is how long a change waits for room at most, with others of its chain
// that do so; stallRetry is after what time it looks whether others have made some.
const (
	stallMost  = 5 * second
	stallRetry = second / 20
)

// stalls are the chains that wait for room.
type stalls struct {
	due    due
	chains []stalled // in the order in which they came
	// trying is what was taken from chains and is being served again.
	trying stalled
	// lacks is that the request that is being served has found no room for a change.
	lacksRoom bool
	// news is that there may be room, or that there will be none.
	recheck bool
}

// stalled is a request that waits for room, with its chain behind it.
type stalled struct {
	request *Request
	until   int64 // on the shards' clock: then it is refused
}

// roomComes tells whether the request that is being served is to wait for room, if it
// has found none.
func (s *Shard) roomComes() bool {
	if !s.lacksRoom || s.failed || s.ending || s.stalls.trying.request != nil && s.stalls.trying.until <= s.now {
		return false
	}
	if s.tidy(); s.cleaning || s.toClean || s.log.Dropping() || s.now < s.cleanAfter {
		return true
	}
	// It may have come since: then the request only goes on in the next turn.
	s.lacksRoom = !s.log.FitsChange(s.copies())
	return !s.lacksRoom
}

// stall leaves r for when there is room.
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

// expire is due's: what has waited long enough is refused.
func (l *stalls) expire(s *Shard) int64 {
	if l.trying.request != nil {
		return s.now + stallRetry // they are being tried
	}
	s.tryAgain()
	return 0 // what waits on has said so
}
