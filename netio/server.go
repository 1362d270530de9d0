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

// ErrServerClosed is what Serve returns after Shutdown was called.
var ErrServerClosed = errors.New("netio: server closed")

// Config says what a Server serves, and within which limits.
type Config struct {
	// NewSession makes the session of a new connection, on the connection's goroutine. Required.
	NewSession func(*Conn) Session

	// MaxConnections is how many connections there may be at once, over all listeners; one more is accepted and closed.
	// 0: no limit.
	MaxConnections int
	// Count counts the connections of all servers that have the same one, which MaxConnections is then about. nil: of this
	// server alone.
	Count *atomic.Int64

	// Descriptors is for how many connections, over all listeners and servers with the same Count, there are descriptors
	// that nothing else in the process needs. Further ones wait to be accepted, as they do when there are no descriptors at
	// all; each listener may have let one more in by then. 0: for any number.
	Descriptors int

	// IdleTimeout closes a connection from which nothing has come for that long although it is waited for, in the middle of
	// a command or not, or whose peer has not read for that long although there is something to write. A session that
	// takes its time inside Serve is not idle. 0: off.
	IdleTimeout time.Duration

	// Processors adapts the number of threads to how busy the machine's cores are; all servers of a process should have the
	// same one. nil: nothing does.
	Processors *Processors

	// Logger gets what an operator should know; what ends a single connection is logged at debug level. nil: nothing is logged.
	Logger *slog.Logger

	maxOutput int    // as the constant, but for tests
	yield     func() // sched_yield(2), but for tests
}

// A Server accepts connections and runs a goroutine for each.
type Server struct {
	config  Config // never changed after NewServer
	log     *slog.Logger
	hangups *hangups
	pulse   *pulse

	refused   throttle // for the log line about MaxConnections
	shortages throttle // for those about accepting being impossible and possible again
	unwatched throttle // for the one about connections that the hang-up watcher could not take

	// freed gets a token when a connection has closed, for an accept loop that has run out of descriptors. Sent to without
	// waiting: a token that nobody has fetched yet says as much as two.
	freed chan struct{}
	// stopped is closed by the first Shutdown, under mu; for the accept loops that wait for a descriptor.
	stopped chan struct{}
	// gone is closed when, after Shutdown has begun, the last connection and the last accept loop have ended, by whichever
	// that was.
	gone chan struct{}

	mu        sync.Mutex // guards what follows; held shortly, and never on a connection's hot path
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
	go h.run(s.hungup)
	return s, nil
}

// Connections returns how many connections there are. It may be called from any goroutine.
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

// isLast reports whether nothing is left after Shutdown has begun. mu is held. It is true once: for Shutdown, when there is
// nothing, or for the last connection or accept loop to go, as none is added any more.
func (s *Server) isLast() bool {
	return s.stopping && len(s.conns) == 0 && len(s.listeners) == 0
}

// end is called by whom isLast has told so, without mu: the watcher, for which close waits, may want it.
func (s *Server) end() {
	s.hangups.close()
	close(s.gone)
}

// hungup is called by the hang-up watcher.
func (s *Server) hungup(id uint64) {
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c != nil {
		c.hangup()
	}
}

// Shutdown closes the listeners and ends the connections: at once where nothing has been begun, after the command at hand
// elsewhere; waits are aborted. A torn command is given up when nothing more of it has come for a second, unless it has
// asked for the rest by ReadInto. When ctx ends first, every connection that is left is closed by force and ctx's error is
// returned, without waiting for sessions that do not come back from Serve. A connection that only lingers is closed then
// without harm. It returns nil when everything is gone. It may be called more than once.
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
	ended := true // but for what linger waits for
	for _, c := range conns {
		ended = ended && c.lingering.Load()
		c.kill()
	}
	if !ended {
		return ctx.Err()
	}
	<-s.gone
	<-s.hangups.done
	return nil
}

// all returns the connections there are. mu is held.
func (s *Server) all() []*Conn {
	conns := make([]*Conn, 0, len(s.conns))
	for _, c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// A throttle lets one event a second through and counts those between. The zero value is ready.
type throttle struct {
	mu    sync.Mutex
	last  time.Time
	count int
}

// allow returns how many events this line stands for, or 0 when there should be none now.
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
