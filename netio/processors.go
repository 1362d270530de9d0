package netio

// How many threads serve at a time, on a machine that has not enough cores for all.

import (
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Processors has the process run on fewer threads (GOMAXPROCS) while more would only be in each other's and the clients' way.
//
// Where clients are on the same machine and its cores are all busy, the kernel has the server's threads take turns with
// them, for some milliseconds each. A thread that waits for its turn keeps what it was about to answer. If all that the
// server does is no more than fewer threads can do, fewer of them should wait: on two cores, with a client that keeps one
// busy, one thread does more than two, and the slowest answers take a third of the time.
//
// Each time it is an experiment. It begins when threads wait for a good part of the time in which they run, no core is idle,
// and fewer threads could use as much. It goes on only if the process writes as much as before; if it does not, for instance
// since it is not clients that take the cores, there are as many threads as before, and the next experiment is put off, for
// longer each time. One that goes on ends when cores are idle, when nothing is done, and after a while in any case.
//
// The servers of a process share one. It looks ten times a second while connections are awake, at the CPU time that was used,
// and if that is much at what Linux counts for each thread.
type Processors struct {
	least  int
	system system
	log    *slog.Logger

	awake atomic.Int32 // servers with connections that are awake

	mu      sync.Mutex // guards what follows; who does not get it at once lets it be
	at      time.Time  // of the last look
	used    time.Duration
	counts  counts
	counted bool // there are counts of the last look

	fewer   bool      // an experiment goes on
	most    int       // how many there are else
	looks   int       // that found that threads wait, in a row; or of the experiment
	since   time.Time // from when on is reckoned how much is written: before an experiment, and in one
	written int64     // then
	before  float64   // what was written before it, in bytes a second
	idle    float64   // in it, lately, in cores

	delay time.Duration // for how long the next was put off when one had failed
	next  time.Time     // before which none begins
}

// A system is what Processors look at and change: a kernel, but for tests.
type system interface {
	usage() time.Duration // CPU time of the process
	counts() (counts, error)
	processors() int
	setProcessors(n int) // as many as there are cores for if n is 0
}

// counts is what Linux has counted.
type counts struct {
	waited  time.Duration // for how long threads of the process could run and had no core
	idle    time.Duration // for how long cores of the machine had nothing to do
	written int64         // bytes, by the process
}

const (
	betweenLooks = 80 * time.Millisecond // at least: several servers may have it look
	looksBefore  = 4                     // that find in a row that threads wait, before an experiment
	trial        = 8                     // looks until it is decided whether it goes on; in the first of them there were more threads
	longest      = 30 * time.Second      // it goes on
	leastDelay   = 4 * time.Second       // of the next after one that has failed; it is doubled each time
	mostDelay    = time.Minute

	leastUse    = 0.5  // cores that the process uses, or nobody cares
	muchWaiting = 0.25 // of the time in which threads run: begins an experiment
	littleIdle  = 0.1  // of the cores: allows one
	muchIdle    = 0.2  // of the cores: ends it
	spare       = 0.1  // cores: so much less will do, since threads that do not wait for each other use less
	asMuch      = 0.92 // of what was written before
)

// NewProcessors returns one that leaves at least that many threads. It returns nil, which is one that does nothing, where the
// user has said how many there shall be (by the environment variable GOMAXPROCS), or Linux does not tell what it takes. It has
// to be called before the process becomes another user, who may not look everywhere.
func NewProcessors(least int, log *slog.Logger) *Processors {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	k, err := newKernel()
	if err != nil {
		log.Debug("the number of threads will not adapt to busy cores", "err", err)
		return nil
	}
	return &Processors{least: max(least, 1), system: k, log: log}
}

// look decides on how many threads there shall be. Any goroutine may call it, on nil as well.
func (p *Processors) look(now time.Time) {
	if p == nil || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	span := now.Sub(p.at)
	if span < betweenLooks {
		return
	}
	used := p.system.usage()
	cores := float64(used-p.used) / float64(span)
	p.at, p.used = now, used
	if !p.fewer && (now.Before(p.next) || cores < leastUse) {
		p.counted, p.looks = false, 0
		return
	}
	c, err := p.system.counts()
	if err != nil {
		p.counted = false
		p.fail("Linux does not tell: " + err.Error())
		return
	}
	last, known := p.counts, p.counted
	p.counts, p.counted = c, true
	if !known {
		return
	}
	waited := float64(c.waited-last.waited) / float64(span)
	idle := float64(c.idle-last.idle) / float64(span)
	if p.fewer {
		p.goOn(idle)
	} else {
		p.begin(cores, waited, idle)
	}
}

// begin begins an experiment if there is reason to. It is told what was used, waited for and idle, in cores.
func (p *Processors) begin(used, waited, idle float64) {
	p.most = p.system.processors()
	n := max(p.least, int(math.Ceil(used-spare)))
	if n >= p.most || waited < muchWaiting*used || idle > littleIdle*float64(p.most) {
		p.looks = 0
		return
	}
	switch p.looks++; p.looks {
	case 1:
		p.mark()
	case looksBefore:
		p.fewer, p.looks, p.before, p.idle = true, 0, p.rate(), 0
		p.system.setProcessors(n)
		p.log.Debug("fewer threads, since they wait for cores", "threads", n, "of", p.most, "used", used, "waited", waited)
	}
}

// goOn ends an experiment if there is reason to. It is told what was idle, in cores.
func (p *Processors) goOn(idle float64) {
	p.looks++
	p.idle += (idle - p.idle) / 4 // the last few looks count most
	switch {
	case p.looks == 1:
		p.mark()
	case p.looks < trial:
	case p.looks == trial && p.rate() < asMuch*p.before:
		p.fail("less is done")
	case p.idle > muchIdle*float64(p.most):
		p.end("cores are idle", leastDelay)
	case p.at.Sub(p.since) > longest:
		p.end("to see whether it still is of use", 0)
	}
}

// mark has rate begin here.
func (p *Processors) mark() { p.since, p.written = p.at, p.counts.written }

// rate is what was written since mark, in bytes a second.
func (p *Processors) rate() float64 {
	return float64(p.counts.written-p.written) / p.at.Sub(p.since).Seconds()
}

// fail ends an experiment, if one goes on, and puts off the next for longer than the last time.
func (p *Processors) fail(why string) {
	delay := min(max(leastDelay, 2*p.delay), mostDelay)
	p.end(why, delay)
	p.delay = delay
}

// end ends an experiment, if one goes on, and puts off the next.
func (p *Processors) end(why string, delay time.Duration) {
	p.delay, p.next, p.looks = 0, p.at.Add(delay), 0
	if p.fewer {
		p.fewer = false
		p.system.setProcessors(0)
		p.log.Debug("as many threads as before", "threads", p.most, "why", why)
	}
}

// wake is called when connections of a server are awake again, before it has p look.
func (p *Processors) wake() {
	if p != nil {
		p.awake.Add(1)
	}
}

// rest is called when they have been asleep for a while.
func (p *Processors) rest() {
	if p == nil || p.awake.Add(-1) > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fewer {
		p.end("nothing is done", 0)
	}
}
