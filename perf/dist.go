package perf

// Distributions, of the sizes of bodies and the priorities and delays of jobs.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A Dist is a distribution of whole numbers, none of them negative. The zero
// value is always 0. It is a pflag.Value.
type Dist struct {
	shape  shape
	lo, hi int64 // the bounds of uniform; lo is also the value of fixed and the mean of exponential
	list   []int64
}

type shape uint8

const (
	fixed shape = iota
	uniform
	exponential
	listed
)

// expBound cuts an exponential distribution off at that many times its mean. That
// affects one sample in nine million, and bounds the largest body beforehand.
const expBound = 16

// maxSample keeps sums and products of samples far from overflow.
const maxSample = 1 << 40

// Fixed is the distribution that is always n.
func Fixed(n int64) Dist { return Dist{lo: n} }

// Set reads a number, uniform:LEAST-MOST, exp:MEAN or list:A,B,C (all equally
// likely; a number given twice is twice as likely). Numbers may have a suffix K,
// M or G, for powers of 1024.
func (d *Dist) Set(text string) error {
	kind, rest, named := strings.Cut(text, ":")
	var v Dist
	var err error
	switch {
	case !named:
		v.lo, err = parseNumber(text)
	case kind == "uniform":
		lo, hi, ranged := strings.Cut(rest, "-")
		if !ranged {
			return errors.New("uniform needs two numbers, such as uniform:64-4096")
		}
		v.shape = uniform
		if v.lo, err = parseNumber(lo); err == nil {
			v.hi, err = parseNumber(hi)
		}
		if err == nil && v.lo > v.hi {
			err = fmt.Errorf("%d is more than %d", v.lo, v.hi)
		}
	case kind == "exp":
		v.shape = exponential
		v.lo, err = parseNumber(rest)
	case kind == "list":
		v.shape = listed
		for item := range strings.SplitSeq(rest, ",") {
			n, e := parseNumber(item)
			err = errors.Join(err, e)
			v.list = append(v.list, n)
		}
	default:
		return fmt.Errorf("unknown distribution %q; use a plain number, uniform:64-4096, exp:512 or list:16,128,4096", kind)
	}
	if err != nil {
		return err
	}
	*d = v
	return nil
}

func parseNumber(text string) (int64, error) {
	digits, shift := text, 0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMG", text[n-1]&^0x20); i >= 0 {
			digits, shift = text[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > maxSample>>shift {
		return 0, fmt.Errorf("%q is not a number such as 128 or 16K", text)
	}
	return int64(n) << shift, nil
}

// String returns what Set reads.
func (d Dist) String() string {
	switch d.shape {
	case uniform:
		return fmt.Sprintf("uniform:%d-%d", d.lo, d.hi)
	case exponential:
		return fmt.Sprintf("exp:%d", d.lo)
	case listed:
		items := make([]string, len(d.list))
		for i, n := range d.list {
			items[i] = strconv.FormatInt(n, 10)
		}
		return "list:" + strings.Join(items, ",")
	}
	return strconv.FormatInt(d.lo, 10)
}

// Type is pflag.Value's.
func (*Dist) Type() string { return "dist" }

// MarshalText is encoding.TextMarshaler's.
func (d Dist) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is encoding.TextUnmarshaler's.
func (d *Dist) UnmarshalText(text []byte) error { return d.Set(string(text)) }

// Bounds returns the smallest and the largest number that Sample can return.
func (d Dist) Bounds() (least, most int64) {
	switch d.shape {
	case uniform:
		return d.lo, d.hi
	case exponential:
		return 0, d.lo * expBound
	case listed:
		return slices.Min(d.list), slices.Max(d.list)
	}
	return d.lo, d.lo
}

// IsFixed reports whether all samples are the same.
func (d Dist) IsFixed() bool {
	least, most := d.Bounds()
	return least == most
}

// Sample draws a number.
func (d Dist) Sample(r *rand.Rand) int64 {
	switch d.shape {
	case uniform:
		return d.lo + r.Int64N(d.hi-d.lo+1)
	case exponential:
		return min(int64(math.Round(r.ExpFloat64()*float64(d.lo))), d.lo*expBound)
	case listed:
		return d.list[r.IntN(len(d.list))]
	}
	return d.lo
}
