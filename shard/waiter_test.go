package shard

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestClaimIsWonOnce has many goroutines end the same wait: shards with a job
// (some with the claims of waits before), a deadline, the owner by Cancel.
// Exactly one may win, and the owner must know whether it was itself.
func TestClaimIsWonOnce(t *testing.T) {
	const rounds, shards = 5000, 6
	w := NewWaiter()
	var begin, end sync.WaitGroup
	var seq atomic.Uint64
	var won atomic.Int32
	next := make([]chan struct{}, shards)
	for i := range next {
		next[i] = make(chan struct{})
		go func() {
			for range next[i] {
				claim := seq.Load()
				begin.Done()
				begin.Wait() // all at once
				if w.claim(claim-1) || w.claim(claim+1) {
					t.Error("a claim was won with the number of another")
				}
				if w.claim(claim) {
					won.Add(1)
					w.grant = Grant{Status: OK, ID: claim, Shard: int32(i)}
					w.release()
				}
				end.Done()
			}
		}()
	}
	granted := 0
	for round := range rounds {
		w.Begin(true)
		seq.Store(w.seq)
		w.move(w.seq, open, waiting)
		won.Store(0)
		begin.Add(shards)
		end.Add(shards)
		for i := range next {
			next[i] <- struct{}{}
		}
		begin.Wait()
		for range round % 4 {
			runtime.Gosched()
		}
		if w.Cancel() {
			won.Add(1)
			if _, ok := w.Granted(); ok {
				t.Fatal("a wait was cancelled and granted")
			}
		} else {
			for {
				if g, ok := w.Granted(); ok {
					if g.ID != w.seq {
						t.Fatalf("claim %d was granted what is of claim %d", w.seq, g.ID)
					}
					break
				}
				w.Sleep()
			}
			granted++
		}
		end.Wait()
		if won.Load() != 1 {
			t.Fatalf("a claim was won %d times", won.Load())
		}
	}
	for i := range next {
		close(next[i])
	}
	t.Logf("%d of %d waits were granted", granted, rounds)
}

// TestClaimAgainstSettle: a shard has a job for a client that is just settling
// to wait. Either the client learns that it has to ask again, or the shard wins
// the wait; if neither, the job and the client would wait side by side.
func TestClaimAgainstSettle(t *testing.T) {
	const rounds = 200_000
	w := NewWaiter()
	var claims, done atomic.Uint64 // sequence numbers, as fast as can be
	var won atomic.Bool
	go func() {
		for seq := uint64(1); seq <= rounds; seq++ {
			for claims.Load() < seq {
				runtime.Gosched()
			}
			won.Store(w.claim(seq))
			done.Store(seq)
		}
	}()
	for round := range rounds {
		wait := round%4 != 0
		w.BeginProbe()
		claims.Store(w.seq)
		for range round % 5 {
			w.Clean() // a little time, to meet the other in the middle
		}
		settled := w.Settle(wait)
		for done.Load() < w.seq {
			runtime.Gosched()
		}
		if won := won.Load(); won != (settled && wait) || w.Clean() {
			t.Fatalf("settled to wait: %t, %t; the shard won: %t; clean: %t", wait, settled, won, w.Clean())
		}
	}
}

// TestCancelAgainstGrantAgainstTimeout runs the same race through a shard, with
// real time, and with its turns on its own goroutine, on the clients' and on
// the timer's: every wait ends once, by a job, its timeout or its owner, and
// every job is somewhere in the end. The request of a quiet reserve is the
// owner's again the moment it has cancelled, which the race detector holds the
// shard to.
func TestCancelAgainstGrantAgainstTimeout(t *testing.T) {
	const workers, rounds = 6, 2000
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	var got, cancelled, timedOut atomic.Int64
	work := func(p *person, rnd *rand.Rand) {
		r, cancel := &Request{}, &Request{}
		for range rounds {
			*r = Request{Op: Reserve, Timeout: NoTimeout, Quiet: rnd.IntN(2) == 0}
			if rnd.IntN(2) == 0 {
				r.Timeout = rnd.Int64N(30_000)
			}
			quiet := r.Quiet
			p.post(0, r)
			if !quiet {
				p.await()
			}
			for range rnd.IntN(4) {
				runtime.Gosched()
			}
			if (quiet || r.Status == Waiting) && rnd.IntN(2) == 0 && p.waiter.Cancel() {
				*r = Request{} // it is ours
				cancelled.Add(1)
				*cancel = Request{Op: Cancel, Client: p.sides[0]}
				g.shards[0].Send(cancel)
				// Where there is nothing else to be answered, ask, so that
				// cancel is ours again.
				p.do(0, Request{Op: Soonest})
				continue
			}
			status, id := Waiting, uint64(0)
			for status == Waiting {
				if p.waiter.Answered() && r.Status != Waiting {
					status, id = r.Status, r.ID
				} else if g, ok := p.waiter.Granted(); ok {
					status, id = g.Status, g.ID
				} else {
					p.waiter.Sleep()
				}
			}
			if status == TimedOut {
				timedOut.Add(1)
				continue
			}
			if d := p.do(0, Request{Op: Delete, ID: id}); d.Status != OK {
				t.Errorf("job %d was reserved, %v, but is not there: %v", id, status, d.Status)
			}
			got.Add(1)
		}
	}
	var working sync.WaitGroup
	for i := range workers {
		p := g.newPerson()
		working.Go(func() { work(p, rand.New(rand.NewPCG(5, uint64(i)))) })
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	boss := g.newPerson()
	put := int64(0)
	for working := true; working; {
		select {
		case <-done:
			working = false
		default:
			if put-got.Load() < 2 { // so that most have to wait
				boss.do(0, Request{Op: Put, Tube: boss.used, TTR: 60})
				put++
			}
			runtime.Gosched()
		}
	}
	st := g.gather()
	if int64(st.Ready) != put-got.Load() || st.Reserved+st.Waiting+st.Queued != 0 || int64(st.Total) != put {
		t.Errorf("%d put, %d got, in the end there is %+v", put, got.Load(), st)
	}
	if got.Load() == 0 || cancelled.Load() == 0 || timedOut.Load() == 0 {
		t.Errorf("%d got a job, %d cancelled, %d timed out: not all were tried", got.Load(), cancelled.Load(), timedOut.Load())
	}
}
