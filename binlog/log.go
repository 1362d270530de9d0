package binlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Held is what waits for a batch: answers that must not leave before what they
// tell is safe.
type Held interface {
	// Release is called once, from the log's goroutine, when the batch and all
	// before it are written, and synced if Config.Sync is 0. With an error they
	// are not, and never will be.
	Release(err error)
}

// Log is what one shard writes. The methods from Segment to Commit belong to
// the shard's goroutine; each batch is a number of records that Commit ends.
// What is committed is written by a goroutine of the log's own, which takes all
// that has come while it was busy as one block: so the slower the disk, the
// larger the blocks, and the more answers share a sync.
type Log struct {
	store  *Store
	stream *stream

	// The shard's goroutine only.
	batch *group   // being filled
	to    *segment // where it goes
	live  int      // jobs, for whose deletes there is always room
	fresh int      // puts that were found to fit in this batch
	begun uint64   // the segment that was begun at the start; never changes
	tried time.Time

	mu      sync.Mutex
	queue   []*group // committed, not yet taken by the writer; under mu
	free    []*group // to be used again; under mu
	busy    bool     // the writer has taken something and not released it; under mu
	queued  int      // records in queue; under mu
	enough  int      // records that the writer waits for; 0 if it does not; under mu
	closing bool     // under mu
	// wake has room for one token for the writer.
	wake chan struct{}
	done chan struct{} // closed when the writer has ended
	// next is an empty segment to go on in. The janitor sets it while ready is
	// false, and then ready; the shard takes it while ready is true, and then
	// clears that.
	next  *segment
	ready atomic.Bool
	// full says that no more space could be set aside. The shard writes it.
	full atomic.Bool
	// stuck says that a write waits for room on a disk that does not keep what
	// was set aside. The writer writes it.
	stuck atomic.Bool
	// failure is set once, by the writer or the janitor, and failed is called.
	failure atomic.Pointer[error]
	failed  atomic.Pointer[func()]
	// prepared is called when a next segment is ready that was waited for.
	prepared atomic.Pointer[func()]
	owed     atomic.Int64 // bytes set aside for deletes; the shard writes it

	writer  writer
	janitor janitor

	// For stats: written by whoever is named, read by anyone.
	oldest   atomic.Uint64 // segment that is needed; the shard
	current  atomic.Uint64 // segment that is written; the writer
	written  atomic.Uint64 // records; the shard
	migrated atomic.Uint64 // records written again by cleaning; the shard
}

// segment is one that is written to.
type segment struct {
	name segmentName
	file File
	// room is how many bytes are set aside and not yet spoken for. The shard
	// takes from it, the writer gives back what compression has saved, and
	// whoever sets more aside adds that.
	room atomic.Int64
	// size is how many bytes are written; the writer writes it.
	size atomic.Int64

	mu        sync.Mutex   // of setting aside
	allocated atomic.Int64 // bytes from the beginning of the file; written under mu
	sealed    bool         // nothing is set aside any more; under mu

	// syncing keeps the janitor's sync and the closing of the file apart. It is
	// held for as long as a sync takes, so the shard never takes it.
	syncing sync.Mutex
	closed  bool // under syncing
}

// group is a number of batches that become one block.
type group struct {
	buf     []byte // room for a header, and the records
	records int
	held    []Held
	to      *segment
	drop    uint64 // segments before this one may go; 0 for none
	promise int64  // bytes that were taken from the segment's room
}

// maxGroup is the size in bytes from which on a group takes no further batch.
const maxGroup = 1 << 20

// maxBatch is the size in bytes from which on what was appended goes to the
// queue before its batch ends. So blocks stay small enough to be compressed, but
// for a larger job, which is in one by itself.
const maxBatch = 4 << 20

func newGroup() *group { return &group{buf: make([]byte, blockHeader, 4096)} }

// newLog begins a segment behind what the stream has, and starts the log.
func newLog(st *Store, t *stream) (*Log, error) {
	l := &Log{store: st, stream: t, batch: newGroup(), wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.writer = writer{Log: l, seq: t.last + 1, packer: packer{compression: st.cfg.Compression}, timer: time.NewTimer(time.Hour)}
	l.janitor = janitor{Log: l, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	seg, err := l.createRoom()
	if err != nil {
		return nil, err
	}
	l.oldest.Store(seg.name.index)
	if len(t.names) > 0 {
		l.oldest.Store(t.names[0].index)
		l.writer.previous = t.names[len(t.names)-1].index
	}
	if err := l.writer.begin(seg, l.writer.seq); err != nil {
		seg.file.Close()
		return nil, fmt.Errorf("beginning %s: %w", seg.name, err)
	}
	l.writer.take(seg)
	l.begun = seg.name.index
	l.to = seg
	go l.writer.run()
	go l.janitor.run()
	return l, nil
}

// create makes the file of a new segment.
func (l *Log) create() (*segment, error) {
	st := l.store
	name := segmentName{l.stream.epoch, l.stream.shard, st.index.Add(1)}
	path := filepath.Join(st.cfg.Dir, name.String())
	f, err := st.fs.Create(path)
	if err != nil {
		return nil, err
	}
	return &segment{name: name, file: f}, nil
}

// createRoom makes the file of a segment that is begun at once, with space set
// aside. On a full disk it does with a little.
func (l *Log) createRoom() (*segment, error) {
	seg, err := l.create()
	if err != nil {
		return nil, err
	}
	err = seg.allocate(l.reserve() + l.step())
	for n := l.reserve(); err != nil && isFull(err) && n >= minSegment; n /= 2 {
		err = seg.allocate(n)
	}
	if err != nil {
		seg.file.Close()
		return nil, errors.Join(err, l.store.remove(seg.name.String()))
	}
	return seg, nil
}

// overhead is what a segment takes beside its blocks: its header, and the block
// that says where the stream goes on.
const overhead = segmentHeader + blockOverhead + 1 + 10

func (s *segment) allocate(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return nil
	}
	at := s.allocated.Load()
	if at == 0 {
		n += overhead
	}
	if err := s.file.Allocate(at, n); err != nil {
		return err
	}
	if at == 0 {
		s.room.Add(-overhead)
	}
	s.allocated.Add(n)
	s.room.Add(n)
	return nil
}

// extend moves the end of the file at least to that offset, and returns where it
// is. A sync that finds it moved has to write that, too; so it moves seldom, and
// zeros lie behind the last block.
func (s *segment) extend(to int64) (end int64, err error) {
	s.mu.Lock() // allocate may move it as well
	defer s.mu.Unlock()
	if end, err = s.file.Size(); err != nil || end >= to {
		return end, err
	}
	return to, s.file.Truncate(to)
}

// spoken is how many bytes are written, or will be.
func (s *segment) spoken() int64 { return s.allocated.Load() - s.room.Load() }

// reserve is how many bytes puts leave alone: for changes of the jobs that are
// there, for their deletes, and for cleaning, which has to write before it can
// give back.
func (l *Log) reserve() int64 { return l.spare() + l.owed.Load() }

// spare is how much of that is not for deletes.
func (l *Log) spare() int64 { return min(l.store.segment, maxReserve) }

// maxReserve bounds what is set aside, in bytes, where segments are large.
const maxReserve = 256 << 20

// step is how many bytes are set aside at a time.
func (l *Log) step() int64 { return max(l.store.segment/8, minSegment) }

// owedDelete is how many bytes are set aside for the delete of one job, and
// owedBlock for a block of its own, for as many as owedBlocks jobs: when these
// are gone there is a segment to clean.
const (
	owedDelete = 16
	owedBlock  = 32
	owedBlocks = 1 << 16
)

func owed(live int) int64 { return int64(live)*owedDelete + int64(min(live, owedBlocks))*owedBlock }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Err returns why the log has failed, nil if it has not. Nothing is written
// after. Any goroutine may call it.
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
		l.store.log.Error("binlog: a shard's log has failed; it answers INTERNAL_ERROR to all changes until the server is restarted on a healthy disk",
			"shard", l.stream.shard, "err", err)
		if f := l.failed.Load(); f != nil {
			(*f)()
		}
	}
}

// OnPrepared has f called, from any goroutine, when there is a next segment and
// the one before is full: somebody should ask for Segment then, even if nothing
// is to be appended.
func (l *Log) OnPrepared(f func()) { l.prepared.Store(&f) }

// OnFailure has f called, from any goroutine, when the log fails.
func (l *Log) OnFailure(f func()) {
	l.failed.Store(&f)
	if l.Err() != nil {
		f()
	}
}

// Full tells whether puts are refused for want of disk space. Any goroutine
// may call it.
func (l *Log) Full() bool { return l.full.Load() }

// Segment returns the index of the segment that the next batch goes to. It is
// asked between batches.
func (l *Log) Segment() uint64 {
	if l.ready.Load() && l.to.spoken() >= l.store.segment-l.store.segment/16 {
		l.roll()
	}
	return l.to.name.index
}

// roll goes on in the next segment, if there is room for it. Both it and the one
// before have space set aside then, until the writer is done with that.
func (l *Log) roll() {
	if l.full.Load() && time.Since(l.tried) < retry {
		return
	}
	if err := l.next.allocate(l.reserve() + l.step()); err != nil {
		l.tried = time.Now()
		l.noRoom(err)
		return
	}
	l.to, l.next = l.next, nil
	l.ready.Store(false)
}

// MostPut is how many bytes Put takes at most, with lengths in bytes.
func MostPut(tube, body int) int { return sizeOfPut(tube, body) }

// FitsPut tells whether a job that takes that many bytes can be put, and leaves
// enough space for all that may become of those that are there.
func (l *Log) FitsPut(n int) bool {
	if !l.setAside(int64(n)+blockOverhead+owedDelete+owedBlock+l.promised()+l.spare()) || l.stuck.Load() {
		return false
	}
	l.fresh++
	if l.full.Load() {
		l.full.Store(false)
		l.store.log.Info("binlog: there is room again: puts are accepted", "shard", l.stream.shard)
	}
	return true
}

// promised is how many bytes deletes may take.
func (l *Log) promised() int64 { return l.owed.Load() + int64(l.fresh)*(owedDelete+owedBlock) }

// FitsChange tells whether there is room for a change of a job.
func (l *Log) FitsChange() bool { return l.setAside(maxMeta + blockOverhead + l.promised()) }

// FitsCopy tells whether there is room for cleaning to write that many bytes.
func (l *Log) FitsCopy(n int64) bool {
	n += blockOverhead
	return l.setAside(n+l.promised()+l.spare()) || l.unspoken()-n >= l.promised()+l.store.segment/8
}

// setAside tells whether that many bytes are set aside and not spoken for; it
// sees to it, if the disk has them.
func (l *Log) setAside(n int64) bool {
	short := n - l.unspoken()
	if short <= 0 {
		return true
	}
	if l.full.Load() && time.Since(l.tried) < retry {
		return false
	}
	if err := l.to.allocate(short + l.step()); err != nil {
		l.tried = time.Now()
		l.noRoom(err)
		return false
	}
	return true
}

// retry is how long a full disk is left alone.
const retry = 20 * time.Millisecond

// unspoken is how many bytes are set aside and not spoken for.
func (l *Log) unspoken() int64 { return l.to.room.Load() - int64(len(l.batch.buf)) }

// noRoom says that no more space could be set aside, and why.
func (l *Log) noRoom(err error) {
	if !isFull(err) {
		l.fail(err)
		return
	}
	if !l.full.Swap(true) {
		l.store.log.Error("binlog: the disk is full: puts are answered OUT_OF_MEMORY until there is room", "shard", l.stream.shard, "err", err)
	}
}

// Put appends a job, all of it, and returns how many bytes that took.
func (l *Log) Put(j *Job) int {
	n := l.begin(sizeOfPut(len(j.Tube), len(j.Body)))
	l.batch.buf = appendPut(l.batch.buf, j)
	l.batch.records++
	return len(l.batch.buf) - n
}

// Change appends what a job has become, and returns how many bytes that took.
func (l *Log) Change(m *Meta) int {
	n := l.begin(maxMeta)
	l.batch.buf = appendMeta(l.batch.buf, kindChange, m)
	l.batch.records++
	return len(l.batch.buf) - n
}

// Delete appends that a job is no more, and returns how many bytes that took.
func (l *Log) Delete(id uint64) int { return l.number(kindDelete, id) }

// Drop appends that no job is in a segment before that one any more, and has
// their files removed when that is safe.
func (l *Log) Drop(segment uint64) int {
	l.batch.drop = segment
	l.oldest.Store(segment)
	return l.number(kindDrop, segment)
}

func (l *Log) number(k kind, v uint64) int {
	n := l.begin(maxMeta)
	l.batch.buf = appendNumber(l.batch.buf, k, v)
	l.batch.records++
	return len(l.batch.buf) - n
}

// begin returns where a record of that size will begin in the batch.
func (l *Log) begin(size int) int {
	if l.batch.records > 0 && len(l.batch.buf)+size > maxBatch {
		l.Commit(nil, l.live)
	}
	return len(l.batch.buf)
}

// Written returns the index of the segment that is being written. All that was
// appended to segments before it is in their files.
func (l *Log) Written() uint64 { return l.current.Load() }

// Migrated counts jobs that cleaning has put again.
func (l *Log) Migrated(n int) { l.migrated.Add(uint64(n)) }

// Commit ends a batch, which has held wait for it, if it is not nil; live is how many jobs there
// are now. It reports true if nothing is to be waited for: the batch is empty
// and all before it are safe. Then held is not called.
func (l *Log) Commit(held Held, live int) bool {
	g := l.batch
	if g.records > 0 {
		g.promise = int64(len(g.buf)) + 1
		l.to.room.Add(-g.promise)
		l.written.Add(uint64(g.records))
		l.live, l.fresh = live, 0
		if o := owed(live); o != l.owed.Load() {
			l.owed.Store(o)
		}
	}
	l.mu.Lock()
	if g.records == 0 && !l.busy && len(l.queue) == 0 {
		l.mu.Unlock()
		return true
	}
	g.to = l.to
	if n := len(l.queue); n > 0 && l.queue[n-1].takes(g) {
		last := l.queue[n-1]
		last.buf = append(last.buf, g.buf[blockHeader:]...)
		last.records += g.records
		last.promise += g.promise
		last.drop = max(last.drop, g.drop)
		last.wait(held)
		enough := l.count(g.records)
		l.mu.Unlock()
		g.reset()
		if enough {
			poke(l.wake)
		}
		return false
	}
	g.wait(held)
	l.queue = append(l.queue, g)
	enough := l.count(g.records) || !l.busy
	l.busy = true
	if n := len(l.free); n > 0 {
		l.batch, l.free = l.free[n-1], l.free[:n-1]
	} else {
		l.batch = newGroup()
	}
	l.mu.Unlock()
	if enough {
		poke(l.wake)
	}
	return false
}

// count counts records in the queue, and tells whether they are now what the
// writer waits for. The caller holds mu.
func (l *Log) count(records int) bool {
	before := l.queued
	l.queued += records
	return before < l.enough && l.queued >= l.enough
}

func (g *group) wait(h Held) {
	if h != nil {
		g.held = append(g.held, h)
	}
}

// takes tells whether batch b may be added to g.
func (g *group) takes(b *group) bool {
	return g.to == b.to && len(g.buf)+len(b.buf) <= maxGroup
}

func (g *group) reset() {
	if cap(g.buf) > 2*maxGroup {
		g.buf = make([]byte, blockHeader, 4096)
	}
	clear(g.held)
	*g = group{buf: g.buf[:blockHeader], held: g.held[:0]}
}

// poke puts a token into a channel with room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Flush waits until all that was committed is written and synced. Nothing may
// be committed meanwhile.
func (l *Log) Flush() error {
	done := make(flushed)
	if !l.Commit(done, l.live) {
		<-done
	}
	if err := l.Err(); err != nil {
		return err
	}
	return l.janitor.sync()
}

type flushed chan struct{}

// Release is Held's.
func (f flushed) Release(error) { close(f) }

// Close writes and syncs all that was committed and ends the log. The error is
// why some of it may not be there.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	poke(l.wake)
	<-l.done
	l.janitor.stop()
	if l.Err() == nil && l.store.cfg.Sync != SyncNever {
		if err := l.janitor.sync(); err != nil {
			l.fail(err)
		}
	}
	errs := []error{l.Err(), l.writer.to.close()}
	for _, seg := range []*segment{l.to, l.next} {
		if seg != nil && seg != l.writer.to { // it was never begun
			errs = append(errs, seg.file.Close(), l.store.remove(seg.name.String()))
		}
	}
	return errors.Join(errs...)
}

// close gives back what was set aside and not used.
func (s *segment) close() error {
	s.mu.Lock()
	s.sealed = true
	s.mu.Unlock()
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.closed = true
	return errors.Join(s.file.Truncate(s.size.Load()), s.file.Close())
}

// drop takes the segments before that one off the list of the stream, and
// returns them.
func (t *stream) drop(before uint64) []segmentName {
	i := slices.IndexFunc(t.names, func(n segmentName) bool { return n.index >= before })
	if i < 0 {
		i = len(t.names)
	}
	gone := slices.Clone(t.names[:i])
	t.names = slices.Delete(t.names, 0, i)
	return gone
}
