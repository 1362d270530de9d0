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
// Each time it is an experiment. It begins when threads wait for a good part of the time in which they run, hardly any of the
// cores is idle, and fewer threads could use about as much. It goes on only if the process then writes as much as before, or
// nearly (asMuch). If it does not, for instance since it is not clients that take the cores, there are as many threads as
// before, and the next experiment is put off, for longer each time. One that goes on ends when cores are idle, when nothing is
// done, and after some seconds in any case: if more is written afterwards, maybe what could not be done in it, it has failed
// after all, else the next one may last longer.
//
// The servers of a process share one. It looks ten times a second while connections are awake, at the CPU time that was used,
// if that is much at the idle time of the cores, and if that is little at what Linux counts for each thread.
type Processors struct {
	least  int
	system system
	log    *slog.Logger

	awake atomic.Int32 // servers with connections that are awake

	mu      sync.Mutex // guards what follows; who does not get it at once lets it be
	at      time.Time  // of the last look
	used    time.Duration
	idle    time.Duration
	asked   bool // what the last look has seen of idle holds
	counts  counts
	counted bool // and of counts

	fewer   bool      // an experiment goes on
	most    int       // how many threads there are else
	looks   int       // of the experiment; or from since, for which there has to be a reason, see begin
	reasons int       // looks in a row that found that threads wait
	since   time.Time // from when on is reckoned how much is written: before an experiment, in one and after it
	written int64     // then
	before  float64   // what was written before it, in bytes a second
	inIt    float64   // what was written in one that has just ended, and is to be compared with what is written now; else 0
	free    float64   // how many cores are idle in it, lately

	term  time.Duration // for how long the last has gone on, or may go on; 0 for the least
	delay time.Duration // for how long the next was put off when one had failed
	next  time.Time     // before which none begins
}

// A system is what Processors look at and change: a kernel, but for tests.
type system interface {
	usage() time.Duration         // CPU time of the process
	idle() (time.Duration, error) // for how long cores of the machine had nothing to do
	counts() (counts, error)
	processors() int
	setProcessors(n int) // as many as there are cores for if n is 0
}

// counts is what Linux has counted.
type counts struct {
	threads int
	waited  time.Duration // for how long threads of the process could run and had no core
	written int64         // bytes, by the process
}

const (
	betweenLooks = 80 * time.Millisecond // at least: several servers may have it look
	forAThread   = time.Millisecond      // as well, for each: to count it takes some 10 µs
	looksBefore  = 4                     // that find in a row that threads wait, before an experiment
	trial        = 8                     // looks until it is decided whether it goes on; in the first of them there were more threads
	leastTerm    = 4 * time.Second       // it goes on; it is doubled each time
	mostTerm     = 30 * time.Second
	leastDelay   = 4 * time.Second // of the next after one that has failed; it is doubled each time
	mostDelay    = time.Minute

	leastUse    = 0.5  // cores that the process uses, or nobody cares
	muchWaiting = 0.25 // of the time in which threads run: begins an experiment
	littleIdle  = 0.2  // cores: allows one
	muchIdle    = 0.4  // cores: ends it
	spare       = 0.1  // cores: so much less will do, since threads that do not wait for each other use less
	asMuch      = 0.92 // of what was written before
)

// NewProcessors returns one that leaves at least that many threads. It returns nil, which is one that does nothing, where the
// user has said how many there shall be (by the environment variable GOMAXPROCS), or Linux does not tell what it takes. It has
// to be called before the process becomes another user, who may not look everywhere; and once, since what it opens stays open.
// A program that sets GOMAXPROCS itself has no use for it: an experiment ends with what is the runtime's default.
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
	if span < max(betweenLooks, time.Duration(p.counts.threads)*forAThread) {
		return
	}
	used := p.system.usage()
	cores := float64(used-p.used) / float64(span)
	p.at, p.used = now, used
	if !p.fewer && (now.Before(p.next) || cores < leastUse) {
		p.forget()
		return
	}
	idle, err := p.system.idle()
	if err != nil {
		p.untold(err)
		return
	}
	free, known := float64(idle-p.idle)/float64(span), p.asked
	p.idle, p.asked = idle, true
	if !known || free > littleIdle && !p.fewer && p.inIt == 0 {
		p.counted, p.looks, p.reasons = false, 0, 0
		return
	}
	c, err := p.system.counts()
	if err != nil {
		p.untold(err)
		return
	}
	waited := float64(c.waited-p.counts.waited) / float64(span)
	known = p.counted
	p.counts, p.counted = c, true
	switch {
	case !known:
	case p.fewer:
		p.goOn(free)
	default:
		p.begin(cores, waited, free)
	}
}

// begin begins an experiment if there is reason to, or finds that the last should have ended sooner. It is told what was used,
// waited for and idle, in cores.
func (p *Processors) begin(used, waited, free float64) {
	p.most = p.system.processors()
	n := max(p.least, int(math.Ceil(used-spare)))
	p.reasons++
	if n >= p.most || waited < muchWaiting*used || free > littleIdle {
		p.reasons = 0
		if p.inIt == 0 {
			p.looks = 0
			return
		}
	}
	if p.looks++; p.looks == 1 {
		p.mark()
	}
	if p.looks < looksBefore {
		return
	}
	if p.inIt > 0 {
		if p.inIt < asMuch*p.rate() {
			p.fail("more is done without it")
			return
		}
		p.inIt, p.delay = 0, 0
	}
	p.looks = 0
	if p.reasons < looksBefore {
		p.term = 0 // it is another load by now
		return
	}
	p.fewer, p.reasons, p.before, p.free = true, 0, p.rate(), 0
	p.term = min(max(leastTerm, 2*p.term), mostTerm)
	p.system.setProcessors(n)
	p.log.Debug("fewer threads, since they wait for cores", "threads", n, "of", p.most, "used", used, "waited", waited)
}

// goOn ends an experiment if there is reason to. It is told what was idle, in cores.
func (p *Processors) goOn(free float64) {
	p.looks++
	p.free += (free - p.free) / 4 // the last few looks count most
	switch {
	case p.looks == 1:
		p.mark()
	case p.looks < trial:
	case p.looks == trial && p.rate() < asMuch*p.before:
		p.fail("less is done")
	case p.free > muchIdle:
		p.end("cores are idle")
		p.delay, p.next = 0, p.at.Add(leastDelay)
	case p.at.Sub(p.since) > p.term:
		term, rate := p.term, p.rate()
		p.end("to see whether it still is of use")
		p.term, p.inIt = term, rate
	}
}

// mark has rate begin here.
func (p *Processors) mark() { p.since, p.written = p.at, p.counts.written }

// rate is what was written since mark, in bytes a second.
func (p *Processors) rate() float64 {
	return float64(p.counts.written-p.written) / p.at.Sub(p.since).Seconds()
}

// untold ends an experiment, if one goes on, since Linux does not tell how it goes.
func (p *Processors) untold(err error) { p.fail("Linux does not tell: " + err.Error()) }

// fail ends an experiment, if one goes on, and puts off the next for longer than the last time.
func (p *Processors) fail(why string) {
	p.end(why)
	p.delay = min(max(leastDelay, 2*p.delay), mostDelay)
	p.next = p.at.Add(p.delay)
}

// end ends an experiment, if one goes on.
func (p *Processors) end(why string) {
	fewer := p.fewer
	p.fewer, p.term, p.looks, p.reasons, p.inIt = false, 0, 0, 0, 0
	if fewer {
		p.system.setProcessors(0)
		p.log.Debug("as many threads as before", "threads", p.most, "why", why)
	}
}

// forget has p make nothing of what was seen up to now, while no experiment goes on.
func (p *Processors) forget() {
	p.asked, p.counted = false, false
	p.term, p.looks, p.reasons, p.inIt = 0, 0, 0, 0
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
		p.end("nothing is done")
	}
}
