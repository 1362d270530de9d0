package netio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// flood sends lines until the other side has closed, or n bytes.
func (c *client) flood(n int) {
	lines := []byte(strings.Repeat("more\n", 1000))
	for ; n > 0; n -= len(lines) {
		if _, err := c.Write(lines); err != nil {
			return
		}
	}
}

// all reads to the end, which must not be a reset.
func (c *client) all() []byte {
	c.t.Helper()
	b, err := io.ReadAll(c.r)
	if err != nil {
		c.t.Fatalf("after %d bytes: %v", len(b), err)
	}
	return b
}

// Who has sent a pipeline of which a shutdown leaves a part unread gets all answers
// to what was served.
func TestShutdownInAPipeline(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "unix:" + t.TempDir() + "/s"} {
		h := newHarness(t, Config{}, addr)
		c := h.dial()
		c.Conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(4 << 10)
		c.send("%s", strings.Repeat("hello\n", 5000)+"hold\n")
		h.blocked()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			c.flood(1 << 20)
		}()
		eventually(t, "more has come than one read takes", func() bool { return h.unread() > ReadSize })
		done := h.beginShutdown(t.Context())
		eventually(t, "told", func() bool { return h.aborts.Load() == 1 })
		h.release <- struct{}{}
		<-sent // it reads when it has sent all
		got := c.all()
		if want := int(h.written.Load()) + len("HELD\n"); len(got) != want || !bytes.HasSuffix(got, []byte("hello\nHELD\n")) {
			t.Errorf("%s: got %d bytes of %d", addr, len(got), want)
		}
		c.Close()
		wantNil(t, done)
	}
}

// unread returns how many bytes wait in the sockets of the server's connections.
func (h *harness) unread() (n int) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for _, c := range h.s.conns {
		c.raw.Control(func(fd uintptr) {
			in, _ := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
			n += in
		})
	}
	return n
}

// Who is refused comes to read why, whatever it has sent behind it.
func TestRefusalIsHeard(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	c.send("hold\nhello\nfail\n")
	h.blocked()
	go c.flood(1 << 20)
	eventually(t, "more has come than one read takes", func() bool { return h.unread() > ReadSize })
	h.release <- struct{}{}
	eventually(t, "closed", func() bool { return h.closed.Load() == 1 })
	if got := string(c.all()); got != "HELD\nhello\nFAILED\n" {
		t.Errorf("got %q", got)
	}
}

// The same holds where the session refuses to go on in Poked, with nothing read.
func TestRefusalInPokedIsHeard(t *testing.T) {
	begun := make(chan struct{})
	h, c, p := newPoker(t, Config{}, func(p *poker) {
		p.poked = func(c *Conn) error {
			close(begun)
			eventually(t, "the peer has sent something", func() bool { return p.h.unread() > 0 })
			c.Write([]byte("bye\n"))
			return errors.New("refused")
		}
	})
	c.send("hello\n")
	c.want("hello")
	eventually(t, "it is parked", p.c.parked.Load)
	p.c.Poke()
	<-begun
	c.send("more\n")
	eventually(t, "closed", func() bool { return h.closed.Load() == 1 })
	if got := string(c.all()); got != "bye\n" {
		t.Errorf("got %.100q", got)
	}
}

// A shutdown is not held up: not by a peer that sends for ever, nor by one that
// does neither read nor close.
func TestLingerIsShort(t *testing.T) {
	h := newHarness(t, Config{})
	flooder, deaf := h.dial(), h.dial()
	for _, c := range []*client{flooder, deaf} {
		c.send("hold\n")
		h.blocked()
	}
	go io.Copy(io.Discard, flooder.Conn)
	go flooder.flood(1 << 40)
	deaf.send("%s", strings.Repeat("more\n", 20_000))
	start := time.Now()
	done := h.beginShutdown(t.Context())
	h.release <- struct{}{}
	h.release <- struct{}{}
	wantNil(t, done)
	if took := time.Since(start); took > 5*lingerTime {
		t.Errorf("the shutdown took %v", took)
	}
	deaf.Close()
}

// A shutdown whose time is over has cut off nothing where it only lingers.
func TestShutdownEndsLinger(t *testing.T) {
	h := newHarness(t, Config{})
	deaf := h.dial()
	deaf.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	deaf.send("big 30000\nhold\n")
	h.blocked()
	go deaf.flood(1 << 20)
	eventually(t, "more has come than one read takes", func() bool { return h.unread() > ReadSize })
	ctx, cancel := context.WithCancel(t.Context())
	done := h.beginShutdown(ctx)
	h.release <- struct{}{}
	eventually(t, "it lingers", func() bool {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		for _, c := range h.s.conns {
			if !c.lingering.Load() {
				return false
			}
		}
		return true
	})
	cancel()
	wantNil(t, done)
	if n := h.s.Connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// A connection that is lingered with holds no buffers, and ends with the peer.
func TestLingerHoldsNothing(t *testing.T) {
	server, peer := tcpPair(t)
	c := conn(t, server)
	c.buf = readPool.Get().(*[ReadSize]byte)
	c.Write([]byte("said"))
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	peer.Write([]byte("more"))
	eventually(t, "there is input", c.unsettled)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.linger()
	}()
	if b, err := io.ReadAll(peer); string(b) != "said" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	peer.Close()
	<-ended
	if c.buf != nil || c.kept != nil || c.replies != nil {
		t.Error("it holds a buffer")
	}
}

// conn returns a connection that is on no server's list.
func conn(t *testing.T, nc *net.TCPConn) *Conn {
	t.Helper()
	raw, err := nc.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return newConn(&Server{config: Config{maxOutput: maxOutput}}, 1, nc, raw)
}

// tcpPair returns the two ends of a connection.
func tcpPair(t *testing.T) (server, peer *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{s, p} {
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
	}
	return s.(*net.TCPConn), p.(*net.TCPConn)
}
