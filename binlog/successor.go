package binlog

import "sync/atomic"

// successor passes the segment to go on in next, an empty one, from the janitor, which
// makes it, to the shard. There is no race for it: the janitor sets segment only while
// ready is false, and then sets ready; the shard takes it only while ready is true, and
// then clears ready.
type successor struct {
	segment *segment
	ready   atomic.Bool
	// err is why there is none: the disk is full, or too many files are open. The
	// janitor writes it.
	err atomic.Pointer[error]
}

// offer has the shard go on in seg. Only the janitor calls it, while ready is false.
func (s *successor) offer(seg *segment) {
	s.segment = seg
	s.err.Store(nil)
	s.ready.Store(true)
}

// fails notes why there is no next segment. Only the janitor calls it.
func (s *successor) fails(err error) { s.err.Store(&err) }

// missing returns why there is no next segment, nil if there is one, or if that is not
// known yet. Any goroutine may call it.
func (s *successor) missing() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

// take returns the segment that was offered, so that the janitor may offer another.
// Only the shard calls it, while ready is true.
func (s *successor) take() *segment {
	seg := s.segment
	s.segment = nil
	s.ready.Store(false)
	return seg
}
