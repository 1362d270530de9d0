package shard

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// mostShards is how many there may be, see package router.
const mostShards = 1024

// countPages is how many pages there are, after a look whether what is counted is
// true.
func (d *Directory) countPages() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, bytes := 0, int64(0)
	for i, r := range *d.roots.Load() {
		live := 0
		for k := range r.root.nodes {
			pages := 0
			if node := r.root.nodes[k].Load(); node != nil {
				live++
				for i := range node.pages {
					if node.pages[i].Load() != nil {
						pages++
					}
				}
				if pages == 0 {
					panic("a node without pages")
				}
			}
			if pages != int(r.root.pages[k]) {
				panic("a root miscounts the pages of a node")
			}
			n += pages
		}
		if live != r.root.live || live == 0 {
			panic("a root miscounts its nodes")
		}
		if i > 0 && r.n <= (*d.roots.Load())[i-1].n {
			panic("the roots are not in order")
		}
		bytes += rootBytes + int64(live)*nodeBytes
	}
	if bytes += int64(n) * pageBytes; bytes != d.bytes {
		panic("the bytes are miscounted")
	}
	return n
}

// TestDirectoryModel: one goroutine, any order, against a map; ids that were
// taken long before they are entered, ids that never are.
func TestDirectoryModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	d := NewDirectory()
	model := make(map[uint64]int)
	var there, taken []uint64
	drop := func(ids *[]uint64, i int) uint64 {
		id := (*ids)[i]
		(*ids)[i] = (*ids)[len(*ids)-1]
		*ids = (*ids)[:len(*ids)-1]
		return id
	}
	for step := range 300_000 {
		// The number of jobs goes up and down between none and a few pages
		// full.
		grow := step/20_000%2 == 0
		switch n := rng.IntN(10); {
		case n < 1:
			taken = append(taken, d.NextID())
			if len(taken) > 50 {
				id := drop(&taken, rng.IntN(len(taken)))
				if rng.IntN(2) == 0 {
					model[id] = rng.IntN(mostShards)
					d.enter(newTestJob(id), model[id])
					there = append(there, id)
				}
			}
		case n < 7 == grow || len(there) == 0:
			id := d.NextID()
			model[id] = rng.IntN(mostShards)
			d.enter(newTestJob(id), model[id])
			there = append(there, id)
		default:
			id := drop(&there, rng.IntN(len(there)))
			delete(model, id)
			d.leave(id)
		}
		for range 3 {
			id := rng.Uint64N(d.ids.Load() + 10)
			want, ok := model[id]
			if !ok {
				want = -1
			}
			if got := d.Lookup(id); got != want {
				t.Fatalf("seed %d, step %d: job %d on shard %d, want %d", seed, step, id, got, want)
			}
		}
	}
	for _, id := range there {
		d.leave(id)
	}
	if n := d.countPages(); n > groupPages {
		t.Errorf("seed %d: %d pages of nothing", seed, n)
	}
}

// TestDirectoryUnknown: ids that cannot be there are not found, and cost
// nothing.
func TestDirectoryUnknown(t *testing.T) {
	d := NewDirectory()
	d.enter(newTestJob(d.NextID()), 5)
	for _, id := range []uint64{0, 2, pageSize, groupSize - 1, groupSize, 1 << nodeBits, 1 << rootBits, 1 << 32, 1<<63 + 1, 1<<64 - 1} {
		if got := d.Lookup(id); got != -1 {
			t.Errorf("job %d is on shard %d", id, got)
		}
	}
	if d.Lookup(1) != 5 || d.countPages() != 1 {
		t.Errorf("job 1 on shard %d, %d pages", d.Lookup(1), d.countPages())
	}
}

// TestDirectoryRace has goroutines enter, look up and leave around the borders
// of pages, which are dropped and made again all the time. Each knows exactly
// where its own jobs are, and that those it has taken out are nowhere.
func TestDirectoryRace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	rounds := 24
	if testing.Short() {
		rounds = 8
	}
	for round := range rounds {
		seed := rand.Uint64()
		d := NewDirectory()
		// Begin shortly before the end of a group; of the last one of a node, or of a
		// root; or of a long list of roots.
		d.ids.Store([]uint64{groupSize - 300, 1<<nodeBits - 300, 1<<rootBits - 300, 5<<rootBits - 300}[round%4])
		const goroutines = 8
		var wg sync.WaitGroup
		var stop atomic.Bool
		for g := range goroutines {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(g)))
				own := make(map[uint64]int)
				var ids, gone []uint64
				for step := range 1500 {
					if rng.IntN(2) == 0 || len(ids) == 0 {
						id := d.NextID()
						if rng.IntN(4) == 0 {
							runtime.Gosched() // let the page go that it is about to enter
						}
						own[id] = rng.IntN(mostShards)
						d.enter(newTestJob(id), own[id])
						ids = append(ids, id)
					} else {
						// Mostly the last, so that there are often none at all.
						i := len(ids) - 1
						if rng.IntN(4) == 0 {
							i = rng.IntN(len(ids))
						}
						id := ids[i]
						ids = append(ids[:i], ids[i+1:]...)
						d.leave(id)
						delete(own, id)
						gone = append(gone, id)
					}
					if step%100 == 99 {
						for _, id := range ids {
							d.leave(id)
							gone = append(gone, id)
						}
						ids = ids[:0]
						clear(own)
					}
					for _, id := range ids {
						if got := d.Lookup(id); got != own[id] {
							t.Errorf("seed %d: job %d on shard %d, want %d", seed, id, got, own[id])
						}
					}
					for range min(3, len(gone)) {
						id := gone[rng.IntN(len(gone))]
						if got := d.Lookup(id); got != -1 {
							t.Errorf("seed %d: job %d, which is gone, on shard %d", seed, id, got)
						}
					}
					if t.Failed() {
						return
					}
				}
				for _, id := range ids {
					d.leave(id)
				}
			})
		}
		var readers sync.WaitGroup
		readers.Go(func() { // who asks for anything
			for id := d.ids.Load(); !stop.Load(); id++ {
				if d.Lookup(id) >= mostShards {
					t.Errorf("seed %d: job %d on shard %d", seed, id, d.Lookup(id))
				}
				if id > d.ids.Load()+100 {
					id -= 2000
				}
			}
		})
		wg.Wait()
		stop.Store(true)
		readers.Wait()
		// The page of the next id may stay; all others are empty and gone, once
		// the next page is made.
		if n := d.countPages(); n > groupPages {
			t.Errorf("seed %d: %d pages of nothing", seed, n)
		}
		if t.Failed() {
			return
		}
	}
}

// TestDirectoryMemory: many jobs come and go, a few stay, and only the
// pages of these are kept.
func TestDirectoryMemory(t *testing.T) {
	d := NewDirectory()
	const n, every = 300_000, 45_000
	const window = 1000 // jobs at a time
	var survivors []uint64
	most := 0
	for i := range n {
		id := d.NextID()
		d.enter(newTestJob(id), i%7)
		if i%every == every/2 {
			survivors = append(survivors, id)
		}
		if old := id - window; old > 0 && old < id && (len(survivors) == 0 || !contains(survivors, old)) {
			d.leave(old)
		}
		if i%10_000 == 0 {
			most = max(most, d.countPages())
		}
	}
	if limit := len(survivors) + (window/groupSize+2)*groupPages; most > limit || d.countPages() > limit {
		t.Errorf("up to %d pages, %d in the end, for %d old jobs", most, d.countPages(), len(survivors))
	}
	for _, id := range survivors {
		if got := d.Lookup(id); got != int(id-1)%7 {
			t.Errorf("job %d on shard %d", id, got)
		}
		d.leave(id)
	}
	for id := d.ids.Load() - window + 1; id <= d.ids.Load(); id++ {
		d.leave(id)
	}
	if n := d.countPages(); n > groupPages {
		t.Errorf("%d pages of nothing", n)
	}
}

func contains(ids []uint64, id uint64) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}

// TestDirectoryGaps: ids that are taken and never entered (puts that are
// refused) keep no page, not even where a whole page of them follows a job.
func TestDirectoryGaps(t *testing.T) {
	d := NewDirectory()
	for range 100 {
		id := d.NextID()
		d.enter(newTestJob(id), 1)
		d.leave(id)
		for range groupSize + groupSize/3 {
			d.NextID()
		}
	}
	if n := d.countPages(); n > groupPages {
		t.Errorf("%d pages of nothing", n)
	}
}

// inStep has two goroutines do something at the same time, round after round,
// and one of them look after each.
func inStep(rounds uint64, one, other, look func(round uint64)) {
	var round, finished atomic.Uint64 // round is what both may do now
	var done sync.WaitGroup
	for _, do := range []func(uint64){one, other} {
		done.Go(func() {
			for i := range rounds {
				for spins := 0; round.Load() < i; spins++ {
					if spins > 100 {
						runtime.Gosched()
					}
				}
				do(i)
				if finished.Add(1)%2 == 0 {
					look(i)
					round.Store(i + 1)
				}
			}
		})
	}
	done.Wait()
}

// TestDirectoryLastAndNext: the last job of a full page leaves while another,
// whose id was taken long before, enters: the page goes, but not with it.
func TestDirectoryLastAndNext(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	d := NewDirectory()
	d.enter(newTestJob(3*groupSize), 1) // all ids of the groups before have been given out
	rounds := uint64(10_000)
	if testing.Short() {
		rounds = 1000
	}
	id := func(i uint64) uint64 { return groupSize + i%pageSize*groupPages } // all on one page
	d.enter(newTestJob(id(0)), 5)
	inStep(rounds, func(i uint64) { d.leave(id(i)) }, func(i uint64) {
		d.enter(newTestJob(id(i+1)), 5)
		if got := d.Lookup(id(i + 1)); got != 5 {
			t.Errorf("round %d: the job is on shard %d", i, got)
		}
	}, func(i uint64) {
		if d.Lookup(id(i)) != -1 || d.Lookup(id(i+1)) != 5 {
			t.Errorf("round %d: jobs on shards %d and %d", i, d.Lookup(id(i)), d.Lookup(id(i+1)))
		}
	})
	d.leave(id(rounds))
	if n := d.countPages(); n != groupPages {
		t.Errorf("%d pages for one job in the newest group", n)
	}
}

// TestDirectorySpread: ids that are far apart, up to the highest there is, cost
// a page and a root each, and nothing when they are gone. They are what is read
// back from a damaged binlog.
func TestDirectorySpread(t *testing.T) {
	d := NewDirectory()
	rng := rand.New(rand.NewPCG(1, 0))
	ids := []uint64{1, 1 << rootBits, 1<<rootBits - 1, 1 << 45, 1<<63 - 1, 1 << 63, 1<<64 - 2}
	for range 100 {
		ids = append(ids, rng.Uint64()>>rng.IntN(64)|1<<20)
	}
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	d.Skip(1<<64 - 2)
	shards := make(map[uint64]int)
	for i, id := range ids {
		_, there := shards[id]
		if d.tryEnter(newTestJob(id), i) == there {
			t.Fatalf("job %d entered: %v, but was there: %v", id, !there, there)
		}
		if !there {
			shards[id] = i
		}
	}
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, gone := range ids {
		for id, want := range shards {
			if got := d.Lookup(id); got != want {
				t.Fatalf("job %d on shard %d, want %d", id, got, want)
			}
		}
		if _, there := shards[gone]; there {
			d.leave(gone)
			delete(shards, gone)
		}
		if got := d.Lookup(gone); got != -1 {
			t.Fatalf("job %d, which is gone, on shard %d", gone, got)
		}
		d.countPages() // looks after the order of the roots
	}
	if n := d.countPages(); n > groupPages {
		t.Errorf("%d pages of nothing", n)
	}
}

// TestDirectoryLastAndNewest: the last job of the newest group leaves while the
// next is made: one of both takes the old page out.
func TestDirectoryLastAndNewest(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	d := NewDirectory()
	rounds := uint64(20_000)
	if testing.Short() {
		rounds = 4000
	}
	// The job is at the end of its page, so that who tries to take that out has
	// done most of it when it is found.
	id := func(i uint64) uint64 { return (i+1)*groupSize - 1 }
	d.enter(newTestJob(id(0)), 5)
	inStep(rounds, func(i uint64) { d.leave(id(i)) }, func(i uint64) { d.enter(newTestJob(id(i+1)), 5) }, func(uint64) {})
	if n := d.countPages(); n != groupPages {
		t.Errorf("%d pages for one job", n)
	}
}

// TestPageGoes: a page is being taken out while a job comes to its end and leaves
// again: one of both takes it out.
func TestPageGoes(t *testing.T) {
	var p page
	rounds := uint64(200_000)
	if testing.Short() {
		rounds = 20_000
	}
	const end = pageSize - 1
	var some uint64
	wait := func(n uint64) {
		for range n {
			some += p[end].Load()
		}
	}
	inStep(rounds, func(uint64) { p.takeOut() }, func(i uint64) {
		wait(i % 256)
		if p[end].CompareAndSwap(0, gone+1) {
			wait(32)
			p[end].Store(0)
			p.takeOut()
		}
	}, func(round uint64) {
		for i := range p {
			if p[i].Swap(0) != gone {
				t.Errorf("round %d: place %d is not gone", round, i)
			}
		}
	})
}

// TestDirectoryLines: what all shards write is on no cache line with what they read.
func TestDirectoryLines(t *testing.T) {
	const size = 64
	var d Directory
	ids, read, locked := unsafe.Offsetof(d.ids)/size, unsafe.Offsetof(d.roots)/size, unsafe.Offsetof(d.mu)/size
	if ids == read || read == locked || ids == locked || unsafe.Offsetof(d.newest)/size != read {
		t.Errorf("ids on line %d, roots on %d, newest on %d, mu on %d", ids, read, unsafe.Offsetof(d.newest)/size, locked)
	}
}

// TestDirectoryOfOldJobs: what old jobs keep of the directory is little beside the
// jobs, however few stay of those that there were, and a budget knows of it.
func TestDirectoryOfOldJobs(t *testing.T) {
	for every, most := range map[int64]int64{1: 9, 500: 400, 2048: 800, 10_000: 900} {
		b := NewBudget(1<<40, 1)
		d := NewDirectory()
		d.ChargeTo(b)
		const n = 1 << 20
		var stay, window []uint64
		for i := range int64(n) {
			id := d.NextID()
			d.enter(newTestJob(id), 1)
			if i%every == every/2 {
				stay = append(stay, id)
				continue
			}
			if window = append(window, id); len(window) == 100 {
				for _, id := range window {
					d.leave(id)
				}
				window = window[:0]
			}
		}
		d.countPages() // looks after the count
		if limit := int64(len(stay))*most + groupPages*pageBytes + 2*rootBytes; d.bytes > limit {
			t.Errorf("one job in %d stays: that takes %d bytes each", every, d.bytes/int64(len(stay)))
		}
		if used := b.used.Load(); used > d.bytes || used < d.bytes-uncounted-b.slack {
			t.Errorf("one job in %d stays: of %d bytes %d are counted", every, d.bytes, used)
		}
		for _, id := range append(stay, window...) {
			d.leave(id)
		}
		if n := d.countPages(); n > groupPages || b.used.Load() > b.slack {
			t.Errorf("one job in %d stayed: %d pages, %d bytes are counted of nothing", every, n, b.used.Load())
		}
	}
}
