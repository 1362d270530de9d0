package shard

import "sync/atomic"

// When a backlog has gone, nothing is allocated any more, so the garbage collector does not
// run, and the large bodies that it would free stay with the process. So whoever can have
// it run is told when the memory that jobs take has fallen far below its peak.

// farBelow is how many bytes it has to fall below its peak, and to less than half.
const farBelow = 64 << 20

// peak is the highest that Budget.used was. It is written only where used is: once in many
// puts and deletes.
type peak struct {
	highest atomic.Int64
	fallen  chan struct{} // has one when used has fallen far below highest
}

// FarBelow tells whether n bytes are far below a peak.
func FarBelow(n, peak int64) bool { return n < peak/2 && peak-n > farBelow }

// note notes that n bytes are used now.
func (p *peak) note(n int64) {
	if FarBelow(n, p.raise(n)) {
		select {
		case p.fallen <- struct{}{}:
		default:
		}
	}
}

// raise makes the peak at least n bytes, and returns it.
func (p *peak) raise(n int64) int64 {
	for {
		high := p.highest.Load()
		if n <= high {
			return high
		}
		if p.highest.CompareAndSwap(high, n) {
			return n
		}
	}
}

// Fallen returns a channel that gets something while jobs go and the memory that they take
// is far below its peak. One goroutine may receive from it.
func (p *peak) Fallen() <-chan struct{} { return p.fallen }

// NewPeak begins a new peak at what jobs take now, and returns the old one in bytes.
func (b *Budget) NewPeak() int64 { return b.peak.highest.Swap(b.used.Load()) }

// OldPeak takes back NewPeak: the peak is again at least what that has returned.
func (b *Budget) OldPeak(n int64) {
	b.raise(n)
	b.note(b.used.Load()) // it may have fallen meanwhile
}
