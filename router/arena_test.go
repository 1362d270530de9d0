package router

import (
	"reflect"
	"testing"

	"github.com/sheafq/sheaf/shard"
)

// TestIdleClientsHaveNoRoom: what requests take goes back with the last answer, blank
// as pipelines do, see below. It is a tenth of what a connection takes.
func TestIdleClientsHaveNoRoom(t *testing.T) {
	p := newPeer(t, newEngine(t, 2))
	if p.few != nil {
		t.Error("a client that has asked nothing has room for requests")
	}
	p.session("use a | put 0 0 60 x | peek-ready -> USING a | INSERTED 1 | FOUND 1 x")
	few := p.few
	p.Rest()
	if few == nil || p.few != nil || p.arena.queue != nil || p.arena.chain != nil {
		t.Errorf("it had %p, and has %p", few, p.few)
	}
	if !reflect.ValueOf(*few).IsZero() {
		t.Errorf("what goes back to the pool has %+v", *few)
	}
	p.session("delete 1 -> DELETED")
}

// TestPipelinesAreBlank: a pipeline that goes back to the pool keeps neither jobs
// alive nor the client that had it.
func TestPipelinesAreBlank(t *testing.T) {
	body := make([]byte, 2*shard.Inline)
	for name, queue := range map[string]func(p *peer, flush func() bool){
		"one more than there is room for": func(p *peer, flush func() bool) {
			for range maxRun + 1 {
				r := p.New(shard.Put)
				r.Body, r.TTR = body, 60
				if !p.Queue(r) {
					p.QueueAfter(flush, r)
				}
			}
		},
		"for another shard": func(p *peer, flush func() bool) {
			for range shallow + 1 {
				p.queue("put 0 0 60 x")
			}
			r := p.New(shard.StatsTube)
			r.Name = p.router.tubeOn(1, 0)
			if p.Queue(r) {
				t.Error("it is queued")
			}
			p.QueueAfter(flush, r)
		},
		"with a wait in it": func(p *peer, _ func() bool) {
			for range 3 {
				p.queue("peek-ready")
			}
			p.queue("reserve-with-timeout 1ms")
			p.queue("peek-ready")
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, 2)
			p := newPeer(t, e)
			p.session("use %[1]s | watch %[1]s | ignore default -> USING %[1]s | WATCHING 2 | WATCHING 1", e.tubeOn(0, 0))
			var deep *pipeline
			flush := func() bool {
				if p.deep != nil {
					deep = p.deep
				}
				for p.Await(false) != nil {
				}
				return true
			}
			queue(p, flush)
			flush()
			p.Rest()
			if deep == nil {
				t.Fatal("there was no need of a pipeline")
			}
			for i := range deep.requests {
				if !reflect.ValueOf(deep.requests[i]).IsZero() {
					t.Errorf("request %d is %+v", i, deep.requests[i])
				}
			}
			for i := range maxRun {
				if deep.queue[i] != nil || deep.chain[i] != nil {
					t.Errorf("%d is in the queue or the chain", i)
				}
			}
		})
	}
}
