package shard

import "fmt"

// check tells what of a sleeping shard's state contradicts the rest. It knows
// nothing of commands; it recomputes what is counted along, and looks at every
// place and index.
func (s *Shard) check() error {
	place := make(map[*job]string)
	var err error
	fail := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	put := func(j *job, where string, st state) {
		if place[j] != "" {
			fail("job %d is %s and %s", j.id, place[j], where)
		}
		place[j] = where
		if j.state != st || s.job(j.id) != j {
			fail("job %d is %s, but its state is %v and the directory has %p for %p", j.id, where, j.state, s.job(j.id), j)
		}
	}
	heap := func(h *jobHeap, where string, st state, right func(key, *job) bool) {
		for i, e := range h.all() {
			put(e.j, where, st)
			if int(e.j.pos) != i || !right(e.key, e.j) {
				fail("%s: job %d at %d has pos %d, key %v", where, e.j.id, i, e.j.pos, e.key)
			}
			if i > 0 && e.less(h.at((i-1)/4).key) {
				fail("%s: job %d at %d is before its parent", where, e.j.id, i)
			}
		}
	}
	list := func(l *jobList, f func(*job)) {
		var last *job
		n := 0
		for j := l.head; j != nil; j = j.next {
			if j.prev != last {
				fail("job %d is linked wrongly", j.id)
			}
			f(j)
			last = j
			n++
		}
		if l.tail != last || l.n != n {
			fail("a list of %d has counted %d, or its tail is wrong", n, l.n)
		}
	}
	needs := func(d *due, at int64, what string) {
		if at != 0 && (d.at == 0 || d.at > at) {
			fail("%s is due at %d, but scheduled for %d", what, at, d.at)
		}
		if d.at != 0 && s.dues[d.pos] != d {
			fail("%s is not at its place in the heap of dues", what)
		}
	}

	// The clients are found by what refers to them.
	clients := make(map[*Client]bool)
	for j := range s.all() {
		if j.holder != nil {
			clients[j.holder] = true
		}
	}
	for j := range s.all() {
		task := j.task()
		if task == nil {
			continue
		}
		for l := task.waiting; l != nil; l = l.next {
			clients[l.client] = true
		}
	}
	memory, listening := int64(0), 0
	for j := range s.all() {
		task := j.task()
		if task == nil {
			continue
		}
		memory += task.footprint()
		if key, _ := task.keyOf(j.body()); task.keyed && j.tube.function.uniques[key] != j {
			fail("job %d has a key that is another's", j.id)
		}
		n := 0
		var last *listener
		for l := task.waiting; l != nil; l = l.next {
			if l.job != j || l.prev != last {
				fail("the list of who waits for job %d is linked wrongly", j.id)
			}
			last = l
			n++
		}
		if task.last != last || int(task.listeners) != n {
			fail("%d wait for job %d, but %d are counted, or the tail is wrong", n, j.id, task.listeners)
		}
		memory += int64(n) * listenerFootprint
		listening += n
	}
	queued, waiting := 0, 0
	var sum TubeStats
	for name, t := range s.tubes {
		if t.Name != name || t.Shard != s.cfg.Index {
			fail("tube %s on %d is known as %s", t.Name, t.Shard, name)
		}
		if t.idle() && name != DefaultTube {
			fail("tube %s is idle and still there", name)
		}
		heap(&t.ready, "ready in "+name, ready, func(k key, j *job) bool { return k == j.readyKey() })
		heap(&t.delayed, "delayed in "+name, delayed, isDue)
		list(&t.buried, func(j *job) { put(j, "buried in "+name, buried) })
		n := 0
		for w := t.waiters.head; w != nil; w = w.next {
			if !w.client.queued || w.tube != t {
				fail("a client is in the queue of %s without waiting there", name)
			}
			clients[w.client] = true
			n++
		}
		if n > 0 && t.ready.len() > 0 && !t.paused() {
			fail("clients wait in %s though a job is ready", name)
		}
		queued += n
		if f := t.function; f != nil {
			asleep := 0
			for w := f.sleepers.head; w != nil; w = w.next {
				if !w.client.dozing || w.client.queued || w.tube != t {
					fail("a client is among the sleepers of %s without dozing there", name)
				}
				clients[w.client] = true
				asleep++
			}
			if asleep > f.workers || f.workers > t.watching {
				fail("function %s has %d workers asleep of %d, in a tube that %d watch", name, asleep, f.workers, t.watching)
			}
			for k, j := range f.uniques {
				if s.job(j.id) != j || j.tube != t || j.task() == nil || !j.task().keyed || j.state == buried {
					fail("function %s has a job with the key %v that is none", name, k)
				}
			}
		}
		urgent, low, held, all := 0, 0, 0, 0
		for _, e := range t.ready.all() {
			if e.j.pri < 1024 {
				urgent++
			}
			if e.j.pri == PriLow {
				low++
			}
		}
		if low != t.low {
			fail("tube %s counts %d of low priority for %d", name, t.low, low)
		}
		for j := range s.all() {
			if j.tube == t {
				all++
				if j.state == reserved {
					held++
				}
			}
		}
		if urgent != t.urgent || held != t.reserved || all != t.jobs {
			fail("tube %s counts %d urgent, %d reserved, %d jobs for %d, %d, %d", name, t.urgent, t.reserved, t.jobs, urgent, held, all)
		}
		sum.Urgent += urgent
		sum.Ready += t.ready.len()
		sum.Delayed += t.delayed.len()
		sum.Buried += t.buried.n
		sum.Reserved += held
		needs(&t.due, earlier(t.pausedUntil, soonestOf(&t.delayed)), "tube "+name)
	}
	for i, c := range s.observers {
		if !c.observing || c.observerAt != i {
			fail("observer %d has it that it is %d, %t", i, c.observerAt, c.observing)
		}
		clients[c] = true
	}
	for c := range clients {
		heap(&c.held, "held", reserved, isDue)
		n := 0
		list(&c.heldList, func(j *job) {
			n++
			if place[j] != "held" || j.holder != c {
				fail("job %d is in the list of a client that does not hold it", j.id)
			}
		})
		if n != c.held.len() {
			fail("a client holds %d jobs, or %d", n, c.held.len())
		}
		next := c.soonest()
		if c.queued {
			next = earlier(earlier(next, c.timeoutAt), c.soon(c.soonAt))
			if c.counted {
				waiting++
			}
		}
		needs(&c.due, next, "a client")
		var last *listener
		for l := c.listens; l != nil; l = l.clientNext {
			if l.client != c || l.clientPrev != last || l.job.task() == nil {
				fail("a client waits for a job without a task, or its list is linked wrongly")
			}
			last = l
			listening--
		}
		asleep := 0
		for _, w := range c.watches {
			if f := w.tube.function; c.waiter.inbox != nil && f == nil {
				fail("a worker watches %s, which is no function", w.tube.Name)
			} else if f != nil && f.sleepers.has(w) {
				asleep++
			}
		}
		if c.dozing && asleep != len(c.watches) || !c.dozing && asleep != 0 {
			fail("a client dozes: %t, but is among %d of %d sleepers", c.dozing, asleep, len(c.watches))
		}
	}
	if listening != 0 {
		fail("tasks have %d listeners more than clients", listening)
	}

	jobs := 0
	live := int64(0)
	in := make(map[uint32]int)
	for j := range s.all() {
		if place[j] == "" {
			fail("job %d is nowhere", j.id)
		}
		jobs++
		memory += footprint(j.body())
		task := j.task()
		if j.foreground && (task == nil || task.Background || task.listeners == 0 && j.state != reserved || j.state == buried) {
			fail("job %d is in the foreground, %v, but nobody waits for it", j.id, j.state)
		}
		if j.fails && (j.state != reserved || j.holder.waiter.inbox == nil || j.at == noDeadline) {
			fail("job %d, %v, is to fail at %d", j.id, j.state, j.at)
		}
		switch {
		case s.logs(j):
			live += weight(j, task)
			in[j.file]++
		case j.file != 0:
			fail("job %d is not in the log, and has segment %d", j.id, j.file)
		}
	}
	if live != s.live {
		fail("%d bytes of the log count as needed for %d", s.live, live)
	}
	for _, seg := range s.segments {
		if seg.jobs != in[uint32(seg.index)] {
			fail("segment %d counts %d jobs for %d", seg.index, seg.jobs, in[uint32(seg.index)])
		}
	}
	if jobs != s.jobs || jobs != len(place) {
		fail("%d jobs are counted for %d in the directory and %d in their places", s.jobs, jobs, len(place))
	}
	if memory != s.memory.total {
		fail("%d bytes counted for %d", s.memory.total, memory)
	}
	if d := s.memory.drift; d > s.memory.slack || d < -s.memory.slack {
		fail("%d bytes not reported, with a slack of %d", d, s.memory.slack)
	}
	got := TubeStats{Urgent: s.urgent, Ready: s.ready, Reserved: s.reserved, Delayed: s.delayed, Buried: s.buried}
	if got != sum {
		fail("sums are %+v for %+v", got, sum)
	}
	if queued != s.queued || waiting != len(s.waits) {
		fail("%d queued, %d waiting are counted for %d, %d", s.queued, len(s.waits), queued, waiting)
	}

	for i, d := range s.dues {
		if d.pos != i || d.at == 0 || i > 0 && d.at < s.dues[(i-1)/2].at {
			fail("due %d for %d is at %d", d.pos, d.at, i)
		}
	}
	if len(s.dues) > 0 && (s.armed == 0 || s.armed > s.dues[0].at) {
		fail("the timer is set for %d, but %d comes first", s.armed, s.dues[0].at)
	}
	free := 0
	for j := s.free; j != nil; j = j.next {
		if place[j] != "" || j.body() != nil || j.tube != nil {
			fail("a job in use is on the free list, or a free one keeps its body")
		}
		free++
	}
	if free != s.freeCount || free > maxFree {
		fail("%d free jobs are counted for %d", s.freeCount, free)
	}
	return err
}

// soonestOf returns the earliest deadline in a heap, 0 for none.
func soonestOf(h *jobHeap) int64 {
	if j := h.top(); j != nil {
		return j.at
	}
	return 0
}

// has tells whether w is in the list.
func (l *watchList) has(w *watch) bool {
	for at := l.head; at != nil; at = at.next {
		if at == w {
			return true
		}
	}
	return false
}

// isDue tells whether k is the place of j among what comes due.
func isDue(k key, j *job) bool { return k.hi == uint64(j.at) }
