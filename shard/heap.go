package shard

// key orders a heap: by hi, then by lo. Ready jobs are ordered by priority and
// id, delayed and held ones by deadline and by when that was set.
type key struct{ hi, lo uint64 }

// worst is a key behind every job's.
var worst = key{^uint64(0), ^uint64(0)}

func (k key) less(o key) bool {
	return k.hi < o.hi || k.hi == o.hi && k.lo < o.lo
}

// jobHeap is an indexed min-heap: each job knows its place (job.pos), so any
// job leaves in O(log n). A job is in one heap at a time.
//
// It is four-ary, since the cost of a heap of many jobs is cache misses and
// four children share one or two cache lines; and it keeps the keys beside the
// references, so that a comparison does not touch a job.
//
// The entries are in pages, so that a heap grows and shrinks without all of them
// being copied, which for millions would take too long, nor leaving such copies
// to the collector.
type jobHeap struct {
	n     int
	first []entry            // grows up to a page, since most heaps are small
	rest  []*[heapPage]entry // the other pages; at most one of them is empty
}

// heapPage is how many entries a page has.
const heapPage = 4096

type entry struct {
	key
	ref jobRef
}

func (h *jobHeap) len() int { return h.n }

// at returns entry i.
func (h *jobHeap) at(i int) *entry {
	if i < heapPage {
		return &h.first[i]
	}
	return &h.rest[uint(i)/heapPage-1][i%heapPage]
}

// top returns the least job, nil if there is none.
func (h *jobHeap) top() *job {
	if h.n == 0 {
		return nil
	}
	return h.first[0].ref.job()
}

func (h *jobHeap) push(k key, j *job) {
	switch i := h.n; {
	case i < heapPage:
		h.first = append(h.first, entry{})
	case i/heapPage > len(h.rest):
		h.rest = append(h.rest, new([heapPage]entry))
	}
	h.n++
	h.up(h.n-1, entry{k, j.ref()})
}

// remove takes out j, which must be in this heap.
func (h *jobHeap) remove(j *job) {
	i := int(j.pos)
	h.n--
	end := h.at(h.n)
	last := *end
	if i < h.n {
		h.place(i, last)
	}
	h.shrink()
}

// shrink gives back memory that is not needed, but only when a few more jobs would not
// need it again.
func (h *jobHeap) shrink() {
	switch n, c := h.n, cap(h.first); {
	case n >= heapPage:
		if pages := (n + heapPage/2) / heapPage; pages < len(h.rest) {
			h.rest[pages] = nil
			h.rest = h.rest[:pages]
		}
	case n == heapPage/2:
		h.rest = nil
		fallthrough
	default:
		h.first = h.first[:n]
		// By halves, so that the copying is paid for by the removals before it; and
		// not where a few hundred jobs come and go all the time.
		if c > 1024 && n < c/4 {
			h.first = append(make([]entry, 0, c/2), h.first...)
		}
	}
}

// fix moves j, which must be in this heap, to where k belongs.
func (h *jobHeap) fix(k key, j *job) { h.place(int(j.pos), entry{k, j.ref()}) }

// place puts e at i or where it belongs from there.
func (h *jobHeap) place(i int, e entry) {
	if i > 0 && e.less(h.at((i-1)/4).key) {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

func (h *jobHeap) up(i int, e entry) {
	for i > 0 {
		above := (i - 1) / 4
		parent := h.at(above)
		if !e.less(parent.key) {
			break
		}
		h.set(i, *parent)
		i = above
	}
	h.set(i, e)
}

func (h *jobHeap) down(i int, e entry) {
	for {
		child := 4*i + 1
		if child >= h.n {
			break
		}
		end := min(child+4, h.n)
		children := h.run(child, end)
		best := 0
		for c := 1; c < len(children); c++ {
			if children[c].less(children[best].key) {
				best = c
			}
		}
		at, least := child+best, &children[best]
		if child+len(children) < end { // the last one is on the next page
			if o := h.at(end - 1); o.less(least.key) {
				at, least = end-1, o
			}
		}
		if !least.less(e.key) {
			break
		}
		h.set(i, *least)
		i = at
	}
	h.set(i, e)
}

// run returns entries from, up to end, as far as they are on one page.
func (h *jobHeap) run(from, end int) []entry {
	if end <= heapPage {
		return h.first[from:end]
	}
	if from < heapPage {
		return h.first[from:]
	}
	at := from % heapPage
	return h.rest[from/heapPage-1][at:min(at+end-from, heapPage)]
}

func (h *jobHeap) set(i int, e entry) {
	*h.at(i) = e
	e.ref.job().pos = int32(i)
}
