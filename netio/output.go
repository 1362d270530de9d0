package netio

// What a connection has to say: a pooled buffer of replies, bodies by reference between them, and the one write.

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/valyala/bytebufferpool"
	"golang.org/x/sys/unix"
)

const (
	// maxOutput is how many bytes of answers are queued before they are written out and the session has to wait for its
	// peer to take them.
	maxOutput = 256 << 10

	// maxUnsent is about how long answers wait for those of the commands behind them, see FlushOld.
	maxUnsent = 10 * time.Millisecond

	// CopyMax is up to how many bytes WriteBody copies. BenchmarkBody sees no difference from 512 bytes to 4 KiB; small ones
	// have to be copied, or one writev's segments are soon used up.
	CopyMax = 1 << 10

	// The least capacity of a reply buffer: of a connection that asks and waits, and of one that pipelines.
	outMin  = 4 << 10
	outDeep = 64 << 10

	// iovMax is the kernel's UIO_MAXIOV: the most segments one writev takes.
	iovMax = 1024
)

var (
	// Small buffers differ too little to be calibrated, and are taken and given back at every wake-up: the counters of
	// bytebufferpool would then be written by every core, for each command of a client that does not pipeline.
	outPool = sync.Pool{New: func() any { return &bytebufferpool.ByteBuffer{B: make([]byte, 0, outMin)} }}

	// bytebufferpool calibrates itself by the length of what comes back and throws away what is larger than most, so here
	// buffers count with their capacity.
	deepPool bytebufferpool.Pool

	vecPool = sync.Pool{New: func() any { return new(vector) }}
)

// output is the writing half of a Conn. Its fields belong to the connection's goroutine, but for those that looks guards.
type output struct {
	replies *bytebufferpool.ByteBuffer // nil when nothing was written since the last park
	high    int                        // the most that replies has held since it left the pool; never more than its capacity
	vec     *vector                    // nil unless there are bodies by reference or a write is under way
	bodies  int                        // bytes queued by reference
	unsent  time.Duration              // since when something is queued, as FlushOld has found it; 0 if it has not
	werr    error                      // the first error in writing; it stays

	onWritable func(fd uintptr) bool // writeMore as a closure, made at the first write that has to wait

	deep bool // high came to be more than outMin before the last park

	// Of a write that has to wait: unread is when the peer was last seen to take something, as sinceStart says it, 0 while no
	// write waits; unacked is how many bytes the kernel had for it at the last look, maybe at one of an earlier write. The
	// connection's goroutine looks, and so does any that calls Unread; what one look has seen the next one does not see again,
	// and knows by unread only. So looks guards both, and is held from the question to the kernel until both are brought up to
	// date: no look comes between the steps of another. (In this order they leave no hole; unacked is an int of the kernel's.)
	looks   sync.Mutex
	unacked int32
	unread  time.Duration
}

// Unread says for how long the peer has taken nothing of what is being written to it, 0 if nothing has to wait. Any goroutine
// may call it; it waits for nothing but another look.
func (c *Conn) Unread() (d time.Duration) {
	c.raw.Control(func(fd uintptr) { d = c.look(fd) })
	return d
}

// look is Unread of the descriptor. The kernel says that a socket can be written to when a third of its buffer is free again,
// which may be megabytes; a slow peer would seem to do nothing for long. So it is asked how much it has.
func (c *Conn) look(fd uintptr) time.Duration {
	c.looks.Lock()
	defer c.looks.Unlock()
	if c.unread == 0 {
		return 0
	}
	left, now := unackedBytes(fd), sinceStart()
	if left < c.unacked {
		c.unread = now
	}
	c.unacked = left
	return now - c.unread
}

// waitBegins notes that a write begins to wait, or that the peer did read and it waits anew, and bounds the wait.
func (c *Conn) waitBegins() {
	c.looks.Lock()
	c.unread = sinceStart()
	c.looks.Unlock()
	c.limitWrite(0)
}

// waitEnds notes that no write waits.
func (c *Conn) waitEnds() {
	c.looks.Lock()
	c.unread = 0
	c.looks.Unlock()
}

// limitWrite bounds the wait of a write for a peer that has taken nothing for d. The deadline of a wait that is over does no
// harm: the next one sets its own, and the direct write knows none.
func (c *Conn) limitWrite(d time.Duration) {
	if idle := c.srv.config.IdleTimeout; idle > 0 {
		c.nc.SetWriteDeadline(time.Now().Add(idle - d)) // fails on a closed connection only, as the write will
	}
}

// unackedBytes is how much of what was written to a socket its peer's system does not have yet.
func unackedBytes(fd uintptr) int32 {
	n, _ := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return int32(n)
}

// sinceStart is a clock that nobody sets.
func sinceStart() time.Duration { return time.Since(start) }

var start = time.Now().Add(-1) // so that it never says 0

// A vector is what writev needs. It comes from a pool and holds no pointer while it is there.
type vector struct {
	refs []ref
	iov  []unix.Iovec
	next int // the first segment of iov that is not written out
}

// A ref is a body that leaves between replies.B[:at] and what follows there. An offset and not a pointer, because the buffer
// moves when it grows.
type ref struct {
	at   int
	body []byte
}

// Buf returns the buffer to which a session appends its replies: b := c.Buf(); b.B = append(b.B, ...). Bytes may be added at
// its end only, and b is good until the next call of a method of c. When more than maxOutput is queued, Buf first
// flushes it, so a session that calls Buf for each reply keeps the bound.
func (c *Conn) Buf() *bytebufferpool.ByteBuffer {
	if c.replies == nil {
		c.replies, c.high = c.newReplies(), 0
	} else if c.queued() > c.srv.config.maxOutput {
		c.Flush()
	}
	return c.replies
}

// newReplies returns an empty buffer for what the connection is likely to say before it parks.
func (c *Conn) newReplies() *bytebufferpool.ByteBuffer {
	if !c.deep {
		return outPool.Get().(*bytebufferpool.ByteBuffer)
	}
	b := deepPool.Get()
	if cap(b.B) < outDeep {
		b.B = make([]byte, 0, outDeep)
	}
	return b
}

// Write queues a copy of p. The error is that of an earlier write; it ends the connection when Serve returns.
func (c *Conn) Write(p []byte) (int, error) {
	b := c.Buf()
	b.B = append(b.B, p...)
	if c.queued() > c.srv.config.maxOutput {
		c.Flush()
	}
	if c.werr != nil {
		return 0, c.werr
	}
	return len(p), nil
}

// WriteBody queues p. One of more than CopyMax bytes goes out from where it is: nobody may change it from now on.
func (c *Conn) WriteBody(p []byte) {
	if len(p) <= CopyMax {
		c.Write(p)
		return
	}
	b := c.Buf() // before the vector is looked at: it may flush
	if c.vec == nil {
		c.vec = vecPool.Get().(*vector)
	}
	c.vec.refs = append(c.vec.refs, ref{len(b.B), p})
	c.bodies += len(p)
	if c.queued() > c.srv.config.maxOutput {
		c.Flush()
	}
}

// queued returns how many bytes wait to be flushed.
func (c *Conn) queued() int {
	if c.replies == nil {
		return 0
	}
	return len(c.replies.B) + c.bodies
}

// Flush writes out everything that is queued, in one write(2) or writev(2) when the peer takes it, and otherwise waits until
// it does. The connection's goroutine is parked meanwhile, so nothing is read from this peer. Serve need not call it: what
// is queued is flushed when Serve returns. An error is sticky.
func (c *Conn) Flush() error {
	if c.queued() == 0 {
		return c.werr
	}
	if c.werr == nil {
		c.werr = c.writeOut()
	}
	c.unsent = 0
	b := c.replies
	c.high = max(c.high, len(b.B))
	b.B = b.B[:0]
	c.bodies = 0
	if v := c.vec; v != nil {
		v.reset()
		vecPool.Put(v)
		c.vec = nil
	}
	return c.werr
}

// FlushOld is called by a session inside Serve when it has answered some of what came and goes on with the rest, which may
// take long: hundreds of syncs, one after the other. It flushes what was written if that was there for long already, so that
// a client hears of what is done before all is that it has sent; but one whose commands take no time still gets all answers
// in one write. An error ends the connection when Serve returns.
func (c *Conn) FlushOld() {
	switch {
	case c.queued() == 0:
	case c.unsent == 0:
		c.unsent = sinceStart()
	case sinceStart()-c.unsent >= maxUnsent:
		c.Flush()
	}
}

// writeOut writes what is queued. The first try goes straight to the descriptor, which the callback of raw.Read keeps open.
func (c *Conn) writeOut() error {
	b := c.replies.B
	written := 0
	if c.vec == nil {
		if c.fd >= 0 {
			n, err := write(c.fd, b)
			if n == len(b) {
				return nil
			}
			if err != nil && err != unix.EAGAIN {
				return err
			}
			written = n
		}
		c.vec = vecPool.Get().(*vector)
	}
	c.vec.build(b)
	c.vec.advance(written)
	if c.fd >= 0 && written == 0 && len(c.vec.refs) > 0 {
		if done := c.writeMore(uintptr(c.fd)); done {
			c.waitEnds()
			return c.werr
		}
	}
	// The peer does not take it all now. The callback is tried once more at once, because RawConn.Write forgets an edge that
	// came before it.
	if c.onWritable == nil {
		c.onWritable = c.writeMore
	}
	c.waitBegins()
	defer c.waitEnds()
	for {
		err := c.raw.Write(c.onWritable)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// Another look may have seen the peer read since the deadline was set, so it is the time that counts.
			if d := c.Unread(); d < c.srv.config.IdleTimeout {
				c.limitWrite(d)
				continue
			}
		}
		if err != nil {
			return err
		}
		return c.werr
	}
}

// writeMore writes until everything is out or an error is set (true), or the socket is full (false).
func (c *Conn) writeMore(fd uintptr) (done bool) {
	v := c.vec
	c.look(fd) // what is written now takes the place of what the peer has taken, and hides it from the next look
	for v.next < len(v.iov) {
		seg := v.iov[v.next:min(len(v.iov), v.next+iovMax)]
		n, err := sysWritev(int(fd), seg)
		switch err {
		case nil:
			v.advance(n)
			if v.next < len(v.iov) {
				c.waitBegins() // progress: the peer does read
			}
		case unix.EINTR:
		case unix.EAGAIN:
			c.look(fd)
			return false
		default:
			c.werr = os.NewSyscallError("writev", err)
			return true
		}
	}
	return true
}

// releaseOutput gives the output buffer back. Everything has been flushed.
func (c *Conn) releaseOutput() {
	b := c.replies
	if b == nil {
		return
	}
	c.replies = nil
	c.deep = c.high > outMin
	switch size := cap(b.B); {
	case size >= outDeep:
		b.B = b.B[:size]
		deepPool.Put(b)
	case size < 2*outMin:
		b.Reset()
		outPool.Put(b)
	}
	// One in between has grown when its connection began to pipeline; the next will be a deep one.
}

// build makes the segments: pieces of b with the bodies between them.
func (v *vector) build(b []byte) {
	pos := 0
	for _, r := range v.refs {
		v.add(b[pos:r.at])
		v.add(r.body)
		pos = r.at
	}
	v.add(b[pos:])
}

func (v *vector) add(p []byte) {
	if len(p) > 0 {
		iov := unix.Iovec{Base: &p[0]}
		iov.SetLen(len(p))
		v.iov = append(v.iov, iov)
	}
}

// advance takes n bytes as written.
func (v *vector) advance(n int) {
	for n > 0 {
		seg := &v.iov[v.next]
		if n < int(seg.Len) {
			seg.Base = (*byte)(unsafe.Add(unsafe.Pointer(seg.Base), n))
			seg.SetLen(int(seg.Len) - n)
			return
		}
		n -= int(seg.Len)
		v.next++
	}
}

func (v *vector) reset() {
	clear(v.refs)
	clear(v.iov)
	v.refs, v.iov, v.next = v.refs[:0], v.iov[:0], 0
}

// write is one write(2), tried again after a signal.
func write(fd int, p []byte) (int, error) {
	for {
		n, err := sysWrite(fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.ErrUnexpectedEOF
		default:
			return n, nil
		}
	}
}
