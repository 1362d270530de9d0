package netio

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHalfCloseGetsAllAnswers(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	const n = 20_000 // some read buffers full
	go func() {
		c.send("%s", strings.Repeat("a line to be answered\n", n))
		c.finish()
	}()
	for range n {
		c.want("a line to be answered")
	}
	c.wantEOF()
}

// Data and FIN in one edge: none may hang.
func TestDataAndFinTogether(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "unix:" + t.TempDir() + "/sock"} {
		h := newHarness(t, Config{}, addr)
		const rounds, clients = 40, 100
		for range rounds {
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					nc, err := net.Dial(h.l.Addr().Network(), h.l.Addr().String())
					if err != nil {
						t.Error(err)
						return
					}
					defer nc.Close()
					nc.SetDeadline(time.Now().Add(patience))
					fmt.Fprintf(nc, "line %d\ntorn", i)
					nc.(interface{ CloseWrite() error }).CloseWrite()
					got, err := io.ReadAll(nc)
					if want := fmt.Sprintf("line %d\n", i); string(got) != want || err != nil {
						t.Errorf("got %q, %v; want %q", got, err, want)
					}
				})
			}
			wg.Wait()
		}
		eventually(t, "all gone", func() bool { return h.s.Connections() == 0 })
	}
}

// The same, made sure: the FIN is there before the server reads for the first
// time.
func TestFinBeforeTheFirstRead(t *testing.T) {
	gate := make(chan struct{})
	var h *harness
	h = newHarness(t, Config{NewSession: func(c *Conn) Session {
		<-gate
		return h.session(c)
	}})
	c := h.dial()
	c.send("hello\n")
	c.finish()
	close(gate)
	c.want("hello")
	c.wantEOF()
}

func TestHangupEndsAWait(t *testing.T) {
	for _, wait := range []string{"wait", "park"} {
		h := newHarness(t, Config{})
		c := h.dial()
		c.send("%s\nqueued\n", wait)
		h.blocked()
		c.send("unread\nwait\n") // is in the socket, with nobody to read it
		c.finish()
		c.want("HUNGUP", "queued", "unread", "HUNGUP")
		c.wantEOF()
		if n := h.hangups.Load(); n != 1 {
			t.Errorf("%d hangups", n)
		}
	}
}

func TestCloseEndsAWait(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	c.send("wait\n")
	h.blocked()
	c.send("unread\n")
	c.Close()
	eventually(t, "gone", func() bool { return h.s.Connections() == 0 })
}

func TestReset(t *testing.T) {
	h := newHarness(t, Config{})
	for _, request := range []string{"", "hello\n", "torn", "body 10\nabc", "wait\n", "park\nmore"} {
		c := h.dial()
		c.send("%s", request)
		if request == "hello\n" {
			c.want("hello")
		}
		if strings.HasSuffix(request, "wait\n") || strings.HasPrefix(request, "park") {
			h.blocked()
		}
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	eventually(t, "all gone", func() bool { return h.created.Load() == 6 && h.s.Connections() == 0 })
}

// The watcher: a nested epoll instance under Go's poller reports a hang-up, and
// not ordinary input.
func TestWatcher(t *testing.T) {
	w, err := newHangups()
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan uint64, 100)
	go w.run(func(id uint64) { reports <- id })
	var peers [300]int // more than one EpollWait takes
	var fds [len(peers)]int
	for i := range peers {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds[i], peers[i] = pair[0], pair[1]
		if err := w.watch(fds[i], 1<<40+uint64(i)); err != nil {
			t.Fatal(err)
		}
		unix.Write(peers[i], []byte("x"))
	}
	for i := range peers {
		unix.Shutdown(peers[i], unix.SHUT_WR)
	}
	seen := map[uint64]bool{}
	for len(seen) < len(peers) {
		select {
		case id := <-reports:
			if id < 1<<40 || id >= 1<<40+uint64(len(peers)) || seen[id] {
				t.Fatalf("report of %#x", id)
			}
			seen[id] = true
		case <-time.After(patience):
			t.Fatalf("%d reports", len(seen))
		}
	}
	w.close()
	<-w.done
	for i := range peers {
		unix.Close(fds[i])
		unix.Close(peers[i])
	}
}

func TestWatcherOfABadDescriptor(t *testing.T) {
	w, err := newHangups()
	if err != nil {
		t.Fatal(err)
	}
	go w.run(func(uint64) {})
	if err := w.watch(-1, 1); !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*os.SyscallError](w.watch(-1, 1)); !ok {
		t.Error("the error does not say which call failed")
	}
	w.close()
	<-w.done
}
