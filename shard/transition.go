package shard

import (
	"iter"

	"github.com/sheafq/sheaf/binlog"
)

// A job's life. Each function here puts a job into one state or takes it out
// of one, with all that is counted and scheduled for it:
//
//	        put                 reserve
//	─────────┬──────▶ ready ──────────────▶ reserved ──────▶ deleted
//	  delay  │          ▲ ▲                  │ │ │
//	         ▼          │ └─release, TTR,────┘ │ │
//	      delayed ──────┘   gone client        │ │
//	         ▲   run out, kick                 │ │
//	         └────────────release with delay───┘ │
//	      buried ──kick──▶ ready                 │
//	         ▲──────────────────bury─────────────┘
//
// A job in any state can be deleted, and reserved by id.

// makeReady puts j, which is in no state, among the ready jobs of its tube,
// and serves a client that waits for it.
func (s *Shard) makeReady(j *job) {
	t := s.tubeOf(j)
	j.state = ready
	t.ready.push(j.readyKey(), j)
	s.ready++
	if j.pri < urgentPri {
		s.urgent++
		t.urgent++
	} else if j.pri == PriLow {
		t.low++
	}
	s.offer(t)
	if j.state != ready || t.paused() {
		return
	}
	if len(s.observers) > 0 {
		s.tellObservers(t, j.readyKey())
	}
	if t.function != nil {
		s.wakeSleepers(t)
	}
}

func (s *Shard) unready(j *job) {
	t := s.tubeOf(j)
	t.ready.remove(j)
	s.ready--
	if j.pri < urgentPri {
		s.urgent--
		t.urgent--
	} else if j.pri == PriLow {
		t.low--
	}
}

// makeDelayed puts j, which is in no state, among the delayed jobs of its tube
// for j.delay seconds.
func (s *Shard) makeDelayed(j *job) { s.makeDelayedUntil(j, s.now+int64(j.delay)*second) }

func (s *Shard) makeDelayedUntil(j *job, at int64) {
	t := s.tubeOf(j)
	j.state = delayed
	t.delayed.push(s.deadlineAt(j, at), j)
	t.later[bandOf(j.pri)]++
	s.delayed++
	s.schedule(&t.due, j.at)
}

func (s *Shard) undelay(j *job) {
	t := s.tubeOf(j)
	t.delayed.remove(j)
	t.later[bandOf(j.pri)]--
	s.delayed--
}

// makeReserved gives j, which is in no state, to a client for its TTR.
func (s *Shard) makeReserved(j *job, c *Client) {
	j.state = reserved
	j.reserves++
	s.logChange(j, binlog.Ready, 0)
	if c.number == 0 {
		c.number = s.holders.add(c)
	}
	j.heldBy = c.number
	if c.waiter.inbox == nil {
		c.held.push(s.deadline(j, j.ttr), j)
	} else {
		c.held.push(s.grabDeadline(j, c), j)
	}
	c.heldList.append(j)
	s.tubeOf(j).reserved++
	s.reserved++
	if j.at != noDeadline {
		s.schedule(&c.due, j.at)
	}
}

func (s *Shard) unreserve(j *job) {
	c := s.holderOf(j)
	c.held.remove(j)
	c.heldList.remove(j)
	j.heldBy, j.fails = 0, false
	delete(c.notes, j)
	s.tubeOf(j).reserved--
	s.reserved--
}

// makeBuried puts j, which is in no state, behind the buried jobs of its tube.
func (s *Shard) makeBuried(j *job) {
	j.state = buried
	j.buries++
	s.burials++
	j.at = int64(s.burials)
	s.logChange(j, binlog.Buried, j.at)
	s.tubeOf(j).buried.append(j)
	s.buried++
}

func (s *Shard) unbury(j *job) {
	s.tubeOf(j).buried.remove(j)
	s.buried--
}

// reclaimKey gives j, which is about to leave its state, its unique again if it is
// buried.
func (s *Shard) reclaimKey(j *job) {
	if j.state == buried && j.tasked != 0 {
		s.claimKey(j, s.taskOf(j))
	}
}

// remove takes j out of the state that it is in.
func (s *Shard) remove(j *job) {
	switch j.state {
	case ready:
		s.unready(j)
	case delayed:
		s.undelay(j)
	case reserved:
		s.unreserve(j)
	case buried:
		s.unbury(j)
	}
}

// kick makes j, which is buried or delayed, ready.
func (s *Shard) kick(j *job) {
	s.reclaimKey(j)
	s.remove(j)
	j.kicks++
	s.logChange(j, binlog.Ready, 0)
	s.makeReady(j)
}

// deadline sets j's deadline, some seconds from now, and returns its place in a heap of
// deadlines. The clock stands still during a batch; of deadlines at the same time the one
// that was set first comes first.
func (s *Shard) deadline(j *job, seconds uint32) key {
	return s.deadlineAt(j, s.now+int64(seconds)*second)
}

func (s *Shard) deadlineAt(j *job, at int64) key {
	j.at = at
	s.deadlines++
	return key{uint64(j.at), s.deadlines}
}

// job returns the job with that id, nil if it is not on this shard.
func (s *Shard) job(id uint64) *job { return s.cfg.Directory.job(id, s.cfg.Index) }

// all goes through all jobs of the shard. It looks at every page of the directory.
func (s *Shard) all() iter.Seq[*job] { return s.cfg.Directory.all(s.cfg.Index) }

// newJob returns the job of a put, which is counted and entered but in no state yet; nil
// if the system has no memory for it. r has an id and a tube.
func (s *Shard) newJob(r *Request) *job {
	j := s.allot(r.ID, r.Body)
	if j == nil {
		return nil
	}
	t := r.Tube
	j.inTube, j.created, j.pri, j.delay, j.ttr = t.number, r.Created, r.Pri, r.Delay, r.TTR
	s.jobs++
	s.cfg.Directory.enter(j, s.cfg.Index)
	s.memory.charge(footprint(len(r.Body)) + s.moreExcess())
	s.memory.accept()
	s.total++
	t.total++
	t.jobs++
	return j
}

// deleteJob takes j out of its state and discards it, and counts a deletion. The clients
// that wait for it are told of its end.
func (s *Shard) deleteJob(j *job, kind EventKind, data []byte) {
	s.remove(j)
	if j.tasked != 0 { // spares most jobs the calls
		s.finish(j, kind, data)
	}
	s.tubeOf(j).deletes++
	s.discard(j)
}

// discard forgets j, which is in no state.
func (s *Shard) discard(j *job) {
	t := s.tubeOf(j)
	s.logDelete(j)
	if task := s.taskOf(j); task != nil {
		s.forgetKey(j, task)
		s.memory.charge(-task.footprint())
	}
	s.jobs--
	s.cfg.Directory.leave(j.id)
	n := footprint(int(j.size))
	t.jobs--
	s.free(j)
	s.scheduleSpares()
	s.memory.charge(s.moreExcess() - n)
	s.drop(t)
}

// fits tells whether a job with a body of that many bytes, and n bytes beside it, fit
// within the cap on memory.
func (s *Shard) fits(body int, n int64) bool {
	return s.memory.max == 0 || s.memory.fits(footprint(body)+n+s.slab.growth(slotFor(body)))
}

// moreExcess returns by how much the excess has grown since it was counted.
func (s *Shard) moreExcess() int64 {
	was := s.memory.excess
	s.memory.excess = excess(s.slab.unused)
	return s.memory.excess - was
}
