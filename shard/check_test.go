package shard

import (
	"fmt"
	"slices"
	"unsafe"
)

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
			put(e.ref.job(), where, st)
			if int(e.ref.job().pos) != i || !right(e.key, e.ref.job()) {
				fail("%s: job %d at %d has pos %d, key %v", where, e.ref.job().id, i, e.ref.job().pos, e.key)
			}
			if i > 0 && e.less(h.at((i-1)/4).key) {
				fail("%s: job %d at %d is before its parent", where, e.ref.job().id, i)
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
		if s.holderOf(j) != nil {
			clients[s.holderOf(j)] = true
		}
	}
	for j := range s.all() {
		task := s.taskOf(j)
		if task == nil {
			continue
		}
		for l := task.waiting; l != nil; l = l.next {
			clients[l.client] = true
		}
	}
	memory, listening, heirs := int64(0), 0, 0
	for j := range s.all() {
		task := s.taskOf(j)
		if task == nil {
			continue
		}
		memory += task.footprint()
		key, has := task.keyOf(s.body(j))
		var owner *job
		if f := s.tubeOf(j).function; f != nil {
			owner = s.withKey(f, key, s.hash(key))
		}
		switch {
		case !has || j.state == buried:
			if task.keyed || task.heir > 0 {
				fail("job %d, %v, has a key", j.id, j.state)
			}
		case task.keyed:
			if owner != j || task.heir > 0 {
				fail("job %d has a key that is another's", j.id)
			}
			heirs += task.heirs.len()
		case task.heir > 0:
			if owner == nil || owner.id > j.id || (*s.taskOf(owner).heirs)[task.heir-1] != (heir{j, task}) {
				fail("job %d is not the heir of an older one", j.id)
			}
			heirs--
		case !s.failed:
			fail("job %d has no key, and is no heir", j.id)
		}
		if !task.keyed && task.heirs != nil {
			fail("job %d has heirs, and no key", j.id)
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
	if heirs != 0 {
		fail("jobs with keys have %d heirs more than there are", heirs)
	}
	queued, waiting, keyed := 0, 0, 0
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
			if err := s.checkKeys(f, t); err != nil {
				fail("function %s: %v", name, err)
			}
			if f.keys.len() > 0 {
				keyed++
				if f.place >= len(s.keyed) || s.keyed[f.place] != f {
					fail("function %s has uniques and is not listed", name)
				}
			}
		}
		urgent, low, held, all := 0, 0, 0, 0
		for _, e := range t.ready.all() {
			if e.ref.job().pri < 1024 {
				urgent++
			}
			if e.ref.job().pri == PriLow {
				low++
			}
		}
		if low != t.low {
			fail("tube %s counts %d of low priority for %d", name, t.low, low)
		}
		for j := range s.all() {
			if s.tubeOf(j) == t {
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
	if keyed != len(s.keyed) {
		fail("%d functions have uniques, %d are listed", keyed, len(s.keyed))
	}
	for i, c := range s.observers {
		if !c.observing || int(c.observerAt) != i {
			fail("observer %d has it that it is %d, %t", i, c.observerAt, c.observing)
		}
		clients[c] = true
	}
	for c := range clients {
		heap(&c.held, "held", reserved, isDue)
		n := 0
		list(&c.heldList, func(j *job) {
			n++
			if place[j] != "held" || s.holderOf(j) != c {
				fail("job %d is in the list of a client that does not hold it", j.id)
			}
		})
		if n != c.held.len() {
			fail("a client holds %d jobs, or %d", n, c.held.len())
		}
		next := c.soonest()
		if c.queued {
			next = earlier(earlier(next, c.timeoutAt), c.soon(c.soonestElsewhere))
			if c.counted {
				waiting++
			}
		}
		needs(&c.due, next, "a client")
		var last *listener
		for l := c.listens; l != nil; l = l.clientNext {
			if l.client != c || l.clientPrev != last || s.taskOf(l.job) == nil {
				fail("a client waits for a job without a task, or its list is linked wrongly")
			}
			last = l
			listening--
		}
		asleep := 0
		for i, w := range c.watches {
			if w.place != i || c.watchOn(w.tube) != w {
				fail("watch %d of a client is not found where it is", i)
			}
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
	weighs := make(map[uint32]int64)
	for j := range s.all() {
		if place[j] == "" {
			fail("job %d is nowhere", j.id)
		}
		jobs++
		memory += footprint(int(j.size))
		task := s.taskOf(j)
		unwanted := j.state == reserved && (task == nil || !task.Background && task.listeners == 0)
		if j.foreground && !unwanted && (task == nil || task.Background || task.listeners == 0 || j.state == buried) {
			fail("job %d is in the foreground, %v, but nobody waits for it", j.id, j.state)
		}
		if j.fails && (j.state != reserved || s.holderOf(j).waiter.inbox == nil || j.at == noDeadline) {
			fail("job %d, %v, is to fail at %d", j.id, j.state, j.at)
		}
		switch {
		case s.logs(j):
			live += s.weight(j)
			in[j.file]++
			weighs[j.file] += s.weight(j)
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
		if n := weighs[uint32(seg.index)]; seg.live != n {
			fail("segment %d counts %d bytes for %d", seg.index, seg.live, n)
		}
	}
	if jobs != s.jobs || jobs != len(place) {
		fail("%d jobs are counted for %d in the directory and %d in their places", s.jobs, jobs, len(place))
	}
	if memory += excess(s.slab.unused); memory != s.memory.total {
		fail("%d bytes counted for %d", s.memory.total, memory)
	}
	if d := s.memory.drift; d > s.memory.slack || d < -s.memory.slack {
		fail("%d bytes not reported, with a slack of %d", d, s.memory.slack)
	}
	got := TubeStats{Urgent: s.urgent, Ready: s.ready, Reserved: s.reserved, Delayed: s.delayed, Buried: s.buried}
	if got != sum {
		fail("sums are %+v for %+v", got, sum)
	}
	if queued != s.queued || waiting != len(s.waitingClients) {
		fail("%d queued, %d waiting are counted for %d, %d", s.queued, len(s.waitingClients), queued, waiting)
	}

	for i, d := range s.dues {
		if d.pos != i || d.at == 0 || i > 0 && d.at < s.dues[(i-1)/2].at {
			fail("due %d for %d is at %d", d.pos, d.at, i)
		}
	}
	if len(s.dues) > 0 && (s.armed == 0 || s.armed > s.dues[0].at) {
		fail("the timer is set for %d, but %d comes first", s.armed, s.dues[0].at)
	}
	s.checkStore(fail)
	return err
}

// soonestOf returns the earliest deadline in a heap, 0 for none.
func soonestOf(h *jobHeap) int64 {
	if j := h.top(); j != nil {
		return j.at
	}
	return 0
}

func (h *heirs) len() int {
	if h == nil {
		return 0
	}
	return h.Len()
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

// checkStore looks at where the jobs are, and at the tables of what they refer to.
func (s *Shard) checkStore(fail func(string, ...any)) {
	used, large, tasks := make(map[uint32]uint32), 0, 0
	holders := make(map[*Client]bool)
	for j := range s.all() {
		c := s.slab.chunks[j.chunk]
		at := uintptr(unsafe.Pointer(j)) - uintptr(unsafe.Pointer(&c.memory[0]))
		if at%uintptr(c.slot) != 0 || at >= uintptr(c.fresh) || int(c.slot) != slotSize(slotFor(int(j.size))) {
			fail("job %d with a body of %d bytes is at %d of a chunk of slots of %d bytes", j.id, j.size, at, c.slot)
		}
		used[j.chunk]++
		if len(s.body(j)) != int(j.size) {
			fail("the body of job %d is not all there", j.id)
		}
		if j.size > uint32(Inline) {
			large++
		}
		if s.taskOf(j) != nil {
			tasks++
		}
		if t := s.tubeOf(j); t == nil || s.tubes[t.Name] != t {
			fail("job %d is in no tube", j.id)
		}
		if c := s.holderOf(j); (c != nil) != (j.state == reserved) {
			fail("job %d is %v, and has a holder: %t", j.id, j.state, c != nil)
		} else if c != nil {
			holders[c] = true
		}
	}
	unused := int64(0)
	for _, c := range s.slab.chunks {
		if c.used > 0 {
			unused += chunkSize - int64(c.used)*int64(c.slot)
		}
	}
	if unused != s.slab.unused {
		fail("%d bytes of the slab count as unused for %d", s.slab.unused, unused)
	}
	roomy := make(map[*chunk]bool)
	for i, c := range s.slab.room {
		var last *chunk
		for ; c != nil; c = c.next {
			if c.full() || c.used == 0 || int(c.slot) != i*slotStep || c.prev != last {
				fail("a chunk of %d used slots of %d bytes is in the list of those with room for %d, or linked wrongly", c.used, c.slot, i*slotStep)
			}
			roomy[c] = true
			last = c
		}
	}
	if s.slab.spares.most != s.cfg.Budget.spare {
		fail("%d chunks may be spare, want %d", s.slab.spares.most, s.cfg.Budget.spare)
	}
	for i, c := range s.slab.chunks {
		free := uint32(0)
		for j := c.free; j != nil && c.used > 0; j = j.next {
			if j.chunk != uint32(i) {
				fail("a slot of chunk %d is on the free list of %d", j.chunk, i)
			}
			free++
		}
		if c.number != uint32(i) || c.used != used[uint32(i)] || c.used > 0 && (c.used+free)*c.slot != c.fresh {
			fail("chunk %d (%d) counts %d used slots for %d, %d free up to %d", i, c.number, c.used, used[uint32(i)], free, c.fresh)
		}
		idle := slices.Contains(s.slab.spares.list, c) || slices.Contains(s.slab.empty, c)
		if idle != (c.used == 0) || c.used > 0 && roomy[c] == c.full() {
			fail("chunk %d, of %d used slots, is not where it belongs", i, c.used)
		}
	}
	for t := range holders {
		if s.holders.at(t.number) != t {
			fail("a client that has jobs has another's number")
		}
		for j := range t.notes {
			if s.holderOf(j) != t {
				fail("a client has noted something of a job that it has not")
			}
		}
	}
	for _, t := range s.tubes {
		if s.tubeTable.at(t.number) != t {
			fail("tube %s has another's number", t.Name)
		}
	}
	if n := s.tubeTable.len(); n != len(s.tubes) {
		fail("%d tubes have numbers, of %d", n, len(s.tubes))
	}
	if s.bodies.len() != large || s.tasks.len() != tasks {
		fail("there are %d large bodies and %d tasks, for jobs with %d and %d", s.bodies.len(), s.tasks.len(), large, tasks)
	}
}

// len is how many have numbers.
func (t *table[T]) len() int { return len(t.all) - len(t.free) }

// checkKeys tells what is wrong with the table of f's keys, which is t's.
func (s *Shard) checkKeys(f *function, t *Tube) error {
	keyed := 0
	for j := range s.all() {
		if s.tubeOf(j) == t && j.tasked != 0 && s.taskOf(j).keyed {
			keyed++
		}
	}
	if keyed != f.keys.len() {
		return fmt.Errorf("%d jobs have keys, %d are in the table", keyed, f.keys.len())
	}
	has := func(j *job, key taskKey) bool {
		if s.job(j.id) != j || s.tubeOf(j) != t || s.taskOf(j) == nil || !s.taskOf(j).keyed || j.state == buried {
			return false
		}
		its, ok := s.taskOf(j).keyOf(s.body(j))
		return ok && its == key && s.taskOf(j).hash == s.hash(key)
	}
	for hash, ref := range f.keys.byHash {
		task := s.taskOf(ref.job())
		if task == nil {
			return fmt.Errorf("job %d has a key and no task", ref.job().id)
		}
		if key, _ := task.keyOf(s.body(ref.job())); hash != s.hash(key) || !has(ref.job(), key) {
			return fmt.Errorf("job %d is found by the hash of another's key", ref.job().id)
		}
	}
	for key, j := range f.keys.others {
		if !has(j, key) {
			return fmt.Errorf("job %d is found by another's key", j.id)
		}
	}
	return nil
}
