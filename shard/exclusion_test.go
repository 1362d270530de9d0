package shard

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestOneTurnAtATime: clients that post, timers that ring, tubes whose birth and
// death are told to the first shard from within a turn of another, and the
// shards' own goroutines: whoever serves a shard is alone there, nothing that was
// posted is left lying, and the shards end whoever has their turn. That nobody
// else is there is for the race detector to find out.
func TestOneTurnAtATime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for range rounds {
		seed := rand.Uint64()
		g := newRig(3, NewDirectory(), 0)
		var clients, bells sync.WaitGroup
		var quiet atomic.Bool
		for i := range g.shards {
			bells.Go(func() { // a timer that fires at any moment, also after the end
				for rng := rand.New(rand.NewPCG(seed, uint64(100+i))); !quiet.Load(); {
					g.shards[i].ring()
					for range rng.IntN(50) {
						runtime.Gosched()
					}
				}
				g.shards[i].ring()
			})
		}
		for i := range 8 {
			clients.Go(func() {
				p := g.newPerson()
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				for n := range 60 {
					// Tubes of one client, which are born and go, on each of the shards.
					p.use(fmt.Sprintf("%d-%d-%d", i, n%3, rng.IntN(len(g.shards))))
					put := func() *Request {
						return &Request{Op: Put, Tube: p.used, TTR: 60, Body: []byte("\r\n")}
					}
					chain := []*Request{put(), put(), put()}[:1+rng.IntN(3)]
					p.post(p.used.Shard, chain...)
					p.await()
					for _, r := range chain {
						if got := p.do(p.used.Shard, Request{Op: Delete, ID: r.ID}); got.Status != OK {
							t.Errorf("seed %d: a job that was just put is not deleted: status %d", seed, got.Status)
						}
					}
				}
				p.detach()
			})
		}
		clients.Wait()
		// Whoever asks a shard after them finds them gone, and then the roster too.
		if s := g.gather(); s.Ready != 0 || s.Tubes != 1 || s.Memory != 0 {
			t.Errorf("seed %d: all clients are gone, but there are %d jobs, %d tubes, %d bytes", seed, s.Ready, s.Tubes, s.Memory)
		}
		if names := g.newStranger().do(0, Request{Op: Tubes}).Lists.Names; !slices.Equal(names, []string{DefaultTube}) {
			t.Errorf("seed %d: the roster has %q", seed, names)
		}
		g.stop() // while the timers ring
		quiet.Store(true)
		bells.Wait()
		if t.Failed() {
			return
		}
	}
}

// TestStopWhoeverHasTheTurn: the shard ends, and once, whether its stop is
// served by the one who asks for it, by another who was just in a turn, or by the
// shard's own goroutine; and the alarm may come after it.
func TestStopWhoeverHasTheTurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	for n := range rounds {
		g := newRig(1, NewDirectory(), 0)
		s := g.shards[0]
		p := g.newPerson()
		if n%3 == 0 {
			for !g.idle() {
				runtime.Gosched()
			}
		}
		var others sync.WaitGroup
		others.Go(s.ring)
		others.Go(s.ring)
		last := &Request{Op: Put, Tube: p.used, TTR: 1, Body: []byte("\r\n")}
		p.post(0, last)
		done := make(chan struct{})
		go func() {
			s.Stop()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("round %d: the shard does not stop", n)
		}
		if !p.waiter.Answered() || last.Status != OK {
			t.Fatalf("round %d: what was posted before is not served: status %d", n, last.Status)
		}
		others.Wait()
		s.ring()
	}
}
