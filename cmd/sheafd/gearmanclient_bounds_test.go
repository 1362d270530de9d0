package main_test

// Gearman's limits as others feel them: sizes that are announced, clients that
// send slowly or do not read, thousands of workers, idleness, orders to shut
// down.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// refused reads an ERROR with that code and then the end of the connection.
func (c *gearClient) refused(code string) {
	c.t.Helper()
	if p := c.next(); p.typ != gearError || p.args[0] != code {
		c.t.Fatalf("got %s, want ERROR %s", p, code)
	}
	c.ends()
}

// What a header announces costs no memory before it has come. What is more than
// can be is refused at once.
func TestGearmanSizesThatAreOnlyAnnounced(t *testing.T) {
	t.Parallel()
	const most = 128 << 20 // what the process may grow by, race detector included
	s := startGearman(t, "-z", "1G")
	other := s.gearman()
	other.settle()
	before := s.resident()
	grown := func(what string) {
		t.Helper()
		if n := s.resident() - before; n > most {
			t.Errorf("%s: memory grew by %d MiB", what, n>>20)
		}
	}
	for typ := range gearType(50) {
		for _, size := range []uint32{1<<32 - 1, 1<<31 + 1, 1<<30 + 1<<20} {
			c := s.gearman()
			c.Write(append(gearAppendHeader(nil, typ, size), "f\x00u\x00body"...))
			c.refused("ARGUMENT_TOO_LARGE")
			c.Close()
		}
	}
	grown("sizes that cannot be")
	// A size that may be, of which nothing comes.
	for i := range 200 {
		c := s.gearman()
		c.Write(append(gearAppendHeader(nil, []gearType{gearSubmitJob, gearSubmitJobBG, gearEchoReq, gearWorkData}[i%4], 1<<30), "f\x00u\x00body"...))
		if i%20 == 0 {
			c.gearConn.Write(bytes.Repeat([]byte("x"), 100<<10))
		}
	}
	other.settle()
	grown("sizes of which nothing comes")
	// As a header of an answer, or of nothing.
	for _, magic := range []string{"\x00RES", "\x00XXX", "\x00\x00\x00\x00"} {
		c := s.gearman()
		io.WriteString(c, magic+"\x00\x00\x00\x07\xff\xff\xff\xff")
		p := c.next()
		if p.typ != gearError {
			t.Errorf("%q: %s", magic, p)
		}
		c.ends()
	}
	other.settle()
}

// -z bounds workloads and results, to the byte.
func TestGearmanLargestJob(t *testing.T) {
	t.Parallel()
	const size = 100_000
	s := startGearman(t, "-z", fmt.Sprint(size))
	g, w := s.gearman(), s.gearman()
	body := strings.Repeat("x", size)
	w.send("CAN_DO f")
	g.says("SUBMIT_JOB f||"+body, "JOB_CREATED #1")
	w.works("JOB_ASSIGN_UNIQ #1|f||" + body)
	w.send("WORK_DATA #1|" + body)
	w.send("WORK_COMPLETE #1|" + body)
	g.gets("WORK_DATA #1|"+body, "WORK_COMPLETE #1|"+body)
	g.settle()
	g.send("SUBMIT_JOB f||" + body + "x")
	g.refused("ARGUMENT_TOO_LARGE")
	// A result that is too large would be so the next time: the job has failed.
	g = s.gearman()
	g.says("SUBMIT_JOB f||small", "JOB_CREATED #2")
	w.works("JOB_ASSIGN_UNIQ #2|f||small")
	w.send("WORK_COMPLETE #2|" + body + "x")
	w.refused("ARGUMENT_TOO_LARGE")
	g.gets("WORK_FAIL #2")
	s.stop()
}

// Packets and lines that come byte by byte, or a large one in drops, are served,
// and others meanwhile.
func TestGearmanSlowSenders(t *testing.T) {
	t.Parallel()
	s := startGearman(t, "-z", "2M")
	var all sync.WaitGroup
	for i := range 4 {
		c := s.gearman()
		all.Go(func() {
			b := gearAppend(nil, gearSubmitJobBG, fmt.Sprint("slow", i), "u", "hello")
			b = append(b, "version\r\n"...)
			b = gearAppend(b, gearGetStatusUnique, "u")
			b = gearAppend(b, gearEchoReq, strings.Repeat("e", 20))
			for _, one := range b {
				if _, err := c.Write([]byte{one}); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	large := s.gearman()
	body := strings.Repeat("0123456789abcdef", 1<<16)
	all.Go(func() {
		b := gearAppend(nil, gearSubmitJobBG, "large", "u", body)
		for part := range slices.Chunk(b, 40_000) {
			if _, err := large.Write(part); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(3 * time.Millisecond)
		}
	})
	quick := s.gearman()
	for range 20 {
		quick.settle()
		time.Sleep(time.Millisecond)
	}
	all.Wait()
	if p := large.next(); p.typ != gearJobCreated {
		t.Fatalf("the large job was answered by %s", p)
	}
	w := s.gearman()
	w.send("CAN_DO large")
	w.send("GRAB_JOB")
	if p := w.next(); p.typ != gearJobAssign || p.args[2] != body {
		t.Errorf("the large job comes as %.100s", p)
	}
	b := s.dial()
	b.awaits("total-jobs", "5")
	s.stop()
}

// A client that does not read what comes to it is closed when too much has, and
// nobody else waits for it: neither the worker nor others who wait for the same
// job.
func TestGearmanClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	const part = 1 << 20
	most := 3 * 256 << 20 // bytes that the process may grow by: the collector waits until there is twice as much
	if raced() {
		most *= 4 // it keeps several words for each
	}
	s := startGearman(t, "-z", "1M", "--shards", "2")
	deaf, g, w := s.gearman(), s.gearman(), s.gearman()
	deaf.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	deaf.says("SUBMIT_JOB f|u|x", "JOB_CREATED #1")
	g.says("SUBMIT_JOB f|u|x", "JOB_CREATED #1")
	w.send("CAN_DO f")
	w.works("JOB_ASSIGN_UNIQ #1|f|u|x")
	before := s.resident()
	heard := make(chan int)
	go func() {
		n := 0
		for {
			p, err := g.packet()
			if err != nil || p.typ != gearWorkData || len(p.args[1]) != part {
				t.Errorf("part %d came as %.100s, %v", n, p, err)
				break
			}
			if n++; p.args[1][0] == '!' {
				break
			}
		}
		heard <- n
	}()
	watcher := s.gearman()
	data := bytes.Repeat([]byte("x"), part)
	sent, grown := 0, 0
	for closed := false; !closed; sent++ {
		if sent > 2000 {
			t.Fatal("a client that does not read is never closed")
		}
		w.SetWriteDeadline(time.Now().Add(patience))
		if _, err := w.Write(gearAppend(nil, gearWorkData, gearHandleOf(1), string(data))); err != nil {
			t.Fatal(err)
		}
		w.settle()
		grown = max(grown, s.resident()-before)
		closed = len(watcher.admin("workers", true)) == 3
	}
	if sent < 32 {
		t.Errorf("it was closed after %d MiB", sent)
	}
	if grown > most {
		t.Errorf("after %d MiB the process has grown by %d MiB", sent, grown>>20)
	}
	t.Logf("after %d MiB it was closed, and the process had grown by %d MiB", sent, grown>>20)
	data[0] = '!'
	w.send("WORK_DATA #1|" + string(data))
	if n := <-heard; n != sent+1 {
		t.Errorf("who reads has heard %d parts of %d", n, sent+1)
	}
	w.send("WORK_COMPLETE #1|done")
	g.gets("WORK_COMPLETE #1|done")
	w.settle()
	s.stop()
}

// Answers that are not read hold back who has asked.
func TestGearmanClientsThatNeverRead(t *testing.T) {
	t.Parallel()
	const most = 100 << 20
	s := startGearman(t, "-z", "1M")
	other := s.gearman()
	for i := range 1000 {
		other.says(fmt.Sprintf("SUBMIT_JOB_BG f|%d|x", i), fmt.Sprintf("JOB_CREATED #%d", i+1))
	}
	before := s.resident()
	for _, request := range []string{
		"status\n", "show jobs\n", "nonsense\n",
		string(gearAppend(nil, gearGetStatus, gearHandleOf(1))),
		string(gearAppend(nil, gearEchoReq, strings.Repeat("e", 1000))),
	} {
		c := s.dialAt(s.gearmanAddr())
		c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		n := c.stuff(request)
		if grown := s.resident() - before; grown > most {
			t.Errorf("%d times %.20q unread: memory grew by %d MiB", n, request, grown>>20)
		}
		other.settle()
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

// dialAt opens a plain connection to another address than the first.
func (s *server) dialAt(addr net.Addr) *client {
	s.t.Helper()
	return dial(s.t, addr)
}

// Thousands of workers sleep: all are told of a job and one gets it; and if
// there are as many jobs, each gets one.
func TestGearmanThousandsOfSleepers(t *testing.T) {
	workers := 10_000
	if raced() {
		workers = 2_000
	}
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil || lim.Cur < uint64(workers+200) {
		t.Skipf("too few files may be open: %d, %v", lim.Cur, err)
	}
	s := startGearman(t)
	all := make([]net.Conn, workers)
	each := func(do func(i int) error) {
		t.Helper()
		const threads = 8
		errs := make(chan error, threads)
		for n := range threads {
			go func() {
				for i := n; i < workers; i += threads {
					if err := do(i); err != nil {
						errs <- fmt.Errorf("worker %d: %w", i, err)
						return
					}
				}
				errs <- nil
			}()
		}
		for range threads {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		for _, c := range all {
			if c != nil {
				c.Close()
			}
		}
	})
	hears := func(i int, want gearType) error {
		var h [gearHeader]byte
		all[i].SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(all[i], h[:]); err != nil {
			return err
		}
		if typ := gearType(gearUint32(h[4:])); typ != want {
			return fmt.Errorf("it hears %s, want %s", typ, want)
		}
		_, err := io.CopyN(io.Discard, all[i], int64(gearUint32(h[8:])))
		return err
	}
	sleep := gearAppend(gearAppend(nil, gearCanDo, "f"), gearPreSleep)
	each(func(i int) (err error) {
		if all[i], err = net.Dial("tcp", s.gearmanAddr().String()); err == nil {
			_, err = all[i].Write(sleep)
		}
		return err
	})
	g := s.gearman()
	// That they sleep is not told. All of them can do it, and CAN_DO came with PRE_SLEEP.
	until(t, "all workers can do it", func() bool {
		return slices.Equal(g.admin("status", true), []string{fmt.Sprintf("f\t0\t0\t%d", workers)})
	})
	g.says("SUBMIT_JOB f||x", "JOB_CREATED #1")
	each(func(i int) error { return hears(i, gearNoop) })
	var mu sync.Mutex
	var winners []int
	each(func(i int) error {
		all[i].Write(gearAppend(nil, 9))
		err := hears(i, gearNoJob)
		if err != nil && strings.Contains(err.Error(), "JOB_ASSIGN") {
			mu.Lock()
			winners = append(winners, i)
			mu.Unlock()
			return nil
		}
		return err
	})
	if len(winners) != 1 {
		t.Fatalf("%d workers have got the one job", len(winners))
	}
	// The one has to be read again: its packet was not.
	winner := all[winners[0]]
	io.CopyN(io.Discard, winner, int64(len(gearHandleOf(1))+len("\x00f\x00x")))
	winner.Write(gearAppend(nil, gearWorkComplete, gearHandleOf(1), "done"))
	g.gets("WORK_COMPLETE #1|done")

	each(func(i int) error { _, err := all[i].Write(gearAppend(nil, gearPreSleep)); return err })
	var b []byte
	for range workers {
		b = gearAppend(b, gearSubmitJobBG, "f", "", "x")
	}
	go g.Write(b)
	for range workers {
		if p := g.next(); p.typ != gearJobCreated {
			t.Fatal(p)
		}
	}
	each(func(i int) error {
		if err := hears(i, gearNoop); err != nil {
			return err
		}
		_, err := all[i].Write(gearAppend(nil, 9))
		return errors.Join(err, hears(i, gearJobAssign))
	})
	if got, want := g.admin("status", true), fmt.Sprintf("f\t%d\t%d\t%d", workers, workers, workers); got[0] != want {
		t.Errorf("status: %q, want %q", got, want)
	}
}

// Who waits for something to come is not idle: a worker that sleeps, a client
// whose job is not done. Nor is a worker that has a job.
func TestGearmanIdleTimeout(t *testing.T) {
	t.Parallel()
	s := startGearman(t, "--idle-timeout", "1s") // a slow machine has to say hello within it
	asleep, waiting, busy := s.gearman(), s.gearman(), s.gearman()
	busy.says("SUBMIT_JOB_BG long||x", "JOB_CREATED #1")
	busy.send("CAN_DO long")
	busy.works("JOB_ASSIGN_UNIQ #1|long||x")
	asleep.send("CAN_DO f")
	asleep.says("GRAB_JOB", "NO_JOB")
	asleep.send("PRE_SLEEP")
	waiting.says("SUBMIT_JOB g||x", "JOB_CREATED #2")
	var closed sync.WaitGroup
	for _, said := range []string{"", "\x00REQ\x00\x00", string(gearAppend(nil, gearSubmitJob, "f", "", "hello"))[:18], "versio",
		string(gearAppend(nil, gearCanDo, "h")), string(gearAppend(nil, gearSubmitJobBG, "h", "", "x"))} {
		begin := time.Now()
		c := s.dialAt(s.gearmanAddr())
		io.WriteString(c, said)
		closed.Go(func() {
			c.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("after %q: %v", said, err)
			}
			if took := time.Since(begin); took < time.Second {
				t.Errorf("after %q it is closed within %v", said, took)
			}
		})
	}
	time.Sleep(2500 * time.Millisecond)
	g := s.gearman()
	g.says("SUBMIT_JOB f||x", "JOB_CREATED #4")
	asleep.gets("NOOP")
	asleep.works("JOB_ASSIGN_UNIQ #4|f||x")
	asleep.send("WORK_COMPLETE #4|done")
	asleep.send("CAN_DO g")
	g.gets("WORK_COMPLETE #4|done")
	asleep.works("JOB_ASSIGN_UNIQ #2|g||x")
	asleep.send("WORK_COMPLETE #2|done")
	waiting.gets("WORK_COMPLETE #2|done")
	busy.send("WORK_COMPLETE #1|done")
	busy.settle()
	closed.Wait()
}

// shutdown ends the process as SIGTERM does.
func TestGearmanShutdown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startGearman(t, "-b", dir)
	g, w, sleeper, b := s.gearman(), s.gearman(), s.gearman(), s.dial()
	b.says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	g.says("SUBMIT_JOB_BG f|u|job", "JOB_CREATED #2")
	g.says("SUBMIT_JOB f|v|job", "JOB_CREATED #3")
	w.send("CAN_DO f")
	w.works("JOB_ASSIGN_UNIQ #2|f|u|job")
	sleeper.send("CAN_DO other")
	sleeper.send("PRE_SLEEP")
	sleeper.settle()
	b.send("use none\nwatch none\nignore default\nreserve\n")
	b.gets("USING none\nWATCHING 2\nWATCHING 1\n")
	s.dial().awaits("current-waiting", "1")
	if got := g.admin("shutdown now", false); got[0] != "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown" {
		t.Errorf("shutdown now: %q", got)
	}
	if got := g.admin("shutdown", false); got[0] != "OK" {
		t.Errorf("shutdown: %q", got)
	}
	s.exits(0)
	for _, c := range []*gearClient{g, w, sleeper} {
		c.ends()
	}

	// What is in the background is there the next time, what is not is gone.
	s = startGearman(t, "-b", dir)
	w = s.gearman()
	w.send("CAN_DO f")
	w.works("JOB_ASSIGN_UNIQ #2|f|u|job")
	w.says("GRAB_JOB", "NO_JOB")
	s.dial().says("reserve\n", "RESERVED 1 1\nx\n")
	s.stop()
}

// shutdown graceful waits for the jobs that are with workers, and for no other;
// who is there is served meanwhile.
func TestGearmanShutdownGraceful(t *testing.T) {
	onlyBusy := func(t *testing.T, g, w *gearClient, b *client) {
		w.send("WORK_DATA #1|part")
		g.gets("WORK_DATA #1|part")
		w.send("WORK_COMPLETE #1|done")
		g.gets("WORK_COMPLETE #1|done")
		b.says("delete 2\n", "DELETED\n")
	}
	for name, end := range map[string]func(t *testing.T, g, w *gearClient, b *client){
		"the jobs are done": onlyBusy,
		"the workers go":    func(t *testing.T, g, w *gearClient, b *client) { w.Close(); b.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startGearman(t)
			g, w, b := s.gearman(), s.gearman(), s.dial().on("f")
			g.says("SUBMIT_JOB f||x", "JOB_CREATED #1")
			w.send("CAN_DO f")
			w.works("JOB_ASSIGN_UNIQ #1|f||x")
			g.says("SUBMIT_JOB f||x", "JOB_CREATED #2")
			b.says("reserve\n", "RESERVED 2 1\nx\n")
			g.says("SUBMIT_JOB other||x", "JOB_CREATED #3") // waits for nobody
			if got := s.gearman().admin("shutdown graceful", false); got[0] != "OK" {
				t.Errorf("shutdown graceful: %q", got)
			}
			for _, addr := range s.addrs {
				until(t, "nobody listens", func() bool {
					c, err := net.Dial("tcp", addr.String())
					if err == nil {
						c.Close()
					}
					return err != nil
				})
			}
			g.settle()
			b.says("use x\n", "USING x\n")
			time.Sleep(300 * time.Millisecond)
			select {
			case <-s.ended:
				t.Fatalf("it has not waited:\n%s", s.log.String())
			default:
			}
			end(t, g, w, b)
			s.exits(0)
		})
	}
	t.Run("nothing is at work", func(t *testing.T) {
		t.Parallel()
		s := startGearman(t)
		s.gearman().says("SUBMIT_JOB f||x", "JOB_CREATED #1")
		s.gearman().admin("shutdown graceful", false)
		s.exits(0)
	})
	t.Run("a signal", func(t *testing.T) {
		t.Parallel()
		s := startGearman(t)
		w := s.gearman()
		w.says("SUBMIT_JOB_BG f||x", "JOB_CREATED #1")
		w.send("CAN_DO f")
		w.works("JOB_ASSIGN_UNIQ #1|f||x")
		s.gearman().admin("shutdown graceful", false)
		s.waitLog("shutting down when")
		s.signal(os.Interrupt)
		s.exits(0)
	})
	// A worker that is never without a job does not keep the process for ever.
	t.Run("there is always more to do", func(t *testing.T) {
		t.Parallel()
		s := startGearman(t)
		g, w := s.gearman(), s.gearman()
		var b []byte
		for range 20_000 {
			b = gearAppend(b, gearSubmitJobBG, "f", "", "x")
		}
		go g.Write(b)
		w.send("CAN_DO f")
		w.works("JOB_ASSIGN_UNIQ #1|f||x")
		admin := s.gearman()
		if got := admin.admin("shutdown graceful", false); got[0] != "OK" {
			t.Errorf("shutdown graceful: %q", got)
		}
		// It takes the next one before it has done the last.
		last, begin := gearHandleOf(1), time.Now()
		for taken := 0; ; taken++ {
			if time.Since(begin) > 10*time.Second { // half of what all would take
				t.Fatalf("after %d more jobs there still is another", taken)
			}
			w.ask(9)
			p, err := w.packet()
			if err != nil || p.typ == gearNoJob {
				break
			}
			w.ask(gearWorkComplete, last, "")
			last = p.args[0]
			time.Sleep(time.Millisecond)
		}
		w.ask(gearWorkComplete, last, "")
		s.exits(0)
	})
}
