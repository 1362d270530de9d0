package router

import (
	"slices"

	"github.com/sheafq/sheaf/shard"
)

// New returns a blank request for Queue. It is valid until Await returns nil, so the
// caller can deal with its answer before it calls Await again.
func (c *Client) New(op shard.Op) *shard.Request {
	r := c.next()
	*r = shard.Request{Op: op}
	return r
}

// Queue queues a request from New, to be answered by Await after those queued before it.
// It reports false, and does not queue it, if the request has to wait until those are
// answered: call QueueAfter then.
//
// A request with Op None stands for a command that has its answer; it is
// queued for its place among the others.
func (c *Client) Queue(r *shard.Request) bool {
	if c.many || c.Full() {
		c.undo()
		return false
	}
	target, ok := c.route(r)
	if !ok || target >= 0 && c.target >= 0 && int32(target) != c.target {
		c.undo()
		return false
	}
	if target >= 0 {
		c.target = int32(target)
		r.Client = c.seat(target).client
	}
	c.queue = append(c.queue, r)
	return true
}

// Full tells whether as many requests are queued as Queue takes.
func (c *Client) Full() bool { return len(c.queue)-c.head >= maxRun }

// QueueAfter queues a request that Queue has refused, after it has called flush, which
// awaits all that is queued and deals with the answers. If flush reports false the client
// is about to be closed, and the request is dropped.
func (c *Client) QueueAfter(flush func() bool, r *shard.Request) {
	again := *r
	if len(r.Body) <= shard.Inline {
		again.Body = slices.Clone(r.Body) // flush ends what the Waiter keeps
	}
	if !flush() {
		return
	}
	r = c.New(again.Op)
	*r = again
	c.Queue(r) // the queue is empty: it takes anything
}

// route finds the shard for a request, and fills in what depends on that: -1 if the
// request needs no single shard. It reports false if the request has to wait until what
// is queued is answered.
func (c *Client) route(r *shard.Request) (target int, ok bool) {
	switch r.Op {
	case shard.None:
		return -1, true
	case shard.Put, shard.PeekReady, shard.PeekDelayed, shard.PeekBuried, shard.Kick:
		r.Tube = c.used
		return r.Tube.Shard, true
	case shard.StatsTube, shard.PauseTube, shard.Submit:
		return c.router.shardOf(r.Name), true
	case shard.Reserve, shard.ReserveTimeout, shard.Grab:
		c.dozing = false
		if len(c.watchedSeats) > 1 {
			c.many = !c.pending()
			return -1, c.many
		}
		s := c.watchedSeats[0]
		if len(c.seats) > 1 {
			// Nothing is posted to other shards, so what is known of their deadlines
			// holds until then.
			if c.stale() {
				if c.pending() {
					return -1, false
				}
				c.refreshSoonest()
			}
			r.Soonest = c.soonestBut(s)
		}
		return s.index, true
	}
	// A command by id.
	if target = c.router.directory.Lookup(r.ID); target >= 0 {
		return target, true
	}
	if c.target >= 0 {
		// The job may come to be before the command's turn: by a put that is queued, or
		// by another client's while a queued reserve waits.
		return -1, false
	}
	c.Count(r.Op)
	r.Op, r.Status = shard.None, shard.NotFound
	return -1, true
}

// pending tells whether anything is queued.
func (c *Client) pending() bool { return c.head < len(c.queue) }

// Waiting tells whether the next answer will be that of a reserve that waits.
func (c *Client) Waiting() bool { return c.waiting }

// Blocking tells whether all that is queued is a single reserve, so that Await with quiet
// may block for as long as that waits.
func (c *Client) Blocking() bool {
	return len(c.queue)-c.head == 1 && isReserve(c.queue[c.head])
}

func isReserve(r *shard.Request) bool {
	return r.Op == shard.Reserve || r.Op == shard.ReserveTimeout || r.Op == shard.Grab && r.Timeout != 0
}

// Await returns requests that have been answered, in the order in which they
// were queued: none or more, and nil when nothing is queued. It posts what has
// not been posted and blocks until it is answered.
//
// If a reserve has to wait, Await first returns what was answered before it, maybe
// nothing, and Waiting is true. The caller sends those answers to the other side before
// it calls Await again, which blocks until the wait is over. With quiet the caller says
// that the other side has all answers already: a single reserve may wait at once.
func (c *Client) Await(quiet bool) []*shard.Request {
	q := c.queue[c.head:]
	if len(q) == 0 {
		c.clear()
		return nil
	}
	switch {
	case c.waiting:
		c.head = c.thin(c.head)
		c.wait(c.queue[c.head])
		return c.answer(1)
	case c.many:
		if !c.reserveMany(q[0]) {
			c.waiting = true
			if !quiet {
				return q[:0]
			}
			c.wait(q[0])
		}
		return c.answer(1)
	case c.target < 0:
		return c.answer(len(q))
	}
	c.chain = c.chain[:0]
	for _, r := range q {
		if r.Op != shard.None {
			c.chain = append(c.chain, r)
		}
	}
	if len(c.chain) == 0 {
		return c.answer(len(q)) // after a wait only commands with an answer may be left
	}
	s := c.seat(int(c.target))
	c.refreshReserves(s)
	c.waiter.Begin(c.interruption.Load() == 0)
	c.waiter.Expect(1)
	if quiet && len(q) == 1 && isReserve(q[0]) {
		q[0].Quiet = true
		s.shard.Post(c.chain)
		c.waitQuietly(s, q[0])
		return c.answer(1)
	}
	s.shard.Post(c.chain)
	c.answered()
	for i, r := range q {
		switch {
		case r.Op == shard.None:
		case r.Status == shard.Unserved:
			return c.answer(i)
		case r.Status == shard.Waiting:
			c.waiting = true
			return c.answer(i)
		default:
			s.soonest = r.Soonest
			c.markAborted(r)
		}
	}
	return c.answer(len(q))
}

// refreshReserves updates the deadlines on other shards in the reserves of a chain for
// shard s. After a wait, the rest of the queue may carry the deadline of a job on another
// shard whose TTR has run out since.
func (c *Client) refreshReserves(s *seat) {
	if c.head == 0 || len(c.seats) == 1 || !c.stale() {
		return
	}
	c.refreshSoonest()
	for _, r := range c.chain {
		if isReserve(r) {
			r.Soonest = c.soonestBut(s)
		}
	}
}

// answer takes n requests, which are answered, off the queue.
func (c *Client) answer(n int) []*shard.Request {
	done := c.queue[c.head : c.head+n]
	c.head += n
	return done
}

// clear prepares for the next commands when all that was queued is answered.
func (c *Client) clear() {
	c.head = 0
	c.target, c.many = -1, false
	c.reset()
	c.waiter.Drop()
}

// Rest gives back the memory for requests, since the client may be idle for long. No
// request from New is valid then. The queue must be empty.
func (c *Client) Rest() { c.rest() }

// wait blocks until the reserve r, which is known to wait, is answered.
func (c *Client) wait(r *shard.Request) {
	for !c.waitEnded(r) {
		c.waiter.Sleep()
	}
	c.waiting = false
}

// waitQuietly blocks until the reserve r, which may wait, is answered.
func (c *Client) waitQuietly(s *seat, r *shard.Request) {
	for !c.waiter.Answered() {
		if c.waitEnded(r) {
			return
		}
		c.waiter.Sleep()
	}
	s.soonest = r.Soonest
	c.markAborted(r)
}

// waitEnded tells whether the wait of r is answered, by a shard or by an interruption, and
// fills in the answer.
func (c *Client) waitEnded(r *shard.Request) bool {
	return c.granted(r) || c.interruption.Load() != 0 && c.cancel(r)
}

// granted fills in the answer of a wait, if there is one.
func (c *Client) granted(r *shard.Request) bool {
	g, ok := c.waiter.Granted()
	if !ok {
		return false
	}
	r.Status, r.ID, r.Body = g.Status, g.ID, g.Body
	r.Tube, r.Task = g.Tube, g.Task
	g.Body, g.Tube, g.Task = nil, nil, nil
	c.seat(int(g.Shard)).soonest = g.Soonest
	if c.many {
		for _, s := range c.watchedSeats {
			if s.index != int(g.Shard) {
				c.sendCancel(s)
			}
		}
	}
	return true
}

// cancel ends a wait because of an interruption. It reports false if the wait is answered
// already, or has not begun; then the answer comes by itself.
func (c *Client) cancel(r *shard.Request) bool {
	if !c.waiter.Cancel() {
		return false
	}
	for _, s := range c.watchedSeats { // only one, unless c.many
		c.sendCancel(s)
	}
	r.Status = shard.TimedOut
	c.markAborted(r)
	return true
}

// markAborted turns TimedOut into Aborted if it was Abort that ended the wait.
func (c *Client) markAborted(r *shard.Request) {
	if r.Status == shard.TimedOut && c.interruption.Load() == aborted && !r.Polls() {
		r.Status = shard.Aborted
	}
}
