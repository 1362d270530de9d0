package binlog

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
)

// What becomes of segments with damage. There may be jobs in them that nobody knows
// of, so when they are needed no more they are not removed but put aside. While they
// are needed the manifest names them. So they are put aside even if a server is
// killed after a drop or a new epoch has ended their time, and before it has moved
// them, and the next server finds nothing wrong with them.

// damagedDir is the folder for segments with damage that are needed no more.
const damagedDir = "damaged"

// asideLater notes that a segment is to be put aside when it is needed no more.
// Any goroutine may call it.
func (st *Store) asideLater(name string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.aside == nil {
		st.aside = make(map[string]bool)
	}
	st.aside[name] = true
}

// wasDamaged tells whether a segment was found to be damaged at an earlier start.
func (st *Store) wasDamaged(n segmentName) bool {
	return st.manifest != nil && slices.Contains(st.manifest.damaged, n.String())
}

// namesForAside returns the names of the segments that are to be put aside.
func (st *Store) namesForAside() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Sorted(maps.Keys(st.aside))
}

// retire removes a file that is needed no more or, if it is a damaged segment, puts
// it aside. A file that the disk cannot take away stays: it does not count, and the
// next start tries again.
func (st *Store) retire(name string) error {
	damaged := slices.Contains(st.namesForAside(), name)
	away := st.remove
	if damaged {
		away = st.moveToDamaged
	}
	switch err := away(name); {
	case isUnreadable(err):
		st.log.Warn("binlog: a segment that is needed no more cannot be taken away", "file", name, "err", err)
		return nil
	case err != nil:
		return err
	case damaged:
		st.log.Warn("binlog: a segment with damage is needed no more and was put aside; for jobs that could not be read, copy it into an empty directory and start another sheafd there: that serves all jobs it finds in it, also those that were deleted later",
			"dir", filepath.Join(st.cfg.Dir, damagedDir), "file", name)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.aside, name)
	return nil
}

// moveToDamaged moves a file into damagedDir.
func (st *Store) moveToDamaged(name string) error {
	dir := filepath.Join(st.cfg.Dir, damagedDir)
	if err := st.makeDir(dir); err != nil {
		return err
	}
	err := st.fs.Rename(filepath.Join(st.cfg.Dir, name), filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has removed the file
	}
	if err != nil {
		return err
	}
	return st.fs.SyncDir(dir)
}
