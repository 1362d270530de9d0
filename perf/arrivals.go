package perf

// The timetable of an open loop.

import (
	"math"
	"math/rand/v2"
)

// arrivals says when jobs are due, whether or not the server keeps up: a job that
// cannot be sent in time waits, and its latency is counted from when it was due.
// If it were counted from when it is sent, a server that stalls for a second
// would be charged with one slow job instead of a second's worth of them
// (coordinated omission).
type arrivals struct {
	next     int64 // nanoseconds
	start    int64
	taken    float64
	interval float64    // nanoseconds; 0 if there is no timetable
	random   *rand.Rand // of Poisson arrivals
}

// newArrivals returns one driver's share of a timetable with rate arrivals a
// second, from start on. share is its part of 1, and number that of the driver. A
// share of 0 has no arrivals.
func newArrivals(start int64, rate, share float64, number int, poisson bool) arrivals {
	if rate*share == 0 {
		return arrivals{next: math.MaxInt64}
	}
	each := 1e9 / rate
	// Shares are staggered, so that drivers do not all send at the same moment.
	a := arrivals{start: start + int64(each*float64(number)), interval: each / share}
	if poisson {
		a.random = rand.New(rand.NewPCG(uint64(number), 3))
	}
	a.next = a.start
	return a
}

// take returns when the next job is due, and moves on to the one after it.
func (a *arrivals) take() int64 {
	due := a.next
	if a.random != nil {
		a.next += int64(a.random.ExpFloat64() * a.interval)
		return due
	}
	a.taken++
	a.next = a.start + int64(a.taken*a.interval) // not a sum, whose error would grow
	return due
}
