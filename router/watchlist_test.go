package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sheafq/sheaf/shard"
)

// TestWatchList: few tubes or many, in the order of the reference; and where there
// are many none is found by looking at the others.
func TestWatchList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var l watchList
	var want []string
	next := 0
	for step := range 20_000 {
		grow := step/1000%2 == 0
		if n := rng.IntN(3); (n > 0) == grow || len(want) == 0 {
			next++
			name := fmt.Sprint(next)
			want = append(want, name)
			l.add(&shard.Tube{Name: name})
		} else {
			i := rng.IntN(len(want))
			if got := l.remove(i).Name; got != want[i] {
				t.Fatalf("step %d: %s is taken out for %s", step, got, want[i])
			}
			want[i] = want[len(want)-1]
			want = want[:len(want)-1]
		}
		if name := fmt.Sprint(1 + rng.IntN(next+1)); l.index(name) != slices.Index(want, name) {
			t.Fatalf("step %d: %s is at %d, want %d", step, name, l.index(name), slices.Index(want, name))
		}
	}
	for i, tube := range l.tubes {
		if tube.Name != want[i] {
			t.Fatalf("%s is at %d, want %s", tube.Name, i, want[i])
		}
	}
	for len(want) <= fewTubes {
		next++
		want = append(want, fmt.Sprint(next))
		l.add(&shard.Tube{Name: fmt.Sprint(next)})
	}
	clear(l.tubes) // so that nobody can look there
	for i, name := range want {
		if l.index(name) != i {
			t.Fatalf("%s is at %d, want %d", name, l.index(name), i)
		}
	}
}

// TestWatchListShrinks: few tubes take no more room for having been many.
func TestWatchListShrinks(t *testing.T) {
	var l watchList
	for i := range 1000 {
		l.add(&shard.Tube{Name: fmt.Sprint(i)})
	}
	for len(l.tubes) > 1 {
		l.remove(0)
	}
	if cap(l.tubes) > fewTubes || l.at != nil {
		t.Errorf("one tube has room for %d, and a map of %d", cap(l.tubes), len(l.at))
	}
}
