package binlog

// group is a number of batches that become one block. It is passed from the
// shard to the writer and back, and belongs to one of them at a time: to the
// shard as Log.batch, to whoever holds the lock of the queue, and then to the writer.
type group struct {
	buf     []byte // room for the block's header, then the records
	records int
	held    []Held
	to      *segment
	drop    uint64 // segments before this one may go; 0 for none
	promise int64  // bytes that were taken from the segment's room
}

// maxGroup is how many bytes a group may have after another batch is added.
const maxGroup = 1 << 20

// maxBatch is how many bytes a batch may have: a record that would exceed it
// begins a new one. So blocks stay small enough to be compressed, except for a
// job that is larger, which has one to itself.
const maxBatch = 4 << 20

// keptGroup is how many bytes a buffer may have to be used again.
const keptGroup = maxBatch + maxBatch/4

func newGroup() *group { return &group{buf: make([]byte, blockHeader, 4096)} }

// wait has h wait for the group.
func (g *group) wait(h Held) {
	if h != nil {
		g.held = append(g.held, h)
	}
}

// takes tells whether batch b may be added to g.
func (g *group) takes(b *group) bool {
	return g.to == b.to && len(g.buf)+len(b.buf) <= maxGroup
}

// join adds batch b, for which h waits, to g.
func (g *group) join(b *group, h Held) {
	g.buf = append(g.buf, b.buf[blockHeader:]...)
	g.records += b.records
	g.promise += b.promise
	g.drop = max(g.drop, b.drop)
	g.wait(h)
}

// reset makes g empty, to be used again.
func (g *group) reset() {
	if cap(g.buf) > keptGroup {
		g.buf = make([]byte, blockHeader, 4096)
	}
	clear(g.held)
	*g = group{buf: g.buf[:blockHeader], held: g.held[:0]}
}
