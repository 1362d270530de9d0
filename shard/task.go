package shard

import (
	"unsafe"

	"github.com/sheafq/sheaf/binlog"
)

// Gearman's side of the engine: what is submitted. A function of Gearman is a tube, and
// what is submitted to it is a job with a Task, which holds what beanstalkd's jobs do
// not have. Whatever ends a job, in either protocol, ends its task: finish is called
// before the job is discarded or buried, and tells the clients that wait for it.
//
//	submit ──▶ job with a task ──grab──▶ reserved ──Report──▶ finish, discard
//	   │             ▲                      │
//	   └ coalesced ──┘ (same function       ├─ worker gone: ready again
//	                    and unique)         ├─ its timeout: fails
//	                                        └─ beanstalkd's delete, bury, release
//
// A job in the foreground is there for the clients that wait for it. It is not in the
// log, and is discarded when the last of them goes: at once if no worker has it, else
// when the worker gives it back.

// The priorities of what Gearman submits. As in beanstalkd a lower number goes first,
// and of jobs with the same number the lower id.
const (
	PriHigh   uint32 = 0
	PriNormal uint32 = 1024
	PriLow    uint32 = 1<<32 - 1
)

// taskTTR is the TTR in seconds of a job that was submitted by Gearman, which knows none,
// while a beanstalkd worker has it. The worker can touch it.
const taskTTR = 3600

// Task is what a job has if it was submitted by Gearman. The submitter fills in the
// exported fields before it posts the task. Unique and Reducer never change after that,
// so any goroutine may read them; all else belongs to whoever has the shard's turn.
type Task struct {
	Unique, Reducer string
	// Background says that the job stays though nobody waits for it, and that it is
	// kept in the log. The shard sets it when a job of the foreground is submitted again
	// in the background, and clears it when a worker's job is cancelled.
	Background bool

	keyed bool   // others are coalesced with it
	hash  uint64 // of its key, once it was looked for

	done, total uint32 // the progress that the worker has reported
	retries     uint32 // how often it was given back
	heir        uint32 // its place among the heirs of its key, counted from 1; 0 if it is none
	listeners   uint32 // in the list that follows
	waiting     *listener
	last        *listener
	heirs       *heirs // of its key, if it is keyed; nil if there were none
}

// logs tells whether j is kept in a log.
func (s *Shard) logs(j *job) bool { return s.log != nil && !j.foreground }

// submit serves Submit: the task is coalesced with a job that has its key, or becomes a
// new job.
func (s *Shard) submit(r *Request) {
	task := r.Task
	key, keyed := task.keyOf(r.Body)
	if keyed {
		task.hash = s.hash(key)
	}
	// The tube may not be there yet. It is not made for a task that is refused.
	t := s.tubes[r.Name]
	var f *function
	if t != nil {
		f = t.function
	}
	if f != nil && keyed {
		j := s.withKey(f, key, task.hash)
		if j == nil && key.workload {
			// As in gearmand, a job whose unique equals the workload will do, too, if that is
			// also its workload.
			other := taskKey{text: key.text}
			if j = s.withKey(f, other, s.hash(other)); j != nil && string(s.body(j)) != string(r.Body) {
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
	case s.failed: // in the foreground, too: no worker would get it
		r.Status = Failed
	case f != nil && f.limits[band] > 0 && t.jobs-t.buried.n >= int(f.limits[band]):
		r.Status = QueueFull
	case !s.fits(len(r.Body), more):
		s.lacksMemory(r, OverCap)
	case s.cfg.Draining.Load():
		r.Status = Draining
	case logged && !s.log.FitsPut(binlog.MostPut(len(r.Name), len(r.Body), task.size())):
		s.noRoom(r)
	default:
		t = s.tube(r.Name)
		r.ID, r.Created, r.Tube, r.TTR = s.cfg.Directory.NextID(), s.now, t, taskTTR
		j := s.newJob(r)
		if j == nil {
			s.lacksMemory(r, NoMemory)
			s.drop(t)
			return
		}
		f = t.asFunction()
		j.tasked = s.tasks.add(task)
		s.memory.charge(task.footprint())
		if keyed {
			key, _ = task.keyOf(s.body(j)) // the key must not refer to r.Body, which may go
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

// join serves Submit of a task that is coalesced with j.
func (s *Shard) join(r *Request, j *job) {
	task := s.taskOf(j)
	switch {
	case s.failed:
		r.Status = Failed
		return
	case r.Task.Background:
		if j.foreground && !s.makeBackground(r, j, task) {
			return
		}
	case task.listeners >= mostListeners:
		r.Status = QueueFull
		return
	case !s.memory.fits(listenerFootprint):
		s.lacksMemory(r, OverCap)
		return
	default:
		s.listen(r.Client, j, task)
	}
	r.ID = j.id
}

// makeBackground makes j, which is in the foreground, a job of the background, which is
// in the log. If the log has no room for it, it answers r and reports false.
func (s *Shard) makeBackground(r *Request, j *job, task *Task) bool {
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

// footprint returns how many bytes a task counts for in the memory budget.
func (t *Task) footprint() int64 {
	return int64(unsafe.Sizeof(Task{})) + int64(t.size())
}

// size returns how many bytes t adds to its job's record in the log: 0 if t is nil.
func (t *Task) size() int {
	if t == nil {
		return 0
	}
	return len(t.Unique) + len(t.Reducer)
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
	key := taskKey{text: r.Name}
	hash := s.hash(key)
	for _, f := range s.keyed {
		if j := s.withKey(f, key, hash); j != nil && (oldest == nil || j.id < oldest.id) {
			oldest = j
		}
	}
	if oldest == nil {
		r.Status = NotFound
		return
	}
	s.describe(r, oldest)
}

// describe answers an inquiry with j.
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
