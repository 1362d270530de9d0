//go:build race

package beanstalk

// With the race detector sync.Pool drops what it is given now and then, so
// neither allocations nor wake-ups can be counted.
const raceDetector = true
