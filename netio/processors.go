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

// Processors makes the process run on fewer threads (GOMAXPROCS) while more would only get in each other's and the clients'
// way.
//
// Where clients are on the same machine and its cores are all busy, the kernel has the server's threads take turns with
// them, for some milliseconds each. A thread that waits for its turn holds back the answers it was about to give. If fewer
// threads can do all that the server does, fewer have to wait: on two cores, with a client that keeps one busy, one thread
// does more than two, and the slowest answers take a third of the time.
//
// Whether that is so is found out by experiment. An experiment begins when threads wait for a good part of the time in which
// they run, hardly any core is idle, and fewer threads could use about as much CPU. It goes on only if the process then
// writes as much as before, or nearly (asMuch). If it does not, for instance because it is not clients that take the cores,
// the old number of threads is restored, and the next experiment is put off, for longer after each failure. An experiment
// that goes on ends when cores are idle, when there is nothing to do, and after some seconds in any case. If more is written
// after that, maybe what could not be done during it, it has failed after all; otherwise the next one may last longer.
//
// The servers of a process share one Processors. It looks ten times a second while connections are awake: at the CPU time
// that the process used; if that is much, at the idle time of the cores; and if that is little, at what Linux counts for each
// thread.
type Processors struct {
	least  int // threads that there have to be
	system system
	log    *slog.Logger

	awake atomic.Int32 // how many servers have connections that are awake

	// coreIdle says that a core had nothing to do of late. It changes at a look at most; any goroutine may read it. While the
	// process uses little of a core it is not known, and false.
	coreIdle atomic.Bool

	mu sync.Mutex // guards what follows; a look that does not get it at once is skipped

	// When the last look was, and what it found.
	at         time.Time
	used       time.Duration
	idle       time.Duration
	idleKnown  bool // idle is from the last look
	counts     counts
	countKnown bool // counts is from the last look

	sent []*atomic.Int64 // how many bytes each server has written

	reduced bool // an experiment is running
	normal  int  // how many threads there are without one
	looks   int  // of the experiment, or of the comparison before or after it; the first of them calls mark
	reasons int  // consecutive looks that found threads waiting

	// Where rate counts from, set by mark: before an experiment, during one, and after it.
	since   time.Time
	written int64

	rateBefore float64 // bytes written per second before the experiment
	rateDuring float64 // and in one that has just ended, to be compared with the rate now; 0 if that is not to be done
	idleCores  float64 // moving average, since Linux counts idle time in steps of up to 10 ms

	term  time.Duration // how long the experiment may last, or how long the last one lasted; 0: the next has leastTerm
	delay time.Duration // how long the next one was put off when the last had failed
	next  time.Time     // none begins before
}

// A system is what Processors looks at and changes: a kernel, or a model in tests.
type system interface {
	usage() time.Duration         // CPU time of the process
	idle() (time.Duration, error) // how long the machine's cores had nothing to do, summed over them
	counts() (counts, error)
	processors() int
	setProcessors(n int) // 0: as many as there are cores for
}

// counts is what Linux has counted for the process's threads.
type counts struct {
	threads int
	waited  time.Duration // how long its threads could have run and had no core, summed over them
}

const (
	// A look comes at least betweenLooks after the last, since several servers may ask for it, and at least forAThread after
	// it for each thread, since it takes some 10 µs to read a thread's counters.
	betweenLooks = 80 * time.Millisecond
	forAThread   = time.Millisecond

	looksBefore = 4               // consecutive looks that find threads waiting, before an experiment
	looksAfter  = 2               // looks after one, until the next: so short that less than a hundredth of answers are late for it
	trial       = 8               // looks until it is decided whether the experiment goes on; at the first, the rate is reset
	leastTerm   = 4 * time.Second // how long it then goes on; doubled each time
	mostTerm    = 30 * time.Second
	leastDelay  = time.Second // before the next one after a failure, which may be by chance; four times as long each time
	mostDelay   = time.Minute

	leastUse    = 0.5  // cores that the process has to use for an experiment
	muchWaiting = 0.25 // of the time in which threads run: begins an experiment
	littleIdle  = 0.3  // cores: allows one
	muchIdle    = 0.4  // cores: ends it
	coreIsIdle  = 0.6  // cores: with more, one is taken to be idle
	spare       = 0.1  // cores less than were used will do, since threads that do not wait for each other use less
	asMuch      = 0.92 // of what was written before
)

// NewProcessors returns a Processors that leaves at least that many threads. It returns nil, a Processors that does nothing,
// if the user has set the number of threads (by the environment variable GOMAXPROCS), or if Linux does not provide the
// necessary counters. It is not for programs that set GOMAXPROCS themselves: the end of an experiment restores the runtime's
// default.
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

// watch has p count what a server writes: sent says how many bytes. Any goroutine may call it, also on nil.
func (p *Processors) watch(sent *atomic.Int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, sent)
}

// look decides how many threads there should be. Any goroutine may call it, also on nil.
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
	if !p.reduced && cores < leastUse {
		p.idleKnown = false
		p.setCoreIdle(false)
		p.forget()
		return
	}
	known, err := p.lookAtIdle(span)
	if err != nil {
		p.untold(err)
		return
	}
	if !p.reduced && now.Before(p.next) {
		p.forget()
		return
	}
	if !known || p.idleCores > littleIdle && !p.reduced && p.rateDuring == 0 {
		p.countKnown, p.looks, p.reasons = false, 0, 0
		return
	}
	c, err := p.system.counts()
	if err != nil {
		p.untold(err)
		return
	}
	waited := float64(c.waited-p.counts.waited) / float64(span)
	known = p.countKnown
	p.counts, p.countKnown = c, true
	switch {
	case !known:
	case p.reduced:
		p.goOn()
	default:
		p.begin(cores, waited)
	}
}

// lookAtIdle updates idleCores, the last look being so long ago. It reports whether that was known before.
func (p *Processors) lookAtIdle(span time.Duration) (known bool, err error) {
	idle, err := p.system.idle()
	if err != nil {
		return false, err
	}
	known = p.idleKnown
	if known {
		p.idleCores += (float64(idle-p.idle)/float64(span) - p.idleCores) / 4
	} else {
		p.idleCores = littleIdle // so the next look makes it more or less than that
	}
	p.idle, p.idleKnown = idle, true
	p.setCoreIdle(p.idleCores > coreIsIdle)
	return known, nil
}

// begin begins an experiment if there is reason to. After one has ended, it first finds out whether that had failed. It is
// told how many cores were used and waited for.
func (p *Processors) begin(used, waited float64) {
	p.normal = p.system.processors()
	n := max(p.least, int(math.Ceil(used-spare)))
	p.reasons++
	if n >= p.normal || waited < muchWaiting*used || p.idleCores > littleIdle {
		p.reasons = 0
		if p.rateDuring == 0 {
			p.looks = 0
			return
		}
	}
	if p.looks++; p.looks == 1 {
		p.mark()
	}
	enough := looksBefore
	if p.rateDuring > 0 {
		enough = looksAfter
	}
	if p.looks < enough {
		return
	}
	if p.rateDuring > 0 {
		if p.rateDuring < asMuch*p.rate() {
			p.fail("more is done without it")
			return
		}
		p.rateDuring, p.delay = 0, 0
	}
	p.looks = 0
	if p.reasons < enough {
		p.term = 0 // the load is a different one by now
		return
	}
	p.reduced, p.reasons, p.rateBefore, p.idleCores = true, 0, p.rate(), 0
	p.term = min(max(leastTerm, 2*p.term), mostTerm)
	p.system.setProcessors(n)
	p.log.Debug("fewer threads, since they wait for cores", "threads", n, "of", p.normal, "used", used, "waited", waited)
}

// goOn ends the experiment if there is reason to.
func (p *Processors) goOn() {
	p.looks++
	switch {
	case p.looks == 1:
		p.mark()
	case p.looks < trial:
	case p.looks == trial && p.rate() < asMuch*p.rateBefore:
		p.fail("less is done")
	case p.idleCores > muchIdle:
		p.end("cores are idle")
		p.delay, p.next = 0, p.at.Add(leastDelay)
	case p.at.Sub(p.since) > p.term:
		term, rate := p.term, p.rate()
		p.end("to see whether it still is of use")
		p.term, p.rateDuring = term, rate
	}
}

// mark makes rate count from here.
func (p *Processors) mark() { p.since, p.written = p.at, p.total() }

// rate returns how many bytes were written per second since mark.
func (p *Processors) rate() float64 {
	return float64(p.total()-p.written) / p.at.Sub(p.since).Seconds()
}

// total returns how many bytes were written so far.
func (p *Processors) total() (n int64) {
	for _, sent := range p.sent {
		n += sent.Load()
	}
	return n
}

// untold ends an experiment, if one is running, because Linux does not tell how it is going.
func (p *Processors) untold(err error) { p.fail("Linux does not tell: " + err.Error()) }

// fail ends an experiment, if one is running, and puts off the next one for longer than the last time.
func (p *Processors) fail(why string) {
	p.end(why)
	p.delay = min(max(leastDelay, 4*p.delay), mostDelay)
	p.next = p.at.Add(p.delay)
}

// end ends an experiment, if one is running.
func (p *Processors) end(why string) {
	reduced := p.reduced
	p.reduced, p.term, p.looks, p.reasons, p.rateDuring = false, 0, 0, 0, 0
	if reduced {
		p.system.setProcessors(0)
		p.log.Debug("as many threads as before", "threads", p.normal, "why", why)
	}
}

// forget discards what was seen so far, idle time apart. No experiment is running.
func (p *Processors) forget() {
	p.countKnown = false
	p.term, p.looks, p.reasons, p.rateDuring = 0, 0, 0, 0
}

// setCoreIdle sets coreIdle, which all cores read, only if that changes it.
func (p *Processors) setCoreIdle(is bool) {
	if p.coreIdle.Load() != is {
		p.coreIdle.Store(is)
	}
}

// hasIdleCore reports whether a core had nothing to do of late. Any goroutine may call it, also on nil.
func (p *Processors) hasIdleCore() bool { return p != nil && p.coreIdle.Load() }

// wake is called when a server's connections wake up after a pause, before the server calls look.
func (p *Processors) wake() {
	if p != nil {
		p.awake.Add(1)
	}
}

// rest is called when a server's connections have been asleep for a while.
func (p *Processors) rest() {
	if p == nil || p.awake.Add(-1) > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reduced {
		p.end("nothing is done")
	}
}
