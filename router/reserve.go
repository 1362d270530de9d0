package router

import (
	"math"

	"github.com/sheafq/sheaf/shard"
)

// offer is the best ready job of a shard, as the shard told it.
type offer struct {
	pri uint32
	id  uint64 // 0 for no job
}

func (o offer) less(p offer) bool {
	return o.id != 0 && (p.id == 0 || o.pri < p.pri || o.pri == p.pri && o.id < p.id)
}

// reserveMany serves a reserve over several shards; the package comment draws how. It
// reports false if the reserve waits: then all watched shards have it in their queues.
func (c *Client) reserveMany(r *shard.Request) (answered bool) {
	count := r.Op
	var timeoutAt int64
	if r.Timeout > 0 {
		timeoutAt = c.router.clock.Now() + r.Timeout
	}
	for ; ; count = shard.None {
		timeout := r.Timeout
		if timeoutAt != 0 {
			timeout = max(0, timeoutAt-c.router.clock.Now())
		}
		c.refreshSoonest()
		soon := c.deadlineSoon()
		if soon || c.interruption.Load() != 0 {
			timeout = 0 // the reserve is not going to wait
		}
		found, failed, ended := c.probe(count, timeout)
		if ended {
			c.waiter.Settle(false)
			r.Status = shard.Aborted
			c.cancelQueued(timeout)
			return true
		}
		for found {
			best, bound := c.bestOffers()
			if best == nil {
				break
			}
			if c.take(best, bound, r) {
				c.waiter.Settle(false) // lets the shards forget what they told
				c.cancelQueued(timeout)
				return true
			}
			if !c.waiter.Clean() {
				break
			}
		}
		if found {
			// The jobs that were told have gone, or a better one has come. It cannot
			// wait yet, since the shards that had a job have not queued the client.
			continue
		}
		status := shard.TimedOut
		if failed {
			// The other shards have nothing, and a wait for those alone would never hear
			// of a job on the failed one.
			status = shard.Failed
		} else if soon || c.deadlineSoon() {
			status = shard.DeadlineSoon
		} else if timeout != 0 {
			if c.waiter.Settle(true) {
				return false
			}
			continue
		}
		if c.waiter.Settle(false) {
			r.Status = status
			c.markAborted(r)
			c.cancelQueued(timeout)
			return true
		}
	}
}

// probe asks all watched shards for their best job, and reports whether there
// is any, whether the log of one of the shards has failed, and whether the
// server goes down. Those that have none enter the client into their queues,
// unless the timeout is 0.
func (c *Client) probe(count shard.Op, timeout int64) (found, failed, ended bool) {
	c.waiter.BeginProbe()
	c.waiter.Expect(len(c.watchedSeats))
	for i, s := range c.watchedSeats {
		if s.probe == nil {
			s.probe = new(shard.Request)
		}
		*s.probe = shard.Request{Op: shard.Probe, Client: s.client, Timeout: timeout}
		if i == 0 {
			s.probe.Primary = true
			s.probe.N = uint64(count)
			s.probe.Soonest = c.soonestBut(s)
		}
		c.single[0] = s.probe
		s.shard.Post(c.single[:])
	}
	c.answered()
	for _, s := range c.watchedSeats {
		s.soonest = s.probe.Soonest
		s.best = offer{}
		switch s.probe.Status {
		case shard.OK:
			s.best = offer{s.probe.Pri, s.probe.ID}
			found = true
		case shard.Failed:
			failed = true
		case shard.Aborted:
			ended = true
		}
	}
	return found, failed, ended
}

// bestOffers returns the seat with the best job, nil if there is none, and the best job
// of the others.
func (c *Client) bestOffers() (best *seat, bound offer) {
	for _, s := range c.watchedSeats {
		switch {
		case best == nil || s.best.less(best.best):
			if best != nil {
				bound = best.best
			}
			best = s
		case s.best.less(bound):
			bound = s.best
		}
	}
	if best.best.id == 0 {
		return nil, offer{}
	}
	return best, bound
}

// take tries to reserve the best job of a shard for r, if it is no worse than bound. It
// reports whether r is answered; if not, s.best is the shard's best job as of now.
func (c *Client) take(s *seat, bound offer, r *shard.Request) bool {
	if bound.id == 0 {
		bound = offer{math.MaxUint32, math.MaxUint64}
	}
	*s.probe = shard.Request{Op: shard.Take, Pri: bound.pri, ID: bound.id}
	c.post(s, s.probe)
	c.answered()
	if s.probe.Status == shard.OK {
		r.Status, r.ID, r.Body = shard.OK, s.probe.ID, s.probe.Body
		r.Tube, r.Task = s.probe.Tube, s.probe.Task
		forget(s.probe)
		s.soonest = s.probe.Soonest
		s.best = offer{s.probe.Pri, s.probe.ID}
		return true
	}
	if s.probe.Status == shard.Failed {
		r.Status, s.best = shard.Failed, offer{}
		return true
	}
	s.best = offer{s.probe.Pri, s.probe.ID}
	return false
}

// cancelQueued tells the shards that have entered the client into their queues
// that it does not wait.
func (c *Client) cancelQueued(timeout int64) {
	if timeout == 0 {
		return // then no shard has
	}
	for _, s := range c.watchedSeats {
		if s.best.id == 0 {
			c.sendCancel(s)
		}
	}
}

// soonestBut returns the soonest deadline among the jobs that the client holds on shards
// other than s, 0 if there is none. s may be nil, for all shards.
func (c *Client) soonestBut(s *seat) int64 {
	var at int64
	for _, o := range c.seats {
		if o != s && o.soonest != 0 && (at == 0 || o.soonest < at) {
			at = o.soonest
		}
	}
	return at
}

// deadlineSoon tells whether a job that the client holds is about to be taken
// back.
func (c *Client) deadlineSoon() bool {
	at := c.soonestBut(nil)
	return at != 0 && at-shard.Margin <= c.router.clock.Now()
}

// stale tells whether the soonest deadline known of some shard has passed. Its job may
// have been taken back since, and the soonest deadline there is unknown then.
func (c *Client) stale() bool {
	at := c.soonestBut(nil)
	return at != 0 && at <= c.router.clock.Now()
}

// refreshSoonest asks the shards whose soonest deadline has passed for the current one.
// Nothing may be posted.
func (c *Client) refreshSoonest() {
	for _, s := range c.seats {
		if s.soonest != 0 && s.soonest <= c.router.clock.Now() {
			c.do(s, shard.Request{Op: shard.Soonest})
		}
	}
}
