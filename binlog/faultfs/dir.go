package faultfs

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// dir is one directory: as it is now, as a power loss is certain to leave it, and
// the changes that lead from there to now.
type dir struct {
	now     names
	durable names
	pending []*change // oldest first
}

// names are the entries of a directory.
type names map[string]*node

// change is one operation on directories. One that moves a file into another
// directory is pending in both.
type change []set

// set makes a name in a directory stand for a file, or for none if it is nil.
type set struct {
	dir, base string
	node      *node
}

func newDir() *dir { return &dir{now: make(names), durable: make(names)} }

func entry(name string, n *node) set { return set{filepath.Dir(name), filepath.Base(name), n} }

func (m names) set(s set) {
	m[s.base] = s.node
	if s.node == nil {
		delete(m, s.base)
	}
}

// change does an operation on directories, all of which have to exist.
func (f *FS) change(sets ...set) {
	c := (*change)(&sets)
	for _, s := range sets {
		d := f.dirs[s.dir]
		d.now.set(s)
		if last := len(d.pending) - 1; last < 0 || d.pending[last] != c {
			d.pending = append(d.pending, c)
		}
	}
}

// persist makes the oldest count pending changes of a directory durable, and those
// of other directories that have to be durable before them.
func (f *FS) persist(d *dir, count int) {
	for range count {
		c := d.pending[0]
		for _, s := range *c {
			// What is pending there before c is older than c, and d has
			// nothing older: this never comes back to d.
			for other := f.dirs[s.dir]; other.pending[0] != c; {
				f.persist(other, 1)
			}
		}
		for _, s := range *c {
			d := f.dirs[s.dir]
			d.durable.set(s)
			if len(d.pending) > 0 && d.pending[0] == c {
				d.pending = d.pending[1:]
			}
		}
	}
}

// find returns the file of that name.
func (f *FS) find(name string) (*node, error) {
	if f.dirs[name] != nil {
		return nil, syscall.EISDIR
	}
	if d := f.dirs[filepath.Dir(name)]; d != nil {
		if n := d.now[filepath.Base(name)]; n != nil {
			return n, nil
		}
	}
	return nil, syscall.ENOENT
}

// create makes a file, which must not exist yet.
func (f *FS) create(name string) (*node, error) {
	if f.dirs[filepath.Dir(name)] == nil {
		return nil, syscall.ENOENT
	}
	if _, err := f.find(name); err != syscall.ENOENT {
		return nil, syscall.EEXIST
	}
	n := &node{mode: 0o600, linked: true, blocks: make(map[int64]struct{})}
	f.change(entry(name, n))
	return n, nil
}

// mkdir makes a directory and those above it, where they do not exist.
func (f *FS) mkdir(name string) error {
	if f.dirs[name] != nil {
		return nil
	}
	if err := f.mkdir(filepath.Dir(name)); err != nil {
		return err
	}
	if _, err := f.find(name); err == nil {
		return syscall.ENOTDIR
	}
	f.dirs[name] = newDir()
	f.change(entry(name, &node{mode: fs.ModeDir | 0o700}))
	return nil
}
