package shard

import "github.com/sheafq/sheaf/binlog"

// The commands that put a job, and those that name one by its id.

// put serves Put.
func (s *Shard) put(r *Request) {
	draining := s.cfg.Draining.Load()
	switch {
	case s.failed:
		r.Status = Failed
		return
	case !s.fits(len(r.Body), 0):
		s.lacksMemory(r, OverCap)
		return
	case s.log != nil && !draining && !s.log.FitsPut(binlog.MostPut(len(r.Tube.Name), len(r.Body), 0)):
		s.noRoom(r)
		return
	}
	if r.ID == 0 {
		s.takeID(r)
	}
	if draining {
		r.Status = Draining
		return
	}
	j := s.newJob(r)
	if j == nil {
		s.lacksMemory(r, NoMemory)
		return
	}
	if j.delay > 0 {
		s.logPut(j, binlog.Delayed, s.now+int64(j.delay)*second)
		s.makeDelayed(j)
	} else {
		s.logPut(j, binlog.Ready, 0)
		s.makeReady(j)
	}
}

// idRun is for how many puts ids are taken in one go, at most.
const idRun = 64

// takeID gives a put its id, and notes in N the ids of the puts that are served right
// behind it. All shards write the counter of ids, so it is better written once for many.
// Where a put may be refused it takes no id, so each takes its own there.
func (s *Shard) takeID(r *Request) {
	if r.N == 0 {
		n := uint64(1)
		if s.log == nil && s.memory.max == 0 {
			for q := s.following; q != nil && q.Op == Put && q.ID == 0 && n < idRun; q = q.next {
				n++
			}
		}
		id := s.cfg.Directory.nextIDs(n)
		r.N = id
		for q := s.following; n > 1; q, n = q.next, n-1 {
			id++
			q.N = id
		}
	}
	r.ID, r.Created, r.N = r.N, s.now, 0
}

// jobCommand serves a command by id. It reports false if j is not in a state for it.
// If the log cannot take the change, it sets r's status itself and reports true.
func (s *Shard) jobCommand(r *Request, j *job) bool {
	mine := j.state == reserved && s.holderOf(j) == r.Client
	switch r.Op {
	case Delete:
		if j.state == reserved && !mine {
			return false
		}
		if s.failed {
			r.Status = Failed
			return true
		}
		kind := Fail // called off
		if mine {
			kind = Complete
		}
		s.deleteJob(j, kind, nil)
	case Release:
		if !mine {
			return false
		}
		s.release(r, j)
	case Bury:
		if !mine {
			return false
		}
		s.bury(r, j)
	case Touch:
		if !mine {
			return false
		}
		// No need to schedule r.Client.due: it fires at the old deadline, which is earlier.
		r.Client.held.fix(s.deadline(j, j.ttr), j)
	case ReserveJob:
		if j.state == reserved {
			return false
		}
		s.reserveJob(r, j)
	case KickJob:
		if j.state != buried && j.state != delayed {
			return false
		}
		if !s.refused(r) {
			s.kick(j)
		}
	case StatsJob:
		r.Job = s.jobStats(j)
	case Peek:
		r.Body = s.bodyInAnswer(r, j)
	}
	return true
}

// reserveJob serves ReserveJob for a job that no client has.
func (s *Shard) reserveJob(r *Request, j *job) {
	switch {
	case s.ending:
		r.Status = Aborted
		return
	case s.failed:
		r.Status = Failed
		return
	case j.state != ready && s.refused(r):
		return
	case j.state == ready && s.reserveWaits(j):
		return
	}
	s.reclaimKey(j)
	s.remove(j)
	s.makeReserved(j, r.Client)
	r.Body = s.bodyInAnswer(r, j)
}

// release serves Release for a job that the client has.
func (s *Shard) release(r *Request, j *job) {
	if s.refused(r) {
		return
	}
	s.remove(j)
	if !s.prepareRetry(j) {
		return
	}
	j.pri, j.delay = r.Pri, r.Delay
	j.releases++
	if j.delay > 0 {
		s.logChange(j, binlog.Delayed, s.now+int64(j.delay)*second)
		s.makeDelayed(j)
	} else {
		s.logChange(j, binlog.Ready, 0)
		s.makeReady(j)
	}
}

// bury serves Bury for a job that the client has.
func (s *Shard) bury(r *Request, j *job) {
	if s.refused(r) {
		return
	}
	if s.abandoned(j) {
		s.fail(j, Fail, nil)
		return
	}
	if j.foreground && !s.makeBackground(r, j, s.taskOf(j)) {
		return
	}
	s.remove(j)
	s.finish(j, Fail, nil)
	j.pri = r.Pri
	s.makeBuried(j)
}
