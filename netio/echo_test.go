package netio

// The protocol of the tests, and their client.
//
//	-> hello\n            <- hello\n
//	-> body 3\nabc        <- abc\n, read with ReadInto and sent with WriteBody
//	-> big 100000\n       <- 100000 bytes and \n
//	-> wait\n             <- HUNGUP\n when the client has shut down its sending
//	                      side; nothing when aborted
//	-> park\n             as wait, but after Conn.Idle
//	-> hold\n             <- HELD\n when the test says so, whatever Hangup and
//	                      Abort say
//	-> on\n               goes on with Conn.FlushOld
//	-> early\n            goes on with Conn.FlushEarly
//	-> slow\n             nothing, for longer than answers may wait
//	-> panic\n            closes the connection, as does
//	-> quit\n
//	-> fail\n             <- FAILED\n, and closes it with an error

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv("NETIO_EMFILE_CHILD") != "":
		emfileChild()
		return
	case os.Getenv("NETIO_SPIN_CHILD") != "":
		spinChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// startChild starts this test binary again, as a server of its own that is chosen by
// env and says its address first, and returns that and what it logs. When the test
// ends the server has to end by itself, since its standard input does.
func startChild(t *testing.T, env ...string) (addr string, log *lockedBuffer) {
	t.Helper()
	log = new(lockedBuffer)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		defer time.AfterFunc(patience, func() { cmd.Process.Kill() }).Stop()
		if err := cmd.Wait(); err != nil {
			t.Error(err, log.String())
		}
	})
	addr, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err, log.String())
	}
	return strings.TrimSpace(addr), log
}

const patience = 20 * time.Second // for what must happen; a test that passes never waits that long

// A harness is a server of echo sessions.
type harness struct {
	t       testing.TB
	s       *Server
	l       net.Listener
	log     lockedBuffer
	waiting chan *echo    // a session is blocked in Serve
	release chan struct{} // ends one hold
	created atomic.Int64
	closed  atomic.Int64
	hangups atomic.Int64
	aborts  atomic.Int64
	begun   atomic.Int64 // commands of which Serve got the first part only
	written atomic.Int64 // bytes that sessions have queued
	served  sync.WaitGroup
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newHarness starts a server on a free loopback port, or on addr. When the test
// ends it must shut down cleanly.
func newHarness(t testing.TB, config Config, addr ...string) *harness {
	t.Helper()
	h := &harness{t: t, waiting: make(chan *echo, 100), release: make(chan struct{}, 100)}
	if config.NewSession == nil {
		config.NewSession = h.session
	}
	config.Logger = slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	h.s = s
	if addr == nil {
		addr = []string{"127.0.0.1"}
	}
	h.l, err = Listen(addr[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	h.served.Go(func() {
		if err := s.Serve(h.l); err != ErrServerClosed {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		if err := h.shutdown(); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		h.served.Wait()
		if a, b := h.created.Load(), h.closed.Load(); a != b {
			t.Errorf("%d sessions created, %d closed", a, b)
		}
	})
	return h
}

// newHarnessHeld is newHarness with a server that begins to serve connections, and
// to count their idle time, when it is told to: their clients may have spoken by
// then.
func newHarnessHeld(t testing.TB, config Config, addr ...string) (h *harness, serve func()) {
	t.Helper()
	told := make(chan struct{})
	config.NewSession = func(c *Conn) Session {
		<-told
		return h.session(c)
	}
	h = newHarness(t, config, addr...)
	serve = sync.OnceFunc(func() { close(told) })
	t.Cleanup(serve)
	return h, serve
}

func (h *harness) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return h.s.Shutdown(ctx)
}

func (h *harness) session(c *Conn) Session {
	h.created.Add(1)
	return &echo{h: h, c: c, hung: make(chan struct{}), aborted: make(chan struct{})}
}

// blocked waits for one session that has blocked inside Serve.
func (h *harness) blocked() (e *echo) {
	h.t.Helper()
	select {
	case e = <-h.waiting:
	case <-time.After(patience):
		h.t.Fatal("no session has blocked")
	}
	return e
}

// eventually polls for what has no channel to wait for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never happened: ", what)
		}
	}
}

type echo struct {
	h       *harness
	c       *Conn
	hung    chan struct{}
	aborted chan struct{}
	body    []byte
	skip    bool // in a line that is too long
	total   int  // bytes that Serve was given; were it read from in, a wait would keep in's buffer alive
}

var bigBody = bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)

func (e *echo) Hangup() { e.h.hangups.Add(1); close(e.hung) }
func (e *echo) Abort()  { e.h.aborts.Add(1); close(e.aborted) }
func (e *echo) Close()  { e.h.closed.Add(1) }

var errAborted = errors.New("aborted")

func (e *echo) Serve(in []byte) (n int, err error) {
	if e.body != nil {
		e.c.WriteBody(e.body)
		e.c.Write([]byte("\n"))
		e.body = nil
	}
	e.total = len(in)
	for {
		i := bytes.IndexByte(in, '\n')
		if i < 0 {
			if len(in) == ReadSize {
				e.skip = true
				return e.total, nil
			}
			if e.skip {
				return e.total, nil
			}
			if len(in) > 0 {
				e.h.begun.Add(1)
			}
			return e.total - len(in), nil
		}
		line := in[:i+1]
		in = in[i+1:]
		if e.skip {
			e.skip = false
			e.c.Write([]byte("TOO LONG\n"))
			continue
		}
		if len(line) > 5 && line[0] == 'b' {
			verb, arg, _ := strings.Cut(string(line[:i]), " ")
			size, err := strconv.Atoi(arg)
			switch {
			case err != nil:
			case verb == "body":
				e.body = make([]byte, size)
				have := copy(e.body, in)
				in = in[have:]
				if have < size {
					e.c.ReadInto(e.body[have:])
					e.h.begun.Add(1)
					return e.total - len(in), nil
				}
				e.c.WriteBody(e.body)
				e.c.Write([]byte("\n"))
				e.body = nil
				continue
			case verb == "big":
				e.h.written.Add(int64(size))
				e.c.WriteBody(bigBody[:size])
				e.c.Write([]byte("\n"))
				continue
			}
		}
		switch string(line) {
		case "panic\n":
			panic("as told")
		case "quit\n":
			return e.total - len(in), io.EOF
		case "fail\n":
			e.c.Write([]byte("FAILED\n"))
			return e.total - len(in), errors.New("as told")
		case "park\n", "wait\n":
			if line[0] == 'p' {
				in = e.c.Idle(in)
				if e.c.buf != nil || e.c.replies != nil || e.c.vec != nil {
					panic("Idle left a buffer")
				}
			}
			e.h.waiting <- e
			select {
			case <-e.hung:
				e.c.Write([]byte("HUNGUP\n"))
			case <-e.aborted:
				return e.total - len(in), errAborted
			}
		case "hold\n":
			e.h.waiting <- e
			<-e.h.release
			e.c.Write([]byte("HELD\n"))
		case "on\n":
			e.c.FlushOld()
		case "early\n":
			e.c.FlushEarly()
		case "slow\n":
			time.Sleep(2 * maxUnsent)
		default:
			e.h.written.Add(int64(len(line)))
			b := e.c.Buf()
			b.B = append(b.B, line...)
		}
	}
}

// A client is a connection to the server. Whatever goes wrong fails the test,
// and nothing hangs.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (h *harness) dial() *client {
	h.t.Helper()
	nc, err := net.Dial(h.l.Addr().Network(), h.l.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &client{h.t, nc, bufio.NewReader(nc)}
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.Conn, format, args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) want(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		got, err := c.r.ReadString('\n')
		if err != nil || got != line+"\n" {
			c.t.Fatalf("got %.100q, %v; want %.100q", got, err, line)
		}
	}
}

// wantEOF wants the end of the stream, with nothing before it.
func (c *client) wantEOF() {
	c.t.Helper()
	if b, err := c.r.ReadByte(); err != io.EOF {
		c.t.Fatalf("got %q, %v; want the end", b, err)
	}
}

// wantClosed wants the connection closed, by FIN or RST.
func (c *client) wantClosed() {
	c.t.Helper()
	b, err := io.ReadAll(c.r)
	if len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v; want the end", b, err)
	}
}

// finish shuts down the sending side.
func (c *client) finish() {
	c.t.Helper()
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}
