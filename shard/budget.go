package shard

import (
	"math"
	"sync/atomic"
)

// Budget is the cap on the memory of all jobs of the process, shared by its shards. Each
// shard counts exactly for itself and reports only when it has drifted by more than the
// slack, so the shared word is seldom written. The directory does likewise. The cap holds
// to within the slack times the number of shards and the directory.
type Budget struct {
	max   int64 // bytes; 0 for no cap
	slack int64 // bytes
	spare int   // chunks that each shard may have without jobs in them
	refusals
	_    [24]byte     // every put reads what is above, so it shares no cache line with used
	used atomic.Int64 // as reported; shards write it, and clients for large bodies
	peak

	refused [NumRefusals]atomic.Int64 // puts, by reason
}

// NewBudget returns a cap of max bytes, 0 for none, for that many shards.
func NewBudget(max int64, shards int) *Budget {
	max = min(max, math.MaxInt64/4) // so that sums do not overflow
	b := &Budget{max: max, slack: 64 << 10, spare: sparesOf(max, shards), refusals: refusals{news: make(chan struct{}, 1)}, peak: peak{fallen: make(chan struct{}, 1)}}
	if max != 0 {
		b.slack = min(b.slack, max/int64(16*shards))
	}
	return b
}

// Max returns the cap in bytes, 0 if there is none.
func (b *Budget) Max() int64 { return b.max }

// Used returns how many bytes all jobs take, to within the slack.
func (b *Budget) Used() int64 { return b.used.Load() }

// Full tells whether a body of n bytes would surely be refused, so that there is no use
// in reading it; its put is then counted as refused. Any goroutine may call it.
func (b *Budget) Full(n int) bool {
	full := b.max != 0 && b.used.Load()+footprint(n) > b.max+b.slack
	if full {
		b.refuse(OverCap)
	}
	return full
}

// Hold counts n bytes that are on their way to become a job. It reports false,
// and counts nothing but a put that is refused, if they surely do not fit. Any goroutine
// may call it.
func (b *Budget) Hold(n int) bool {
	if b.max == 0 {
		return true
	}
	if b.used.Add(int64(n)) > b.max+b.slack {
		b.used.Add(-int64(n))
		b.refuse(OverCap)
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

// Free takes back n bytes that Hold or HoldAnyway has counted. Any goroutine may call it.
func (b *Budget) Free(n int) {
	if b.max != 0 {
		b.used.Add(-int64(n))
	}
}

// ration is one counter's own side of the Budget: a shard's, which belongs to whoever has
// its turn, or the directory's, which is under Directory.mu.
type ration struct {
	*Budget
	total  int64 // bytes counted
	drift  int64 // of these, not yet reported
	excess int64 // of these, what jobs of other sizes cannot use, see slab
}

// charge counts n bytes more, or less if n is negative.
func (r *ration) charge(n int64) {
	r.total += n
	r.drift += n
	if r.drift > r.slack || r.drift < -r.slack {
		r.note(r.used.Add(r.drift))
		r.drift = 0
	}
}

// fits tells whether n bytes more stay within the cap.
func (r *ration) fits(n int64) bool {
	return r.max == 0 || r.used.Load()+r.drift+n <= r.max
}
