package netio

// What Idle promises beyond the hang-ups of hangup_test.go: a wait ends when
// its peer cannot be written to, and keeps no memory of what was read before
// it.

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A peer that neither reads nor goes away: no hang-up ever comes, and the write
// that failed has to end the wait.
func TestIdleBehindAPeerThatDoesNotRead(t *testing.T) {
	for _, tt := range []struct {
		name      string
		maxOutput int // decides where the write fails
	}{
		{"in Idle", 2 * len(bigBody)},
		{"before Idle", maxOutput},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, serve := newHarnessHeld(t, Config{IdleTimeout: 250 * time.Millisecond, maxOutput: tt.maxOutput}, "unix:"+t.TempDir()+"/sock")
			c := h.dial()
			c.send("big %d\npark\n", len(bigBody)) // far more than a Unix socket takes
			serve()
			h.blocked()
			eventually(t, "the wait ended", func() bool { return h.s.Connections() == 0 })
			if n := h.hangups.Load(); n != 1 {
				t.Errorf("%d hangups, want 1", n)
			}
		})
	}
}

// A napper takes whole lines: at the first, which is waited for, it calls Idle
// and waits until it is woken.
type napper struct {
	c       *Conn
	wake    chan struct{} // closed by the test
	napping chan struct{} // gets one when Idle has returned
	napped  bool
}

func (n *napper) Serve(in []byte) (int, error) {
	total := len(in)
	if !n.napped {
		n.napped = true
		in = n.c.Idle(in[bytes.IndexByte(in, '\n')+1:])
		n.napping <- struct{}{}
		<-n.wake
	}
	end := bytes.LastIndexByte(in, '\n') + 1
	n.c.Write(in[:end])
	return total - len(in[end:]), nil
}

func (*napper) Hangup() {}
func (*napper) Abort()  {}
func (*napper) Close()  {}

// What follows a wait was copied out of the read buffer. Once all but the end
// of it is consumed, only the end is kept.
func TestIdleKeepsNoMoreThanWhatIsLeft(t *testing.T) {
	const n = 100
	wake, napping := make(chan struct{}), make(chan struct{}, n)
	h := newHarness(t, Config{NewSession: func(c *Conn) Session { return &napper{c: c, wake: wake, napping: napping} }})
	line := strings.Repeat("x", ReadSize/2)
	request := []byte("nap\n" + line + "\ntorn")
	buf := make([]byte, len(line)+1)
	var fds [n]int
	for i := range fds {
		fds[i] = blockingClient(t, h)
	}
	before := heap()
	for _, fd := range fds {
		if wrote, err := unix.Write(fd, request); wrote != len(request) || err != nil {
			t.Fatal(wrote, err)
		}
		<-napping
	}
	during := heap() - before
	close(wake)
	for _, fd := range fds {
		ask(t, fd, nil, buf)
	}
	var after int64
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // an answer leaves shortly before its buffer does
		if after = heap() - before; after < n*int64(len(line))/4 || time.Now().After(end) {
			break
		}
	}
	t.Logf("%d bytes a connection while it waits, %d with the end of a command left", during/n, after/n)
	if after > n*int64(len(line))/4 {
		t.Errorf("%d bytes are kept for a command torn after 4", after/n)
	}
	for _, fd := range fds {
		ask(t, fd, []byte(" off\n"), buf[:len("torn off\n")])
		if got := string(buf[:len("torn off\n")]); got != "torn off\n" {
			t.Fatalf("got %q", got)
		}
	}
}
