package main_test

// The differential test with a binlog: servers are stopped and started again.
// Transcripts (differential_sessions_restart_test.go) show what both do, and
// what the reference does wrong.
//
// A random run has rounds. Each begins with a burst, as in TestDifferential.
// Then both servers, which agree so far, are asked for all that they have, are
// stopped (by SIGTERM or SIGKILL, clients holding jobs, waiting and in the
// middle of a put), are started on their directories, sheafd with another
// number of shards and other flags, and are asked again; perhaps this is done
// again after some jobs were changed. sheafd has to have exactly what it had,
// but for reserved jobs, which are ready. The reference has to have the same
// but for its faults: see diffFaults. Everything else that they say has to be
// the same on both.
//
// Then the servers are made to agree again: jobs that now differ are deleted,
// or, to see the order in which they leave, all are kicked and reserved. The
// next ids are compared and brought to be the same. And both are started once
// more, so that all counters begin at nothing and the jobs that are left live
// through several restarts. See differential_agree_test.go.
//
// What the reference does with the other counters, and sheafd has to do: those
// of stats and of stats-tube are of the process and begin at 0 (total-jobs,
// job-timeouts, cmd-*, total-connections; the current-* are what is there);
// pauses and drain mode end; a tube is there after a restart if it has a job.
//
// All of it:        go test ./cmd/sheafd -run TestDifferentialRestart
// One run again:    … -run TestDifferentialRestart/random -diff.seed 123 -diff.last 0
// A long search:    … -run TestDifferentialRestart/random -diff.restarts 500 -timeout 0
// One transcript:   … -run 'TestDifferentialRestart/transcripts/buried_jobs'

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var diffRestartRuns = flag.Int("diff.restarts", 8, "random runs with restarts")

const (
	diffRounds = 3
	// diffBurst is how many commands a burst has, and diffBurstLimit after how
	// long it ends with fewer.
	diffBurst      = 150
	diffBurstLimit = 2 * time.Second
)

// TestDifferentialRestart compares sheafd with the reference through restarts.
func TestDifferentialRestart(t *testing.T) {
	reference := diffReference(t)
	programs := []diffProgram{reference}
	if os.Getenv("SHEAF_DIFF_SELF") != "1" {
		path := binary(t)
		programs = nil
		for _, n := range []int{1, 2, 7} {
			if *diffShards == 0 || n == *diffShards {
				programs = append(programs, diffSheafd(path, n))
			}
		}
	}
	places := make(chan struct{}, diffAtOnce)

	t.Run("transcripts", func(t *testing.T) {
		all := append([]diffProgram{reference}, programs...)
		for i := range all {
			all[i].binlog = []string{}
		}
		diffTranscribe(t, places, all, diffRestartTranscripts)
	})
	t.Run("random", func(t *testing.T) { diffRestartRandom(t, places, reference, programs) })
}

// diffRestartRandom does the random runs, the second server being any of
// programs at each start.
func diffRestartRandom(t *testing.T, places chan struct{}, reference diffProgram, programs []diffProgram) {
	runs := *diffRestartRuns
	if testing.Short() {
		runs = min(runs, 3)
	}
	base := uint64(time.Now().UnixNano()) / 1e6 % 1e9 * 1000
	if *diffSeed != 0 {
		base, runs = *diffSeed, 1
	}
	t.Logf("seeds from %d", base)
	var (
		mu                               sync.Mutex
		all                              sync.WaitGroup
		commands, restarts, inconclusive int
	)
	for i := range runs {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(fmt.Sprintf("seed %d", base+uint64(i)), func(t *testing.T) {
				r, err := diffRestarts(reference, programs, base+uint64(i))
				mu.Lock()
				defer mu.Unlock()
				commands += r.commands
				restarts += r.restarts
				switch {
				case errors.Is(err, errDiffInconclusive):
					inconclusive++
					t.Logf("after %d restarts: %v", r.restarts, err)
				case err != nil:
					t.Error(r.report(err))
				default:
					t.Logf("%d restarts, %d commands (%s)", r.restarts, r.commands, r.mood.name)
				}
			})
		})
	}
	all.Wait()
	t.Logf("%d restarts and %d commands compared; %d runs ended early as inconclusive", restarts, commands, inconclusive)
	if *diffSeed == 0 && !t.Failed() && restarts == 0 { // a slow machine does some
		t.Error("no restart was compared")
	}
}

// diffAgain is p with a binlog, at whose next start it has any flags that may
// change between two.
func diffAgain(p diffProgram, rng *rand.Rand) diffProgram {
	p.binlog = append([]string{}, diffPick(rng, [][]string{{}, {"-f", "0"}, {"-f", "0"}, {"-f", "1000"}, {"-F"}})...)
	p.binlog = append(p.binlog, diffPick(rng, [][]string{{}, {"-s", "8192"}, {"-s", "65536"}})...)
	if p.asIs {
		// Somebody may be in the middle of a put for good.
		p.argv = append(p.argv[:len(p.argv):len(p.argv)], "--shutdown-timeout", "200ms")
		p.binlog = append(p.binlog, diffPick(rng, [][]string{{}, {"--binlog-compression", "none"}, {"--binlog-compression", "zstd"}})...)
	}
	p.name = strings.Join(append([]string{p.name}, p.binlog...), " ")
	return p
}

// diffRestarts does one run.
func diffRestarts(reference diffProgram, programs []diffProgram, seed uint64) (r *diffRun, err error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	next := func() [2]diffProgram {
		return [2]diffProgram{diffAgain(reference, rng), diffAgain(diffPick(rng, programs), rng)}
	}
	r = newDiffRun("TestDifferentialRestart/random", next(), seed)
	defer func() {
		for _, s := range r.servers {
			if s != nil {
				s.kill()
			}
		}
	}()
	for i := range r.servers {
		if r.servers[i], err = diffStart(r.progs[i]); err != nil {
			return r, err
		}
	}
	for round := range diffRounds {
		if err := r.round(rng, next, round+1 == diffRounds); err != nil {
			return r, err
		}
	}
	for _, s := range r.servers {
		if err := s.end(); err != nil {
			return r, &diffFound{err.Error()}
		}
	}
	return r, nil
}

// round does one round, next choosing what to start. The last leaves no jobs.
func (r *diffRun) round(rng *rand.Rand, next func() [2]diffProgram, last bool) error {
	if err := r.burst(rng); err != nil {
		return err
	}
	given, err := r.given(rng)
	if err != nil {
		return err
	}
	before, err := r.agreed(given)
	if err != nil {
		return err
	}
	r.leaveHalfway(rng)
	after, err := r.restart(rng, next(), before, given)
	if err != nil {
		return err
	}
	for n := rng.IntN(3); n > 0; n-- {
		if err := r.change(rng, after); err != nil {
			return err
		}
		if before, err = r.remains(given); err != nil {
			return err
		}
		if after, err = r.restart(rng, next(), before, given); err != nil {
			return err
		}
	}

	if last || rng.IntN(2) == 0 {
		for i, s := range r.servers {
			if err := r.reserveAll(s, after[i]); err != nil {
				return err
			}
		}
		after = [2]diffRemains{}
	} else if err := r.heal(after); err != nil {
		return err
	}
	if given, err = r.align(given); err != nil {
		return err
	}
	r.model.restart(after[0])
	if after, err = r.restart(rng, next(), after, given); err == nil {
		r.model.restart(after[0])
	}
	return err
}

// burst has clients come and do random steps. At times all have gone then.
func (r *diffRun) burst(rng *rand.Rand) error {
	if err := r.agree("current-connections", "1"); err != nil {
		return err
	}
	for range 4 {
		if err := r.connect(); err != nil {
			return err
		}
	}
	begun := time.Now()
	for end := r.commands + diffBurst; r.commands < end && time.Since(begun) < diffBurstLimit; {
		if err := r.step(); err != nil {
			return err
		}
	}
	if rng.IntN(3) == 0 {
		return r.leaveAll()
	}
	return nil
}

// agreed returns what both servers have, which has to be the same.
func (r *diffRun) agreed(given uint64) (m [2]diffRemains, err error) {
	if m, err = r.remains(given); err != nil {
		return m, err
	}
	for i, p := range r.progs {
		if err := m[i].consistent(p, r.model); err != nil {
			return m, err
		}
	}
	for _, id := range m[0].ids() {
		if a, b := m[0].jobs[id], m[1].jobs[id]; !diffSame(a, b) {
			return m, &diffFound{fmt.Sprintf("job %d before the restart:\n%-20s %v\n%-20s %v", id, r.progs[0].name, a, r.progs[1].name, b)}
		}
	}
	return m, diffTogether(r.progs, m)
}

// restart starts progs in the place of both servers, and compares what they
// have then, jobs up to the id given, with what they had before.
func (r *diffRun) restart(rng *rand.Rand, progs [2]diffProgram, before [2]diffRemains, given uint64) (after [2]diffRemains, err error) {
	stop := diffStop{ttrs: map[uint64]diffSpan{}}
	for _, j := range r.model.jobs {
		if j.holder != nil {
			stop.ttrs[j.id] = j.deadline
		}
	}
	if stop.ended, err = r.startAgain(rng, progs); err != nil {
		return after, err
	}
	if after, err = r.remains(given); err != nil {
		return after, err
	}
	for i, p := range r.progs {
		if err := after[i].kept(p, before[i], r.model, stop); err != nil {
			return after, err
		}
		if err := after[i].consistent(p, r.model); err != nil {
			return after, err
		}
	}
	return after, diffTogether(r.progs, after)
}

// change buries, releases or deletes some of the jobs that are ready on both
// servers.
func (r *diffRun) change(rng *rand.Rand, m [2]diffRemains) error {
	for _, id := range m[0].ids() {
		if m[0].jobs[id]["state"] != "ready" || m[1].jobs[id]["state"] != "ready" || rng.IntN(2) == 0 {
			continue
		}
		line, reply := fmt.Sprintf("bury %d %d", id, r.pri()), "BURIED"
		switch rng.IntN(5) {
		case 0:
			line, reply = fmt.Sprintf("delete %d", id), "DELETED"
			r.model.remove(id)
		case 1:
			line, reply = fmt.Sprintf("release %d %d 0", id, r.pri()), "RELEASED"
		default:
			r.model.buries++
			r.model.byID[id].buried = r.model.buries
		}
		r.logf("reserve-job %d, %s on both", id, line)
		for _, s := range r.servers {
			if _, err := s.want(fmt.Sprintf("reserve-job %d", id), "RESERVED"); err != nil {
				return err
			}
			if _, err := s.want(line, reply); err != nil {
				return err
			}
		}
	}
	return nil
}

// given returns the last id that was given.
func (r *diffRun) given(rng *rand.Rand) (given uint64, err error) {
	if err := r.wakeful(nil); err != nil {
		return 0, err
	}
	for _, j := range r.model.jobs {
		given = max(given, j.id)
	}
	for _, id := range r.model.dead {
		given = max(given, id)
	}
	switch rng.IntN(8) {
	case 0, 1, 2:
		return given, nil
	case 3:
		return given, r.drain()
	}
	// A last job, gone before the servers are.
	ids, err := r.probe()
	if err == nil && ids[0] != ids[1] {
		err = &diffFound{fmt.Sprintf("a last put is given the id %d by one, %d by the other", ids[0], ids[1])}
	}
	return ids[0], err
}

// leaveHalfway leaves some clients in the middle of a put.
func (r *diffRun) leaveHalfway(rng *rand.Rand) {
	const text = "put 0 0 100 50\r\nabc"
	for _, c := range r.clients {
		if !c.waiting() && rng.IntN(4) == 0 {
			r.logf("%s> %s", c.name, diffShow(text))
			for _, s := range c.sock {
				s.send([]byte(text))
				s.drained(20 * time.Millisecond)
			}
		}
	}
}

// probe puts a job on each server, where nobody waits for it, and deletes it.
func (r *diffRun) probe() (ids [2]uint64, err error) {
	for i := range r.servers {
		if ids[i], err = r.servers[i].probe(); err != nil {
			return ids, err
		}
	}
	r.logf("probed: %d", ids)
	return ids, nil
}

func (s *diffServer) probe() (id uint64, err error) {
	if _, err := s.want("use probe", "USING probe"); err != nil {
		return 0, err
	}
	text, err := s.want("put 0 0 100 5\r\nprobe", "INSERTED")
	if err != nil {
		return 0, err
	}
	if id, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, err
	}
	if _, err := s.want("delete "+text, "DELETED"); err != nil {
		return 0, err
	}
	_, err = s.want("use default", "USING default")
	return id, err
}

// remains asks both servers for all that they have, jobs up to that id, when
// nothing is about to happen.
func (r *diffRun) remains(last uint64) (m [2]diffRemains, err error) {
	if err := r.wakeful(nil); err != nil {
		return m, err
	}
	err = r.guarded(nil, func(time.Time) (err error) {
		for i, s := range r.servers {
			if m[i], err = s.remains(last + 2); err != nil {
				return err
			}
		}
		return nil
	})
	return m, err
}

// startAgain stops both servers, starts progs in their place, and says when the
// old ones were gone.
func (r *diffRun) startAgain(rng *rand.Rand, progs [2]diffProgram) (ended time.Time, err error) {
	// Jobs of a client that sheafd has closed already go to one that still
	// waits, and what that has sent behind its reserve is then served.
	held := slices.ContainsFunc(r.model.jobs, func(j *diffJob) bool { return j.holder != nil })
	term := rng.IntN(2) == 0 && !(held && r.waiting() > 0)
	r.logf("%s", map[bool]string{true: "SIGTERM", false: "SIGKILL"}[term])
	for _, s := range r.servers {
		if term {
			err = s.end()
		} else {
			s.crash()
			err = s.sane()
		}
		if err != nil {
			return ended, &diffFound{err.Error()}
		}
	}
	ended = time.Now()
	for _, c := range r.clients {
		for _, s := range c.sock {
			s.close()
		}
		r.model.hangUp(c)
	}
	r.clients, r.acts = nil, nil
	r.draining = false
	clear(r.model.pauses)
	if rng.IntN(3) == 0 {
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
	}
	r.progs = progs
	for i := range r.servers {
		r.logf("%s is started", progs[i].name)
		s, err := diffStartIn(r.servers[i].dir, progs[i])
		if err != nil {
			return ended, &diffFound{err.Error()}
		}
		r.servers[i] = s
	}
	r.asked, r.settled = [2]int{}, [2]int{}
	r.restarts++
	return ended, nil
}
