package binlog

import (
	"fmt"
	"time"
)

// writer is the goroutine of a log that writes its segments. Its fields are its
// own, except for to: the janitor reads that, so it changes under the janitor's mu.
type writer struct {
	*Log
	packer        packer
	seq           uint64   // of the next block
	to            *segment // that is written to
	previous      uint64   // segment, for the next header; 0 for none
	oldestWritten uint64   // the oldest segment that is needed, by the drops that are written; Log.oldest may be ahead

	syncTime   time.Duration // about how long a sync takes; an average
	shortSyncs int           // since one that was not short

	// For gather.
	timer          *time.Timer
	skips, backoff int // how many more times not to wait, of how many
}

// run is the life of the goroutine.
func (w *writer) run() {
	defer close(w.done)
	var taken []*group
	for {
		w.gather(taken)
		var closing bool
		taken, closing = w.queue.take(taken)
		if len(taken) == 0 {
			if closing {
				return
			}
			<-w.queue.wake
			continue
		}
		for _, g := range taken {
			w.writeGroup(g)
		}
	}
}

// gatherMost is how long gather waits at most.
const gatherMost = 2 * time.Millisecond

// gather waits for a moment, if each answer needs a sync, so that more answers
// share the next one. Clients that were just answered tend to come back at once,
// and if a sync begins with the first of them, all others have to wait for that
// one and for their own. So gather waits until about as many records have come as
// the last sync wrote and came during it, for at most a few times as long as a
// sync takes, since those clients need time to run. If fewer come the guess was
// bad, and it is not made again for a while.
func (w *writer) gather(released []*group) {
	// Where a sync takes no time there is nothing to share. That is so on the disks
	// of tests, where no timer that is due at once may be set: in a synctest bubble
	// it breaks the race detector.
	if w.store.cfg.Sync != 0 || len(released) == 0 || w.syncTime == 0 {
		return
	}
	if w.skips > 0 {
		w.skips--
		return
	}
	// Whoever waited for an earlier group than the last is back already.
	if !w.queue.expect(released[len(released)-1].records) {
		return
	}
	w.timer.Reset(min(8*w.syncTime, gatherMost))
	late := false
	select {
	case <-w.queue.wake:
	case <-w.timer.C:
		late = true
	}
	w.timer.Stop()
	w.queue.expectNothing()
	if late {
		w.skips = min(2*w.backoff+1, 64)
		w.backoff = w.skips
	} else {
		w.backoff = 0
	}
}

// writeGroup makes one group safe and releases what waits for it.
func (w *writer) writeGroup(g *group) {
	err := w.Err()
	if err == nil && g.records > 0 {
		if err = w.write(g); err != nil {
			w.fail(err)
			err = w.Err()
		}
	}
	for _, h := range g.held {
		h.Release(err)
	}
	if err == nil && g.drop != 0 {
		w.oldestWritten = g.drop
		w.janitor.discard(g.drop)
	}
}

// write writes one group, and syncs it if Config.Sync is 0.
func (w *writer) write(g *group) error {
	if g.to != w.to {
		if err := w.roll(g.to); err != nil {
			return err
		}
	}
	if err := w.writeBlock(w.to, g.buf, g.promise); err != nil {
		return err
	}
	if w.store.cfg.Sync == 0 {
		if err := w.sync(); err != nil {
			return err
		}
	} else {
		w.janitor.needsSync()
	}
	w.janitor.wakeIfShort(w.to)
	return nil
}

// sync syncs the segment: in place, if that is of use and syncs are short.
func (w *writer) sync() error {
	sync := w.to.file.Sync
	if w.store.inPlace && w.syncTime < briefly && w.shortSyncs >= enoughShort {
		sync = w.to.file.SyncInPlace
	}
	begin := time.Now()
	err := sync()
	took := time.Since(begin)
	w.syncTime += (took - w.syncTime) / 8
	w.shortSyncs++
	if took > 2*briefly {
		w.shortSyncs = 0
	}
	return err
}

// Syncs are in place when they take less than briefly on average, and none of the last
// enoughShort took more than twice as long. One of 0.1 ms takes 0.2 where threads wait for
// cores. The longer they are the less is gained, and the longer others wait.
const (
	briefly     = 500 * time.Microsecond
	enoughShort = 64
)

// noFill is from which size on, in bytes, blocks are not worth the zeros under them: a
// sync of so much takes hardly less time by it.
const noFill = 128 << 10

// writeBlock writes the records in b, which begins with room for a header, as one
// block at the end of a segment. promise is how much of the segment's room was
// taken for it.
func (w *writer) writeBlock(to *segment, b []byte, promise int64) error {
	packed := w.packer.pack(b, w.seq, to.seed)
	size := to.size.Load()
	if end := size + int64(len(packed)); end > to.end.Load() {
		fill := w.store.fill && len(packed) < noFill
		if err := w.withRoom(func() error { return to.extend(end, w.Step(), fill) }); err != nil {
			return fmt.Errorf("writing %s at offset %d: %w", to.name, size, err)
		}
	}
	err := w.withRoom(func() error {
		_, err := to.file.WriteAt(packed, size)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %s at offset %d: %w", to.name, size, err)
	}
	w.seq++
	to.size.Store(size + int64(len(packed)))
	to.room.Add(promise - int64(len(packed)))
	return nil
}

// withRoom tries something until the disk has room for it. A disk that keeps what
// was set aside has the room at once, but not all disks do. It gives up where
// waiting is of no use: when the log ends, or at a start, which can fail instead.
func (w *writer) withRoom(try func() error) error {
	for {
		err := try()
		if err == nil || !isFull(err) {
			w.stuck.Store(false)
			return err
		}
		if w.to == nil || w.Err() != nil || w.queue.isClosing() || w.store.rewriting.Load() {
			return err
		}
		if !w.stuck.Swap(true) {
			poke(w.news)
			w.store.log.Error("binlog: the disk is full: answers wait for room, puts are answered OUT_OF_MEMORY", "shard", w.stream.shard, "err", err)
		}
		time.Sleep(retry)
	}
}

// roll goes on in the next segment, in this order: sync the old segment, so that a
// power failure always takes the end of the stream; begin the next one; only then
// write a block to the old one that says where the stream goes on, so that a
// segment that was announced is there. That block has the same number as the one
// behind it: whether it is on the disk or not, no number is missing.
func (w *writer) roll(next *segment) error {
	old := w.to
	if w.store.cfg.Sync > 0 {
		if err := old.file.Sync(); err != nil {
			return fmt.Errorf("syncing %s: %w", old.name, err)
		}
	}
	w.previous = old.name.index
	if err := w.writeHeader(next, w.seq); err != nil {
		return fmt.Errorf("beginning %s: %w", next.name, err)
	}
	record := appendNumber(make([]byte, blockHeader, 64), kindRoll, next.name.index)
	if err := w.writeBlock(old, record, int64(len(record))+1); err != nil {
		return err
	}
	w.seq--
	if w.store.cfg.Sync != SyncNever {
		if err := old.file.Sync(); err != nil {
			return fmt.Errorf("syncing %s: %w", old.name, err)
		}
	}
	w.enter(next)
	return old.close()
}

// writeHeader begins a segment: it writes a header, with the number that its first
// block is to have, and makes that durable if the server ever syncs.
func (w *writer) writeHeader(seg *segment, first uint64) error {
	h := header{
		segmentName: seg.name,
		shards:      uint32(w.store.cfg.Shards),
		previous:    w.previous,
		oldest:      w.oldestWritten,
		first:       first,
		lastID:      w.store.highestID(),
		id:          w.store.id,
		created:     time.Now().UnixNano(),
	}
	seg.begun = true
	err := w.withRoom(func() error {
		_, err := seg.file.WriteAt(h.encode(), 0)
		return err
	})
	if err != nil {
		return err
	}
	if w.store.headersSynced {
		return seg.file.Sync()
	}
	return nil
}

// enter goes on in a segment that was begun: it is the one written from now on.
func (w *writer) enter(seg *segment) {
	seg.size.Store(segmentHeader)
	w.current.Store(seg.name.index)
	w.janitor.mu.Lock()
	w.to = seg
	w.stream.names = append(w.stream.names, seg.name)
	w.janitor.mu.Unlock()
	if f := w.prepared.Load(); f != nil && w.full.Load() {
		(*f)()
	}
}
