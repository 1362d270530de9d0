package shard

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog/faultfs"
)

// incompressible returns a body of that many bytes, with its end.
func incompressible(rng *rand.Rand, n int) []byte {
	b := make([]byte, n, n+2)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return append(b, "\r\n"...)
}

// fill puts jobs of 1000 bytes until one is refused, and returns the ids of the others.
func (p *person) fill(rng *rand.Rand, ttr uint32) (ids []uint64) {
	for {
		r := p.do(0, Request{Op: Put, Tube: p.used, TTR: ttr, Body: incompressible(rng, 1000)})
		if r.Status != OK {
			return ids
		}
		ids = append(ids, r.ID)
	}
}

// TestSuddenlyFull: another program takes all that is left of the disk from one
// moment to the next, and stays. All that was set aside is what it was for a disk
// with room; jobs change many times what that holds, since cleaning begins while
// it has room for its copies.
func TestSuddenlyFull(t *testing.T) {
	for _, tc := range []struct{ jobs, size int }{{500, 1000}, {100, 1000}, {5000, 10}, {3, 70000}, {245, 1000}} {
		synctest.Test(t, func(t *testing.T) {
			f := faultfs.New()
			g, _, stop := newLoggedRig(t, f, 1, 256<<10)
			rng := rand.New(rand.NewPCG(1, 1))
			p := g.newPerson().settleIn("a")
			ids := make([]uint64, tc.jobs)
			for i := range ids {
				ids[i] = p.do(0, Request{Op: Put, Tube: p.used, TTR: 1000, Body: incompressible(rng, tc.size)}).ID
			}
			time.Sleep(time.Second)
			f.Leave(0)
			most := 2 * (256 << 10) / 40
			for n := range most {
				id := ids[rng.IntN(len(ids))]
				for _, r := range []Request{{Op: ReserveJob, ID: id}, {Op: Release, ID: id, Pri: PriLow}} {
					if got := p.do(0, r); got.Status != OK {
						t.Fatalf("%d jobs of %d bytes: change %d of %d is answered %d", tc.jobs, tc.size, n, most, got.Status)
					}
				}
				if n%64 == 0 {
					time.Sleep(time.Millisecond) // what clients take
				}
			}
			if r := p.do(0, Request{Op: Put, Tube: p.used, TTR: 1000, Body: incompressible(rng, 300<<10)}); r.Status != OutOfMemory {
				t.Errorf("a put on a full disk is answered %d", r.Status)
			}
			for _, id := range ids {
				if r := p.do(0, Request{Op: Delete, ID: id}); r.Status != OK {
					t.Errorf("a delete is answered %d", r.Status)
				}
			}
			f.SetCapacity(1 << 30)
			p.detach()
			stop()
		})
	}
}

// TestIdleOnAFullDisk: cleaning comes to an end, also where records take more than is
// reckoned, and so are never as few as it would like.
func TestIdleOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		g, _, stop := newLoggedRig(t, f, 1, 256<<10)
		rng := rand.New(rand.NewPCG(1, 1))
		p := g.newPerson().settleIn("a")
		for range 20_000 {
			p.do(0, Request{Op: Put, Tube: p.used, Pri: 4e9, TTR: 4e9, Delay: 4e6, Body: incompressible(rng, 10)})
		}
		time.Sleep(time.Second)
		f.Leave(0)
		if r := p.do(0, Request{Op: Put, Tube: p.used, Body: incompressible(rng, 300<<10)}); r.Status != OutOfMemory {
			t.Errorf("a put on a full disk is answered %d", r.Status)
		}
		time.Sleep(time.Minute)
		var written atomic.Int64
		f.SetFault(func(op faultfs.Op, _ string, _ int64, n int) error {
			if op == faultfs.OpWriteAt {
				written.Add(int64(n))
			}
			return nil
		})
		time.Sleep(time.Minute)
		if n := written.Load(); n > 0 {
			t.Errorf("%d bytes were written in a minute in which nobody asked for anything", n)
		}
		f.SetCapacity(1 << 30)
		p.detach()
		stop()
	})
}

// TestFullDiskIsEmptied: jobs are deleted after the disk was full, and nobody puts
// any. Cleaning does not go on as if there were no room.
func TestFullDiskIsEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		const disk = 8 << 20
		f.SetCapacity(disk)
		g, _, stop := newLoggedRig(t, f, 1, 64<<10)
		rng := rand.New(rand.NewPCG(1, 1))
		p := g.newPerson().settleIn("a")
		ids := p.fill(rng, 1000)
		var written atomic.Int64
		f.SetFault(func(op faultfs.Op, _ string, _ int64, n int) error {
			if op == faultfs.OpWriteAt {
				written.Add(int64(n))
			}
			return nil
		})
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids {
			if r := p.do(0, Request{Op: Delete, ID: id}); r.Status != OK {
				t.Errorf("a delete is answered %d", r.Status)
			}
			time.Sleep(time.Millisecond) // what clients take
		}
		if n := written.Load(); n > 3*disk {
			t.Errorf("while %d jobs of a full disk of %d bytes were deleted %d bytes were written", len(ids), disk, n)
		}
		p.detach()
		stop()
	})
}

// TestCountersOnAFullDisk: on a disk that is full a reserve waits, as other changes do,
// while there is no room to note it but cleaning will make some; and so does the end of a
// time to run. So their numbers are right after a restart.
func TestCountersOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		f.SetCapacity(1 << 20)
		g, _, stop := newLoggedRig(t, f, 1, 64<<10)
		rng := rand.New(rand.NewPCG(1, 1))
		boss, _ := g.newWorker(1 << 30)
		boss.submit("fore", "u", "x", false)
		p := g.newPerson().settleIn("a")
		ids := p.fill(rng, 20)
		late := g.newPerson().settleIn("a")
		if r := late.do(0, Request{Op: ReserveJob, ID: ids[1]}); r.Status != OK {
			t.Fatalf("a reserve is answered %d", r.Status)
		}
		time.Sleep(20*time.Second - time.Duration(stallMost)/2)

		// From here on nothing is cleaned, as if the cleaner were slow, until there is no room.
		g.look(func(s *Shard) { s.cleaning = true })
		var chain []*Request
		for range 1 << 12 {
			chain = append(chain, &Request{Op: ReserveJob, ID: ids[0]}, &Request{Op: Release, ID: ids[0]})
		}
		for n := 0; p.waiter.Answered(); n++ {
			if n == 1000 {
				t.Fatal("there is always room")
			}
			p.post(0, chain...)
			synctest.Wait()
		}
		var waiting []*person
		var requests []*Request
		for _, op := range []Op{Reserve, ReserveTimeout, ReserveJob} {
			p, r := g.newPerson().settleIn("a"), &Request{Op: op, ID: ids[5]}
			p.post(0, r)
			waiting, requests = append(waiting, p), append(requests, r)
		}
		time.Sleep(time.Duration(stallMost) * 3 / 4)
		for i, p := range append(waiting, p) {
			if p.waiter.Answered() {
				t.Errorf("%d: what finds no room is answered", i)
			}
		}
		w, _ := g.newWorker(1 << 30)
		w.canDo("fore")
		at := time.Now()
		if r := w.do(0, Request{Op: Grab}); r.Status != OK || time.Since(at) > 0 {
			t.Errorf("a job that is not in the log is grabbed with status %d after %v", r.Status, time.Since(at))
		}
		j := late.do(0, Request{Op: StatsJob, ID: ids[1]}).Job
		if j.State != "reserved" || j.Timeouts != 0 {
			t.Errorf("the job that comes back is %+v", j)
		}

		g.look(func(s *Shard) { s.cleaning, s.stalls.recheck = false, true })
		for i, p := range append(waiting, p) {
			p.await()
			if i < len(requests) && requests[i].Status != OK {
				t.Errorf("%d is answered %d", requests[i].Op, requests[i].Status)
			}
		}
		time.Sleep(time.Second)
		counts := func(g *rig) (all [][2]uint32) {
			p := g.newPerson()
			for _, id := range ids {
				j := p.do(0, Request{Op: StatsJob, ID: id}).Job
				all = append(all, [2]uint32{j.Reserves, j.Timeouts})
			}
			return all
		}
		before := counts(g)
		if before[1] != [2]uint32{1, 1} {
			t.Errorf("the job that came back has %v", before[1])
		}
		stop()
		g, _, stop = newLoggedRig(t, f, 1, 64<<10)
		if after := counts(g); !slices.Equal(after, before) {
			t.Errorf("reserves and timeouts are %v, and after a restart %v", before, after)
		}
		stop()
	})
}
