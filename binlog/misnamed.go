package binlog

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// Segments under another name. Whoever has restored or moved files may have given one
// the name of another. Its header says which segment it is. So if that one is needed
// and no other file may be it, the file is read in its place, and gets its name back
// in Begin. Otherwise it is a copy, and ignored.

// findMisnamed finds such files, and returns all files in order, those as what they
// are. Those that are ignored stay as they are called: the replay reports them.
func (st *Store) findMisnamed(files []segmentFile) []segmentFile {
	claims := make(map[segmentName]int) // how many files may be a segment
	type shard struct{ epoch, shard uint32 }
	oldest := make(map[shard]uint64) // segment that is needed
	for _, f := range files {
		n := f.segmentName
		if f.foundID != 0 && f.foundID == st.id {
			n = f.found
			k := shard{n.epoch, n.shard}
			oldest[k] = max(oldest[k], f.oldest)
		}
		claims[n]++
	}
	for i, f := range files {
		is := f.found
		switch {
		case f.foundID == 0, f.foundID != st.id, is == f.segmentName, claims[is] > 1, st.occupied[is], is.farOff():
			continue
		case is.index < oldest[shard{is.epoch, is.shard}]:
			continue // it was dropped
		case st.manifest != nil && (is.epoch != st.manifest.epoch || int64(is.shard) >= int64(st.manifest.shards)):
			continue // it does not count
		}
		st.report(Damage{f.String(), 0, fmt.Sprintf("it is %s under another name: it is read as that", is)})
		if st.misnamed == nil {
			st.misnamed = make(map[segmentName]segmentName)
		}
		st.misnamed[is] = f.segmentName
		st.noteName(is)
		files[i].segmentName, files[i].id = is, st.id
	}
	sortSegments(files)
	return files
}

func sortSegments(files []segmentFile) {
	slices.SortFunc(files, func(a, b segmentFile) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.index, b.index))
	})
}

// calledNow returns the name that the file of a segment has until Begin.
func (st *Store) calledNow(n segmentName) segmentName {
	if called, ok := st.misnamed[n]; ok {
		return called
	}
	return n
}

// renameMisnamed gives the files their names back. A crash on the way leaves fewer
// that are misnamed, or one under a name that no segment has had.
func (st *Store) renameMisnamed() error {
	if len(st.misnamed) == 0 {
		return nil
	}
	rename := func(from, to segmentName) error {
		return st.fs.Rename(filepath.Join(st.cfg.Dir, from.String()), filepath.Join(st.cfg.Dir, to.String()))
	}
	for len(st.misnamed) > 0 {
		all := slices.SortedFunc(maps.Keys(st.misnamed), func(a, b segmentName) int {
			return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.index, b.index))
		})
		called := slices.Collect(maps.Values(st.misnamed))
		i := slices.IndexFunc(all, func(n segmentName) bool { return !slices.Contains(called, n) })
		if i < 0 { // each has the name of another, so one has to step aside
			is := all[0]
			free := segmentName{is.epoch, is.shard, st.lastIndex.Add(1)}
			if err := rename(st.misnamed[is], free); err != nil {
				return err
			}
			st.misnamed[is] = free
			continue
		}
		is := all[i]
		if err := rename(st.misnamed[is], is); err != nil {
			return err
		}
		delete(st.misnamed, is)
	}
	return st.fs.SyncDir(st.cfg.Dir)
}
