package faultfs

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// sectorSize is how many bytes a disk writes at once.
const sectorSize = 512

// Kill returns a new file system as a killed process leaves this one.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.copy()
}

// Crash returns a new file system as a power loss leaves this one; all that is in
// it is durable. The same state and random numbers give the same result.
func (f *FS) Crash(rng *rand.Rand) *FS {
	c := f.Kill()
	if c.boots > 0 {
		c.boots++
	}
	paths := slices.Sorted(maps.Keys(c.dirs))
	for _, path := range paths {
		d := c.dirs[path]
		c.persist(d, rng.IntN(len(d.pending)+1))
	}
	c.forget()
	if c.count() > c.capacity {
		// Removed files came back, and there is no room for them. That cannot be: no file
		// system gives away the blocks of a file before its removal is durable.
		for _, d := range c.dirs {
			c.persist(d, len(d.pending))
		}
		c.forget()
	}
	maps.DeleteFunc(c.dirs, func(path string, _ *dir) bool { return !c.reachable(path) })
	for _, path := range paths {
		if d := c.dirs[path]; d != nil {
			d.pending = nil
			for _, name := range slices.Sorted(maps.Keys(d.now)) {
				d.now[name].crash(rng)
			}
		}
	}
	c.used = c.count()
	return c
}

// forget sets directories back to what is durable of them.
func (f *FS) forget() {
	for _, d := range f.dirs {
		d.now = maps.Clone(d.durable)
	}
}

// reachable tells whether a directory and all above it have an entry.
func (f *FS) reachable(path string) bool {
	up := filepath.Dir(path)
	if up == path {
		return true
	}
	d := f.dirs[up]
	return d != nil && d.now[filepath.Base(path)] != nil && f.reachable(up)
}

// crash sets a file to what a power loss leaves of it.
func (n *node) crash(rng *rand.Rand) {
	low, high := min(len(n.disk), len(n.data)), max(len(n.disk), len(n.data))
	size := [...]int{low, high, low + rng.IntN(high-low+1)}[rng.IntN(3)]
	n.disk = resize(n.disk, size)
	apply(n.disk, n.kept(rng))
	n.data, n.dirty, n.linked = slices.Clone(n.disk), nil, true
}

// kept chooses which of the dirty data came to the disk.
func (n *node) kept(rng *rand.Rand) (kept []write) {
	likely := [...]float64{0, 0.1, 0.5, 0.9, 1}[rng.IntN(5)]
	lost := make(map[int64]bool) // the sectors that stay as they are
	for _, w := range n.dirty {
		for len(w.data) > 0 {
			sector := w.off / sectorSize
			piece := min((sector+1)*sectorSize-w.off, int64(len(w.data)))
			if lost[sector] || rng.Float64() >= likely {
				lost[sector] = true
			} else {
				kept = append(kept, write{w.off, w.data[:piece]})
			}
			w = write{w.off + piece, w.data[piece:]}
		}
	}
	if len(kept) > 0 && rng.IntN(2) == 0 {
		last := &kept[len(kept)-1]
		last.data = last.data[:rng.IntN(len(last.data)+1)]
	}
	return kept
}

// copy returns a copy without locks, handles and faults.
func (f *FS) copy() *FS {
	to := &FS{dirs: make(map[string]*dir), capacity: f.capacity, boots: f.boots, elsewhere: f.elsewhere}
	nodes := make(map[*node]*node)
	node := func(n *node) *node {
		if c := nodes[n]; c != nil || n == nil {
			return c
		}
		c := *n
		c.data, c.disk, c.dirty = slices.Clone(n.data), slices.Clone(n.disk), slices.Clone(n.dirty)
		c.blocks, c.handles, c.locked = maps.Clone(n.blocks), 0, false
		nodes[n] = &c
		return &c
	}
	changes := make(map[*change]*change)
	for path, d := range f.dirs {
		c := newDir()
		for name, n := range d.now {
			c.now[name] = node(n)
		}
		for name, n := range d.durable {
			c.durable[name] = node(n)
		}
		for _, old := range d.pending {
			if changes[old] == nil {
				sets := slices.Clone(*old)
				for i := range sets {
					sets[i].node = node(sets[i].node)
				}
				changes[old] = &sets
			}
			c.pending = append(c.pending, changes[old])
		}
		to.dirs[path] = c
	}
	to.used = to.count()
	return to
}
