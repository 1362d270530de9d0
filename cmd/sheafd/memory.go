package main

// Tuning the garbage collector.

import (
	"math"
	"os"
	"runtime/debug"
)

// slack is how much garbage there may be, in bytes, however little memory is in use.
const slack = 32 << 20

// makeSlack keeps the garbage collector from running for less than slack bytes of
// garbage. The collector runs when the heap has grown by as much as was in use after its
// last run. In a server whose queues are empty that is a few megabytes, which pipelined
// puts fill 30 times a second. So makeSlack allocates a slice that counts as in use, but
// takes no physical memory, since it is never touched.
//
// With a cap on memory (maxMemory, in bytes; 0: none) the collector also runs earlier when
// much is in use, which is mostly large bodies: garbage is limited to about a quarter of
// the cap and the slack, where it might be as much as the cap.
//
// The caller has to keep the result alive. makeSlack does nothing if the user has set GOGC
// or GOMEMLIMIT: then that is what the user wants, and the slice would count towards
// GOMEMLIMIT.
func makeSlack(maxMemory int64) []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	if maxMemory > 0 && maxMemory < math.MaxInt64/2 {
		debug.SetMemoryLimit(maxMemory + maxMemory/4 + 2*slack)
	}
	return make([]byte, slack)
}
