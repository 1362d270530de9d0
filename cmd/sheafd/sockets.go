package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/sheafq/sheaf/netio"
)

// listen returns the sockets to serve: those that systemd hands over, else the
// one of -l and -p.
func listen(o *options, log *slog.Logger) ([]net.Listener, error) {
	handed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("taking over sockets from systemd: %w", err)
	}
	var listeners []net.Listener
	for i, l := range handed {
		if l == nil {
			return nil, fmt.Errorf("taking over sockets from systemd: number %d is no stream socket; use ListenStream= in sheafd.socket", i+1)
		}
		listeners = append(listeners, l)
	}
	if len(listeners) > 0 {
		if o.listenSet {
			log.Warn("-l and -p have no effect: the sockets are systemd's")
		}
		return listeners, nil
	}
	l, err := netio.Listen(o.listen, o.port)
	if err != nil {
		return nil, explainListen(o, err)
	}
	return []net.Listener{l}, nil
}

// explainListen says what to do about an error in listening.
func explainListen(o *options, err error) error {
	where, hint := fmt.Sprintf("port %d of %s", o.port, o.listen), "check -l and -p"
	if strings.HasPrefix(o.listen, "unix:") {
		where, hint = o.listen, "give -l another path"
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		hint = "stop the server that is there, or choose another with -p or -l"
	case errors.Is(err, unix.EACCES):
		hint = "start as root (and drop to another user with -u), or choose another with -p or -l"
	case errors.Is(err, unix.ENOENT):
		hint = "create the directory, or give -l another path"
	case errors.Is(err, unix.EINVAL):
		hint = "give -l a path of at most 107 bytes"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		hint = "give -l an address of this machine"
	case errors.As(err, &dns):
		hint = "give -l an address or a name that resolves"
	}
	return fmt.Errorf("listening on %s: %w; %s", where, err, hint)
}

// raiseFileLimit raises the limit on open files, which is one more than the
// connections there can be, to what the system allows. It returns the limit in
// force. Go does the same at start, but gives children the old limit; we say
// what it is, and keep it whatever Go does.
func raiseFileLimit() (uint64, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0, err
	}
	if lim.Cur < lim.Max {
		raised := unix.Rlimit{Cur: lim.Max, Max: lim.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
			return lim.Cur, err
		}
		lim = raised
	}
	return lim.Cur, nil
}
