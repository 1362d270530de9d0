package beanstalk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sheafq/sheaf/router"
)

// Bad clients, over real sockets. What they do costs them alone.

// A bystander does what a decent client does and notices when it goes wrong.
func bystander(t *testing.T, addr string) (check func()) {
	c := dial(t, addr)
	c.send("use bystander\r\nwatch bystander\r\nignore default\r\n")
	c.expect("USING bystander\r\nWATCHING 2\r\nWATCHING 1\r\n")
	return func() {
		t.Helper()
		c.send("put 0 0 60 3\r\nabc\r\nreserve\r\n")
		line, err := c.r.ReadString('\n')
		var id uint64
		if _, err2 := fmt.Sscanf(line, "INSERTED %d\r\n", &id); err != nil || err2 != nil {
			t.Fatalf("the bystander got %q, %v", line, err)
		}
		c.expect(fmt.Sprintf("RESERVED %d 3\r\nabc\r\n", id))
		c.send(fmt.Sprintf("delete %d\r\n", id))
		c.expect("DELETED\r\n")
	}
}

// A line that never ends takes no memory; when it ends there is one BAD_FORMAT.
func TestEndlessLine(t *testing.T) {
	s := newTestServer(t, router.Config{Shards: 2}, Config{})
	check := bystander(t, s.addr)
	c := dial(t, s.addr)
	piece := strings.Repeat("x", maxLine<<10)
	before := liveHeap()
	for i := range 200 {
		c.send(piece)
		if i%50 == 0 {
			check()
		}
	}
	if grown := int64(liveHeap()) - int64(before); grown > 4<<20 {
		t.Errorf("%d bytes are held", grown)
	}
	c.send("\r\nlist-tube-used\r\n")
	c.expect("BAD_FORMAT\r\nUSING default\r\n")
	check()
}

// Noise gets the protocol's errors, and nothing else happens.
func TestGarbage(t *testing.T) {
	s := newTestServer(t, router.Config{Shards: 2}, Config{})
	check := bystander(t, s.addr)
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		c := dial(t, s.addr)
		noise := make([]byte, 100_000)
		for i := range noise {
			noise[i] = byte(rnd.Uint32())
			if rnd.IntN(50) == 0 && i > 0 {
				noise[i-1], noise[i] = '\r', '\n'
			}
		}
		go func() {
			c.Write(noise)
			c.Conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(c.r)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkReplies(got); err != nil {
			t.Error(err)
		}
		if n := bytes.Count(got, []byte("BAD_FORMAT\r\n")) + bytes.Count(got, []byte("UNKNOWN_COMMAND\r\n")); n < 100 {
			t.Errorf("only %d errors came back", n)
		}
		check()
	}
	if st := s.stats(); st.Ready+st.Reserved+st.Delayed+st.Buried != 0 {
		t.Errorf("jobs have come of it: %+v", st)
	}
}

// One byte at a time is as good as any other way.
func TestOneByteAtATime(t *testing.T) {
	addr := startServer(t, router.Config{Shards: 2})
	c := dial(t, addr)
	c.Conn.(*net.TCPConn).SetNoDelay(true)
	for _, b := range []byte("use x\r\nput 1 0 60 7\r\nab\r\n\x00cd\r\nput 1 0 60 2\r\nabxxwatch x\r\nreserve\r\ndelete 1\r\nquit\r\n") {
		c.send(string(b))
		// Most arrive alone: the server is at least as fast as we are.
		runtime.Gosched()
	}
	c.expect("USING x\r\nINSERTED 1\r\nEXPECTED_CRLF\r\nWATCHING 2\r\nRESERVED 1 7\r\nab\r\n\x00cd\r\nDELETED\r\n")
	if b, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("after quit: %q, %v", b, err)
	}
}

// A client that asks for a hundred thousand large bodies and reads none is
// stopped being read. It takes a bounded amount of memory, nobody else is
// affected, and when it goes its goroutine goes.
func TestClientThatNeverReads(t *testing.T) {
	s := newTestServer(t, router.Config{Shards: 2}, Config{})
	check := bystander(t, s.addr)
	owner := dial(t, s.addr)
	const size, jobs = 60_000, 200
	for i := range jobs {
		owner.send(fmt.Sprintf("put 0 0 600 %d\r\n%s\r\n", size, strings.Repeat("x", size)))
		owner.expect(fmt.Sprintf("INSERTED %d\r\n", i+1))
	}
	for _, command := range []string{"peek 1\r\n", "peek-ready\r\n", "reserve\r\n", "stats\r\n", "nosuch-command\r\n"} {
		conns := s.net.Connections()
		goroutines := runtime.NumGoroutine()
		before := liveHeap()
		c := dial(t, s.addr)
		c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		flood := strings.Repeat(command, 100_000)
		for i := range 200 {
			c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			if _, err := io.WriteString(c, flood); errors.Is(err, os.ErrDeadlineExceeded) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if i == 199 {
				t.Fatalf("%q: never stopped being read", command)
			}
		}
		check()
		if grown := int64(liveHeap()) - int64(before); grown > 3<<20 {
			t.Errorf("%q: %d bytes are held", command, grown)
		}
		check()
		c.Close()
		poll(t, "the connection is gone", func() bool { return s.net.Connections() == conns })
		poll(t, "its goroutine is gone", func() bool { return runtime.NumGoroutine() <= goroutines })
		poll(t, "its jobs are back", func() bool { return s.stats().Ready == jobs })
	}
	for i := range jobs {
		owner.send("reserve\r\n")
		owner.expect(fmt.Sprintf("RESERVED %d %d\r\n", i+1, size))
		if _, err := owner.r.Discard(size + 2); err != nil {
			t.Fatal(err)
		}
	}
}

// Thousands of connections die in every phase; no job of anybody else is lost,
// and nothing is left of them.
func TestConnectionsThatDie(t *testing.T) {
	const jobs, workers, each = 100, 16, 200
	for _, shards := range []int{1, 7} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			s := newTestServer(t, router.Config{Shards: shards}, Config{})
			owner := dial(t, s.addr)
			owner.send("use keep\r\n")
			owner.expect("USING keep\r\n")
			for i := range jobs {
				owner.send(fmt.Sprintf("put %d 0 600 4\r\nkeep\r\n", i))
				owner.expect(fmt.Sprintf("INSERTED %d\r\n", i+1))
			}
			phases := []string{
				"", "p", "put 0 0 60 10", "put 0 0 60 10\r\n", "put 0 0 60 10\r\n01234", "put 0 0 60 10\r\n0123456789\r",
				"put 0 0 60 60000\r\n" + strings.Repeat("x", 50000), "put 0 0 60 10\r\n0123456789xx",
				"put 0 0 60 100000\r\n" + strings.Repeat("x", 70000),
				"reserve\r\n", "watch keep\r\nreserve\r\n", "watch a\r\nwatch b\r\nwatch c\r\nwatch d\r\nreserve\r\n",
				"watch a\r\nwatch keep\r\nwatch b\r\nreserve\r\nreserve\r\nreserve\r\nreserve-with-timeout 1\r\n",
				"watch keep\r\nreserve\r\nstats\r\nreserve\r\nlist-tubes\r\nreserve\r\nput 0 0 1 100\r\nxx",
				"use gone\r\nwatch keep\r\nreserve\r\nuse z\r\nstats-tube keep\r\nquit\r\n", "reserve-with-timeout 1000\r\nlist-tubes\r\n",
				"reserve-job 7\r\nstats-job 7\r\n" + strings.Repeat("peek 1\r\n", 500), strings.Repeat("z", 10000), "\x00\x00\x00\r\n",
			}
			var wg sync.WaitGroup
			for w := range workers {
				rnd := rand.New(rand.NewPCG(uint64(w), uint64(shards)))
				wg.Go(func() {
					for range each {
						nc, err := net.Dial("tcp", s.addr)
						if err != nil {
							t.Error(err)
							return
						}
						io.WriteString(nc, phases[rnd.IntN(len(phases))]) // may be reset
						switch rnd.IntN(4) {
						case 0: // reads something first
							nc.SetReadDeadline(time.Now().Add(time.Millisecond))
							io.CopyN(io.Discard, nc, 20)
						case 1:
							nc.(*net.TCPConn).CloseWrite()
							nc.SetReadDeadline(time.Now().Add(time.Millisecond))
							io.Copy(io.Discard, nc)
						case 2:
							nc.(*net.TCPConn).SetLinger(0) // a reset, not an end
						}
						nc.Close()
					}
				})
			}
			wg.Wait()
			last := dial(t, s.addr) // comes out of the listener's queue behind them all
			last.send("list-tube-used\r\n")
			last.expect("USING default\r\n")
			last.Close()
			poll(t, "all are gone", func() bool { return s.net.Connections() == 1 })
			poll(t, "the engine has forgotten them", func() bool {
				st := s.stats()
				return st.Connections == 1 && st.Reserved == 0 && st.Waiting == 0 && st.Queued == 0
			})
			st := s.stats()
			if st.Ready != jobs || st.Delayed+st.Buried != 0 || st.Total != jobs || st.Tubes != 2 {
				t.Errorf("%d ready, %d delayed, %d buried jobs of %d, %d tubes",
					st.Ready, st.Delayed, st.Buried, st.Total, st.Tubes)
			}
			if st.Producers != 1 || st.Workers != 0 || st.TotalConnections < workers*each {
				t.Errorf("%d producers, %d workers, %d connections", st.Producers, st.Workers, st.TotalConnections)
			}
			owner.send("watch keep\r\n")
			owner.expect("WATCHING 2\r\n")
			for i := range jobs {
				owner.send("reserve\r\n")
				owner.expect(fmt.Sprintf("RESERVED %d 4\r\nkeep\r\n", i+1))
			}
		})
	}
}

// A half-closed client gets the answers to all that it has sent; so does one
// whose wait that ends.
func TestHalfCloseOverSockets(t *testing.T) {
	for _, shards := range []int{1, 7} {
		s := newTestServer(t, router.Config{Shards: shards}, Config{})
		for _, talk := range []struct{ send, want string }{
			{"", ""},
			{"list-tube-used\r\ndelete 9", "USING default\r\n"},
			{"reserve\r\nlist-tube-used\r\n", "TIMED_OUT\r\nUSING default\r\n"},
			{"watch a\r\nwatch b\r\nwatch c\r\nreserve\r\nreserve-with-timeout 9\r\nlist-tube-used\r\n",
				"WATCHING 2\r\nWATCHING 3\r\nWATCHING 4\r\nTIMED_OUT\r\nTIMED_OUT\r\nUSING default\r\n"},
			{"put 0 0 1 1000000\r\n" + strings.Repeat("x", 1000000) + "\r\nlist-tube-used\r\n", "JOB_TOO_BIG\r\nUSING default\r\n"},
			{strings.Repeat("peek 1\r\n", 50_000), strings.Repeat("NOT_FOUND\r\n", 50_000)},
		} {
			c := dial(t, s.addr)
			go func() {
				io.WriteString(c, talk.send)
				c.Conn.(*net.TCPConn).CloseWrite()
			}()
			got, err := io.ReadAll(c.r)
			if string(got) != talk.want || err != nil {
				t.Errorf("sent %.100q\ngot  %.200q (%v)\nwant %.200q", talk.send, got, err, talk.want)
			}
		}
	}
}

// Shutdown answers what was begun, and ends waits without an answer.
func TestShutdownWhileWaiting(t *testing.T) {
	s := newTestServer(t, router.Config{Shards: 7}, Config{})
	one, many := dial(t, s.addr), dial(t, s.addr)
	one.send("list-tube-used\r\nreserve\r\nlist-tube-used\r\n")
	many.send("watch a\r\nwatch b\r\nwatch c\r\nreserve\r\nlist-tube-used\r\n")
	poll(t, "both wait", func() bool { return s.stats().Waiting == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.net.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		*client
		want string
	}{{one, "USING default\r\n"}, {many, "WATCHING 2\r\nWATCHING 3\r\nWATCHING 4\r\n"}} {
		if got, err := io.ReadAll(c.r); string(got) != c.want || err != nil {
			t.Errorf("got %q (%v), want %q", got, err, c.want)
		}
	}
	poll(t, "no client is left", func() bool { return s.stats().Connections == 0 })
}

// A large body takes the way past the read buffer, and comes back as it was.
func TestLargeBodyOverSockets(t *testing.T) {
	s := newTestServer(t, router.Config{Shards: 2}, Config{MaxJobSize: 8 << 20})
	body := make([]byte, 5<<20+3)
	rand.NewChaCha8([32]byte{}).Read(body)
	a, b := dial(t, s.addr), dial(t, s.addr)
	b.send("reserve\r\nlist-tube-used\r\n")
	for i := 1; i <= 3; i++ {
		a.send(fmt.Sprintf("list-tube-used\r\nput 0 0 60 %d\r\n%s\r\nlist-tube-used\r\npeek %d\r\n", len(body), body, i))
		a.expect(fmt.Sprintf("USING default\r\nINSERTED %d\r\nUSING default\r\nFOUND %d %d\r\n%s\r\n", i, i, len(body), body))
	}
	b.expect(fmt.Sprintf("RESERVED 1 %d\r\n%s\r\nUSING default\r\n", len(body), body))
}
