package shard

import (
	"sync/atomic"
	"time"
)

// EventKind says what an Event is about.
type EventKind uint8

// The kinds. All but Wake and Expired are what a worker reports of a job, and what
// Report takes.
const (
	Wake      EventKind = iota // there may be a job: the answer to a Doze, later
	Data                       // a part of the result
	Warning                    // likewise
	Progress                   // how far it is; the worker's own words
	Complete                   // the job is done; with the rest of the result
	Fail                       // the job has failed
	Exception                  // the job has failed, and this is why
	Expired                    // the client had the job, and its time is over
)

// Event tells a client something that is not the answer to a command.
type Event struct {
	next *Event
	Kind EventKind
	ID   uint64 // of the job
	Data []byte // immutable
}

// footprint returns about how many bytes of memory the event takes.
func (e *Event) footprint() int64 { return 80 + int64(len(e.Data)) }

// Peer is the other side of an Inbox: the connection of the client. All methods
// may be called by any goroutine, and do not block.
type Peer interface {
	// Poke says that the inbox is not empty any more.
	Poke()
	// Unread returns for how long the peer has read nothing while something was
	// being sent to it; 0 if nothing is.
	Unread() time.Duration
	// Kill ends the client: too much is waiting for it.
	Kill()
}

// A client whose Inbox is over its limit is killed when it has read nothing for
// deafAfter, or when floodFactor times the limit is waiting: a client that reads, but
// more slowly than its results come, is to get them.
const (
	deafAfter   = 10 * time.Second
	floodFactor = 4
)

// Inbox is where a client gets events. Shards put them in, from any goroutine; only
// the client takes them out. Like a mailbox it is a stack that is taken whole and
// turned around.
type Inbox struct {
	top   atomic.Pointer[Event] // the latest one; shards push, the client takes all
	bytes atomic.Int64          // that are in it; shards add, the client subtracts
	limit int64                 // of bytes, unless a single event is larger; never changes
	peer  Peer                  // never changes
}

// NewInbox returns an empty inbox with a limit in bytes. If an event exceeds it the
// peer is killed, provided that it has read nothing for 10 s or that more than four
// times the limit is waiting. A single event may have any size.
func NewInbox(peer Peer, limit int64) *Inbox { return &Inbox{peer: peer, limit: limit} }

// put adds e, or kills the peer. Any goroutine may call it.
func (b *Inbox) put(e *Event) {
	n := e.footprint()
	if held := b.bytes.Add(n); held > max(b.limit, n) && (b.peer.Unread() > deafAfter || held > max(floodFactor*b.limit, n)) {
		b.peer.Kill()
		return
	}
	for {
		top := b.top.Load()
		e.next = top
		if b.top.CompareAndSwap(top, e) {
			if top == nil {
				b.peer.Poke()
			}
			return
		}
	}
}

// Take takes out all events and calls f for each, in the order in which they
// came. Only the client calls it.
func (b *Inbox) Take(f func(*Event)) {
	if b.top.Load() == nil {
		return
	}
	var first *Event
	for e := b.top.Swap(nil); e != nil; {
		e.next, first, e = first, e, e.next
	}
	for e := first; e != nil; e = e.next {
		b.bytes.Add(-e.footprint())
		f(e)
	}
}
