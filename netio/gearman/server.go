package gearman

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

// maxBacklog is how many bytes of results and notices may wait for a client that
// does not read; see shard.NewInbox, also for one that does, but slowly.
const maxBacklog = 64 << 20

// Config says what a Protocol serves.
type Config struct {
	Router *router.Router // which outlives the sessions
	// MaxJobSize is the size in bytes of the largest workload or result that is
	// accepted.
	MaxJobSize int
	// Version is what the admin command version reports.
	Version string
	// Level is what the admin command verbose reports: from which level on the server
	// logs, INFO or DEBUG, which are names of gearmand's, too.
	Level slog.Level
	// Location is the time zone of SUBMIT_JOB_SCHED.
	Location *time.Location
	// Shutdown is called for the admin command shutdown. It must not block.
	Shutdown func(graceful bool)
}

// Protocol makes the sessions of a server that speaks Gearman's protocols.
type Protocol struct {
	// These two never change.
	cfg     Config
	handles handles

	keeper keeper // has a lock of its own

	mu       sync.Mutex // guards sessions, and what they refer to
	sessions map[*session]*about
}

// about is what the admin command workers says of a connection. It is under
// Protocol.mu: its session writes it, sessions that are asked read it.
type about struct {
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
	return &Protocol{cfg: cfg, handles: newHandles(host), sessions: make(map[*session]*about)}
}

// NewSession makes the session of a connection; it is a netio.Config's.
func (p *Protocol) NewSession(c *netio.Conn) netio.Session {
	addr := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	} else {
		addr = "-" // of a unix socket
	}
	s := p.newSession(c)
	p.mu.Lock()
	p.sessions[s] = &about{fd: c.FD(), addr: addr, id: "-"}
	p.mu.Unlock()
	return s
}

// forget takes a session off the list.
func (p *Protocol) forget(s *session) {
	p.mu.Lock()
	delete(p.sessions, s)
	p.mu.Unlock()
}

// describe changes what is said of a session.
func (p *Protocol) describe(s *session, change func(*about)) {
	p.mu.Lock()
	if a := p.sessions[s]; a != nil {
		change(a)
	}
	p.mu.Unlock()
}

// workers lists all connections by their descriptors.
func (p *Protocol) workers() []worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]worker, 0, len(p.sessions))
	for _, a := range p.sessions {
		all = append(all, worker{fd: a.fd, addr: a.addr, id: a.id, functions: a.functions.list()})
	}
	slices.SortFunc(all, func(a, b worker) int { return cmp.Compare(a.fd, b.fd) })
	return all
}

// pid is what the admin command getpid answers.
var pid = os.Getpid()
