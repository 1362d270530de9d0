package main_test

// What the test knows of the servers' state, learnt from the answers: enough
// to choose interesting ids and to know the deadlines. It predicts nothing but
// time; where it errs (a kick of several jobs) it errs towards a deadline that
// is not there.

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

type diffState int

const (
	diffReady diffState = iota
	diffDelayed
	diffReserved
	diffBuried
)

// A diffJob is a job that the servers have, as far as is known.
type diffJob struct {
	id       uint64
	tube     string
	ttr      time.Duration
	state    diffState
	holder   *diffClient // while reserved
	created  diffSpan
	deadline diffSpan // of the delay or the TTR, while delayed or reserved
	buried   int      // as diffModel.buries was when it was buried last
}

// A diffModel is what is known of the jobs and the paused tubes.
type diffModel struct {
	jobs   []*diffJob // live, in order of id
	byID   map[uint64]*diffJob
	dead   []uint64 // ids of jobs that were
	pauses map[string]diffSpan
	buries int // how often a job was buried
}

func newDiffModel() *diffModel {
	return &diffModel{byID: map[uint64]*diffJob{}, pauses: map[string]diffSpan{}}
}

// A diffClient is one client, connected to both servers.
type diffClient struct {
	name   string
	sock   [2]*diffSocket
	frame  diffFramer
	asked  []diffRequest // not yet answered by both
	got    [2][]string   // replies not yet compared
	half   bool          // has shut down its sending side
	used   string
	watch  []string
	waits  diffSpan // the end of the reserve-with-timeout that it waits in
	waited int      // steps since it began to wait
}

// waiting says whether the client is known to wait in a reserve.
func (c *diffClient) waiting() bool { return len(c.asked) > 0 }

// mayWatch is every tube that the client watches or will watch when it gets to
// what it has sent, more being in the requests of extra.
func (c *diffClient) mayWatch(extra []diffRequest) map[string]bool {
	tubes := map[string]bool{}
	for _, t := range c.watch {
		tubes[t] = true
	}
	for _, list := range [][]diffRequest{c.asked, extra} {
		for _, r := range list {
			if t, ok := strings.CutPrefix(r.line, "watch "); ok {
				tubes[t] = true
			}
		}
	}
	return tubes
}

// expire moves on what has come due before now. It returns the clients that
// held a job too long.
func (m *diffModel) expire(now time.Time) (late []*diffClient) {
	for _, j := range m.jobs {
		if j.deadline.set() && j.deadline.hi.Before(now) {
			if j.holder != nil && !slices.Contains(late, j.holder) {
				late = append(late, j.holder)
			}
			j.state, j.holder, j.deadline = diffReady, nil, diffSpan{}
		}
	}
	for t, s := range m.pauses {
		if s.hi.Before(now) {
			delete(m.pauses, t)
		}
	}
	return late
}

// deadlines returns everything that may happen by itself until end.
func (m *diffModel) deadlines(clients []*diffClient, now, end time.Time) diffDeadlines {
	var l diffDeadlines
	add := func(s diffSpan) {
		if s.set() && s.lo.Before(end) && s.hi.After(now.Add(-time.Second)) {
			l = append(l, s)
		}
	}
	for _, j := range m.jobs {
		add(j.deadline)
		if j.state == diffReserved && j.deadline.set() {
			add(j.deadline.add(-time.Second)) // DEADLINE_SOON from here
		}
	}
	for _, s := range m.pauses {
		add(s)
	}
	for _, c := range clients {
		add(c.waits)
	}
	l.sort()
	return l
}

// held is every tube of which c holds a job, or may when it gets to what it has
// sent.
func (m *diffModel) held(c *diffClient) map[string]bool {
	tubes := map[string]bool{}
	for _, j := range m.jobs {
		if j.holder == c {
			tubes[j.tube] = true
		}
	}
	for _, q := range c.asked {
		id, _, _ := diffNumber(strings.TrimPrefix(q.line, "reserve-job"))
		if j := m.byID[id]; j != nil && q.verb() == "reserve-job" {
			tubes[j.tube] = true
		}
	}
	return tubes
}

// feeds says whether c's leaving would put back a job of a tube on which o may
// wait.
func (m *diffModel) feeds(c, o *diffClient) bool {
	held := m.held(c)
	for tube := range o.mayWatch(nil) {
		if held[tube] {
			return true
		}
	}
	return false
}

// felt returns those deadlines until end that may end the wait of a client: what
// is their order, the client's answer shows. Where a client has sent more behind
// its reserve, that may show anything that happens in any tube.
func (m *diffModel) felt(clients []*diffClient, now, end time.Time) diffDeadlines {
	tubes, all := map[string]bool{}, false
	for _, c := range clients {
		if c.waiting() {
			maps.Copy(tubes, c.mayWatch(nil))
			all = all || len(c.asked) > 1
		}
	}
	felt := diffModel{pauses: maps.Clone(m.pauses)}
	for _, j := range m.jobs {
		switch {
		case j.holder != nil && j.holder.waiting():
			felt.jobs = append(felt.jobs, j)
		case all || tubes[j.tube]:
			// Of others' jobs, that the last second begins tells nobody anything.
			other := *j
			other.state = diffReady
			felt.jobs = append(felt.jobs, &other)
		}
	}
	maps.DeleteFunc(felt.pauses, func(tube string, _ diffSpan) bool { return !all && !tubes[tube] })
	return felt.deadlines(clients, now, end)
}

// phases returns the spans at whose phases the answer to r changes.
func (m *diffModel) phases(r diffRequest) []diffSpan {
	switch r.verb() {
	case "stats-job":
		n, _, _ := diffNumber(strings.TrimPrefix(r.line, "stats-job "))
		if j := m.byID[n]; j != nil {
			if j.deadline.set() {
				return []diffSpan{j.created, j.deadline}
			}
			return []diffSpan{j.created}
		}
	case "stats-tube":
		if s, ok := m.pauses[strings.TrimPrefix(r.line, "stats-tube ")]; ok {
			return []diffSpan{s}
		}
	}
	return nil
}

// ticks says whether a second that the answer to q shows may have gone over to
// the next while q was served, somewhere in at. A command that is sent keeps
// away from that (see wakeful); one that was sent behind a reserve which has
// waited is served when the wait ends, and that may be at a deadline.
func (m *diffModel) ticks(q diffRequest, at diffSpan) bool {
	return slices.ContainsFunc(m.phases(q), func(s diffSpan) bool {
		return s.phase(at.lo).near(at.lo, at.hi, diffGuard)
	})
}

func (m *diffModel) remove(id uint64) {
	if m.byID[id] == nil {
		return
	}
	delete(m.byID, id)
	for i, j := range m.jobs {
		if j.id == id {
			m.jobs = append(m.jobs[:i], m.jobs[i+1:]...)
			break
		}
	}
	m.dead = append(m.dead, id)
}

// hangUp puts back what c holds.
func (m *diffModel) hangUp(c *diffClient) {
	for _, j := range m.jobs {
		if j.holder == c {
			j.state, j.holder, j.deadline = diffReady, nil, diffSpan{}
		}
	}
}

// learn takes in that c's request r was answered with reply somewhere in at.
func (m *diffModel) learn(c *diffClient, r diffRequest, reply string, at diffSpan) {
	word := strings.Fields(reply)
	if len(word) == 0 {
		return
	}
	args := strings.Fields(r.line)
	number := func(i int) uint64 {
		if i >= len(args) {
			return 0
		}
		n, _, _ := diffNumber(args[i])
		return n
	}
	seconds := func(i int) time.Duration { return time.Duration(number(i)) * time.Second }
	replied := func() uint64 {
		if len(word) < 2 {
			return 0
		}
		n, _ := strconv.ParseUint(word[1], 10, 64)
		return n
	}
	switch word[0] {
	case "INSERTED":
		j := &diffJob{id: replied(), tube: c.used, ttr: max(seconds(3), time.Second), created: at}
		if d := seconds(2); d > 0 {
			j.state, j.deadline = diffDelayed, at.add(d)
		}
		m.byID[j.id] = j
		m.jobs = append(m.jobs, j)
	case "RESERVED":
		if j := m.byID[replied()]; j != nil {
			j.state, j.holder, j.deadline = diffReserved, c, at.add(j.ttr)
		}
	case "DELETED":
		m.remove(number(1))
	case "RELEASED":
		if j := m.byID[number(1)]; j != nil {
			j.state, j.holder, j.deadline = diffReady, nil, diffSpan{}
			if d := seconds(3); d > 0 {
				j.state, j.deadline = diffDelayed, at.add(d)
			}
		}
	case "BURIED":
		if j := m.byID[number(1)]; j != nil {
			m.buries++
			j.state, j.holder, j.deadline, j.buried = diffBuried, nil, diffSpan{}, m.buries
		}
	case "TOUCHED":
		if j := m.byID[number(1)]; j != nil {
			j.deadline = at.add(j.ttr)
		}
	case "KICKED":
		if len(word) == 1 { // kick-job
			if j := m.byID[number(1)]; j != nil {
				j.state, j.deadline = diffReady, diffSpan{}
			}
			return
		}
		m.kicked(c.used, int(replied()))
	case "PAUSED":
		f := strings.Fields(strings.TrimPrefix(r.line, "pause-tube")) // the space after it is optional
		delete(m.pauses, f[0])
		if n, _, _ := diffNumber(f[1]); n > 0 {
			m.pauses[f[0]] = at.add(time.Duration(n) * time.Second)
		}
	case "USING":
		c.used = word[1]
	case "WATCHING":
		if len(args) < 2 {
			return
		}
		kept := c.watch[:0:0]
		for _, t := range c.watch {
			if t != args[1] {
				kept = append(kept, t)
			}
		}
		if r.verb() == "watch" {
			kept = append(kept, args[1])
		}
		c.watch = kept
	}
}

// kicked takes in that n jobs of tube were kicked: buried ones if there is
// one, else delayed ones. Which, it does not know; their deadlines stay.
func (m *diffModel) kicked(tube string, n int) {
	for _, state := range []diffState{diffBuried, diffDelayed} {
		any := false
		for _, j := range m.jobs {
			if j.tube == tube && j.state == state && n > 0 {
				n--
				any = true
				j.state = diffReady
			}
		}
		if any {
			return
		}
	}
}
