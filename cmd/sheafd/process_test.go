package main_test

// The process as its user meets it: the really built binary, started with a
// command line, talked to over its sockets (see client_test.go), ended by
// signals.

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
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

func TestMain(m *testing.M) {
	sweep, err := ownTempDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	sweep()
	os.Exit(code)
}

// ownTempDir has all temporary files of this process, and of those it starts,
// in one directory, which goes when the function that it returns is called or
// when the process ends in any other way: a shell waits for that, since after a
// timeout, an interrupt or a kill nothing here can. Servers end with the
// process (see prepare); others than root may reach the binary in it.
func ownTempDir() (sweep func(), err error) {
	dir, err := os.MkdirTemp("", "sheafd-test-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	os.Setenv("TMPDIR", dir)
	// A disk of smallDisk's may still be mounted there.
	sweeper := exec.Command("/bin/sh", "-c", `read -r _; umount -l "$0"/sheafd-disk-* 2>&-; rm -rf "$0"`, dir)
	sweeper.Dir = "/"
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is not for it
	alive, err := sweeper.StdinPipe()
	if err == nil {
		err = sweeper.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return func() {
		alive.Close()
		sweeper.Wait()
	}, nil
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
	// go test does not know what is built here, and would call an old result
	// good for a server that has changed since. It notes what a test looks at.
	filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && d.Name() != ".." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return nil // what is missing is the compiler's to say
	})
	path = filepath.Join(os.TempDir(), "sheafd")
	args := []string{"build", "-ldflags", "-X main.version=" + testVersion, "-o", path}
	if raced() {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building sheafd: %w\n%s", err, out)
	}
	return path, nil
})

// plainBuild builds sheafd as the go command does without further options: without the
// race detector, too. It returns the path.
func plainBuild(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sheafd")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// raced tells whether the tests have the race detector, and the server with
// them.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

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

// startBeside starts a program that a test needs beside sheafd. It ends with the
// test; the answer is closed when it has.
func startBeside(t *testing.T, cmd *exec.Cmd) (ended <-chan struct{}) {
	t.Helper()
	prepare(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
	})
	return done
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

// until asks again and again until want is true.
func until(t *testing.T, what string, want func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !want(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("for %v it is not so: %s", patience, what)
		}
	}
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
