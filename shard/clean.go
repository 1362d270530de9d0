package shard

import (
	"errors"

	"github.com/sheafq/sheaf/binlog"
)

// Cleaning keeps the log small: at most about half of it are records that no longer
// matter, whatever jobs stay. It takes the oldest segment, writes the jobs that are
// still in it again at the end of the log, and drops it. (Always the oldest: then its
// records of deletions may go with it, since all other records of those jobs are older
// and gone.)
//
// A goroutine of its own reads the segment and tells the shard which jobs were put in
// it, a few at a time, like a client that waits for each answer. So it costs the shard
// no more than one more client would, and no memory for each job.

// cleanStep is about how many bytes of records the shard looks at in one go.
const cleanStep = 128 << 10

// cleaner is that goroutine. Its fields never change; client and waiter belong to it, as
// a connection's do.
type cleaner struct {
	shard  *Shard
	client *Client
	waiter *Waiter
	next   chan uint64 // the segment to clean; room for one
	quit   chan struct{}
	done   chan struct{}
}

func newCleaner(s *Shard) *cleaner {
	w := NewWaiter()
	return &cleaner{
		shard: s, waiter: w, client: NewClient(w),
		next: make(chan uint64, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
}

// run is the life of the goroutine.
func (c *cleaner) run() {
	defer close(c.done)
	for {
		select {
		case <-c.quit:
			return
		case segment := <-c.next:
			c.clean(segment)
		}
	}
}

// clean has the shard write the jobs of a segment again. It gives up if the shard cannot,
// or if it is to stop.
func (c *cleaner) clean(segment uint64) {
	step := int(min(cleanStep, c.shard.log.Step()))
	err := c.shard.log.ReadPuts(segment, step, func(ids []uint64) error {
		if c.ask(Request{Op: clean, N: segment, ids: ids}) != OK {
			return errCleaning
		}
		return nil
	})
	if err != nil {
		segment = 0
	}
	c.ask(Request{Op: cleaned, N: segment})
}

var errCleaning = errors.New("cleaning was ended")

// ask posts r and waits for its answer. It returns Failed without waiting any longer when
// the cleaner is to stop, since the answer waits for the log, and that may wait for its
// disk until it is closed.
func (c *cleaner) ask(r Request) Status {
	if c.stopping() { // an earlier request may still use the waiter
		return Failed
	}
	r.Client = c.client
	c.waiter.Begin(false)
	c.waiter.Expect(1)
	c.shard.Post([]*Request{&r})
	for !c.waiter.Answered() {
		select {
		case <-c.waiter.wake:
		case <-c.quit:
			return Failed
		}
	}
	return r.Status
}

func (c *cleaner) stopping() bool {
	select {
	case <-c.quit:
		return true
	default:
		return false
	}
}

// stop ends the goroutine, which may be in the middle of a segment.
func (c *cleaner) stop() {
	close(c.quit)
	<-c.done
}

// tidy keeps the log small: it drops the oldest segments if no job is in them, and has the
// oldest of the others cleaned if too much of the log is of no use.
func (s *Shard) tidy() {
	s.toClean = false
	if s.cleaning {
		// The oldest segment's file is open, and would keep its space even if it were
		// removed.
		return
	}
	s.dropEmpty()
	if len(s.segments) > 1 && s.tooLarge() && s.inPass() {
		s.cleanOldest()
	}
}

// dropEmpty drops the oldest segments, up to the first with a job in it. The last is
// still being written, and stays.
func (s *Shard) dropEmpty() {
	for len(s.segments) > 1 && s.segments[0].jobs == 0 {
		s.seal(&s.segments[0], -1)
		s.segments = s.segments[1:]
		s.appended(s.log.Drop(s.segments[0].index))
		s.changes-- // no job's record has become useless by it
	}
}

// tooLarge tells whether so much of the log is of no use that cleaning is worth it.
func (s *Shard) tooLarge() bool {
	if s.log.Full() {
		return s.tooLargeForFullDisk()
	}
	// The disk may hold twice what is live, and the last segment. Extra is set aside on
	// it, so the log may have that much less.
	most := 2*s.live - s.log.Extra()
	if s.small > fewSmall && s.sealed+int64(s.small)*binlog.SegmentOverhead > most {
		return true
	}
	return s.sealed > most
}

// fewSmall is how many segments may be much smaller than what a file takes in any case
// before that counts. Each start leaves one, of a server that writes little; so a few old jobs
// would keep as many files as there were starts.
const fewSmall = 16

// seal notes that a segment is one that is not written any more, or, if n is -1 and not
// 1, that it is gone.
func (s *Shard) seal(seg *segment, n int) {
	s.sealed += int64(n) * seg.bytes
	if seg.bytes < binlog.SegmentOverhead/4 {
		s.small += n
	}
}

// tooLargeForFullDisk is tooLarge while the disk is full. Space is wanted then before the
// reserve is used up, but not at any price: a pass gains all that is of no use, and copies
// all that is live. For each byte that is gained at most 64 may be copied, or 512 when
// changes are about to be refused.
func (s *Shard) tooLargeForFullDisk() bool {
	worth := max(s.live/64, min(s.live/16, s.log.Reserve()/2)) // so many bytes are worth a pass
	if s.log.Short() {
		if s.log.Dropping() {
			return false // first the space of what was dropped comes back: it may be enough
		}
		worth = s.live / 64
	}
	if s.log.Scarce(s.copies()) {
		worth = s.live / 512
	}
	if s.now < s.cleanAfter {
		return false // cleaning found no room for its copies a moment ago
	}
	return s.sealed+s.segments.last().bytes-s.live > worth
}

// inPass tells whether the oldest segment is to be cleaned in a cleaning pass: in the
// present one, or in a new one that begins with it. If nothing has changed since the last
// pass began, there is none: the log has what that pass has copied, and another would
// copy it once more, and so on without end.
func (s *Shard) inPass() bool {
	if s.segments[0].index <= s.passEnd {
		return true
	}
	if s.passEnd != 0 && s.changes == s.changesThen {
		return false
	}
	s.passEnd, s.changesThen = s.segments.last().index, s.changes
	return true
}

// cleanOldest has the cleaner begin with the oldest segment. If not all of that is in its
// file yet, it only notes that it is to be cleaned: tidy comes again.
func (s *Shard) cleanOldest() {
	oldest := s.segments[0].index
	if oldest >= s.log.Written() {
		s.toClean = true
		return
	}
	s.cleaning = true
	s.cleaner.next <- oldest // does not block: the cleaner was idle
}

// cleanSome serves clean: of the jobs r.ids it writes those again that are still in
// segment r.N.
func (s *Shard) cleanSome(r *Request) {
	if s.failed {
		r.Status = Failed
		return
	}
	size := int64(0)
	for _, id := range r.ids {
		if j := s.job(id); j != nil && j.file == uint32(r.N) {
			size += s.weight(j)
		}
	}
	if !s.log.FitsCopy(size + size/8) {
		r.Status = OutOfMemory
		return
	}
	for _, id := range r.ids {
		if j := s.job(id); j != nil && j.file == uint32(r.N) {
			s.move(j)
		}
	}
}

// copies returns how many bytes cleaning may have to write on a full disk before it gives
// any back: what is live in the fullest segment, and a little for each other one that it
// may have to copy before that without a gain. It is 0 while the disk is not full.
func (s *Shard) copies() int64 {
	if !s.log.Full() || len(s.segments) == 1 {
		return 0
	}
	if ends := [2]uint64{s.segments[0].index, s.segments.last().index}; s.mostAsOf != ends {
		s.most, s.mostAsOf = 0, ends
		for _, seg := range s.segments[:len(s.segments)-1] {
			s.most = max(s.most, min(seg.bytes, seg.live+int64(seg.jobs)*weightOff))
		}
	}
	return s.most + s.most/64 + min(s.most, int64(len(s.segments))*binlog.SegmentOverhead)
}

// move writes j again, to the end of the log. That does not count as a change.
func (s *Shard) move(j *job) {
	s.log.Migrated(1)
	before := s.changes
	s.displace(j)
	switch j.state {
	case delayed:
		s.logPut(j, binlog.Delayed, j.at)
	case buried:
		s.logPut(j, binlog.Buried, j.at)
	default:
		s.logPut(j, binlog.Ready, 0)
	}
	s.changes = before
}

// endCleaning serves cleaned: all of segment r.N was sent to be cleaned, or it was given
// up if that is 0. It reports whether there is more to do.
func (s *Shard) endCleaning(r *Request) (more bool) {
	switch {
	case r.N == 0:
		s.cleanAfter = s.now + second/10
	case s.failed || s.segments[0].index != r.N || s.segments[0].jobs == 0:
	default:
		more = s.cleanTheLongWay(r)
	}
	s.cleaning = more
	return more
}

// cleanTheLongWay is for a segment that could not all be read: it looks at all jobs of
// the shard. It does a step of that, and reports whether there is more to do.
func (s *Shard) cleanTheLongWay(r *Request) (more bool) {
	oldest := &s.segments[0]
	r.ID = s.cfg.Directory.look(r.ID, s.cfg.Index, func(j *job) bool {
		if j.file == uint32(r.N) {
			s.move(j)
		}
		return oldest.jobs > 0 && !s.filled()
	})
	return r.ID != 0 && oldest.jobs > 0
}
