package netio

// Listening sockets, and removing the file that a dead server's unix socket left behind.

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Listen opens a listening socket. addr is an IP address or host name ("" for all addresses, IPv4 and IPv6), and port its
// TCP port (0: any free one); or addr is "unix:PATH", and port is ignored. A stale socket at PATH, one on which nobody
// answers, is removed first; anything that is not a socket never is. If a server answers there, the error wraps
// unix.EADDRINUSE, as for a TCP port in use.
func Listen(addr string, port int) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenUnix(path)
	}
	if ip, ok := strings.CutPrefix(addr, "["); ok {
		addr = strings.TrimSuffix(ip, "]") // [::1] means ::1
	}
	network := "tcp"
	if ip := net.ParseIP(addr); ip != nil && ip.To4() != nil {
		network = "tcp4" // else 0.0.0.0 would take IPv6 too
	}
	return net.Listen(network, net.JoinHostPort(addr, strconv.Itoa(port)))
}

func listenUnix(path string) (net.Listener, error) {
	if path == "" {
		return nil, errors.New("listen unix: the path is missing")
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen unix %s: %w", path, err)
	}
	return net.Listen("unix", path) // unlinks the file when closed
}

// removeStale removes the socket at path if nobody listens on it. Two servers that start on one path at the same instant
// can still get in each other's way; letting systemd hold the socket excludes that.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("the path exists and is not a socket")
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return unix.EADDRINUSE
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err // not a stream socket, not ours to touch, or a server too busy to answer
	}
	return os.Remove(path)
}
