package shard

import "slices"

// The trial's reserves over several shards: one message at a time.

// ask goes one step further in somebody's reserve over several shards. It does
// what the router does, but for one thing: the router does not begin anew
// without need.
func (x *trial) ask() {
	i, a := x.someone(idle, asking)
	if a.doing == idle {
		x.payUp(i)
		a.timeout = x.drawTimeout()
		x.beginProbe(i)
		return
	}
	if pickOne(x, "anew", false, false, false, false, false, false, false, true) {
		x.beginProbe(i)
		return
	}
	var unasked, found []int
	for _, t := range a.watched {
		switch r := a.told[t.Shard]; {
		case r == nil:
			unasked = append(unasked, t.Shard)
		case r.ID != 0 && !slices.Contains(found, t.Shard):
			found = append(found, t.Shard)
		}
	}
	switch {
	case len(unasked) > 0:
		x.probe(i, pickOne(x, "shard", unasked...))
	case len(found) > 0:
		slices.SortFunc(found, func(s, t int) int {
			if told(a.told[s]).less(told(a.told[t])) {
				return -1
			}
			return 1
		})
		bound := worst
		if len(found) > 1 {
			bound = told(a.told[found[1]])
		}
		x.take(i, found[0], bound)
	default:
		x.settleFor(i)
	}
}

func told(r *Request) key { return key{uint64(r.Pri), r.ID} }

func (x *trial) beginProbe(i int) {
	a := x.actors[i]
	a.doing = asking
	clear(a.told)
	x.step(
		func(m *model) []*Request { m.begin(i, probing); return nil },
		func() []*Request { a.waiter.BeginProbe(); return nil })
}

func (x *trial) probe(i, shard int) {
	a := x.actors[i]
	r := &Request{Op: Probe, Timeout: a.timeout, N: uint64(Reserve)}
	if shard == a.watched[0].Shard {
		r.Primary, r.Soonest = true, x.model.soonestElsewhere(i, shard)
	}
	a.told[shard] = r
	x.post(i, shard, probing, r)
}

func (x *trial) take(i, shard int, bound key) {
	a := x.actors[i]
	// With a bound of 2^32-1 in pri, worst would not fit; nor is it better.
	r := &Request{Op: Take, Pri: uint32(min(bound.hi, 1<<32-1)), ID: bound.lo}
	best := uint64(0)
	if j := x.model.best(i, -1); j != nil {
		best = j.id
	}
	dirtyBefore := x.model.clients[i].phase != probing
	x.post(i, shard, probing, r)
	a.told[shard] = r
	switch {
	case r.Status == OK:
		if dirtyBefore || r.ID != best {
			x.Fatalf("client %d took job %d (claim dirty: %t), but the best of all is %d", i, r.ID, dirtyBefore, best)
		}
		a.doing = idle
		if a.timeout != 0 {
			a.oweCancels(shard)
		}
	case !a.waiter.Clean():
		x.beginProbe(i)
	}
}

// settleFor ends the probing of a client that has found nothing.
func (x *trial) settleFor(i int) {
	a := x.actors[i]
	to := cancelled
	if a.timeout != 0 && x.model.soon(i, 0, x.model.soonestElsewhere(i, 0)) > x.model.now {
		to = waiting
	}
	nothing := x.model.best(i, -1) == nil
	var settled bool
	x.step(
		func(m *model) []*Request {
			if m.clients[i].phase == probing {
				m.clients[i].phase = to
				// It may be granted a job from here on.
				a.doing, a.many = blocked, true
			}
			return nil
		},
		func() []*Request { settled = a.waiter.Settle(to == waiting); return nil })
	switch {
	case !settled:
		if a.doing != asking {
			x.Fatalf("client %d could not settle though its claim is clean", i)
		}
		x.beginProbe(i)
	case !nothing:
		x.Fatalf("client %d settled for nothing, but a job was ready", i)
	case to == cancelled:
		a.doing = idle
		if a.timeout != 0 {
			a.oweCancels(-1)
		}
	}
}
