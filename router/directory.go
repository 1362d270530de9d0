package router

import (
	"sync"
	"sync/atomic"
)

// directory says which shard a job is on, and gives out the ids. Looking up
// takes three loads and no lock.
//
// Ids are dense, so it is a table in pages, two bytes an id:
//
//	roots ──▶ root of 1024 pages ──▶ page of 4096 ids
//
// A page goes when the last of its jobs has gone and all of its ids have been
// given out; so an old job that stays keeps one page of 8 KiB and its root.
type directory struct {
	_ [64]byte // ids is written by all shards: keep its line alone
	// ids is the last id given out.
	ids atomic.Uint64
	_   [56]byte

	// roots is replaced by a longer copy when it is to grow, under mu.
	roots atomic.Pointer[[]atomic.Pointer[root]]
	mu    sync.Mutex // makes roots and pages; a shard takes it once in 4096 ids at most
	// newest is an id on the last page that was made so far, by id; under mu. It
	// is the only one that may have lost its last job and still be there, since
	// it had ids to give out then; so it is looked at when a later one is made.
	newest uint64
}

const (
	pageBits = 12
	rootBits = 10
	pageSize = 1 << pageBits
	rootSize = 1 << rootBits
)

type root struct {
	pages [rootSize]atomic.Pointer[page]
	live  int // pages; under directory.mu
}

// page holds two ids a word: the shard's index plus one, 0 for no job.
type page struct {
	words [pageSize / 2]atomic.Uint32
	// live counts the jobs in the page. It is counted up before a word is set
	// and down after it is cleared. The one who moves it from 0 to dead takes
	// the page out; who counts up and finds it dead looks for a new one.
	live atomic.Int64
}

const dead = -1 << 40

func newDirectory() *directory {
	d := &directory{}
	d.roots.Store(new([]atomic.Pointer[root]))
	return d
}

// NextID takes the next id. Any goroutine may call it.
func (d *directory) NextID() uint64 { return d.ids.Add(1) }

// Lookup returns the shard that the job is on, -1 if there is no such job. Any
// goroutine may call it.
func (d *directory) Lookup(id uint64) int {
	p := d.page(id)
	if p == nil {
		return -1
	}
	return int(p.words[id%pageSize/2].Load()>>(id%2*16)&0xffff) - 1
}

// Enter says that the job is on that shard. It has not been entered before.
func (d *directory) Enter(id uint64, shard int) {
	p := d.page(id)
	for p == nil || p.live.Add(1) <= 0 {
		p = d.makePage(id)
	}
	p.words[id%pageSize/2].Or(uint32(shard+1) << (id % 2 * 16))
}

// Leave says that the job, which has been entered, is no more.
func (d *directory) Leave(id uint64) {
	p := d.page(id)
	p.words[id%pageSize/2].And(^(uint32(0xffff) << (id % 2 * 16)))
	if p.live.Add(-1) == 0 {
		d.dropPage(id)
	}
}

// page returns the page of id, nil if there is none.
func (d *directory) page(id uint64) *page {
	roots := *d.roots.Load()
	i := id >> (pageBits + rootBits)
	if i >= uint64(len(roots)) {
		return nil
	}
	r := roots[i].Load()
	if r == nil {
		return nil
	}
	return r.pages[id>>pageBits%rootSize].Load()
}

// makePage returns the page of id, made if need be. The page that it returns
// may die before the caller has counted itself in.
func (d *directory) makePage(id uint64) *page {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := id >> (pageBits + rootBits)
	roots := *d.roots.Load()
	if i >= uint64(len(roots)) {
		grown := make([]atomic.Pointer[root], max(i+1, 2*uint64(len(roots))))
		for j := range roots {
			grown[j].Store(roots[j].Load())
		}
		d.roots.Store(&grown)
		roots = grown
	}
	r := roots[i].Load()
	if r == nil {
		r = new(root)
		roots[i].Store(r)
	}
	slot := &r.pages[id>>pageBits%rootSize]
	p := slot.Load()
	if p == nil {
		p = new(page)
		slot.Store(p)
		r.live++
		if id>>pageBits > d.newest>>pageBits {
			d.dropLocked(d.newest)
			d.newest = id
		}
	}
	return p
}

// dropPage lets the page of id go if it may.
func (d *directory) dropPage(id uint64) {
	if d.ids.Load() < id|(pageSize-1) {
		return // it has ids to give out: new jobs are coming
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropLocked(id)
}

func (d *directory) dropLocked(id uint64) {
	roots := *d.roots.Load()
	if i := id >> (pageBits + rootBits); i < uint64(len(roots)) {
		if r := roots[i].Load(); r != nil {
			slot := &r.pages[id>>pageBits%rootSize]
			if p := slot.Load(); p != nil && p.live.CompareAndSwap(0, dead) {
				slot.Store(nil)
				if r.live--; r.live == 0 {
					roots[i].Store(nil)
				}
			}
		}
	}
}
