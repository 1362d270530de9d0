package gearman

// Reading: packets from the input, and large ones into slices of their own.

import (
	"bytes"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/shard"
)

// large is a packet that is being read into a slice of its own.
type large struct {
	typ  uint32
	args netio.Incoming // with room for a CRLF; what is allocated is counted in the memory budget
}

const (
	// maxHead is how many bytes the arguments in front of a payload may take, or all
	// arguments of a packet without one. The limit is the reference's.
	maxHead = 8192
	// maxSkip is how many bytes of a packet that is too large are read before the
	// connection is closed, so that its sender gets to read the error.
	maxSkip = 64 << 20
)

// step takes one packet or line from the input, or a part of a large packet. It reports
// false if more input is needed first, or if the connection ends.
func (s *session) step() bool {
	switch {
	case s.skip > 0:
		n := min(s.skip, len(s.rest))
		s.rest = s.rest[n:]
		if s.skip -= n; s.skip > 0 {
			return false
		}
		s.err = s.afterSkip
		return s.err == nil
	case s.large != nil:
		return s.readLarge()
	}
	if len(s.rest) == 0 {
		return false
	}
	if s.rest[0] != 0 {
		return s.adminLine()
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
		s.failTooLarge(h)
		s.refuse(tooLarge(h.typ))
		if whole > maxSkip {
			s.err = errTooLarge
			return false
		}
		s.skip, s.afterSkip = whole, errTooLarge
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

// tooLarge returns the fault for a packet of that type that does not fit.
func tooLarge(typ uint32) fault {
	if f, ok := formOf(typ); ok && f.payload {
		return faultTooLarge
	}
	return faultHead
}

// beginLarge begins to read the packet at the front of the input, whose header is h,
// into a slice of its own. A result gets that slice only once it is known that its sender
// has the job, since no cap refuses the memory for a result.
func (s *session) beginLarge(h header) bool {
	if s.isResult(h.typ) {
		if !s.handleIsThere() {
			return false
		}
		if !s.hasJob() {
			s.noSuchJob(h.typ)
			s.skip, s.afterSkip = headerSize+int(h.size), nil
			return true
		}
	}
	s.rest = s.rest[headerSize:]
	s.large = &large{typ: h.typ, args: netio.Incoming{Size: int(h.size), Room: len(crlf)}}
	return s.readLarge()
}

// hasJob reports whether the worker has the job that the result at the front is about.
func (s *session) hasJob() bool {
	id, ok := s.protocol.handles.parse(untilNUL(s.rest[headerSize:]))
	s.flush() // it may be about to get it
	return ok && s.client.Holds(id)
}

// fits reports whether a packet may be as large as its header says. (Whether its
// payload is too large is known only when its other arguments have been read.)
func (s *session) fits(h header) bool {
	most := maxHead
	if f, ok := formOf(h.typ); ok && f.payload {
		most += s.protocol.cfg.MaxJobSize
	}
	return int64(h.size) <= int64(most)
}

// failTooLarge makes a job fail if the packet with header h is its result and too large
// to be accepted: the next worker's would be, too.
func (s *session) failTooLarge(h header) {
	if s.isResult(h.typ) && split(s.rest[headerSize:], 2, &s.args) {
		s.failJob()
	}
}

// failJob makes the job fail whose handle is the first argument.
func (s *session) failJob() {
	if id, ok := s.protocol.handles.parse(s.args[0]); ok {
		s.report(typeWorkFail, id, nil, tagQuiet)
	}
}

// isResult reports whether packets of that type carry a result: a handle and data.
func (s *session) isResult(typ uint32) bool {
	f, ok := formOf(typ)
	return ok && f.payload && f.args == 2
}

// handleIsThere reports whether enough of the result at the front has come to contain
// its handle, if it is a valid one.
func (s *session) handleIsThere() bool {
	args := s.rest[headerSize:]
	return len(args) > maxHandle || bytes.IndexByte(args, 0) >= 0
}

// readLarge takes input for the packet that is being read into a slice.
func (s *session) readLarge() bool {
	l := s.large
	gap, ok := l.args.Take(&s.rest, func(n int) bool { return s.holdMemory(l.typ, n) })
	if len(gap) > 0 {
		s.conn.ReadInto(gap)
		return false
	}
	s.large = nil
	data := l.args.Data
	s.client.FreeMemory(len(data))
	if !ok {
		s.refuse(faultMemory)
		s.skip, s.afterSkip = l.args.Missing(), nil
		return true
	}
	s.packet(l.typ, request, data[:l.args.Size], data)
	return true
}

// holdMemory counts n more bytes of a packet of that type that is being read. It
// reports false if there is no room for them. For a result there always is, since its
// job goes when it has been read; if that exceeds the cap, new jobs are refused.
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

// body returns what a job or an event keeps of a payload; if it is for a job, with the
// CRLF that the bodies of jobs end with. own is nil if the payload must be copied, or
// else the slice that it is in: behind it there is only room for a CRLF. Even then the
// payload is copied if much stands in front of it, which would be kept alive with it
// and which the memory budget does not count.
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

// packet serves one packet. data, its arguments, is valid until it returns; see body for
// own.
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

// withoutAggregator reads a SUBMIT_REDUCE_JOB that lacks the aggregator, as some
// descriptions of the protocol have it. Nobody uses the aggregator.
func (s *session) withoutAggregator(typ uint32, data []byte) bool {
	if typ != typeSubmitReduceJob && typ != typeSubmitReduceBackground || !split(data, 4, &s.args) {
		return false
	}
	s.args[3], s.args[4] = nil, s.args[3]
	return true
}

// withoutData reads a result that consists of a handle alone as one with empty data:
// some workers send no NUL behind the handle when they have nothing to say.
func (s *session) withoutData(typ uint32, data []byte) bool {
	if !s.isResult(typ) || len(data) == 0 {
		return false
	}
	s.args[0], s.args[1] = data, nil
	return true
}
