package gearman

// The binary protocol's packets: their types, parsing headers and arguments, and
// appending answers.

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// The packet types, as they are on the wire. 5 is not in use.
const (
	typeCanDo                  = 1
	typeCantDo                 = 2
	typeResetAbilities         = 3
	typePreSleep               = 4
	typeNoop                   = 6
	typeSubmitJob              = 7
	typeJobCreated             = 8
	typeGrabJob                = 9
	typeNoJob                  = 10
	typeJobAssign              = 11
	typeWorkStatus             = 12
	typeWorkComplete           = 13
	typeWorkFail               = 14
	typeGetStatus              = 15
	typeEchoReq                = 16
	typeEchoRes                = 17
	typeSubmitJobBG            = 18
	typeError                  = 19
	typeStatusRes              = 20
	typeSubmitJobHigh          = 21
	typeSetClientID            = 22
	typeCanDoTimeout           = 23
	typeAllYours               = 24
	typeWorkException          = 25
	typeOptionReq              = 26
	typeOptionRes              = 27
	typeWorkData               = 28
	typeWorkWarning            = 29
	typeGrabJobUniq            = 30
	typeJobAssignUniq          = 31
	typeSubmitJobHighBG        = 32
	typeSubmitJobLow           = 33
	typeSubmitJobLowBG         = 34
	typeSubmitJobSched         = 35
	typeSubmitJobEpoch         = 36
	typeSubmitReduceJob        = 37
	typeSubmitReduceBackground = 38
	typeGrabJobAll             = 39
	typeJobAssignAll           = 40
	typeGetStatusUnique        = 41
	typeStatusResUnique        = 42

	types = 43 // one more than the last type
)

const (
	headerSize = 12

	magicRequest  = "\x00REQ"
	magicResponse = "\x00RES"

	// maxArgs is the most arguments that a packet has, including its payload.
	maxArgs = 8
)

// A header comes before the arguments of a packet.
type header struct {
	typ  uint32
	size uint32 // bytes of arguments; as claimed by the sender, they may never come
}

// A direction is what a packet's magic says.
type direction uint8

const (
	neither direction = iota // not a packet: there is no telling where the next one would begin
	request
	response
)

// parseHeader reads the first headerSize bytes of b, which must be there. h is read
// whatever the magic says.
func parseHeader(b []byte) (h header, d direction) {
	h.typ = binary.BigEndian.Uint32(b[4:])
	h.size = binary.BigEndian.Uint32(b[8:headerSize])
	switch string(b[:4]) {
	case magicRequest:
		d = request
	case magicResponse:
		d = response
	}
	return h, d
}

// A form says what a client or a worker may send as a packet of one type. The zero form
// means that it may not.
type form struct {
	name    string // as the protocol calls it
	args    int    // how many arguments, including the payload
	payload bool   // the last argument may be any bytes, of any size; else it is a word like the others
}

// forms lists the requests by their types. All other types are answers or unused, and
// clients may not send them.
var forms = [types]form{
	typeCanDo:                  {"CAN_DO", 1, false},
	typeCantDo:                 {"CANT_DO", 1, false},
	typeResetAbilities:         {"RESET_ABILITIES", 0, false},
	typePreSleep:               {"PRE_SLEEP", 0, false},
	typeSubmitJob:              {"SUBMIT_JOB", 3, true},
	typeGrabJob:                {"GRAB_JOB", 0, false},
	typeWorkStatus:             {"WORK_STATUS", 3, false},
	typeWorkComplete:           {"WORK_COMPLETE", 2, true},
	typeWorkFail:               {"WORK_FAIL", 1, false},
	typeGetStatus:              {"GET_STATUS", 1, false},
	typeEchoReq:                {"ECHO_REQ", 1, true},
	typeSubmitJobBG:            {"SUBMIT_JOB_BG", 3, true},
	typeSubmitJobHigh:          {"SUBMIT_JOB_HIGH", 3, true},
	typeSetClientID:            {"SET_CLIENT_ID", 1, false},
	typeCanDoTimeout:           {"CAN_DO_TIMEOUT", 2, false},
	typeAllYours:               {"ALL_YOURS", 0, false},
	typeWorkException:          {"WORK_EXCEPTION", 2, true},
	typeOptionReq:              {"OPTION_REQ", 1, false},
	typeWorkData:               {"WORK_DATA", 2, true},
	typeWorkWarning:            {"WORK_WARNING", 2, true},
	typeGrabJobUniq:            {"GRAB_JOB_UNIQ", 0, false},
	typeSubmitJobHighBG:        {"SUBMIT_JOB_HIGH_BG", 3, true},
	typeSubmitJobLow:           {"SUBMIT_JOB_LOW", 3, true},
	typeSubmitJobLowBG:         {"SUBMIT_JOB_LOW_BG", 3, true},
	typeSubmitJobSched:         {"SUBMIT_JOB_SCHED", 8, true},
	typeSubmitJobEpoch:         {"SUBMIT_JOB_EPOCH", 4, true},
	typeSubmitReduceJob:        {"SUBMIT_REDUCE_JOB", 5, true},
	typeSubmitReduceBackground: {"SUBMIT_REDUCE_JOB_BACKGROUND", 5, true},
	typeGrabJobAll:             {"GRAB_JOB_ALL", 0, false},
	typeGetStatusUnique:        {"GET_STATUS_UNIQUE", 1, false},
}

// formOf returns the form of a packet of that type, and whether it is a request.
func formOf(typ uint32) (f form, ok bool) {
	if typ >= types {
		return form{}, false
	}
	f = forms[typ]
	return f, f.name != ""
}

// split splits data into n arguments, at most maxArgs; out[n-1] is everything after NUL
// number n-1. It fails if there are fewer NULs. No bytes are copied.
//
// data may be the part of a packet that has come so far. If split then succeeds, all
// arguments but the last are complete, and the last begins at len(data) - len(out[n-1]).
func split(data []byte, n int, out *[maxArgs][]byte) (ok bool) {
	if n == 0 {
		return true
	}
	for i := range n - 1 {
		at := bytes.IndexByte(data, 0)
		if at < 0 {
			return false
		}
		out[i], data = data[:at:at], data[at+1:]
	}
	out[n-1] = data
	return true
}

// appendHeader appends the header of an answer with size bytes of arguments.
func appendHeader(b []byte, typ uint32, size int) []byte {
	b = append(b, magicResponse...)
	b = binary.BigEndian.AppendUint32(b, typ)
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

// appendPacket appends an answer with these arguments.
func appendPacket[T []byte | string](b []byte, typ uint32, args ...T) []byte {
	size := max(len(args)-1, 0)
	for _, a := range args {
		size += len(a)
	}
	b = appendHeader(b, typ, size)
	for i, a := range args {
		if i > 0 {
			b = append(b, 0)
		}
		b = append(b, a...)
	}
	return b
}

// A fault is the content of an ERROR packet: a code for programs, a text for people.
type fault struct{ code, text string }

// The faults that the reference knows, in its words. Those of sheaf alone are in
// session.go.
var (
	faultMagic     = fault{"INVALID_MAGIC", "Request magic expected"}
	faultCommand   = fault{"INVALID_COMMAND", "Command not expected"}
	faultUnique    = fault{"ARGUMENT_TOO_LARGE", "Unique value too large"}
	faultOption    = fault{"UNKNOWN_OPTION", "Server does not recognize given option"}
	faultJob       = fault{"JOB_NOT_FOUND", "Job given in work result not found"}
	faultQueueFull = fault{"QUEUE_ERROR", "Job queue is full"}
)

// appendError appends an ERROR.
func appendError(b []byte, f fault) []byte {
	return appendPacket(b, typeError, f.code, f.text)
}

// A packet appends one answer, an argument at a time:
//
//	p := begin(b, typeJobAssign)
//	p.id(handles, id)
//	p.string(function)
//	b = p.payload(len(body)) // and body follows
//
// It allocates nothing but what b has to grow by.
type packet struct {
	b    []byte
	at   int // where in b the header is
	args int // how many there are so far
}

// begin appends the header; end or payload completes it with the size.
func begin(b []byte, typ uint32) packet {
	return packet{b: appendHeader(b, typ, 0), at: len(b)}
}

// next separates the next argument from the one before.
func (p *packet) next() {
	if p.args > 0 {
		p.b = append(p.b, 0)
	}
	p.args++
}

func (p *packet) bytes(arg []byte) {
	p.next()
	p.b = append(p.b, arg...)
}

func (p *packet) string(arg string) {
	p.next()
	p.b = append(p.b, arg...)
}

// uint appends a number in decimal digits.
func (p *packet) uint(arg uint64) {
	p.next()
	p.b = strconv.AppendUint(p.b, arg, 10)
}

// bool appends 1 or 0.
func (p *packet) bool(arg bool) {
	p.next()
	if arg {
		p.b = append(p.b, '1')
	} else {
		p.b = append(p.b, '0')
	}
}

// id appends a job's handle.
func (p *packet) id(h handles, id uint64) {
	p.next()
	p.b = h.append(p.b, id)
}

// end completes the packet and returns the buffer.
func (p *packet) end() []byte { return p.close(0) }

// payload is end for a packet whose last argument, of size bytes, the caller writes
// after it.
func (p *packet) payload(size int) []byte {
	p.next()
	return p.close(size)
}

func (p *packet) close(more int) []byte {
	size := len(p.b) - p.at - headerSize + more
	binary.BigEndian.PutUint32(p.b[p.at+8:], uint32(size))
	return p.b
}
