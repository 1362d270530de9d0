package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/shard"
)

// TestWatchOrder: the watch list has the reference's order, and the shards
// that a reserve asks are those of the list.
func TestWatchOrder(t *testing.T) {
	r := newEngine(t, 3)
	p := newPeer(t, r)
	p.session(`
		list-tubes-watched -> default
		ignore default -> NOT_IGNORED
		watch a | watch b | watch c | watch b -> WATCHING 2 | WATCHING 3 | WATCHING 4 | WATCHING 4
		list-tubes-watched -> default a b c
		ignore a | list-tubes-watched -> WATCHING 3 | default c b
		ignore nosuch -> WATCHING 3
		ignore default | ignore b | list-tubes-watched -> WATCHING 2 | WATCHING 1 | c
		ignore c -> NOT_IGNORED
		watch default | list-tubes-watched -> WATCHING 2 | c default`)

	// At random, against a list.
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	watched := []string{"c", "default"}
	for range 500 {
		name := fmt.Sprint("w", rng.IntN(12))
		at := slices.Index(watched, name)
		if rng.IntN(2) == 0 {
			if at < 0 {
				watched = append(watched, name)
			}
			p.Watch(name)
		} else {
			if at >= 0 && len(watched) > 1 {
				watched[at] = watched[len(watched)-1]
				watched = watched[:len(watched)-1]
			}
			p.Ignore(name)
		}
		if got := p.say("list-tubes-watched"); got != strings.Join(watched, " ") {
			t.Fatalf("seed %d: watched %s, want %v", seed, got, watched)
		}
		shards := make(map[int]int)
		for _, name := range watched {
			shards[r.shardOf(name)]++
		}
		for _, s := range p.watchedSeats {
			if shards[s.index] != s.watchedTubes {
				t.Fatalf("seed %d: %d tubes watched on shard %d, want %d", seed, s.watchedTubes, s.index, shards[s.index])
			}
			delete(shards, s.index)
		}
		if len(shards) != 0 {
			t.Fatalf("seed %d: shards %v are not asked", seed, shards)
		}
	}
}

// TestIgnoredIsNotReserved: a tube that is no longer watched gives nothing,
// on one shard and on several.
func TestIgnoredIsNotReserved(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p := newPeer(t, r)
		a, b, c := r.tubeOn(0, 0), r.tubeOn(n/2, 1), r.tubeOn(n-1, 2)
		p.session(`
			watch %[1]s | watch %[2]s | watch %[3]s -> WATCHING 2 | WATCHING 3 | WATCHING 4
			use %[1]s | put 1 0 60 a | use %[2]s | put 2 0 60 b -> USING %[1]s | INSERTED 1 | USING %[2]s | INSERTED 2
			ignore %[1]s | reserve | reserve-with-timeout 0s -> WATCHING 3 | RESERVED 2 b | TIMED_OUT
			watch %[1]s | reserve | reserve-with-timeout 0s -> WATCHING 4 | RESERVED 1 a | TIMED_OUT`, a, b, c)
	}
}

// TestTubeLifetime: a tube is there while it is used, or watched, or has a
// job; the default tube always.
func TestTubeLifetime(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p, q := newPeer(t, r), newPeer(t, r)
		a, b := r.tubeOn(0, 0), r.tubeOn(n-1, 1)
		p.session(`
			list-tubes -> default
			use %[1]s | list-tubes -> USING %[1]s | default %[1]s
			use %[1]s | use %[2]s | list-tubes -> USING %[1]s | USING %[2]s | default %[2]s
			watch %[1]s | use default | list-tubes -> WATCHING 2 | USING default | default %[1]s
			ignore %[1]s | list-tubes -> WATCHING 1 | default
			use %[2]s | put 1 0 60 x | use default | list-tubes -> USING %[2]s | INSERTED 1 | USING default | default %[2]s
			delete 1 | list-tubes | stats-tube %[2]s -> DELETED | default | NOT_FOUND
			watch %[1]s | ignore default | use %[1]s | stats-tube default -> WATCHING 2 | WATCHING 1 | USING %[1]s | ready 0 reserved 0 using 1 watching 1 waiting 0`, a, b)
		q.session("use %s | watch %s | list-tubes -> USING %[1]s | WATCHING 2 | default %[2]s %[1]s", b, a)
		p.session("ignore %s | list-tubes -> NOT_IGNORED | default %[1]s %s", a, b)
		p.close()
		q.session("list-tubes | stats-tube %s -> default %s %[1]s | ready 0 reserved 0 using 1 watching 0 waiting 0", b, a)
		q.session("stats-tube %s -> ready 0 reserved 0 using 0 watching 1 waiting 0", a)
		q.close()
		idleEngine(t, r)
	}
}

// TestTubeOrder: list-tubes has the reference's order although the tubes come
// and go on different shards.
func TestTubeOrder(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p := newPeer(t, r)
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		tubes, watched := []string{"default"}, map[string]bool{}
		for range 400 {
			name := fmt.Sprint("o", rng.IntN(20))
			if watched[name] {
				p.Ignore(name)
				i, last := slices.Index(tubes, name), len(tubes)-1
				tubes[i] = tubes[last]
				tubes = tubes[:last]
			} else {
				p.Watch(name)
				tubes = append(tubes, name)
			}
			watched[name] = !watched[name]
			if got := p.say("list-tubes"); got != strings.Join(tubes, " ") {
				t.Fatalf("%d shards, seed %d: tubes %s, want %v", n, seed, got, tubes)
			}
		}
	}
}

// TestTubeOrderAtClose: the tubes of a client that goes, go in the same order
// for any number of shards.
func TestTubeOrderAtClose(t *testing.T) {
	var want string
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p, q := newPeer(t, r), newPeer(t, r)
		for i := range 30 {
			name := fmt.Sprint("c", i)
			switch {
			case i%7 == 0: // stays
				q.Watch(name)
			case i%7 == 1: // stays for its job, which the client holds
				p.session("use %s | put 1 0 60 x | reserve-job %d -> USING %[1]s | INSERTED %d | RESERVED %[2]d x", name, i/7+1)
			case i%7 == 2:
				p.Use(name)
			default:
				p.Watch(name)
			}
		}
		p.session("ignore c4 | ignore c10 -> WATCHING 16 | WATCHING 15")
		p.close()
		got := q.say("list-tubes")
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%d shards: tubes %s, with one %s", n, got, want)
		}
	}
}

// TestTubesLeftOnOneShard: the tubes of a client that goes, go in the order of
// its watch list, though they are all on one shard, which knows only a part of
// that list: the default tube, or one that was ignored, is on another.
func TestTubesLeftOnOneShard(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		b, c, d, e, f := r.tubeOn(n-1, 0), r.tubeOn(n-1, 1), r.tubeOn(n-1, 2), r.tubeOn(n-1, 3), r.tubeOn(n-1, 4)
		p, q := newPeer(t, r), newPeer(t, r)
		p.session("watch %s | watch %s | list-tubes-watched -> WATCHING 2 | WATCHING 3 | default %[1]s %[2]s", b, c)
		q.session("watch %s | watch %s -> WATCHING 2 | WATCHING 3", d, e)
		q.session("list-tubes -> default %s %s %s %s", b, c, d, e)
		p.close() // c, whose place e takes, then b, whose place d takes
		q.session("list-tubes -> default %s %s", d, e)

		p = newPeer(t, r)
		x := r.tubeOn(0, 5)
		p.session("watch %s | watch %s | watch %s -> WATCHING 2 | WATCHING 3 | WATCHING 4", x, b, c)
		p.session("ignore default | ignore %s | list-tubes-watched -> WATCHING 3 | WATCHING 2 | %[3]s %[2]s", x, b, c)
		q.session("watch %s | watch %s -> WATCHING 4 | WATCHING 5", x, f)
		q.session("list-tubes -> default %s %s %s %s %s %s", d, e, c, b, x, f)
		p.close() // c, whose place f takes, then b, whose place x takes
		q.session("list-tubes -> default %s %s %s %s", d, e, f, x)
	}
}

// TestStatsSums: the statistics are the same for any number of shards.
func TestStatsSums(t *testing.T) {
	var memory int64
	for _, n := range []int{1, 2, 3, 7, 64} {
		r := newEngine(t, n)
		p, q, w := newPeer(t, r), newPeer(t, r), newPeer(t, r)
		p.MarkProducer()
		p.MarkProducer()
		q.MarkWorker()
		q.MarkWorker()
		q.MarkProducer()
		q.Count(ListTubeUsed)
		const tubes = 9
		for i := range tubes {
			q.session("watch s%d -> WATCHING %d", i, i+2)
			p.session("use s%d | put 2000 0 60 a | put 5 0 60 b | put 5 10 60 c | put 5 0 60 d -> USING s%[1]d | INSERTED %d | INSERTED %d | INSERTED %d | INSERTED %d",
				i, 4*i+1, 4*i+2, 4*i+3, 4*i+4)
		}
		q.session(`
			reserve | bury 2 7 | reserve | touch 4 | reserve-with-timeout 0s -> RESERVED 2 b | BURIED | RESERVED 4 d | TOUCHED | RESERVED 6 b
			release 6 3 100 | delete 1 | delete 999 | delete 4000000000 -> RELEASED | DELETED | NOT_FOUND | NOT_FOUND`)
		waits := w.begin("reserve")
		st := p.Stats()
		for st.Waiting == 0 { // until it does
			st = p.Stats()
		}
		want := shard.Stats{
			Ready: 3*tubes - 4, Urgent: 2*tubes - 3, Reserved: 1, Delayed: tubes + 1, Buried: 1, Waiting: 1,
			Total: 4 * tubes, Tubes: tubes + 1, Queued: 1,
		}
		got := st.Stats
		got.Served, got.Memory, got.Observers = want.Served, 0, 0
		if got != want {
			t.Errorf("%d shards:\n got %+v\nwant %+v", n, got, want)
		}
		counted := map[shard.Op]uint64{
			shard.Put: 4 * tubes, shard.Reserve: 3, shard.ReserveTimeout: 1, shard.Bury: 1, shard.Release: 1,
			shard.Touch: 1, shard.Delete: 3, ListTubeUsed: 1, ListTubesWatched: 0, shard.Kick: 0,
		}
		for op, n := range counted {
			if st.Counted[op] != n {
				t.Errorf("op %d counted %d times, want %d", op, st.Counted[op], n)
			}
		}
		if st.Connections != 3 || st.TotalConnections != 3 || st.Producers != 2 || st.Workers != 1 || st.Draining {
			t.Errorf("%d shards: %d of %d connections, %d producers, %d workers, draining %v",
				n, st.Connections, st.TotalConnections, st.Producers, st.Workers, st.Draining)
		}
		if memory == 0 {
			memory = st.Memory
		}
		if st.Memory != memory || memory == 0 {
			t.Errorf("%d shards: %d bytes, with one it was %d", n, st.Memory, memory)
		}
		p.session("use default | put 0 0 60 x -> USING default | INSERTED %d", 4*tubes+1)
		<-waits
		for _, c := range []*peer{q, w, p} {
			c.close()
		}
		idleEngine(t, r)
	}
}

// TestDrain: puts are refused from then on, but take their ids; all else goes
// on.
func TestDrain(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p := newPeer(t, r)
		p.session("use %s | put 1 0 60 x -> USING %[1]s | INSERTED 1", r.tubeOn(n-1, 0))
		r.Drain()
		p.session(`
			put 1 0 60 y | watch %s | reserve | delete 1 -> DRAINING | WATCHING 2 | RESERVED 1 x | DELETED
			delete 2 | reserve-with-timeout 0s -> NOT_FOUND | TIMED_OUT`, r.tubeOn(n-1, 0))
		var next shard.Request
		if p.Begin(&next); next.ID != 3 || !p.Stats().Draining {
			t.Errorf("next id %d, draining %v", next.ID, p.Stats().Draining)
		}
	}
}

// TestMemoryCap: the cap is one for all shards, and a put over it is all that
// suffers.
func TestMemoryCap(t *testing.T) {
	const limit = 1 << 20
	for _, n := range shardCounts {
		r := newCappedEngine(t, n, limit)
		p := newPeer(t, r)
		body := strings.Repeat("x", 1000)
		fill := func() (ids []uint64) {
			for i := 0; ; i++ {
				p.Use(r.tubeOn(i%n, 0))
				var id uint64
				if answer := p.say("put 1 0 60 " + body); answer == "OUT_OF_MEMORY" {
					return ids
				} else if _, err := fmt.Sscanf(answer, "INSERTED %d", &id); err != nil {
					t.Fatal(answer)
				}
				ids = append(ids, id)
			}
		}
		// Each shard may be off by the slack, a sixteenth of its share.
		const low, high = limit - limit/16 - 2000, limit + limit/16
		ids := fill()
		if used := p.Stats().Memory; used < low || used > high {
			t.Errorf("%d shards: full with %d bytes of %d", n, used, limit)
		}
		if !p.MemoryFull(limit) || p.MemoryFull(0) && len(ids) == 0 {
			t.Errorf("%d shards: MemoryFull is wrong", n)
		}
		// All the rest is served.
		p.session("use %s | peek-ready | watch %[1]s | reserve | release %[2]d 1 0 -> USING %[1]s | FOUND %[2]d %[3]s | WATCHING 2 | RESERVED %[2]d %[3]s | RELEASED",
			r.tubeOn(0, 0), ids[0], body)
		for _, id := range ids {
			p.session("delete %d -> DELETED", id)
		}
		if used := p.Stats().Memory; used != 0 {
			t.Errorf("%d shards: %d bytes in use without a job", n, used)
		}
		// What is on its way counts as what is there.
		if !p.HoldMemory(limit / 2) {
			t.Errorf("%d shards: half of the memory cannot be held", n)
		}
		part := fill()
		if used := p.Stats().Memory; used < low-limit/2 || used > high-limit/2 || p.HoldMemory(limit/4) {
			t.Errorf("%d shards: full with %d bytes beside the %d that are held", n, used, limit/2)
		}
		p.FreeMemory(limit / 2)
		for _, id := range part {
			p.session("delete %d -> DELETED", id)
		}
		if again := fill(); len(again) < len(ids)*14/16 {
			t.Errorf("%d shards: only %d jobs fit again, there were %d", n, len(again), len(ids))
		}
	}
}

// TestCloseGivesBack: what a client holds on any shard is ready again when it
// is gone, with its priority; what it had queued and not awaited is not done.
func TestCloseGivesBack(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p, q, other := newPeer(t, r), newPeer(t, r), newPeer(t, r)
		for i := range 3 * n {
			tube := r.tubeOn(i%n, i/n)
			p.session("use %s | put %d 0 60 x | watch %[1]s -> USING %[1]s | INSERTED %[3]d | WATCHING %d", tube, 7-i%5, i+1, i+2)
			other.session("watch %s -> WATCHING %d", tube, i+2)
		}
		for range 3 * n {
			p.say("reserve")
		}
		other.session("reserve-with-timeout 0s | delete 1 -> TIMED_OUT | NOT_FOUND")
		q.queue("put 0 0 60 never") // never awaited
		q.close()
		waits := other.begin("reserve")
		for q = newPeer(t, r); q.Stats().Waiting == 0; {
		}
		q.close()
		p.close()
		var last string
		seen := map[string]bool{}
		for i := range 3 * n {
			answer := ""
			if i == 0 {
				answer = <-waits // whichever was first
			} else {
				answer = other.say("reserve-with-timeout 0s")
			}
			var id, pri int
			fmt.Sscanf(answer, "RESERVED %d", &id)
			pri = 7 - (id-1)%5
			if id == 0 || seen[answer] {
				t.Fatalf("%d shards: got %s, seen %v", n, answer, seen)
			}
			seen[answer] = true
			if order := fmt.Sprintf("%d %4d", pri, id); i > 1 && order < last {
				t.Errorf("%d shards: %s out of order", n, answer)
			} else {
				last = order
			}
			other.session("stats-job %d -> %s reserved pri %d reserves 2", id, r.tubeOn((id-1)%n, (id-1)/n), pri)
			other.session("delete %d -> DELETED", id)
		}
		other.close()
		idleEngine(t, r)
	}
}

// TestCloseWhileWaiting: a client that goes away in the middle of a wait takes
// no job with it.
func TestCloseWhileWaiting(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p, q := newPeer(t, r), newPeer(t, r)
		for i := range n {
			p.Watch(r.tubeOn(i, 0))
		}
		p.queue("reserve")
		p.await("", true)
		p.close()
		tube := r.tubeOn(n-1, 0)
		q.session("use %s | put 1 0 60 x | watch %[1]s | reserve-with-timeout 0s | delete 1 -> USING %[1]s | INSERTED 1 | WATCHING 2 | RESERVED 1 x | DELETED", tube)

		// Having been granted a job that it never learns of.
		p = newPeer(t, r)
		for i := range n {
			p.Watch(r.tubeOn(i, 0))
		}
		p.queue("reserve")
		p.await("", true)
		q.session("put 1 0 60 y | stats-job 2 -> INSERTED 2 | %s reserved pri 1 reserves 1", tube)
		p.close()
		q.session("reserve-with-timeout 0s | delete 2 -> RESERVED 2 y | DELETED")
		q.close()
		idleEngine(t, r)
	}
}

// TestObserversAreForgotten: a client that has reserved over several shards is
// not looked at for each further job that comes while it works on the one that
// it got.
func TestObserversAreForgotten(t *testing.T) {
	r := newEngine(t, 3)
	q := newPeer(t, r)
	var tubes []string
	for i := range 3 {
		tubes = append(tubes, r.tubeOn(i, 0))
	}
	const clients = 20
	for range clients {
		p := newPeer(t, r)
		for _, tube := range tubes {
			p.Watch(tube)
			q.Use(tube)
			q.say("put 1 0 60 x")
		}
		p.say("reserve")
	}
	if n := q.Stats().Observers; n == 0 || n > 2*clients {
		t.Errorf("%d observers of %d clients", n, clients)
	}
	for _, tube := range tubes {
		q.Use(tube)
		q.say("put 9 0 60 worse") // than what any of them was told of
	}
	if n := q.Stats().Observers; n != 0 {
		t.Errorf("%d observers, though nobody is asking", n)
	}
}
