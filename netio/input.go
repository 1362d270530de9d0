package netio

// A connection's input: the pooled read buffer, the beginning of an incomplete command, and a body on its way to its slice.

import (
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// ReadSize is the size of a read buffer, in bytes, and so the most that Session.Serve is given at once. 64 KiB takes some
// thousand pipelined commands in one read and costs nothing while a connection is idle.
const ReadSize = 64 << 10

// readPool holds the read buffers. All have one size, so bytebufferpool would have nothing to calibrate; a sync.Pool avoids
// its shared counters, which every core would write at every wake-up.
var readPool = sync.Pool{New: func() any { return new([ReadSize]byte) }}

// input is the reading half of a Conn; its fields belong to the connection's goroutine.
//
// Unconsumed bytes are buf[:held], or kept while there is no buffer; never both. While dst is not nil there are none.
type input struct {
	buf  *[ReadSize]byte // nil while parked
	held int
	kept []byte
	dst  []byte // the part of ReadInto's destination that is still to be filled

	serving []byte // what Serve was given, or the part of it that Idle has kept
	skipped int    // how many bytes of what Serve was given come before serving

	iov [2]unix.Iovec // for readv; cleared after use so that it keeps no memory alive
}

// ReadInto makes the bytes that follow in, Serve's argument, go straight into dst. Serve must consume all of in; it is called
// again when dst is full, with what followed (maybe nothing). If in already held the beginning of what dst is for, the
// session has copied that itself, and passes only the part of its slice that is still empty. An empty dst changes nothing.
// An [Incoming] works out dst for a body.
func (c *Conn) ReadInto(dst []byte) {
	if len(dst) > 0 {
		c.dst = dst
	}
}

// Idle is called by a session inside Serve before a wait that may be long, such as a reserve: it flushes what was written and
// gives the connection's buffers back, so that a connection that waits costs no more than an idle one. rest is the unconsumed
// end of in; the session must go on with the copy that Idle returns. Serve's result still counts bytes of the original in.
func (c *Conn) Idle(rest []byte) []byte {
	if c.Flush() != nil {
		c.hangup() // nobody is there to wait; the error ends the connection after Serve
	}
	c.releaseOutput()
	if c.buf == nil {
		return rest // a second Idle within one Serve
	}
	consumed := len(c.serving) - len(rest)
	c.skipped += consumed
	c.serving = clone(rest)
	readPool.Put(c.buf)
	c.buf, c.held = nil, 0
	return c.serving
}

// read makes one recv(2) or readv(2). It returns how many bytes it got and whether that drained the socket. At the end of the
// stream the error is io.EOF.
func (c *Conn) read() (got int, drained bool, err error) {
	if c.buf == nil {
		c.buf = readPool.Get().(*[ReadSize]byte)
		c.held = copy(c.buf[:], c.kept)
		c.kept = nil
	}
	free := c.buf[c.held:]
	room := len(c.dst) + len(free)
	for {
		if c.dst == nil {
			got, err = sysRead(c.fd, free)
		} else {
			got, err = c.readv(free)
		}
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return 0, true, err
	case got == 0:
		return 0, true, io.EOF
	}
	return got, got < room, nil
}

// readv reads into the unfilled part of dst first, and then into free.
func (c *Conn) readv(free []byte) (int, error) {
	c.iov[0].Base = &c.dst[0]
	c.iov[0].SetLen(len(c.dst))
	c.iov[1].Base = &free[0]
	c.iov[1].SetLen(len(free))
	n, err := sysReadv(c.fd, c.iov[:])
	c.iov = [2]unix.Iovec{}
	return n, err
}

// serve gives the session what was read, unless a ReadInto is still incomplete, and flushes its answers. It reports whether a
// command was finished: the session has consumed something or has got the body it asked for, and has asked for no other.
func (c *Conn) serve(got int) (finished bool, err error) {
	filled := c.dst != nil
	if filled {
		if got < len(c.dst) {
			c.dst = c.dst[got:]
			return false, nil
		}
		got -= len(c.dst)
		c.dst = nil
	}
	c.held += got
	in := c.buf[:c.held]
	c.serving, c.skipped = in, 0
	n, err := c.session.Serve(in)
	if err == nil {
		err = c.callPoked() // what it says leaves with the answers
	}
	c.refused = err != nil && err != io.EOF
	if ferr := c.Flush(); err == nil {
		err = ferr
	}
	rest := c.serving
	c.serving = nil
	if err != nil {
		return false, err
	}
	if n < c.skipped || n > len(in) || c.dst != nil && n < len(in) {
		return false, errConsumed
	}
	rest = rest[n-c.skipped:]
	if c.buf == nil {
		c.kept = clone(rest) // Idle has given the buffer back; rest may be the short end of a large copy
	} else {
		if n > 0 {
			copy(c.buf[:], rest)
		}
		c.held = len(rest)
	}
	if len(rest) == ReadSize {
		return false, errNoSpace
	}
	return c.dst == nil && (filled || n > 0), nil
}

// between reports whether the connection is between two commands, where a shutdown may close it.
func (c *Conn) between() bool { return c.dst == nil && c.held == 0 && len(c.kept) == 0 }

// stow gives the buffers back before the goroutine parks, and keeps an incomplete command in a slice of its size.
func (c *Conn) stow() {
	c.releaseOutput()
	if c.buf == nil {
		return
	}
	c.kept = clone(c.buf[:c.held])
	readPool.Put(c.buf)
	c.buf, c.held = nil, 0
}

// clone copies p into a slice of exactly its size, nil if p is empty.
func clone(p []byte) []byte {
	if len(p) == 0 {
		return nil
	}
	q := make([]byte, len(p))
	copy(q, p)
	return q
}
