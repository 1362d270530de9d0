package main_test

// What a server has after a crash, compared with what it should have.

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check fails the test unless all is as it should be, and goes on from there.
func (g *gearCrash) check() {
	g.Helper()
	problems, err := g.compare()
	if err != nil {
		problems = append(problems, err.Error())
	}
	if log := g.server.log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		problems = append(problems, "a crash is no reason for a warning")
	}
	if problems = append(problems, g.take()...); len(problems) > 0 {
		g.crashTest.fail(problems...)
	}
}

// A gearFound is a job that is there, and what has made it.
type gearFound struct {
	*crashFound
	sub *gearSub
}

func (g *gearCrash) compare() (problems []string, err error) {
	c := g.dial()
	defer c.Close()
	line, _, err := c.ask("put 0 0 60 0\r\n")
	if err != nil {
		return nil, err
	}
	last, err := strconv.ParseUint(strings.TrimPrefix(line, "INSERTED "), 10, 64)
	if err == nil {
		err = c.says("DELETED", "delete %d", last)
	}
	if err != nil {
		return nil, err
	}
	ids := g.ids(last)
	all, err := c.look(ids)
	if err != nil {
		return nil, err
	}
	found := make(map[uint64]*gearFound)
	for _, f := range all {
		s := g.subOf(f.id, string(f.body))
		if s == nil {
			problems = append(problems, fmt.Sprintf("job %d is there (%s), and nobody has submitted it", f.id, f))
			continue
		}
		found[f.id] = &gearFound{f, s}
		problems = append(problems, g.compareFound(found[f.id])...)
	}
	for _, j := range g.jobs {
		if found[j.id] == nil && j.ended == 0 && !j.maybe && j.keeps() {
			problems = append(problems, "lost: "+j.String())
		}
	}
	if len(problems) > 0 {
		return problems, nil
	}
	g.settle(found)
	gc, err := gearDial(g.server.gearmanAddr())
	if err != nil {
		return nil, err
	}
	defer gc.Close()
	problems, err = g.compareStatus(gc, found, ids)
	if err == nil && len(problems) == 0 {
		problems, err = g.compareUniques(gc, found)
	}
	if err == nil && len(problems) == 0 {
		problems, err = g.compareGrabs(gc, found)
	}
	g.count["found"] += len(found)
	return problems, err
}

// ids lists those to look at: all that were given since the check before the
// last, and those of all jobs that should be there. Now and then it is all that
// were ever given.
func (g *gearCrash) ids(last uint64) (ids []uint64) {
	most := last
	for id := range g.jobs {
		most = max(most, id) // the foreground's may be given again
	}
	from := g.looked[0]
	if g.random.IntN(6) == 0 {
		from = 0
	}
	for id := uint64(1); id <= most; id++ {
		if j := g.jobs[id]; id >= from || j != nil && j.ended == 0 {
			ids = append(ids, id)
		}
	}
	g.looked = [2]uint64{g.looked[1], last}
	return ids
}

// compareFound compares a job that is there with the ledger.
func (g *gearCrash) compareFound(f *gearFound) (problems []string) {
	wrong := func(format string, args ...any) {
		text := fmt.Sprintf("job %d (%s): ", f.id, f.crashFound) + fmt.Sprintf(format, args...) + "\n    " + f.sub.String()
		if j := g.jobs[f.id]; j != nil {
			text += "\n    " + j.String()
		}
		problems = append(problems, text)
	}
	j := g.jobs[f.id]
	if want := mixedShown(strings.Replace(f.sub.function, "-dash", "%2Ddash", 1)); strings.ReplaceAll(want, "%252D", "%2D") != f.tube {
		wrong("its tube is %s, want %s", f.tube, want)
	}
	if f.state.pri != f.sub.pri {
		wrong("its priority is %d, want %d", f.state.pri, f.sub.pri)
	}
	switch {
	case j != nil && j.ended != 0:
		wrong("it has ended")
	// A job that was submitted in the background may be with a worker although its
	// submitter was not told of it.
	case f.sub.foreground && (j == nil || !j.keeps() && !j.maybe) && !g.lostBackground(f.sub):
		wrong("it was in the foreground")
	case j != nil && j.buried != (f.state.place == crashBuried) && !j.maybe:
		wrong("it is not where it was")
	case f.state.place == crashReserved:
		wrong("there is no worker")
	}
	if at := time.Unix(f.sub.epoch, 0); f.sub.epoch != 0 && f.state.place != crashBuried {
		if f.state.place == crashDelayed && f.at.lo.After(at.Add(time.Second)) {
			wrong("its time has come at %s", at.Format(time.StampMilli))
		}
		if f.state.place == crashReady && f.at.hi.Before(at) {
			wrong("its time comes at %s", at.Format(time.StampMilli))
		}
	} else if f.state.place == crashDelayed {
		wrong("it has no time to wait for")
	}
	return problems
}

// lostBackground tells whether there is a submit in the background, not
// answered, that may have made s's job one of the background.
func (g *gearCrash) lostBackground(s *gearSub) bool {
	for _, o := range g.subs {
		if o.id == 0 && !o.foreground && o.function == s.function && o.unique == s.unique && s.unique != "" {
			return true
		}
	}
	return false
}

// settle has the ledger know what is there for certain.
func (g *gearCrash) settle(found map[uint64]*gearFound) {
	g.gearLedger.mu.Lock()
	defer g.gearLedger.mu.Unlock()
	for id, f := range found {
		j := g.jobs[id]
		if j == nil {
			j = &gearJob{id: id}
			j.note("found, it was not answered")
			g.jobs[id] = j
		}
		if !slices.Contains(j.subs, f.sub) {
			f.sub.id = id
			j.subs = append([]*gearSub{f.sub}, j.subs...)
		}
		for _, s := range j.subs {
			s.foreground = false // nobody waits any more
		}
		j.maybe, j.buried = false, f.state.place == crashBuried
	}
	for id, j := range g.jobs {
		if found[id] == nil && j.ended == 0 {
			g.gone[id] = !j.keeps()
			delete(g.jobs, id)
		}
	}
	for sent, s := range g.subs {
		if j := g.jobs[s.id]; s.id == 0 || j == nil || j.ended != 0 {
			if s.unique != "-" {
				delete(g.subs, sent)
			}
		}
	}
}

// compareStatus asks for the status of handles that were given.
func (g *gearCrash) compareStatus(c *gearConn, found map[uint64]*gearFound, ids []uint64) (problems []string, err error) {
	var b []byte
	for _, id := range ids {
		b = gearAppend(b, gearGetStatus, gearHandleOf(id))
	}
	go c.Write(b)
	for _, id := range ids {
		p, err := c.packet()
		if err != nil {
			return nil, err
		}
		known := "0"
		if f := found[id]; f != nil && f.state.place != crashBuried {
			known = "1"
		}
		if want := fmt.Sprintf("STATUS_RES #%d|%s|0|0|0", id, known); p.String() != want {
			problems = append(problems, fmt.Sprintf("%s, want %s", p, want))
		}
	}
	return problems, nil
}

// compareUniques submits some jobs again, which have to be known by their
// uniques.
func (g *gearCrash) compareUniques(c *gearConn, found map[uint64]*gearFound) (problems []string, err error) {
	n := 0
	for id, f := range found {
		j := g.jobs[id]
		if f.sub.unique == "" || f.sub.put || f.state.place == crashBuried || f.state.buries > 0 || n > 200 {
			continue
		}
		n++
		body := "another body"
		if f.sub.unique == "-" {
			body = f.sub.body
		} else {
			if err := c.ask(gearGetStatusUnique, f.sub.unique); err != nil {
				return nil, err
			}
			p, err := c.packet()
			if err != nil {
				return nil, err
			}
			if want := fmt.Sprintf("STATUS_RES_UNIQUE %s|1|0|0|0|0", f.sub.unique); p.String() != want {
				problems = append(problems, fmt.Sprintf("%s, want %s\n    %s", p, want, j))
			}
		}
		if err := c.ask(gearSubmitJobLowBG, f.sub.function, f.sub.unique, body); err != nil {
			return nil, err
		}
		p, err := c.packet()
		if err != nil {
			return nil, err
		}
		if p.typ != gearJobCreated || p.id() != id {
			return append(problems, fmt.Sprintf("submitted again, it is %s\n    %s", p, j)), nil
		}
	}
	g.count["uniques"] += n
	return problems, nil
}

// compareGrabs has a worker take all jobs that are ready. They have to come in
// their order, with all that they have. Then it goes, and they are there again.
func (g *gearCrash) compareGrabs(c *gearConn, found map[uint64]*gearFound) (problems []string, err error) {
	asked := time.Now()
	for _, f := range gearFunctions {
		if err := c.ask(gearCanDo, f); err != nil {
			return nil, err
		}
	}
	var order []*gearFound
	got := make(map[uint64]bool)
	for {
		if err := c.ask(gearGrabJobAll); err != nil {
			return nil, err
		}
		p, err := c.packet()
		if err != nil {
			return nil, err
		}
		given, ok := gearGivenBy(p)
		if !ok {
			if p.typ != gearNoJob {
				return nil, fmt.Errorf("a grab was answered by %.100s", p)
			}
			break
		}
		f := found[given.id]
		if f == nil || got[given.id] || f.state.place == crashBuried {
			problems = append(problems, fmt.Sprintf("grabbed: %.200s, which should not be", p))
			continue
		}
		got[given.id] = true
		if what := f.sub.differs(given); what != "" {
			problems = append(problems, fmt.Sprintf("job %d: %s\n    %s", given.id, what, g.jobs[given.id]))
		}
		if f.sub.epoch > time.Now().Unix() {
			problems = append(problems, fmt.Sprintf("job %d comes before its time\n    %s", given.id, f.sub))
		}
		if f.sub.epoch < asked.Unix()-1 {
			order = append(order, f)
		}
	}
	if !slices.IsSortedFunc(order, func(a, b *gearFound) int {
		return cmp.Or(cmp.Compare(a.sub.pri, b.sub.pri), cmp.Compare(a.id, b.id))
	}) {
		text := "the jobs do not come in their order:"
		for _, f := range order {
			text += fmt.Sprintf(" %d/%d", f.sub.pri, f.id)
		}
		problems = append(problems, text)
	}
	for id, f := range found {
		if !got[id] && f.state.place != crashBuried && f.sub.epoch < asked.Unix()-1 {
			problems = append(problems, fmt.Sprintf("it is not given to a worker: %s", g.jobs[id]))
		}
	}
	g.count["grabbed"] += len(got)
	c.Close()
	b := g.dial()
	defer b.Close()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if stats, err := b.stats("stats"); err != nil || stats["current-jobs-reserved"] == 0 {
			return problems, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the jobs of a worker that has gone do not come back")
		}
	}
}

// thin has most jobs done that are ready, so that there are not ever more.
func (g *gearCrash) thin() {
	g.Helper()
	w, b := gearClientOf(g.T, g.server.gearmanAddr()), g.server.dial()
	for _, f := range gearFunctions {
		w.send("CAN_DO " + f)
	}
	for {
		w.send("GRAB_JOB_ALL")
		p := w.next()
		if p.typ == gearNoJob {
			break
		}
		if g.random.IntN(10) > 0 {
			w.send("WORK_COMPLETE " + p.args[0] + "|")
			g.ended(p.id())
		}
	}
	w.settle()
	w.Close()
	for id, j := range g.jobs {
		if j.buried && j.ended == 0 {
			b.says(fmt.Sprintf("delete %d\n", id), "DELETED\n")
			g.ended(id)
		}
	}
	b.Close()
}

// finish waits for the jobs whose time comes soon, which a worker that sleeps
// has to be told of, and does all jobs.
func (g *gearCrash) finish() {
	g.Helper()
	w := gearClientOf(g.T, g.server.gearmanAddr())
	soon := make(map[uint64]*gearSub)
	b := g.server.dial()
	for id, j := range g.jobs {
		if j.ended != 0 {
			continue
		}
		if j.buried {
			b.says(fmt.Sprintf("kick-job %d\n", id), "KICKED\n")
		}
		if s := j.subs[0]; s.epoch < time.Now().Unix()+30 || j.buried {
			soon[id] = s
		}
	}
	for _, f := range gearFunctions {
		w.send("CAN_DO " + f)
	}
	for len(soon) > 0 {
		w.send("GRAB_JOB_ALL")
		p := w.next()
		f, ok := gearGivenBy(p)
		if !ok {
			if p.typ != gearNoJob {
				g.Fatalf("a grab was answered by %.100s", p)
			}
			w.says("PRE_SLEEP", "NOOP")
			continue
		}
		s := soon[f.id]
		if s == nil {
			g.Fatalf("given at the end: %.100s", p)
		}
		delete(soon, f.id)
		if what := s.differs(f); what != "" {
			g.Errorf("job %d: %s\n    %s", f.id, what, s)
		}
		if now := time.Now(); s.epoch > now.Unix() && !g.jobs[f.id].buried {
			g.Errorf("job %d comes before its time\n    %s", f.id, s)
		}
		w.send("WORK_COMPLETE " + p.args[0] + "|")
	}
	w.settle()
}
