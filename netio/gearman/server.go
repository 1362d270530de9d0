package gearman

// What all sessions of a server share, among it the list of connections.

import (
	"cmp"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
)

// maxBacklog is how many bytes of results and notices may wait for a client that does
// not read. For one that reads slowly see shard.NewInbox.
const maxBacklog = 64 << 20

// Config says what a Protocol serves.
type Config struct {
	// Router is the engine. It must outlive the sessions.
	Router *router.Router
	// MaxJobSize is the largest workload or result that is accepted, in bytes.
	MaxJobSize int
	// Version is what the admin command version reports.
	Version string
	// Level is what the admin command verbose reports: the lowest level that is logged,
	// INFO or DEBUG, which gearmand has, too.
	Level slog.Level
	// Location is the time zone of SUBMIT_JOB_SCHED.
	Location *time.Location
	// Shutdown is called for the admin command shutdown, on a connection's goroutine. It
	// must not block. graceful: jobs that workers have are to be finished first.
	Shutdown func(graceful bool)
}

// Protocol makes the sessions of a server that speaks Gearman's protocols.
type Protocol struct {
	// These two never change after New, so all sessions read them without a lock.
	cfg     Config
	handles handles

	keeper keeper // has a lock of its own

	mu       sync.Mutex // guards sessions, and the descriptions in it
	sessions map[*session]*description
}

// description is what the admin command workers says about a connection. Its session
// writes it, and any session that is asked reads it, under Protocol.mu.
type description struct {
	fd        int
	addr, id  string
	functions abilities
}

// New returns a Protocol.
func New(cfg Config) *Protocol {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &Protocol{cfg: cfg, handles: newHandles(host), sessions: make(map[*session]*description)}
}

// NewSession makes the session of a connection. It is for netio.Config.NewSession.
func (p *Protocol) NewSession(c *netio.Conn) netio.Session {
	addr := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	} else {
		addr = "-" // a unix socket
	}
	s := p.newSession(c)
	p.mu.Lock()
	p.sessions[s] = &description{fd: c.FD(), addr: addr, id: "-"}
	p.mu.Unlock()
	return s
}

// forget removes a session from the list.
func (p *Protocol) forget(s *session) {
	p.mu.Lock()
	delete(p.sessions, s)
	p.mu.Unlock()
}

// describe changes the description of a session, if it is on the list. change is called
// with p.mu held.
func (p *Protocol) describe(s *session, change func(*description)) {
	p.mu.Lock()
	if d := p.sessions[s]; d != nil {
		change(d)
	}
	p.mu.Unlock()
}

// workers lists all connections, sorted by descriptor.
func (p *Protocol) workers() []worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]worker, 0, len(p.sessions))
	for _, d := range p.sessions {
		all = append(all, worker{fd: d.fd, addr: d.addr, id: d.id, functions: d.functions.list()})
	}
	slices.SortFunc(all, func(a, b worker) int { return cmp.Compare(a.fd, b.fd) })
	return all
}

// pid is what the admin command getpid answers.
var pid = os.Getpid()
