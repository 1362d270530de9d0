package main

import (
	"math"
	"os"
	"runtime/debug"
)

// slack is how much garbage there may be, in bytes, however little is in use.
const slack = 32 << 20

// makeSlack has the garbage collector leave that much alone. It runs when memory
// has grown by as much as was in use after its last run; in a server whose queues
// are empty that is a few megabytes, which pipelined puts fill 30 times a second.
// So there is something in use that takes no memory, since it is never touched.
//
// With a cap on memory it runs earlier, where bodies that are large are most of
// what is in use, and there would be as much garbage again: then there may be a
// quarter of the cap, and as much as the slack.
//
// What is returned has to be kept. Whoever sets GOGC, or GOMEMLIMIT, for which
// it would count, has said what is wanted.
func makeSlack(maxMemory int64) []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	if maxMemory > 0 && maxMemory < math.MaxInt64/2 {
		debug.SetMemoryLimit(maxMemory + maxMemory/4 + 2*slack)
	}
	return make([]byte, slack)
}
