package perf

// The ledger of sheafperf check: what has become of every job.

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
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
// The order in which jobs come is not looked at: what was ready when a server
// made its choice can seldom be told from outside.
type ledger struct {
	mu    sync.Mutex
	last  uint64 // number given out
	early int64  // how much sooner than after its delay a job may come, in nanoseconds
	moved uint64 // jobs up to this one may have been made ready before their delay was over
	pages map[uint64]*page
	gone  map[uint64]bool // pages whose jobs have all gone
	ids   map[uint64]*idPage

	put, delivered, deleted int64
	open                    int64 // of which it is not known whether they were deleted
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
	state [pageSize]jobState
	told  [pageSize]bool   // INSERTED was read
	id    [pageSize]uint64 // 0 is not known yet
	tube  [pageSize]string // that it was put into
	ready [pageSize]int64  // when its delay is over; 0 if it had none, or has come
	gone  int
}

// An idPage is a bit for each of 1<<16 ids that were given to a job.
type idPage [1 << 10]uint64

// A fault is something that a server must never do.
type fault uint8

const (
	lostJob fault = iota
	deliveredTwice
	damagedBody
	wrongJob
	idTwice
	strangeTube
	tooEarly
	wrongResult
	completedTwice
	numFaults
)

var faultNames = [numFaults]string{
	lostJob:        "lost",
	deliveredTwice: "delivered twice",
	damagedBody:    "bodies damaged",
	wrongJob:       "under the id of another",
	idTwice:        "ids given twice",
	strangeTube:    "from tubes not watched",
	tooEarly:       "before their delay was over",
	wrongResult:    "results wrong",
	completedTwice: "completed twice",
}

// mostExamples bounds what a report shows of a server that is thoroughly
// broken.
const mostExamples = 20

// newLedger is one of jobs with delays up to that many nanoseconds.
func newLedger(longestDelay int64) *ledger {
	return &ledger{early: leeway(longestDelay), pages: make(map[uint64]*page), gone: make(map[uint64]bool), ids: make(map[uint64]*idPage)}
}

// next gives out the number of a job that is about to be put into a tube with a
// delay.
func (l *ledger) next(tube string, delay int64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	key, i := l.last/pageSize, l.last%pageSize
	if l.pages[key] == nil {
		l.pages[key] = new(page)
	}
	p := l.pages[key]
	p.state[i], p.tube[i] = onItsWay, tube
	if delay > 0 {
		p.ready[i] = clock() + delay
	}
	return l.last
}

// kicking is told before delayed jobs are kicked.
func (l *ledger) kicking() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = l.last
}

// sending is told of every command but put before it is sent, with the job in
// hand.
func (l *ledger) sending(o op, number uint64) {
	switch o {
	case opRelease, opBury, opDelete:
	default:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, i := l.find(number)
	if p == nil || p.state[i] != withClient {
		return // a fault was told before
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
	switch {
	case r.kind == inserted:
		l.inserted(p.number, r.id)
	case r.kind == reserved:
		p.number = l.reserved(c, r, now)
	case r.kind == found:
		if len(r.body) < headerCheck || !intactBody(r.body) {
			l.fault(damagedBody, "job %s in the answer to peek: %s", r.id, quote(r.body))
		} else if n := numberOf(r.body); n != p.number {
			l.fault(wrongJob, "peek at id %s, which is job %d, shows job %d", r.id, p.number, n)
		}
	case r.kind == deleted:
		if pg, i := l.find(p.number); pg != nil && pg.state[i] == leaving {
			l.leave(p.number, pg, i)
		}
	}
}

// find returns where a job is noted; nil if its page has been dropped or there
// is no such job.
func (l *ledger) find(number uint64) (*page, int) {
	return l.pages[number/pageSize], int(number % pageSize)
}

func (l *ledger) inserted(number uint64, text []byte) {
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
	p.told[i] = true
	if p.id[i] != 0 && p.id[i] != id {
		l.fault(wrongJob, "job %d was inserted as %s and reserved as %d", number, text, p.id[i])
	}
	p.id[i] = id
	l.drop(number, p)
}

func (l *ledger) reserved(c *conn, r *reply, now int64) (number uint64) {
	l.delivered++
	if len(r.body) < headerCheck || !intactBody(r.body) {
		l.fault(damagedBody, "job %s, %d bytes: %s", r.id, len(r.body), quote(r.body))
		return 0
	}
	number = numberOf(r.body)
	if l.gone[number/pageSize] {
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
	if by := p.ready[i] - now; p.ready[i] > 0 && by > l.early && number > l.moved {
		l.fault(tooEarly, "job %d, id %s, by %v", number, r.id, time.Duration(by).Round(time.Millisecond))
	}
	p.ready[i] = 0 // it may be released, and come at once
	switch p.state[i] {
	case withClient, leaving:
		l.fault(deliveredTwice, "job %d, id %s, while a client had it", number, r.id)
	case goneJob:
		l.fault(deliveredTwice, "job %d, id %s, after it had been deleted", number, r.id)
	}
	if p.state[i] != goneJob {
		p.state[i] = withClient
	}
	return number
}

// leave notes that a job has gone.
func (l *ledger) leave(number uint64, p *page, i int) {
	p.state[i] = goneJob
	p.gone++
	l.deleted++
	l.drop(number, p)
}

// drop forgets a page of which nothing more is to be learnt.
func (l *ledger) drop(number uint64, p *page) {
	if p.gone < pageSize {
		return
	}
	for _, told := range p.told {
		if !told {
			return
		}
	}
	delete(l.pages, number/pageSize)
	l.gone[number/pageSize] = true
}

func (l *ledger) fault(f fault, format string, args ...any) {
	l.faults[f]++
	if len(l.examples) < mostExamples {
		l.examples = append(l.examples, faultNames[f]+": "+fmt.Sprintf(format, args...))
	}
}

// abandon is told when all connections of a load have been closed: the jobs
// that they had come back.
func (l *ledger) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pages {
		for i, s := range p.state {
			switch s {
			case withClient:
				p.state[i] = onItsWay
			case leaving:
				p.state[i] = leftOpen
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
			if p.told[i] && s == onItsWay {
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
	for key := uint64(0); key <= l.last/pageSize; key++ {
		p := l.pages[key]
		if p == nil {
			continue
		}
		for i, s := range p.state {
			number := key*pageSize + uint64(i)
			if p.told[i] && s == leftOpen {
				l.open++
			}
			if p.told[i] && s == onItsWay {
				l.fault(lostJob, "job %d, id %d, was put and did not come", number, p.id[i])
			}
		}
	}
}

// sum is the number of all faults.
func (l *ledger) sum() (n int64) {
	for _, f := range l.faults {
		n += f
	}
	return n
}

// report says what was found, in lines.
func (l *ledger) report() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s jobs put, %s deliveries, %s deleted", count(float64(l.put)), count(float64(l.delivered)), count(float64(l.deleted)))
	if l.open > 0 {
		fmt.Fprintf(&b, " and %s more whose end was not answered before the load's", count(float64(l.open)))
	}
	if l.sum() == 0 {
		switch {
		case l.put+l.delivered == 0:
			b.WriteString("; nothing was checked")
		case !l.closed:
			b.WriteString("; whether jobs were lost is not known")
		default:
			b.WriteString("; no job was lost, damaged or mixed up, and none came again but after a release, a kick or the end of its connection")
		}
		return b.String()
	}
	for f, n := range l.faults {
		if n > 0 {
			fmt.Fprintf(&b, "; %s: %s", faultNames[f], count(float64(n)))
		}
	}
	b.WriteString("\n  " + strings.Join(l.examples, "\n  "))
	if more := l.sum() - int64(len(l.examples)); more > 0 {
		fmt.Fprintf(&b, "\n  and %s more", count(float64(more)))
	}
	return b.String()
}
