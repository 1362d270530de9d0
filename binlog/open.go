package binlog

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The first step of a Store: finding out what is in the directory. Nothing is
// changed in it but its lock.

func (st *Store) open() error {
	dir := st.cfg.Dir
	if err := st.makeDir(dir); err != nil {
		return err
	}
	if err := st.writable(); err != nil {
		return err
	}
	var err error
	if st.lock, err = st.fs.Lock(filepath.Join(dir, "lock")); err != nil {
		return err
	}
	size, err := st.fs.Size(dir)
	if err != nil {
		return err
	}
	st.segment = max(minSegment, min(st.cfg.SegmentSize, size/int64(16*st.cfg.Shards)))
	if st.manifest, err = readManifest(st.fs, dir); err != nil && !errors.Is(err, errManifest) {
		return err
	}
	st.manifestUnreadable = isUnreadable(err)
	if err := st.list(err); err != nil {
		return err
	}
	return st.listBeanstalkd()
}

// writable checks that the directory, and our files and folders in it, can be
// written. It comes before any write: a file of another user, which a start as root
// or a backup may have left, would otherwise be met when others are changed already.
// Root can write to all of them, but the user who owns them could not go on with
// what root leaves.
func (st *Store) writable() error {
	var other *ownerError // of the directory or, if that is root's, the first file
	if err := st.fs.Writable(st.cfg.Dir); err != nil && !errors.As(err, &other) {
		return err
	}
	entries, err := st.fs.ReadDir(st.cfg.Dir)
	if err != nil {
		return err
	}
	mixed := false
	for _, e := range entries {
		_, ours := parseSegmentName(e.Name())
		ours = (ours || e.Name() == "lock" || e.Name() == manifestName) && e.Type().IsRegular()
		folder := e.IsDir() && (e.Name() == keptDir || e.Name() == damagedDir)
		if !ours && !folder {
			continue
		}
		// Other errors do not count here: whoever reads the file reports a bad disk,
		// and a server that has the directory may be removing the file.
		var owner *ownerError
		switch err := st.fs.Writable(filepath.Join(st.cfg.Dir, e.Name())); {
		case errors.Is(err, fs.ErrPermission):
			return err
		case folder: // root only moves files there, which keep their owner
		case err == nil:
			mixed = true
		case !errors.As(err, &owner):
		case other == nil:
			other = owner
		case owner.owner != other.owner:
			mixed = true
		}
	}
	if other == nil {
		return nil
	}
	other.mixed = mixed
	return other
}

// makeDir makes a directory if it is not there. Those above it have to be there:
// otherwise a mistyped path would be made, too, and a server without its jobs start.
func (st *Store) makeDir(dir string) error {
	_, err := st.fs.ReadDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(filepath.Clean(dir))
	if err := st.fs.Mkdir(dir); err != nil {
		if _, e := st.fs.ReadDir(above); errors.Is(e, fs.ErrNotExist) {
			return fmt.Errorf("the directory that it is to be made in, %s, is not there: create that one first, or correct the path", above)
		}
		// Another shard may have made it just now.
		switch _, e := st.fs.ReadDir(dir); {
		case e == nil:
		case errors.Is(err, fs.ErrPermission): // whoever makes it has to give it to our user
			return fmt.Errorf("%v: make it, and give it to the user that sheafd runs as, with id %d (mkdir, chown)", err, os.Geteuid())
		default:
			return err
		}
	}
	return st.fs.SyncDir(above)
}

// list looks at what is in the directory. manifestErr is that of reading the
// manifest.
func (st *Store) list(manifestErr error) error {
	entries, err := st.fs.ReadDir(st.cfg.Dir)
	if err != nil {
		return err
	}
	st.occupied = make(map[segmentName]bool)
	var names []segmentName
	var foreign []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."): // the system makes such: .nfs…, .snapshot
		case name == "lock", name == manifestName, e.IsDir() && (name == keptDir || strings.HasPrefix(name, keptDir+".") || name == damagedDir || name == "lost+found"):
		case name == manifestName+".new":
			st.leftovers = append(st.leftovers, name)
		case strings.HasPrefix(name, "segment."):
			n, ok := parseSegmentName(name)
			if ok && e.Type().IsRegular() {
				names = append(names, n)
				continue
			}
			if ok && !n.farOff() {
				st.noteName(n)
				st.occupied[n] = true
			}
			foreign = append(foreign, name)
		case strings.HasPrefix(name, "binlog."):
		default:
			foreign = append(foreign, name)
		}
	}
	all, err := st.readHeaders(names)
	if err != nil {
		return err
	}
	var files []segmentFile
	for _, f := range all {
		if f.id == 0 && f.farOff() {
			foreign = append(foreign, f.String())
			continue
		}
		st.noteName(f.segmentName)
		files = append(files, f)
	}
	for _, name := range foreign {
		st.reportForeign(name)
	}
	sortSegments(files)
	st.assignStreams(st.ownSegments(files, manifestErr))
	return nil
}

// noteName notes that a segment's name is taken, whatever the file is.
func (st *Store) noteName(n segmentName) {
	st.lastIndex.Store(max(st.lastIndex.Load(), n.index))
	st.newestEpoch = max(st.newestEpoch, n.epoch)
}

func (st *Store) reportForeign(name string) {
	st.report(Damage{name, 0, "a foreign file: it is left alone, and should be moved elsewhere"})
}

// segmentFile is a file that has the name of a segment.
type segmentFile struct {
	segmentName
	id        uint64 // of the directory that it belongs to, as its header says; 0 if that is not intact
	maybeTorn bool   // the header is not intact, and a crash may have left it so

	// What the header says if it is intact, also if it is that of another segment.
	found   segmentName
	foundID uint64 // of the directory; 0 if the header is not intact
	oldest  uint64
}

// readHeaders finds out which directories segments belong to. A segment of a
// newer format is an error.
func (st *Store) readHeaders(names []segmentName) (files []segmentFile, err error) {
	for _, n := range names {
		f, err := st.readHeader(n)
		if errors.Is(err, fs.ErrNotExist) {
			// Dump takes no lock: a server may have cleaned it away meanwhile.
			f, err = segmentFile{segmentName: n, maybeTorn: true}, nil
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// readHeader finds out which directory one segment belongs to.
func (st *Store) readHeader(n segmentName) (segmentFile, error) {
	s := segmentFile{segmentName: n}
	failures := 1
	file, err := st.openHoled(n, &failures)
	if err != nil {
		return s, err
	}
	defer file.Close()
	b := file.header()
	if file.trouble != nil {
		return s, file.trouble
	}
	s.maybeTorn = tornHeader(b) && len(file.holes) == 0
	h, err := decodeHeader(b, n)
	var future versionError
	if errors.As(err, &future) {
		return s, err
	}
	if err == nil {
		s.id = h.id
	}
	if !errors.Is(err, errHeader) {
		s.found, s.foundID, s.oldest = h.segmentName, h.id, h.oldest
	}
	return s, nil
}

// ownSegments finds out whether the manifest counts, and which id the directory
// has. It returns the segments without those of other directories, which stay as
// they are. manifestErr is that of reading the manifest.
func (st *Store) ownSegments(files []segmentFile, manifestErr error) (own []segmentFile) {
	wrong := ""
	switch m := st.manifest; {
	case manifestErr != nil:
		wrong = manifestErr.Error()
	case m == nil && len(files) > 0:
		wrong = "it is missing"
	case m != nil && mostID(files) != 0 && !slices.ContainsFunc(files, func(f segmentFile) bool { return f.id == m.id }):
		wrong = "it belongs to another directory"
	}
	if wrong != "" {
		st.manifest = nil
	}
	if st.manifest != nil {
		st.id = st.manifest.id
	} else if st.id = mostID(files); st.id == 0 {
		st.id = rand.Uint64()
	}
	for _, f := range st.findMisnamed(files) {
		if f.id != 0 && f.id != st.id {
			st.report(Damage{f.String(), 0, "it belongs to another directory: it is ignored, and should be moved elsewhere"})
			continue
		}
		own = append(own, f)
	}
	if st.manifest != nil && outdated(st.manifest, own) {
		wrong = "it is an old one, its segments are gone, and there are newer ones"
		st.manifest = nil
	}
	if wrong != "" {
		st.report(Damage{manifestName, 0, wrong + ": the newest state of each job in any segment counts"})
	}
	st.manifestLost = st.manifest == nil && len(own) > 0
	return own
}

// mostID returns the id that most segments have; of several such ids that of the
// oldest segment. It is 0 if no header is intact. The files are in order.
func mostID(files []segmentFile) (id uint64) {
	count := make(map[uint64]int)
	for _, f := range files {
		if f.id != 0 {
			count[f.id]++
		}
	}
	for _, f := range files {
		if count[f.id] > count[id] {
			id = f.id
		}
	}
	return id
}

// outdated tells whether a manifest is an earlier one of this directory, for
// example from a backup: there are segments of a newer epoch, and none of its own
// as new as it says. A rearrangement that was cut short leaves segments of a newer
// epoch as well; but then those of the epoch that counts are still there: for each
// shard the one that was begun, or a later one.
func outdated(m *manifest, own []segmentFile) bool {
	newer := false
	for _, f := range own {
		shard := int(f.shard)
		if f.epoch == m.epoch && shard < m.shards && (shard >= len(m.begun) || f.index >= m.begun[shard]) {
			return false
		}
		newer = newer || f.id != 0 && f.epoch > m.epoch
	}
	return newer && m.shards > 0 // with none, nothing counts yet
}

// assignStreams finds out which streams are to be read, and which segments belong
// to each. The files are in order. The rest are leftovers, or foreign.
func (st *Store) assignStreams(files []segmentFile) {
	if m := st.manifest; m != nil {
		st.epoch = m.epoch
		for i := range m.shards {
			t := &stream{epoch: m.epoch, shard: uint32(i)}
			if i < len(m.begun) {
				t.begun = m.begun[i]
			}
			if i < len(m.synced) {
				t.synced = m.synced[i]
			}
			for _, g := range m.gaps {
				if g.behind.epoch == t.epoch && g.behind.shard == t.shard {
					t.gaps = append(t.gaps, g)
				}
			}
			st.streams = append(st.streams, t)
		}
	}
	for _, f := range files {
		n := f.segmentName
		switch {
		case st.manifestLost:
			st.rearranged = true
			st.epoch = max(st.epoch, n.epoch)
			i := slices.IndexFunc(st.streams, func(t *stream) bool { return t.epoch == n.epoch && t.shard == n.shard })
			if i < 0 {
				i = len(st.streams)
				st.streams = append(st.streams, &stream{epoch: n.epoch, shard: n.shard})
			}
			st.streams[i].names = append(st.streams[i].names, n)
		case n.epoch == st.epoch && int(n.shard) < len(st.streams):
			st.streams[n.shard].names = append(st.streams[n.shard].names, n)
		case st.wasDamaged(n):
			st.asideLater(n.String())
			st.leftovers = append(st.leftovers, n.String())
		case f.id != 0 || f.maybeTorn:
			st.leftovers = append(st.leftovers, n.String())
		default:
			st.reportForeign(n.String())
		}
	}
	if len(st.streams) != st.cfg.Shards {
		st.rearranged = true
	}
}
