package faultfs

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing/fstest"

	"github.com/sheafq/sheaf/binlog"
)

// FS is a file system in memory. Any goroutine may call its methods.
type FS struct {
	mu       sync.Mutex      // guards all that follows, and the dirs and nodes
	dirs     map[string]*dir // by clean path
	capacity int64           // in blocks
	used     int64           // in blocks
	fault    Fault
	boots    int        // 1 and how many power losses there were; 0 before CountBoots
	cut      chan<- *FS // nil if no Cut is due
	cutIn    int        // in how many operations it is

	elsewhere bool // what InPlace does not say
}

var _ binlog.FS = (*FS)(nil)

// New returns an empty file system with more space than a test can use.
func New() *FS {
	return &FS{dirs: map[string]*dir{"/": newDir(), ".": newDir()}, capacity: endless}
}

// Open opens an existing file for reading.
func (f *FS) Open(name string) (binlog.File, error) {
	return f.open(OpOpen, name, false, f.find)
}

// OpenWrite opens an existing file for reading and writing.
func (f *FS) OpenWrite(name string) (binlog.File, error) {
	return f.open(OpOpenWrite, name, true, f.find)
}

// Create makes a file that must not exist yet, in a directory that must.
func (f *FS) Create(name string) (binlog.File, error) {
	return f.open(OpCreate, name, true, f.create)
}

func (f *FS) open(op Op, name string, writable bool, get func(string) (*node, error)) (binlog.File, error) {
	h := &file{fs: f, name: filepath.Clean(name), writable: writable}
	err := f.do(op, h.name, 0, 0, func() (err error) {
		if h.node, err = get(h.name); err == nil {
			h.node.handles++
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// ReadDir lists a directory, sorted by name.
func (f *FS) ReadDir(name string) (list []fs.DirEntry, err error) {
	name = filepath.Clean(name)
	err = f.do(OpReadDir, name, 0, 0, func() error {
		d := f.dirs[name]
		if d == nil {
			return syscall.ENOENT
		}
		m := make(fstest.MapFS)
		for name, n := range d.now {
			m[name] = &fstest.MapFile{Data: n.data, Mode: n.mode}
		}
		list, err = m.ReadDir(".")
		return err
	})
	return list, err
}

// Mkdir makes a directory that must not exist yet, in one that must.
func (f *FS) Mkdir(name string) error {
	name = filepath.Clean(name)
	return f.do(OpMkdir, name, 0, 0, func() error {
		if _, err := f.find(name); err != syscall.ENOENT {
			return syscall.EEXIST
		}
		if f.dirs[filepath.Dir(name)] == nil {
			return syscall.ENOENT
		}
		return f.mkdir(name)
	})
}

// Rename gives a file another name. A file that has that name already loses it.
func (f *FS) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	return f.do(OpRename, from, 0, 0, func() error {
		n, err := f.find(from)
		into := f.dirs[filepath.Dir(to)]
		switch {
		case err != nil:
			return err
		case into == nil:
			return syscall.ENOENT
		case f.dirs[to] != nil:
			return syscall.EISDIR
		case from == to:
			return nil
		}
		old := into.now[filepath.Base(to)]
		f.change(entry(from, nil), entry(to, n))
		if old != nil {
			old.linked = false
			f.release(old)
		}
		return nil
	})
}

// Remove removes a file. Open handles of it go on working.
func (f *FS) Remove(name string) error {
	name = filepath.Clean(name)
	return f.do(OpRemove, name, 0, 0, func() error {
		n, err := f.find(name)
		if err != nil {
			return err
		}
		f.change(entry(name, nil))
		n.linked = false
		f.release(n)
		return nil
	})
}

// SyncDir makes what was created, renamed and removed in a directory durable.
func (f *FS) SyncDir(name string) error {
	name = filepath.Clean(name)
	return f.do(OpSyncDir, name, 0, 0, func() error {
		d := f.dirs[name]
		if d == nil {
			return syscall.ENOENT
		}
		f.persist(d, len(d.pending))
		return nil
	})
}

// Lock takes the lock of a file, which it makes if need be. The error is
// binlog.ErrLocked if somebody else has it.
func (f *FS) Lock(name string) (binlog.Unlocker, error) {
	var n *node
	name = filepath.Clean(name)
	err := f.do(OpLock, name, 0, 0, func() (err error) {
		if n, err = f.find(name); err == syscall.ENOENT {
			n, err = f.create(name)
		}
		switch {
		case err != nil:
			return err
		case n.locked:
			return binlog.ErrLocked
		}
		n.locked = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return unlocker(sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		n.locked = false
	})), nil
}

type unlocker func()

func (u unlocker) Close() error {
	u()
	return nil
}

// Size returns the capacity in bytes.
func (f *FS) Size(name string) (size int64, err error) {
	err = f.do(OpStatfs, name, 0, 0, func() error {
		size = f.capacity * blockSize
		return f.exists(name)
	})
	return size, err
}

// Free returns how many bytes of the capacity are not used.
func (f *FS) Free(name string) (size int64, err error) {
	err = f.do(OpStatfs, name, 0, 0, func() error {
		size = max(0, f.capacity-f.used) * blockSize
		return f.exists(name)
	})
	return size, err
}

// Writable is nil if the file or directory exists; a Fault can say otherwise.
func (f *FS) Writable(name string) error {
	return f.do(OpWritable, name, 0, 0, func() error {
		_, err := f.find(filepath.Clean(name))
		if err == syscall.EISDIR {
			return nil
		}
		return err
	})
}

// InPlace is true unless SetElsewhere was called.
func (f *FS) InPlace(string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.elsewhere
}

// SetElsewhere makes InPlace be false.
func (f *FS) SetElsewhere() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.elsewhere = true
}

// Boot returns another name after each power loss, once CountBoots was called, and
// nothing before.
func (f *FS) Boot() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.boots == 0 {
		return ""
	}
	return strconv.Itoa(f.boots)
}

// CountBoots has Boot tell of power losses from now on. It is not so from the start
// because after a power loss that it knows of a binlog leaves out very many job ids:
// too many for a test that tries all ids to find the jobs.
func (f *FS) CountBoots() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boots = max(f.boots, 1)
}

func (f *FS) exists(dir string) error {
	if f.dirs[filepath.Clean(dir)] == nil {
		return syscall.ENOENT
	}
	return nil
}
