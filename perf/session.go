package perf

// A session: one run of one scenario against one server.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// errInterrupted ends a session whose context has ended; what was measured until
// then stands.
var errInterrupted = errors.New("interrupted")

// A session is one run of a scenario. One goroutine uses it.
type session struct {
	ctx        context.Context
	scenario   *Scenario
	cfg        Config
	target     *Target
	wire       *wire
	ledger     *ledger
	prefix     string // of its tubes
	result     Result
	cleanupErr error                       // what could not be cleaned up on a server that goes on
	show       func(doing string, s stage) // the progress; may be nil
}

// runSession starts the target, runs the scenario, cleans up, and stops the
// target. If there is an error, the result is still worth showing if it has
// loads.
func runSession(ctx context.Context, sc *Scenario, cfg Config, t *Target, l *ledger, show func(string, stage)) (res Result, err error) {
	if err := sc.fits(&cfg, t); err != nil {
		return Result{Server: t.Name, Loads: []Load{}}, err
	}
	s := &session{ctx: ctx, scenario: sc, cfg: cfg, target: t, ledger: l, show: show, prefix: "sheafperf-"}
	s.result.Server, s.result.Loads, t.gearman = t.Name, []Load{}, sc.Gearman
	if l != nil {
		s.cfg.LeastBody = headerCheck
	}
	s.wire = newWire(&s.cfg)
	if !t.started() {
		s.prefix = fmt.Sprintf("sheafperf-%d-", os.Getpid()) // others may measure on the same server
	}
	defer func() {
		if err != nil {
			t.giveTimeToDie() // its connections are closed a little before it is gone
		}
		if e := t.stop(); e != nil {
			// If the server died, that is why everything else went wrong.
			err = errors.Join(e, err)
		}
	}()
	s.doing("starting")
	if err := t.start(ctx, s.binlogFlags()); err != nil {
		if ctx.Err() != nil {
			s.result.Interrupted = true
			return s.result, nil
		}
		return s.result, err
	}
	t.askVersion(ctx)
	err = sc.run(s)
	there, silent := true, error(nil)
	if err != nil && (l != nil || !t.started()) {
		there, silent = s.reachable()
	}
	if l != nil {
		// If the load has failed, an error of emptying the tubes most likely
		// has the same cause.
		if e := s.settleLedger(there); err == nil {
			err = e
		}
	}
	switch {
	case t.started():
	case silent != nil:
		s.addCleanupError(s.mayBeLeft(silent))
	case err != nil && there:
		s.addCleanupError(s.tidy())
	case err != nil: // the server is gone, and its jobs with it
	case l == nil:
		s.addCleanupError(s.sweep(0))
	}
	if errors.Is(err, errInterrupted) {
		s.result.Interrupted = true
		err = nil
	}
	return s.result, errors.Join(err, s.cleanupErr)
}

// binlogFlags returns beanstalkd's flags for a binlog, for a command without
// {dir}.
func (s *session) binlogFlags() []string {
	switch {
	case !s.scenario.binlog:
		return nil
	case s.cfg.Sync == "never":
		return []string{"-b", "{dir}", "-F"}
	}
	return []string{"-b", "{dir}", "-f", s.cfg.Sync}
}

// doing shows what the session does now.
func (s *session) doing(what string) {
	if s.show != nil {
		s.show(what, stage{})
	}
}

// tube is the name of the nth tube of the load.
func (s *session) tube(n int) string { return fmt.Sprintf("%s%d", s.prefix, n%s.cfg.Tubes) }

// note adds a remark to the report.
func (s *session) note(format string, args ...any) {
	s.result.Notes = append(s.result.Notes, fmt.Sprintf(format, args...))
}

// figure adds a number to the report.
func (s *session) figure(name, unit string, value float64, more bool) {
	s.result.Figures = append(s.result.Figures, Figure{Name: name, Unit: unit, Value: value, More: more})
}

// drive carries out a plan.
func (s *session) drive(p plan, doing string) (*measurement, error) {
	if s.ctx.Err() != nil {
		return nil, errInterrupted
	}
	l := &load{plan: p, cfg: &s.cfg, wire: s.wire, ledger: s.ledger, gearman: s.scenario.Gearman}
	var watch func(stage)
	if s.show != nil {
		watch = func(st stage) { s.show(doing, st) }
	}
	m, err := l.run(s.ctx, s.target, watch)
	switch {
	case err != nil && s.ctx.Err() != nil:
		return nil, errInterrupted // while a connection was being made
	case err != nil:
		return nil, err
	case m.cut:
		return m, errInterrupted // that jobs are still under way is then no fault
	}
	return m, m.broken()
}

// measure carries out a plan and reports it. A load that was cut short is
// returned beside the error.
func (s *session) measure(p plan) (Load, error) {
	doing := p.name
	if doing == "" {
		doing = "measuring"
	}
	m, err := s.drive(p, doing)
	if m == nil || m.rec.answers == 0 {
		if err == nil {
			err = s.errNothingMeasured(m)
		}
		return Load{}, err
	}
	return s.report(m, &p), err
}

// errNothingMeasured is the error of a load in whose measured time nothing was
// answered. Jobs with a delay come in bursts, which may fall before and after it.
func (s *session) errNothingMeasured(m *measurement) error {
	err := fmt.Errorf("nothing was answered within %v", s.cfg.Duration)
	if m.answers == 0 {
		return err
	}
	err = fmt.Errorf("%w, but %s before or after that", err, plural(m.answers, "command"))
	if d := s.cfg.longestDelay(); d >= s.cfg.Duration {
		err = fmt.Errorf("%w; jobs have delays of %s s, so --duration has to be longer", err, s.cfg.Delay)
	}
	return err
}

// atRate measures a load in the loop that Config.Rate asks for. If that is a
// share of a closed loop's rate, two loads are measured: first the closed loop,
// then the open one. It is the first that is returned.
func (s *session) atRate(name string, measure func(name string, rate float64) (Load, error)) (Load, error) {
	r := s.cfg.Rate
	if r.part == 0 {
		return measure(name, r.jobs)
	}
	closed := name
	if closed == "" {
		closed = "closed loop"
	}
	l, err := measure(closed, 0)
	if err != nil {
		return l, err
	}
	if l.JobRate == 0 { // as with delays longer than the load
		return l, fmt.Errorf("no job was finished in the closed loop within %v, so there is no rate to take %s of", s.cfg.Duration, r)
	}
	_, err = measure(strings.TrimPrefix(fmt.Sprintf("%s, at %s of the closed loop's rate", name, r), ", "), r.part*l.JobRate)
	return l, err
}

const (
	// A thread of the client that is busy for more than this part of the time is
	// suspected to be the bottleneck.
	clientBusy = 0.9
	// No server answers a command with less CPU: its process must be another.
	leastCPU = 0.02 // µs
	// An open loop has kept its rate if no more than this part of its jobs still
	// waits to be sent at the end; so much may be due to a pause of the server.
	lateJobs = 0.01
)

// report adds what was measured to the result, with notes on what limits its
// meaning.
func (s *session) report(m *measurement, p *plan) Load {
	l := m.load(p, s.scenario.names)
	s.result.Loads = append(s.result.Loads, l)
	in := ""
	if l.Name != "" {
		in = l.Name + ": "
	}
	if m.rec.noJobs > 0 && l.Jobs > 0 {
		s.result.Figures = append(s.result.Figures, Figure{Load: l.Name, Name: "NO_JOB per job", Unit: "times", Value: float64(m.rec.noJobs) / float64(l.Jobs)})
	}
	if m.server.known && l.Server.CPUPerAnswer < leastCPU && l.Answers >= 1000 {
		what, advice := "the process that the command is", "if a shell starts the server, have it exec that"
		if !s.target.started() {
			what, advice = fmt.Sprintf("process %d", s.target.Pid), "see --pid"
		}
		s.note("%s%s took next to no CPU, so it is not the server, and nor are CPU and memory the server's; %s", in, what, advice)
	}
	if m.busiest.Seconds() > clientBusy*l.Seconds {
		advice := "; it has a thread for each CPU"
		if m.threads < cpus {
			advice = fmt.Sprintf("; try --threads %d", m.threads+1)
		}
		s.note("%sa thread of the client was busy more than %.0f %% of the time, so the client may be what was measured%s", in, 100*clientBusy, advice)
	}
	if late := float64(l.Late) / float64(l.Late+l.Jobs); late > lateJobs {
		s.note("%sthe rate was not reached: %.0f %% of the jobs were still waiting to be sent at the end", in, 100*late)
	}
	return l
}

// settleMemory waits until the server's memory changes by less than 0.5 %, for at
// most 3 s, and returns it in bytes, or 0 if it is not known.
func (s *session) settleMemory() int64 {
	var last int64
	step := min(250*time.Millisecond, s.cfg.Duration/2)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && s.ctx.Err() == nil; {
		u := s.target.usage()
		if !u.known {
			return 0
		}
		if d := u.rss - last; last > 0 && max(d, -d) < u.rss/200 {
			return u.rss
		}
		last = u.rss
		s.sleep(step)
	}
	return last
}

// sleep returns early when the session is interrupted.
func (s *session) sleep(d time.Duration) {
	select {
	case <-s.ctx.Done():
	case <-time.After(d):
	}
}

// settleLedger empties the tubes, so that what does not come is known to be lost.
// If the server is not there, nothing more can be learnt.
func (s *session) settleLedger(there bool) error {
	s.ledger.connsClosed()
	if !there {
		return nil
	}
	end := time.Now().Add(s.cfg.Grace)
	for {
		if err := s.sweep(maxTidying); err != nil {
			return fmt.Errorf("emptying the tubes to see whether anything is lost: %w", err)
		}
		// The server may be a little late to see that connections were closed.
		if s.ledger.missing() == 0 || time.Now().After(end) {
			s.ledger.close()
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}
