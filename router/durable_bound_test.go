package router

import (
	"testing"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// TestDurableBound: however many jobs come and go, beside one that stays for
// ever or among many of which now and then one is replaced, the directory takes
// no more than about twice the live data, and two segments a shard with what is
// set aside.
func TestDurableBound(t *testing.T) {
	durable(t, 6, func(d *durRun) {
		d.segment = 64 << 10
		d.full = true // no large jobs
		end := d.begin(durSyncs[d.rng.IntN(len(durSyncs))], 1+d.rng.IntN(4))
		c := d.clients[0]
		put := func(body []byte) *durJob {
			c.Use(durTubes[d.rng.IntN(len(durTubes))])
			a := c.ask(shard.Request{Op: shard.Put, Pri: 1, TTR: 60, Body: body})
			if a.status != shard.OK {
				d.fatalf("put: status %d", a.status)
			}
			return &durJob{id: a.id, tube: c.Used().Name, body: body}
		}
		do := func(cmd shard.Request) {
			if a := c.ask(cmd); a.status != shard.OK {
				d.fatalf("command %d: status %d", cmd.Op, a.status)
			}
		}
		old := put([]byte("for ever\r\n"))
		do(shard.Request{Op: shard.ReserveJob, ID: old.id})
		do(shard.Request{Op: shard.Bury, ID: old.id})
		keep := []int{0, 1, 50, 500, 2000}[d.rng.IntN(5)]
		var live []*durJob
		var bytes, most int64
		size := func(j *durJob) int64 { return int64(24 + len(j.tube) + len(j.body)) }
		for i := range 8000 {
			j := put(d.body())
			live = append(live, j)
			bytes += size(j)
			if len(live) > keep {
				at := d.rng.IntN(len(live))
				bytes -= size(live[at])
				do(shard.Request{Op: shard.Delete, ID: live[at].id})
				live[at] = live[len(live)-1]
				live = live[:len(live)-1]
			}
			if i%50 == 0 {
				time.Sleep(time.Second)
				for _, tube := range durTubes { // a shard that is asked nothing does nothing
					c.Use(tube)
					c.ask(shard.Request{Op: shard.PeekReady})
				}
				time.Sleep(time.Second)
				// A shard that has just gone on in the next segment, and has
				// not written to it, has what was set aside in both. A little
				// more is set aside for what may become of each job, and blocks
				// of files are not full.
				bound := 2*bytes + 256*int64(len(live)) + int64(d.shards)*(2*d.segment+d.segment*3/2+4*4096)
				used := d.fs.Used()
				if most = max(most, used*100/bound); used > bound {
					d.fatalf("%d jobs of %d bytes take %d bytes on %d shards, more than %d", len(live), bytes, used, d.shards, bound)
				}
			}
		}
		d.t.Logf("%d shards, %d jobs: at most %d%% of the bound", d.shards, keep, most)
		do(shard.Request{Op: shard.KickJob, ID: old.id})
		if err := end(); err != nil {
			d.fatalf("closing: %v", err)
		}
	})
}
