package netio

// A connection's output: a pooled buffer of replies, bodies by reference between them, and writing it all in one call.

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

	// maxUnsent is about how long answers wait for those to the commands behind them, see FlushOld.
	maxUnsent = 10 * time.Millisecond

	// CopyMax is the largest body, in bytes, that WriteBody copies. BenchmarkBody sees no difference between limits from 512
	// bytes to 4 KiB. Small bodies have to be copied, or they would soon use up the segments of one writev.
	CopyMax = 1 << 10

	// The least capacity of a reply buffer, in bytes: for a connection that waits for each answer, and for one that
	// pipelines.
	outMin  = 4 << 10
	outDeep = 64 << 10

	// deepParks is for how many parks a connection that has pipelined is taken to do so still. What it writes between two parks
	// may be more than outMin now and less then, and each time a small buffer grows it becomes garbage.
	deepParks = 100

	// iovMax is the kernel's UIO_MAXIOV: the most segments one writev takes.
	iovMax = 1024
)

var (
	// outPool holds the small buffers. They differ too little to be calibrated, and are taken and given back at every wake-up:
	// in a bytebufferpool, every core would write its counters for each command of a client that does not pipeline.
	outPool = sync.Pool{New: func() any { return &bytebufferpool.ByteBuffer{B: make([]byte, 0, outMin)} }}

	// deepPool holds the large buffers. bytebufferpool calibrates itself by the length of the buffers that come back, and
	// throws away those that are larger than most; they are given back with their length set to their capacity.
	deepPool bytebufferpool.Pool

	vecPool = sync.Pool{New: func() any { return new(vector) }}
)

// output is the writing half of a Conn. Its fields belong to the connection's goroutine, except for those that lookMu guards.
type output struct {
	replies *bytebufferpool.ByteBuffer // nil when nothing was written since the last park
	peak    int                        // the most bytes replies has held since it left the pool; never more than its capacity
	vec     *vector                    // nil unless there are bodies by reference or a write is under way
	bodies  int                        // bytes queued by reference
	unsent  time.Duration              // when FlushOld first found something queued, by sinceStart; 0 if it has not
	werr    error                      // the first error in writing; it stays

	onWritable func(fd uintptr) bool // writeMore as a closure, made at the first write that has to wait

	untold int64 // bytes written that Server.sent does not have yet

	deep   uint8 // for how many parks buffers come from deepPool, since peak was more than outMin
	writes uint8 // how many there were, as far as it goes; starts at a different number in each connection

	// About a write that has to wait: lastTaken is when the peer was last seen to take something, by sinceStart, 0 while no
	// write waits; unacked is how many bytes the kernel held for the peer at the last look, even if that belonged to an
	// earlier write. The connection's goroutine looks, and so does any goroutine that calls Unread. Progress shows in only one
	// look; later ones know of it only by lastTaken. So lookMu is held from asking the kernel until both fields are updated.
	// (In this order the fields leave no gap in the struct; unacked is a C int in the kernel, too.)
	lookMu    sync.Mutex
	unacked   int32
	lastTaken time.Duration
}

// Unread returns how long the peer has taken nothing of what is being written to it, 0 if no write waits. Any goroutine may
// call it; it blocks at most for another look.
func (c *Conn) Unread() (d time.Duration) {
	c.raw.Control(func(fd uintptr) { d = c.look(fd) })
	return d
}

// look is Unread for the descriptor. It asks the kernel how much the peer has yet to take. Waiting for the socket to become
// writable would not do: it does so only when a third of its buffer is free, which may be megabytes, so a slow peer would
// seem to do nothing for long.
func (c *Conn) look(fd uintptr) time.Duration {
	c.lookMu.Lock()
	defer c.lookMu.Unlock()
	if c.lastTaken == 0 {
		return 0
	}
	left, now := unackedBytes(fd), sinceStart()
	if left < c.unacked {
		c.lastTaken = now
	}
	c.unacked = left
	return now - c.lastTaken
}

// waitBegins notes that a write starts to wait, or that the peer has read and the wait starts afresh. It bounds the wait.
func (c *Conn) waitBegins() {
	c.lookMu.Lock()
	c.lastTaken = sinceStart()
	c.lookMu.Unlock()
	c.limitWrite(0)
}

// waitEnds notes that no write waits any more.
func (c *Conn) waitEnds() {
	c.lookMu.Lock()
	c.lastTaken = 0
	c.lookMu.Unlock()
}

// limitWrite makes the waiting write time out when the peer, which has taken nothing for d, has done so for IdleTimeout. A
// deadline left over from an earlier wait does no harm: each wait sets its own, and the direct write ignores deadlines.
func (c *Conn) limitWrite(d time.Duration) {
	if idle := c.srv.config.IdleTimeout; idle > 0 {
		c.nc.SetWriteDeadline(time.Now().Add(idle - d)) // fails only on a closed connection, as the write then will
	}
}

// unackedBytes returns how many bytes written to a socket its peer's system has not acknowledged.
func unackedBytes(fd uintptr) int32 {
	n, _ := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return int32(n)
}

// sinceStart is a monotonic clock.
func sinceStart() time.Duration { return time.Since(start) }

var start = time.Now().Add(-1) // so that sinceStart is never 0

// A vector is what writev needs. It comes from a pool and holds no pointers while it is there.
type vector struct {
	refs []ref
	iov  []unix.Iovec
	next int // index in iov of the first segment that is not completely written
}

// A ref is a body that is sent between replies.B[:at] and replies.B[at:]. at is an offset and not a pointer, because the
// buffer moves when it grows.
type ref struct {
	at   int
	body []byte
}

// Buf returns the buffer to which a session appends its replies: b := c.Buf(); b.B = append(b.B, ...). Bytes may only be
// added at its end, and b is valid until the next call of a method of c. When more than maxOutput is queued, Buf first
// flushes it, so a session that calls Buf for each reply stays within that bound.
func (c *Conn) Buf() *bytebufferpool.ByteBuffer {
	if c.replies == nil {
		c.replies, c.peak = c.newReplies(), 0
	} else if c.queued() > c.srv.config.maxOutput {
		c.Flush()
	}
	return c.replies
}

// newReplies returns an empty buffer, as large as the connection is likely to need before it parks.
func (c *Conn) newReplies() *bytebufferpool.ByteBuffer {
	if c.deep == 0 {
		return outPool.Get().(*bytebufferpool.ByteBuffer)
	}
	b := deepPool.Get()
	if cap(b.B) < outDeep {
		b.B = make([]byte, 0, outDeep)
	}
	return b
}

// Write queues a copy of p. Its error is the first that writing to the peer met; that ends the connection when Serve returns.
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

// WriteBody queues p. If p has more than CopyMax bytes it is not copied, and nobody may change it from now on.
func (c *Conn) WriteBody(p []byte) {
	if len(p) <= CopyMax {
		c.Write(p)
		return
	}
	b := c.Buf() // may flush, which takes the vector away
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

// Flush writes out everything that is queued, in one send(2) or writev(2) if the peer takes it all. Otherwise it waits until
// the peer does; the connection's goroutine is parked meanwhile, so nothing is read from this peer. Serve need not call it:
// what is queued is flushed when Serve returns. An error is sticky.
func (c *Conn) Flush() error {
	if c.queued() == 0 {
		return c.werr
	}
	if c.werr == nil {
		c.werr = c.writeOut()
	}
	c.unsent = 0
	b := c.replies
	c.peak = max(c.peak, len(b.B))
	b.B = b.B[:0]
	c.bodies = 0
	if v := c.vec; v != nil {
		v.reset()
		vecPool.Put(v)
		c.vec = nil
	}
	return c.werr
}

// FlushOld is called by a session inside Serve when it has answered some commands and goes on with the rest, which may take
// long: hundreds of syncs, one after the other. It flushes the answers if they have been queued for about maxUnsent, so that
// the client need not wait until everything it has sent is done; but if its commands take no time, all answers still leave in
// one write. An error ends the connection when Serve returns.
func (c *Conn) FlushOld() {
	switch {
	case c.queued() == 0:
	case c.unsent == 0:
		c.unsent = sinceStart()
	case sinceStart()-c.unsent >= maxUnsent:
		c.Flush()
	}
}

// FlushEarly is FlushOld for a session that has answered many commands at once. If a core is known to be idle it flushes the answers in any
// case, since the client may then go on with them while the rest of its commands are served. If none is, that would only be one
// more write.
func (c *Conn) FlushEarly() {
	if c.srv.pulse.processors.hasIdleCore() {
		c.Flush()
	} else {
		c.FlushOld()
	}
}

// writeOut writes what is queued. The first attempt goes straight to the descriptor, which the callback of raw.Read keeps
// open.
func (c *Conn) writeOut() error {
	b := c.replies.B
	written := 0
	if c.vec == nil {
		if c.fd >= 0 {
			n, err := write(c.fd, b)
			c.wrote(n)
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
	// The peer does not take it all now. RawConn.Write calls the callback at once, before it waits, which is needed: it
	// forgets an edge that came before it.
	if c.onWritable == nil {
		c.onWritable = c.writeMore
	}
	c.waitBegins()
	defer c.waitEnds()
	for {
		err := c.raw.Write(c.onWritable)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// Another goroutine's look may have seen the peer read since the deadline was set, so what counts is the time since
			// then.
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
	c.look(fd) // before the write below adds to the unacknowledged bytes and hides from the next look what the peer has taken
	for v.next < len(v.iov) {
		seg := v.iov[v.next:min(len(v.iov), v.next+iovMax)]
		n, err := sysWritev(int(fd), seg)
		switch err {
		case nil:
			c.wrote(n)
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

// releaseOutput gives the output buffer back to its pool. Everything has been flushed.
func (c *Conn) releaseOutput() {
	b := c.replies
	if b == nil {
		return
	}
	c.replies = nil
	if c.peak > outMin {
		c.deep = deepParks
	} else if c.deep > 0 {
		c.deep--
	}
	switch size := cap(b.B); {
	case size >= outDeep:
		b.B = b.B[:size]
		deepPool.Put(b)
	case size < 2*outMin:
		b.Reset()
		outPool.Put(b)
	}
	// A buffer of a size in between grew when its connection began to pipeline, and goes to the garbage collector; the
	// connection's next one comes from deepPool.
}

// build makes the segments of iov: pieces of b with the bodies between them.
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

// advance notes that n more bytes were written.
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

// tellEvery is after how many writes a connection tells what it has written: so seldom that it does not matter that all cores
// write the word that it tells it to, and so often that what is untold does not matter where rates are compared.
const tellEvery = 32

// wrote counts n bytes as written.
func (c *Conn) wrote(n int) {
	c.untold += int64(n)
	if c.writes++; c.writes%tellEvery == 0 {
		c.tellSent()
	}
}

func (c *Conn) tellSent() {
	c.srv.sent.Add(c.untold)
	c.untold = 0
}

// write makes one system call, repeated if a signal interrupts it.
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
