package gearman

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

// A bench is an engine with the protocol on it and no sockets, in a bubble of
// synctest: its time stands still but for sleep.
type bench struct {
	t      *testing.T
	engine *router.Router
	*Protocol
	peers     []*peer
	shutdowns []bool // what the engine was told of shutdowns: graceful or not
}

// inBubble runs f in a bubble of its own for each of some numbers of shards, and
// checks that the engine has forgotten all clients in the end.
func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	for _, n := range []int{1, 2, 7} {
		t.Run(fmt.Sprintf("shards=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Config{MaxJobSize: 1 << 20}, router.Config{Shards: n})
				defer b.close() // also when f fails: no goroutine may be left in a bubble
				f(b)
			})
		})
	}
}

func newBench(t *testing.T, cfg Config, engine router.Config) *bench {
	b := &bench{t: t}
	var err error
	if cfg.Router, err = router.New(engine); err != nil {
		t.Fatal(err)
	}
	cfg.Version, cfg.Location = "test", time.UTC
	cfg.Shutdown = func(graceful bool) { b.shutdowns = append(b.shutdowns, graceful) }
	b.engine, b.Protocol = cfg.Router, New(cfg)
	b.Protocol.handles = newHandles("host")
	return b
}

func (b *bench) close() {
	b.t.Helper()
	for _, p := range b.peers {
		p.close()
	}
	st := b.stats()
	if st.Reserved != 0 || st.Connections != 1 || st.Producers != 0 || st.Workers != 0 {
		b.t.Errorf("after all have gone there are %d reserved jobs, %d clients, %d producers, %d workers",
			st.Reserved, st.Connections-1, st.Producers, st.Workers)
	}
	b.engine.Close()
}

func (b *bench) stats() *router.Stats {
	c := b.engine.NewClient()
	defer c.Close()
	return c.Stats()
}

// A peer is a connection without a socket: the session with its goroutine, the
// half of netio that is in front of it, and what came back.
type peer struct {
	b      *bench
	s      *session
	in     chan []byte
	pokes  chan struct{}
	ended  chan struct{}
	closed bool

	// Of the session's goroutine.
	held, dst []byte
	out       bytebufferpool.ByteBuffer
	expects   atomic.Bool

	mu   sync.Mutex // guards what follows
	left []byte     // what has left and the test has not seen
	err  error
}

func (b *bench) connect() *peer {
	p := &peer{b: b, in: make(chan []byte, 4096), pokes: make(chan struct{}, 1), ended: make(chan struct{})}
	b.peers = append(b.peers, p)
	started := make(chan struct{})
	go func() {
		defer close(p.ended)
		p.s = b.newSession(p)
		b.Protocol.mu.Lock()
		b.Protocol.sessions[p.s] = &description{fd: len(b.peers), addr: "127.0.0.1", id: "-"}
		b.Protocol.mu.Unlock()
		close(started)
		defer p.s.Close()
		for {
			var err error
			select {
			case in, ok := <-p.in:
				if !ok {
					return
				}
				err = p.feed(in)
			case <-p.pokes:
				err = p.s.Poked()
			}
			p.mu.Lock()
			p.left = append(p.left, p.out.B...)
			p.err = err
			p.mu.Unlock()
			p.out.Reset()
			if err != nil {
				return
			}
		}
	}()
	<-started
	return p
}

// feed is what netio does with a read, and the worst that it may do: the buffer
// is overwritten after.
func (p *peer) feed(in []byte) error {
	if p.dst != nil {
		n := copy(p.dst, in)
		p.dst, in = p.dst[n:], in[n:]
		if len(p.dst) > 0 {
			return nil
		}
		p.dst = nil
	}
	given := append(bytes.Clone(p.held), in...)
	n, err := p.s.Serve(given)
	if err != nil {
		return err
	}
	if n < 0 || n > len(given) || p.dst != nil && n < len(given) {
		panic(fmt.Sprintf("Serve has consumed %d of %d bytes", n, len(given)))
	}
	p.held = bytes.Clone(given[n:])
	for i := range given {
		given[i] = '#'
	}
	if len(p.held) >= netio.ReadSize {
		panic("Serve has left a whole buffer")
	}
	return nil
}

func (p *peer) Buf() *bytebufferpool.ByteBuffer { return &p.out }
func (p *peer) WriteBody(body []byte)           { p.out.Write(body) }
func (p *peer) Expect(something bool)           { p.expects.Store(something) }
func (p *peer) Kill()                           {}

func (p *peer) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = append(p.left, p.out.B...)
	p.out.Reset()
	return nil
}

// FlushOld finds all of it old.
func (p *peer) FlushOld() { p.Flush() }

// FlushEarly finds a core idle.
func (p *peer) FlushEarly() { p.Flush() }

func (p *peer) ReadInto(dst []byte) {
	if len(dst) > 0 {
		p.dst = dst
	}
}

func (p *peer) Unread() time.Duration { return time.Hour }

func (p *peer) Poke() {
	select {
	case p.pokes <- struct{}{}:
	default:
	}
}

// close ends the connection.
func (p *peer) close() {
	if !p.closed {
		p.closed = true
		close(p.in)
		<-p.ended
	}
}

// send has the session read something.
func (p *peer) send(in []byte) { p.in <- bytes.Clone(in) }

// request makes a packet.
func req(typ uint32, args ...string) []byte {
	b := appendPacket(nil, typ, args...)
	copy(b, magicRequest)
	return b
}

// got returns what has come back since, once all is at rest.
func (p *peer) got() []byte {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.left
	p.left = nil
	return got
}

// ask sends a packet and says what came back, as show does.
func (p *peer) ask(typ uint32, args ...string) string {
	p.send(req(typ, args...))
	return show(p.got())
}

// names are the types of packets that come back.
var names = map[uint32]string{
	typeNoop: "NOOP", typeJobCreated: "JOB_CREATED", typeNoJob: "NO_JOB", typeJobAssign: "JOB_ASSIGN",
	typeWorkStatus: "WORK_STATUS", typeWorkComplete: "WORK_COMPLETE", typeWorkFail: "WORK_FAIL",
	typeEchoRes: "ECHO_RES", typeError: "ERROR", typeStatusRes: "STATUS_RES", typeWorkException: "WORK_EXCEPTION",
	typeOptionRes: "OPTION_RES", typeWorkData: "WORK_DATA", typeWorkWarning: "WORK_WARNING",
	typeJobAssignUniq: "JOB_ASSIGN_UNIQ", typeJobAssignAll: "JOB_ASSIGN_ALL", typeStatusResUnique: "STATUS_RES_UNIQUE",
}

// show writes packets in a readable form: names, and arguments in brackets.
func show(b []byte) string {
	var out bytes.Buffer
	for len(b) > 0 {
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		if b[0] != 0 || len(b) < headerSize {
			fmt.Fprintf(&out, "%q", b)
			break
		}
		typ, size := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
		if string(b[:4]) != magicResponse || names[typ] == "" || len(b) < headerSize+int(size) {
			fmt.Fprintf(&out, "no packet: %q", b)
			break
		}
		fmt.Fprintf(&out, "%s%q", names[typ], bytes.Split(b[headerSize:headerSize+size], []byte{0}))
		b = b[headerSize+size:]
	}
	return out.String()
}

// expect checks what came back to p since.
func (p *peer) expect(want string) {
	p.b.t.Helper()
	if got := show(p.got()); got != want {
		p.b.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// asks checks the answer to a packet.
func (p *peer) asks(want string, typ uint32, args ...string) {
	p.b.t.Helper()
	if got := p.ask(typ, args...); got != want {
		p.b.t.Errorf("%s%q:\ngot  %s\nwant %s", forms[typ].name, args, got, want)
	}
}

// time0 is a time as SUBMIT_JOB_EPOCH has it.
func time0(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// put has a beanstalkd client put a job.
func put(t *testing.T, c *router.Client, tube, body string) {
	t.Helper()
	c.Use(tube)
	r := c.New(shard.Put)
	r.TTR, r.Pri, r.Body = 60, shard.PriNormal, []byte(body+crlf)
	one(t, c, r)
}

// one has one request of a beanstalkd client served, which must succeed.
func one(t *testing.T, c *router.Client, r *shard.Request) {
	t.Helper()
	c.Queue(r)
	if done := c.Await(false); len(done) != 1 || done[0].Status != shard.OK {
		t.Fatalf("operation %d on job %d has failed", r.Op, r.ID)
	}
	c.Await(false)
}
