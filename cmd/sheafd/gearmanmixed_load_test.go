package main_test

// The two protocols at random on the same tubes: clients and workers of both,
// which come and go as they like. A ledger knows what each job may be and what
// its clients may hear; at the end all that is left is compared with it, done,
// and its clients have to hear of that.
//
//	gearmanmixed_load_test.go      the test, and who submits and puts
//	gearmanmixed_workers_test.go   who works
//	gearmanmixed_ledger_test.go    what is known of the jobs
//
// A long search:    go test ./cmd/sheafd -run TestGearmanMixedLoad -mixed.time 5m -timeout 0
// The same choices: … -mixed.seed 123 (as far as the threads play along)

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	mixedTime = flag.Duration("mixed.time", 2*time.Second, "how long the random test of both protocols goes on")
	mixedSeed = flag.Uint64("mixed.seed", 0, "seed of the random test of both protocols; 0 draws one")
)

// mixedTubes are the tubes of both protocols. The last function is Gearman's
// alone, as far as it has to be named.
var (
	mixedTubes     = []string{"a", "b", "c", "d"}
	mixedFunctions = append(mixedTubes, "no tube: 100%")
)

// mixedShown is a function's name as beanstalkd's clients see it.
func mixedShown(function string) string {
	return strings.NewReplacer("%", "%25", " ", "%20", ":", "%3A").Replace(function)
}

// A mixedRun is the time of the load.
type mixedRun struct {
	*mixedLedger
	s       *server
	stop    chan struct{} // closed when nobody begins anything any more
	drained chan struct{} // closed when all jobs are done
}

func (r *mixedRun) stopped() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// complain notes that one of the load has failed.
func (r *mixedRun) complain(who string, err error) {
	if err != nil {
		r.mu.Lock()
		r.wrong(nil, "%s: %v", who, err)
		r.mu.Unlock()
	}
}

func TestGearmanMixedLoad(t *testing.T) {
	seed := cmp.Or(*mixedSeed, rand.Uint64()>>32)
	random := rand.New(rand.NewPCG(seed, 0))
	args := []string{"--shards", strconv.Itoa(1 + random.IntN(5))}
	if random.IntN(2) == 0 {
		args = append(args, "-b", t.TempDir(), "-s", "65536")
	}
	t.Logf("-mixed.seed %d, %q", seed, args)
	r := &mixedRun{
		mixedLedger: newMixedLedger(), s: startGearman(t, args...),
		stop: make(chan struct{}), drained: make(chan struct{}),
	}
	var others, quiet, clients sync.WaitGroup
	const each = 6
	for i := range each {
		draw := func(kind uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, kind<<32+uint64(i)+1)) }
		c := &mixedClient{mixedRun: r, who: fmt.Sprintf("client %d", i), random: draw(1)}
		quiet.Add(1)
		clients.Go(func() { r.complain(c.who, c.run(quiet.Done)) })
		w := &mixedWorker{mixedRun: r, who: fmt.Sprintf("worker %d", i), random: draw(2)}
		others.Go(func() { r.complain(w.who, w.run()) })
		b := &mixedBeanstalk{mixedRun: r, who: fmt.Sprintf("beanstalkd worker %d", i), random: draw(3)}
		others.Go(func() { r.complain(b.who, b.run()) })
		if i%3 == 0 {
			p := &mixedProducer{mixedRun: r, who: fmt.Sprintf("producer %d", i), random: draw(4)}
			others.Go(func() { r.complain(p.who, p.run()) })
		}
	}
	for end := time.Now().Add(*mixedTime); time.Now().Before(end) && !r.failed(); {
		time.Sleep(10 * time.Millisecond)
	}
	close(r.stop)
	others.Wait()
	quiet.Wait()
	if !r.failed() {
		r.settle(each)
		r.look()
		r.drain()
	}
	close(r.drained)
	clients.Wait()
	t.Log(r.summary())
	if len(r.problems) > 0 {
		t.Fatalf("-mixed.seed %d: %d problems:\n  %s", seed, len(r.problems), strings.Join(r.problems[:min(len(r.problems), 8)], "\n  "))
	}
	r.s.stop()
}

// settle waits until the server knows that all have gone but so many clients.
func (r *mixedRun) settle(clients int) {
	r.s.t.Helper()
	g := r.s.gearman()
	until(r.s.t, "the server knows who has gone", func() bool { return len(g.admin("workers", true)) == clients+1 })
	b := r.s.dial()
	b.awaits("current-jobs-reserved", "0")
	g.Close()
}

// look compares all jobs with the ledger.
func (r *mixedRun) look() {
	r.s.t.Helper()
	c, err := crashDial(r.s.addrs[0])
	if err != nil {
		r.s.t.Fatal(err)
	}
	defer c.Close()
	b := &client{c, r.s.t}
	b.says("use end\nput 0 0 60 0\n\n", "USING end\nINSERTED ")
	last, err := strconv.ParseUint(b.line(), 10, 64)
	if err != nil {
		r.s.t.Fatal(err)
	}
	b.says(fmt.Sprintf("delete %d\n", last), "DELETED\n")
	var ids []uint64
	for id := uint64(1); id < last; id++ {
		ids = append(ids, id)
	}
	found, err := c.look(ids)
	if err != nil {
		r.s.t.Fatal(err)
	}
	r.compare(found)
}

// drain has all jobs done, by workers of both protocols.
func (r *mixedRun) drain() {
	r.s.t.Helper()
	g, b := r.s.gearman(), r.s.dial()
	for _, tube := range mixedTubes {
		b.send("use " + tube + "\nkick 1000000\nkick 1000000\nwatch " + tube + "\n")
		for range 4 {
			b.line()
		}
	}
	for _, f := range mixedFunctions {
		g.send("CAN_DO " + f)
	}
	left := func() (all string) {
		for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
			all += " " + b.stats("current-jobs-"+state)
		}
		return all
	}
	last := time.Now() // that something was done
	for left() != " 0 0 0 0" {
		if time.Since(last) > patience {
			r.s.t.Fatalf("jobs that are ready, reserved, delayed, buried, and do not end: %s", left())
		}
		g.send("GRAB_JOB_UNIQ")
		if p := g.next(); p.typ == gearJobAssignUniq {
			last = time.Now()
			r.finish(p.id(), mixedEnd{gearWorkComplete, "at last"}, func() { g.says("WORK_COMPLETE " + p.args[0] + "|at last"); g.settle() })
		} else {
			r.unbury()
		}
		b.send("reserve-with-timeout 0\n")
		var id, size uint64
		if n, _ := fmt.Sscanf(b.line(), "RESERVED %d %d", &id, &size); n == 2 {
			last = time.Now()
			readBytes(b, int(size)+2)
			r.finish(id, mixedEnd{gearWorkComplete, ""}, func() { b.says(fmt.Sprintf("delete %d\n", id), "DELETED\n") })
		}
	}
	for _, line := range append(g.admin("show jobs", true), g.admin("show unique jobs", true)...) {
		r.s.t.Errorf("there is no job, but it shows %q", line)
	}
}

// finish has a job done.
func (r *mixedRun) finish(id uint64, e mixedEnd, do func()) {
	r.ending(id, "the last worker", e)
	do()
	r.ended(id, "the last worker", gearWorkComplete, true)
}

// unbury kicks the buried and delayed jobs of the function that no use can name.
func (r *mixedRun) unbury() {
	b := r.s.dial()
	defer b.Close()
	r.mu.Lock()
	var ids []uint64
	for _, j := range r.jobs {
		if j.ended == 0 {
			ids = append(ids, j.id)
		}
	}
	r.mu.Unlock()
	for _, id := range ids {
		b.send(fmt.Sprintf("kick-job %d\n", id))
		b.line()
	}
}

// mixedBody draws a body, which tells whose it is.
func mixedBody(random *rand.Rand, who string, n int) string {
	b := fmt.Appendf(nil, "%s %d ", who, n)
	size := random.IntN(200)
	if random.IntN(40) == 0 {
		size = random.IntN(60000)
	}
	words := [][]byte{{0}, []byte("\r\n"), []byte("delete 1\r\n"), []byte("\x00REQ"), []byte("hello")}
	for len(b) < size {
		if random.IntN(2) == 0 {
			b = append(b, words[random.IntN(len(words))]...)
		} else {
			b = append(b, bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN(1000))...)
		}
	}
	return string(b[:min(len(b), 60000)])
}

// A mixedClient submits jobs of all kinds, and hears of those in the foreground.
type mixedClient struct {
	*mixedRun
	who    string
	random *rand.Rand
	n      int // how many it has submitted

	*gearConn
	exceptions bool
	all        []*mixedSubmit            // of this connection
	out        map[uint64][]*mixedSubmit // those whose end it has to hear of
	parts      map[mixedPart]int         // the last it has heard of
	twice      map[uint64]bool           // jobs that it has submitted more than once
}

// A mixedPart is what the parts of a result have in common.
type mixedPart struct{ id, serial uint64 }

// run calls quiet when it begins nothing new.
func (c *mixedClient) run(quiet func()) error {
	for {
		if err := c.connect(); err != nil {
			quiet()
			return err
		}
		for turns := 5 + c.random.IntN(80); turns > 0 && !c.stopped(); turns-- {
			do := c.listen
			if len(c.out) < 15 && c.random.IntN(2) == 0 {
				do = c.submits
			}
			if err := do(); err != nil {
				quiet()
				return err
			}
		}
		if c.stopped() {
			break
		}
		c.mixedLedger.leave(c.all)
		mixedHangUp(c.random, c.gearConn)
	}
	quiet()
	defer c.gearConn.Close()
	<-c.drained // it may have long to wait, and reads nothing: less than would close it
	for end := time.Now().Add(patience); len(c.out) > 0; {
		if err := c.listen(); err != nil {
			return err
		}
		if time.Now().After(end) || c.failed() {
			return fmt.Errorf("%d jobs of which it hears no end", len(c.out))
		}
	}
	return nil
}

func (c *mixedClient) connect() (err error) {
	c.all, c.out, c.parts = nil, make(map[uint64][]*mixedSubmit), make(map[mixedPart]int)
	c.twice = make(map[uint64]bool)
	if c.gearConn, err = gearDial(c.mixedRun.s.gearmanAddr()); err != nil {
		return err
	}
	if c.exceptions = c.random.IntN(2) == 0; c.exceptions {
		if err := c.ask(gearOptionReq, "exceptions"); err != nil {
			return err
		}
		if p, err := c.packet(); err != nil || p.typ != gearOptionRes {
			return fmt.Errorf("OPTION_REQ was answered by %s, %v", p, err)
		}
	}
	return nil
}

// mixedHangUp ends a connection in one of several ways.
func mixedHangUp(random *rand.Rand, c *gearConn) {
	switch random.IntN(4) {
	case 0:
		c.reset()
	case 1:
		c.Write(gearAppend(nil, gearSubmitJobBG, "a", "", "never")[:random.IntN(20)])
	}
	c.Close()
}

// submits submits some jobs at once and reads the answers, and what else comes.
func (c *mixedClient) submits() error {
	var b []byte
	var sent []*mixedSubmit
	for range 1 + c.random.IntN(4) {
		s, typ, args := c.draw()
		c.submit(s)
		b = gearAppend(b, typ, args...)
		sent = append(sent, s)
	}
	c.all = append(c.all, sent...)
	c.SetWriteDeadline(time.Now().Add(patience))
	if _, err := c.Write(b); err != nil {
		return err
	}
	if c.random.IntN(50) == 0 {
		return nil // who leaves now has lost them; else the answers are read later
	}
	return c.answers()
}

// answers reads until all submits are answered.
func (c *mixedClient) answers() error {
	for _, s := range c.all {
		for s.id == 0 {
			p, err := c.packet()
			if err != nil {
				return err
			}
			if err := c.hears(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// draw draws what to submit.
func (c *mixedClient) draw() (s *mixedSubmit, typ gearType, args []string) {
	c.n++
	s = &mixedSubmit{task: true, tube: mixedFunctions[c.random.IntN(len(mixedFunctions))]}
	s.body = mixedBody(c.random, c.who, c.n)
	switch c.random.IntN(8) {
	case 0:
		s.unique = fmt.Sprintf("%s %d", c.who, c.n)
	case 1, 2, 3:
		// That of others, and it is in the same function most of the time.
		n := c.n/30*3 + c.random.IntN(3)
		s.unique, s.tube = fmt.Sprintf("shared %d", n), mixedFunctions[n%len(mixedFunctions)]
	case 4:
		n := c.n/30*3 + c.random.IntN(3)
		s.unique, s.tube = "-", mixedFunctions[n%len(mixedFunctions)]
		s.body = fmt.Sprintf("shared body %d", n)
	}
	kinds := []gearType{gearSubmitJobHigh, gearSubmitJob, gearSubmitJobLow, gearSubmitReduce}
	if s.foreground = c.random.IntN(3) > 0; !s.foreground {
		kinds = []gearType{gearSubmitJobHighBG, gearSubmitJobBG, gearSubmitJobLowBG, gearSubmitReduceBG, gearSubmitJobEpoch}
	}
	typ = kinds[c.random.IntN(len(kinds))]
	args = []string{s.tube, s.unique}
	switch typ {
	case gearSubmitReduce, gearSubmitReduceBG:
		// Coalesced with others, it would not be known whose reducer counts.
		s.unique, s.reducer = "", "reducer of "+c.who
		s.body = mixedBody(c.random, c.who, c.n)
		args = []string{s.tube, "", s.reducer, "0"}
	case gearSubmitJobEpoch:
		args = append(args, strconv.FormatInt(time.Now().Add(time.Duration(c.random.IntN(1500))*time.Millisecond).Unix(), 10))
	}
	return s, typ, append(args, s.body)
}

// listen reads what comes within a moment.
func (c *mixedClient) listen() error {
	for wait := time.Duration(c.random.IntN(6)) * time.Millisecond; ; wait = 0 {
		c.SetReadDeadline(time.Now().Add(wait + 100*time.Microsecond))
		if _, err := c.in.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return err
		}
		p, err := c.packet()
		if err == nil {
			err = c.hears(p)
		}
		if err != nil {
			return err
		}
	}
}

// hears takes a packet down.
func (c *mixedClient) hears(p gearPacket) error {
	if p.typ == gearJobCreated {
		for _, s := range c.all {
			if s.id == 0 {
				c.created(s, p.id())
				if s.id == 0 {
					return errors.New("no id")
				}
				if s.foreground {
					c.out[s.id] = append(c.out[s.id], s)
					c.twice[s.id] = c.twice[s.id] || len(c.out[s.id]) > 1
				}
				return nil
			}
		}
		return fmt.Errorf("%s answers nothing", p)
	}
	out := c.out[p.id()]
	if len(out) == 0 {
		return fmt.Errorf("%.80s: it waits for no such job", p)
	}
	switch p.typ {
	case gearWorkData, gearWorkWarning:
		return c.part(p.id(), p.args[1])
	case gearWorkStatus:
		return c.part(p.id(), fmt.Sprintf("part %d %s %s", p.id(), p.args[2], p.args[1]))
	case gearWorkComplete, gearWorkException:
		c.hear(out[0], mixedEnd{p.typ, p.args[1]}, c.exceptions)
	case gearWorkFail:
		c.hear(out[0], mixedEnd{p.typ, ""}, c.exceptions)
	default:
		return fmt.Errorf("it hears %.80s", p)
	}
	if c.out[p.id()] = out[1:]; len(out) == 1 {
		delete(c.out, p.id())
	}
	return nil
}

// part checks a part of a result: the parts of a worker come in order and
// without a gap, once for each time that the job was submitted here.
func (c *mixedClient) part(id uint64, text string) error {
	var of, serial uint64
	var n int
	if _, err := fmt.Sscanf(text, "part %d %d %d", &of, &serial, &n); err != nil || of != id {
		return fmt.Errorf("a part of the result of job %d is %.80q", id, text)
	}
	key := mixedPart{id, serial}
	if last, ok := c.parts[key]; ok && n != last+1 && (n != last || !c.twice[id]) {
		return fmt.Errorf("part %d of the result of job %d comes after part %d", n, id, last)
	}
	c.parts[key] = n
	return nil
}

// A mixedProducer puts jobs.
type mixedProducer struct {
	*mixedRun
	who    string
	random *rand.Rand
}

func (p *mixedProducer) run() error {
	n := 0
	for !p.stopped() {
		c, err := crashDial(p.s.addrs[0])
		if err != nil {
			return err
		}
		var all []*mixedSubmit
		tube := mixedTubes[p.random.IntN(len(mixedTubes))]
		if err := c.says("USING "+tube, "use %s", tube); err != nil {
			return err
		}
		for turns := 5 + p.random.IntN(100); turns > 0 && !p.stopped(); turns-- {
			n++
			s := &mixedSubmit{tube: tube, body: mixedBody(p.random, p.who, n), ttr: []int{1, 2, 1000}[p.random.IntN(3)]}
			all = append(all, s)
			p.submit(s)
			pri := []uint32{0, 5, 1024, 1<<32 - 1}[p.random.IntN(4)]
			_, err := fmt.Fprintf(c, "put %d %d %d %d\r\n%s\r\n", pri, p.random.IntN(8)/7, s.ttr, len(s.body), s.body)
			if err != nil {
				return err
			}
			if p.random.IntN(60) == 0 {
				break
			}
			line, _, err := c.answer()
			if err != nil {
				return err
			}
			var id uint64
			if _, err := fmt.Sscanf(line, "INSERTED %d", &id); err != nil {
				return fmt.Errorf("put was answered %q", line)
			}
			p.created(s, id)
			time.Sleep(time.Duration(p.random.IntN(2)) * time.Millisecond)
		}
		p.mixedLedger.leave(all)
		c.Close()
	}
	return nil
}
