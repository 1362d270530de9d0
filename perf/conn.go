package perf

// One connection of a load: what is in flight on it, and its buffers.

// A pending is a command in flight. It takes a cache line.
type pending struct {
	due    int64  // when it was to be sent
	began  int64  // when the first command of its script was to be sent
	number uint64 // of the job in hand, with a ledger
	line   int32  // of a put: which
	from   int32  // which connection put the job in hand
	script uint8  // of its group's mix
	step   uint8
	op     op
	idLen  uint8
	id     [20]byte
}

// A conn belongs to its driver's goroutine once the load has begun.
type conn struct {
	fd     int
	number int32 // in its load
	index  int32 // in its driver
	group  *group
	driver *driver
	tube   string // the used one

	watched map[string]bool // with a ledger

	gearman *gearmanConn // nil: beanstalkd's protocol is spoken

	ring       []pending // its length is a power of two
	head, tail uint32
	running    int   // scripts
	quota      int64 // scripts that may still be begun; negative is no limit
	nextPut    int   // of the next put
	nextBody   int   // of its body, in the stock
	nextScript int   // in the group's order of scripts

	partial  []byte // the beginning of an answer that has not arrived whole, in a buffer of its own
	want     int    // how long that answer is, if that is known
	out      []byte // what is still to be written
	written  int    // of out
	heldBack int    // scripts that are begun when out has been written
	blocked  bool   // the socket took no more; the poller tells when it does
	dirty    bool   // is in driver.dirty
}

// push puts p behind what is in flight. More than the depth is in flight when a
// body names no producer, so that another one makes up for its job; that takes
// a broken server.
func (c *conn) push(p *pending) {
	if int(c.tail-c.head) == len(c.ring) {
		bigger := make([]pending, 2*len(c.ring))
		for i := c.head; i != c.tail; i++ {
			bigger[i&uint32(len(bigger)-1)] = c.ring[i&uint32(len(c.ring)-1)]
		}
		c.ring = bigger
	}
	c.ring[c.tail&uint32(len(c.ring)-1)] = *p
	c.tail++
}

// front is the command whose answer comes next.
func (c *conn) front() *pending { return &c.ring[c.head&uint32(len(c.ring)-1)] }
