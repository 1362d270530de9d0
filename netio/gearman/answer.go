package gearman

// Writing answers to requests, and events, which come without a request.

import (
	"time"

	"github.com/sheafq/sheaf/shard"
)

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
			b.B = endWithZeros(p, 4)
			return
		}
		appendProgress(&p, r)
		b.B = p.end()
	case tagQuiet:
	case typeWorkData, typeWorkWarning, typeWorkStatus, typeWorkComplete, typeWorkFail, typeWorkException:
		if r.Status == shard.OK && endsJob(kinds[r.Tag]) {
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

// renderFault writes the ERROR for a request that could not be served.
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

// noSuchJob writes the ERROR for a packet of that type about a job that the worker does
// not have.
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
	if inForeground(uint32(r.Tag)) {
		if s.foreground++; s.foreground == 1 {
			s.hold.id = r.ID // at least until more is said or Serve ends: see decideHold
			return
		}
	}
	s.sayCreated(r.ID)
}

// sayCreated writes JOB_CREATED.
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
	r.Body = nil // others behind r may wait until the client has read it
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

// endWithZeros ends a status packet about an unknown job with n zeros.
func endWithZeros(p packet, n int) []byte {
	for range n {
		p.bool(false)
	}
	return p.end()
}

// appendProgress appends the four arguments that describe a known job: known, running,
// numerator, denominator. r is the answer to an Inquire.
func appendProgress(p *packet, r *shard.Request) {
	p.bool(true)
	p.bool(r.N&1 != 0)
	p.uint(uint64(r.Pri))
	p.uint(uint64(r.Delay))
}

// endsJob reports whether an event of that kind is the last of its job.
func endsJob(kind shard.EventKind) bool {
	return kind == shard.Complete || kind == shard.Fail || kind == shard.Exception
}

// event writes one event.
func (s *session) event(e *shard.Event) {
	kind := e.Kind
	if kind == shard.Exception && !s.exceptions {
		kind = shard.Fail
	}
	var typ uint32
	switch kind {
	case shard.Expired: // the worker learns of it when it reports on the job
		s.working--
		return
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
	if endsJob(kind) {
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
