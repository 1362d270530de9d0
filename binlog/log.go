package binlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Held is what waits for a batch: answers that must not leave before the changes
// that they confirm are safe.
type Held interface {
	// Release is called once, from the log's goroutine, when the batch and all
	// before it are written, and synced if Config.Sync is 0; or with the error of
	// Log.Err if they are not, and never will be.
	Release(err error)
}

// Log is what one shard writes. Unless its comment says otherwise, a method
// belongs to the shard's goroutine. A batch is the records appended up to a
// Commit. A goroutine of the log's own writes what is committed, all that has
// come while it was busy as one block: so the slower the disk, the larger the
// blocks, and the more answers share a sync.
type Log struct {
	store  *Store
	stream *stream

	// The shard's goroutine only.
	batch    *group    // being filled
	to       *segment  // that the batch goes to
	begun    uint64    // the segment that was begun at the start; never changes
	dropped  uint64    // segments before this one are needed no more
	stayedAt time.Time // when there was last no room to go on in the next segment

	reserve  // how much space is kept for what
	shortage // what is known of a disk without room

	queue queue         // from the shard to the writer
	done  chan struct{} // closed when the writer has ended
	next  successor     // from the janitor to the shard
	// news has room for one token for the shard, which may wait for a next segment, or
	// the reason why there is none, for stuck or failure.
	news    chan struct{}
	removed atomic.Uint64 // the files of segments before this one are gone; the janitor writes it
	// excess asks the shard to call shed. The janitor sets it, the shard clears it.
	excess atomic.Bool
	// stuck says that a write waits for room on a disk that does not keep what
	// was set aside. The writer writes it.
	stuck atomic.Bool
	// failure is set once, by whoever meets the error first, who then calls failed.
	failure atomic.Pointer[error]
	failed  atomic.Pointer[func()] // see OnFailure
	// prepared is called when there is what somebody may wait for, see OnPrepared.
	prepared atomic.Pointer[func()]

	writer  writer
	janitor janitor

	// Read by any goroutine, mostly for stats; written by the one that is named.
	oldest   atomic.Uint64 // segment that is needed; the shard
	current  atomic.Uint64 // segment that is written; the writer
	written  atomic.Uint64 // records; the shard
	migrated atomic.Uint64 // records written again by cleaning; the shard
}

// newLog begins a segment behind what the stream has, and starts the log.
func newLog(st *Store, t *stream) (*Log, error) {
	l := &Log{store: st, stream: t, reserve: reserve{segmentSize: st.segment}, batch: newGroup(), queue: newQueue(), news: make(chan struct{}, 1), done: make(chan struct{})}
	l.writer = writer{Log: l, seq: t.last + 1, packer: packer{compression: st.cfg.Compression}, timer: time.NewTimer(time.Hour)}
	l.janitor = janitor{Log: l, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	seg, err := l.create()
	if err != nil {
		return nil, err
	}
	l.oldest.Store(seg.name.index)
	if len(t.names) > 0 {
		l.oldest.Store(t.names[0].index)
		l.writer.previous = t.previous()
	}
	l.writer.oldestWritten = l.oldest.Load()
	if err := l.writer.writeHeader(seg, l.writer.seq); err != nil {
		return nil, errors.Join(fmt.Errorf("beginning %s: %w", seg.name, err), l.abandon(seg))
	}
	l.writer.enter(seg)
	l.begun = seg.name.index
	l.to = seg
	go l.writer.run()
	go l.janitor.run()
	return l, nil
}

// Err returns why the log has failed, nil if it has not. A log that has failed
// writes nothing more. Any goroutine may call it.
func (l *Log) Err() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// fail ends the log: what has not been written stays so.
func (l *Log) fail(err error) {
	err = l.store.wrap(err)
	if l.failure.CompareAndSwap(nil, &err) {
		poke(l.news)
		if l.store.rewriting.Load() {
			return // the start ends with this error
		}
		l.store.log.Error("binlog: a shard's log has failed; it answers INTERNAL_ERROR to all changes until the server is restarted on a healthy disk",
			"shard", l.stream.shard, "err", err)
		if f := l.failed.Load(); f != nil {
			(*f)()
		}
	}
}

// OnPrepared has f called, from any goroutine, when there is a next segment and
// the current one is full, or when far too much is set aside: the shard should call
// Segment then, even if it has nothing to append. f is also called when the files of
// dropped segments have been removed, and on a full disk when the writer has gone on in
// the next segment: cleaning may then begin, or go on.
func (l *Log) OnPrepared(f func()) { l.prepared.Store(&f) }

// OnFailure has f called, from any goroutine, when the log fails; at once if it
// has failed already. f may be called twice.
func (l *Log) OnFailure(f func()) {
	l.failed.Store(&f)
	if l.Err() != nil {
		f()
	}
}

// Segment returns the index of the segment that the next batch goes to. The shard
// calls it between batches. If the disk is far behind it waits here for the next
// segment: otherwise the current one would grow by all that clients send
// meanwhile, and where space is short cleaning would not find the room to copy its
// jobs.
func (l *Log) Segment() uint64 {
	most := farBehind * l.store.segment
	if l.tight.Load() {
		most = l.largestIfTight()
	}
	if l.to.spokenFor() >= most {
		l.awaitNext()
	}
	if l.next.ready.Load() && l.to.spokenFor() >= l.store.segment-l.store.segment/16 {
		l.roll()
	}
	if l.excess.Load() {
		l.excess.Store(false)
		l.shed()
	}
	return l.to.name.index
}

// farBehind is how many times its intended size a segment may reach.
const farBehind = 2

// awaitNext waits for the next segment. It gives up if none can be made, because
// the disk is full or too many files are open, and when nothing can be written.
func (l *Log) awaitNext() {
	for !l.next.ready.Load() && l.next.missing() == nil && !l.stuck.Load() && l.Err() == nil {
		<-l.news
	}
}

// roll goes on in the next segment. On a full disk the next one has to make do with
// the space that the current one has not used.
func (l *Log) roll() {
	if time.Since(l.stayedAt) < retry {
		return
	}
	l.checkTight()
	want := l.Reserve() + l.Step()
	l.store.space.Lock() // what is given back is taken by nobody else
	defer l.store.space.Unlock()
	if err := l.next.segment.allocate(want); err != nil {
		l.noRoom(err)
		if l.Err() != nil || !l.handOver(want) {
			l.stayedAt = time.Now()
			return
		}
	}
	l.to = l.next.take()
	l.janitor.ask() // to give back what the one before has not used
}

// handOver gives back the space that the current segment has not used, and sets
// as much of it aside in the next one as it can get, up to most bytes. It reports
// false if that is less than deletes were promised: then the current segment has
// its space back. The caller holds store.space.
func (l *Log) handOver(most int64) bool {
	given, err := l.to.giveBack(false)
	least := max(l.owedNow()+int64(len(l.batch.buf)), minSegment-overhead) // which with its overhead takes a page
	for want, less := max(min(most, given), least), int64(SegmentOverhead); err == nil; want, less = max(want-less, least), 2*less {
		if err = l.next.segment.allocate(want); err == nil {
			return true
		}
		// Less may fit: files take whole pages, and another program may have taken some.
		// A failed attempt can leave blocks in the file, which is empty: they go first.
		if isFull(err) {
			err = l.next.segment.file.Truncate(0)
		}
		if want == least {
			break
		}
	}
	if err == nil && given > 0 {
		err = l.to.allocate(given) // which deletes were promised
	}
	if err != nil && !isFull(err) {
		l.fail(err)
	}
	return false
}

// Put appends a whole job, and returns how many bytes that took.
func (l *Log) Put(j *Job) int {
	n := l.startRecord(sizeOfPut(len(j.Tube), len(j.Body), len(j.Unique)+len(j.Reducer)))
	l.batch.buf = appendPut(l.batch.buf, j)
	l.batch.records++
	return len(l.batch.buf) - n
}

// Change appends the new state of a job, and returns how many bytes that took.
func (l *Log) Change(m *Meta) int {
	n := l.startRecord(maxMeta)
	l.batch.buf = appendMeta(l.batch.buf, kindChange, m)
	l.batch.records++
	return len(l.batch.buf) - n
}

// Delete appends that a job is no more, and returns how many bytes that took.
func (l *Log) Delete(id uint64) int { return l.putNumber(kindDelete, id) }

// Drop appends that no job is in a segment before that one any more, and has
// their files removed when that is safe.
func (l *Log) Drop(segment uint64) int {
	n := l.putNumber(kindDrop, segment)
	l.batch.drop, l.dropped = segment, segment // after putNumber, which may begin a new batch for the record
	l.oldest.Store(segment)
	return n
}

// Dropping tells whether the files of segments that were dropped are still there.
func (l *Log) Dropping() bool { return l.removed.Load() < l.dropped }

// putNumber appends a record that says no more than a number, and returns how
// many bytes that took.
func (l *Log) putNumber(k kind, v uint64) int {
	n := l.startRecord(maxMeta)
	l.batch.buf = appendNumber(l.batch.buf, k, v)
	l.batch.records++
	return len(l.batch.buf) - n
}

// startRecord returns where a record of at most that size will begin in the batch.
// If the record would make the batch too large, what is in it is committed first.
func (l *Log) startRecord(size int) int {
	if l.batch.records > 0 && len(l.batch.buf)+size > maxBatch {
		// The jobs put so far count from now on: their deletes are owed.
		l.Commit(nil, int(l.jobs.Load())+l.fresh)
	}
	return len(l.batch.buf)
}

// BlockOverhead is how many bytes a block takes beside its records.
const BlockOverhead = blockOverhead

// Written returns the index of the segment that is being written. All that was
// appended to segments before it is in their files. Any goroutine may call it.
func (l *Log) Written() uint64 { return l.current.Load() }

// Renamed logs that two jobs each were found under one id: renamed of them go on
// under a new id, and lost of them are not served, for want of room on the disk.
// Any goroutine may call it.
func (l *Log) Renamed(renamed, lost int) {
	l.store.log.Warn("binlog: jobs had the ids of others, since what was damaged at an earlier start can be read again; they have new ids",
		"jobs", renamed)
	if lost > 0 {
		l.store.log.Error("binlog: jobs had the ids of others, and the disk is too full to give them new ones; they are not served", "jobs", lost)
	}
}

// Migrated counts n jobs, for Stats, that cleaning has put again.
func (l *Log) Migrated(n int) { l.migrated.Add(uint64(n)) }

// Weigh tells the log about how many bytes the present jobs take, on which
// depends how much is set aside for them (see Extra).
func (l *Log) Weigh(bytes int64) {
	if bytes != l.live.Load() {
		l.live.Store(bytes)
	}
}

// Appended tells whether there is anything in the batch.
func (l *Log) Appended() bool { return l.batch.records > 0 }

// Filled tells whether the batch should end though there is more to append, so
// that the segment can be left in time.
func (l *Log) Filled() bool { return int64(len(l.batch.buf)) >= l.Step() }

// Commit ends a batch. live is how many jobs there are now. held, if it is not
// nil, is released when the batch is safe; unless Commit reports true: then there
// is nothing to wait for, since the batch is empty and all before it are released.
func (l *Log) Commit(held Held, live int) bool {
	g := l.batch
	if g.records > 0 {
		g.promise = int64(len(g.buf)) + 1
		l.to.room.Add(-g.promise)
		l.written.Add(uint64(g.records))
		l.fresh = 0
		if int64(live) != l.jobs.Load() {
			l.jobs.Store(int64(live))
		}
	}
	g.to = l.to
	var idle bool
	l.batch, idle = l.queue.add(g, held)
	return idle
}

// poke puts a token into a channel with room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Flush commits the batch and waits until it and all before it are written and
// synced, whatever Config.Sync is. Nothing may be appended meanwhile. The error is
// that of Err.
func (l *Log) Flush() error {
	done := make(flushed)
	if !l.Commit(done, int(l.jobs.Load())) {
		<-done
	}
	if err := l.Err(); err != nil {
		return err
	}
	return l.janitor.sync()
}

// flushed is the Held of a Flush; it is closed when that is done.
type flushed chan struct{}

func (f flushed) Release(error) { close(f) }

// Close writes and, unless Config.Sync is SyncNever, syncs all that was committed,
// and ends the log. The error is why some of it may not be there, such as a disk
// that has no room for it. Nothing may be appended any more.
func (l *Log) Close() error {
	l.queue.close()
	<-l.done
	l.janitor.stop()
	if l.Err() == nil && l.store.cfg.Sync != SyncNever {
		_ = l.janitor.sync() // Err has it
	}
	errs := []error{l.Err()}
	for i, seg := range []*segment{l.writer.to, l.to, l.next.segment} {
		switch {
		case seg == nil || i > 0 && seg == l.writer.to:
		case l.keeps(seg):
			errs = append(errs, seg.file.Close())
		case i == 0:
			errs = append(errs, seg.close())
		case seg.begun: // so the one before may have announced it
			errs = append(errs, seg.file.Close())
		default:
			errs = append(errs, l.abandon(seg))
		}
	}
	return errors.Join(errs...)
}

// keeps reports whether a segment keeps, when it is closed for good, the space that
// is set aside in it, as it does when the server is killed. On a full disk it does:
// the next start needs the space, and another program would take it meanwhile. (A
// failed rearrangement removes the segments, see takeBack.)
func (l *Log) keeps(seg *segment) bool {
	free, err := l.store.fs.Free(l.store.cfg.Dir)
	return l.full.Load() || err == nil && free < seg.allocated.Load()-seg.size.Load()
}

// lendSpace calls f while the space that the closed log has kept is given back.
func (l *Log) lendSpace(f func() error) error {
	seg := l.writer.to
	file, err := l.store.fs.OpenWrite(filepath.Join(l.store.cfg.Dir, seg.name.String()))
	if err != nil {
		return err
	}
	defer file.Close()
	size := seg.size.Load()
	if err := file.Truncate(size); err != nil {
		return err
	}
	err = f()
	_ = file.Allocate(size, seg.allocated.Load()-size) // or as much of it as there is
	return err
}
