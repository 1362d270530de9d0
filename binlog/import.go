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
// once their jobs have been imported; or keptDir.2 and so on, see asideDir.
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
	jobs, last, err := readBeanstalkd(st.fs, st.cfg.Dir, st.beanstalkd, st.report)
	if err != nil {
		return st.wrap(err)
	}
	for _, j := range jobs {
		sink.Put(j, 0)
	}
	st.importedID = last
	return nil
}

// putAside moves files of beanstalkd's into a folder, so that they are not
// imported again and not lost either.
func (st *Store) putAside(names []string) error {
	if len(names) == 0 {
		return nil
	}
	dir, err := st.asideDir(names)
	if err != nil {
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
	if err := st.fs.SyncDir(st.cfg.Dir); err != nil {
		return err
	}
	// A file of such a name is another one from now on.
	st.keep, st.beanstalkd = nil, nil
	m, err := st.newManifest()
	if err != nil {
		return err
	}
	return writeManifest(st.fs, st.cfg.Dir, m)
}

// asideDir returns a folder for these files, in which no file of such a name is
// yet: it may be that beanstalkd is left for the second time.
func (st *Store) asideDir(names []string) (string, error) {
	for n := 1; ; n++ {
		dir := filepath.Join(st.cfg.Dir, keptDir)
		if n > 1 {
			dir = fmt.Sprintf("%s.%d", dir, n)
		}
		entries, err := st.fs.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return dir, st.fs.Mkdir(dir)
		}
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(names, e.Name()) }) {
			return dir, nil
		}
	}
}
