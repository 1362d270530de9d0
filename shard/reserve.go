package shard

// reserve serves a reserve on this shard alone. It reports true if r waits: r may be the
// client's again already then, and must not even be read.
func (s *Shard) reserve(r *Request) (waits bool) {
	c := r.Client
	if s.failed {
		r.Status = Failed
		return false
	}
	if s.ending && !(r.Polls() && c.best() == nil) {
		r.Status = Aborted
		return false
	}
	if c.dozing {
		s.stopDozing(c)
	}
	s.effort += len(c.watches)
	if j := c.best(); j != nil {
		if s.reserveWaits(j) {
			return false
		}
		s.unready(j)
		s.makeReserved(j, c)
		s.answerReserved(r, j)
		return false
	}
	if at := c.soon(r.Soonest); at != 0 && at <= s.now {
		r.Status = DeadlineSoon
		return false
	}
	if r.Timeout == 0 {
		r.Status = TimedOut
		return false
	}
	s.enqueue(c, r)
	s.countWaiting(c, r)
	// r is read and written before its claim can be cancelled: a client that has
	// nothing else posted may take it back from that moment on.
	quiet, op := r.Quiet, r.Op
	r.Status = Waiting
	if !c.waiter.move(r.seq, open, waiting) {
		r.Status = TimedOut // the client has hung up, or asked not to wait
		s.leave(c)
		return false
	}
	if !quiet {
		s.answer(c.waiter, op)
	}
	s.effort, c.given = 0, 0 // nothing behind it in the chain is served
	return true
}

// answerReserved answers r with j, which the client has now.
func (s *Shard) answerReserved(r *Request, j *job) {
	r.ID, r.Body = j.id, s.bodyInAnswer(r, j)
	if r.Client.waiter.inbox != nil {
		r.Tube, r.Task = s.tubeOf(j), s.taskOf(j)
	}
}

// enqueue enters c into the queue of each tube that it watches here.
func (s *Shard) enqueue(c *Client, r *Request) {
	c.seq = r.seq
	c.queued = true
	c.timeoutAt, c.soonestElsewhere = 0, 0
	for _, w := range c.watches {
		w.tube.waiters.append(w)
	}
	s.queued += len(c.watches)
	if at := c.soon(0); at != 0 {
		s.schedule(&c.due, at)
	}
}

// countWaiting makes this shard, of all that c is queued on, the one that counts it as
// waiting and ends its wait in time.
func (s *Shard) countWaiting(c *Client, r *Request) {
	c.counted, c.countedAt = true, int32(len(s.waitingClients))
	s.waitingClients = append(s.waitingClients, c)
	if r.Timeout > 0 {
		c.timeoutAt = s.now + r.Timeout
	}
	c.soonestElsewhere = r.Soonest
	if at := earlier(c.timeoutAt, c.soon(c.soonestElsewhere)); at != 0 {
		s.schedule(&c.due, at)
	}
}

// leave ends what enqueue and observe began. It does nothing if they did not.
func (s *Shard) leave(c *Client) {
	if c.queued {
		c.queued = false
		for _, w := range c.watches {
			w.tube.waiters.remove(w)
		}
		s.queued -= len(c.watches)
		if c.counted {
			c.counted = false
			last := len(s.waitingClients) - 1
			s.waitingClients[c.countedAt] = s.waitingClients[last]
			s.waitingClients[c.countedAt].countedAt = c.countedAt
			s.waitingClients[last] = nil
			s.waitingClients = s.waitingClients[:last]
		}
	}
	if c.observing {
		s.forgetObserver(c)
	}
}

// offer gives the ready jobs of t to the clients that wait for them, as far as both go.
func (s *Shard) offer(t *Tube) {
	if t.paused() || s.failed || s.ending {
		return
	}
	for w := t.waiters.head; w != nil; w = t.waiters.head {
		j := t.ready.top()
		if j == nil {
			return
		}
		c := w.client
		if c.waiter.claim(c.seq) {
			s.unready(j)
			s.makeReserved(j, c)
			g := Grant{Status: OK, ID: j.id, Body: s.bodyFor(j, c.waiter)}
			if c.waiter.inbox != nil {
				g.Tube, g.Task = t, s.taskOf(j)
			}
			s.grant(c, g)
			continue
		}
		// It was still probing, is dirty now, and asks again: then it finds the job if
		// that is still there. Or its wait is over already.
		s.leave(c)
	}
}

// endWait ends the wait of c, which is queued here, without a job.
func (s *Shard) endWait(c *Client, status Status) {
	if c.waiter.claim(c.seq) {
		s.grant(c, Grant{Status: status})
		return
	}
	// As in offer. A client that asks again learns then that its time is over.
	s.leave(c)
}

// endWaits ends the waits of all clients that are queued here without a job.
func (s *Shard) endWaits(status Status) {
	for _, t := range s.tubes {
		for w := t.waiters.head; w != nil; w = t.waiters.head {
			s.endWait(w.client, status)
		}
	}
}

// grant answers a wait whose claim this shard has won. The client learns of it
// at the end of the batch.
func (s *Shard) grant(c *Client, g Grant) {
	s.leave(c)
	g.Shard = int32(s.cfg.Index)
	g.Soonest = c.soonest()
	c.waiter.grant = g
	s.outbox.granted = append(s.outbox.granted, c.waiter)
}

// probe answers a client that reserves over several shards with the best job
// here, and remembers which that was: if a better one becomes ready before the
// client has taken a job, its claim becomes dirty. A client that finds nothing
// is entered into the queues at once if it is willing to wait, since most
// likely there is nothing on the other shards either.
func (s *Shard) probe(r *Request) {
	c := r.Client
	s.served[r.N]++
	s.leave(c) // a stale registration
	if c.dozing {
		s.stopDozing(c)
	}
	c.seq = r.seq
	if s.failed {
		r.Status = Failed
		return
	}
	if s.ending && (r.Timeout != 0 || c.best() != nil) {
		r.Status = Aborted
		return
	}
	if j := c.best(); j != nil {
		r.Pri, r.ID = j.pri, j.id
		s.observe(c, j.readyKey())
		return
	}
	r.Status = NotFound
	if r.Timeout == 0 {
		s.observe(c, worst)
		return
	}
	s.enqueue(c, r)
	if r.Primary {
		s.countWaiting(c, r)
	}
}

// takeBest reserves the best job here for a client that has probed several shards, if
// two things hold: the job is no worse than the best of the other shards, which the
// client gives in Pri and ID; and the claim is clean, so no other shard has got a better
// job than it told. At that moment the job is the best of all, which is what makes a
// reserve over several shards linearizable. Otherwise the answer is Retry, with the best
// job here, if any, in Pri and ID.
func (s *Shard) takeBest(r *Request) {
	c := r.Client
	if !c.waiter.is(r.seq, probing) {
		r.Status, r.Pri, r.ID = Retry, 0, 0
		return
	}
	switch j, bound := c.best(), (key{uint64(r.Pri), r.ID}); {
	case j == nil || s.failed || s.ending:
		r.Status, r.Pri, r.ID = Retry, 0, 0
		c.told = worst
	case bound.less(j.readyKey()):
		r.Status, r.Pri, r.ID = Retry, j.pri, j.id
		c.told = j.readyKey()
	case s.reserveWaits(j): // r is served once more, and may still be answered by Retry
	default:
		s.leave(c)
		s.unready(j)
		s.makeReserved(j, c)
		r.Status, r.Pri = OK, j.pri
		s.answerReserved(r, j)
	}
}

// observe remembers that c, which probes, was told of a job with that key.
func (s *Shard) observe(c *Client, told key) {
	c.told = told
	c.observing, c.observerAt = true, int32(len(s.observers))
	s.observers = append(s.observers, c)
}

func (s *Shard) forgetObserver(c *Client) {
	last := len(s.observers) - 1
	moved := s.observers[last]
	s.observers[c.observerAt] = moved
	moved.observerAt = c.observerAt
	s.observers[last] = nil
	s.observers = s.observers[:last]
	c.observing = false
}

// tellObservers makes dirty the claims of the clients that watch t and were told of a
// worse job than the one with key k, which has become ready in t: they ask again. It also
// forgets clients that have settled, which do not say so themselves, since that would
// cost a message for each reserve.
func (s *Shard) tellObservers(t *Tube, k key) {
	for i := len(s.observers) - 1; i >= 0; i-- {
		c := s.observers[i]
		if !c.waiter.is(c.seq, probing) {
			s.forgetObserver(c)
			continue
		}
		if k.less(c.told) && c.watchOn(t) != nil {
			c.waiter.move(c.seq, probing, dirty)
			s.forgetObserver(c)
		}
	}
}
