package router

import (
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog/faultfs"
	"github.com/sheafq/sheaf/shard"
)

// durFault has operations of one kind fail with EIO, from a moment on.
type durFault struct {
	op    faultfs.Op
	after atomic.Int64 // so many more succeed; negative for all
	once  bool         // only one fails
	short int          // bytes that a failing write writes all the same
	hit   atomic.Bool
	what  string // failed first; to be read when all is at rest
}

func (f *durFault) fail(op faultfs.Op, name string, off int64, n int) error {
	if op != f.op || f.after.Load() < 0 {
		return nil
	}
	if f.after.Load() > 0 {
		f.after.Add(-1)
		return nil
	}
	if !f.hit.Swap(true) {
		f.what = fmt.Sprintf("%v of %s at %d, %d bytes", op, name, off, n)
	} else if f.once {
		return nil
	}
	return faultfs.Short{N: f.short, Err: syscall.EIO}
}

var durFaults = []faultfs.Op{
	faultfs.OpWriteAt, faultfs.OpWriteAt, faultfs.OpSync, faultfs.OpSync,
	faultfs.OpTruncate, faultfs.OpCreate, faultfs.OpSyncDir, faultfs.OpAllocate,
}

// TestDurableFailure: when a file cannot be written or synced, its shard says
// so to whoever wants to change something, from then on; what it had said
// before is there after a crash, and other shards go on.
func TestDurableFailure(t *testing.T) {
	hits := make(map[faultfs.Op]int)
	durable(t, 100, func(d *durRun) {
		f := &durFault{op: durFaults[d.rng.IntN(len(durFaults))], once: d.rng.IntN(2) == 0}
		if d.rng.IntN(2) == 0 {
			f.short = d.rng.IntN(200)
		}
		f.after.Store(-1)
		d.faulty = true
		end := d.begin(durSyncs[d.rng.IntN(len(durSyncs))], 1+d.rng.IntN(5))
		d.fs.SetFault(nil) // the engine is at rest meanwhile
		d.trap.fail = f.fail
		d.fs.SetFault(d.trap.fault)
		d.trap.every(d.gaps(100))
		for range d.rng.IntN(20) {
			d.round()
		}
		f.after.Store(int64(d.rng.IntN(30)))
		for range 20 + d.rng.IntN(40) {
			d.round()
		}
		d.sleep(time.Second)
		synctest.Wait()
		if f.hit.Load() {
			hits[f.op]++
			d.unwell(f)
		}
		points := append(d.trap.taken(), d.point("at rest"))
		switch err := end(); {
		case f.hit.Load() && err == nil:
			d.fatalf("%s has failed: Close says nothing of it", f.what)
		case !f.hit.Load() && err != nil:
			d.fatalf("closing: %v", err)
		}
		for _, p := range append(d.some(points, 4), d.point("closed")) {
			p.when += "; failed has " + f.what
			d.check(p, d.outcome(p), 1+d.rng.IntN(5))
		}
	})
	t.Logf("failed: %v", hits)
}

// unwell checks what a shard answers whose log has failed: at least one has.
func (d *durRun) unwell(f *durFault) {
	dead := 0
	c := d.clients[0]
	for s := range d.shards {
		at := slices.IndexFunc(durTubes[:], func(name string) bool { return d.router.shardOf(name) == s })
		if at < 0 {
			continue // it does nothing
		}
		c.Use(durTubes[at])
		d.queue(c, d.put(c, 0))
		d.serve(c)
		if d.dead[s] {
			dead++
			d.unwellShard(f, s, durTubes[at])
		}
	}
	if dead == 0 || f.once && dead > 1 {
		d.fatalf("%s has failed, and so have %d shards", f.what, dead)
	}
}

func (d *durRun) unwellShard(f *durFault, s int, tube string) {
	c := &durClient{Client: d.router.NewClient()}
	defer c.close()
	c.Watch(tube)
	if tube != "default" {
		c.Ignore("default")
	}
	c.Use(tube)
	asks := []shard.Request{
		{Op: shard.Put, TTR: 1, Body: []byte("x\r\n")},
		{Op: shard.Reserve},
		{Op: shard.Reserve, Timeout: int64(time.Hour)},
		{Op: shard.Reserve, Timeout: shard.NoTimeout},
	}
	for _, j := range d.model.alive {
		if j.shard == s && len(asks) < 10 {
			asks = append(asks, shard.Request{Op: shard.Delete, ID: j.id}, shard.Request{Op: shard.ReserveJob, ID: j.id})
		}
	}
	before := time.Now()
	for i, ask := range asks {
		// Jobs may be with a client, or not be there: it is not known how far
		// the shard has got.
		a := c.ask(ask)
		if a.status != shard.Failed && (a.status != shard.NotFound || i < 4) {
			d.fatalf("%s has failed: then command %d was answered with status %d", f.what, ask.Op, a.status)
		}
	}
	if time.Now() != before {
		d.fatalf("%s has failed: then an answer took some time", f.what)
	}
}

// TestDurableFailureWaits: who waits for a job on a shard when its log fails is
// told; so is who comes later, also if the tubes are on several such shards.
// Others are served.
func TestDurableFailureWaits(t *testing.T) {
	durable(t, 1, func(d *durRun) {
		f := &durFault{op: faultfs.OpWriteAt}
		f.after.Store(-1)
		end := d.begin(0, 3)
		d.trap.fail = f.fail
		a, b, c := d.router.tubeOn(0, 3), d.router.tubeOn(1, 3), d.router.tubeOn(2, 3)
		watch := func(tubes ...string) *durClient {
			p := &durClient{Client: d.router.NewClient()}
			d.clients = append(d.clients, p) // which end closes
			for _, tube := range tubes {
				p.Watch(tube)
			}
			p.Ignore("default")
			p.Use(tubes[0])
			return p
		}
		reserve := func(p *durClient, timeout int64) <-chan durAnswer {
			answer := make(chan durAnswer, 1)
			go func() { answer <- p.ask(shard.Request{Op: shard.Reserve, Timeout: timeout}) }()
			return answer
		}
		failed := func(p *durClient, answer <-chan durAnswer, what string) {
			synctest.Wait()
			select {
			case got := <-answer:
				if got.status != shard.Failed {
					d.t.Errorf("%s is answered with status %d", what, got.status)
				}
			default:
				d.t.Errorf("%s waits", what)
				p.Hangup()
				<-answer
			}
		}
		put := shard.Request{Op: shard.Put, TTR: 60, Body: []byte("x\r\n")}
		one, many, well := watch(a), watch(a, b), watch(c)
		answers := []<-chan durAnswer{reserve(one, shard.NoTimeout), reserve(many, shard.NoTimeout), reserve(well, shard.NoTimeout)}
		synctest.Wait()
		f.after.Store(0)
		for _, tube := range []string{a, b} {
			if got := watch(tube).ask(put); got.status != shard.Failed {
				d.t.Errorf("a put that cannot be written is answered with status %d", got.status)
			}
		}
		f.after.Store(-1)
		failed(one, answers[0], "a reserve that had waited")
		failed(many, answers[1], "a reserve that had waited on two shards")
		for _, tubes := range [][]string{{a}, {a, b}} {
			for _, timeout := range []int64{0, int64(time.Second), shard.NoTimeout} {
				p := watch(tubes...)
				failed(p, reserve(p, timeout), fmt.Sprintf("a reserve on %d shards that have failed, with timeout %d,", len(tubes), timeout))
			}
		}
		both := watch(a, c)
		first, second := watch(c).ask(put), watch(c).ask(put)
		if got := <-answers[2]; got.status != shard.OK || got.id != first.id {
			d.t.Errorf("a reserve on a shard that is well: status %d, job %d, want %d", got.status, got.id, first.id)
		}
		if got := <-reserve(both, shard.NoTimeout); got.status != shard.OK || got.id != second.id {
			d.t.Errorf("a reserve on a shard that is well and another: status %d, job %d, want %d", got.status, got.id, second.id)
		}
		if end() == nil {
			d.t.Error("Close says nothing of the failure")
		}
	})
}
