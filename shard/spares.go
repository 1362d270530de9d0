package shard

import "slices"

// spares are the chunks without jobs that keep their memory for the next ones: maxSpare of
// them for good; more, up to most, as long as jobs come and go. To give a chunk's memory to
// the system and get it again takes some 30 µs, as long as a hundred submits.
type spares struct {
	list []*chunk // those that were used last at the end
	most int      // less than maxSpare stands for that
	// least is how few there were since spareTime began anew: so many were not needed.
	least int
	due   due
}

const (
	maxSpare = 8
	// mostSpares bounds spares.most, so that a shard has at most 16 MiB of them.
	mostSpares = 256
	// spareTime is how long memory must not have been needed to be given back. It is
	// looked at that often, so it may take twice as long.
	spareTime = second
	// spareStep is how many chunks are given back in one step.
	spareStep = 16
)

// sparesOf returns how many spare chunks each of so many shards may have within a cap of
// max bytes: all together a sixteenth of it. The cap does not count them.
func sparesOf(max int64, shards int) int {
	if max == 0 {
		return mostSpares
	}
	return int(min(max/16/int64(shards)/chunkSize, mostSpares))
}

// take returns a spare chunk, nil if there is none.
func (s *spares) take() *chunk {
	c := pop(&s.list)
	s.least = min(s.least, len(s.list))
	return c
}

// keep takes a chunk in, unless there are enough.
func (s *spares) keep(c *chunk) bool {
	if len(s.list) >= max(s.most, maxSpare) {
		return false
	}
	s.list = append(s.list, c)
	return true
}

// scheduleSpares sees to it that memory that is not needed is given back, after a job has
// gone.
func (s *Shard) scheduleSpares() {
	if sp := &s.slab.spares; len(sp.list) > maxSpare && sp.due.at == 0 {
		sp.least, sp.due.owner = len(sp.list), sp
		s.schedule(&sp.due, s.now+spareTime)
	}
}

// expire gives back, a step at a time, what was not needed since the last time.
func (s *spares) expire(sh *Shard) int64 {
	n := min(s.least-maxSpare, spareStep)
	if n > 0 {
		for _, c := range s.list[:n] {
			sh.slab.unload(c)
		}
		s.list = slices.Delete(s.list, 0, n)
		if s.least -= n; s.least > maxSpare {
			return sh.now + 1 // there is more, for the next turn
		}
	}
	if len(s.list) <= maxSpare {
		return 0
	}
	s.least = len(s.list)
	return sh.now + spareTime
}
