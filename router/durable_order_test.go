package router

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/shard"
)

// check starts an engine on what a crash at p leaves and compares what it has
// with what may be there. It returns how many jobs that were.
func (m *durCrowd) check(p *durMoment) int {
	d := m.run
	left := d.outcome(p.durPoint)
	for d.rng.IntN(4) == 0 {
		left = d.interrupted(p.durPoint, left)
	}
	s := d.find(p.durPoint, left, d.config(0), 1+d.rng.IntN(5))
	puts := make(map[uint64]*durOp)
	of := make(map[uint64][]*durOp)
	kicks := make(map[string][]*durOp)
	for _, o := range m.ops {
		switch {
		case o.call > p.to:
		case o.op == shard.Kick:
			kicks[o.tube] = append(kicks[o.tube], o)
		case o.ok:
			of[o.id] = append(of[o.id], o)
			if o.op != shard.Put {
				continue
			}
			if puts[o.id] = o; o.ret <= p.from && o.id > s.last {
				d.fatalf("crash %s: the last id is %d, and %d was told to a client", p.when, s.last, o.id)
			}
		}
	}
	for id := range s.jobs {
		if puts[id] == nil {
			d.fatalf("crash %s: job %d was never put", p.when, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(puts)) {
		put, f := puts[id], s.jobs[id]
		if f.JobStats != nil && (!bytes.Equal(f.body, put.body) || f.Tube != put.tube || f.TTR != durTTR || f.Timeouts != 0) {
			d.fatalf("crash %s: job %d is %+v with body %.50q, and was put as %+v", p.when, id, *f.JobStats, f.body, *put)
		}
		tries := durTries{ops: append(of[id], kicks[put.tube]...), from: p.from, found: f, failed: make(map[durTry]bool)}
		if len(tries.ops) > 64 || tries.try(durTry{gone: true}) {
			continue // more than 64 are hardly ever there
		}
		var list string
		for _, o := range tries.ops {
			list += fmt.Sprintf("\n\t%+v", *o)
		}
		d.fatalf("crash %s: job %d is %+v, which no order of its commands leaves; the crash was at %d to %d:%s",
			p.when, id, f.JobStats, p.from, p.to, list)
	}
	return len(puts)
}

// durTries looks for an order of the commands on one job that leaves it as it
// was found.
type durTries struct {
	ops    []*durOp // that have succeeded; kicks in the tube may have been of others
	from   int64    // see durMoment
	found  durFound
	failed map[durTry]bool
}

// durTry is a job after some of its commands.
type durTry struct {
	done                              uint64 // the commands
	gone                              bool
	state                             binlog.State
	holder                            int // 0 for none
	pri, delay                        uint32
	reserves, releases, buries, kicks uint32
}

// try tells whether there is an order for the rest.
func (t *durTries) try(at durTry) bool {
	if t.failed[at] {
		return false
	}
	first := int64(1 << 62) // answer to what is not done
	for i, o := range t.ops {
		if at.done&(1<<i) == 0 && o.op != shard.Kick {
			first = min(first, o.ret)
		}
	}
	if first > t.from && t.is(at) {
		return true
	}
	for i, o := range t.ops {
		if at.done&(1<<i) != 0 || o.call > first {
			continue
		}
		if next, ok := at.after(o); ok {
			next.done |= 1 << i
			if t.try(next) {
				return true
			}
		}
	}
	t.failed[at] = true
	return false
}

// is tells whether the job was found like that.
func (t *durTries) is(at durTry) bool {
	f := t.found
	if at.gone || f.JobStats == nil {
		return at.gone == (f.JobStats == nil)
	}
	return f.State == at.state.String() && f.Pri == at.pri && f.Delay == at.delay &&
		f.Reserves == at.reserves && f.Releases == at.releases && f.Buries == at.buries && f.Kicks == at.kicks
}

// after returns what a command that succeeds makes of the job, if it can.
func (at durTry) after(o *durOp) (durTry, bool) {
	mine := at.holder == o.client
	ok := !at.gone
	switch o.op {
	case shard.Put:
		ok = at.done == 0
		at.gone, at.pri, at.delay = false, o.pri, o.delay
		if o.delay > 0 {
			at.state = binlog.Delayed
		}
	case shard.Reserve, shard.ReserveTimeout, shard.ReserveJob:
		ok = ok && at.holder == 0 && (o.op == shard.ReserveJob || at.state == binlog.Ready)
		at.holder, at.state = o.client, binlog.Ready
		at.reserves++
	case shard.Delete:
		ok = ok && (at.holder == 0 || mine)
		at = durTry{done: at.done, gone: true}
	case shard.Release:
		ok = ok && mine
		at.holder, at.pri, at.delay = 0, o.pri, o.delay
		if o.delay > 0 {
			at.state = binlog.Delayed
		}
		at.releases++
	case shard.Bury:
		ok = ok && mine
		at.holder, at.pri, at.state = 0, o.pri, binlog.Buried
		at.buries++
	case shard.Kick, shard.KickJob:
		ok = ok && at.holder == 0 && at.state != binlog.Ready
		at.state = binlog.Ready
		at.kicks++
	case shard.GiveBack:
		ok = ok && mine
		at.holder = 0
	}
	return at, ok
}
