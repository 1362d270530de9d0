package perf

// What drivers have to tell each other while a load runs.

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// inboxIndex stands in a poller where others have the index of a connection.
const inboxIndex = -1

// An inbox collects the producers of a driver that may put another job, since
// workers of other drivers are done with one. Its owner is woken by an eventfd
// that it watches edge-triggered: a write to it is an event though nobody has
// read it, which saves that read.
type inbox struct {
	fd    int
	taken []*conn // the owner's

	_    [64]byte
	mu   sync.Mutex
	owed []*conn // guarded by mu
	_    [64]byte
}

func (b *inbox) open() (err error) {
	if b.fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("making an eventfd: %w", err)
	}
	return nil
}

func (b *inbox) close() { unix.Close(b.fd) }

// add is for other drivers. Only what comes into an empty inbox wakes its
// owner, who takes all there is.
func (b *inbox) add(c *conn) {
	b.mu.Lock()
	b.owed = append(b.owed, c)
	first := len(b.owed) == 1
	b.mu.Unlock()
	if first {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		unix.Write(b.fd, one[:]) // cannot fail before 2^64 of them
	}
}

// take is for the owner. What it returns is valid until the next take.
func (b *inbox) take() []*conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owed, b.taken = b.taken[:0], b.owed
	return b.taken
}

// beginOwed begins what other drivers have told.
func (d *driver) beginOwed() {
	now := clock()
	for _, c := range d.inbox.take() {
		if !d.stopping {
			d.begin(c, now)
		}
	}
}

// release lets the producer of a job put another, since that one is done. The
// producer may be another driver's. Producers are a load's first connections; a
// body that names none, which takes a broken server, is made up for by any of
// them, so that the load goes on.
func (d *driver) releaseProducer(from int32, now int64) {
	producers := d.load.starters
	c := producers[uint32(from)%uint32(len(producers))]
	if c.driver == d {
		d.begin(c, now)
	} else {
		c.driver.inbox.add(c)
	}
}
