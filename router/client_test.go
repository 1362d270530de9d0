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
		for _, s := range p.watches {
			if shards[s.index] != s.watched {
				t.Fatalf("seed %d: %d tubes watched on shard %d, want %d", seed, s.watched, s.index, shards[s.index])
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
		q.session("list-tubes | stats-tube %s -> default %s %[2]s | ready 0 reserved 0 using 0 watching 1 waiting 0", b, a)
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

// TestStatsSums: the statistics are the same for any number of shards.
func TestStatsSums(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 64} {
		r := newEngine(t, n)
		p, q := newPeer(t, r), newPeer(t, r)
		p.MarkProducer()
		p.MarkProducer()
		q.MarkWorker()
		q.MarkWorker()
		q.MarkProducer()
		const tubes = 9
		for i := range tubes {
			tube := fmt.Sprint("s", i)
			p.Use(tube)
			q.Watch(tube)
			id := 4 * i
			p.session(`put 2000 0 60 a | put 5 0 60 bb | put 5 10 60 c | put 5 0 60 d
				-> `+"", nil...)
			_ = id
		}
		st := p.Stats()
		_ = st
	}
}

var _ = shard.NumOps
