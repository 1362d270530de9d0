package netio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMaxConnections(t *testing.T) {
	h := newHarness(t, Config{MaxConnections: 3})
	var clients []*client
	for range 3 {
		c := h.dial()
		c.send("hello\n")
		c.want("hello")
		clients = append(clients, c)
	}
	for range 20 {
		h.dial().wantClosed()
	}
	if n := strings.Count(h.log.String(), "too many"); n < 1 || n > 3 {
		t.Errorf("%d log lines about 20 refused connections", n)
	}
	clients[0].Close()
	eventually(t, "room", func() bool { return h.s.Connections() == 2 })
	c := h.dial()
	c.send("in\n")
	c.want("in")
}

// Those for whom there is no descriptor wait until one has gone, as they do when
// the system has none.
func TestDescriptorsForClients(t *testing.T) {
	h := newHarness(t, Config{Descriptors: 3})
	var clients []*client
	for range 10 {
		c := h.dial()
		c.send("hello\n")
		clients = append(clients, c)
	}
	eventually(t, "crowded", func() bool { return strings.Contains(h.log.String(), "cannot accept") })
	most := 0
	for _, c := range clients {
		c.want("hello")
		most = max(most, h.s.Connections())
		c.Close()
	}
	if most > 4 { // the loop is in accept when the last one comes for whom there is one
		t.Errorf("%d connections", most)
	}
	eventually(t, "over", func() bool { return strings.Contains(h.log.String(), "accepting connections again") })
}

// A client that never reads is stopped being read, and costs a bounded amount
// of memory.
func TestClientThatNeverReads(t *testing.T) {
	h := newHarness(t, Config{})
	other := h.dial()
	for _, request := range []string{"big 100000\n", strings.Repeat("z", 200) + "\n"} {
		before := heap()
		c := h.dial()
		c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		written := h.written.Load()
		requests := strings.Repeat(request, 1000)
		sent := 0
		for {
			c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			n, err := io.WriteString(c, requests)
			sent += n
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if sent > 200<<20 {
				t.Fatal("never stopped being read")
			}
		}
		if grown := heap() - before; grown > 2<<20 {
			t.Errorf("heap grew by %d bytes", grown)
		}
		t.Logf("%.5q: %d bytes of answers were made before the client blocked at %d sent", request, h.written.Load()-written, sent)
		other.send("hello\n")
		other.want("hello")
	}
}

// Read at last, everything is there and in order.
func TestSlowReader(t *testing.T) {
	h := newHarness(t, Config{maxOutput: 10_000})
	c := h.dial()
	const n = 3000
	go func() {
		for i := range n {
			c.send("before %d\nbig %d\nafter\n", i, 500+i*5)
		}
	}()
	for i := range n {
		c.want(fmt.Sprintf("before %d", i))
		got := make([]byte, 500+i*5)
		if _, err := io.ReadFull(c.r, got); err != nil || string(got) != string(bigBody[:len(got)]) {
			t.Fatalf("body %d is wrong, %v", i, err)
		}
		c.want("", "after")
	}
}

func TestIdleTimeout(t *testing.T) {
	const idle = 500 * time.Millisecond
	h, serve := newHarnessHeld(t, Config{IdleTimeout: idle})
	var clients []*client
	for _, request := range []string{"", "hello\n", "torn", "body 10\nabc"} {
		c := h.dial()
		c.send("%s", request)
		clients = append(clients, c)
	}
	start := time.Now()
	serve()
	clients[1].want("hello")
	for i, c := range clients {
		c.wantClosed()
		if d := time.Since(start); d < idle {
			t.Errorf("connection %d: closed after %v", i, d)
		}
	}
	eventually(t, "the log", func() bool { return strings.Count(h.log.String(), errIdle.Error()) == 4 })
}

// Who has spoken in time is not idle if the server comes to read it late: its
// process was stopped, or had no core. Here it is about to park for that long.
func TestIdleTimeoutOfALateServer(t *testing.T) {
	const idle = 500 * time.Millisecond // the client makes no such pause, nor does the machine
	var h *harness
	var once sync.Once
	var late atomic.Bool
	h = newHarness(t, Config{IdleTimeout: idle, yield: func() {
		once.Do(func() {
			for end := time.Now().Add(patience); h.unread() == 0 && time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
			}
			time.Sleep(2 * idle)
			late.Store(true)
		})
	}})
	c := h.dial()
	for n := 0; !late.Load(); n++ {
		c.send("hello %d\n", n)
		c.want(fmt.Sprint("hello ", n))
	}
	c.wantClosed()
}

// Neither a client that does something, nor one that waits in its session, is
// idle.
func TestIdleTimeoutSparesTheBusy(t *testing.T) {
	const idle = time.Second // much longer than any pause of busy's, however slow the machine
	h := newHarness(t, Config{IdleTimeout: idle})
	waiting, holding, busy := h.dial(), h.dial(), h.dial()
	waiting.send("park\n")
	h.blocked()
	holding.send("hold\n")
	h.blocked()
	for start := time.Now(); time.Since(start) < idle*3/2; time.Sleep(idle / 20) {
		busy.send("hello\n")
		busy.want("hello")
	}
	h.release <- struct{}{}
	holding.want("HELD")
	holding.send("hello\n")
	holding.want("hello")
	holding.wantClosed()
	waiting.finish()
	waiting.want("HUNGUP")
	waiting.wantEOF()
}

// A peer that does not read is idle, too.
func TestIdleTimeoutOfAWrite(t *testing.T) {
	h, serve := newHarnessHeld(t, Config{IdleTimeout: 250 * time.Millisecond})
	c := h.dial()
	c.send("%s", strings.Repeat("big 1000000\n", 100))
	serve()
	eventually(t, "closed", func() bool { return h.created.Load() == 1 && h.s.Connections() == 0 })
	if h.written.Load() == 0 {
		t.Error("closed before there was anything to write")
	}
}

// Nor is one that reads slowly, however long a single write takes it.
func TestIdleTimeoutSparesASlowReader(t *testing.T) {
	const idle = time.Second
	h := newHarness(t, Config{IdleTimeout: idle, maxOutput: 64 << 20}, "unix:"+t.TempDir()+"/sock")
	c := h.dial()
	const answers = 30
	c.send("%s", strings.Repeat(fmt.Sprintf("big %d\n", len(bigBody)), answers))
	for i := range answers {
		time.Sleep(idle / 20)
		if _, err := io.CopyN(io.Discard, c.r, int64(len(bigBody)+1)); err != nil {
			t.Fatalf("answer %d: %v", i+1, err)
		}
	}
}

// Unread tells who does not read from who reads, however slowly: the kernel says that a TCP socket can be written to when a
// third of its buffer is free.
func TestUnread(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			where := []string{"unix:" + t.TempDir() + "/sock"}
			if network == "tcp" {
				where = nil
			}
			h := newHarness(t, Config{maxOutput: 64 << 20}, where...)
			c := h.dial()
			c.send("hold\n")
			conn := (<-h.waiting).c
			h.release <- struct{}{}
			c.want("HELD")
			if d := conn.Unread(); d != 0 {
				t.Errorf("%v where nothing is to be written", d)
			}
			const answers = 16
			c.send("%s", strings.Repeat(fmt.Sprintf("big %d\n", len(bigBody)), answers))
			const pause = 100 * time.Millisecond
			eventually(t, "it waits", func() bool { return conn.Unread() > pause })
			left := answers * (len(bigBody) + 1)
			for range 10 { // far less than a third of what a socket takes
				time.Sleep(pause / 2)
				for begin := time.Now(); conn.Unread() > time.Since(begin); { // until it is known
					n, err := io.CopyN(io.Discard, c.r, 32<<10)
					if left -= int(n); err != nil {
						t.Fatal(err)
					}
				}
			}
			eventually(t, "it waits again", func() bool { return conn.Unread() > pause })
			if _, err := io.CopyN(io.Discard, c.r, int64(left)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "all is written", func() bool { return conn.Unread() == 0 })
		})
	}
}

// No wait that is over is left in Unread: a write that is done in two goes, without a wait in between, is none.
func TestUnreadOfWritesInPieces(t *testing.T) {
	h := newHarness(t, Config{maxOutput: 64 << 20}, "unix:"+t.TempDir()+"/sock")
	c := h.dial()
	c.send("hold\n")
	conn := (<-h.waiting).c
	h.release <- struct{}{}
	c.want("HELD")
	for i := range 1000 {
		size, n := len(bigBody)-i<<9, 1+i%3
		c.send("%s", strings.Repeat(fmt.Sprintf("big %d\n", size), n))
		if _, err := io.CopyN(io.Discard, c.r, int64(n*(size+1))); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all is written", func() bool { return conn.Unread() == 0 })
	}
}

// A tappedConn has a test do something where another goroutine might.
type tappedConn struct {
	syscall.RawConn
	before, after func() // what Control does
	late          func() // when the deadline of a write has passed
}

func (c *tappedConn) Control(f func(fd uintptr)) error {
	if c.before != nil {
		c.before()
	}
	err := c.RawConn.Control(f)
	if c.after != nil {
		c.after()
	}
	return err
}

func (c *tappedConn) Write(f func(fd uintptr) bool) error {
	err := c.RawConn.Write(f)
	if c.late != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.late()
	}
	return err
}

// kernelHas is how many bytes wait in the kernel for the peer to read them.
func (c *tappedConn) kernelHas() (n int32) {
	c.RawConn.Control(func(fd uintptr) { n = unackedBytes(fd) })
	return n
}

// tapped returns a new client and its connection, which is tapped. Once it is let go the peer has size bytes to read.
func (h *harness) tapped() (c *client, conn *Conn, tap *tappedConn, letGo func(), size int) {
	h.t.Helper()
	c = h.dial()
	c.send("hold\nbig %d\n", len(bigBody))
	conn = (<-h.waiting).c
	tap = &tappedConn{RawConn: conn.raw}
	conn.raw = tap
	return c, conn, tap, func() { h.release <- struct{}{} }, len("HELD\n") + len(bigBody) + 1
}

// Two look at once, and only one of them sees that the peer has read: the other knows it from that one, whichever was first.
func TestUnreadOfTwo(t *testing.T) {
	for _, second := range []string{"before", "after"} {
		t.Run(second, func(t *testing.T) {
			h := newHarness(t, Config{maxOutput: 64 << 20}, "unix:"+t.TempDir()+"/sock")
			c, conn, tap, letGo, _ := h.tapped()
			letGo()
			eventually(t, "it waits", func() bool { return conn.Unread() > 50*time.Millisecond })
			begin := time.Now()
			for had := tap.kernelHas(); tap.kernelHas() == had; {
				if _, err := io.CopyN(io.Discard, c.r, 16<<10); err != nil {
					t.Fatal(err)
				}
			}
			look := func(who string) {
				if d, most := conn.Unread(), time.Since(begin); d > most {
					t.Errorf("the %s: %v, but the peer has read in the last %v", who, d, most)
				}
			}
			other := func() {
				tap.before, tap.after = nil, nil
				look("other")
			}
			if second == "before" {
				tap.before = other
			} else {
				tap.after = other
			}
			look("one")
		})
	}
}

// Who reads slowly is not idle, though another than the writer was the first to see it.
func TestIdleTimeoutSparesWhomOthersSawRead(t *testing.T) {
	const idle = 250 * time.Millisecond
	h := newHarness(t, Config{IdleTimeout: idle, maxOutput: 64 << 20}, "unix:"+t.TempDir()+"/sock")
	c, conn, tap, letGo, left := h.tapped()
	looked := make(chan struct{})
	tap.late = sync.OnceFunc(func() {
		for begin := time.Now(); conn.Unread() > time.Since(begin); {
			n, err := io.CopyN(io.Discard, c.r, 16<<10)
			if left -= int(n); err != nil {
				t.Error(err)
				break
			}
		}
		tap.after = sync.OnceFunc(func() { close(looked) }) // the writer looks next, and the peer has not read on by then
	})
	letGo()
	<-looked
	if n, err := io.CopyN(io.Discard, c.r, int64(left)); err != nil {
		t.Fatalf("%d bytes before the end: %v", left-int(n), err)
	}
}

// Who reads slowly is not idle, though a writer does not hear of it for longer than the timeout.
func TestIdleTimeoutSparesAVerySlowReader(t *testing.T) {
	const idle = 500 * time.Millisecond
	h := newHarness(t, Config{IdleTimeout: idle, maxOutput: 64 << 20})
	c := h.dial()
	const answers = 16
	c.send("%s", strings.Repeat(fmt.Sprintf("big %d\n", len(bigBody)), answers))
	left := answers * (len(bigBody) + 1)
	for end := time.Now().Add(4 * idle); time.Now().Before(end); time.Sleep(idle / 20) {
		n, err := io.CopyN(io.Discard, c.r, 32<<10)
		if left -= int(n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.CopyN(io.Discard, c.r, int64(left)); err != nil {
		t.Fatalf("%d bytes before the end: %v", left, err)
	}
}

// The server runs out of descriptors in a process of its own, which is this
// test binary again.
func TestOutOfDescriptors(t *testing.T) {
	addr, log := startChild(t, "NETIO_EMFILE_CHILD=1")
	dial := func() *client {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(patience))
		return &client{t, nc, bufio.NewReader(nc)}
	}

	for episode := 1; episode <= 2; episode++ {
		var clients []*client
		for range 40 { // the rest waits in the listener's backlog
			c := dial()
			c.send("hello\n")
			clients = append(clients, c)
		}
		eventually(t, "out of descriptors", func() bool { return strings.Count(log.String(), "cannot accept") >= episode })
		clients[0].want("hello")
		clients[0].send("still served\n")
		clients[0].want("still served")
		for i, c := range clients { // each that goes makes room for another
			if i > 0 {
				c.want("hello")
			}
			c.Close()
		}
		eventually(t, "over", func() bool { return strings.Count(log.String(), "accepting connections again") >= episode })
	}
	// A slot that frees up lets one in and starts another episode, so there may
	// be some more than two.
	if n := strings.Count(log.String(), "cannot accept"); n > 100 {
		t.Errorf("%d log lines:\n%s", n, log.String())
	}
}

func emfileChild() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	h := &harness{}
	s, err := NewServer(Config{NewSession: h.session, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	check(err)
	l, err := Listen("127.0.0.1", 0)
	check(err)
	check(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 20, Max: 20}))
	var wg sync.WaitGroup
	wg.Go(func() { s.Serve(l) })
	fmt.Println(l.Addr())
	io.Copy(io.Discard, os.Stdin)
	check(s.Shutdown(context.Background()))
	wg.Wait()
}

func TestThrottle(t *testing.T) {
	var th throttle
	now := time.Now()
	for i, want := range []int{1, 0, 0, 3, 0} {
		if i == 3 {
			now = now.Add(time.Second)
		}
		if n := th.allow(now); n != want {
			t.Errorf("event %d: got %d, want %d", i, n, want)
		}
	}
}
