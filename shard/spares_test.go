package shard

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSpares: memory of jobs that have gone stays for a while, for the next ones, and is
// given back when these do not come.
func TestSpares(t *testing.T) { synctest.Test(t, testSpares) }

func testSpares(t *testing.T) {
	const many, few, size = 40_000, 10_000, 200
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p := g.newPerson()
	chunksOf := func(jobs int) int { return jobs*slotSize(slotFor(size))/chunkSize + 1 }
	spare := func() (n int) {
		g.look(func(s *Shard) {
			if n = len(s.slab.spares.list); resident(t, &s.slab) < n*chunkSize {
				t.Errorf("%d spare chunks, %d bytes of memory", n, resident(t, &s.slab))
			}
		})
		return n
	}
	empty := func() (n int) {
		g.look(func(s *Shard) { n = len(s.slab.empty) })
		return n
	}
	for range 10 { // jobs that come and go cost no memory from the system after the first time
		p.deleteAll(p.putAll(many, size))
		time.Sleep(time.Duration(spareTime) / 3)
	}
	if n := spare(); n < chunksOf(many)-1 || n > chunksOf(many)+1 || empty() > 0 {
		t.Errorf("%d chunks are spare and %d empty after ten times %d", n, empty(), chunksOf(many))
	}
	for range 10 { // fewer come: the rest is given back
		p.deleteAll(p.putAll(few, size))
		time.Sleep(time.Duration(spareTime) / 3)
	}
	if n := spare(); n < chunksOf(few)-1 || n > chunksOf(few)+maxSpare+1 {
		t.Errorf("%d chunks are spare when %d are used", n, chunksOf(few))
	}
	time.Sleep(2*time.Duration(spareTime) + time.Millisecond)
	g.look(func(s *Shard) {
		if n := resident(t, &s.slab); n != maxSpare*chunkSize || len(s.dues) > 0 {
			t.Errorf("%d bytes are resident without jobs, and %d are due", n, len(s.dues))
		}
	})
}

// TestMostSpares: with a cap, all shards together keep a sixteenth of it.
func TestMostSpares(t *testing.T) { synctest.Test(t, testMostSpares) }

func testMostSpares(t *testing.T) {
	for _, tt := range []struct {
		max  int64
		want int // chunks of each of two shards
	}{{0, mostSpares}, {1 << 40, mostSpares}, {64 << 20, 32}, {1 << 20, maxSpare}} {
		g := newRig(2, NewDirectory(), tt.max)
		p := g.newPerson()
		p.deleteAll(p.putAll(60_000, 900))
		g.look(func(s *Shard) {
			if n := len(s.slab.spares.list); s.cfg.Index == 0 && n != tt.want {
				t.Errorf("of a cap of %d a shard keeps %d chunks, want %d", tt.max, n, tt.want)
			}
		})
		g.stop()
	}
}
