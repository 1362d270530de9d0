package shard

import "unsafe"

// The clients that wait for the end of a Gearman job, and what they are told of it.

// listener is a client's wait for the end of a job; the client has one for each time
// that it submitted the job. It is in two lists: that of the job's task, in the order of
// submitting, and that of the client.
type listener struct {
	client                 *Client
	job                    *job
	prev, next             *listener // of the task
	clientPrev, clientNext *listener
}

// listenerFootprint is how many bytes a listener counts for in the memory budget.
const listenerFootprint = int64(unsafe.Sizeof(listener{}))

// mostListeners is how many waits a job has at most. All of them are told of the same
// thing in one go, which takes some tenths of a microsecond each, and the shard's other
// clients wait until that is done.
const mostListeners = 1 << 16

// listen has c wait for the end of j, whose task is given.
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

// unlistenSome ends the waits of a client that is going. A job in the foreground that
// nobody else waits for is discarded, unless a worker has it. It does a step of that,
// and reports whether there is more to do.
func (s *Shard) unlistenSome(c *Client) (more bool) {
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

// abandoned tells whether j is in the foreground and nobody waits for it. (A job
// without a task is in the foreground only if it was cancelled, and nobody can wait for
// it.)
func (s *Shard) abandoned(j *job) bool {
	return j.foreground && (j.tasked == 0 || s.taskOf(j).listeners == 0)
}

// tell sends an event to each client that waits for j.
func (s *Shard) tell(j *job, task *Task, e Event) {
	e.ID = j.id
	for l := task.waiting; l != nil; l = l.next {
		one := e
		s.send(l.client, &one, s.logs(j))
	}
}

// finish is tellEnd, and nothing is coalesced with j any more. It does nothing for a job
// without a task.
func (s *Shard) finish(j *job, kind EventKind, data []byte) {
	s.tellEnd(j, kind, data)
	if task := s.taskOf(j); task != nil {
		s.forgetKey(j, task)
	}
}

// tellEnd tells the clients that wait for j how it has ended, and ends their waits. It
// does nothing for a job without a task.
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

// send gives c an event at the end of the batch; with a log that is when the log has the
// batch. logged says that the event is not true if the log fails to get it.
func (s *Shard) send(c *Client, e *Event, logged bool) {
	if c.waiter.inbox != nil {
		s.outbox.events = append(s.outbox.events, sent{c.waiter.inbox, e, logged})
	}
}
