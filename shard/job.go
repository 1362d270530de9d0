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

// job is one job. Its shard owns it and uses it again after the job is deleted;
// only its body is ever seen by others.
type job struct {
	id     uint64
	bytes  *byte // the body with its CRLF, see Request.Body; size of them
	tube   *Tube
	holder *Client // while reserved

	// Links of the buried list of the tube (in the order of burying) or of the
	// held list of the holder (in the order of reserving).
	prev, next *job

	created int64 // on the shards' clock
	at      int64 // deadline of a delayed or reserved job, on the shards' clock; of a buried one, see Shard.burials

	size  uint32 // bytes
	pri   uint32
	delay uint32 // seconds: the last one given
	ttr   uint32 // seconds
	pos   int32  // index in the heap that it is in; 2^31 jobs take some 400 GB

	reserves, timeouts, releases, buries, kicks uint32

	file uint32 // segment of the log that the job is in, its lower bits; 0 if there is no log

	state state

	tasked     bool // has a Task
	foreground bool // is not in the log, and goes when nobody waits for it any more
	fails      bool // while reserved: has failed at its deadline, rather than being ready again
}

// noDeadline is a deadline that does not come.
const noDeadline = 1 << 62

// body returns the body with its CRLF, nil if there is none yet.
func (j *job) body() []byte { return unsafe.Slice(j.bytes, j.size) }

// setBody takes over b, of at most 4 GiB.
func (j *job) setBody(b []byte) { j.bytes, j.size = unsafe.SliceData(b), uint32(len(b)) }

// jobOverhead is what a job costs beside its body: itself, its place in a heap
// and in the directory.
const jobOverhead = int64(unsafe.Sizeof(job{})) + 24 + 12

// footprint is what a job with that body counts for in the memory budget, in
// bytes.
func footprint(body []byte) int64 { return jobOverhead + int64(len(body)) }

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
