package main_test

// After a crash: what the server has is compared with what it should have, and
// then taken over, since a command in flight may have happened or not.

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// crashPast says what is known of a job.
func crashPast(j *crashJob) string {
	if j == nil {
		return ""
	}
	return fmt.Sprintf("\n    job %d, order %d, tube %s, ttr %d, %d bytes:\n\t%s", j.id, j.order, j.tube, j.ttr, j.size, strings.Join(j.past, "\n\t"))
}

// check compares all jobs with the ledgers. killed is when the last server was
// certainly dead.
func (t *crashTest) check(killed time.Time) (problems []string, err error) {
	c, err := crashDial(t.server.addrs[0])
	if err != nil {
		return nil, err
	}
	defer c.Close()
	found, problems, err := t.observe(c)
	if err != nil {
		return nil, err
	}
	t.logf("%d jobs, %d in flight", len(found), t.inFlight())
	in := make(map[string][]*crashFound)
	for _, f := range found {
		in[f.tube] = append(in[f.tube], f)
		t.give(f.id) // an unanswered put's is new
	}
	for _, o := range t.owners {
		var mine []*crashFound
		for _, tube := range o.tubes {
			mine = append(mine, in[tube]...)
			delete(in, tube)
		}
		problems = append(problems, o.check(mine, killed)...)
	}
	var shared []*crashFound
	for _, tube := range crashShared {
		shared = append(shared, in[tube]...)
		delete(in, tube)
	}
	problems = append(problems, t.checkShared(shared, killed)...)
	for tube, jobs := range in {
		problems = append(problems, fmt.Sprintf("%d jobs in tube %s, where none was put: %d %s ...", len(jobs), tube, jobs[0].id, jobs[0]))
	}
	if len(problems) > 0 {
		return problems, nil
	}
	return t.checkBuried(c, found)
}

// observe returns all jobs that there are.
func (t *crashTest) observe(c *crashConn) (found []*crashFound, problems []string, err error) {
	if err := c.says("USING crash-probe", "use crash-probe"); err != nil {
		return nil, nil, err
	}
	line, _, err := c.ask("put 0 0 1 0\r\n")
	if err != nil {
		return nil, nil, err
	}
	var next uint64
	if _, err := fmt.Sscanf(line, "INSERTED %d", &next); err != nil {
		return nil, nil, fmt.Errorf("a put was answered %q", line)
	}
	if next <= t.maxID {
		problems = append(problems, fmt.Sprintf("the next id is %d, but %d was given before", next, t.maxID))
	}
	if err := c.says("DELETED", "delete %d", next); err != nil {
		return nil, nil, err
	}
	// What was there before and what is new. Nothing else is there, unless it
	// came back, which stats tells.
	ids := t.liveIDs()
	for id := t.next + 1; id < next; id++ {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if found, err = c.look(ids); err != nil {
		return nil, nil, err
	}
	stats, err := c.stats("stats")
	if err != nil {
		return nil, nil, err
	}
	n := stats["current-jobs-ready"] + stats["current-jobs-reserved"] + stats["current-jobs-delayed"] + stats["current-jobs-buried"]
	if n != len(found) {
		problems = append(problems, fmt.Sprintf("stats knows of %d jobs, %d are found by id", n, len(found)))
		ids = ids[:0]
		for id := uint64(1); id < next; id++ {
			ids = append(ids, id)
		}
		if found, err = c.look(ids); err != nil {
			return nil, nil, err
		}
	}
	t.next = next
	t.give(next)
	return found, problems, nil
}

// liveIDs returns the ids of all jobs that are known.
func (t *crashTest) liveIDs() (ids []uint64) {
	for _, o := range t.owners {
		for _, j := range o.model.jobs {
			if j.id != 0 {
				ids = append(ids, j.id)
			}
		}
	}
	for _, e := range t.ledger.entries {
		if e.job.id != 0 {
			ids = append(ids, e.job.id)
		}
	}
	return ids
}

// check finds how many of the commands in flight were done, and goes on from
// there.
func (o *crashOwner) check(found []*crashFound, killed time.Time) (problems []string) {
	byID, byOrder := make(map[uint64]*crashFound), make(map[uint64]*crashFound)
	for _, f := range found {
		byID[f.id], byOrder[f.order] = f, f
	}
	m := o.model.clone()
	for k := 0; ; k++ {
		if now := m.differs(found, byID, byOrder); len(now) == 0 {
			break
		} else if k == 0 || len(now) < len(problems) {
			problems = now
			problems[0] = fmt.Sprintf("%s: after %d of %d commands in flight: %s", o.name, k, len(o.flying), now[0])
		}
		if k == len(o.flying) {
			for i, c := range o.flying {
				problems = append(problems, fmt.Sprintf("%s: in flight, %d: %s", o.name, i+1, c.line()))
			}
			return problems
		}
		m.apply(o.flying[k], diffSpan{o.sent, killed})
	}
	for _, j := range m.jobs {
		s := m.state[j]
		if s.place == crashReserved {
			s.place = crashReady
		}
		m.state[j] = s
		j.id = byOrder[j.order].id
		j.note("%s: after a crash %s", o.name, &s)
	}
	o.model, o.flying = m, nil
	return nil
}

func (m *crashModel) differs(found []*crashFound, byID, byOrder map[uint64]*crashFound) (problems []string) {
	matched := make(map[*crashFound]bool)
	for _, j := range m.jobs {
		f := byOrder[j.order]
		if j.id != 0 {
			f = byID[j.id]
		}
		s := m.state[j]
		if f == nil {
			problems = append(problems, fmt.Sprintf("job %d is lost: %s%s", j.id, &s, crashPast(j)))
			continue
		}
		matched[f] = true
		if what := j.differs(&s, f); len(what) > 0 {
			problems = append(problems, crashWrong(j, &s, f, what))
		}
	}
	for _, f := range found {
		if !matched[f] {
			problems = append(problems, fmt.Sprintf("job %d should not be there: %s", f.id, f))
		}
	}
	return problems
}

func crashWrong(j *crashJob, want *crashState, f *crashFound, what []string) string {
	return fmt.Sprintf("job %d: %s\n    want %s\n    got  %s%s", f.id, strings.Join(what, "; "), want, f, crashPast(j))
}

// checkBuried compares the orders of buried jobs. It turns each list around
// once and takes that down.
func (t *crashTest) checkBuried(c *crashConn, found []*crashFound) (problems []string, err error) {
	pri, entries := make(map[uint64]uint32), make(map[uint64]*crashEntry)
	buried := make(map[string]bool)
	for _, f := range found {
		if f.state.place == crashBuried {
			pri[f.id], buried[f.tube] = f.state.pri, true
		}
	}
	for _, o := range t.owners {
		for _, tube := range o.tubes {
			if !buried[tube] {
				continue
			}
			var want []uint64
			for _, j := range o.model.buried(tube) {
				want = append(want, j.id)
			}
			got, err := c.rotate(tube, pri)
			if err != nil {
				return nil, err
			}
			if !slices.Equal(got, want) {
				problems = append(problems, fmt.Sprintf("the buried jobs of %s are %d, want %d", tube, got, want))
			}
			for _, j := range o.model.buried(tube) {
				s := o.model.state[j]
				o.model.buries++
				s.buriedAt = o.model.buries
				s.buries++
				s.reserves++
				o.model.state[j] = s
				j.note("reserved and buried again")
			}
		}
	}
	for _, e := range t.ledger.entries {
		entries[e.job.id] = e
	}
	for _, tube := range crashShared {
		if !buried[tube] {
			continue
		}
		got, err := c.rotate(tube, pri)
		if err != nil {
			return nil, err
		}
		var last *crashEntry
		for _, id := range got {
			e := entries[id]
			if e == nil {
				return append(problems, fmt.Sprintf("job %d is buried in %s", id, tube)), nil
			}
			if last != nil && last.buriedAt > e.buriedBy {
				problems = append(problems, fmt.Sprintf("job %d, buried before job %d, comes after it%s%s",
					id, last.job.id, crashPast(e.job), crashPast(last.job)))
			}
			if last == nil || e.buriedAt > last.buriedAt {
				last = e
			}
		}
		for _, id := range got {
			e := entries[id]
			e.placeBy = t.ledger.tick()
			e.buriedAt, e.buriedBy = e.placeBy, e.placeBy
			e.buries++
			e.reserves++
			e.job.note("reserved and buried again")
		}
	}
	return problems, nil
}
