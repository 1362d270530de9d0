package router

import (
	"slices"
	"sync/atomic"

	"github.com/sheafq/sheaf/shard"
)

// maxRun is how many requests may be queued before they have to be awaited:
// deep enough that a post, a wake-up and a write are nothing per command.
const maxRun = 128

// Client is the engine as one connection sees it: its used tube, its watch list, its
// queue of commands. Only one goroutine may use it, except Hangup and Abort, which any
// may call.
//
// Commands that concern one shard are queued with New and Queue and answered by Await,
// as many at once as belong to the same shard. The other methods that ask the engine
// something answer themselves, and need an empty queue.
type Client struct {
	router *Router
	waiter *shard.Waiter
	// interruption is 0, hungUp or aborted. Hangup and Abort raise it, from any
	// goroutine, before they wake the client's, which reads it.
	interruption atomic.Int32
	counters     uint16 // which of the router's it counts in; never changes
	many         bool   // the queue is one reserve over several shards
	waiting      bool   // queue[head] is a reserve that waits

	target           int32 // the shard that the queued requests are for; -1 if none has to be posted
	producer, worker bool
	dozing           bool // Doze has found nothing, and no Grab came since

	home   *seat   // on the default tube's shard
	others []*seat // by shard; nil until another shard is needed
	seats  []*seat // all of them, in the order in which they were taken

	used         *shard.Tube
	watched      watchList
	watchedSeats []*seat // those with a watched tube

	arena
	// queue[head:], in the arena, is what is queued: for one shard (target), or one
	// reserve over several (many).
	head int

	single [1]*shard.Request // for a chain of one
}

const (
	hungUp = 1 + iota
	aborted
)

// seat is a client's place at one shard.
type seat struct {
	index        int
	shard        *shard.Shard
	client       *shard.Client
	watchedTubes int   // tubes
	soonest      int64 // see shard.Request; as of the last answer
	// probe and cancel are for reserves over several shards and for cancelling waits.
	// Nobody awaits the answer to cancel, so it may be used again only when something
	// posted to the shard after it has been answered. Any further wait that might be
	// cancelled begins with that.
	probe  *shard.Request
	cancel *shard.Request
	// best is what the shard answered to a probe, while a reserve over several
	// shards is settled.
	best offer
}

// NewClient makes a client that uses and watches the default tube. It must be closed.
func (r *Router) NewClient() *Client {
	c := r.newClient(shard.NewWaiter())
	req := c.do(c.home, shard.Request{Op: shard.Attach, Name: shard.DefaultTube})
	c.used = req.Tube
	c.addWatch(c.home, req.Tube)
	c.Rest()
	return c
}

// newClient makes a client that uses and watches nothing.
func (r *Router) newClient(w *shard.Waiter) *Client {
	r.connections.Add(1)
	n := r.totalConnections.Add(1)
	c := &Client{router: r, counters: uint16(n % int64(len(r.counted))), waiter: w, target: -1}
	c.home = c.newSeat(r.shardOf(shard.DefaultTube))
	return c
}

// Close gives back all that the client holds. Every command that is posted after it has
// returned finds the client gone.
func (c *Client) Close() {
	// A client that ends in the middle of a command leaves its tubes in any order.
	if !c.pending() && c.used != nil && c.tubesNeedOrder() {
		c.leaveTubes()
	}
	for _, s := range c.seats {
		s.shard.Send(&shard.Request{Op: shard.Detach, Client: s.client})
	}
	r := c.router
	if c.producer {
		r.producers.Add(-1)
	}
	if c.worker {
		r.workers.Add(-1)
	}
	r.connections.Add(-1)
}

// tubesNeedOrder tells whether the router has to leave the client's tubes one by one:
// several of them may cease to exist with the client, which shows in the list of tubes,
// and no shard knows the order. A shard knows it only if the client has never been at
// another: else the places in its watch list may come from a tube that the shard does not
// know of, the default tube or one that was ignored.
func (c *Client) tubesNeedOrder() bool {
	if len(c.seats) == 1 {
		return false
	}
	var some *shard.Tube
	another := func(t *shard.Tube) bool {
		if t.Name == shard.DefaultTube {
			return false
		}
		if some == nil {
			some = t
		}
		return t != some
	}
	return another(c.used) || slices.ContainsFunc(c.watched.tubes, another)
}

// leaveTubes gives back the jobs and leaves the tubes of a client at several shards, in
// the order in which a single shard would; see shard.Detach.
func (c *Client) leaveTubes() {
	for _, s := range c.seats {
		if s.soonest != 0 {
			c.do(s, shard.Request{Op: shard.GiveBack})
		}
	}
	for len(c.watched.tubes) > 0 {
		c.unwatch(0)
	}
	c.do(c.seat(c.used.Shard), shard.Request{Op: shard.Unuse, Tube: c.used})
}

// Hangup says that the other side has nothing more to say: reserves do not wait from now
// on, and one that waits is answered TimedOut. Any goroutine may call it.
func (c *Client) Hangup() { c.interrupt(hungUp) }

// Abort is Hangup for a server that goes down: reserves that wait, or would have to, are
// answered Aborted. Any goroutine may call it.
func (c *Client) Abort() { c.interrupt(aborted) }

func (c *Client) interrupt(why int32) {
	for {
		was := c.interruption.Load()
		if was >= why || c.interruption.CompareAndSwap(was, why) {
			break
		}
	}
	c.waiter.Poke()
}

// Used returns the tube that puts go to.
func (c *Client) Used() *shard.Tube { return c.used }

// Watched returns the watched tubes in the order of the reference, see watchList. The
// slice must not be changed, and is valid until the watch list changes.
func (c *Client) Watched() []*shard.Tube { return c.watched.tubes }

// MarkProducer counts the client, once, among those that have put a job.
func (c *Client) MarkProducer() {
	if !c.producer {
		c.producer = true
		c.router.producers.Add(1)
	}
}

// MarkWorker counts the client, once, among those that have reserved.
func (c *Client) MarkWorker() {
	if !c.worker {
		c.worker = true
		c.router.workers.Add(1)
	}
}

// Count counts a command that is answered without a shard, by Op or one of the constants
// of this package.
func (c *Client) Count(op shard.Op) { c.router.counted[c.counters].of[op].Add(1) }

// Begin takes a job id and the time for a put whose body is still to come: its
// ID and Created.
func (c *Client) Begin(r *shard.Request) {
	r.ID = c.router.directory.NextID()
	r.Created = c.router.clock.Now()
}

// MemoryFull tells whether a put of a body of n bytes would surely be answered
// OutOfMemory, so that there is no use in reading it.
func (c *Client) MemoryFull(n int) bool { return c.router.budget.Full(n) }

// HoldMemory counts n bytes of a body that is being read in the memory budget.
// It reports false, and counts nothing, if there is no room for them.
func (c *Client) HoldMemory(n int) bool { return c.router.budget.Hold(n) }

// HoldMemoryAnyway is HoldMemory for what is read even if there is no room for it.
// FreeMemory takes it back likewise.
func (c *Client) HoldMemoryAnyway(n int) { c.router.budget.HoldAnyway(n) }

// FreeMemory takes back n bytes that HoldMemory has counted: before the body is put,
// since the put counts it, or when it is given up.
func (c *Client) FreeMemory(n int) { c.router.budget.Free(n) }

// Keep returns a copy of body followed by end, of at most shard.Inline bytes together,
// for a put. It is valid until Await returns nil.
func (c *Client) Keep(body []byte, end string) []byte { return c.waiter.Keep(body, end) }

// Use has puts go to the tube of that name.
func (c *Client) Use(name string) {
	if c.used.Name == name {
		return
	}
	old := c.used
	c.used = c.do(c.seat(c.router.shardOf(name)), shard.Request{Op: shard.Use, Name: name}).Tube
	c.do(c.seat(old.Shard), shard.Request{Op: shard.Unuse, Tube: old})
}

// Watch adds the tube of that name to the watch list.
func (c *Client) Watch(name string) {
	if c.watched.index(name) >= 0 {
		return
	}
	s := c.seat(c.router.shardOf(name))
	c.addWatch(s, c.do(s, shard.Request{Op: shard.Watch, Name: name}).Tube)
}

func (c *Client) addWatch(s *seat, t *shard.Tube) {
	c.watched.add(t)
	if s.watchedTubes++; s.watchedTubes == 1 {
		c.watchedSeats = append(c.watchedSeats, s)
	}
}

// Ignore takes the tube of that name off the watch list, if it is there. It reports
// false, and does nothing, if it is the only one.
func (c *Client) Ignore(name string) bool {
	i := c.watched.index(name)
	switch {
	case i < 0:
		return true
	case len(c.watched.tubes) == 1:
		return false
	}
	c.unwatch(i)
	return true
}

// unwatch takes the tube with that index off the watch list.
func (c *Client) unwatch(i int) {
	t := c.watched.remove(i)
	s := c.seat(t.Shard)
	c.do(s, shard.Request{Op: shard.Ignore, Tube: t})
	if s.watchedTubes--; s.watchedTubes == 0 {
		i := slices.Index(c.watchedSeats, s)
		c.watchedSeats = slices.Delete(c.watchedSeats, i, i+1)
	}
}

// Tubes lists all tubes in the order of the reference, see shard.Tubes.
func (c *Client) Tubes() []string {
	r := shard.Request{Op: shard.Tubes, Client: shard.NewClient(c.waiter)}
	c.waiter.Expect(1)
	c.router.shards[0].Post([]*shard.Request{&r})
	c.answered()
	return r.Lists.Names
}

// askAll has all shards serve the same request, which concerns no job, tube or
// wait of the client's.
func (c *Client) askAll(r shard.Request) []shard.Request {
	reqs := make([]shard.Request, len(c.router.shards))
	// All shards get the same client. That cannot race: they only read from it, that it
	// holds nothing.
	r.Client = shard.NewClient(c.waiter)
	c.waiter.Expect(len(reqs))
	for i := range reqs {
		reqs[i] = r
		c.router.shards[i].Post([]*shard.Request{&reqs[i]})
	}
	c.answered()
	return reqs
}

// Stats gathers the statistics of all shards.
func (c *Client) Stats() *Stats {
	r := c.router
	reqs := c.askAll(shard.Request{Op: shard.Gather})
	st := &Stats{
		Connections: r.connections.Load(), TotalConnections: r.totalConnections.Load(),
		Producers: r.producers.Load(), Workers: r.workers.Load(), Draining: r.draining.Load(),
	}
	if r.store != nil {
		st.Binlog = r.store.Stats()
	}
	for i := range reqs {
		st.Add(reqs[i].Stats)
	}
	copy(st.Counted[:], st.Served[:])
	for op := range st.Counted {
		for i := range r.counted {
			st.Counted[op] += r.counted[i].of[op].Load()
		}
	}
	return st
}

// seat returns the client's place at that shard, taken if need be.
func (c *Client) seat(i int) *seat {
	if i == c.home.index {
		return c.home
	}
	if c.others == nil {
		c.others = make([]*seat, len(c.router.shards))
	}
	if c.others[i] == nil {
		c.others[i] = c.newSeat(i)
	}
	return c.others[i]
}

func (c *Client) newSeat(i int) *seat {
	s := &seat{index: i, shard: c.router.shards[i], client: shard.NewClient(c.waiter)}
	c.seats = append(c.seats, s)
	return s
}

// do has one request served on its own, and waits for the answer. What it returns is
// valid until the next do.
func (c *Client) do(s *seat, r shard.Request) *shard.Request {
	scratch := &c.room().scratch
	*scratch = r
	c.post(s, scratch)
	c.answered()
	s.soonest = scratch.Soonest
	return scratch
}

// post posts a chain of one.
func (c *Client) post(s *seat, r *shard.Request) {
	r.Client = s.client
	c.single[0] = r
	c.waiter.Expect(1)
	s.shard.Post(c.single[:])
}

// answered blocks until all chains that were expected are answered. That takes as long as
// the shards need to serve them and their logs to make them durable, and no longer, since
// none of them waits.
func (c *Client) answered() {
	for !c.waiter.Answered() {
		c.waiter.Sleep()
	}
}

// sendCancel tells a shard that the client does not wait any more. It does not wait for
// the answer.
func (c *Client) sendCancel(s *seat) {
	if s.cancel == nil {
		s.cancel = new(shard.Request)
	}
	*s.cancel = shard.Request{Op: shard.Cancel, Client: s.client}
	s.shard.Send(s.cancel)
}
