package shard

import (
	"testing"
	"testing/synctest"
)

// TestRefusals: all that is refused for lack of memory, in both protocols, is counted by
// its reason and told; an accepted put is told once, if somebody awaits it.
func TestRefusals(t *testing.T) { synctest.Test(t, testRefusals) }

func testRefusals(t *testing.T) {
	const size = 1000
	g := newRig(1, NewDirectory(), 2*footprint(size)+listenerFootprint)
	defer g.stop()
	p := g.newPerson()
	ann, _ := g.newWorker(1 << 30)
	b := g.budget
	var want [NumRefusals]int64
	told := func() bool {
		select {
		case <-b.News():
			return true
		default:
			return false
		}
	}
	refused := func(what string, why Refusal, it bool) {
		t.Helper()
		want[why]++
		if got := b.Refused(); !it || got != want || !told() {
			t.Errorf("%s: refused %v; %v counted, want %v", what, it, got, want)
		}
	}
	large := make([]byte, size)
	put := Request{Op: Put, Tube: p.used, TTR: 1, Body: large}

	ids := p.putAll(1, size)
	ann.submit("f", "u", "x", false)
	if told() {
		t.Error("accepted, and nobody awaits it")
	}
	refused("a put", OverCap, p.do(0, put).Status == OutOfMemory)
	refused("a submit", OverCap, ann.submit("f", "v", string(large), false).Status == OutOfMemory)
	for ann.submit("f", "u", "x", false).Status == OK {
	}
	refused("a submit that is coalesced", OverCap, true)
	refused("a body that is to come", OverCap, b.Full(100*size))
	refused("a body that comes", OverCap, !b.Hold(100*size))

	b.AwaitAccepted()
	if b.Accepted() || told() {
		t.Error("accepted, and none was")
	}
	p.deleteAll(ids)
	ids = p.putAll(1, size)
	if !b.Accepted() || !told() {
		t.Error("none was accepted, and one was")
	}
	p.deleteAll(ids)

	g.look(func(s *Shard) { s.slab.fails = true })
	refused("a put without memory", NoMemory, p.do(0, Request{Op: Put, Tube: p.used, TTR: 1, Body: make([]byte, 100)}).Status == OutOfMemory)
	refused("a submit without memory", NoMemory, ann.submit("f", "w", string(make([]byte, 60)), true).Status == OutOfMemory)
	g.look(func(s *Shard) { s.slab.fails = false })
}
