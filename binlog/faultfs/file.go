package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"github.com/sheafq/sheaf/binlog"
)

// node is a file, under whatever name; or, in its parent, a directory.
type node struct {
	mode    fs.FileMode
	data    []byte             // as it reads
	disk    []byte             // what is certain to be left after a power loss
	dirty   []write            // since the last Sync, oldest first
	blocks  map[int64]struct{} // that it takes, by their number in the file
	linked  bool               // it has a name
	handles int                // how many are open
	locked  bool
}

// write is a piece of data and where it goes. The data never change.
type write struct {
	off  int64
	data []byte
}

// file is a handle of an open file.
type file struct {
	fs       *FS
	node     *node
	name     string // as it was opened
	writable bool
	closed   bool
}

var _ binlog.File = (*file)(nil)

// do is FS.do for an operation on an open file: it checks the handle as well.
func (h *file) do(op Op, off, n int64, does func(*node) error) error {
	return h.fs.do(op, h.name, off, n, func() error {
		switch {
		case h.closed:
			return fs.ErrClosed
		case off < 0 || n < 0:
			return syscall.EINVAL
		case !h.writable && (op == OpWriteAt || op == OpAllocate || op == OpTruncate):
			return syscall.EBADF
		}
		return does(h.node)
	})
}

func (h *file) ReadAt(p []byte, off int64) (n int, err error) {
	err = h.do(OpReadAt, off, int64(len(p)), func(f *node) error {
		n = copy(p, f.data[min(off, int64(len(f.data))):])
		return nil
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// WriteAt writes only the first bytes of p if the disk is full, or if the Fault
// returns a Short.
func (h *file) WriteAt(p []byte, off int64) (n int, err error) {
	write := func(p []byte) func(*node) error {
		return func(f *node) (err error) {
			n, err = h.fs.take(f, off, len(p))
			f.write(off, slices.Clone(p[:n]))
			return err
		}
	}
	err = h.do(OpWriteAt, off, int64(len(p)), write(p))
	if short, ok := errors.AsType[Short](err); ok {
		h.fs.mu.Lock()
		defer h.fs.mu.Unlock()
		if !h.closed && h.writable {
			_ = write(p[:min(short.N, len(p))])(h.node)
		}
	}
	return n, err
}

// Sync makes what was written durable. If it is made to fail, what was written
// never will be.
func (h *file) Sync() error {
	done := false
	err := h.do(OpSync, 0, 0, func(f *node) error {
		f.disk = resize(f.disk, len(f.data))
		apply(f.disk, f.dirty)
		f.dirty, done = nil, true
		return nil
	})
	if !done {
		h.fs.mu.Lock()
		defer h.fs.mu.Unlock()
		if !h.closed {
			h.node.dirty = nil
		}
	}
	return err
}

// SyncInPlace is Sync.
func (h *file) SyncInPlace() error { return h.Sync() }

// Allocate sets blocks aside. If there are too few it still takes those, as
// ext4 does.
func (h *file) Allocate(off, size int64) error {
	return h.do(OpAllocate, off, size, func(f *node) error {
		_, err := h.fs.take(f, off, int(size))
		return err
	})
}

// Truncate sets the size and gives back all blocks behind it; none if the file
// grows, as on Linux.
func (h *file) Truncate(size int64) error {
	return h.do(OpTruncate, size, 0, func(f *node) error {
		grows := size > int64(len(f.data))
		f.write(size, make([]byte, max(int64(len(f.data))-size, 0)))
		f.data = resize(f.data, int(size))
		if !grows {
			h.fs.give(f, size)
		}
		return nil
	})
}

func (h *file) Size() (size int64, err error) {
	err = h.do(OpSize, 0, 0, func(f *node) error {
		size = int64(len(f.data))
		return nil
	})
	return size, err
}

// Close closes the handle even if it is made to fail.
func (h *file) Close() error {
	err := h.do(OpClose, 0, 0, func(*node) error { return nil })
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if !h.closed {
		h.closed = true
		h.node.handles--
		h.fs.release(h.node)
	}
	return err
}

func (n *node) write(off int64, data []byte) {
	if len(data) == 0 {
		return
	}
	w := write{off, data}
	n.data = resize(n.data, max(len(n.data), int(off)+len(data)))
	apply(n.data, []write{w})
	n.dirty = append(n.dirty, w)
}

// apply does the writes to b, as far as they lie within it.
func apply(b []byte, writes []write) {
	for _, w := range writes {
		copy(b[min(w.off, int64(len(b))):], w.data)
	}
}

// resize cuts b off, or adds zeros.
func resize(b []byte, size int) []byte {
	old := len(b)
	if size > old {
		b = slices.Grow(b, size-old)
		clear(b[old:size])
	}
	return b[:size]
}
