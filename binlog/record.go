package binlog

import (
	"encoding/binary"
	"fmt"
)

// State is the state in which a job is read back. These numbers are on disk.
type State uint8

// The states. A job that was reserved is read back as ready.
const (
	Ready State = iota
	Delayed
	Buried
)

func (s State) String() string {
	if s > Buried {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return [...]string{"ready", "delayed", "buried"}[s]
}

// Meta is the part of a job that may change, as it is after a change.
type Meta struct {
	ID    uint64
	State State
	Pri   uint32
	Delay uint32 // seconds, as last given
	// At is, of a delayed job, when it becomes ready, in nanoseconds of Unix time; of
	// a buried one, its place among the buried: those with a smaller number were buried
	// before it. It is 0 for ready jobs.
	At                                          int64
	Reserves, Timeouts, Releases, Buries, Kicks uint32
}

// Job is all that is kept of a job.
type Job struct {
	Meta
	TTR     uint32 // seconds
	Created int64  // nanoseconds of Unix time
	// Tube is a name of at most 255 bytes. That of a Task is the name of a function,
	// which may be any bytes, up to MaxName of them.
	Tube string
	Body []byte // without the CRLF that ends it on the wire
	// Task says that a Gearman client submitted the job. Only then it has Unique and
	// Reducer, the name of a function: any bytes, up to MaxName each.
	Task            bool
	Unique, Reducer string
}

// MaxName is how many bytes the tube of a Task, its Unique and its Reducer may
// have each. In a file a longer one is damage.
const MaxName = 1<<16 - 1

// kind says what a record is. These numbers are on disk; the package comment has
// the layout of each.
type kind uint8

const (
	kindPut    kind = 1 // a whole job: a put, or a copy made by cleaning
	kindChange kind = 2 // a job's Meta, as it is now
	kindDelete kind = 3 // the job is no more
	kindDrop   kind = 4 // segments before this one hold nothing that is needed
	kindRoll   kind = 5 // the stream goes on in that segment
)

func (k kind) String() string {
	return [...]string{"kind 0", "put", "change", "delete", "drop", "roll"}[k]
}

// The first byte of a record: the kind, the state, whether there are counters
// (which are left out if all are 0), and whether a whole job is a Task.
const (
	kindMask    = 0x0f
	stateShift  = 4
	stateMask   = 3
	countedFlag = 0x40
	taskFlag    = 0x80
)

// maxMeta is how many bytes the record of a Meta has at most.
const maxMeta = 1 + 10 + 5 + 5 + 8 + 5*5

// maxLength is how many bytes the length of a name takes at most.
const maxLength = 3

// sizeOfPut is how many bytes the record of a whole job has at most. task is how
// many its Unique and Reducer have together.
func sizeOfPut(tube, body, task int) int {
	return maxMeta + 5 + 8 + 3*maxLength + tube + task + 5 + body
}

// appendPut appends the record of a whole job.
func appendPut(b []byte, j *Job) []byte {
	first := len(b)
	b = appendMeta(b, kindPut, &j.Meta)
	b = binary.AppendUvarint(b, uint64(j.TTR))
	b = binary.LittleEndian.AppendUint64(b, uint64(j.Created))
	if j.Task {
		b[first] |= taskFlag
		for _, s := range [...]string{j.Tube, j.Unique, j.Reducer} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	} else {
		b = append(b, byte(len(j.Tube)))
		b = append(b, j.Tube...)
	}
	b = binary.AppendUvarint(b, uint64(len(j.Body)))
	return append(b, j.Body...)
}

// appendMeta appends the record of a change, or the beginning of one of a whole
// job.
func appendMeta(b []byte, k kind, m *Meta) []byte {
	first := byte(k) | byte(m.State)<<stateShift
	counted := m.Reserves|m.Timeouts|m.Releases|m.Buries|m.Kicks != 0
	if counted {
		first |= countedFlag
	}
	b = append(b, first)
	b = binary.AppendUvarint(b, m.ID)
	b = binary.AppendUvarint(b, uint64(m.Pri))
	b = binary.AppendUvarint(b, uint64(m.Delay))
	if m.State != Ready {
		b = binary.LittleEndian.AppendUint64(b, uint64(m.At))
	}
	if counted {
		for _, n := range [...]uint32{m.Reserves, m.Timeouts, m.Releases, m.Buries, m.Kicks} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// appendNumber appends a record that has only a number: of a delete the job's id,
// of a drop or a roll the index of a segment.
func appendNumber(b []byte, k kind, n uint64) []byte {
	return binary.AppendUvarint(append(b, byte(k)), n)
}

// record is one record as it is read. It is reused for the next one, and its body
// is part of the block.
type record struct {
	kind   kind
	number uint64 // for kindDelete, kindDrop and kindRoll
	job    Job    // for kindPut; for kindChange only its Meta
}

// records goes through the records of a block. Its methods that read a part of a
// record set bad if that makes no sense, and may then return zero values.
type records struct {
	rest []byte
	bad  bool
	// version1 says that they are of version 1 of the format, which knows no Task.
	version1 bool
	// names are those of tubes and reducers, so that each is allocated once; kept is
	// how many bytes they have together.
	names map[string]string
	kept  int
}

// Once there are so many names, or bytes of them, all are forgotten.
const (
	manyNames = 1 << 16
	longNames = 1 << 24
)

// next reads one record. It reports false at the end of the block, and when
// what follows makes no sense: then bad is set.
func (d *records) next(r *record) bool {
	if len(d.rest) == 0 {
		return false
	}
	first := d.rest[0]
	d.rest = d.rest[1:]
	r.kind = kind(first & kindMask)
	switch r.kind {
	case kindPut, kindChange:
		d.meta(&r.job.Meta, first)
		if task := first&taskFlag != 0; r.kind == kindPut {
			d.put(&r.job, task)
		} else {
			d.bad = d.bad || task
		}
	case kindDelete, kindDrop, kindRoll:
		r.number = d.uvarint()
		d.bad = d.bad || first != byte(r.kind)
	default:
		d.bad = true
	}
	return !d.bad
}

func (d *records) meta(m *Meta, first byte) {
	m.State = State(first >> stateShift & stateMask)
	d.bad = d.bad || m.State > Buried
	m.ID = d.uvarint()
	d.bad = d.bad || m.ID == 0
	m.Pri = d.uint32()
	m.Delay = d.uint32()
	m.At = 0
	if m.State != Ready {
		m.At = int64(d.fixed())
	}
	m.Reserves, m.Timeouts, m.Releases, m.Buries, m.Kicks = 0, 0, 0, 0, 0
	if first&countedFlag != 0 {
		for _, n := range [...]*uint32{&m.Reserves, &m.Timeouts, &m.Releases, &m.Buries, &m.Kicks} {
			*n = d.uint32()
		}
	}
}

// put reads what the record of a whole job has after its Meta.
func (d *records) put(j *Job, task bool) {
	j.TTR = d.uint32()
	j.Created = int64(d.fixed())
	j.Task, j.Unique, j.Reducer = task, "", ""
	if task {
		d.bad = d.bad || d.version1
		j.Tube = d.name(d.length())
		j.Unique = string(d.bytes(d.length()))
		j.Reducer = d.name(d.length())
	} else {
		j.Tube = d.name(uint64(d.byte()))
	}
	j.Body = d.bytes(d.uvarint())
}

// length reads the length of a name.
func (d *records) length() uint64 {
	n := d.uvarint()
	if n > MaxName {
		d.bad, d.rest = true, nil
		return 0
	}
	return n
}

func (d *records) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *records) uint32() uint32 {
	v := d.uvarint()
	d.bad = d.bad || v > 1<<32-1
	return uint32(v)
}

func (d *records) fixed() uint64 {
	b := d.bytes(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (d *records) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *records) byte() byte {
	b := d.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// name reads a name of n bytes.
func (d *records) name(n uint64) string {
	b := d.bytes(n)
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if d.names == nil || len(d.names) >= manyNames || d.kept+len(s) > longNames {
		d.names, d.kept = make(map[string]string), 0
	}
	d.names[s] = s
	d.kept += len(s)
	return s
}
