package faultfs

import "syscall"

const (
	blockSize = 4096
	endless   = 1 << 40 / blockSize // the capacity if none was set
)

// SetCapacity sets how many bytes files can take, in whole blocks. What is
// there stays, even if it is more.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = bytes / blockSize
}

// Leave sets the capacity to what is used and that many bytes more, in whole
// blocks, as other programs do that take the rest; in one go, so that what is
// taken meanwhile cannot come in between.
func (f *FS) Leave(free int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = f.used + free/blockSize
}

// Used returns how many bytes the blocks of all files take.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used * blockSize
}

// take gives a file the blocks under a range, from its start as far as there
// are any, and returns how much of the range has them.
func (f *FS) take(n *node, off int64, size int) (int, error) {
	for b := off / blockSize; b*blockSize < off+int64(size); b++ {
		if _, has := n.blocks[b]; has {
			continue
		}
		if f.used >= f.capacity {
			return int(max(b*blockSize-off, 0)), syscall.ENOSPC
		}
		n.blocks[b] = struct{}{}
		f.used++
	}
	return size, nil
}

// give takes a file's blocks behind that size from it.
func (f *FS) give(n *node, size int64) {
	for b := range n.blocks {
		if b*blockSize >= size {
			delete(n.blocks, b)
			f.used--
		}
	}
}

// release follows the loss of a name or a handle. The blocks of a file that is
// gone are free, but stay noted in case that a power loss brings it back.
func (f *FS) release(n *node) {
	if !n.linked && n.handles == 0 {
		f.used -= int64(len(n.blocks))
	}
}

// count returns how many blocks all files with a name have.
func (f *FS) count() (blocks int64) {
	for _, d := range f.dirs {
		for _, n := range d.now {
			blocks += int64(len(n.blocks))
		}
	}
	return blocks
}
