package shard

import (
	"math"
	"sync/atomic"
)

// Budget is the cap on the memory of all jobs of the process, shared by its
// shards. Each shard counts exactly for itself and reports only when it has
// drifted by more than the slack, so the shared word is seldom written; the
// cap holds to within the slack times the number of shards. The directory does
// likewise.
type Budget struct {
	max   int64 // bytes; 0 for no cap
	slack int64
	_     [48]byte     // every put reads these two, so they are not on a line with used
	used  atomic.Int64 // as reported; shards write it, and clients for large bodies
}

// NewBudget returns a cap of max bytes, 0 for none, for that many shards.
func NewBudget(max int64, shards int) *Budget {
	max = min(max, math.MaxInt64/4) // so that sums do not overflow
	b := &Budget{max: max, slack: 64 << 10}
	if max != 0 {
		b.slack = min(b.slack, max/int64(16*shards))
	}
	return b
}

// Full tells whether a body of n bytes would surely be refused. Any goroutine
// may call it, to spare itself the memory for reading such a body.
func (b *Budget) Full(n int) bool {
	return b.max != 0 && b.used.Load()+footprint(n) > b.max+b.slack
}

// Hold counts n bytes that are on their way to become a job. It reports false,
// and counts nothing, if they surely do not fit. Any goroutine may call it.
func (b *Budget) Hold(n int) bool {
	if b.max == 0 {
		return true
	}
	if b.used.Add(int64(n)) > b.max+b.slack {
		b.used.Add(-int64(n))
		return false
	}
	return true
}

// HoldAnyway is Hold for what cannot be refused: it is counted even if it does not
// fit. Any goroutine may call it.
func (b *Budget) HoldAnyway(n int) {
	if b.max != 0 {
		b.used.Add(int64(n))
	}
}

// Free takes out what Hold has counted. Any goroutine may call it.
func (b *Budget) Free(n int) {
	if b.max != 0 {
		b.used.Add(-int64(n))
	}
}

// ration is a shard's own side of the Budget.
type ration struct {
	*Budget
	total  int64 // used by this shard
	drift  int64 // of that, not yet reported
	excess int64 // of that, what jobs of other sizes cannot use, see slab
}

// charge counts n bytes more, or less.
func (r *ration) charge(n int64) {
	r.total += n
	r.drift += n
	if r.drift > r.slack || r.drift < -r.slack {
		r.used.Add(r.drift)
		r.drift = 0
	}
}

// fits tells whether n bytes more stay within the cap.
func (r *ration) fits(n int64) bool {
	return r.max == 0 || r.used.Load()+r.drift+n <= r.max
}
