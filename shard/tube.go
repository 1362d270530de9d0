package shard

import "slices"

// Tube is a named queue. Its name and shard never change and any goroutine may read
// them; all else belongs to whoever has its shard's turn. A *Tube from the answer to Use,
// Watch, Attach or CanDo may be named in requests until the matching Unuse or Ignore: the
// tube lives at least as long.
type Tube struct {
	Name  string
	Shard int // its index

	number uint32 // in jobStore.tubeTable

	ready   jobHeap // by (priority, id)
	delayed jobHeap // by deadline
	buried  jobList // in the order of burying
	waiters watchList

	function *function // nil if the tube is none to Gearman

	due due // the next delay or pause to run out

	pausedUntil int64  // on the shards' clock; 0 when not paused
	pauseFor    uint32 // seconds; 0 when not paused

	urgent   int    // ready jobs of an urgent priority
	low      int    // ready jobs of Gearman's low priority
	later    [3]int // delayed jobs of Gearman's priorities, see bandOf
	reserved int    // jobs that are with clients
	jobs     int    // in any state
	total    uint64 // jobs ever put

	using, watching int // clients

	deletes, pauses uint64 // commands so far
}

// paused tells whether the tube's ready jobs may not be reserved now.
func (t *Tube) paused() bool { return t.pausedUntil != 0 }

// idle tells whether nothing keeps the tube alive.
func (t *Tube) idle() bool {
	return t.using == 0 && t.watching == 0 && t.jobs == 0 && t.function == nil
}

// listed tells whether Gearman's administration lists t: as a function that was named, or
// since it has jobs for its workers.
func (t *Tube) listed() bool { return t.function != nil || t.jobs > t.buried.n }

// queued is how many jobs are ready or delayed.
func (t *Tube) queued() int { return t.ready.len() + t.delayed.len() }

// queuedIDs returns the ids of those, in order.
func (t *Tube) queuedIDs() []uint64 {
	ids := make([]uint64, 0, t.queued())
	for i := range t.ready.len() {
		ids = append(ids, t.ready.at(i).lo)
	}
	for i := range t.delayed.len() {
		ids = append(ids, t.delayed.at(i).ref.job().id)
	}
	slices.Sort(ids)
	return ids
}

// watch is a client's watch on one tube, and its place in one of the tube's queues: of
// waiting clients, or of a function's sleepers.
type watch struct {
	client     *Client
	tube       *Tube
	prev, next *watch
	place      int    // in the client's watches
	timeout    uint32 // of a Gearman worker: seconds after which the job has failed; 0 for none
}

// watchList is a queue of watches, first come first served. The zero value is empty.
type watchList struct{ head, tail *watch }

func (l *watchList) append(w *watch) {
	w.prev, w.next = l.tail, nil
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

func (l *watchList) remove(w *watch) {
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// tube returns the tube of that name, made if need be.
func (s *Shard) tube(name string) *Tube {
	t := s.tubes[name]
	if t == nil {
		t = s.newTube(name)
		s.addTube(t)
	}
	return t
}

func (s *jobStore) newTube(name string) *Tube {
	t := &Tube{Name: name}
	t.number = s.tubeTable.add(t)
	t.due.owner = t
	return t
}

// addTube makes t a tube of this shard.
func (s *Shard) addTube(t *Tube) {
	t.Shard = s.cfg.Index
	s.tubes[t.Name] = t
	s.tellRoster(tubeBorn, t.Name)
}

// drop forgets t if nothing keeps it alive. Everything that may take away its last job,
// user, watcher or its function ends with it.
func (s *Shard) drop(t *Tube) {
	if !t.idle() || t.Name == DefaultTube {
		return
	}
	s.unschedule(&t.due)
	removeKey(&s.tubes, &s.mostTubes, t.Name)
	s.tubeTable.remove(t.number)
	s.tellRoster(tubeGone, t.Name)
}

// pause keeps t's ready jobs from being reserved for that many seconds from now. Zero
// ends a pause: the reference documents a second for it, but pauses for a nanosecond.
func (s *Shard) pause(t *Tube, seconds uint32) {
	t.pauses++
	if seconds == 0 {
		s.unpause(t)
		return
	}
	t.pauseFor = seconds
	t.pausedUntil = s.now + int64(seconds)*second
	s.schedule(&t.due, t.pausedUntil)
}

// unpause lets t's ready jobs be reserved again.
func (s *Shard) unpause(t *Tube) {
	t.pausedUntil, t.pauseFor = 0, 0
	s.offer(t)
	if j := t.ready.top(); j != nil {
		s.tellObservers(t, j.readyKey())
		s.wakeSleepers(t)
	}
}

// expire ends t's delays and its pause if they have come due, and returns when the next
// one does, 0 for never.
func (t *Tube) expire(s *Shard) int64 {
	for j := t.delayed.top(); j != nil && j.at <= s.now && s.patient(); j = t.delayed.top() {
		s.quota--
		s.undelay(j)
		s.makeReady(j)
	}
	if t.paused() && t.pausedUntil <= s.now {
		s.unpause(t)
	}
	next := t.pausedUntil
	if j := t.delayed.top(); j != nil && (next == 0 || j.at < next) {
		next = j.at
	}
	return next
}
