package router

import (
	"cmp"
	"slices"

	"github.com/sheafq/sheaf/shard"
)

// Gearman's clients and workers. With New and Queue they queue shard.Submit, Grab (for
// which they must watch a function), Report and Inquire; the rest is below. They never
// wait: what they are told later comes as events.

// NewGearmanClient makes a client that uses and watches nothing. The peer is told when
// there are events in the inbox, and killed when more than limit bytes are not taken, see
// shard.NewInbox. The client must be closed.
func (r *Router) NewGearmanClient(peer shard.Peer, limit int64) (*Client, *shard.Inbox) {
	b := shard.NewInbox(peer, limit)
	return r.newClient(shard.NewGearmanWaiter(b)), b
}

// CanDo watches a function. A job of it that the client gets fails after timeout seconds;
// if that is 0, the client has it for as long as it lives. A client that dozes is told of
// a job there, too.
func (c *Client) CanDo(function string, timeout uint32) {
	s := c.seat(c.router.shardOf(function))
	r := shard.Request{Op: shard.CanDo, Name: function, TTR: timeout}
	if c.dozing {
		r.N = 1
	}
	t := c.do(s, r).Tube
	if c.watched.index(function) < 0 {
		c.addWatch(s, t)
	}
}

// CantDo ends the watching of a function.
func (c *Client) CantDo(function string) {
	if i := c.watched.index(function); i >= 0 {
		c.unwatch(i)
	}
}

// CantDoAny ends the watching of all functions.
func (c *Client) CantDoAny() {
	for n := len(c.watched.tubes); n > 0; n-- {
		c.unwatch(n - 1)
	}
}

// Doze reports whether there is a job in one of the functions that the client watches. If
// there is none, an event of the kind shard.Wake comes when there is. One may also come
// for no reason.
func (c *Client) Doze() (job bool) {
	for _, s := range c.watchedSeats {
		if c.do(s, shard.Request{Op: shard.Doze}).Status == shard.OK {
			return true
		}
	}
	c.dozing = true
	return false
}

// InquireUnique asks for a job by its unique, and answers like shard.Inquire, with the
// job's ID as well. If several functions have one, it is the oldest.
func (c *Client) InquireUnique(unique string) (r shard.Request) {
	r.Status = shard.NotFound
	for _, a := range c.askAll(shard.Request{Op: shard.InquireUnique, Name: unique}) {
		if a.Status == shard.OK && (r.Status != shard.OK || a.ID < r.ID) {
			r = a
		}
	}
	return r
}

// Functions lists all functions by name.
func (c *Client) Functions() []shard.FunctionStats {
	var all []shard.FunctionStats
	for _, r := range c.askAll(shard.Request{Op: shard.Functions}) {
		all = append(all, r.Lists.Functions...)
	}
	slices.SortFunc(all, func(a, b shard.FunctionStats) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Tasks calls f for all jobs that are not done, in the order of their ids, until
// it returns false. Jobs may come and go meanwhile.
func (c *Client) Tasks(f func(shard.TaskStats) bool) {
	lists := make([]taskList, len(c.router.shards))
	for i, s := range c.router.shards {
		lists[i].shard, lists[i].more = s, true
		lists[i].request = shard.Request{Op: shard.ListJobs, Client: shard.NewClient(c.waiter)}
	}
	for {
		var next *taskList
		for i := range lists {
			if l := &lists[i]; l.fill(c) && (next == nil || l.tasks[0].ID < next.tasks[0].ID) {
				next = l
			}
		}
		if next == nil || !f(next.tasks[0]) {
			return
		}
		next.tasks = next.tasks[1:]
	}
}

// taskList is what is left to go through of one shard's jobs: those that it has told, and
// the request for more.
type taskList struct {
	shard   *shard.Shard
	request shard.Request
	tasks   []shard.TaskStats
	more    bool
}

// fill asks the shard for more if there is nothing left. It reports false at the end.
func (l *taskList) fill(c *Client) bool {
	for len(l.tasks) == 0 && l.more {
		l.request.Lists = nil
		c.waiter.Expect(1)
		l.shard.Post([]*shard.Request{&l.request})
		c.answered()
		l.tasks, l.more = l.request.Lists.Tasks, l.request.ID != 0
	}
	return len(l.tasks) > 0
}

// CreateFunction makes the function of that name, unless it is there.
func (c *Client) CreateFunction(name string) { c.ask(name, shard.Request{Op: shard.CreateFunction}) }

// DropFunction ends a function, whose queued jobs fail. It returns OK; NotFound if
// Functions does not list it; Busy if it has workers, or jobs that are with clients;
// OutOfMemory if the log has no room for that, or Failed if the log has failed: then some
// of the jobs may have failed.
func (c *Client) DropFunction(name string) shard.Status {
	return c.ask(name, shard.Request{Op: shard.DropFunction})
}

// LimitFunction sets how many jobs a function may have at most for another one of high,
// normal or low priority to be submitted; 0 is no limit.
func (c *Client) LimitFunction(name string, limits [3]uint32) {
	c.ask(name, shard.Request{Op: shard.LimitFunction, Lists: &shard.Lists{Limits: limits}})
}

// CancelJob ends a job. It returns OK; NotFound if there is none with that id, or it is
// buried; Failed if the log has failed. If a worker has the job, that may finish it, but
// nobody else gets it.
func (c *Client) CancelJob(id uint64) shard.Status {
	i := c.router.directory.Lookup(id)
	if i < 0 {
		return shard.NotFound
	}
	return c.do(c.seat(i), shard.Request{Op: shard.CancelJob, ID: id}).Status
}

// Holds tells whether the client has the job with that id, so that a report of it would
// be accepted now.
func (c *Client) Holds(id uint64) bool {
	i := c.router.directory.Lookup(id)
	return i >= 0 && c.do(c.seat(i), shard.Request{Op: shard.Holds, ID: id}).Status == shard.OK
}

// ask has the shard of a function serve a request.
func (c *Client) ask(function string, r shard.Request) shard.Status {
	r.Name = function
	return c.do(c.seat(c.router.shardOf(function)), r).Status
}

// CanDoAny tells whether the client watches any function.
func (c *Client) CanDoAny() bool { return len(c.watched.tubes) > 0 }
