package faultfs

import (
	"path/filepath"
	"slices"
)

// Read returns what is in a file, or nil if there is none.
func (f *FS) Read(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(filepath.Clean(name))
	if err != nil {
		return nil
	}
	return append([]byte{}, n.data...)
}

// Write puts data into a file instead of what it held. It makes the file and
// its directory if need be, asks for no fault, heeds no capacity, and is
// durable, as is all else in the directories above the file.
func (f *FS) Write(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = filepath.Clean(name)
	n, err := f.find(name)
	if err != nil {
		if err = f.mkdir(filepath.Dir(name)); err == nil {
			n, err = f.create(name)
		}
		if err != nil {
			panic(err)
		}
	}
	n.data, n.disk, n.dirty = slices.Clone(data), slices.Clone(data), nil
	f.give(n, int64(len(data)))
	capacity := f.capacity
	f.capacity = endless
	_, _ = f.take(n, 0, len(data))
	f.capacity = capacity
	for up := filepath.Dir(name); ; up = filepath.Dir(up) {
		f.persist(f.dirs[up], len(f.dirs[up].pending))
		if up == filepath.Dir(up) {
			return
		}
	}
}

// Flip changes one bit of a file, as it reads and as it is on the disk. The
// file must exist and have that bit; 8 is the lowest bit of the second byte.
func (f *FS) Flip(name string, bit int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(filepath.Clean(name))
	if err != nil {
		panic(err)
	}
	n.data[bit/8] ^= 1 << (bit % 8)
	if bit/8 < int64(len(n.disk)) {
		n.disk[bit/8] ^= 1 << (bit % 8)
	}
}
