package binlog

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

// The first step of a Store: what there is in the directory. Nothing is
// changed.

func (st *Store) open() error {
	dir := st.cfg.Dir
	if err := st.makeDir(dir); err != nil {
		return err
	}
	if err := st.fs.Writable(dir); err != nil {
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
	if err := st.list(err); err != nil {
		return err
	}
	return st.listBeanstalkd()
}

// makeDir makes a directory, if it is not there. Those above it have to be: a
// path with a mistake in it would be made as well, and its jobs be missed.
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
		if _, e := st.fs.ReadDir(dir); e != nil {
			return err
		}
	}
	return st.fs.SyncDir(above)
}

// minSegment is the smallest size of a segment, in bytes.
const minSegment = 4096

// list looks at what is in the directory. The error is that of reading the
// manifest.
func (st *Store) list(manifest error) error {
	entries, err := st.fs.ReadDir(st.cfg.Dir)
	if err != nil {
		return err
	}
	var names []segmentName
	var foreign []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == "lock", name == manifestName, e.IsDir() && (name == keptDir || strings.HasPrefix(name, keptDir+".") || name == damagedDir || name == "lost+found"):
		case name == manifestName+".new":
			st.leftovers = append(st.leftovers, name)
		case strings.HasPrefix(name, "segment."):
			n, ok := parseSegmentName(name)
			if ok {
				st.index.Store(max(st.index.Load(), n.index)) // whatever it is, it has the name
			}
			if ok && e.Type().IsRegular() {
				names = append(names, n)
			} else {
				foreign = append(foreign, name)
			}
		case strings.HasPrefix(name, "binlog."):
		default:
			foreign = append(foreign, name)
		}
	}
	if err := st.checkVersions(names); err != nil {
		return err
	}
	st.lost = st.manifest == nil && len(names) > 0
	switch {
	case st.manifest != nil:
		st.id = st.manifest.id
	case st.id == 0:
		st.id = rand.Uint64()
	}
	for _, name := range foreign {
		st.report(Damage{name, 0, "a foreign file: it is left alone, and should be moved elsewhere"})
	}
	switch {
	case manifest != nil:
		st.report(Damage{manifestName, 0, "it is damaged: the newest state of each job in any segment counts"})
	case st.lost:
		st.report(Damage{manifestName, 0, "it is missing: the newest state of each job in any segment counts"})
	}
	st.sortStreams(names)
	return nil
}

// checkVersions refuses a directory with segments from the future.
func (st *Store) checkVersions(names []segmentName) error {
	for _, n := range names {
		b, err := readFile(st.fs, filepath.Join(st.cfg.Dir, n.String()), segmentHeader)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Dump goes without the lock: a server may clean here
		}
		if err != nil {
			return err
		}
		var future versionError
		h, err := decodeHeader(b, n)
		switch {
		case errors.As(err, &future):
			return err
		case err == nil && st.manifest == nil:
			st.id = h.id
		}
	}
	return nil
}

// sortStreams finds out which streams there are to be read.
func (st *Store) sortStreams(names []segmentName) {
	slices.SortFunc(names, func(a, b segmentName) int {
		if a.epoch != b.epoch {
			return int(int64(a.epoch) - int64(b.epoch))
		}
		return int(int64(a.index) - int64(b.index))
	})
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
			st.streams = append(st.streams, t)
		}
	}
	for _, n := range names {
		switch {
		case st.lost:
			st.rearranged = true
			st.epoch = max(st.epoch, n.epoch)
			i := slices.IndexFunc(st.streams, func(t *stream) bool { return t.epoch == n.epoch && t.shard == n.shard })
			if i < 0 {
				i = len(st.streams)
				st.streams = append(st.streams, &stream{epoch: n.epoch, shard: n.shard})
			}
			st.streams[i].names = append(st.streams[i].names, n)
		case n.epoch != st.epoch || int(n.shard) >= len(st.streams):
			st.leftovers = append(st.leftovers, n.String())
		default:
			st.streams[n.shard].names = append(st.streams[n.shard].names, n)
		}
	}
	if len(st.streams) != st.cfg.Shards {
		st.rearranged = true
	}
}
