package binlog_test

// A disk that fails, or has no room for what must be written: whoever waits is
// told.

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// TestFailure: when the disk fails, whoever waits is told, it is told once, and
// nothing is written or synced any more, whatever the disk does then.
func TestFailure(t *testing.T) {
	for _, sync := range []time.Duration{0, time.Millisecond, binlog.SyncNever} {
		for _, fails := range []faultfs.Op{faultfs.OpWriteAt, faultfs.OpSync, faultfs.OpAllocate, faultfs.OpCreate, faultfs.OpTruncate} {
			if sync < 0 && fails == faultfs.OpSync {
				continue
			}
			t.Run(fmt.Sprint(sync, fails), func(t *testing.T) {
				defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
				synctest.Test(t, func(t *testing.T) { testFailure(t, sync, fails) })
			})
		}
	}
}

func testFailure(t *testing.T, sync time.Duration, fails faultfs.Op) {
	f := faultfs.New()
	cfg := config(f, 2)
	cfg.Sync = sync
	s := serve(t, cfg)
	var failures, after atomic.Int64
	var failed, rests atomic.Bool
	l := s.logs[0]
	l.OnFailure(func() { failures.Add(1) })
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if !strings.Contains(name, ".1.0.") {
			return nil
		}
		if op == fails && !failed.Swap(true) {
			return syscall.EIO
		}
		if rests.Load() && (op == faultfs.OpWriteAt || op == faultfs.OpSync) {
			after.Add(1)
		}
		return nil
	})
	eventually(t, "the log has failed", func() bool {
		l.Segment()
		if l.FitsPut(1000) {
			l.Put(job(1, "a", noise(900)))
		}
		err := wait(l)
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatalf("a batch is released with %v", err)
		}
		return l.Err() != nil
	})
	// Of writer and janitor one has seen the disk fail. The other may have looked
	// whether it has just before, and then goes on with what it was about to do.
	synctest.Wait()
	rests.Store(true)
	for range 3 {
		l.Segment()
		l.Put(job(2, "a", "b"))
		if err := wait(l); !errors.Is(err, syscall.EIO) {
			t.Fatalf("afterwards a batch is released with %v", err)
		}
	}
	if err := l.Flush(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Flush: %v", err)
	}
	l.OnFailure(func() { failures.Add(1) }) // is called for what was before
	if err := l.Err(); !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
		t.Errorf("it failed for %q", err)
	}
	s.does(1, func(l *binlog.Log) { l.Put(job(3, "a", "b")) }) // the other shard goes on
	if err := s.store.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v", err)
	}
	if n := failures.Load(); n != 2 {
		t.Errorf("OnFailure is called %d times", n)
	}
	if n := after.Load(); n > 0 {
		t.Errorf("afterwards there are %d writes and syncs", n)
	}
	got, damages := readBack(t, config(f.Kill(), 2))
	if len(damages) > 0 || got.of[2].ID != 0 || got.of[3].ID != 3 {
		t.Errorf("and then: %v\n%s", damages, got)
	}
}

// TestGoroutinesEnd with the log.
func TestGoroutinesEnd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for range 3 {
		f := faultfs.New()
		s := serve(t, config(f, 3))
		s.rolls(1, 1)
		s.close()
	}
}

// TestFlushFails: that a sync failed is final, also if the next one would not.
func TestFlushFails(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.Sync = time.Hour
	s := serve(t, cfg)
	l := s.logs[0]
	l.Put(job(1, "a", "b"))
	fails(f, faultfs.OpSync, syscall.EIO)
	if err := l.Flush(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Flush: %v", err)
	}
	f.SetFault(nil)
	if err := l.Flush(); !errors.Is(err, syscall.EIO) || !errors.Is(l.Err(), syscall.EIO) {
		t.Errorf("and then: %v; the log failed: %v", err, l.Err())
	}
	s.store.Close()
}

// TestCloseOnAFullDisk that has not kept what was set aside: it does not wait
// for room, and whoever waits for the log is told.
func TestCloseOnAFullDisk(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	l, h := s.logs[0], make(held, 1)
	fails(f, faultfs.OpWriteAt, syscall.ENOSPC)
	l.Put(job(1, "a", "b"))
	l.Commit(h, 1)
	ends(t, "closing", func() {
		if err := s.store.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close: %v", err)
		}
	})
	if err := <-h; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the batch is released with %v", err)
	}
}

// TestFailureOnAFullDisk: nobody waits for room in a log that has failed.
func TestFailureOnAFullDisk(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.Sync = time.Millisecond
	s := serve(t, cfg)
	l, h := s.logs[0], make(held, 1)
	syncing, fail := make(chan struct{}), make(chan struct{})
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpSync {
			close(syncing) // it is the last one
			<-fail
			return syscall.EIO
		}
		return nil
	})
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "b")) })
	<-syncing
	full := make(chan struct{}, 1000)
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpWriteAt {
			full <- struct{}{}
			return syscall.ENOSPC
		}
		return nil
	})
	l.Put(job(2, "a", "b"))
	l.Commit(h, 2)
	<-full
	close(fail)
	ends(t, "the batch", func() {
		if err := <-h; !errors.Is(err, syscall.EIO) {
			t.Errorf("it is released with %v", err)
		}
	})
	ends(t, "closing", func() { s.store.Close() })
}
