package shard

import (
	"slices"
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
					top = sorted[0].j
				}
				if h.top() != top || h.len() != len(sorted) {
					rt.Fatalf("top of %d is %+v, of %d %+v", h.len(), h.top(), len(sorted), top)
				}
				for i, e := range h.all() {
					if int(e.j.pos) != i {
						rt.Fatalf("job %d at %d has pos %d", e.j.id, i, e.j.pos)
					}
				}
			},
			"push": func(rt *rapid.T) {
				few, many := rapid.IntRange(1, 20), rapid.IntRange(heapPage-20, heapPage+20)
				for range rapid.OneOf(few, few, few, many).Draw(rt, "n") {
					lastID++
					e := entry{newKey(lastID), &job{id: lastID}}
					h.push(e.key, e.j)
					sorted = append(sorted, e)
				}
				slices.SortFunc(sorted, order)
			},
			"remove": func(rt *rapid.T) {
				if len(sorted) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(sorted)-1).Draw(rt, "i")
				h.remove(sorted[i].j)
				sorted = slices.Delete(sorted, i, i+1)
			},
			"remove many": func(rt *rapid.T) {
				n := rapid.IntRange(0, len(sorted)).Draw(rt, "n")
				for _, e := range sorted[:n] {
					h.remove(e.j)
				}
				sorted = sorted[n:]
			},
			"fix": func(rt *rapid.T) {
				if len(sorted) == 0 {
					rt.Skip()
				}
				e := &sorted[rapid.IntRange(0, len(sorted)-1).Draw(rt, "i")]
				e.key = newKey(e.j.id)
				h.fix(e.key, e.j)
				slices.SortFunc(sorted, order)
			},
		})
		for _, e := range sorted {
			if h.top() != e.j {
				rt.Fatalf("job %d comes out when it is the turn of %d", h.top().id, e.j.id)
			}
			h.remove(e.j)
		}
	})
}

// TestHeapGivesMemoryBack would catch a heap that keeps the room of its best
// days for ever, or that refers to jobs which have left.
func TestHeapGivesMemoryBack(t *testing.T) {
	var h jobHeap
	jobs := make([]job, 100_000)
	for i := range jobs {
		h.push(key{0, uint64(i)}, &jobs[i])
	}
	room := func() int { return cap(h.first) + len(h.rest)*heapPage }
	if room() > len(jobs)+3*heapPage/2 {
		t.Errorf("%d jobs have room for %d", len(jobs), room())
	}
	for h.len() > 0 {
		h.remove(h.top())
		if n := h.len(); room() > max(64, min(5*n+4, n+2*heapPage+heapPage/2)) {
			t.Fatalf("room for %d is kept for %d jobs", room(), n)
		}
		for i := h.len(); i < room() && i < h.len()+2; i++ {
			if i >= heapPage && *h.at(i) != (entry{}) || i < heapPage && h.first[:cap(h.first)][i] != (entry{}) {
				t.Fatal("a job that has left is still referred to")
			}
		}
	}
}

// TestHeapDoesNotFlap: where a heap has come to rest a job more or less costs no
// memory.
func TestHeapDoesNotFlap(t *testing.T) {
	jobs := make([]job, 3*heapPage)
	for _, n := range []int{0, 15, 16, 64, heapPage/2 - 1, heapPage / 2, heapPage - 1, heapPage, 3 * heapPage / 2, 2*heapPage - 1, 2 * heapPage} {
		var h jobHeap
		for i := range jobs {
			h.push(key{0, uint64(i)}, &jobs[i])
		}
		for h.len() > n {
			h.remove(h.top())
		}
		extra := &jobs[0]
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
