package shard

import (
	"testing"
	"testing/synctest"
	"time"
)

// Reserves over two shards, one message at a time; package router draws the
// whole. ann watches a0 and b1, and bob puts.

type handshake struct {
	t   *testing.T
	rig *rig
	ann *person
	bob *person
}

func inHandshake(t *testing.T, name string, f func(h *handshake)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := &handshake{t: t, rig: newRig(2, NewDirectory(), 0)}
			defer h.rig.stop()
			h.ann, h.bob = h.rig.newPerson(), h.rig.newPerson()
			h.ann.watch("a0")
			h.ann.watch("b1")
			h.ann.ignore(DefaultTube)
			h.ann.watch("quiet1")
			h.ann.ignore("quiet1")
			f(h)
		})
	})
}

// put puts a job into a tube.
func (h *handshake) put(tube string, pri, delay uint32) {
	if h.bob.used.Name != tube {
		h.bob.use(tube)
	}
	h.bob.do(h.bob.used.Shard, Request{Op: Put, Tube: h.bob.used, Pri: pri, Delay: delay, TTR: 60})
}

// ask begins a reserve and asks one shard, or both.
func (h *handshake) ask(timeout int64) (a, b *Request) {
	h.ann.waiter.BeginProbe()
	return h.probe(0, timeout), h.probe(1, timeout)
}

func (h *handshake) probe(shard int, timeout int64) *Request {
	r := &Request{Op: Probe, Timeout: timeout}
	if shard == 0 {
		r.Primary, r.N = true, uint64(Reserve)
	}
	h.ann.postOn(shard, r)
	h.ann.await()
	return r
}

func (h *handshake) take(shard int, bound *Request) *Request {
	r := &Request{Op: Take, Pri: 1<<32 - 1, ID: 1<<64 - 1}
	if bound.Status == OK {
		r.Pri, r.ID = bound.Pri, bound.ID
	}
	h.ann.postOn(shard, r)
	h.ann.await()
	return r
}

func (h *handshake) told(what string, r *Request, status Status, pri uint32, id uint64) {
	h.t.Helper()
	if r.Status != status || r.Pri != pri || r.ID != id {
		h.t.Errorf("%s is answered %d with pri %d, id %d; want %d with pri %d, id %d", what, r.Status, r.Pri, r.ID, status, pri, id)
	}
}

func (h *handshake) clean(want bool) {
	h.t.Helper()
	if h.ann.waiter.Clean() != want {
		h.t.Errorf("the claim is clean: %t", !want)
	}
}

func TestHandshake(t *testing.T) {
	inHandshake(t, "the best of all is taken", func(h *handshake) {
		h.put("a0", 5, 0)
		h.put("b1", 3, 0)
		h.put("b1", 4, 0)
		a, b := h.ask(0)
		h.told("the probe of a", a, OK, 5, 1)
		h.told("the probe of b", b, OK, 3, 2)
		h.told("the take", h.take(1, a), OK, 3, 2)
		if st := h.rig.gather(); st.Reserved != 1 || st.Ready != 2 || st.Served[Reserve] != 1 {
			t.Errorf("after one reserve there is %+v", st)
		}
	})
	inHandshake(t, "a better job makes the claim dirty, and nothing can be taken", func(h *handshake) {
		h.put("a0", 5, 0)
		h.put("b1", 3, 0)
		a, _ := h.ask(0)
		h.put("a0", 2, 0)
		h.clean(false)
		h.told("the take", h.take(1, a), Retry, 0, 0)
		if h.ann.waiter.Settle(false) || h.ann.waiter.Settle(true) {
			t.Error("a dirty claim is settled")
		}
		a, b := h.ask(0)
		h.told("the take", h.take(0, b), OK, 2, 3)
		h.told("the probe before", a, OK, 2, 3)
	})
	inHandshake(t, "what is no better, or is not for ann, leaves it clean", func(h *handshake) {
		h.put("a0", 5, 0)
		a, b := h.ask(0)
		h.put("a0", 5, 0)      // behind the first by its id
		h.put("default", 0, 0) // not watched
		h.bob.do(1, Request{Op: PauseTube, Name: "b1", Delay: 3})
		h.put("b1", 1, 0) // paused
		h.clean(true)
		h.told("the take", h.take(0, b), OK, 5, 1)
		h.told("the probe before", a, OK, 5, 1)
	})
	inHandshake(t, "the end of a pause or a delay makes it dirty", func(h *handshake) {
		h.bob.use("b1")
		h.bob.do(1, Request{Op: PauseTube, Name: "b1", Delay: 3})
		h.put("b1", 1, 0)
		h.put("a0", 1, 2)
		for _, timeout := range []int64{0, NoTimeout} {
			// At 2 s the delay ends, at 3 s the pause.
			_, b := h.ask(timeout)
			h.told("the probe of b", b, NotFound, 0, 0)
			h.clean(true)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			h.clean(false)
			h.bob.do(0, Request{Op: ReserveJob, ID: 2})
		}
	})
	inHandshake(t, "a job that has gone is made up for by the next, up to the bound", func(h *handshake) {
		h.put("a0", 5, 0)
		h.put("b1", 3, 0)
		h.put("b1", 4, 0)
		h.put("b1", 6, 0)
		a, _ := h.ask(0)
		h.bob.do(1, Request{Op: Delete, ID: 2})
		h.clean(true)
		h.told("the take", h.take(1, a), OK, 4, 3)
		h.put("b1", 4, 0)
		a, _ = h.ask(0)
		h.bob.do(1, Request{Op: Delete, ID: 5})
		h.told("the take", h.take(1, a), Retry, 6, 4)
		h.clean(true)
		// From here on it is 6 that has been told.
		h.put("b1", 7, 0)
		h.clean(true)
		h.put("b1", 5, 0) // worse than the bound, and yet it was not told
		h.clean(false)
	})
	inHandshake(t, "nothing is left to take", func(h *handshake) {
		h.put("b1", 3, 0)
		a, _ := h.ask(0)
		h.bob.do(1, Request{Op: Delete, ID: 1})
		h.told("the take", h.take(1, a), Retry, 0, 0)
		h.put("b1", 1<<32-1, 0)
		h.clean(false)
	})
	inHandshake(t, "a claim is settled for waiting, and the first job ends the wait", func(h *handshake) {
		h.ask(NoTimeout)
		if !h.ann.waiter.Settle(true) {
			t.Fatal("a clean claim cannot be settled")
		}
		if st := h.rig.gather(); st.Waiting != 1 || st.Queued != 2 {
			t.Errorf("a client that waits on two shards makes %+v", st)
		}
		eve := h.rig.newPerson().settleIn("a0")
		eve.post(0, &Request{Op: Reserve, Timeout: NoTimeout})
		h.put("b1", 3, 0)
		if g := h.ann.granted(); g.Status != OK || g.ID != 1 || g.Shard != 1 {
			t.Errorf("granted %+v", g)
		}
		// The first shard has not heard yet. It counts her no more all the same, and
		// its job is for the next.
		if st := h.rig.gather(); st.Waiting != 1 {
			t.Errorf("one client waits, but %d are counted", st.Waiting)
		}
		if st := h.bob.do(0, Request{Op: StatsTube, Name: "a0"}).TubeStats; st.Waiting != 1 {
			t.Errorf("one client waits in the tube, but %d are counted", st.Waiting)
		}
		h.put("a0", 3, 0)
		if g := eve.granted(); g.Status != OK || g.ID != 2 {
			t.Errorf("granted %+v", g)
		}
		if st := h.rig.gather(); st.Waiting != 0 || st.Queued != 0 || st.Reserved != 2 {
			t.Errorf("in the end there is %+v", st)
		}
	})
	inHandshake(t, "the end of the time of a claim that is not settled yet makes it dirty", func(h *handshake) {
		h.ask(second)
		time.Sleep(time.Second)
		synctest.Wait()
		h.clean(false)
		if h.ann.waiter.Settle(true) {
			t.Error("the client waits though its time is over and nobody sees to it")
		}
	})
	inHandshake(t, "an observer that has settled is forgotten", func(h *handshake) {
		h.put("b1", 3, 0)
		h.put("a0", 5, 0)
		a, _ := h.ask(0)
		h.take(1, a)
		if st := h.rig.gather(); st.Observers != 1 {
			t.Errorf("%d observers, where one has not been told", st.Observers)
		}
		h.ann.waiter.Begin(true) // on to other things
		h.put("a0", 1, 0)
		if st := h.rig.gather(); st.Observers != 0 || !h.ann.waiter.is(h.ann.waiter.seq, open) {
			t.Errorf("%d observers; the claim is %d", st.Observers, h.ann.waiter.state.Load())
		}
	})
}
