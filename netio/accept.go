package netio

// The accept loop, and what it does when the system has run out of descriptors or memory.

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// acceptPause is how long an accept loop that has run out of descriptors waits if none of its server's connections closes:
// the descriptors may be held, and freed, by something else.
const acceptPause = 200 * time.Millisecond

// Serve accepts connections from l until Shutdown, and closes l. It may be called for several listeners at once, each on a
// goroutine of its own. The error is never nil; after Shutdown it is ErrServerClosed.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		l.Close()
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		l.Close()
		s.mu.Lock()
		delete(s.listeners, l)
		last := s.isLast()
		s.mu.Unlock()
		if last {
			s.end()
		}
	}()

	short := false // a shortage has been logged and is not over
	for {
		nc, err := net.Conn(nil), error(unix.EMFILE)
		if !s.crowded() {
			nc, err = l.Accept()
		}
		switch {
		case err == nil:
			if short {
				short = false
				s.log.Info("accepting connections again", "listener", l.Addr())
			}
			s.add(nc)
			continue
		case s.isStopping():
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed), !transient(err):
			return err
		}
		if !short && s.shortages.allow(time.Now()) > 0 {
			short = true
			s.log.Warn("cannot accept connections for now", "listener", l.Addr(), "err", err,
				"connections", s.Connections(), "hint", "raise the limit on open files or lower --max-connections")
		}
		select {
		case <-s.freed:
		case <-time.After(acceptPause):
		case <-s.stopped:
		}
	}
}

// crowded reports whether one more connection would take a descriptor that is reserved for other uses.
func (s *Server) crowded() bool {
	return s.config.Descriptors > 0 && s.config.Count.Load() >= int64(s.config.Descriptors)
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// transient reports whether accept may succeed later: there are no descriptors or no memory now, or the error belongs to
// the connection that was to be accepted (accept(2), "Error handling"; EPERM comes from a firewall).
func transient(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM,
		unix.EPERM, unix.EPROTO, unix.ENETDOWN, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET, unix.EHOSTUNREACH,
		unix.ENETUNREACH, unix.ECONNABORTED, unix.EINTR, unix.ETIMEDOUT:
		return true
	}
	return false
}
