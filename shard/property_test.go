package shard

// Random commands against the model of model_test.go. Each check is a life of
// an engine in a bubble of testing/synctest, so that a deadline is met to the
// nanosecond and nothing happens that the test has not caused.

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestModel compares one shard with the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { rapid.SyncTest(rt, func(rt *rapid.T) { newTrial(rt, 1).run() }) })
}

// TestModelTwoShards compares two shards with the model, and has clients
// reserve over both with Probe, Take, Settle and Cancel, one message at a time,
// while others do as they like between. Beyond what the model says it checks
// the promise of the handshake: who takes a job takes the lowest (pri, id) of
// all that are ready anywhere, and who settles for none leaves none ready.
func TestModelTwoShards(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { rapid.SyncTest(rt, func(rt *rapid.T) { newTrial(rt, 2).run() }) })
}

// trial is one check.
type trial struct {
	*rapid.T
	rig       *rig
	directory *Directory
	model     *model
	actors    []*actor         // by their number in the model; the first only looks
	bodies    map[string]*byte // where each body is
	workload  []byte           // of all jobs whose unique is that
}

// actor is a client and what it is about.
type actor struct {
	*person
	doing   int              // idle, blocked or asking
	many    bool             // the wait is over several shards
	told    map[int]*Request // asking: what each shard has answered
	timeout int64
	owes    map[int]bool // shards to be told Cancel before anything else is posted

	peer   *fakePeer // of a Gearman client, else nil
	events []string  // what it was told
}

const (
	idle    = iota
	blocked // in a reserve
	asking  // for the best job of all shards
)

func newTrial(rt *rapid.T, shards int) *trial {
	max := int64(0)
	if shards == 1 { // with more the cap holds to within a slack only; see TestBudget
		max = rapid.SampledFrom([]int64{0, 0, 4 * (footprint(20))}).Draw(rt, "max-memory")
	}
	people := rapid.IntRange(2, 4).Draw(rt, "people")
	d := NewDirectory()
	x := &trial{T: rt, directory: d, rig: newRig(shards, d, max), model: newModel(shards, max), bodies: make(map[string]*byte)}
	rt.Cleanup(x.rig.stop)
	clash := rapid.Bool().Draw(rt, "clash")
	for _, s := range x.rig.shards {
		s.clash = clash
	}
	x.model.now = x.rig.clock.Now()
	x.model.wall = time.Now().UnixNano() - x.model.now
	x.actors = []*actor{{person: x.rig.newStranger()}}
	for range people {
		x.actors = append(x.actors, nil)
		x.model.clients = append(x.model.clients, modelClient{})
		x.arrive(len(x.actors) - 1)
	}
	for range rapid.IntRange(1, 3).Draw(rt, "Gearman's") {
		x.actors = append(x.actors, nil)
		x.model.clients = append(x.model.clients, modelClient{})
		x.arriveGearman(len(x.actors) - 1)
	}
	return x
}

func (x *trial) run() {
	commands := func(*rapid.T) { x.commands() }
	actions := map[string]func(*rapid.T){
		"":           func(*rapid.T) {},
		"commands 1": commands,
		"commands 2": commands,
		"commands 3": commands,
		"reserve":    func(*rapid.T) { x.reserveAlone() },
		"cancel":     func(*rapid.T) { x.cancel() },
		"use":        func(*rapid.T) { x.useOther() },
		"watch":      func(*rapid.T) { x.watchOther() },
		"ignore":     func(*rapid.T) { x.ignoreOne() },
		"leave":      func(*rapid.T) { x.leaveAndReturn() },
		"drain":      func(*rapid.T) { x.drain() },
		"sleep 1":    func(*rapid.T) { x.sleep() },
		"sleep 2":    func(*rapid.T) { x.sleep() },
		"gearman 1":  func(*rapid.T) { x.gearman() },
		"gearman 2":  func(*rapid.T) { x.gearman() },
		"gearman 3":  func(*rapid.T) { x.gearman() },
		"shelve":     func(*rapid.T) { x.shelve() },
		"can-do":     func(*rapid.T) { x.canDo() },
		"can't-do":   func(*rapid.T) { x.cantDo() },
		"doze":       func(*rapid.T) { x.doze() },
		"administer": func(*rapid.T) { x.administer() },
		"hang up":    func(*rapid.T) { x.leaveGearman() },
	}
	if len(x.rig.shards) > 1 {
		for i := range 4 { // each is but one message of many
			actions[fmt.Sprintf("ask %d", i)] = func(*rapid.T) { x.ask() }
		}
	}
	x.Repeat(actions)
	x.closeDown()
}

// pickOne draws one of some values.
func pickOne[T any](x *trial, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(x.T, what)
}

// someone returns an actor who is about that, and its number.
func (x *trial) someone(doing ...int) (int, *actor) {
	var who []int
	for i, a := range x.actors[1:] {
		if a.peer == nil && slices.Contains(doing, a.doing) {
			who = append(who, i+1)
		}
	}
	if len(who) == 0 {
		x.Skip("nobody")
	}
	i := pickOne(x, "who", who...)
	return i, x.actors[i]
}

// step does something at this moment, lets everything settle, and compares.
// predict does it in the model; the requests are compared with those there.
func (x *trial) step(predict func(m *model) []*Request, act func() []*Request) {
	x.Helper()
	want := predict(x.model)
	got := act()
	x.settle(1)
	if got, want := describe(got), describe(want); got != want {
		x.Fatalf("answers\ngot:\n%swant:\n%s", got, want)
	}
	x.inspect()
}

// settle lets time pass, and takes the outcome of the model that has come true.
func (x *trial) settle(d time.Duration) {
	x.Helper()
	time.Sleep(d)
	synctest.Wait()
	// Look before anything is posted: a post would have the shards see to
	// deadlines that their timers have missed.
	x.hear()
	got := x.picture()
	outcomes := x.model.advance(x.rig.clock.Now())
	for _, m := range outcomes {
		if m.picture() == got {
			x.model = m
			x.heard()
			x.collect()
			return
		}
	}
	x.Fatalf("at %d\ngot:\n%swant:\n%s", x.rig.clock.Now(), got, outcomes[0].picture())
}

// collect makes those idle whose waits are over.
func (x *trial) collect() {
	for i, a := range x.actors {
		if a.doing == blocked && x.model.clients[i].phase == granted {
			g, ok := a.waiter.Granted()
			if !ok {
				x.Fatalf("client %d is not told of its grant", i)
			}
			x.sameBody(g.Body)
			a.doing = idle
			if a.many {
				a.oweCancels(int(g.Shard))
			}
		}
	}
}

// oweCancels notes that all watched shards but one have to be told that the
// wait is over.
func (a *actor) oweCancels(but int) {
	for _, t := range a.watched {
		if t.Shard != but {
			a.owes[t.Shard] = true
		}
	}
}

// payUp sends the cancels that an actor owes. The router does so at once; here
// they may be as late as they could ever arrive.
func (x *trial) payUp(i int) {
	a := x.actors[i]
	for _, s := range slices.Sorted(maps.Keys(a.owes)) {
		x.step(
			func(m *model) []*Request { m.serve(i, s, &Request{Op: Cancel}); return nil },
			func() []*Request { a.send(s, Cancel); return nil })
	}
	clear(a.owes)
}

// post sends a chain, and compares the answers. The claim is begun open or
// closed, or goes on as it is if begin is probing. The actor is blocked if a
// reserve comes to wait.
func (x *trial) post(i, shard int, begin phase, chain ...*Request) {
	x.Helper()
	a := x.actors[i]
	want := copies(chain)
	x.step(
		func(m *model) []*Request {
			if begin != probing {
				m.begin(i, begin)
			}
			m.chain(i, shard, want)
			return want
		},
		func() []*Request {
			switch begin {
			case open:
				a.waiter.Begin(true)
			case closed:
				// Both ways to keep a reserve from waiting.
				if a.waiter.Begin(i%2 == 0); a.waiter.Cancel() {
					x.Fatalf("cancelled a wait that had not begun")
				}
			}
			a.postOn(shard, chain...)
			return chain
		})
	waits := slices.ContainsFunc(chain, func(r *Request) bool { return r.Status == Waiting })
	if answered := a.waiter.Answered(); answered == (waits && chain[0].Quiet) {
		x.Fatalf("waits: %t, quiet: %t, answered: %t", waits, chain[0].Quiet, answered)
	}
	for _, r := range chain {
		x.sameBody(r.Body)
		if (r.Op == Put || r.Op == Submit) && r.Status != Unserved && len(r.Body) <= Inline {
			clear(r.Body) // whoever wants it has a copy
		}
	}
	if !waits {
		a.waiter.Drop()
	}
}

// newBody returns a body unlike any other.
func (x *trial) newBody() []byte {
	size := pickOne(x, "size", 8, 8, 20, 200, Inline, Inline+1, 4000)
	text := fmt.Sprintf("%0*d\r\n", size-2, len(x.bodies))
	body := []byte(text)
	x.bodies[text] = &body[0]
	return body
}

// sameBody checks that a body is one that was put: that very one if it is large,
// and else a copy.
func (x *trial) sameBody(body []byte) {
	if body == nil {
		return
	}
	switch put := x.bodies[string(body)]; {
	case put == nil:
		x.Fatalf("nobody has put the body %.30q of %d bytes", body, len(body))
	case len(body) > Inline && put != &body[0]:
		x.Fatalf("a body of %d bytes has been copied", len(body))
	}
}

func copies(chain []*Request) []*Request {
	var c []*Request
	for _, r := range chain {
		r := *r
		c = append(c, &r)
	}
	return c
}

// do posts one request that is not a command; see post.
func (x *trial) do(i, shard int, r Request) *Request {
	x.Helper()
	x.post(i, shard, open, &r)
	return &r
}

// Actions.

// tubes are those of a trial by its number of shards.
var tubes = map[int][]string{1: {"default", "a0", "b0", "c0"}, 2: {"default", "a0", "b1", "c1"}}

func (x *trial) arrive(i int) {
	x.actors[i] = &actor{person: x.rig.newStranger(), told: make(map[int]*Request), owes: make(map[int]bool)}
	x.model.clients[i] = modelClient{sides: make([]modelSide, len(x.rig.shards))}
	r := x.do(i, 0, Request{Op: Attach, Name: DefaultTube})
	x.actors[i].used, x.actors[i].watched = r.Tube, []*Tube{r.Tube}
}

// commands sends a chain of commands for one shard.
func (x *trial) commands() {
	i, _ := x.someone(idle)
	x.payUp(i)
	shard := rapid.IntRange(0, len(x.rig.shards)-1).Draw(x.T, "shard")
	var chain []*Request
	for range pickOne(x, "length", 1, 1, 1, 2, 3, 5) {
		chain = append(chain, x.command(i, shard))
	}
	x.postCommands(i, shard, chain)
}

// reserveAlone sends one reserve, which may be quiet.
func (x *trial) reserveAlone() {
	i, a := x.someone(idle)
	if !a.watchesOnly(a.watched[0].Shard) {
		x.Skip("the reserve is over several shards")
	}
	x.payUp(i)
	r := x.reserve(i, a.watched[0].Shard)
	r.Quiet = rapid.Bool().Draw(x.T, "quiet")
	x.postCommands(i, a.watched[0].Shard, []*Request{r})
}

func (x *trial) postCommands(i, shard int, chain []*Request) {
	a := x.actors[i]
	begin := pickOne(x, "claim", open, open, open, closed)
	x.post(i, shard, begin, chain...)
	if slices.ContainsFunc(chain, func(r *Request) bool { return r.Status == Waiting }) {
		a.doing, a.many = blocked, false
		x.collect()
	}
}

func (a *actor) watchesOnly(shard int) bool {
	return !slices.ContainsFunc(a.watched, func(t *Tube) bool { return t.Shard != shard })
}

func (x *trial) reserve(i, shard int) *Request {
	r := &Request{Op: pickOne(x, "op", Reserve, ReserveTimeout), Timeout: x.drawTimeout()}
	if len(x.rig.shards) > 1 {
		r.Soonest = x.model.soonestElsewhere(i, shard)
	} else if pickOne(x, "elsewhere", false, false, true) {
		r.Soonest = x.model.now + pickOne(x, "soonest", second/2, second, second+1, 5*second/2)
	}
	return r
}

func (x *trial) drawTimeout() int64 {
	return pickOne(x, "timeout", 0, second/2, second, 5*second/2, NoTimeout, NoTimeout)
}

// command draws a command that may be sent to that shard.
func (x *trial) command(i, shard int) *Request {
	a := x.actors[i]
	ops := []Op{ReserveJob, Delete, Release, Release, Bury, Bury, Touch, Peek, KickJob, StatsJob, StatsTube, PauseTube}
	if a.used.Shard == shard {
		ops = append(ops, Put, Put, Put, Put, PeekReady, PeekDelayed, PeekBuried, Kick, Kick)
	}
	if a.watchesOnly(shard) {
		ops = append(ops, Reserve, Reserve, Reserve)
	}
	r := &Request{Op: pickOne(x, "op", ops...)}
	switch r.Op {
	case Reserve:
		return x.reserve(i, shard)
	case Put:
		if pickOne(x, "id first", false, false, true) {
			r.ID, r.Created = x.directory.NextID(), x.model.now-pickOne(x, "earlier", 0, second)
			x.model.lastID++
		}
		r.TTR = pickOne(x, "ttr", uint32(1), 2, 3, 10)
		r.Body = x.newBody()
	case StatsTube, PauseTube:
		r.Name = pickOne(x, "tube", tubes[len(x.rig.shards)]...)
	case Kick:
		r.N = pickOne(x, "n", uint64(0), 1, 2, 100)
	}
	switch r.Op {
	case Put, PeekReady, PeekDelayed, PeekBuried, Kick:
		r.Tube = a.used
	case ReserveJob, Delete, Release, Bury, Touch, Peek, KickJob, StatsJob:
		// One held, any, one that may be put earlier in the chain, or none.
		ids := []uint64{x.model.lastID + 1, 0}
		for _, j := range x.model.pick(byReady, func(j *modelJob) bool { return x.model.shardOf(j) == shard }) {
			ids = append(ids, j.id)
			if j.state == reserved && j.holder == i {
				ids = append(ids, j.id, j.id, j.id)
			}
		}
		r.ID = pickOne(x, "id", ids...)
	}
	if r.Op == Put || r.Op == Release || r.Op == Bury {
		r.Pri = pickOne(x, "pri", uint32(0), 1, 5, 1023, 1024, 1<<32-1)
	}
	if r.Op == Put || r.Op == Release || r.Op == PauseTube {
		r.Delay = pickOne(x, "delay", uint32(0), 0, 0, 1, 2, 5)
	}
	return r
}

// cancel ends a wait.
func (x *trial) cancel() {
	i, a := x.someone(blocked)
	x.step(
		func(m *model) []*Request { m.clients[i].phase = cancelled; return nil },
		func() []*Request {
			if !a.waiter.Cancel() {
				x.Fatalf("client %d has not been granted anything, but its wait cannot be cancelled", i)
			}
			return nil
		})
	a.doing = idle
	a.oweCancels(-1)
}

func (x *trial) useOther() {
	i, a := x.someone(idle)
	name := pickOne(x, "tube", tubes[len(x.rig.shards)]...)
	if name == a.used.Name {
		x.Skip("used already")
	}
	x.payUp(i)
	old := a.used
	a.used = x.do(i, x.rig.shardOf(name), Request{Op: Use, Name: name}).Tube
	x.do(i, old.Shard, Request{Op: Unuse, Tube: old})
}

func (x *trial) watchOther() {
	i, a := x.someone(idle)
	name := pickOne(x, "tube", tubes[len(x.rig.shards)]...)
	if slices.ContainsFunc(a.watched, func(t *Tube) bool { return t.Name == name }) {
		x.Skip("watched already")
	}
	x.payUp(i)
	a.watched = append(a.watched, x.do(i, x.rig.shardOf(name), Request{Op: Watch, Name: name}).Tube)
}

func (x *trial) ignoreOne() {
	i, a := x.someone(idle)
	if len(a.watched) == 1 {
		x.Skip("the only one")
	}
	x.payUp(i)
	t := a.watched[rapid.IntRange(0, len(a.watched)-1).Draw(x.T, "which")]
	x.do(i, t.Shard, Request{Op: Ignore, Tube: t})
	a.watched = slices.DeleteFunc(a.watched, func(o *Tube) bool { return o == t })
}

func (x *trial) leaveAndReturn() {
	i, _ := x.someone(idle)
	x.leave(i)
	x.arrive(i)
}

// leave detaches an actor, whatever it is about.
func (x *trial) leave(i int) {
	x.payUp(i)
	a := x.actors[i]
	ops := []Op{GiveBack, Detach}
	if pickOne(x, "give back first", true, false) {
		ops = ops[1:]
	}
	for _, op := range ops {
		for s := range a.sides {
			x.step(
				func(m *model) []*Request { m.serve(i, s, &Request{Op: op}); return nil },
				func() []*Request { a.send(s, op); return nil })
		}
	}
}

// drain has one put refused.
func (x *trial) drain() {
	i, a := x.someone(idle)
	x.payUp(i)
	x.rig.draining.Store(true)
	x.model.draining = true
	x.do(i, a.used.Shard, Request{Op: Put, Tube: a.used, TTR: 1, Body: x.newBody()})
	x.rig.draining.Store(false)
	x.model.draining = false
}

// sleep lets time pass: often to the very moment of a deadline, or to the one
// before.
func (x *trial) sleep() {
	d := pickOne(x, "for", second/3, second, 5*second/2, 20*second, 0, 0, -1)
	if d <= 0 {
		at, _ := x.model.nextDue()
		if d += at - x.model.now; at == never || d <= 0 {
			x.Skip("nothing is due")
		}
	}
	x.settle(time.Duration(d))
	x.inspect()
}

// closeDown has everybody leave, and looks whether anything is left behind.
func (x *trial) closeDown() {
	for i, a := range x.actors[1:] {
		if i++; a.doing == blocked {
			x.step(
				func(m *model) []*Request { m.clients[i].phase = cancelled; return nil },
				func() []*Request { a.waiter.Cancel(); return nil })
		}
		x.leave(i)
	}
	if st := x.rig.gather(); st.Queued != 0 || st.Observers != 0 || st.Waiting != 0 || st.Reserved != 0 {
		x.Fatalf("something is left behind: %+v", st)
	}
	for s := range x.rig.shards {
		var left []uint64
		for _, j := range x.model.pick(byReady, func(j *modelJob) bool { return x.model.shardOf(j) == s }) {
			left = append(left, j.id)
		}
		for _, id := range left {
			if r := x.do(0, s, Request{Op: Delete, ID: id}); r.Status != OK {
				x.Fatalf("job %d cannot be deleted: %v", id, r.Status)
			}
		}
	}
	synctest.Wait()
	x.dropAll()
	st := x.rig.gather()
	if st.Memory != 0 || st.Tubes != 1 || st.Ready+st.Delayed+st.Buried+st.Urgent != 0 || x.directory.Groups() > 1 {
		x.Fatalf("not empty: %+v, %d groups in the directory", st, x.directory.Groups())
	}
	synctest.Wait()
	for _, s := range x.rig.shards {
		for _, d := range s.dues {
			if t, ok := d.owner.(*Tube); !ok || s.tubes[t.Name] != t {
				x.Fatalf("a %T that is gone has something due", d.owner)
			}
		}
	}
}
