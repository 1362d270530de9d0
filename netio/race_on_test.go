//go:build race

package netio

// With the race detector sync.Pool drops what it is given now and then, so
// allocations cannot be counted.
const raceDetector = true
