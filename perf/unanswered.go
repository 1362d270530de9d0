package perf

// What a load leaves open at its end: jobs that were due and never sent,
// commands without an answer, jobs that did not come. Their latencies are
// recorded as well, for else a server that stops answering would look fast.

import (
	"fmt"
	"time"
)

// recordMissed records the jobs of the timetable that were due before end and
// could not be sent: each took at least until then. There must have been such a
// timetable for d, or nothing is recorded.
func (d *driver) recordMissed(end int64) {
	if d.arrivals.interval == 0 {
		return
	}
	d.recorder.to = end
	first := d.starters[0].group
	for d.arrivals.next < end {
		due := d.arrivals.take()
		if due >= d.recorder.from {
			d.recorder.late++
		}
		d.recorder.latency(int(first.mix[0].script[0]), due, end)
		if len(first.mix[0].script) > 1 {
			d.recorder.latency(wholeScript, due, end)
		}
		if d.load.timesHandoff {
			d.recorder.latency(handoff, due, end)
		}
	}
}

// recordUnanswered records everything that has no answer now that the load is
// over: it took at least until now. Else a server that stops answering would show
// only the latencies from before. When jobs that never came to a worker were due
// is not known, only that it was before end.
func (l *load) recordUnanswered(end, now int64) {
	for _, d := range l.drivers {
		for _, c := range d.conns {
			for i := c.head; i != c.tail; i++ {
				d.recordUnansweredCommand(c, &c.ring[i&uint32(len(c.ring)-1)], now)
			}
			if c.gearman == nil {
				continue
			}
			for i := range c.gearman.slots { // those without a handle are in the ring
				if s := &c.gearman.slots[i]; s.used && s.handleLen > 0 {
					d.recorder.latency(wholeScript, s.began, now)
				}
			}
		}
	}
	if l.timesHandoff {
		for range l.missing() {
			l.drivers[0].recorder.latency(handoff, end-1, now)
		}
	}
}

// recordUnansweredCommand records a command that has no answer, and the script
// and handoff that it is part of.
func (d *driver) recordUnansweredCommand(c *conn, p *pending, now int64) {
	if c.group.isWorker && (p.op == opReserve || p.op == opGrab) { // it waits for work, which is no latency
		return
	}
	d.recorder.latency(int(p.op), p.due, now)
	if !c.group.isWorker && len(c.group.mix[p.script].script) > 1 {
		d.recorder.latency(wholeScript, p.began, now)
	}
	if p.op == opPut && d.load.timesHandoff {
		if ready := p.due + d.load.wire.puts[p.line].delay; ready < now {
			d.recorder.latency(handoff, ready, now)
		}
	}
}

// describeUnanswered says which commands have no answer; it is empty if all have.
func (l *load) describeUnanswered() string {
	n, example := 0, ""
	for _, c := range l.conns {
		if c.idle() {
			continue
		}
		more, first := l.unanswered(c)
		n += more
		if example == "" && more > 0 {
			example = fmt.Sprintf("%s %d sent %q", c.group.name, c.number, first)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s had no answer %v after the load; %s", plural(n, "command"), l.patience(), example)
}

// describeMissing says how many jobs were put and have not come to a worker; it
// is empty if all have.
func (l *load) describeMissing() string {
	n := l.missing()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("of the jobs that were put, %s did not come within %v after the load", count(float64(n)), l.patience())
}

// patience is how long answers and jobs are waited for after the load: the last
// job put may have the longest delay.
func (l *load) patience() time.Duration { return l.cfg.Grace + l.longestDelay }

// idle reports whether c is a worker that waits for jobs, and so waits for no
// answer in particular.
func (c *conn) idle() bool {
	return c.group.isWorker && (c.gearman != nil || c.head == c.tail || c.front().op == opReserve)
}

// missing counts the jobs that were put and have not come to a worker. It is 0
// where that is found out otherwise: for a job of Gearman's, its client's answer
// is missing. The ledger learns later whether they are lost; here they have not
// come to a worker that waits.
func (l *load) missing() (n int64) {
	if !l.hasWorkers || l.gearman {
		return 0
	}
	if l.ledger != nil {
		return l.ledger.missing()
	}
	for _, d := range l.drivers {
		n += d.put - d.done
	}
	for _, c := range l.conns {
		if c.group.isWorker && !c.idle() {
			n-- // its job has come; it is the delete that has no answer
		}
	}
	return max(n, 0)
}

// unanswered returns how many answers c waits for, and the command that has
// waited longest.
func (l *load) unanswered(c *conn) (n int, first string) {
	switch {
	case c.gearman != nil:
		return c.gearman.unanswered(c)
	case c.head != c.tail:
		first = l.wire.sent(c.front(), c.tube)
	}
	return int(c.tail - c.head), first
}
