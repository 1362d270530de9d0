package shard

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Directory gives out ids and says where jobs are: which shard they are on, to
// anyone, and to that shard, the job. Looking up takes a few loads and no lock.
// All shards of an engine share one.
//
// Ids are dense, so it is a table in pages, twelve bytes an id:
//
//	roots ──▶ root of 8192 pages ──▶ page of 512 ids
//
// Only roots that have pages are listed: there may be old jobs, and the ids that
// are read back from a damaged binlog may be any.
//
// A page goes when the last of its jobs has gone and all of its ids have been
// given out; so an old job that stays keeps one page of 6 KiB and its root.
// Nothing is counted for that, since all shards would write the count: whoever
// may have emptied a page looks through it.
type Directory struct {
	_ [64]byte // ids is written by all shards: keep its line alone
	// ids is the last id given out.
	ids atomic.Uint64
	_   [56]byte
	// noted is up to which one ids count as given out after a crash, whether they
	// are or not; any shard writes it, once in idStep ids at most.
	noted atomic.Uint64

	// roots is in order. It is replaced by a changed copy, under mu.
	roots atomic.Pointer[[]numbered]
	mu    sync.Mutex // makes roots and pages; a shard takes it once in 512 ids at most
	// newest is the number of the last page that was made so far; written under
	// mu. It has ids to give out, or had when it was looked at last: so it stays
	// when it is empty, and is looked at when a later one is made.
	newest atomic.Uint64
}

const (
	pageBits = 9
	rootBits = 13
	pageSize = 1 << pageBits
	rootSize = 1 << rootBits
)

// numbered is a root, and how many come before it in the table.
type numbered struct {
	n    uint64
	root *root
}

type root struct {
	pages [rootSize]atomic.Pointer[page]
	live  int // pages; under directory.mu
}

// page is about 512 ids. Those of ids in a row are far apart, so that two shards
// that put jobs at the same time write different cache lines.
type page struct {
	// jobs are 0 where there is none, and gone where there will be none. The shard
	// that the job is on writes it; whoever takes out the page, from 0 to gone.
	jobs [pageSize]atomic.Uintptr // jobRefs
	// shards are their shards, counted from 1, or 0. The shard that the job is on
	// writes it, while the job is in jobs.
	shards [pageSize]atomic.Uint32
}

// line is how many ids are in one cache line.
const line = 8

// at returns where in its page an id is.
func at(id uint64) uint64 { return id%(pageSize/line)*line + id/(pageSize/line)%line }

// gone is in all places of a page that was taken out: whoever is about to enter
// a job there finds that out.
const gone = 1

// shard returns the shard that the job is on, -1 if there is no such job.
func (p *page) shard(id uint64) int { return int(p.shards[at(id)].Load()) - 1 }

// empty tells whether there is no job from place i to place end. That somebody
// is about to take out the page does not count: that may fail for a job that is
// not there any more now.
func (p *page) empty(i, end uint64) bool {
	for ; i < end; i++ {
		if j := p.jobs[i].Load(); j != 0 && j != gone {
			return false
		}
	}
	return true
}

// takeOut ends the page if there is no job in it.
func (p *page) takeOut() bool {
	for i := range p.jobs {
		if !p.jobs[i].CompareAndSwap(0, gone) {
			for i--; i >= 0; i-- {
				p.jobs[i].Store(0)
			}
			return false
		}
	}
	return true
}

// NewDirectory returns one without jobs, of which 1 is the first id.
func NewDirectory() *Directory {
	d := &Directory{}
	d.roots.Store(new([]numbered))
	return d
}

// NextID takes the next id. Any goroutine may call it.
func (d *Directory) NextID() uint64 { return d.ids.Add(1) }

// LastID returns the last id that was given out, 0 if there is none. Any
// goroutine may call it.
func (d *Directory) LastID() uint64 { return d.ids.Load() }

// note has ids up to that one count as given out after a crash. Any goroutine may
// call it.
func (d *Directory) note(id uint64) {
	for {
		was := d.noted.Load()
		if was >= id || d.noted.CompareAndSwap(was, id) {
			return
		}
	}
}

// LastNotedID returns the last id that was given out, or that counts as given out
// after a crash; 0 if there is none. Any goroutine may call it.
func (d *Directory) LastNotedID() uint64 { return max(d.LastID(), d.noted.Load()) }

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
	return jobRef(p.jobs[at(id)].Load()).job()
}

// enter says that a job, which was not there before, is on the calling shard. It
// comes before any answer that tells of the job.
func (d *Directory) enter(j *job, shard int) {
	if !d.tryEnter(j, shard) {
		panic("two jobs with one id")
	}
}

// tryEnter is enter for a job that may not be the only one with its id. It
// reports false if there is another, on any shard.
func (d *Directory) tryEnter(j *job, shard int) bool {
	p, i := d.page(j.id), at(j.id)
	for p == nil || !p.jobs[i].CompareAndSwap(0, uintptr(j.ref())) { // once it is there, the page stays
		if p != nil && p.shard(j.id) >= 0 {
			return false
		}
		p = d.makePage(j.id) // which waits until it is known whether the page goes
	}
	p.shards[i].Store(uint32(shard + 1))
	return true
}

// leave says that the job, which is on the calling shard, is no more.
func (d *Directory) leave(id uint64) {
	p, i := d.page(id), at(id)
	p.shards[i].Store(0)
	p.jobs[i].Store(0)
	// Of those who empty a page at the same time, the last one finds it empty.
	if n := id >> pageBits; n < d.newest.Load() && p.empty(i/line*line, i/line*line+line) && p.empty(0, pageSize) {
		d.mu.Lock()
		d.dropPage(n)
		d.mu.Unlock()
	}
}

// lookStep is how many pages are looked through in one go, so that nobody has to
// wait for long.
const lookStep = 8

// look calls f for the jobs on the calling shard, in the order of their ids, as far
// as they are on the next lookStep pages from id first on, whosever those are, or
// until f returns false. It returns the id to go on from, 0 if that was all. The job
// that it is at may leave meanwhile.
func (d *Directory) look(first uint64, shard int, f func(*job) bool) (next uint64) {
	looked := 0
	for n, p := range d.pagesFrom(first >> pageBits) {
		if looked++; looked > lookStep {
			return n << pageBits
		}
		for i := range uint64(pageSize) {
			if p.shard(i) != shard || n<<pageBits+i < first {
				continue
			}
			if !f(jobRef(p.jobs[at(i)].Load()).job()) {
				return n<<pageBits + i + 1
			}
		}
	}
	return 0
}

// all goes through the jobs on the calling shard, in the order of their ids. It
// looks at every page. The job that it is at may leave meanwhile.
func (d *Directory) all(shard int) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		more := true
		for next := uint64(1); next != 0 && more; {
			next = d.look(next, shard, func(j *job) bool {
				more = yield(j)
				return more
			})
		}
	}
}

// pagesFrom goes through the pages from that number on.
func (d *Directory) pagesFrom(first uint64) iter.Seq2[uint64, *page] {
	return func(yield func(uint64, *page) bool) {
		for _, r := range *d.roots.Load() {
			if r.n < first>>rootBits {
				continue
			}
			for k := range r.root.pages {
				n := r.n<<rootBits + uint64(k)
				if p := r.root.pages[k].Load(); p != nil && n >= first && !yield(n, p) {
					return
				}
			}
		}
	}
}

// Pages returns how many pages there are, of 6 KiB each. Any goroutine may
// call it.
func (d *Directory) Pages() (n int) {
	for range d.pagesFrom(0) {
		n++
	}
	return n
}

// page returns the page of id, nil if there is none.
func (d *Directory) page(id uint64) *page {
	if r := d.root(id >> pageBits); r != nil {
		return r.pages[id>>pageBits%rootSize].Load()
	}
	return nil
}

// root returns the root of page n, nil if there is none.
func (d *Directory) root(n uint64) *root {
	roots := *d.roots.Load()
	if i := len(roots) - 1; i >= 0 && roots[i].n == n>>rootBits { // as for most jobs
		return roots[i].root
	}
	if i := rootIndex(roots, n); i < len(roots) && roots[i].n == n>>rootBits {
		return roots[i].root
	}
	return nil
}

// rootIndex returns where in the list the root of page n is, or belongs.
func rootIndex(roots []numbered, n uint64) int {
	n >>= rootBits
	i, end := 0, len(roots)
	for i < end {
		if m := (i + end) / 2; roots[m].n < n {
			i = m + 1
		} else {
			end = m
		}
	}
	return i
}

// makePage returns the page of id, made if need be. It may be taken out before
// the caller has entered anything.
func (d *Directory) makePage(id uint64) *page {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := id >> pageBits
	r := d.root(n)
	if r == nil {
		r = new(root)
		roots := *d.roots.Load()
		// A copy: others look things up in the old one.
		roots = slices.Insert(slices.Clone(roots), rootIndex(roots, n), numbered{n >> rootBits, r})
		d.roots.Store(&roots)
	}
	p := r.pages[n%rootSize].Load()
	if p == nil {
		p = new(page)
		r.pages[n%rootSize].Store(p)
		r.live++
		if last := d.newest.Load(); n > last {
			d.newest.Store(n)
			d.dropPage(last)
		}
	}
	return p
}

// dropPage lets page n go if there is no job in it. The caller holds mu.
func (d *Directory) dropPage(n uint64) {
	r := d.root(n)
	if r == nil {
		return
	}
	slot := &r.pages[n%rootSize]
	if p := slot.Load(); p == nil || !p.takeOut() {
		return
	}
	slot.Store(nil)
	if r.live--; r.live == 0 {
		roots := slices.Clone(*d.roots.Load())
		i := rootIndex(roots, n)
		roots = slices.Delete(roots, i, i+1)
		d.roots.Store(&roots)
	}
}
