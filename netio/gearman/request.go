package gearman

// Requests: what each packet asks of the engine (package router).

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sheafq/sheaf/shard"
)

const (
	// The longest names that are accepted, in bytes. A longer client id is cut.
	maxFunction = 512
	maxUnique   = 64
	maxClientID = 127
)

// serve serves a request whose arguments are in s.args; see body for own.
func (s *session) serve(typ uint32, own []byte) {
	a := &s.args
	switch typ {
	case typeSubmitJob, typeSubmitJobHigh, typeSubmitJobLow, typeSubmitReduceJob,
		typeSubmitJobBG, typeSubmitJobHighBG, typeSubmitJobLowBG, typeSubmitReduceBackground,
		typeSubmitJobEpoch, typeSubmitJobSched:
		s.submit(typ, own)
	case typeGrabJob, typeGrabJobUniq, typeGrabJobAll:
		s.grab(typ)
	case typeWorkData, typeWorkWarning, typeWorkComplete, typeWorkException:
		s.result(typ, a[0], body(a[1], own, false))
	case typeWorkFail:
		// There may be more behind the handle, although the protocol has no such argument.
		handle, more, _ := bytes.Cut(a[0], []byte{0})
		if len(more) > 0 {
			more = body(more, own, false)
		}
		s.result(typ, handle, more)
	case typeWorkStatus:
		progress := slices.Concat(a[1], []byte{0}, a[2])
		s.result(typ, a[0], progress)
	case typeGetStatus:
		s.getStatus(untilNUL(a[0]))
	case typeEchoReq:
		s.flush()
		b := s.buf()
		b.B = appendHeader(b.B, typeEchoRes, len(a[0]))
		s.conn.WriteBody(body(a[0], own, false))
	case typePreSleep:
		s.preSleep()
	case typeCanDo, typeCanDoTimeout, typeCantDo, typeResetAbilities:
		s.abilities(typ)
	case typeSetClientID:
		id, _, _ := strings.Cut(string(a[0][:min(len(a[0]), maxClientID)]), "\x00")
		s.protocol.describe(s, func(d *description) { d.id = id })
	case typeAllYours: // says that the worker uses no other server; there is nothing to do
	case typeOptionReq:
		s.setOption(a[0])
	case typeGetStatusUnique:
		s.getStatusUnique(string(untilNUL(a[0])))
	}
}

// untilNUL returns an argument up to its first NUL: some clients send one behind it.
func untilNUL(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte{0})
	return b
}

// functionName returns a function's name as a string, the same one as the last time if
// the name is the same.
func (s *session) functionName(b []byte) string {
	if string(b) != s.function {
		s.function = string(b)
	}
	return s.function
}

// validFunction reports whether b may be a function's name.
func validFunction(b []byte) bool { return 1 <= len(b) && len(b) <= maxFunction }

// inForeground reports whether packets of that type submit a job whose result the client
// waits for.
func inForeground(typ uint32) bool {
	switch typ {
	case typeSubmitJob, typeSubmitJobHigh, typeSubmitJobLow, typeSubmitReduceJob:
		return true
	}
	return false
}

// submit serves all forms of SUBMIT_JOB; see body for own.
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
	task := &shard.Task{Unique: string(a[1]), Background: !inForeground(typ)}
	pri, at := shard.PriNormal, uint64(0) // at: seconds since 1970, 0 for now
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
		t := strtoll(a[2])
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
	r.Name, r.Pri, r.N, r.Task = s.functionName(a[0]), pri, at, task
	if payload := a[f.args-1]; len(payload)+len(crlf) <= shard.Inline {
		r.Body = s.client.Keep(payload, crlf)
	} else {
		r.Body = body(payload, own, true)
	}
	s.queue(r)
}

// grab serves the three forms of GRAB_JOB.
func (s *session) grab(typ uint32) {
	s.asleep = false
	s.client.MarkWorker()
	if !s.client.CanDoAny() {
		s.answer(shard.NotFound, uint8(typ))
		return
	}
	r := s.client.New(shard.Grab)
	r.Tag = uint8(typ)
	if len(s.rest) == 0 { // nothing sent after it has to wait with it
		r.Timeout = int64(s.haste.patience())
	}
	s.queue(r)
}

// preSleep serves PRE_SLEEP: NOOP at once if there is a job, else when one comes.
func (s *session) preSleep() {
	s.flush()
	if s.client.Doze() {
		s.haste.woken(time.Now())
		s.say(typeNoop)
	} else {
		s.asleep = true
	}
}

// setOption serves OPTION_REQ.
func (s *session) setOption(option []byte) {
	if !bytes.EqualFold(untilNUL(option), []byte("exceptions")) {
		s.refuse(faultOption)
		return
	}
	s.flush()
	s.exceptions = true
	b := s.buf()
	b.B = appendPacket(b.B, typeOptionRes, option)
}

// result serves a worker's packet about its job.
func (s *session) result(typ uint32, handle, data []byte) {
	id, ok := s.protocol.handles.parse(untilNUL(handle))
	if !ok {
		s.flush()
		s.noSuchJob(typ)
		return
	}
	s.report(typ, id, data, uint8(typ))
}

// kinds has the events that workers' packets cause, by packet type.
var kinds = [types]shard.EventKind{
	typeWorkData:      shard.Data,
	typeWorkWarning:   shard.Warning,
	typeWorkStatus:    shard.Progress,
	typeWorkComplete:  shard.Complete,
	typeWorkFail:      shard.Fail,
	typeWorkException: shard.Exception,
}

// tagQuiet is the tag of a report whose answer is not sent. The tags of other requests
// are their packets' types.
const tagQuiet = types

// report asks the engine to pass on what a worker says about job id.
func (s *session) report(typ uint32, id uint64, data []byte, tag uint8) {
	r := s.client.New(shard.Report)
	r.Tag = tag
	r.ID, r.N, r.Body = id, uint64(kinds[typ]), data
	if typ == typeWorkStatus {
		done, total, _ := bytes.Cut(data, []byte{0})
		r.Pri, r.Delay = uint32(strtoll(done)), uint32(strtoll(total)) // modulo 2^32, as with atoi
	}
	s.queue(r)
}

// strtoll reads a number at the beginning of b, as the C function does: white space, a
// sign, digits. What follows is ignored, and without digits it is 0. A number out of
// range, or within 9 of its end, becomes the largest or the smallest there is.
func strtoll(b []byte) int64 {
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
	switch {
	case negative && n == math.MaxInt64:
		n = math.MinInt64
	case negative:
		n = -n
	}
	return n
}

// getStatus serves GET_STATUS.
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
	b.B = endWithZeros(p, 4)
}

// getStatusUnique serves GET_STATUS_UNIQUE.
func (s *session) getStatusUnique(unique string) {
	s.flush()
	r := s.client.InquireUnique(unique)
	b := s.buf()
	p := begin(b.B, typeStatusResUnique)
	p.string(unique)
	if r.Status != shard.OK {
		b.B = endWithZeros(p, 5)
		return
	}
	appendProgress(&p, &r)
	p.uint(r.N >> 1)
	b.B = p.end()
}
