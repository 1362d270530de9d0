package perf

// One connection of a load: what is in flight on it, and its buffers.

// A pending is a command in flight. It is smaller than a cache line.
type pending struct {
	due    int64  // when it was to be sent
	began  int64  // when the first command of its script was to be sent
	number uint64 // of the job in hand; only with a ledger
	line   int32  // index of a put in wire.puts; of a SUBMIT_JOB, its slot
	from   int32  // number of the connection that put the job in hand; of a GRAB_JOB, the WORK_COMPLETEs it confirms
	script uint8  // index in the group's mix
	step   uint8
	op     op
	idLen  uint8
	id     [20]byte
}

// A conn belongs to its driver's goroutine while the load runs. Only group, driver
// and number may be read by others, since they do not change.
type conn struct {
	fd     int
	number int32 // in its load
	index  int32 // in its driver
	group  *group
	driver *driver
	tube   string // the tube it uses

	watched map[string]bool // only with a ledger

	gearman *gearmanConn // nil if beanstalkd's protocol is spoken

	ring       []pending // commands in flight; its length is a power of two
	head, tail uint32    // of the ring; they count up and wrap
	running    int       // scripts in flight
	quota      int64     // scripts that may still be begun; negative for any number
	nextPut    int       // index in wire.puts
	nextBody   int       // offset of the next body in wire.payload
	nextScript int       // index in group.order

	partial  []byte // the beginning of an answer that has not arrived whole, in a buffer of its own
	want     int    // length of that answer; 0 if not known
	out      []byte // output, of which written bytes are gone
	written  int
	heldBack int  // scripts to begin once out has been written
	blocked  bool // the socket took no more; the poller reports when it does
	dirty    bool // it is in driver.dirty
}

// push appends p to what is in flight. More than the depth can be in flight only
// with a broken server: a body that names no producer lets any one of them put
// another job.
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

// front returns the command whose answer comes next. There must be one.
func (c *conn) front() *pending { return &c.ring[c.head&uint32(len(c.ring)-1)] }
