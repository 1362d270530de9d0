package perf

// Scenarios about what a server has to remember: tubes, jobs, connections, and all of it after a crash.

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// compare adds how much of a load's throughput is left in another.
func (s *session) compare(name string, alone, beside *Load) {
	if alone.AnswerRate > 0 {
		s.figure(name, "%", 100*beside.AnswerRate/alone.AnswerRate, true)
	}
}

// each adds what n things take of the memory between two readings, which are 0 if they are not known.
func (s *session) each(name string, before, after int64, n int) {
	if before > 0 && after > 0 && n > 0 {
		s.figure(name, "B", float64(after-before)/float64(n), false)
	}
}

func runManyTubes(s *session) error {
	if err := s.needs(); err != nil {
		return err
	}
	alone, err := s.measure(s.cycle("alone", always(scriptCycle)))
	if err != nil {
		return err
	}
	copied := *alone // the next measure moves it
	before := s.settleMemory()
	n := s.cfg.Beside
	s.doing(fmt.Sprintf("making %s tubes", count(float64(n))))
	ids, err := s.makeTubes(n)
	if !s.target.local() {
		defer s.deleteJobs(ids)
	}
	if err != nil {
		return err
	}
	s.each("memory of a tube with a job", before, s.settleMemory(), n)
	beside, err := s.measure(s.cycle(fmt.Sprintf("beside %s tubes", count(float64(n))), always(scriptCycle)))
	if beside != nil {
		s.compare("throughput left", &copied, beside)
	}
	return err
}

// chunk is how many commands are sent at once while no clock runs.
const chunk = 1000

// makeTubes makes tubes that have one small job each, and returns the jobs' ids.
func (s *session) makeTubes(n int) (ids []string, err error) {
	t, err := dialText(s.ctx, s.target.Addr)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	for made := 0; made < n; made += chunk {
		if s.ctx.Err() != nil {
			return ids, errCut
		}
		var commands []string
		for i := made; i < min(made+chunk, n); i++ {
			commands = append(commands, fmt.Sprintf("use %sother-%d", s.prefix, i), "put 1024 0 600 1\r\nx")
		}
		answers, err := t.ask(commands...)
		if err != nil {
			return ids, err
		}
		for i, a := range answers {
			id, put := strings.CutPrefix(a, "INSERTED ")
			if put {
				ids = append(ids, id)
			} else if i%2 == 1 {
				return ids, fmt.Errorf("sent %q, got %q", commands[i], a)
			}
		}
	}
	return ids, nil
}

// deleteJobs deletes jobs by id, as far as they are there.
func (s *session) deleteJobs(ids []string) {
	t, err := dialText(context.WithoutCancel(s.ctx), s.target.Addr)
	if err != nil {
		return
	}
	defer t.Close()
	for len(ids) > 0 {
		n := min(chunk, len(ids))
		commands := make([]string, n)
		for i, id := range ids[:n] {
			commands[i] = "delete " + id
		}
		if _, err := t.ask(commands...); err != nil {
			return
		}
		ids = ids[n:]
	}
}

// backlogRate is the part of the largest throughput at which latencies beside a backlog are measured.
const backlogRate = 0.7

func runBacklog(s *session) error {
	if err := s.needs(); err != nil {
		return err
	}
	empty, err := s.measure(s.cycle("empty", always(scriptCycle)))
	if err != nil {
		return err
	}
	copied := *empty
	before := s.settleMemory()
	n := s.cfg.Jobs
	// Their priorities are the load's. So it takes the oldest job and puts new ones behind all others, which is the most
	// work there is for a heap.
	fill, err := s.drive(s.fill(n), fmt.Sprintf("putting %s jobs", count(float64(n))))
	if err != nil {
		return err
	}
	s.figure("filling", "jobs/s", float64(fill.rec.jobs)/fill.elapsed.Seconds(), true)
	s.each("memory of a waiting job", before, s.settleMemory(), n)
	name := count(float64(n)) + " waiting"
	waiting, err := s.measure(s.cycle(name, always(scriptCycle)))
	if waiting == nil {
		return err
	}
	s.compare("throughput left", &copied, waiting)
	if err != nil || s.cfg.Rate > 0 {
		return err
	}
	paced := s.cycle(fmt.Sprintf("%s, at %.0f %% of the largest rate", name, 100*backlogRate), always(scriptCycle))
	paced.rate = backlogRate * waiting.JobRate
	for _, g := range paced.groups {
		g.again, g.starts = false, true
		if g.depth > 1 { // how much may be in flight must not be what bounds the rate
			g.depth *= 8
		}
	}
	_, err = s.measure(paced)
	return err
}

func runIdle(s *session) error {
	if err := s.needs(); err != nil {
		return err
	}
	alone, err := s.measure(s.cycle("alone", always(scriptCycle)))
	if err != nil {
		return err
	}
	copied := *alone
	n := s.cfg.Beside
	before := s.settleMemory()
	idle := make([]*text, 0, n)
	defer func() {
		for _, t := range idle {
			t.Close()
		}
	}()
	s.doing(fmt.Sprintf("making %s connections", count(float64(n))))
	for range n {
		t, err := dialText(s.ctx, s.target.Addr)
		if err != nil {
			if s.ctx.Err() != nil {
				return errCut
			}
			return fmt.Errorf("%w (after %d connections; see ulimit -n)", err, len(idle))
		}
		idle = append(idle, t)
	}
	if _, err := idle[len(idle)-1].expect("USING ", "list-tube-used"); err != nil { // all have been accepted
		return err
	}
	s.each("memory of a new connection", before, s.settleMemory(), n)
	// A connection that has done something may have bought buffers.
	s.doing("using each connection once")
	for i, t := range idle {
		if s.ctx.Err() != nil {
			return errCut
		}
		if err := s.useOnce(t, i); err != nil {
			return err
		}
	}
	s.each("memory of a connection that was used", before, s.settleMemory(), n)
	s.doing("watching idle connections")
	from, began := s.target.usage(), time.Now()
	s.sleep(min(s.cfg.Duration, 2*time.Second))
	if used := s.target.usage().since(from); used.known {
		s.figure("CPU while all is idle", "ms/s", used.cpu.Seconds()*1e3/time.Since(began).Seconds(), false)
	}
	beside, err := s.measure(s.cycle(fmt.Sprintf("beside %s connections", count(float64(n))), always(scriptCycle)))
	if beside != nil {
		s.compare("throughput left", &copied, beside)
	}
	return err
}

// useOnce does a cycle on a connection.
func (s *session) useOnce(t *text, i int) error {
	tube := s.tube(i)
	if err := t.subscribe(tube, []string{tube}); err != nil {
		return err
	}
	body := string(s.wire.payload[:s.wire.puts[0].size])
	put := strings.TrimSpace(string(s.wire.puts[0].line)) + "\r\n" + body
	answers, err := t.expect("INSERTED ", put)
	if err != nil {
		return err
	}
	_, err = t.expect("DELETED", "delete "+strings.TrimPrefix(answers[0], "INSERTED "))
	return err
}

func runRestart(s *session) error {
	n := max(s.cfg.Jobs, 1)
	fill, err := s.drive(s.fill(n), fmt.Sprintf("putting %s jobs", count(float64(n))))
	if err != nil {
		return err
	}
	s.figure("filling", "jobs/s", float64(fill.rec.jobs)/fill.elapsed.Seconds(), true)
	if s.target.usage().known {
		s.figure("memory before", "MiB", float64(s.settleMemory())/(1<<20), false)
	}
	s.target.kill()
	if size := diskUsage(s.target.dir); size > 0 {
		s.figure("disk for a job", "B", float64(size)/float64(n), false)
	} else {
		return fmt.Errorf("%s has written nothing to %s; does its command have {dir}?", s.target.Name, s.target.dir)
	}
	s.doing("recovering")
	began := time.Now()
	if err := s.target.launch(s.ctx); err != nil {
		return err
	}
	// That it accepts is not enough: it has to know the jobs.
	t, err := dialText(s.ctx, s.target.Addr)
	if err != nil {
		return err
	}
	defer t.Close()
	stats, err := t.stats("stats")
	if err != nil {
		return err
	}
	took := time.Since(began)
	if ready, _ := strconv.Atoi(stats["current-jobs-ready"]); ready != n {
		return fmt.Errorf("of %d jobs the server has %q ready after the restart", n, stats["current-jobs-ready"])
	}
	s.figure("recovery", "s", took.Seconds(), false)
	s.figure("recovered", "jobs/s", float64(n)/took.Seconds(), true)
	if m := s.settleMemory(); m > 0 {
		s.figure("memory after", "MiB", float64(m)/(1<<20), false)
	}
	return nil
}

// diskUsage adds up the files of a directory.
func diskUsage(dir string) (sum int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}
