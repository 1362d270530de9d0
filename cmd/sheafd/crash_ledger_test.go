package main_test

// The ledger of the tubes that many connections share.
//
// Who changes a job of these tubes is known from the answers: a reserve tells
// its id, and then it is its holder's alone; a buried or long delayed one is
// claimed in the ledger before it is kicked or reserved by id. Nobody sends a
// command for a job before an answer has told that it is in the right place. So
// the changes to a job took effect in the order in which their commands were
// sent, whenever their answers were read: seq is that order.
//
// Two things happen that no answer tells. A short TTR may run out, which adds
// at most one to timeouts for each reservation, unless stats-job has shown it.
// And a reserve in flight may have taken any job of the tubes that it watches.

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// A crashRecord is the state of a shared job, and which command set what of it.
type crashRecord struct {
	crashState
	priBy, delayBy, placeBy uint64 // seq of the last command that set it
	// buriedBy is a seq when it was certainly buried; buriedAt is one when it
	// was not yet.
	buriedBy uint64
}

// apply does what a command did that was answered, or did after all.
func (s *crashRecord) apply(c *crashCommand, at diffSpan, answered uint64) {
	place := func(p crashPlace) {
		if c.seq > s.placeBy {
			s.placeBy, s.place = c.seq, p
		}
	}
	pri := func() {
		if c.seq > s.priBy {
			s.priBy, s.pri = c.seq, c.pri
		}
	}
	switch c.op {
	case crashPut, crashRelease:
		if c.op == crashRelease {
			s.releases++
		}
		if c.seq > s.delayBy {
			s.delayBy, s.delay = c.seq, c.delay
			s.due = at.add(time.Duration(c.delay) * time.Second)
		}
		if c.delay > 0 {
			place(crashDelayed)
		} else {
			place(crashReady)
		}
		pri()
	case crashBury:
		s.buries++
		if c.seq > s.placeBy {
			s.buriedAt, s.buriedBy = c.seq, answered
		}
		place(crashBuried)
		pri()
	case crashKickJob:
		s.kicks++
		place(crashReady)
	case crashReserveJob:
		s.reserves++
		place(crashReady)
	}
}

// A crashEntry is one job of the ledger.
type crashEntry struct {
	job *crashJob
	crashRecord
	put   *crashCommand
	at    int  // in the ledger's entries, -1 when gone
	known bool // an answer told of it, so it must be there
	gone  bool // an answer told that it is deleted
	// claimed is set while one connection may kick it or reserve it by id.
	claimed bool
	// mortal is set once a delete of it was sent by one that does not hold it.
	mortal bool
	// maybe is how many reservations ended in a way that may have been a
	// timeout.
	maybe int
	// seen is how many timeouts stats-job has shown.
	seen int
}

func (e *crashEntry) short() bool { return e.job.ttr < crashLong }

// A crashHold is a reservation.
type crashHold struct {
	entry *crashEntry
	ends  time.Time // no TTR runs out before
}

// crashLedger is shared by all sharers of a test; mu guards it and its entries.
type crashLedger struct {
	mu      sync.Mutex
	clock   uint64
	entries []*crashEntry          // those that are not gone
	byOrder map[uint64]*crashEntry // and those that went since the last check
}

func newCrashLedger() *crashLedger { return &crashLedger{byOrder: make(map[uint64]*crashEntry)} }

// tick returns the next seq. The caller holds mu.
func (l *crashLedger) tick() uint64 {
	l.clock++
	return l.clock
}

// enter enters a job that is about to be put.
func (l *crashLedger) enter(c *crashCommand) {
	e := &crashEntry{job: c.job, put: c, at: len(l.entries)}
	l.entries = append(l.entries, e)
	l.byOrder[c.job.order] = e
}

// forget takes down that a job is deleted. It stays in byOrder until the next
// check.
func (l *crashLedger) forget(e *crashEntry) {
	if e.gone = true; e.at < 0 {
		return
	}
	last := len(l.entries) - 1
	l.entries[e.at] = l.entries[last]
	l.entries[e.at].at = e.at
	l.entries, e.at = l.entries[:last], -1
}

// learn takes down that e exists and has that id.
func (e *crashEntry) learn(r *crashRound, id uint64, at diffSpan, seq uint64) error {
	if e.job.id != 0 && e.job.id != id {
		return fmt.Errorf("a job has ids %d and %d", e.job.id, id)
	}
	if e.job.id == 0 {
		if err := r.given(id); err != nil {
			return err
		}
		e.job.id = id
	}
	if !e.known {
		e.known = true
		e.job.born = at
		e.apply(e.put, at, seq)
	} else if at.hi.Before(e.job.born.hi) {
		e.job.born.hi = at.hi
	}
	return nil
}

// settle takes an answer down.
func (s *crashSharer) settle(r *crashRound, c *crashCommand, line string, body []byte) error {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	seq, at := l.tick(), diffSpan{c.sent, time.Now()}
	e := s.entry(c, line, body)
	if e != nil {
		e.job.note("%s: %s -> %s", s.name, c.line(), line)
		if c.op == crashKickJob || c.op == crashReserveJob {
			e.claimed = false
		}
	}
	wrong := func(why string) error {
		text := ""
		if e != nil {
			text = crashPast(e.job)
		}
		return fmt.Errorf("%s: %s: answered %q: %s%s", s.name, c.line(), line, why, text)
	}
	word, _, _ := strings.Cut(line, " ")
	if good, ok := crashGood[c.op]; ok && word == good {
		switch c.op {
		case crashPut:
			var id uint64
			fmt.Sscanf(line, "INSERTED %d", &id)
			return e.learn(r, id, at, seq)
		case crashReserve, crashReserveJob:
			return s.reserved(r, e, c, line, body, at, seq, wrong)
		case crashDelete:
			l.forget(e)
			s.drop(e)
		case crashTouch:
			if h := s.hold(e); h != nil {
				h.ends = at.lo.Add(time.Duration(e.job.ttr) * time.Second)
			}
		case crashStats:
			f, err := crashParse(body)
			if err != nil {
				return wrong(err.Error())
			}
			e.seen = max(e.seen, f.state.timeouts)
		default:
			e.apply(c, at, seq)
			if c.op != crashKickJob {
				s.drop(e)
			}
		}
		return nil
	}
	switch {
	case c.op == crashUse && line == "USING "+c.tube, c.op == crashPause && line == "PAUSED":
		return nil
	case c.op == crashReserve && c.n >= 0 && line == "TIMED_OUT":
		return nil
	case c.op == crashReserve && line == "DEADLINE_SOON":
		for _, h := range s.holds {
			if h.entry.short() {
				return nil
			}
		}
		return wrong("nothing with a short TTR is held")
	case e == nil || line != "NOT_FOUND":
		return wrong("unexpected")
	}
	h := s.hold(e)
	switch {
	case h != nil && !e.short():
		return wrong("it is held, and its TTR is long")
	case h != nil && at.hi.Before(h.ends):
		return wrong("it is held, and its TTR has not run out")
	case h != nil:
		e.timeouts++
		s.drop(e)
	case c.op != crashDelete && !e.mortal && !e.short():
		return wrong("nobody deletes it, and it is in the right place")
	}
	return nil
}

// crashGood is the first word of the answer to a command that has done
// something to a job.
var crashGood = map[crashOp]string{
	crashPut: "INSERTED", crashReserve: "RESERVED", crashReserveJob: "RESERVED", crashDelete: "DELETED",
	crashRelease: "RELEASED", crashBury: "BURIED", crashTouch: "TOUCHED", crashKickJob: "KICKED",
	crashStats: "OK",
}

// entry returns what an answer is about.
func (s *crashSharer) entry(c *crashCommand, line string, body []byte) *crashEntry {
	order, ok := uint64(0), c.job != nil
	if ok {
		order = c.job.order
	} else if strings.HasPrefix(line, "RESERVED ") {
		order, ok = crashTag(body)
	}
	if !ok {
		return nil
	}
	return s.ledger.byOrder[order]
}

// reserved takes down that e was reserved.
func (s *crashSharer) reserved(r *crashRound, e *crashEntry, c *crashCommand, line string, body []byte,
	at diffSpan, seq uint64, wrong func(string) error,
) error {
	if e == nil {
		return wrong("no such job was ever put")
	}
	var id uint64
	fmt.Sscanf(line, "RESERVED %d", &id)
	switch {
	case e.gone && !e.short():
		return wrong("it is deleted")
	case string(body) != string(e.job.body()):
		return wrong("the body is wrong")
	case c.op == crashReserve && !s.watches[e.job.tube]:
		return wrong("nobody here watches its tube " + e.job.tube)
	}
	// Of an unanswered put, it is only known when it was sent.
	if err := e.learn(r, id, diffSpan{e.put.sent, at.hi}, seq); err != nil {
		return wrong(err.Error())
	}
	if h := s.hold(e); h != nil {
		if !e.short() || at.hi.Before(h.ends) {
			return wrong("it is held, and its TTR has not run out")
		}
		e.timeouts++
		s.drop(e)
	}
	if c.op == crashReserveJob {
		e.apply(c, at, seq)
	} else {
		e.reserves++
	}
	s.holds = append(s.holds, &crashHold{e, at.lo.Add(time.Duration(e.job.ttr) * time.Second)})
	return nil
}

func (s *crashSharer) hold(e *crashEntry) *crashHold {
	for _, h := range s.holds {
		if h.entry == e {
			return h
		}
	}
	return nil
}

func (s *crashSharer) drop(e *crashEntry) {
	for i, h := range s.holds {
		if h.entry == e {
			s.holds = append(s.holds[:i], s.holds[i+1:]...)
			return
		}
	}
}

// pick draws a job that ok likes; nil if a few tries find none. The caller
// holds mu.
func (l *crashLedger) pick(random *rand.Rand, ok func(*crashEntry) bool) *crashEntry {
	for range min(12, len(l.entries)) {
		if e := l.entries[random.IntN(len(l.entries))]; e.known && !e.gone && ok(e) {
			return e
		}
	}
	return nil
}

// claim draws a job that may be kicked or reserved by id, which nobody else may
// do then; nil if a few tries find none. The caller holds mu.
func (l *crashLedger) claim(random *rand.Rand) *crashEntry {
	e := l.pick(random, func(e *crashEntry) bool {
		return !e.claimed && (e.place == crashBuried || e.place == crashDelayed && e.delay >= crashLong)
	})
	if e != nil {
		e.claimed = true
	}
	return e
}
