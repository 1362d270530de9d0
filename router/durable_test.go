package router

import (
	"flag"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// What the binlog promises, shown on the whole engine: random histories on a
// file system in memory that loses its power, is full, or fails, at any moment;
// an engine that is started on what is left; and a model that knows what must
// be there. Most histories come from one goroutine, which knows each answer
// beforehand, and so how each job must be in every field. Time is that of
// package synctest.
//
//	durable_test.go          crashes
//	durable_many_test.go     crashes under many clients at once
//	durable_failure_test.go  a disk that fails
//	durable_full_test.go     a disk that is full
//	durable_bound_test.go    how much of it is used
//	durable_os_test.go       the file system of the machine
//
//	durable_model_test.go    what an engine does and has to keep
//	durable_drive_test.go    an engine and the clients that drive it
//	durable_command_test.go  random commands
//	durable_point_test.go    the moments of crashes
//	durable_check_test.go    what is found after one, compared with the model
//	durable_order_test.go    the same when many clients have had their way
//
// A long search:     go test ./router -run TestDurable -durable.runs 10000 -timeout 0
// The same choices:  … -durable.seed 123 (what goroutines do at once may still differ)

var (
	durRuns = flag.Int("durable.runs", 0, "runs of each test of the binlog; 0 for a few")
	durSeed = flag.Uint64("durable.seed", 0, "seed of the tests of the binlog; 0 draws one for each run")
)

// durable calls f in a bubble, again and again with a new seed.
func durable(t *testing.T, runs int, f func(d *durRun)) {
	switch {
	case *durRuns != 0:
		runs = *durRuns
	case testing.Short():
		runs = (runs + 9) / 10
	case raceDetector:
		runs = (runs + 2) / 3
	}
	watchdog(t, time.Minute+time.Duration(runs)*time.Second)
	for range runs {
		seed := durDraw()
		synctest.Test(t, func(t *testing.T) { f(newDurRun(t, seed)) })
		if t.Failed() || *durSeed != 0 {
			return
		}
	}
}

// durDraw returns a seed.
func durDraw() uint64 {
	if *durSeed != 0 {
		return *durSeed
	}
	return rand.Uint64()
}

// TestDurableCrash: whenever the power fails or the server is killed, what was
// acknowledged is there, and of what was not the first changes of each shard;
// exactly, and without a damage. So it is if that happens again during
// recovery, or right after it, and for any number of shards.
func TestDurableCrash(t *testing.T) {
	points, recoveries := 0, 0
	durable(t, 60, func(d *durRun) {
		for range 2 + d.rng.IntN(3) {
			taken := d.life()
			points += len(taken)
			for _, p := range taken {
				for range 1 + d.rng.IntN(2) {
					recoveries += d.recovers(p)
				}
			}
			p := taken[d.rng.IntN(len(taken))]
			if d.rng.IntN(4) == 0 {
				p = taken[len(taken)-1] // the server was closed in good order
			}
			d.goOn(p)
		}
	})
	t.Logf("%d points, %d recoveries", points, recoveries)
}

// TestDurableTorn: whatever is on the disk of what was about to be synced, and
// torn wherever, what was acknowledged is there, and no damage is seen.
func TestDurableTorn(t *testing.T) {
	outcomes := 0
	durable(t, 24, func(d *durRun) {
		end := d.begin(0, 1+d.rng.IntN(2))
		d.trap.syncs = true
		d.trap.every(d.gaps(10))
		for range d.rng.IntN(60) {
			d.round()
		}
		if err := end(); err != nil {
			d.fatalf("closing: %v", err)
		}
		for _, p := range d.some(d.trap.taken(), 6) {
			for range 10 {
				d.check(p, p.fs.Crash(d.rng), d.shards)
				outcomes++
			}
		}
	})
	t.Logf("%d outcomes", outcomes)
}

// life runs an engine for a while and returns the moments at which it may have
// come to an end. At the last it was closed.
func (d *durRun) life() []*durPoint {
	sync := durSyncs[d.rng.IntN(len(durSyncs))]
	end := d.begin(sync, 1+d.rng.IntN(5))
	d.trap.every(d.gaps(200))
	for range d.rng.IntN(80) {
		d.round()
	}
	points := append(d.trap.taken(), d.point("at rest"))
	if sync > 0 {
		d.sleep(2 * sync)
		p := d.point("when all was synced")
		p.safe = true
		points = append(points, p)
	}
	if err := end(); err != nil {
		d.fatalf("closing: %v", err)
	}
	points = d.some(append(points, d.trap.taken()...), 6)
	closed := d.point("closed")
	closed.safe = sync != binlog.SyncNever
	return append(points, closed)
}

var durSyncs = []time.Duration{0, 0, 50 * time.Millisecond, binlog.SyncNever}

// gaps returns a source of random numbers, which any goroutine may ask for one
// after the other: from 1 to a most that is at random at most that.
func (d *durRun) gaps(most int) func() int {
	rng := rand.New(rand.NewPCG(d.seed, d.rng.Uint64()))
	most = 1 + d.rng.IntN(most)
	return func() int { return 1 + rng.IntN(most) }
}

// some returns some of the points.
func (d *durRun) some(points []*durPoint, most int) []*durPoint {
	d.rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	return points[:min(len(points), most)]
}

// outcome returns what a crash at p leaves.
func (d *durRun) outcome(p *durPoint) *faultfs.FS {
	if p.safe && d.rng.IntN(4) > 0 {
		return p.fs.Crash(d.rng)
	}
	return p.fs.Kill()
}

// recovers has engines find what a crash at p has left, the last of which is
// not disturbed. It returns how many there were.
func (d *durRun) recovers(p *durPoint) (engines int) {
	left := d.outcome(p)
	for d.rng.IntN(3) == 0 {
		left = d.interrupted(p, left)
		engines++
	}
	d.check(p, left, 1+d.rng.IntN(5))
	return engines + 1
}

// interrupted returns what is left when the next crash comes during recovery,
// or right after it.
func (d *durRun) interrupted(p *durPoint, left *faultfs.FS) *faultfs.FS {
	cfg := d.config(d.cfg.Sync)
	cut := left.Cut(1 + d.rng.IntN(60))
	_, end, err := d.open(left, cfg, 1+d.rng.IntN(5))
	if err != nil {
		d.fatalf("crash %s: %v", p.when, err)
	}
	rest := left.Kill()
	if err := end(); err != nil {
		d.fatalf("crash %s: closing: %v", p.when, err)
	}
	select {
	case rest = <-cut:
	default:
	}
	if cfg.Sync == 0 && d.rng.IntN(4) > 0 {
		return rest.Crash(d.rng)
	}
	return rest
}

// check compares what an engine finds in a file system with what was there at
// p, and returns the last change of each shard that is there.
func (d *durRun) check(p *durPoint, fs *faultfs.FS, shards int) (cuts []int64) {
	s := d.find(p, fs, d.config(0), shards)
	cuts, err := p.compare(s)
	if err != nil {
		d.fatalf("crash %s: %v", p.when, err)
	}
	return cuts
}

// find returns what an engine finds in a file system.
func (d *durRun) find(p *durPoint, fs binlog.FS, cfg binlog.Config, shards int) *durState {
	r, end, err := d.open(fs, cfg, shards)
	if err != nil {
		d.fatalf("crash %s: %v", p.when, err)
	}
	s := durRead(r)
	if err := end(); err != nil {
		d.fatalf("crash %s: closing: %v", p.when, err)
	}
	return s
}

// goOn makes the file system that of a crash at p, and the model that of what
// is there.
func (d *durRun) goOn(p *durPoint) {
	d.fs = d.outcome(p)
	cuts := d.check(p, d.fs.Kill(), 1+d.rng.IntN(5))
	if d.rng.IntN(2) == 0 {
		time.Sleep(time.Duration(d.rng.Int64N(5e9)))
	}
	d.model = p.model.settle(cuts, d.now())
	d.model.ackedID.Store(p.ackedID)
}
