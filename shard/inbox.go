package shard

import (
	"sync/atomic"
	"time"
)

// EventKind says what an Event tells.
type EventKind uint8

// The kinds. All but Wake and Expired are what a worker says of a job, and what
// Report takes.
const (
	Wake      EventKind = iota // there may be a job: the answer to a Doze, later
	Data                       // a part of the result
	Warning                    //
	Progress                   // how far it is; the worker's own words
	Complete                   // the job is done; with the rest of the result
	Fail                       // the job has failed
	Exception                  // the job has failed, and this is why
	Expired                    // the client had the job, and its time is over
)

// Event is something that a client hears of without having asked for it just
// now.
type Event struct {
	next *Event
	Kind EventKind
	ID   uint64 // of the job
	Data []byte // immutable
}

// footprint is about how much memory the event takes, in bytes.
func (e *Event) footprint() int64 { return 80 + int64(len(e.Data)) }

// Peer is the other side of an Inbox: the connection of the client. All methods
// may be called by any goroutine, and do not block.
type Peer interface {
	// Poke says that the inbox is not empty any more.
	Poke()
	// Unread says for how long the peer has taken nothing of what is being sent to
	// it; 0 if nothing has to wait.
	Unread() time.Duration
	// Kill ends the client: too much waits for it.
	Kill()
}

// A client for which more waits than its Inbox should hold is killed when it has
// read nothing for deafAfter, or when it is muchMore times as much: who reads, but
// more slowly than its results come, is to get them.
const (
	deafAfter = 10 * time.Second
	muchMore  = 4
)

// Inbox is where a client gets events. Shards put them in, from any goroutine;
// the client takes them out. Like a mailbox it is a stack that is taken whole
// and turned around.
type Inbox struct {
	top  atomic.Pointer[Event] // the latest one; shards push, the client takes all
	held atomic.Int64          // bytes in it; shards add, the client subtracts
	most int64                 // it should hold at most so many bytes, or one event; never changes
	peer Peer                  // never changes
}

// NewInbox returns an empty inbox of a client whose peer is killed when an event
// comes with which more than most bytes are waiting for it, and it has read nothing
// for 10 s, or with which it are four times as many. One event may have any size.
func NewInbox(peer Peer, most int64) *Inbox { return &Inbox{peer: peer, most: most} }

// put puts e in. Any goroutine may call it.
func (b *Inbox) put(e *Event) {
	n := e.footprint()
	if held := b.held.Add(n); held > max(b.most, n) && (b.peer.Unread() > deafAfter || held > max(muchMore*b.most, n)) {
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
		b.held.Add(-e.footprint())
		f(e)
	}
}
