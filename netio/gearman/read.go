package gearman

// Reading: packets out of the input, and large ones into slices of their own.

import (
	"bytes"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/shard"
)

// large is a packet on its way into a slice of its own.
type large struct {
	typ    uint32
	size   int    // of the arguments
	data   []byte // room for them, or what was granted so far, and for a CRLF; counted in the memory budget
	filled int
}

const (
	// maxHead is how many bytes the arguments in front of a payload may take, or all
	// of a packet without one. It is the reference's.
	maxHead = 8192
	// maxSkip is how many bytes of a packet that is too large are read before the
	// connection is closed: so that its sender comes to read why.
	maxSkip = 64 << 20
	// firstGrant is how much memory a packet is given on the strength of its
	// header alone. It gets as much again whenever that has arrived.
	firstGrant = 64 << 10
)

// step takes one packet or line from the input, or a part of a large packet. It
// reports false when there has to be more input first.
func (s *session) step() bool {
	switch {
	case s.skip > 0:
		n := min(s.skip, len(s.rest))
		s.rest = s.rest[n:]
		if s.skip -= n; s.skip > 0 {
			return false
		}
		s.err = s.then
		return s.err == nil
	case s.large != nil:
		return s.readLarge()
	}
	if len(s.rest) == 0 {
		return false
	}
	if s.rest[0] != 0 {
		return s.line()
	}
	if len(s.rest) < headerSize {
		return false
	}
	h, d := parseHeader(s.rest)
	switch whole := headerSize + int(h.size); {
	case d == neither:
		s.end(faultMagic, errMagic)
		return false
	case !s.fits(h):
		if s.isResult(h.typ) && !s.handleIsThere() {
			return false
		}
		s.fail(h)
		s.refuse(tooLarge(h.typ))
		if whole > maxSkip {
			s.err = errTooLarge
			return false
		}
		s.skip, s.then = whole, errTooLarge
		return true
	case len(s.rest) >= whole:
		data := s.rest[headerSize:whole:whole]
		s.rest = s.rest[whole:]
		s.packet(h.typ, d, data, nil)
		return true
	case whole <= netio.ReadSize:
		return false
	case d == response:
		s.end(faultMagic, errMagic)
		return false
	}
	return s.beginLarge(h)
}

// tooLarge returns the fault of a packet of that type that does not fit.
func tooLarge(typ uint32) fault {
	if f, ok := formOf(typ); ok && f.payload {
		return faultTooLarge
	}
	return faultHead
}

// beginLarge begins to read the packet in front, of which h is the header, into a
// slice of its own. There is none for a result before it is known that its sender
// has the job: that takes memory which no cap refuses.
func (s *session) beginLarge(h header) bool {
	if s.isResult(h.typ) {
		if !s.handleIsThere() {
			return false
		}
		if !s.hasJob() {
			s.noSuchJob(h.typ)
			s.skip, s.then = headerSize+int(h.size), nil
			return true
		}
	}
	s.rest = s.rest[headerSize:]
	s.large = &large{typ: h.typ, size: int(h.size)}
	return s.readLarge()
}

// hasJob tells whether the client has the job that the result in front is of.
func (s *session) hasJob() bool {
	id, ok := s.protocol.handles.parse(word(s.rest[headerSize:]))
	s.flush() // it may be about to get it
	return ok && s.client.Holds(id)
}

// fits tells whether a packet of that size may be one. (Whether its workload is
// too large is known when its arguments are.)
func (s *session) fits(h header) bool {
	most := maxHead
	if f, ok := formOf(h.typ); ok && f.payload {
		most += s.protocol.cfg.MaxJobSize
	}
	return int64(h.size) <= int64(most)
}

// fail has a job fail whose result, of which h is the header, is too large to be
// taken: it would come out so the next time, too.
func (s *session) fail(h header) {
	if s.isResult(h.typ) && split(s.rest[headerSize:], 2, &s.args) {
		s.failJob()
	}
}

// failJob has the job fail whose handle is the first argument.
func (s *session) failJob() {
	if id, ok := s.protocol.handles.parse(s.args[0]); ok {
		s.report(typeWorkFail, id, nil, tagQuiet)
	}
}

// isResult tells whether packets of that type have a result: a handle, and data.
func (s *session) isResult(typ uint32) bool {
	f, ok := formOf(typ)
	return ok && f.payload && f.args == 2
}

// handleIsThere tells whether so much has come of a result that its handle has,
// if it is one.
func (s *session) handleIsThere() bool {
	args := s.rest[headerSize:]
	return len(args) > maxHandle || bytes.IndexByte(args, 0) >= 0
}

// readLarge takes input for the packet that is being read into a slice.
func (s *session) readLarge() bool {
	l := s.large
	for {
		n := copy(l.data[l.filled:min(len(l.data), l.size)], s.rest)
		s.rest = s.rest[n:]
		l.filled += n
		if l.filled < min(len(l.data), l.size) {
			// What comes next goes there without us; we are called when it is full.
			s.conn.ReadInto(l.data[l.filled:min(len(l.data), l.size)])
			l.filled = min(len(l.data), l.size)
			return false
		}
		if l.filled == l.size && len(l.data) == l.size+len(crlf) {
			break
		}
		grown := min(max(2*len(l.data), firstGrant), l.size+len(crlf))
		if !s.holdMemory(l.typ, grown-len(l.data)) {
			s.client.FreeMemory(len(l.data))
			s.large = nil
			s.refuse(faultMemory)
			s.skip, s.then = l.size-l.filled, nil
			return true
		}
		l.data = append(make([]byte, 0, grown), l.data...)[:grown]
	}
	s.large = nil
	s.client.FreeMemory(len(l.data))
	s.packet(l.typ, request, l.data[:l.size], l.data)
	return true
}

// holdMemory counts n bytes more of a packet of that type that is being read. It
// reports false if there is no room for them. There is for a result, after which a
// job goes: what is over the cap then, new jobs have to make up for.
func (s *session) holdMemory(typ uint32, n int) bool {
	if s.isResult(typ) {
		s.client.HoldMemoryAnyway(n)
		return true
	}
	return s.client.HoldMemory(n)
}

const crlf = "\r\n"

// Bodies of up to Inline bytes are good only until Await returns nil (see
// router.Client.Keep), so WriteBody has to copy them. If it does not, this constant is
// negative and does not compile.
const _ = uint(netio.CopyMax - shard.Inline)

// body returns what a job or an event keeps of a payload, with the CRLF that the
// bodies of jobs end with if it is a job's. own is the slice of which the payload
// is the end, but for room for a CRLF, if it need not be copied. It is copied all
// the same where what stands in front of it would stay with it, and is not little:
// the memory budget knows of the payload alone.
func body(payload, own []byte, job bool) []byte {
	end := 0
	if job {
		end = len(crlf)
	}
	if head := len(own) - len(payload) - len(crlf); own != nil && head <= len(payload)/64 {
		copy(own[len(own)-len(crlf):], crlf)
		return own[head : head+len(payload)+end]
	}
	b := make([]byte, len(payload)+end)
	copy(b[copy(b, payload):], crlf)
	return b
}

// packet serves one packet. data is good until it returns; see body for own.
func (s *session) packet(typ uint32, d direction, data, own []byte) {
	f, ok := formOf(typ)
	switch {
	case d == response:
		s.refuse(faultMagic)
	case !ok:
		s.refuse(faultCommand)
	case !split(data, f.args, &s.args) && !s.withoutAggregator(typ, data) && !s.withoutData(typ, data):
		s.refuse(faultArguments)
	case f.payload && len(data)-len(s.args[f.args-1]) > maxHead:
		s.refuse(faultHead)
	case f.payload && len(s.args[f.args-1]) > s.protocol.cfg.MaxJobSize:
		if s.isResult(typ) {
			s.failJob()
		}
		s.end(faultTooLarge, errTooLarge)
	default:
		s.serve(typ, own)
	}
	clear(s.args[:])
}

// withoutAggregator takes a SUBMIT_REDUCE_JOB for one that lacks the aggregator,
// which nobody looks at, as some descriptions of the protocol have it.
func (s *session) withoutAggregator(typ uint32, data []byte) bool {
	if typ != typeSubmitReduceJob && typ != typeSubmitReduceBackground || !split(data, 4, &s.args) {
		return false
	}
	s.args[3], s.args[4] = nil, s.args[3]
	return true
}

// withoutData takes a result that is a handle alone for one with empty data: some
// workers send no NUL behind the handle when they have nothing to say.
func (s *session) withoutData(typ uint32, data []byte) bool {
	if !s.isResult(typ) || len(data) == 0 {
		return false
	}
	s.args[0], s.args[1] = data, nil
	return true
}
