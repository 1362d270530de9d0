package shard

import (
	"sync"

	"github.com/sheafq/sheaf/binlog"
)

// journal is the shard's side of its log: what it appends at each transition,
// what waits for that, and how much of each segment is still needed. All of it
// belongs to the shard's goroutine, but for what is handed over with a held.
//
// Appended is whatever has to be there after a crash. That a job is reserved is
// forgotten then, so giving it back needs no record; nor does a delay that runs
// out, or a touch.
type journal struct {
	log *binlog.Log // nil if there is none: then nothing else here is used
	// failed is that the log has failed, as of the beginning of the batch.
	failed bool
	wall   int64 // Unix time at 0 of the shards' clock, in nanoseconds, as of this batch
	held   *held // what waits for this batch
	logged bool  // something was appended for the request that is being served
	record binlog.Job

	burials uint64 // how many there were, which is how the order of buried jobs is kept
	notedID uint64 // up to which one ids are noted in the log, see logID

	segments segments // the last is being written
	sealed   int64    // bytes in all but the last
	live     int64    // bytes of them all that are needed
	cleaning bool
	// toClean is that the oldest is to be cleaned once it is written.
	toClean bool
	// most is what cleaning may have to copy of a segment, as it was when mostAsOf
	// became the first and the last; they only become smaller.
	most     int64
	mostAsOf [2]uint64
	// changes counts what was appended, but by cleaning. changesThen is what it was
	// when cleaning began to go through all segments, up to passEnd.
	changes, changesThen, passEnd uint64
	cleaner                       *cleaner
	// cleanAfter is when cleaning may be tried again after it was given up for
	// want of disk space, on the shards' clock.
	cleanAfter int64
}

// held is what is told to clients only when a batch is in the log. The shard
// fills it, the log's goroutine empties it.
type held struct {
	changed           []*Request // for which something was appended
	answered, granted []*Waiter
	events            []sent
}

// sent is an event on its way.
type sent struct {
	to     *Inbox
	event  *Event
	logged bool // it is true only if the log has the batch
}

var heldPool = sync.Pool{New: func() any { return new(held) }}

// Release is binlog.Held's: the log calls it when the batch is safe, or never
// will be.
func (h *held) Release(err error) {
	h.release(err)
	heldPool.Put(h)
}

// empty tells whether nobody waits.
func (h *held) empty() bool { return len(h.answered) == 0 && len(h.granted) == 0 && len(h.events) == 0 }

// release tells the clients, and leaves h empty.
func (h *held) release(err error) {
	for i, r := range h.changed {
		if err != nil {
			r.Status = Failed
		}
		h.changed[i] = nil
	}
	for i, w := range h.answered {
		h.answered[i] = nil
		w.answered()
	}
	for i, w := range h.granted {
		if err != nil {
			w.grant = Grant{Status: Failed, Shard: w.grant.Shard, Soonest: w.grant.Soonest}
		}
		h.granted[i] = nil
		w.release()
	}
	for i, e := range h.events {
		if err != nil && e.logged && e.event.Kind == Complete {
			// It is not known whether the job is gone.
			e.event.Kind, e.event.Data = Fail, nil
		}
		h.events[i] = sent{}
		e.to.put(e.event)
	}
	h.changed, h.answered, h.granted, h.events = h.changed[:0], h.answered[:0], h.granted[:0], clipped(h.events[:0])
}

// beginBatch looks what time it is, and whether there still is a log.
func (s *Shard) beginBatch() {
	s.now, s.wall = s.cfg.Clock.read()
	if s.log == nil {
		return
	}
	s.failed = s.log.Err() != nil
}

// endBatch has the clients told what was answered in this batch, at once or
// when the log has it.
func (s *Shard) endBatch() {
	if s.log != nil && !s.failed {
		s.tidy()
	}
	if s.log != nil && s.log.Appended() {
		s.segments.last().bytes += binlog.BlockOverhead
		s.log.Weigh(s.live)
	}
	switch h := s.held; {
	case s.log == nil, h.empty() && !s.log.Appended(), s.log.Commit(h, s.jobs):
		h.release(nil)
	default:
		s.held = heldPool.Get().(*held)
	}
	if s.log != nil && !s.failed {
		s.roll()
	}
	for i, w := range s.told {
		s.told[i] = nil
		w.answered()
	}
	s.told = s.told[:0]
}

// roll looks where the next batch goes. If that is to a new segment, those
// before it may be of no use any more, and it is the last batch for a while.
func (s *Shard) roll() {
	index := s.log.Segment()
	if index == s.segments.last().index {
		return
	}
	s.sealed += s.segments.last().bytes
	s.segments.add(index)
	s.tidy()
	s.log.Commit(nil, s.jobs)
}

// answer has a client told that its chain is answered.
func (s *Shard) answer(w *Waiter, op Op) {
	if !s.awaits(op) {
		s.told = append(s.told, w)
		return
	}
	s.held.answered = append(s.held.answered, w)
}

// awaits tells whether the answer of op waits for the log. What is only between
// the engine and itself need not: it is no news to a client before the command
// it belongs to is answered.
func (s *Shard) awaits(op Op) bool {
	return s.log != nil && (op <= PauseTube || op == Take || op == CancelJob || op == DropFunction || op == clean)
}

// logPut appends j, all of it.
func (s *Shard) logPut(j *job, state binlog.State, at int64) {
	if !s.logs(j) {
		return
	}
	r := &s.record
	s.meta(&r.Meta, j, state, at)
	r.Created = j.created + s.wall
	s.fill(r, j)
	s.appended(s.log.Put(r))
	r.Body = nil
	s.place(j)
}

// place notes that j is in the segment that is written.
func (s *Shard) place(j *job) {
	seg := s.segments.last()
	j.file = uint32(seg.index)
	seg.jobs++
	seg.live += s.weight(j)
	s.live += s.weight(j)
}

// displace notes that j is no longer in the segment where it was, nor in any
// other as yet.
func (s *Shard) displace(j *job) {
	seg := s.segments.of(j.file)
	seg.jobs--
	seg.live -= s.weight(j)
	s.live -= s.weight(j)
	j.file = 0
}

// logChange appends what j has become.
func (s *Shard) logChange(j *job, state binlog.State, at int64) {
	if !s.logs(j) || s.failed || !s.log.FitsChange(s.copies()) {
		// On a disk that is full to the brim, counters are what gives way; what
		// would change more has been refused.
		return
	}
	var m binlog.Meta
	s.meta(&m, j, state, at)
	s.appended(s.log.Change(&m))
}

func (s *Shard) meta(m *binlog.Meta, j *job, state binlog.State, at int64) {
	if state == binlog.Delayed {
		at += s.wall
	}
	*m = j.meta(state, at)
}

// meta returns what the log has of j, which is in that state, until at.
func (j *job) meta(state binlog.State, at int64) binlog.Meta {
	return binlog.Meta{
		ID: j.id, State: state, Pri: j.pri, Delay: j.delay, At: at,
		Reserves: j.reserves, Timeouts: j.timeouts, Releases: j.releases, Buries: j.buries, Kicks: j.kicks,
	}
}

// mostPut is how many bytes the record of j takes at most.
func (s *jobStore) mostPut(j *job) int {
	return binlog.MostPut(len(s.tubeOf(j).Name), int(j.size), s.taskOf(j).size())
}

// fill fills in what of j never changes, but for the time.
func (s *jobStore) fill(r *binlog.Job, j *job) {
	task := s.taskOf(j)
	r.TTR, r.Tube, r.Body = j.ttr, s.tubeOf(j).Name, s.body(j)[:j.size-2]
	r.Task, r.Unique, r.Reducer = task != nil, "", ""
	if task != nil {
		r.Unique, r.Reducer = task.Unique, task.Reducer
	}
}

func (s *Shard) logDelete(j *job) {
	if !s.logs(j) {
		return
	}
	s.displace(j)
	if !s.failed {
		s.appended(s.log.Delete(j.id))
	}
}

// idStep is how many ids are noted in the log at once, see logID.
const idStep = 1024

// logID sees to it that an id, which is of a job that the log does not have, is
// not given out again after a crash: a worker may still have that job then, and
// would delete another. What is written is that a job is no more which never was;
// ids up to it count as given out.
//
// It does not count as logged for the request: the job is there whether the log gets
// that or not. Its client is told of it, and then of its end.
func (s *Shard) logID(id uint64) {
	if s.log == nil || id <= s.notedID || !s.log.FitsChange(s.copies()) {
		return
	}
	s.notedID = id + idStep - 1
	s.cfg.Directory.note(s.notedID) // for when the record is cleaned away
	s.segments.last().bytes += int64(s.log.Delete(s.notedID))
}

func (s *Shard) appended(bytes int) {
	s.changes++
	s.segments.last().bytes += int64(bytes)
	s.logged = true
}

// weightOff is how many bytes more than its weight a job may take.
const weightOff = 24

// weight is about how many bytes j takes in the log. It stays the same for as
// long as the job is there, with its task, if it has one.
func (s *jobStore) weight(j *job) int64 {
	return 24 + int64(len(s.tubeOf(j).Name)+int(j.size)+s.taskOf(j).size())
}

// refused tells whether a change cannot be made because it would not get into
// the log, and answers r.
func (s *Shard) refused(r *Request) bool {
	switch {
	case s.log == nil:
		return false
	case s.failed:
		r.Status = Failed
	case !s.log.FitsChange(s.copies()):
		s.noRoom(r)
		s.lacks = true
	default:
		return false
	}
	return true
}

// noRoom answers r, for which the log has no room: the disk is full, or has
// failed when more space was to be set aside.
func (s *Shard) noRoom(r *Request) {
	r.Status = OutOfMemory
	if s.log.Err() != nil {
		s.failed = true
		r.Status = Failed
	}
}

// logFailure ends the waits of those who wait for jobs that will not come, and of
// those who wait for what jobs come to that nobody will get.
func (s *Shard) logFailure() {
	s.failed, s.stalls.news = true, true
	s.endWaits(Failed)
	for j := range s.all() {
		if task := s.taskOf(j); task != nil && task.listeners > 0 && j.state != reserved {
			s.finish(j, Fail, nil)
			if j.foreground {
				s.remove(j)
				s.discard(j)
			}
		}
	}
}
