package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
	"github.com/sheafq/sheaf/shard"
)

// durTubes are the tubes of the histories.
var durTubes = [...]string{"default", "a", "b", "c", "d", "e", "f", strings.Repeat("long", 50)}

// durDir is where the binlog lives in memory. It is not there at first, but what
// it is in is.
const durDir = "/srv/queue/binlog"

// durRoom is more than any history takes, in bytes.
const durRoom = 1 << 30

// durRun is a file system and the engines that live on it one after the other,
// with a model of what must be there. One goroutine drives it, inside a bubble
// of package synctest: time stands still but in sleep.
type durRun struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	fs    *faultfs.FS
	disk  binlog.FS // instead of fs, if it is not nil
	dir   string
	model *durModel

	// Of the engine that runs.
	cfg     binlog.Config
	router  *Router
	shards  int
	clients []*durClient
	trap    *durTrap
	most    int   // jobs, about
	segment int64 // its size in bytes; 0 for random ones

	faulty   bool   // a shard may come to answer Failed
	dead     []bool // by shard: it does
	full     bool   // changes may come to be answered OutOfMemory
	refused  map[shard.Op]int
	capacity int64 // of fs

	foreground  map[uint64]bool // ids of the jobs that were submitted in the foreground
	pending     []durPending    // those of them that are known to be there
	lastPending uint64          // the last one's id
}

func newDurRun(t *testing.T, seed uint64) *durRun {
	d := &durRun{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		fs: faultfs.New(), dir: durDir, model: newDurModel(), refused: make(map[shard.Op]int),
	}
	d.setCapacity(durRoom)
	if seed%2 == 1 {
		d.fs.SetElsewhere()
	}
	for _, dir := range []string{"/srv", "/srv/queue"} {
		if err := errors.Join(d.fs.Mkdir(dir), d.fs.SyncDir(path.Dir(dir))); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *durRun) fatalf(format string, args ...any) {
	d.t.Helper()
	d.t.Fatalf("-durable.seed %d: "+format, append([]any{d.seed}, args...)...)
}

func (d *durRun) setCapacity(bytes int64) {
	d.capacity = bytes
	d.fs.SetCapacity(bytes)
}

// durClient is a client and what it is to be answered.
type durClient struct {
	*Client
	watching []string
	one      int // the shard of all that it watches, -1 if there are several
	ops      []shard.Op
	want     []durAnswer
	seqs     []int64 // of the model after each
	got      []durAnswer
}

// durLog fails the test when the store speaks of damage.
type durLog struct {
	slog.Handler
	run *durRun
}

func (l durLog) Enabled(context.Context, slog.Level) bool { return true }

func (l durLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "binlog: damage" {
		var b strings.Builder
		r.Attrs(func(a slog.Attr) bool {
			fmt.Fprintf(&b, " %v", a)
			return true
		})
		l.run.t.Errorf("-durable.seed %d: damage:%s", l.run.seed, b.String())
	}
	return nil
}

// config returns a random one.
func (d *durRun) config(sync time.Duration) binlog.Config {
	segment := d.segment
	if segment == 0 {
		segment = 4096 + d.rng.Int64N(28<<10)
	}
	return binlog.Config{
		Dir: d.dir, Sync: sync, SegmentSize: segment,
		Compression: binlog.Compression(d.rng.IntN(3)),
		Strict:      d.rng.IntN(2) == 0,
		Log:         slog.New(durLog{run: d}),
	}
}

// open starts an engine on a file system. It is closed at the latest when the
// test ends.
func (d *durRun) open(fs binlog.FS, cfg binlog.Config, shards int) (*Router, func() error, error) {
	cfg.FS = fs
	r, err := New(Config{Shards: shards, Binlog: &cfg})
	if err != nil {
		return nil, nil, err
	}
	closed := sync.OnceValue(r.Close)
	d.t.Cleanup(func() { closed() })
	return r, closed, nil
}

// client returns a new client that watches a few tubes.
func (d *durRun) client() *durClient {
	c := &durClient{Client: d.router.NewClient(), one: -1}
	d.t.Cleanup(c.close)
	tubes := durTubes
	d.rng.Shuffle(len(tubes), func(i, j int) { tubes[i], tubes[j] = tubes[j], tubes[i] })
	home := d.router.shardOf(tubes[0])
	single := d.rng.IntN(2) == 0
	for _, name := range tubes[:1+d.rng.IntN(len(tubes))] {
		if !single || d.router.shardOf(name) == home {
			c.Watch(name)
			c.watching = append(c.watching, name)
		}
	}
	if single || d.shards == 1 {
		c.one = home
	}
	if !slices.Contains(c.watching, "default") {
		c.Ignore("default")
	}
	return c
}

// close is Client.Close, which may be called again.
func (c *durClient) close() {
	if c.Client != nil {
		c.Client.Close()
		c.Client = nil
	}
}

// begin starts an engine and its clients.
func (d *durRun) begin(sync time.Duration, shards int) (end func() error) {
	d.t.Helper()
	d.cfg, d.shards = d.config(sync), shards
	d.model.begin(shards)
	d.dead = make([]bool, shards)
	d.trap = &durTrap{run: d}
	d.fs.SetFault(d.trap.fault)
	disk := d.disk
	if disk == nil {
		disk = d.fs
	}
	r, stop, err := d.open(disk, d.cfg, shards)
	if err != nil {
		d.fatalf("opening for %d shards: %v", shards, err)
	}
	d.router = r
	d.foreground, d.pending, d.lastPending = make(map[uint64]bool), nil, 0
	d.most = 5 + d.rng.IntN(60)
	d.clients = nil
	for range 1 + d.rng.IntN(4) {
		d.clients = append(d.clients, d.client())
	}
	return func() error {
		for _, c := range d.clients {
			c.close()
		}
		return stop()
	}
}

// now is the time in the bubble, in nanoseconds of Unix time.
func (d *durRun) now() int64 { return time.Now().UnixNano() }

// sleep lets time pass, with all that comes due.
func (d *durRun) sleep(t time.Duration) {
	d.model.advance(d.now() + int64(t))
	time.Sleep(t)
}

// round is a few commands.
func (d *durRun) round() {
	d.model.advance(d.now())
	switch n := d.rng.IntN(20); {
	case n == 0: // a client goes and another comes
		d.replace(d.rng.IntN(len(d.clients)))
	case n < 3:
		d.sleep(time.Duration(d.rng.Int64N(3e9)))
	case n < 5:
		d.sleep(time.Duration(d.rng.Int64N(1e8)))
	case n < 9:
		d.submit()
	case n < 11:
		c := d.clients[d.rng.IntN(len(d.clients))]
		if c.one < 0 && !d.faulty {
			d.queue(c, shard.Request{Op: shard.Reserve})
			d.serve(c)
		}
	default:
		d.chains()
	}
}

// replace closes a client and makes another.
func (d *durRun) replace(i int) {
	d.model.giveBack(d.clients[i])
	d.pending = slices.DeleteFunc(d.pending, func(p durPending) bool { return p.client == d.clients[i] })
	d.clients[i].close()
	d.clients[i] = d.client()
}

// chains has several clients serve chains of commands at once, each on a shard
// of its own, so that the answers are known beforehand.
func (d *durRun) chains() {
	taken := make([]bool, d.shards)
	var busy []*durClient
	for _, i := range d.rng.Perm(len(d.clients)) {
		c, tube := d.clients[i], durTubes[d.rng.IntN(len(durTubes))]
		s := d.router.shardOf(tube)
		if taken[s] || len(busy) > 0 && (d.full || d.rng.IntN(3) == 0) {
			continue
		}
		taken[s] = true
		busy = append(busy, c)
		c.Use(tube)
		n := 1 + d.rng.IntN(12)
		if d.full {
			n = 1 // what comes next depends on the answer
		}
		for range n {
			d.queue(c, d.command(c, s))
		}
	}
	d.serve(busy...)
}

// queue queues a command, which is served by serve at the latest.
func (d *durRun) queue(c *durClient, cmd shard.Request) {
	r := c.New(cmd.Op)
	*r = cmd
	if !c.Queue(r) {
		d.serve(c)
		r = c.New(cmd.Op)
		*r = cmd
		c.Queue(r) // an empty queue takes anything
	}
	c.ops = append(c.ops, cmd.Op)
	if s := c.Used().Shard; d.dead[s] {
		c.want = append(c.want, durAnswer{shard: s})
	} else if cmd.Op == shard.Submit {
		c.want = append(c.want, d.modelSubmit(&cmd, d.now()))
	} else {
		c.want = append(c.want, d.model.do(c, &cmd, d.now()))
		for _, u := range d.model.undo {
			u.j.brim = u.j.brim || d.full
		}
	}
	c.seqs = append(c.seqs, d.model.seq)
}

// serve has the commands of some clients served and looks at the answers.
func (d *durRun) serve(clients ...*durClient) {
	d.model.issued.Store(d.model.seq)
	late := time.AfterFunc(time.Minute, func() {
		// Nothing takes that long but a disk on which there is no room for
		// ever.
		d.t.Errorf("-durable.seed %d: no answer comes; %d bytes are used of %d", d.seed, d.fs.Used(), d.capacity)
		d.fs.SetCapacity(durRoom)
	})
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for done := c.Await(false); done != nil; done = c.Await(false) {
				for _, r := range done {
					c.got = append(c.got, durAnswer{status: r.Status, id: r.ID, n: r.N, body: slices.Clone(r.Body)})
				}
			}
		})
	}
	wg.Wait()
	if !late.Stop() {
		d.t.FailNow()
	}
	for _, c := range clients {
		if len(c.got) != len(c.want) {
			d.fatalf("%d answers to %d commands", len(c.got), len(c.want))
		}
		for i := range c.want {
			d.answered(c, i)
		}
		c.ops, c.want, c.seqs, c.got = c.ops[:0], c.want[:0], c.seqs[:0], c.got[:0]
	}
}

// answered looks at one answer. What was answered as success is promised.
func (d *durRun) answered(c *durClient, i int) {
	op, want, got := c.ops[i], &c.want[i], &c.got[i]
	s := want.shard
	err := want.differs(op, got)
	if s < 0 {
		s = c.Used().Shard // where the chain was served
	}
	if err != nil || d.dead[s] {
		switch {
		case d.full && got.status == shard.OutOfMemory && op != shard.Delete:
			d.model.revoke()
			d.refused[op]++
			return
		case d.faulty && op == shard.Put && got.status == shard.OutOfMemory:
			return
		case d.faulty && got.status == shard.Failed:
			d.dead[s] = true
			return
		case d.dead[s] && !got.changed(op):
			return
		case err == nil:
			err = fmt.Errorf("answered as success behind a failure")
		}
		d.fatalf("answer %d of commands %d: %v", i, c.ops, err)
	}
	if want.shard < 0 || d.faulty && !got.changed(op) {
		return
	}
	m := d.model
	m.acked[s].Store(max(m.acked[s].Load(), c.seqs[i]))
	if op == shard.Put {
		m.ackedID.Store(max(m.ackedID.Load(), want.id))
	}
}

// ask has one command of a client served alone, which the model does not know
// of.
func (c *durClient) ask(q shard.Request) (a durAnswer) {
	r := c.New(q.Op)
	*r = q
	c.Queue(r)
	for done := c.Await(false); done != nil; done = c.Await(false) {
		for _, r := range done {
			a = durAnswer{status: r.Status, id: r.ID, n: r.N, body: slices.Clone(r.Body)}
		}
	}
	return a
}
