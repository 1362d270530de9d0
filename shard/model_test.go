package shard

// The naive model of the engine for the property tests: slices that are
// searched and sorted whenever something is asked. Nothing here is indexed,
// counted along or kept in step, so little here can be wrong in the same way as
// in the shard. Only the claim's handshake is spelled out as it is: who was
// told what is part of what the shards promise to the router.

import (
	"cmp"
	"maps"
	"slices"
)

// never is later than any time of a test.
const never = int64(1) << 62

type model struct {
	now      int64
	wall     int64 // Unix time when now was 0, in nanoseconds
	lastID   uint64
	stamp    int   // counts up; orders burying, reserving and waiting
	max      int64 // memory, 0 for no cap
	draining bool
	shards   []modelShard
	tubes    []modelTube // in the order of the roster
	jobs     []modelJob
	clients  []modelClient
}

type modelShard struct {
	served          [NumOps]uint64
	total, timeouts uint64
}

type modelTube struct {
	name        string
	shard       int
	total       uint64
	deletes     uint64
	pauses      uint64
	pauseFor    uint32
	pausedUntil int64
	alwaysThere bool
	function    bool
	limits      [3]uint32
}

type modelJob struct {
	id                                          uint64
	tube, body                                  string
	size                                        int64
	state                                       state
	pri, delay, ttr                             uint32
	created, at                                 int64
	since                                       int // when it was buried or reserved, in stamps
	set                                         int // when its deadline was set, in stamps
	holder                                      int
	reserves, timeouts, releases, buries, kicks uint32
	taskModel
}

type modelClient struct {
	timeouts map[string]uint32 // of a Gearman client, else nil: by function
	events   []string          // what it was told
	using    []string          // two for the moment of a change
	watches  []string
	seq      int
	phase    phase
	grant    Grant
	sides    []modelSide
}

// modelSide is what a shard remembers of a client's wait.
type modelSide struct {
	seq, since                 int
	queued, counted, observing bool
	told                       key
	timeoutAt, soonAt          int64
	dozing                     bool
}

// newModel returns a model with one client, who uses and watches nothing.
func newModel(shards int, max int64) *model {
	return &model{max: max, shards: make([]modelShard, shards), clients: []modelClient{{sides: make([]modelSide, shards)}}}
}

func (m *model) clone() *model {
	n := *m
	n.shards = slices.Clone(m.shards)
	n.tubes = slices.Clone(m.tubes)
	n.jobs = slices.Clone(m.jobs)
	n.clients = slices.Clone(m.clients)
	for i := range n.clients {
		c := &n.clients[i]
		c.using = slices.Clone(c.using)
		c.watches = slices.Clone(c.watches)
		c.sides = slices.Clone(c.sides)
		c.timeouts = maps.Clone(c.timeouts)
		c.events = slices.Clone(c.events)
	}
	return &n
}

// Looking things up.

func byReady(a, b *modelJob) int {
	return cmp.Or(cmp.Compare(a.pri, b.pri), cmp.Compare(a.id, b.id))
}
func byDue(a, b *modelJob) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.set, b.set))
}
func bySince(a, b *modelJob) int { return cmp.Compare(a.since, b.since) }

// pick returns the jobs that are wanted, in order.
func (m *model) pick(order func(a, b *modelJob) int, want func(*modelJob) bool) []*modelJob {
	var picked []*modelJob
	for i := range m.jobs {
		if want(&m.jobs[i]) {
			picked = append(picked, &m.jobs[i])
		}
	}
	slices.SortFunc(picked, order)
	return picked
}

func (m *model) in(tube string, st state) []*modelJob {
	order := map[state]func(a, b *modelJob) int{ready: byReady, delayed: byDue, reserved: byDue, buried: bySince}[st]
	return m.pick(order, func(j *modelJob) bool { return j.tube == tube && j.state == st })
}

func (m *model) held(c, shard int, order func(a, b *modelJob) int) []*modelJob {
	return m.pick(order, func(j *modelJob) bool {
		return j.state == reserved && j.holder == c && m.shardOf(j) == shard
	})
}

func (m *model) shardOf(j *modelJob) int { return m.tube(j.tube).shard }

func (m *model) tube(name string) *modelTube {
	for i := range m.tubes {
		if m.tubes[i].name == name {
			return &m.tubes[i]
		}
	}
	return nil
}

func (m *model) job(id uint64, shard int) *modelJob {
	for i := range m.jobs {
		if j := &m.jobs[i]; j.id == id && m.shardOf(j) == shard {
			return j
		}
	}
	return nil
}

// best returns the job that the client would get from that shard, or from all
// of them if shard is negative.
func (m *model) best(c, shard int) *modelJob {
	jobs := m.pick(byReady, func(j *modelJob) bool {
		t := m.tube(j.tube)
		return j.state == ready && t.pausedUntil == 0 && (shard < 0 || t.shard == shard) &&
			slices.Contains(m.clients[c].watches, j.tube)
	})
	if len(jobs) == 0 {
		return nil
	}
	return jobs[0]
}

// soonest returns the soonest deadline among the jobs held there, 0 for none.
func (m *model) soonest(c, shard int) int64 {
	if held := m.held(c, shard, byDue); len(held) > 0 && held[0].at != never {
		return held[0].at
	}
	return 0
}

// soonestElsewhere is what the router would say in Request.Soonest.
func (m *model) soonestElsewhere(c, shard int) int64 {
	at := never
	for s := range m.shards {
		if soonest := m.soonest(c, s); s != shard && soonest != 0 {
			at = min(at, soonest)
		}
	}
	return at % never
}

// soon returns when the client has to be told DEADLINE_SOON.
func (m *model) soon(c, shard int, elsewhere int64) int64 {
	at := never
	for _, t := range []int64{m.soonest(c, shard), elsewhere} {
		if t != 0 {
			at = min(at, t-second)
		}
	}
	return at
}

// queue returns the clients in the queue of a tube, first come first.
func (m *model) queue(t *modelTube) []int {
	var queue []int
	for c := range m.clients {
		if m.clients[c].sides[t.shard].queued && slices.Contains(m.clients[c].watches, t.name) {
			queue = append(queue, c)
		}
	}
	slices.SortFunc(queue, func(a, b int) int {
		return cmp.Compare(m.clients[a].sides[t.shard].since, m.clients[b].sides[t.shard].since)
	})
	return queue
}

// claim returns where a client's claim stands, as far as a shard has to do with
// it.
func (m *model) claim(c, shard int) phase {
	if m.clients[c].seq != m.clients[c].sides[shard].seq {
		return closed
	}
	return m.clients[c].phase
}

// begin is the client's new claim.
func (m *model) begin(c int, p phase) {
	m.clients[c].seq++
	m.clients[c].phase = p
}

// What happens to jobs.

func (m *model) makeReady(j *modelJob) {
	j.state = ready
	t := m.tube(j.tube)
	m.offer(t)
	if j.state == ready && t.pausedUntil == 0 {
		m.tellObservers(t, j)
		m.wake(t)
	}
}

func (m *model) readyOrDelayed(j *modelJob, delay uint32) {
	if j.delay = delay; delay == 0 {
		m.makeReady(j)
		return
	}
	j.state = delayed
	m.deadline(j, delay)
}

// deadline has j due some seconds from now, behind what was due then before.
func (m *model) deadline(j *modelJob, seconds uint32) {
	m.stamp++
	j.at, j.set = m.now+int64(seconds)*second, m.stamp
}

func (m *model) reserve(j *modelJob, c int) {
	m.deadline(j, j.ttr)
	j.end = 0
	if client := &m.clients[c]; client.timeouts != nil {
		if j.tasked {
			j.at = never
		}
		if timeout := client.timeouts[j.tube]; timeout != 0 && slices.Contains(client.watches, j.tube) {
			if end := m.now + int64(timeout)*second; end <= j.at {
				j.at, j.fails = end, true
			} else {
				j.end = end
			}
		}
	}
	was := j.state
	j.state, j.holder, j.since = reserved, c, m.stamp
	j.reserves++
	if was == buried {
		m.unbury(j)
	}
}

func (m *model) offer(t *modelTube) {
	for {
		queue, jobs := m.queue(t), m.in(t.name, ready)
		if t.pausedUntil != 0 || len(queue) == 0 || len(jobs) == 0 {
			return
		}
		c, j := queue[0], jobs[0]
		claim := m.claim(c, t.shard)
		m.leave(c, t.shard)
		switch claim {
		case waiting:
			m.reserve(j, c)
			m.grant(c, t.shard, Grant{Status: OK, ID: j.id, Body: []byte(j.body)})
		case probing:
			m.clients[c].phase = dirty
		}
	}
}

func (m *model) tellObservers(t *modelTube, j *modelJob) {
	for c := range m.clients {
		side := &m.clients[c].sides[t.shard]
		switch {
		case !side.observing:
		case m.claim(c, t.shard) != probing:
			side.observing = false
		case j.readyKey().less(side.told) && slices.Contains(m.clients[c].watches, t.name):
			m.clients[c].phase = dirty
			side.observing = false
		}
	}
}

func (j *modelJob) readyKey() key { return key{uint64(j.pri), j.id} }

func (m *model) grant(c, shard int, g Grant) {
	g.Shard, g.Soonest = int32(shard), m.soonest(c, shard)
	m.clients[c].grant = g
	m.clients[c].phase = granted
}

func (m *model) leave(c, shard int) {
	side := &m.clients[c].sides[shard]
	side.queued, side.counted, side.observing = false, false, false
}

func (m *model) enqueue(c, shard int, r *Request, primary bool) {
	m.stamp++
	side := &m.clients[c].sides[shard]
	*side = modelSide{seq: m.clients[c].seq, since: m.stamp, queued: true, counted: primary, observing: side.observing, told: side.told}
	if primary {
		side.soonAt = r.Soonest
		if r.Timeout > 0 {
			side.timeoutAt = m.now + r.Timeout
		}
	}
}

func (m *model) dropTube(name string) {
	t := m.tube(name)
	for _, c := range m.clients {
		if slices.Contains(c.using, name) || slices.Contains(c.watches, name) {
			return
		}
	}
	if slices.ContainsFunc(m.jobs, func(j modelJob) bool { return j.tube == name }) || t.alwaysThere || t.function {
		return
	}
	last := len(m.tubes) - 1
	*t = m.tubes[last]
	m.tubes = m.tubes[:last]
}

// Time.

// advance lets time pass. Two deadlines at the very same nanosecond, of
// different tubes or clients, may be served in either order, so there may be
// several outcomes.
func (m *model) advance(to int64) []*model {
	at, owners := m.nextDue()
	if at > to {
		m.now = to
		return []*model{m}
	}
	m.now = at
	if len(owners) == 1 {
		m.expire(owners[0])
		return m.advance(to)
	}
	var outcomes []*model
	seen := make(map[string]bool)
	permute(owners, func(order []owner) {
		w := m.clone()
		for _, o := range order {
			w.expire(o)
		}
		for _, w := range w.advance(to) {
			if picture := w.picture(); !seen[picture] {
				seen[picture] = true
				outcomes = append(outcomes, w)
			}
		}
	})
	return outcomes
}

// owner is of deadlines: a tube, or else a client at a shard.
type owner struct {
	tube          string
	client, shard int
}

func permute(owners []owner, f func([]owner)) {
	var from func(int)
	from = func(i int) {
		if i == len(owners) {
			f(owners)
			return
		}
		for j := i; j < len(owners); j++ {
			owners[i], owners[j] = owners[j], owners[i]
			from(i + 1)
			owners[i], owners[j] = owners[j], owners[i]
		}
	}
	from(0)
}

// nextDue returns the next deadline and whose it is.
func (m *model) nextDue() (at int64, owners []owner) {
	at = never
	add := func(t int64, o owner) {
		if t < at {
			at, owners = t, nil
		}
		if t == at && t != never {
			owners = append(owners, o)
		}
	}
	for i := range m.tubes {
		t := &m.tubes[i]
		due := never
		if t.pausedUntil != 0 {
			due = t.pausedUntil
		}
		if jobs := m.in(t.name, delayed); len(jobs) > 0 {
			due = min(due, jobs[0].at)
		}
		add(due, owner{tube: t.name})
	}
	for c := range m.clients {
		for s, side := range m.clients[c].sides {
			due := never
			if at := m.soonest(c, s); at != 0 {
				due = at
			}
			if side.queued {
				due = min(due, m.soon(c, s, side.soonAt))
				if side.timeoutAt != 0 {
					due = min(due, side.timeoutAt)
				}
			}
			add(due, owner{client: c, shard: s})
		}
	}
	return at, owners
}

func (m *model) expire(o owner) {
	if o.tube != "" {
		for _, j := range m.in(o.tube, delayed) {
			if j.at <= m.now {
				m.makeReady(j)
			}
		}
		if t := m.tube(o.tube); t.pausedUntil != 0 && t.pausedUntil <= m.now {
			m.unpause(t)
		}
		return
	}
	if side := m.clients[o.client].sides[o.shard]; side.queued {
		if m.soon(o.client, o.shard, side.soonAt) <= m.now {
			m.endWait(o.client, o.shard, DeadlineSoon)
		} else if side.timeoutAt != 0 && side.timeoutAt <= m.now {
			m.endWait(o.client, o.shard, TimedOut)
		}
	}
	var late []uint64 // what fails goes, and moves the others
	for _, j := range m.held(o.client, o.shard, byDue) {
		if j.at <= m.now {
			late = append(late, j.id)
		}
	}
	for _, id := range late {
		j := m.byID(id)
		j.timeouts++
		m.shards[o.shard].timeouts++
		if m.clients[o.client].timeouts != nil {
			m.event(o.client, Expired, id, "")
		}
		if j.fails {
			m.fail(j, Fail, "")
		} else if m.prepareRetry(j) {
			m.makeReady(j)
		}
	}
}

func (m *model) unpause(t *modelTube) {
	t.pausedUntil, t.pauseFor = 0, 0
	m.offer(t)
	if jobs := m.in(t.name, ready); len(jobs) > 0 {
		m.tellObservers(t, jobs[0])
		m.wake(t)
	}
}

func (m *model) endWait(c, shard int, status Status) {
	claim := m.claim(c, shard)
	m.leave(c, shard)
	switch claim {
	case waiting:
		m.grant(c, shard, Grant{Status: status})
	case probing:
		m.clients[c].phase = dirty
	}
}
