package main_test

// After a restart: what the servers have is compared in ways that change it,
// and they are made to agree again.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// diffSame says whether two servers say the same of a job, but for the time.
func diffSame(a, b diffFields) bool {
	for _, field := range append(diffKept, "state") {
		if a[field] != b[field] {
			return false
		}
	}
	return true
}

// heal deletes the jobs that are not the same on both servers, from after too.
// Where both are the reference, it also deletes those that are on both what
// they should not be.
func (r *diffRun) heal(after [2]diffRemains) error {
	for _, id := range after[0].ids() {
		a, b := after[0].jobs[id], after[1].jobs[id]
		if diffSame(a, b) && a["state"] != "buried" && (a["state"] != "delayed" || r.model.byID[id].deadline.set()) {
			continue
		}
		for i, s := range r.servers {
			if _, err := s.want(fmt.Sprintf("delete %d", id), "DELETED"); err != nil {
				return err
			}
			delete(after[i].jobs, id)
		}
	}
	return nil
}

// align compares the next ids after a restart, given being the last that was
// given before, and brings them to be the same. It returns the last id given.
func (r *diffRun) align(given uint64) (uint64, error) {
	ids, err := r.probe()
	if err != nil {
		return 0, err
	}
	for i, p := range r.progs {
		// The reference begins behind the highest id in its files, and a file
		// whose jobs are all gone is gone too.
		if p.asIs && ids[i] <= given {
			return 0, &diffFound{fmt.Sprintf("%s: after the restart a put is given the id %d, and %d has been given before", p.name, ids[i], given)}
		}
		if most := given + uint64(r.commands); ids[i] > most {
			return 0, &diffFound{fmt.Sprintf("%s: after the restart a put is given the id %d, far above %d", p.name, ids[i], given)}
		}
	}
	for ids[0] != ids[1] {
		i := 0
		if ids[1] < ids[0] {
			i = 1
		}
		if ids[i], err = r.servers[i].probe(); err != nil {
			return 0, err
		}
	}
	return ids[0], nil
}

// restart takes in that left is all that there is.
func (m *diffModel) restart(left diffRemains) {
	jobs := m.jobs
	m.jobs = nil
	for _, j := range jobs {
		f := left.jobs[j.id]
		if f == nil {
			delete(m.byID, j.id)
			m.dead = append(m.dead, j.id)
			continue
		}
		j.state = map[string]diffState{"ready": diffReady, "delayed": diffDelayed, "buried": diffBuried}[f["state"]]
		if j.state != diffDelayed {
			j.deadline = diffSpan{}
		}
		m.jobs = append(m.jobs, j)
	}
}

// reserveAll kicks everything that s has, reserves it all and deletes it, and
// compares the orders with what has just been found. A tube in which a delay is
// about to end is only emptied.
func (r *diffRun) reserveAll(s *diffServer, m diffRemains) error {
	r.logf("everything is kicked, reserved and deleted on %s", s.name)
	var all []uint64
	for tube := range m.tubes {
		ready, delayed, buried := m.in(tube, "ready"), m.in(tube, "delayed"), m.in(tube, "buried")
		if slices.ContainsFunc(delayed, func(id uint64) bool { return m.jobs[id].number("time-left") < 5 }) {
			for _, id := range slices.Concat(ready, delayed, buried) {
				if _, err := s.want(fmt.Sprintf("delete %d", id), "DELETED"); err != nil {
					return err
				}
			}
			continue
		}
		all = slices.Concat(all, ready, delayed, buried)
		for _, line := range []string{"use " + tube, "watch " + tube} {
			if _, err := s.ask(line); err != nil {
				return err
			}
		}
		order, err := s.kickAll("buried", len(buried))
		if err != nil {
			return err
		}
		if s.asIs {
			slices.SortFunc(buried, r.model.byBurial)
		} else {
			slices.Sort(order)
		}
		if !slices.Equal(order, buried) {
			return &diffFound{fmt.Sprintf("%s: buried jobs of %.20s were kicked in the order %d, want %d", s.name, tube, order, buried)}
		}
		if order, err = s.kickAll("delayed", len(delayed)); err != nil {
			return err
		}
		for i, id := range order {
			if first, ok := r.model.soonest(order[i:], fmt.Sprint(id)); !ok && s.asIs {
				return &diffFound{fmt.Sprintf("%s: delayed jobs of %.20s were kicked in the order %d, but %d should come before %d", s.name, tube, order, first, id)}
			}
		}
		if slices.Sort(order); !slices.Equal(order, delayed) {
			return &diffFound{fmt.Sprintf("%s: delayed jobs of %.20s: %d were kicked, want %d", s.name, tube, order, delayed)}
		}
	}
	slices.SortFunc(all, m.byPri)
	for i, id := range all {
		body, err := s.want("reserve-with-timeout 0", "RESERVED "+fmt.Sprint(id))
		if err != nil {
			return fmt.Errorf("%w, the %dth of %d", err, i+1, all)
		}
		if _, body, _ = strings.Cut(body, "\r\n"); body+"\r\n" != m.jobs[id]["body"] {
			return &diffFound{fmt.Sprintf("%s: job %d is reserved with the body %q, want %q", s.name, id, body, m.jobs[id]["body"])}
		}
		if _, err := s.want(fmt.Sprintf("delete %d", id), "DELETED"); err != nil {
			return err
		}
	}
	_, err := s.want("reserve-with-timeout 0", "TIMED_OUT")
	return err
}

// kickAll kicks the n jobs of the used tube in that state, one by one, and
// returns them in the order in which they went.
func (s *diffServer) kickAll(state string, n int) (order []uint64, err error) {
	for range n {
		front, err := s.want("peek-"+state, "FOUND")
		if err != nil {
			return nil, err
		}
		text, _, _ := strings.Cut(front, " ")
		if _, err := s.want("kick 1", "KICKED 1"); err != nil {
			return nil, err
		}
		reply, err := s.ask("stats-job " + text)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(reply[0], "\nstate: ready\n") {
			return nil, &diffFound{fmt.Sprintf("%s: job %s was the first %s one, and kick 1 did not make it ready: %q", s.name, text, state, reply[0])}
		}
		id, _ := strconv.ParseUint(text, 10, 64)
		order = append(order, id)
	}
	_, err = s.want("peek-"+state, "NOT_FOUND")
	return order, err
}
