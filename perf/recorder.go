package perf

// What is counted and timed while a load runs.

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Beside the latency of each command there are these.
const (
	wholeScript = int(numOps) + iota // from when a job's first command was due to its last answer
	handoff                          // from when a job was due to be ready to when a worker has it
	numLatencies
)

// The range of what is recorded, and its resolution. Longer latencies are
// recorded as the longest.
const (
	shortestLatency = 100 * time.Nanosecond
	longestLatency  = 10 * time.Minute
	latencyDigits   = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(shortestLatency), int64(longestLatency), latencyDigits)
}

// A recorder belongs to one driver. Times are nanoseconds of the client's
// clock.
type recorder struct {
	from, to int64 // what is measured
	hist     [numLatencies]*hdrhistogram.Histogram

	answers  int64 // within the window
	jobs     int64 // likewise
	noJobs   int64 // times that a Gearman worker was woken, or had done a job, and got none
	late     int64 // arrivals of an open loop that were not sent before its end
	early    int64 // jobs that came before their delay was over
	earliest int64 // by how much the earliest of these did
	last     int64 // when the last job was counted
}

// latency records how long something took that was due at due. It counts where
// it was due in the window, whenever the answer came: what is sent in the
// window and answered late is what must not be forgotten.
func (r *recorder) latency(kind int, due, now int64) {
	if due < r.from || due >= r.to {
		return
	}
	h := r.hist[kind]
	if h == nil {
		h = newHistogram()
		r.hist[kind] = h
	}
	// The value is in range, so there is no error.
	_ = h.RecordValue(min(max(now-due, 0), int64(longestLatency)))
}

// leeway is how much sooner than after its delay a job may come: the server may
// have another clock, whose rate differs by less than a thousandth.
func leeway(delay int64) int64 { return int64(10*time.Millisecond) + delay/1000 }

// handed records when a worker had a job that was to be ready then, after a
// delay of at most that long. One that comes too early is no quick one: that
// would praise a server that ignores delays. It cannot be earlier than its
// delay is long; what says so has been damaged.
func (r *recorder) handoff(ready, longestDelay, now int64) {
	if by := ready - now; by > leeway(longestDelay) && by <= longestDelay {
		r.early++
		r.earliest = max(r.earliest, by)
		return
	}
	r.latency(handoff, ready, now)
}

// within reports whether now is measured.
func (r *recorder) inWindow(now int64) bool { return now >= r.from && now < r.to }

// merge adds other's figures.
func (r *recorder) merge(other *recorder) {
	r.answers += other.answers
	r.jobs += other.jobs
	r.noJobs += other.noJobs
	r.late += other.late
	r.early += other.early
	r.earliest = max(r.earliest, other.earliest)
	r.last = max(r.last, other.last)
	for i, h := range other.hist {
		switch {
		case h == nil:
		case r.hist[i] == nil:
			r.hist[i] = h
		default:
			r.hist[i].Merge(h)
		}
	}
}
