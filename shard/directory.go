package shard

import (
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Directory gives out ids and says where jobs are: which shard they are on, to
// anyone, and to that shard, the job. Looking up takes a few loads and no lock.
// All shards of an engine share one.
//
// Ids are dense, so it is a table, eight bytes an id:
//
//	roots ──▶ root of 512 nodes ──▶ node of 4 groups ──▶ group of 16 pages ──▶ page of 32 ids
//
// Only roots that have pages are listed: ids need not be near each other, since old jobs
// may stay, and a damaged binlog may yield any ids.
//
// A page goes when the last of its jobs has gone and all ids of its group have been
// given out, a node with its last page, and a root with its last node. So an old job
// that stays keeps at most a page of 256 bytes, its node of 512, and a root of 5 KiB,
// of which there is one for a million ids: if one job in 500 stays, that is 390 bytes
// for each, and 776 if one in 2048 does. A few jobs may keep much memory, so it is
// counted in the memory budget, see grew. Pages do not count their jobs, since all
// shards would write the count: whoever may have emptied a page looks through it.
type Directory struct {
	// Each of the three groups below has a cache line for itself, since a core that
	// writes to a line keeps all others waiting that read it.
	_ [64]byte

	// ids is the last id given out; all shards and clients write it.
	ids atomic.Uint64
	_   [56]byte

	// These two are read with each command by id. roots is sorted, and never changed
	// but replaced by a changed copy, under mu.
	roots atomic.Pointer[[]numbered]
	// newest is the number of the last group that pages were made for; written under
	// mu. It may still have ids to give out, so its pages stay when they are empty, and
	// are looked at when those of a later group are made.
	newest atomic.Uint64
	_      [48]byte

	// mu is held by whoever makes or drops roots, nodes and pages: a shard takes it
	// once in 512 ids to make the pages of a group, and once for each page that it
	// drops. It is held for no more than must be done by one after the other.
	mu sync.Mutex
	// noted is the last id that counts as given out after a crash, whether it was or
	// not. Any shard raises it, at most once in idStep ids.
	noted  atomic.Uint64
	bytes  int64  // that the whole table takes; under mu
	budget ration // what of that is counted; under mu
}

const (
	groupBits = 9 // of ids in a row
	nodeBits  = groupBits + 2
	rootBits  = nodeBits + 9

	groupSize  = 1 << groupBits
	groupPages = 16
	pageSize   = groupSize / groupPages
	nodeGroups = 1 << (nodeBits - groupBits)
	rootNodes  = 1 << (rootBits - nodeBits)
)

// numbered is a root, and how many come before it in the table.
type numbered struct {
	n    uint64
	root *root
}

type root struct {
	nodes [rootNodes]atomic.Pointer[node]
	// Under Directory.mu: how many nodes there are, and how many pages each has.
	live  int
	pages [rootNodes]uint8
}

// node is four groups, one behind the other.
type node struct {
	pages [nodeGroups * groupPages]atomic.Pointer[page]
}

// What they take, in bytes. A root takes one of the allocator's sizes, with a word for
// the allocator's use.
const (
	pageBytes = int64(unsafe.Sizeof(page{}))
	nodeBytes = int64(unsafe.Sizeof(node{}))
	rootBytes = 4864
)

// page is 32 ids in a row. A shard takes ids for many puts at once, if it can (see
// takeID), so neighbours on a cache line are mostly of one shard. (To spread ids in a row
// over different lines would be no better for shards that take one at a time in turn:
// each would write as many lines that another wrote last.)
//
// A place is 0 where there is no job, and gone where there will be none; else its upper
// 16 bits are the shard, counted from 1, and the others the jobRef. The shard that the
// job is on writes it, by compare-and-swap from 0 and back by store; whoever takes out
// the page writes it by compare-and-swap from 0 to gone, so neither overwrites the other.
type page [pageSize]atomic.Uint64

const (
	shardShift = 48 // addresses are lower
	refMask    = 1<<shardShift - 1
)

// line is how many ids are in one cache line.
const line = 8

// inNode returns which page of its node an id is on.
func inNode(id uint64) uint64 {
	return id>>groupBits%nodeGroups*groupPages + id/pageSize%groupPages
}

// inPage returns which place of its page an id has.
func inPage(id uint64) uint64 { return id % pageSize }

// gone is in all places of a page that was taken out, so that whoever is about to enter
// a job there notices.
const gone = 1

// shardIn returns the shard in a place, -1 if there is no job.
func shardIn(place uint64) int { return int(place>>shardShift) - 1 }

// jobIn returns the job in a place that has one.
func jobIn(place uint64) *job { return jobRef(place & refMask).job() }

// empty tells whether there is no job in the places from i up to end. Places that are
// gone count as empty, though whoever is taking out the page may still fail, for a job
// that has left since.
func (p *page) empty(i, end uint64) bool {
	for ; i < end; i++ {
		if p[i].Load() > gone {
			return false
		}
	}
	return true
}

// takeOut marks the whole page as gone if there is no job in it. It reports false if
// there is one, or if another goroutine is taking it out. Any goroutine may call it.
//
// If a job stops it, it undoes what it has marked and looks again: the job may have left
// meanwhile, and whoever removed it found the first place marked, and gave up.
func (p *page) takeOut() bool {
	for p.empty(0, pageSize) {
		i := 0
		for i < pageSize && p[i].CompareAndSwap(0, gone) {
			i++
		}
		switch i {
		case pageSize:
			return true
		case 0:
			return false
		}
		for i--; i >= 0; i-- { // the first place comes last, since it keeps others out
			p[i].Store(0)
		}
	}
	return false
}

// NewDirectory returns a directory without jobs, whose first id is 1.
func NewDirectory() *Directory {
	d := &Directory{}
	d.roots.Store(new([]numbered))
	return d
}

// ChargeTo has the directory count what it takes beyond 64 KiB in a memory budget. It
// must be called before there is any job.
func (d *Directory) ChargeTo(b *Budget) { d.budget.Budget = b }

// NextID takes the next id. Any goroutine may call it.
func (d *Directory) NextID() uint64 { return d.ids.Add(1) }

// nextIDs takes the next n ids, and returns the first of them. Any goroutine may
// call it.
func (d *Directory) nextIDs(n uint64) uint64 { return d.ids.Add(n) - n + 1 }

// LastID returns the last id that was given out, 0 if there is none. Any
// goroutine may call it.
func (d *Directory) LastID() uint64 { return d.ids.Load() }

// note records that ids up to that one count as given out after a crash. Any goroutine
// may call it.
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

// Skip has ids up to that one count as given out. It must be called before any is given
// out.
func (d *Directory) Skip(id uint64) { d.ids.Store(id) }

// Lookup returns the shard that the job is on, -1 if there is no such job. Any
// goroutine may call it.
func (d *Directory) Lookup(id uint64) int {
	p := d.page(id)
	if p == nil {
		return -1
	}
	return shardIn(p[inPage(id)].Load())
}

// job returns the job with that id if it is on the calling shard, which has that
// index, and nil if not.
func (d *Directory) job(id uint64, shard int) *job {
	p := d.page(id)
	if p == nil {
		return nil
	}
	place := p[inPage(id)].Load()
	if shardIn(place) != shard {
		return nil
	}
	return jobIn(place)
}

// enter records that a new job is on the calling shard. It comes before any answer that
// tells of the job.
func (d *Directory) enter(j *job, shard int) {
	if !d.tryEnter(j, shard) {
		panic("two jobs with one id")
	}
}

// tryEnter is enter for a job that may not be the only one with its id. It
// reports false if there is another, on any shard.
func (d *Directory) tryEnter(j *job, shard int) bool {
	p, i := d.page(j.id), inPage(j.id)
	place := uint64(shard+1)<<shardShift | uint64(j.ref())
	for p == nil || !p[i].CompareAndSwap(0, place) { // with a job in it the page stays
		if p != nil && p[i].Load() > gone {
			return false
		}
		if p != nil {
			runtime.Gosched() // lets whoever is taking out the page finish, which is soon
		}
		p = d.makePage(j.id)
	}
	return true
}

// leave records that a job on the calling shard is no more.
func (d *Directory) leave(id uint64) {
	p, i := d.page(id), inPage(id)
	p[i].Store(0)
	// Of several shards that empty a page at the same time, the last finds it empty.
	if id>>groupBits < d.newest.Load() && p.empty(i/line*line, i/line*line+line) {
		d.dropPage(id)
	}
}

// lookStep is how many groups of ids are looked through in one go, so that nobody
// has to wait for long.
const lookStep = 8

// look calls f for the jobs on the calling shard, in the order of their ids from first
// on, until f returns false, or it has been through lookStep groups that have pages, of
// any shard. It returns the id to go on from, 0 if that was all. f may remove the job
// that it is called with.
func (d *Directory) look(first uint64, shard int, f func(*job) bool) (next uint64) {
	looked := 0
	for n, group := range d.groupsFrom(first >> groupBits) {
		if looked++; looked > lookStep {
			return n << groupBits
		}
		for id := max(first, n<<groupBits); id>>groupBits == n; id++ {
			p := group[id/pageSize%groupPages].Load()
			if p == nil {
				continue
			}
			if place := p[inPage(id)].Load(); shardIn(place) == shard && !f(jobIn(place)) {
				return id + 1
			}
		}
	}
	return 0
}

// all goes through the jobs on the calling shard, in the order of their ids. It looks at
// every page. The loop may remove the job that it is at.
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

// groupsFrom goes through the groups that have pages, from that number on.
func (d *Directory) groupsFrom(first uint64) iter.Seq2[uint64, []atomic.Pointer[page]] {
	return func(yield func(uint64, []atomic.Pointer[page]) bool) {
		for n, nd := range d.nodesFrom(first / nodeGroups) {
			for k := range uint64(nodeGroups) {
				group := nd.pages[k*groupPages:][:groupPages]
				if n := n*nodeGroups + k; n >= first && anyPage(group) && !yield(n, group) {
					return
				}
			}
		}
	}
}

func anyPage(group []atomic.Pointer[page]) bool {
	for i := range group {
		if group[i].Load() != nil {
			return true
		}
	}
	return false
}

// nodesFrom goes through the nodes from that number on.
func (d *Directory) nodesFrom(first uint64) iter.Seq2[uint64, *node] {
	return func(yield func(uint64, *node) bool) {
		for _, r := range *d.roots.Load() {
			for k := range r.root.nodes {
				n := r.n*rootNodes + uint64(k)
				if nd := r.root.nodes[k].Load(); nd != nil && n >= first && !yield(n, nd) {
					return
				}
			}
		}
	}
}

// Groups returns how many groups of 512 ids have pages, so that tests see that none is
// left behind: the newest one always has some. Any goroutine may call it.
func (d *Directory) Groups() (n int) {
	for range d.groupsFrom(0) {
		n++
	}
	return n
}

// page returns the page of id, nil if there is none.
func (d *Directory) page(id uint64) *page {
	if r := d.root(id); r != nil {
		if n := r.nodes[id>>nodeBits%rootNodes].Load(); n != nil {
			return n.pages[inNode(id)].Load()
		}
	}
	return nil
}

// root returns the root of id, nil if there is none.
func (d *Directory) root(id uint64) *root {
	roots := *d.roots.Load()
	if i := len(roots) - 1; i >= 0 && roots[i].n == id>>rootBits { // as for most jobs
		return roots[i].root
	}
	if i := rootIndex(roots, id); i < len(roots) && roots[i].n == id>>rootBits {
		return roots[i].root
	}
	return nil
}

// rootIndex returns where in the list the root of id is, or belongs.
func rootIndex(roots []numbered, id uint64) int {
	n := id >> rootBits
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

// makePage returns the page of id, made if need be. It may be taken out again before the
// caller has entered anything. If it is of a new group, the group's other pages are made
// with it, since they are needed next.
func (d *Directory) makePage(id uint64) *page {
	d.mu.Lock()
	n, last := id>>groupBits, d.newest.Load()
	if n > last {
		d.newest.Store(n)
		for k := range uint64(groupPages) {
			d.ensure(n<<groupBits + k*pageSize)
		}
	}
	p := d.ensure(id)
	d.mu.Unlock()
	if n > last { // not before: whoever comes next needs the new ones
		for k := range uint64(groupPages) {
			d.dropPage(last<<groupBits + k*pageSize)
		}
	}
	return p
}

// ensure returns the page of id, made if need be. The caller holds mu.
func (d *Directory) ensure(id uint64) *page {
	r := d.root(id)
	if r == nil {
		r = new(root)
		roots := *d.roots.Load()
		// A copy: others look things up in the old one.
		roots = slices.Insert(slices.Clone(roots), rootIndex(roots, id), numbered{id >> rootBits, r})
		d.roots.Store(&roots)
		d.grew(rootBytes)
	}
	k := id >> nodeBits % rootNodes
	n := r.nodes[k].Load()
	if n == nil {
		n = new(node)
		r.nodes[k].Store(n)
		r.live++
		d.grew(nodeBytes)
	}
	p := n.pages[inNode(id)].Load()
	if p == nil {
		p = new(page)
		n.pages[inNode(id)].Store(p)
		r.pages[k]++
		d.grew(pageBytes)
	}
	return p
}

// dropPage lets the page of id go if there is no job in it. Any goroutine may call
// it.
func (d *Directory) dropPage(id uint64) {
	p := d.page(id)
	if p == nil || !p.takeOut() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, k := d.root(id), id>>nodeBits%rootNodes
	r.nodes[k].Load().pages[inNode(id)].Store(nil)
	d.grew(-pageBytes)
	if r.pages[k]--; r.pages[k] > 0 {
		return
	}
	r.nodes[k].Store(nil)
	d.grew(-nodeBytes)
	if r.live--; r.live > 0 {
		return
	}
	roots := slices.Clone(*d.roots.Load())
	i := rootIndex(roots, id)
	roots = slices.Delete(roots, i, i+1)
	d.roots.Store(&roots)
	d.grew(-rootBytes)
}

// uncounted is how many bytes of the directory the budget does not count, so that a small
// budget is left to jobs.
const uncounted = 64 << 10

// grew notes that the directory takes n bytes more. The caller holds mu.
func (d *Directory) grew(n int64) {
	was := max(0, d.bytes-uncounted)
	d.bytes += n
	if d.budget.Budget != nil {
		d.budget.charge(max(0, d.bytes-uncounted) - was)
	}
}
