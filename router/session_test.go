package router

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sheafq/sheaf/shard"
)

// The tests of this package talk to the engine as a connection does: a peer
// says lines of the protocol (without sizes: a body is one word) and hears the
// answers, each line of a session being `what was said -> what came back`.
// Commands glued together by " | " are queued together, as a pipeline is.

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		// Every engine has been closed: nothing of it may be left running.
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// newEngine starts an engine that is closed after all peers of the test.
func newEngine(t testing.TB, shards int) *Router {
	return newCappedEngine(t, shards, 0)
}

func newCappedEngine(t testing.TB, shards int, maxMemory int64) *Router {
	r := newRouter(Config{Shards: shards, MaxMemory: maxMemory})
	t.Cleanup(func() { r.Close() })
	return r
}

// tubeOn returns the name of the nth tube on a shard.
func (r *Router) tubeOn(shard, nth int) string {
	for i := 0; ; i++ {
		name := "t" + strconv.Itoa(i)
		if r.shardOf(name) == shard {
			if nth == 0 {
				return name
			}
			nth--
		}
	}
}

// peer is a client and its side of the conversation.
type peer struct {
	*Client
	t      testing.TB
	closed bool
}

func newPeer(t testing.TB, r *Router) *peer {
	p := &peer{Client: r.NewClient(), t: t}
	t.Cleanup(p.close)
	return p
}

func (p *peer) close() {
	if !p.closed {
		p.closed = true
		p.Close()
	}
}

// session has the peer say each line and compares what comes back. A line is a
// format; the names of tubes are its usual arguments.
func (p *peer) session(format string, args ...any) {
	p.t.Helper()
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		said, want, _ := strings.Cut(line, "->")
		want = strings.TrimSpace(want)
		if got := p.say(strings.TrimSpace(said)); got != want {
			p.t.Fatalf("%s\n got %s\nwant %s", said, got, want)
		}
	}
}

// say serves one line as netio/beanstalk does: it queues what it can, has it
// answered when the engine wants that first, and before a wait lets go of the
// answers that it has.
func (p *peer) say(line string) string {
	var answers []string
	flush := func() {
		for {
			done := p.Await(p.Waiting() || p.Blocking())
			if done == nil {
				return
			}
			for _, r := range done {
				answers = append(answers, render(r))
			}
		}
	}
	for cmd := range strings.SplitSeq(line, " | ") {
		if f := strings.Fields(cmd); opOf[f[0]] == 0 {
			flush()
			answers = append(answers, p.alone(f))
		} else if !p.queue(cmd) {
			flush()
			if !p.queue(cmd) {
				p.t.Fatalf("%s: refused by an empty queue", cmd)
			}
		}
	}
	flush()
	return strings.Join(answers, " | ")
}

// begin says a line that may have to wait, from a goroutine of its own; the
// answers come from the channel.
func (p *peer) begin(line string) <-chan string {
	answer := make(chan string, 1)
	go func() { answer <- p.say(line) }()
	return answer
}

var opOf = map[string]shard.Op{
	"put": shard.Put, "reserve": shard.Reserve, "reserve-with-timeout": shard.ReserveTimeout,
	"reserve-job": shard.ReserveJob, "delete": shard.Delete, "release": shard.Release, "bury": shard.Bury,
	"touch": shard.Touch, "peek": shard.Peek, "peek-ready": shard.PeekReady, "peek-delayed": shard.PeekDelayed,
	"peek-buried": shard.PeekBuried, "kick": shard.Kick, "kick-job": shard.KickJob, "stats-job": shard.StatsJob,
	"stats-tube": shard.StatsTube, "pause-tube": shard.PauseTube,
}

// queue tries to queue one command.
func (p *peer) queue(cmd string) bool {
	p.t.Helper()
	f := strings.Fields(cmd)
	num := func(i int) uint64 {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			p.t.Fatal(cmd, err)
		}
		return n
	}
	r := p.New(opOf[f[0]])
	switch r.Op {
	case shard.Put: // PRI DELAY TTR BODY
		r.Pri, r.Delay, r.TTR, r.Body = uint32(num(1)), uint32(num(2)), uint32(num(3)), []byte(f[4]+"\r\n")
	case shard.Reserve:
		r.Timeout = shard.NoTimeout
	case shard.ReserveTimeout: // a duration, finer than the protocol's seconds
		d, err := time.ParseDuration(f[1])
		if err != nil {
			p.t.Fatal(cmd, err)
		}
		r.Timeout = int64(d)
	case shard.Release:
		r.ID, r.Pri, r.Delay = num(1), uint32(num(2)), uint32(num(3))
	case shard.Bury:
		r.ID, r.Pri = num(1), uint32(num(2))
	case shard.Kick:
		r.N = num(1)
	case shard.StatsTube:
		r.Name = f[1]
	case shard.PauseTube:
		r.Name, r.Delay = f[1], uint32(num(2))
	case shard.PeekReady, shard.PeekDelayed, shard.PeekBuried:
	default:
		r.ID = num(1)
	}
	return p.Queue(r)
}

// alone serves what the engine does not queue.
func (p *peer) alone(f []string) string {
	switch f[0] {
	case "use":
		p.Use(f[1])
		return "USING " + p.Used().Name
	case "watch":
		p.Watch(f[1])
		return fmt.Sprint("WATCHING ", len(p.Watched()))
	case "ignore":
		if !p.Ignore(f[1]) {
			return "NOT_IGNORED"
		}
		return fmt.Sprint("WATCHING ", len(p.Watched()))
	case "list-tubes":
		return strings.Join(p.Tubes(), " ")
	case "list-tubes-watched":
		var names []string
		for _, t := range p.Watched() {
			names = append(names, t.Name)
		}
		return strings.Join(names, " ")
	}
	p.t.Fatalf("no such command: %q", f[0])
	return ""
}

func render(r *shard.Request) string {
	body := strings.TrimSuffix(string(r.Body), "\r\n")
	switch r.Status {
	case shard.Unserved, shard.Waiting, shard.Retry:
		return fmt.Sprintf("unanswered: status %d of op %d", r.Status, r.Op)
	case shard.NotFound:
		return "NOT_FOUND"
	case shard.OutOfMemory:
		return "OUT_OF_MEMORY"
	case shard.Draining:
		return "DRAINING"
	case shard.TimedOut:
		return "TIMED_OUT"
	case shard.DeadlineSoon:
		return "DEADLINE_SOON"
	case shard.Aborted:
		return "aborted"
	}
	switch r.Op {
	case shard.Put:
		return fmt.Sprint("INSERTED ", r.ID)
	case shard.Reserve, shard.ReserveTimeout, shard.ReserveJob:
		return fmt.Sprint("RESERVED ", r.ID, " ", body)
	case shard.Peek, shard.PeekReady, shard.PeekDelayed, shard.PeekBuried:
		return fmt.Sprint("FOUND ", r.ID, " ", body)
	case shard.Delete:
		return "DELETED"
	case shard.Release:
		return "RELEASED"
	case shard.Bury:
		return "BURIED"
	case shard.Touch:
		return "TOUCHED"
	case shard.Kick:
		return fmt.Sprint("KICKED ", r.N)
	case shard.KickJob:
		return "KICKED"
	case shard.PauseTube:
		return "PAUSED"
	case shard.StatsJob:
		return fmt.Sprint(r.Job.Tube, " ", r.Job.State, " pri ", r.Job.Pri, " reserves ", r.Job.Reserves)
	case shard.StatsTube:
		s := r.TubeStats
		return fmt.Sprintf("ready %d reserved %d using %d watching %d waiting %d",
			s.Ready, s.Reserved, s.Using, s.Watching, s.Waiting)
	}
	return "OK"
}

// watchdog shows what every goroutine was doing if the test takes longer than
// d, which it does only when the engine hangs. The last lines say it in short:
// where only the end of a long output is kept, that is what one gets.
func watchdog(t *testing.T, d time.Duration) {
	timer := time.AfterFunc(d, func() {
		buf := make([]byte, 4<<20)
		all := string(buf[:runtime.Stack(buf, true)])
		fmt.Fprintf(os.Stderr, "%s\n%s%s hangs\n", all, whoIsWhere(all), t.Name())
		os.Exit(2)
	})
	t.Cleanup(func() { timer.Stop() })
}

// whoIsWhere returns for each place in this module how many goroutines are
// there: the two innermost functions.
func whoIsWhere(stacks string) string {
	count := make(map[string]int)
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		var in []string
		for line := range strings.Lines(stack) {
			if f, ok := strings.CutPrefix(line, "github.com/sheafq/sheaf/"); ok && len(in) < 2 {
				in = append(in, f[:strings.LastIndexByte(f, '(')])
			}
		}
		count[strings.Join(in, " < ")]++
	}
	var b strings.Builder
	for _, in := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&b, "%d in %s\n", count[in], in)
	}
	return b.String()
}

// idleEngine fails the test unless nothing is left of clients that have gone:
// no job held, nobody waiting or registered anywhere, no place in a tube.
func idleEngine(t testing.TB, r *Router) {
	t.Helper()
	c := r.NewClient()
	st := c.Stats()
	tubes := c.Tubes()
	c.Close()
	if st.Reserved != 0 || st.Waiting != 0 || st.Queued != 0 || st.Observers != 0 {
		t.Errorf("left behind: %d reserved, %d waiting, %d queued, %d observers",
			st.Reserved, st.Waiting, st.Queued, st.Observers)
	}
	if st.Connections != 1 || st.Producers != 0 || st.Workers != 0 {
		t.Errorf("left behind: %d connections beside this one, %d producers, %d workers",
			st.Connections-1, st.Producers, st.Workers)
	}
	if jobs := st.Ready + st.Delayed + st.Buried; jobs == 0 {
		if st.Memory != 0 {
			t.Errorf("%d bytes of memory in use without a job", st.Memory)
		}
		if len(tubes) != 1 || tubes[0] != shard.DefaultTube || st.Tubes != 1 {
			t.Errorf("tubes left behind: %v (%d)", tubes, st.Tubes)
		}
	}
}

func sprint(a ...any) string {
	var b strings.Builder
	for _, x := range a {
		fmt.Fprint(&b, x)
	}
	return b.String()
}

// scan reads a number from an answer.
func scan(t testing.TB, answer, format string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(answer, format, &n); err != nil {
		t.Fatalf("%s is not %s", answer, format)
	}
	return n
}

// newRouter is New where nothing can go wrong: without a binlog.
func newRouter(cfg Config) *Router {
	r, err := New(cfg)
	if err != nil {
		panic(err)
	}
	return r
}
