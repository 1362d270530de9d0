package router

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// The tests here aim at single races of the handshake which a random history
// seldom meets, many thousand times each.

// handshakeTime is how long each goes on.
func handshakeTime() time.Duration {
	if testing.Short() {
		return 200 * time.Millisecond
	}
	return 1200 * time.Millisecond
}

// TestSomethingIsAlwaysReady: there are two good jobs, in tubes on different
// shards. A mover deletes one and puts another in its place, now the one and
// now the other, so that at every moment at least one of them is ready; in
// some cases there are worse jobs all the time. A client that reserves over
// all the tubes, and gives back what it got, must get a good one always,
// although no shard has one always; it must not get a worse one, and not be
// told TIMED_OUT.
func TestSomethingIsAlwaysReady(t *testing.T) {
	watchdog(t, time.Minute)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const shards = 7
	for _, test := range []struct {
		name  string
		worse []int // places of the tubes with worse jobs, the good ones being in the first and the last
	}{
		{"no worse jobs", nil},
		{"worse jobs in a third tube", []int{3}},
		{"worse jobs beside the good ones and in a third tube", []int{0, 3, shards - 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newEngine(t, shards)
			end := time.Now().Add(handshakeTime())
			var wg sync.WaitGroup
			// Groups that have nothing to do with each other but the shards.
			for group := range 3 {
				taker, feeder := newPeer(t, r), newPeer(t, r)
				var movers [2]*peer
				var ids [2]int
				for i := range shards {
					tube := r.tubeOn((group*2+i)%shards, group)
					taker.Watch(tube)
					feeder.Use(tube)
					if slices.Contains(test.worse, i) {
						feeder.say("put 4 0 60 worse")
					}
					if i == 0 || i == shards-1 {
						m := i / (shards - 1)
						movers[m] = newPeer(t, r)
						movers[m].Use(tube)
						ids[m] = scan(t, movers[m].say("put 0 0 60 good"), "INSERTED %d")
					}
				}
				taker.Ignore(shard.DefaultTube)
				var done atomic.Bool
				wg.Go(func() {
					defer done.Store(true)
					for good := 0; time.Now().Before(end); good++ {
						answer := taker.say("reserve-with-timeout 0s")
						if !strings.HasSuffix(answer, " good") {
							t.Errorf("after %d good ones: %s, while a good job was ready all the time", good, answer)
							return
						}
						if got := taker.say(sprint("release ", scan(t, answer, "RESERVED %d good"), " 0 0")); got != "RELEASED" {
							t.Error(got)
						}
					}
				})
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
					for i := 0; !done.Load(); i++ {
						m := i % 2
						if movers[m].say(sprint("delete ", ids[m])) != "DELETED" {
							continue // the taker has it
						}
						for range rng.IntN(4) {
							runtime.Gosched()
						}
						ids[m] = scan(t, movers[m].say("put 0 0 60 good"), "INSERTED %d")
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestGrantRaces: a wait ends by its timeout, a hang-up or an abort at the
// moment at which a job comes. Either the client gets the job, or it is there
// for the next, at once.
func TestGrantRaces(t *testing.T) {
	watchdog(t, time.Minute)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	r := newEngine(t, 3)
	end := time.Now().Add(handshakeTime())
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := make(map[string]int)
	for g := range 3 {
		tubes := []string{r.tubeOn(g, 0), r.tubeOn((g+1)%3, 10), r.tubeOn((g+2)%3, 10)}
		q := newPeer(t, r)
		q.Use(tubes[0])
		q.Watch(tubes[0])
		q.Ignore(shard.DefaultTube)
		wg.Go(func() {
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 0))
			for round := 0; time.Now().Before(end) && !t.Failed(); round++ {
				c := r.NewClient()
				for _, tube := range tubes[:1+round%3] {
					c.Watch(tube)
				}
				c.Ignore(shard.DefaultTube)
				quiet := rng.IntN(2) == 0
				timeout, way := int64(shard.NoTimeout), rng.IntN(3)
				if way == 0 {
					timeout = 1 + rng.Int64N(40_000)
				}
				spins := [2]int{rng.IntN(6), rng.IntN(6)}
				var status shard.Status
				var meanwhile sync.WaitGroup
				meanwhile.Go(func() {
					reserveOne(c, timeout)
					for done := c.Await(quiet); done != nil; done = c.Await(quiet) {
						for _, req := range done {
							status = req.Status
						}
					}
				})
				meanwhile.Go(func() {
					for range spins[0] {
						runtime.Gosched()
					}
					switch way {
					case 1:
						c.Hangup()
					case 2:
						c.Abort()
					}
				})
				for range spins[1] {
					runtime.Gosched()
				}
				id := scan(t, q.say("put 1 0 60 x"), "INSERTED %d")
				meanwhile.Wait()
				want := "TIMED_OUT"
				if status != shard.OK {
					want = sprint("RESERVED ", id, " x")
				}
				if got := q.say("reserve-with-timeout 0s"); got != want {
					t.Errorf("seed %d, round %d: the reserve ended with status %d, the next gets %s, want %s", seed, round, status, got, want)
				}
				if status == shard.OK {
					deleteOne(c, uint64(id))
					finish(t, c, nil)
				} else {
					q.session("delete %d -> DELETED", id)
				}
				c.Close()
				mu.Lock()
				outcomes[sprint(status == shard.OK)]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("got the job: %v", outcomes)
}
