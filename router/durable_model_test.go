package router

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/shard"
)

// durVersion is what of a job outlives a crash, from one change to the next.
type durVersion struct {
	seq   int64 // of the change, over all jobs; 0 for what was there at the beginning
	gone  bool  // not there yet, or deleted
	state binlog.State
	at    int64 // when a delay runs out, in nanoseconds of Unix time; or the place among the buried

	pri, delay                                  uint32
	reserves, timeouts, releases, buries, kicks uint32
}

// durJob is a job in the model.
type durJob struct {
	id       uint64
	tube     string
	shard    int // of the engine that runs
	ttr      uint32
	created  int64  // nanoseconds of Unix time
	body     []byte // with its CRLF
	task     *shard.Task
	versions []durVersion
	brim     bool // on a disk that is full to the brim, not all reserves and timeouts are noted

	// How it is now, as clients see it.
	state  string
	holder *durClient
	due    int64 // end of its TTR or delay, in nanoseconds of Unix time
}

func (j *durJob) last() *durVersion { return &j.versions[len(j.versions)-1] }

// at returns what j was after that change.
func (j *durJob) at(seq int64) *durVersion {
	for i := len(j.versions) - 1; ; i-- {
		if j.versions[i].seq <= seq {
			return &j.versions[i]
		}
	}
}

// durModel is what one engine does and has to keep: each job through all that
// has become of it. It belongs to the goroutine that drives the engine, but for
// the atomics, which are read when the file system crashes.
type durModel struct {
	jobs    map[uint64]*durJob // also those that are deleted
	alive   []*durJob
	seq     int64 // of the last change
	burials int64
	undo    []durUndo // what the last command has found

	// acked is up to which change those of a shard are promised; issued up to
	// which there may be any.
	acked  []atomic.Int64
	issued atomic.Int64
	// ackedID is the highest id that a client was told.
	ackedID atomic.Uint64
}

type durUndo struct {
	j   *durJob
	was durJob
}

func newDurModel() *durModel { return &durModel{jobs: make(map[uint64]*durJob)} }

// begin has the model run on that many shards. What there is was settled.
func (m *durModel) begin(shards int) {
	m.acked = make([]atomic.Int64, shards)
	for _, j := range m.alive {
		j.shard = shardOf(j.tube, shards)
	}
}

// advance lets what is due by then run out.
func (m *durModel) advance(until int64) {
	var late []*durJob
	for _, j := range m.alive {
		switch {
		case j.due == 0 || j.due > until:
		case j.state == "delayed":
			j.state, j.due = "ready", 0
		default:
			late = append(late, j)
		}
	}
	slices.SortStableFunc(late, func(a, b *durJob) int { return cmp.Compare(a.due, b.due) })
	for _, j := range late {
		m.change(j, func(v *durVersion) { v.timeouts++ })
		j.state, j.holder, j.due = "ready", nil, 0
	}
	m.issued.Store(m.seq)
}

// change makes a new version of j.
func (m *durModel) change(j *durJob, f func(*durVersion)) {
	was := *j
	was.versions = slices.Clone(j.versions)
	m.undo = append(m.undo, durUndo{j, was})
	v := *j.last()
	f(&v)
	m.seq++
	v.seq = m.seq
	j.versions = append(j.versions, v)
}

// revoke takes the last command back: it was refused.
func (m *durModel) revoke() {
	for _, u := range slices.Backward(m.undo) {
		*u.j = u.was
		switch is := slices.Contains(m.alive, u.j); {
		case u.was.last().gone && is:
			m.remove(u.j)
			delete(m.jobs, u.j.id)
		case !u.was.last().gone && !is:
			m.alive = append(m.alive, u.j)
		}
	}
	m.undo = m.undo[:0]
}

// remove takes j off the list of those alive.
func (m *durModel) remove(j *durJob) {
	i := slices.Index(m.alive, j)
	m.alive = slices.Delete(m.alive, i, i+1)
}

// do lets one command of a client take effect, and returns how it is to be
// answered.
func (m *durModel) do(c *durClient, r *shard.Request, now int64) durAnswer {
	m.undo = m.undo[:0]
	switch r.Op {
	case shard.Put:
		j := &durJob{
			id: r.ID, tube: c.Used().Name, shard: c.Used().Shard, ttr: r.TTR, created: now, body: r.Body,
			versions: []durVersion{{gone: true}}, state: "ready",
		}
		m.jobs[j.id] = j
		m.change(j, func(v *durVersion) { *v = durVersion{pri: r.Pri, delay: r.Delay} })
		m.delay(j, now)
		m.alive = append(m.alive, j)
		return durAnswer{status: shard.OK, id: j.id, shard: j.shard}
	case shard.Reserve:
		j := m.best(c)
		if j == nil {
			return durAnswer{status: shard.TimedOut, shard: -1}
		}
		m.reserve(j, c, now)
		return durAnswer{status: shard.OK, id: j.id, body: j.body, shard: j.shard}
	case shard.Kick:
		return durAnswer{status: shard.OK, n: m.kick(c.Used().Name, int(r.N)), shard: c.Used().Shard}
	}
	j := m.jobs[r.ID]
	if j == nil || j.last().gone {
		return durAnswer{status: shard.NotFound, shard: -1}
	}
	a := durAnswer{status: shard.OK, shard: j.shard}
	switch mine := j.state == "reserved" && j.holder == c; r.Op {
	case shard.Release, shard.Bury, shard.Touch:
		if !mine {
			a.status = shard.NotFound
		}
	case shard.Delete:
		if j.state == "reserved" && !mine {
			a.status = shard.NotFound
		}
	case shard.ReserveJob:
		if j.state == "reserved" {
			a.status = shard.NotFound
		}
	case shard.KickJob:
		if j.state != "buried" && j.state != "delayed" {
			a.status = shard.NotFound
		}
	}
	if a.status == shard.OK {
		m.doTo(j, c, r, now)
		if r.Op == shard.ReserveJob || r.Op == shard.Peek {
			a.body = j.body
		}
	}
	return a
}

// doTo is do for a command by id that succeeds.
func (m *durModel) doTo(j *durJob, c *durClient, r *shard.Request, now int64) {
	switch r.Op {
	case shard.ReserveJob:
		m.reserve(j, c, now)
	case shard.Delete:
		m.change(j, func(v *durVersion) { v.gone = true })
		m.remove(j)
	case shard.Release:
		m.change(j, func(v *durVersion) {
			v.pri, v.delay = r.Pri, r.Delay
			v.releases++
		})
		j.state, j.holder, j.due = "ready", nil, 0
		m.delay(j, now)
	case shard.Bury:
		m.burials++
		m.change(j, func(v *durVersion) {
			v.pri, v.state, v.at = r.Pri, binlog.Buried, m.burials
			v.buries++
		})
		j.state, j.holder, j.due = "buried", nil, 0
	case shard.KickJob:
		m.kickOne(j)
	case shard.Touch:
		j.due = now + int64(j.ttr)*int64(time.Second)
	}
}

// delay follows a change of j that may have set a delay.
func (m *durModel) delay(j *durJob, now int64) {
	if v := j.last(); v.delay > 0 {
		m.delayUntil(j, now+int64(v.delay)*int64(time.Second))
	}
}

func (m *durModel) delayUntil(j *durJob, at int64) {
	v := j.last()
	v.state, v.at = binlog.Delayed, at
	j.state, j.due = "delayed", at
}

func (m *durModel) reserve(j *durJob, c *durClient, now int64) {
	m.change(j, func(v *durVersion) {
		v.state, v.at = binlog.Ready, 0
		v.reserves++
	})
	j.state, j.holder, j.due = "reserved", c, now+int64(j.ttr)*int64(time.Second)
}

// best returns the job that a client gets that reserves.
func (m *durModel) best(c *durClient) (best *durJob) {
	for _, j := range m.alive {
		if j.state != "ready" || !slices.Contains(c.watching, j.tube) {
			continue
		}
		if best == nil || j.last().pri < best.last().pri || j.last().pri == best.last().pri && j.id < best.id {
			best = j
		}
	}
	return best
}

func (m *durModel) kickOne(j *durJob) {
	m.change(j, func(v *durVersion) {
		v.state, v.at = binlog.Ready, 0
		v.kicks++
	})
	j.state, j.due = "ready", 0
}

// kick kicks up to most buried jobs of a tube; or, if there is none, delayed
// ones. No two may have delays that end together.
func (m *durModel) kick(tube string, most int) uint64 {
	var kicked []*durJob
	for _, state := range []string{"buried", "delayed"} {
		for _, j := range m.alive {
			if j.tube == tube && j.state == state {
				kicked = append(kicked, j)
			}
		}
		if len(kicked) > 0 {
			break
		}
	}
	slices.SortFunc(kicked, func(a, b *durJob) int { return cmp.Compare(a.last().at, b.last().at) })
	kicked = kicked[:min(most, len(kicked))]
	for _, j := range kicked {
		m.kickOne(j)
	}
	return uint64(len(kicked))
}

// delayed tells whether a delay ends at that time.
func (m *durModel) delayed(at int64) bool {
	return slices.ContainsFunc(m.alive, func(j *durJob) bool { return j.state == "delayed" && j.due == at })
}

// giveBack makes the jobs of a client ready that is gone.
func (m *durModel) giveBack(c *durClient) {
	for _, j := range m.alive {
		if j.holder == c {
			j.state, j.holder, j.due = "ready", nil, 0
		}
	}
}

// settle returns the model of what is left: of each shard all up to a change.
func (m *durModel) settle(cuts []int64, now int64) *durModel {
	s := newDurModel()
	s.burials = m.burials
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		j := *m.jobs[id]
		v := *j.at(cuts[j.shard])
		if v.gone {
			continue
		}
		v.seq = 0
		j.versions, j.state, j.holder, j.due = []durVersion{v}, "ready", nil, 0
		switch {
		case v.state == binlog.Buried:
			j.state = "buried"
		case v.state == binlog.Delayed && v.at > now:
			j.state, j.due = "delayed", v.at
		}
		s.jobs[id] = &j
		s.alive = append(s.alive, &j)
	}
	return s
}

// durAnswer is how a command was, or is to be, answered.
type durAnswer struct {
	status shard.Status
	id, n  uint64
	body   []byte
	shard  int // -1 for none; of what is to be answered only
}

// differs tells what is wrong with the answer to a command.
func (want *durAnswer) differs(op shard.Op, got *durAnswer) error {
	switch {
	case got.status != want.status && !(want.status == shard.TimedOut && got.status == shard.DeadlineSoon):
		return fmt.Errorf("status %d, want %d", got.status, want.status)
	case want.status != shard.OK:
	case want.id != 0 && got.id != want.id:
		return fmt.Errorf("job %d, want %d", got.id, want.id)
	case op == shard.Kick && got.n != want.n:
		return fmt.Errorf("kicked %d, want %d", got.n, want.n)
	case want.body != nil && !bytes.Equal(got.body, want.body):
		return fmt.Errorf("body %.60q, want %.60q", got.body, want.body)
	}
	return nil
}

// changed tells whether a command has left something in the log.
func (a *durAnswer) changed(op shard.Op) bool {
	return a.status == shard.OK && op != shard.Touch && op != shard.Peek && (op != shard.Kick || a.n > 0)
}
