package binlog

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// Segments under another name. Whoever has restored or moved files may have given one
// the name of another. Its header says which segment it is. So if that one is needed,
// no other file may be it, and none that stays has its name, the file is read in its
// place, and gets its name back in Begin. Otherwise it is ignored, and left alone.

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
	moves := make(map[segmentName]int) // where in files those are that may get another name
	stays := make(map[segmentName]bool)
	for i, f := range files {
		is := f.found
		switch {
		case f.foundID == 0, f.foundID != st.id, is == f.segmentName, claims[is] > 1, st.occupied[is], is.farOff():
		case is.index < oldest[shard{is.epoch, is.shard}]: // it was dropped
		case st.manifest != nil && (is.epoch != st.manifest.epoch || int64(is.shard) >= int64(st.manifest.shards)): // it does not count
		default:
			moves[f.segmentName] = i
			continue
		}
		stays[f.segmentName] = true
	}
	// A name is free only if the file that has it moves as well: else renaming would
	// replace that file, whatever is in it.
	for again := true; again; {
		again = false
		for called, i := range moves {
			if stays[files[i].found] {
				delete(moves, called)
				stays[called], again = true, true
			}
		}
	}
	for called, i := range moves {
		is := files[i].found
		if st.misnamed == nil {
			st.misnamed = make(map[segmentName]segmentName)
		}
		st.misnamed[is] = called
		st.noteName(is)
		files[i].segmentName, files[i].id = is, st.id
	}
	for _, is := range slices.SortedFunc(maps.Keys(st.misnamed), compareNames) {
		st.report(Damage{st.misnamed[is].String(), 0, fmt.Sprintf("it is %s under another name: it is read as that", is)})
	}
	sortSegments(files)
	return files
}

func compareNames(a, b segmentName) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.index, b.index))
}

func sortSegments(files []segmentFile) {
	slices.SortFunc(files, func(a, b segmentFile) int { return compareNames(a.segmentName, b.segmentName) })
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
		all := slices.SortedFunc(maps.Keys(st.misnamed), compareNames)
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
