package binlog

import (
	"errors"
	"syscall"
	"time"
)

// Reserve is how many bytes puts leave alone: for changes of the jobs that are
// there, for their deletes, and for cleaning, which has to write before it can
// give back. Any goroutine may call it.
func (l *Log) Reserve() int64 {
	n := l.spare() + SegmentOverhead + owedDeletes(l.jobs.Load())
	if l.tight.Load() {
		return n + l.extraIfTight()
	}
	return n + l.Extra()
}

// extraIfTight is what is set aside, beside the rest, for as long as the disk is nearly
// full: for a change of each job, and for what cleaning copies then.
func (l *Log) extraIfTight() int64 { return l.mostCopies() + owedChanges(l.jobs.Load()) }

// Extra is how much of that is set aside, in bytes, while the disk is not nearly
// full, which it may be within a moment if another program fills it: as much as
// half of what the jobs take, at most. There is less of no use for that, see
// shard's tidy. Any goroutine may call it.
func (l *Log) Extra() int64 { return min(l.extraIfTight(), l.live.Load()/2) }

// spare is what is set aside for cleaning: a segment's worth.
func (l *Log) spare() int64 { return min(l.store.segment, maxReserve) }

// mostCopies is how much cleaning may have to write again before it can give back:
// one of the largest segments.
func (l *Log) mostCopies() int64 { return min(l.largestIfTight()+l.Step(), maxReserve) }

// checkTight finds out whether the disk is nearly full. Then all of changes is set
// aside as well, for which otherwise there is enough on the disk.
func (l *Log) checkTight() {
	free, err := l.store.fs.Free(l.store.cfg.Dir)
	need := l.Reserve() + l.Step() + owedChanges(l.jobs.Load())
	l.tight.Store(err != nil || free < 8*int64(l.store.cfg.Shards)*need)
}

// maxReserve bounds what of that does not go with the number of jobs, in bytes,
// where segments are large.
const maxReserve = 256 << 20

// What is set aside for each job, in bytes. Blocks of their own, and changes,
// are for as many jobs as fewJobs: when that is used up there is a segment to
// clean.
const (
	owedDelete = 16
	owedBlock  = 32
	owedChange = 2 * (40 + blockOverhead) // to reserve it, and to release, bury or kick it
	fewJobs    = 1 << 16
	owedPut    = owedDelete + owedBlock + owedChange
)

// owedDeletes is how much is left alone by all but deletes.
func owedDeletes(jobs int64) int64 { return jobs*owedDelete + min(jobs, fewJobs)*owedBlock }

// owedChanges is how much is left alone by puts.
func owedChanges(jobs int64) int64 { return min(jobs, fewJobs) * owedChange }

// Step is how many bytes are set aside at a time, and about how many cleaning
// may copy at a time on a full disk. Any goroutine may call it.
func (l *Log) Step() int64 { return max(l.store.segment/8, minSegment) }

// isFull tells whether an error says that the disk, or a quota, is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isScarce tells whether an error says that there are no descriptors for now, or
// that the kernel has no memory. No file was made then, and nothing is lost.
func isScarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// Full tells whether puts are refused for want of disk space. Any goroutine
// may call it.
func (l *Log) Full() bool { return l.full.Load() }

// MostPut is how many bytes Put takes at most, with the lengths in bytes of the
// name of the tube, of the body, and of what else a Task has, Unique and Reducer
// together: 0 for other jobs.
func MostPut(tube, body, task int) int { return sizeOfPut(tube, body, task) }

// FitsPut tells whether a job that takes that many bytes can be put, and leaves
// enough space for all that may become of those that are there. If it does, the job
// is counted as put: then it must be.
func (l *Log) FitsPut(n int) bool {
	if err := l.nextErr.Load(); err != nil && l.to.spokenFor() >= l.store.segment {
		l.noRoom(*err)
		return false
	}
	if !l.setAside(int64(n)+blockOverhead+l.Reserve()+int64(l.fresh+1)*owedPut) || l.stuck.Load() {
		return false
	}
	l.fresh++
	if l.full.Load() {
		l.full.Store(false)
		poke(l.janitor.wake) // it looks at the disk again
	}
	if l.saidFull { // else it comes and goes
		l.saidFull = false
		l.store.log.Info("binlog: there is room again: puts are accepted", "shard", l.stream.shard)
	}
	return true
}

// NoRoom is why FitsPut has reported false, where all jobs are to be written again
// and that is the end of it. It says what to do.
func (l *Log) NoRoom() error {
	if err := l.Err(); err != nil {
		return err
	}
	return l.store.wrap(l.fullErr)
}

// owedNow is how many bytes deletes may take.
func (l *Log) owedNow() int64 {
	return owedDeletes(l.jobs.Load()) + int64(l.fresh)*(owedDelete+owedBlock)
}

// FitsChange tells whether there is room for a change of a job. On a full disk
// that leaves room for cleaning to write so many bytes again, or there would be no
// way back; unless it has not as much anyway.
func (l *Log) FitsChange(copies int64) bool { return l.setAside(l.needForChange(copies)) }

// needForChange is how many bytes have to be set aside for that.
func (l *Log) needForChange(copies int64) int64 {
	n := maxMeta + blockOverhead + l.leftByChanges()
	if l.full.Load() && copies <= l.mostCopies()+l.spare() {
		n += copies + 2*SegmentOverhead // it goes on in the next segment meanwhile, or twice
	}
	return n
}

// leftByChanges is how many bytes changes and cleaning leave alone.
func (l *Log) leftByChanges() int64 { return l.owedNow() + SegmentOverhead }

// Short tells whether on a full disk there is little more room than cleaning
// needs.
func (l *Log) Short() bool {
	return l.full.Load() && !l.setAside(maxMeta+blockOverhead+l.leftByChanges()+l.mostCopies()+l.spare()/2)
}

// Scarce tells whether on a full disk there is hardly room for a change, see
// FitsChange: it does so before there is none.
func (l *Log) Scarce(copies int64) bool {
	return l.full.Load() && !l.setAside(l.needForChange(copies)+l.spare()/16)
}

// FitsCopy tells whether there is room for cleaning to write that many bytes.
func (l *Log) FitsCopy(n int64) bool {
	n += blockOverhead
	if !l.full.Load() && l.setAside(n+l.Reserve()) {
		return true
	}
	return l.setAside(n + l.leftByChanges())
}

// setAside tells whether that many bytes are set aside and not spoken for; it
// sees to it, if the disk has them.
func (l *Log) setAside(n int64) bool {
	short := n - l.unspoken()
	if short <= 0 {
		return true
	}
	if l.freed.Swap(false) {
		l.refusedAt = time.Time{}
	}
	// That there was not as much as for a put, or to begin cleaning, does not say
	// that there is not enough for a change.
	if l.full.Load() && time.Since(l.refusedAt) < retry && short >= l.refusedBytes {
		return false
	}
	l.checkTight()
	l.store.space.Lock()
	defer l.store.space.Unlock()
	err := l.to.allocate(short + l.Step())
	if isFull(err) {
		err = l.to.allocate(short)
	}
	if err != nil {
		l.refusedAt, l.refusedBytes = time.Now(), short
		l.noRoom(err)
		return false
	}
	return true
}

// Holds says how many jobs the log has when its shard starts, and how many bytes
// they take, as Weigh does; and it sets aside what they are owed, before the puts of
// other shards can take it. Where the disk does not have all of the reserve that is
// the shard's share of what is left for it and those that have not said it yet, but
// no less than deletes may take, if that is there. A log's shard says it once.
func (l *Log) Holds(jobs int, bytes int64) {
	l.jobs.Store(int64(jobs))
	l.Weigh(bytes)
	l.store.space.Lock()
	defer l.store.space.Unlock()
	sharers := l.store.cfg.Shards - l.store.holding
	l.store.holding++
	if jobs == 0 {
		return
	}
	l.checkTight()
	want := l.Reserve()
	if free, err := l.store.fs.Free(l.store.cfg.Dir); err == nil {
		want = min(want, max(l.leftByChanges(), free/int64(max(1, sharers))))
	}
	l.fill(l.to, want-l.unspoken())
}

// fill sets that many bytes aside, or as many as there are. The caller holds
// store.space.
func (l *Log) fill(seg *segment, want int64) {
	for step := l.Step(); want > 0 && step >= minSegment; {
		n := min(want, step)
		switch err := seg.allocate(n); {
		case err == nil:
			want -= n
		case isFull(err):
			step /= 2
		default:
			l.fail(err)
			return
		}
	}
}

// quiet is how long nothing more is said of a disk that is full again.
const quiet = time.Second

// retry is how long a full disk is left alone.
const retry = 20 * time.Millisecond

// unspoken is how many bytes are set aside and not spoken for.
func (l *Log) unspoken() int64 { return l.to.room.Load() - int64(len(l.batch.buf)) }

// noRoom says that no more space could be set aside, and why.
func (l *Log) noRoom(err error) {
	what := "the disk is full"
	switch {
	case isScarce(err):
		what = "there is no next segment"
	case !isFull(err):
		l.fail(err)
		return
	}
	l.full.Store(true)
	l.fullErr = err
	if l.store.rewriting.Load() {
		return // nobody puts anything: NoRoom says it
	}
	if !l.saidFull && time.Since(l.saidFullAt) >= quiet {
		l.saidFullAt, l.saidFull = time.Now(), true
		l.store.log.Error("binlog: "+what+": puts are answered OUT_OF_MEMORY until there is room", "shard", l.stream.shard, "err", err)
	}
}
