package binlog_test

// When a log syncs, and how many answers share it.

import (
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// TestSyncsSeldom: with a time between syncs there is no more than one in that
// time, and no less as long as something is written.
func TestSyncsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		cfg := config(f, 1)
		cfg.Sync, cfg.SegmentSize = 50*time.Millisecond, 1<<20
		s := serve(t, cfg)
		synctest.Wait()
		start := time.Now()
		var syncs, writes []time.Duration
		f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
			switch op {
			case faultfs.OpSync:
				syncs = append(syncs, time.Since(start))
			case faultfs.OpWriteAt:
				writes = append(writes, time.Since(start))
			}
			return nil
		})
		id := uint64(0)
		for _, pause := range []time.Duration{0, 1, 1, 10, 20, 30, 49, 50, 51, 100, 1, 1, 1, 200, 1000, 3, 7} {
			time.Sleep(pause * time.Millisecond)
			id++
			s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "b")) })
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for i := 1; i < len(syncs); i++ {
			if syncs[i]-syncs[i-1] < cfg.Sync {
				t.Errorf("syncs at %v and %v", syncs[i-1], syncs[i])
			}
		}
		for _, w := range writes {
			if !slices.ContainsFunc(syncs, func(s time.Duration) bool { return s >= w && s <= w+cfg.Sync }) {
				t.Errorf("what was written at %v is not synced in time: %v", w, syncs)
			}
		}
		if n := len(syncs); n > 14 {
			t.Errorf("%d syncs", n) // there is none when nothing was written
		}
		f.SetFault(nil)
		s.close()
	})
}

func TestNeverSyncs(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.Sync = binlog.SyncNever
	s := serve(t, cfg)
	syncs := counts(f, faultfs.OpSync)
	s.rolls(0, 1)
	s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "b")) })
	s.close()
	if n := syncs.Load(); n > 0 {
		t.Errorf("%d syncs", n)
	}
}

// TestGather: clients that come back at once when they are answered share
// syncs, although the first of them could have one of its own. When most do not
// come back, the others are kept waiting for them once in a while only.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, left, syncTime, turn = 64, 2, 100 * time.Microsecond, time.Microsecond
		f := faultfs.New()
		cfg := config(f, 1)
		cfg.SegmentSize = 1 << 20 // going on in the next costs syncs, too
		s := serve(t, cfg)
		defer s.close()
		var syncs atomic.Int64
		f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
			if op == faultfs.OpSync && strings.Contains(name, "segment.") {
				syncs.Add(1)
				time.Sleep(syncTime)
			}
			return nil
		})
		l, back, sent := s.logs[0], make(held, clients), 0
		send := func() {
			time.Sleep(turn) // that it takes to run a command
			sent++
			l.Segment()
			l.Put(job(uint64(sent), "a", "b"))
			l.Commit(back, 1)
		}
		// come has as many come back as are to, whenever they are answered.
		come := func(n int) (records, perSync float64, took time.Duration) {
			from, before, began := sent, syncs.Load(), time.Now()
			for sent < from+n {
				if err := <-back; err != nil {
					t.Fatal(err)
				}
				send()
			}
			records = float64(n)
			return records, records / float64(syncs.Load()-before), time.Since(began)
		}
		for range clients {
			send()
		}
		come(10 * clients) // it learns how long a sync takes
		if _, perSync, _ := come(50 * clients); perSync < clients*3/4 {
			t.Errorf("%.1f records share a sync, of %d clients", perSync, clients)
		}
		for range clients - left {
			<-back
		}
		come(10 * left)
		records, perSync, took := come(1000 * left)
		t.Logf("%d clients that are left: %.2f records a sync, %v a round", left, perSync, took/time.Duration(records/left))
		if round := took / time.Duration(records/left); round > 3*syncTime {
			t.Errorf("%d clients that are left wait %v for each other; a sync takes %v", left, round, syncTime)
		}
		for range left {
			<-back
		}
	})
}

// TestZerosAhead: where each answer waits for a sync, blocks are written over zeros,
// so that no sync has to write where the file ends or which blocks of it are used.
func TestZerosAhead(t *testing.T) {
	for _, sync := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f := faultfs.New()
			cfg := config(f, 1)
			cfg.Sync, cfg.SegmentSize = sync, 16<<20
			s := serve(t, cfg)
			var filled, blocks, behind int
			var end int64
			f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
				if op != faultfs.OpWriteAt || !strings.Contains(name, "segment.") {
					return nil
				}
				switch {
				case n > 64<<10:
					filled++
				case off+int64(n) > end:
					behind++
					fallthrough
				default:
					blocks++
				}
				end = max(end, off+int64(n))
				return nil
			})
			for id := range uint64(2000) {
				s.does(0, func(l *binlog.Log) { l.Put(job(id+1, "a", strings.Repeat("b", 1000))) })
				synctest.Wait() // until the janitor has set more space aside: zeros go no further
			}
			f.SetFault(nil)
			s.close()
			t.Logf("sync %v: %d blocks, %d times zeros, %d blocks behind them, file of %d bytes", sync, blocks, filled, behind, end)
			if blocks < 2000 {
				t.Errorf("%d blocks", blocks)
			}
			if sync == 0 && (filled == 0 || filled > 10 || behind > filled+1) || sync != 0 && filled > 0 {
				t.Errorf("with a sync each %v zeros were written %d times, and %d blocks behind them", sync, filled, behind)
			}
		})
	}
}

// countingFS counts which way its segments are synced.
type countingFS struct {
	*faultfs.FS
	takes          *atomic.Int64 // how long a sync takes
	syncs, inPlace *atomic.Int64
}

type countingFile struct {
	binlog.File
	fs countingFS
}

func (f countingFS) Create(name string) (binlog.File, error) {
	file, err := f.FS.Create(name)
	return countingFile{file, f}, err
}

func (f countingFile) Sync() error {
	f.fs.syncs.Add(1)
	time.Sleep(time.Duration(f.fs.takes.Load()))
	return f.File.Sync()
}

func (f countingFile) SyncInPlace() error {
	f.fs.inPlace.Add(1)
	time.Sleep(time.Duration(f.fs.takes.Load()))
	return f.File.Sync()
}

// TestSyncInPlace: where there are few processors, threads wait in place for a disk that
// syncs in no time, but not for a slow one, or one that is slow now and then.
func TestSyncInPlace(t *testing.T) {
	for _, processors := range []int{2, 3} {
		before := runtime.GOMAXPROCS(processors)
		synctest.Test(t, func(t *testing.T) {
			f := countingFS{faultfs.New(), new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)}
			cfg := config(f.FS, 1)
			cfg.FS = f
			cfg.SegmentSize = 1 << 20
			s := serve(t, cfg)
			defer s.close()
			id := uint64(0)
			// inPlace has the log sync that often, and returns how many syncs were in place.
			inPlace := func(times int, takes time.Duration) int64 {
				f.takes.Store(int64(takes))
				f.syncs.Store(0)
				f.inPlace.Store(0)
				for range times {
					id++
					s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "b")) })
				}
				if all := f.syncs.Load() + f.inPlace.Load(); all < int64(times) {
					t.Fatalf("%d syncs of %d", all, times)
				}
				return f.inPlace.Load()
			}
			short := inPlace(200, 100*time.Microsecond)
			if processors > 2 {
				if short > 0 {
					t.Errorf("%d syncs in place with %d processors", short, processors)
				}
				return
			}
			if short < 130 || short > 140 {
				t.Errorf("%d of 200 short syncs were in place", short)
			}
			if n := inPlace(100, 2*time.Millisecond); n != 1 {
				t.Errorf("%d of 100 long syncs were in place", n)
			}
			if n := inPlace(60, 100*time.Microsecond); n > 0 {
				t.Errorf("%d syncs were in place soon after long ones", n)
			}
			if n := inPlace(100, 100*time.Microsecond); n < 90 {
				t.Errorf("%d of 100 short syncs were in place, long after the long ones", n)
			}
			if n := inPlace(100, 800*time.Microsecond); n > 20 {
				t.Errorf("%d of 100 syncs that are neither short nor long were in place", n)
			}
		})
		runtime.GOMAXPROCS(before)
	}
}
