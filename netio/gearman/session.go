package gearman

import (
	"errors"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

// conn is what a session needs of a netio.Conn; see there.
type conn interface {
	shard.Peer
	Buf() *bytebufferpool.ByteBuffer
	WriteBody(p []byte)
	ReadInto(dst []byte)
	Expect(something bool)
	Flush() error
	FlushOld()
}

// session is one connection's conversation. Like beanstalk's it turns what comes
// into requests, lets the engine serve as many at once as it can, and renders the
// answers in order. What comes by itself (results, NOOP) it says between that, in
// Poked. Its fields belong to the connection's goroutine, but for hold.state; Hangup
// and Abort, which others call, only read client, which never changes.
type session struct {
	protocol *Protocol
	conn     conn
	client   *router.Client
	inbox    *shard.Inbox

	rest  []byte // what Serve was given and has not consumed
	large *large // a packet that does not fit into a read buffer, being read
	skip  int    // bytes of a refused packet that are still to be thrown away
	then  error  // ends the connection when they are; nil to go on
	args  [maxArgs][]byte
	// function is the one that was named last, so that it is one string.
	function string
	err      error // ends the connection

	exceptions bool // the option is set
	asleep     bool // PRE_SLEEP was said: a NOOP is due when there is a job
	haste      haste
	pace       pace
	hold       hold
	foreground int // jobs whose results the client waits for
	working    int // jobs that the worker has
}

// More faults, of sheaf's own.
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

// Hangup is netio.Session's.
func (s *session) Hangup() { s.client.Hangup() }

// Abort is netio.Session's.
func (s *session) Abort() { s.client.Abort() }

// Close is netio.Session's.
func (s *session) Close() {
	if s.large != nil {
		s.client.FreeMemory(len(s.large.data))
	}
	s.client.Close()
	if s.release() {
		s.conn.Flush()
	}
	s.protocol.forget(s) // whoever finds it gone from the list finds its jobs given back
}

// Serve is netio.Session's: it serves all packets and lines that are complete.
func (s *session) Serve(in []byte) (n int, err error) {
	s.rest = in
	if s.foreground > 0 {
		s.pace.busy()
		s.release()
	}
	for s.err == nil && s.step() {
	}
	s.flush()
	s.keep()
	s.client.Rest()
	s.expect()
	n = len(in) - len(s.rest)
	s.rest = nil
	return n, s.err
}

// end says why the connection is closed, after what there was to say before.
func (s *session) end(f fault, err error) {
	s.refuse(f)
	s.flush()
	s.err = err
}

// queue queues a request from the client's New, once the engine can take it.
func (s *session) queue(r *shard.Request) {
	if !s.client.Queue(r) {
		s.client.QueueAfter(func() bool { s.flush(); s.conn.FlushOld(); return true }, r)
	}
}

// answer queues an answer that needs no request.
func (s *session) answer(st shard.Status, tag uint8) {
	r := s.client.New(shard.None)
	r.Status, r.Tag = st, tag
	s.queue(r)
}

// refuse says that a request is not served, after the answers to those before.
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
			s.release()
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

// buf returns the buffer for what is said next, which is behind what is held.
func (s *session) buf() *bytebufferpool.ByteBuffer {
	s.release()
	return s.conn.Buf()
}

// release says what is held, and reports whether that was anything.
func (s *session) release() bool {
	id := s.hold.id
	if id == 0 {
		return false
	}
	s.hold.id = 0
	s.hold.state.Store(0)
	s.sayCreated(id)
	return true
}

// keep decides, when all is served, whether what is held stays so.
func (s *session) keep() {
	if s.hold.id == 0 {
		return
	}
	now := time.Now()
	if len(s.rest) > 0 || s.large != nil || !s.pace.submitted(now) {
		s.release()
		return
	}
	s.protocol.keeper.keep(s, now)
}

// Poked is netio.Poked's: it says what has come by itself.
func (s *session) Poked() error {
	s.inbox.Take(s.event)
	if s.hold.state.Load() == overdue {
		s.release()
	}
	s.expect()
	return nil
}

// expect says whether the other side may be silent without being idle: asleep, at
// work, or waiting for a result.
func (s *session) expect() { s.conn.Expect(s.asleep || s.foreground > 0 || s.working > 0) }
