package beanstalk

// One connection's conversation: commands to the engine, answers to the client.

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

// conn is the part of netio.Conn that a session needs; see there.
type conn interface {
	Buf() *bytebufferpool.ByteBuffer
	WriteBody(p []byte)
	ReadInto(dst []byte)
	Idle(rest []byte) []byte
	FlushOld()
}

// session is one client's conversation. It turns command lines into requests, lets
// the engine serve as many of them at once as it can, and renders the answers in
// order. Its fields belong to the connection's goroutine; Hangup and Abort, which
// other goroutines call, only read client, which never changes.
type session struct {
	protocol *Protocol
	conn     conn
	client   *router.Client
	cmd      command

	rest      []byte // the input of Serve that is not consumed yet
	given     uint32 // how many bytes Serve was given
	scanner   scanner
	unsent    bool  // there are answers in the output buffer
	afterSkip tag   // the answer once skip bytes have been thrown away
	err       error // ends the connection

	put  *partialPut // the put whose body is being read, if its size is not 0; kept for the next one
	skip int         // bytes of a refused body that are still to be thrown away
}

// partialPut is a put whose line has come, but not all of its body.
type partialPut struct {
	request shard.Request
	body    netio.Incoming // with its CRLF; what is allocated is counted in the memory budget
}

// A tag in a request says how to render its answer: it is a verb, or stands for one of
// the answers that need nothing from the engine.
type tag = uint8

const (
	tagBadFormat tag = tag(verbs) + iota
	tagUnknownCommand
	tagJobTooBig
	tagExpectedCRLF
	tagOutOfMemory
)

var tagReply = map[tag]string{
	tagBadFormat:      replyBadFormat,
	tagUnknownCommand: replyUnknownCommand,
	tagJobTooBig:      replyJobTooBig,
	tagExpectedCRLF:   replyExpectedCRLF,
	tagOutOfMemory:    replyOutOfMemory,
}

// opOf maps the verbs to the operations by which the engine serves and counts them.
// The switch in session.serve fills in the rest of a request.
var opOf = [verbs]shard.Op{
	cmdPut:              shard.Put,
	cmdUse:              shard.Use,
	cmdReserve:          shard.Reserve,
	cmdReserveTimeout:   shard.ReserveTimeout,
	cmdReserveJob:       shard.ReserveJob,
	cmdDelete:           shard.Delete,
	cmdRelease:          shard.Release,
	cmdBury:             shard.Bury,
	cmdTouch:            shard.Touch,
	cmdWatch:            shard.Watch,
	cmdIgnore:           shard.Ignore,
	cmdPeek:             shard.Peek,
	cmdPeekReady:        shard.PeekReady,
	cmdPeekDelayed:      shard.PeekDelayed,
	cmdPeekBuried:       shard.PeekBuried,
	cmdKick:             shard.Kick,
	cmdKickJob:          shard.KickJob,
	cmdStatsJob:         shard.StatsJob,
	cmdStatsTube:        shard.StatsTube,
	cmdStats:            shard.Gather,
	cmdListTubes:        shard.Tubes,
	cmdListTubeUsed:     router.ListTubeUsed,
	cmdListTubesWatched: router.ListTubesWatched,
	cmdPauseTube:        shard.PauseTube,
}

// Bodies of up to Inline bytes are good only until Await returns nil (see
// router.Client.Keep), so WriteBody has to copy them. If it does not, this constant is
// negative and does not compile.
const _ = uint(netio.CopyMax - shard.Inline)

var errAborted = errors.New("wait ended by shutdown")

func (p *Protocol) newSession(c conn) *session {
	return &session{protocol: p, conn: c, client: p.cfg.Router.NewClient()}
}

// Hangup implements netio.Session.
func (s *session) Hangup() { s.client.Hangup() }

// Abort implements netio.Session.
func (s *session) Abort() { s.client.Abort() }

// Close implements netio.Session.
func (s *session) Close() {
	if s.put != nil {
		s.client.FreeMemory(len(s.put.body.Data))
	}
	s.client.Close()
}

// Serve implements netio.Session: it serves all complete commands.
func (s *session) Serve(in []byte) (n int, err error) {
	// The length is kept in the session: if it were taken from in at the end, in would
	// keep the read buffer alive during a wait, though conn.Idle has given it back.
	s.rest, s.given, s.unsent = in, uint32(len(in)), false
	for s.err == nil && s.step() {
	}
	if s.err == nil {
		s.flush()
		s.client.Rest()
	}
	n = int(s.given) - len(s.rest)
	s.rest = nil
	return n, s.err
}

// step takes one command from the input, or a piece of a body. It reports false if
// more input is needed first.
func (s *session) step() bool {
	switch {
	case s.skip > 0:
		n := min(s.skip, len(s.rest))
		s.rest = s.rest[n:]
		if s.skip -= n; s.skip > 0 {
			return false
		}
		s.answer(s.afterSkip)
		return true
	case s.put != nil && s.put.body.Size > 0:
		return s.readBody()
	}
	line, n, st := s.scanner.next(s.rest)
	s.rest = s.rest[n:]
	switch st {
	case needMore:
		return false
	case lineTooLong:
		s.answer(tagBadFormat)
		return true
	}
	switch parse(line, &s.cmd) {
	case accepted:
		s.serve()
	case badName:
		s.refuse(shard.PauseTube)
	case badFormat:
		s.answer(tagBadFormat)
	case unknownCommand:
		s.answer(tagUnknownCommand)
	}
	return true
}

// serve serves the command that was parsed, or queues it.
func (s *session) serve() {
	cmd := &s.cmd
	switch cmd.verb {
	case cmdPut:
		s.servePut()
		return
	case cmdQuit:
		s.flush()
		s.err = io.EOF
		return
	case cmdUse, cmdWatch, cmdIgnore, cmdStats, cmdListTubes, cmdListTubeUsed, cmdListTubesWatched:
		s.serveAlone()
		return
	}
	r := s.client.New(opOf[cmd.verb])
	r.Tag = tag(cmd.verb)
	switch cmd.verb {
	case cmdReserve:
		s.client.MarkWorker()
		r.Timeout = shard.NoTimeout
	case cmdReserveTimeout:
		s.client.MarkWorker()
		r.Timeout = int64(cmd.timeout) * int64(time.Second)
	case cmdRelease:
		r.ID, r.Pri, r.Delay = cmd.id, cmd.pri, cmd.delay
	case cmdBury:
		r.ID, r.Pri = cmd.id, cmd.pri
	case cmdReserveJob, cmdDelete, cmdTouch, cmdPeek, cmdKickJob, cmdStatsJob:
		r.ID = cmd.id
	case cmdKick:
		r.N = uint64(cmd.count)
	case cmdStatsTube:
		r.Name = cmd.takeTube()
	case cmdPauseTube:
		r.Name, r.Delay = cmd.takeTube(), cmd.pause
	}
	s.queue(r)
}

// queue queues a request made by s.client.New, waiting until the engine can take it.
func (s *session) queue(r *shard.Request) {
	if !s.client.Queue(r) {
		s.client.QueueAfter(func() bool { s.flush(); s.conn.FlushOld(); return s.err == nil }, r)
	}
}

// answer queues an answer that needs nothing from the engine.
func (s *session) answer(t tag) {
	r := s.client.New(shard.None)
	r.Tag = t
	s.queue(r)
}

// refuse queues BAD_FORMAT for a command that is counted nevertheless.
func (s *session) refuse(op shard.Op) {
	r := s.client.New(shard.None)
	r.Tag, r.N = tagBadFormat, uint64(op)
	s.queue(r)
}

// serveAlone serves a command that the engine does not queue, after all before it.
func (s *session) serveAlone() {
	name := s.cmd.takeTube() // before flush, which may give the input buffer back
	s.flush()
	if s.err != nil {
		return
	}
	s.conn.FlushOld()
	c := s.client
	c.Count(opOf[s.cmd.verb])
	b := s.conn.Buf()
	switch s.cmd.verb {
	case cmdUse:
		c.Use(name)
		b.B = appendUsing(b.B, name)
	case cmdListTubeUsed:
		b.B = appendUsing(b.B, c.Used().Name)
	case cmdWatch:
		c.Watch(name)
		b.B = appendWatching(b.B, len(c.Watched()))
	case cmdIgnore:
		if c.Ignore(name) {
			b.B = appendWatching(b.B, len(c.Watched()))
		} else {
			b.B = append(b.B, replyNotIgnored...)
		}
	case cmdListTubesWatched:
		var names []string
		for _, t := range c.Watched() {
			names = append(names, t.Name)
		}
		b.B = appendTubes(b.B, names)
	case cmdListTubes:
		b.B = appendTubes(b.B, c.Tubes())
	case cmdStats:
		b.B = appendServerStats(b.B, s.protocol.stats(c.Stats()))
	}
	s.unsent = true
}

// flush has the engine serve all that is queued, and renders the answers.
func (s *session) flush() {
	for {
		// Before a wait that may be long, the client gets the answers so far, and the
		// buffers are given back.
		waits := s.client.Waiting() || s.client.Blocking() && !s.unsent
		if waits {
			s.rest = s.conn.Idle(s.rest)
			s.unsent = false
		}
		done := s.client.Await(waits)
		if done == nil {
			return
		}
		for _, r := range done {
			if s.render(r); s.err != nil {
				// Commands queued behind an aborted reserve are not answered: the client
				// would take the first answer for that of the reserve.
				return
			}
		}
	}
}

// render writes the answer to a request.
func (s *session) render(r *shard.Request) {
	s.unsent = true
	if r.Tag == tag(cmdPut) {
		s.client.MarkProducer() // even if the put has failed
	}
	b := s.conn.Buf()
	if fixed, ok := s.fixedReply(r); ok {
		b.B = append(b.B, fixed...)
		return
	}
	switch verb(r.Tag) {
	case cmdPut:
		b.B = appendInserted(b.B, r.ID)
	case cmdReserve, cmdReserveTimeout, cmdReserveJob:
		s.client.MarkWorker() // reserve-job makes a client a worker only if it gets the job
		b.B = appendReserved(b.B, r.ID, len(r.Body)-2)
		s.writeBody(r)
	case cmdPeek, cmdPeekReady, cmdPeekDelayed, cmdPeekBuried:
		b.B = appendFound(b.B, r.ID, len(r.Body)-2)
		s.writeBody(r)
	case cmdKick:
		b.B = appendKicked(b.B, r.N)
	case cmdStatsJob:
		b.B = appendJobStats(b.B, r.Job)
	case cmdStatsTube:
		b.B = appendTubeStats(b.B, r.TubeStats)
	}
}

// writeBody writes the body of an answer. The request keeps it alive no longer: others
// behind it may wait until the client has read it.
func (s *session) writeBody(r *shard.Request) {
	body := r.Body
	r.Body = nil
	s.conn.WriteBody(body)
}

// fixedReply returns the answer to a request, if it is one that never varies.
func (s *session) fixedReply(r *shard.Request) (string, bool) {
	if r.Tag >= tag(verbs) {
		if op := shard.Op(r.N); op != shard.None {
			s.client.Count(op) // only now: commands ahead of it may have waited
		}
		return tagReply[r.Tag], true
	}
	switch r.Status {
	case shard.NotFound:
		return replyNotFound, true
	case shard.TimedOut:
		return replyTimedOut, true
	case shard.DeadlineSoon:
		return replyDeadlineSoon, true
	case shard.Draining:
		return replyDraining, true
	case shard.OutOfMemory:
		return replyOutOfMemory, true
	case shard.Failed:
		return replyInternalError, true
	case shard.Aborted:
		s.err = errAborted
		return "", true
	}
	switch verb(r.Tag) {
	case cmdDelete:
		return replyDeleted, true
	case cmdRelease:
		return replyReleased, true
	case cmdBury:
		return replyBuried, true
	case cmdTouch:
		return replyTouched, true
	case cmdKickJob:
		return replyKicked, true
	case cmdPauseTube:
		return replyPaused, true
	}
	return "", false
}
