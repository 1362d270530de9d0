package perf

import (
	"runtime"
	"sync"
)

// cpus is how many CPUs there are for this process, or what the environment variable
// GOMAXPROCS says. The runtime's GOMAXPROCS is that only while no load runs.
var cpus = runtime.GOMAXPROCS(0)

// processors are those of Go's runtime, which drivers take for as long as they run,
// also while they wait: see driver.wait. So there is one more for each, lest nothing
// else runs beside them.
var processors struct {
	mu    sync.Mutex
	taken int // guarded by mu
}

// takeProcessors adds n, or takes -n away again.
func takeProcessors(n int) {
	processors.mu.Lock()
	defer processors.mu.Unlock()
	processors.taken += n
	runtime.GOMAXPROCS(cpus + processors.taken)
}
