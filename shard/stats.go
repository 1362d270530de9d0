package shard

// JobStats is the answer of StatsJob. Times are in whole seconds.
type JobStats struct {
	ID                                          uint64
	Tube, State                                 string
	Pri, Delay, TTR                             uint32
	Age, TimeLeft                               int64
	Reserves, Timeouts, Releases, Buries, Kicks uint32
	File                                        uint64 // segment of the log, 0 if there is none
}

// TubeStats is the answer of StatsTube. Times are in whole seconds.
type TubeStats struct {
	Name                                     string
	Urgent, Ready, Reserved, Delayed, Buried int
	Total                                    uint64
	Using, Watching, Waiting                 int
	Deletes, Pauses                          uint64
	Pause                                    uint32
	PauseLeft                                int64
}

// Stats is the answer of Gather: one shard's part of the server's statistics.
type Stats struct {
	Urgent, Ready, Reserved, Delayed, Buried, Waiting int
	Total, Timeouts                                   uint64
	Tubes                                             int
	// Served counts the commands that reached a shard, by Op.
	Served [NumOps]uint64
	// Memory is how many bytes of the memory budget the shard's jobs take.
	Memory int64

	// Queued counts the places that clients have in the queues of tubes, and
	// Observers the clients whose probes are remembered (some of them stale):
	// for checking that no wait is left behind.
	Queued, Observers int
}

// Add sums up.
func (a *Stats) Add(b *Stats) {
	a.Urgent += b.Urgent
	a.Ready += b.Ready
	a.Reserved += b.Reserved
	a.Delayed += b.Delayed
	a.Buried += b.Buried
	a.Waiting += b.Waiting
	a.Total += b.Total
	a.Timeouts += b.Timeouts
	a.Tubes += b.Tubes
	for op, n := range b.Served {
		a.Served[op] += n
	}
	a.Memory += b.Memory
	a.Queued += b.Queued
	a.Observers += b.Observers
}

// stillWaits tells whether no shard has ended the client's wait. After its end the client
// stays in the queues of the other shards until it tells them, and must not be counted
// among those that wait meanwhile.
func (c *Client) stillWaits() bool {
	return c.waiter.is(c.seq, waiting) || c.waiter.is(c.seq, probing) || c.waiter.is(c.seq, dirty)
}

func (s *Shard) stats() *Stats {
	waiting := 0
	for _, c := range s.waitingClients {
		if c.stillWaits() {
			waiting++
		}
	}
	return &Stats{
		Urgent: s.urgent, Ready: s.ready, Reserved: s.reserved, Delayed: s.delayed, Buried: s.buried,
		Waiting: waiting, Total: s.total, Timeouts: s.timeouts, Tubes: len(s.tubes),
		Served: s.served, Memory: s.memory.total, Queued: s.queued, Observers: len(s.observers),
	}
}

func (s *Shard) tubeStats(t *Tube) *TubeStats {
	waiting := 0
	for w := t.waiters.head; w != nil; w = w.next {
		if w.client.stillWaits() {
			waiting++
		}
	}
	st := &TubeStats{
		Name: t.Name, Urgent: t.urgent, Ready: t.ready.len(), Reserved: t.reserved,
		Delayed: t.delayed.len(), Buried: t.buried.n, Total: t.total,
		Using: t.using, Watching: t.watching, Waiting: waiting,
		Deletes: t.deletes, Pauses: t.pauses, Pause: t.pauseFor,
	}
	if t.paused() {
		st.PauseLeft = s.timeLeft(t.pausedUntil)
	}
	return st
}

func (s *Shard) jobStats(j *job) *JobStats {
	st := &JobStats{
		ID: j.id, Tube: s.tubeOf(j).Name, State: j.state.String(), Pri: j.pri, Delay: j.delay, TTR: j.ttr,
		Age:      (s.now - j.created) / second,
		Reserves: j.reserves, Timeouts: j.timeouts, Releases: j.releases, Buries: j.buries, Kicks: j.kicks,
	}
	if s.logs(j) {
		st.File = s.segments.of(j.file).index
	}
	if (j.state == delayed || j.state == reserved) && j.at != noDeadline {
		st.TimeLeft = s.timeLeft(j.at)
	}
	return st
}

// timeLeft returns the whole seconds left until a deadline. The clock stands
// still during a batch, though time passes from command to command: a deadline
// that was set in this batch is a moment nearer by now. One that has passed may
// not have been met yet.
func (s *Shard) timeLeft(at int64) int64 { return max(0, at-s.now-1) / second }
