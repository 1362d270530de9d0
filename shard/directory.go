package shard

import (
	"iter"
	"sync"
	"sync/atomic"
)

// Directory gives out ids and says where jobs are: which shard they are on, to
// anyone, and to that shard, the job. Looking up takes three loads and no lock.
// All shards of an engine share one.
//
// Ids are dense, so it is a table in pages, ten bytes an id:
//
//	roots ──▶ root of 8192 pages ──▶ page of 512 ids
//
// A page goes when the last of its jobs has gone and all of its ids have been
// given out; so an old job that stays keeps one page of 5 KiB and its root.
type Directory struct {
	_ [64]byte // ids is written by all shards: keep its line alone
	// ids is the last id given out.
	ids atomic.Uint64
	_   [56]byte

	// roots is replaced by a longer copy when it is to grow, under mu.
	roots atomic.Pointer[[]atomic.Pointer[root]]
	mu    sync.Mutex // makes roots and pages; a shard takes it once in 512 ids at most
	// newest is an id on the last page that was made so far, by id; under mu. It
	// is the only one that may have lost its last job and still be there, since
	// it had ids to give out then; so it is looked at when a later one is made.
	newest uint64
}

const (
	pageBits = 9
	rootBits = 13
	pageSize = 1 << pageBits
	rootSize = 1 << rootBits
)

type root struct {
	pages [rootSize]atomic.Pointer[page]
	live  int // pages; under directory.mu
}

// page is about 512 ids.
type page struct {
	// jobs are those that there are. Only the shard that a job is on reads and
	// writes its place.
	jobs [pageSize]*job
	// words hold two ids each: the shard's index plus one, 0 for no job.
	words [pageSize / 2]atomic.Uint32
	// live counts the jobs in the page. It is counted up before a word is set
	// and down after it is cleared. The one who moves it from 0 to dead takes
	// the page out; who counts up and finds it dead looks for a new one.
	live atomic.Int64
}

const dead = -1 << 40

// shard returns the shard that the job is on, -1 if there is no such job.
func (p *page) shard(id uint64) int {
	return int(p.words[id%pageSize/2].Load()>>(id%2*16)&0xffff) - 1
}

// NewDirectory returns one without jobs, of which 1 is the first id.
func NewDirectory() *Directory {
	d := &Directory{}
	d.roots.Store(new([]atomic.Pointer[root]))
	return d
}

// NextID takes the next id. Any goroutine may call it.
func (d *Directory) NextID() uint64 { return d.ids.Add(1) }

// LastID returns the last id that was given out, 0 if there is none. Any
// goroutine may call it.
func (d *Directory) LastID() uint64 { return d.ids.Load() }

// Skip has ids up to that one count as given out, before any is given out.
func (d *Directory) Skip(id uint64) { d.ids.Store(id) }

// Lookup returns the shard that the job is on, -1 if there is no such job. Any
// goroutine may call it.
func (d *Directory) Lookup(id uint64) int {
	p := d.page(id)
	if p == nil {
		return -1
	}
	return p.shard(id)
}

// job returns the job with that id if it is on the calling shard, which has that
// index, and nil if not.
func (d *Directory) job(id uint64, shard int) *job {
	p := d.page(id)
	if p == nil || p.shard(id) != shard {
		return nil
	}
	return p.jobs[id%pageSize]
}

// enter says that a job, which was not there before, is on the calling shard. It
// comes before any answer that tells of the job.
func (d *Directory) enter(j *job, shard int) {
	id := j.id
	p := d.page(id)
	for p == nil || p.live.Add(1) <= 0 {
		p = d.makePage(id)
	}
	if p.jobs[id%pageSize] != nil {
		panic("two jobs with one id")
	}
	p.jobs[id%pageSize] = j
	p.words[id%pageSize/2].Or(uint32(shard+1) << (id % 2 * 16))
}

// leave says that the job, which is on the calling shard, is no more.
func (d *Directory) leave(id uint64) {
	p := d.page(id)
	p.words[id%pageSize/2].And(^(uint32(0xffff) << (id % 2 * 16)))
	p.jobs[id%pageSize] = nil
	if p.live.Add(-1) == 0 {
		d.dropPage(id)
	}
}

// all goes through the jobs on the calling shard, in the order of their ids. It
// looks at every page. The job that it is at may leave meanwhile.
func (d *Directory) all(shard int) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for p := range d.pages() {
			for i := range uint64(pageSize) {
				if p.shard(i) == shard && !yield(p.jobs[i]) {
					return
				}
			}
		}
	}
}

func (d *Directory) pages() iter.Seq[*page] {
	return func(yield func(*page) bool) {
		roots := *d.roots.Load()
		for i := range roots {
			r := roots[i].Load()
			if r == nil {
				continue
			}
			for k := range r.pages {
				if p := r.pages[k].Load(); p != nil && !yield(p) {
					return
				}
			}
		}
	}
}

// Pages returns how many pages there are, of about 5 KiB each. Any goroutine may
// call it.
func (d *Directory) Pages() (n int) {
	for range d.pages() {
		n++
	}
	return n
}

// page returns the page of id, nil if there is none.
func (d *Directory) page(id uint64) *page {
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
func (d *Directory) makePage(id uint64) *page {
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
func (d *Directory) dropPage(id uint64) {
	if d.ids.Load() < id|(pageSize-1) {
		return // it has ids to give out: new jobs are coming
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropLocked(id)
}

func (d *Directory) dropLocked(id uint64) {
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
