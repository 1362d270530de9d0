package binlog_test

// One log: when answers leave, what is on the disk by then, and what happens
// when the disk does not do its part.

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// order notes in which order batches are released.
type order struct {
	mu       sync.Mutex
	released []int
	errs     []error
}

// batch is the waiter of batch n.
func (o *order) batch(n int) binlog.Held { return waiter{o, n} }

func (o *order) so(t testing.TB, want ...int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.released, want) {
		t.Fatalf("batches %d are released, want %d", o.released, want)
	}
}

func (o *order) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.released)
}

type waiter struct {
	of *order
	n  int
}

func (w waiter) Release(err error) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.released = append(w.of.released, w.n)
	w.of.errs = append(w.of.errs, err)
}

// gate is a fault that holds up one operation on segments.
type gate struct {
	op      faultfs.Op
	entered chan struct{}
	open    chan struct{}
}

func newGate(f *faultfs.FS, op faultfs.Op) *gate {
	g := &gate{op: op, entered: make(chan struct{}, 100), open: make(chan struct{})}
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == g.op && strings.Contains(name, "segment.") {
			g.entered <- struct{}{}
			<-g.open
		}
		return nil
	})
	return g
}

// TestGroupCommit: while the disk is busy with one batch others come together,
// to be one block, and nobody hears of a batch before the disk has it.
func TestGroupCommit(t *testing.T) {
	for _, tc := range []struct {
		sync time.Duration
		op   faultfs.Op // that an answer waits for
	}{{0, faultfs.OpWriteAt}, {0, faultfs.OpSync}, {time.Hour, faultfs.OpWriteAt}, {binlog.SyncNever, faultfs.OpWriteAt}} {
		t.Run(fmt.Sprint(tc.sync, tc.op), func(t *testing.T) {
			f := faultfs.New()
			cfg := config(f, 1)
			cfg.Sync = tc.sync
			s := serve(t, cfg)
			g, o, l := newGate(f, tc.op), new(order), s.logs[0]
			room := l.Room()
			for n := range 10 {
				l.Segment()
				l.Put(job(uint64(n+1), "a", fmt.Sprint(n)))
				if n == 5 {
					l.Delete(1)
				}
				if l.Commit(o.batch(n), n) {
					t.Fatalf("batch %d is safe at once", n)
				}
				if n == 0 {
					<-g.entered
				}
			}
			if l.Commit(o.batch(10), 10) {
				t.Fatal("an empty batch does not wait for those before it")
			}
			time.Sleep(5 * time.Millisecond)
			o.so(t)
			f.SetFault(nil)
			close(g.open)
			eventually(t, "all are released", func() bool { return o.count() == 11 })
			o.so(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
			eventually(t, "nothing is under way", func() bool { return l.Commit(o.batch(11), 10) })
			room -= l.Room()
			s.close()
			blocks := binlog.Blocks(f.Read(filepath.Join(dir, segments(t, f)[0])))
			if len(blocks) != 2 {
				t.Fatalf("there are %d blocks", len(blocks))
			}
			// More may have been set aside meanwhile, that much at a time.
			if size := blocks[1].End - blocks[0].At; (size-room)%binlog.MinSegment != 0 {
				t.Errorf("two blocks of %d bytes have taken %d of the room", size, room)
			}
		})
	}
}

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
	var syncs atomic.Int64
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpSync {
			syncs.Add(1)
		}
		return nil
	})
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

// operations keeps a record of what is done to segments.
type operations struct {
	mu   sync.Mutex
	list []string
}

func watch(f *faultfs.FS) *operations {
	o := new(operations)
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if strings.Contains(name, "segment.") || op == faultfs.OpSyncDir {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.list = append(o.list, op.String()+" "+filepath.Base(name))
		}
		return nil
	})
	return o
}

// last returns where an operation was last done, -1 for never.
func (o *operations) last(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, op := range slices.Backward(o.list) {
		if op == what {
			return i
		}
	}
	return -1
}

func (o *operations) first(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Index(o.list, what)
}

// TestRoll: no block goes to the next segment before the one before is on the
// disk, nor anything before its own name is.
func TestRoll(t *testing.T) {
	for _, sync := range []time.Duration{0, time.Hour} {
		f := faultfs.New()
		cfg := config(f, 1)
		cfg.Sync = sync
		s := serve(t, cfg)
		ops := watch(f)
		s.rolls(0, 1)
		s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "b")) })
		s.close()
		list := segments(t, f)
		if len(list) != 2 {
			t.Fatalf("segments %s", list)
		}
		write, block := ops.first("write "+list[1]), ops.last("write "+list[1])
		if last, sync := ops.last("write "+list[0]), ops.last("sync "+list[0]); last > sync || sync > block || block == write {
			t.Errorf("the old segment is written at %d and synced at %d, the new one written at %d and %d: %s", last, sync, write, block, ops.list)
		}
		if made, durable := ops.first("create "+list[1]), ops.first("syncdir log"); made < 0 || made > durable || durable > write {
			t.Errorf("the new segment is made at %d and so for good at %d, and written at %d: %s", made, durable, write, ops.list)
		}
	}
}

// TestDrop: segments go when the drop, and all that was written before it, is
// on the disk.
func TestDrop(t *testing.T) {
	for _, sync := range []time.Duration{0, time.Hour} {
		f := faultfs.New()
		cfg := config(f, 1)
		cfg.Sync = sync
		s := serve(t, cfg)
		s.rolls(0, 1)
		s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "b")) })
		s.rolls(0, 3)
		s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "b")) })
		list := segments(t, f)
		ops := watch(f)
		s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
		eventually(t, "the segments are gone", func() bool { return len(segments(t, f)) == 1 })
		write, sync := ops.first("write "+list[2]), ops.first("sync "+list[2])
		for _, name := range list[:2] {
			if gone := ops.first("remove " + name); write > sync || sync > gone {
				t.Errorf("the drop is written at %d and synced at %d, %s is removed at %d", write, sync, name, gone)
			}
		}
		if st := s.store.Stats(); st.Oldest != st.Current || !strings.HasSuffix(list[2], fmt.Sprint(st.Current)) {
			t.Errorf("stats: %+v, segments %s", st, list)
		}
		s.close()
	}
}

// TestClose leaves nothing behind the last block, and no file that was made for
// later.
func TestClose(t *testing.T) {
	for n := range 3 {
		f := faultfs.New()
		s := serve(t, config(f, 2))
		for i := range n {
			s.rolls(0, uint64(i+1)) // the last one only has the next segment made
		}
		s.close()
		for _, name := range segments(t, f) {
			data := f.Read(filepath.Join(dir, name))
			end := int64(binlog.SegmentHeader)
			if blocks := binlog.Blocks(data); len(blocks) > 0 {
				end = blocks[len(blocks)-1].End
			}
			if int64(len(data)) != end {
				t.Errorf("%s has %d bytes, its last block ends at %d", name, len(data), end)
			}
		}
		if _, damages := readBack(t, config(f, 2)); len(damages) > 0 {
			t.Errorf("after %d rolls: %v", n, damages)
		}
		serve(t, config(f, 2)).close()
	}
}

// TestSegmentsAreUsed: one that was made ready is written to or removed, also
// if the writer is late to learn that the shard goes on in it.
func TestSegmentsAreUsed(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	l := s.logs[0]
	a := l.Segment()
	l.Put(job(1, "a", noise(binlog.MinSegment)))
	if err := wait(l); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next segment is made", func() bool { return strings.Count(fmt.Sprint(names(t, f)), "segment.") == 2 })
	g := newGate(f, faultfs.OpWriteAt)
	o := new(order)
	l.Put(job(2, "a", "b"))
	l.Commit(o.batch(0), 2) // to the first segment
	<-g.entered
	eventually(t, "the shard goes on in the next", func() bool { return l.Segment() != a })
	b := l.Segment()
	f.SetFault(nil)
	close(g.open)
	eventually(t, "the batch is written", func() bool { return o.count() == 1 })
	time.Sleep(20 * time.Millisecond) // for the janitor, who sees a full segment
	if c := l.Segment(); c != b {
		t.Errorf("the shard goes from segment %d to %d with nothing written in %d", a, c, b)
	}
	s.does(0, func(l *binlog.Log) { l.Put(job(3, "a", "b")) })
	s.close()
	if list := names(t, f); strings.Count(fmt.Sprint(list), "segment.") != 2 {
		t.Errorf("these are left: %s", list)
	}
	if _, damages := readBack(t, config(f, 1)); len(damages) > 0 {
		t.Errorf("and damage: %v", damages)
	}
}

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
				f := faultfs.New()
				cfg := config(f, 2)
				cfg.Sync = sync
				s := serve(t, cfg)
				var failures, after atomic.Int64
				var failed atomic.Bool
				l := s.logs[0]
				l.OnFailure(func() { failures.Add(1) })
				f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
					if !strings.Contains(name, ".1.0.") {
						return nil
					}
					if op == fails && !failed.Swap(true) {
						return syscall.EIO
					}
					if failed.Load() && (op == faultfs.OpWriteAt || op == faultfs.OpSync) && l.Err() != nil {
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
			})
		}
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

// TestCloseWritesWhatWasCommitted also if nobody waits for it.
func TestCloseWritesWhatWasCommitted(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.Sync = time.Hour
	s := serve(t, cfg)
	o := new(order)
	for id := range uint64(100) {
		s.logs[0].Segment()
		s.logs[0].Put(job(id+1, "a", "b"))
		s.logs[0].Commit(o.batch(int(id)), 0)
	}
	s.close()
	if n := o.count(); n != 100 {
		t.Errorf("%d batches are released", n)
	}
	if got, _ := readBack(t, config(f, 1)); len(got.of) != 100 {
		t.Errorf("%d jobs are there", len(got.of))
	}
}

func TestReadPuts(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	first := s.logs[0].Segment()
	for id := uint64(1); id <= 10; id++ {
		s.does(0, func(l *binlog.Log) {
			l.Put(job(id, "a", noise(100)))
			l.Delete(id / 2)
		})
	}
	s.rolls(0, 11)
	s.does(0, func(l *binlog.Log) { l.Put(job(12, "a", "b")) })
	var got []uint64
	steps := 0
	if err := s.logs[0].ReadPuts(first, 300, func(ids []uint64) error {
		got = append(got, ids...)
		steps++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) || steps < 4 {
		t.Errorf("ids %d in %d steps", got, steps)
	}
	stop := errors.New("enough")
	if err := s.logs[0].ReadPuts(first, 1, func([]uint64) error { return stop }); err != stop {
		t.Errorf("ended with %v", err)
	}
	s.close()
}
