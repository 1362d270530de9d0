package shard

import (
	"slices"
	"time"

	"pgregory.net/rapid"
)

// Gearman's clients in the trial. They never wait, so each does what it likes at
// any moment.

// gearmanActor returns a Gearman client, and its number.
func (x *trial) gearmanActor() (int, *actor) {
	var who []int
	for i, a := range x.actors {
		if a.peer != nil {
			who = append(who, i)
		}
	}
	i := pickOne(x, "who", who...)
	return i, x.actors[i]
}

// arriveGearman makes actor i one that speaks Gearman.
func (x *trial) arriveGearman(i int) {
	p, peer := x.rig.newWorker(1 << 40)
	x.actors[i] = &actor{person: p, peer: peer, told: make(map[int]*Request), owes: make(map[int]bool)}
	x.model.clients[i] = modelClient{sides: make([]modelSide, len(x.rig.shards)), timeouts: make(map[string]uint32)}
}

func (x *trial) someTube(shard int) string {
	return pickOne(x, "tube", slices.DeleteFunc(slices.Clone(tubes[len(x.rig.shards)]), func(name string) bool {
		return x.rig.shardOf(name) != shard
	})...)
}

// gearman sends a chain of Gearman's commands for one shard.
func (x *trial) gearman() {
	i, _ := x.gearmanActor()
	shard := rapid.IntRange(0, len(x.rig.shards)-1).Draw(x.T, "shard")
	var chain []*Request
	for range pickOne(x, "length", 1, 1, 1, 2, 3, 5) {
		chain = append(chain, x.gearmanCommand(i, shard))
	}
	x.post(i, shard, open, chain...)
}

func (x *trial) gearmanCommand(i, shard int) *Request {
	r := &Request{Op: pickOne(x, "op", Submit, Submit, Submit, Grab, Grab, Report, Report, Report, Inquire, InquireUnique)}
	switch r.Op {
	case Submit:
		r.Name = x.someTube(shard)
		r.Pri = pickOne(x, "pri", PriHigh, PriNormal, PriLow)
		r.Task = &Task{Unique: pickOne(x, "unique", "", "u", "v", "-"), Background: rapid.Bool().Draw(x.T, "background")}
		r.Body = x.newBody()
		if r.Task.Unique == "-" {
			if x.workload == nil {
				x.workload = r.Body
			}
			if r.Body = x.workload; len(r.Body) <= Inline {
				x.workload = slices.Clone(r.Body) // the other is cleared
			}
		}
		r.N = pickOne(x, "at", uint64(0), 0, 0, 1, uint64(time.Now().Unix())+1, uint64(time.Now().Unix())+3)
	case Report:
		r.N = uint64(pickOne(x, "kind", Data, Warning, Progress, Complete, Complete, Fail, Exception))
		r.Body = x.newBody()
		r.Pri, r.Delay = 3, 7
		if EventKind(r.N) != Progress {
			r.Pri, r.Delay = 0, 0
		}
	case InquireUnique:
		r.Name = pickOne(x, "unique", "u", "v", "w")
	}
	if r.Op == Report || r.Op == Inquire {
		r.ID = x.someID(i, shard)
	}
	return r
}

// someID returns that of a job of the actor's, of any, or of none.
func (x *trial) someID(i, shard int) uint64 {
	ids := []uint64{x.model.lastID + 1, 0}
	for _, j := range x.model.pick(byReady, func(j *modelJob) bool { return x.model.shardOf(j) == shard }) {
		ids = append(ids, j.id)
		if j.state == reserved && j.holder == i {
			ids = append(ids, j.id, j.id, j.id)
		}
	}
	return pickOne(x, "id", ids...)
}

// shelve buries a job that has a unique, or kicks it, so that there come to be several
// of one.
func (x *trial) shelve() {
	jobs := x.model.pick(byReady, func(j *modelJob) bool { return j.unique != "" && j.state != reserved })
	if len(jobs) == 0 {
		x.Skip("there is none")
	}
	i, _ := x.someone(idle)
	x.payUp(i)
	j := pickOne(x, "job", jobs...)
	id, shard := j.id, x.model.shardOf(j)
	chain := []*Request{{Op: ReserveJob, ID: id}, {Op: Bury, ID: id, Pri: j.pri}}
	if j.state == buried {
		chain = []*Request{{Op: KickJob, ID: id}}
	}
	x.postCommands(i, shard, chain)
}

// canDo has a worker learn a function, or its timeout.
func (x *trial) canDo() {
	i, a := x.gearmanActor()
	name := pickOne(x, "tube", tubes[len(x.rig.shards)]...)
	r := x.do(i, x.rig.shardOf(name), Request{
		Op: CanDo, Name: name, TTR: pickOne(x, "timeout", uint32(0), 0, 1, 2, 5), N: pickOne(x, "asleep", uint64(0), 0, 1),
	})
	if !slices.Contains(a.watched, r.Tube) {
		a.watched = append(a.watched, r.Tube)
	}
}

func (x *trial) cantDo() {
	i, a := x.gearmanActor()
	if len(a.watched) == 0 {
		x.Skip("it can do nothing")
	}
	t := pickOne(x, "tube", a.watched...)
	x.do(i, t.Shard, Request{Op: Ignore, Tube: t})
	a.watched = slices.DeleteFunc(a.watched, func(o *Tube) bool { return o == t })
}

func (x *trial) doze() {
	i, _ := x.gearmanActor()
	x.do(i, rapid.IntRange(0, len(x.rig.shards)-1).Draw(x.T, "shard"), Request{Op: Doze})
}

// administer sends one of the commands of the administration.
func (x *trial) administer() {
	i, _ := x.gearmanActor()
	shard := rapid.IntRange(0, len(x.rig.shards)-1).Draw(x.T, "shard")
	r := Request{Op: pickOne(x, "op", CancelJob, CancelJob, CancelJob, DropFunction, DropFunction, LimitFunction, CreateFunction)}
	switch r.Op {
	case CancelJob:
		r.ID = x.someID(i, shard)
	case LimitFunction:
		r.Name, r.Lists = x.someTube(shard), new(Lists)
		for i := range r.Lists.Limits {
			r.Lists.Limits[i] = pickOne(x, "limit", uint32(0), 0, 1, 2, 3)
		}
	default:
		r.Name = x.someTube(shard)
	}
	x.do(i, shard, r)
}

func (x *trial) leaveGearman() {
	i, _ := x.gearmanActor()
	x.leave(i)
	x.arriveGearman(i)
}

// hear takes what has come to Gearman's clients.
func (x *trial) hear() {
	for _, a := range x.actors {
		if a.peer == nil {
			continue
		}
		before := len(a.events)
		a.peer.inbox.Take(func(e *Event) { a.events = append(a.events, eventName(e.Kind, e.ID, string(e.Data))) })
		if pokes := a.peer.pokes.Swap(0); (pokes > 0) != (len(a.events) > before) {
			x.Fatalf("%d pokes for %d events", pokes, len(a.events)-before)
		}
		if a.peer.kills.Load() > 0 {
			x.Fatalf("killed")
		}
	}
}

// heard forgets what was compared.
func (x *trial) heard() {
	for i, a := range x.actors {
		a.events = nil
		x.model.clients[i].events = nil
	}
}

// dropAll ends all functions.
func (x *trial) dropAll() {
	var names []string
	for _, t := range x.model.tubes {
		if t.function {
			names = append(names, t.name)
		}
	}
	for _, name := range names {
		if r := x.do(0, x.rig.shardOf(name), Request{Op: DropFunction, Name: name}); r.Status != OK {
			x.Fatalf("function %s cannot be dropped: %d", name, r.Status)
		}
	}
}
