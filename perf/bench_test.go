package perf

// Where the client itself is: against a replier that knows no queue, with no
// other work on its core.

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// A replier answers put, reserve and delete with lines that are always the
// same, as fast as this process can: what it costs is a scan for the ends of
// lines, a read and a write. It is no queue.
type replier struct{ l net.Listener }

func newReplier(tb testing.TB, size int) *replier {
	tb.Helper()
	body := bytes.Repeat([]byte("x"), size)
	return startReplier(tb, func(c net.Conn) { serveLines(c, body) })
}

// startReplier has each connection served, and closed behind that.
func startReplier(tb testing.TB, serve func(net.Conn)) *replier {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &replier{l: l}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	tb.Cleanup(func() { l.Close(); <-done })
	return r
}

func serveLines(c net.Conn, body []byte) {
	reserved := []byte("RESERVED 1 " + strconv.Itoa(len(body)) + "\r\n" + string(body) + "\r\n")
	in, out := make([]byte, 0, 1<<20), make([]byte, 0, 1<<20)
	for {
		n, err := c.Read(in[len(in):cap(in)])
		if err != nil {
			return
		}
		in = in[:len(in)+n]
		rest := in
		for {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				break
			}
			line := rest[:end-1]
			taken := end + 1
			switch line[0] {
			case 'p':
				size, _ := decimal(line[bytes.LastIndexByte(line, ' ')+1:])
				taken += size + 2
				if taken <= len(rest) {
					out = append(out, "INSERTED 1\r\n"...)
				}
			case 'r':
				out = append(out, reserved...)
			case 'd':
				out = append(out, "DELETED\r\n"...)
			case 'u':
				out = append(out, "USING x\r\n"...)
			default:
				out = append(out, "WATCHING 1\r\n"...)
			}
			if taken > len(rest) {
				break
			}
			rest = rest[taken:]
		}
		in = in[:copy(in[:cap(in)], rest)]
		if _, err := c.Write(out); err != nil {
			return
		}
		out = out[:0]
	}
}

// newTestSession is a session of a scenario against a server that runs in the
// test.
func newTestSession(tb testing.TB, addr, scenario string, change func(*Config)) *session {
	tb.Helper()
	sc, err := Find(scenario)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := sc.Config.with(change)
	if err := cfg.Validate(); err != nil {
		tb.Fatal(err)
	}
	return &session{
		ctx: context.Background(), scenario: sc, cfg: cfg, target: &Target{Name: "test", Addr: addr},
		wire: newWire(&cfg), prefix: "t-",
	}
}

// The ceiling of a core of the client, in operations a second that it could do
// if it never had to wait: the reciprocal of its CPU per operation.
func BenchmarkClient(b *testing.B) {
	for _, tt := range []struct {
		name               string
		connections, depth int
		body               int64
		threads            int
	}{
		{"8x64", 8, 64, 128, 1}, {"8x16of16KiB", 8, 16, 16 << 10, 1}, {"64x1", 64, 1, 128, 1}, {"1x1", 1, 1, 128, 1},
		{"8x64by2", 8, 64, 128, 2}, {"64x1by2", 64, 1, 128, 2},
	} {
		b.Run(tt.name, func(b *testing.B) {
			r := newReplier(b, int(tt.body))
			s := newTestSession(b, r.l.Addr().String(), "cycle", func(c *Config) {
				c.Connections, c.Depth, c.Body, c.Tubes = tt.connections, tt.depth, Fixed(tt.body), tt.connections
				c.WarmUp, c.Duration, c.Threads = 0, time.Hour, tt.threads
			})
			p := s.cycle("", 0, always(scriptCycle))
			p.groups[0].quota = int64(b.N+2) / 3
			p.duration = 0
			benchmarkPlan(b, s, p)
		})
	}
}

// benchmarkPlan reports what a load has taken of the client.
func benchmarkPlan(b *testing.B, s *session, p plan) {
	m, err := s.drive(p, "")
	if err != nil {
		b.Fatal(err)
	}
	perOp := float64(m.clientCPU) / float64(m.rec.answers)
	b.ReportMetric(perOp, "cpu-ns/op")
	b.ReportMetric(1e9/perOp, "ops/core-s")
	b.ReportMetric(float64(m.rec.answers)/m.elapsed.Seconds(), "ops/s")
}

// TestDriverAllocatesNothing: what a load allocates does not depend on how long
// it is.
func TestDriverAllocatesNothing(t *testing.T) {
	r := newReplier(t, 128)
	allocations := func(jobs int64) uint64 {
		s := newTestSession(t, r.l.Addr().String(), "cycle", func(c *Config) { c.Connections, c.Depth = 2, 32 })
		p := s.cycle("", 0, always(scriptCycle))
		p.groups[0].quota, p.duration, p.warmUp = jobs, 0, 0
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := s.drive(p, ""); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	allocations(1000)
	few, many := allocations(1000), allocations(31_000)
	// The observer's samples, and the runtime's own doings, are no matter of
	// jobs.
	if many > few+300 {
		t.Errorf("30,000 more jobs allocate %d times more", many-few)
	}
}
