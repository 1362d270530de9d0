package netio

// A connection: its goroutine, the read loop, and the way it ends.

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

// A Session is the protocol side of one connection. Serve and Close run on the connection's goroutine. Hangup and Abort may
// be called from any goroutine, concurrently with Serve; they must not block, and are not called after Close has begun.
type Session interface {
	// Serve gets everything that was read and not yet consumed. It takes what it can, writes its answers to the Conn, and
	// returns how many bytes it consumed; the rest comes again, at the start of in, when there is more. in is valid until
	// Serve returns or calls Conn.Idle. Serve must make progress when in is as long as ReadSize.
	//
	// A non-nil error closes the connection after what was written is flushed; io.EOF is a normal end.
	Serve(in []byte) (n int, err error)
	// Hangup says that the peer has shut down its sending side or is gone. A wait inside Serve must end. What the peer had
	// sent before is still served, and answered. Called at most once.
	Hangup()
	// Abort says that the server is going down. A wait inside Serve must end without an answer, and Serve then returns an
	// error or has consumed the command. Called at most once.
	Abort()
	// Close is the last call. It may write, and then has to Flush.
	Close()
}

// A Poked session has more to say than answers: what came to it from elsewhere, which it was told of by Conn.Poke.
type Poked interface {
	// Poked is called on the connection's goroutine after Conn.Poke, between two calls of Serve or after one. It may write.
	// An error closes the connection, as Serve's does.
	Poked() error
}

// Why a connection ended, when neither its session nor the system says so.
var (
	errIdle      = errors.New("idle for too long")
	errShutdown  = errors.New("server shut down")
	errNoSession = errors.New("NewSession returned nil")
	errNoSpace   = errors.New("session consumed nothing of a full buffer")
	errConsumed  = errors.New("session returned an impossible count of bytes")
)

// tornPatience is how long a shutdown waits for more of a torn command: long enough for what was lost on the way to be sent
// again, a few times, and short enough for a peer that will never send it.
const tornPatience = time.Second

// A Conn is one connection, as its session sees it. RemoteAddr, Poke, Unread and Kill are for any goroutine. All other
// exported methods are for the connection's own: call them inside Serve and Poked only (NewSession may write too; it goes out
// before the first read. So may Close).
type Conn struct {
	srv *Server
	id  uint64 // serial number, never reused: what a hang-up event carries. Written before the goroutine starts.
	nc  net.Conn
	raw syscall.RawConn

	input  // input.go; the connection's goroutine only
	output // output.go; the connection's goroutine only, but for what output.looks guards

	// Of the connection's goroutine only.
	fd      int  // the descriptor while inside the callback of raw.Read, which keeps it from being closed; else -1
	watched bool // registered with the hang-up watcher
	refused bool // the session has ended with an error that is not io.EOF
	moved   bool // bytes came in since active was set
	armed   bool // a read deadline for the idle timeout is set
	expects bool // see Expect
	overdue bool // the idle timeout has passed: end if there is nothing to read
	err     error
	active  time.Time // when this connection last parked after progress; for the idle timeout
	torn    time.Time // in a shutdown: until when more of a torn command is waited for
	pokee   Poked     // the session, if it is one; nil if not
	parks   uint64    // how often it has parked, see giveWay; it does not begin at zero, or all connections would be in step

	// The flags are written by others and only ever set. Whoever sets one then sets a read deadline in the past (hup, stop)
	// or shuts the socket down (killed); the connection's goroutine sets a deadline of its own first and reads the flags
	// afterwards, immediately before it parks. So either it sees the flag, or its park is cut short: no order of the two
	// loses the wake-up.
	hup    atomic.Bool // by the hang-up watcher: the peer has shut down its sending side; read to the end of the stream
	stop   atomic.Bool // by Server.Shutdown: end when the command at hand is done
	killed atomic.Bool // by Kill, by Server.Shutdown when its time is over, or by a panic in Hangup or Abort: end now

	lingering atomic.Bool // all is said and done: set by the connection's goroutine, read by Server.Shutdown

	// poked is set by Poke, from any goroutine, and cleared by the connection's before it looks at what there is. parked is
	// written by the connection's goroutine and read by Poke: it sets parked and then reads poked, Poke sets poked and then
	// reads parked, so one of them sees the other.
	poked, parked atomic.Bool

	mu      sync.Mutex // orders Hangup and Abort against the session's birth and its Close; never held during Serve
	session Session    // set once by the connection's goroutine under mu; that goroutine may read it without
	closed  bool       // under mu: set before Session.Close is called
}

func newConn(s *Server, id uint64, nc net.Conn, raw syscall.RawConn) *Conn {
	return &Conn{srv: s, id: id, nc: nc, raw: raw, fd: -1, parks: 37 * id}
}

// RemoteAddr returns the peer's address. It may be called from any goroutine.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Poke has the session's method Poked called soon, though nothing was read; see Poked. Pokes that come before it is called are
// one. Any goroutine may call it, also after the connection has ended; it does not block.
func (c *Conn) Poke() {
	if !c.poked.Swap(true) && c.parked.Load() {
		c.nc.SetReadDeadline(past)
	}
}

// Kill ends the connection without a further word, wherever its goroutine is. Any goroutine may call it; it does not block.
func (c *Conn) Kill() { c.kill() }

// Expect says whether the peer waits for something that will come to it by itself: then its silence is no reason for the idle
// timeout. The timeout begins anew when the peer does not wait any more.
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
			c.held = 0 // nobody comes back to what is left
			c.stow()
			return
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.err = err
			return
		}
		// Hung up, shut down or idle. The deadline must go before the next Read, and the flags are looked at after that.
		c.armed = false
		if idle := c.srv.config.IdleTimeout; idle > 0 && !c.active.IsZero() && time.Since(c.active) >= idle {
			if c.expects {
				c.moved = true
			} else {
				c.overdue = true // what came in time counts, also if there was no core to read it
			}
		}
		c.err = c.nc.SetReadDeadline(time.Time{})
	}
}

// turn is what the poller calls when there may be input, and the whole conversation. It returns false to park, true when
// the connection has ended and c.err says why.
func (c *Conn) turn(fd uintptr) (ended bool) {
	c.fd = int(fd)
	if !c.watched {
		c.watched = true
		if c.err = c.srv.hangups.watch(c.fd, c.id); c.err != nil {
			if n := c.srv.unwatched.allow(time.Now()); n > 0 {
				c.srv.log.Error("connection closed: cannot watch it", "err", c.err, "closed", n)
			}
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
			c.arm() // before the flags are looked at
		}
		// In a shutdown a command begun may be finished; what is left then belongs to the next.
		stopping := c.stop.Load()
		if c.killed.Load() || stopping && (finished || c.between()) {
			c.err = errShutdown
			return true
		}
		if drained && stopping && c.giveUp(!again) {
			c.err = errShutdown
			return true
		}
		// A FIN that comes after a read that found nothing is an edge of its own, so hup need not be looked at then.
		if drained && (again || !c.hup.Load()) && c.park() {
			c.giveWay()
			return false
		}
	}
}

// park gives back what a connection needs only while it is awake. It reports false if the session has to be told something
// first: then there is another round, with a look at the socket and the flags, so that pokes without end keep nobody from
// being heard.
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

// parksPerYield is how often a connection parks until it gives way once. With 64 of them that do not pipeline a thread runs
// for some 2 ms in between.
const parksPerYield = 256

// giveWay lets others have the core, now and then, that wait for it. Under full load a thread never sleeps, so it would be the
// kernel's scheduler that takes the core from it, at one of its ticks, which are 4 ms apart where there are 250 a second: for so
// long a client on the same core could not read its answers. Where nobody waits this is a short system call.
func (c *Conn) giveWay() {
	if c.parks++; c.parks%parksPerYield == 0 {
		c.srv.config.yield()
	}
}

// servePoked has the session say what came to it from elsewhere, if anything did, and flushes it.
func (c *Conn) servePoked() error {
	err := c.tellPoked()
	if ferr := c.Flush(); err == nil {
		err = ferr
	}
	return err
}

func (c *Conn) tellPoked() error {
	if c.pokee == nil || !c.poked.Swap(false) {
		return nil
	}
	return c.pokee.Poked()
}

// arm sees to it that the park that follows ends by the idle timeout. The deadline is set about once a timeout, not once a
// park: when it passes and the connection was not idle for all of it, run clears it and it is set again for the rest.
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
		c.nc.SetReadDeadline(c.active.Add(idle)) // fails on a closed connection only, as the park will
	}
}

// giveUp reports whether it is in vain to wait in a shutdown for the rest of the command at hand, and sees to it that the park
// that follows ends when it is. What a session has asked for by ReadInto may take its time: the peer has said how much comes.
// Else it is half a line, or the beginning of a packet, maybe of a peer that is stuck, and is waited for as long as it grows.
func (c *Conn) giveUp(grown bool) bool {
	if c.dst != nil {
		return false
	}
	now := time.Now()
	if grown || c.torn.IsZero() {
		c.torn = now.Add(tornPatience)
	}
	c.nc.SetReadDeadline(c.torn)
	return !now.Before(c.torn)
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
	c.stop.Store(true) // under mu, so that either run sees it or the session is there to be told, and not both
	born := c.session != nil
	c.mu.Unlock()
	if born {
		c.tell("session panicked in Abort", Session.Abort)
	}
	c.nc.SetReadDeadline(past)
}

// tell calls Hangup or Abort unless the session is not there yet or closed already.
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

// kill ends the connection from another goroutine. net.Conn.Close would wait until the callback has left the descriptor,
// that is, for a session that may be stuck; shutting the socket down wakes the goroutine from any wait on the socket, and
// its own close follows.
func (c *Conn) kill() {
	c.killed.Store(true)
	c.raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// finish closes session and socket, whatever state a panic may have left.
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
		// The session may still hold what it was given, so the buffers are left to the garbage collector.
		c.err = errors.New(msg)
	}
}

func (c *Conn) logPanic(msg string, v any) {
	c.srv.log.Error(msg, "remote", c.RemoteAddr(), "panic", v, "stack", string(debug.Stack()))
}

var past = time.Unix(1, 0) // a deadline that has passed
