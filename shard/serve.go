package shard

// serve serves one request and answers it; or it reports that the request is
// unfinished, and has to be served again, as the first of its chain.
func (s *Shard) serve(r *Request) (unfinished bool) {
	c := r.Client
	if r.Op <= PauseTube {
		if c.queued {
			return false // an earlier reserve of the chain waits: r stays Unserved
		}
		if r.seq != 0 && c.aborted == r.seq {
			// Nor does anything behind an aborted command of the chain take effect: the
			// client gets no answer to it.
			if r.last {
				s.answer(c.waiter, r.Op)
			}
			return false
		}
		if r.progress == nil && (r.Op != Put || r.ID == 0) {
			s.served[r.Op]++
		}
	}
	r.Status = OK
	s.logged, s.lacksRoom, s.stalls.reserve = false, false, false
	waits, unfinished := s.carryOut(r)
	if waits {
		return false
	}
	switch r.Op {
	case ReserveJob, Release, Bury, KickJob, Report:
		unfinished = s.roomComes()
	}
	if unfinished || s.stalls.reserve {
		if r.Op <= PauseTube && r.progress == nil {
			s.served[r.Op]-- // it is served once more
		}
		return true
	}
	if r.Status == Aborted && r.Op != Grab {
		c.aborted = r.seq
	}
	if (s.logged || r.progress != nil) && s.awaitsLog(r.Op) {
		s.outbox.changed = append(s.outbox.changed, r)
	}
	r.progress = nil
	if c != nil {
		r.Soonest = c.soonest()
		if r.last {
			s.answer(c.waiter, r.Op)
		}
	}
	return false
}

// carryOut does what r asks for, and sets its answer. It reports whether r is a reserve
// that waits, which may be the client's again already, or whether it is unfinished.
func (s *Shard) carryOut(r *Request) (waits, unfinished bool) {
	c := r.Client
	switch r.Op {
	case Put:
		s.put(r)
	case Reserve, ReserveTimeout, Grab:
		waits = s.reserve(r)
	case ReserveJob, Delete, Release, Bury, Touch, Peek, KickJob, StatsJob:
		if j := s.job(r.ID); j == nil || !s.jobCommand(r, j) {
			r.Status = NotFound
		}
	case Submit:
		s.submit(r)
	case Report:
		s.report(r)
	case Inquire:
		s.inquire(r)
	case PeekReady:
		s.answerWith(r, r.Tube.ready.top())
	case PeekDelayed:
		s.answerWith(r, r.Tube.delayed.top())
	case PeekBuried:
		s.answerWith(r, r.Tube.buried.head)
	case Kick:
		unfinished = s.kickSome(r)
	case StatsTube:
		if t := s.tubes[r.Name]; t != nil {
			r.TubeStats = s.tubeStats(t)
		} else {
			r.Status = NotFound
		}
	case PauseTube:
		if t := s.tubes[r.Name]; t != nil {
			s.pause(t, r.Delay)
		} else {
			r.Status = NotFound
		}
	case Use:
		r.Tube = s.use(c, r.Name)
	case Unuse:
		s.unuse(c, r.Tube)
	case Watch:
		r.Tube = s.watch(c, r.Name)
	case Ignore:
		s.ignore(c, r.Tube)
	case Attach:
		r.Tube = s.use(c, r.Name)
		s.watch(c, r.Name)
	case GiveBack:
		unfinished = s.giveBack(c)
	case Detach:
		unfinished = s.detach(c)
	case Probe:
		s.probe(r)
	case Take:
		s.takeBest(r)
	case Cancel:
		s.leave(c)
	case Soonest: // the answer is set below
	case Holds:
		if s.heldBy(r.Client, r.ID) == nil {
			r.Status = NotFound
		}
	case Gather:
		r.Stats = s.stats()
	case EndWaits:
		s.ending, s.stalls.recheck = true, true
		s.endWaits(Aborted)
	case CanDo:
		s.canDo(r)
	case Doze:
		s.doze(r)
	case InquireUnique:
		s.inquireUnique(r)
	case Functions:
		r.Lists = &Lists{Functions: s.functions()}
	case CreateFunction:
		s.tube(r.Name).asFunction()
	case DropFunction:
		unfinished = s.dropFunction(r)
	case LimitFunction:
		s.limitFunction(r)
	case CancelJob:
		s.cancelJob(r)
	case ListJobs:
		s.listJobs(r)
	case Tubes:
		r.Lists = &Lists{Names: s.roster.list()}
	case alarm:
		s.armed = 0 // set again at the end of the batch
		s.ringing.Store(false)
	case failure:
		s.logFailure()
	case clean:
		s.cleanSome(r)
	case cleaned:
		unfinished = s.endCleaning(r)
		s.stalls.recheck = true
	case tubeBorn:
		s.roster.add(r.Name)
	case tubeGone:
		s.roster.remove(r.Name)
	case prepared: // the end of this batch may go on to the next segment, see roll
		s.stalls.recheck = true
	case stop:
		s.ending = true
		s.tryAgain()
		for len(s.unfinished) > 0 {
			s.goOn()
		}
		s.ended = true
	}
	return waits, unfinished
}

// answerWith answers a peek with j, NotFound if it is nil.
func (s *Shard) answerWith(r *Request, j *job) {
	if j == nil {
		r.Status = NotFound
		return
	}
	r.ID, r.Body = j.id, s.bodyInAnswer(r, j)
}

// bodyInAnswer returns j's body for the answer to r, and counts it if it is large.
func (s *Shard) bodyInAnswer(r *Request, j *job) []byte {
	if j.size > uint32(Inline) {
		r.Client.given += int(j.size)
	}
	return s.bodyFor(j, r.Client.waiter)
}
