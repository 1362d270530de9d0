package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Gearman's part of the model: who waits for which job, who sleeps, what each is
// told.

// taskModel is a job's task in the model.
type taskModel struct {
	tasked, foreground, fails bool
	end                       int64  // when a put job that is with a Gearman worker will have failed
	unique, key               string // key has what is coalesced with it; "" for nothing
	waiting                   []int  // clients, in the order in which they began to
	done, total, retries      uint32
}

// keyOf returns what a job of that unique and body is coalesced by.
func modelKey(unique, body string) string {
	switch {
	case unique == "":
		return ""
	case unique != "-":
		return "unique " + unique
	case body == "\r\n":
		return ""
	}
	return "workload " + body
}

func (m *model) byID(id uint64) *modelJob {
	for i := range m.jobs {
		if m.jobs[i].id == id {
			return &m.jobs[i]
		}
	}
	return nil
}

// keyed returns the job of a tube with that key: of several the oldest.
func (m *model) keyed(tube, key string) (oldest *modelJob) {
	for i := range m.jobs {
		if j := &m.jobs[i]; key != "" && j.tube == tube && j.key == key && (oldest == nil || j.id < oldest.id) {
			oldest = j
		}
	}
	return oldest
}

// function returns the tube of that name, which is a function from now on.
func (m *model) function(name string, shard int) *modelTube {
	if m.tube(name) == nil {
		m.tubes = append(m.tubes, modelTube{name: name, shard: shard, alwaysThere: name == DefaultTube})
	}
	t := m.tube(name)
	t.function = true
	return t
}

// event tells a client something.
func (m *model) event(c int, kind EventKind, id uint64, data string) {
	m.clients[c].events = append(m.clients[c].events, eventName(kind, id, data))
}

func eventName(kind EventKind, id uint64, data string) string {
	return fmt.Sprintf("%d of %d %q", kind, id, data)
}

func (m *model) tell(j *modelJob, kind EventKind, data string) {
	for _, c := range j.waiting {
		m.event(c, kind, j.id, data)
	}
}

func (m *model) finish(j *modelJob, kind EventKind, data string) {
	m.tell(j, kind, data)
	j.waiting, j.key = nil, ""
}

// cancel is for a job that a worker has and may finish.
func (m *model) cancel(j *modelJob) {
	m.tell(j, Fail, "")
	j.waiting, j.foreground = nil, true
}

// discard forgets a job. Pointers to others are of no use after.
func (m *model) discard(j *modelJob) {
	id, tube := j.id, j.tube
	m.jobs = slices.DeleteFunc(m.jobs, func(o modelJob) bool { return o.id == id })
	m.dropTube(tube)
}

func (m *model) abandoned(j *modelJob) bool { return j.foreground && len(j.waiting) == 0 }

// prepareRetry is for a job that was given back; as discard if it does not.
func (m *model) prepareRetry(j *modelJob) bool {
	j.fails = false
	if m.abandoned(j) {
		m.discard(j)
		return false
	}
	if j.tasked {
		j.retries++
	}
	j.done, j.total = 0, 0
	return true
}

// fail is for a job that has failed; as discard if it was submitted, or cancelled.
func (m *model) fail(j *modelJob, kind EventKind, data string) {
	if j.fails = false; j.tasked || j.foreground {
		m.finish(j, kind, data)
		m.discard(j)
		return
	}
	m.bury(j)
}

func (m *model) bury(j *modelJob) {
	m.stamp++
	j.state, j.since = buried, m.stamp
	j.buries++
	if !j.tasked {
		j.done, j.total = 0, 0
	}
}

// unbury follows what has made a job other than buried that was.
func (m *model) unbury(j *modelJob) {
	if j.tasked {
		j.key = modelKey(j.unique, j.body)
		m.tube(j.tube).function = true // if it was dropped
	}
}

// wake tells those who sleep that there is a job in t.
func (m *model) wake(t *modelTube) {
	for c := range m.clients {
		side := &m.clients[c].sides[t.shard]
		if side.dozing && slices.Contains(m.clients[c].watches, t.name) {
			side.dozing = false
			m.event(c, Wake, 0, "")
		}
	}
}

// deleteJob ends a job that no worker has.
func (m *model) deleteJob(j *modelJob) {
	m.tube(j.tube).deletes++
	m.finish(j, Fail, "")
	m.discard(j)
}

// unlisten is for a client that leaves a shard.
func (m *model) unlisten(c, shard int) {
	var waits []uint64
	for i := range m.jobs {
		if j := &m.jobs[i]; m.shardOf(j) == shard && slices.Contains(j.waiting, c) {
			waits = append(waits, j.id)
		}
	}
	for _, id := range waits {
		j := m.byID(id)
		j.waiting = slices.DeleteFunc(slices.Clone(j.waiting), func(o int) bool { return o == c })
		if m.abandoned(j) && j.state != reserved {
			m.discard(j)
		}
	}
}

// serveGearman is serve for Gearman's requests.
func (m *model) serveGearman(c, shard int, r *Request) {
	client := &m.clients[c]
	switch r.Op {
	case Submit:
		m.submit(c, shard, r)
	case Report:
		m.report(c, shard, r)
	case Inquire:
		if j := m.job(r.ID, shard); j == nil || j.state == buried {
			r.Status = NotFound
		} else {
			r.N, r.Pri, r.Delay = m.running(j), j.done, j.total
		}
	case InquireUnique:
		r.Status = NotFound
		for _, j := range m.pick(func(a, b *modelJob) int { return cmp.Compare(a.id, b.id) }, func(j *modelJob) bool {
			return m.shardOf(j) == shard && j.key == "unique "+r.Name
		}) {
			r.Status, r.ID, r.N, r.Pri, r.Delay = OK, j.id, m.running(j), j.done, j.total
			break
		}
	case CanDo:
		m.function(r.Name, shard)
		if !slices.Contains(client.watches, r.Name) {
			client.watches = append(client.watches, r.Name)
		}
		client.timeouts[r.Name] = r.TTR
		switch {
		case r.N == 0:
		case m.tube(r.Name).pausedUntil == 0 && len(m.in(r.Name, ready)) > 0:
			m.event(c, Wake, 0, "")
		case m.watchedOn(c, shard) == 1:
			client.sides[shard].dozing = true
		}
	case Doze:
		if m.best(c, shard) == nil {
			r.Status = NotFound
			client.sides[shard].dozing = true
		}
	case CreateFunction:
		m.function(r.Name, shard)
	case LimitFunction:
		if t := m.tube(r.Name); t != nil && t.shard == shard && m.listed(t) {
			t.function, t.limits = true, r.Lists.Limits
		}
	case DropFunction:
		t := m.tube(r.Name)
		switch {
		case t == nil || t.shard != shard || !m.listed(t):
			r.Status = NotFound
		case m.workers(t.name) > 0 || len(m.in(t.name, reserved)) > 0:
			r.Status = Busy
		default:
			t.function, t.limits = true, [3]uint32{} // until the last job is gone
			var ids []uint64
			for _, j := range m.jobs {
				if j.tube == r.Name && j.state != buried {
					ids = append(ids, j.id)
				}
			}
			slices.Sort(ids)
			for _, id := range ids {
				if j := m.byID(id); j.tasked {
					m.deleteJob(j)
				} else {
					m.bury(j)
				}
			}
			m.tube(r.Name).function = false
			m.dropTube(r.Name)
		}
	case CancelJob:
		switch j := m.job(r.ID, shard); {
		case j == nil || j.state == buried:
			r.Status = NotFound
		case j.state == reserved:
			m.cancel(j)
		default:
			m.deleteJob(j)
		}
	case Functions:
		r.Lists = &Lists{Functions: m.functions(shard)}
	case ListJobs:
		r.Lists, r.ID = new(Lists), 0
		for _, j := range m.pick(func(a, b *modelJob) int { return cmp.Compare(a.id, b.id) }, func(j *modelJob) bool {
			return m.shardOf(j) == shard && j.state != buried
		}) {
			kept := j.buries
			if j.state == reserved {
				kept++
			}
			st := TaskStats{ID: j.id, Background: !j.foreground, Retries: max(j.timeouts+j.releases, j.reserves-min(j.reserves, kept))}
			if j.tasked {
				st.Unique, st.Retries, st.Waiting = j.unique, j.retries, len(j.waiting) > 0
			}
			r.Lists.Tasks = append(r.Lists.Tasks, st)
		}
	}
}

// watchedOn counts the tubes of a shard that a client watches.
func (m *model) watchedOn(c, shard int) (n int) {
	for _, name := range m.clients[c].watches {
		if m.tube(name).shard == shard {
			n++
		}
	}
	return n
}

func (m *model) running(j *modelJob) uint64 {
	n := 2 * uint64(len(j.waiting))
	if j.state == reserved {
		n++
	}
	return n
}

// workers counts Gearman's clients that watch a tube.
func (m *model) workers(tube string) (n int) {
	for _, c := range m.clients {
		if c.timeouts != nil && slices.Contains(c.watches, tube) {
			n++
		}
	}
	return n
}

// listed tells whether a tube is a function to Gearman.
func (m *model) listed(t *modelTube) bool {
	return t.function || slices.ContainsFunc(m.jobs, func(j modelJob) bool { return j.tube == t.name && j.state != buried })
}

func (m *model) functions(shard int) (all []FunctionStats) {
	for i := range m.tubes {
		t := &m.tubes[i]
		f := FunctionStats{Name: t.name, Running: len(m.in(t.name, reserved)), Workers: m.workers(t.name)}
		for i, n := range []*int{&f.High, &f.Normal, &f.Low} {
			is := func(j *modelJob) bool {
				return i == 0 && j.pri < 1024 || i == 2 && j.pri == 1<<32-1 || i == 1 && j.pri >= 1024 && j.pri < 1<<32-1
			}
			for _, j := range m.in(t.name, ready) {
				if is(j) {
					*n++
				}
			}
			for _, j := range m.in(t.name, delayed) {
				if is(j) {
					f.Delayed[i]++
				}
			}
		}
		if t.shard == shard && m.listed(t) {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b FunctionStats) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (m *model) submit(c, shard int, r *Request) {
	key := modelKey(r.Task.Unique, string(r.Body))
	over := func(n int64) bool { return m.max != 0 && m.memory(-1)+n > m.max }
	first := m.keyed(r.Name, key)
	if first == nil && strings.HasPrefix(key, "workload ") {
		if first = m.keyed(r.Name, modelKey(string(r.Body[:len(r.Body)-2]), "")); first != nil && first.body != string(r.Body) {
			first = nil
		}
	}
	if j := first; j != nil {
		switch {
		case r.Task.Background:
			j.foreground = false
		case over(listenerFootprint):
			r.Status = OutOfMemory
			return
		default:
			j.waiting = append(slices.Clone(j.waiting), c)
		}
		r.ID = j.id
		return
	}
	task := Task{Unique: r.Task.Unique, Reducer: r.Task.Reducer}
	size, listener := footprint(len(r.Body))+task.footprint(), listenerFootprint
	if r.Task.Background {
		listener = 0
	}
	limit, n := 0, 0
	if t := m.tube(r.Name); t != nil {
		limit = int(t.limits[map[uint32]int{PriHigh: 0, PriNormal: 1, PriLow: 2}[r.Pri]])
		n = len(m.pick(byReady, func(j *modelJob) bool { return j.tube == r.Name && j.state != buried }))
	}
	switch {
	case limit > 0 && n >= limit:
		r.Status = QueueFull
		return
	case over(size + listener):
		r.Status = OutOfMemory
		return
	case m.draining:
		r.Status = Draining
		return
	}
	t := m.function(r.Name, shard)
	m.lastID++
	t.total++
	m.shards[shard].total++
	r.ID = m.lastID
	j := modelJob{
		id: r.ID, tube: r.Name, body: string(r.Body), size: size, pri: r.Pri, ttr: taskTTR, created: m.now,
		taskModel: taskModel{tasked: true, unique: task.Unique, key: key, foreground: !r.Task.Background},
	}
	if !r.Task.Background {
		j.waiting = []int{c}
	}
	at := int64(r.N)*second - m.wall
	later := r.N != 0 && at > m.now
	if later {
		m.stamp++
		j.state, j.at, j.set, j.delay = delayed, at, m.stamp, uint32((at-m.now+second-1)/second)
	}
	if m.jobs = append(m.jobs, j); !later {
		m.makeReady(&m.jobs[len(m.jobs)-1])
	}
}

func (m *model) report(c, shard int, r *Request) {
	j := m.job(r.ID, shard)
	if j == nil || j.state != reserved || j.holder != c {
		r.Status = NotFound
		return
	}
	switch kind := EventKind(r.N); kind {
	case Data, Warning, Progress:
		if kind == Progress {
			j.done, j.total = r.Pri, r.Delay
		}
		if j.tasked {
			m.tell(j, kind, string(r.Body))
		} else if !j.fails {
			m.deadline(j, j.ttr)
			if j.end != 0 && j.end <= j.at {
				j.at, j.fails = j.end, true
			}
		}
	case Complete:
		m.tube(j.tube).deletes++
		m.finish(j, Complete, string(r.Body))
		m.discard(j)
	default:
		m.fail(j, kind, string(r.Body))
	}
}
