package shard

import (
	"sync"
	"sync/atomic"
)

// Waiter is what all shards share of one client: the claim that decides who
// answers a reserve that waits, and the client's wake-up. There is one for
// each client, made by NewWaiter and used by one goroutine of the client, the
// owner; methods that others may call say so.
type Waiter struct {
	// state is the claim: seq<<phaseBits | phase. The owner stores it to begin. After
	// that owner and shards move it on by compare-and-swap, so that one of them wins;
	// only the shard that has won (claimed) stores the last phase, granted.
	state atomic.Uint64
	// pending is how many chains have been posted and are not answered. The
	// owner sets it when it has nothing posted, the shards count it down. (After
	// a Quiet wait it is left at one.)
	pending atomic.Int32
	// wake has room for one token. Tokens may be spurious: the owner looks at
	// pending and state to learn what has happened.
	wake chan struct{}
	// grant is written by the shard whose claim succeeded, before the phase becomes
	// granted, and read by the owner after it has seen that.
	grant Grant

	seq uint64 // of the claim; only the owner writes and reads it

	// bodies holds small bodies on their way: of puts, which the owner keeps before
	// it posts them, and of answers, which a shard keeps before it answers. They do
	// not race: the owner leaves it alone while anything is posted, and only one shard
	// answers with a body then, the one that was asked or the one whose claim succeeded.
	bodies *[]byte

	// inbox is where a Gearman client gets its events; nil for other clients. It never
	// changes.
	inbox *Inbox
}

// Grant is the answer of a reserve that had to wait.
type Grant struct {
	Status  Status // OK, TimedOut, DeadlineSoon, Aborted or Failed
	Shard   int32  // that answered
	ID      uint64
	Body    []byte
	Soonest int64 // see Request
	// To a Grab, as in its Request.
	Tube *Tube
	Task *Task
}

// phase is how far a claim has come; the package comment draws it.
type phase uint64

const (
	closed    phase = iota // no reserve may wait: the client has hung up
	open                   // a reserve on one shard may begin to wait
	probing                // several shards are being asked
	dirty                  // as probing, but a shard has a better job now than it told
	waiting                // whoever moves it on answers the reserve
	claimed                // somebody is about to grant
	granted                // the grant may be read
	cancelled              // the owner has ended the wait
)

const phaseBits = 3

// NewWaiter returns a client's Waiter.
func NewWaiter() *Waiter { return &Waiter{wake: make(chan struct{}, 1)} }

// NewGearmanWaiter returns the Waiter of a client that speaks Gearman, whose events go
// to b.
func NewGearmanWaiter(b *Inbox) *Waiter {
	w := NewWaiter()
	w.inbox = b
	return w
}

// bodyBuffers are for Waiter.bodies. Each has grown to what some client needed, at
// most 128 small bodies.
var bodyBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// Keep returns a copy of a small body followed by end, which is valid until Drop. The
// owner may call it while it has nothing posted, else only the shard that serves it.
func (w *Waiter) Keep(body []byte, end string) []byte {
	if w.bodies == nil {
		w.bodies = bodyBuffers.Get().(*[]byte)
	}
	b := *w.bodies
	n := len(b)
	b = append(append(b, body...), end...) // if it moves, what was kept before stays valid where it is
	*w.bodies = b
	return b[n:len(b):len(b)]
}

// Drop forgets all that was kept.
func (w *Waiter) Drop() {
	if w.bodies != nil {
		*w.bodies = (*w.bodies)[:0]
		bodyBuffers.Put(w.bodies)
		w.bodies = nil
	}
}

func (w *Waiter) word(p phase) uint64 { return w.seq<<phaseBits | uint64(p) }

// move takes the claim seq from one phase to another, and reports whether it was in
// the first. Any goroutine may call it.
func (w *Waiter) move(seq uint64, from, to phase) bool {
	return w.state.CompareAndSwap(seq<<phaseBits|uint64(from), seq<<phaseBits|uint64(to))
}

// claim tries to win the claim of a client that is registered for a wait: true
// means that the caller answers it. A client that is still probing becomes
// dirty instead, and asks again. Probing may turn into waiting at any moment but
// never back, so waiting is looked at again after probing; whoever is found in
// neither has had its wait ended by somebody else.
func (w *Waiter) claim(seq uint64) bool {
	return w.move(seq, waiting, claimed) ||
		!w.move(seq, probing, dirty) && w.move(seq, waiting, claimed)
}

// is tells whether the claim has that sequence number and phase. Any goroutine may
// call it.
func (w *Waiter) is(seq uint64, p phase) bool {
	return w.state.Load() == seq<<phaseBits|uint64(p)
}

// Begin starts a new claim for chains on one shard. With mayWait a reserve in
// them may come to wait; without, it is answered TimedOut instead.
func (w *Waiter) Begin(mayWait bool) {
	w.seq++
	p := closed
	if mayWait {
		p = open
	}
	w.state.Store(w.word(p))
}

// BeginProbe starts a new claim for Probe and Take on several shards.
func (w *Waiter) BeginProbe() {
	w.seq++
	w.state.Store(w.word(probing))
}

// Clean tells whether no shard has got a better job than it told since BeginProbe.
func (w *Waiter) Clean() bool { return w.is(w.seq, probing) }

// Settle ends the probing. With wait the client waits from now on, on all shards that
// queued it; without, it takes no job any more. False means that a shard has got a
// better job than it told, and that the client must ask again.
func (w *Waiter) Settle(wait bool) bool {
	if wait {
		return w.move(w.seq, probing, waiting)
	}
	return w.move(w.seq, probing, cancelled)
}

// Cancel ends a wait, or keeps a posted reserve from beginning one. True means
// that the wait was ended by this call: no grant will come, and the shards
// still have to be told (Cancel the operation). False means that there is no
// wait to end: the answer has come or will come by itself.
func (w *Waiter) Cancel() bool {
	return !w.move(w.seq, open, closed) && w.move(w.seq, waiting, cancelled)
}

// Granted returns the answer of the reserve that waits, and whether there is one yet:
// else it must not be read.
func (w *Waiter) Granted() (*Grant, bool) {
	return &w.grant, w.is(w.seq, granted)
}

// Expect says how many chains are about to be posted. Nothing may be posted then.
func (w *Waiter) Expect(n int) { w.pending.Store(int32(n)) }

// Answered tells whether all chains that were expected have been answered.
func (w *Waiter) Answered() bool { return w.pending.Load() == 0 }

// Sleep blocks until Poke is called or a shard has something for the client.
// It may also return for no reason.
func (w *Waiter) Sleep() { <-w.wake }

// Poke makes Sleep return. Any goroutine may call it.
func (w *Waiter) Poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// answered counts a chain as answered. The shard calls it, or its log.
func (w *Waiter) answered() {
	if w.pending.Add(-1) == 0 {
		w.Poke()
	}
}

// release lets the owner read the grant. The shard that has claimed calls it, or its
// log.
func (w *Waiter) release() {
	w.state.Store(w.state.Load()&^(1<<phaseBits-1) | uint64(granted))
	w.Poke()
}
