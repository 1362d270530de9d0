package shard

import (
	"fmt"
	"slices"
	"strings"
)

// How the trial looks at answers, statistics and the shards themselves.

// describe writes down answers.
func describe(chain []*Request) string {
	var b strings.Builder
	for _, r := range chain {
		fmt.Fprintf(&b, "op %d: status %d id %d pri %d n %d soonest %d body %q", r.Op, r.Status, r.ID, r.Pri, r.N, r.Soonest, r.Body)
		if r.Job != nil {
			fmt.Fprintf(&b, " %+v", *r.Job)
		}
		if r.TubeStats != nil {
			fmt.Fprintf(&b, " %+v", *r.TubeStats)
		}
		if r.Stats != nil {
			fmt.Fprintf(&b, " %+v", *r.Stats)
		}
		if r.Op == Grab && r.Status == OK {
			fmt.Fprintf(&b, " of %s", r.Tube.Name)
			if r.Task != nil {
				fmt.Fprintf(&b, " unique %q", r.Task.Unique)
			}
		}
		if r.Op == Inquire || r.Op == InquireUnique {
			fmt.Fprintf(&b, " of %d", r.Delay)
		}
		if a := r.Lists; a != nil {
			slices.SortFunc(a.Functions, func(a, b FunctionStats) int { return strings.Compare(a.Name, b.Name) })
			for _, f := range a.Functions {
				fmt.Fprintf(&b, " %+v", f)
			}
			for _, t := range a.Tasks {
				fmt.Fprintf(&b, " %+v", t)
			}
			slices.Sort(a.Names) // the order is TestRoster's
			fmt.Fprintf(&b, " %v", a.Names)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// inspect checks what must always hold, and compares all statistics. It comes
// after settle, which has looked at the shards' state too: the requests here
// tell the race detector that the shards go on only after that.
func (x *trial) inspect() {
	x.Helper()
	for _, s := range x.rig.shards {
		if err := s.check(); err != nil {
			x.Fatalf("shard %d: %v", s.cfg.Index, err)
		}
	}
	for s := range x.rig.shards {
		var chain []*Request
		for _, j := range x.model.pick(byReady, func(j *modelJob) bool { return x.model.shardOf(j) == s }) {
			chain = append(chain, &Request{Op: StatsJob, ID: j.id})
			if at := x.directory.Lookup(j.id); at != s {
				x.Fatalf("the directory has job %d on shard %d", j.id, at)
			}
		}
		for _, t := range x.model.tubes {
			if t.shard == s {
				chain = append(chain, &Request{Op: StatsTube, Name: t.name})
			}
		}
		chain = append(chain, &Request{Op: Gather}, &Request{Op: Functions}, &Request{Op: ListJobs})
		if s == 0 {
			chain = append(chain, &Request{Op: Tubes})
		}
		want := copies(chain)
		x.model.begin(0, open)
		x.model.chain(0, s, want)
		x.actors[0].post(s, chain...)
		x.actors[0].await()
		if got, want := describe(chain), describe(want); got != want {
			x.Fatalf("statistics of shard %d\ngot:\n%swant:\n%s", s, got, want)
		}
	}
}

// picture draws the places of all jobs and the waits of all clients, as the
// shards have them; see (*model).picture. The shards must be asleep.
func (x *trial) picture() string {
	number := func(c *Client) int {
		return slices.IndexFunc(x.actors, func(a *actor) bool { return slices.Contains(a.sides, c) })
	}
	var drawn []string
	for _, s := range x.rig.shards {
		for _, t := range s.tubes {
			var queue []int
			for w := t.waiters.head; w != nil; w = w.next {
				queue = append(queue, number(w.client))
			}
			drawn = append(drawn, fmt.Sprintf("%s: ready%v delayed%v buried%v queue%v paused until %d\n", t.Name,
				heapIDs(&t.ready), heapIDs(&t.delayed), listIDs(&t.buried), queue, t.pausedUntil))
		}
	}
	slices.Sort(drawn)
	var b strings.Builder
	b.WriteString(strings.Join(drawn, ""))
	for i, a := range x.actors {
		p := phase(a.waiter.state.Load() & (1<<phaseBits - 1))
		fmt.Fprintf(&b, "client %d: phase %d", i, p)
		if p == granted {
			fmt.Fprintf(&b, " %+v", a.waiter.grant)
		}
		for _, c := range a.sides {
			fmt.Fprintf(&b, "; held%v in order%v", heapIDs(&c.held), listIDs(&c.heldList))
			if c.queued {
				fmt.Fprintf(&b, " queued counted=%t timeout=%d soon=%d", c.counted, c.timeoutAt, c.soonestElsewhere)
			}
			if c.observing {
				fmt.Fprintf(&b, " observing")
			}
			if c.dozing {
				fmt.Fprintf(&b, " dozing")
			}
		}
		fmt.Fprintf(&b, " told %v\n", a.events)
	}
	return b.String()
}

func heapIDs(h *jobHeap) []string {
	sorted := h.all()
	slices.SortFunc(sorted, func(a, b entry) int {
		if a.less(b.key) {
			return -1
		}
		return 1
	})
	var names []string
	for _, e := range sorted {
		names = append(names, jobName(e.ref.job().id, e.ref.job().state, e.ref.job().at))
	}
	return names
}

func listIDs(l *jobList) []string {
	var names []string
	for j := l.head; j != nil; j = j.next {
		names = append(names, jobName(j.id, j.state, j.at))
	}
	return names
}

// jobName is a job's number, with when it is due where that counts: the field
// keeps an old value in the other states.
func jobName(id uint64, st state, at int64) string {
	if st == ready || st == buried {
		return fmt.Sprint(id)
	}
	return fmt.Sprintf("%d@%d", id, at)
}
