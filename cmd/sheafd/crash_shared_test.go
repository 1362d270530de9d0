package main_test

// The check of the shared tubes. Of each job it is asked which of the commands
// in flight on it explain what it has become; then whether these fit together.

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// crashFlight is what is known of the commands in flight.
type crashFlight struct {
	on       map[*crashJob][]*crashCommand
	happened map[*crashCommand]bool        // present when it is certain
	reserves []map[string]bool             // of each reserve, the tubes that it may take from
	cascade  bool                          // each may take what another one has given back
	taken    map[*crashEntry]int           // how many of them must have taken that job
	holds    map[*crashEntry][]*crashHold  // reservations that were answered
	holder   map[*crashCommand]*crashEntry // commands by who holds the job
}

func (t *crashTest) flight() *crashFlight {
	fl := &crashFlight{
		cascade: t.gentle,
		on:      make(map[*crashJob][]*crashCommand), happened: make(map[*crashCommand]bool),
		taken: make(map[*crashEntry]int), holds: make(map[*crashEntry][]*crashHold),
		holder: make(map[*crashCommand]*crashEntry),
	}
	for _, s := range t.sharers {
		for _, h := range s.holds {
			fl.holds[h.entry] = append(fl.holds[h.entry], h)
		}
		for _, c := range s.flying {
			if c.op == crashReserve {
				fl.reserves = append(fl.reserves, s.watches)
			}
			if c.job == nil {
				continue
			}
			e := t.ledger.byOrder[c.job.order]
			if fl.on[c.job] = append(fl.on[c.job], c); s.hold(e) != nil {
				fl.holder[c] = e
			}
			c.job.note("%s: %s in flight", s.name, c.line())
		}
	}
	return fl
}

// checkShared compares the shared tubes with the ledger, which goes on from
// there.
func (t *crashTest) checkShared(found []*crashFound, killed time.Time) (problems []string) {
	l := t.ledger
	fl := t.flight()
	byOrder := make(map[uint64]*crashFound)
	for _, f := range found {
		if l.byOrder[f.order] == nil {
			problems = append(problems, fmt.Sprintf("job %d should not be there, or has a wrong body: %s", f.id, f))
		} else if o := byOrder[f.order]; o != nil {
			problems = append(problems, fmt.Sprintf("jobs %d and %d are the same", o.id, f.id))
		}
		byOrder[f.order] = f
	}
	all := make([]*crashEntry, 0, len(l.byOrder))
	for _, e := range l.byOrder {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *crashEntry) int { return int(int64(a.job.order - b.job.order)) })
	for _, e := range all {
		if problem := t.checkEntry(e, byOrder[e.job.order], fl, killed); problem != "" {
			problems = append(problems, problem)
		}
	}
	problems = append(problems, t.checkFlight(fl)...)
	for order, e := range l.byOrder {
		if e.gone {
			delete(l.byOrder, order)
		}
	}
	for _, s := range t.sharers {
		s.holds, s.flying = nil, nil
	}
	return problems
}

// checkEntry compares one job with what was found, which may be nil.
func (t *crashTest) checkEntry(e *crashEntry, f *crashFound, fl *crashFlight, killed time.Time) (problem string) {
	j := e.job
	var deletes, ops []*crashCommand
	for _, c := range fl.on[j] {
		switch c.op {
		case crashDelete:
			deletes = append(deletes, c)
		case crashRelease, crashBury, crashKickJob, crashReserveJob:
			ops = append(ops, c)
		}
	}
	switch {
	case f == nil && (e.gone || !e.known):
		if !e.known {
			fl.happened[e.put] = false
		}
		t.ledger.forget(e)
		return ""
	case f == nil && len(deletes) == 0:
		return fmt.Sprintf("job %d is lost: %s%s", j.id, &e.crashState, crashPast(j))
	case f == nil:
		if len(deletes) == 1 {
			fl.happened[deletes[0]] = true
		}
		t.ledger.forget(e)
		return ""
	case e.gone:
		return fmt.Sprintf("job %d was deleted and is back: %s%s", j.id, f, crashPast(j))
	case j.id != 0 && j.id != f.id:
		return fmt.Sprintf("job %d has become job %d%s", j.id, f.id, crashPast(j))
	}
	if !e.known {
		fl.happened[e.put] = true
		e.known, j.id, j.born = true, f.id, diffSpan{e.put.sent, killed}
		e.apply(e.put, j.born, t.ledger.tick())
	}
	for _, c := range deletes {
		if fl.holder[c] != nil && !e.short() {
			fl.happened[c] = false
		}
	}
	before := e.crashRecord
	var fits []int
	var record crashRecord
	var first []string
	for mask := range 1 << len(ops) {
		got, what := e.try(f, ops, mask, fl, killed)
		if first == nil {
			first = what
		}
		if len(what) == 0 {
			if fits = append(fits, mask); len(fits) == 1 || got.reserves < record.reserves {
				record = got
			}
		}
	}
	if len(fits) == 0 {
		return crashWrong(j, &before.crashState, f, first)
	}
	if n := f.state.reserves - record.reserves; n > 0 {
		fl.taken[e] = n
	}
	if !e.short() {
		for i, c := range ops {
			has := 0
			for _, mask := range fits {
				has += mask >> i & 1
			}
			if has == 0 || has == len(fits) {
				fl.happened[c] = has > 0
			}
		}
	}
	// Go on from there.
	e.crashRecord = record
	e.reserves, e.timeouts = f.state.reserves, f.state.timeouts
	if f.state.place == crashReady {
		e.place = crashReady
	}
	e.claimed, e.mortal, e.maybe, e.seen = false, false, 0, 0
	j.note("after a crash %s", &e.crashState)
	return ""
}

// try compares f with e as it is after those of the commands that are in mask.
// The record lacks the reserves and timeouts that no answer told of.
func (e *crashEntry) try(f *crashFound, ops []*crashCommand, mask int, fl *crashFlight, killed time.Time) (got crashRecord, what []string) {
	got = e.crashRecord
	for i, c := range ops {
		if mask>>i&1 != 0 {
			got.apply(c, diffSpan{c.sent, killed}, 1<<63)
		}
	}
	want := got.crashState
	// Reserves in flight: one that has taken the job has it until the crash, or
	// until its TTR ends.
	most := 0
	if e.short() || fl.cascade {
		most = len(fl.reserves)
	} else if f.state.place == crashReady {
		most = min(1, len(fl.reserves))
	}
	taken := min(max(f.state.reserves-want.reserves, 0), most)
	want.reserves += taken
	if e.short() {
		most = e.maybe + taken
		for _, h := range fl.holds[e] {
			if !h.ends.After(killed) {
				most++
			}
		}
		want.timeouts += min(max(max(f.state.timeouts, e.seen)-want.timeouts, 0), most)
	}
	return got, e.job.differs(&want, f)
}

// checkFlight checks that what has happened fits together: each connection's
// commands happened in order, and as many reserves as there were.
func (t *crashTest) checkFlight(fl *crashFlight) (problems []string) {
	for _, s := range t.sharers {
		missing := -1
		for i, c := range s.flying {
			yes, known := fl.happened[c]
			if known && !yes && missing < 0 {
				missing = i
			}
			if known && yes && missing >= 0 {
				var lines []string
				for _, c := range s.flying {
					lines = append(lines, c.line())
				}
				problems = append(problems, fmt.Sprintf("%s: of its commands in flight, number %d did not happen, but number %d did:\n    %s",
					s.name, missing+1, i+1, strings.Join(lines, "\n    ")))
				break
			}
		}
	}
	// Each job that was taken needs a reserve of its own.
	var jobs []*crashEntry
	for e, n := range fl.taken {
		for range n {
			jobs = append(jobs, e)
		}
	}
	by := make([]int, len(fl.reserves)) // 1 + which of jobs it has taken
	var give func(n int, tried map[int]bool) bool
	give = func(n int, tried map[int]bool) bool {
		for i, watches := range fl.reserves {
			if watches[jobs[n].job.tube] && !tried[i] {
				if tried[i] = true; by[i] == 0 || give(by[i]-1, tried) {
					by[i] = n + 1
					return true
				}
			}
		}
		return false
	}
	for n, e := range jobs {
		if !give(n, make(map[int]bool)) {
			problems = append(problems, fmt.Sprintf("job %d was reserved once more than there were reserves for it%s", e.job.id, crashPast(e.job)))
		}
	}
	return problems
}
