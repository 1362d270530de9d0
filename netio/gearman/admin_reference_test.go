package gearman

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reference is Debian's gearmand 1.1.20, the running truth about the protocol.
const reference = "/usr/sbin/gearmand"

// startReference starts the reference for the length of the test and returns
// its address. Where it is not installed the test is skipped, and fails in CI.
func startReference(t *testing.T) (addr string) {
	t.Helper()
	if _, err := os.Stat(reference); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the reference is not installed: %v", err)
		}
		t.Skipf("not compared with the reference: %v (Debian's package gearman-job-server has it)", err)
	}
	// It cannot be asked for its port, so it is given one that was free. Where
	// another was quicker to take that, it ends at once, and gets another.
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(addr)
		cmd := exec.Command(reference, "-L", "127.0.0.1", "-p", port, "-t", "0", "-l", "stderr")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // ends with this process, however that ends
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() {
			cmd.Process.Kill()
		})
		for end := time.Now().Add(20 * time.Second); len(ended) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if answers(addr, cmd.Process.Pid) {
				return addr
			}
		}
	}
	t.Fatal("the reference does not listen")
	return ""
}

// answers tells whether the server at addr is the process with that id.
func answers(addr string, pid int) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(conn, "getpid\n")
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return line == fmt.Sprintf("OK %d\n", pid)
}

// The reference says of each line what the table says.
func TestReferenceAdmin(t *testing.T) {
	addr := startReference(t)
	for _, l := range adminLines {
		if l.answer == "" || strings.ContainsRune(l.in[:len(l.in)-1], '\n') {
			continue
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		// An echo behind the line shows where its answer ends.
		const echo = "\x00RES\x00\x00\x00\x11\x00\x00\x00\x03end"
		io.WriteString(conn, l.in)
		io.WriteString(conn, "\x00REQ\x00\x00\x00\x10\x00\x00\x00\x03end")
		got := ""
		for buf := make([]byte, 1<<14); !strings.HasSuffix(got, echo); {
			n, err := conn.Read(buf)
			got += string(buf[:n])
			if err != nil {
				t.Errorf("%.60q: %.60q, then %v", l.in, got, err)
				break
			}
		}
		conn.Close()
		if got, ok := strings.CutSuffix(got, echo); ok && got != l.answer {
			t.Errorf("%.60q: %.120q, want %.120q", l.in, got, l.answer)
		}
	}
}
