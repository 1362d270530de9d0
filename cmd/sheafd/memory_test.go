package main

import (
	"math"
	"runtime/debug"
	"testing"
)

// With a cap on memory the garbage of large bodies is bounded, unless somebody has
// said how.
func TestSlackOfACap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, tc := range []struct {
		env       string
		most      int64
		want      int64
		withSlack bool
	}{
		{"", 0, math.MaxInt64, true},
		{"", 1 << 30, 5<<28 + 2*slack, true},
		{"", math.MaxInt64, math.MaxInt64, true},
		{"GOGC", 1 << 30, math.MaxInt64, false},
		{"GOMEMLIMIT", 1 << 30, math.MaxInt64, false},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		if tc.env != "" {
			t.Setenv(tc.env, "100")
		}
		kept := makeSlack(tc.most)
		if got := debug.SetMemoryLimit(-1); got != tc.want || (len(kept) > 0) != tc.withSlack {
			t.Errorf("cap %d with %q: limit %d, want %d; %d bytes of slack", tc.most, tc.env, got, tc.want, len(kept))
		}
		if tc.env != "" {
			t.Setenv(tc.env, "")
		}
	}
}
