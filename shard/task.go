package shard

import (
	"unsafe"

	"github.com/sheafq/sheaf/binlog"
)

// Gearman's side of the engine. A function of Gearman is a tube, and what is
// submitted is a job with a Task: everything that beanstalkd's jobs do not have.
// Whatever ends a job, in either protocol, ends its task: finish is called
// before the job is discarded or buried, and tells the clients that wait for it.
//
//	submit ──▶ job with a task ──grab──▶ reserved ──Report──▶ finish, discard
//	   │             ▲                      │
//	   └ coalesced ──┘ (same function       ├─ worker gone: ready again
//	                    and unique)         ├─ its timeout: fails
//	                                        └─ beanstalkd's delete, bury, release
//
// A job in the foreground is there for the clients that wait for it. It is not
// in the log, and goes when the last of them does, at once if no worker has it,
// and else when the worker gives it up.

// These are the priorities of what Gearman submits. Both orders agree: a lower
// number goes first, and among the same the lower id.
const (
	PriHigh   uint32 = 0
	PriNormal uint32 = 1024
	PriLow    uint32 = 1<<32 - 1
)

// taskTTR is the time in seconds that a beanstalkd worker has for a job that was
// submitted by Gearman, which knows no such time. It can touch the job.
const taskTTR = 3600

// Task is what a job has if it was submitted by Gearman. Unique and Reducer are
// set by who submits it and never change, so that anyone may read them; all else
// belongs to who has the shard's turn.
//
// Who submits it leaves all but what is said here alone.
type Task struct {
	Unique, Reducer string
	// Background says that nobody waits for the job, and that it is kept in the
	// log. It is set by who submits it; the shard sets it when a job of the
	// foreground is submitted again in the background.
	Background bool

	keyed bool // others are coalesced with it

	done, total uint32 // as the worker has told
	retries     uint32 // how often it was given back
	heir        uint32 // its place among the heirs of its key, counted from 1; 0 if it is none
	listeners   uint32 // in the list that follows
	waiting     *listener
	last        *listener
	heirs       *heirs // of its key, if it is keyed; nil if there were none
}

// listener is a client that waits for a job, once for each time that it has
// submitted it. It is in the list of the job's task, in the order of submitting,
// and in that of the client.
type listener struct {
	client                 *Client
	job                    *job
	prev, next             *listener // of the task
	clientPrev, clientNext *listener
}

// function is what of a tube is Gearman's. A tube has it once Gearman has named
// it, and then stays until it is dropped.
type function struct {
	uniques  map[taskKey]*job
	most     int       // uniques that there were, see remove
	place    int       // in the shard's list of those that have uniques, if it has
	sleepers watchList // workers that are told when there is a job
	workers  int
	limits   [3]uint32 // of jobs, for PriHigh, PriNormal and PriLow; 0 is none
	dropped  bool      // it is being dropped, and was not named since
}

// asFunction returns t's function, made if need be.
func (t *Tube) asFunction() *function {
	if t.function == nil {
		t.function = &function{uniques: make(map[taskKey]*job)}
	}
	t.function.dropped = false
	return t.function
}

// logs tells whether the log has j.
func (s *Shard) logs(j *job) bool { return s.log != nil && !j.foreground }

// submit serves Submit.
func (s *Shard) submit(r *Request) {
	task := r.Task
	key, keyed := task.keyOf(r.Body)
	// The tube may not be there yet, and is not made for what is refused.
	t := s.tubes[r.Name]
	var f *function
	if t != nil {
		f = t.function
	}
	if f != nil && keyed {
		j := f.uniques[key]
		if j == nil && key.workload {
			// As in gearmand, it may also be one with that unique, if that is its workload, too.
			if j = f.uniques[taskKey{text: key.text}]; j != nil && string(s.body(j)) != string(r.Body) {
				j = nil
			}
		}
		if j != nil {
			s.join(r, j)
			return
		}
	}
	more := task.footprint()
	if !task.Background {
		more += listenerFootprint
	}
	logged := s.log != nil && task.Background
	switch band := bandOf(r.Pri); {
	case s.failed: // of the foreground, too: nobody would get it
		r.Status = Failed
	case f != nil && f.limits[band] > 0 && t.jobs-t.buried.n >= int(f.limits[band]):
		r.Status = QueueFull
	case !s.fits(len(r.Body), more):
		r.Status = OutOfMemory
	case s.cfg.Draining.Load():
		r.Status = Draining
	case logged && !s.log.FitsPut(binlog.MostPut(len(r.Name), len(r.Body), task.size())):
		s.noRoom(r)
	default:
		t = s.tube(r.Name)
		r.ID, r.Created, r.Tube, r.TTR = s.cfg.Directory.NextID(), s.now, t, taskTTR
		j := s.newJob(r)
		if j == nil {
			r.Status = OutOfMemory
			s.drop(t)
			return
		}
		f = t.asFunction()
		j.tasked = s.tasks.add(task)
		s.memory.charge(task.footprint())
		if keyed {
			key, _ = task.keyOf(s.body(j)) // r's goes
			s.noteKey(f, key, j, task)
		}
		if !task.Background {
			s.logID(j.id)
			j.foreground = true
			s.listen(r.Client, j, task)
		}
		if at := int64(r.N)*second - s.wall; r.N != 0 && at > s.now {
			j.delay = uint32(min((at-s.now+second-1)/second, 1<<32-1))
			s.logPut(j, binlog.Delayed, at)
			s.makeDelayedUntil(j, at)
		} else {
			s.logPut(j, binlog.Ready, 0)
			s.makeReady(j)
		}
	}
}

// join serves Submit of a job that is there already.
func (s *Shard) join(r *Request, j *job) {
	task := s.taskOf(j)
	switch {
	case s.failed:
		r.Status = Failed
		return
	case r.Task.Background:
		if j.foreground && !s.keep(r, j, task) {
			return
		}
	case !s.memory.fits(listenerFootprint):
		r.Status = OutOfMemory
		return
	default:
		s.listen(r.Client, j, task)
	}
	r.ID = j.id
}

// keep makes j, which was in the foreground, a job of the background: it is in
// the log from now on. It reports false if there is no room, and answers r.
func (s *Shard) keep(r *Request, j *job, task *Task) bool {
	if s.log != nil && !s.log.FitsPut(s.mostPut(j)) {
		s.noRoom(r)
		return false
	}
	j.foreground = false
	task.Background = true
	if j.state == delayed {
		s.logPut(j, binlog.Delayed, j.at)
	} else {
		s.logPut(j, binlog.Ready, 0)
	}
	return true
}

// footprint is what a task counts for in the memory budget, in bytes.
func (t *Task) footprint() int64 {
	return int64(unsafe.Sizeof(Task{})) + int64(t.size())
}

// listenerFootprint is the same for a listener.
const listenerFootprint = int64(unsafe.Sizeof(listener{}))

// size is how many bytes a job's task adds to it in the log: 0 if there is none.
func (t *Task) size() int {
	if t == nil {
		return 0
	}
	return len(t.Unique) + len(t.Reducer)
}

// listen has c wait for j.
func (s *Shard) listen(c *Client, j *job, task *Task) {
	l := &listener{client: c, job: j, prev: task.last, clientNext: c.listens}
	if task.last == nil {
		task.waiting = l
	} else {
		task.last.next = l
	}
	task.last = l
	task.listeners++
	if c.listens != nil {
		c.listens.clientPrev = l
	}
	c.listens = l
	s.memory.charge(listenerFootprint)
}

// term sets the deadline of a job that c, a Gearman worker, gets now: that of
// its TTR if it was put by beanstalkd's put, and that of the function's timeout if
// the worker has said one, whichever comes first. It returns its place among the
// others.
func (s *Shard) term(j *job, c *Client) key {
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

// unlisten takes l off both lists.
func (s *Shard) unlisten(l *listener, task *Task) {
	if l.prev == nil {
		task.waiting = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		task.last = l.prev
	} else {
		l.next.prev = l.prev
	}
	task.listeners--
	if l.clientPrev == nil {
		l.client.listens = l.clientNext
	} else {
		l.clientPrev.clientNext = l.clientNext
	}
	if l.clientNext != nil {
		l.clientNext.clientPrev = l.clientPrev
	}
	s.memory.charge(-listenerFootprint)
}

// deafen ends all waits of a client that is going. A job in the foreground that
// nobody else waits for goes with it, if no worker has it. It does a step of that,
// and reports whether there is more to do.
func (s *Shard) deafen(c *Client) (more bool) {
	for range stepJobs {
		l := c.listens
		if l == nil || s.filled() {
			break
		}
		j := l.job
		s.unlisten(l, s.taskOf(j))
		if s.abandoned(j) && j.state != reserved {
			s.remove(j)
			s.discard(j)
		}
	}
	return c.listens != nil
}

// abandoned tells whether nobody waits for j, which is in the foreground. (What was
// put is if it was cancelled: nobody can.)
func (s *Shard) abandoned(j *job) bool {
	return j.foreground && (j.tasked == 0 || s.taskOf(j).listeners == 0)
}

// tell sends the clients that wait for j an event.
func (s *Shard) tell(j *job, task *Task, e Event) {
	e.ID = j.id
	for l := task.waiting; l != nil; l = l.next {
		one := e
		s.send(l.client, &one, s.logs(j))
	}
}

// finish is tellEnd for a job that is at its end, with which nothing is coalesced any
// more.
func (s *Shard) finish(j *job, kind EventKind, data []byte) {
	s.tellEnd(j, kind, data)
	if task := s.taskOf(j); task != nil {
		s.forgetKey(j, task)
	}
}

// tellEnd tells the clients that wait for j, if there are any, how it has ended, and
// has nobody wait for it any more. It does nothing for a job without a task.
func (s *Shard) tellEnd(j *job, kind EventKind, data []byte) {
	task := s.taskOf(j)
	if task == nil {
		return
	}
	s.tell(j, task, Event{Kind: kind, Data: data})
	for l := task.waiting; l != nil; l = task.waiting {
		s.unlisten(l, task)
	}
}

// send has c get an event at the end of the batch. If logged, that is when the
// log has the batch, without which the event may not be true.
func (s *Shard) send(c *Client, e *Event, logged bool) {
	if c.waiter.inbox != nil {
		s.held.events = append(s.held.events, sent{c.waiter.inbox, e, logged})
	}
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
			return
		}
		if kind == Progress {
			n := r.Client.note(j)
			n.done, n.total = r.Pri, r.Delay
		}
		if !j.fails { // who says something is alive
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
		s.remove(j)
		s.finish(j, Complete, r.Body)
		s.tubeOf(j).deletes++
		s.discard(j)
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

// fail ends j, which a worker has, as failed: what Gearman has submitted is gone
// then, what beanstalkd's put has put is buried, unless it was cancelled.
func (s *Shard) fail(j *job, kind EventKind, data []byte) {
	s.remove(j)
	if j.tasked != 0 || j.foreground {
		s.finish(j, kind, data)
		s.discard(j)
		return
	}
	s.makeBuried(j)
}

// giveUp makes j, which a client has had and is in no state now, ready again, if
// it comes again.
func (s *Shard) giveUp(j *job) {
	if s.comesAgain(j) {
		s.makeReady(j)
	}
}

// comesAgain tells whether j, which a client has had and is in no state now, is
// for another to have. If it is of the foreground and nobody waits for it any
// more, it goes.
func (s *Shard) comesAgain(j *job) bool {
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

// inquire serves Inquire.
func (s *Shard) inquire(r *Request) {
	j := s.job(r.ID)
	if j == nil || j.state == buried {
		r.Status = NotFound
		return
	}
	s.describe(r, j)
}

// inquireUnique serves InquireUnique: it asks all functions that have jobs with
// uniques, and answers with the oldest job.
func (s *Shard) inquireUnique(r *Request) {
	var oldest *job
	for _, f := range s.keyed {
		if j := f.uniques[taskKey{text: r.Name}]; j != nil && (oldest == nil || j.id < oldest.id) {
			oldest = j
		}
	}
	if oldest == nil {
		r.Status = NotFound
		return
	}
	s.describe(r, oldest)
}

func (s *Shard) describe(r *Request, j *job) {
	r.ID, r.N, r.Pri, r.Delay = j.id, 0, 0, 0
	if j.state == reserved {
		r.N = 1
	}
	if task := s.taskOf(j); task != nil {
		r.Pri, r.Delay = task.done, task.total
		r.N |= uint64(task.listeners) << 1
	} else if j.state == reserved {
		if n := s.holderOf(j).notes[j]; n != nil {
			r.Pri, r.Delay = n.done, n.total
		}
	}
}

// canDo serves CanDo. It does not look at the client's other functions, of which
// there may be many: if there is a job in one, the client does not sleep, or has
// been told already.
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
	case len(c.watches) == 1: // it could not sleep here before
		s.lull(c)
	}
}

// doze serves Doze: the client is told by an event when there is a job in one of
// the tubes that it watches, unless there is one now.
func (s *Shard) doze(r *Request) {
	c := r.Client
	if s.hasJobFor(c) {
		return
	}
	r.Status = NotFound
	s.lull(c)
}

// hasJobFor tells whether c would be given a job if it asked. Nobody is once the
// log has failed, or the server goes down.
func (s *Shard) hasJobFor(c *Client) bool { return c.best() != nil && !s.failed && !s.ending }

// lull has c told of the next job in the tubes that it watches.
func (s *Shard) lull(c *Client) {
	if !c.dozing {
		c.dozing = true
		for _, w := range c.watches {
			w.tube.function.sleepers.append(w)
		}
	}
}

// rouse ends what lull began.
func (s *Shard) rouse(c *Client) {
	if c.dozing {
		c.dozing = false
		for _, w := range c.watches {
			w.tube.function.sleepers.remove(w)
		}
	}
}

// wakeSleepers tells all workers that sleep until there is a job in t, which
// there is now. All of them, as gearmand does: of one alone nobody knows whether
// it will ever come.
func (s *Shard) wakeSleepers(t *Tube) {
	if t.function == nil || t.paused() || s.failed || s.ending {
		return
	}
	for w := t.function.sleepers.head; w != nil; w = t.function.sleepers.head {
		s.rouse(w.client)
		s.send(w.client, &Event{Kind: Wake}, false)
	}
}

// bandOf returns which of Gearman's three priorities a priority counts as.
func bandOf(pri uint32) int {
	switch {
	case pri < PriNormal:
		return 0
	case pri < PriLow:
		return 1
	}
	return 2
}
