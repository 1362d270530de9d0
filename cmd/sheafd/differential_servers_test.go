package main_test

// The servers under test: building sheafd, starting and stopping processes.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// diffMaxJob is the -z of every server here: small, so that bodies that are
// too big cost little.
const diffMaxJob = 1000

// diffReferencePath is where Debian's package puts the reference.
const diffReferencePath = "/usr/bin/beanstalkd"

// A diffProgram says how to start one kind of server. It is not a process.
type diffProgram struct {
	name string   // as it is called in a failure
	argv []string // without -l
	// asIs is set for sheafd: its YAML is taken as it comes. The reference's
	// is brought to the form of 1.13 first.
	asIs bool
	// binlog is what else the command line of a server with a binlog says
	// (-f, -s and so on); nil is a server without one.
	binlog []string
}

// diffReference is the reference, or a skipped test where it is missing. CI
// must have it.
func diffReference(t *testing.T) diffProgram {
	t.Helper()
	if _, err := os.Stat(diffReferencePath); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the reference is missing: %v; apt-get install beanstalkd", err)
		}
		t.Skipf("the reference is missing: %v; apt-get install beanstalkd", err)
	}
	return diffProgram{name: "beanstalkd", argv: []string{diffReferencePath, "-z", strconv.Itoa(diffMaxJob)}}
}

// diffSheafd is the sheafd at path with that many shards.
func diffSheafd(path string, shards int) diffProgram {
	return diffProgram{
		name: fmt.Sprintf("sheafd --shards %d", shards),
		argv: []string{path, "-z", strconv.Itoa(diffMaxJob), "--shards", strconv.Itoa(shards)},
		asIs: true,
	}
}

// A diffServer is a running process that listens on a Unix socket in a
// directory of its own, and keeps its binlog there if it has one. first is the
// connection that found it ready, so the count of connections starts from one
// on every server.
type diffServer struct {
	diffProgram
	dir    string
	cmd    *exec.Cmd
	output output
	first  *diffSocket
	exited chan error
	stop1  sync.Once
	stopE  error
}

// diffStart starts p and waits until it accepts. The process dies with the
// test binary whatever happens to that.
func diffStart(p diffProgram) (*diffServer, error) {
	dir, err := os.MkdirTemp("", "sheaf-diff-")
	if err != nil {
		return nil, err
	}
	if !p.asIs && p.binlog != nil { // sheafd makes it itself
		if err := os.Mkdir(filepath.Join(dir, "binlog"), 0o755); err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
	}
	return diffStartIn(dir, p)
}

// diffStartIn is diffStart in a directory in which a server has been running.
// Where it fails, it removes the directory.
func diffStartIn(dir string, p diffProgram) (_ *diffServer, err error) {
	s := &diffServer{diffProgram: p, dir: dir, exited: make(chan error, 1)}
	argv := append(p.argv[1:len(p.argv):len(p.argv)], "-l", "unix:"+s.path())
	if p.binlog != nil {
		argv = append(append(argv, "-b", filepath.Join(dir, "binlog")), p.binlog...)
	}
	s.cmd = exec.Command(p.argv[0], argv...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	prepare(s.cmd)
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() { s.exited <- s.cmd.Wait() }()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if s.first, err = diffDial(s.path()); err == nil {
			return s, nil
		}
		if time.Now().After(end) || len(s.exited) > 0 {
			s.kill()
			return nil, fmt.Errorf("%s does not accept connections: %w\n%s", p.name, err, s.output.String())
		}
	}
}

func (s *diffServer) path() string { return filepath.Join(s.dir, "sock") }

// drain sends SIGUSR1 and waits until the process has taken note of it. The
// reference tells nobody, but has done so in its handler when the signal is no
// longer pending.
func (s *diffServer) drain() error {
	if err := s.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	return diffUntil("the server drains", func() (bool, error) {
		if s.asIs {
			return strings.Contains(s.output.String(), "msg=\"draining"), nil
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
		_, pending, _ := strings.Cut(string(status), "\nShdPnd:\t")
		return strings.HasPrefix(pending, "0000000000000000"), err
	})
}

// descriptors counts those that the process has open.
func (s *diffServer) descriptors() (int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	return len(list), err
}

// hangUp closes c and waits until the process has closed its end: its client's
// jobs are back then, or before the next command of anybody is looked at.
func (s *diffServer) hangUp(c *diffSocket) error {
	c.drained(diffPatience) // so that it has been accepted
	before, err := s.descriptors()
	if err != nil {
		return err
	}
	c.close()
	return diffUntil("the server closes its end", func() (bool, error) {
		n, err := s.descriptors()
		return n < before, err
	})
}

// diffUntil asks again and again until ok is true.
func diffUntil(what string, ok func() (bool, error)) error {
	for end := time.Now().Add(diffPatience); ; time.Sleep(time.Millisecond) {
		if is, err := ok(); is || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("for %v it is not so: %s", diffPatience, what)
		}
	}
}

// kill ends the process at once and removes its directory. It may be called
// at any time and after stop.
func (s *diffServer) kill() {
	s.crash()
	os.RemoveAll(s.dir)
}

// crash ends the process at once, unless it has ended, and leaves its
// directory.
func (s *diffServer) crash() {
	s.stop1.Do(func() {
		s.cmd.Process.Kill()
		<-s.exited
	})
	if s.first != nil {
		s.first.close()
	}
}

// stop is end, and removes the directory.
func (s *diffServer) stop() error {
	defer s.kill()
	return s.end()
}

// end ends the process as an init system would. What sheafd has to show then
// is exit status 0, no race, no panic.
func (s *diffServer) end() error {
	s.stop1.Do(func() {
		s.cmd.Process.Signal(syscall.SIGTERM)
		var err error
		select {
		case err = <-s.exited:
		case <-time.After(15 * time.Second):
			s.cmd.Process.Signal(syscall.SIGQUIT) // the goroutines go to the output
			select {
			case <-s.exited:
			case <-time.After(5 * time.Second):
				s.cmd.Process.Kill()
				<-s.exited
			}
			err = errors.New("still alive 15 s after SIGTERM")
		}
		if !s.asIs {
			return // the reference dies of the signal
		}
		if s.stopE = s.sane(); s.stopE == nil && err != nil {
			s.stopE = fmt.Errorf("%s: after SIGTERM: %w\n%s", s.name, err, s.output.String())
		}
	})
	s.crash()
	return s.stopE
}

// sane looks for what sheafd must not have printed.
func (s *diffServer) sane() error {
	bad := []string{"DATA RACE", "panic:", "panic in", "fatal error:"}
	if s.binlog != nil {
		bad = append(bad, "level=WARN", "level=ERROR") // nothing was damaged
	}
	out := s.output.String()
	for line := range strings.Lines(out) {
		for _, bad := range bad {
			if s.asIs && strings.Contains(line, bad) && !strings.Contains(line, "connections were cut off") {
				return fmt.Errorf("%s: output says %q\n%s", s.name, bad, out)
			}
		}
	}
	return nil
}
