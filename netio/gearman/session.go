package gearman

// One connection's conversation: packets and lines to the engine, answers and events to
// the client.

import (
	"errors"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

// conn is the part of netio.Conn that a session needs; see there.
type conn interface {
	shard.Peer
	Buf() *bytebufferpool.ByteBuffer
	WriteBody(p []byte)
	ReadInto(dst []byte)
	Expect(something bool)
	Flush() error
	FlushOld()
	FlushEarly()
}

// session is one connection's conversation. Like beanstalk's it turns its input into
// requests, lets the engine serve as many of them at once as it can, and renders the
// answers in order. Events, which come without a request (results, NOOP), it writes
// between these, in Poked. Its fields belong to the connection's goroutine, except
// hold.state; Hangup and Abort, which other goroutines call, only read client, which
// never changes.
type session struct {
	protocol *Protocol
	conn     conn
	client   *router.Client
	inbox    *shard.Inbox

	rest      []byte          // the input of Serve that is not consumed yet
	large     *large          // the packet that is being read, if it does not fit into a read buffer
	skip      int             // bytes of a refused packet that are still to be thrown away
	afterSkip error           // ends the connection once they have been; nil to go on
	args      [maxArgs][]byte // of the packet that is being served
	function  string          // the function that was named last; see functionName
	err       error           // ends the connection

	exceptions bool // the option is set
	asleep     bool // the worker has said PRE_SLEEP: a NOOP is due when there is a job
	haste      haste
	pace       pace
	hold       hold
	foreground int // jobs whose results the client waits for
	working    int // jobs that the worker has
}

// The faults of sheaf alone. Those of the reference are in packet.go.
var (
	faultArguments = fault{"INVALID_PACKET", "Arguments are missing"}
	faultFunction  = fault{"INVALID_FUNCTION_NAME", "Function names have 1 to 512 bytes"}
	faultTooLarge  = fault{"ARGUMENT_TOO_LARGE", "Packet too large; see the server's option -z"}
	faultHead      = fault{"ARGUMENT_TOO_LARGE", "Arguments have at most 8192 bytes, a workload or result apart"}
	faultTime      = fault{"INVALID_ARGUMENT", "Time is invalid, or never comes"}
	faultMemory    = fault{"MEMORY_ALLOCATION_FAILURE", "Out of memory, or the disk is full"}
	faultDraining  = fault{"QUEUE_ERROR", "Server takes no new jobs"}
	faultFailed    = fault{"QUEUE_ERROR", "Binlog has failed; see the server's log"}
)

var (
	errTooLarge = errors.New("packet or line too large")
	errMagic    = errors.New("no packet, or a large one of the wrong direction")
	errHTTP     = errors.New("the peer speaks HTTP")
)

func (p *Protocol) newSession(c conn) *session {
	s := &session{protocol: p, conn: c}
	s.client, s.inbox = p.cfg.Router.NewGearmanClient(c, maxBacklog)
	return s
}

// Hangup implements netio.Session.
func (s *session) Hangup() { s.client.Hangup() }

// Abort implements netio.Session.
func (s *session) Abort() { s.client.Abort() }

// Close implements netio.Session.
func (s *session) Close() {
	if s.large != nil {
		s.client.FreeMemory(len(s.large.args.Data))
	}
	s.client.Close()
	if s.sayHeld() {
		s.conn.Flush()
	}
	s.protocol.forget(s) // last: once it is off the list, its jobs have been given back
}

// Serve implements netio.Session: it serves all complete packets and lines.
func (s *session) Serve(in []byte) (n int, err error) {
	s.rest = in
	if s.foreground > 0 {
		s.pace.busy()
		s.sayHeld()
	}
	for s.err == nil && s.step() {
	}
	s.flush()
	s.decideHold()
	s.client.Rest()
	s.setExpect()
	n = len(in) - len(s.rest)
	s.rest = nil
	return n, s.err
}

// end writes the answers to what came before, then the ERROR f, and closes the connection.
func (s *session) end(f fault, err error) {
	s.refuse(f)
	s.flush()
	s.err = err
}

// queue queues a request made by s.client.New, waiting until the engine can take it.
func (s *session) queue(r *shard.Request) {
	if !s.client.Queue(r) {
		full := s.client.Full() // to serve so many took long enough that a write more does not matter
		s.client.QueueAfter(func() bool {
			s.flush()
			if full {
				s.conn.FlushEarly()
			} else {
				s.conn.FlushOld()
			}
			return true
		}, r)
	}
}

// answer queues an answer that needs nothing from the engine.
func (s *session) answer(st shard.Status, tag uint8) {
	r := s.client.New(shard.None)
	r.Status, r.Tag = st, tag
	s.queue(r)
}

// refuse writes the ERROR for a request, after the answers to those before it.
func (s *session) refuse(f fault) {
	s.flush()
	b := s.buf()
	b.B = appendError(b.B, f)
}

// flush has the engine serve all that is queued, and renders the answers.
func (s *session) flush() {
	for {
		waits := s.client.Waiting() || s.client.Blocking()
		if waits {
			s.sayHeld()
			s.conn.Flush() // an error ends the connection after Serve
		}
		done := s.client.Await(waits)
		if done == nil {
			return
		}
		for _, r := range done {
			s.render(r)
		}
	}
}

// buf returns the buffer for what is said next. If a JOB_CREATED is held, it is said
// first.
func (s *session) buf() *bytebufferpool.ByteBuffer {
	s.sayHeld()
	return s.conn.Buf()
}

// sayHeld says the JOB_CREATED that is held, and reports whether there was one.
func (s *session) sayHeld() bool {
	id := s.hold.id
	if id == 0 {
		return false
	}
	s.hold.id = 0
	s.hold.state.Store(0)
	s.sayCreated(id)
	return true
}

// decideHold decides, when everything is served, whether a JOB_CREATED that is held
// stays held.
func (s *session) decideHold() {
	if s.hold.id == 0 {
		return
	}
	now := time.Now()
	if len(s.rest) > 0 || s.large != nil || !s.pace.submitted(now) {
		s.sayHeld()
		return
	}
	s.protocol.keeper.watch(s, now)
}

// Poked implements netio.Poked: it says the events that have come, and a JOB_CREATED that
// was held for long enough.
func (s *session) Poked() error {
	s.inbox.Take(s.event)
	if s.hold.state.Load() == overdue {
		s.sayHeld()
	}
	s.setExpect()
	return nil
}

// setExpect tells netio whether the peer may be silent without being idle: because it is
// asleep, at work, or waiting for a result.
func (s *session) setExpect() { s.conn.Expect(s.asleep || s.foreground > 0 || s.working > 0) }
