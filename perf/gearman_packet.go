package perf

// Gearman's packets, as far as its scenarios speak them.
//
//	0      4      8      12
//	| \0REQ | type | size | argument NUL argument NUL … last argument |
//
// Type and size are big endian, and size is that of the arguments. Answers of
// the server begin with \0RES. What is said:
//
//	client   SUBMIT_JOB     ──▶  JOB_CREATED, and when a worker is done WORK_COMPLETE
//	         SUBMIT_JOB_BG  ──▶  JOB_CREATED
//	worker   CAN_DO              no answer
//	         GRAB_JOB       ──▶  JOB_ASSIGN or NO_JOB
//	         PRE_SLEEP      ──▶  NOOP, once there is a job
//	         WORK_COMPLETE       no answer
//
// The server answers what comes over one connection in order, NOOP and a
// client's WORK_COMPLETE apart.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A packetType is the kind of a packet.
type packetType uint32

const (
	packetCanDo        packetType = 1
	packetPreSleep     packetType = 4
	packetNoop         packetType = 6
	packetSubmit       packetType = 7
	packetCreated      packetType = 8
	packetGrab         packetType = 9
	packetNoJob        packetType = 10
	packetAssign       packetType = 11
	packetWorkComplete packetType = 13
	packetWorkFail     packetType = 14
	packetEcho         packetType = 16
	packetEchoed       packetType = 17
	packetSubmitBG     packetType = 18
	packetError        packetType = 19
)

var packetNames = map[packetType]string{
	packetCanDo: "CAN_DO", packetPreSleep: "PRE_SLEEP", packetNoop: "NOOP", packetSubmit: "SUBMIT_JOB",
	packetCreated: "JOB_CREATED", packetGrab: "GRAB_JOB", packetNoJob: "NO_JOB", packetAssign: "JOB_ASSIGN",
	packetWorkComplete: "WORK_COMPLETE", packetWorkFail: "WORK_FAIL", packetEcho: "ECHO_REQ", packetEchoed: "ECHO_RES",
	packetSubmitBG: "SUBMIT_JOB_BG", packetError: "ERROR",
}

func (t packetType) String() string {
	if name := packetNames[t]; name != "" {
		return name
	}
	return fmt.Sprintf("packet type %d", uint32(t))
}

const (
	packetHeader = 12
	// maxPacket is longer than any answer: the longest body, and what precedes it.
	maxPacket = maxBody + 1<<10
	// maxHandle does not count the NUL, which the protocol does.
	maxHandle = 63
)

var (
	magicRequest  = []byte("\x00REQ")
	magicResponse = []byte("\x00RES")
)

// appendPacket appends a packet with these arguments.
func appendPacket(out []byte, t packetType, args ...string) []byte {
	size := max(0, len(args)-1)
	for _, a := range args {
		size += len(a)
	}
	out = appendPacketHeader(out, t, size)
	for i, a := range args {
		if i > 0 {
			out = append(out, 0)
		}
		out = append(out, a...)
	}
	return out
}

func appendPacketHeader(out []byte, t packetType, size int) []byte {
	out = append(out, magicRequest...)
	out = binary.BigEndian.AppendUint32(out, uint32(t))
	return binary.BigEndian.AppendUint32(out, uint32(size))
}

// A packet is one that the server sent. Its body is part of the bytes it was cut
// from, and valid as long as those are.
type packet struct {
	kind packetType
	body []byte
}

// cut cuts the packet that begins at in[0] and returns its length. If in ends
// before the packet does, n is 0, and want is the whole length if that is known.
func (p *packet) cut(in []byte) (n, want int, err error) {
	if have := min(len(in), len(magicResponse)); !bytes.Equal(in[:have], magicResponse[:have]) {
		return 0, 0, fmt.Errorf("the server says %s, which is no Gearman packet", quote(in))
	}
	if len(in) < packetHeader {
		return 0, packetHeader, nil
	}
	p.kind = packetType(binary.BigEndian.Uint32(in[4:]))
	size := binary.BigEndian.Uint32(in[8:])
	if size > maxPacket {
		return 0, 0, fmt.Errorf("the server sends a %v of %d bytes", p.kind, size)
	}
	n = packetHeader + int(size)
	if len(in) < n {
		return 0, n, nil
	}
	p.body = in[packetHeader:n]
	return n, n, nil
}

var errNoHandle = errors.New("there is no job handle in it")

// handle returns the first argument, and what follows it.
func (p *packet) handle() (handle, rest []byte, err error) {
	handle, rest = p.body, nil
	if i := bytes.IndexByte(p.body, 0); i >= 0 {
		handle, rest = p.body[:i], p.body[i+1:]
	}
	if len(handle) == 0 || len(handle) > maxHandle {
		return nil, nil, fmt.Errorf("got %v: %w", *p, errNoHandle)
	}
	return handle, rest, nil
}

// job takes a JOB_ASSIGN apart.
func (p *packet) job() (handle, function, workload []byte, err error) {
	handle, rest, err := p.handle()
	if err != nil {
		return nil, nil, nil, err
	}
	i := bytes.IndexByte(rest, 0)
	if i < 0 {
		return nil, nil, nil, fmt.Errorf("got %v: there is no workload in it", *p)
	}
	return handle, rest[:i], rest[i+1:], nil
}

// String shows a packet in errors.
func (p packet) String() string {
	if len(p.body) == 0 {
		return p.kind.String()
	}
	return fmt.Sprintf("%v %s", p.kind, quote(p.body))
}

// handleID returns the number that a handle H:HOST:NUMBER ends with.
func handleID(handle []byte) (id []byte, err error) {
	id = handle[bytes.LastIndexByte(handle, ':')+1:]
	if _, valid := decimal(id); !valid {
		return nil, fmt.Errorf("the job handle %q does not end with a number, by which the jobs are told apart", handle)
	}
	return id, nil
}

// The header in a foreground job's workload and in its result: what the client
// that gets the result wants to know of the job.
//
//	 0      4      8      12       20      24
//	| from | slot | mark | number | crc32c | words or whatever Config.Content says
//
//	from    the connection that submitted it
//	slot    which of its jobs in flight it is
//	mark    whether this is a workload or a result
//	number  of the job, counted over all connections, from 1; only with a ledger
//	crc32c  of the workload without these four bytes; only with a ledger
//
// Little endian. A result is the workload with another mark, and so another
// checksum: neither an unchanged workload nor the result of another job passes for
// it. Number and checksum are where other bodies have them (body.go).
const (
	headerMark   = 12
	markWorkload = 0x6b726f77
	markResult   = 0x656e6f64
)

func stampWorkload(body []byte, from, slot int32) {
	binary.LittleEndian.PutUint32(body, uint32(from))
	binary.LittleEndian.PutUint32(body[4:], uint32(slot))
	binary.LittleEndian.PutUint32(body[8:], markWorkload)
}

func submitterOf(body []byte) int32 { return int32(binary.LittleEndian.Uint32(body)) }
func slotOf(body []byte) int32      { return int32(binary.LittleEndian.Uint32(body[4:])) }
func markOf(body []byte) uint32     { return binary.LittleEndian.Uint32(body[8:]) }
func markDone(body []byte)          { binary.LittleEndian.PutUint32(body[8:], markResult) }
