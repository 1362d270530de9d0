package main_test

// The workers of the random test of both protocols.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// A mixedWorker is a Gearman worker that has several jobs at once.
type mixedWorker struct {
	*mixedRun
	who    string
	random *rand.Rand

	*gearConn
	can    map[string]int // its functions, and their timeouts in seconds
	holds  []*mixedHold
	asleep bool
}

func (w *mixedWorker) run() error {
	for !w.stopped() {
		if err := w.connect(); err != nil {
			return err
		}
		for turns := 5 + w.random.IntN(150); turns > 0 && !w.stopped(); turns-- {
			if err := w.turn(); err != nil {
				return err
			}
		}
		for _, h := range w.holds {
			w.giveUp(h, "leaves")
		}
		mixedHangUp(w.random, w.gearConn)
	}
	return nil
}

func (w *mixedWorker) connect() (err error) {
	w.can, w.holds, w.asleep = make(map[string]int), nil, false
	if w.gearConn, err = gearDial(w.s.gearmanAddr()); err != nil {
		return err
	}
	var b []byte
	for _, f := range mixedFunctions {
		switch w.random.IntN(6) {
		case 0:
		case 1:
			w.can[f] = 1
			b = gearAppend(b, 23, f, "1")
		default:
			w.can[f] = 0
			b = gearAppend(b, gearCanDo, f)
		}
	}
	_, err = w.Write(b)
	return err
}

func (w *mixedWorker) turn() error {
	switch {
	case len(w.can) == 0:
		return w.sleep()
	case len(w.holds) < 4 && (len(w.holds) == 0 || w.random.IntN(3) == 0):
		return w.grab()
	}
	i := w.random.IntN(len(w.holds))
	h := w.holds[i]
	switch w.random.IntN(6) {
	case 0, 1:
		return w.part(i, h)
	case 2:
		time.Sleep(time.Duration(w.random.IntN(4)) * time.Millisecond)
		return nil
	}
	return w.end(i, h)
}

// sleep says PRE_SLEEP and waits for a moment.
func (w *mixedWorker) sleep() error {
	if err := w.ask(gearPreSleep); err != nil {
		return err
	}
	w.SetReadDeadline(time.Now().Add(time.Duration(w.random.IntN(20)) * time.Millisecond))
	if _, err := w.in.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	} else if err != nil {
		return err
	}
	p, err := w.packet()
	if err == nil && p.typ != gearNoop {
		err = fmt.Errorf("asleep, it hears %s", p)
	}
	return err
}

// answer reads the next packet that is no NOOP.
func (w *mixedWorker) answer() (gearPacket, error) {
	for {
		if p, err := w.packet(); err != nil || p.typ != gearNoop {
			return p, err
		}
	}
}

func (w *mixedWorker) grab() error {
	asked := time.Now()
	if err := w.ask([]gearType{9, 30, gearGrabJobAll}[w.random.IntN(3)]); err != nil {
		return err
	}
	p, err := w.answer()
	if err != nil {
		return err
	}
	given := &mixedGiven{id: p.id()}
	none := ""
	switch p.typ {
	case gearNoJob:
		return w.sleep()
	case gearJobAssign:
		given.tube, given.body = p.args[1], p.args[2]
	case gearJobAssignUniq:
		given.tube, given.unique, given.body = p.args[1], &p.args[2], p.args[3]
	case gearJobAssignAll:
		given.tube, given.unique, given.reducer, given.body = p.args[1], &p.args[2], &p.args[3], p.args[4]
	default:
		return fmt.Errorf("a grab was answered by %.80s", p)
	}
	if p.typ == gearJobAssignUniq && *given.unique != "" {
		given.reducer = &none // in this test, what has a reducer has no unique
	}
	timeout, ok := w.can[given.tube]
	if !ok {
		return fmt.Errorf("it cannot do %.80s", p)
	}
	if h := w.take(given, w.who, asked, timeout); h != nil {
		w.holds = append(w.holds, h)
	}
	return nil
}

// report says something of a job and reports whether it is still the worker's.
func (w *mixedWorker) report(h *mixedHold, typ gearType, args ...string) (mine bool, err error) {
	b := gearAppend(nil, typ, append([]string{gearHandleOf(h.job.id)}, args...)...)
	token := fmt.Sprint(w.random.Uint64())
	w.SetWriteDeadline(time.Now().Add(patience))
	if _, err := w.Write(gearAppend(b, gearEchoReq, token)); err != nil {
		return false, err
	}
	for mine = true; ; {
		p, err := w.answer()
		switch {
		case err != nil:
			return false, err
		case p.typ == gearEchoRes && p.args[0] == token:
			return mine, nil
		case p.typ == gearError && p.args[0] == "JOB_NOT_FOUND":
			mine = false
		default:
			return false, fmt.Errorf("%s was answered by %s", typ, p)
		}
	}
}

// part sends a part of a job's result.
func (w *mixedWorker) part(i int, h *mixedHold) (err error) {
	h.parts++
	var mine bool
	if typ := []gearType{gearWorkData, gearWorkWarning, gearWorkStatus}[w.random.IntN(3)]; typ == gearWorkStatus {
		mine, err = w.report(h, typ, fmt.Sprint(h.parts), fmt.Sprint(h.serial))
	} else {
		filler := strings.Repeat("\x00", w.random.IntN(50))
		mine, err = w.report(h, typ, fmt.Sprintf("part %d %d %d %s", h.job.id, h.serial, h.parts, filler))
	}
	if err == nil && !mine {
		w.lapse(h)
		w.holds = slices.Delete(w.holds, i, i+1)
	}
	return err
}

// end ends a job.
func (w *mixedWorker) end(i int, h *mixedHold) error {
	e := mixedEnd{typ: gearWorkComplete, data: fmt.Sprintf("done %d by %s", h.job.id, w.who)}
	switch w.random.IntN(6) {
	case 0:
		e = mixedEnd{typ: gearWorkFail}
	case 1:
		e.typ = gearWorkException
	case 2:
		e.data = ""
	case 3:
		e.data += strings.Repeat("\x00", w.random.IntN(20000))
	}
	args := []string{e.data}
	if e.typ == gearWorkFail {
		args = nil
	}
	w.ending(h.job.id, w.who, e)
	w.giveUp(h, "ends it with "+e.typ.String())
	w.holds = slices.Delete(w.holds, i, i+1)
	if w.random.IntN(30) == 0 {
		// Whether it has arrived is not known.
		w.ask(e.typ, append([]string{gearHandleOf(h.job.id)}, args...)...)
		w.ended(h.job.id, w.who, e.typ, false)
		for _, h := range w.holds {
			w.giveUp(h, "leaves")
		}
		mixedHangUp(w.random, w.gearConn)
		return w.connect()
	}
	mine, err := w.report(h, e.typ, args...)
	if err != nil {
		return err
	}
	if mine {
		w.ended(h.job.id, w.who, e.typ, true)
	} else {
		w.lapse(h)
	}
	return nil
}

// A mixedBeanstalk is a beanstalkd worker that has several jobs at once, and
// kicks and deletes others.
type mixedBeanstalk struct {
	*mixedRun
	who    string
	random *rand.Rand

	c     *crashConn
	tube  string
	holds []*mixedHold
}

func (w *mixedBeanstalk) run() error {
	for !w.stopped() {
		if err := w.connect(); err != nil {
			return err
		}
		for turns := 5 + w.random.IntN(150); turns > 0 && !w.stopped(); turns-- {
			if err := w.turn(); err != nil {
				return err
			}
		}
		for _, h := range w.holds {
			w.giveUp(h, "leaves")
		}
		w.c.Close()
	}
	return nil
}

func (w *mixedBeanstalk) connect() (err error) {
	w.holds = nil
	if w.c, err = crashDial(w.s.addrs[0]); err != nil {
		return err
	}
	w.tube = mixedTubes[w.random.IntN(len(mixedTubes))]
	for _, tube := range mixedTubes {
		if tube == w.tube || w.random.IntN(2) == 0 {
			if _, _, err := w.c.ask("watch %s", tube); err != nil {
				return err
			}
		}
	}
	return w.c.says("USING "+w.tube, "use %s", w.tube)
}

func (w *mixedBeanstalk) turn() error {
	switch n := w.random.IntN(20); {
	case n == 0:
		_, _, err := w.c.ask("kick %d", 1+w.random.IntN(5))
		return err
	case n == 1:
		_, _, err := w.c.ask("kick-job %d", w.someID(w.random.IntN(1000)))
		return err
	case n == 2:
		return w.callOff(w.someID(w.random.IntN(1000)))
	case n == 3:
		return w.reserve("reserve-job %d", w.someID(w.random.IntN(1000)))
	case len(w.holds) < 4 && (len(w.holds) == 0 || n < 9):
		return w.reserve("reserve-with-timeout %d", w.random.IntN(20)/19)
	case len(w.holds) == 0:
		return nil
	}
	return w.work(w.random.IntN(len(w.holds)))
}

// callOff deletes a job that it does not have.
func (w *mixedBeanstalk) callOff(id uint64) error {
	for _, h := range w.holds {
		if h.job.id == id {
			return nil
		}
	}
	w.ending(id, w.who, mixedEnd{gearWorkFail, ""})
	line, _, err := w.c.ask("delete %d", id)
	if err == nil && line == "DELETED" {
		w.ended(id, w.who, gearWorkComplete, true)
	} else if err == nil && line != "NOT_FOUND" {
		err = fmt.Errorf("delete was answered %q", line)
	}
	return err
}

func (w *mixedBeanstalk) reserve(format string, arg any) error {
	asked := time.Now()
	line, body, err := w.c.ask(format, arg)
	if err != nil {
		return err
	}
	given := &mixedGiven{body: string(body)}
	if _, err := fmt.Sscanf(line, "RESERVED %d", &given.id); err != nil {
		if line == "TIMED_OUT" || line == "NOT_FOUND" {
			return nil
		}
		if line == "DEADLINE_SOON" {
			return w.work(0)
		}
		return fmt.Errorf("%s was answered %q", format, line)
	}
	if h := w.take(given, w.who, asked, 0); h != nil {
		w.holds = append(w.holds, h)
	}
	return nil
}

// work does something with a job that it has.
func (w *mixedBeanstalk) work(i int) error {
	if i >= len(w.holds) {
		return nil
	}
	h := w.holds[i]
	id := h.job.id
	switch w.random.IntN(6) {
	case 0:
		time.Sleep(time.Duration(w.random.IntN(4)) * time.Millisecond)
		return nil
	case 1:
		return w.does(h, nil, "TOUCHED", "touch %d", id)
	case 2:
		w.holds = slices.Delete(w.holds, i, i+1)
		w.giveUp(h, "releases it")
		return w.does(h, nil, "RELEASED", "release %d %d %d", id, w.random.IntN(3000), w.random.IntN(8)/7)
	case 3:
		w.holds = slices.Delete(w.holds, i, i+1)
		w.burying(h)
		return w.does(h, func() { w.mixedLedger.buried(h) }, "BURIED", "bury %d %d", id, w.random.IntN(3000))
	}
	w.holds = slices.Delete(w.holds, i, i+1)
	w.ending(id, w.who, mixedEnd{gearWorkComplete, ""})
	w.giveUp(h, "deletes it")
	done := func() { w.ended(id, w.who, gearWorkComplete, true) }
	if w.random.IntN(30) == 0 {
		w.c.send(fmt.Appendf(nil, "delete %d\r\n", id))
		w.ended(id, w.who, gearWorkComplete, false)
		for _, h := range w.holds {
			w.giveUp(h, "leaves")
		}
		w.c.Close()
		return w.connect()
	}
	return w.does(h, done, "DELETED", "delete %d", id)
}

// does sends a command for a job that it has, and calls done when it was done.
func (w *mixedBeanstalk) does(h *mixedHold, done func(), want, format string, args ...any) error {
	line, _, err := w.c.ask(format, args...)
	switch {
	case err != nil:
		return err
	case line == want:
		if done != nil {
			done()
		}
	case line == "NOT_FOUND":
		w.lapse(h)
		w.holds = slices.DeleteFunc(w.holds, func(o *mixedHold) bool { return o == h })
	default:
		return fmt.Errorf("%s was answered %q", format, line)
	}
	return nil
}
