package shard

// What things cost: allocations, heap work, and what is kept for later.

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingIsAllocated: in steady state a put allocates nothing but its body,
// which is the connection's, and no other command on the hot path anything.
func TestNothingIsAllocated(t *testing.T) {
	for name, ops := range map[string][]Op{
		"put, delete":                {Put, Delete},
		"put, reserve, delete":       {Put, Reserve, Delete},
		"touch":                      {Put, Reserve, Touch, Touch, Delete},
		"release":                    {Put, Reserve, Release, Reserve, Release, Delete},
		"bury, kick":                 {Put, Reserve, Bury, Kick, Reserve, Delete},
		"bury, kick-job":             {Put, Reserve, Bury, KickJob, Reserve, Delete},
		"reserve-job, peek":          {Put, Peek, PeekReady, PeekBuried, PeekDelayed, ReserveJob, Delete},
		"reserve-with-timeout, none": {ReserveTimeout},
	} {
		for _, mode := range []string{"one by one", "as a chain"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				g := newRig(1, NewDirectory(), 0)
				defer g.stop()
				p := g.newPerson()
				// Not empty, and with deadlines that are not the client's.
				for range 100 {
					p.do(0, Request{Op: Put, Tube: p.used, Pri: 9, Delay: 1000, TTR: 9})
				}
				c := newCycle(p, ops...)
				run := c.single
				if mode == "as a chain" {
					run = c.chained
				}
				for range 1000 {
					run() // the steady state is that of a shard with some life behind it
				}
				if n := testing.AllocsPerRun(1000, run); n != 0 {
					t.Errorf("%v allocations", n)
				}
			})
		}
	}
	t.Run("put to one who waits", func(t *testing.T) {
		g := newRig(1, NewDirectory(), 0)
		defer g.stop()
		ann, bob := g.newPerson(), g.newPerson()
		reserve, put, del := &Request{}, &Request{}, &Request{}
		chain := make([]*Request, 1)
		post := func(p *person, r *Request) { chain[0] = r; p.post(0, chain...) }
		run := func() {
			*reserve = Request{Op: Reserve, Timeout: int64(time.Hour), Quiet: true}
			post(ann, reserve)
			*put = Request{Op: Put, Tube: bob.used, TTR: 60, Body: cycleBody}
			post(bob, put)
			bob.await()
			*del = Request{Op: Delete, ID: ann.granted().ID}
			post(ann, del)
			ann.await()
		}
		for range 1000 {
			run()
		}
		if n := testing.AllocsPerRun(1000, run); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// cycle is some commands about one job at a time, from one client to its shard.
// The job is known by its number before it is put, as a session knows it.
type cycle struct {
	p     *person
	ops   []Op
	reqs  []Request
	chain []*Request
	ids   *Directory
}

var cycleBody = []byte("hello\r\n")

func newCycle(p *person, ops ...Op) *cycle {
	c := &cycle{p: p, ops: ops, reqs: make([]Request, len(ops)), ids: p.rig.shards[0].cfg.Directory}
	for i := range c.reqs {
		c.chain = append(c.chain, &c.reqs[i])
	}
	return c
}

// fill makes the requests ready to be posted.
func (c *cycle) fill() {
	id := uint64(0)
	for i, op := range c.ops {
		if op == Put {
			id = c.ids.NextID()
		}
		c.reqs[i] = Request{Op: op, Tube: c.p.used, ID: id, TTR: 60, Body: cycleBody, N: 1}
	}
}

// chained does the commands with one post.
func (c *cycle) chained() {
	c.fill()
	c.p.post(c.p.used.Shard, c.chain...)
	c.p.await()
}

// single does them one post after the other.
func (c *cycle) single() {
	c.fill()
	for i := range c.chain {
		c.p.post(c.p.used.Shard, c.chain[i:i+1]...)
		c.p.await()
	}
}

// TestCycle makes sure that the cycles measured here do what they say.
func TestCycle(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	c := newCycle(g.newPerson(), Put, Reserve, Touch, Release, Reserve, Bury, Kick, ReserveJob, Bury, KickJob, Peek, Delete)
	for _, run := range []func(){c.single, c.chained} {
		run()
		for _, r := range c.reqs {
			if r.Status != OK {
				t.Errorf("op %d: status %d", r.Op, r.Status)
			}
		}
	}
}

// look shows the shard's state to f while nothing moves it. The request after
// that tells the race detector so.
func (g *rig) look(f func(s *Shard)) {
	synctest.Wait()
	f(g.shards[0])
	g.gather()
}

// TestTimerIsLazy: a client that reserves and deletes in a loop enters one
// deadline into the heap a TTR, and sets the timer as often; what has become of
// the job by then is found out when it fires, for nothing.
func TestTimerIsLazy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(1, NewDirectory(), 0)
		defer g.stop()
		p := g.newPerson()
		cycle := newCycle(p, Put, Reserve, Delete)
		cycle.chained()
		var first, moves int64
		g.look(func(s *Shard) {
			first = s.dues[0].at
			if want := s.now + 60*second; first != want || s.armed != want {
				t.Errorf("due at %d, timer set for %d, want %d", first, s.armed, want)
			}
		})
		for range 1000 {
			time.Sleep(50 * time.Millisecond)
			cycle.chained()
			g.look(func(s *Shard) {
				if len(s.dues) != 1 || s.dues[0].at != first || s.armed != first {
					moves++
				}
			})
		}
		if moves != 0 {
			t.Errorf("the heap of dues or the timer was touched %d times in 1000 cycles", moves)
		}
		// At that moment the client holds a job with a deadline of its own.
		newCycle(p, Put, Reserve).chained()
		var before Stats
		g.look(func(s *Shard) { before = *s.stats() })
		time.Sleep(10*time.Second + time.Millisecond)
		g.look(func(s *Shard) {
			if st := *s.stats(); st.Reserved != before.Reserved || st.Timeouts != 0 || st.Ready != 0 {
				t.Errorf("the stale deadline did something: %+v, was %+v", st, before)
			}
			if len(s.dues) != 1 || s.dues[0].at != p.sides[0].soonest() || s.armed != s.dues[0].at {
				t.Errorf("the deadline after it is not scheduled: %d dues, timer set for %d", len(s.dues), s.armed)
			}
		})
		// And then nothing is left to be due.
		p.do(0, Request{Op: Delete, ID: p.sides[0].held.top().id})
		time.Sleep(time.Minute)
		g.look(func(s *Shard) {
			if len(s.dues) != 0 || s.armed != 0 {
				t.Errorf("%d dues, timer set for %d, with nothing to come", len(s.dues), s.armed)
			}
		})
	})
}

// TestTimerIsSetForTheEarlier: a deadline before the one that the timer is set
// for is met in time, and so is the other.
func TestTimerIsSetForTheEarlier(t *testing.T) {
	play(t, 1, `
		ann: put 1 5 9 a          -> INSERTED 1
		bob: use x                -> OK
		bob: watch x              -> OK
		bob: put 1 2 9 b          -> INSERTED 2
		bob: reserve              -> ...
		ann: reserve              -> ...
		cat: use y                -> OK
		cat: put 1 1 9 c          -> INSERTED 3
		cat: delete 3             -> OK
		+2s
		bob <- RESERVED 2 b
		+3s
		ann <- RESERVED 1 a`)
}

// TestDropLooksAtTheFunctionAlone: to drop a function of few jobs is to look at those,
// however many there are elsewhere. What the directory alone has of it is not come
// across.
func TestDropLooksAtTheFunctionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(1, NewDirectory(), 0)
		defer g.stop()
		p, _ := g.newWorker(1 << 20)
		r := p.submit("f", "u", "x", true)
		var stray *job
		g.look(func(s *Shard) {
			stray = newTestJob(s.cfg.Directory.NextID())
			stray.inTube, stray.tasked, stray.state = s.tubes["f"].number, s.job(r.ID).tasked, reserved
			s.cfg.Directory.enter(stray, 0)
		})
		if st := p.do(0, Request{Op: DropFunction, Name: "f"}).Status; st != OK {
			t.Errorf("the function is not dropped: %d", st)
		}
		g.look(func(s *Shard) {
			if s.job(stray.id) != stray || s.jobs != 0 {
				t.Errorf("there are %d jobs, and what the directory alone had is there: %t", s.jobs, s.job(stray.id) == stray)
			}
			s.cfg.Directory.leave(stray.id)
		})
	})
}

// TestListLooksAtFewIDsInOneGo: a shard that is asked for its jobs looks through
// so many ids before it serves others, however few of the jobs there are its own.
func TestListLooksAtFewIDsInOneGo(t *testing.T) {
	d := NewDirectory()
	g := newRig(2, d, 0)
	defer g.stop()
	p := g.newPerson().settleIn("tube1")
	want := p.putAll(1, 10)
	const others = 20 * lookStep * groupSize
	for range others {
		d.enter(newTestJob(d.NextID()), 0)
	}
	want = append(want, p.putAll(1, 10)...)
	var got []uint64
	goes := 0
	for r := (&Request{Op: ListJobs}); ; goes++ {
		r = p.do(1, Request{Op: ListJobs, ID: r.ID})
		for _, st := range r.Lists.Tasks {
			got = append(got, st.ID)
		}
		if r.ID == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the jobs are %d, want %d", got, want)
	}
	if goes < others/(lookStep*groupSize) {
		t.Errorf("there are %d jobs of others, and it took %d goes to look through them", others, goes)
	}
	for id := range uint64(others) {
		d.leave(want[0] + 1 + id)
	}
}

// TestManyFunctions: a worker's functions are found without looking at each other
// one, which it may have very many of.
func TestManyFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(1, NewDirectory(), 0)
		defer g.stop()
		p, peer := g.newWorker(1 << 20)
		const n = 10 * fewWatches
		for i := range n {
			p.canDo(fmt.Sprint("f", i))
		}
		g.look(func(s *Shard) {
			c := p.sides[0]
			all := c.watches
			c.watches = nil
			for i, w := range all {
				if got := c.watchOn(w.tube); got != w || w.place != i {
					t.Fatalf("watch %d is not found without the list", i)
				}
			}
			c.watches = all
		})
		told := func() (n int) {
			peer.inbox.Take(func(*Event) { n++ })
			return n
		}
		p.do(0, Request{Op: Doze})
		p.submit("f3", "u", "x", true)
		if n := told(); n != 1 {
			t.Errorf("a job is told of %d times", n)
		}
		p.do(0, Request{Op: CanDo, Name: "another", N: 1})
		if n := told(); n != 0 {
			t.Errorf("one more function, and the job in the others is told of again %d times", n)
		}
		p.submit("one more", "u", "x", true)
		p.do(0, Request{Op: CanDo, Name: "one more", N: 1})
		if n := told(); n != 1 {
			t.Errorf("a job in the new function is told of %d times", n)
		}
		for i := range n {
			p.do(0, Request{Op: Ignore, Tube: p.watched[i]})
		}
		g.look(func(s *Shard) {
			if c := p.sides[0]; len(c.watches) != 2 || c.byTube != nil || cap(c.watches) > fewWatches {
				t.Errorf("%d watches are left, with room for %d, and a map of %d", len(c.watches), cap(c.watches), len(c.byTube))
			}
			if err := s.check(); err != nil {
				t.Error(err)
			}
		})
		p.detach()
	})
}
