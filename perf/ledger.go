package perf

// The ledger of sheafperf check: the state of every job. What it checks of their
// order is in ledger_order.go, its faults and report in ledger_report.go, and its
// Gearman side in ledger_gearman.go.

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
// Where others may see a command's effect before its answer is read, the state
// changes when the command is sent; otherwise, when the answer is read. So two
// clients are seen with one job only if the server gave it twice.
//
// A job that a client keeps for longer than its TTR comes again, and rightly so: it
// now belongs to another client. The first client may learn of this only by a
// NOT_FOUND, and until then both act as if they had the job. Such a job is in
// doubt: it must still be whole, not come after its delete, and not be lost.
//
// Times are nanoseconds of the client's clock (clock). All fields are guarded by
// mu, since any driver may call any method; delayLeeway and ttr never change. Only
// sum and report take no lock: they are for when the drivers have ended.
type ledger struct {
	mu            sync.Mutex
	lastNumber    uint64                     // the last job number given out
	delayLeeway   int64                      // how much before the end of its delay a job may come
	ttr           int64                      // a client that has had a job for less still has it; 0: for any time
	delaysUnknown uint64                     // jobs up to this number may be ready before their delay is over
	reserves      map[string]*reserveHistory // by tube
	turns         uint64                     // answers so far, with the one being looked at
	strays        bool                       // closed connections may have been given jobs unseen
	pages         map[uint64]*page           // by job number / pageSize
	gonePages     map[uint64]int64           // pages that were dropped: when the last of their jobs was known to be gone
	ids           map[uint64]*idPage         // by id / 2^16

	put, delivered, deleted int64
	outlived                int64 // deliveries that were right only because a TTR was over
	doubts                  bool  // a job is in doubt, or has been
	undecided               int64 // jobs whose delete was never answered; set by close
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
	leftOpen // its delete was never answered, so it may come again or not
)

const pageSize = 1 << 14

// A page holds pageSize consecutive jobs. It is dropped when all of them are
// gone, so that a check may run for days.
type page struct {
	state        [pageSize]jobState
	insertedAt   [pageSize]int64  // when INSERTED was read; 0 if not yet
	id           [pageSize]uint64 // 0 if not known yet
	tube         [pageSize]string // where it was put
	pri          [pageSize]uint32
	cameBefore   [pageSize]bool   // it has been reserved before
	readyAt      [pageSize]int64  // when its delay is over; 0 if it had none, or was reserved since
	putter       [pageSize]*conn  // the connection that put it
	insertedTurn [pageSize]uint64 // ledger.turns at its INSERTED
	putAt        [pageSize]int64  // when its put was sent, or a little before
	since        [pageSize]int64  // withClient: from when its TTR counts, or a little before; goneJob: when that was known
	holder       [pageSize]*conn  // the connection that was given it last
	inDoubt      [pageSize]bool   // its TTR may have been over, so several clients may act as if they had it
	openDeletes  [pageSize]uint16 // deletes sent that have no answer yet
	gone         int              // how many of the jobs are goneJob
}

// An idPage is a set of 1<<16 consecutive ids: those that were given to a job.
type idPage [1 << 10]uint64

// newLedger returns a ledger for jobs whose delays are at most longestDelay and
// whose TTR is ttr, both in nanoseconds; a ttr of 0 means that jobs never time
// out.
func newLedger(longestDelay, ttr int64) *ledger {
	l := &ledger{delayLeeway: leeway(longestDelay), pages: make(map[uint64]*page), gonePages: make(map[uint64]int64), ids: make(map[uint64]*idPage), reserves: make(map[string]*reserveHistory)}
	if ttr > 0 {
		l.ttr = ttr - leeway(ttr)
	}
	return l
}

// next returns the number for a job that is about to be put. delay is in
// nanoseconds.
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

// forgetDelays is called before delayed jobs are kicked: those put so far may be
// ready at any time.
func (l *ledger) forgetDelays() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delaysUnknown = l.lastNumber
}

// connsClosing is called before connections are closed. If a reserve on one of
// them has no answer, the server may still give it a job, and take that back when
// it sees the connection closed: from then on nobody knows which jobs are ready.
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

// sending is called before c sends a command other than put; number is that of
// the job in hand.
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
		return // a fault was reported before, or another client has it by now
	}
	p.state[i] = onItsWay
	if o == opDelete {
		p.state[i] = leaving
	}
}

// answered is called with every answer that c gets. It notes in p which job is
// now in hand.
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
			l.history(tube).add(c, l.turns, p.due, now, noJob, 0, nil)
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

// notFound checks a NOT_FOUND to peek, stats-job or kick-job. Until a delete of
// the job is sent, the job must be there. The client that buries a job is the one
// that kicks it, unless several clients have it.
func (l *ledger) notFound(p *pending) {
	pg, i := l.find(p.number)
	if pg == nil || pg.openDeletes[i] > 0 || pg.inDoubt[i] {
		return
	}
	if s := pg.state[i]; s == onItsWay || s == withClient {
		// A copy of the id: if p escaped, each one would be allocated.
		l.fault(jobNotFound, "%s %s, which is job %d", ops[p.op].name, string(p.id[:p.idLen]), p.number)
	}
}

// ttrOver reports whether the TTR of a job may be over now, if it began no
// earlier than from.
func (l *ledger) ttrOver(from, now int64) bool { return l.ttr > 0 && now-from >= l.ttr }

// excused is called with an answer that would otherwise end the load. It reports
// whether the answer is right after all: the TTR of the job in hand is over and
// another client has the job.
func (l *ledger) excused(c *conn, p *pending, r *reply, now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch p.op {
	case opTouch, opRelease, opBury, opDelete:
		if r.kind != notFound {
			return false
		}
	case opKick:
		// A client that had a job before may have deleted it once it was buried.
		return r.kind == kickedNone && l.doubts
	default:
		return false
	}
	pg, i := l.find(p.number)
	if pg == nil {
		return true // the other client has deleted it
	}
	if !pg.inDoubt[i] && !l.ttrOver(p.began, now) {
		return false
	}
	pg.inDoubt[i], l.doubts = true, true
	if p.op == opDelete {
		pg.openDeletes[i]--
	}
	if s := pg.state[i]; (s == withClient || s == leaving) && pg.holder[i] == c {
		pg.state[i] = onItsWay // to the other client, which has not read its RESERVED yet
	}
	return true
}

// find returns the page of a job and its index there. The page is nil if it was
// dropped or no such job was put.
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
		return // the page was dropped: the job was deleted before this answer was read
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
	// If its TTR may be over, an earlier client may not have read its RESERVED yet.
	if p.readyAt[i] == 0 && !p.cameBefore[i] && !l.strays && !l.ttrOver(p.putAt[i], now) {
		l.checkOrder(c, p, i, r.id, asked, now)
	}
	p.readyAt[i], p.cameBefore[i] = 0, true // from now on a release may make it ready at any time
	l.handTo(c, p, i, number, r.id, max(asked, p.putAt[i]), now)
	return number
}

// handTo notes that c was given a job, at from at the earliest; c may have read
// that late.
func (l *ledger) handTo(c *conn, p *page, i int, number uint64, id []byte, from, now int64) {
	// If two clients were given the job, either answer may be read first.
	over := l.ttrOver(p.since[i], now) || l.ttrOver(from, now)
	switch p.state[i] {
	case withClient, leaving:
		if !over && !p.inDoubt[i] {
			l.fault(deliveredTwice, "job %d, id %s, while a client had it", number, id)
		} else {
			l.outlived++
		}
	case goneJob:
		// Its TTR with this client, too, may have been over when it was deleted.
		if over = l.ttrOver(from, p.since[i]); !over {
			l.fault(deliveredTwice, "job %d, id %s, after it had been deleted", number, id)
		} else {
			l.outlived++
		}
	case onItsWay:
		over = over && p.holder[i] != nil // a release still under way may come too late
	}
	if over {
		p.inDoubt[i], l.doubts = true, true
	}
	p.holder[i] = c
	if p.state[i] != goneJob {
		p.state[i], p.since[i] = withClient, from
	}
}

// markGone notes that a job was deleted.
func (l *ledger) markGone(number uint64, p *page, i int, now int64) {
	p.state[i], p.since[i] = goneJob, now
	p.gone++
	l.deleted++
	l.dropPage(number, p)
}

// dropPage forgets a page once all its jobs are gone and all their INSERTED were
// read.
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

// connsClosed is called when all connections of a load have been closed: the
// server takes back the jobs that they had.
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

// missing counts the jobs that were put and have still to come. A put whose
// answer was never read does not count: nobody knows whether it took effect.
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

// close settles the account after the tubes have been emptied: what has not come
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
