package shard

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog/faultfs"
)

// ready makes a chain as Post does, for turnWith.
func (p *person) ready(chain ...*Request) []*Request {
	p.waiter.Begin(true)
	p.waiter.Expect(1)
	for _, r := range chain {
		r.Client, r.Status, r.last, r.seq = p.sides[0], Unserved, false, p.waiter.seq
	}
	chain[len(chain)-1].last = true
	return chain
}

// turnWith has the first shard, which sleeps, serve the chains in one turn, and
// leaves it to the test to have the next.
func (g *rig) turnWith(chains ...[]*Request) {
	for _, c := range chains {
		g.shards[0].mailbox.post(c)
	}
	g.shards[0].turn()
}

// rest has all further turns that there are to have.
func (g *rig) rest() {
	s := g.shards[0]
	for more := true; more; {
		for s.turn() {
		}
		more = !s.mailbox.park()
	}
}

// buryAll puts n jobs into p's tube, and buries them.
func (p *person) buryAll(n int) {
	for _, id := range p.putAll(n, 100) {
		p.do(0, Request{Op: ReserveJob, ID: id})
		p.do(0, Request{Op: Bury, ID: id})
	}
}

// TestKickInSteps: a kick of many jobs lets others be served meanwhile, and what is
// behind it in its chain wait. It kicks what was buried when it came, and counts
// that once.
func TestKickInSteps(t *testing.T) { synctest.Test(t, testKickInSteps) }

func testKickInSteps(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p, q := g.newPerson(), g.newPerson()
	const n = 5*stepJobs/2 + 1
	p.buryAll(n)
	own := q.putAll(1, 1)
	q.do(0, Request{Op: ReserveJob, ID: own[0]})
	synctest.Wait()

	kick, after := &Request{Op: Kick, Tube: p.used, N: 1<<32 - 1}, &Request{Op: StatsTube, Name: DefaultTube}
	between := &Request{Op: StatsTube, Name: DefaultTube}
	g.turnWith(p.ready(kick, after), q.ready(between))
	if p.waiter.Answered() || after.Status != Unserved {
		t.Error("all is answered in one turn")
	}
	if !q.waiter.Answered() || between.TubeStats.Buried != n-stepJobs {
		t.Errorf("another is answered %+v", between.TubeStats)
	}
	g.turnWith(q.ready(&Request{Op: Bury, ID: own[0]}))
	g.rest()
	if !p.waiter.Answered() || kick.Status != OK || kick.N != n {
		t.Errorf("of %d jobs the kick says %d", n, kick.N)
	}
	if st := after.TubeStats; st == nil || st.Buried != 1 || st.Ready != n {
		t.Errorf("behind it, the tube is %+v", st)
	}
	if st := g.gather(); st.Served[Kick] != 1 {
		t.Errorf("one kick counts as %d", st.Served[Kick])
	}
	g.look(func(s *Shard) {
		if err := s.check(); err != nil {
			t.Error(err)
		}
	})
}

// TestKickOfDelayedInSteps: a kick of delayed jobs kicks as many as there were at
// most, however many come meanwhile.
func TestKickOfDelayedInSteps(t *testing.T) { synctest.Test(t, testKickOfDelayedInSteps) }

func testKickOfDelayedInSteps(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p, q := g.newPerson(), g.newPerson()
	put := func() *Request { return &Request{Op: Put, Tube: p.used, Delay: 1000, TTR: 1, Body: cycleBody} }
	const n = 2*stepJobs + 1
	for range n {
		p.do(0, *put())
	}
	synctest.Wait()
	kick := &Request{Op: Kick, Tube: p.used, N: 1<<32 - 1}
	g.turnWith(p.ready(kick))
	g.turnWith(q.ready(put(), put()))
	g.rest()
	if kick.N != n {
		t.Errorf("of %d jobs %d were kicked", n, kick.N)
	}
	if st := g.gather(); st.Ready != n || st.Delayed != 2 {
		t.Errorf("%d are ready and %d are delayed", st.Ready, st.Delayed)
	}
}

// TestDueInSteps: of many jobs whose time is over at once, a turn sees to some, and
// others are served meanwhile. Nobody has to ask for the rest.
func TestDueInSteps(t *testing.T) {
	for name, delay := range map[string]uint32{"delayed": 1, "reserved": 0} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testDueInSteps(t, delay) }) })
	}
}

func testDueInSteps(t *testing.T, delay uint32) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p, q := g.newPerson(), g.newPerson()
	const n = 5*stepJobs/2 + 1
	for range n {
		r := p.do(0, Request{Op: Put, Tube: p.used, Delay: delay, TTR: 1, Body: cycleBody})
		if delay == 0 {
			p.do(0, Request{Op: ReserveJob, ID: r.ID})
		}
	}
	g.look(func(s *Shard) {
		s.timer.Stop()
		s.armed = 1 // so that it is not set
	})
	time.Sleep(5 * time.Second)
	left := n
	for range 2 {
		st := &Request{Op: StatsTube, Name: DefaultTube}
		g.turnWith(q.ready(st))
		now := st.TubeStats.Delayed + st.TubeStats.Reserved
		if done := left - now; done < stepJobs/2 || done > stepJobs {
			t.Errorf("a turn has seen to %d of %d", done, left)
		}
		left = now
	}
	g.shards[0].armed = 0
	g.turnWith(q.ready(&Request{Op: Soonest}))
	g.rest()
	time.Sleep(time.Second)
	if st := g.gather(); st.Ready != n {
		t.Errorf("%d of %d are ready", st.Ready, n)
	}
}

// TestDropInSteps: a function of many jobs is dropped while others are served. Who
// names it meanwhile has it anew, with what was submitted since, and so has who has
// reserved one of the jobs.
func TestDropInSteps(t *testing.T) { synctest.Test(t, testDropInSteps) }

func testDropInSteps(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p, _ := g.newWorker(1 << 30)
	q, _ := g.newWorker(1 << 20)
	const n = 2*stepJobs + 10
	submitAll := func() (last uint64) {
		for i := range n {
			last = p.submit("f", fmt.Sprint(i), "x", i%2 == 0).ID
		}
		return last
	}
	drop := func() *Request { return &Request{Op: DropFunction, Name: "f"} }
	submit := func() *Request {
		return &Request{Op: Submit, Name: "f", Body: cycleBody, Task: &Task{Unique: "new", Background: true}}
	}
	check := func(what string, jobs, functions int) {
		t.Helper()
		g.look(func(s *Shard) {
			if err := s.check(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			is := 0
			if f := s.tubes["f"]; f != nil && f.function != nil {
				is = 1
			}
			if s.jobs != jobs || is != functions {
				t.Errorf("%s: there are %d jobs and %d functions, want %d and %d", what, s.jobs, is, jobs, functions)
			}
		})
	}

	submitAll()
	synctest.Wait()
	r := drop()
	g.turnWith(p.ready(r))
	if p.waiter.Answered() {
		t.Error("all is dropped in one turn")
	}
	g.rest()
	if r.Status != OK {
		t.Errorf("the drop is answered %d", r.Status)
	}
	check("dropped", 0, 0)

	submitAll()
	synctest.Wait()
	r, second := drop(), drop()
	g.turnWith(p.ready(r))
	again := submit()
	g.turnWith(q.ready(again))
	g.rest()
	if r.Status != OK || again.Status != OK {
		t.Errorf("the drop is answered %d, and a submit meanwhile %d", r.Status, again.Status)
	}
	check("submitted meanwhile", 1, 1)

	if st := q.do(0, *second).Status; st != OK {
		t.Errorf("the second drop is answered %d", st)
	}
	check("dropped again", 0, 0)

	last := submitAll()
	synctest.Wait()
	r, second = drop(), drop()
	reserve := &Request{Op: ReserveJob, ID: last}
	b := g.newPerson()
	synctest.Wait()
	g.turnWith(p.ready(r), q.ready(second), b.ready(reserve))
	g.rest()
	if r.Status != OK || second.Status != OK || reserve.Status != OK {
		t.Errorf("two drops are answered %d and %d, and a reserve meanwhile %d", r.Status, second.Status, reserve.Status)
	}
	check("reserved meanwhile", 1, 1)
	b.do(0, Request{Op: Delete, ID: last})
	check("deleted", 0, 1)
}

// TestDropTakesStepsOnly: to drop a function with many jobs is not to look at them all
// first. Its jobs fail in the order of their ids, whoever put them and whatever their
// priorities are, and so do the last ones, among many of another.
func TestDropTakesStepsOnly(t *testing.T) { synctest.Test(t, testDropTakesStepsOnly) }

func testDropTakesStepsOnly(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p, _ := g.newWorker(1 << 30)
	c, peer := g.newWorker(1 << 30)
	b, other := g.newPerson().settleIn("f"), g.newPerson().settleIn("other")
	const n = 40 * stepJobs
	var waits, puts []uint64
	for i := range n {
		pri := uint32(n - i)
		switch i % 4 {
		case 0:
			puts = append(puts, b.do(0, Request{Op: Put, Tube: b.used, Body: cycleBody, Pri: pri, TTR: 1, Delay: uint32(i % 8)}).ID)
		case 1:
			other.do(0, Request{Op: Put, Tube: other.used, Body: cycleBody, TTR: 1})
		case 2:
			p.do(0, Request{Op: Submit, Name: "f", Body: cycleBody, Pri: pri, Task: &Task{Background: true}})
		case 3:
			waits = append(waits, c.do(0, Request{Op: Submit, Name: "f", Body: cycleBody, Pri: pri, Task: &Task{}}).ID)
		}
	}
	b.detach()
	synctest.Wait()
	r, st := &Request{Op: DropFunction, Name: "f"}, &Request{Op: StatsTube, Name: "f"}
	chain := p.ready(r)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g.turnWith(chain)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > n*3/4*8/2 {
		t.Errorf("the first step took %d bytes", took)
	}
	g.turnWith(other.ready(st))
	if is := st.TubeStats.Buried; is == 0 || is > stepJobs {
		t.Errorf("after two steps %d jobs are buried", is)
	}
	g.rest()
	if r.Status != OK {
		t.Errorf("the drop is answered %d", r.Status)
	}
	var failed, buried []uint64
	peer.inbox.Take(func(e *Event) { failed = append(failed, e.ID) })
	g.look(func(s *Shard) {
		if err := s.check(); err != nil {
			t.Error(err)
		}
		f := s.tubes["f"]
		for j := f.buried.head; j != nil; j = j.next {
			buried = append(buried, j.id)
		}
		if f.function != nil || s.tubes["other"].ready.len() != n/4 {
			t.Errorf("a function is there: %t, and %d jobs of another", f.function != nil, s.tubes["other"].ready.len())
		}
	})
	if !slices.Equal(failed, waits) || !slices.Equal(buried, puts) {
		t.Errorf("%d jobs have failed and %d are buried, want %d and %d, in order", len(failed), len(buried), len(waits), len(puts))
	}
}

// TestGoneInSteps: a client that goes with many jobs, or that many wait for, holds
// nobody up, not even who comes right behind.
func TestGoneInSteps(t *testing.T) { synctest.Test(t, testGoneInSteps) }

func testGoneInSteps(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	const n = 2*stepJobs + 1
	p, w, q := g.newPerson(), g.newPerson(), g.newPerson()
	c, _ := g.newWorker(1 << 30)
	p.putAll(n, 1)
	for i := range n {
		w.do(0, Request{Op: ReserveTimeout})
		c.submit("f", fmt.Sprint(i), "x", false)
	}
	synctest.Wait()
	left := func(reserved, waits int, what string) {
		t.Helper()
		st := q.do(0, Request{Op: StatsTube, Name: DefaultTube}).TubeStats
		f := q.do(0, Request{Op: StatsTube, Name: "f"}).TubeStats
		if int(st.Reserved) != reserved || int(st.Ready) != n-reserved || int(f.Ready) != waits {
			t.Errorf("%s: %d jobs are reserved and %d ready, and %d of the foreground are there", what, st.Reserved, st.Ready, f.Ready)
		}
	}
	left(n, n, "before")

	gone := func(p *person) []*Request { return []*Request{{Op: Detach, Client: p.sides[0]}} }
	of, f := &Request{Op: StatsTube, Name: DefaultTube}, &Request{Op: StatsTube, Name: "f"}
	g.turnWith(gone(w), gone(c), q.ready(of, f))
	if !q.waiter.Answered() {
		t.Fatal("who came behind them waits")
	}
	if of.TubeStats.Reserved != n-stepJobs || f.TubeStats.Ready != n-stepJobs {
		t.Errorf("after one turn %d of %d jobs are reserved, and %d of the foreground are there", of.TubeStats.Reserved, n, f.TubeStats.Ready)
	}
	g.rest()
	left(0, 0, "at the end")
	g.look(func(s *Shard) {
		if err := s.check(); err != nil {
			t.Error(err)
		}
		if len(w.sides[0].watches) > 0 || w.sides[0].using != nil {
			t.Error("the client has not left its tubes")
		}
	})
}

// TestLeavingInSteps: a client that goes, and has watched very many tubes, keeps nobody
// waiting until it has left all of them.
func TestLeavingInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(1, NewDirectory(), 0)
		defer g.stop()
		p, q := g.newPerson(), g.newPerson()
		for i := range 3 * stepJobs {
			p.do(0, Request{Op: Watch, Name: fmt.Sprint("t", i)})
		}
		synctest.Wait()
		g.turnWith([]*Request{{Op: Detach, Client: p.sides[0]}}, q.ready(&Request{Op: Soonest}))
		if n := len(g.shards[0].tubes); n < 2*stepJobs || !q.waiter.Answered() {
			t.Errorf("after one turn there are %d tubes", n)
		}
		g.rest()
		if n := len(g.shards[0].tubes); n != 1 {
			t.Errorf("at the end there are %d tubes", n)
		}
	})
}

// TestReservesInSteps: reserves of a client that watches very many tubes hold nobody
// up for longer than a step, and those behind one that waits are left alone.
func TestReservesInSteps(t *testing.T) { synctest.Test(t, testReservesInSteps) }

func testReservesInSteps(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p, q := g.newPerson(), g.newPerson()
	const few, n = 2, 7 // reserves in a step, and in the chain
	for i := range stepEffort / few {
		p.do(0, Request{Op: Watch, Name: fmt.Sprint("t", i)})
	}
	other := func() []*Request { return q.ready(&Request{Op: PeekReady, Tube: q.used}, &Request{Op: Peek, ID: 99}) }
	synctest.Wait()
	g.turnWith(p.ready(&Request{Op: ReserveTimeout}, &Request{Op: ReserveTimeout}), other())
	if !p.waiter.Answered() || !q.waiter.Answered() {
		t.Error("a step takes more than a turn")
	}
	g.rest()
	for range 2 {
		p.do(0, Request{Op: Put, Tube: p.used, TTR: 1000, Body: cycleBody})
	}
	synctest.Wait()

	var chain []*Request
	for range n {
		chain = append(chain, &Request{Op: ReserveTimeout})
	}
	wait := &Request{Op: Reserve, Timeout: NoTimeout}
	behind := []*Request{{Op: Touch, ID: 1}, {Op: PeekReady, Tube: p.used}}
	g.turnWith(p.ready(slices.Concat(chain, []*Request{wait}, behind)...), other())
	if !q.waiter.Answered() {
		t.Error("who comes behind them waits")
	}
	served := func() (k int) {
		for _, r := range chain {
			if r.Status != Unserved {
				k++
			}
		}
		return k
	}
	for step := 1; step <= n/few; step++ {
		if k := served(); k != step*few {
			t.Errorf("after turn %d %d reserves are served", step, k)
		}
		g.turnWith(other())
		if !q.waiter.Answered() {
			t.Error("who comes meanwhile waits")
		}
	}
	if s := g.shards[0]; s.effort != 0 || len(s.unfinished) > 0 {
		t.Errorf("in the end an effort of %d is counted, and %d chains unfinished", s.effort, len(s.unfinished))
	}
	g.rest()
	for i, r := range chain {
		if want := []Status{OK, OK, TimedOut}[min(i, 2)]; r.Status != want {
			t.Errorf("reserve %d is answered %d, want %d", i, r.Status, want)
		}
	}
	if wait.Status != Waiting || behind[0].Status != Unserved || behind[1].Status != Unserved {
		t.Errorf("the one that waits is answered %d, what is behind it %d and %d", wait.Status, behind[0].Status, behind[1].Status)
	}
	p.do(0, Request{Op: Cancel})
}

// TestChainsInSteps: a chain of kicks, and one of reports on a job that very many wait
// for, let others be served before they are done.
func TestChainsInSteps(t *testing.T) { synctest.Test(t, testChainsInSteps) }

func testChainsInSteps(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p, q := g.newPerson(), g.newPerson()
	const kicks = 10
	p.buryAll(kicks * stepJobs)
	w, _ := g.newWorker(1 << 30)
	id := uint64(0)
	for range 2 * stepJobs {
		id = w.submit("f", "unique", "x", false).ID
	}
	w.canDo("f")
	w.do(0, Request{Op: ReserveJob, ID: id})
	synctest.Wait()

	var chain []*Request
	for range kicks {
		chain = append(chain, &Request{Op: Kick, Tube: p.used, N: stepJobs})
	}
	g.turnWith(p.ready(chain...), q.ready(&Request{Op: Soonest}))
	if n := g.shards[0].ready; n > 2*stepJobs || !q.waiter.Answered() {
		t.Errorf("in one turn %d jobs are kicked", n)
	}
	g.rest()
	if n := g.shards[0].ready; n != kicks*stepJobs || !p.waiter.Answered() {
		t.Errorf("%d jobs are kicked, want %d", n, kicks*stepJobs)
	}

	chain = nil
	for range 10 {
		chain = append(chain, &Request{Op: Report, ID: id, N: uint64(Progress), Pri: 1, Delay: 2, Body: []byte("1\x002")})
	}
	g.turnWith(w.ready(chain...), q.ready(&Request{Op: Soonest}))
	if chain[0].Status != OK || chain[1].Status != Unserved || !q.waiter.Answered() {
		t.Errorf("in one turn the reports are answered %d, %d", chain[0].Status, chain[1].Status)
	}
	g.rest()
	if st := chain[len(chain)-1].Status; st != OK || !w.waiter.Answered() {
		t.Errorf("the last report is answered %d", st)
	}
}

// TestStepsEndBatches: what one command appends does not become one batch, however
// much it is, so that segments are left in time.
func TestStepsEndBatches(t *testing.T) {
	const n = 4000
	for name, c := range map[string]struct{ prepare, act func(p *person) }{
		"kick": {
			func(p *person) { p.buryAll(n) },
			func(p *person) { p.do(0, Request{Op: Kick, Tube: p.used, N: n}) },
		},
		"TTR": {
			func(p *person) {
				p.putAll(n, 300)
				for range n {
					p.do(0, Request{Op: Reserve})
				}
			},
			func(p *person) { time.Sleep(5 * time.Second) },
		},
		"drop": {
			func(p *person) {
				for i := range 5 * n { // of which little is written
					p.submit("f", fmt.Sprint(i), "x", true)
				}
			},
			func(p *person) { p.do(0, Request{Op: DropFunction, Name: "f"}) },
		},
		"cleaning the long way": {
			func(p *person) { p.putAll(n, 300) },
			func(p *person) {
				s := p.rig.shards[0]
				p.rig.look(func(s *Shard) {
					// As if the first segment had all jobs, and could not be read.
					for j := range s.all() {
						s.segments.of(j.file).jobs--
						s.segments.of(j.file).live -= s.weight(j)
						j.file = uint32(s.segments[0].index)
						s.segments[0].jobs++
						s.segments[0].live += s.weight(j)
					}
					s.cleaning = true
				})
				p.do(0, Request{Op: cleaned, N: s.segments[0].index})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := faultfs.New()
				g, _, stop := newLoggedRig(t, f, 1, 4096)
				p := g.newPerson()
				c.prepare(p)
				synctest.Wait()
				most := int64(0)
				g.look(func(s *Shard) { most = s.log.Step() })
				largest, written := 0, 0
				f.SetFault(func(op faultfs.Op, _ string, _ int64, n int) error {
					if op == faultfs.OpWriteAt {
						largest, written = max(largest, n), written+n
					}
					return nil
				})
				c.act(p)
				synctest.Wait()
				f.SetFault(nil)
				if limit := 3 * int(most); largest > limit || written < 2*limit {
					t.Errorf("of %d bytes %d were written at once, want no more than %d", written, largest, limit)
				}
				p.detach()
				g.gather()
				stop()
			})
		})
	}
}

// TestIDsOfAPipeline: puts that come together take their ids in one go, in their
// order and with no gap, wherever the run of them ends.
func TestIDsOfAPipeline(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	p := g.newPerson().settleIn("a")
	put := func() *Request { return &Request{Op: Put, Tube: p.used, TTR: 1, Body: []byte("x\r\n")} }
	var chain, puts []*Request
	for i := range uint64(3 * idRun) {
		r := put()
		switch i {
		case 5: // its body came in pieces, and it has its id since
			r.ID, r.Created = p.rig.shards[0].cfg.Directory.NextID(), 1
			chain = append(chain, r)
			continue
		case 9, 100:
			chain = append(chain, &Request{Op: PeekReady, Tube: p.used})
		}
		chain, puts = append(chain, r), append(puts, r)
	}
	p.post(0, chain...)
	p.await()
	for i, r := range puts {
		if r.Status != OK || r.ID != uint64(i)+2 || r.N != 0 {
			t.Fatalf("put %d is answered %d, id %d, n %d", i, r.Status, r.ID, r.N)
		}
	}
	if r := p.do(0, *put()); r.ID != uint64(len(puts))+2 {
		t.Errorf("the next id is %d", r.ID)
	}
	p.detach()
	g.stop()
}
