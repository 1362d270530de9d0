package gearman

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAbilities: functions come and go, and the latest is the first of the list.
// Gaps are closed before there are more of them than functions.
func TestAbilities(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var a abilities
	var want []string
	for step := range 20_000 {
		name := fmt.Sprint(rng.IntN(100))
		i := slices.Index(want, name)
		if (rng.IntN(3) > 0) == (step/1000%2 == 0) {
			a.add(name)
			if i < 0 {
				want = slices.Insert(want, 0, name)
			}
		} else {
			a.remove(name)
			if i >= 0 {
				want = slices.Delete(want, i, i+1)
			}
		}
		if got := a.list(); !slices.Equal(got, want) {
			t.Fatalf("step %d: %q, want %q", step, got, want)
		}
		if gaps := len(a.names) - len(want); gaps > len(want)+16+1 {
			t.Fatalf("step %d: %d gaps among %d", step, gaps, len(want))
		}
	}
}
