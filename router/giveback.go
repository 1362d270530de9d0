package router

import (
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/sheafq/sheaf/shard"
)

const (
	// settled is for how long the memory that jobs take has to be low before it is given
	// back: under load it may soon be used again.
	settled = 10 * time.Second
	// idleCPU is how much CPU time the process uses in that time at most if it is idle.
	idleCPU = settled / 20
)

// giveMemoryBack gives the memory of large bodies back to the system when a backlog has
// gone: then there is much garbage, and nothing that has it collected. (Small ones
// need none of that, see shard's slab.) It sleeps until the memory that jobs take has
// fallen far below its peak, and then looks once in the time of settled.
//
// FreeOSMemory holds a thread for 0.1 s a GB, and nothing is served meanwhile if that is the
// only one. So it is for an idle process. In a busy one the runtime gives memory back
// itself, little by little, once it has been collected: twice, since the runtime keeps
// what was in use at the last but one collection. In an idle one it hardly does.
func (r *Router) giveMemoryBack() {
	for {
		select {
		case <-r.budget.Fallen():
		case <-r.ended:
			return
		}
		collected := false
		for peak := r.budget.NewPeak(); ; {
			if !shard.FarBelow(r.budget.Used(), peak) {
				r.budget.OldPeak(peak)
				break
			}
			before := usedCPU()
			if !r.sleep(settled) {
				return
			}
			recent := r.budget.NewPeak() // the highest of the time slept
			if !shard.FarBelow(recent, peak) {
				peak, collected = max(peak, recent), false
				continue
			}
			if usedCPU()-before <= idleCPU {
				debug.FreeOSMemory()
				r.log.Debug("memory: given back to the system", "jobs-took", peak, "jobs-take", r.budget.Used())
				break
			}
			if !collected {
				runtime.GC()
				runtime.GC()
				collected = true
				r.log.Debug("memory: collected, to be given back little by little", "jobs-took", peak, "jobs-take", r.budget.Used())
			}
		}
	}
}

// usedCPU returns how much CPU time the process has used.
func usedCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it never fails
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
