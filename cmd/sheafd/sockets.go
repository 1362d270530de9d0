package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/sheafq/sheaf/netio"
)

// sockets are those to serve, by protocol.
type sockets struct{ beanstalk, gearman []net.Listener }

func (s sockets) count() int { return len(s.beanstalk) + len(s.gearman) }

// close closes them all; that removes the files of unix sockets.
func (s sockets) close() {
	for _, l := range slices.Concat(s.beanstalk, s.gearman) {
		l.Close()
	}
}

// gearmanPort is Gearman's own.
const gearmanPort = 4730

// listen returns the sockets to serve: those that systemd hands over, else the
// one of -l and -p; and the one of --gearman, if that was given.
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

// checkGearmanAddr says what is wrong with the address of --gearman at sight.
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

// splitAddr takes apart an address as --gearman has it: unix:PATH, HOST:PORT or
// HOST, with a default for the port.
func splitAddr(addr string, port int) (string, int, error) {
	if strings.HasPrefix(addr, "unix:") {
		return addr, 0, nil
	}
	host, digits, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, port, nil // no port; what is wrong shows when it is listened on
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return addr, port, fmt.Errorf("port %q is no number from 0 to 65535", digits)
	}
	return cmp.Or(host, "0.0.0.0"), int(n), nil
}

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

// socketFlags is where a socket was to be, and which flags say so: its address,
// and its address or port.
type socketFlags struct {
	addr         string
	port         int
	flag, either string
}

// explainListen says what to do about an error in listening.
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
	case errors.Is(err, unix.EINVAL):
		hint = "give " + f.flag + " a path of at most 107 bytes"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		hint = "give " + f.flag + " an address of this machine"
	case errors.As(err, &dns):
		hint = "give " + f.flag + " an address or a name that resolves"
	}
	return fmt.Errorf("listening on %s: %w; %s", where, err, hint)
}

// descriptorsForClients is how many connections there may be with that limit on
// open files, so that the binlog never wants for a descriptor: what is open now
// stays, and each shard has to make its next segment, to sync the directory, and
// to read an old segment. It is to be asked when all but the connections is open.
// Without a binlog nothing is lost for want of one: 0, for as many as there are.
func descriptorsForClients(limit uint64, o *options) int {
	if o.binlog == "" {
		return 0
	}
	open := 32 // about, where there is no /proc
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(fds)
	}
	kept := 8 + 4*o.shards
	return max(1, int(min(limit, math.MaxInt32))-open-kept)
}
