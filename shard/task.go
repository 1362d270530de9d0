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
		if j.foreground && !s.makeBackground(r, j, task) {
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

// footprint is what a task counts for in the memory budget, in bytes.
func (t *Task) footprint() int64 {
	return int64(unsafe.Sizeof(Task{})) + int64(t.size())
}

// size is how many bytes a job's task adds to it in the log: 0 if there is none.
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
