package shard

import (
	"runtime"
	"slices"
	"strconv"
	"testing"
)

// TestRoomIsGivenBack: what a shard has had very many of takes hardly anything when
// nearly all of them are gone.
func TestRoomIsGivenBack(t *testing.T) {
	const n = 50_000
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, c := range map[string]struct {
		most int64 // bytes that each may leave behind
		play func(p, worker *person)
	}{
		// Their numbers are as many as they ever were.
		"tubes": {24, func(p, _ *person) {
			for i := range n {
				p.watched = append(p.watched, p.do(0, Request{Op: Watch, Name: "tube " + strconv.Itoa(i)}).Tube)
			}
			for _, tube := range p.watched[1:] {
				p.do(0, Request{Op: Ignore, Tube: tube})
			}
			p.watched = slices.Clone(p.watched[:1])
			p.send(0, Detach)
			p.sides[0] = NewClient(p.waiter)
		}},
		"tubes with delays": {24, func(p, _ *person) {
			for i := range n {
				tube := p.do(0, Request{Op: Use, Name: "tube " + strconv.Itoa(i)}).Tube
				p.do(0, Request{Op: Put, Tube: tube, Delay: 1000, TTR: 1, Body: []byte("x\r\n")})
				p.do(0, Request{Op: Unuse, Tube: tube})
			}
			p.deleteAll(p.idsOf(n))
		}},
		"large bodies": {4, func(p, _ *person) { p.deleteAll(p.putAll(n, 2*Inline)) }},
		"uniques": {4, func(p, worker *person) {
			for i := range n {
				worker.submit("f", strconv.Itoa(i), "x", true)
			}
			worker.deleteAll(worker.idsOf(n))
		}},
		"listeners": {4, func(p, worker *person) {
			for range n {
				worker.submit("f", "unique", "x", false)
			}
			worker.deleteAll(worker.idsOf(1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(1, NewDirectory(), 0)
			defer g.stop()
			p := g.newPerson()
			worker, peer := g.newWorker(1 << 40)
			worker.used, worker.rig = p.used, g
			worker.canDo("f")
			worker.submit("f", "0", "x", true) // stays
			before := live()
			c.play(p, worker)
			peer.inbox.Take(func(*Event) {})
			if got := (live() - before) / n; got > c.most {
				t.Errorf("%d bytes are left of each", got)
			}
			if err := g.shards[0].check(); err != nil {
				t.Error(err)
			}
			runtime.KeepAlive(p)
			runtime.KeepAlive(worker)
		})
	}
}

// idsOf returns the last n ids that were given out.
func (p *person) idsOf(n uint64) (ids []uint64) {
	last := p.rig.shards[0].cfg.Directory.LastID()
	for id := last - n + 1; id <= last; id++ {
		ids = append(ids, id)
	}
	return ids
}
