package router

import (
	"sync"

	"github.com/sheafq/sheaf/shard"
)

// arena is where a client's requests come from: two of its own, which is all
// that one without a pipeline needs, and beyond that chunks from a pool. All
// are free again when the queue has run empty.
type arena struct {
	own    [2]shard.Request
	chunks []*chunk
	taken  int
}

type chunk [32]shard.Request

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// next returns a request that is in nobody's hands. It is not blank.
func (a *arena) next() *shard.Request {
	i := a.taken
	a.taken++
	if i < len(a.own) {
		return &a.own[i]
	}
	i -= len(a.own)
	if i/len(chunk{}) == len(a.chunks) {
		a.chunks = append(a.chunks, chunks.Get().(*chunk))
	}
	return &a.chunks[i/len(chunk{})][i%len(chunk{})]
}

// undo gives back the request that was taken last.
func (a *arena) undo() { a.taken-- }

// reset makes all requests free.
func (a *arena) reset() {
	a.taken = 0
	for i := range a.own {
		a.own[i].Body = nil // an idle client must not keep bodies alive
	}
}

// shrink gives the chunks back. The arena must have been reset.
func (a *arena) shrink() {
	for i, c := range a.chunks {
		*c = chunk{}
		chunks.Put(c)
		a.chunks[i] = nil
	}
	a.chunks = a.chunks[:0]
}
