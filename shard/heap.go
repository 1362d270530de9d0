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
// pointers, so that a comparison does not touch a job.
type jobHeap struct{ a []entry }

type entry struct {
	key
	j *job
}

func (h *jobHeap) len() int { return len(h.a) }

// top returns the least job, nil if there is none.
func (h *jobHeap) top() *job {
	if len(h.a) == 0 {
		return nil
	}
	return h.a[0].j
}

func (h *jobHeap) push(k key, j *job) {
	h.a = append(h.a, entry{})
	h.up(len(h.a)-1, entry{k, j})
}

// remove takes out j, which must be in this heap.
func (h *jobHeap) remove(j *job) {
	i := int(j.pos)
	n := len(h.a) - 1
	last := h.a[n]
	h.a[n] = entry{} // let the collector have the job
	h.a = h.a[:n]
	if i < n {
		h.place(i, last)
	}
	// A heap that once was large gives memory back, by halves so that the
	// copying is paid for by the removals before it.
	if c := cap(h.a); c > 1024 && n < c/4 {
		h.a = append(make([]entry, 0, c/2), h.a...)
	}
}

// fix moves j, which must be in this heap, to where k belongs.
func (h *jobHeap) fix(k key, j *job) { h.place(int(j.pos), entry{k, j}) }

// place puts e at i or where it belongs from there.
func (h *jobHeap) place(i int, e entry) {
	if i > 0 && e.less(h.a[(i-1)/4].key) {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

func (h *jobHeap) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / 4
		if !e.less(h.a[parent].key) {
			break
		}
		h.set(i, h.a[parent])
		i = parent
	}
	h.set(i, e)
}

func (h *jobHeap) down(i int, e entry) {
	n := len(h.a)
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if h.a[c].less(h.a[least].key) {
				least = c
			}
		}
		if !h.a[least].less(e.key) {
			break
		}
		h.set(i, h.a[least])
		i = least
	}
	h.set(i, e)
}

func (h *jobHeap) set(i int, e entry) {
	h.a[i] = e
	e.j.pos = int32(i)
}
