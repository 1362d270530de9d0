package router

import (
	"sync"

	"github.com/sheafq/sheaf/shard"
)

// arena is where a client's queue and requests live: in room for two, which is all that a
// client without a pipeline needs, and with more of them in a pipeline as well. Both are
// from pools, and an idle client has neither. All requests are free again when the queue
// has run empty. Only the client's goroutine uses it.
type arena struct {
	few   *few      // nil until a request is taken
	deep  *pipeline // nil until a third is
	taken int       // how many requests are not free

	queue []*shard.Request // its array is in few, or in deep if that is there
	chain []*shard.Request // what of the queue is posted; likewise
}

// shallow is how many requests few has room for.
const shallow = 2

// few is room for a client without a pipeline.
type few struct {
	requests     [shallow]shard.Request
	queue, chain [shallow]*shard.Request
	scratch      shard.Request // see Client.do
}

// pipeline is room for the longest run.
type pipeline struct {
	requests     [maxRun]shard.Request
	queue, chain [maxRun]*shard.Request
}

var (
	fews      = sync.Pool{New: func() any { return new(few) }}
	pipelines = sync.Pool{New: func() any { return new(pipeline) }}
)

// room returns a.few, taken from its pool if need be.
func (a *arena) room() *few {
	if a.few == nil {
		a.few = fews.Get().(*few)
		a.queue, a.chain = a.few.queue[:0], a.few.chain[:0]
	}
	return a.few
}

// next takes a free request. It is not blank.
func (a *arena) next() *shard.Request {
	i := a.taken
	a.taken++
	if i < shallow {
		return &a.room().requests[i]
	}
	if a.deep == nil {
		a.deep = pipelines.Get().(*pipeline)
		a.queue = append(a.deep.queue[:0], a.queue...)
		a.chain = a.deep.chain[:0]
	}
	return &a.deep.requests[i-shallow]
}

// undo gives back the request that was taken last. What it holds stays until the next
// reset, since the caller may still want it.
func (a *arena) undo() { a.taken-- }

// reset empties the queue and makes all requests free.
func (a *arena) reset() {
	clear(a.chain[:len(a.queue)]) // all that was ever posted: the chain is shorter after a wait
	clear(a.queue)
	a.queue, a.chain = a.queue[:0], a.chain[:0]
	if a.few != nil {
		for i := range a.few.requests {
			forget(&a.few.requests[i])
		}
	}
	if a.deep != nil {
		clear(a.deep.requests[:max(0, a.taken+1-shallow)]) // and one that was undone
	}
	a.taken = 0
}

// forget makes r, which is dealt with, keep nothing alive: an idle client must not hold
// on to jobs, or to tubes that are not its own.
func forget(r *shard.Request) {
	r.Tube, r.Name, r.Body, r.Task, r.Job, r.TubeStats = nil, "", nil, nil, nil, nil
}

// thin prepares for a wait of queue[head], which may be long. It lets go of what the
// requests before it hold, which are dealt with, and of the pipeline if none come behind.
// It returns the index of queue[head] after that.
func (a *arena) thin(head int) int {
	for _, r := range a.queue[:head] {
		forget(r)
	}
	if a.deep == nil || head+1 < len(a.queue) {
		return head
	}
	r := *a.queue[head]
	a.reset()
	a.shrink()
	a.queue = append(a.queue, a.next())
	*a.queue[0] = r
	return 0
}

// shrink gives the pipeline back. The arena must have been reset.
func (a *arena) shrink() {
	if a.deep != nil {
		pipelines.Put(a.deep)
		a.deep = nil
		a.queue, a.chain = a.few.queue[:0], a.few.chain[:0]
	}
}

// rest gives back all memory. The arena must have been reset.
func (a *arena) rest() {
	a.shrink()
	if a.few != nil {
		*a.few = few{}
		fews.Put(a.few)
		a.few, a.queue, a.chain = nil, nil, nil
	}
}
