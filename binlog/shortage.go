package binlog

import (
	"sync/atomic"
	"time"
)

// shortage is what a log knows of a disk that had no room, so that a full disk is not
// asked again at every change.
type shortage struct {
	// full says that no more space could be set aside. The shard and the janitor write
	// it: when that is so, and when there is room again.
	full atomic.Bool
	// freed says that something was given back to the disk: the janitor sets it, the
	// shard clears it.
	freed atomic.Bool

	// The shard's goroutine only.
	refusedAt    time.Time // when there was last no room to set aside refusedBytes more
	refusedBytes int64
	fullErr      error // why there was last no room
}

// retry is how long a full disk is left alone before it is tried again.
const retry = 20 * time.Millisecond

// Full tells whether puts are refused for want of disk space. Any goroutine may
// call it.
func (s *shortage) Full() bool { return s.full.Load() }

// refused notes that there was no room to set n bytes aside. The shard's goroutine only.
func (s *shortage) refused(n int64) { s.refusedAt, s.refusedBytes = time.Now(), n }

// wasRefused tells whether there is no use in trying to set n bytes aside: the disk is
// full, and has had no room for as much a moment ago. If what it had no room for was
// larger, say a put, a change may still fit. The shard's goroutine only.
func (s *shortage) wasRefused(n int64) bool {
	if s.freed.Swap(false) {
		s.refusedAt = time.Time{}
	}
	return s.full.Load() && time.Since(s.refusedAt) < retry && n >= s.refusedBytes
}
