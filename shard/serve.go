package shard

import "github.com/sheafq/sheaf/binlog"

// serve does what one request asks for and answers it, or reports that it is not
// finished: then it is to be served again, as the first of its chain.
func (s *Shard) serve(r *Request) (unfinished bool) {
	c := r.Client
	if r.Op <= PauseTube {
		if c.queued {
			return false // an earlier reserve of the chain waits: r stays Unserved
		}
		if r.seq != 0 && c.aborted == r.seq {
			// Nor does anything take effect behind an aborted command of the chain,
			// whose client is told no more.
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
	s.logged, s.lacks = false, false
	switch r.Op {
	case Put:
		s.put(r)
	case Reserve, ReserveTimeout, Grab:
		if s.reserve(r) {
			return false
		}
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
		s.found(r, r.Tube.ready.top())
	case PeekDelayed:
		s.found(r, r.Tube.delayed.top())
	case PeekBuried:
		s.found(r, r.Tube.buried.head)
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
		s.ending, s.stalls.news = true, true
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
		s.stalls.news = true
	case tubeBorn:
		s.roster.add(r.Name)
	case tubeGone:
		s.roster.remove(r.Name)
	case prepared: // the end of the batch goes on there
		s.stalls.news = true
	case stop:
		s.ending = true
		s.tryAgain()
		for len(s.unfinished) > 0 {
			s.goOn()
		}
		s.ended = true
	}
	switch r.Op {
	case ReserveJob, Release, Bury, KickJob, Report:
		if s.roomComes() {
			s.served[r.Op]-- // it is served once more
			unfinished = true
		}
	}
	if unfinished {
		return true
	}
	if r.Status == Aborted && r.Op != Grab {
		c.aborted = r.seq
	}
	if (s.logged || r.progress != nil) && s.awaits(r.Op) {
		s.held.changed = append(s.held.changed, r)
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

// found answers with j.
func (s *Shard) found(r *Request, j *job) {
	if j == nil {
		r.Status = NotFound
		return
	}
	r.ID, r.Body = j.id, s.bodyFor(j, r.Client.waiter)
}

func (s *Shard) put(r *Request) {
	draining := s.cfg.Draining.Load()
	switch {
	case s.failed:
		r.Status = Failed
		return
	case !s.fits(len(r.Body), 0):
		r.Status = OutOfMemory
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
		r.Status = OutOfMemory
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

// idRun is for how many puts at most ids are taken in one go.
const idRun = 64

// takeID gives a put its id, and the puts that are served next, one behind the
// other, theirs: all shards write what ids come from, so that is done seldom. But
// not where a put may be refused, since then it takes none.
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

// jobCommand does a command by id. It reports false if j is not in a state for
// it. Where the log stands against the command, it answers itself.
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
		s.remove(j)
		if j.tasked != 0 {
			kind := Fail // it was called off
			if mine {
				kind = Complete
			}
			s.finish(j, kind, nil)
		}
		s.tubeOf(j).deletes++
		s.discard(j)
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
		// The client is called at the old deadline, which was earlier, at the latest.
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
		r.Body = s.bodyFor(j, r.Client.waiter)
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
		// Counters may give way on a full disk; that a job is not buried any more,
		// or not delayed, may not.
		return
	}
	s.revive(j)
	s.remove(j)
	s.makeReserved(j, r.Client)
	r.Body = s.bodyFor(j, r.Client.waiter)
}

// release serves Release for a job that the client has.
func (s *Shard) release(r *Request, j *job) {
	if s.refused(r) {
		return
	}
	s.remove(j)
	if !s.comesAgain(j) {
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
	if j.foreground && !s.keep(r, j, s.taskOf(j)) {
		return
	}
	s.remove(j)
	s.finish(j, Fail, nil)
	j.pri = r.Pri
	s.makeBuried(j)
}

func (s *Shard) use(c *Client, name string) *Tube {
	t := s.tube(name)
	t.using++
	c.using = t
	return t
}

func (s *Shard) unuse(c *Client, t *Tube) {
	t.using--
	if c.using == t {
		c.using = nil
	}
	s.drop(t)
}

func (s *Shard) watch(c *Client, name string) *Tube {
	t := s.tube(name)
	s.newWatch(c, t)
	return t
}

func (s *Shard) newWatch(c *Client, t *Tube) *watch {
	w := &watch{client: c, tube: t}
	c.addWatch(w)
	t.watching++
	if c.waiter.inbox != nil {
		t.function.workers++
	}
	if c.dozing {
		t.function.sleepers.append(w)
	}
	return w
}

func (s *Shard) ignore(c *Client, t *Tube) {
	s.unwatch(c.watchOn(t))
}

// unwatch ends a watch.
func (s *Shard) unwatch(w *watch) {
	c, t := w.client, w.tube
	if c.waiter.inbox != nil {
		t.function.workers--
	}
	if c.dozing {
		t.function.sleepers.remove(w)
	}
	c.removeWatch(w)
	t.watching--
	s.drop(t)
}

// giveBack makes the jobs that a client holds ready again, in the order in which
// it had reserved them, and ends its wait. It does a step of that, and reports
// whether there is more to do.
func (s *Shard) giveBack(c *Client) (more bool) {
	s.leave(c)
	for range stepJobs {
		j := c.heldList.head
		if j == nil || s.filled() {
			break
		}
		s.unreserve(j)
		s.giveUp(j)
	}
	return c.heldList.head != nil
}

// detach forgets a client. It leaves its tubes in the order of the reference,
// which the list of tubes shows: always the first of the watch list, whose
// place the last one takes, and at the end the one that it uses. What it has
// and nobody but itself waits for is nobody's any more. It does a step of that,
// and reports whether there is more to do.
func (s *Shard) detach(c *Client) (more bool) {
	if s.deafen(c) || s.giveBack(c) {
		return true
	}
	for len(c.watches) > 0 {
		s.unwatch(c.watches[0])
	}
	if c.using != nil {
		s.unuse(c, c.using)
	}
	s.unschedule(&c.due)
	s.holders.remove(c.number)
	c.number = 0
	return false
}
