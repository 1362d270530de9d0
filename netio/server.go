package netio

// The server: which connections there are, how many there may be, and how they all end.

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrServerClosed is what Server.Serve returns once Shutdown has been called.
var ErrServerClosed = errors.New("netio: server closed")

// Config says what a Server serves, and within which limits.
type Config struct {
	// NewSession makes the session of a new connection. It is called on the connection's goroutine. Required.
	NewSession func(*Conn) Session

	// MaxConnections is how many connections there may be at once, over all listeners; any beyond that are accepted and
	// closed. 0: no limit.
	MaxConnections int
	// Count is the number of connections that MaxConnections and Descriptors limit. Servers that share a Count share these
	// limits. nil: this server's connections alone are counted.
	Count *atomic.Int64

	// Descriptors is the number of descriptors that connections may take, over all listeners and all servers with the same
	// Count; the rest are needed elsewhere in the process. Further connections wait to be accepted, as they do when there
	// are no descriptors at all; each listener may accept one more before it notices. 0: no limit.
	Descriptors int

	// IdleTimeout closes a connection that waits for input, in the middle of a command or not, when nothing has arrived for
	// that long; and one that waits to write when its peer has read nothing for that long. A session that takes its time
	// inside Serve is not idle. 0: off.
	IdleTimeout time.Duration

	// Processors adapts the number of threads to how busy the machine's cores are. All servers of a process should share
	// one. nil: the number stays as it is.
	Processors *Processors

	// Logger gets what an operator should know. The reason why a single connection ended is logged at debug level. nil:
	// nothing is logged.
	Logger *slog.Logger

	maxOutput int    // replaces the constant in tests
	yield     func() // sched_yield(2), replaced in tests
}

// A Server accepts connections and runs a goroutine for each.
type Server struct {
	config  Config // never changed after NewServer
	log     *slog.Logger
	hangups *hangups
	pulse   *pulse

	// These limit how often an event is logged. Each has a lock of its own.
	refused   throttle // a connection refused because of MaxConnections
	shortages throttle // accepting became impossible
	unwatched throttle // a connection that the hang-up watcher could not take

	// freed gets a token when a connection has closed, for an accept loop that has run out of descriptors. Senders do not
	// wait: one unread token says as much as two.
	freed chan struct{}
	// stopped is closed by the first Shutdown, under mu. Accept loops that wait for a descriptor listen to it.
	stopped chan struct{}
	// gone is closed when nothing is left after Shutdown has begun, by whichever connection or accept loop ended last, or by
	// Shutdown itself if there was none.
	gone chan struct{}

	// sent is how many bytes connections have written, but for what the last few writes of each wrote. They add to it, and
	// Processors reads it. It has a cache line of its own.
	_    [64]byte
	sent atomic.Int64
	_    [64]byte

	mu        sync.Mutex // guards what follows; held briefly, and never on a connection's hot path
	serial    uint64     // the id of the newest connection
	conns     map[uint64]*Conn
	listeners map[net.Listener]struct{} // one for each accept loop
	stopping  bool
}

// NewServer returns a server with the given configuration. It holds a descriptor and a goroutine until Shutdown.
func NewServer(config Config) (*Server, error) {
	if config.NewSession == nil {
		return nil, errors.New("netio: Config.NewSession is missing")
	}
	if config.maxOutput == 0 {
		config.maxOutput = maxOutput
	}
	if config.Count == nil {
		config.Count = new(atomic.Int64)
	}
	if config.yield == nil {
		config.yield = sysYield
	}
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h, err := newHangups()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config:    config,
		log:       log,
		hangups:   h,
		pulse:     newPulse(config.Processors),
		freed:     make(chan struct{}, 1),
		stopped:   make(chan struct{}),
		gone:      make(chan struct{}),
		conns:     make(map[uint64]*Conn),
		listeners: make(map[net.Listener]struct{}),
	}
	config.Processors.watch(&s.sent)
	go h.run(s.onHangup)
	return s, nil
}

// Connections returns the number of open connections. Any goroutine may call it.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// add takes a new connection in and starts its goroutine, or refuses it.
func (s *Server) add(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		s.log.Error("connection without a descriptor refused", "remote", nc.RemoteAddr())
		nc.Close()
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		nc.Close()
		return
	}
	full := s.config.Count.Add(1) > int64(s.config.MaxConnections) && s.config.MaxConnections > 0
	s.mu.Lock()
	if full || s.stopping {
		s.mu.Unlock()
		s.config.Count.Add(-1)
		nc.Close()
		if full {
			if n := s.refused.allow(time.Now()); n > 0 {
				s.log.Warn("connection refused: too many", "limit", s.config.MaxConnections, "refused", n)
			}
		}
		return
	}
	s.serial++
	c := newConn(s, s.serial, nc, raw)
	s.conns[c.id] = c
	s.mu.Unlock()
	go c.run()
}

// remove is the last thing a connection's goroutine does.
func (s *Server) remove(c *Conn) {
	c.tellSent()
	s.mu.Lock()
	delete(s.conns, c.id)
	s.config.Count.Add(-1)
	last := s.isLast()
	s.mu.Unlock()
	if last {
		s.end()
	}
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// isLast reports whether Shutdown has begun and nothing is left. The caller holds mu. Nothing is added after Shutdown has
// begun, so exactly one caller sees true: Shutdown itself if there is nothing to end, otherwise the last connection or
// accept loop to go.
func (s *Server) isLast() bool {
	return s.stopping && len(s.conns) == 0 && len(s.listeners) == 0
}

// end is called, without mu, by the one that isLast returned true to: the close waits for the watcher, which may want mu.
func (s *Server) end() {
	s.hangups.close()
	close(s.gone)
}

// onHangup is called by the hang-up watcher.
func (s *Server) onHangup(id uint64) {
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c != nil {
		c.hangup()
	}
}

// Shutdown closes the listeners and ends the connections: at once between two commands, otherwise after the current
// command; waits inside Serve are aborted. An incomplete command or body is given up when no more of it has come for a
// second.
//
// It returns nil when everything is gone. If ctx ends first, the remaining connections are closed by force and ctx's error
// is returned, without waiting for sessions that do not return from Serve. If all that remain have said everything and only
// linger, closing them does no harm and the result is nil. Shutdown may be called more than once, from any goroutine: once
// more after an error, to wait for those that were closed by force.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	var conns []*Conn
	last := false
	if !s.stopping {
		s.stopping = true
		close(s.stopped)
		for l := range s.listeners {
			l.Close() // removes the file of a unix socket that Listen made
		}
		conns = s.all()
		last = s.isLast()
	}
	s.mu.Unlock()
	if last {
		s.end()
	}
	for _, c := range conns {
		c.abort()
	}
	select {
	case <-s.gone:
		<-s.hangups.done
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	conns = s.all()
	s.mu.Unlock()
	onlyLingering := true
	for _, c := range conns {
		onlyLingering = onlyLingering && c.lingering.Load()
		c.kill()
	}
	if !onlyLingering {
		return ctx.Err()
	}
	<-s.gone
	<-s.hangups.done
	return nil
}

// all returns the open connections. The caller holds mu.
func (s *Server) all() []*Conn {
	conns := make([]*Conn, 0, len(s.conns))
	for _, c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// A throttle lets one event a second through and counts those in between. The zero value is ready, and any goroutine may
// use it.
type throttle struct {
	mu    sync.Mutex
	last  time.Time
	count int
}

// allow counts an event. It returns how many events a log line written now stands for, or 0 if none should be written.
func (t *throttle) allow(now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if now.Sub(t.last) < time.Second {
		return 0
	}
	n := t.count
	t.last, t.count = now, 0
	return n
}
