package perf

// The timetable of an open loop.

import (
	"math"
	"math/rand/v2"
)

// arrivals says when jobs are due, whether or not the server keeps up: an
// arrival that cannot be sent in time waits, and its latency is counted from
// when it was due. Were it counted from when it is sent, a server that stalls
// for a second would be charged for one slow job instead of a second's worth of
// them (coordinated omission).
type arrivals struct {
	next     int64 // nanoseconds
	start    int64
	taken    float64
	interval float64    // nanoseconds; 0 if there is no timetable
	random   *rand.Rand // of Poisson arrivals
}

// newArrivals is a share of a timetable with that many arrivals a second, the
// shares of which are numbered and add up to 1. No share has no arrivals.
func newArrivals(start int64, rate, share float64, number int, poisson bool) arrivals {
	if rate*share == 0 {
		return arrivals{next: math.MaxInt64}
	}
	each := 1e9 / rate
	// Shares begin one after the other, so that they do not beat in step.
	a := arrivals{start: start + int64(each*float64(number)), interval: each / share}
	if poisson {
		a.random = rand.New(rand.NewPCG(uint64(number), 3))
	}
	a.next = a.start
	return a
}

// take returns when the next one is due, and goes on to the one behind it.
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
