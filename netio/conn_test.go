package netio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

func TestEcho(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	c.send("hello\n")
	c.want("hello")
	c.send("one\ntwo\nthr")
	c.want("one", "two")
	c.send("ee\n")
	c.want("three")
	c.send("body 3\nabcnext\n")
	c.want("abc", "next")
	c.send("quit\n")
	c.wantEOF()
}

func TestUnixEcho(t *testing.T) {
	h := newHarness(t, Config{}, "unix:"+filepath.Join(t.TempDir(), "sock"))
	c := h.dial()
	c.send("hello\nbody 3\nabc")
	c.want("hello", "abc")
	c.send("last\n")
	c.finish()
	c.want("last")
	c.wantEOF()
}

func TestPipelining(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	const lines = 100_000
	go func() {
		var b bytes.Buffer
		for i := range lines {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		c.Write(b.Bytes())
	}()
	for i := range lines {
		c.want(fmt.Sprintf("line %d", i))
	}
}

// Answers that have waited for long leave while the session goes on with the same
// input, those that have not leave with its last.
func TestFlushOld(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	for _, tt := range []struct {
		send      string
		first, at []string // what is heard before it holds, and what is queued then
	}{
		{send: "a\non\n", at: []string{"a"}},
		{send: "a\nslow\non\n", at: []string{"a"}}, // nobody has seen that it waits
		{send: "a\non\nslow\non\n", first: []string{"a"}},
		{send: "a\non\nslow\nb\non\n", first: []string{"a", "b"}},
		{send: "a\non\nslow\non\nb\non\n", first: []string{"a"}, at: []string{"b"}},
		{send: "on\nslow\non\na\non\n", at: []string{"a"}}, // it counts from when there is an answer
	} {
		c.send("%shold\nc\n", tt.send)
		e := h.blocked()
		c.want(tt.first...)
		if n := e.c.queued(); n != len("a\n")*len(tt.at) {
			t.Errorf("after %q %d bytes are queued, want %q", tt.send, n, tt.at)
		}
		h.release <- struct{}{}
		c.want(append(tt.at, "HELD", "c")...)
	}
}

// Answers to many commands leave at once if the client has a core to read them on.
func TestFlushEarly(t *testing.T) {
	for _, idle := range []bool{true, false} {
		_, p := newMachine(2, nil)
		p.coreIdle.Store(idle)
		h := newHarness(t, Config{Processors: p})
		p.mu.Lock() // so that nobody looks
		defer p.mu.Unlock()
		c := h.dial()
		c.send("a\nearly\nhold\nb\n")
		e := h.blocked()
		if idle {
			c.want("a")
		}
		if is := e.c.queued() == 0; is != idle {
			t.Errorf("%d bytes are queued; a core is idle: %t", e.c.queued(), idle)
		}
		h.release <- struct{}{}
		if !idle {
			c.want("a")
		}
		c.want("HELD", "b")
	}
}

// Every byte may be the last of a read.
func TestTornInput(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	for _, b := range []byte("hello\nbody 5\n\nbody\nworld\n") {
		c.Write([]byte{b})
	}
	c.want("hello", "", "body", "", "world")
}

func TestBodySplitEverywhere(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	body := strings.Repeat("x", 20)
	request := "before\nbody 20\n" + body + "after\nbody 2\nokbody 0\n"
	for i := range len(request) {
		c.send("%s", request[:i])
		runtime.Gosched() // likely, but not surely, two reads
		c.send("%s", request[i:])
		c.want("before", body, "after", "ok", "")
	}
	for range 200 {
		rest := request
		for rest != "" {
			n := rand.IntN(len(rest)) + 1
			c.send("%s", rest[:n])
			rest = rest[n:]
		}
		c.want("before", body, "after", "ok", "")
	}
}

func TestLargeBodies(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	for _, size := range []int{CopyMax, CopyMax + 1, ReadSize - 12, ReadSize, ReadSize + 1, 1 << 20, 10 << 20} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(rand.Uint32())
		}
		go func() {
			fmt.Fprintf(c, "before\nbody %d\n", size)
			c.Write(body)
			fmt.Fprintf(c, "after\n")
		}()
		c.want("before")
		got := make([]byte, size)
		if _, err := io.ReadFull(c.r, got); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("body of %d: %v", size, err)
		}
		c.want("", "after")
	}
}

// More segments than one writev takes, replies and bodies in turn.
func TestManyBodies(t *testing.T) {
	h := newHarness(t, Config{maxOutput: 64 << 20})
	c := h.dial()
	const n = 4000
	go c.send("%s", strings.Repeat("big 2000\nok\n", n))
	got := make([]byte, 2000)
	for i := range n {
		if _, err := io.ReadFull(c.r, got); err != nil || !bytes.Equal(got, bigBody[:2000]) {
			t.Fatalf("body %d: %v", i, err)
		}
		c.want("", "ok")
	}
}

func TestEndlessLine(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	c.send("%s", strings.Repeat("x", 5*ReadSize/2)+"\nhello\n")
	c.want("TOO LONG", "hello")
}

// stuck is a session that consumes nothing, or too much.
type stuck struct{ n int }

func (s stuck) Serve([]byte) (int, error) { return s.n, nil }
func (stuck) Hangup()                     {}
func (stuck) Abort()                      {}
func (stuck) Close()                      {}

func TestSessionThatMisbehaves(t *testing.T) {
	for _, n := range []int{0, -1, ReadSize + 1} {
		h := newHarness(t, Config{NewSession: func(*Conn) Session { return stuck{n} }})
		c := h.dial()
		c.Write(make([]byte, 2*ReadSize)) // may fail when the first half has closed the connection
		c.wantClosed()
	}
	h := newHarness(t, Config{NewSession: func(*Conn) Session { return nil }})
	h.dial().wantClosed()
}

func TestPanic(t *testing.T) {
	h := newHarness(t, Config{})
	other := h.dial()
	other.send("hello\n")
	other.want("hello")
	c := h.dial()
	c.send("panic\n")
	c.wantClosed()
	other.send("still here\n")
	other.want("still here")
	eventually(t, "session closed", func() bool { return h.closed.Load() == 1 })
	if log := h.log.String(); !strings.Contains(log, "as told") || !strings.Contains(log, "echo).Serve") {
		t.Errorf("no stack in the log: %s", log)
	}
}

// panicky is a session that panics wherever it can.
type panicky struct{ end chan struct{} }

func (p panicky) Serve(in []byte) (int, error) { <-p.end; return len(in), nil }
func (p panicky) Hangup()                      { close(p.end); panic("in Hangup") }
func (p panicky) Abort()                       { close(p.end); panic("in Abort") }
func (panicky) Close()                         { panic("in Close") }

func TestPanicElsewhere(t *testing.T) {
	var made atomic.Int64
	h := newHarness(t, Config{NewSession: func(*Conn) Session { made.Add(1); return panicky{make(chan struct{})} }})
	c := h.dial()
	c.send("x")
	c.finish()
	c.wantClosed()
	h.dial().send("x")
	eventually(t, "one left", func() bool { return made.Load() == 2 && h.s.Connections() == 1 })
	if err := h.shutdown(); err != nil {
		t.Error(err)
	}
	for _, where := range []string{"in Hangup", "in Abort", "in Close"} {
		if !strings.Contains(h.log.String(), where) {
			t.Errorf("panic %s is not in the log", where)
		}
	}
	h = newHarness(t, Config{NewSession: func(*Conn) Session { panic("in NewSession") }})
	h.dial().wantClosed()
}

// greeter writes before anything was read.
type greeter struct{ stuck }

func TestWriteInNewSession(t *testing.T) {
	h := newHarness(t, Config{NewSession: func(c *Conn) Session {
		c.Write([]byte("welcome\n"))
		return greeter{}
	}})
	h.dial().want("welcome")
}

// parting is an echo with a last word.
type parting struct{ echo }

func (p *parting) Close() {
	p.echo.Close()
	p.c.Write([]byte("bye\n"))
	p.c.WriteBody(bigBody)
	p.c.Flush()
}

// newParting starts a server of such sessions, and has one connection.
func newParting(t *testing.T, addr ...string) (*harness, *client) {
	var h *harness
	ready := make(chan struct{})
	h = newHarness(t, Config{NewSession: func(c *Conn) Session {
		<-ready // h is
		return &parting{*h.session(c).(*echo)}
	}}, addr...)
	close(ready)
	c := h.dial()
	c.send("hello\n")
	c.want("hello")
	return h, c
}

func TestWriteInClose(t *testing.T) {
	for what, end := range map[string]func(*harness, *client){
		"its peer has finished":   func(_ *harness, c *client) { c.finish() },
		"its session ends it":     func(_ *harness, c *client) { c.send("quit\n") },
		"the server is shut down": func(h *harness, _ *client) { h.beginShutdown(t.Context()) },
	} {
		h, c := newParting(t)
		end(h, c)
		got, err := io.ReadAll(c.r)
		if want := "bye\n" + string(bigBody); string(got) != want || err != nil {
			t.Errorf("%s: got %.20q, %d bytes, %v; want %d", what, got, len(got), err, len(want))
		}
	}
	t.Run("to nobody", func(t *testing.T) {
		h, c := newParting(t)
		c.Close()
		eventually(t, "gone", func() bool { return h.s.Connections() == 0 })
	})
	t.Run("to one who does not read", func(t *testing.T) {
		h, _ := newParting(t, "unix:"+t.TempDir()+"/sock")
		ctx, cancel := context.WithCancel(t.Context())
		done := h.beginShutdown(ctx)
		eventually(t, "it writes", func() bool { return h.closed.Load() == 1 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		eventually(t, "gone", func() bool { return h.s.Connections() == 0 })
	})
}

// An idle connection holds no buffer, in the middle of a command or not. The pools
// are emptied all the time, so that each would hold one of its own.
func TestIdleConnectionsHoldNoBuffers(t *testing.T) {
	h := newHarness(t, Config{})
	const n = 200
	before := heap()
	for i := range n {
		c := h.dial()
		switch i % 4 {
		case 0:
			c.send("hello\n")
			c.want("hello")
		case 1:
			c.send("hello\nthis is to be cont")
			c.want("hello")
		case 2:
			c.send("park\n")
			h.blocked()
		case 3: // a read that fills the buffer, so that there has to be another
			line := strings.Repeat("x", ReadSize/4-1)
			c.send("%s", strings.Repeat(line+"\n", 4))
			c.want(line, line, line, line)
		}
		c.r = nil
		heap()
	}
	per := (heap() - before) / n
	t.Logf("%d bytes of heap a connection, both ends", per)
	if per > 8<<10 && !raceDetector || per > ReadSize/2 {
		t.Error("too much")
	}
}

// Connections that come and go use the same few buffers one after the other.
func TestConnectionsThatEndGiveBuffersBack(t *testing.T) {
	h := newHarness(t, Config{})
	const n = 300
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		c, err := net.Dial("tcp", h.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			io.WriteString(c, "hello\ntorn")
			io.ReadFull(c, make([]byte, 6))
		}
		c.Close()
		eventually(t, "gone", func() bool { return h.s.Connections() == 0 })
	}
	runtime.ReadMemStats(&after)
	per := (after.TotalAlloc - before.TotalAlloc) / n
	t.Logf("%d bytes a connection, both ends", per)
	if per > ReadSize/2 && !raceDetector {
		t.Error("too much")
	}
}

// heap returns the bytes of live heap.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the pools, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestRemoteAddr(t *testing.T) {
	addrs := make(chan net.Addr, 1)
	h := newHarness(t, Config{NewSession: func(c *Conn) Session {
		addrs <- c.RemoteAddr()
		return stuck{}
	}})
	c := h.dial()
	if got := <-addrs; got.String() != c.LocalAddr().String() {
		t.Errorf("got %v, want %v", got, c.LocalAddr())
	}
}
