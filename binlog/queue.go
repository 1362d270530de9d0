package binlog

import "sync"

// queue passes groups from the shard to the writer, and those that are done with back
// to the shard. Batches that come while the writer is busy become one group there, as
// long as it does not grow too large.
type queue struct {
	mu      sync.Mutex
	groups  []*group      // committed, not yet taken by the writer; under mu
	free    []*group      // to be used again; under mu
	busy    bool          // the writer has taken something and not released it; under mu
	records int           // in groups; under mu
	wakeAt  int           // records that the writer waits for; 0 if it does not; under mu
	closing bool          // under mu
	wake    chan struct{} // room for one token for the writer
}

func newQueue() queue { return queue{wake: make(chan struct{}, 1)} }

// add takes a batch over, for which held waits, and returns the group to be filled next.
// Only if the batch is empty and all before it are released, it reports that the queue
// is idle: then held is not kept, since there is nothing to wait for.
func (q *queue) add(g *group, held Held) (next *group, idle bool) {
	q.mu.Lock()
	if g.records == 0 && !q.busy && len(q.groups) == 0 {
		q.mu.Unlock()
		return g, true
	}
	if n := len(q.groups); n > 0 && q.groups[n-1].takes(g) {
		q.groups[n-1].join(g, held)
		enough := q.count(g.records)
		q.mu.Unlock()
		g.reset()
		if enough {
			poke(q.wake)
		}
		return g, false
	}
	g.wait(held)
	q.groups = append(q.groups, g)
	enough := q.count(g.records) || !q.busy
	q.busy = true
	if n := len(q.free); n > 0 {
		next, q.free = q.free[n-1], q.free[:n-1]
	} else {
		next = newGroup()
	}
	q.mu.Unlock()
	if enough {
		poke(q.wake)
	}
	return next, false
}

// count counts records that come, and tells whether they make it as many as the writer
// waits for. The caller holds mu.
func (q *queue) count(records int) bool {
	before := q.records
	q.records += records
	return before < q.wakeAt && q.records >= q.wakeAt
}

// take gives the writer all groups that there are. It takes back those that the writer
// has released, and their slice.
func (q *queue) take(released []*group) (groups []*group, closing bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, g := range released {
		g.reset()
		if len(q.free) < 3 {
			q.free = append(q.free, g)
		}
		released[i] = nil
	}
	groups, q.groups = q.groups, released[:0]
	q.records = 0
	q.busy = len(groups) > 0
	return groups, q.closing
}

// expect has the writer woken when about as many records are there as the last group
// had, and as came meanwhile. It reports false if they are there already, or if none
// will come.
func (q *queue) expect(last int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	expected := (last + q.records) * 7 / 8
	if q.records >= expected || q.closing {
		return false
	}
	q.wakeAt = expected
	return true
}

// expectNothing ends what expect began.
func (q *queue) expectNothing() {
	q.mu.Lock()
	q.wakeAt = 0
	q.mu.Unlock()
}

// close has the writer end when it has taken all that was added.
func (q *queue) close() {
	q.mu.Lock()
	q.closing = true
	q.mu.Unlock()
	poke(q.wake)
}

// isClosing tells whether close was called.
func (q *queue) isClosing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closing
}
