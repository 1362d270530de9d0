package shard

import (
	"slices"

	"github.com/sheafq/sheaf/binlog"
)

// Client is what one shard knows of one client: the jobs it holds, the tubes
// it watches, its wait. The client's goroutine makes it and names it in
// requests; only whoever has the shard's turn reads or writes its fields, except
// waiter, which never changes.
type Client struct {
	waiter *Waiter

	held     jobHeap // reserved jobs by deadline
	heldList jobList // the same in the order of reserving
	watches  []*watch
	byTube   map[*Tube]*watch // the watches, if there are many; else nil
	using    *Tube

	// listens is the first in the list of a Gearman client's waits for the end of jobs.
	listens *listener
	// notes are a Gearman worker's about jobs that it has and that have no Task, since
	// beanstalkd's put has put them; nil until there is one.
	notes map[*job]*note

	due due // the next TTR of a held job to run out, or end of the wait

	number    uint32 // in jobStore.holders; 0 if it has not had any jobs
	dozing    bool   // among the sleepers of each watched tube; only a Gearman client
	queued    bool   // in the queues of the watched tubes
	counted   bool   // among the waiting clients of the shard, at countedAt
	observing bool   // among the observers of the shard, at observerAt

	countedAt, observerAt int32

	given int // bytes of large bodies in the answers to the chain that is being served

	// The registration of a wait, or of a probe that may become one. It is stale
	// once the claim has moved on from seq, or has been decided.
	seq              uint64
	aborted          uint64 // seq of the chain in which a command was aborted last
	timeoutAt        int64  // when the wait ends; 0 for never
	soonestElsewhere int64  // the soonest deadline of a job held on another shard; 0 for none

	// told is the job that an observed probe was answered with: a better one that
	// becomes ready makes the claim dirty.
	told key
}

// note is what a Gearman worker's job without a Task has beside what all jobs have.
type note struct {
	end         int64  // when the job fails, if its TTR may end before; else 0
	done, total uint32 // the progress that the worker has reported
}

// note returns the note about j, made if need be.
func (c *Client) note(j *job) *note {
	n := c.notes[j]
	if n == nil {
		if c.notes == nil {
			c.notes = make(map[*job]*note)
		}
		n = new(note)
		c.notes[j] = n
	}
	return n
}

// NewClient returns a client's side at one shard, to be named in requests to
// that shard only.
func NewClient(w *Waiter) *Client {
	c := &Client{waiter: w}
	c.due.owner = c
	return c
}

// Margin is how long before the end of a TTR its holder is told DEADLINE_SOON,
// in nanoseconds.
const Margin = second

// soonest returns the soonest deadline among the held jobs, 0 if there is none.
func (c *Client) soonest() int64 {
	if j := c.held.top(); j != nil && j.at != noDeadline {
		return j.at
	}
	return 0
}

// soon returns when the client is to be told DEADLINE_SOON if it waits: a
// margin before the earlier of the soonest deadline here and elsewhere; 0 for
// never.
func (c *Client) soon(elsewhere int64) int64 {
	at := earlier(c.soonest(), elsewhere)
	if at == 0 {
		return 0
	}
	return at - Margin
}

// earlier returns the earlier of two times, where 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// best returns the job that a reserve gets now, nil if there is none: the one with the
// lowest (priority, id) in the watched tubes that are not paused.
func (c *Client) best() *job {
	var best *job
	at := worst
	for _, w := range c.watches {
		if j := w.tube.ready.top(); j != nil && !w.tube.paused() {
			if k := j.readyKey(); k.less(at) {
				best, at = j, k
			}
		}
	}
	return best
}

// fewWatches is how many watches are searched without a map.
const fewWatches = 16

// watchOn returns the client's watch on t, nil if there is none.
func (c *Client) watchOn(t *Tube) *watch {
	if c.byTube != nil {
		return c.byTube[t]
	}
	for _, w := range c.watches {
		if w.tube == t {
			return w
		}
	}
	return nil
}

// addWatch enters w, behind the others.
func (c *Client) addWatch(w *watch) {
	w.place = len(c.watches)
	c.watches = append(c.watches, w)
	switch {
	case c.byTube != nil:
		c.byTube[w.tube] = w
	case len(c.watches) > fewWatches:
		c.byTube = make(map[*Tube]*watch, 2*fewWatches)
		for _, w := range c.watches {
			c.byTube[w.tube] = w
		}
	}
}

// removeWatch takes w out. The last one takes its place.
func (c *Client) removeWatch(w *watch) {
	last := len(c.watches) - 1
	c.watches[w.place] = c.watches[last]
	c.watches[w.place].place = w.place
	c.watches[last] = nil
	c.watches = c.watches[:last]
	delete(c.byTube, w.tube)
	if c.byTube != nil && last <= fewWatches/2 {
		c.byTube, c.watches = nil, slices.Clone(c.watches)
	}
}

// expire ends the wait and the TTRs of held jobs that have come due, and returns when
// the next one does, 0 for never.
func (c *Client) expire(s *Shard) int64 {
	// DEADLINE_SOON goes before the release of the job it warns of, which may
	// be late on a busy machine.
	if c.queued {
		if at := c.soon(c.soonestElsewhere); at != 0 && at <= s.now {
			s.endWait(c, DeadlineSoon)
		} else if c.timeoutAt != 0 && c.timeoutAt <= s.now {
			s.endWait(c, TimedOut)
		}
	}
	var retry int64
	for j := c.held.top(); j != nil && j.at <= s.now && s.patient(); j = c.held.top() {
		if s.now < j.at+stallMost && s.awaitsRoom(j) {
			retry = s.now + stallRetry
			break
		}
		s.quota--
		j.timeouts++
		s.timeouts++
		s.send(c, &Event{Kind: Expired, ID: j.id}, false)
		if j.fails {
			s.fail(j, Fail, nil)
			continue
		}
		s.unreserve(j)
		s.logChange(j, binlog.Ready, 0)
		s.requeue(j)
	}
	next := retry
	if retry == 0 {
		next = c.soonest()
	}
	if c.queued {
		next = earlier(earlier(next, c.timeoutAt), c.soon(c.soonestElsewhere))
	}
	return next
}

// use has c use the tube of that name.
func (s *Shard) use(c *Client, name string) *Tube {
	t := s.tube(name)
	t.using++
	c.using = t
	return t
}

// unuse ends that. If c has begun to use another tube of this shard, it goes on with
// that.
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

// newWatch has c, which does not watch t, watch it.
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

// giveBack ends a client's wait and makes the jobs that it holds ready again, in the
// order in which it reserved them. It does a step of that, and reports whether there is
// more to do.
func (s *Shard) giveBack(c *Client) (more bool) {
	s.leave(c)
	for range stepJobs {
		j := c.heldList.head
		if j == nil || s.filled() {
			break
		}
		s.unreserve(j)
		s.requeue(j)
	}
	return c.heldList.head != nil
}

// detach forgets a client. It gives back the jobs that the client holds, and drops
// those of the foreground that nobody else waits for. It leaves the tubes in the order
// of the reference, which shows in the list of tubes: always the first of the watch
// list, whose place the last one takes, and at the end the one in use. It does a step
// of that, and reports whether there is more to do.
func (s *Shard) detach(c *Client) (more bool) {
	if s.unlistenSome(c) || s.giveBack(c) {
		return true
	}
	for range min(stepJobs, len(c.watches)) {
		s.unwatch(c.watches[0])
	}
	if len(c.watches) > 0 {
		return true
	}
	if c.using != nil {
		s.unuse(c, c.using)
	}
	s.unschedule(&c.due)
	s.holders.remove(c.number)
	c.number = 0
	return false
}
