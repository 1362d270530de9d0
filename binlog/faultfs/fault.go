package faultfs

import (
	"io/fs"

	"github.com/sheafq/sheaf/binlog"
)

// Op is an operation: a method of binlog.FS or binlog.File.
type Op int

// The operations. Those before OpOpen change something.
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

// Fault is asked before each operation, in the goroutine that does it. If it
// returns an error the operation fails with that, in a *fs.PathError. The name
// is the clean path, of a file the one it was opened by, of a rename the old
// one. Off and n are the range of a read, a write or an Allocate, and off is
// the size for Truncate. Nothing is locked meanwhile: it may block, and may use
// the file system, but for operations must mind the recursion.
type Fault func(op Op, name string, off int64, n int) error

// Short is a fault of WriteAt that lets the first N bytes be written. For other
// operations it is only Err.
type Short struct {
	N   int
	Err error
}

func (s Short) Error() string { return s.Err.Error() }
func (s Short) Unwrap() error { return s.Err }

// SetFault sets what is asked from now on; nil stops it.
func (f *FS) SetFault(fault func(op Op, name string, off int64, n int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Cut takes what Kill would right before the count-th operation from now (1 is
// the next) that changes anything, whether that fails or not. The channel gets
// it at once, without a reader. Another Cut replaces one that is due.
func (f *FS) Cut(count int) <-chan *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	cut := make(chan *FS, 1)
	f.cut, f.cutIn = cut, count
	return cut
}

// do does an operation with mu locked, unless its fault prevents it. It tells
// in errors what they are about.
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

// ask is what comes before each operation.
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
