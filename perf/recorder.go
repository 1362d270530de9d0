package perf

// What is counted and timed while a load runs.

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Kinds of latency: one for each op, and these.
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

// A recorder belongs to one driver until that has ended. Times are nanoseconds of
// the client's clock.
type recorder struct {
	from, to int64 // the measured time: its beginning and end
	hist     [numLatencies]*hdrhistogram.Histogram

	answers  int64 // in the measured time
	jobs     int64 // likewise
	noJobs   int64 // NO_JOBs to Gearman workers that were woken, or had done a job
	late     int64 // jobs of an open loop that were due and could not be sent before its end
	early    int64 // jobs that came before their delay was over
	earliest int64 // by how much the earliest of these did
	last     int64 // when the last job was counted
}

// latency records how long something took that was due at due. It counts if it
// was due in the measured time, whenever the answer came: what is sent in that
// time and answered late must not be forgotten.
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

// leeway returns how much before the end of its delay a job may come: the
// server's clock may differ from ours, at a rate of less than a thousandth. Both
// are nanoseconds.
func leeway(delay int64) int64 { return int64(10*time.Millisecond) + delay/1000 }

// handoff records that a worker got a job that was to be ready at ready, after a
// delay of at most longestDelay. A job that comes too early is not recorded as a
// quick one, which would reward a server that ignores delays. It cannot be early
// by more than its delay; a time that says so comes from a damaged body.
func (r *recorder) handoff(ready, longestDelay, now int64) {
	if by := ready - now; by > leeway(longestDelay) && by <= longestDelay {
		r.early++
		r.earliest = max(r.earliest, by)
		return
	}
	r.latency(handoff, ready, now)
}

// inWindow reports whether now is in the measured time.
func (r *recorder) inWindow(now int64) bool { return now >= r.from && now < r.to }

// merge adds other's figures; other must not be used any more.
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
