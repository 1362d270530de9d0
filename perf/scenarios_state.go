package perf

// Scenarios about what a server has to remember while it is under load: tubes,
// jobs, connections.

import (
	"fmt"
	"strings"
	"time"
)

// A burden gives the server something to remember. It returns a name for the load
// beside it, and a function that removes the burden again, which is valid even
// with an error; nil if there is nothing to remove.
type burden func(*session) (name string, undo func() error, err error)

// measureBeside measures a cycle without and then with a burden, and reports how
// much of the throughput is left.
func (s *session) measureBeside(without string, lay burden) error {
	s.noteTubes()
	cycle := func(name string, rate float64) (Load, error) {
		return s.measure(s.cycle(name, rate, always(scriptCycle)))
	}
	alone, err := cycle(without, s.cfg.Rate.jobs)
	if err != nil {
		return err
	}
	if err := s.restartServer(); err != nil {
		return err
	}
	name, undo, err := lay(s)
	if undo != nil {
		defer func() { s.addCleanupError(undo()) }()
	}
	if err != nil {
		return err
	}
	beside, err := s.atRate(name, cycle)
	if beside.AnswerRate > 0 {
		s.figure("throughput left", "%", 100*beside.AnswerRate/alone.AnswerRate, true)
	}
	return err
}

// restartServer has the burden laid on a server that has done nothing yet, if it
// is one that can be started again. Otherwise memory that the server got for the
// first load, and has to spare since, would be used for the burden and not
// counted.
func (s *session) restartServer() error {
	if !s.target.started() || s.ledger != nil {
		return nil
	}
	s.doing("starting the server again")
	if err := s.target.stop(); err != nil {
		return err
	}
	return s.target.start(s.ctx, s.binlogFlags())
}

// memoryPer reports how much memory each of n things takes, from two readings in
// bytes; a reading of 0 is not known.
func (s *session) memoryPer(thing string, before, after int64, n int) {
	if before > 0 && after > 0 && n > 0 {
		s.figure("memory per "+thing, "B", float64(after-before)/float64(n), false)
		if !s.target.started() {
			s.note("the memory per %s leaves out what the server had taken before for something else and uses again; only a server that --server starts is sure to have none", thing)
		}
	}
}

func runManyTubes(s *session) error { return s.measureBeside("alone", layTubes) }

func layTubes(s *session) (name string, undo func() error, err error) {
	n := s.cfg.Beside
	before := s.settleMemory()
	s.doing(fmt.Sprintf("making %s tubes", count(float64(n))))
	ids, err := s.makeTubes(n)
	if !s.target.started() {
		undo = func() error { return s.deleteJobs(ids) }
	}
	if err != nil {
		return "", undo, err
	}
	s.memoryPer("tube with a job", before, s.settleMemory(), n)
	return fmt.Sprintf("beside %s tubes", count(float64(n))), undo, nil
}

// chunk is how many commands are sent at once while nothing is measured.
const chunk = 1000

// otherTube is the name of the nth tube beside those of the load.
func (s *session) otherTube(n int) string { return fmt.Sprintf("%sother-%d", s.prefix, n) }

// makeTubes makes n tubes with one small job each, and returns the jobs' ids,
// even with an error.
func (s *session) makeTubes(n int) (ids []string, err error) {
	t, err := dialPlain(s.ctx, s.target.Addr)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	for made := 0; made < n; made += chunk {
		if s.ctx.Err() != nil {
			return ids, errInterrupted
		}
		var commands []string
		for i := made; i < min(made+chunk, n); i++ {
			commands = append(commands, "use "+s.otherTube(i), "put 1024 0 600 1\r\nx")
		}
		answers, err := t.ask(commands...)
		if err != nil {
			return ids, err
		}
		for i, a := range answers {
			id, put := strings.CutPrefix(a, "INSERTED ")
			if put {
				ids = append(ids, id)
			} else if i%2 == 1 && err == nil {
				err = fmt.Errorf("sent %q, got %q%s", commands[i], a, hint(a))
			}
		}
		if err != nil { // after the loop, so that the ids that follow are known, too
			return ids, err
		}
	}
	return ids, nil
}

func runBacklog(s *session) error { return s.measureBeside("empty", layJobs) }

func layJobs(s *session) (name string, undo func() error, err error) {
	n := s.cfg.Jobs
	before := s.settleMemory()
	// They have the load's priorities. So the load takes the oldest job and puts
	// new ones behind all others, which is the most work for a heap.
	fill, err := s.drive(s.fill(n), fmt.Sprintf("putting %s jobs", count(float64(n))))
	if err != nil {
		return "", nil, err
	}
	s.figure("filling", "jobs/s", float64(fill.rec.jobs)/fill.elapsed.Seconds(), true)
	s.memoryPer("waiting job", before, s.settleMemory(), n)
	return count(float64(n)) + " waiting", nil, nil
}

func runIdle(s *session) error { return s.measureBeside("alone", layConnections) }

func layConnections(s *session) (name string, undo func() error, err error) {
	n := s.cfg.Beside
	before := s.settleMemory()
	idle := make([]*plainConn, 0, n)
	undo = func() error {
		for _, t := range idle {
			t.Close()
		}
		return nil
	}
	s.doing(fmt.Sprintf("making %s connections", count(float64(n))))
	for range n {
		t, err := dialPlain(s.ctx, s.target.Addr)
		if err != nil {
			if s.ctx.Err() != nil {
				return "", undo, errInterrupted
			}
			return "", undo, fmt.Errorf("%w (after %d connections; see ulimit -n)", err, len(idle))
		}
		idle = append(idle, t)
	}
	// A server accepts in order: once it answers the last one, it has them all.
	if n > 0 {
		if _, err := idle[n-1].expect("USING ", "list-tube-used"); err != nil {
			return "", undo, explainLimit(err, served(idle))
		}
	}
	s.memoryPer("idle connection", before, s.settleMemory(), n)
	// A connection that was used may keep buffers.
	s.doing("using each connection once")
	for i, t := range idle {
		if s.ctx.Err() != nil {
			return "", undo, errInterrupted
		}
		if err := s.useOnce(t, i); err != nil {
			return "", undo, err
		}
	}
	s.memoryPer("idle connection, once used", before, s.settleMemory(), n)
	s.doing("watching idle connections")
	from, began := s.target.usage(), time.Now()
	s.sleep(min(s.cfg.Duration, 2*time.Second))
	if used := s.target.usage().since(from); used.known {
		s.figure("CPU while all is idle", "ms/s", used.cpu.Seconds()*1e3/time.Since(began).Seconds(), false)
	}
	return fmt.Sprintf("beside %s connections", count(float64(n))), undo, nil
}

// served counts the connections before the first that gets no answer. The server
// has had time to accept them.
func served(conns []*plainConn) int {
	for i, t := range conns {
		t.patience = 200 * time.Millisecond
		if _, err := t.expect("USING ", "list-tube-used"); err != nil {
			return i
		}
	}
	return len(conns)
}

// useOnce puts and deletes a job on a connection.
func (s *session) useOnce(t *plainConn, i int) error {
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
