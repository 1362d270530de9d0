package router

import (
	"fmt"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// Gearman in the histories: jobs of the background, which are kept like any
// other, with all that was submitted; and jobs of the foreground, which must not
// be found again unless they were submitted in the background, too.

// durForeground is the function of the jobs in the foreground. No client watches
// it, so that they stay where they are.
const durForeground = "function of the foreground"

// durPending is a job in the foreground.
type durPending struct {
	id      uint64
	client  *durClient
	unique  string
	reducer string
	pri     uint32
	created int64
	body    []byte
}

// isPending tells whether a job may be in the foreground: it was when it was
// submitted, and nothing is known of it since.
func (d *durRun) isPending(id uint64) bool { return d.foreground[id] && d.model.jobs[id] == nil }

// submit has one client submit one job, alone: so its id is known.
func (d *durRun) submit() {
	c := d.clients[d.rng.IntN(len(d.clients))]
	r := shard.Request{Op: shard.Submit, Name: durTubes[d.rng.IntN(len(durTubes))], Body: d.body()}
	r.Pri = [...]uint32{shard.PriHigh, shard.PriNormal, shard.PriLow}[d.rng.IntN(3)]
	r.Task = &shard.Task{Background: true}
	if d.rng.IntN(3) > 0 {
		r.Task.Unique = fmt.Sprintf("unique %x", d.rng.Uint64())
	}
	if d.rng.IntN(8) == 0 {
		r.Task.Unique = "-"
	}
	if d.rng.IntN(3) == 0 {
		r.Task.Reducer = "reducer"
	}
	if d.rng.IntN(4) == 0 {
		for r.N = uint64(d.now()/1e9) + uint64(d.rng.IntN(20)); d.model.delayed(int64(r.N) * 1e9); {
			r.N++
		}
	}
	switch n := d.rng.IntN(6); {
	case n == 0 && len(d.pending) > 0: // a job of the foreground, again
		p := d.pending[d.rng.IntN(len(d.pending))]
		r.Name, r.Body, r.N = durForeground, p.body, 0
		r.Task = &shard.Task{Unique: p.unique, Reducer: p.reducer, Background: d.rng.IntN(2) == 0}
		if !r.Task.Background {
			c = p.client // with whom the job goes
		}
	case n < 3:
		r.Name, r.N, r.Task.Background = durForeground, 0, false
	case n == 3: // one of the background, again; where that is buried it may be another
		shelved := d.rng.IntN(2) == 0
		for _, j := range d.model.alive {
			if j.task != nil && j.task.Unique != "" && !j.empty() && (j.last().buries > 0) == shelved && d.rng.IntN(3) == 0 {
				r.Name, r.Body, r.N = j.tube, j.body, 0
				r.Task = &shard.Task{Unique: j.task.Unique, Background: j.last().buries > 0 || d.rng.IntN(2) == 0}
				break
			}
		}
	}
	c.Use(r.Name)
	before := d.router.directory.LastID()
	d.queue(c, r)
	d.serve(c)
	if id := d.router.directory.LastID(); id == before {
		// A shard whose log has failed has refused it: the id is the next one's.
		if j := d.model.jobs[id+1]; j != nil {
			d.model.remove(j)
			delete(d.model.jobs, id+1)
		}
	} else if !r.Task.Background {
		d.foreground[id] = true
	}
	if r.Name != durForeground || d.dead[c.Used().Shard] {
		return
	}
	// Who was refused has changed nothing.
	for i := range d.pending {
		if p := &d.pending[i]; d.model.jobs[p.id] != nil {
			d.pending = append(d.pending[:i], d.pending[i+1:]...)
			return
		}
	}
	last := d.router.directory.LastID()
	if !r.Task.Background && last != d.lastPending && d.router.directory.Lookup(last) >= 0 && d.model.jobs[last] == nil {
		d.pending = append(d.pending, durPending{last, c, r.Task.Unique, r.Task.Reducer, r.Pri, d.now(), r.Body})
		d.lastPending = last
	}
}

// empty tells whether the unique of j is its workload, and that is none.
func (j *durJob) empty() bool { return j.task.Unique == "-" && len(j.body) == 2 }

// durSame tells whether a job with that unique and body is the same as what is
// submitted.
func durSame(unique string, body []byte, r *shard.Request) bool {
	if unique == "" || unique != r.Task.Unique {
		return false
	}
	return unique != "-" || len(body) > 2 && string(body) == string(r.Body)
}

// modelSubmit is durModel.do for Submit.
func (d *durRun) modelSubmit(r *shard.Request, now int64) durAnswer {
	m := d.model
	m.undo = m.undo[:0]
	s := shardOf(r.Name, d.shards)
	var oldest *durJob
	for _, j := range m.alive {
		if j.tube == r.Name && j.state != "buried" && j.task != nil && durSame(j.task.Unique, j.body, r) && (oldest == nil || j.id < oldest.id) {
			oldest = j
		}
	}
	if oldest != nil {
		return durAnswer{status: shard.OK, id: oldest.id, shard: -1}
	}
	j := &durJob{
		tube: r.Name, shard: s, ttr: 3600, created: now, body: r.Body,
		versions: []durVersion{{gone: true}}, state: "ready",
	}
	j.task = &shard.Task{Unique: r.Task.Unique, Reducer: r.Task.Reducer}
	pri := r.Pri
	for _, p := range d.pending {
		if r.Name == durForeground && durSame(p.unique, p.body, r) {
			if !r.Task.Background {
				return durAnswer{status: shard.OK, id: p.id, shard: -1}
			}
			j.id, pri, j.created, j.body = p.id, p.pri, p.created, p.body
			j.task.Reducer = p.reducer
		}
	}
	if j.id == 0 {
		j.id = d.router.directory.LastID() + 1
	}
	if !r.Task.Background {
		return durAnswer{status: shard.OK, id: j.id, shard: -1}
	}
	m.jobs[j.id] = j
	m.change(j, func(v *durVersion) { *v = durVersion{pri: pri} })
	if at := int64(r.N) * int64(time.Second); at > now {
		j.last().delay = uint32((at - now + int64(time.Second) - 1) / int64(time.Second))
		m.delayUntil(j, at)
	}
	m.alive = append(m.alive, j)
	return durAnswer{status: shard.OK, id: j.id, shard: s}
}

// durGrab grabs all ready jobs of some tubes, and returns their tasks.
func durGrab(r *Router, tubes map[string]bool) map[uint64]*shard.Task {
	tasks := make(map[uint64]*shard.Task)
	c, _ := r.NewGearmanClient(deafPeer{}, 1<<30)
	defer c.Close()
	for t := range tubes {
		c.CanDo(t, 0)
	}
	for more := len(tubes) > 0; more; {
		c.Queue(c.New(shard.Grab))
		for done := c.Await(false); done != nil; done = c.Await(false) {
			for _, q := range done {
				if more = q.Status == shard.OK; more {
					tasks[q.ID] = q.Task
				}
			}
		}
	}
	return tasks
}

// deafPeer is a connection that nothing is told.
type deafPeer struct{}

func (deafPeer) Poke()                 {}
func (deafPeer) Unread() time.Duration { return time.Hour }
func (deafPeer) Kill()                 {}
