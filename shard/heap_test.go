package shard

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// all returns all entries, in the order of the heap.
func (h *jobHeap) all() []entry {
	all := make([]entry, h.n)
	for i := range all {
		all[i] = *h.at(i)
	}
	return all
}

// TestHeap compares a heap with a sorted slice.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var h jobHeap
		var sorted []entry
		lastID := uint64(0)
		order := func(a, b entry) int {
			if a.less(b.key) {
				return -1
			}
			return 1
		}
		newKey := func(id uint64) key { // few values, so that the id decides often
			return key{rapid.Uint64Range(0, 5).Draw(rt, "hi"), id}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				var top *job
				if len(sorted) > 0 {
					top = sorted[0].ref.job()
				}
				if h.top() != top || h.len() != len(sorted) {
					rt.Fatalf("top of %d is %+v, of %d %+v", h.len(), h.top(), len(sorted), top)
				}
				for i, e := range h.all() {
					if int(e.ref.job().pos) != i {
						rt.Fatalf("job %d at %d has pos %d", e.ref.job().id, i, e.ref.job().pos)
					}
				}
			},
			"push": func(rt *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(rt, "n") {
					lastID++
					e := entry{newKey(lastID), newTestJob(lastID).ref()}
					h.push(e.key, e.ref.job())
					sorted = append(sorted, e)
				}
				slices.SortFunc(sorted, order)
			},
			"remove": func(rt *rapid.T) {
				if len(sorted) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(sorted)-1).Draw(rt, "i")
				h.remove(sorted[i].ref.job())
				sorted = slices.Delete(sorted, i, i+1)
			},
			"fix": func(rt *rapid.T) {
				if len(sorted) == 0 {
					rt.Skip()
				}
				e := &sorted[rapid.IntRange(0, len(sorted)-1).Draw(rt, "i")]
				e.key = newKey(e.ref.job().id)
				h.fix(e.key, e.ref.job())
				slices.SortFunc(sorted, order)
			},
		})
		for _, e := range sorted {
			if h.top() != e.ref.job() {
				rt.Fatalf("job %d comes out when it is the turn of %d", h.top().id, e.ref.job().id)
			}
			h.remove(e.ref.job())
		}
	})
}

// TestHeapOfPages is TestHeap where a heap has pages: jobs come, change and go
// at random, and those that are left come out in order.
func TestHeapOfPages(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var h jobHeap
	var there []entry
	lastID := uint64(0)
	for _, size := range []int{3 * heapPage, heapPage / 3, 2*heapPage + 1, heapPage - 1, 5 * heapPage / 2} {
		for len(there) != size {
			lastID++
			k := key{rng.Uint64N(1000), lastID}
			switch i := rng.IntN(len(there) + 1); {
			case len(there) > 0 && i < len(there) && rng.IntN(5) == 0:
				there[i].key = k
				h.fix(k, there[i].ref.job())
			case len(there) < size:
				there = append(there, entry{k, newTestJob(lastID).ref()})
				h.push(k, there[len(there)-1].ref.job())
			case i < len(there):
				h.remove(there[i].ref.job())
				there[i] = there[len(there)-1]
				there = there[:len(there)-1]
			}
		}
		for i, e := range h.all() {
			if int(e.ref.job().pos) != i || i > 0 && e.less(h.at((i-1)/4).key) {
				t.Fatalf("seed %d: job %d of %d has pos %d, or is before its parent", seed, i, h.len(), e.ref.job().pos)
			}
		}
	}
	slices.SortFunc(there, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
	})
	for _, e := range there {
		if h.top() != e.ref.job() {
			t.Fatalf("seed %d: job %d comes out when it is the turn of %d", seed, h.top().id, e.ref.job().id)
		}
		h.remove(e.ref.job())
	}
}

// TestHeapGivesMemoryBack would catch a heap that keeps the room of its best
// days for ever.
func TestHeapGivesMemoryBack(t *testing.T) {
	var h jobHeap
	jobs := newTestJobs(100_000)
	for i := range jobs {
		h.push(key{0, uint64(i)}, jobs[i])
	}
	room := func() int { return cap(h.first) + len(h.rest)*heapPage }
	if room() > len(jobs)+3*heapPage/2 {
		t.Errorf("%d jobs have room for %d", len(jobs), room())
	}
	for h.len() > 0 {
		h.remove(h.top())
		if n := h.len(); room() > max(1024, min(5*n+4, n+2*heapPage+heapPage/2)) {
			t.Fatalf("room for %d is kept for %d jobs", room(), n)
		}
	}
}

// TestHeapDoesNotFlap: where a heap has come to rest a job more or less costs no
// memory.
func TestHeapDoesNotFlap(t *testing.T) {
	jobs := newTestJobs(3 * heapPage)
	for _, n := range []int{0, 255, 256, 1024, heapPage/2 - 1, heapPage / 2, heapPage - 1, heapPage, 3 * heapPage / 2, 2*heapPage - 1, 2 * heapPage} {
		var h jobHeap
		for i := range jobs {
			h.push(key{0, uint64(i)}, jobs[i])
		}
		for h.len() > n {
			h.remove(h.top())
		}
		extra := jobs[0]
		flap := func() {
			h.push(key{0, 1 << 40}, extra)
			h.remove(extra)
		}
		flap()
		if allocs := testing.AllocsPerRun(100, flap); allocs > 0 {
			t.Errorf("at %d jobs, one more costs %v allocations", n, allocs)
		}
	}
}

// testJobs is where tests of what holds jobs have them.
var testJobs struct {
	sync.Mutex
	jobStore
}

// newTestJob returns a job that stays for ever. Any goroutine may call it.
func newTestJob(id uint64) *job {
	testJobs.Lock()
	defer testJobs.Unlock()
	return testJobs.allot(id, nil)
}

// newTestJobs returns that many, without ids.
func newTestJobs(n int) []*job {
	jobs := make([]*job, n)
	for i := range jobs {
		jobs[i] = newTestJob(0)
	}
	return jobs
}
