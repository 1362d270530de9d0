package router

import (
	"sync"

	"github.com/sheafq/sheaf/shard"
)

// arena is where a client's queue and requests live: two of its own, which is
// all that a client without a pipeline needs, and beyond that in a pipeline
// from a pool. All requests are free again when the queue has run empty.
type arena struct {
	own   [shallow]shard.Request
	deep  *pipeline // nil until a third request is taken
	taken int

	queue []*shard.Request // in own or in deep, as are the requests
	chain []*shard.Request // what of the queue is posted
	short struct{ queue, chain [shallow]*shard.Request }
}

const shallow = 2

// pipeline is room for the longest run.
type pipeline struct {
	requests     [maxRun]shard.Request
	queue, chain [maxRun]*shard.Request
}

// init makes the queue ready.
func (a *arena) init() { a.queue, a.chain = a.short.queue[:0], a.short.chain[:0] }

var pipelines = sync.Pool{New: func() any { return new(pipeline) }}

// next returns a request that is in nobody's hands. It is not blank.
func (a *arena) next() *shard.Request {
	i := a.taken
	a.taken++
	if i < len(a.own) {
		return &a.own[i]
	}
	if a.deep == nil {
		a.deep = pipelines.Get().(*pipeline)
		a.queue = append(a.deep.queue[:0], a.queue...)
		a.chain = a.deep.chain[:0]
	}
	return &a.deep.requests[i-len(a.own)]
}

// undo gives back the request that was taken last. What it holds stays until the
// next reset: its caller may want it still.
func (a *arena) undo() { a.taken-- }

// reset empties the queue and makes all requests free.
func (a *arena) reset() {
	clear(a.chain[:len(a.queue)]) // what is posted after a wait is shorter than what was before
	clear(a.queue)
	a.queue, a.chain = a.queue[:0], a.chain[:0]
	for i := range a.own {
		forget(&a.own[i])
	}
	if a.deep != nil {
		clear(a.deep.requests[:max(0, a.taken+1-len(a.own))]) // with one that was undone
	}
	a.taken = 0
}

// forget has r, which is dealt with, keep nothing alive: an idle client has neither
// jobs nor tubes but its own.
func forget(r *shard.Request) {
	r.Tube, r.Name, r.Body, r.Task, r.Job, r.TubeStats = nil, "", nil, nil, nil, nil
}

// thin lets go of the requests before queue[head], which are dealt with, and of the
// pipeline, if none come behind: for a wait, which may be long. It returns where
// queue[head] is then.
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
		a.init()
	}
}
