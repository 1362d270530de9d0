package main_test

// What is known of the jobs of the crash test of Gearman's jobs.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// gearFunctions are those of the crash test. The last ones are no tubes' names.
var gearFunctions = []string{"resize", "mail", "-dash", "two words"}

// A gearSub is one that was submitted, in the background if it is not said
// otherwise, or put.
type gearSub struct {
	order                     uint64 // by which its body is known
	function, unique, reducer string
	body                      string
	kind                      gearKind
	pri                       uint32
	epoch                     int64 // not before that second; 0 if at once
	foreground, put           bool

	sent uint64 // when, by the ledger's clock
	id   uint64 // 0 until it is answered
}

// A gearJob is a job.
type gearJob struct {
	id     uint64
	subs   []*gearSub // those that were answered with its id
	ended  uint64     // when an answer has told that it is gone
	maybe  bool       // it may be gone, or be buried
	buried bool       // an answer has told so
	past   []string
}

func (j *gearJob) note(format string, args ...any) {
	j.past = append(j.past, time.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

func (j *gearJob) String() string {
	text := fmt.Sprintf("job %d, ended %d maybe %v buried %v", j.id, j.ended, j.maybe, j.buried)
	for _, s := range j.subs {
		text += fmt.Sprintf("\n      %s", s)
	}
	for _, p := range j.past {
		text += "\n      " + p
	}
	return text
}

func (s *gearSub) String() string {
	return fmt.Sprintf("submit %d: %q unique %q reducer %q pri %d epoch %d foreground %v put %v id %d, body of %d bytes",
		s.order, s.function, s.unique, s.reducer, s.pri, s.epoch, s.foreground, s.put, s.id, len(s.body))
}

// keeps tells whether the submits make a job one that survives.
func (j *gearJob) keeps() bool {
	return j.buried || slices.ContainsFunc(j.subs, func(s *gearSub) bool { return !s.foreground })
}

// A gearLedger has all that was ever submitted.
type gearLedger struct {
	mu       sync.Mutex
	clock    uint64
	subs     map[uint64]*gearSub
	jobs     map[uint64]*gearJob
	gone     map[uint64]bool // ids of the foreground that went with a server
	problems []string
	count    map[string]int
}

func newGearLedger() *gearLedger {
	return &gearLedger{subs: make(map[uint64]*gearSub), jobs: make(map[uint64]*gearJob), gone: make(map[uint64]bool), count: make(map[string]int)}
}

// wrong notes what must not be. The caller holds mu.
func (l *gearLedger) wrong(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// take returns what was wrong.
func (l *gearLedger) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problems
}

// enter enters what is about to be submitted. Its body gets a tag in front,
// unless it has one of another.
func (l *gearLedger) enter(s *gearSub) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	s.sent = l.clock
	if s.order == 0 {
		s.order = l.clock
		s.body = fmt.Sprintf("%d %s", s.order, s.body)
	}
	l.subs[s.sent] = s
	l.count["submitted"]++
}

// job returns the job with that id. It may be known by being given to a worker
// before its submit is answered. The caller holds mu.
func (l *gearLedger) job(id uint64) *gearJob {
	j := l.jobs[id]
	if j == nil {
		j = &gearJob{id: id}
		l.jobs[id] = j
		if l.gone[id] {
			delete(l.gone, id)
			l.wrong("id %d is given again, it was that of a job in the foreground", id)
		}
	}
	return j
}

// created enters the answer.
func (l *gearLedger) created(s *gearSub, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(id)
	switch {
	case id == 0:
		l.wrong("%s has no id", s)
	case j.ended != 0 && j.ended < s.sent:
		l.wrong("%s\n    is the job of %s", j, s)
	case len(j.subs) > 0 && (s.unique == "" || s.unique != j.subs[0].unique || s.function != j.subs[0].function):
		l.wrong("%s\n    is also the job of %s", j, s)
	case len(j.subs) > 0:
		l.count["coalesced"]++
	}
	s.id = id
	j.subs = append(j.subs, s)
	j.note("answered to %d", s.sent)
}

// ending enters that the job is about to be ended, or buried, and that it may be
// so from now on.
func (l *gearLedger) ending(id uint64, how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(id)
	j.maybe = true
	j.note("%s", how)
}

// ended enters that it has.
func (l *gearLedger) ended(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(id)
	if j.ended != 0 {
		l.wrong("%s\n    has ended again", j)
	}
	l.clock++
	j.ended, j.maybe = l.clock, false
	j.note("done")
	l.count["ended"]++
}

// bury enters that it is buried.
func (l *gearLedger) bury(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(id)
	j.buried, j.maybe = true, false
	j.note("buried")
	l.count["buried"]++
}

// grabbed enters that a worker was given a job, and reports whether it is a
// put's. What has no id yet is not looked at.
func (l *gearLedger) grabbed(who string, f *gearGiven) (put bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subOf(f.id, f.body)
	if s == nil {
		l.wrong("%s is given job %d with a body that nobody has sent: %.60q", who, f.id, f.body)
		return false
	}
	if what := s.differs(f); what != "" {
		l.wrong("%s is given job %d: %s\n    %s", who, f.id, what, s)
	}
	if s.epoch > time.Now().Unix() {
		l.wrong("%s is given job %d before its time\n    %s", who, f.id, s)
	}
	j := l.job(f.id)
	if j.ended != 0 {
		l.wrong("%s is given %s", who, j)
	}
	j.note("given to %s", who)
	l.count["given"]++
	return s.put
}

// A gearGiven is a job as the server gives it.
type gearGiven struct {
	id              uint64
	function, body  string
	unique, reducer string
}

// differs compares what is given with what was submitted.
func (s *gearSub) differs(f *gearGiven) string {
	switch {
	case f.function != s.function:
		return fmt.Sprintf("its function is %q", f.function)
	case f.unique != s.unique:
		return fmt.Sprintf("its unique is %q", f.unique)
	case f.reducer != s.reducer:
		return fmt.Sprintf("its reducer is %q", f.reducer)
	case f.body != s.body:
		return fmt.Sprintf("its body of %d bytes begins with %.60q", len(f.body), f.body)
	}
	return ""
}

// subOf returns the submit that has made the job with that body; nil if there is
// none. The caller holds mu.
func (l *gearLedger) subOf(id uint64, body string) *gearSub {
	tag, _, _ := strings.Cut(body, " ")
	order, err := strconv.ParseUint(tag, 10, 64)
	if err != nil {
		return nil
	}
	s := l.subs[order]
	if s == nil || s.body != body || s.id != 0 && s.id != id && s.unique != "-" {
		return nil
	}
	return s
}

func (l *gearLedger) summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tally(len(l.jobs), l.count)
}

// tally tells what has happened to so many jobs, and how often.
func tally(jobs int, count map[string]int) string {
	var all []string
	for what, n := range count {
		all = append(all, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(all)
	return fmt.Sprintf("%d jobs: %s", jobs, strings.Join(all, ", "))
}
