package netio

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// beginShutdown calls Shutdown on a goroutine and returns when the server is
// stopping.
func (h *harness) beginShutdown(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- h.s.Shutdown(ctx) }()
	<-h.s.stopped
	return done
}

// wantNil waits for a Shutdown that has to end by itself.
func wantNil(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Error("Shutdown: ", err)
		}
	case <-time.After(patience):
		t.Error("Shutdown does not end")
	}
}

func TestShutdownOfNothing(t *testing.T) {
	s, err := NewServer(Config{NewSession: func(*Conn) Session { return stuck{} }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
	l, err := Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != ErrServerClosed {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener was left open")
	}
}

// Between commands: closed at once.
func TestShutdownOfIdle(t *testing.T) {
	h := newHarness(t, Config{})
	fresh, used := h.dial(), h.dial()
	used.send("hello\n")
	used.want("hello")
	eventually(t, "accepted", func() bool { return h.created.Load() == 2 })
	wantNil(t, h.beginShutdown(t.Context()))
	fresh.wantEOF()
	used.wantEOF()
}

// A command begun may be finished; then the connection is closed.
func TestShutdownFinishesCommands(t *testing.T) {
	for _, test := range []struct{ begun, rest, answer string }{
		{"hel", "lo\n", "hello"},
		{"bod", "y 3\nabc", "abc"},
		{"body 10\nabc", "defghij", "abcdefghij"},
		{"body 10\n", "abcdefghijnext", "abcdefghij"},
	} {
		h := newHarness(t, Config{IdleTimeout: time.Minute}) // two users of the read deadline
		c := h.dial()
		c.send("first\n")
		c.want("first")
		c.send("%s", test.begun)
		eventually(t, "begun", func() bool { return h.begun.Load() == 1 })
		done := h.beginShutdown(t.Context())
		eventually(t, "told", func() bool { return h.aborts.Load() == 1 })
		c.send("%s", test.rest)
		c.want(test.answer)
		c.wantClosed()
		wantNil(t, done)
	}
}

// Half a line or body that does not go on is not waited for; one that does is.
func TestShutdownOfTornCommands(t *testing.T) {
	h := newHarness(t, Config{})
	torn, body, slow, slowBody := h.dial(), h.dial(), h.dial(), h.dial()
	torn.send("tor")
	body.send("body 10\nabc")
	slow.send("s")
	slowBody.send("body 10\na")
	eventually(t, "begun", func() bool { return h.begun.Load() == 4 })
	done := h.beginShutdown(t.Context())
	eventually(t, "told", func() bool { return h.aborts.Load() == 4 })
	for range 8 {
		time.Sleep(tornPatience / 5)
		slow.send("o")
		slowBody.send("b")
	}
	torn.wantClosed()
	body.wantClosed()
	slow.send("\n")
	slow.want("soooooooo")
	slow.wantClosed()
	slowBody.send("c")
	slowBody.want("abbbbbbbbc")
	slowBody.wantClosed()
	wantNil(t, done)
}

// What was sent before the shutdown is answered even if nobody had read it.
func TestShutdownAnswersWhatWasSent(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	c.send("hold\n")
	h.blocked()
	c.send("hello\n")
	done := h.beginShutdown(t.Context())
	eventually(t, "told", func() bool { return h.aborts.Load() == 1 })
	h.release <- struct{}{}
	c.want("HELD")
	c.wantClosed()
	wantNil(t, done)
}

// A wait ends without an answer.
func TestShutdownAbortsWaits(t *testing.T) {
	for _, wait := range []string{"wait", "park"} {
		h := newHarness(t, Config{})
		c := h.dial()
		c.send("hello\n%s\nnot answered\n", wait)
		h.blocked()
		wantNil(t, h.beginShutdown(t.Context()))
		c.want("hello")
		c.wantClosed()
		if n := h.aborts.Load(); n != 1 {
			t.Errorf("%d aborts", n)
		}
	}
}

// When the context ends, what is left is closed by force: torn commands,
// unfinished bodies, writes to a peer that does not read.
func TestShutdownByForce(t *testing.T) {
	h := newHarness(t, Config{})
	torn, body, deaf := h.dial(), h.dial(), h.dial()
	torn.send("tor")
	body.send("body 10\nabc")
	deaf.send("%s", strings.Repeat("big 1000000\n", 100))
	eventually(t, "all at work", func() bool { return h.begun.Load() == 2 && h.written.Load() > 0 })
	ctx, cancel := context.WithCancel(t.Context())
	done := h.beginShutdown(ctx)
	eventually(t, "told", func() bool { return h.aborts.Load() == 3 })
	select {
	case err := <-done:
		t.Fatal("gone before its time: ", err)
	default:
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	torn.wantClosed()
	body.wantClosed()
	wantNil(t, h.beginShutdown(t.Context())) // they go at once
}

// A session that ignores Abort does not hold up Shutdown, and its peer sees the
// end.
func TestShutdownOfAStuckSession(t *testing.T) {
	h := newHarness(t, Config{})
	c := h.dial()
	c.send("hold\n")
	h.blocked()
	ctx, cancel := context.WithCancel(t.Context())
	done := h.beginShutdown(ctx)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	c.wantClosed()
	h.release <- struct{}{}
	if err := h.shutdown(); err != nil {
		t.Error(err)
	}
}

// Connections that come and go while the server goes down.
func TestShutdownUnderFire(t *testing.T) {
	for range 20 {
		h := newHarness(t, Config{IdleTimeout: time.Second})
		stop := make(chan struct{})
		for range 8 {
			h.served.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					nc, err := dialRaw(h)
					if err != nil {
						return
					}
					nc.Write([]byte("hello\nbody 3\nabc"))
					nc.Read(make([]byte, 100))
					nc.Close()
				}
			})
		}
		eventually(t, "some connections", func() bool { return h.created.Load() > 20 })
		if err := h.shutdown(); err != nil {
			t.Error(err)
		}
		close(stop)
	}
}

// A session that is made while the server goes down is told once. The order of the
// two goroutines that is dangerous is made by a mutex that others have to wait for
// so long that it serves them in turn.
func TestShutdownAbortsOnce(t *testing.T) {
	const long = 5 * time.Millisecond
	for range 10 {
		var h *harness
		ready, done := make(chan struct{}), make(chan error, 1)
		h = newHarness(t, Config{NewSession: func(c *Conn) Session {
			<-ready
			c.mu.Lock()
			go func() { done <- h.shutdown() }()
			time.Sleep(long) // it waits to tell this connection
			go func() {
				time.Sleep(long) // the connection waits to make its session known
				c.mu.Unlock()
				c.mu.Lock()
				time.Sleep(long)
				c.mu.Unlock()
			}()
			return h.session(c)
		}})
		close(ready)
		h.dial()
		wantNil(t, done)
		if n := h.aborts.Load(); n != 1 || strings.Contains(h.log.String(), "panicked") {
			t.Fatalf("it was told %d times", n)
		}
	}
}
