package perf

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDistributions(t *testing.T) {
	for _, tt := range []struct {
		text        string
		least, most int64
		mean        float64
		prints      string
	}{
		{"128", 128, 128, 128, "128"},
		{"0", 0, 0, 0, "0"},
		{"16K", 16384, 16384, 16384, "16384"},
		{"2m", 2 << 20, 2 << 20, 2 << 20, "2097152"},
		{"uniform:64-4096", 64, 4096, 2080, "uniform:64-4096"},
		{"uniform:1-1K", 1, 1024, 512.5, "uniform:1-1024"},
		{"exp:512", 0, 512 * expBound, 512, "exp:512"},
		{"exp:0", 0, 0, 0, "exp:0"},
		{"list:16,128,128,4K", 16, 4096, 1092, "list:16,128,128,4096"},
	} {
		var d Dist
		if err := d.Set(tt.text); err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if got := d.String(); got != tt.prints {
			t.Errorf("%q prints as %q", tt.text, got)
		}
		if least, most := d.Bounds(); least != tt.least || most != tt.most {
			t.Errorf("%q has bounds %d and %d, want %d and %d", tt.text, least, most, tt.least, tt.most)
		}
		r, sum := rand.New(rand.NewPCG(1, 1)), 0.0
		const n = 200_000
		for range n {
			v := d.Sample(r)
			if v < tt.least || v > tt.most {
				t.Fatalf("%q gives %d", tt.text, v)
			}
			sum += float64(v)
		}
		if mean := sum / n; math.Abs(mean-tt.mean) > tt.mean/50 {
			t.Errorf("%q has a mean of %.1f, want %.1f", tt.text, mean, tt.mean)
		}
	}
}

func TestDistributionsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "x", "-1", "1.5", "K", "uniform:", "uniform:5", "uniform:9-5", "uniform:a-b", "exp:", "exp:-1",
		"list:", "list:1,,2", "normal:5", "99999999999999999999", "9999999999G"} {
		var d Dist
		if err := d.Set(text); err == nil {
			t.Errorf("%q is taken as %s", text, d)
		}
	}
}
