package shard

import (
	"container/heap"
	"unsafe"
)

// Coalescing: tasks of one function with the same unique are one job. Function and
// unique are a key, and what is submitted is coalesced with the job that has its key. A
// buried job has none, so that another can be submitted in its place. If it is then
// kicked, or reserved by its id, while the other is there, two jobs have one unique.
// The older one, by id, has the key then, and when it goes the next. That depends on
// the ids alone, so it is the same after a restart.

// taskKey is what makes two tasks of a function the same. Its text may refer to the
// body of the job that has the key.
type taskKey struct {
	workload bool // text is the workload, which a unique of "-" stands for
	text     string
}

// keyOf returns the key of a task with that body, to which the key may refer; ok is
// false if the task has none.
func (t *Task) keyOf(body []byte) (key taskKey, ok bool) {
	if t.Unique != "-" {
		return taskKey{text: t.Unique}, t.Unique != ""
	}
	n := len(body) - len("\r\n")
	if n == 0 {
		return taskKey{}, false
	}
	return taskKey{true, unsafe.String(unsafe.SliceData(body), n)}, true
}

// heirs are the younger jobs with the unique of one that has the key: a heap, the oldest
// first. They know their places (Task.heir), so any of them can leave.
type heirs []heir

type heir struct {
	job  *job
	task *Task
}

func (h heirs) Len() int           { return len(h) }
func (h heirs) Less(a, b int) bool { return h[a].job.id < h[b].job.id }

func (h heirs) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].task.heir, h[b].task.heir = uint32(a+1), uint32(b+1)
}

// Push is heap.Interface's.
func (h *heirs) Push(x any) {
	e := x.(heir)
	*h = append(*h, e)
	e.task.heir = uint32(len(*h))
}

// Pop is heap.Interface's.
func (h *heirs) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = heir{}
	*h = (*h)[:last]
	e.task.heir = 0
	return e
}

// claimKey gives j, which is not coalesced with yet, its key, or makes it an heir if an
// older job has that. A function that was dropped while j was buried is made again.
func (s *Shard) claimKey(j *job, task *Task) {
	f := s.tubeOf(j).asFunction()
	key, ok := task.keyOf(s.body(j))
	if !ok {
		return
	}
	task.hash = s.hash(key)
	owner := s.withKey(f, key, task.hash)
	if owner == nil {
		s.noteKey(f, key, j, task)
		return
	}
	first := s.taskOf(owner)
	if first.heirs == nil {
		first.heirs = new(heirs)
	}
	if owner.id < j.id {
		heap.Push(first.heirs, heir{j, task})
		return
	}
	heap.Push(first.heirs, heir{owner, first})
	first.keyed = false
	f.replaceKey(key, j, task, owner, first)
}

// noteKey gives j a key that no job has. Its hash is in task.
func (s *Shard) noteKey(f *function, key taskKey, j *job, task *Task) {
	if f.keys.len() == 0 {
		f.place = len(s.keyed)
		s.keyed = append(s.keyed, f)
	}
	f.keys.add(key, task.hash, j)
	task.keyed = true
}

// replaceKey gives j, the job of task, the key of owner, the job of was, and its heirs.
func (f *function) replaceKey(key taskKey, j *job, task *Task, owner *job, was *Task) {
	f.keys.remove(key, task.hash, owner)
	f.keys.add(key, task.hash, j)
	task.keyed = true
	task.heirs, was.heirs = was.heirs, nil
}

// forgetKey takes its key from j and gives it to the next heir, or takes j from among
// the heirs.
func (s *Shard) forgetKey(j *job, task *Task) {
	if !task.keyed && task.heir == 0 {
		return
	}
	key, _ := task.keyOf(s.body(j))
	f := s.tubeOf(j).function
	if task.heir > 0 {
		first := s.taskOf(s.withKey(f, key, task.hash))
		heap.Remove(first.heirs, int(task.heir-1))
		return
	}
	task.keyed = false
	if h := task.heirs; h != nil && h.Len() > 0 {
		next := heap.Pop(h).(heir)
		key, _ = next.task.keyOf(s.body(next.job))
		f.replaceKey(key, next.job, next.task, j, task)
		return
	}
	task.heirs = nil
	f.keys.remove(key, task.hash, j)
	if f.keys.len() == 0 {
		last := s.keyed[len(s.keyed)-1]
		s.keyed[f.place], last.place = last, f.place
		s.keyed[len(s.keyed)-1] = nil
		s.keyed = s.keyed[:len(s.keyed)-1]
	}
}
