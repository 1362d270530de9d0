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
	unsynced bool   // something is written and not synced; under mu
	drops    uint64 // segments before this one may go; under mu
	wants    bool   // the current segment is nearly full, or short of room; under mu

	syncedAt  time.Time // when it was last done; under mu
	nextTried time.Time // when there was no room; the goroutine's own
	checkedAt time.Time // at the disk; the goroutine's own
	newest    *segment  // that was made ready, nil if none was; the goroutine's own
}

// needsSync says that something was written that is to be synced.
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

// discard says that segments before that one may go.
func (j *janitor) discard(before uint64) {
	j.mu.Lock()
	j.drops = max(j.drops, before)
	j.mu.Unlock()
	poke(j.wake)
}

// wakeIfShort wakes the janitor if the segment needs it.
func (j *janitor) wakeIfShort(seg *segment) {
	short := seg.room.Load() < j.Reserve()+j.Step()/2 && !j.full.Load()
	if short || !j.ready.Load() {
		j.ask()
	}
}

// ask has the goroutine prepare what there is to prepare.
func (j *janitor) ask() {
	if !j.want() {
		poke(j.wake)
	}
}

// want says that there is something to prepare, and reports whether that was
// known.
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

// work does what there is to do, and returns how long something has to wait
// that is to be done later.
func (j *janitor) work() (wait time.Duration) {
	if j.Err() != nil {
		return 0
	}
	if j.jobs.Load() > 0 && !j.full.Load() {
		defer func() {
			if wait == 0 || wait > checkDiskEvery {
				wait = checkDiskEvery
			}
		}()
		if time.Since(j.checkedAt) >= checkDiskEvery {
			j.checkDisk()
		}
	}
	j.mu.Lock()
	unsync, drops, wants, synced := j.unsynced, j.drops, j.wants, j.syncedAt
	j.drops, j.wants = 0, false
	j.mu.Unlock()
	if wants { // first, since a sync may take long
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
			(*f)() // on a full disk cleaning waits for it, and so may others
		}
	}
	return wait
}

// checkDiskEvery is how long it takes at most until it is seen that other programs have
// nearly filled the disk.
const checkDiskEvery = time.Second

// checkDisk looks at the disk, and asks for what is to be set aside then.
func (j *janitor) checkDisk() {
	j.checkedAt = time.Now()
	j.checkTight()
	j.mu.Lock()
	seg := j.writer.to
	j.mu.Unlock()
	if seg.room.Load() < j.Reserve() {
		j.want()
	}
}

// sync syncs what is written, in any mode. That it fails is the end of the log.
func (j *janitor) sync() error {
	j.mu.Lock()
	seg := j.writer.to
	j.unsynced = false
	j.syncedAt = time.Now()
	j.mu.Unlock()
	seg.syncing.Lock()
	defer seg.syncing.Unlock()
	if seg.closed {
		return nil // the writer is done with it: it has synced it, unless that is never done
	}
	if err := seg.file.Sync(); err != nil {
		j.fail(fmt.Errorf("syncing %s: %w", seg.name, err))
	}
	return j.Err()
}

// prepare sets space aside in the current segment, and has a next one ready. It
// reports false if it is to be tried again.
func (j *janitor) prepare() bool {
	j.mu.Lock()
	seg := j.writer.to
	j.mu.Unlock()
	made := j.hasNext(seg)
	if made && !j.ready.Load() {
		// The shard goes on in the next one already: nothing more is promised here,
		// though it may take long until the writer comes by.
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
			// Cleaning is to begin while it has room for its copies; a put that finds
			// none says so.
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
			j.nextErr.Store(&err)
			poke(j.news)
		} else {
			j.fail(fmt.Errorf("making a segment: %w", err))
		}
		return false
	}
	j.newest = next
	j.next = next
	j.nextErr.Store(nil)
	j.ready.Store(true)
	poke(j.news)
	if f := j.prepared.Load(); f != nil && seg.spokenFor() >= j.store.segment {
		(*f)() // the shard may have nothing else to do
	}
	return true
}

// hasNext tells whether there is a segment behind that one, which the writer is in.
func (j *janitor) hasNext(seg *segment) bool {
	return j.newest != nil && j.newest.name.index > seg.name.index
}

// createNext makes the file of the next segment, for good.
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

// remove removes the files of segments before that one. On a full disk it is
// this log that has their space first: cleaning has taken from its reserve to
// come by that.
func (j *janitor) remove(before uint64) {
	if j.full.Load() {
		j.store.space.Lock() // what is given back is taken by nobody else
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

// refill sets aside what is missing of the reserve, or as much as there is. If it
// is all there, and as much again, the disk is not full any more. The caller holds
// store.space.
func (j *janitor) refill() {
	j.mu.Lock()
	seg := j.writer.to
	j.mu.Unlock()
	if j.hasNext(seg) && !j.ready.Load() {
		seg = j.newest // the shard goes on there already
	}
	j.fill(seg, j.Reserve()-seg.room.Load())
	// Where nobody puts anything nobody else finds out that jobs which were deleted have
	// made room. It has to be enough for all logs, since they go on as if there were more.
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
