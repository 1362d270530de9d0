package perf

// Scenario restart: which jobs a server has after a crash, and how soon.

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"
)

func runRestart(s *session) error {
	n := s.cfg.Jobs
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
		s.figure("disk per job", "B", float64(size)/float64(n), false)
	} else {
		return fmt.Errorf("%s has written nothing to %s; does its command have {dir}?", s.target.Name, s.target.dir)
	}
	s.doing("recovering")
	began := time.Now()
	if err := s.target.launch(s.ctx); err != nil {
		return err
	}
	// That it accepts connections is not enough: it has to know the jobs.
	t, err := dialPlain(s.ctx, s.target.Addr)
	if err != nil {
		return err
	}
	defer t.Close()
	stats, err := t.stats("stats")
	if err != nil {
		return err
	}
	took := time.Since(began)
	ready, _ := strconv.Atoi(stats["current-jobs-ready"])
	delayed, _ := strconv.Atoi(stats["current-jobs-delayed"])
	if ready+delayed != n {
		return fmt.Errorf("of %d jobs the server has %d after the restart", n, ready+delayed)
	}
	s.figure("recovery", "s", took.Seconds(), false)
	s.figure("recovered", "jobs/s", float64(n)/took.Seconds(), true)
	if m := s.settleMemory(); m > 0 {
		s.figure("memory after", "MiB", float64(m)/(1<<20), false)
	}
	return nil
}

// diskUsage returns the size of all files in a directory, in bytes.
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
