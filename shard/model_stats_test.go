package shard

import (
	"fmt"
	"slices"
	"strings"
)

// The statistics of the model, summed up anew whenever they are asked for.

func (m *model) memory(shard int) int64 {
	var sum int64
	for i := range m.jobs {
		if shard < 0 || m.shardOf(&m.jobs[i]) == shard {
			sum += m.jobs[i].size + int64(len(m.jobs[i].waiting))*listenerFootprint
		}
	}
	return sum
}

// timeLeft is in whole seconds, as they are a moment after now.
func (m *model) timeLeft(at int64) int64 { return (at - m.now - 1) / second }

func (m *model) jobStats(j *modelJob) *JobStats {
	st := &JobStats{
		ID: j.id, Tube: j.tube, State: j.state.String(), Pri: j.pri, Delay: j.delay, TTR: j.ttr,
		Age:      (m.now - j.created) / second,
		Reserves: j.reserves, Timeouts: j.timeouts, Releases: j.releases, Buries: j.buries, Kicks: j.kicks,
	}
	if (j.state == delayed || j.state == reserved) && j.at != never {
		st.TimeLeft = m.timeLeft(j.at)
	}
	return st
}

func urgent(jobs []*modelJob) (n int) {
	for _, j := range jobs {
		if j.pri < 1024 {
			n++
		}
	}
	return n
}

// waits tells whether nobody has ended what that shard knows of a client's wait.
func (m *model) waits(c, shard int) bool {
	p := m.claim(c, shard)
	return p == waiting || p == probing || p == dirty
}

func (m *model) tubeStats(t *modelTube) *TubeStats {
	st := &TubeStats{
		Name: t.name, Urgent: urgent(m.in(t.name, ready)), Ready: len(m.in(t.name, ready)),
		Reserved: len(m.in(t.name, reserved)), Delayed: len(m.in(t.name, delayed)), Buried: len(m.in(t.name, buried)),
		Total: t.total, Deletes: t.deletes, Pauses: t.pauses, Pause: t.pauseFor,
	}
	for _, c := range m.queue(t) {
		if m.waits(c, t.shard) {
			st.Waiting++
		}
	}
	for _, c := range m.clients {
		if slices.Contains(c.using, t.name) {
			st.Using++
		}
		if slices.Contains(c.watches, t.name) {
			st.Watching++
		}
	}
	if t.pausedUntil != 0 {
		st.PauseLeft = m.timeLeft(t.pausedUntil)
	}
	return st
}

func (m *model) stats(shard int) *Stats {
	st := &Stats{
		Total: m.shards[shard].total, Timeouts: m.shards[shard].timeouts,
		Served: m.shards[shard].served, Memory: m.memory(shard),
	}
	for i := range m.tubes {
		t := &m.tubes[i]
		if t.shard != shard {
			continue
		}
		st.Tubes++
		one := m.tubeStats(t)
		st.Urgent += one.Urgent
		st.Ready += one.Ready
		st.Reserved += one.Reserved
		st.Delayed += one.Delayed
		st.Buried += one.Buried
		st.Queued += len(m.queue(t))
	}
	for i, c := range m.clients {
		if c.sides[shard].counted && m.waits(i, shard) {
			st.Waiting++
		}
		if c.sides[shard].observing {
			st.Observers++
		}
	}
	return st
}

// picture draws the places of all jobs and the waits of all clients; see
// (*trial).picture.
func (m *model) picture() string {
	var b strings.Builder
	tubes := slices.Clone(m.tubes)
	slices.SortFunc(tubes, func(a, b modelTube) int { return strings.Compare(a.name, b.name) })
	for _, t := range tubes {
		fmt.Fprintf(&b, "%s: ready%v delayed%v buried%v queue%v paused until %d\n", t.name,
			ids(m.in(t.name, ready)), ids(m.in(t.name, delayed)), ids(m.in(t.name, buried)), m.queue(&t), t.pausedUntil)
	}
	for c, client := range m.clients {
		fmt.Fprintf(&b, "client %d: phase %d", c, client.phase)
		if client.phase == granted {
			fmt.Fprintf(&b, " %+v", client.grant)
		}
		for s, side := range client.sides {
			fmt.Fprintf(&b, "; held%v in order%v", ids(m.held(c, s, byDue)), ids(m.held(c, s, bySince)))
			if side.queued {
				fmt.Fprintf(&b, " queued counted=%t timeout=%d soon=%d", side.counted, side.timeoutAt, side.soonAt)
			}
			if side.observing {
				fmt.Fprintf(&b, " observing")
			}
			if side.dozing {
				fmt.Fprintf(&b, " dozing")
			}
		}
		fmt.Fprintf(&b, " told %v\n", client.events)
	}
	return b.String()
}

func ids(jobs []*modelJob) []string {
	var names []string
	for _, j := range jobs {
		names = append(names, jobName(j.id, j.state, j.at))
	}
	return names
}
