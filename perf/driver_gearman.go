package perf

// What a driver does with Gearman's packets, as driver_scripts.go does with
// lines. All of it is on the hot path.

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A gearmanConn is what a connection of a Gearman load has besides the ring of
// commands in flight. Those are the ones that are answered in order: SUBMIT_JOB,
// SUBMIT_JOB_BG and GRAB_JOB. It belongs to the driver's goroutine.
type gearmanConn struct {
	// Of a client: what precedes the workload of each job; in that the digits by which
	// uniques differ, nil if there are none; the number of the last job, from which these
	// are made; its foreground jobs under way, and the indices of free slots.
	submit []byte
	digits []byte
	jobs   uint64
	slots  []slot
	free   []int32

	// Of a worker: whether it sleeps until a NOOP, and how many WORK_COMPLETE it
	// has sent since its last GRAB_JOB. A WORK_COMPLETE has no answer; it is known
	// to have been read when the next GRAB_JOB is answered. With a ledger, done is
	// the numbers of the jobs that are not confirmed so, oldest first.
	asleep      bool
	unconfirmed int32
	done        []uint64
}

// A slot is a foreground job under way.
type slot struct {
	pending
	used      bool
	size      int // of the workload
	handleLen int // 0 until JOB_CREATED was read
	handle    [maxHandle]byte
}

// The bytes that a unique may have: at least the digits of a job's number and of its
// connection's, at most what gearmand takes.
const (
	jobDigits   = 10
	leastUnique = jobDigits + 6
	mostUnique  = 64
)

// newGearmanConn makes that of the connection with that number. A client submits jobs to
// the function, with uniques of that many bytes; a worker has no function.
func newGearmanConn(g *group, function string, unique int, number int32) *gearmanConn {
	gc := &gearmanConn{jobs: rand.Uint64()} // another load may have left jobs
	if function == "" {
		return gc
	}
	gc.submit = append(gc.submit, function...)
	gc.submit = append(gc.submit, 0)
	if unique > 0 {
		text := fmt.Sprintf("%0*x%06x-", jobDigits, 0, number) + strings.Repeat("sheafperf-", mostUnique/10)
		gc.submit = append(gc.submit, text[:unique]...)
	}
	gc.submit = append(gc.submit, 0)
	if unique > 0 {
		gc.digits = gc.submit[len(function)+1:][:jobDigits]
	}
	gc.slots = make([]slot, g.depth)
	for i := range gc.slots {
		gc.free = append(gc.free, int32(i))
	}
	return gc
}

// slotOf returns the slot of the job under way with that handle, or nil.
func (gc *gearmanConn) slotOf(handle []byte) *slot {
	for i := range gc.slots {
		if s := &gc.slots[i]; s.is(handle) {
			return s
		}
	}
	return nil
}

func (s *slot) is(handle []byte) bool {
	return s.used && s.handleLen > 0 && bytes.Equal(s.handle[:s.handleLen], handle)
}

// leave frees a slot.
func (gc *gearmanConn) leave(s *slot) {
	s.used = false
	gc.free = append(gc.free, s.line)
}

// sendPacket appends the packet that is next in p's script. For a foreground job
// p.line becomes its slot; for a GRAB_JOB p.from becomes the number of
// WORK_COMPLETEs that its answer confirms.
func (d *driver) sendPacket(c *conn, p *pending) {
	switch p.op {
	case opSubmit, opSubmitBG:
		d.submit(c, p)
	case opGrab:
		c.out = appendPacketHeader(c.out, packetGrab, 0)
		p.from, c.gearman.unconfirmed = c.gearman.unconfirmed, 0
	}
}

// numberJob gives the job that is submitted next a unique of its own.
func (gc *gearmanConn) numberJob() {
	gc.jobs++
	for n, i := gc.jobs, len(gc.digits)-1; i >= 0; n, i = n>>4, i-1 {
		gc.digits[i] = "0123456789abcdef"[n&15]
	}
}

// submit appends a job.
func (d *driver) submit(c *conn, p *pending) {
	w, gc := d.load.wire, c.gearman
	size := w.puts[c.nextPut].size
	if c.nextPut++; c.nextPut == len(w.puts) {
		c.nextPut = 0
	}
	kind := packetSubmitBG
	if p.op == opSubmit {
		kind = packetSubmit
	}
	gc.numberJob()
	c.out = appendPacketHeader(c.out, kind, len(gc.submit)+size)
	c.out = append(c.out, gc.submit...)
	at := len(c.out)
	c.out = append(c.out, w.payload[c.nextBody:c.nextBody+size]...)
	body := c.out[at:]
	c.nextBody = (c.nextBody + stride) % variety
	if p.op == opSubmit {
		last := len(gc.free) - 1
		p.line, gc.free = gc.free[last], gc.free[:last]
		stampWorkload(body, c.number, p.line)
	}
	if d.load.ledger != nil {
		p.number = d.load.ledger.next(c.tube, 0, 0)
		stampCheck(body, p.number)
	}
	if p.op == opSubmit {
		gc.slots[p.line] = slot{pending: *p, used: true, size: size}
	}
}

// readPackets handles the packets in in, and returns the beginning of one that
// has not arrived whole.
func (d *driver) readPackets(c *conn, in []byte, now int64) ([]byte, error) {
	var p packet
	for {
		n, want, err := p.cut(in)
		if err != nil {
			return nil, d.connError(c, err)
		}
		if n == 0 {
			c.want = want
			return in, nil
		}
		if err := d.packetArrived(c, &p, now); err != nil {
			return nil, d.connError(c, err)
		}
		in = in[n:]
	}
}

// packetArrived handles a packet.
func (d *driver) packetArrived(c *conn, p *packet, now int64) error {
	switch p.kind {
	case packetNoop:
		// A NOOP to a worker that does not sleep crossed with its GRAB_JOB.
		if c.gearman.asleep {
			c.gearman.asleep = false
			d.begin(c, now)
		}
		return nil
	case packetWorkComplete:
		return d.result(c, p, now)
	}
	if c.head == c.tail {
		return fmt.Errorf("the server says %v, though nothing was asked", *p)
	}
	asked := *c.front() // a copy, since its place may be taken by what is sent next
	grab := asked.op == opGrab
	switch {
	case p.kind == packetCreated && !grab:
		c.head++
		return d.created(c, &asked, p, now)
	case p.kind == packetAssign && grab:
		c.head++
		return d.assigned(c, &asked, p, now)
	case p.kind == packetNoJob && grab:
		c.head++
		d.noJob(c, &asked, now)
		return nil
	}
	return fmt.Errorf("sent %v, got %v", packetOf(asked.op), *p)
}

func packetOf(o op) packetType {
	switch o {
	case opSubmit:
		return packetSubmit
	case opSubmitBG:
		return packetSubmitBG
	}
	return packetGrab
}

// countJobs counts jobs that are done, if o is the command that c's group counts
// by. A job is one operation, however many packets it took: how often workers are
// woken in vain is the server's doing, and must not raise its figures.
func (d *driver) countJobs(c *conn, o op, jobs int64, now int64) {
	if o != c.group.counted || jobs == 0 {
		return
	}
	d.answers += jobs
	d.jobs += jobs
	if d.recorder.inWindow(now) {
		d.recorder.answers += jobs
		d.recorder.jobs += jobs
		d.recorder.last = now
	}
}

// created handles the answer to a submit.
func (d *driver) created(c *conn, asked *pending, p *packet, now int64) error {
	handle, _, err := p.handle()
	if err != nil {
		return err
	}
	d.put++
	d.recorder.latency(int(asked.op), asked.due, now)
	if ledger := d.load.ledger; ledger != nil {
		if err := ledger.created(asked.number, handle); err != nil {
			return err
		}
	}
	if asked.op == opSubmitBG {
		d.countJobs(c, opSubmitBG, 1, now)
		d.end(c, asked, now)
		return nil
	}
	s := &c.gearman.slots[asked.line]
	s.handleLen = copy(s.handle[:], handle)
	return nil
}

// result handles the WORK_COMPLETE of a foreground job. Without a ledger a wrong
// one ends the load.
func (d *driver) result(c *conn, p *packet, now int64) error {
	handle, result, err := p.handle()
	if err != nil {
		return err
	}
	gc, ledger := c.gearman, d.load.ledger
	var s *slot
	if len(result) >= headerMark && submitterOf(result) == c.number {
		if i := slotOf(result); i >= 0 && int(i) < len(gc.slots) && gc.slots[i].is(handle) {
			s = &gc.slots[i]
		}
	}
	right := s != nil && markOf(result) == markResult && len(result) == s.size
	if ledger != nil {
		if s == nil {
			s = gc.slotOf(handle)
		}
		if s == nil {
			ledger.completedAgain(handle)
			return nil
		}
		ledger.result(s.number, handle, result, right)
	} else if !right {
		return fmt.Errorf("got %v, which is not the result of a job of this client", *p)
	}
	done := s.pending // a copy, since its slot may be taken by what is submitted next
	gc.leave(s)
	d.done++
	d.countJobs(c, opResult, 1, now)
	d.end(c, &done, now)
	return nil
}

// assigned handles a job that a worker was given: the job is done at once, and
// the next one asked for in the same write.
func (d *driver) assigned(c *conn, asked *pending, p *packet, now int64) error {
	handle, function, workload, err := p.job()
	if err != nil {
		return err
	}
	gc := c.gearman
	d.confirmed(c, asked, now)
	var number uint64
	if ledger := d.load.ledger; ledger != nil {
		if number, err = ledger.assigned(c, handle, function, workload); err != nil {
			return err
		}
	}
	if c.group.isWorker {
		if len(workload) < headerMark {
			return fmt.Errorf("job %s has a workload of %d bytes, which no client of this load has submitted", quote(handle), len(workload))
		}
		d.complete(c, handle, workload)
	} else {
		d.complete(c, handle, nil)
	}
	gc.unconfirmed++
	if ledger := d.load.ledger; ledger != nil {
		ledger.sending(c, opDelete, number)
		gc.done = append(gc.done, number)
	}
	if c.group.isWorker {
		d.send(c, &pending{due: now, began: now, script: asked.script})
		return nil
	}
	d.recorder.latency(int(opGrab), asked.due, now)
	d.end(c, asked, now)
	return nil
}

// complete appends a WORK_COMPLETE. The result is made of workload; without one
// it is empty, since nobody gets the result of a background job.
func (d *driver) complete(c *conn, handle, workload []byte) {
	c.out = appendPacketHeader(c.out, packetWorkComplete, len(handle)+1+len(workload))
	c.out = append(c.out, handle...)
	c.out = append(c.out, 0)
	at := len(c.out)
	c.out = append(c.out, workload...)
	if result := c.out[at:]; len(result) > 0 {
		markDone(result)
		// A workload that was damaged on the way must not be sealed as intact.
		if d.load.ledger != nil && len(workload) >= headerCheck && intactBody(workload) {
			stampCheck(result, numberOf(workload))
		}
	}
	d.markDirty(c)
}

// confirmed takes the answer to a GRAB_JOB as proof that the WORK_COMPLETEs
// before it were read.
func (d *driver) confirmed(c *conn, asked *pending, now int64) {
	d.countJobs(c, opGrab, int64(asked.from), now)
	if ledger := d.load.ledger; ledger != nil {
		gc := c.gearman
		if !c.group.isWorker { // the end of a foreground job is known by its client
			ledger.completed(gc.done[:asked.from])
		}
		gc.done = gc.done[:copy(gc.done, gc.done[asked.from:])]
	}
}

// noJob has a worker sleep, or has a connection that empties a queue stop.
func (d *driver) noJob(c *conn, asked *pending, now int64) {
	d.confirmed(c, asked, now)
	if !c.group.isWorker {
		c.quota = 0
		d.end(c, asked, now)
		return
	}
	if d.recorder.inWindow(now) {
		d.recorder.noJobs++
	}
	c.running--
	c.gearman.asleep = true
	c.out = appendPacketHeader(c.out, packetPreSleep, 0)
	d.markDirty(c)
}

// unfinished tells the ledger of the foreground jobs that were under way when the
// load ended. They are lost, unless the load was cut: then nobody knows. The
// server drops those that no worker has, since their clients are gone.
func (l *load) unfinished(cut bool) {
	for _, c := range l.conns {
		if c.gearman == nil {
			continue
		}
		for i := range c.gearman.slots {
			if s := &c.gearman.slots[i]; s.used {
				l.ledger.unfinished(s.number, s.handle[:s.handleLen], cut)
			}
		}
	}
}

// unanswered returns how many answers c waits for, and the first of the commands.
// A worker that sleeps waits for none.
func (gc *gearmanConn) unanswered(c *conn) (n int, first string) {
	n = int(c.tail - c.head)
	if n > 0 {
		first = packetOf(c.front().op).String()
		if len(gc.submit) > 0 {
			first += " " + string(gc.submit[:bytes.IndexByte(gc.submit, 0)])
		}
	}
	for i := range gc.slots {
		if s := &gc.slots[i]; s.used && s.handleLen > 0 {
			if n++; first == "" {
				first = fmt.Sprintf("SUBMIT_JOB, which JOB_CREATED %s was", s.handle[:s.handleLen])
			}
		}
	}
	return n, first
}
