package beanstalk

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// reference is Debian's beanstalkd 1.12, the running truth about the protocol.
const reference = "/usr/bin/beanstalkd"

// startReference starts the reference on a unix socket for the length of the
// test and returns the socket's path. Where it is not installed the test is
// skipped, and fails in CI.
func startReference(t *testing.T) (socket string) {
	t.Helper()
	if _, err := os.Stat(reference); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the reference is not installed: %v", err)
		}
		t.Skipf("not compared with the reference: %v (Debian's package beanstalkd has it)", err)
	}
	socket = filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(reference, "-l", "unix:"+socket)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // ends with this process, however that ends
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			return socket
		}
		if time.Now().After(end) {
			t.Fatalf("the reference does not listen: %v", err)
		}
	}
}

// ask sends the segments to the reference over a connection of their own,
// half-closes it, and returns all that comes back. A half-closed client gets
// the answers to everything it sent.
func ask(t *testing.T, socket string, segments ...string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	for _, s := range segments {
		// A quit among the segments closes the connection under us; what was
		// answered before counts.
		if _, err := io.WriteString(conn, s); err != nil {
			break
		}
	}
	conn.(*net.UnixConn).CloseWrite()
	reply, err := io.ReadAll(conn)
	if err != nil && len(reply) == 0 {
		t.Fatalf("reading the answer to %.100q: %v", segments, err)
	}
	return string(reply)
}
