package netio

// Poke, Kill and Expect: a session that has something to say although nothing
// was read.

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A poker is an echo that says "POKED n" when it was poked, n being what said
// was then.
type poker struct {
	echo
	said   *atomic.Int64
	poked  func(*Conn) error // instead, if it is not nil
	closed chan struct{}
}

func (p *poker) Poked() error {
	if p.poked != nil {
		return p.poked(p.c)
	}
	fmt.Fprintf(p.c, "POKED %d\n", p.said.Load())
	return nil
}

func (p *poker) Close() { p.echo.Close(); close(p.closed) }

// newPoker starts a server and connects to it. change is called when the session
// is made.
func newPoker(t *testing.T, config Config, change func(*poker), addr ...string) (*harness, *client, *poker) {
	t.Helper()
	made, ready := make(chan *poker, 1), make(chan struct{})
	var h *harness
	config.NewSession = func(c *Conn) Session {
		<-ready // h is
		h.created.Add(1)
		p := &poker{
			echo: echo{h: h, c: c, hung: make(chan struct{}), aborted: make(chan struct{})},
			said: new(atomic.Int64), closed: make(chan struct{}),
		}
		if change != nil {
			change(p)
		}
		made <- p
		return p
	}
	h = newHarness(t, config, addr...)
	close(ready)
	c := h.dial()
	return h, c, <-made
}

func TestPoke(t *testing.T) {
	t.Run("before the first read", func(t *testing.T) {
		_, c, _ := newPoker(t, Config{}, func(p *poker) { p.c.Poke() })
		c.want("POKED 0")
		c.send("hello\n")
		c.want("hello")
	})
	t.Run("while parked", func(t *testing.T) {
		_, c, p := newPoker(t, Config{}, nil)
		for i := range 200 {
			p.said.Store(int64(i))
			p.c.Poke()
			c.want(fmt.Sprint("POKED ", i))
			if i%7 == 0 {
				c.send("hello\n")
				c.want("hello")
			}
		}
	})
	t.Run("in Serve, where many are one", func(t *testing.T) {
		h, c, p := newPoker(t, Config{}, nil)
		c.send("one\nhold\ntwo\n")
		h.blocked()
		for range 10 {
			p.c.Poke()
		}
		h.release <- struct{}{}
		c.want("one", "HELD", "two", "POKED 0")
		c.send("three\n")
		c.want("three")
	})
	t.Run("in a wait without buffers", func(t *testing.T) {
		h, c, p := newPoker(t, Config{}, nil)
		c.send("park\n")
		h.blocked()
		p.c.Poke()
		c.finish()
		c.want("HUNGUP", "POKED 0")
		c.wantEOF()
	})
	t.Run("in the middle of a body", func(t *testing.T) {
		h, c, p := newPoker(t, Config{}, nil)
		body := strings.Repeat("x", 3*ReadSize)
		c.send("body %d\n", len(body))
		eventually(t, "the body is begun", func() bool { return h.begun.Load() == 1 })
		for i := range 10 {
			p.said.Store(int64(i))
			p.c.Poke()
			c.want(fmt.Sprint("POKED ", i))
			c.send("%s", body[:len(body)/10])
			body = body[len(body)/10:]
		}
		c.send("%s", body)
		got := make([]byte, 3*ReadSize)
		if _, err := io.ReadFull(c.r, got); err != nil || string(got) != strings.Repeat("x", len(got)) {
			t.Fatal("the body is spoilt: ", err)
		}
		c.want("")
	})
	t.Run("in a torn line", func(t *testing.T) {
		h, c, p := newPoker(t, Config{}, nil)
		c.send("hel")
		eventually(t, "the line is begun", func() bool { return h.begun.Load() == 1 })
		p.c.Poke()
		c.want("POKED 0")
		c.send("lo\n")
		c.want("hello")
	})
	t.Run("after the end", func(t *testing.T) {
		_, c, p := newPoker(t, Config{}, nil)
		c.send("quit\n")
		c.wantEOF()
		<-p.closed
		for range 10 {
			p.c.Poke()
			p.c.Kill()
		}
	})
	t.Run("whose answer ends the connection", func(t *testing.T) {
		for _, err := range []error{io.EOF, errors.New("enough")} {
			_, c, p := newPoker(t, Config{}, func(p *poker) {
				p.poked = func(c *Conn) error { c.Write([]byte("bye\n")); return err }
			})
			p.c.Poke()
			c.want("bye")
			c.wantEOF()
		}
	})
	t.Run("that panics", func(t *testing.T) {
		h, c, p := newPoker(t, Config{}, func(p *poker) { p.poked = func(*Conn) error { panic("as told") } })
		p.c.Poke()
		c.wantClosed()
		<-p.closed
		if !strings.Contains(h.log.String(), "as told") {
			t.Error("the panic is not in the log")
		}
	})
}

// TestPokeFromEverywhere: whatever was done before a Poke is seen by a Poked
// after it, though nothing comes in: no poke is lost at the moment of parking.
func TestPokeFromEverywhere(t *testing.T) {
	for _, lines := range []bool{false, true} {
		_, c, p := newPoker(t, Config{IdleTimeout: time.Minute}, nil)
		const pokers = 8
		rounds := 3000
		if testing.Short() || raceDetector {
			rounds = 500
		}
		seen := make(chan int64, 1)
		go func() {
			defer close(seen)
			for {
				line, err := c.r.ReadString('\n')
				if err != nil {
					return
				}
				if n, ok := strings.CutPrefix(line, "POKED "); ok {
					v, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
					seen <- v
				}
			}
		}()
		for round := range rounds {
			var wg sync.WaitGroup
			for i := range pokers {
				wg.Go(func() {
					for range (i + round) % 4 {
						runtime.Gosched()
					}
					p.said.Add(1)
					p.c.Poke()
				})
			}
			if lines {
				c.send("line\n")
			}
			for want := int64((round + 1) * pokers); ; {
				select {
				case v := <-seen:
					if v < want {
						continue
					}
				case <-time.After(patience):
					t.Fatalf("round %d: a poke is lost", round)
				}
				break
			}
			wg.Wait()
		}
		c.Close()
		for range seen {
		}
	}
}

// TestPokesWithoutEnd: who is poked all the time still reads, and is shut down.
func TestPokesWithoutEnd(t *testing.T) {
	var pokes atomic.Int64
	h, c, p := newPoker(t, Config{}, func(p *poker) {
		p.poked = func(c *Conn) error {
			pokes.Add(1)
			c.Poke() // there is more at once
			if pokes.Load()%1000 == 0 {
				c.Write([]byte(".\n"))
			}
			return nil
		}
	})
	p.c.Poke()
	for i := range 20 {
		c.send("hello %d\n", i)
		for {
			line, err := c.r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == fmt.Sprintf("hello %d\n", i) {
				break
			}
		}
	}
	go io.Copy(io.Discard, c.r)
	if err := h.shutdown(); err != nil {
		t.Error(err)
	}
}

// TestKill ends a connection wherever it is.
func TestKill(t *testing.T) {
	t.Run("parked", func(t *testing.T) {
		_, c, p := newPoker(t, Config{}, nil)
		c.send("hello\n")
		c.want("hello")
		p.c.Kill()
		c.wantClosed()
		<-p.closed
	})
	t.Run("in a write that its peer does not take", func(t *testing.T) {
		for _, what := range []string{"poked", "asked"} {
			writing := make(chan struct{})
			_, c, p := newPoker(t, Config{}, func(p *poker) {
				p.poked = func(c *Conn) error {
					close(writing)
					for range 64 {
						c.WriteBody(bigBody)
					}
					return nil
				}
			}, "unix:"+t.TempDir()+"/sock")
			if what == "poked" {
				p.c.Poke()
				<-writing
			} else {
				c.send("%s", strings.Repeat(fmt.Sprintf("big %d\n", len(bigBody)), 8))
				eventually(t, "it writes", func() bool { return p.h.written.Load() > 0 })
			}
			time.Sleep(10 * time.Millisecond) // most likely it is blocked by now; it does not matter
			p.c.Kill()
			select {
			case <-p.closed:
			case <-time.After(patience):
				t.Fatalf("%s: a write that is killed goes on", what)
			}
		}
	})
	t.Run("before the first read", func(t *testing.T) {
		_, c, p := newPoker(t, Config{}, func(p *poker) { p.c.Kill() })
		c.wantClosed()
		<-p.closed
	})
}

// TestIdleTimeoutAndExpect: pokes are no sign of life of the peer; but while it
// waits for something it need not give one, and afterwards it has all of the time
// again.
func TestIdleTimeoutAndExpect(t *testing.T) {
	const idle = 400 * time.Millisecond
	// A pause of the machine may make the end late, but hardly every time.
	timely := func(t *testing.T, most time.Duration, try func(t *testing.T) time.Duration) {
		var all []time.Duration
		for range 5 {
			took := try(t)
			if took <= most {
				return
			}
			all = append(all, took)
		}
		t.Errorf("closed after %v, want %v at most", all, most)
	}
	t.Run("poked, and silent", func(t *testing.T) {
		timely(t, idle*5/2, func(t *testing.T) time.Duration {
			began := time.Now()
			_, c, p := newPoker(t, Config{IdleTimeout: idle}, func(p *poker) { p.c.Poke() })
			n := 0
			for ; ; n++ {
				line, err := c.r.ReadString('\n')
				if err == io.EOF {
					break
				}
				if err != nil || line != "POKED 0\n" {
					t.Fatalf("after %d pokes: %q, %v", n, line, err)
				}
				p.c.Poke() // it is never long without one
			}
			took := time.Since(began)
			if took < idle {
				t.Errorf("closed after %v", took)
			}
			if n < 3 {
				t.Errorf("poked %d times", n)
			}
			return took
		})
	})
	t.Run("it waits for something", func(t *testing.T) {
		timely(t, 2*idle, func(t *testing.T) time.Duration {
			_, c, p := newPoker(t, Config{IdleTimeout: idle}, func(p *poker) {
				p.c.Expect(true)
				p.poked = func(c *Conn) error {
					c.Write([]byte("here it is\n"))
					c.Expect(false)
					return nil
				}
			})
			c.send("hello\n")
			c.want("hello")
			time.Sleep(idle*5/2 + idle*4/10) // late in one of the times that the poll for idleness takes
			began := time.Now()
			p.c.Poke()
			c.want("here it is")
			c.wantEOF()
			took := time.Since(began)
			if took < idle {
				t.Errorf("closed %v after it got what it waited for", took)
			}
			return took
		})
	})
}

// A connection to which nothing can be written any more ends, also when what could
// not be written is off the queue before Poked returns.
func TestPokedCannotWrite(t *testing.T) {
	_, _, p := newPoker(t, Config{maxOutput: 100}, func(p *poker) {
		p.poked = func(c *Conn) error {
			c.Write(make([]byte, 200))
			return nil
		}
	})
	p.c.nc.(*net.TCPConn).CloseWrite()
	p.c.Poke()
	select {
	case <-p.closed:
	case <-time.After(patience):
		t.Error("it stays open")
	}
}
