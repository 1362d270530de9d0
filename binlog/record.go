package binlog

import (
	"encoding/binary"
	"fmt"
)

// State is where a job is put when the log is read back. These numbers are on
// disk.
type State uint8

// A job that was reserved is ready when it is read back.
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

// Meta is what of a job may change, as it stands after a change.
type Meta struct {
	ID    uint64
	State State
	Pri   uint32
	Delay uint32 // seconds, as last given
	// At is when a delayed job becomes ready, in nanoseconds of Unix time; and
	// of a buried one its place among the buried: those with a smaller number
	// were buried before. 0 for ready jobs.
	At                                          int64
	Reserves, Timeouts, Releases, Buries, Kicks uint32
}

// Job is all that is kept of a job.
type Job struct {
	Meta
	TTR     uint32 // seconds
	Created int64  // nanoseconds of Unix time
	Tube    string
	Body    []byte // without the CRLF that ends it on the wire
}

// A kind says what a record is. These numbers are on disk; see the package
// comment for the layout of each.
type kind uint8

const (
	kindPut    kind = 1 // a job, all of it: a put, or a copy made by cleaning
	kindChange kind = 2 // what of a job may change, as it is now
	kindDelete kind = 3 // the job is no more
	kindDrop   kind = 4 // segments up to this one hold nothing that is needed
	kindRoll   kind = 5 // the stream goes on in that segment
)

func (k kind) String() string {
	return [...]string{"kind 0", "put", "change", "delete", "drop", "roll"}[k]
}

// The first byte of a record: the kind, the state, and whether there are
// counters, which new jobs do not have.
const (
	kindMask    = 0x0f
	stateShift  = 4
	stateMask   = 3
	countedFlag = 0x40
)

// maxMeta is how long the record of a Meta is at most, in bytes.
const maxMeta = 1 + 10 + 5 + 5 + 8 + 5*5

// sizeOfPut is how long the record of a whole job is at most, in bytes.
func sizeOfPut(tube, body int) int { return maxMeta + 5 + 8 + 1 + tube + 5 + body }

// appendPut appends the record of a whole job.
func appendPut(b []byte, j *Job) []byte {
	b = appendMeta(b, kindPut, &j.Meta)
	b = binary.AppendUvarint(b, uint64(j.TTR))
	b = binary.LittleEndian.AppendUint64(b, uint64(j.Created))
	b = append(b, byte(len(j.Tube)))
	b = append(b, j.Tube...)
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

// appendNumber appends a record that says no more than a number: a delete the
// id of the job, a drop or a roll the index of a segment.
func appendNumber(b []byte, k kind, n uint64) []byte {
	return binary.AppendUvarint(append(b, byte(k)), n)
}

// record is one record as it is read. It is used again for the next one, and
// its body belongs to the block.
type record struct {
	kind   kind
	number uint64 // of kindDelete, kindDrop and kindRoll
	job    Job    // of kindPut; its Meta of kindChange
}

// records goes through the records of a block.
type records struct {
	rest  []byte
	bad   bool
	names map[string]string // of tubes, so that each is one string
}

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
		if r.kind == kindPut {
			r.job.TTR = d.uint32()
			r.job.Created = int64(d.fixed())
			r.job.Tube = d.name()
			r.job.Body = d.bytes(d.uvarint())
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
	d.bad = d.bad || m.State > Buried || first&0x80 != 0
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

func (d *records) name() string {
	n := d.bytes(1)
	if n == nil {
		return ""
	}
	b := d.bytes(uint64(n[0]))
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if d.names == nil || len(d.names) > 1<<16 {
		d.names = make(map[string]string)
	}
	d.names[s] = s
	return s
}
