package shard

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

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
				for i, e := range h.a {
					if int(e.j.pos) != i {
						rt.Fatalf("job %d at %d has pos %d", e.j.id, i, e.j.pos)
					}
				}
			},
			"push": func(rt *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(rt, "n") {
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
	copied, last := 0, cap(h.a)
	for h.len() > 0 {
		h.remove(h.top())
		if c := cap(h.a); c != last {
			copied += h.len()
			last = c
		}
		if c := cap(h.a); c > 1024 && c > 4*h.len()+4 {
			t.Fatalf("room for %d is kept for %d jobs", c, h.len())
		}
		if room := h.a[:cap(h.a)]; h.len() < cap(h.a) && room[h.len()].j != nil {
			t.Fatal("a job that has left is still referred to")
		}
	}
	if copied > len(jobs) {
		t.Errorf("%d jobs were copied to give back the room of %d", copied, len(jobs))
	}
	// Where it has come to rest it stays, rather than grow and shrink in turns.
	rest := cap(h.a)
	for i := range 10_000 {
		h.push(key{0, uint64(i)}, &jobs[i%rest])
		h.remove(h.top())
	}
	if cap(h.a) != rest || rest > 1024 {
		t.Errorf("an empty heap has room for %d, then %d", rest, cap(h.a))
	}
}
