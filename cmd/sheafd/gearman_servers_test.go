package main_test

// The servers of the Gearman differential test.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A gdiffProgram says how to start one kind of server.
type gdiffProgram struct {
	name      string // as it is called in a failure
	argv      []string
	reference bool // its known faults are allowed for
}

// gdiffReference is the reference, or a skipped test where it is missing. It
// has one thread: it does what it does in the order in which requests come.
func gdiffReference(t *testing.T) gdiffProgram {
	t.Helper()
	path := gearNeed(t, "gearmand", "gearman-job-server")
	return gdiffProgram{
		name: "gearmand", reference: true,
		argv: []string{path, "-t", "0", "-L", "127.0.0.1", "--log-file", "stderr"},
	}
}

// gdiffSheafd is the sheafd at path with that many shards.
func gdiffSheafd(path string, shards int) gdiffProgram {
	return gdiffProgram{
		name: fmt.Sprintf("sheafd --shards %d", shards),
		argv: []string{path, "--gearman", "127.0.0.1:0", "--shards", strconv.Itoa(shards)},
	}
}

// A gdiffServer is a running process.
type gdiffServer struct {
	gdiffProgram
	addr    string
	handles *gdiffHandles
	dir     string
	cmd     *exec.Cmd
	output  output
	exited  chan error
	once    sync.Once
	fault   error
}

// gdiffStart starts p and waits until it accepts. The process ends with the
// test binary whatever happens to that.
func gdiffStart(p gdiffProgram) (s *gdiffServer, err error) {
	for range 20 {
		if s, err = gdiffTry(p); err == nil || !p.reference {
			break
		}
	}
	return s, err
}

func gdiffTry(p gdiffProgram) (*gdiffServer, error) {
	dir, err := os.MkdirTemp("", "sheaf-gdiff-")
	if err != nil {
		return nil, err
	}
	s := &gdiffServer{gdiffProgram: p, dir: dir, handles: newGdiffHandles(), exited: make(chan error, 1)}
	argv := p.argv[1:]
	if p.reference {
		// It cannot say which port it has taken, so it is given one that was free a
		// moment ago. Where somebody was quicker, it ends.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		s.addr = l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(s.addr)
		argv = append(argv[:len(argv):len(argv)], "-p", port, "--pid-file", filepath.Join(dir, "pid"))
	} else {
		argv = append(argv[:len(argv):len(argv)], "-l", "unix:"+filepath.Join(dir, "sock"))
	}
	s.cmd = exec.Command(p.argv[0], argv...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	prepare(s.cmd)
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() { s.exited <- s.cmd.Wait() }()
	for end := time.Now().Add(gdiffPatience); ; time.Sleep(2 * time.Millisecond) {
		if s.listens() {
			return s, nil
		}
		if time.Now().After(end) || len(s.exited) > 0 {
			s.kill()
			return nil, fmt.Errorf("%s does not listen:\n%s", p.name, s.output.String())
		}
	}
}

var gdiffListening = regexp.MustCompile(`msg=listening addr=(\S+) net=tcp protocol=gearman`)

// listens tells whether the server accepts connections, and that it is ours:
// the port of the reference may be that of another by now.
func (s *gdiffServer) listens() bool {
	if s.addr == "" {
		m := gdiffListening.FindStringSubmatch(s.output.String())
		if m == nil {
			return false
		}
		s.addr = m[1]
	}
	c, err := gdiffDial(s.addr)
	if err != nil {
		return false
	}
	defer c.Close()
	c.send([]byte("getpid\n"))
	i, err := c.next(time.Now().Add(5 * time.Second))
	return err == nil && i.String() == fmt.Sprintf("OK %d", s.cmd.Process.Pid)
}

// kill ends the process at once. It may be called after stop.
func (s *gdiffServer) kill() {
	s.once.Do(func() {
		s.cmd.Process.Kill()
		<-s.exited
	})
	os.RemoveAll(s.dir)
}

// stop ends the process as an init system would. What sheafd has to show then
// is exit status 0, no race, no panic.
func (s *gdiffServer) stop() error {
	defer s.kill()
	s.once.Do(func() {
		s.cmd.Process.Signal(syscall.SIGTERM)
		var err error
		select {
		case err = <-s.exited:
		case <-time.After(gdiffPatience):
			s.cmd.Process.Kill()
			<-s.exited
			err = errors.New("still alive")
		}
		if s.reference {
			return
		}
		if err != nil {
			s.fault = fmt.Errorf("%s: after SIGTERM: %w\n%s", s.name, err, s.output.String())
		}
		for _, bad := range []string{"DATA RACE", "panic:", "panicked", "fatal error:"} {
			if strings.Contains(s.output.String(), bad) {
				s.fault = fmt.Errorf("%s: output says %q\n%s", s.name, bad, s.output.String())
			}
		}
	})
	return s.fault
}
