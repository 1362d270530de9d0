package netio

// Closing a connection whose peer has not received all answers yet.

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lingerTime is how long linger waits in all: longer than a peer needs to read the answers to a pipeline, and short enough
	// to be added to a shutdown.
	lingerTime = time.Second
	// lingerPause: linger ends early when nothing has come for so long and the peer's system has all answers.
	lingerPause = 50 * time.Millisecond
	// lingerMost is how many bytes linger reads, so that nobody keeps the server busy with input that is thrown away.
	lingerMost = 64 << 20
)

// lingers reports whether our side closes the connection although the peer may still be sending: for a shutdown, or because
// the session refuses to go on.
func (c *Conn) lingers() bool {
	return (c.err == errShutdown || c.refused) && c.werr == nil && !c.killed.Load()
}

// linger keeps the close that follows from destroying answers. The kernel resets a connection that is closed with unread
// input, or that gets input after it is closed, and a reset destroys the answers that are still on their way. So linger
// shuts down the sending side and throws away what the peer sends until it has closed its side, too. A peer that has sent
// nothing more and has all answers is not waited for: idle connections close at once.
//
// It holds no buffer while it waits. A kill ends it, as the end of the stream does; a hang-up, abort or poke only wakes it.
func (c *Conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || !c.unsettled() || half.CloseWrite() != nil {
		return
	}
	c.dst = nil
	c.stow()
	c.kept = nil
	left := lingerMost
	read := func(fd uintptr) bool { return discard(int(fd), &left) }
	for now, end := time.Now(), time.Now().Add(lingerTime); now.Before(end); now = time.Now() {
		before := left
		c.advanceDeadline(now.Add(lingerPause))
		err := c.raw.Read(read)
		if !errors.Is(err, os.ErrDeadlineExceeded) || left == before && !c.unsettled() {
			return
		}
	}
}

// unsettled reports whether there is unread input, or output that the peer's system does not have.
func (c *Conn) unsettled() (is bool) {
	c.raw.Control(func(fd uintptr) {
		in, _ := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		out, _ := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		is = in > 0 || out > 0
	})
	return is
}

// discard reads and throws away the input that is there, at most *left bytes, which it counts down. It reports true at the
// end of the stream, on an error, or when *left is used up; false when the socket is drained.
func discard(fd int, left *int) (ended bool) {
	buf := readPool.Get().(*[ReadSize]byte)
	defer readPool.Put(buf)
	for *left > 0 {
		n, err := sysRead(fd, buf[:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false
		case err != nil, n == 0:
			return true
		}
		*left -= max(n, 0)
	}
	return true
}
