package perf

// What drivers have to tell each other while a load runs.

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// inboxIndex is what a poller's event has for the inbox, where others have the
// index of a connection.
const inboxIndex = -1

// An inbox collects producers of a driver that may put another job, since workers
// of other drivers have finished one. Its owner is woken by an eventfd that it
// watches edge-triggered: each write is an event, even if earlier ones were never
// read, so the owner need not read it.
type inbox struct {
	fd    int
	taken []*conn // what take returned last; only the owner's

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

// add is called by other drivers. Only an addition to an empty inbox wakes the
// owner, which then takes all there is.
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

// take is called by the owner. The result is valid until the next take.
func (b *inbox) take() []*conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owed, b.taken = b.taken[:0], b.owed
	return b.taken
}

// beginOwed begins the scripts that other drivers have asked for.
func (d *driver) beginOwed() {
	now := clock()
	for _, c := range d.inbox.take() {
		if !d.stopping {
			d.begin(c, now)
		}
	}
}

// releaseProducer lets the producer of a finished job put another; the producer
// may belong to another driver. from is its number, since producers are a load's
// first connections. If the body names none, which takes a broken server, any of
// them does, so that the load goes on.
func (d *driver) releaseProducer(from int32, now int64) {
	producers := d.load.starters
	c := producers[uint32(from)%uint32(len(producers))]
	if c.driver == d {
		d.begin(c, now)
	} else {
		c.driver.inbox.add(c)
	}
}
