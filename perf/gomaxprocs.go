package perf

// Room in Go's scheduler for drivers.

import (
	"runtime"
	"sync"
)

// cpus is the number of CPUs for this process, or the environment variable
// GOMAXPROCS. The runtime's own GOMAXPROCS is larger while a load runs.
var cpus = runtime.GOMAXPROCS(0)

// processors counts the processors of Go's scheduler that drivers hold, for as
// long as they run and even while they wait (see driver.wait). GOMAXPROCS is
// raised by one for each, so that other goroutines can run beside them.
var processors struct {
	mu    sync.Mutex
	taken int // guarded by mu
}

// takeProcessors raises GOMAXPROCS by n, or lowers it by -n.
func takeProcessors(n int) {
	processors.mu.Lock()
	defer processors.mu.Unlock()
	processors.taken += n
	runtime.GOMAXPROCS(cpus + processors.taken)
}
