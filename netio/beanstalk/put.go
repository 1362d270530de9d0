package beanstalk

// The put command, and the reading of its body.

import (
	"slices"

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
	grant := min(size, maxGrant)
	if s.client.MemoryFull(size) || !s.client.HoldMemory(grant) {
		s.discard(size, tagOutOfMemory)
		return
	}
	if s.put == nil {
		s.put = new(partialPut)
	}
	p := s.put
	p.size, p.body, p.filled = size, make([]byte, grant), 0
	s.fillPut(&p.request)
	s.client.Begin(&p.request)
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
	for {
		n := copy(p.body[p.filled:], s.rest)
		s.rest = s.rest[n:]
		p.filled += n
		if p.filled < len(p.body) {
			// netio reads what comes next straight into it; Serve is called when it is full.
			s.conn.ReadInto(p.body[p.filled:])
			p.filled = len(p.body)
			return false
		}
		if len(p.body) == p.size {
			break
		}
		grown := min(2*len(p.body), p.size)
		if !s.client.HoldMemory(grown - len(p.body)) {
			s.discard(p.size-len(p.body), tagOutOfMemory)
			s.endPut()
			return true
		}
		p.body = append(make([]byte, 0, grown), p.body...)[:grown]
	}
	body := p.body
	s.endPut()
	if !hasTrailer(body) {
		s.answer(tagExpectedCRLF)
		return true
	}
	r := s.client.New(shard.Put)
	*r = p.request
	r.Body = body
	s.queue(r)
	return true
}

// endPut forgets the put whose body was being read.
func (s *session) endPut() {
	s.client.FreeMemory(len(s.put.body))
	s.put.body, s.put.size = nil, 0
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
