package netio

// What a request costs: system calls, allocations, time.

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
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

// blockingClient connects with a socket that Go's poller does not know: one
// read and one write a request, exactly.
func blockingClient(t testing.TB, h *harness) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	addr := h.l.Addr().(*net.TCPAddr)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		t.Fatal(err)
	}
	return fd
}

// ask sends a request and reads as many bytes as buf has.
func ask(t testing.TB, fd int, request, buf []byte) {
	if n, err := unix.Write(fd, request); n != len(request) || err != nil {
		t.Fatal(n, err)
	}
	for len(buf) > 0 {
		n, err := unix.Read(fd, buf)
		if n <= 0 || err != nil {
			t.Fatal(n, err)
		}
		buf = buf[n:]
	}
}

// One request: one read and one write.
func TestSystemCallsPerRequest(t *testing.T) {
	if !raceDetector {
		t.Skip("only with the race detector, see ioCounts")
	}
	for _, config := range []Config{{}, {IdleTimeout: 60e9}} {
		h := newHarness(t, config)
		fd := blockingClient(t, h)
		buf := make([]byte, 6)
		ask(t, fd, []byte("hello\n"), buf)
		const n = 2000
		r0, w0 := ioCounts(t)
		for range n {
			ask(t, fd, []byte("hello\n"), buf)
		}
		r1, w1 := ioCounts(t)
		// The client's own are in the count. The runtime wakes its poller by a
		// pipe now and then.
		reads, writes := r1-r0-n, w1-w0-n
		t.Logf("%d requests: %d reads, %d writes", n, reads, writes)
		if reads < n || writes < n || reads > n*5/4 || writes > n*5/4 {
			t.Errorf("%d requests cost %d reads and %d writes", n, reads, writes)
		}
	}
}

// A connection gives way one time in parksPerYield, and those that came together not together.
func TestGivesWay(t *testing.T) {
	var yields atomic.Int64
	h := newHarness(t, Config{yield: func() { yields.Add(1) }})
	const conns, rounds = 8, 10
	first := make(map[int]bool) // after how many requests they gave way first
	for range conns {
		fd, buf := blockingClient(t, h), make([]byte, 6)
		at, before := 0, yields.Load()
		for n := range rounds * parksPerYield {
			ask(t, fd, []byte("hello\n"), buf) // it gives way after the answer, and before the next
			if at == 0 && yields.Load() > before {
				at = n
				first[n] = true
			}
		}
	}
	if n := yields.Load(); n < conns*(rounds-1) || n > conns*(rounds+1) {
		t.Errorf("%d connections with %d requests gave way %d times", conns, rounds*parksPerYield, n)
	}
	if len(first) < conns-1 {
		t.Errorf("they gave way first after so many requests: %v", first)
	}
}

var costs = []struct{ name, request, answer string }{
	{"line", "hello\n", "hello\n"},
	{"pipelined", strings.Repeat("hello\n", 64), strings.Repeat("hello\n", 64)},
	{"many answers", strings.Repeat("big 500\n", 40), strings.Repeat(string(bigBody[:500])+"\n", 40)},
	{"large answer", "big 5000\nhello\n", string(bigBody[:5000]) + "\nhello\n"},
}

func TestNoAllocationPerRequest(t *testing.T) {
	if raceDetector {
		t.Skip("not with the race detector")
	}
	for _, cost := range costs {
		for _, config := range []Config{{}, {IdleTimeout: 60e9}} {
			h := newHarness(t, config)
			fd := blockingClient(t, h)
			request, buf := []byte(cost.request), make([]byte, len(cost.answer))
			got := testing.AllocsPerRun(2000, func() { ask(t, fd, request, buf) })
			if !bytes.Equal(buf, []byte(cost.answer)) {
				t.Errorf("%s: wrong answer", cost.name)
			}
			if got > 0 {
				t.Errorf("%s: %v allocations a request", cost.name, got)
			}
		}
	}
}

// Nor does a connection allocate whose answers, between two parks, sometimes fit into a
// small buffer and sometimes do not.
func TestNoAllocationForPipelinesOfAllLengths(t *testing.T) {
	if raceDetector {
		t.Skip("not with the race detector")
	}
	h := newHarness(t, Config{})
	fd := blockingClient(t, h)
	const line = "big 500\n"
	requests, buf := []byte(strings.Repeat(line, 40)), make([]byte, 40*501)
	got := testing.AllocsPerRun(1000, func() {
		for _, n := range []int{1, 12, 3, 1, 40} {
			ask(t, fd, requests[:n*len(line)], buf[:n*501])
		}
	})
	if got > 0 {
		t.Errorf("%v allocations for five requests", got)
	}
}

func BenchmarkEcho(b *testing.B) {
	h := newHarness(b, Config{})
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("pipelined=%d", depth), func(b *testing.B) {
			fd := blockingClient(b, h)
			request := bytes.Repeat([]byte("hello\n"), depth)
			buf := make([]byte, len(request))
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; left -= depth {
				n := min(left, depth) * len("hello\n")
				ask(b, fd, request[:n], buf[:n])
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			nc, err := dialRaw(h)
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			request, buf := []byte("hello\n"), make([]byte, 6)
			for pb.Next() {
				nc.Write(request)
				if _, err := io.ReadFull(nc, buf); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// Where copying a body becomes dearer than a segment of its own.
func BenchmarkBody(b *testing.B) {
	h := newHarness(b, Config{})
	for _, size := range []int{256, 512, 1024, 2048, 4096, 8192} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			fd := blockingClient(b, h)
			const depth = 16
			request := bytes.Repeat(fmt.Appendf(nil, "big %d\n", size), depth)
			buf := make([]byte, (size+1)*depth)
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; left -= depth {
				ask(b, fd, request, buf)
			}
		})
	}
}
