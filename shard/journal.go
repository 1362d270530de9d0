package shard

import "github.com/sheafq/sheaf/binlog"

// journal is the shard's side of its log: what it appends at each transition,
// what waits for that, and how much of each segment is still needed. All of it
// belongs to whoever has the shard's turn, except an outbox that was handed to the log.
//
// Whatever has to survive a crash is appended. A crash ends all reservations, so
// giving a job back needs no record; nor does a delay that runs out, or a touch.
type journal struct {
	log *binlog.Log // nil if there is none: then nothing else here is used
	// failed tells whether the log had failed at the beginning of the batch.
	failed bool
	wall   int64   // Unix time at 0 of the shards' clock, in nanoseconds, as of this batch
	outbox *outbox // what waits for this batch
	logged bool    // something was appended for the request that is being served
	record binlog.Job

	burials  uint64   // so far: the number of its burial is what orders a buried job
	notedID  uint64   // the last id that the log notes as given out, see logID
	segments segments // the last is being written
	sealed   int64    // bytes in all but the last
	small    int      // how many of these have hardly any
	live     int64    // bytes in all of them that are still needed
	cleaning bool     // the cleaner is at work on the oldest
	toClean  bool     // the oldest is to be cleaned once it is written
	// most is the largest number of bytes that cleaning may have to copy of one
	// segment. It was computed when the segments mostAsOf were the first and the last;
	// until those change it can only be too high.
	most     int64
	mostAsOf [2]uint64
	// changes counts the records appended, except by cleaning. A cleaning pass goes
	// through all segments up to passEnd; changesThen is what changes was at its start.
	changes, changesThen, passEnd uint64
	cleaner                       *cleaner
	// cleanAfter is when cleaning may be tried again, on the shards' clock, after it
	// was given up for lack of disk space.
	cleanAfter int64
}

// beginBatch reads the clock, and finds out whether the log has failed.
func (s *Shard) beginBatch() {
	s.now, s.wall = s.cfg.Clock.read()
	if s.log == nil {
		return
	}
	s.failed = s.log.Err() != nil
}

// endBatch tells the clients what was answered in this batch, or leaves that to the
// log for when it has the batch.
func (s *Shard) endBatch() {
	if s.log != nil && !s.failed {
		s.tidy()
	}
	if s.log != nil && s.log.Appended() {
		s.segments.last().bytes += binlog.BlockOverhead
		s.log.Weigh(s.live)
	}
	switch o := s.outbox; {
	case s.log == nil, o.empty() && !s.log.Appended(), s.log.Commit(o, s.jobs):
		o.deliver(nil)
	default:
		s.outbox = outboxes.Get().(*outbox)
	}
	if s.log != nil && !s.failed {
		s.roll()
	}
	for i, w := range s.atOnce {
		s.atOnce[i] = nil
		w.answered()
	}
	s.atOnce = s.atOnce[:0]
}

// roll finds out which segment the next batch goes to. If it is a new one, earlier
// ones may be of no use any more. The record of that is committed here, since there
// may be no other batch for a while.
func (s *Shard) roll() {
	index := s.log.Segment()
	if index == s.segments.last().index {
		return
	}
	s.seal(s.segments.last(), 1)
	s.segments.add(index)
	s.tidy()
	s.log.Commit(nil, s.jobs)
}

// logPut appends the whole of j.
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

// place notes that j is now in the segment that is being written.
func (s *Shard) place(j *job) {
	seg := s.segments.last()
	j.file = uint32(seg.index)
	seg.jobs++
	seg.live += s.weight(j)
	s.live += s.weight(j)
}

// displace notes that j is no longer in its segment, nor in another yet.
func (s *Shard) displace(j *job) {
	seg := s.segments.of(j.file)
	seg.jobs--
	seg.live -= s.weight(j)
	s.live -= s.weight(j)
	j.file = 0
}

// logChange appends j's new state and counters.
func (s *Shard) logChange(j *job, state binlog.State, at int64) {
	if !s.logs(j) || s.failed || !s.log.FitsUnasked(s.copies()) {
		// On a full disk only counters may be lost: a change of state was refused
		// before it came here.
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

// meta returns what the log keeps of j that may change. at is when its delay ends, or
// the number of its burial.
func (j *job) meta(state binlog.State, at int64) binlog.Meta {
	return binlog.Meta{
		ID: j.id, State: state, Pri: j.pri, Delay: j.delay, At: at,
		Reserves: j.reserves, Timeouts: j.timeouts, Releases: j.releases, Buries: j.buries, Kicks: j.kicks,
	}
}

// mostPut returns how many bytes the record of j takes at most.
func (s *jobStore) mostPut(j *job) int {
	return binlog.MostPut(len(s.tubeOf(j).Name), int(j.size), s.taskOf(j).size())
}

// fill fills in what never changes of j, except the time of its creation.
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

// idStep is how many ids one record notes as given out, see logID.
const idStep = 1024

// logID makes sure that the id of a job that the log does not have is not given out
// again after a crash: a worker may still have that job then, and would delete
// another. It appends the deletion of a job that never was, with a higher id;
// recovery takes all ids up to that one as given out.
//
// This does not make the request wait for the log: the job is there whether or not
// the record is written, and its client hears of its end in any case.
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

// weightOff is by how many bytes a job's record may exceed its weight.
const weightOff = 24

// weight returns about how many bytes j takes in the log. It never changes while the
// job and its task, if it has one, are there.
func (s *jobStore) weight(j *job) int64 {
	return 24 + int64(len(s.tubeOf(j).Name)+int(j.size)+s.taskOf(j).size())
}

// refused tells whether a change cannot be made because the log cannot take it, and
// answers r then.
func (s *Shard) refused(r *Request) bool {
	switch {
	case s.log == nil:
		return false
	case s.failed:
		r.Status = Failed
	case !s.log.FitsChange(s.copies()):
		s.noRoom(r)
		s.lacksRoom = true
	default:
		return false
	}
	return true
}

// noRoom answers r, for which the log has no room: the disk is full, or failed when
// the log tried to set more space aside.
func (s *Shard) noRoom(r *Request) {
	r.Status = OutOfMemory
	if s.log.Err() != nil {
		s.failed = true
		r.Status = Failed
	}
}

// logFailure ends all waits in reserve, since no job is given out any more, and all
// waits for the end of a job that no worker has, since none will get it.
func (s *Shard) logFailure() {
	s.failed, s.stalls.recheck = true, true
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
