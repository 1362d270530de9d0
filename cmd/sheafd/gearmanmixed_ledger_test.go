package main_test

// What is known of the jobs of the random test of both protocols.
//
// Everything that may end a job is entered before it is sent, and taken as done
// when its answer has come. So whoever hears of an end finds it in the ledger,
// whatever goroutine is first.

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A mixedSubmit is a SUBMIT_JOB of any kind, or a put.
type mixedSubmit struct {
	tube, unique, reducer, body string

	task       bool // it is Gearman's
	foreground bool
	ttr        int // seconds, of a put

	sent  uint64 // when, by the ledger's clock
	id    uint64 // 0 until it is answered
	gone  bool   // its connection has ended
	heard bool   // of the end of the job
	fails bool   // it has to hear that the job has failed: it was buried
}

// lost tells whether nobody knows if there is a job.
func (s *mixedSubmit) lost() bool { return s.id == 0 && s.gone }

// waits tells whether somebody will hear of the end.
func (s *mixedSubmit) waits() bool { return s.foreground && !s.gone && !s.heard }

// A mixedEnd is what the clients of a job hear at its end.
type mixedEnd struct {
	typ  gearType
	data string
}

// A mixedJob is what is known of a job.
type mixedJob struct {
	id      uint64
	submits []*mixedSubmit
	holder  *mixedHold
	ends    []mixedEnd // that were sent by workers
	ended   uint64     // when an answer has told that it is gone; 0 if none has
	maybe   bool       // it may be gone, though no answer has told
	put     bool       // it is a put's
	kept    bool       // it was buried, which makes it one of the background
	buried  bool       // so it may have been
	past    []string
}

func (j *mixedJob) note(format string, args ...any) {
	const most = 40
	if len(j.past) >= most {
		j.past = slices.Delete(j.past, 0, most/4)
	}
	j.past = append(j.past, time.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

// A mixedHold is a job that a worker has been given.
type mixedHold struct {
	job    *mixedJob
	who    string
	ends   time.Time      // not before then it may be given to others; zero: never
	fails  bool           // it fails then, instead
	over   bool           // the worker has given it up, or is about to
	serial uint64         // tells it from other holds
	parts  int            // of the result, that were sent
	fail   []*mixedSubmit // who waits for it when it is about to be buried
}

// lapsed tells whether the server may have taken the job back by itself.
func (h *mixedHold) lapsed() bool { return !h.ends.IsZero() && !time.Now().Before(h.ends) }

// A mixedLedger has all jobs. Its methods may be called by any goroutine.
type mixedLedger struct {
	mu       sync.Mutex
	clock    uint64
	jobs     map[uint64]*mixedJob
	bodies   map[string][]*mixedSubmit
	problems []string
	count    map[string]int // of what happened, for the log
}

func newMixedLedger() *mixedLedger {
	return &mixedLedger{jobs: make(map[uint64]*mixedJob), bodies: make(map[string][]*mixedSubmit), count: make(map[string]int)}
}

// tick returns the time. The caller holds mu.
func (l *mixedLedger) tick() uint64 {
	l.clock++
	return l.clock
}

// wrong notes what must not be. The caller holds mu.
func (l *mixedLedger) wrong(j *mixedJob, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if j != nil {
		text = fmt.Sprintf("job %d: %s", j.id, text)
		for _, s := range j.submits {
			text += fmt.Sprintf("\n      tube %s unique %q task %v foreground %v gone %v heard %v", s.tube, s.unique, s.task, s.foreground, s.gone, s.heard)
		}
		for _, p := range j.past {
			text += "\n      " + p
		}
	}
	l.problems = append(l.problems, text)
}

func (l *mixedLedger) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.problems) > 0
}

// job returns the job with that id. The caller holds mu.
func (l *mixedLedger) job(id uint64) *mixedJob {
	j := l.jobs[id]
	if j == nil {
		j = &mixedJob{id: id}
		l.jobs[id] = j
	}
	return j
}

// submit enters what is about to be submitted.
func (l *mixedLedger) submit(s *mixedSubmit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.sent = l.tick()
	l.bodies[s.body] = append(l.bodies[s.body], s)
	l.count["submitted"]++
}

// created enters the answer to a submit.
func (l *mixedLedger) created(s *mixedSubmit, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(id)
	switch {
	case id == 0:
		l.wrong(nil, "a job without an id was created")
		return
	case j.ended != 0 && j.ended < s.sent:
		l.wrong(j, "it has ended, and is the job of what was submitted later")
	case len(j.submits) > 0 && (s.unique == "" || s.unique != j.submits[0].unique || s.tube != j.submits[0].tube):
		l.wrong(j, "it is also that of tube %s, unique %q", s.tube, s.unique)
	case len(j.submits) > 0:
		l.count["coalesced"]++
	}
	s.id = id
	j.submits = append(j.submits, s)
	j.note("answered, foreground %v, task %v", s.foreground, s.task)
}

// leave enters that the connection of these is about to end.
func (l *mixedLedger) leave(all []*mixedSubmit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range all {
		s.gone = true
		if s.id != 0 && s.waits() {
			l.jobs[s.id].note("a client leaves")
		}
	}
}

// take enters that a job was given to a worker, who asked for one at that time
// and gets timeout seconds for a job of that function (0: no limit). It returns
// nil if that must not be.
func (l *mixedLedger) take(p *mixedGiven, who string, asked time.Time, timeout int) *mixedHold {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(p.id)
	h := &mixedHold{job: j, who: who}
	s := l.submitOf(p)
	if s == nil {
		l.wrong(j, "%s was given %s, which nobody has submitted", who, p)
		return nil
	}
	j.put = !s.task
	if s.ttr != 0 {
		h.ends = asked.Add(time.Duration(s.ttr) * time.Second)
	}
	if timeout > 0 && (s.ttr == 0 || timeout <= s.ttr) {
		h.ends, h.fails = asked.Add(time.Duration(timeout)*time.Second), true
		j.buried = j.buried || j.put
		j.ends = append(j.ends, mixedEnd{gearWorkFail, ""})
	}
	// Who is so late with this that it has lost the job already is no witness.
	if j.ended != 0 && !h.lapsed() {
		l.wrong(j, "%s was given it when it was gone", who)
	}
	if o := j.holder; o != nil && !o.over && o.ends.IsZero() && !h.lapsed() {
		l.wrong(j, "%s was given it while %s had it", who, o.who)
	}
	j.holder = h
	h.serial = l.tick()
	j.note("given to %s", who)
	l.count["given"]++
	return h
}

// A mixedGiven is a job as it came over the wire.
type mixedGiven struct {
	id              uint64
	tube, body      string
	unique, reducer *string // nil where they are not told
}

func (p *mixedGiven) String() string {
	text := fmt.Sprintf("a body of %d bytes (%.40q) from tube %q", len(p.body), p.body, p.tube)
	if p.unique != nil {
		text += fmt.Sprintf(", unique %q", *p.unique)
	}
	if p.reducer != nil {
		text += fmt.Sprintf(", reducer %q", *p.reducer)
	}
	return text
}

// submitOf finds what has made a job; nil if nothing can have. The caller holds
// mu.
func (l *mixedLedger) submitOf(p *mixedGiven) *mixedSubmit {
	for _, s := range l.bodies[p.body] {
		if (s.id == 0 || s.id == p.id) && (p.tube == "" || p.tube == s.tube) && (p.unique == nil || *p.unique == s.unique) &&
			(p.reducer == nil || *p.reducer == s.reducer) {
			return s
		}
	}
	return nil
}

// giveUp enters that a worker is about to give a job up, however.
func (l *mixedLedger) giveUp(h *mixedHold, how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.over = true
	if h.fails && !h.job.put {
		h.job.maybe = true // its time may end before the server knows
	}
	h.job.note("%s: %s", h.who, how)
}

// ending enters that a worker is about to end a job so.
func (l *mixedLedger) ending(id uint64, who string, e mixedEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(id)
	j.ends = append(j.ends, e)
	j.note("%s sends %s", who, e.typ)
}

// ended enters that it has; sure tells whether that was answered. A job of a put
// that has failed is buried.
func (l *mixedLedger) ended(id uint64, who string, typ gearType, sure bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(id)
	j.note("%s has ended it with %s, sure %v", who, typ, sure)
	switch {
	case typ != gearWorkComplete && j.put:
		j.buried = true
	case !sure:
		j.maybe = true
	case j.ended != 0:
		l.wrong(j, "%s has ended it again", who)
	default:
		j.ended = l.tick()
		l.count["ended"]++
	}
}

// burying enters that a job is about to be buried by a beanstalkd worker.
func (l *mixedLedger) burying(h *mixedHold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.over = true
	h.job.buried = true
	h.job.ends = append(h.job.ends, mixedEnd{gearWorkFail, ""})
	for _, s := range h.job.submits {
		if s.waits() {
			h.fail = append(h.fail, s)
		}
	}
	h.job.note("%s buries it", h.who)
}

// buried enters that it was.
func (l *mixedLedger) buried(h *mixedHold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// One of the foreground that nobody waits for any more has gone instead.
	h.job.kept = h.job.kept || slices.ContainsFunc(h.job.submits, func(s *mixedSubmit) bool { return s.foreground && !s.gone })
	for _, s := range h.fail {
		s.fails = true
	}
	l.count["buried"]++
}

// lapse enters that a worker has learned that a job is not its any more.
func (l *mixedLedger) lapse(h *mixedHold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !h.lapsed() {
		l.wrong(h.job, "%s has lost it too early", h.who)
	}
	h.over = true
	if h.fails && !h.job.put {
		h.job.maybe = true
	}
	h.job.note("%s: its time was over", h.who)
	l.count["lapsed"]++
}

// hear enters the end that one submit hears of.
func (l *mixedLedger) hear(s *mixedSubmit, e mixedEnd, exceptions bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.jobs[s.id]
	if s.heard {
		l.wrong(j, "a client hears of its end twice")
	}
	if s.fails && e.typ != gearWorkFail {
		l.wrong(j, "it was buried, and a client hears %s", e.typ)
	}
	s.heard = true
	l.count["heard"]++
	ok := slices.ContainsFunc(j.ends, func(was mixedEnd) bool {
		if was.typ == gearWorkException && !exceptions {
			was = mixedEnd{gearWorkFail, ""}
		}
		return was == e
	})
	if !ok {
		l.wrong(j, "a client hears %s %.40q, which nobody has sent", e.typ, e.data)
	}
	j.note("a client hears %s", e.typ)
}

// someID returns the id of some job that may be there.
func (l *mixedLedger) someID(random int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.jobs) == 0 {
		return 1
	}
	id := uint64(len(l.jobs) - random%min(len(l.jobs), 60))
	return max(id, 1)
}

// compare compares what there is with what should be. No worker has a job, and
// the connections that have ended are known to the server.
func (l *mixedLedger) compare(found []*crashFound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := make(map[uint64]bool)
	type key struct{ tube, unique string }
	same := make(map[key]uint64)
	for _, f := range found {
		there[f.id] = true
		j := l.job(f.id)
		s := l.submitOf(&mixedGiven{id: f.id, body: string(f.body)})
		switch {
		case s == nil:
			l.wrong(j, "it is there (%s), and nobody has submitted it", f)
			continue
		case mixedShown(s.tube) != f.tube:
			l.wrong(j, "it is in tube %s, want %s", f.tube, s.tube)
		case j.ended != 0:
			l.wrong(j, "it is there (%s), and has ended", f)
		case f.state.place == crashReserved:
			l.wrong(j, "it is there (%s), and no worker is", f)
		case s.task && !l.wanted(j, s):
			l.wrong(j, "it is there (%s), and nobody waits for it", f)
		}
		if s.task && s.unique != "" && !j.buried {
			k := key{s.tube, s.unique}
			if s.unique == "-" {
				k.unique += s.body
			}
			if other := same[k]; other != 0 {
				l.wrong(j, "it has the unique of job %d", other)
			}
			same[k] = f.id
		}
	}
	for _, j := range l.jobs {
		if there[j.id] || j.ended != 0 || j.maybe {
			continue
		}
		if j.kept || slices.ContainsFunc(j.submits, func(s *mixedSubmit) bool { return !s.foreground || s.waits() }) {
			l.wrong(j, "it is lost")
		}
	}
	l.count["found"] += len(found)
}

// wanted tells whether a job may be there that was submitted by Gearman, as s.
// The caller holds mu.
func (l *mixedLedger) wanted(j *mixedJob, s *mixedSubmit) bool {
	if j.buried || slices.ContainsFunc(j.submits, func(s *mixedSubmit) bool { return !s.foreground || s.waits() }) {
		return true
	}
	// A submit in the background without an answer may be what it is.
	for _, all := range l.bodies {
		for _, o := range all {
			if o.lost() && !o.foreground && o.tube == s.tube && (o == s || o.unique == s.unique && s.unique != "") {
				return true
			}
		}
	}
	return false
}

// summary tells what has happened.
func (l *mixedLedger) summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tally(len(l.jobs), l.count)
}
