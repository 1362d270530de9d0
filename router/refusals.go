package router

import (
	"time"

	"github.com/sheafq/sheaf/shard"
)

const (
	// refusalPause is how often it is looked at most whether puts are still refused, and for
	// how long none may have been for it to be over.
	refusalPause = 10 * time.Second
	// refusalRepeat is about how often it is logged while it goes on.
	refusalRepeat = time.Minute
)

// refusalTexts say what is wrong and what to do.
var refusalTexts = [shard.NumRefusals]string{
	shard.OverCap: "memory: the jobs take as much as --max-memory allows: puts are answered OUT_OF_MEMORY until jobs are deleted, " +
		"or until a restart with a larger --max-memory",
	shard.NoMemory: "memory: the system has none left for jobs: puts are answered OUT_OF_MEMORY until jobs are deleted; " +
		"give the process more, and set --max-memory below that",
}

// logRefusals logs when puts begin to be refused for lack of memory, that it goes on, and
// when it is over. Until the first is refused it sleeps, and so it does while nobody puts.
func (r *Router) logRefusals() {
	var seen, told [shard.NumRefusals]int64 // of Refused
	var said [shard.NumRefusals]time.Time   // when it was logged, in what goes on; zero if it was not
	var began time.Time                     // zero if nothing goes on
	for {
		now := time.Now()
		refused := r.budget.Refused()
		switch {
		case refused != seen:
			// Before what is logged: whoever reads that may put at once.
			r.budget.AwaitAccepted()
			if began.IsZero() {
				began = now
			}
			for why, n := range refused {
				if n != seen[why] && now.Sub(said[why]) >= refusalRepeat {
					r.log.Warn(refusalTexts[why], "refused", n-told[why], "jobs-take", r.budget.Used(), "max-memory", r.budget.Max())
					told[why], said[why] = n, now
				}
			}
			seen = refused
			if !r.sleep(refusalPause) {
				return
			}
			continue
		case !began.IsZero() && r.budget.Accepted():
			r.log.Info("memory: puts are accepted again", "lasted", now.Sub(began).Round(time.Second), "jobs-take", r.budget.Used())
			told, said, began = seen, [shard.NumRefusals]time.Time{}, time.Time{}
		}
		select {
		case <-r.budget.News():
		case <-r.ended:
			return
		}
	}
}

// sleep is for goroutines in the background: it reports false, at once, when the engine
// is closed.
func (r *Router) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.ended:
		return false
	}
}
