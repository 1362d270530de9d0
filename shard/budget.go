package shard

import "sync/atomic"

// Budget is the cap on the memory of all jobs of the process, shared by its
// shards. Each shard counts exactly for itself and reports only when it has
// drifted by more than the slack, so the shared word is seldom written; the
// cap holds to within the slack times the number of shards.
type Budget struct {
	max   int64 // bytes; 0 for no cap
	slack int64
	used  atomic.Int64 // as reported; all shards write it
}

// NewBudget returns a cap of max bytes, 0 for none, for that many shards.
func NewBudget(max int64, shards int) *Budget {
	return &Budget{max: max, slack: min(64<<10, max/int64(16*shards))}
}

// Used returns how many bytes jobs take, to within the slack of each shard.
// Any goroutine may call it.
func (b *Budget) Used() int64 { return b.used.Load() }

// Full tells whether a body of n bytes would surely be refused. Any goroutine
// may call it, to spare itself the memory for reading such a body.
func (b *Budget) Full(n int) bool {
	return b.max != 0 && b.used.Load()+jobOverhead+int64(n) > b.max+b.slack
}

// ration is a shard's own side of the Budget.
type ration struct {
	*Budget
	total int64 // used by this shard
	drift int64 // of that, not yet reported
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
