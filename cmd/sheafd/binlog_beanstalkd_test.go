package main_test

// beanstalkd, where its package is installed, for the tests of the binlog.

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// beanstalkdCommand returns Debian's beanstalkd, not started yet, on a port of
// the loopback interface that was free.
func beanstalkdCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	diffReference(t) // skips the test, or fails it where it must be there
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	return exec.Command(diffReferencePath, append([]string{"-l", "127.0.0.1", "-p", fmt.Sprint(port)}, args...)...)
}

// A beanstalkd is a running one.
type beanstalkd struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  output
	addr net.Addr
}

// runBeanstalkd starts one that ends with the test.
func runBeanstalkd(t *testing.T, args ...string) *beanstalkd {
	t.Helper()
	for range 20 { // somebody else may take the port first
		b := &beanstalkd{t: t, cmd: beanstalkdCommand(t, args...)}
		b.cmd.Stderr = &b.log
		prepare(b.cmd)
		if err := b.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			b.cmd.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			b.cmd.Process.Kill()
			<-ended
		})
		b.addr, _ = net.ResolveTCPAddr("tcp", "127.0.0.1:"+b.cmd.Args[4])
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if c, err := net.Dial("tcp", b.addr.String()); err == nil {
				c.Close()
				return b
			}
			select {
			case <-ended:
				end = time.Now()
			default:
			}
		}
		if !strings.Contains(b.log.String(), "in use") {
			t.Fatalf("%q does not serve: %s", b.cmd.Args, b.log.String())
		}
	}
	t.Fatal("no port is free")
	return nil
}

func (b *beanstalkd) talk() *talker {
	b.t.Helper()
	return talkTo(b.t, b.addr)
}

// end ends it, and waits until it has.
func (b *beanstalkd) end(sig syscall.Signal) {
	b.t.Helper()
	if err := b.cmd.Process.Signal(sig); err != nil {
		b.t.Fatal(err)
	}
	until(b.t, "beanstalkd has ended", func() bool { return b.cmd.Process.Signal(syscall.Signal(0)) != nil })
}
