package router

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog/faultfs"
	"github.com/sheafq/sheaf/shard"
)

// TestDurableFull: when the disk is full puts are answered OutOfMemory, and
// hardly anything else is. When there is room again, because others have made
// some or because jobs were deleted, puts are accepted again. Whenever the
// power fails meanwhile all that was acknowledged is there, and the server can
// be started.
func TestDurableFull(t *testing.T) {
	refused, changes := make(map[shard.Op]int), int64(0)
	starts, refusedStarts := 0, 0
	durable(t, 45, func(d *durRun) {
		// Few changes fit into what is set aside, so that it is used up at
		// times.
		d.segment = 4096 + d.rng.Int64N(4096)
		end := d.begin(durSyncs[d.rng.IntN(len(durSyncs))], 1+d.rng.IntN(3))
		d.full = true
		d.most = 1000
		for range d.rng.IntN(40) {
			d.round()
		}
		d.trap.every(d.gaps(200))
		for range 1 + d.rng.IntN(3) {
			d.setCapacity(d.fs.Used() + int64(8*d.shards)*d.segment + d.rng.Int64N(50_000))
			d.fill()
			for range 20 + d.rng.IntN(100) {
				d.round()
			}
			if d.rng.IntN(2) == 0 {
				d.empty()
			} else {
				d.setCapacity(durRoom)
			}
			d.wellAgain()
		}
		changes += d.model.seq
		points := append(d.trap.taken(), d.point("at rest"))
		if err := end(); err != nil {
			d.fatalf("closing: %v", err)
		}
		for _, p := range append(d.some(points, 4), d.point("closed")) {
			left, shards := d.outcome(p), d.shards
			switch _, _, err := d.open(left.Kill(), d.config(0), shards); {
			case d.rng.IntN(2) == 0: // which needs some room
				left.SetCapacity(durRoom)
				shards = 1 + d.rng.IntN(5)
			case errors.Is(err, syscall.ENOSPC):
				left.SetCapacity(durRoom)
				refusedStarts++
			}
			d.check(p, left, shards)
			starts++
		}
		for op, n := range d.refused {
			refused[op] += n
		}
	})
	t.Logf("%d changes were made; refused, by command: %v, and %d of %d starts", changes, refused, refusedStarts, starts)
	if refused[shard.Put] == 0 {
		t.Error("no put was refused")
	}
	// A start needs a page a shard, and when all that was set aside is used up
	// there may be none: with segments as small as these, once in a while.
	if refusedStarts > 2+starts/100 {
		t.Error("the server cannot be started on a full disk")
	}
}

// fill puts jobs until one is refused.
func (d *durRun) fill() {
	for before := d.refused[shard.Put]; d.refused[shard.Put] == before; {
		c := d.clients[d.rng.IntN(len(d.clients))]
		c.Use(durTubes[d.rng.IntN(len(durTubes))])
		d.queue(c, d.put(c, 0))
		d.serve(c)
	}
}

// empty deletes all jobs.
func (d *durRun) empty() {
	for i := range d.clients {
		d.replace(i)
	}
	for len(d.model.alive) > 0 {
		d.queue(d.clients[0], shard.Request{Op: shard.Delete, ID: d.model.alive[0].id})
		d.serve(d.clients[0])
	}
}

// wellAgain checks that puts are accepted in all tubes, though maybe not the
// first.
func (d *durRun) wellAgain() {
	c := d.clients[0]
	for _, tube := range durTubes {
		for try, before := 0, -1; d.refused[shard.Put] > before; try++ {
			if try == 4 {
				d.fatalf("there is room again, and puts on shard %d are refused; %d bytes are used of %d", d.router.shardOf(tube), d.fs.Used(), d.capacity)
			}
			d.sleep(100 * time.Millisecond)
			before = d.refused[shard.Put]
			c.Use(tube)
			put := d.put(c, 0)
			put.Body = []byte("small\r\n")
			d.queue(c, put)
			d.serve(c)
		}
	}
}

// TestDurableFullChanges: on a full disk each job can be reserved and released,
// however late the space comes that cleaning makes.
func TestDurableFullChanges(t *testing.T) {
	durable(t, 20, func(d *durRun) {
		d.segment = 128 << 10
		var late atomic.Bool
		var open sync.Map // how many times files are open, by name
		count := func(name string) *atomic.Int64 {
			n, _ := open.LoadOrStore(name, new(atomic.Int64))
			return n.(*atomic.Int64)
		}
		d.setCapacity(1<<20 + d.rng.Int64N(2<<20))
		end := d.begin(durSyncs[d.rng.IntN(len(durSyncs))], 1)
		d.trap.fail = func(op faultfs.Op, name string, off int64, n int) error {
			switch op {
			case faultfs.OpCreate:
				count(name).Add(1)
				if late.Load() {
					// What makes segments also removes them. No time passes while
					// there are commands to serve.
					time.Sleep(10 * time.Millisecond)
				}
			case faultfs.OpOpen:
				count(name).Add(1)
			case faultfs.OpClose:
				count(name).Add(-1)
			case faultfs.OpReadAt:
				if late.Load() {
					time.Sleep(50 * time.Millisecond) // cleaning is slow
				}
			case faultfs.OpRemove:
				if count(name).Load() > 0 {
					t.Errorf("-durable.seed %d: %s is removed while it is open, and keeps its space", d.seed, name)
				}
			}
			return nil
		}
		c := d.clients[0]
		var ids []uint64
		for refused := 0; refused < 100; {
			c.Use(durTubes[d.rng.IntN(len(durTubes))])
			body := make([]byte, 200+d.rng.IntN(3000))
			for i := range body {
				body[i] = byte(d.rng.Uint32())
			}
			a := c.ask(shard.Request{Op: shard.Put, TTR: 1000, Body: append(body, "\r\n"...)})
			if a.status == shard.OK {
				ids = append(ids, a.id)
			} else {
				refused++
			}
		}
		late.Store(true)
		for range 4 {
			d.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			for i, id := range ids {
				for _, cmd := range []shard.Request{{Op: shard.ReserveJob, ID: id}, {Op: shard.Release, ID: id, Pri: 7}} {
					if a := c.ask(cmd); a.status != shard.OK {
						d.fatalf("command %d for job %d, the %d. of %d, is answered with status %d", cmd.Op, id, i+1, len(ids), a.status)
					}
				}
			}
		}
		late.Store(false)
		for _, id := range ids { // the oldest first: there is much to clean
			c.ask(shard.Request{Op: shard.Delete, ID: id})
			time.Sleep(time.Millisecond)
		}
		if err := end(); err != nil {
			d.fatalf("closing: %v", err)
		}
	})
}

// TestDurableStuck: on a disk that has no room for what was set aside, answers
// wait for some, and come.
func TestDurableStuck(t *testing.T) {
	durable(t, 30, func(d *durRun) {
		end := d.begin(durSyncs[d.rng.IntN(len(durSyncs))], 1+d.rng.IntN(3))
		var stuck atomic.Bool
		short := max(0, d.rng.IntN(200)-100)
		d.trap.fail = func(op faultfs.Op, name string, off int64, n int) error {
			if stuck.Load() && op == faultfs.OpWriteAt {
				return faultfs.Short{N: min(short, n), Err: syscall.ENOSPC}
			}
			return nil
		}
		d.trap.every(d.gaps(100))
		for range 3 {
			for range d.rng.IntN(20) {
				d.round()
			}
			c := d.clients[0]
			c.Use(durTubes[d.rng.IntN(len(durTubes))])
			d.sleep(10 * time.Second) // nothing else happens when it is stuck
			began, wait := time.Now(), time.Duration(1+d.rng.IntN(int(time.Second)))
			stuck.Store(true)
			time.AfterFunc(wait, func() { stuck.Store(false) })
			d.queue(c, d.put(c, 0))
			d.serve(c)
			if time.Since(began) < wait {
				d.fatalf("a put was answered while nothing could be written")
			}
			d.sleep(time.Second)
		}
		points := append(d.trap.taken(), d.point("at rest"))
		if err := end(); err != nil {
			d.fatalf("closing: %v", err)
		}
		for _, p := range append(d.some(points, 3), d.point("closed")) {
			// A sector with the first piece of a block before one with the rest
			// of it looks like damage.
			p.safe = p.safe && short == 0
			d.check(p, d.outcome(p), 1+d.rng.IntN(5))
		}
	})
}
