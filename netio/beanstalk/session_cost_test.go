package beanstalk

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime/metrics"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sheafq/sheaf/router"
)

// ioCounts returns how many read and write calls this process has made. Linux does
// not count recv and send, which take their place without the race detector.
func ioCounts(t *testing.T) (reads, writes int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	var rchar, wchar int
	if _, err := fmt.Sscanf(string(b), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &rchar, &wchar, &reads, &writes); err != nil {
		t.Skip(err)
	}
	return reads, writes
}

// wakeUps estimates how many times a goroutine of this process has been made to
// run: the runtime measures every eighth time how long one had to wait for it.
func wakeUps() int {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	n := 0
	for _, c := range sample[0].Value.Float64Histogram().Counts {
		n += int(c)
	}
	return 8 * n
}

// A blockingClient has a socket that Go's poller does not know: its goroutine
// is never woken, and it knows how many system calls it has made.
type blockingClient struct {
	t             *testing.T
	fd            int
	reads, writes int
}

func newBlockingClient(t *testing.T, addr string) *blockingClient {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())}); err != nil {
		t.Fatal(err)
	}
	return &blockingClient{t: t, fd: fd}
}

// ask sends a request in one write and reads as many bytes as answer has.
func (c *blockingClient) ask(request, answer []byte) {
	n, err := unix.Write(c.fd, request)
	if n != len(request) {
		c.t.Fatal(n, err)
	}
	c.writes++
	for len(answer) > 0 {
		n, err := unix.Read(c.fd, answer)
		if n <= 0 {
			c.t.Fatal(n, err)
		}
		c.reads++
		answer = answer[n:]
	}
}

// Commands for one shard that come together cost one read, one write and one
// wake-up, however many they are: the connection's goroutine is woken by the
// input and serves the idle shard itself. Were they served one by one, or by
// the shard's goroutine, which wakes the connection's again, it would show in
// how often goroutines run.
func TestCostOfAPipeline(t *testing.T) {
	for _, shards := range []int{1, 7} {
		for _, depth := range []int{1, 64} {
			t.Run(fmt.Sprintf("shards=%d/pipelined=%d", shards, depth), func(t *testing.T) {
				c := newBlockingClient(t, startServer(t, router.Config{Shards: shards}))
				c.ask([]byte("put 5 0 600 3\r\nabc\r\n"), make([]byte, len("INSERTED 1\r\n")))
				cycle := []struct{ request, answer []byte }{
					{bytes.Repeat([]byte("peek 1\r\n"), depth), bytes.Repeat([]byte("FOUND 1 3\r\nabc\r\n"), depth)},
					{bytes.Repeat([]byte("delete 999\r\n"), depth), bytes.Repeat([]byte("NOT_FOUND\r\n"), depth)},
					{bytes.Repeat([]byte("peek-ready\r\nnosuch\r\n"), (depth+1)/2),
						bytes.Repeat([]byte("FOUND 1 3\r\nabc\r\nUNKNOWN_COMMAND\r\n"), (depth+1)/2)},
					{bytes.Repeat([]byte("reserve-job 1\r\ntouch 1\r\nrelease 1 5 0\r\n"), depth),
						bytes.Repeat([]byte("RESERVED 1 3\r\nabc\r\nTOUCHED\r\nRELEASED\r\n"), depth)},
				}
				const rounds = 300
				answer := make([]byte, 1<<16)
				run := func() {
					for _, b := range cycle {
						got := answer[:len(b.answer)]
						if c.ask(b.request, got); !bytes.Equal(got, b.answer) {
							t.Fatalf("sent %.100q, got %.200q", b.request, got)
						}
					}
				}
				run()
				batches := rounds * len(cycle)
				// The runtime wakes its poller by a pipe now and then, and more often on a
				// busy machine: it has three tries.
				for tries := 3; tries > 0; tries-- {
					r0, w0 := ioCounts(t)
					c.reads, c.writes = 0, 0
					wakes := wakeUps()
					for range rounds {
						run()
					}
					wakes = wakeUps() - wakes
					r1, w1 := ioCounts(t)
					reads, writes := r1-r0-c.reads, w1-w0-c.writes
					t.Logf("%d batches: %d reads, %d writes, %d wake-ups", batches, reads, writes, wakes)
					if raceDetector && min(reads, writes) < batches {
						t.Fatal("they are not counted")
					}
					if most := batches * 5 / 4; reads <= most && writes <= most && (raceDetector || wakes <= 2*batches) {
						return
					}
				}
				t.Error("that is too much")
			})
		}
	}
}

// Puts, reserves and deletes, too.
func TestCostOfPipelinedJobs(t *testing.T) {
	c := newBlockingClient(t, startServer(t, router.Config{Shards: 7}))
	const depth, rounds = 64, 200
	id := 0
	answer := make([]byte, 1<<16)
	// On a busy machine a shard's turn may be interrupted, and whoever comes meanwhile
	// has to be woken: so it is the best of some tries that counts.
	for try := 1; ; try++ {
		requests := make([]string, 0, 3*rounds)
		sizes := make([]int, 0, 3*rounds)
		for range rounds {
			var puts, reserves, deletes, inserted, reserved strings.Builder
			for range depth {
				id++
				puts.WriteString("put 0 0 60 3\r\nabc\r\n")
				reserves.WriteString("reserve\r\n")
				fmt.Fprintf(&deletes, "delete %d\r\n", id)
				fmt.Fprintf(&inserted, "INSERTED %d\r\n", id)
				fmt.Fprintf(&reserved, "RESERVED %d 3\r\nabc\r\n", id)
			}
			requests = append(requests, puts.String(), reserves.String(), deletes.String())
			sizes = append(sizes, inserted.Len(), reserved.Len(), depth*len("DELETED\r\n"))
		}
		r0, w0 := ioCounts(t)
		reads, writes := c.reads, c.writes
		wakes := wakeUps()
		for i, request := range requests {
			c.ask([]byte(request), answer[:sizes[i]])
		}
		wakes = wakeUps() - wakes
		r1, w1 := ioCounts(t)
		reads, writes = r1-r0-(c.reads-reads), w1-w0-(c.writes-writes)
		t.Logf("%d batches of %d: %d reads, %d writes, %d wake-ups", len(requests), depth, reads, writes, wakes)
		if raceDetector && min(reads, writes) < len(requests) {
			t.Fatal("they are not counted")
		}
		most := len(requests) * 5 / 4
		if reads <= most && writes <= most && (raceDetector || wakes <= 2*len(requests)) {
			return
		}
		if try == 5 {
			t.Fatalf("%d batches cost %d reads, %d writes and %d wake-ups", len(requests), reads, writes, wakes)
		}
	}
}
