package shard

import "unsafe"

// state is where a job is; see the list of places in the package comment.
type state uint8

const (
	ready state = iota
	delayed
	reserved
	buried
)

func (s state) String() string {
	return [...]string{"ready", "delayed", "reserved", "buried"}[s]
}

// urgentPri is the priority below which a job counts as urgent.
const urgentPri = 1024

// job is one job, in a slot of its shard's slab, with its body behind it if that is not
// large. Only whoever has its shard's turn reads or writes it.
//
// It may point to nothing but other jobs, since the collector does not look here.
type job struct {
	id uint64

	// Links of the buried list of the tube (in the order of burying), of the held
	// list of the holder (in the order of reserving), or of free slots.
	prev, next *job

	created int64 // on the shards' clock
	at      int64 // on the shards' clock, deadline of a delayed or reserved job; of a buried one see journal.burials

	// Numbers in the tables of the jobStore.
	inTube uint32
	heldBy uint32 // a client, while reserved
	tasked uint32 // a Task; 0 if it has none

	chunk uint32 // of the slab
	size  uint32 // of the body with its CRLF, in bytes
	pri   uint32
	delay uint32 // seconds: the last one given
	ttr   uint32 // seconds
	pos   int32  // index in the heap that it is in; 2^31 jobs take some 400 GB

	reserves, timeouts, releases, buries, kicks uint32

	file uint32 // segment of the log that the job is in, its lower bits; 0 if there is no log

	state state

	foreground bool // not in the log, and discarded when nobody waits for it, which includes a cancelled job
	fails      bool // while reserved: fails at its deadline, rather than being ready again
}

// jobRef is a pointer to a job that the collector does not take for one, 0 for nil: so
// it need not look at what holds many of them, and does not know the memory of jobs
// anyway.
type jobRef uintptr

func (j *job) ref() jobRef { return jobRef(unsafe.Pointer(j)) }

// job returns the job, nil for 0.
func (r jobRef) job() *job { return *(**job)(unsafe.Pointer(&r)) }

// noDeadline is a deadline that never comes.
const noDeadline = 1 << 62

const jobSize = int(unsafe.Sizeof(job{}))

// Inline is how many bytes a body may have, with its CRLF, to be copied to behind its
// job. A larger one stays where it was read, and is written from there.
const Inline = maxSlot - jobSize

// jobStore holds the jobs of a shard, and what they refer to by number.
type jobStore struct {
	slab      slab
	tubeTable table[*Tube]
	holders   table[*Client] // those that have a job, or have had one
	tasks     table[*Task]
	bodies    table[[]byte] // the large ones
}

// allot returns a new job with that id and body, otherwise blank; nil if the system has
// no memory. A large body is the job's from then on.
func (s *jobStore) allot(id uint64, body []byte) *job {
	j := s.slab.take(slotFor(len(body)))
	if j == nil {
		return nil
	}
	*j = job{id: id, chunk: j.chunk, size: uint32(len(body))}
	if len(body) > Inline {
		*j.large() = s.bodies.add(body)
	} else {
		copy(j.inline(), body)
	}
	return j
}

// free forgets j, and its task, if it has one.
func (s *jobStore) free(j *job) {
	s.tasks.remove(j.tasked)
	if j.size > uint32(Inline) {
		s.bodies.remove(*j.large())
	}
	s.slab.give(j)
}

// slotFor returns how many bytes a job with a body of n needs.
func slotFor(n int) int {
	if n > Inline {
		return jobSize + 4
	}
	return jobSize + n
}

// inline returns a body of at most Inline bytes, which is behind its job.
func (j *job) inline() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(j), jobSize)), j.size)
}

// large returns the number of a large body, which is behind its job.
func (j *job) large() *uint32 { return (*uint32)(unsafe.Add(unsafe.Pointer(j), jobSize)) }

// body returns the body with its CRLF, which is good until the job is freed.
func (s *jobStore) body(j *job) []byte {
	if j.size > uint32(Inline) {
		return s.bodies.at(*j.large())
	}
	return j.inline()
}

// bodyFor returns the body for an answer to w's client, which may read it when the job
// is no more.
func (s *jobStore) bodyFor(j *job, w *Waiter) []byte {
	if j.size > uint32(Inline) {
		return s.bodies.at(*j.large())
	}
	return w.Keep(j.inline(), "")
}

// tubeOf returns the tube that j is in.
func (s *jobStore) tubeOf(j *job) *Tube { return s.tubeTable.at(j.inTube) }

// holderOf returns the client that has j, nil if none has.
func (s *jobStore) holderOf(j *job) *Client { return s.holders.at(j.heldBy) }

// taskOf returns j's task, nil if it has none.
func (s *jobStore) taskOf(j *job) *Task { return s.tasks.at(j.tasked) }

// footprint returns how many bytes a job with a body of that many counts for in the
// memory budget: its slot, its place in a heap, and the body if that is elsewhere. (The
// directory counts itself.)
func footprint(body int) int64 {
	n := slotSize(slotFor(body)) + 24
	if body > Inline {
		n += body
	}
	return int64(n)
}

// readyKey orders ready jobs: by priority and id.
func (j *job) readyKey() key { return key{uint64(j.pri), j.id} }

// jobList is a first-in first-out list, linked through the jobs. A job is in
// one list at a time. The zero value is empty.
type jobList struct {
	head, tail *job
	n          int
}

func (l *jobList) append(j *job) {
	j.prev, j.next = l.tail, nil
	if l.tail == nil {
		l.head = j
	} else {
		l.tail.next = j
	}
	l.tail = j
	l.n++
}

func (l *jobList) remove(j *job) {
	if j.prev == nil {
		l.head = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		l.tail = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.prev, j.next = nil, nil
	l.n--
}
