package shard

import "sync/atomic"

// Refusal is why a put or a submit is refused for lack of memory.
type Refusal int

const (
	OverCap  Refusal = iota // the cap is reached
	NoMemory                // the system has no memory for it
	NumRefusals
)

// refusals is how whoever logs refusals hears of them. They come together in the Budget,
// since both protocols ask it, some before they read a body and others through a shard.
//
// A put that is accepted writes nothing, but for the first one after AwaitAccepted. It
// reads awaited, which is hardly ever written.
type refusals struct {
	awaited atomic.Bool   // AwaitAccepted was called, and nothing was accepted since
	news    chan struct{} // has one when a put was refused, or the awaited one accepted
}

// refuse counts a put that is refused. Any goroutine may call it.
func (b *Budget) refuse(why Refusal) {
	b.refused[why].Add(1)
	b.tell()
}

// accept notes that a put was accepted, if that is awaited.
func (b *Budget) accept() {
	if b.awaited.Load() {
		b.awaited.Store(false)
		b.tell()
	}
}

func (b *Budget) tell() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// News returns a channel that gets something when a put has been refused, or the one
// accepted that AwaitAccepted awaits. One goroutine may receive from it.
func (b *Budget) News() <-chan struct{} { return b.news }

// Refused returns how many puts were refused so far, by reason.
func (b *Budget) Refused() (n [NumRefusals]int64) {
	for why := range n {
		n[why] = b.refused[why].Load()
	}
	return n
}

// AwaitAccepted has the next put that is accepted noted.
func (b *Budget) AwaitAccepted() { b.awaited.Store(true) }

// Accepted tells whether a put was accepted since AwaitAccepted was called last.
func (b *Budget) Accepted() bool { return !b.awaited.Load() }

// lacksMemory answers r, a put or a submit for which there is no memory.
func (s *Shard) lacksMemory(r *Request, why Refusal) {
	r.Status = OutOfMemory
	s.cfg.Budget.refuse(why)
}
