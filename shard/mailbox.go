package shard

import "sync/atomic"

// mailbox is a lock-free queue with many producers and, at any time, one
// consumer. Requests are linked through themselves, so posting allocates nothing.
// The zero value is not ready: use newMailbox.
//
// It also settles whose turn it is to consume. A consumer that finds it empty parks it
// and stops being the consumer; whoever posts to a parked mailbox is the next one, and
// may hand that on to the goroutine that sleeps on wake. What one consumer does happens
// before what the next one does.
//
// It is a stack that the consumer takes whole and turns around. Producers only
// push and the consumer only swaps, so the ABA problem of lock-free stacks
// cannot arise: a push succeeds if the top is what it linked to, whatever has
// happened in between.
//
// Posts of one goroutine are served in the order in which they were posted,
// and the requests of one post are served with none of another between them.
type mailbox struct {
	_ [64]byte // the word below is written by every core: keep its line alone
	// top is the request posted last, nil when there is none, or &parked when
	// there is no consumer. Producers and the consumer write it, atomically.
	top atomic.Pointer[Request]
	_   [56]byte
	// wake has room for one token, so a wake-up is never lost and never blocks. Only
	// the consumer puts one in, and stops being the consumer with that, so there is
	// never a token too many.
	wake chan struct{}
}

// parked is the value of mailbox.top that says: whoever posts now is the
// consumer. It is never served.
var parked Request

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

// post hands over a chain of at least one request, to be served in slice order.
// Any goroutine may call it. The slice itself is not kept. It reports true if the
// mailbox was parked: then the caller is the consumer, and either serves it or pokes the
// goroutine that sleeps.
func (m *mailbox) post(chain []*Request) (idle bool) {
	for i := len(chain) - 1; i > 0; i-- {
		chain[i].next = chain[i-1]
	}
	first, last := chain[0], chain[len(chain)-1]
	for {
		top := m.top.Load()
		idle = top == &parked
		if idle {
			first.next = nil
		} else {
			first.next = top
		}
		if m.top.CompareAndSwap(top, last) {
			return idle
		}
	}
}

// poke wakes the goroutine that sleeps on wake, or makes its next sleep end at
// once.
func (m *mailbox) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns all that was posted, first come first, linked by next; nil when
// there is nothing. Only the consumer calls it.
func (m *mailbox) take() *Request {
	if m.top.Load() == nil {
		return nil // without a write, which would take the cache line from other cores
	}
	top := m.top.Swap(nil)
	var head *Request
	for top != nil {
		top.next, head, top = head, top, top.next
	}
	return head
}

// park ends the caller's turn as the consumer. It reports false, and the turn goes on, if
// something was posted meanwhile. Only the consumer calls it.
func (m *mailbox) park() bool { return m.top.CompareAndSwap(nil, &parked) }
