package perf

// What goes on beside the drivers: reading the server's usage at the right
// moments, showing the progress, and ending the load.

import (
	"context"
	"time"
)

// A Sample is a point of throughput over time.
type Sample struct {
	At      float64 `json:"at"`      // seconds; less than 0 in the warm-up
	Answers float64 `json:"answers"` // a second
	Jobs    float64 `json:"jobs"`    // a second
}

const (
	pollEvery   = 5 * time.Millisecond // how often the observer looks whether the load is over
	sampleEvery = 100 * time.Millisecond
	maxSamples  = 600
)

// A stage is how far a load is.
type stage struct {
	elapsed, total time.Duration // of the measured time; total is 0 if not known
	warming        bool
	answers        float64 // a second, since the last sample
	jobs, quota    int64   // quota is 0 if there is none
	jobRate        float64 // a second, since the last sample
}

// left returns how long the load will still take, if that can be told.
func (s *stage) left() (time.Duration, bool) {
	left, known := time.Duration(0), false
	if s.total > 0 {
		left, known = s.total-s.elapsed, true
	}
	if s.quota > 0 && s.jobRate > 0 {
		byJobs := time.Duration(float64(s.quota-s.jobs) / s.jobRate * float64(time.Second))
		if !known || byJobs < left {
			left, known = byJobs, true
		}
	}
	return max(left, 0), known
}

// An observer watches a load from its own goroutine. It reads what drivers
// publish and sets stop and quit; it touches their other state only after they
// have ended.
type observer struct {
	load     *load
	target   *Target
	watch    func(stage)
	from, to int64
	end      int64 // of what was measured
	m        measurement
	before   reading

	sampledAt     int64
	answers, jobs int64
	every         time.Duration
}

// A reading is what the server had used by some moment, and what drivers had
// counted by then. On a busy machine the observer may read late, by much of a
// short load: so the CPU is compared with these counts and not with those of the
// measured time.
type reading struct {
	procUsage
	at            int64
	answers, jobs int64
}

func (o *observer) read() reading {
	r := reading{procUsage: o.target.usage(), at: clock()}
	r.answers, r.jobs = o.load.published()
	return r
}

// A serverUsage is what a server has used between two readings. The zero value
// means not known.
type serverUsage struct {
	procUsage
	span          time.Duration
	answers, jobs int64
}

func (r reading) since(before reading) serverUsage {
	return serverUsage{r.procUsage.since(before.procUsage), time.Duration(r.at - before.at), r.answers - before.answers, r.jobs - before.jobs}
}

// published sums up what the drivers have published.
func (l *load) published() (answers, jobs int64) {
	for _, d := range l.drivers {
		answers += d.published.answers.Load()
		jobs += d.published.jobs.Load()
	}
	return answers, jobs
}

// observe returns when the drivers have ended, or have been told to.
func (o *observer) observe(ctx context.Context, ended <-chan struct{}) {
	o.every = sampleEvery
	if o.load.duration > 0 {
		o.every = max(o.every, o.load.duration/maxSamples)
	}
	o.sampledAt = clock()
	sleep := time.NewTicker(pollEvery)
	defer sleep.Stop()
	measuring := false
	for {
		now := clock()
		if !measuring && now >= o.from {
			measuring, o.before = true, o.read()
		}
		if now >= o.to {
			break
		}
		o.sample(now)
		select {
		case <-ended:
			o.finish(measuring)
			return
		case <-ctx.Done():
			o.load.stop.Store(true)
			o.m.cut = true
			o.finish(measuring)
			o.settle(ended, time.Second)
			return
		case <-sleep.C:
		}
	}
	o.finish(measuring)
	o.settle(ended, o.load.patience())
}

// finish ends the measured time.
func (o *observer) finish(measuring bool) {
	o.end = min(clock(), o.to)
	if measuring {
		o.m.server = o.read().since(o.before)
	} else {
		o.end = o.from
	}
}

// settle waits until everything has been answered, for at most patience.
func (o *observer) settle(ended <-chan struct{}, patience time.Duration) {
	o.load.stop.Store(true)
	give := time.NewTimer(patience)
	defer give.Stop()
	sleep := time.NewTicker(pollEvery)
	defer sleep.Stop()
	for {
		select {
		case <-ended:
			return
		case <-give.C:
			o.load.quit.Store(true)
			<-ended
			o.m.unanswered, o.m.missing = o.load.describeUnanswered(), o.load.describeMissing()
			return
		case <-sleep.C:
		}
		var active, put, done int64
		for _, d := range o.load.drivers {
			// done is read before put, so that a job that is put and done in
			// between does not stand for one that is not done.
			done += d.published.done.Load()
		}
		for _, d := range o.load.drivers {
			active += d.published.active.Load()
			put += d.published.put.Load()
		}
		if o.load.hasWorkers && active == 0 && done >= put {
			o.load.quit.Store(true)
		}
	}
}

// sample adds to the throughput over time and shows the progress, if that is due.
func (o *observer) sample(now int64) {
	since := time.Duration(now - o.sampledAt)
	if since < o.every {
		return
	}
	answers, jobs := o.load.published()
	s := Sample{
		At:      float64(now-o.from) / 1e9,
		Answers: float64(answers-o.answers) / since.Seconds(),
		Jobs:    float64(jobs-o.jobs) / since.Seconds(),
	}
	o.answers, o.jobs, o.sampledAt = answers, jobs, now
	if len(o.m.series) < 4*maxSamples {
		o.m.series = append(o.m.series, s)
	}
	if o.watch != nil {
		o.watch(stage{
			elapsed: time.Duration(now - o.from), total: o.load.duration, warming: now < o.from,
			answers: s.Answers, jobs: jobs, quota: o.load.quota(), jobRate: s.Jobs,
		})
	}
}
