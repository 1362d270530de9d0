package netio

// A connection: its goroutine, the read loop, and how it ends.

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Why a connection ended, when neither its session nor the system says so.
var (
	errIdle      = errors.New("idle for too long")
	errShutdown  = errors.New("server shut down")
	errNoSession = errors.New("NewSession returned nil")
	errNoSpace   = errors.New("session consumed nothing of a full buffer")
	errConsumed  = errors.New("session returned an impossible count of bytes")
)

// tornPatience is how long a shutdown waits for more of an incomplete command or body: long enough for TCP to retransmit lost
// packets a few times, and short enough if the peer will never send the rest.
const tornPatience = time.Second

// A Conn is one connection, as its session sees it. Any goroutine may call RemoteAddr, Poke, Unread and Kill. All other
// exported methods are for the connection's own goroutine: call them only inside Serve and Poked. (NewSession and Close may
// write too; what NewSession has written goes out before the first read.)
type Conn struct {
	srv *Server
	id  uint64 // serial number, never reused, which hang-up events carry; set before the goroutine starts
	nc  net.Conn
	raw syscall.RawConn

	input  // input.go; the connection's goroutine only
	output // output.go; the connection's goroutine only, except for what output.lookMu guards

	// For the connection's goroutine only.
	fd      int  // the descriptor while inside the callback of raw.Read, which keeps it from being closed; else -1
	watched bool // registered with the hang-up watcher
	refused bool // the session has ended with an error that is not io.EOF
	moved   bool // bytes came in since active was set
	armed   bool // a read deadline for the idle timeout is set
	expects bool // see Expect
	overdue bool // the idle timeout has passed: end if there is nothing to read
	err     error
	active  time.Time // when this connection last parked after progress; for the idle timeout
	torn    time.Time // in a shutdown: how long to wait for more of an incomplete command; zero if not waiting
	pokee   Poked     // the session, if it implements Poked; else nil
	parks   uint64    // how often it has parked, see giveWay; starts at a different number in each connection

	// Other goroutines set these flags, and nobody clears them. Whoever sets one then sets a read deadline in the past (hup,
	// stop) or shuts the socket down (killed). The connection's goroutine first sets a deadline of its own, if any, and then
	// reads the flags, immediately before it parks. So either it sees the flag, or its park is cut short: in no order is the
	// wake-up lost.
	hup    atomic.Bool // by the hang-up watcher: the peer has shut down its sending side; read to the end of the stream
	stop   atomic.Bool // by Server.Shutdown: end after the current command
	killed atomic.Bool // by Kill, by Server.Shutdown when its time is over, or by a panic in Hangup or Abort: end now

	lingering atomic.Bool // set by the connection's goroutine when linger begins, all being said; read by Server.Shutdown

	// poked is set by Poke, on any goroutine, and cleared by the connection's goroutine before it calls Poked. parked is
	// written by the connection's goroutine and read by Poke. The former sets parked and then reads poked, Poke sets poked
	// and then reads parked, so at least one of them sees the other.
	poked, parked atomic.Bool

	mu      sync.Mutex // orders Hangup and Abort with respect to the session's creation and Close; never held during Serve
	session Session    // set once by the connection's goroutine under mu; that goroutine may read it without mu
	closed  bool       // under mu: set before Session.Close is called
}

func newConn(s *Server, id uint64, nc net.Conn, raw syscall.RawConn) *Conn {
	// If parks and writes began at zero, connections that were opened together would all give way at the same time, and tell
	// at the same time what they have sent.
	c := &Conn{srv: s, id: id, nc: nc, raw: raw, fd: -1, parks: 37 * id}
	c.writes = uint8(c.parks)
	return c
}

// RemoteAddr returns the peer's address. Any goroutine may call it.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Poke has the session's method Poked called soon, even if nothing is read. Several pokes before that call count as one. Any
// goroutine may call Poke, also after the connection has ended; it does not block.
func (c *Conn) Poke() {
	if !c.poked.Swap(true) && c.parked.Load() {
		c.nc.SetReadDeadline(past)
	}
}

// Kill ends the connection without another word, whatever its goroutine is doing. Any goroutine may call it; it does not
// block.
func (c *Conn) Kill() { c.kill() }

// Expect says whether the peer is waiting for something that will come without its asking again. While it does, the idle
// timeout ignores its silence. The timeout starts again when the peer no longer waits.
func (c *Conn) Expect(something bool) {
	if c.expects && !something {
		c.moved = true
	}
	c.expects = something
}

// FD returns the number of the connection's descriptor, for display only.
func (c *Conn) FD() (fd int) {
	c.raw.Control(func(d uintptr) { fd = int(d) })
	return fd
}

// run is the connection's goroutine.
func (c *Conn) run() {
	defer c.srv.remove(c)
	defer c.finish()
	defer c.recoverPanic("session panicked")

	session := c.srv.config.NewSession(c)
	if session == nil {
		c.err = errNoSession
		return
	}
	c.mu.Lock()
	c.session = session
	c.pokee, _ = session.(Poked)
	stopped := c.stop.Load()
	c.mu.Unlock()
	if stopped {
		session.Abort() // Shutdown came between accept and here and found no session to tell
	}
	c.err = c.Flush()
	turn := c.turn // the only closure: a method value made once
	for c.err == nil {
		err := c.raw.Read(turn)
		c.fd = -1
		if err == nil {
			c.held = 0 // unconsumed input is of no use any more
			c.stow()
			return
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.err = err
			return
		}
		// Poked, hung up, shut down or idle. The deadline must be cleared before the next Read, and the flags are read after.
		c.armed = false
		if idle := c.srv.config.IdleTimeout; idle > 0 && !c.active.IsZero() && time.Since(c.active) >= idle {
			if c.expects {
				c.moved = true
			} else {
				c.overdue = true // input that came in time still counts, even if no core was free to read it
			}
		}
		c.err = c.nc.SetReadDeadline(time.Time{})
	}
}

// turn is what the poller calls when there may be input; the whole conversation takes place in it. It returns false to park,
// and true when the connection has ended, with the reason in c.err.
func (c *Conn) turn(fd uintptr) (ended bool) {
	c.fd = int(fd)
	if !c.watched {
		if c.err = c.watch(); c.err != nil {
			return true
		}
	}
	if c.pokee != nil {
		c.parked.Store(false)
	}
	for {
		c.srv.pulse.awake()
		got, drained, err := c.read()
		again := err == unix.EAGAIN
		finished := false
		if again && c.overdue {
			c.err = errIdle
			return true
		}
		if !again {
			if err != nil {
				c.err = err
				return true
			}
			c.moved, c.overdue = true, false
			if finished, c.err = c.serve(got); c.err != nil {
				return true
			}
		}
		if c.err = c.servePoked(); c.err != nil {
			return true
		}
		if drained {
			c.arm() // before the flags are read
		}
		// In a shutdown, a command that has begun may be finished; what is left after it belongs to the next.
		stopping := c.stop.Load()
		if c.killed.Load() || stopping && (finished || c.between()) {
			c.err = errShutdown
			return true
		}
		if drained && stopping && c.giveUp(!again) {
			c.err = errShutdown
			return true
		}
		// A FIN that comes after a read that found nothing causes an edge of its own, so hup does not matter then.
		if drained && (again || !c.hup.Load()) && c.park() {
			c.giveWay()
			return false
		}
	}
}

// watch registers the connection with the hang-up watcher.
func (c *Conn) watch() error {
	c.watched = true
	err := c.srv.hangups.watch(c.fd, c.id)
	if err != nil {
		if n := c.srv.unwatched.allow(time.Now()); n > 0 {
			c.srv.log.Error("connection closed: cannot watch it", "err", err, "closed", n)
		}
	}
	return err
}

// park gives back what a connection needs only while it is awake. It reports false if the session was poked meanwhile and has
// to be told first. That takes another round, which reads the socket and the flags too, so that pokes without end cannot
// keep the peer or a shutdown from being heard.
func (c *Conn) park() bool {
	c.stow()
	if c.pokee == nil {
		return true
	}
	c.parked.Store(true)
	if c.poked.Load() {
		c.parked.Store(false)
		return false
	}
	return true
}

// parksPerYield is how many times a connection parks before it gives way once. With 64 connections that do not pipeline, a
// thread then runs for some 2 ms between two yields.
const parksPerYield = 256

// giveWay now and then lets other threads that wait for the core have it. Under full load a thread never sleeps, so it would
// keep the core until the kernel's scheduler takes it away at a tick, up to 4 ms later where there are 250 ticks a second. A
// client on the same core could not read its answers until then. Where nobody waits this is one short system call.
func (c *Conn) giveWay() {
	if c.parks++; c.parks%parksPerYield == 0 {
		c.srv.config.yield()
	}
}

// servePoked has the session say what it was poked for, if it was, and flushes that.
func (c *Conn) servePoked() error {
	err := c.callPoked()
	c.refused = err != nil && err != io.EOF
	if ferr := c.Flush(); err == nil {
		err = ferr
	}
	return err
}

// callPoked calls the session's method Poked if there was a Poke since the last call.
func (c *Conn) callPoked() error {
	if c.pokee == nil || !c.poked.Swap(false) {
		return nil
	}
	return c.pokee.Poked()
}

// arm makes sure that the idle timeout ends the park that follows. The deadline is set about once per timeout, not once per
// park: if it passes and the connection was not idle all that time, run clears it and arm sets it again for the rest.
func (c *Conn) arm() {
	idle := c.srv.config.IdleTimeout
	if idle <= 0 {
		return
	}
	if c.moved || c.active.IsZero() {
		c.active, c.moved = time.Now(), false
	}
	if !c.armed {
		c.armed = true
		c.nc.SetReadDeadline(c.active.Add(idle)) // fails only on a closed connection, as the park then will
	}
}

// giveUp reports whether a shutdown should stop waiting for the rest of the current command; if not, it bounds the park that
// follows. The peer may be stuck, so the rest of a line, a packet or a body is waited for until nothing has come for
// tornPatience. grown says whether this round has read something.
func (c *Conn) giveUp(grown bool) bool {
	now := time.Now()
	if grown || c.torn.IsZero() {
		c.torn = now.Add(tornPatience)
	}
	c.advanceDeadline(c.torn)
	return !now.Before(c.torn)
}

// advanceDeadline is SetReadDeadline for a time that may be earlier than the one set before. Go's runtime may overlook that
// unless the deadline is cleared first, as it may with other timers; Shard.arm says why.
func (c *Conn) advanceDeadline(t time.Time) {
	c.nc.SetReadDeadline(time.Time{})
	c.nc.SetReadDeadline(t)
}

// hangup is called by the hang-up watcher.
func (c *Conn) hangup() {
	if !c.hup.CompareAndSwap(false, true) {
		return
	}
	c.tell("session panicked in Hangup", Session.Hangup)
	c.nc.SetReadDeadline(past)
}

// abort is called by Server.Shutdown, once.
func (c *Conn) abort() {
	c.mu.Lock()
	c.stop.Store(true) // under mu, so that either run sees it, or the session exists and is told here, never both
	born := c.session != nil
	c.mu.Unlock()
	if born {
		c.tell("session panicked in Abort", Session.Abort)
	}
	c.nc.SetReadDeadline(past)
}

// tell calls Hangup or Abort, unless the session does not exist yet or is closed. A panic is logged as the message panicked.
func (c *Conn) tell(panicked string, call func(Session)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.closed {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.logPanic(panicked, v)
			c.kill()
		}
	}()
	call(c.session)
}

// kill ends the connection from another goroutine. net.Conn.Close would wait for the callback to let go of the descriptor,
// that is, for a session that may be stuck. Shutting the socket down instead wakes the connection's goroutine from any wait
// on it, and that goroutine then closes it.
func (c *Conn) kill() {
	c.killed.Store(true)
	c.raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// finish closes the session and the socket, whatever state a panic may have left.
func (c *Conn) finish() {
	c.fd = -1
	c.mu.Lock()
	c.closed = true
	session := c.session
	c.mu.Unlock()
	if session != nil {
		func() {
			defer c.recoverPanic("session panicked in Close")
			session.Close()
		}()
	}
	if c.lingers() {
		c.lingering.Store(true)
		c.linger()
	}
	c.nc.Close()
	if c.err != io.EOF {
		c.srv.log.Debug("connection closed", "remote", c.RemoteAddr(), "reason", c.err)
	}
}

func (c *Conn) recoverPanic(msg string) {
	if v := recover(); v != nil {
		c.logPanic(msg, v)
		// The session may still refer to its buffers, so they go to the garbage collector and not to their pools.
		c.err = errors.New(msg)
	}
}

func (c *Conn) logPanic(msg string, v any) {
	c.srv.log.Error(msg, "remote", c.RemoteAddr(), "panic", v, "stack", string(debug.Stack()))
}

var past = time.Unix(1, 0) // a deadline that has passed
