package shard

import "slices"

// What the model answers to each command.

// chain serves a chain of one client's requests, answering in them.
func (m *model) chain(c, shard int, chain []*Request) {
	for i, r := range chain {
		if m.serve(c, shard, r); r.Status == Waiting {
			for _, r := range chain[i+1:] {
				r.Status = Unserved
			}
			return
		}
		r.Soonest = m.soonest(c, shard)
	}
}

func (m *model) serve(c, shard int, r *Request) {
	client := &m.clients[c]
	if r.Op <= PauseTube && (r.Op != Put || r.ID == 0) {
		m.shards[shard].served[r.Op]++
	}
	found := func(jobs []*modelJob) {
		if len(jobs) == 0 {
			r.Status = NotFound
			return
		}
		r.ID, r.Body = jobs[0].id, []byte(jobs[0].body)
	}
	r.Status = OK
	switch r.Op {
	case Put:
		full := m.max != 0 && m.memory(-1)+footprint(len(r.Body)) > m.max
		if r.ID == 0 && !full {
			m.lastID++
			r.ID, r.Created = m.lastID, m.now
		}
		switch {
		case full:
			r.Status = OutOfMemory
		case m.draining:
			r.Status = Draining
		default:
			m.tube(r.Tube.Name).total++
			m.shards[shard].total++
			m.jobs = append(m.jobs, modelJob{id: r.ID, tube: r.Tube.Name, body: string(r.Body), size: footprint(len(r.Body)),
				pri: r.Pri, ttr: r.TTR, created: r.Created})
			m.readyOrDelayed(&m.jobs[len(m.jobs)-1], r.Delay)
		}
	case Submit, Report, Inquire, InquireUnique, CanDo, Doze, CreateFunction, DropFunction, LimitFunction, CancelJob, Functions, ListJobs:
		m.serveGearman(c, shard, r)
	case Reserve, ReserveTimeout, Grab:
		client.sides[shard].dozing = false
		j := m.best(c, shard)
		switch {
		case j != nil:
			m.reserve(j, c)
			r.ID, r.Body = j.id, []byte(j.body)
			if r.Op == Grab {
				r.Tube = &Tube{Name: j.tube}
				if j.tasked {
					r.Task = &Task{Unique: j.unique}
				}
			}
		case m.soon(c, shard, r.Soonest) <= m.now:
			r.Status = DeadlineSoon
		case r.Timeout == 0 || client.phase != open:
			r.Status = TimedOut
			if r.Timeout != 0 { // it has been registered for a moment
				client.sides[shard].observing = false
			}
		default:
			m.enqueue(c, shard, r, true)
			client.phase = waiting
			r.Status = Waiting
		}
	case ReserveJob, Delete, Release, Bury, Touch, Peek, KickJob, StatsJob:
		if j := m.job(r.ID, shard); j == nil || !m.jobCommand(c, r, j) {
			r.Status = NotFound
		}
	case PeekReady:
		found(m.in(r.Tube.Name, ready))
	case PeekDelayed:
		found(m.in(r.Tube.Name, delayed))
	case PeekBuried:
		found(m.in(r.Tube.Name, buried))
	case Kick:
		jobs := m.in(r.Tube.Name, buried)
		if len(jobs) == 0 {
			jobs = m.in(r.Tube.Name, delayed)
		}
		jobs = jobs[:min(len(jobs), int(r.N))]
		for _, j := range jobs {
			if j.kicks++; j.state == buried {
				m.unbury(j)
			}
			m.makeReady(j)
		}
		r.N = uint64(len(jobs))
	case StatsTube:
		if t := m.tube(r.Name); t != nil && t.shard == shard {
			r.TubeStats = m.tubeStats(t)
		} else {
			r.Status = NotFound
		}
	case PauseTube:
		if t := m.tube(r.Name); t != nil && t.shard == shard {
			t.pauses++
			if t.pauseFor = r.Delay; r.Delay == 0 {
				m.unpause(t)
			} else {
				t.pausedUntil = m.now + int64(r.Delay)*second
			}
		} else {
			r.Status = NotFound
		}
	case Use, Watch, Attach:
		if m.tube(r.Name) == nil {
			m.tubes = append(m.tubes, modelTube{name: r.Name, shard: shard, alwaysThere: r.Name == DefaultTube})
		}
		if r.Op != Watch {
			client.using = append(client.using, r.Name)
		}
		if r.Op != Use {
			client.watches = append(client.watches, r.Name)
		}
	case Unuse:
		client.using = without(client.using, r.Tube.Name)
		m.dropTube(r.Tube.Name)
	case Ignore:
		client.watches = without(client.watches, r.Tube.Name)
		m.dropTube(r.Tube.Name)
	case GiveBack, Detach:
		m.leave(c, shard)
		if r.Op == Detach {
			m.unlisten(c, shard)
		}
		var held []uint64
		for _, j := range m.held(c, shard, bySince) {
			held = append(held, j.id)
		}
		for _, id := range held {
			if j := m.byID(id); m.prepareRetry(j) {
				m.makeReady(j)
			}
		}
		if r.Op == GiveBack {
			return
		}
		here := slices.DeleteFunc(append(slices.Clone(client.using), client.watches...),
			func(name string) bool { return m.tube(name).shard != shard })
		client.using, client.watches = without(client.using, here...), without(client.watches, here...)
		for _, name := range here {
			if m.tube(name) != nil {
				m.dropTube(name)
			}
		}
	case Probe:
		m.shards[shard].served[r.N]++
		m.leave(c, shard)
		side := &client.sides[shard]
		side.seq = client.seq
		j := m.best(c, shard)
		switch {
		case j != nil:
			r.Pri, r.ID = j.pri, j.id
			side.observing, side.told = true, j.readyKey()
		case r.Timeout == 0:
			r.Status = NotFound
			side.observing, side.told = true, worst
		default:
			r.Status = NotFound
			m.enqueue(c, shard, r, r.Primary)
		}
	case Take:
		bound, j := key{uint64(r.Pri), r.ID}, m.best(c, shard)
		r.Status, r.Pri, r.ID = Retry, 0, 0
		switch {
		case m.claim(c, shard) != probing:
		case j == nil:
			client.sides[shard].told = worst
		case bound.less(j.readyKey()):
			r.Pri, r.ID = j.pri, j.id
			client.sides[shard].told = j.readyKey()
		default:
			m.leave(c, shard)
			m.reserve(j, c)
			r.Status, r.Pri, r.ID, r.Body = OK, j.pri, j.id, []byte(j.body)
		}
	case Cancel:
		m.leave(c, shard)
	case Gather:
		r.Stats = m.stats(shard)
	case Tubes:
		r.Lists = new(Lists)
		for _, t := range m.tubes {
			r.Lists.Names = append(r.Lists.Names, t.name)
		}
	}
}

func without(names []string, gone ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(gone, name) })
}

func (m *model) jobCommand(c int, r *Request, j *modelJob) bool {
	mine := j.state == reserved && j.holder == c
	switch r.Op {
	case ReserveJob:
		if j.state == reserved {
			return false
		}
		m.reserve(j, c)
		r.Body = []byte(j.body)
	case Delete:
		if j.state == reserved && !mine {
			return false
		}
		m.tube(j.tube).deletes++
		kind := Fail
		if mine {
			kind = Complete
		}
		m.finish(j, kind, "")
		m.discard(j)
	case Release:
		if mine && m.prepareRetry(j) {
			j.pri = r.Pri
			j.releases++
			m.readyOrDelayed(j, r.Delay)
		}
		return mine
	case Bury:
		switch {
		case !mine:
		case m.abandoned(j):
			m.discard(j)
		default:
			j.foreground, j.pri = false, r.Pri
			m.finish(j, Fail, "")
			m.bury(j)
		}
		return mine
	case Touch:
		if mine {
			m.deadline(j, j.ttr)
		}
		return mine
	case KickJob:
		if j.state != buried && j.state != delayed {
			return false
		}
		if j.kicks++; j.state == buried {
			m.unbury(j)
		}
		m.makeReady(j)
	case StatsJob:
		r.Job = m.jobStats(j)
	case Peek:
		r.Body = []byte(j.body)
	}
	return true
}
