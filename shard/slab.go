package shard

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slab is the memory of a shard's jobs. The garbage collector does not know it: else it
// would have to mark each of ten million jobs, and clients would wait for that.
//
// A job is in a slot, with its body behind it. All slots of a chunk have one size, and a
// free one is used again by the next job of that size. A chunk without jobs gives its
// memory back to the system, sooner or later (see spares), but it keeps its addresses, for
// jobs of any size: as long as the slab lives, these never hold anything but jobs. Chunks
// are small, since a single old job keeps all of one.
//
// So the slab may take more memory than the slots in use: as jobs go, those that stay
// keep their chunks, where jobs of other sizes find no room. What exceeds one chunk for
// each size (slack) is counted in the memory budget as if it were in use, which bounds
// it; see excess. That is why there are only few sizes.
//
// What is in a slot keeps nothing alive, so it holds no pointers to anything but other
// slots; see table.
type slab struct {
	chunks []*chunk // by number
	spares spares   // without jobs, with memory
	empty  []*chunk // without memory
	// room lists the chunks with free slots, by the size of their slots in slotSteps.
	room [maxSlot/slotStep + 1]*chunk
	// unused is how many bytes of the chunks with jobs are not in a slot in use.
	unused int64
	// region is where the next new chunk comes from.
	region *region
	// fails makes the slab find no memory, for tests.
	fails bool
}

// These are in bytes. Regions grow with their slab, since a process can have only some
// 65,000 mappings.
const (
	slotStep    = 16 // of small slots; others are in steps of two and four of these
	maxSlot     = 1 << 10
	chunkSize   = 64 << 10
	leastRegion = 4 * chunkSize
	mostRegion  = 256 * chunkSize
)

// slack is how many unused bytes are not counted: one chunk for each of the 26 sizes of
// slots, so that the first job of a size does not count for a whole chunk.
const slack = 26 * chunkSize

// slotSize returns the size of a slot for n bytes, which are at most maxSlot.
func slotSize(n int) int {
	step := slotStep
	switch {
	case n > 512:
		step = 4 * slotStep
	case n > 256:
		step = 2 * slotStep
	}
	return (n + step - 1) &^ (step - 1)
}

// excess returns how many of so many unused bytes the memory budget counts.
func excess(unused int64) int64 { return max(0, unused-slack) }

// growth returns by how many bytes the excess grows with a job of size bytes, at most
// maxSlot. It is negative if a chunk has room for the job.
func (s *slab) growth(size int) int64 {
	slot := slotSize(size)
	after := s.unused - int64(slot)
	if s.room[slot/slotStep] == nil {
		after += chunkSize
	}
	return excess(after) - excess(s.unused)
}

// region is memory mapped from the system. It is unmapped when the collector finds that
// no chunk refers to it any more.
type region struct {
	memory []byte
	used   int
}

// chunk is a number of slots of one size.
type chunk struct {
	region *region
	memory []byte // chunkSize of it
	number uint32 // its place in chunks
	slot   uint32 // bytes of each
	used   uint32 // slots in use
	fresh  uint32 // offset from which on no slot was used yet
	free   *job   // free slots below fresh, linked by next
	// Links of the list of chunks with room.
	prev, next *chunk
}

// take returns a slot of at least size bytes, which are at most maxSlot; nil if the
// system has no memory. Its content is undefined but for chunk.
func (s *slab) take(size int) *job {
	slot := slotSize(size)
	c := s.room[slot/slotStep]
	if c == nil {
		if c = s.chunk(uint32(slot)); c == nil {
			return nil
		}
		s.link(c)
		s.unused += chunkSize
	}
	s.unused -= int64(slot)
	j := c.free
	if j != nil {
		c.free = j.next
	} else {
		j = (*job)(unsafe.Pointer(&c.memory[c.fresh]))
		c.fresh += c.slot
	}
	if c.used++; c.full() {
		s.unlink(c)
	}
	j.chunk = c.number
	return j
}

// give takes a slot back.
func (s *slab) give(j *job) {
	c := s.chunks[j.chunk]
	if c.full() {
		s.link(c)
	}
	c.used--
	s.unused += int64(c.slot)
	j.next, c.free = c.free, j
	if c.used == 0 {
		s.unused -= chunkSize
		s.unlink(c)
		s.retire(c)
	}
}

// full tells whether all of a chunk's slots are in use.
func (c *chunk) full() bool { return c.free == nil && c.fresh+c.slot > chunkSize }

// chunk returns a chunk without jobs, for slots of that size; nil if the system
// has no memory.
func (s *slab) chunk(slot uint32) *chunk {
	c := s.spares.take()
	if c == nil {
		c = pop(&s.empty)
	}
	if c == nil {
		r := s.region
		if r == nil || r.used == len(r.memory) {
			r = newRegion(min(max(leastRegion, len(s.chunks)*chunkSize), mostRegion))
		}
		if r == nil || s.fails {
			return nil
		}
		s.region = r
		c = &chunk{region: r, memory: r.memory[r.used:][:chunkSize], number: uint32(len(s.chunks))}
		r.used += chunkSize
		s.chunks = append(s.chunks, c)
	}
	c.slot, c.used, c.fresh, c.free = slot, 0, 0, nil
	return c
}

// pop takes the last one off a list, nil if there is none.
func pop(l *[]*chunk) *chunk {
	n := len(*l)
	if n == 0 {
		return nil
	}
	c := (*l)[n-1]
	*l = (*l)[:n-1]
	return c
}

// newRegion returns one of that many bytes, nil if the system has no memory.
func newRegion(size int) *region {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil || uint64(uintptr(unsafe.Pointer(&memory[size-1]))) > refMask { // Linux gives such addresses only on request
		return nil
	}
	r := &region{memory: memory}
	runtime.AddCleanup(r, func(memory []byte) { _ = unix.Munmap(memory) }, memory)
	return r
}

// retire sets a chunk without jobs aside.
func (s *slab) retire(c *chunk) {
	if !s.spares.keep(c) {
		s.unload(c)
	}
}

// unload gives the memory of a chunk without jobs to the system.
func (s *slab) unload(c *chunk) {
	_ = unix.Madvise(c.memory, unix.MADV_DONTNEED) // if it fails, as for locked memory, the memory stays
	s.empty = append(s.empty, c)
}

// link enters c into the list of chunks with room.
func (s *slab) link(c *chunk) {
	head := &s.room[c.slot/slotStep]
	c.prev, c.next = nil, *head
	if c.next != nil {
		c.next.prev = c
	}
	*head = c
}

func (s *slab) unlink(c *chunk) {
	if c.prev == nil {
		s.room[c.slot/slotStep] = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

// table numbers what jobs refer to, since a pointer in a slot would not keep it alive.
// The number 0 stands for nothing.
type table[T any] struct {
	all  []T // by number, counted from 1
	free []uint32
}

// add returns a number for v.
func (t *table[T]) add(v T) uint32 {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		t.all[i-1] = v
		return i
	}
	t.all = append(t.all, v)
	return uint32(len(t.all))
}

// at returns the value with that number, the zero value for 0.
func (t *table[T]) at(i uint32) (v T) {
	if i == 0 {
		return v
	}
	return t.all[i-1]
}

// remove frees a number and lets go of its value. It does nothing for 0.
func (t *table[T]) remove(i uint32) {
	if i != 0 {
		var none T
		t.all[i-1] = none
		t.free = append(t.free, i)
		if len(t.free) == len(t.all) && len(t.all) > manyEntries {
			*t = table[T]{}
		}
	}
}
