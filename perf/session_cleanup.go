package perf

// Cleaning up, so that nothing is left on a server that goes on, however a load
// has ended.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSilence is how long a server may take to show that it is there, after a
	// load on it has failed or was interrupted: a user who has pressed Ctrl-C does
	// not want to wait.
	maxSilence = time.Second
	// maxTidying bounds the cleaning up after such a load.
	maxTidying = time.Minute
	// sweepStep is how long jobs are deleted before progress is looked at.
	sweepStep = 10 * time.Second
)

// addCleanupError adds an error about what is left on the server; nil adds
// nothing.
func (s *session) addCleanupError(err error) { s.cleanupErr = errors.Join(s.cleanupErr, err) }

// withoutCancel calls do with a session that an interruption does not end, but
// limit does; 0 is no limit.
func (s *session) withoutCancel(limit time.Duration, do func() error) error {
	was := s.ctx
	defer func() { s.ctx = was }()
	s.ctx = context.WithoutCancel(was)
	if limit > 0 {
		ctx, cancel := context.WithTimeout(s.ctx, limit)
		defer cancel()
		s.ctx = ctx
	}
	return do()
}

// reachable reports whether the server is there. The error is of a server that
// seems to be there and does not answer; one that is gone has no jobs either.
func (s *session) reachable() (there bool, err error) {
	s.doing("cleaning up")
	err = s.withoutCancel(maxSilence, func() error {
		for {
			err := s.target.ping(s.ctx)
			switch {
			case err == nil:
				there = true
				return nil
			case errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT):
				return nil
			case s.ctx.Err() != nil:
				return fmt.Errorf("the server does not answer within %v", maxSilence)
			}
			s.sleep(20 * time.Millisecond) // it may be about to end
		}
	})
	return there, err
}

// mayBeLeft is the error for tubes that may not be empty.
func (s *session) mayBeLeft(err error) error {
	return fmt.Errorf("jobs may be left in %s: %w", tubeRange(s.tube(0), s.tube(s.cfg.Tubes-1)), err)
}

// tidy empties the tubes after a load that has failed or was interrupted. The
// error says what is left.
func (s *session) tidy() error {
	return s.withoutCancel(maxTidying, func() error {
		swept := s.ledger != nil // settleLedger has done so
		var failed error
		fewest, since := int64(math.MaxInt64), time.Now()
		for {
			if !swept {
				failed = s.sweepTubes()
			}
			n, tubes, err := s.left()
			switch {
			case err != nil:
				return s.mayBeLeft(errors.Join(failed, err))
			case n == 0:
				return nil
			case n < fewest:
				fewest, since = n, time.Now()
			}
			// The server may see a little late that connections were closed.
			if failed != nil || time.Since(since) > maxSilence || s.ctx.Err() != nil {
				what := plural(n, "job")
				if n == 1 {
					what += " is"
				} else {
					what += " are"
				}
				return errors.Join(fmt.Errorf("%s left in %s", what, tubeList(tubes)), failed)
			}
			s.sleep(20 * time.Millisecond)
			swept = false
		}
	})
}

// sweep deletes the jobs that the load has left in its tubes, as long as it makes
// progress, and for at most limit; 0 is no limit. An interruption does not end
// it.
func (s *session) sweep(limit time.Duration) error { return s.withoutCancel(limit, s.sweepTubes) }

func (s *session) sweepTubes() error {
	s.doing("cleaning up")
	if !s.scenario.Gearman {
		if err := s.kickTubes(); err != nil {
			return err
		}
	}
	for {
		m, err := s.drive(s.drain(sweepStep), "cleaning up")
		switch {
		case errors.Is(err, errInterrupted): // by limit, since a user's interruption does not reach here
			return errors.New("emptying the tubes takes too long")
		case err != nil:
			return fmt.Errorf("emptying the tubes: %w", err)
		case m.elapsed >= sweepStep && m.rec.jobs > 0: // there may be more
			continue
		case m.elapsed >= sweepStep:
			return fmt.Errorf("emptying the tubes: no job was deleted within %v", sweepStep)
		}
		if s.scenario.Gearman && !s.target.started() {
			s.dropFunctions()
		}
		return nil
	}
}

// kickTubes makes all jobs of the tubes ready.
func (s *session) kickTubes() error {
	t, err := dialPlain(s.ctx, s.target.Addr)
	if err != nil {
		return err
	}
	defer t.Close()
	if s.ledger != nil {
		s.ledger.forgetDelays()
	}
	for i := range s.cfg.Tubes {
		if err := t.subscribe(s.tube(i), nil); err != nil {
			return err
		}
		// A kick takes delayed jobs only where none is buried.
		for kicked := ""; kicked != "KICKED 0"; {
			answers, err := t.expect("KICKED ", "kick 1000000")
			if err != nil {
				return err
			}
			kicked = answers[0]
		}
	}
	return nil
}

// left counts the jobs in the tubes, and returns the tubes that have some.
func (s *session) left() (jobs int64, tubes []string, err error) {
	if s.scenario.Gearman {
		return s.jobsOfFunctions()
	}
	t, err := dialPlain(s.ctx, s.target.Addr)
	if err != nil {
		return 0, nil, err
	}
	defer t.Close()
	for i := range s.cfg.Tubes {
		command := "stats-tube " + s.tube(i)
		answers, err := t.ask(command)
		if err != nil {
			return 0, nil, err
		}
		if answers[0] == "NOT_FOUND" {
			continue
		}
		stats, err := t.values(command, answers[0])
		if err != nil {
			return 0, nil, err
		}
		n := int64(0)
		for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
			of, _ := strconv.ParseInt(stats["current-jobs-"+state], 10, 64)
			n += of
		}
		if jobs += n; n > 0 {
			tubes = append(tubes, s.tube(i))
		}
	}
	return jobs, tubes, nil
}

// tubeList names up to four tubes.
func tubeList(tubes []string) string {
	const most = 4
	if len(tubes) > most {
		return fmt.Sprintf("%s and %s more", strings.Join(tubes[:most-1], ", "), plural(len(tubes)-most+1, "tube"))
	}
	return strings.Join(tubes, ", ")
}

// tubeRange names a range of tubes.
func tubeRange(first, last string) string {
	if first == last {
		return first
	}
	return first + " to " + last
}

// deleteJobs deletes the jobs in tubes beside the load by id, as far as they
// still exist.
func (s *session) deleteJobs(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	there, err := s.reachable()
	if err == nil && there {
		err = s.withoutCancel(maxTidying, func() error { return s.deleteByID(ids) })
	}
	if err != nil {
		return fmt.Errorf("jobs may be left in %s: %w", tubeRange(s.otherTube(0), s.otherTube(len(ids)-1)), err)
	}
	return nil
}

func (s *session) deleteByID(ids []string) error {
	t, err := dialPlain(s.ctx, s.target.Addr)
	if err != nil {
		return err
	}
	defer t.Close()
	for len(ids) > 0 {
		if s.ctx.Err() != nil {
			return errors.New("deleting them takes too long")
		}
		n := min(chunk, len(ids))
		commands := make([]string, n)
		for i, id := range ids[:n] {
			commands[i] = "delete " + id
		}
		answers, err := t.ask(commands...)
		if err != nil {
			return err
		}
		for i, a := range answers {
			if a != "DELETED" && a != "NOT_FOUND" {
				return fmt.Errorf("sent %q, got %q", commands[i], a)
			}
		}
		ids = ids[n:]
	}
	return nil
}
