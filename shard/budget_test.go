package shard

import (
	"testing"
	"testing/synctest"
)

// putAll puts bodies of that size into a tube until one is refused, at most n,
// and returns the ids of those that were taken.
func (p *person) putAll(n, size int) (ids []uint64) {
	for range n {
		r := p.do(p.used.Shard, Request{Op: Put, Tube: p.used, TTR: 1, Body: make([]byte, size)})
		if r.Status != OK {
			break
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func (p *person) deleteAll(ids []uint64) {
	for _, id := range ids {
		p.do(p.used.Shard, Request{Op: Delete, ID: id})
	}
}

// TestBudget: a put over the cap is refused, nothing else is, and room that
// was given back can be taken again.
func TestBudget(t *testing.T) {
	const size = 1000
	each := footprint(size)

	t.Run("one shard holds it to the byte", func(t *testing.T) {
		for _, max := range []int64{each, 10 * each, 10*each + each - 1, 5000 * each} {
			g := newRig(1, NewDirectory(), max)
			p := g.newPerson()
			ids := p.putAll(6000, size)
			if want := max / each; int64(len(ids)) != want {
				t.Errorf("of %d bytes %d jobs of %d found room, want %d", max, len(ids), each, want)
			}
			if r := p.do(0, Request{Op: Put, Tube: p.used, TTR: 1, Body: make([]byte, size)}); r.Status != OutOfMemory || r.ID != 0 {
				t.Errorf("a put over the cap is answered %v, id %d", r.Status, r.ID)
			}
			// All else goes on, and one that goes makes room for one.
			for _, op := range []Op{Reserve, Release, ReserveJob, Bury, KickJob, Delete} {
				if r := p.do(0, Request{Op: op, ID: ids[0]}); r.Status != OK {
					t.Errorf("op %d is answered %v when memory is full", op, r.Status)
				}
			}
			if n := len(p.putAll(2, size)); n != 1 {
				t.Errorf("%d jobs found the room of one", n)
			}
			g.stop()
		}
	})

	t.Run("several shards hold it to within their slacks", func(t *testing.T) {
		for _, shards := range []int{2, 3, 7} {
			for _, max := range []int64{20 * each, 3000 * each} {
				g := newRig(shards, NewDirectory(), max)
				slack := g.budget.slack * int64(shards)
				people := make([]*person, shards)
				for i := range people {
					people[i] = g.newPerson().settleIn("tube" + string(rune('0'+i)))
				}
				used := func() int64 { return g.gather().Memory }
				// Little by little, everywhere at once, so that all drift.
				ids := make([][]uint64, shards)
				for grown := true; grown; {
					grown = false
					for i, p := range people {
						more := p.putAll(1, size)
						ids[i] = append(ids[i], more...)
						grown = grown || len(more) > 0
					}
				}
				full := used()
				if full > max+slack || full < max-slack-each {
					t.Errorf("%d shards: refused at %d bytes of %d, with a slack of %d", shards, full, max, slack)
				}
				if reported := g.budget.used.Load(); reported > full+slack || reported < full-slack {
					t.Errorf("%d shards: %d bytes reported of %d, with a slack of %d", shards, reported, full, slack)
				}
				// All but the first shard give theirs back; the first can take
				// it, but for what the others have not reported.
				for i, p := range people[1:] {
					p.deleteAll(ids[i+1])
				}
				people[0].putAll(4000, size)
				if again := used(); again > max+slack || again < max-slack-each {
					t.Errorf("%d shards: refused at %d bytes of %d, with a slack of %d, after others had given back theirs", shards, again, max, slack)
				}
				g.stop()
			}
		}
	})

	t.Run("nothing is refused without a cap", func(t *testing.T) {
		g := newRig(2, NewDirectory(), 0)
		defer g.stop()
		p := g.newPerson()
		if n := len(p.putAll(100, 1<<20)); n != 100 || g.budget.Full(1<<40) {
			t.Errorf("only %d of 100 MiB found room where there is no cap", n)
		}
	})

	t.Run("what is on its way counts", func(t *testing.T) {
		g := newRig(1, NewDirectory(), 100*each)
		defer g.stop()
		p := g.newPerson()
		if !g.budget.Hold(90*int(each)) || g.budget.Full(size) {
			t.Fatal("90 of 100 are held, and there is no room for another")
		}
		if g.budget.Hold(90 * int(each)) {
			t.Error("180 of 100 are held")
		}
		ids := p.putAll(100, size)
		if len(ids) != 10 {
			t.Errorf("beside 90 of 100, %d found room", len(ids))
		}
		if !g.budget.Full(size + 2*int(g.budget.slack)) {
			t.Error("there is said to be room for a large body when memory is full")
		}
		g.budget.Free(90 * int(each))
		if n := len(p.putAll(100, size)); n != 90 {
			t.Errorf("after those 90 were given back, %d found room", n)
		}
	})

	t.Run("Full never says so when a shard would take it", func(t *testing.T) {
		const max = 500_000
		g := newRig(2, NewDirectory(), max)
		defer g.stop()
		a, b := g.newPerson(), g.newPerson().settleIn("b1")
		for range 400 {
			// The one grows while the other has room that it has not reported.
			full := g.budget.Full(size)
			if n := len(a.putAll(1, size)); full && n > 0 {
				t.Fatal("a body was called too large and taken")
			}
			b.deleteAll(b.putAll(3, 400))
		}
	})
}

// TestBudgetSlack would catch shards that write the shared word at every put
// and delete, so that it goes from core to core: most of all where there is no
// cap, and nobody has any use for it.
func TestBudgetSlack(t *testing.T) {
	for _, max := range []int64{0, 1 << 30} {
		b := NewBudget(max, 4)
		r := ration{Budget: b}
		writes, last := 0, b.used.Load()
		for i := range 10_000 {
			r.charge(200)
			if i%2 == 1 {
				r.charge(-200)
			}
			if used := b.used.Load(); used != last {
				writes, last = writes+1, used
			}
		}
		if most := int(r.total/(64<<10)) + 1; writes > most {
			t.Errorf("with a cap of %d, the shared word was written %d times for %d bytes", max, writes, r.total)
		}
		if r.used.Load()+r.drift != r.total {
			t.Errorf("%d bytes reported and %d to report for %d", r.used.Load(), r.drift, r.total)
		}
	}
}

// TestBudgetBoundsMemory: jobs of one size fill the cap, all go but one in each
// chunk, and those of the next size come. The system does not give more than the cap
// and what README says of each shard.
func TestBudgetBoundsMemory(t *testing.T) { synctest.Test(t, testBudgetBoundsMemory) }

func testBudgetBoundsMemory(t *testing.T) {
	const limit = 8 << 20
	g := newRig(1, NewDirectory(), limit)
	defer g.stop()
	p := g.newPerson()
	for size := Inline; size > 100; size -= 64 {
		ids := p.putAll(1<<20, size)
		g.look(func(s *Shard) {
			if got := resident(t, &s.slab); got > limit+slack+maxSpare*chunkSize {
				t.Fatalf("with jobs of %d bytes %d have become resident of a cap of %d", size, got, limit)
			}
		})
		first := make(map[uint32]bool)
		var rest []uint64
		g.look(func(s *Shard) {
			for _, id := range ids {
				if c := s.job(id).chunk; first[c] {
					rest = append(rest, id)
				} else {
					first[c] = true
				}
			}
		})
		p.deleteAll(rest)
	}
	g.look(func(s *Shard) {
		if err := s.check(); err != nil {
			t.Error(err)
		}
		if s.slab.unused < limit/2 {
			t.Errorf("%d bytes are unused: this has not tried hard", s.slab.unused)
		}
	})
	// There is room where others were.
	if n := len(p.putAll(100, Inline)); n != 100 {
		t.Errorf("of 100 jobs of a size that there is room for %d were taken", n)
	}
	synctest.Wait()
}

// TestSmallBudgetOfManyShards: jobs of all sizes on all of many shards find room in
// a small cap, though they leave most of their chunks unused.
func TestSmallBudgetOfManyShards(t *testing.T) {
	const shards, limit = 9, 1 << 20
	g := newRig(shards, NewDirectory(), limit)
	defer g.stop()
	all := int64(0)
	for i := range shards {
		p := g.newPerson().settleIn("tube" + string(rune('0'+i)))
		for size := 2; size <= Inline; size += 16 {
			if len(p.putAll(1, size)) == 0 {
				t.Fatalf("shard %d has no room for %d bytes, at %d of %d", i, size, all, limit)
			}
			all += footprint(size)
		}
	}
	if all < limit/4 {
		t.Errorf("the jobs take %d bytes of %d", all, limit)
	}
}
