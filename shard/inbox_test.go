package shard

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// waker is a connection that wakes a goroutine.
type waker struct {
	wake  chan struct{}
	kills atomic.Int64
	reads bool // Unread says so
}

func (w *waker) Unread() time.Duration {
	if w.reads {
		return deafAfter
	}
	return deafAfter + 1
}

func (w *waker) Kill() { w.kills.Add(1) }
func (w *waker) Poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// TestInboxOrder has many producers put events in while the client takes them
// out: those of one producer come in order, none is lost, and whoever sleeps is
// poked.
func TestInboxOrder(t *testing.T) {
	const producers, each = 8, 10_000
	w := &waker{wake: make(chan struct{}, 1)}
	b := NewInbox(w, 1<<40)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(p)))
			for n := range each {
				maybeYield(rnd)
				b.put(&Event{Kind: Data, ID: uint64(p), Data: make([]byte, n%7)})
				if rnd.IntN(100) == 0 {
					time.Sleep(time.Microsecond) // so that the client sleeps
				}
			}
		})
	}
	var next [producers]int
	for got := 0; got < producers*each; {
		select {
		case <-w.wake:
		case <-time.After(patience):
			t.Fatalf("asleep after %d events", got)
		}
		b.Take(func(e *Event) {
			if len(e.Data) != next[e.ID]%7 {
				t.Errorf("producer %d: an event comes out of order", e.ID)
			}
			next[e.ID]++
			got++
		})
		runtime.Gosched()
	}
	wg.Wait()
	if n := b.bytes.Load(); n != 0 || w.kills.Load() != 0 {
		t.Errorf("%d bytes are left, %d kills", n, w.kills.Load())
	}
}

// TestInboxFull: who does not take is killed, and not before it holds what it
// may; one event of any size it may hold.
func TestInboxFull(t *testing.T) {
	event := func(n int) *Event { return &Event{Kind: Data, Data: make([]byte, n)} }
	size := event(100).footprint()
	w := &waker{wake: make(chan struct{}, 1)}
	b := NewInbox(w, 10*size)
	for i := range 10 {
		if b.put(event(100)); w.kills.Load() != 0 {
			t.Fatalf("killed for event %d", i)
		}
	}
	if b.put(event(0)); w.kills.Load() != 1 {
		t.Errorf("%d kills for one event too many", w.kills.Load())
	}
	n := 0
	if b.Take(func(*Event) { n++ }); n != 10 {
		t.Errorf("%d events are taken of 10", n)
	}

	b = NewInbox(w, 10*size)
	w.kills.Store(0)
	if b.put(event(1 << 20)); w.kills.Load() != 0 {
		t.Error("killed for one large event")
	}
	if b.put(event(0)); w.kills.Load() != 1 {
		t.Error("not killed for one more")
	}
}

// TestInboxOfASlowReader: who reads is killed for much more only.
func TestInboxOfASlowReader(t *testing.T) {
	e := func() *Event { return &Event{Kind: Data, Data: make([]byte, 100)} }
	w := &waker{wake: make(chan struct{}, 1), reads: true}
	b := NewInbox(w, 10*e().footprint())
	for i := range 10 * floodFactor {
		if b.put(e()); w.kills.Load() != 0 {
			t.Fatalf("killed for event %d", i)
		}
	}
	if b.put(e()); w.kills.Load() != 1 {
		t.Errorf("%d kills for one event too many", w.kills.Load())
	}
	n := 0
	if b.Take(func(*Event) { n++ }); n != 10*floodFactor {
		t.Errorf("%d events are taken", n)
	}
}

// TestInboxFullOfMany: the bound holds whoever puts.
func TestInboxFullOfMany(t *testing.T) {
	const producers, each, most = 8, 1000, 100
	e := &Event{Kind: Data}
	w := &waker{wake: make(chan struct{}, 1)}
	b := NewInbox(w, most*e.footprint())
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			for range each {
				b.put(&Event{Kind: Data})
			}
		})
	}
	wg.Wait()
	n := 0
	b.Take(func(*Event) { n++ })
	if n > most || w.kills.Load() != producers*each-int64(n) {
		t.Errorf("%d events are held of %d, %d kills", n, most, w.kills.Load())
	}
}
