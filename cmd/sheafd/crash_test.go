package main_test

// The crash test: the real sheafd, loaded from many connections with every
// command that changes a job, is killed with SIGKILL at random moments and
// started again with other flags. Then everything it has is compared with a
// ledger of what it had answered. A command in flight at the kill may have
// happened or not; nothing else is left open that a client could have known.
//
//	crash_job_test.go       a job, its states, the commands; what is found of it
//	crash_wire_test.go      connections
//	crash_owner_test.go     load on tubes of one connection, in deep pipelines:
//	                        a model knows each answer
//	crash_sharer_test.go    load on tubes that are shared
//	crash_ledger_test.go    what is known of the shared tubes
//	crash_check_test.go     the comparison, of all and of the owners' tubes
//	crash_shared_test.go    the comparison of the shared tubes
//	crash_size_test.go      that the directory does not outgrow its jobs;
//	                        timeouts; tampering
//
// A long search:    go test ./cmd/sheafd -run 'TestCrash$' -crash.rounds 100 -timeout 0
// The same choices: … -crash.seed 123 (as far as the threads play along)
// For an autopsy:   … -crash.keep /tmp/kept: the directory as the last crash left it
//
// TestCrashLedger tests the test: it cuts the connections instead of killing
// the server, which must fit the ledger just the same, and tampers with jobs,
// which must be noticed.

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	crashRounds = flag.Int("crash.rounds", 4, "rounds of the crash test")
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of the crash test; 0 draws one")
	crashKeep   = flag.String("crash.keep", "", "keep a copy of the binlog after each crash in this `directory`")
)

// A crashTest is one directory through all its crashes.
type crashTest struct {
	*testing.T
	seed    uint64
	round   int
	random  *rand.Rand
	dir     string // "" for a server without a binlog
	server  *server
	args    []string   // of the server
	more    []string   // arguments of every server
	segment int        // -s of the server
	shards  int        // --shards of the server
	servers [2]*server // the last two, for their logs
	// gentle is set when connections ended before the server did: what one
	// held, another may have been given.
	gentle bool

	orders  atomic.Uint64
	owners  []*crashOwner
	sharers []*crashSharer
	ledger  *crashLedger

	next uint64 // id that was next at the last check

	mu    sync.Mutex // guards what follows
	ids   map[uint64]bool
	maxID uint64
}

func newCrashTest(t *testing.T, seed uint64) *crashTest {
	ct := &crashTest{T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), ledger: newCrashLedger(), ids: make(map[uint64]bool)}
	t.Cleanup(func() {
		if t.Failed() {
			ct.logf("to try again: -crash.seed %d", seed)
		}
	})
	for i := range 5 {
		ct.owners = append(ct.owners, newCrashOwner(i, &ct.orders))
	}
	for i := range 8 {
		ct.sharers = append(ct.sharers, &crashSharer{name: fmt.Sprintf("sharer %d", i), ledger: ct.ledger, orders: &ct.orders})
	}
	return ct
}

// give takes down that an id was given to a job. It reports false if it was
// given before.
func (t *crashTest) give(id uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ids[id] {
		return false
	}
	t.ids[id] = true
	t.maxID = max(t.maxID, id)
	return true
}

func (t *crashTest) logf(format string, args ...any) {
	t.Helper()
	t.Logf("round %d: %s", t.round, fmt.Sprintf(format, args...))
}

// fail ends the test with all there is to know.
func (t *crashTest) fail(problems ...string) {
	t.Helper()
	const most = 12
	text := strings.Join(problems[:min(len(problems), most)], "\n  ")
	if n := len(problems) - most; n > 0 {
		text += fmt.Sprintf("\n  and %d more", n)
	}
	for i, s := range t.servers {
		if s == nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")
		text += fmt.Sprintf("\n%s: %q\n\t%s", []string{"the server before", "the server"}[i], s.cmd.Args[1:],
			strings.Join(lines[max(0, len(lines)-25):], "\n\t"))
	}
	t.Fatalf("-crash.seed %d, round %d:\n  %s", t.seed, t.round, text)
}

// serve starts a server with flags drawn anew.
func (t *crashTest) serve() {
	t.Helper()
	t.draw()
	if t.dir != "" {
		// A crash while it reads the directory, or spreads it over other
		// shards.
		for t.random.IntN(3) == 0 {
			cmd := command(t.T, t.args...)
			prepare(cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(t.random.IntN(60)) * time.Millisecond)
			cmd.Process.Kill()
			cmd.Wait()
			t.draw()
		}
	}
	t.logf("%q", t.args)
	t.server = run(t.T, command(t.T, t.args...))
	t.servers = [2]*server{t.servers[1], t.server}
}

// dial opens a connection that is not part of the load.
func (t *crashTest) dial() *crashConn {
	t.Helper()
	c, err := crashDial(t.server.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// draw draws a server's flags.
func (t *crashTest) draw() {
	t.shards = 1 + t.random.IntN(5)
	t.segment = 4096 << t.random.IntN(9)
	t.args = []string{"-l", "127.0.0.1", "-p", "0", "--shards", strconv.Itoa(t.shards)}
	sync := [][]string{{"-f", "0"}, {"-f", "50"}, {"-F"}}[t.random.IntN(3)]
	packed := []string{"none", "s2", "zstd"}[t.random.IntN(3)]
	t.args = append(t.args, t.more...)
	if t.dir != "" {
		t.args = append(t.args, "-b", t.dir, "-s", strconv.Itoa(t.segment), "--binlog-compression", packed)
		t.args = append(t.args, sync...)
		if t.random.IntN(3) == 0 {
			t.args = append(t.args, "--binlog-strict") // a crash damages nothing
		}
	}
}

// A crashRound is the time from the start of the load to the end of the server,
// as its connections see it.
type crashRound struct {
	*crashTest
	addr   net.Addr
	killed atomic.Bool // or about to be

	mu    sync.Mutex
	conns []*crashConn
}

func (r *crashRound) dial() (*crashConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed.Load() {
		return nil, net.ErrClosed
	}
	c, err := crashDial(r.addr)
	if err == nil {
		r.conns = append(r.conns, c)
	}
	return c, err
}

// over returns nil for an error that comes of the server's end.
func (r *crashRound) over(err error) error {
	if r.killed.Load() {
		return nil
	}
	return err
}

func (r *crashRound) given(id uint64) error {
	if !r.give(id) {
		return fmt.Errorf("id %d was given twice", id)
	}
	return nil
}

// exchange sends commands, which are flying until take has taken their answers
// down. It reports false, without an error, if the server's end comes first.
func (r *crashRound) exchange(c *crashConn, flying *[]*crashCommand, take func(c *crashCommand, line string, body []byte) error) (ok bool, err error) {
	var b []byte
	for _, cmd := range *flying {
		b = cmd.append(b)
	}
	c.send(b)
	for len(*flying) > 0 {
		line, body, err := c.answer()
		if err != nil {
			return false, r.over(err)
		}
		if err := take((*flying)[0], line, body); err != nil {
			return false, err
		}
		*flying = (*flying)[1:]
	}
	return true, nil
}

// load has all connections at work for a random while, and crashes the server.
// It returns a time when all was over.
func (t *crashTest) load(crash func(*crashRound)) (killed time.Time) {
	t.Helper()
	r := &crashRound{crashTest: t, addr: t.server.addrs[0]}
	workers := make([]func(*crashRound, *rand.Rand) error, 0, len(t.owners)+len(t.sharers))
	for _, o := range t.owners {
		workers = append(workers, o.run)
	}
	for _, s := range t.sharers {
		workers = append(workers, s.run)
	}
	errs := make(chan error, len(workers))
	for i, work := range workers {
		random := rand.New(rand.NewPCG(t.seed, uint64(t.round)<<8+uint64(i)+1))
		go func() { errs <- work(r, random) }()
	}
	moment := time.Duration(50+t.random.IntN(550)) * time.Millisecond
	if t.random.IntN(5) == 0 {
		moment += 1500 * time.Millisecond // in which TTRs and delays end
	}
	var problems []string
	ended := 0
	select {
	case <-time.After(moment):
	case err := <-errs: // none may end before
		ended++
		problems = append(problems, fmt.Sprint(cmp.Or(err, errors.New("a connection's load ended by itself"))))
	}
	r.killed.Store(true)
	crash(r)
	killed = time.Now()
	for ; ended < len(workers); ended++ {
		if err := <-errs; err != nil {
			problems = append(problems, err.Error())
		}
	}
	for _, c := range r.conns {
		c.Close()
	}
	if len(problems) > 0 {
		t.fail(problems...)
	}
	return killed
}

// inFlight counts the commands without an answer.
func (t *crashTest) inFlight() (n int) {
	for _, o := range t.owners {
		n += len(o.flying)
	}
	for _, s := range t.sharers {
		n += len(s.flying)
	}
	return n
}

// compare fails the test unless all is as it should be.
func (t *crashTest) compare(killed time.Time) {
	t.Helper()
	problems, err := t.check(killed)
	if err != nil {
		problems = append(problems, err.Error())
	}
	if log := t.server.log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		problems = append(problems, "a crash is no reason for a warning")
	}
	if len(problems) > 0 {
		t.fail(problems...)
	}
}

func TestCrash(t *testing.T) {
	ct := newCrashTest(t, cmp.Or(*crashSeed, rand.Uint64()>>32))
	ct.dir = t.TempDir()
	kill := func(*crashRound) {
		ct.server.signal(syscall.SIGKILL)
		<-ct.server.ended
	}
	stop := func(*crashRound) {
		ct.server.stop()
	}
	for ct.round = 1; ct.round <= *crashRounds; ct.round++ {
		ct.serve()
		end := kill
		if ct.gentle = ct.random.IntN(8) == 0; ct.gentle {
			end = stop
		}
		killed := ct.load(end)
		ct.keep()
		ct.serve()
		ct.compare(killed)
		if ct.random.IntN(4) == 0 || ct.round == *crashRounds {
			ct.shrink()
		}
		if ct.random.IntN(4) == 0 {
			ct.expire()
		}
		if ct.random.IntN(2) == 0 {
			kill(nil)
		} else {
			ct.server.stop()
		}
	}
	ct.serve()
	ct.compare(time.Now())
	ct.server.stop()
}

// keep copies the directory for an autopsy.
func (t *crashTest) keep() {
	if *crashKeep == "" {
		return
	}
	os.RemoveAll(*crashKeep)
	if err := os.CopyFS(*crashKeep, os.DirFS(t.dir)); err != nil {
		t.Fatal(err)
	}
}

// cut ends all connections at once, as a crash would, and waits until the
// server has seen that.
func (t *crashTest) cut(r *crashRound) {
	r.mu.Lock()
	for _, c := range r.conns {
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	r.mu.Unlock()
	c := t.dial()
	defer c.Close()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stats, err := c.stats("stats")
		if err != nil {
			t.Fatal(err)
		}
		if stats["current-connections"] == 1 && stats["current-jobs-reserved"] == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the server does not see that its clients are gone")
		}
	}
}

// What a server that does not crash does to its jobs when the connections end
// fits the ledger, for else it is the ledger that is wrong.
func TestCrashLedger(t *testing.T) {
	ct := newCrashTest(t, cmp.Or(*crashSeed, rand.Uint64()>>32))
	ct.gentle = true
	ct.serve()
	for ct.round = 1; ct.round <= max(2, *crashRounds/2); ct.round++ {
		ct.compare(ct.load(ct.cut))
	}
	// What a bad server might do to a job in each state is noticed.
	for _, place := range crashPlaces {
		if place == "reserved" {
			continue
		}
		for _, tamper := range []string{
			"delete ID", "reserve-job ID\r\nbury ID PRI", "reserve-job ID\r\nrelease ID PRI DELAY", "reserve-job ID\r\nrelease ID 3 DELAY",
			"reserve-job ID\r\nrelease ID PRI 1000000",
		} {
			ct.tamper(place, tamper)
		}
	}
	ct.server.stop()
}
