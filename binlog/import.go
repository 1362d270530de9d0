package binlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// keptDir is the folder in a directory where beanstalkd's own files are kept
// once their jobs have been imported.
const keptDir = "beanstalkd"

// listBeanstalkd finds out which files of beanstalkd's are to be imported, and
// which were and only have to be put aside.
func (st *Store) listBeanstalkd() error {
	names, foreign, err := beanstalkdFiles(st.fs, st.cfg.Dir)
	if err != nil {
		return err
	}
	for _, d := range foreign {
		st.report(d)
	}
	if len(names) == 0 {
		return nil
	}
	if !st.lost && (st.manifest == nil || st.manifest.epoch == 0) {
		st.beanstalkd, st.rearranged = names, true
		return nil
	}
	for _, name := range names {
		f, err := st.imported(name)
		if err != nil {
			return err
		}
		if st.manifest == nil || !slices.Contains(st.manifest.imported, f) {
			return fmt.Errorf("%s of beanstalkd is there beside segments of sheafd, and both have given out the same job ids: move one or the other to a directory of its own", name)
		}
		st.keep = append(st.keep, name)
	}
	return nil
}

// imported describes a file for the manifest.
func (st *Store) imported(name string) (importedFile, error) {
	f, err := st.fs.Open(filepath.Join(st.cfg.Dir, name))
	if err != nil {
		return importedFile{}, err
	}
	defer f.Close()
	size, err := f.Size()
	return importedFile{name, size}, err
}

// replayBeanstalkd reads the jobs of beanstalkd's files.
func (st *Store) replayBeanstalkd(sink Sink) error {
	jobs, err := readBeanstalkd(st.fs, st.cfg.Dir, st.beanstalkd, st.report)
	if err != nil {
		return st.wrap(err)
	}
	for _, j := range jobs {
		sink.Put(j, 0)
		st.importedID = max(st.importedID, j.ID)
	}
	return nil
}

// putAside moves files of beanstalkd's into a folder, so that they are not
// imported again and not lost either.
func (st *Store) putAside(names []string) error {
	if len(names) == 0 {
		return nil
	}
	dir := filepath.Join(st.cfg.Dir, keptDir)
	if _, err := st.fs.ReadDir(dir); errors.Is(err, fs.ErrNotExist) {
		if err := st.fs.Mkdir(dir); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	for _, name := range names {
		if err := st.fs.Rename(filepath.Join(st.cfg.Dir, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := st.fs.SyncDir(dir); err != nil {
		return err
	}
	st.log.Info("binlog: beanstalkd's own files were imported and put aside", "dir", dir, "files", strings.Join(names, " "))
	return st.fs.SyncDir(st.cfg.Dir)
}
