package shard

// Gearman's workers: how they sleep until there is a job, what they report of the
// one they have, and what becomes of it when they give it back.

// grabDeadline sets the deadline of a job that c, a Gearman worker, gets now: the end of
// its TTR if beanstalkd's put has put it, or of the timeout that the worker has named for
// the function, whichever comes first. It returns the job's place among those held.
func (s *Shard) grabDeadline(j *job, c *Client) key {
	at := int64(noDeadline)
	if j.tasked == 0 {
		at = s.now + int64(j.ttr)*second
	}
	if w := c.watchOn(s.tubeOf(j)); w != nil && w.timeout != 0 {
		if end := s.now + int64(w.timeout)*second; end <= at {
			at, j.fails = end, true
		} else {
			c.note(j).end = end
		}
	}
	return s.deadlineAt(j, at)
}

// heldBy returns the job with that id if c has it, else nil.
func (s *Shard) heldBy(c *Client, id uint64) *job {
	if j := s.job(id); j != nil && j.state == reserved && s.holderOf(j) == c {
		return j
	}
	return nil
}

// report serves Report: what a worker says of a job that it has.
func (s *Shard) report(r *Request) {
	j := s.heldBy(r.Client, r.ID)
	if j == nil {
		r.Status = NotFound
		return
	}
	task := s.taskOf(j)
	switch kind := EventKind(r.N); kind {
	case Data, Warning, Progress:
		if task != nil {
			if kind == Progress {
				task.done, task.total = r.Pri, r.Delay
			}
			s.tell(j, task, Event{Kind: kind, Data: r.Body})
			s.effort += eventEffort * int(task.listeners)
			return
		}
		if kind == Progress {
			n := r.Client.note(j)
			n.done, n.total = r.Pri, r.Delay
		}
		if !j.fails { // the worker is alive: a report is a touch
			at := s.now + int64(j.ttr)*second
			if n := r.Client.notes[j]; n != nil && n.end != 0 && n.end <= at {
				at, j.fails = n.end, true
			}
			r.Client.held.fix(s.deadlineAt(j, at), j)
		}
	case Complete:
		if s.failed && s.logs(j) {
			r.Status = Failed
			return
		}
		s.deleteJob(j, Complete, r.Body)
	case Fail, Exception:
		if task == nil && !j.foreground {
			if s.refused(r) {
				return
			}
		} else if s.failed && s.logs(j) {
			r.Status = Failed
			return
		}
		s.fail(j, kind, r.Body)
	}
}

// fail ends j, which a worker has, as failed: a job that Gearman submitted is discarded,
// one of beanstalkd's put is buried, unless it was cancelled.
func (s *Shard) fail(j *job, kind EventKind, data []byte) {
	s.remove(j)
	if j.tasked != 0 || j.foreground {
		s.finish(j, kind, data)
		s.discard(j)
		return
	}
	s.makeBuried(j)
}

// prepareRetry makes j, which a client has had and which is in no state, fit for another
// client. If it is abandoned it is discarded instead, and prepareRetry reports false.
func (s *Shard) prepareRetry(j *job) bool {
	task := s.taskOf(j)
	if s.failed && task != nil && task.listeners > 0 {
		s.finish(j, Fail, nil) // nobody will get it
	}
	if s.abandoned(j) {
		s.discard(j)
		return false
	}
	if task == nil {
		return true
	}
	task.retries++
	task.done, task.total = 0, 0
	return true
}

// requeue makes j, which a client has had and which is in no state, ready again, unless
// it is abandoned.
func (s *Shard) requeue(j *job) {
	if s.prepareRetry(j) {
		s.makeReady(j)
	}
}

// canDo serves CanDo. It does not look at the client's other functions, of which there
// may be many: if one of them has a job, the client does not doze, or has been told.
func (s *Shard) canDo(r *Request) {
	c := r.Client
	t := s.tube(r.Name)
	t.asFunction()
	r.Tube = t
	w := c.watchOn(t)
	if w == nil {
		w = s.newWatch(c, t)
	}
	w.timeout = r.TTR
	switch {
	case r.N == 0:
	case t.ready.len() > 0 && !t.paused() && !s.failed && !s.ending:
		s.send(c, &Event{Kind: Wake}, false)
	case len(c.watches) == 1: // it could not doze on this shard before
		s.startDozing(c)
	}
}

// doze serves Doze: unless there is a job in one of the tubes that the client watches,
// an event tells it when there is.
func (s *Shard) doze(r *Request) {
	c := r.Client
	if s.hasJobFor(c) {
		return
	}
	r.Status = NotFound
	s.startDozing(c)
}

// hasJobFor tells whether c would be given a job if it asked. Nobody is given one once
// the log has failed or the server goes down.
func (s *Shard) hasJobFor(c *Client) bool { return c.best() != nil && !s.failed && !s.ending }

// startDozing enters c among the sleepers of the tubes that it watches, to be told of
// the next job there.
func (s *Shard) startDozing(c *Client) {
	if !c.dozing {
		c.dozing = true
		for _, w := range c.watches {
			w.tube.function.sleepers.append(w)
		}
	}
}

// stopDozing ends what startDozing began.
func (s *Shard) stopDozing(c *Client) {
	if c.dozing {
		c.dozing = false
		for _, w := range c.watches {
			w.tube.function.sleepers.remove(w)
		}
	}
}

// wakeSleepers tells the workers that doze until there is a job in t that there is one.
// It tells all of them, as gearmand does, since one alone might never come for it.
func (s *Shard) wakeSleepers(t *Tube) {
	if t.function == nil || t.paused() || s.failed || s.ending {
		return
	}
	for w := t.function.sleepers.head; w != nil; w = t.function.sleepers.head {
		s.stopDozing(w.client)
		s.send(w.client, &Event{Kind: Wake}, false)
	}
}
