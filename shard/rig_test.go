package shard

// What the tests share: shards with a directory of their own, and people who
// talk to them the way package router does.

import (
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Long enough that jobs, pauses and waits meet; -rapid.steps and such still
	// decide.
	flag.Set("rapid.steps", "60")
	flag.Set("rapid.checks", "200")
	flag.Set("rapid.nofailfile", "true") // the seed is printed; -rapid.seed replays it
	goleak.VerifyTestMain(m)
}

// rig is some shards that make up an engine.
type rig struct {
	shards   []*Shard
	clock    Clock
	budget   *Budget
	draining atomic.Bool
}

// newRig starts n shards. maxMemory is in bytes, 0 for no cap.
func newRig(n int, d *Directory, maxMemory int64) *rig {
	g := &rig{clock: NewClock(), budget: NewBudget(maxMemory, n)}
	d.ChargeTo(g.budget)
	for i := range n {
		cfg := Config{Index: i, Clock: g.clock, Directory: d, Budget: g.budget, Draining: &g.draining}
		if i > 0 {
			cfg.First = g.shards[0]
		}
		g.shards = append(g.shards, New(cfg))
	}
	return g
}

// stop ends the shards: the first last, since the others send it word of tubes.
func (g *rig) stop() {
	for i := len(g.shards) - 1; i >= 0; i-- {
		g.shards[i].Stop()
	}
}

// shardOf says where a tube lives: its last letter is the shard's number, and
// any other is for the first shard.
func (g *rig) shardOf(tube string) int {
	if i := int(tube[len(tube)-1]) - '0'; i >= 0 && i < len(g.shards) {
		return i
	}
	return 0
}

// person is one client of a rig, with a side at each shard.
type person struct {
	rig     *rig
	waiter  *Waiter
	sides   []*Client
	used    *Tube
	watched []*Tube
}

// newStranger returns a client that uses and watches nothing.
func (g *rig) newStranger() *person {
	p := &person{rig: g, waiter: NewWaiter()}
	for range g.shards {
		p.sides = append(p.sides, NewClient(p.waiter))
	}
	return p
}

// newWorker returns a Gearman client, and its connection.
func (g *rig) newWorker(most int64) (*person, *fakePeer) {
	peer := &fakePeer{}
	peer.inbox = NewInbox(peer, most)
	p := &person{rig: g, waiter: NewGearmanWaiter(peer.inbox)}
	for range g.shards {
		p.sides = append(p.sides, NewClient(p.waiter))
	}
	return p, peer
}

// fakePeer is the connection of a Gearman client.
type fakePeer struct {
	inbox        *Inbox
	pokes, kills atomic.Int64
}

func (p *fakePeer) Unread() time.Duration { return deafAfter + 1 }

func (p *fakePeer) Poke() { p.pokes.Add(1) }
func (p *fakePeer) Kill() { p.kills.Add(1) }

// newPerson returns a client that uses and watches the default tube.
func (g *rig) newPerson() *person {
	p := g.newStranger()
	p.used = p.do(0, Request{Op: Attach, Name: DefaultTube}).Tube
	p.watched = []*Tube{p.used}
	return p
}

// post begins a claim and hands over a chain for one shard.
func (p *person) post(shard int, chain ...*Request) {
	p.waiter.Begin(true)
	p.postOn(shard, chain...)
}

// postOn is post without a new claim.
func (p *person) postOn(shard int, chain ...*Request) {
	for _, r := range chain {
		r.Client = p.sides[shard]
	}
	p.waiter.Expect(1)
	p.rig.shards[shard].Post(chain)
}

// await blocks until all that was posted is answered.
func (p *person) await() {
	for !p.waiter.Answered() {
		p.waiter.Sleep()
	}
}

// granted blocks until a reserve that waits is answered.
func (p *person) granted() *Grant {
	for {
		if g, ok := p.waiter.Granted(); ok {
			return g
		}
		p.waiter.Sleep()
	}
}

// do posts one request and awaits its answer.
func (p *person) do(shard int, r Request) *Request {
	p.post(shard, &r)
	p.await()
	return &r
}

// send hands over a request whose answer nobody awaits.
func (p *person) send(shard int, op Op) {
	p.rig.shards[shard].Send(&Request{Op: op, Client: p.sides[shard]})
}

func (p *person) use(name string) {
	old := p.used
	p.used = p.do(p.rig.shardOf(name), Request{Op: Use, Name: name}).Tube
	p.do(old.Shard, Request{Op: Unuse, Tube: old})
}

func (p *person) watch(name string) {
	p.watched = append(p.watched, p.do(p.rig.shardOf(name), Request{Op: Watch, Name: name}).Tube)
}

func (p *person) ignore(name string) {
	for i, t := range p.watched {
		if t.Name == name {
			p.do(t.Shard, Request{Op: Ignore, Tube: t})
			p.watched = append(p.watched[:i:i], p.watched[i+1:]...)
			return
		}
	}
}

// settleIn uses and watches that tube alone.
func (p *person) settleIn(name string) *person {
	p.use(name)
	p.watch(name)
	p.ignore(DefaultTube)
	return p
}

// detach leaves all shards.
func (p *person) detach() {
	for i := range p.sides {
		p.send(i, Detach)
	}
}

// gather sums up the statistics of all shards.
func (g *rig) gather() Stats {
	var sum Stats
	nobody := g.newStranger()
	for i := range g.shards {
		sum.Add(nobody.do(i, Request{Op: Gather}).Stats)
	}
	return sum
}
