package binlog

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// janitor is the goroutine of a log that does what the writer must not wait
// for: it syncs from time to time, makes the next segment ready, sets space
// aside, and removes segments that are needed no more.
type janitor struct {
	*Log
	wake chan struct{} // room for one token
	quit chan struct{} // closed to end it
	done chan struct{} // closed when it has ended

	mu       sync.Mutex
	unsynced bool   // something is written that is still to be synced; under mu
	drops    uint64 // segments before this one may go, 0 if none are to; under mu
	wants    bool   // prepare may have something to do; under mu

	syncedAt time.Time // when a sync was last begun; under mu

	// The goroutine's own.
	nextTried time.Time // when there was last no room for a next segment
	checkedAt time.Time // when checkDisk was last called
	newest    *segment  // the last that was made ready, nil if none was
	tooMuch   int       // calls of checkDisk in a row that have found far too much set aside
}

// needsSync tells the janitor that something was written that is to be synced.
func (j *janitor) needsSync() {
	if j.store.cfg.Sync == SyncNever {
		return
	}
	j.mu.Lock()
	was := j.unsynced
	j.unsynced = true
	j.mu.Unlock()
	if !was {
		poke(j.wake)
	}
}

// discard tells the janitor that the segments before that one may go.
func (j *janitor) discard(before uint64) {
	j.mu.Lock()
	j.drops = max(j.drops, before)
	j.mu.Unlock()
	poke(j.wake)
}

// wakeIfShort asks for a preparation if the segment is short of room, or there is
// no next one.
func (j *janitor) wakeIfShort(seg *segment) {
	short := seg.room.Load() < j.Reserve()+j.Step()/2 && !j.full.Load()
	if short || !j.next.ready.Load() {
		j.ask()
	}
}

// ask has the goroutine call prepare. Any goroutine may call it.
func (j *janitor) ask() {
	if !j.want() {
		poke(j.wake)
	}
}

// want notes that prepare is to be called, and reports whether that was noted
// already.
func (j *janitor) want() (was bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	was, j.wants = j.wants, true
	return was
}

// run is the life of the goroutine.
func (j *janitor) run() {
	defer close(j.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-j.quit:
			return
		case <-j.wake:
		case <-timer.C:
		}
		if wait := j.work(); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// writing returns the segment that the writer is in.
func (j *janitor) writing() *segment {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.writer.to
}

// work does what there is to do now, and returns after how long something else is
// due; 0 if nothing is.
func (j *janitor) work() (wait time.Duration) {
	if j.Err() != nil {
		return 0
	}
	look := j.look() // first, as prepare may be due after it
	return sooner(look, j.tidy())
}

// sooner returns the shorter of two times to wait, of which 0 is for ever.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// look is the part of work that comes again and again.
func (j *janitor) look() (wait time.Duration) {
	wait = j.store.refusals.settle()
	if (j.jobs.Load() > 0 || j.hasFarTooMuch(j.writing())) && !j.full.Load() {
		if time.Since(j.checkedAt) >= checkDiskEvery {
			j.checkDisk()
		}
		wait = sooner(wait, checkDiskEvery)
	}
	return wait
}

// tidy is the part of work that somebody has asked for.
func (j *janitor) tidy() (wait time.Duration) {
	j.mu.Lock()
	unsync, drops, wants, synced := j.unsynced, j.drops, j.wants, j.syncedAt
	j.drops, j.wants = 0, false
	j.mu.Unlock()
	for _, seg := range []*segment{j.writing(), j.newest} { // the shard is in one of them
		if seg != nil {
			if err := seg.giveSurplus(); err != nil {
				j.fail(fmt.Errorf("giving back what is set aside in %s: %w", seg.name, err))
			}
		}
	}
	if wants { // before the sync, which may take long
		if since := time.Since(j.nextTried); since < retry || !j.prepare() {
			j.want()
			wait = retry
		}
	}
	if unsync && j.Err() == nil {
		left := j.store.cfg.Sync - time.Since(synced)
		switch {
		case left <= 0 || drops != 0:
			if j.sync() != nil {
				return 0
			}
		case wait == 0 || wait > left:
			wait = left
		}
	}
	if drops != 0 && j.Err() == nil {
		j.remove(drops)
		j.freed.Store(true)
		j.removed.Store(drops)
		if f := j.prepared.Load(); f != nil {
			(*f)() // on a full disk cleaning waits for that, and so may others
		}
	}
	return wait
}

// checkDiskEvery is how long it takes at most until it is noticed that other
// programs have nearly filled the disk.
const checkDiskEvery = time.Second

// checkDisk finds out whether the disk is nearly full, and has prepare called if
// there is more to set aside.
func (j *janitor) checkDisk() {
	j.checkedAt = time.Now()
	j.checkTight()
	seg := j.writing()
	if seg.room.Load() < j.Reserve() {
		j.want()
	}
	if j.tight.Load() || !j.hasFarTooMuch(seg) {
		j.tooMuch = 0
		return
	}
	// The jobs may be back in a moment: so it has to be so for a second.
	if j.tooMuch++; j.tooMuch > 1 {
		j.tooMuch = 0
		j.excess.Store(true)
		if f := j.prepared.Load(); f != nil {
			(*f)() // the shard may have nothing else to do
		}
	}
}

// sync syncs what is written, whatever Config.Sync is. If it fails, so does the log.
func (j *janitor) sync() error {
	j.mu.Lock()
	seg := j.writer.to
	j.unsynced = false
	j.syncedAt = time.Now()
	j.mu.Unlock()
	seg.syncing.Lock()
	defer seg.syncing.Unlock()
	if seg.closed {
		return nil // the writer is done with it, and has synced it unless Config.Sync is SyncNever
	}
	if err := seg.file.Sync(); err != nil {
		j.fail(fmt.Errorf("syncing %s: %w", seg.name, err))
	}
	return j.Err()
}

// prepare sets space aside in the current segment, and makes the next one if there
// is none. It reports false if it is to be tried again.
func (j *janitor) prepare() bool {
	seg := j.writing()
	made := j.hasNext(seg)
	if made && !j.next.ready.Load() {
		// The shard is in the next one already, so nothing more is promised in this one;
		// it may take long until the writer closes it.
		if _, err := seg.giveBack(true); err != nil {
			j.fail(err)
		}
		return true
	}
	j.checkTight()
	step := j.Step()
	if short := j.Reserve() + step - seg.room.Load(); short > 0 {
		j.store.space.Lock()
		err := seg.allocate((short + step - 1) / step * step)
		if isFull(err) && short > step {
			err = seg.allocate(step)
		}
		j.store.space.Unlock()
		switch {
		case isFull(err):
			// Cleaning is to begin now, while it has room for its copies. That the disk is
			// full is logged when a put finds no room.
			j.full.Store(true)
		case err != nil:
			j.fail(err)
		}
	}
	if made {
		return true
	}
	next, err := j.createNext()
	if err != nil {
		j.nextTried = time.Now()
		if isFull(err) || isScarce(err) {
			j.next.fails(err)
			poke(j.news)
		} else {
			j.fail(fmt.Errorf("making a segment: %w", err))
		}
		return false
	}
	j.newest = next
	j.next.offer(next)
	poke(j.news)
	if f := j.prepared.Load(); f != nil && seg.spokenFor() >= j.store.segment {
		(*f)() // the shard may have nothing else to do
	}
	return true
}

// hasNext tells whether a segment was made behind seg, which the writer is in.
func (j *janitor) hasNext(seg *segment) bool {
	return j.newest != nil && j.newest.name.index > seg.name.index
}

// createNext makes the file of the next segment, durably.
func (j *janitor) createNext() (*segment, error) {
	seg, err := j.create()
	if err != nil || !j.store.headersSynced {
		return seg, err
	}
	if err := j.store.fs.SyncDir(j.store.cfg.Dir); err != nil {
		return nil, errors.Join(err, j.abandon(seg))
	}
	return seg, nil
}

// remove removes the files of segments before that one. On a full disk this log
// gets their space before any other: cleaning has used up its reserve for it.
func (j *janitor) remove(before uint64) {
	if j.full.Load() {
		j.store.space.Lock() // so that nobody else takes what is given back
		defer j.store.space.Unlock()
		defer j.refill()
	}
	j.mu.Lock()
	names := j.stream.drop(before)
	j.mu.Unlock()
	for _, n := range names {
		if err := j.store.retire(n.String()); err != nil {
			j.store.log.Warn("binlog: a segment that is needed no more could not be removed", "file", n.String(), "err", err)
		}
	}
}

// refill sets aside what is missing of the reserve, or as much of it as the disk
// has. If the reserve is complete, and as much again is free for every log, the
// disk is not full any more. The caller holds store.space.
func (j *janitor) refill() {
	seg := j.writing()
	if j.hasNext(seg) && !j.next.ready.Load() {
		seg = j.newest // the shard goes on there already
	}
	j.fill(seg, j.Reserve()-seg.room.Load())
	// While nobody puts anything, this is the only place where it is found out that
	// deleted jobs have made room. It has to be enough for all logs, since a log that
	// is not full takes for granted that the disk has more.
	free, err := j.store.fs.Free(j.store.cfg.Dir)
	if need := j.Reserve(); err == nil && seg.room.Load() >= need && free >= int64(j.store.cfg.Shards)*need {
		j.full.Store(false)
		poke(j.wake) // it looks at the disk again
	}
}

// stop ends the goroutine.
func (j *janitor) stop() {
	close(j.quit)
	<-j.done
}
