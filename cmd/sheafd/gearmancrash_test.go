package main_test

// The crash test of Gearman's jobs: a server with a binlog, loaded by clients and
// workers of both protocols, is killed at random moments and started again with
// another number of shards. What it has then is compared with a ledger: jobs in
// the background are there with all that they had, what was done is not, and
// what was in the foreground has gone with its clients.
//
//	gearmancrash_test.go          the test, its rounds
//	gearmancrash_ledger_test.go   what is known of the jobs
//	gearmancrash_load_test.go     the load
//	gearmancrash_check_test.go    the comparison
//
// That a job is done is not answered. But what is asked behind it on the same
// connection is answered only when it is taken: so an ECHO_RES tells.
//
// The flags are those of TestCrash, see crash_test.go.

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A gearCrash is one directory through all its crashes.
type gearCrash struct {
	*crashTest
	*gearLedger
	looked [2]uint64 // ids that were next at the last two checks
}

// A gearRound is the time from the start of the load to the end of the server.
type gearRound struct {
	*gearCrash
	killed atomic.Bool // or about to be

	mu    sync.Mutex
	conns []net.Conn
}

// join has the connection end with the round.
func (r *gearRound) join(c net.Conn, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.conns = append(r.conns, c)
	}
	return err
}

func (r *gearRound) gearman() (*gearConn, error) {
	c, err := gearDial(r.server.gearmanAddr())
	if err != nil {
		return nil, err
	}
	return c, r.join(c, nil)
}

func (r *gearRound) beanstalk() (*crashConn, error) {
	c, err := crashDial(r.server.addrs[0])
	if err != nil {
		return nil, err
	}
	return c, r.join(c, nil)
}

func TestCrashGearman(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*crashSeed, rand.Uint64()>>32)
	g := &gearCrash{crashTest: newCrashTest(t, seed), gearLedger: newGearLedger()}
	g.dir = t.TempDir()
	g.more = []string{"--gearman", "127.0.0.1:0"}
	for g.round = 1; g.round <= *crashRounds; g.round++ {
		g.serve()
		g.load()
		g.keep()
		g.serve()
		g.check()
		if g.random.IntN(3) == 0 {
			g.thin()
		}
		if g.random.IntN(2) == 0 {
			g.server.signal(syscall.SIGKILL)
			<-g.server.ended
		} else {
			g.server.stop()
		}
	}
	g.serve()
	g.check()
	g.finish()
	g.logf("%s", g.summary())
	g.server.stop()
}

// load has all at work for a random while, and kills the server.
func (g *gearCrash) load() {
	g.Helper()
	r := &gearRound{gearCrash: g}
	var all []func() error
	draw := func() *rand.Rand {
		return rand.New(rand.NewPCG(g.seed, uint64(g.round)<<16+uint64(len(all))))
	}
	for i := range 4 {
		s := &gearSubmitter{gearRound: r, who: fmt.Sprintf("submitter %d", i), random: draw()}
		all = append(all, s.run)
		w := &gearWorker{gearRound: r, who: fmt.Sprintf("worker %d", i), random: draw()}
		all = append(all, w.run)
	}
	b := &gearBeanstalk{gearRound: r, who: "beanstalkd worker", random: draw()}
	all = append(all, b.run)
	p := &gearProducer{gearRound: r, who: "producer", random: draw()}
	all = append(all, p.run)

	errs := make(chan error, len(all))
	for _, run := range all {
		go func() { errs <- run() }()
	}
	moment := time.Duration(50+g.random.IntN(550)) * time.Millisecond
	var problems []string
	ended := 0
	select {
	case <-time.After(moment):
	case err := <-errs: // none may end before
		ended++
		problems = append(problems, fmt.Sprint("the load ended by itself: ", err))
	}
	r.killed.Store(true)
	g.server.signal(syscall.SIGKILL)
	<-g.server.ended
	for ; ended < len(all); ended++ {
		if err := <-errs; err != nil {
			problems = append(problems, err.Error())
		}
	}
	for _, c := range r.conns {
		c.Close()
	}
	if problems = append(problems, g.take()...); len(problems) > 0 {
		g.crashTest.fail(problems...)
	}
}

// A foreground job is in no log. But its id is known to its worker, who may be
// back after a crash with a delete or release of it, so no other job has it.
func TestGearmanIDsAreNotGivenAgain(t *testing.T) {
	for name, end := range map[string]func(s *server){
		"crash": func(s *server) { s.signal(syscall.SIGKILL); <-s.ended },
		"stop":  func(s *server) { s.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := startGearman(t, "-b", dir)
			g, b := s.gearman(), s.dial().on("f")
			g.says("SUBMIT_JOB f||foreground", "JOB_CREATED #1")
			b.says("reserve\n", "RESERVED 1 10\nforeground\n")
			g.says("SUBMIT_JOB f||foreground", "JOB_CREATED #2")
			end(s)
			s = startGearman(t, "-b", dir)
			// Such ids are noted some in advance.
			s.gearman().says("SUBMIT_JOB_BG f||background", "JOB_CREATED #1025")
			s.dial().on("f").says("delete 1\n", "NOT_FOUND\n")
			s.dial().on("f").says("reserve\n", "RESERVED 1025 10\nbackground\n")
			s.stop()
		})
	}
}

// The note of the ids outlives the segment of the log that it was made in. (The
// indexes of segments have one digit here.)
func TestGearmanIDsStayNoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"-b", dir, "-s", "65536", "--shards", "1", "--binlog-compression", "none"}
	s := startGearman(t, args...)
	g, b := s.gearman(), s.dial()
	g.says("SUBMIT_JOB f||foreground", "JOB_CREATED #1")
	id, body := 1, strings.Repeat("x", 30_000)
	for deadline := time.Now().Add(20 * time.Second); b.stats("binlog-oldest-index") < "4"; {
		if time.Now().After(deadline) || id > 900 {
			t.Fatalf("the first segments of the log stay, after %d jobs", id)
		}
		id++
		b.says(fmt.Sprintf("put 0 0 60 30000\n%s\ndelete %d\n", body, id), fmt.Sprintf("INSERTED %d\nDELETED\n", id))
	}
	g.says("SUBMIT_JOB f||foreground", fmt.Sprintf("JOB_CREATED #%d", id+1))
	s.signal(syscall.SIGKILL)
	<-s.ended
	s = startGearman(t, args...)
	s.gearman().says("SUBMIT_JOB_BG f||background", "JOB_CREATED #1025")
	s.stop()
}

// A job with a schedule waits for the same time after a crash.
func TestGearmanScheduleSurvivesACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startGearman(t, "-b", dir, "--shards", "3")
	g := s.gearman()
	at := time.Now().Add(90 * time.Minute).Truncate(time.Minute)
	fields := at.Format("4|15|2|1|") + fmt.Sprint((int(at.Weekday())+6)%7)
	g.says("SUBMIT_JOB_SCHED f|daily|"+fields+"|x", "JOB_CREATED #1")
	g.says("SUBMIT_JOB_SCHED -dash||"+at.Format("4|15")+"||||y", "JOB_CREATED #2")
	for range 2 {
		s.signal(syscall.SIGKILL)
		<-s.ended
		s = startGearman(t, "-b", dir, "--shards", "2")
		g, b := s.gearman(), s.dial()
		for id := 1; id <= 2; id++ {
			left, err := strconv.Atoi(b.knows(id, "time-left"))
			if off := time.Until(at) - time.Duration(left)*time.Second; err != nil || off < -2*time.Second || off > 2*time.Second {
				t.Errorf("job %d: time-left is %d, %v off", id, left, off)
			}
			if state := b.knows(id, "state"); state != "delayed" {
				t.Errorf("job %d is %s", id, state)
			}
		}
		g.says("GET_STATUS #1", "STATUS_RES #1|1|0|0|0")
		g.says("SUBMIT_JOB_BG f|daily|other", "JOB_CREATED #1")
		g.send("CAN_DO f")
		g.send("CAN_DO -dash")
		g.says("GRAB_JOB", "NO_JOB")
	}
	s.stop()
}
