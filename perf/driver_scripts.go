package perf

// How scripts move on: beginning one, sending its next command, taking the
// answer. All of it is on the hot path.

import (
	"bytes"
	"fmt"
	"time"
)

// begin begins a script on c that was due at due, or holds it back while c has
// too much to write.
func (d *driver) begin(c *conn, due int64) {
	if len(c.out) >= maxUnwritten {
		c.heldBack++
		return
	}
	g := c.group
	p := pending{due: due, began: due, script: g.order[c.nextScript]}
	if c.nextScript++; c.nextScript == len(g.order) {
		c.nextScript = 0
	}
	if c.quota > 0 {
		c.quota--
	}
	c.running++
	if !g.isWorker {
		d.active++
	}
	d.send(c, &p)
}

// beginHeld begins what begin has held back. It is due now, which hides no wait:
// in an open loop nothing is held back here, since room leaves it in the
// timetable.
func (d *driver) beginHeld(c *conn) {
	n := c.heldBack
	c.heldBack = 0
	for now := clock(); n > 0; n-- {
		if c.group.isWorker || !d.stopping && c.quota != 0 {
			d.begin(c, now)
		}
	}
}

// send appends the next command of p's script to c's output.
func (d *driver) send(c *conn, p *pending) {
	w := d.load.wire
	p.op = c.group.mix[p.script].script[p.step]
	switch {
	case c.gearman != nil:
		d.sendPacket(c, p)
	case p.op == opPut:
		d.putJob(c, p)
	default:
		c.out = w.command(c.out, p.op, p.id[:p.idLen], c.tube)
		if d.load.ledger != nil {
			d.load.ledger.sending(c, p.op, p.number)
		}
	}
	c.push(p)
	d.markDirty(c)
}

// markDirty notes that c has something to write.
func (d *driver) markDirty(c *conn) {
	if !c.dirty {
		c.dirty = true
		d.dirty = append(d.dirty, c)
	}
}

// putJob appends a put and its body.
func (d *driver) putJob(c *conn, p *pending) {
	w := d.load.wire
	p.line = int32(c.nextPut)
	if c.nextPut++; c.nextPut == len(w.puts) {
		c.nextPut = 0
	}
	var body []byte
	c.out, body = w.put(c.out, int(p.line), c.nextBody)
	c.nextBody = (c.nextBody + stride) % variety
	if len(body) >= headerReady {
		stampReady(body, p.due+w.puts[p.line].delay)
	}
	if len(body) >= headerFrom {
		stampFrom(body, c.number)
	}
	if d.load.ledger != nil {
		p.number = d.load.ledger.next(c.tube, w.puts[p.line].delay, w.puts[p.line].pri)
		stampCheck(body, p.number)
	}
}

// answered handles the answer to the oldest command in flight on c.
func (d *driver) answered(c *conn, r *reply, now int64) error {
	if c.head == c.tail {
		return d.connError(c, fmt.Errorf("the server says %s, though nothing was asked", quote(r.line)))
	}
	p := *c.front() // a copy, since its place may be taken by what is sent next
	c.head++
	spec := &ops[p.op]
	if r.kind != spec.want && (r.kind == unexpected || r.kind != spec.other) {
		switch {
		case r.kind == deadlineSoon && (p.op == opReserve || p.op == opReserveNow) && c.hasJob():
			p.due = now
			d.send(c, &p)
			return nil
		case d.load.ledger != nil && d.load.ledger.excused(c, &p, r, now):
			d.giveUpJob(c, &p, now)
			return nil
		}
		return d.connError(c, fmt.Errorf("sent %q, got %s%s", d.load.wire.sent(&p, c.tube), quote(r.line), d.hintFor(&p, r, now)))
	}
	if r.kind == timedOut {
		d.tubesEmpty(c, &p, r, now)
		return nil
	}
	d.answers++
	if d.recorder.inWindow(now) {
		d.recorder.answers++
	}
	if !c.group.isWorker || p.op != opReserve { // how long a worker waited for work is no latency
		d.recorder.latency(int(p.op), p.due, now)
	}

	if ledger := d.load.ledger; ledger != nil {
		ledger.answered(c, &p, r, now)
	}
	switch p.op {
	case opPut:
		d.put++
		p.keepID(r.id)
	case opReserve, opReserveNow:
		p.keepID(r.id)
		if len(r.body) >= headerFrom {
			p.from = fromOf(r.body)
			if d.load.timesHandoff && d.load.ledger == nil { // a check shows no latencies
				d.recorder.handoff(readyOf(r.body), int64(d.load.longestDelay), now)
			}
		}
	case opDelete:
		d.done++
	case opPeek:
		if r.kind == found && !bytes.Equal(r.id, p.id[:p.idLen]) {
			return d.connError(c, fmt.Errorf("sent %q, got %s", d.load.wire.sent(&p, c.tube), quote(r.line)))
		}
	}
	if p.op == c.group.counted {
		d.jobs++
		if d.recorder.inWindow(now) {
			d.recorder.jobs++
			d.recorder.last = now
		}
	}
	if p.step++; int(p.step) < len(c.group.mix[p.script].script) {
		p.due = now
		d.send(c, &p)
		return nil
	}
	d.end(c, &p, now)
	return nil
}

// tubesEmpty has c take no more jobs, as noJob does for Gearman. The TIMED_OUT
// counts neither as an operation nor as a latency: how often connections ask in
// vain depends on their number.
func (d *driver) tubesEmpty(c *conn, p *pending, r *reply, now int64) {
	if ledger := d.load.ledger; ledger != nil {
		ledger.answered(c, p, r, now)
	}
	c.quota = 0
	c.running--
	d.active--
}

// hasJob reports whether c may have a job on the server, which allows it to
// answer DEADLINE_SOON: then a command that ends or prolongs the reservation has
// been sent and has no answer yet.
func (c *conn) hasJob() bool {
	for i := c.head; i != c.tail; i++ {
		switch c.ring[i&uint32(len(c.ring)-1)].op {
		case opDelete, opRelease, opBury, opTouch:
			return true
		}
	}
	return false
}

// hintFor returns advice on an answer that ends a load, from what is known of the
// script; see hint.
func (d *driver) hintFor(p *pending, r *reply, now int64) string {
	ttr := time.Duration(d.load.cfg.TTR) * time.Second
	if r.kind == notFound && now-p.began >= int64(ttr) {
		return fmt.Sprintf("; the job may have outlived its --ttr of %d s", d.load.cfg.TTR)
	}
	return hint(string(r.line))
}

// giveUpJob ends p's script: another client was given its job and will finish it.
func (d *driver) giveUpJob(c *conn, p *pending, now int64) {
	d.answers++
	if !c.group.isWorker {
		d.end(c, p, now)
		return
	}
	c.running--
	d.begin(c, now)
}

// keepID keeps a job's id for the commands that follow. It has at most 20 digits
// (isID).
func (p *pending) keepID(id []byte) { p.idLen = uint8(copy(p.id[:], id)) }

// end ends p's script and begins what follows from that.
func (d *driver) end(c *conn, p *pending, now int64) {
	g := c.group
	c.running--
	if g.isWorker { // goes on until the load quits, since others may still put
		d.begin(c, now)
		if d.load.rate == 0 && !d.stopping {
			d.releaseProducer(p.from, now)
		}
		return
	}
	d.active--
	if len(g.mix[p.script].script) > 1 {
		d.recorder.latency(wholeScript, p.began, now)
	}
	if g.repeats && !d.stopping && c.quota != 0 {
		d.begin(c, now)
	}
}
