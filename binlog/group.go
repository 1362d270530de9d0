package binlog

// group is a number of batches that become one block.
type group struct {
	buf     []byte // room for a header, and the records
	records int
	held    []Held
	to      *segment
	drop    uint64 // segments before this one may go; 0 for none
	promise int64  // bytes that were taken from the segment's room
}

// maxGroup is the size in bytes from which on a group takes no further batch.
const maxGroup = 1 << 20

// maxBatch is the size in bytes from which on what was appended goes to the
// queue before its batch ends. So blocks stay small enough to be compressed,
// but for a larger job, which is in one by itself.
const maxBatch = 4 << 20

// keptGroup is how large a buffer is kept to be used again.
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

// reset makes g empty, to be used again.
func (g *group) reset() {
	if cap(g.buf) > keptGroup {
		g.buf = make([]byte, blockHeader, 4096)
	}
	clear(g.held)
	*g = group{buf: g.buf[:blockHeader], held: g.held[:0]}
}
