package gearman

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/sheafq/sheaf/netio"
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
}

// session is one connection's conversation. Like beanstalk's it turns what comes
// into requests, lets the engine serve as many at once as it can, and renders the
// answers in order. What comes by itself (results, NOOP) it says between that, in
// Poked.
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
	working    int // jobs that the worker has and has said no end of
}

// large is a packet on its way into a slice of its own.
type large struct {
	typ    uint32
	size   int    // of the arguments
	data   []byte // room for them, or what was granted so far, and for a CRLF
	filled int
	held   int // bytes of data that are counted in the memory budget
}

const (
	// maxHead is how many bytes the arguments in front of a workload may take.
	maxHead = 32 << 10
	// maxFunction and maxUnique are the longest names, in bytes.
	maxFunction = 512
	maxUnique   = 64
	maxClientID = 127
	// maxSkip is how many bytes of a packet that is too large are read before the
	// connection is closed: so that its sender comes to read why.
	maxSkip = 64 << 20
	// firstGrant is how much memory a packet is given on the strength of its
	// header alone. It gets as much again whenever that has arrived.
	firstGrant = 64 << 10
)

// More faults, of sheaf's own.
var (
	faultArguments = fault{"INVALID_PACKET", "Arguments are missing"}
	faultFunction  = fault{"INVALID_FUNCTION_NAME", "Function names have 1 to 512 bytes"}
	faultTooLarge  = fault{"ARGUMENT_TOO_LARGE", "Packet too large; see the server's option -z"}
	faultTime      = fault{"INVALID_ARGUMENT", "Time is invalid, or never comes"}
	faultMemory    = fault{"MEMORY_ALLOCATION_FAILURE", "Out of memory, or the disk is full"}
	faultDraining  = fault{"QUEUE_ERROR", "Server takes no new jobs"}
	faultFailed    = fault{"QUEUE_ERROR", "Binlog has failed; see the server's log"}
)

// tags of requests that have their answer: their packet types are taken.
const tagFault = types

var (
	errTooLarge = errors.New("packet or line too large")
	errHTTP     = errors.New("the peer speaks HTTP")
)

func (p *Protocol) newSession(c conn) *session {
	s := &session{protocol: p, conn: c}
	s.client, s.inbox = p.cfg.Router.NewGearmanClient(c, MaxBacklog)
	return s
}

// Hangup is netio.Session's.
func (s *session) Hangup() { s.client.Hangup() }

// Abort is netio.Session's.
func (s *session) Abort() { s.client.Abort() }

// Close is netio.Session's.
func (s *session) Close() {
	if s.large != nil {
		s.client.FreeMemory(s.large.held)
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
		s.end(faultMagic, io.EOF)
		return false
	case !s.fits(h):
		if s.isResult(h.typ) && !s.handleIsThere() {
			return false
		}
		s.fail(h)
		s.refuse(faultTooLarge)
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
		s.end(faultMagic, io.EOF)
		return false
	}
	s.rest = s.rest[headerSize:]
	s.large = &large{typ: h.typ, size: int(h.size)}
	return s.readLarge()
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

// end says why the connection is closed, after what there was to say before.
func (s *session) end(f fault, err error) {
	s.refuse(f)
	s.flush()
	s.err = err
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
		if !s.isResult(l.typ) { // which is for a job to go, and so for room
			if !s.client.HoldMemory(grown - len(l.data)) {
				s.client.FreeMemory(l.held)
				s.large = nil
				s.refuse(faultMemory)
				s.skip, s.then = l.size-l.filled, nil
				return true
			}
			l.held = grown
		}
		l.data = append(make([]byte, 0, grown), l.data...)[:grown]
	}
	s.large = nil
	s.client.FreeMemory(l.held)
	s.packet(l.typ, request, l.data[:l.size], l.data)
	return true
}

const crlf = "\r\n"

// Bodies that are kept for as long as the queue have to be copied by WriteBody.
const _ = uint(netio.CopyMax - shard.Inline)

// body returns what a job or an event keeps of a payload, with the CRLF that the
// bodies of jobs end with if it is a job's. own is the slice of which the payload
// is the end, but for room for a CRLF, if it need not be copied.
func body(payload, own []byte, job bool) []byte {
	end := 0
	if job {
		end = len(crlf)
	}
	if own != nil {
		copy(own[len(own)-len(crlf):], crlf)
		return own[len(own)-len(crlf)-len(payload) : len(own)-len(crlf)+end]
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

// serve serves a request with its arguments in s.args.
func (s *session) serve(typ uint32, own []byte) {
	a := &s.args
	switch typ {
	case typeSubmitJob, typeSubmitJobHigh, typeSubmitJobLow, typeSubmitReduceJob,
		typeSubmitJobBG, typeSubmitJobHighBG, typeSubmitJobLowBG, typeSubmitReduceBackground,
		typeSubmitJobEpoch, typeSubmitJobSched:
		s.submit(typ, own)
	case typeGrabJob, typeGrabJobUniq, typeGrabJobAll:
		s.asleep = false
		s.client.MarkWorker()
		if !s.client.CanDoAny() {
			s.answer(shard.NotFound, uint8(typ))
			return
		}
		r := s.client.New(shard.Grab)
		r.Tag = uint8(typ)
		if len(s.rest) == 0 { // nothing that was sent has to wait with it
			r.Timeout = int64(s.haste.patience())
		}
		s.queue(r)
	case typeWorkData, typeWorkWarning, typeWorkComplete, typeWorkException:
		s.result(typ, a[0], body(a[1], own, false))
	case typeWorkFail:
		// There may be more behind the handle, which has no place in the protocol.
		handle, more, _ := bytes.Cut(a[0], []byte{0})
		if len(more) > 0 {
			more = body(more, own, false)
		}
		s.result(typ, handle, more)
	case typeWorkStatus:
		progress := slices.Concat(a[1], []byte{0}, a[2])
		s.result(typ, a[0], progress)
	case typeGetStatus:
		s.getStatus(word(a[0]))
	case typeEchoReq:
		s.flush()
		b := s.buf()
		b.B = appendHeader(b.B, typeEchoRes, len(a[0]))
		s.conn.WriteBody(body(a[0], own, false))
	case typePreSleep:
		s.flush()
		if s.client.Doze() {
			s.haste.woken(time.Now())
			s.say(typeNoop)
		} else {
			s.asleep = true
		}
	case typeCanDo, typeCanDoTimeout, typeCantDo, typeResetAbilities:
		s.abilities(typ)
	case typeSetClientID:
		id, _, _ := strings.Cut(string(a[0][:min(len(a[0]), maxClientID)]), "\x00")
		s.protocol.describe(s, func(a *about) { a.id = id })
	case typeAllYours: // says that the worker talks to no other server
	case typeOptionReq:
		if !bytes.EqualFold(word(a[0]), []byte("exceptions")) {
			s.refuse(faultOption)
			return
		}
		s.flush()
		s.exceptions = true
		b := s.buf()
		b.B = appendPacket(b.B, typeOptionRes, a[0])
	case typeGetStatusUnique:
		s.getStatusUnique(string(word(a[0])))
	}
}

// word returns an argument up to its first NUL: some clients send one behind it.
func word(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte{0})
	return b
}

// name returns a function's name as a string.
func (s *session) name(b []byte) string {
	if string(b) != s.function {
		s.function = string(b)
	}
	return s.function
}

func validFunction(b []byte) bool { return 1 <= len(b) && len(b) <= maxFunction }

// submit serves all forms of SUBMIT_JOB.
func (s *session) submit(typ uint32, own []byte) {
	a := &s.args
	f := forms[typ]
	switch {
	case !validFunction(a[0]):
		s.refuse(faultFunction)
		return
	case len(a[1]) > maxUnique:
		s.refuse(faultUnique)
		return
	}
	task := &shard.Task{Unique: string(a[1]), Background: true}
	pri, at := shard.PriNormal, uint64(0)
	switch typ {
	case typeSubmitJob, typeSubmitJobHigh, typeSubmitJobLow, typeSubmitReduceJob:
		task.Background = false
	}
	switch typ {
	case typeSubmitJobHigh, typeSubmitJobHighBG:
		pri = shard.PriHigh
	case typeSubmitJobLow, typeSubmitJobLowBG:
		pri = shard.PriLow
	case typeSubmitReduceJob, typeSubmitReduceBackground:
		if len(a[2]) > maxFunction {
			s.refuse(faultFunction)
			return
		}
		task.Reducer = string(a[2])
	case typeSubmitJobEpoch:
		t := integer(a[2])
		if t > math.MaxInt64/int64(time.Second) {
			s.refuse(faultTime)
			return
		}
		at = uint64(max(t, 0))
	case typeSubmitJobSched:
		sched, ok := parseSchedule(a[2:7])
		if ok {
			var t time.Time
			t, ok = sched.next(time.Now(), s.protocol.cfg.Location)
			at = uint64(t.Unix())
		}
		if !ok {
			s.refuse(faultTime)
			return
		}
	}
	s.client.MarkProducer()
	r := s.client.New(shard.Submit)
	r.Tag = uint8(typ)
	r.Name, r.Pri, r.N, r.Task = s.name(a[0]), pri, at, task
	if payload := a[f.args-1]; len(payload)+len(crlf) <= shard.Inline {
		r.Body = s.client.Keep(payload, crlf)
	} else {
		r.Body = body(payload, own, true)
	}
	s.queue(r)
}

// result serves what a worker says of its job.
func (s *session) result(typ uint32, handle, data []byte) {
	id, ok := s.protocol.handles.parse(word(handle))
	if !ok {
		s.flush()
		s.noSuchJob(typ)
		return
	}
	s.report(typ, id, data, uint8(typ))
}

// kinds are the events that the types of packets stand for.
var kinds = [types]shard.EventKind{
	typeWorkData:      shard.Data,
	typeWorkWarning:   shard.Warning,
	typeWorkStatus:    shard.Progress,
	typeWorkComplete:  shard.Complete,
	typeWorkFail:      shard.Fail,
	typeWorkException: shard.Exception,
}

// tagQuiet is that of a report whose answer is not told.
const tagQuiet = tagFault + 1

func (s *session) report(typ uint32, id uint64, data []byte, tag uint8) {
	r := s.client.New(shard.Report)
	r.Tag = tag
	r.ID, r.N, r.Body = id, uint64(kinds[typ]), data
	if typ == typeWorkStatus {
		done, total, _ := bytes.Cut(data, []byte{0})
		r.Pri, r.Delay = uint32(integer(done)), uint32(integer(total)) // as atoi: modulo 2^32
	}
	s.queue(r)
}

// integer reads what b begins with, as C's strtoll does: blanks, a sign, digits.
// What stands behind is ignored, no digits are 0, and what is too large or too
// small is about the largest or the smallest that there is.
func integer(b []byte) int64 {
	b = bytes.TrimLeft(b, " \t\n\v\f\r")
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	n := int64(0)
	for _, d := range b {
		if d < '0' || d > '9' {
			break
		}
		if n > (math.MaxInt64-9)/10 {
			n = math.MaxInt64
			break
		}
		n = n*10 + int64(d-'0')
	}
	if negative {
		n = -n
	}
	return n
}

// abilities serves what changes which functions a worker can do.
func (s *session) abilities(typ uint32) {
	var name string
	if typ != typeResetAbilities {
		if !validFunction(s.args[0]) {
			s.refuse(faultFunction)
			return
		}
		name = string(s.args[0])
	}
	s.flush()
	switch typ {
	case typeCanDo, typeCanDoTimeout:
		s.client.CanDo(name, limit(s.args[1])) // which is empty in CAN_DO
	case typeCantDo:
		s.client.CantDo(name)
	case typeResetAbilities:
		s.client.CantDoAny()
	}
	s.protocol.describe(s, func(a *about) {
		switch typ {
		case typeResetAbilities:
			a.functions = abilities{}
		case typeCantDo:
			a.functions.remove(name)
		default:
			a.functions.add(name)
		}
	})
}

func (s *session) getStatus(handle []byte) {
	id, ok := s.protocol.handles.parse(handle)
	if ok {
		r := s.client.New(shard.Inquire)
		r.Tag = typeGetStatus
		r.ID = id
		s.queue(r)
		return
	}
	s.flush()
	b := s.buf()
	p := begin(b.B, typeStatusRes)
	p.bytes(handle)
	b.B = unknown(p, 4)
}

// unknown ends a status packet with zeros.
func unknown(p packet, n int) []byte {
	for range n {
		p.bool(false)
	}
	return p.end()
}

func (s *session) getStatusUnique(unique string) {
	s.flush()
	r := s.client.InquireUnique(unique)
	b := s.buf()
	p := begin(b.B, typeStatusResUnique)
	p.string(unique)
	if r.Status != shard.OK {
		b.B = unknown(p, 5)
		return
	}
	appendProgress(&p, &r)
	p.uint(r.N >> 1)
	b.B = p.end()
}

// appendProgress appends what is known of a job.
func appendProgress(p *packet, r *shard.Request) {
	p.bool(true)
	p.bool(r.N&1 != 0)
	p.uint(uint64(r.Pri))
	p.uint(uint64(r.Delay))
}

// queue queues a request from the client's New, once the engine can take it.
func (s *session) queue(r *shard.Request) {
	if s.client.Queue(r) {
		return
	}
	again := *r
	if len(r.Body) <= shard.Inline {
		again.Body = slices.Clone(r.Body) // what is kept goes with the queue
	}
	s.flush()
	r = s.client.New(again.Op)
	*r = again
	s.client.Queue(r) // the queue is empty: it takes anything
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

// say writes a packet without arguments.
func (s *session) say(typ uint32) {
	b := s.buf()
	b.B = appendHeader(b.B, typ, 0)
}

// render writes the answer to a request.
func (s *session) render(r *shard.Request) {
	switch uint32(r.Tag) {
	case typeGrabJob, typeGrabJobUniq, typeGrabJobAll:
		s.assign(r)
	case typeGetStatus:
		b := s.buf()
		p := begin(b.B, typeStatusRes)
		p.id(s.protocol.handles, r.ID)
		if r.Status != shard.OK {
			b.B = unknown(p, 4)
			return
		}
		appendProgress(&p, r)
		b.B = p.end()
	case tagQuiet:
	case typeWorkData, typeWorkWarning, typeWorkStatus, typeWorkComplete, typeWorkFail, typeWorkException:
		if kind := kinds[r.Tag]; r.Status == shard.OK && (kind == shard.Complete || kind == shard.Fail || kind == shard.Exception) {
			s.working--
		}
		switch {
		case r.Status == shard.NotFound:
			s.noSuchJob(uint32(r.Tag))
		case r.Status != shard.OK:
			s.renderFault(r.Status)
		}
	default:
		s.created(r)
	}
}

// renderFault writes the ERROR of a request that could not be served.
func (s *session) renderFault(st shard.Status) {
	f := faultFailed
	switch st {
	case shard.QueueFull:
		f = faultQueueFull
	case shard.OutOfMemory:
		f = faultMemory
	case shard.Draining:
		f = faultDraining
	}
	b := s.buf()
	b.B = appendError(b.B, f)
}

// noSuchJob says that a worker does not have the job that it talks of.
func (s *session) noSuchJob(typ uint32) {
	f := faultJob
	switch typ {
	case typeWorkData, typeWorkWarning:
		f.text = "Job does not exist on server"
	case typeWorkException:
		f.text = "An exception was received for a job that does not exist"
	}
	b := s.buf()
	b.B = appendError(b.B, f)
}

// created writes the answer to a submit.
func (s *session) created(r *shard.Request) {
	if r.Status != shard.OK {
		s.renderFault(r.Status)
		return
	}
	switch uint32(r.Tag) {
	case typeSubmitJob, typeSubmitJobHigh, typeSubmitJobLow, typeSubmitReduceJob:
		if s.foreground++; s.foreground == 1 {
			s.hold.id = r.ID // until Serve ends, at least
			return
		}
	}
	s.sayCreated(r.ID)
}

func (s *session) sayCreated(id uint64) {
	b := s.buf()
	p := begin(b.B, typeJobCreated)
	p.id(s.protocol.handles, id)
	b.B = p.end()
}

// assign writes the answer to a grab.
func (s *session) assign(r *shard.Request) {
	if r.Status != shard.OK {
		s.haste.refused(r.Timeout > 0)
		s.say(typeNoJob)
		return
	}
	s.working++
	var unique, reducer string
	if r.Task != nil {
		unique, reducer = r.Task.Unique, r.Task.Reducer
	}
	typ := uint32(typeJobAssign)
	switch {
	case r.Tag == typeGrabJobUniq:
		typ = typeJobAssignUniq
	case r.Tag == typeGrabJobAll && reducer == "":
		typ = typeJobAssignUniq
	case r.Tag == typeGrabJobAll:
		typ = typeJobAssignAll
	}
	workload := r.Body[:len(r.Body)-len(crlf)]
	b := s.buf()
	p := begin(b.B, typ)
	p.id(s.protocol.handles, r.ID)
	p.string(r.Tube.Name)
	if typ != typeJobAssign {
		p.string(unique)
	}
	if typ == typeJobAssignAll {
		p.string(reducer)
	}
	b.B = p.payload(len(workload))
	s.conn.WriteBody(workload)
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

// event writes one event.
func (s *session) event(e *shard.Event) {
	kind := e.Kind
	if kind == shard.Exception && !s.exceptions {
		kind = shard.Fail
	}
	var typ uint32
	switch kind {
	case shard.Wake:
		if s.asleep {
			s.asleep = false
			s.haste.woken(time.Now())
			s.say(typeNoop)
		}
		return
	case shard.Data:
		typ = typeWorkData
	case shard.Warning:
		typ = typeWorkWarning
	case shard.Progress:
		typ = typeWorkStatus
	case shard.Complete:
		typ = typeWorkComplete
	case shard.Fail:
		typ = typeWorkFail
	case shard.Exception:
		typ = typeWorkException
	}
	switch kind {
	case shard.Complete, shard.Fail, shard.Exception:
		s.foreground--
		s.pace.ended()
	}
	b := s.buf()
	p := begin(b.B, typ)
	p.id(s.protocol.handles, e.ID)
	if kind == shard.Fail && (e.Kind != kind || len(e.Data) == 0) {
		b.B = p.end()
		return
	}
	b.B = p.payload(len(e.Data))
	s.conn.WriteBody(e.Data)
}

// line serves an admin line, if it is complete.
func (s *session) line() bool {
	line, n := cutLine(s.rest)
	if n == 0 {
		if len(s.rest) >= maxLine {
			s.flush()
			b := s.buf()
			b.B = append(b.B, adminTooLong...)
			s.err = errTooLarge
		}
		return false
	}
	if isHTTP(line) {
		s.err = errHTTP
		return false
	}
	a := parseAdmin(line)
	s.flush()
	s.admin(&a)
	s.rest = s.rest[n:]
	return true
}

// isHTTP tells whether a line is how a request in HTTP begins. Its body could be
// lines for us, which any web page can have a browser send.
func isHTTP(line []byte) bool {
	i := bytes.LastIndexByte(line, ' ')
	return i > 0 && bytes.HasPrefix(line[i+1:], []byte("HTTP/"))
}

// admin answers an admin command.
func (s *session) admin(a *admin) {
	var functions []functionStatus
	switch a.verb {
	case adminStatus, adminPriorityStatus:
		for _, f := range s.client.Functions() {
			functions = append(functions, functionStatus{
				name: f.Name, total: f.High + f.Normal + f.Low + f.Running + f.Delayed, running: f.Running,
				// What has to wait for its time is of normal priority.
				queued: [priorities]int{f.High, f.Normal + f.Delayed, f.Low}, workers: f.Workers,
			})
		}
	case adminShowJobs, adminShowUniqueJobs:
		s.showJobs(a.verb == adminShowUniqueJobs)
		return
	}
	name := string(a.name)
	b := s.buf()
	switch a.verb {
	case adminStatus:
		b.B = appendStatus(b.B, functions)
	case adminPriorityStatus:
		b.B = appendPriorityStatus(b.B, functions)
	case adminWorkers:
		b.B = appendWorkers(b.B, s.protocol.workers())
	case adminMaxQueue:
		s.client.LimitFunction(name, a.max)
		b.B = append(b.B, adminOK...)
	case adminVersion:
		b.B = appendOK(b.B, s.protocol.cfg.Version)
	case adminGetPID:
		b.B = appendOKNumber(b.B, pid)
	case adminVerbose:
		b.B = appendOK(b.B, "INFO")
	case adminCancelJob:
		b.B = append(b.B, s.cancelJob(a.name)...)
	case adminCreateFunction:
		if !validFunction(a.name) {
			b.B = append(b.B, adminBadFunction...)
			break
		}
		s.client.CreateFunction(name)
		b.B = append(b.B, adminOK...)
	case adminDropFunction:
		b.B = append(b.B, s.dropFunction(name)...)
	case adminShutdown, adminShutdownGraceful:
		b.B = append(b.B, adminOK...)
		s.protocol.cfg.Shutdown(a.verb == adminShutdownGraceful)
	default:
		b.B = a.refusal(b.B)
	}
}

func (s *session) cancelJob(handle []byte) string {
	if id, ok := s.protocol.handles.parse(handle); ok {
		switch s.client.CancelJob(id) {
		case shard.OK:
			return adminOK
		case shard.Failed:
			return adminFailed
		}
	}
	return adminNoJob
}

func (s *session) dropFunction(name string) string {
	switch s.client.DropFunction(name) {
	case shard.NotFound:
		return adminNoFunction
	case shard.Busy:
		return adminBusy
	case shard.Failed:
		return adminFailed
	}
	return adminOK
}

// showJobs answers show jobs and show unique jobs.
func (s *session) showJobs(uniques bool) {
	s.client.Tasks(func(t shard.TaskStats) bool {
		b := s.buf() // each time: it is flushed when it has grown
		if uniques {
			b.B = append(append(b.B, t.Unique...), '\n')
		} else {
			b.B = s.protocol.handles.append(b.B, t.ID)
			b.B = appendRow(b.B, int(t.Retries), bit(!t.Background && !t.Waiting), bit(t.Background))
		}
		return true
	})
	b := s.buf()
	b.B = append(b.B, adminEnd...)
}
