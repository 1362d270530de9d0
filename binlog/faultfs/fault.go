package faultfs

import (
	"io/fs"

	"github.com/sheafq/sheaf/binlog"
)

// Op is an operation: a method of binlog.FS or binlog.File.
type Op int

// The operations. Those before OpOpen change something, and count for Cut.
const (
	OpCreate Op = iota
	OpMkdir
	OpRename
	OpRemove
	OpSyncDir
	OpLock
	OpWriteAt
	OpSync
	OpAllocate
	OpTruncate
	OpOpen
	OpOpenWrite
	OpReadDir
	OpStatfs // Size of the FS
	OpWritable
	OpReadAt
	OpSize // of a File
	OpClose
)

var opNames = [...]string{
	"create", "mkdir", "rename", "remove", "syncdir", "lock", "write", "sync", "allocate", "truncate",
	"open", "openwrite", "readdir", "statfs", "writable", "read", "size", "close",
}

func (op Op) String() string { return opNames[op] }

// Fault is called before each operation, in the goroutine that does it. If it
// returns an error the operation fails with that, in a *fs.PathError. name is the
// clean path: of a file, the one by which it was opened; of a rename, the old one.
// off and n are the range of a read, a write or an Allocate; of a Truncate, off is
// the size. Nothing is locked meanwhile: a Fault may block, and may use the file
// system, but each operation that it does calls it again.
type Fault func(op Op, name string, off int64, n int) error

// Short is an error for a Fault to return: a WriteAt that fails with it writes the
// first N bytes all the same. Other operations fail with Err.
type Short struct {
	N   int
	Err error
}

func (s Short) Error() string { return s.Err.Error() }
func (s Short) Unwrap() error { return s.Err }

// SetFault has fault called from now on instead of the one before; nil for none.
func (f *FS) SetFault(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Cut does what Kill does, right before the count-th operation from now (1 is the
// next) that changes anything, even if that fails. The new file system is then sent
// to the channel, which has room for it. Another Cut replaces one that is due.
func (f *FS) Cut(count int) <-chan *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	cut := make(chan *FS, 1)
	f.cut, f.cutIn = cut, count
	return cut
}

// do does an operation with mu locked, unless the Fault prevents it. It adds the
// operation and the path to errors.
func (f *FS) do(op Op, name string, off, n int64, does func() error) error {
	err := f.ask(op, name, off, n)
	if err == nil {
		f.mu.Lock()
		err = does()
		f.mu.Unlock()
	}
	if err == nil || err == binlog.ErrLocked {
		return err
	}
	return &fs.PathError{Op: op.String(), Path: name, Err: err}
}

// ask comes before each operation: it does a Cut that is due, and asks the Fault.
func (f *FS) ask(op Op, name string, off, n int64) error {
	f.mu.Lock()
	if f.cut != nil && op < OpOpen {
		if f.cutIn--; f.cutIn <= 0 {
			f.cut <- f.copy()
			f.cut = nil
		}
	}
	fault := f.fault
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(op, name, off, int(n))
}
