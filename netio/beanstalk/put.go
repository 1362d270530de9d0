package beanstalk

// The put command, and the reading of its body.

import (
	"slices"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/shard"
)

// servePut serves a put line. If the whole body has come with it, as it usually does,
// the put is queued like any command and gets its id when it is served. Otherwise it
// gets its id now, once everything sent before it has been served, so that ids are in
// the order in which put lines arrive.
func (s *session) servePut() {
	cmd := &s.cmd
	size := int(cmd.size) + 2
	if int(cmd.size) > s.protocol.cfg.MaxJobSize {
		if s.flush(); s.err != nil {
			return
		}
		s.client.Count(shard.Put)
		s.discard(size, tagJobTooBig)
		return
	}
	if cmd.trailing {
		s.refuse(shard.Put)
		return
	}
	if len(s.rest) >= size && hasTrailer(s.rest[:size]) {
		r := s.client.New(shard.Put)
		s.fillPut(r)
		if body := s.rest[:size]; size <= shard.Inline {
			r.Body = s.client.Keep(body, "")
		} else {
			r.Body = slices.Clone(body)
		}
		s.rest = s.rest[size:]
		s.queue(r)
		return
	}
	if s.flush(); s.err != nil {
		return
	}
	s.client.Count(shard.Put)
	s.client.MarkProducer()
	body := netio.Incoming{Size: size}
	if s.client.MemoryFull(size) || !body.Grow(s.client.HoldMemory) {
		s.discard(size, tagOutOfMemory)
		return
	}
	if s.put == nil {
		s.put = new(partialPut)
	}
	s.put.body = body
	s.fillPut(&s.put.request)
	s.client.Begin(&s.put.request)
}

// fillPut fills a request in from the put line.
func (s *session) fillPut(r *shard.Request) {
	r.Op, r.Tag = shard.Put, tag(cmdPut)
	r.Pri, r.Delay, r.TTR = s.cmd.pri, s.cmd.delay, max(s.cmd.ttr, 1)
}

// readBody reads more of the body of s.put, and queues the put when it is complete. It
// reports false if more input is needed first.
func (s *session) readBody() bool {
	p := s.put
	gap, ok := p.body.Take(&s.rest, s.client.HoldMemory)
	if len(gap) > 0 {
		s.conn.ReadInto(gap)
		return false
	}
	body := p.body
	p.body = netio.Incoming{}
	s.client.FreeMemory(len(body.Data))
	switch {
	case !ok:
		s.discard(body.Missing(), tagOutOfMemory)
	case !hasTrailer(body.Data):
		s.answer(tagExpectedCRLF)
	default:
		r := s.client.New(shard.Put)
		*r = p.request
		r.Body = body.Data
		s.queue(r)
	}
	return true
}

// discard throws away the next n bytes, a body with its CRLF or the rest of one, and
// then answers.
func (s *session) discard(n int, answer tag) {
	s.skip, s.afterSkip = n, answer
}

// hasTrailer reports whether a body ends with CRLF, as it must.
func hasTrailer(body []byte) bool {
	n := len(body)
	return body[n-2] == '\r' && body[n-1] == '\n'
}
