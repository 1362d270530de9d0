package binlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// The import of beanstalkd's own files: which of them to read, and where they go
// when that is done. beanstalkd.go reads them.

// keptDir is the folder in a directory where beanstalkd's own files are kept
// once their jobs have been imported; or keptDir.2 and so on, see asideDir.
const keptDir = "beanstalkd"

// listBeanstalkd finds out which files of beanstalkd's are to be imported, and
// which only have to be put aside: those that were imported, or have no jobs.
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
	if !st.manifestLost && (st.manifest == nil || st.manifest.epoch == 0) {
		st.toImport, st.rearranged = names, true
		return nil
	}
	for _, name := range names {
		f, err := st.describeImport(name)
		if err != nil {
			return err
		}
		if st.manifest != nil && slices.Contains(st.manifest.imported, f) {
			st.imported = append(st.imported, name)
		} else {
			st.jobless = append(st.jobless, name)
		}
	}
	return st.checkJobless()
}

// checkJobless refuses a directory in which files of beanstalkd have appeared
// beside our own segments and have jobs in them: their ids may be ours, too. That
// somebody has only started beanstalkd there is no reason to refuse.
func (st *Store) checkJobless() error {
	if len(st.jobless) == 0 {
		return nil
	}
	var damages []Damage
	jobs, last, err := readBeanstalkd(st.fs, st.cfg.Dir, st.jobless, func(d Damage) { damages = append(damages, d) })
	var with string
	switch {
	case err != nil:
		return err
	case len(damages) > 0:
		with = fmt.Sprintf("with damage, so that it is not known whether there are jobs in them (%v)", damages[0])
	case len(jobs) == 1:
		with = "with 1 job that is not known to have been imported"
	case len(jobs) > 1:
		with = fmt.Sprintf("with %d jobs that are not known to have been imported", len(jobs))
	case last > 0 && len(st.imported) > 0:
		// beanstalkd may have gone on with the jobs that were imported.
		with = "with changes of jobs that may have been imported"
	default:
		return nil
	}
	files := st.jobless[0]
	if n := len(st.jobless); n > 1 {
		files += " to " + st.jobless[n-1]
	}
	return fmt.Errorf("files of beanstalkd (%s) are there beside those of sheafd, %s; both servers may have given the same job ids, so they are not imported here: move them to a directory of their own, which another sheafd can serve", files, with)
}

// describeImport describes a file for the manifest.
func (st *Store) describeImport(name string) (importedFile, error) {
	f, err := st.fs.Open(filepath.Join(st.cfg.Dir, name))
	if err != nil {
		return importedFile{}, err
	}
	defer f.Close()
	size, err := f.Size()
	return importedFile{name, size}, err
}

// replayBeanstalkd reads the jobs in the files that are to be imported.
func (st *Store) replayBeanstalkd(sink Sink) error {
	jobs, last, err := readBeanstalkd(st.fs, st.cfg.Dir, st.toImport, st.report)
	if err != nil {
		return st.wrap(err)
	}
	for _, j := range jobs {
		sink.Put(j, 0)
	}
	st.importedID = last
	return nil
}

// putBeanstalkdAside moves files of beanstalkd's out of the way, so that they are not
// imported again and not lost either.
func (st *Store) putBeanstalkdAside() error {
	if err := st.move(st.jobless, "binlog: beanstalkd's own files have no jobs in them and were put aside"); err != nil {
		return err
	}
	names := slices.Concat(st.imported, st.toImport)
	if len(names) == 0 {
		return nil
	}
	if err := st.move(names, "binlog: beanstalkd's own files were imported and put aside"); err != nil {
		return err
	}
	// From now on a file with one of these names is a new one, so the manifest must not
	// name them any more.
	st.imported, st.toImport = nil, nil
	m, err := st.newManifest()
	if err != nil {
		return err
	}
	return writeManifest(st.fs, st.cfg.Dir, m)
}

// move moves files of beanstalkd's into a folder, and logs said.
func (st *Store) move(names []string, said string) error {
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
	st.log.Info(said, "dir", dir, "files", strings.Join(names, " "))
	return st.fs.SyncDir(st.cfg.Dir)
}

// asideDir returns a folder for these files that has no file of the same name yet,
// and makes it if need be. There may be several: somebody can import from
// beanstalkd, go back to it, and import again.
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
