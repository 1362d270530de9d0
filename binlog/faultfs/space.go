package faultfs

import "syscall"

const (
	blockSize = 4096
	endless   = 1 << 40 / blockSize // the capacity if none was set
)

// SetCapacity sets how many bytes all files together can take, rounded down to
// blocks. What is there stays, even if it takes more.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = bytes / blockSize
}

// Leave sets the capacity to what is used and free bytes more, rounded down to
// blocks, as if other programs had taken the rest. It is one operation, so that
// nothing is taken between looking and setting.
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

// take gives a file the blocks under a range, from its start on until the disk is
// full, and returns how many bytes of the range have blocks then.
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

// give gives back a file's blocks behind that size.
func (f *FS) give(n *node, size int64) {
	for b := range n.blocks {
		if b*blockSize >= size {
			delete(n.blocks, b)
			f.used--
		}
	}
}

// release is called when a file has lost a name or a handle. If it was the last, its
// blocks are free. They stay noted in case a power loss brings the file back.
func (f *FS) release(n *node) {
	if !n.linked && n.handles == 0 {
		f.used -= int64(len(n.blocks))
	}
}

// count returns how many blocks all files with a name take.
func (f *FS) count() (blocks int64) {
	for _, d := range f.dirs {
		for _, n := range d.now {
			blocks += int64(len(n.blocks))
		}
	}
	return blocks
}
