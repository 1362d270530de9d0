package beanstalk

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

// conn is what a session needs of a netio.Conn; see there.
type conn interface {
	Buf() *bytebufferpool.ByteBuffer
	WriteBody(p []byte)
	ReadInto(dst []byte)
	Idle(rest []byte) []byte
	FlushOld()
}

// session is one client's conversation. It turns command lines into requests,
// lets the engine serve as many at once as it can, and renders the answers in
// order. Its fields belong to the connection's goroutine; Hangup and Abort, which
// others call, only read client, which never changes.
type session struct {
	protocol *Protocol
	conn     conn
	client   *router.Client
	cmd      command

	rest    []byte // what Serve was given and has not consumed
	given   uint32 // how many bytes that was
	scanner scanner
	unsent  bool  // there are answers in the output buffer
	then    tag   // the answer when skip bytes are thrown away
	err     error // ends the connection

	put  *partialPut // a put whose body is being read, if its size is not 0
	skip int         // bytes of a refused body that are still to be thrown away
}

// partialPut is a put whose line has come and whose body has not, all of it.
type partialPut struct {
	request shard.Request
	body    []byte // what is allocated, and held in the memory budget
	filled  int    // of body, as far as copied from input or left to netio
	size    int    // of the whole body with its CRLF
}

// maxGrant is how much memory is allocated for a body on the strength of its
// put line alone: enough for any job at the default limit. A larger body gets
// as much again whenever that has arrived, so beyond the first 64 KiB memory is
// held by those who send, not by those who announce.
const maxGrant = DefaultMaxJobSize + 2

// tag is kept in a request to know how to render its answer: a verb, or one of
// the answers that need no request.
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

// opOf maps the verbs to the operations by which the engine serves and counts
// them. The rest of a verb's way is in the switch of session.serve.
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

// Bodies that are kept for as long as the queue have to be copied by WriteBody.
const _ = uint(netio.CopyMax - shard.Inline)

var errAborted = errors.New("wait ended by shutdown")

func (p *Protocol) newSession(c conn) *session {
	return &session{protocol: p, conn: c, client: p.cfg.Router.NewClient()}
}

// Hangup is netio.Session's.
func (s *session) Hangup() { s.client.Hangup() }

// Abort is netio.Session's.
func (s *session) Abort() { s.client.Abort() }

// Close is netio.Session's.
func (s *session) Close() {
	if s.put != nil {
		s.client.FreeMemory(len(s.put.body))
	}
	s.client.Close()
}

// Serve is netio.Session's: it serves all commands that are complete.
func (s *session) Serve(in []byte) (n int, err error) {
	// The length is read from the session below: if it were read from in, a wait
	// would keep the read buffer alive that conn.Idle has given back.
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

// step takes one command from the input, or a piece of a body. It reports
// false when there has to be more input first.
func (s *session) step() bool {
	switch {
	case s.skip > 0:
		n := min(s.skip, len(s.rest))
		s.rest = s.rest[n:]
		if s.skip -= n; s.skip > 0 {
			return false
		}
		s.answer(s.then)
		return true
	case s.put != nil && s.put.size > 0:
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

// serve queues or serves the command that was parsed.
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

// queue queues a request from the client's New, once the engine can take it.
func (s *session) queue(r *shard.Request) {
	if !s.client.Queue(r) {
		s.client.QueueAfter(func() bool { s.flush(); s.conn.FlushOld(); return s.err == nil }, r)
	}
}

// answer queues an answer that needs no request.
func (s *session) answer(t tag) {
	r := s.client.New(shard.None)
	r.Tag = t
	s.queue(r)
}

// refuse queues the BAD_FORMAT of a command that is counted all the same.
func (s *session) refuse(op shard.Op) {
	r := s.client.New(shard.None)
	r.Tag, r.N = tagBadFormat, uint64(op)
	s.queue(r)
}

// serveAlone serves the commands that the engine does not queue.
func (s *session) serveAlone() {
	name := s.cmd.takeTube() // flush may give the input back
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
		// Before a wait that may be long the client gets what it is owed, and the
		// buffers go back.
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
				// What is queued behind an aborted reserve is not answered: its answer
				// would be taken for that of the reserve.
				return
			}
		}
	}
}

// render writes the answer to a request.
func (s *session) render(r *shard.Request) {
	s.unsent = true
	if r.Tag == tag(cmdPut) {
		s.client.MarkProducer() // whatever has become of it
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
		s.client.MarkWorker() // who reserves by id is a worker when there is a job
		b.B = appendReserved(b.B, r.ID, len(r.Body)-2)
		s.conn.WriteBody(r.Body)
	case cmdPeek, cmdPeekReady, cmdPeekDelayed, cmdPeekBuried:
		b.B = appendFound(b.B, r.ID, len(r.Body)-2)
		s.conn.WriteBody(r.Body)
	case cmdKick:
		b.B = appendKicked(b.B, r.N)
	case cmdStatsJob:
		b.B = appendJobStats(b.B, r.Job)
	case cmdStatsTube:
		b.B = appendTubeStats(b.B, r.TubeStats)
	}
}

// fixedReply returns the answer to a request if it is one that never varies.
func (s *session) fixedReply(r *shard.Request) (string, bool) {
	if r.Tag >= tag(verbs) {
		if op := shard.Op(r.N); op != shard.None {
			s.client.Count(op) // now, and not before what waited ahead of it
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
