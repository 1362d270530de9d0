package beanstalk

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/sheafq/sheaf/router"
)

// shardCounts are the numbers of shards that every test of sessions runs with.
var shardCounts = []int{1, 2, 7}

// A bench is an engine with a protocol on it and no sockets, in a bubble of
// synctest: its time stands still but for sleep.
type bench struct {
	t      *testing.T
	engine *router.Router
	*Protocol
	peers []*peer // in the order of connecting
}

// inBubble runs f in a bubble of its own for each number of shards, and checks
// that the engine has forgotten all clients in the end.
func inBubble(t *testing.T, cfg Config, mem int64, f func(b *bench)) {
	t.Helper()
	for _, n := range shardCounts {
		t.Run(fmt.Sprintf("shards=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, cfg, router.Config{Shards: n, MaxMemory: mem})
				defer b.close() // also when f fails: no goroutine may be left in a bubble
				f(b)
			})
		})
	}
}

func newBench(t *testing.T, cfg Config, engine router.Config) *bench {
	var err error
	if cfg.Router, err = router.New(engine); err != nil {
		t.Fatal(err)
	}
	if cfg.MaxJobSize == 0 {
		cfg.MaxJobSize = DefaultMaxJobSize
	}
	cfg.Version = "test"
	return &bench{t: t, engine: cfg.Router, Protocol: New(cfg)}
}

// close ends all connections and the engine.
func (b *bench) close() {
	b.t.Helper()
	for _, p := range b.peers {
		p.close()
	}
	st := b.engineStats()
	if st.Reserved != 0 || st.Waiting != 0 || st.Queued != 0 {
		b.t.Errorf("after all have gone %d jobs are reserved, %d clients wait, %d places in queues are taken",
			st.Reserved, st.Waiting, st.Queued)
	}
	if st.Connections != 1 { // the one that asks
		b.t.Errorf("%d clients are left", st.Connections-1)
	}
	if st.Producers != 0 || st.Workers != 0 {
		b.t.Errorf("%d producers and %d workers are left", st.Producers, st.Workers)
	}
	b.engine.Close()
}

func (b *bench) engineStats() *router.Stats {
	c := b.engine.NewClient()
	defer c.Close()
	return c.Stats()
}

// A peer is a connection without a socket: the session with its goroutine, the
// half of netio that is in front of it, and what came back. It does to the
// session the worst that netio may do: the buffer that was given back is
// overwritten.
type peer struct {
	b *bench
	s *session

	in     chan []byte
	ended  chan struct{}
	closed bool

	// Of the session's goroutine.
	held    []byte // what was given and not consumed
	dst     []byte
	serving []byte
	out     bytebufferpool.ByteBuffer
	err     error

	mu    sync.Mutex // guards what follows
	left  []byte     // what has left and the test has not seen
	idles int        // calls of Idle
}

func (b *bench) connect() *peer {
	p := &peer{b: b, in: make(chan []byte, 1024), ended: make(chan struct{})}
	b.peers = append(b.peers, p)
	started := make(chan struct{})
	go func() {
		defer close(p.ended)
		p.s = b.newSession(p)
		close(started)
		for in := range p.in {
			if p.feed(in); p.err != nil {
				break
			}
		}
		p.s.Close()
	}()
	<-started
	return p
}

// feed is what netio does with a read.
func (p *peer) feed(in []byte) {
	if p.dst != nil {
		n := copy(p.dst, in)
		p.dst, in = p.dst[n:], in[n:]
		if len(p.dst) > 0 {
			return
		}
		p.dst = nil
	}
	p.held = append(bytes.Clone(p.held), in...)
	p.serving = p.held
	given := p.held
	n, err := p.s.Serve(given)
	p.flush()
	if p.err = err; err != nil {
		return
	}
	if n < 0 || n > len(given) || p.dst != nil && n < len(given) {
		panic(fmt.Sprintf("Serve has consumed %d of %d bytes", n, len(given)))
	}
	left := len(given) - n
	p.held = bytes.Clone(p.serving[len(p.serving)-left:])
	poison(p.serving)
	if len(p.held) >= maxLine {
		panic(fmt.Sprintf("Serve has left %d bytes", len(p.held)))
	}
}

// flush has all leave that was written.
func (p *peer) flush() {
	p.mu.Lock()
	p.left = append(p.left, p.out.B...)
	p.mu.Unlock()
	p.out.Reset()
}

func poison(p []byte) {
	for i := range p {
		p[i] = '#'
	}
}

func (p *peer) Buf() *bytebufferpool.ByteBuffer { return &p.out }
func (p *peer) WriteBody(body []byte)           { p.out.Write(body) }

func (p *peer) ReadInto(dst []byte) {
	if len(dst) > 0 {
		p.dst = dst
	}
}

func (p *peer) Idle(rest []byte) []byte {
	p.flush()
	p.mu.Lock()
	p.idles++
	p.mu.Unlock()
	kept := bytes.Clone(rest)
	poison(p.serving)
	p.serving = kept
	return kept
}

// FlushOld finds all of it old.
func (p *peer) FlushOld() { p.flush() }

// send has the session read s, as soon as it reads.
func (p *peer) send(s string) {
	if p.closed {
		p.b.t.Fatalf("sends %q after it has closed", s)
	}
	p.in <- []byte(s)
}

// got returns what has come back since the last call, once nothing more comes
// unless time passes.
func (p *peer) got() string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := string(p.left)
	p.left = p.left[:0]
	return s
}

// ask sends and returns what comes back.
func (p *peer) ask(s string) string {
	p.send(s)
	return p.got()
}

// want asks and wants that answer.
func (p *peer) want(send, answer string) {
	p.b.t.Helper()
	if got := p.ask(send); got != answer {
		p.b.t.Fatalf("sent %.300q\ngot  %.300q\nwant %.300q", send, got, answer)
	}
}

// close ends the connection.
func (p *peer) close() {
	if !p.closed {
		p.closed = true
		select {
		case <-p.ended: // by the session
		default:
			p.s.Hangup() // netio's watcher sees it first
		}
		close(p.in)
	}
	<-p.ended
}

// play runs a transcript for each number of shards. A line that is not indented
// is what happens:
//
//	a put 0 0 10 3 / abc     peer a sends this; " / " and the end are CRLF,
//	                         " /" at the end is an empty line
//	a sends "put 0 0 10 1\r" peer a sends exactly this, a Go string
//	a stats-job 1 | pri ttr  as above; of the YAML only these values are shown
//	a list-tubes |           likewise; all items
//	a half-closes            the server learns that a sends no more
//	a aborts                 the server ends the waits of a, as it does when it
//	                         goes down
//	a closes                 the connection of a is gone
//	wait 3s                  time passes
//	drain                    the server is told to drain
//
// The indented lines below are all that comes back then, to the peer that has
// acted, or to another one whose name stands before a colon; "closed" says that
// the server has closed the connection. A peer connects when it is named first.
// A # begins a line of comment.
func play(t *testing.T, script string) {
	t.Helper()
	playWith(t, Config{}, 0, script)
}

func playWith(t *testing.T, cfg Config, mem int64, script string) {
	t.Helper()
	inBubble(t, cfg, mem, func(b *bench) { b.play(script) })
}

func (b *bench) play(script string) {
	b.t.Helper()
	peers := make(map[string]*peer)
	var names []string
	told := make(map[string]bool) // whose end has been seen
	lines := strings.Split(script, "\n")
	for i := 0; i < len(lines); {
		action := lines[i]
		i++
		if strings.TrimSpace(action) == "" || action[0] == '#' {
			continue
		}
		if action[0] == '\t' {
			b.t.Fatalf("an answer to nothing: %q", action)
		}
		want := make(map[string]string)
		name, what, _ := strings.Cut(action, " ")
		for ; i < len(lines) && strings.HasPrefix(lines[i], "\t"); i++ {
			who, line := name, lines[i][1:]
			if other, rest, ok := strings.Cut(line, ": "); ok && peers[other] != nil {
				who, line = other, rest
			}
			want[who] += unfold(line)
		}
		show := ""
		switch name {
		case "wait":
			d, err := time.ParseDuration(what)
			if err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(d)
		case "drain":
			b.engine.Drain()
		default:
			p := peers[name]
			if p == nil {
				p = b.connect()
				peers[name] = p
				names = append(names, name)
			}
			what, show, _ = strings.Cut(what, " |")
			if strings.Contains(action, " |") {
				show = " " + show
			}
			p.act(what)
		}
		synctest.Wait()
		for _, n := range names {
			p := peers[n]
			got := p.got()
			if p.closed {
				continue // whatever was said to it
			}
			if n == name && show != "" {
				got = filter(got, strings.Fields(show))
			}
			select {
			case <-p.ended:
				if !p.closed && !told[n] {
					told[n] = true
					got += "closed\r\n"
				}
			default:
			}
			if got != want[n] {
				b.t.Fatalf("%s\npeer %s got %.500q\nwant %.500q", action, n, got, want[n])
			}
		}
	}
}

func (p *peer) act(what string) {
	switch {
	case what == "half-closes":
		p.s.Hangup()
	case what == "aborts":
		p.s.Abort()
	case what == "closes":
		p.close()
	case strings.HasPrefix(what, "sends "):
		s, err := strconv.Unquote(what[len("sends "):])
		if err != nil {
			p.b.t.Fatal(what, err)
		}
		p.send(s)
	default:
		p.send(unfold(what))
	}
}

func unfold(line string) string {
	if line == "closed" {
		return "closed\r\n"
	}
	if s, ok := strings.CutSuffix(line, " /"); ok {
		line = s + " / "
	}
	return strings.ReplaceAll(line, " / ", "\r\n") + "\r\n"
}

// filter shows the values of a YAML reply, of those keys or if there are none
// of all lines.
func filter(reply string, keys []string) string {
	body := reply
	if head, rest, ok := strings.Cut(reply, "\r\n---\n"); ok && strings.HasPrefix(head, "OK ") {
		body = rest
	} else {
		return reply
	}
	var shown []string
	values := make(map[string]string)
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if k, v, ok := strings.Cut(line, ": "); ok {
			values[k] = v
		} else if line != "" && len(keys) == 0 {
			shown = append(shown, strings.TrimPrefix(line, "- "))
		}
	}
	for _, k := range keys {
		shown = append(shown, values[k])
	}
	return strings.Join(shown, " ") + "\r\n"
}
