package perf

// The ledger of sheafperf check: what has become of every job.

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// A ledger follows jobs by the number in their body, and compares what the
// server says with what can be true. It is shared by all drivers; a check is
// slower than a plain run.
//
//	       put sent         RESERVED          delete sent       DELETED
//	nothing ──────▶ on its way ────▶ with a client ────▶ leaving ────▶ gone
//	                    ▲  release, bury sent │
//	                    └─────────────────────┘
//
// A state changes when the command is sent where others may see the effect
// before the answer is read, and when the answer is read where it is the answer
// that tells. So a job is found with two clients only if the server gave it
// twice.
//
// A job that a client has for longer than its TTR comes again, and rightly: it
// is another's then. Its first client may learn that by NOT_FOUND only, and until
// it has, both act as if they had it. Such a job is in doubt: it is still to be
// whole, not to come after its delete, and not to be lost.
//
// What was ready when a server chose a job can be told from outside for some
// jobs only: see passed.
type ledger struct {
	mu            sync.Mutex
	lastNumber    uint64 // number given out
	delayLeeway   int64  // how much sooner than after its delay a job may come, in nanoseconds
	ttr           int64  // a client that has a job for less still has it; 0: until it is done
	delaysUnknown uint64 // of jobs up to this one it is not known when they are ready
	reserves      map[string]*reserveHistory
	turns         uint64 // of the answer that is looked at: how many there were before
	strays        bool   // connections were closed that may have jobs without knowing it
	pages         map[uint64]*page
	gonePages     map[uint64]int64 // pages whose jobs have all gone: when the last of them was known to have
	ids           map[uint64]*idPage

	put, delivered, deleted int64
	outlived                int64 // deliveries of jobs whose TTR was over
	doubts                  bool  // there are jobs in doubt, or have been
	undecided               int64 // of which it is not known whether they were deleted
	closed                  bool
	faults                  [numFaults]int64
	examples                []string
}

type jobState uint8

const (
	unknownJob jobState = iota
	onItsWay
	withClient
	leaving
	goneJob
	leftOpen // a delete of it was never answered: whether it comes again or not is both right
)

const pageSize = 1 << 14

// A page is pageSize consecutive jobs. It is dropped when all of them have
// gone, so that a check may go on for days.
type page struct {
	state        [pageSize]jobState
	insertedAt   [pageSize]int64  // when INSERTED was read; 0 if it was not
	id           [pageSize]uint64 // 0 is not known yet
	tube         [pageSize]string // that it was put into
	pri          [pageSize]uint32
	cameBefore   [pageSize]bool   // it has come before
	readyAt      [pageSize]int64  // when its delay is over; 0 if it had none, or has come
	putter       [pageSize]*conn  // that has put it
	insertedTurn [pageSize]uint64 // of its INSERTED
	putAt        [pageSize]int64  // when it was put, or a little before
	since        [pageSize]int64  // from when on its TTR counts, or a little before; when it was known to have gone
	holder       [pageSize]*conn  // that was given it last
	inDoubt      [pageSize]bool   // its TTR may have been over once, so that several think that they have it
	openDeletes  [pageSize]uint16 // deletes of it that have no answer yet
	gone         int
}

// An idPage is a bit for each of 1<<16 ids that were given to a job.
type idPage [1 << 10]uint64

// newLedger is one of jobs with delays up to that many nanoseconds, and that time
// to run; 0 is no limit.
func newLedger(longestDelay, ttr int64) *ledger {
	l := &ledger{delayLeeway: leeway(longestDelay), pages: make(map[uint64]*page), gonePages: make(map[uint64]int64), ids: make(map[uint64]*idPage), reserves: make(map[string]*reserveHistory)}
	if ttr > 0 {
		l.ttr = ttr - leeway(ttr)
	}
	return l
}

// next gives out the number of a job that is about to be put into a tube with a
// delay and a priority.
func (l *ledger) next(tube string, delay int64, pri uint32) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastNumber++
	key, i := l.lastNumber/pageSize, l.lastNumber%pageSize
	if l.pages[key] == nil {
		l.pages[key] = new(page)
	}
	p := l.pages[key]
	p.state[i], p.tube[i], p.pri[i], p.putAt[i] = onItsWay, tube, pri, clock()
	if delay > 0 {
		p.readyAt[i] = p.putAt[i] + delay
	}
	return l.lastNumber
}

// moving is told before delayed jobs are kicked: of those put so far it is not
// known any more when they are ready.
func (l *ledger) forgetDelays() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delaysUnknown = l.lastNumber
}

// closing is told of connections that are closed. Where a reserve was not answered
// the server may give a job nevertheless, and take it back when it learns that
// nobody is there: from then on nobody knows which jobs are ready.
func (l *ledger) connsClosing(conns []*conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		for i := c.head; i != c.tail; i++ {
			switch c.ring[i&uint32(len(c.ring)-1)].op {
			case opReserve, opReserveNow:
				l.strays = true
			}
		}
	}
}

// sending is told of every command but put before c sends it, with the job in
// hand.
func (l *ledger) sending(c *conn, o op, number uint64) {
	switch o {
	case opRelease, opBury, opDelete:
	default:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, i := l.find(number)
	if p == nil {
		return
	}
	if o == opDelete {
		p.openDeletes[i]++
	}
	if p.state[i] != withClient || p.holder[i] != c {
		return // a fault was told before, or it is another's by now
	}
	p.state[i] = onItsWay
	if o == opDelete {
		p.state[i] = leaving
	}
}

// answered is told of every answer that c gets. It notes in p which job is in
// hand.
func (l *ledger) answered(c *conn, p *pending, r *reply, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns++
	switch {
	case r.kind == inserted:
		l.inserted(c, p.number, r.id, now)
	case r.kind == reserved:
		p.number = l.reserved(c, r, p.due, now)
	case r.kind == found:
		if len(r.body) < headerCheck || !intactBody(r.body) {
			l.fault(damagedBody, "job %s in the answer to peek: %s", r.id, quote(r.body))
		} else if n := numberOf(r.body); n != p.number {
			l.fault(wrongJob, "peek at id %s, which is job %d, shows job %d", r.id, p.number, n)
		}
	case r.kind == timedOut:
		for tube := range c.watched {
			l.history(tube).add(c, l.turns, p.due, now, noJob, nil)
		}
	case r.kind == notFound:
		l.notFound(p)
	case r.kind == touched:
		if pg, i := l.find(p.number); pg != nil && pg.state[i] == withClient && pg.holder[i] == c {
			pg.since[i] = max(pg.since[i], p.due)
		}
	case r.kind == deleted:
		if pg, i := l.find(p.number); pg != nil && pg.state[i] != unknownJob && pg.state[i] != goneJob {
			l.markGone(p.number, pg, i, now)
		}
	}
}

// notFound looks whether a job had been there of which peek, stats-job or kick-job
// said that it was not. While no delete of it has been sent it must be; who buries a
// job is who kicks it, unless several have it.
func (l *ledger) notFound(p *pending) {
	pg, i := l.find(p.number)
	if pg == nil || pg.openDeletes[i] > 0 || pg.inDoubt[i] {
		return
	}
	if s := pg.state[i]; s == onItsWay || s == withClient {
		// Not the id itself: p is not to be kept, or it would be allocated.
		l.fault(jobNotFound, "%s %s, which is job %d", ops[p.op].name, string(p.id[:p.idLen]), p.number)
	}
}

// over reports whether the TTR of a job may be over, if it did not count before
// from.
func (l *ledger) ttrOver(from, now int64) bool { return l.ttr > 0 && now-from >= l.ttr }

// forgone is told of an answer to c that ends a load otherwise, and reports
// whether it is right, since the TTR of the job in hand was over and another has
// it.
func (l *ledger) excused(c *conn, p *pending, r *reply, now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch p.op {
	case opTouch, opRelease, opBury, opDelete:
		if r.kind != notFound {
			return false
		}
	case opKick:
		// Who had a job before may have deleted it when it was buried.
		return r.kind == kickedNone && l.doubts
	default:
		return false
	}
	pg, i := l.find(p.number)
	if pg == nil {
		return true // that other one has deleted it
	}
	if !pg.inDoubt[i] && !l.ttrOver(p.began, now) {
		return false
	}
	pg.inDoubt[i], l.doubts = true, true
	if p.op == opDelete {
		pg.openDeletes[i]--
	}
	if s := pg.state[i]; (s == withClient || s == leaving) && pg.holder[i] == c {
		pg.state[i] = onItsWay // to the other one, who does not know it yet
	}
	return true
}

// find returns where a job is noted; nil if its page has been dropped or there
// is no such job.
func (l *ledger) find(number uint64) (*page, int) {
	return l.pages[number/pageSize], int(number % pageSize)
}

func (l *ledger) inserted(c *conn, number uint64, text []byte, now int64) {
	l.put++
	id, _ := strconv.ParseUint(string(text), 10, 64)
	ids := l.ids[id>>16]
	if ids == nil {
		ids = new(idPage)
		l.ids[id>>16] = ids
	}
	if bit := uint64(1) << (id & 63); ids[id>>6&1023]&bit != 0 {
		l.fault(idTwice, "id %s was given to job %d and to another", text, number)
	} else {
		ids[id>>6&1023] |= bit
	}
	p, i := l.find(number)
	if p == nil {
		return // gone already: it was delivered and deleted before this answer was read
	}
	p.insertedAt[i], p.putter[i], p.insertedTurn[i] = max(now, 1), c, l.turns
	if p.id[i] != 0 && p.id[i] != id {
		l.fault(wrongJob, "job %d was inserted as %s and reserved as %d", number, text, p.id[i])
	}
	p.id[i] = id
	l.dropPage(number, p)
}

func (l *ledger) reserved(c *conn, r *reply, asked, now int64) (number uint64) {
	l.delivered++
	if len(r.body) < headerCheck || !intactBody(r.body) {
		l.fault(damagedBody, "job %s, %d bytes: %s", r.id, len(r.body), quote(r.body))
		return 0
	}
	number = numberOf(r.body)
	if end, all := l.gonePages[number/pageSize]; all {
		if l.ttrOver(asked, end) {
			l.outlived++
			return number
		}
		l.fault(deliveredTwice, "job %d, id %s, after it had been deleted", number, r.id)
		return 0
	}
	p, i := l.find(number)
	if p == nil || p.state[i] == unknownJob {
		l.fault(wrongJob, "id %s has job %d, which was never put", r.id, number)
		return 0
	}
	id, _ := strconv.ParseUint(string(r.id), 10, 64)
	if p.id[i] != 0 && p.id[i] != id {
		l.fault(wrongJob, "job %d was inserted as %d and reserved as %s", number, p.id[i], r.id)
	}
	p.id[i] = id
	if !c.watched[p.tube[i]] {
		l.fault(strangeTube, "job %d, id %s, is of %s, which %s %d does not watch", number, r.id, p.tube[i], c.group.name, c.number)
	}
	if by := p.readyAt[i] - now; p.readyAt[i] > 0 && by > l.delayLeeway && number > l.delaysUnknown {
		l.fault(tooEarly, "job %d, id %s, by %v", number, r.id, time.Duration(by).Round(time.Millisecond))
	}
	// Who had it first may not have read that yet, if its TTR may be over.
	if p.readyAt[i] == 0 && !p.cameBefore[i] && !l.strays && !l.ttrOver(p.putAt[i], now) {
		l.checkOrder(c, p, i, r.id, asked, now)
	}
	p.readyAt[i], p.cameBefore[i] = 0, true // it may be released, and come at once
	l.handTo(c, p, i, number, r.id, max(asked, p.putAt[i]), now)
	return number
}

// hand gives a job to c, which had it not before from and may have read that late.
func (l *ledger) handTo(c *conn, p *page, i int, number uint64, id []byte, from, now int64) {
	// Of two answers which say that a job was given either may be read first.
	over := l.ttrOver(p.since[i], now) || l.ttrOver(from, now)
	switch p.state[i] {
	case withClient, leaving:
		if !over && !p.inDoubt[i] {
			l.fault(deliveredTwice, "job %d, id %s, while a client had it", number, id)
		} else {
			l.outlived++
		}
	case goneJob:
		// It may have gone when the TTR of this client was over as well.
		if over = l.ttrOver(from, p.since[i]); !over {
			l.fault(deliveredTwice, "job %d, id %s, after it had been deleted", number, id)
		} else {
			l.outlived++
		}
	case onItsWay:
		over = over && p.holder[i] != nil // a release that is still under way may come too late
	}
	if over {
		p.inDoubt[i], l.doubts = true, true
	}
	p.holder[i] = c
	if p.state[i] != goneJob {
		p.state[i], p.since[i] = withClient, from
	}
}

// leave notes that a job has gone.
func (l *ledger) markGone(number uint64, p *page, i int, now int64) {
	p.state[i], p.since[i] = goneJob, now
	p.gone++
	l.deleted++
	l.dropPage(number, p)
}

// drop forgets a page of which nothing more is to be learnt.
func (l *ledger) dropPage(number uint64, p *page) {
	if p.gone < pageSize {
		return
	}
	for _, told := range p.insertedAt {
		if told == 0 {
			return
		}
	}
	delete(l.pages, number/pageSize)
	l.gonePages[number/pageSize] = slices.Max(p.since[:])
}

// abandon is told when all connections of a load have been closed: the jobs
// that they had come back.
func (l *ledger) connsClosed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pages {
		for i, s := range p.state {
			switch {
			case s == unknownJob || s == goneJob:
			case p.openDeletes[i] > 0:
				p.state[i], p.openDeletes[i] = leftOpen, 0
			case s == withClient:
				p.state[i] = onItsWay
			}
		}
	}
}

// missing is how many jobs were put and have still to come. Of a put whose
// answer was never read nobody knows.
func (l *ledger) missing() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pages {
		for i, s := range p.state {
			if p.insertedAt[i] != 0 && s == onItsWay {
				n++
			}
		}
	}
	return n
}

// close settles the account when the tubes have been emptied: what has not come
// is lost.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for key := uint64(0); key <= l.lastNumber/pageSize; key++ {
		p := l.pages[key]
		if p == nil {
			continue
		}
		for i, s := range p.state {
			number := key*pageSize + uint64(i)
			if p.insertedAt[i] != 0 && s == leftOpen {
				l.undecided++
			}
			if p.insertedAt[i] != 0 && s == onItsWay {
				l.fault(lostJob, "job %d, id %d, was put and did not come", number, p.id[i])
			}
		}
	}
}
