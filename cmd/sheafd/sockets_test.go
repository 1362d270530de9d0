package main_test

// Where sheafd listens: addresses, unix sockets, systemd's sockets; and as
// whom.

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPortInUse(t *testing.T) {
	first := start(t)
	port := strconv.Itoa(first.addrs[0].(*net.TCPAddr).Port)
	fails(t, command(t, "-l", "127.0.0.1", "-p", port), 1,
		"listening on port "+port+" of 127.0.0.1", "address already in use", "stop the server that is there, or choose another with -p or -l")
	first.dial().says("use a\n", "USING a\n")
}

func TestAddressesThatCannotBeListenedOn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ addr, what, do string }{
		{"not..a..host", "listening on port 0 of not..a..host", "give -l an address or a name that resolves"},
		{"192.0.2.1", "cannot assign requested address", "give -l an address of this machine"},
		{"unix:" + file, "listening on unix:" + file, "not a socket; give -l another path"},
		{"unix:" + dir + "/none/s", "no such file or directory", "create the directory"},
		{"unix:/tmp/" + strings.Repeat("s", 120), "listening on unix:/tmp/sss", "at most 107 bytes"},
		{"fe80::1", "listening on port 0 of fe80::1", "give -l the interface too, as in fe80::1%eth0"},
	} {
		t.Run(tc.addr, func(t *testing.T) {
			t.Parallel()
			fails(t, command(t, "-p", "0", "-l", tc.addr), 1, tc.what, tc.do)
		})
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file: %q, %v", b, err)
	}
}

func TestPrivilegedPort(t *testing.T) {
	needRoot(t)
	b, _ := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || n < 2 {
		t.Skipf("port 1 is not privileged here: %q", b)
	}
	cmd := asNobody(command(t, "-l", "127.0.0.1", "-p", "1"))
	fails(t, cmd, 1, "listening on port 1 of 127.0.0.1", "permission denied", "start as root (and drop to another user with -u), or choose another")
}

// asNobody has the command run without privileges.
func asNobody(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	return cmd
}

func TestListenOnIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	l.Close()
	for _, addr := range []string{"::1", "[::1]"} {
		s := run(t, command(t, "-p0", "-l", addr))
		s.dial().says("use a\n", "USING a\n")
		if ip := s.addrs[0].(*net.TCPAddr).IP; !ip.Equal(net.IPv6loopback) {
			t.Errorf("-l %s listens on %v", addr, ip)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	s := run(t, command(t, "-l", "unix:"+path))
	s.dial().says("put 0 0 60 1\nx\n", "INSERTED 1\n")

	fails(t, command(t, "-l", "unix:"+path), 1, "listening on unix:"+path, "address already in use", "stop the server that is there")
	s.dial().says("use a\n", "USING a\n")

	// What a killed server leaves behind does not keep the next one away.
	s.signal(syscall.SIGKILL)
	<-s.ended
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("there should be a stale socket: %v", err)
	}
	s = run(t, command(t, "-l", "unix:"+path, "-p", "11300"))
	s.dial().says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	s.stop()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a shutdown the socket is there: %v", err)
	}
}

// shortDir returns a directory with a path short enough for a unix socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sheafd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestMissingUser(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	fails(t, command(t, "-l", "unix:"+path, "-u", "no-such-user"), 1, "becoming user no-such-user", "no such user", "give -u another")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket was left behind: %v", err)
	}
}

func TestUserWithoutPrivileges(t *testing.T) {
	needRoot(t)
	fails(t, asNobody(command(t, "-l", "127.0.0.1", "-p", "0", "-u", "daemon")), 1, "becoming user daemon", "operation not permitted", "start as root, or leave -u out")
}

// After the sockets are bound, every thread is the user's, with the user's
// groups and no other.
func TestUser(t *testing.T) {
	needRoot(t)
	path := filepath.Join(shortDir(t), "s")
	for _, args := range [][]string{{"-l", "unix:" + path, "-u", "nobody"}, {"-l", "127.0.0.1", "-p0", "--user=daemon"}} {
		cmd := command(t, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{0, 4, 4242}}}
		s := run(t, cmd)
		s.dial().says("use a\n", "USING a\n")
		_, name, _ := strings.Cut(strings.Join(args, "="), "-u=")
		if name == "" {
			name = "daemon"
		}
		checkUser(t, s, name)
		s.stop()
	}
}

// checkUser compares the threads of a server with what the system knows of a
// user.
func checkUser(t *testing.T, s *server, name string) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(groups)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.pid()))
	if err != nil || len(threads) < 2 {
		t.Fatal(threads, err)
	}
	for _, thread := range threads {
		b, err := os.ReadFile(thread)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(line, ":")
			got := strings.Fields(value)
			var want []string
			switch key {
			case "Uid":
				want = slices.Repeat([]string{u.Uid}, 4) // real, effective, saved, file system
			case "Gid":
				want = slices.Repeat([]string{u.Gid}, 4)
			case "Groups":
				want = groups
				slices.Sort(got)
			case "CapEff":
				want = []string{"0000000000000000"}
			default:
				continue
			}
			if !slices.Equal(got, want) {
				t.Errorf("-u %s: %s: %s %q, want %q", name, thread, key, got, want)
			}
		}
	}
}

// activated is sheafd as systemd starts it, with the given sockets.
func activated(t *testing.T, sockets []*os.File, args ...string) *exec.Cmd {
	t.Helper()
	cmd := underShell(t, fmt.Sprintf("LISTEN_PID=$$ LISTEN_FDS=%d; export LISTEN_PID LISTEN_FDS", len(sockets)), args...)
	cmd.ExtraFiles = sockets
	return cmd
}

// socketFile binds a socket and returns its descriptor.
func socketFile(t *testing.T, network, addr string) (*os.File, net.Addr) {
	t.Helper()
	var (
		l interface {
			File() (*os.File, error)
			Close() error
		}
		at net.Addr
	)
	switch network {
	case "udp":
		c, err := net.ListenPacket(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		l, at = c.(*net.UDPConn), c.LocalAddr()
	case "unix":
		c, err := net.ListenUnix(network, &net.UnixAddr{Name: addr, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		c.SetUnlinkOnClose(false)
		l, at = c, c.Addr()
	default:
		c, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		l, at = c.(*net.TCPListener), c.Addr()
	}
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Cleanup(func() { f.Close() })
	return f, at
}

func TestSocketActivation(t *testing.T) {
	tcp, tcpAddr := socketFile(t, "tcp", "127.0.0.1:0")
	s := run(t, activated(t, []*os.File{tcp}))
	if len(s.addrs) != 1 || s.addrs[0].String() != tcpAddr.String() {
		t.Errorf("listening on %v, want %v", s.addrs, tcpAddr)
	}
	s.dial().says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	if strings.Contains(s.log.String(), "WARN") {
		t.Errorf("warnings:\n%s", s.log.String())
	}
	s.stop()
}

func TestSocketActivationWithSeveralSockets(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	tcp, tcpAddr := socketFile(t, "tcp", "127.0.0.1:0")
	tcp2, tcp2Addr := socketFile(t, "tcp", "127.0.0.1:0")
	unix, unixAddr := socketFile(t, "unix", path)
	// A port that is taken would matter if it were used.
	_, port, _ := net.SplitHostPort(tcpAddr.String())
	s := run(t, activated(t, []*os.File{tcp, unix, tcp2}, "-p", port))
	s.waitLog("-l and -p have no effect: the sockets are systemd's")
	dial(t, tcpAddr).says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	dial(t, unixAddr).says("put 0 0 60 1\nx\n", "INSERTED 2\n")
	dial(t, tcp2Addr).says("reserve\n", "RESERVED 1 1\nx\n")
	s.stop()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("systemd's socket is gone: %v", err)
	}
}

// A socket that nobody can connect to any more ends the server, as a signal does: with
// all that was answered on the disk, and a reserve that waits closed.
func TestListenerFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	tcp, addr := socketFile(t, "tcp", "127.0.0.1:0")
	s := run(t, activated(t, []*os.File{tcp}, "-b", dir, "-f", "60000"))
	c := dial(t, addr)
	c.says("put 0 0 60 1\nx\nwatch a\nignore default\n", "INSERTED 1\nWATCHING 2\nWATCHING 1\n")
	c.send("reserve\n")
	if err := syscall.Shutdown(int(tcp.Fd()), syscall.SHUT_RD); err != nil {
		t.Fatal(err)
	}
	s.exits(1)
	if log := s.log.String(); !strings.Contains(log, "a listener failed") || !strings.Contains(log, "msg=stopped") || !strings.Contains(log, "\nsheafd: ") {
		t.Errorf("it says\n%s", log)
	}
	s = withBinlog(t, dir)
	s.dial().says("reserve\n", "RESERVED 1 1\nx\n")
	s.stop()
}

func TestSocketActivationAndUser(t *testing.T) {
	needRoot(t)
	tcp, _ := socketFile(t, "tcp", "127.0.0.1:0")
	s := run(t, activated(t, []*os.File{tcp}, "-u", "nobody"))
	s.dial().says("use a\n", "USING a\n")
	checkUser(t, s, "nobody")
}

func TestSocketActivationWithAnotherKindOfSocket(t *testing.T) {
	udp, _ := socketFile(t, "udp", "127.0.0.1:0")
	fails(t, activated(t, []*os.File{udp}), 1, "taking over sockets from systemd", "number 1 is no stream socket", "ListenStream=")
}

func TestSocketActivationWithSocketsThatDoNotListen(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	tcp, _ := socketFile(t, "tcp", "127.0.0.1:0")
	for _, fd := range append(pair[:], bound) {
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		fails(t, activated(t, []*os.File{tcp, f}), 1, "taking over sockets from systemd", "number 2", "is not listening", "Accept=no")
	}
}

// Sockets that were meant for another process are left alone.
func TestSocketActivationOfSomebodyElse(t *testing.T) {
	tcp, tcpAddr := socketFile(t, "tcp", "127.0.0.1:0")
	cmd := command(t, "-l", "127.0.0.1", "-p", "0")
	cmd.Env = append(os.Environ(), "LISTEN_PID=1", "LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{tcp}
	s := run(t, cmd)
	if s.addrs[0].String() == tcpAddr.String() {
		t.Errorf("listening on %v, which was not handed to it", tcpAddr)
	}
}

func TestNotifySystemd(t *testing.T) {
	path := filepath.Join(shortDir(t), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hears := func(want string) {
		t.Helper()
		b := make([]byte, 4096)
		c.SetReadDeadline(time.Now().Add(patience))
		if n, err := c.Read(b); err != nil || string(b[:n]) != want {
			t.Errorf("heard %q (%v), want %q", b[:n], err, want)
		}
	}
	cmd := command(t, "-l", "127.0.0.1", "-p", "0")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	s := run(t, cmd)
	hears("READY=1")
	s.dial().says("use a\n", "USING a\n")
	s.stop()
	hears("STOPPING=1")
}
