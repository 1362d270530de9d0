package perf

// The rate of an open loop.

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Rate is how fast an open loop goes: a number of jobs a second, or a share of
// what the server does in a closed loop just before. The zero value is a closed
// loop alone. It is a pflag.Value.
type Rate struct {
	jobs float64 // a second
	part float64 // of the closed loop's rate; 0.7 is 70 %
}

// maxJobs and maxPart are far beyond what any load reaches.
const (
	maxJobs = 1e9
	maxPart = 10
)

// Set reads a number of jobs a second, such as 5000, or a part, such as 70%.
func (r *Rate) Set(text string) error {
	digits, isPart := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	most := float64(maxJobs)
	if isPart {
		v, most = v/100, maxPart
	}
	switch {
	case err == nil && v > most && isPart:
		return fmt.Errorf("%s is more than %d%%", text, 100*maxPart)
	case err == nil && v > most:
		return fmt.Errorf("%s is more than %s jobs a second", text, count(maxJobs))
	case err != nil || math.IsNaN(v) || v < 0 || isPart && v == 0:
		return fmt.Errorf("%q is neither a number of jobs a second, such as 5000, nor a share of the closed loop's rate, such as 70%%", text)
	}
	*r = Rate{jobs: v}
	if isPart {
		*r = Rate{part: v}
	}
	return nil
}

// String returns what Set reads.
func (r Rate) String() string {
	if r.part > 0 {
		return strconv.FormatFloat(math.Round(r.part*1e6)/1e4, 'f', -1, 64) + "%"
	}
	return strconv.FormatFloat(r.jobs, 'f', -1, 64)
}

// Type is pflag.Value's.
func (*Rate) Type() string { return "rate" }

// MarshalText is encoding.TextMarshaler's.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is encoding.TextUnmarshaler's.
func (r *Rate) UnmarshalText(text []byte) error { return r.Set(string(text)) }
