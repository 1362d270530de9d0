package binlog

import (
	"errors"
	"syscall"
)

// How a full disk is kept from losing anything: space is set aside before it is
// promised to anyone. What a shard appends is taken from what is set aside
// (segment.room), and the writer gives back what compression has saved. Of that
// each may take:
//
//	deletes    all of it: one is owed to each job
//	changes    all but leftByChanges and, on a full disk, what cleaning has to copy
//	cleaning   all but Reserve or, where there is no more, all but leftByChanges
//	puts       all but Reserve, and what is owed to the new jobs of the batch
//
// Cleaning has to write before it can give back. What it gives back fills up the
// reserve before anybody else has it.

// checkTight finds out whether the disk is nearly full. If it is, all of
// extraIfTight is set aside, for which otherwise there is enough on the disk.
func (l *Log) checkTight() {
	free, err := l.store.fs.Free(l.store.cfg.Dir)
	need := l.Reserve() + l.Step() + owedChanges(l.jobs.Load())
	l.tight.Store(err != nil || free < 8*int64(l.store.cfg.Shards)*need)
}

// hasFarTooMuch tells whether more is set aside in a segment than any number of jobs
// that stays about the same leads to: prepare sets up to two steps aside beyond the
// reserve.
func (l *Log) hasFarTooMuch(seg *segment) bool {
	return seg.room.Load() > l.Reserve()+4*l.Step()
}

// shed has the janitor give back what is set aside and far more than is needed, since
// there are fewer jobs now. The janitor could not take that out of room by itself: only
// the shard knows what its present batch counts on, which is nothing between batches.
// Where the disk is nearly full all of it is kept.
func (l *Log) shed() {
	n := l.unspoken() - l.Reserve() - l.Step()
	if n > 0 && l.hasFarTooMuch(l.to) && !l.tight.Load() && !l.full.Load() {
		l.to.surplus.Add(n) // first, so that spokenFor is not too high in between
		l.to.room.Add(-n)
		poke(l.janitor.wake)
	}
}

// isFull tells whether an error says that the disk, or a quota, is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isScarce tells whether an error says that for now there are no file descriptors,
// or the kernel has no memory. No file was made then, and nothing is lost.
func isScarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// MostPut is how many bytes Put takes at most. tube, body and task are lengths in
// bytes: of the tube's name, of the body, and of a Task's Unique and Reducer
// together, 0 for other jobs.
func MostPut(tube, body, task int) int { return sizeOfPut(tube, body, task) }

// FitsPut tells whether a job that takes n bytes, see MostPut, can be put and
// leaves enough space for whatever the present jobs may need. If so, the job is
// counted as put, and the caller has to put it.
func (l *Log) FitsPut(n int) bool {
	if !l.makeRoom(n) {
		if l.Err() == nil && !l.store.rewriting.Load() {
			l.store.refusals.refuse(l.fullErr)
		}
		return false
	}
	l.fresh++
	wasFull := l.full.Load()
	if wasFull {
		l.full.Store(false)
	}
	if l.store.refusals.accept() || wasFull {
		poke(l.janitor.wake) // it looks at the disk again, and calls settle
	}
	return true
}

// makeRoom is FitsPut, but it counts nothing. If it reports false, and the log has not
// failed, fullErr is why.
func (l *Log) makeRoom(n int) bool {
	if err := l.next.missing(); err != nil && l.to.spokenFor() >= l.store.segment {
		l.noRoom(err)
		return false
	}
	if l.stuck.Load() {
		l.fullErr = syscall.ENOSPC // the writer has met that, or a quota
		return false
	}
	return l.setAside(l.needForPut(n))
}

// NoRoom returns why FitsPut has reported false, for a start that has to write all
// jobs again and cannot. The error says what to do.
func (l *Log) NoRoom() error {
	if err := l.Err(); err != nil {
		return err
	}
	return l.store.wrap(l.fullErr)
}

// FitsChange tells whether there is room for a change of a job that a client asks for.
// copies is how many bytes cleaning has to write again next. On a full disk a change
// leaves room for them, or there would be no way back; unless they are more than is ever
// set aside for cleaning. It also leaves some for changes that cannot be put off.
func (l *Log) FitsChange(copies int64) bool {
	n := l.needForChange(copies)
	if l.full.Load() {
		n += l.unasked()
	}
	return l.setAside(n)
}

// FitsUnasked is FitsChange for a change that nobody asks for, so that it cannot be put
// off: a waiting client gets a job, or a job's time to run is over.
func (l *Log) FitsUnasked(copies int64) bool { return l.setAside(l.needForChange(copies)) }

// unasked is how many bytes changes that are asked for leave to those that are not.
func (l *Log) unasked() int64 { return l.spare() / 16 }

// needForChange is how many bytes have to be set aside for a change to fit.
func (l *Log) needForChange(copies int64) int64 {
	n := maxMeta + blockOverhead + l.leftByChanges()
	if l.full.Load() && copies <= l.mostCopies()+l.spare() {
		n += copies + 2*SegmentOverhead // it goes on in the next segment meanwhile, or twice
	}
	return n
}

// Short tells whether the disk is full and there is little more room than cleaning
// needs.
func (l *Log) Short() bool {
	return l.full.Load() && !l.setAside(maxMeta+blockOverhead+l.leftByChanges()+l.mostCopies()+l.spare()/2)
}

// Scarce tells whether the disk is full and there is hardly room for a change any
// more, see FitsChange.
func (l *Log) Scarce(copies int64) bool {
	return l.full.Load() && !l.setAside(l.needForChange(copies)+2*l.unasked())
}

// FitsCopy tells whether there is room for cleaning to write n bytes of records.
func (l *Log) FitsCopy(n int64) bool {
	n += blockOverhead
	if !l.full.Load() && l.setAside(n+l.Reserve()) {
		return true
	}
	return l.setAside(n + l.leftByChanges())
}

// setAside sees to it that n bytes are set aside and not spoken for, and reports
// whether they are: the disk may not have them.
func (l *Log) setAside(n int64) bool {
	short := n - l.unspoken()
	if short <= 0 {
		return true
	}
	if l.wasRefused(short) {
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
		l.refused(short)
		l.noRoom(err)
		return false
	}
	return true
}

// Holds tells the log how many jobs it has when its shard starts, and about how
// many bytes they take (see Weigh). It sets aside what they are owed, before puts
// of other shards can take it. Where the disk has less than the whole reserve, that
// is the shard's share: of what is free, divided by the shards that have not called
// Holds yet; but, if the disk has that, no less than leftByChanges. A shard calls
// it once.
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

// fill sets want bytes aside, or as many as the disk has. The caller holds
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

// unspoken is how many bytes are set aside and not spoken for, neither by committed
// batches nor by the present one.
func (l *Log) unspoken() int64 { return l.to.room.Load() - int64(len(l.batch.buf)) }

// noRoom notes, and logs, that no more space could be set aside, and why. An error
// of another kind ends the log.
func (l *Log) noRoom(err error) {
	if !isScarce(err) && !isFull(err) {
		l.fail(err)
		return
	}
	l.full.Store(true)
	l.fullErr = err
	if !l.store.rewriting.Load() { // then the start reports it, see NoRoom
		l.store.refusals.begin(err)
	}
}
