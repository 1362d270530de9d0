package shard

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// patience is for what must happen at once; a test that passes never waits so
// long.
const patience = 20 * time.Second

// next blocks until something is posted, as the shard does. It yields at
// random, so that producers come in between any two steps.
func (m *mailbox) next(t *testing.T, rnd *rand.Rand) *Request {
	for {
		if r := m.take(); r != nil {
			return r
		}
		maybeYield(rnd)
		if !m.park() {
			continue
		}
		maybeYield(rnd)
		select {
		case <-m.wake:
		case <-time.After(patience):
			t.Fatal("nobody has woken the consumer")
		}
	}
}

// hand posts a chain as a shard with a log does.
func (m *mailbox) hand(chain ...*Request) {
	if m.post(chain) {
		m.poke()
	}
}

func maybeYield(rnd *rand.Rand) {
	if rnd.IntN(4) == 0 {
		runtime.Gosched()
	}
}

// TestMailboxOrder has many producers post chains: those of one producer come
// in order, no chain has another's requests in it, and nothing is lost.
func TestMailboxOrder(t *testing.T) {
	const producers, each = 8, 10_000
	m := newMailbox()
	for p := range producers {
		go func() {
			rnd := rand.New(rand.NewPCG(1, uint64(p)))
			for n := 0; n < each; {
				chain := make([]*Request, min(1+rnd.IntN(5), each-n))
				for i := range chain {
					chain[i] = &Request{ID: uint64(p), N: uint64(n), Tag: uint8(len(chain) - 1 - i)}
					n++
				}
				m.hand(chain...)
				maybeYield(rnd)
			}
		}()
	}
	rnd := rand.New(rand.NewPCG(2, 0))
	var came [producers]int
	var open *Request // the last one of a chain that is not complete
	for got := 0; got < producers*each; {
		for r := m.next(t, rnd); r != nil; r = r.next {
			if r.N != uint64(came[r.ID]) {
				t.Fatalf("producer %d: request %d comes after %d others", r.ID, r.N, came[r.ID])
			}
			if open != nil && (r.ID != open.ID || r.Tag != open.Tag-1) {
				t.Fatalf("a request of producer %d, %d from the end of its chain, follows one of producer %d, %d from the end",
					r.ID, r.Tag, open.ID, open.Tag)
			}
			if open = r; r.Tag == 0 {
				open = nil
			}
			came[r.ID]++
			got++
		}
	}
}

// TestMailboxWakes would catch a wake-up that is lost between a look that finds
// nothing and falling asleep: each post must be taken before the next is made,
// so no later post makes up for it.
func TestMailboxWakes(t *testing.T) {
	for producers := 1; producers <= 3; producers++ {
		m := newMailbox()
		taken := make([]chan struct{}, producers)
		var posting sync.WaitGroup
		const posts = 5000
		for p := range taken {
			taken[p] = make(chan struct{})
			posting.Go(func() {
				rnd := rand.New(rand.NewPCG(3, uint64(p)))
				r := &Request{ID: uint64(p)} // used again and again, as connections do
				for range posts {
					maybeYield(rnd)
					m.hand(r)
					<-taken[p]
				}
			})
		}
		rnd := rand.New(rand.NewPCG(4, 0))
		for n := 0; n < producers*posts; {
			for r := m.next(t, rnd); r != nil; n++ {
				p := r.ID
				r = r.next // before the producer has it back
				taken[p] <- struct{}{}
			}
		}
		posting.Wait()
	}
}

// TestMailboxTurns: who posts to a parked mailbox, and nobody else, has the
// turn.
func TestMailboxTurns(t *testing.T) {
	m := newMailbox()
	if !m.park() {
		t.Fatal("an empty mailbox is not parked")
	}
	a, b, c := &Request{ID: 1}, &Request{ID: 2}, &Request{ID: 3}
	if !m.post([]*Request{a, b}) {
		t.Fatal("a parked mailbox is nobody's turn")
	}
	if m.park() {
		t.Fatal("a mailbox is parked though something was posted")
	}
	if m.post([]*Request{c}) {
		t.Fatal("it is two goroutines' turn")
	}
	if r := m.take(); r != a || a.next != b || b.next != c || c.next != nil {
		t.Fatal("what was posted is not linked in order")
	}
	if m.take() != nil {
		t.Fatal("something is taken though nothing was posted")
	}
	if m.post([]*Request{c}) {
		t.Fatal("an empty mailbox that is not parked is two goroutines' turn")
	}
	if r := m.take(); r != c || c.next != nil || !m.park() {
		t.Fatal("what is posted to an empty mailbox is not all that is there")
	}
}
