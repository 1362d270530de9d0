package beanstalk

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sheafq/sheaf/router"
)

// A pipeliner is a connection that puts, reserves and deletes jobs in a tube of
// its own, so many at a time in one write, and allocates nothing.
type pipeliner struct {
	tb    testing.TB
	conn  net.Conn
	r     *bufio.Reader
	size  int
	puts  []byte // so many put commands
	gets  []byte
	dels  []byte // room for so many delete commands
	depth int
	ids   []uint64 // of the jobs that were put and not deleted, in order
	next  int      // index in ids of the first that is not reserved
}

func newPipeliner(tb testing.TB, addr, tube string, depth, size, jobs int) *pipeliner {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	p := &pipeliner{
		tb: tb, conn: conn, r: bufio.NewReaderSize(conn, 1<<16), depth: depth, size: size,
		gets: bytes.Repeat([]byte("reserve\r\n"), depth),
		dels: make([]byte, 0, depth*len("delete 18446744073709551615\r\n")),
		ids:  make([]uint64, 0, jobs),
	}
	put := fmt.Appendf(nil, "put 0 0 600 %d\r\n%s\r\n", size, bytes.Repeat([]byte("x"), size))
	p.puts = bytes.Repeat(put, depth)
	p.write(fmt.Appendf(nil, "use %s\r\nwatch %s\r\nignore default\r\n", tube, tube))
	for range 3 {
		p.line("")
	}
	return p
}

func (p *pipeliner) write(b []byte) {
	if _, err := p.conn.Write(b); err != nil {
		p.tb.Fatal(err)
	}
}

// line reads a line, which must begin with word, and returns the rest of it.
func (p *pipeliner) line(word string) []byte {
	line, err := p.r.ReadSlice('\n')
	if err != nil || len(line) < len(word)+2 || string(line[:len(word)]) != word {
		p.tb.Fatalf("got %q (%v), want %s", line, err, word)
	}
	return line[len(word) : len(line)-2]
}

// number reads the number at the beginning of b.
func number(b []byte) (n uint64) {
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// put puts depth jobs.
func (p *pipeliner) put() {
	p.write(p.puts)
	for range p.depth {
		p.ids = append(p.ids, number(p.line("INSERTED ")))
	}
}

// reserve reserves as many.
func (p *pipeliner) reserve() {
	p.write(p.gets)
	for range p.depth {
		if id := number(p.line("RESERVED ")); id != p.ids[p.next] {
			p.tb.Fatalf("got job %d, want %d", id, p.ids[p.next])
		}
		p.next++
		if _, err := p.r.Discard(p.size + 2); err != nil {
			p.tb.Fatal(err)
		}
	}
}

// delete deletes as many, the last ones first.
func (p *pipeliner) delete() {
	p.dels = p.dels[:0]
	for range p.depth {
		last := len(p.ids) - 1
		p.dels = append(p.dels, "delete "...)
		p.dels = strconv.AppendUint(p.dels, p.ids[last], 10)
		p.dels = append(p.dels, "\r\n"...)
		p.ids = p.ids[:last]
	}
	p.next -= p.depth
	p.write(p.dels)
	for range p.depth {
		p.line("DELETED")
	}
}

// cpu returns the time that all threads of the process have used.
func cpu(tb testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCycle puts, reserves and deletes through loopback. An op is a
// command, a third of them each; so many are pipelined in a write. Of what is
// reported beside, all includes the client's part, who runs in this process:
// cpu-ns/cmd is user and system time of all threads, and allocs/cmd has a third
// for the bodies that jobs keep.
func BenchmarkCycle(b *testing.B) {
	for _, size := range []int{128, 16 << 10} {
		for _, depth := range []int{64, 1} {
			for _, conns := range []int{1, 8, 64} {
				b.Run(fmt.Sprintf("body=%d/pipelined=%d/conns=%d", size, depth, conns), func(b *testing.B) {
					benchmarkCycle(b, size, depth, conns)
				})
			}
		}
	}
}

func benchmarkCycle(b *testing.B, size, depth, conns int) {
	addr := startServer(b, router.Config{Shards: runtime.GOMAXPROCS(0)})
	clients := make([]*pipeliner, conns)
	for i := range clients {
		clients[i] = newPipeliner(b, addr, fmt.Sprint("tube-", i), depth, size, depth)
	}
	cycle := func(p *pipeliner) {
		p.put()
		p.reserve()
		p.delete()
	}
	for _, p := range clients {
		cycle(p)
	}
	perCycle := 3 * depth
	rounds := (b.N + conns*perCycle - 1) / (conns * perCycle)
	commands := float64(rounds * conns * perCycle)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used := cpu(b)
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, p := range clients {
		wg.Go(func() {
			for range rounds {
				cycle(p)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	used = cpu(b) - used
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.Elapsed())/commands, "ns/op")
	b.ReportMetric(float64(used)/commands, "cpu-ns/cmd")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/commands, "allocs/cmd")
}
