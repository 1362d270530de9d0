package main

// The sockets to serve, and the descriptors left for connections.

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/sheafq/sheaf/netio"
)

// sockets are the listeners to serve, by protocol.
type sockets struct{ beanstalk, gearman []net.Listener }

func (s sockets) count() int { return len(s.beanstalk) + len(s.gearman) }

// close closes all listeners, which removes the files of unix sockets.
func (s sockets) close() {
	for _, l := range slices.Concat(s.beanstalk, s.gearman) {
		l.Close()
	}
}

// gearmanPort is Gearman's standard port.
const gearmanPort = 4730

// listen opens the sockets to serve: those that systemd passes, else the one of -l and
// -p; and the one of --gearman, if that was given.
func listen(o *options, log *slog.Logger) (s sockets, err error) {
	if s.beanstalk, err = listenBeanstalk(o, log); err != nil || o.gearman == "" {
		return s, err
	}
	addr, port, err := splitAddr(o.gearman, gearmanPort)
	if err == nil {
		var l net.Listener
		if l, err = netio.Listen(addr, port); err == nil {
			s.gearman = []net.Listener{l}
			return s, nil
		}
	}
	s.close()
	return s, explainListen(socketFlags{addr, port, "--gearman", "--gearman"}, err)
}

// checkGearmanAddr returns an error if the address of --gearman is wrong in itself.
func checkGearmanAddr(addr string) error {
	if addr == "" || addr == "unix:" {
		return errors.New("it is missing; give one, such as 0.0.0.0:4730 or unix:/run/gearman.sock")
	}
	if _, err := strconv.ParseUint(addr, 10, 64); err == nil {
		return fmt.Errorf("a port alone; give :%s for all of IPv4", addr)
	}
	_, _, err := splitAddr(addr, gearmanPort)
	return err
}

// splitAddr splits an address of --gearman, which is unix:PATH, HOST:PORT or HOST, into
// the arguments of netio.Listen. port is the default.
func splitAddr(addr string, port int) (string, int, error) {
	if strings.HasPrefix(addr, "unix:") {
		return addr, 0, nil
	}
	host, digits, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, port, nil // no port; if something else is wrong, Listen finds it
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return addr, port, fmt.Errorf("port %q is no number from 0 to 65535", digits)
	}
	return cmp.Or(host, "0.0.0.0"), int(n), nil
}

// listenBeanstalk opens the sockets that speak beanstalkd's protocol.
func listenBeanstalk(o *options, log *slog.Logger) ([]net.Listener, error) {
	handed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("taking over sockets from systemd: %w", err)
	}
	var listeners []net.Listener
	for i, l := range handed {
		if l == nil {
			return nil, fmt.Errorf("taking over sockets from systemd: number %d is no stream socket; use ListenStream= in sheafd.socket", i+1)
		}
		if !isListening(l) {
			return nil, fmt.Errorf("taking over sockets from systemd: number %d, %s, is not listening; use ListenStream= and Accept=no in sheafd.socket", i+1, l.Addr())
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
		return nil, explainListen(socketFlags{o.listen, o.port, "-l", "-p or -l"}, err)
	}
	return []net.Listener{l}, nil
}

// isListening tells whether connections can be accepted from l. net makes a listener of
// any stream socket, also of one that is connected.
func isListening(l net.Listener) (is bool) {
	raw, err := l.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		accepts, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		is = accepts != 0
	})
	return is
}

// socketFlags says where a socket was to be opened, and by which flags, for an error.
type socketFlags struct {
	addr   string
	port   int
	flag   string // sets the address
	either string // sets the address or the port
}

// explainListen adds to an error from listening what to do about it.
func explainListen(f socketFlags, err error) error {
	where, hint := fmt.Sprintf("port %d of %s", f.port, f.addr), "check "+f.either
	if strings.HasPrefix(f.addr, "unix:") {
		where, hint = f.addr, "give "+f.flag+" another path"
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		hint = "stop the server that is there, or choose another with " + f.either
	case errors.Is(err, unix.EACCES):
		hint = "start as root (and drop to another user with -u), or choose another with " + f.either
	case errors.Is(err, unix.ENOENT):
		hint = "create the directory, or give " + f.flag + " another path"
	case errors.Is(err, unix.EINVAL) && strings.HasPrefix(f.addr, "unix:"):
		hint = "give " + f.flag + " a path of at most 107 bytes"
	case errors.Is(err, unix.EINVAL) && isLinkLocal(f.addr):
		hint = "give " + f.flag + " the interface too, as in fe80::1%eth0"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		hint = "give " + f.flag + " an address of this machine"
	case errors.As(err, &dns):
		hint = "give " + f.flag + " an address or a name that resolves"
	}
	return fmt.Errorf("listening on %s: %w; %s", where, err, hint)
}

// isLinkLocal tells whether addr is an IPv6 address that means something only together
// with an interface.
func isLinkLocal(addr string) bool {
	ip, err := netip.ParseAddr(strings.Trim(addr, "[]"))
	return err == nil && ip.Is6() && ip.IsLinkLocalUnicast()
}

// descriptorsForClients returns how many connections there may be under that limit on
// open files, such that the binlog never lacks a descriptor: what is open now stays open,
// and each shard needs some to make its next segment, to sync the directory, and to read
// an old segment. Call it when everything but the connections is open. Without a binlog
// no job is lost for lack of a descriptor, and it returns 0: no limit.
func descriptorsForClients(limit uint64, o *options) int {
	if o.binlog == "" {
		return 0
	}
	open := 32 // a guess, for where there is no /proc
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(fds)
	}
	kept := 8 + 4*o.shards
	return max(1, int(min(limit, math.MaxInt32))-open-kept)
}
