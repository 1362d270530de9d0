package netio

// The end of a connection whose peer has not heard all of the answers yet.

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lingerTime is how long linger waits, in all: a peer that has sent a pipeline reads the answers in less, and a shutdown may
// take so much longer. When nothing has come for lingerPause and the peer's system has all that was said to it, it does not
// wait any more. lingerMost is how many bytes it reads, so that nobody keeps the server busy with what it throws away.
const (
	lingerTime  = time.Second
	lingerPause = 50 * time.Millisecond
	lingerMost  = 64 << 20
)

// lingers reports whether the connection is closed by our side although the peer may have more to say: for a shutdown, or
// because its session refuses to go on.
func (c *Conn) lingers() bool {
	return (c.err == errShutdown || c.refused) && c.werr == nil && !c.killed.Load()
}

// linger sees to it that the close that follows does not take away what was answered. The kernel resets a connection that is
// closed with unread input, or that gets input when it is closed, and a reset destroys the answers that are still on their
// way. So the peer is told that no more will come, and what it sends is thrown away until it has closed its side, too. A peer
// that has said nothing more and has all answers is not waited for: idle connections close at once.
//
// It holds no buffer while it waits. A kill ends it, as the end of the stream does; other calls only wake it.
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
		c.nc.SetReadDeadline(now.Add(lingerPause))
		err := c.raw.Read(read)
		if !errors.Is(err, os.ErrDeadlineExceeded) || left == before && !c.unsettled() {
			return
		}
	}
}

// unsettled reports whether there is input that was not read, or output that the peer does not have.
func (c *Conn) unsettled() (is bool) {
	c.raw.Control(func(fd uintptr) {
		in, _ := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		out, _ := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		is = in > 0 || out > 0
	})
	return is
}

// discard reads and throws away what there is. It reports true at the end of the stream, or when left is used up.
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
