package main_test

// The process as its user meets it: the really built binary, started with a
// command line, talked to over its sockets, ended by signals.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what should come at once.
const patience = 20 * time.Second

// testVersion is the version of the binary that the tests build.
const testVersion = "0.0.0-test"

// binDir holds the built binary; others than root may read it.
var binDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if binDir != "" {
		os.RemoveAll(binDir)
	}
	os.Exit(code)
}

// binary builds sheafd once and returns its path. It has the race detector if
// the tests have it.
func binary(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildOnce = sync.OnceValues(func() (path string, err error) {
	if binDir, err = os.MkdirTemp("", "sheafd-test-"); err != nil {
		return "", err
	}
	if err = os.Chmod(binDir, 0o755); err != nil {
		return "", err
	}
	path = filepath.Join(binDir, "sheafd")
	args := []string{"build", "-ldflags", "-X main.version=" + testVersion, "-o", path}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building sheafd: %w\n%s", err, out)
	}
	return path, nil
})

// command returns sheafd with the given arguments, not started yet.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(binary(t), args...)
}

// underShell returns sheafd with the given arguments, started by a shell that
// runs the script first. The process is the shell's, so its id does not change.
func underShell(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	argv := append([]string{"-c", script + "\nexec \"$@\"", "sh", binary(t)}, args...)
	return exec.Command("/bin/sh", argv...)
}

// result is how a process ended.
type result struct {
	code           int
	stdout, stderr string
}

// finish runs a sheafd that is expected to end by itself.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr output
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	prepare(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("%v did not end; it said:\n%s", cmd.Args, stderr.String())
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// fails runs a sheafd that must refuse to start: with that exit status, and
// one line on stderr that has all of the parts in it.
func fails(t *testing.T, cmd *exec.Cmd, code int, parts ...string) {
	t.Helper()
	r := finish(t, cmd)
	if r.code != code {
		t.Errorf("%q: exit status %d, want %d", cmd.Args[1:], r.code, code)
	}
	if r.stdout != "" {
		t.Errorf("%q: stdout %q, want none", cmd.Args[1:], r.stdout)
	}
	line, rest, _ := strings.Cut(r.stderr, "\n")
	if rest != "" || !strings.HasPrefix(line, "sheafd: ") {
		t.Errorf("%q: stderr is not one line of sheafd's:\n%s", cmd.Args[1:], r.stderr)
	}
	for _, part := range parts {
		if !strings.Contains(line, part) {
			t.Errorf("%q: stderr %q says nothing of %q", cmd.Args[1:], line, part)
		}
	}
}

// A server is a running sheafd.
type server struct {
	t     *testing.T
	cmd   *exec.Cmd
	addrs []net.Addr // where it listens, as its log tells
	log   output     // its stderr
	ended chan struct{}
}

// start starts sheafd on a free port of the loopback interface, with further
// arguments.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	return run(t, command(t, append([]string{"-l", "127.0.0.1", "-p", "0"}, args...)...))
}

// run starts a sheafd that is expected to serve, and waits until it does. The
// process ends with the test.
func run(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd, ended: make(chan struct{})}
	if cmd.Stderr == nil {
		cmd.Stderr = &s.log
	}
	prepare(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-s.ended
		for _, bad := range []string{"DATA RACE", "panic:", "panicked", "fatal error:"} {
			if strings.Contains(s.log.String(), bad) {
				t.Errorf("sheafd's output has %q:\n%s", bad, s.log.String())
			}
		}
	})
	if cmd.Stderr == &s.log {
		s.waitLog("started")
		s.addrs = listening(s.log.String())
	}
	return s
}

// prepare has the kernel kill the process when the test binary dies, and the
// race detector not sleep a second before each exit.
func prepare(cmd *exec.Cmd) {
	cmd.Env = append(cmd.Environ(), "GORACE=atexit_sleep_ms=10")
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

var (
	textListening = regexp.MustCompile(`msg=listening addr=(\S+) net=(\S+)`)
	jsonListening = regexp.MustCompile(`"msg":"listening","addr":"([^"]+)","net":"([^"]+)"`)
)

// listening returns the addresses that a log tells of.
func listening(log string) (addrs []net.Addr) {
	for _, re := range []*regexp.Regexp{textListening, jsonListening} {
		for _, m := range re.FindAllStringSubmatch(log, -1) {
			if m[2] == "unix" {
				addrs = append(addrs, &net.UnixAddr{Name: m[1], Net: m[2]})
			} else if a, err := net.ResolveTCPAddr(m[2], m[1]); err == nil {
				addrs = append(addrs, a)
			}
		}
	}
	return addrs
}

// waitLog waits until the log has text in it.
func (s *server) waitLog(text string) {
	s.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(s.log.String(), text); time.Sleep(time.Millisecond) {
		select {
		case <-s.ended:
			s.t.Fatalf("%q ended, its log does not have %q:\n%s", s.cmd.Args, text, s.log.String())
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("%q: its log does not have %q:\n%s", s.cmd.Args, text, s.log.String())
		}
	}
}

// signal sends sig.
func (s *server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// exits waits for the end of the process, which must have that status.
func (s *server) exits(code int) {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("sheafd does not end; its log:\n%s", s.log.String())
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("exit status %d (%v), want %d; its log:\n%s", got, s.cmd.ProcessState, code, s.log.String())
	}
}

// stop ends the server as an init system does.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	s.exits(0)
}

// pid returns the process id.
func (s *server) pid() int { return s.cmd.Process.Pid }

// dial opens a connection to the first address.
func (s *server) dial() *client {
	s.t.Helper()
	if len(s.addrs) == 0 {
		s.t.Fatalf("no address in the log:\n%s", s.log.String())
	}
	return dial(s.t, s.addrs[0])
}

// A client is a connection to a server.
type client struct {
	net.Conn
	t *testing.T
}

func dial(t *testing.T, addr net.Addr) *client {
	t.Helper()
	c, err := net.DialTimeout(addr.Network(), addr.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{c, t}
}

// send sends text, with CRLF for each newline.
func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		c.t.Fatalf("sending %q: %v", text, err)
	}
}

// gets reads an answer, which must be want, with CRLF for each newline.
func (c *client) gets(want string) {
	c.t.Helper()
	want = strings.ReplaceAll(want, "\n", "\r\n")
	got := make([]byte, len(want))
	c.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		c.t.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

// says sends a command and reads its answer.
func (c *client) says(command, answer string) {
	c.t.Helper()
	c.send(command)
	c.gets(answer)
}

// isRead waits until the server has read what was sent over TCP and IPv4, as
// the kernel tells of the server's end: that its receive queue is empty.
func (c *client) isRead() {
	c.t.Helper()
	end := fmt.Sprintf(":%04X", c.RemoteAddr().(*net.TCPAddr).Port)
	ours := fmt.Sprintf(":%04X", c.LocalAddr().(*net.TCPAddr).Port)
	for stop := time.Now().Add(patience); time.Now().Before(stop); time.Sleep(time.Millisecond) {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			c.t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			// sl local_address rem_address st tx_queue:rx_queue ...
			f := strings.Fields(line)
			if strings.HasSuffix(f[1], end) && strings.HasSuffix(f[2], ours) && strings.HasSuffix(f[4], ":00000000") {
				return
			}
		}
	}
	c.t.Fatal("the server does not read what was sent")
}

// closed reads the end of the connection: nothing more is answered. What the
// server had not read yet may make a reset of it.
func (c *client) closed() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(c)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("got %q (%v), want the end of the connection", rest, err)
	}
}

// stats returns the value that stats has for key.
func (c *client) stats(key string) string {
	c.t.Helper()
	c.send("stats\n")
	var head string
	c.SetReadDeadline(time.Now().Add(patience))
	for !strings.HasSuffix(head, "\r\n") {
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err != nil {
			c.t.Fatal(err)
		}
		head += string(b)
	}
	var n int
	if _, err := fmt.Sscanf(head, "OK %d\r\n", &n); err != nil {
		c.t.Fatalf("stats answered %q", head)
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(c, body); err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && k == key {
			return v
		}
	}
	c.t.Fatalf("stats has no %s:\n%s", key, body)
	return ""
}

// output collects what a process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// needRoot skips a test that only root can do.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
