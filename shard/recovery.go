package shard

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/sheafq/sheaf/binlog"
)

// Recovery holds jobs on their way from the log to a shard that is about to start. It
// implements binlog.Sink. One goroutine at a time may use it, and none once it was given
// to New. Times in its jobs are Unix time, in nanoseconds.
type Recovery struct {
	jobStore
	jobs map[uint64]*job
	// list holds them in the order in which they were first found. That is about the
	// order of their ids, in which heaps are built fast.
	list jobList
	// tubes become those of the shard when they have jobs.
	tubes    map[string]*Tube
	segments segments // that the jobs are in; their bytes are known when all is read
	burials  uint64   // the highest number of a burial
	highest  uint64   // job id so far: a higher one cannot be in jobs
	line     []byte   // for a body with its CRLF
}

// NewRecovery returns a Recovery without jobs.
func NewRecovery() *Recovery {
	return &Recovery{jobs: make(map[uint64]*job), tubes: make(map[string]*Tube)}
}

// Replay reads stream i of the log. The errors are those of Store.Replay.
func (r *Recovery) Replay(store *binlog.Store, i int) error {
	read, err := store.Replay(i, r)
	with := r.segments
	r.segments = nil
	for _, seg := range read {
		// Some have no jobs in them.
		s := segment{index: seg.Index, bytes: seg.Bytes}
		if len(with) > 0 && with[0].index == seg.Index {
			s.jobs, with = with[0].jobs, with[1:]
		}
		r.segments = append(r.segments, s)
	}
	return err
}

// Jobs returns how many there are.
func (r *Recovery) Jobs() int { return len(r.jobs) }

// Put implements binlog.Sink.
func (r *Recovery) Put(b *binlog.Job, segment uint64) {
	var j *job
	if b.ID > r.highest {
		r.highest = b.ID
	} else {
		j = r.jobs[b.ID]
	}
	if j != nil && ((j.tasked != 0) != b.Task || !bytes.Equal(r.body(j)[:j.size-2], b.Body)) {
		r.Delete(b.ID) // a job's body and kind never change: this is another job
		j = nil
	}
	if j == nil {
		j = r.make(b.ID, r.withCRLF(b.Body))
		if b.Task {
			j.tasked = r.tasks.add(new(Task))
		}
	} else {
		r.segments.of(j.file).jobs--
	}
	r.segments.add(segment)
	j.file = uint32(segment)
	r.segments.of(j.file).jobs++
	j.ttr, j.created = max(b.TTR, 1), b.Created
	if t := r.tubeOf(j); t == nil || t.Name != b.Tube {
		j.inTube = r.tube(b.Tube).number
	}
	if task := r.taskOf(j); task != nil {
		task.Unique, task.Reducer, task.Background = b.Unique, b.Reducer, true
	}
	r.set(j, &b.Meta)
}

// withCRLF returns a copy of a body with its CRLF. A large one is the job's to keep, a
// small one is valid until the next call.
func (r *Recovery) withCRLF(body []byte) []byte {
	line := r.line[:0]
	if n := len(body) + len("\r\n"); n > Inline {
		line = make([]byte, 0, n)
	} else if cap(line) == 0 {
		r.line = make([]byte, 0, Inline)
		line = r.line
	}
	return append(append(line, body...), '\r', '\n')
}

// make returns a new job with that id and body, otherwise blank, entered among the jobs;
// see allot.
func (r *Recovery) make(id uint64, body []byte) *job {
	j := r.allot(id, body)
	if j == nil {
		panic("shard: the system has no memory for the jobs of the binlog")
	}
	r.jobs[id] = j
	r.list.append(j)
	return j
}

func (r *Recovery) tube(name string) *Tube {
	t := r.tubes[name]
	if t == nil {
		t = r.newTube(name)
		r.tubes[name] = t
	}
	return t
}

// Change implements binlog.Sink.
func (r *Recovery) Change(m *binlog.Meta) {
	if j := r.jobs[m.ID]; j != nil {
		r.set(j, m)
	}
}

func (r *Recovery) set(j *job, m *binlog.Meta) {
	j.state = [...]state{binlog.Ready: ready, binlog.Delayed: delayed, binlog.Buried: buried}[m.State]
	if m.State == binlog.Buried {
		r.burials = max(r.burials, uint64(m.At))
	}
	j.at, j.pri, j.delay = m.At, m.Pri, m.Delay
	j.reserves, j.timeouts, j.releases, j.buries, j.kicks = m.Reserves, m.Timeouts, m.Releases, m.Buries, m.Kicks
}

// Delete implements binlog.Sink.
func (r *Recovery) Delete(id uint64) {
	if j := r.jobs[id]; j != nil {
		r.segments.of(j.file).jobs--
		delete(r.jobs, id)
		r.list.remove(j)
		r.free(j)
	}
}

// Drop implements binlog.Sink: the segments before that one were dropped. A job that is
// still in one of them was deleted by a record that is gone already.
func (r *Recovery) Drop(segment uint64) {
	stale := 0
	for _, seg := range r.segments {
		if seg.index < segment {
			stale += seg.jobs
		}
	}
	for j := r.list.head; stale > 0 && j != nil; {
		next := j.next
		if j.file < uint32(segment) {
			r.Delete(j.id)
			stale--
		}
		j = next
	}
}

// Move gives each job to the Recovery that to returns for its tube, and leaves r without
// any. If that has a job with the same id, the moved one replaces it.
func (r *Recovery) Move(to func(tube string) *Recovery) {
	for j := r.list.head; j != nil; j = r.list.head {
		r.list.remove(j)
		name := r.tubeOf(j).Name
		t := to(name)
		t.segments.add(0)
		t.Delete(j.id)
		m := t.make(j.id, r.body(j))
		is := *m
		*m = *j
		m.prev, m.next, m.chunk = is.prev, is.next, is.chunk
		m.inTube, m.tasked, m.file = t.tube(name).number, 0, 0
		if task := r.taskOf(j); task != nil {
			m.tasked = t.tasks.add(task)
		}
		r.free(j)
		t.segments.of(0).jobs++
		t.burials = max(t.burials, r.burials)
		t.highest = max(t.highest, j.id)
	}
	*r = Recovery{}
}

// recoveredState returns the log's state of a job on its way from the log, which nobody
// has reserved.
func (j *job) recoveredState() binlog.State {
	return [...]binlog.State{ready: binlog.Ready, delayed: binlog.Delayed, buried: binlog.Buried}[j.state]
}

// Write writes all jobs to the log of the shard that they are for, and syncs it. The
// error is of the log, or says that the disk has no room.
func (r *Recovery) Write(log *binlog.Log) error {
	r.segments = nil
	size := 0
	for j := r.list.head; j != nil; j = j.next {
		if size == 0 {
			r.segments.add(log.Segment())
		}
		if !log.FitsPut(r.mostPut(j)) {
			return log.NoRoom()
		}
		record := binlog.Job{
			Meta:    j.meta(j.recoveredState(), j.at),
			Created: j.created,
		}
		r.fill(&record, j)
		n := log.Put(&record)
		seg := r.segments.last()
		seg.jobs++
		seg.bytes += int64(n)
		j.file = uint32(seg.index)
		if size += n; size >= min(1<<20, int(log.Step())) { // segments should not become too large
			if err := log.Flush(); err != nil {
				return err
			}
			size = 0
		}
	}
	return log.Flush()
}

// begin takes over the jobs of the log, before the shard's goroutine runs.
func (s *Shard) begin() {
	if s.log == nil {
		return
	}
	s.now, s.wall = s.cfg.Clock.read()
	if r := s.cfg.Recovery; r != nil {
		s.adopt(r)
		s.cfg.Recovery = nil
	} else {
		s.segments.add(s.log.Segment())
	}
	for i := range s.segments[:len(s.segments)-1] {
		s.seal(&s.segments[i], 1)
	}
	s.log.Holds(s.jobs, s.live)
	s.log.OnPrepared(func() { s.Send(&Request{Op: prepared}) })
	s.log.OnFailure(func() { s.Send(&Request{Op: failure}) })
	s.cleaner = newCleaner(s)
	go s.cleaner.run()
}

// adopt takes over the jobs of a Recovery. Jobs whose id another shard has get new ones.
func (s *Shard) adopt(r *Recovery) {
	s.jobStore, r.jobStore = r.jobStore, jobStore{}
	s.jobs, s.segments, s.burials = len(r.jobs), r.segments, r.burials
	var graves, twins []*job
	for j := r.list.head; j != nil; j = r.list.head {
		r.list.remove(j)
		if !s.cfg.Directory.tryEnter(j, s.cfg.Index) {
			twins = append(twins, j)
			continue
		}
		if j.state == buried {
			graves = append(graves, j)
		}
		s.restore(j)
	}
	s.segments.add(s.log.Segment())
	lost := 0
	for _, j := range twins {
		if !s.rename(j) {
			s.free(j)
			lost++
			continue
		}
		if j.state == buried {
			graves = append(graves, j)
		}
		s.restore(j)
	}
	for _, t := range r.tubes {
		if t.jobs == 0 {
			s.tubeTable.remove(t.number)
		}
	}
	if len(twins) > 0 {
		s.log.Renamed(len(twins)-lost, lost)
	}
	s.memory.charge(s.moreExcess())
	slices.SortFunc(graves, func(a, b *job) int { return cmp.Compare(a.at, b.at) })
	for _, j := range graves {
		s.tubeOf(j).buried.append(j)
		s.buried++
	}
}

// restore enters j and its task, if it has one, where they were. Only burying it is left
// to the caller, since buried jobs have to be in order.
func (s *Shard) restore(j *job) {
	t := s.tubeOf(j)
	if t.jobs == 0 {
		s.addTube(t)
	}
	t.jobs++
	j.created = min(j.created-s.wall, s.now) // also if the clock was set back
	s.memory.charge(footprint(int(j.size)))
	task := s.taskOf(j)
	s.live += s.weight(j)
	s.segments.of(j.file).live += s.weight(j)
	if task != nil {
		s.memory.charge(task.footprint())
		if j.state != buried { // else the tube may have been dropped as a function
			s.claimKey(j, task)
		}
	}
	at := j.at - s.wall
	if task == nil { // that of a task may be any time that its client has named
		at = min(at, s.now+int64(j.delay)*second)
	}
	switch {
	case j.state == buried:
	case j.state == delayed && at > s.now:
		s.makeDelayedUntil(j, at)
	default:
		s.makeReady(j)
	}
}

// rename gives j a new id, since another shard has a job with the same one. That comes of
// damage that was repaired: the job could not be read at an earlier start, its id was
// given out again, and now it can be read. If the disk is too full for it, rename reports
// false: then j is not served.
func (s *Shard) rename(j *job) bool {
	s.segments.of(j.file).jobs--
	if !s.log.FitsPut(s.mostPut(j)) {
		s.jobs--
		return false
	}
	old := j.id
	j.id = s.cfg.Directory.NextID()
	s.cfg.Directory.enter(j, s.cfg.Index)
	// Its state is still as in the log, and its times are Unix time.
	r := &s.record
	r.Meta = j.meta(j.recoveredState(), j.at)
	r.Created = j.created
	s.fill(r, j)
	s.appended(s.log.Put(r))
	r.Body = nil
	s.appended(s.log.Delete(old))
	last := s.segments.last()
	j.file = uint32(last.index)
	last.jobs++
	return true
}
