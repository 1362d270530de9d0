package shard

import (
	"container/heap"
	"time"
)

const second = int64(time.Second)

// Clock is the time of the shards: nanoseconds since shortly before it was
// made, monotonic, never zero. The zero in a deadline stands for none.
type Clock struct{ epoch time.Time }

// NewClock returns a clock that starts now. All shards of a process share one.
func NewClock() Clock { return Clock{time.Now().Add(-time.Second)} }

// Now reads the clock. Any goroutine may call it.
func (c Clock) Now() int64 { return int64(time.Since(c.epoch)) }

// read returns the clock's time, and the Unix time in nanoseconds at which it stood at
// 0. The latter is by the system's clock as it is now, which somebody may have set.
func (c Clock) read() (now, zero int64) {
	t := time.Now()
	now = int64(t.Sub(c.epoch))
	return now, t.UnixNano() - now
}

// due is the place of a tube, a client or stalled chains in the shard's heap of what
// comes due next. Its time may be too early, never too late: a deadline that goes away
// leaves it unchanged, and its owner finds nothing to do when it fires. So the hot path
// seldom touches the heap: a client that reserves and deletes in a loop enters one
// deadline a TTR.
type due struct {
	at    int64 // on the shards' clock; 0 when not in the heap
	pos   int
	owner interface {
		// expire does what has come due, as far as the shard's patience goes, and
		// returns when the next thing does, 0 for never.
		expire(*Shard) int64
	}
}

// dueHeap orders dues by time, for container/heap.
type dueHeap []*due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].pos, h[j].pos = i, j }
func (h *dueHeap) Push(x any)        { d := x.(*due); d.pos = len(*h); *h = append(*h, d) }
func (h *dueHeap) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*h = clipped(old[:len(old)-1])
	return d
}

// schedule makes sure that d's owner is called at that time at the latest.
func (s *Shard) schedule(d *due, at int64) {
	switch {
	case d.at == 0:
		d.at = at
		heap.Push(&s.dues, d)
	case at < d.at:
		d.at = at
		heap.Fix(&s.dues, d.pos)
	}
}

// unschedule takes d out: its owner is going away.
func (s *Shard) unschedule(d *due) {
	if d.at != 0 {
		heap.Remove(&s.dues, d.pos)
		d.at = 0
	}
}

// expire does what has come due by s.now, as far as the quota of the turn goes. What is
// left stays due, so the next turn comes at once.
func (s *Shard) expire() {
	for len(s.dues) > 0 && s.dues[0].at <= s.now && s.patient() {
		s.quota--
		d := heap.Pop(&s.dues).(*due)
		d.at = 0
		if next := d.owner.expire(s); next != 0 {
			s.schedule(d, next)
		}
	}
}

// patient tells whether one more thing may come due in this batch.
func (s *Shard) patient() bool { return s.quota > 0 && !s.filled() }

// ring is what the timer calls when it fires, on a goroutine of its own.
func (s *Shard) ring() {
	if s.ringing.CompareAndSwap(false, true) {
		s.post([]*Request{&s.alarm})
	}
}

// arm sets the timer for what comes due next, unless it is set for an earlier
// time already: it then fires for nothing and is set again.
func (s *Shard) arm() {
	if len(s.dues) == 0 {
		return
	}
	if at := s.dues[0].at; s.armed == 0 || at < s.armed {
		s.armed = at
		// Stop comes first because Go's runtime (1.23 to 1.26) may overlook a Reset that
		// makes a timer earlier: timer.modify shows only at its end that it has changed
		// the timer, and relies until then on a word that timers.adjust clears, on
		// another thread, before it looks. The timer would fire when it was to fire
		// before, at the end of some TTR. What Stop changes is to be seen at its end, so
		// before Reset begins.
		s.timer.Stop()
		// The time may have passed: a holder is warned at once of a TTR of a second.
		// It is never set to 0 all the same: timers that are due when they are set
		// break the race detector in a synctest bubble, where tests run.
		s.timer.Reset(time.Duration(max(at-s.now, 1)))
	}
}
