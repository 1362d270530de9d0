package main_test

// The load of the crash test of Gearman's jobs.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A gearKind is a way to submit a job, in the background or not.
type gearKind struct {
	background, foreground gearType // 0: there is none
	pri                    uint32
}

var gearKinds = []gearKind{
	{gearSubmitJobHighBG, gearSubmitJobHigh, 0},
	{gearSubmitJobBG, gearSubmitJob, 1024},
	{gearSubmitJobLowBG, gearSubmitJobLow, 1<<32 - 1},
	{gearSubmitReduceBG, gearSubmitReduce, 1024},
	{gearSubmitJobEpoch, 0, 1024},
}

// A gearSubmitter submits jobs of all kinds, many at once.
type gearSubmitter struct {
	*gearRound
	who    string
	random *rand.Rand

	*gearConn
	uniques []*gearSub // with uniques, to come again
	open    []*gearSub // without an answer
	n       int
}

// over returns nil for an error that comes of the server's end.
func (r *gearRound) over(err error) error {
	if r.killed.Load() {
		return nil
	}
	return err
}

func (s *gearSubmitter) run() (err error) {
	if s.gearConn, err = s.gearRound.gearman(); err != nil {
		return s.over(err)
	}
	for {
		var b []byte
		for range 1 + s.random.IntN(8) {
			b = s.draw(b)
		}
		s.SetWriteDeadline(time.Now().Add(patience))
		if _, err := s.Write(b); err != nil {
			return s.over(err)
		}
		for len(s.open) > 0 {
			p, err := s.packet()
			if err != nil {
				return s.over(err)
			}
			if err := s.hear(p); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(s.random.IntN(6)) * time.Millisecond)
	}
}

// hear takes a packet down: an answer, or what comes of jobs in the foreground.
func (s *gearSubmitter) hear(p gearPacket) error {
	switch p.typ {
	case gearJobCreated:
		s.created(s.open[0], p.id())
		s.open = s.open[1:]
	case gearWorkComplete, gearWorkFail, gearWorkData:
	default:
		return fmt.Errorf("%s hears %.100s", s.who, p)
	}
	return nil
}

// draw appends what to submit.
func (s *gearSubmitter) draw(b []byte) []byte {
	s.n++
	sub := &gearSub{function: gearFunctions[s.random.IntN(len(gearFunctions))], body: mixedBody(s.random, s.who, s.n)}
	kind := s.random.IntN(len(gearKinds))
	var old *gearSub
	switch n := s.random.IntN(10); {
	case n < 3 && len(s.uniques) > 0:
		// Once more what was submitted already, and may be done by now.
		old = s.uniques[s.random.IntN(len(s.uniques))]
		sub.function, sub.unique = old.function, old.unique
	case n < 4:
		sub.unique = "-"
	case n < 8:
		sub.unique = fmt.Sprintf("%s %d %d", s.who, s.round, s.n)
	}
	sub.kind = gearKinds[kind]
	sub.reducer = fmt.Sprintf("reducer\xff %d", s.n)
	sub.epoch = time.Now().Unix() + []int64{-5, 1, 2, 4, 3600, 1 << 31}[s.random.IntN(6)]
	if old != nil && old.unique == "-" {
		// The workload is what tells one from another.
		sub.order, sub.body, sub.kind, sub.reducer, sub.epoch = old.order, old.body, old.kind, old.reducer, old.epoch
	}
	typ := sub.kind.background
	if s.random.IntN(4) == 0 && sub.kind.foreground != 0 {
		typ, sub.foreground = sub.kind.foreground, true
	}
	sub.pri = sub.kind.pri
	args := []string{sub.function, sub.unique}
	if typ == gearSubmitReduce || typ == gearSubmitReduceBG {
		args = append(args, sub.reducer, "0")
	} else {
		sub.reducer = ""
	}
	if typ == gearSubmitJobEpoch {
		args = append(args, fmt.Sprint(sub.epoch))
	} else {
		sub.epoch = 0
	}
	s.enter(sub)
	s.open = append(s.open, sub)
	if sub.unique != "" {
		if s.uniques = append(s.uniques, sub); len(s.uniques) > 30 {
			s.uniques = slices.Delete(s.uniques, 0, 10)
		}
	}
	return gearAppend(b, typ, append(args, sub.body)...)
}

// A gearWorker is a Gearman worker. It does not do all that it is given.
type gearWorker struct {
	*gearRound
	who    string
	random *rand.Rand

	*gearConn
	held []gearHeld
}

// A gearHeld is a job that a worker has.
type gearHeld struct {
	id  uint64
	put bool
}

func (w *gearWorker) run() error {
	for {
		if err := w.shift(); err != nil || w.killed.Load() {
			return w.over(err)
		}
	}
}

// shift is the time from one connect to the end of the connection.
func (w *gearWorker) shift() (err error) {
	w.held = nil
	if w.gearConn, err = w.gearRound.gearman(); err != nil {
		return err
	}
	defer w.gearConn.Close()
	for _, f := range gearFunctions {
		if w.random.IntN(4) > 0 {
			if err := w.ask(gearCanDo, f); err != nil {
				return err
			}
		}
	}
	for range 10 + w.random.IntN(200) {
		switch {
		case w.killed.Load():
			return nil
		case len(w.held) < 3 && w.random.IntN(2) == 0:
			err = w.grab()
		case len(w.held) > 0 && w.random.IntN(3) > 0:
			err = w.end()
		default:
			time.Sleep(time.Duration(w.random.IntN(4)) * time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *gearWorker) grab() error {
	if err := w.ask(gearGrabJobAll); err != nil {
		return err
	}
	p, err := w.packet()
	if err != nil {
		return err
	}
	f, ok := gearGivenBy(p)
	if !ok {
		if p.typ != gearNoJob {
			err = fmt.Errorf("%s: a grab was answered by %.100s", w.who, p)
		}
		return err
	}
	w.held = append(w.held, gearHeld{f.id, w.grabbed(w.who, f)})
	return nil
}

// gearGivenBy reads the answer to GRAB_JOB_ALL.
func gearGivenBy(p gearPacket) (f *gearGiven, ok bool) {
	switch p.typ {
	case gearJobAssignUniq:
		return &gearGiven{id: p.id(), function: p.args[1], unique: p.args[2], body: p.args[3]}, true
	case gearJobAssignAll:
		return &gearGiven{id: p.id(), function: p.args[1], unique: p.args[2], reducer: p.args[3], body: p.args[4]}, true
	}
	return nil, false
}

// end ends a job that it has, and waits until that is taken.
func (w *gearWorker) end() error {
	i := w.random.IntN(len(w.held))
	h := w.held[i]
	w.held = slices.Delete(w.held, i, i+1)
	b := gearAppend(nil, gearWorkComplete, gearHandleOf(h.id), "result")
	failed := w.random.IntN(5) == 0
	if failed {
		b = gearAppend(nil, gearWorkFail, gearHandleOf(h.id))
	}
	w.ending(h.id, fmt.Sprintf("%s ends it, failed %v", w.who, failed))
	w.SetWriteDeadline(time.Now().Add(patience))
	if _, err := w.Write(gearAppend(b, gearEchoReq, "taken")); err != nil {
		return err
	}
	if p, err := w.packet(); err != nil || p.typ != gearEchoRes {
		if err == nil {
			err = fmt.Errorf("%s: the end of job %d was answered by %s", w.who, h.id, p)
		}
		return err
	}
	if failed && h.put {
		w.bury(h.id)
	} else {
		w.ended(h.id)
	}
	return nil
}

// A gearProducer puts jobs into the functions that are tubes.
type gearProducer struct {
	*gearRound
	who    string
	random *rand.Rand
}

func (p *gearProducer) run() error {
	c, err := p.beanstalk()
	for n := 0; err == nil; n++ {
		s := &gearSub{put: true, function: gearFunctions[p.random.IntN(2)], body: mixedBody(p.random, p.who, n), pri: uint32(p.random.IntN(2000))}
		p.enter(s)
		var line string
		line, _, err = c.ask("use %s\r\nput %d 0 1000 %d\r\n%s", s.function, s.pri, len(s.body), s.body)
		if err == nil {
			line, _, err = c.answer()
		}
		var id uint64
		if err == nil {
			if _, err := fmt.Sscanf(line, "INSERTED %d", &id); err != nil {
				return fmt.Errorf("%s: put was answered %q", p.who, line)
			}
			p.created(s, id)
			time.Sleep(time.Duration(p.random.IntN(8)) * time.Millisecond)
		}
	}
	return p.over(err)
}

// A gearBeanstalk is a beanstalkd worker.
type gearBeanstalk struct {
	*gearRound
	who    string
	random *rand.Rand
}

func (w *gearBeanstalk) run() error {
	c, err := w.beanstalk()
	if err == nil {
		_, _, err = c.ask("watch %s", gearFunctions[0])
	}
	if err == nil {
		_, _, err = c.ask("watch %s", gearFunctions[1])
	}
	for err == nil {
		err = w.work(c)
	}
	return w.over(err)
}

// work reserves a job and does something with it.
func (w *gearBeanstalk) work(c *crashConn) error {
	line, body, err := c.ask("reserve-with-timeout 0")
	if err != nil || !strings.HasPrefix(line, "RESERVED ") {
		time.Sleep(time.Millisecond)
		return err
	}
	var id uint64
	fmt.Sscanf(line, "RESERVED %d", &id)
	w.gearLedger.mu.Lock()
	s := w.subOf(id, string(body))
	if s == nil {
		w.wrong("%s is given job %d with a body that nobody has sent: %.60q", w.who, id, body)
	}
	w.gearLedger.mu.Unlock()
	if s == nil {
		return nil
	}
	time.Sleep(time.Duration(w.random.IntN(4)) * time.Millisecond)
	switch w.random.IntN(4) {
	case 0:
		return c.says("RELEASED", "release %d %d 0", id, s.pri)
	case 1:
		w.ending(id, w.who+" buries it")
		if err := c.says("BURIED", "bury %d %d", id, s.pri); err != nil {
			return err
		}
		w.bury(id)
		return nil
	}
	w.ending(id, w.who+" deletes it")
	if err := c.says("DELETED", "delete %d", id); err != nil {
		return err
	}
	w.ended(id)
	return nil
}
