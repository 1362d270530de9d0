package binlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
)

// The last steps of a Store: from when it has been read back until it is closed.
// From Begin on the directory changes, in such an order that a crash at any moment
// loses nothing.

// Begin makes the logs that are written from now on, one for each shard, in their
// order. If the directory is Rearranged, the caller writes all jobs to them and
// flushes each (Log.Flush) before it calls Commit. If Config.Strict, damage found
// so far is an error.
func (st *Store) Begin() ([]*Log, error) {
	if st.cfg.Strict && len(st.damages) > 0 {
		return nil, st.wrap(st.refusal())
	}
	st.noRoomAdvice = st.adviseRoom()
	st.rewriting.Store(st.rearranged)
	logs, err := st.begin()
	if err != nil {
		_ = st.closeLogs()
		st.logs = nil // Close, which the caller still calls, must not close them again
		return nil, st.wrapBegin(err)
	}
	return logs, nil
}

// refusal is why a Strict start does not go on after damage.
func (st *Store) refusal() error {
	places := "1 place"
	if n := len(st.damages); n > 1 {
		places = fmt.Sprintf("%d places, the first", n)
	}
	return fmt.Errorf("it is damaged in %s: %v; start without --binlog-strict to have all jobs served that can be saved, or see with `sheafd binlog dump %s` what is there",
		places, st.damages[0], st.cfg.Dir)
}

// begin is Begin, without the words for its errors. It goes step by step, in such an order
// that a crash in between loses nothing, and that space is given back before it is needed.
func (st *Store) begin() ([]*Log, error) {
	st.headersSynced = st.cfg.Sync != SyncNever
	st.fill = st.cfg.Sync == 0 && st.fs.InPlace(st.cfg.Dir)
	// Many processors gain nothing by it, since some of them are idle. And what is known
	// to write in place is no network's file system, which may stop answering.
	st.inPlace = st.fill && runtime.GOMAXPROCS(0) <= 2
	if st.manifestUnreadable {
		// This comes before any write: a start that cannot replace the manifest would
		// fail in the end anyway.
		if err := st.moveToDamaged(manifestName); err != nil {
			return nil, fmt.Errorf("the disk can neither read the manifest nor have it out of the way, so check the file system first: %w", err)
		}
	}
	if err := st.renameMisnamed(); err != nil {
		return nil, err
	}
	if err := st.announceGaps(); err != nil {
		return nil, err
	}
	if st.rearranged && st.manifest == nil && !st.manifestLost {
		// Without this a crash from here on would leave segments without a manifest,
		// which count; with an empty one they do not.
		if err := writeManifest(st.fs, st.cfg.Dir, &manifest{id: st.id}); err != nil {
			return nil, err
		}
	}
	if st.rearranged {
		st.epoch = max(st.epoch, st.newestEpoch) + 1
	}
	st.replayedID = st.LastID()
	for _, t := range st.streams {
		st.lastIndex.Store(max(st.lastIndex.Load(), t.lostTail))
	}
	for _, name := range st.leftovers {
		if err := st.retire(name); err != nil {
			return nil, err
		}
	}
	if err := st.trimAll(); err != nil {
		return nil, err
	}
	if err := st.newLogs(); err != nil {
		return nil, err
	}
	if err := st.fs.SyncDir(st.cfg.Dir); err != nil || st.rearranged {
		return st.logs, err
	}
	if err := st.replaceManifest(); err != nil {
		return nil, err
	}
	st.committed = true
	return st.logs, nil
}

// trimAll gives back the space that is set aside in what was read back. That comes
// before any log is made: on a full disk the logs need the space.
func (st *Store) trimAll() error {
	for _, t := range st.streams {
		if !st.rearranged {
			if err := st.trim(t); err != nil {
				return err
			}
			continue
		}
		// Where this fails the old segments have the space until Commit, and nothing else
		// is lost.
		for _, n := range t.names {
			if !slices.Contains(t.unread, n) {
				_ = st.cutAndSync(n, -1)
			}
		}
	}
	return nil
}

// newLogs makes the logs. Those that were made before an error are in st.logs, too.
func (st *Store) newLogs() error {
	for i := range st.cfg.Shards {
		t := &stream{epoch: st.epoch, shard: uint32(i)}
		if !st.rearranged {
			t = st.streams[i]
		}
		l, err := newLog(st, t)
		if err != nil {
			return err
		}
		st.logs = append(st.logs, l)
	}
	// Each log needs the page that its header is in, and no more to begin with. So all
	// of them get that before any gets another.
	for _, l := range st.logs {
		if err := l.to.allocate(minSegment); err != nil && !isFull(err) {
			return err
		}
	}
	return nil
}

// replaceManifest has the manifest say what this start has begun.
func (st *Store) replaceManifest() error {
	m, err := st.newManifest()
	if err != nil {
		return err
	}
	if err := writeManifest(st.fs, st.cfg.Dir, m); err != nil {
		if !isFull(err) {
			return err
		}
		// The old manifest will do: it says less, and nothing wrong. (A damaged segment
		// that it does not name is put aside by this server, or by the next one if that
		// finds the damage, too.) But if it is from a server that syncs, headers have to
		// be synced as it did.
		st.headersSynced = st.headersSynced || len(st.manifest.synced) > 0
	}
	return nil
}

// announceGaps has the manifest say where numbers of blocks are left out, before
// any block is written behind such a gap. If the disk is full the next manifest
// says it.
func (st *Store) announceGaps() error {
	if st.rearranged || !slices.ContainsFunc(st.streams, func(t *stream) bool { return t.gapsChanged }) {
		return nil
	}
	m := *st.manifest
	m.gaps = nil
	for _, t := range st.streams {
		m.gaps = append(m.gaps, t.gaps...)
	}
	if err := writeManifest(st.fs, st.cfg.Dir, &m); !isFull(err) {
		return err
	}
	return nil
}

// newManifest returns the manifest of this moment, at a start or at its good end. If
// the server syncs at all, every block up to now is on the disk.
func (st *Store) newManifest() (*manifest, error) {
	m := &manifest{epoch: st.epoch, shards: st.cfg.Shards, id: st.id, highest: st.highestID(), boot: st.fs.Boot()}
	for _, l := range st.logs {
		m.begun = append(m.begun, l.begun)
		if st.cfg.Sync != SyncNever {
			m.synced = append(m.synced, l.writer.seq)
		}
		m.gaps = append(m.gaps, l.stream.gaps...)
	}
	for _, name := range slices.Concat(st.imported, st.toImport) {
		f, err := st.describeImport(name)
		if err != nil {
			return nil, err
		}
		m.imported = append(m.imported, f)
	}
	m.damaged = st.namesForAside()
	return m, nil
}

// trim gives back the space that a crashed server had set aside in a stream, cuts
// off a torn block, removes segments that it had not begun, and makes the rest
// durable.
func (st *Store) trim(t *stream) error {
	for _, n := range t.unbegun {
		if err := st.remove(n.String()); err != nil {
			return err
		}
		t.names = slices.DeleteFunc(t.names, func(m segmentName) bool { return m == n })
	}
	for _, n := range t.names {
		if slices.Contains(t.unread, n) {
			continue // it stays as it is: nobody knows what is in it
		}
		end := int64(-1) // whatever it ends with stays, for somebody to look at
		if n == t.tail && t.cleanEnd {
			end = t.end
		}
		if err := st.cutAndSync(n, end); err != nil {
			return err
		}
	}
	return nil
}

// cutAndSync cuts a segment off at an offset in bytes, or at its end if that is -1,
// which gives back what is set aside behind it. Then it makes the segment durable,
// if the server syncs: what was read back counts from now on, and may not be on the
// disk yet, since the server before may have been killed or told not to sync.
func (st *Store) cutAndSync(n segmentName, end int64) error {
	f, err := st.fs.OpenWrite(filepath.Join(st.cfg.Dir, n.String()))
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if end < 0 || end > size { // the file may be shorter than a header
		end = size
	}
	if err := f.Truncate(end); err != nil || st.cfg.Sync == SyncNever {
		return err
	}
	return f.Sync()
}

// Commit ends the rearrangement, if there is one: from then on the new segments
// count, and what was read back does not. It is called once, after Begin.
func (st *Store) Commit() error {
	if err := st.commit(); err != nil {
		return st.wrap(err)
	}
	for _, l := range st.logs {
		if err := l.Err(); err != nil && st.rearranged {
			return err // Log.fail has not logged it while all jobs were written again
		}
	}
	return nil
}

func (st *Store) commit() error {
	if !st.rearranged {
		return st.putBeanstalkdAside()
	}
	m, err := st.newManifest()
	if err != nil {
		return err
	}
	if err := writeManifest(st.fs, st.cfg.Dir, m); err != nil {
		return err
	}
	st.committed = true
	st.rewriting.Store(false)
	for _, t := range st.streams {
		for _, n := range t.names {
			if err := st.retire(n.String()); err != nil {
				return err
			}
		}
	}
	return st.putBeanstalkdAside()
}

// recordEnd has the manifest say how far the logs came, when they have come to a
// good end: if some of that is missing at the next start, no power failure has taken
// it. On a full disk the manifest gets the room that one of the logs has kept. If
// even that is too little, the old manifest stays; as it does where nothing is ever
// synced.
func (st *Store) recordEnd() error {
	if !st.committed || st.cfg.Sync == SyncNever {
		return nil
	}
	m, err := st.newManifest()
	if err != nil {
		return st.wrap(err)
	}
	m.boot = ""
	write := func() error { return writeManifest(st.fs, st.cfg.Dir, m) }
	err = write()
	for _, l := range st.logs {
		if !isFull(err) {
			break
		}
		err = l.lendSpace(write)
	}
	if err == nil || isFull(err) {
		return nil
	}
	return st.wrap(err)
}

// takeBack removes the segments of a rearrangement that has failed. What it does
// not get to is a leftover, which the next start removes. All segments of this epoch
// are new, except foreign ones whose numbers are far off.
func (st *Store) takeBack() {
	m, err := readManifest(st.fs, st.cfg.Dir)
	damaged := st.manifestLost && errors.Is(err, errManifest) && !isUnreadable(err)
	if err != nil && !damaged || m != nil && m.epoch == st.epoch {
		return // they may count: the manifest was replaced, though maybe not durably
	}
	entries, err := st.fs.ReadDir(st.cfg.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		n, ok := parseSegmentName(e.Name())
		if ours := ok && n.epoch == st.epoch && !n.farOff(); ours || e.Name() == manifestName+".new" {
			_ = st.remove(e.Name())
		}
	}
}

func (st *Store) remove(name string) error {
	err := st.fs.Remove(filepath.Join(st.cfg.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
