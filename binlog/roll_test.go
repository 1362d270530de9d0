package binlog_test

// From segment to segment: how they begin, end and go.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

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
	eventually(t, "the next segment is made", func() bool { return made(t, f) == 2 })
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
	if made(t, f) != 2 {
		t.Errorf("these are left: %s", names(t, f))
	}
	if _, damages := readBack(t, config(f, 1)); len(damages) > 0 {
		t.Errorf("and damage: %v", damages)
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

// TestReadPutsOfWhatCannotBeRead: cleaning goes on without it, as the jobs are in
// memory; it is said, and the file is put aside when it is needed no more, since
// somebody may want to look at it.
func TestReadPutsOfWhatCannotBeRead(t *testing.T) {
	for _, tc := range []struct {
		op    faultfs.Op
		errno syscall.Errno // 0: the file is damaged
		aside bool
	}{{faultfs.OpOpen, syscall.EIO, true}, {faultfs.OpReadAt, syscall.EIO, true}, {faultfs.OpReadAt, 0, true}, {faultfs.OpOpen, syscall.EMFILE, false}} {
		synctest.Test(t, func(t *testing.T) {
			f := faultfs.New()
			cfg := config(f, 1)
			var log strings.Builder
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			s := serve(t, cfg)
			l := s.logs[0]
			first := l.Segment()
			s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", noise(300))) })
			s.rolls(0, 2)
			s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", noise(300))) })
			synctest.Wait()
			name := segments(t, f)[0]
			if tc.errno == 0 {
				f.Flip(filepath.Join(dir, name), 8*200)
			}
			f.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
				if op == tc.op && tc.errno != 0 {
					return tc.errno
				}
				return nil
			})
			for range 2 {
				if err := l.ReadPuts(first, 300, func([]uint64) error { return nil }); err != nil {
					t.Errorf("%v of %v: %v", tc.errno, tc.op, err)
				}
			}
			f.SetFault(nil)
			s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
			synctest.Wait()
			if n := strings.Count(log.String(), "cannot be read"); n != 1 && tc.aside || n == 0 {
				t.Errorf("%v of %v: logged %d times:\n%s", tc.errno, tc.op, n, log.String())
			}
			if aside := f.Read(filepath.Join(dir, "damaged", name)) != nil; aside != tc.aside {
				t.Errorf("%v of %v: put aside: %t", tc.errno, tc.op, aside)
			}
			if f.Read(filepath.Join(dir, name)) != nil {
				t.Errorf("%v of %v: %s is still there", tc.errno, tc.op, name)
			}
			s.close()
		})
	}
}

// TestNextSegmentIsNotForGood: one whose name cannot be made durable is not
// left behind, however often it is tried.
func TestNextSegmentIsNotForGood(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EIO} {
		f := faultfs.New()
		s := serve(t, config(f, 1))
		var tries atomic.Int64
		f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
			if op == faultfs.OpSyncDir {
				tries.Add(1)
				return err
			}
			return nil
		})
		s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", noise(binlog.MinSegment))) })
		if err == syscall.ENOSPC {
			eventually(t, "it is tried", func() bool { return tries.Load() >= 3 })
		} else {
			eventually(t, "the log has failed", func() bool { return s.logs[0].Err() != nil })
		}
		s.store.Close()
		if made(t, f) != 1 {
			t.Errorf("%v: these are left: %s", err, names(t, f))
		}
	}
}

// TestRollGivesBack: the segment that the shard has left keeps no more space
// than was promised there, also if nothing is written to the next one.
func TestRollGivesBack(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.SegmentSize = 256 << 10
	s := serve(t, cfg)
	l := s.logs[0]
	old := l.Segment()
	s.does(0, func(l *binlog.Log) {
		if !l.FitsPut(binlog.MostPut(1, 256<<10, 0)) {
			t.Fatal("it does not fit")
		}
		l.Put(job(1, "a", noise(256<<10)))
	})
	eventually(t, "the shard goes on in the next", func() bool { return l.Segment() != old })
	// What is in the old one, up to where the end of its file was moved to, what
	// is set aside in the next, headers, and pages that are not full.
	most := 256<<10 + l.Step() + l.Reserve() + l.Step() + 4*4096
	eventually(t, "the rest is given back", func() bool { return f.Used() <= most })
	s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "b")) })
	s.close()
	if got, damages := readBack(t, cfg); len(got.of) != 2 || len(damages) > 0 {
		t.Errorf("%v\n%s", damages, got)
	}
}

// TestSlowDisk: segments do not grow without a bound, however much is appended
// while the disk is busy making the next; where space is short, hardly at all.
// Where there is no room for the next, nothing waits, puts are refused in time, and
// come again when there is room.
func TestSlowDisk(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.SegmentSize = 32 << 10
	s := serve(t, cfg)
	l := s.logs[0]
	var full atomic.Bool
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpCreate {
			time.Sleep(10 * time.Millisecond)
			if full.Load() {
				return syscall.ENOSPC
			}
		}
		return nil
	})
	const size = 2000
	most := 2 * cfg.SegmentSize
	fill := func(jobs int) {
		t.Helper()
		for range jobs {
			l.Segment()
			if !l.FitsPut(size) {
				continue
			}
			l.Put(job(1, "a", noise(size)))
			l.Commit(nil, 1)
		}
		if err := wait(l); err != nil {
			t.Fatal(err)
		}
		for _, name := range segments(t, f) {
			if n := len(f.Read(dir + "/" + name)); int64(n) > most+size+500+l.Step() { // zeros of the last one
				t.Errorf("%s has %d bytes, not %d", name, n, most)
			}
		}
	}
	fill(200)
	if n := len(segments(t, f)); n < 3 {
		t.Errorf("400 KB are in %d segments", n)
	}
	f.Leave(1 << 20)
	for l.Segment(); !l.Tight(); l.Segment() {
		l.FitsPut(size)
		l.Put(job(1, "a", noise(size)))
		l.Commit(nil, 1)
	}
	begun := len(segments(t, f)) // the last one may be large already
	fill(100)
	most = cfg.SegmentSize * 5 / 4
	for i, name := range segments(t, f)[begun:] {
		if n := len(f.Read(dir + "/" + name)); int64(n) > most+size+500+l.Step() {
			t.Errorf("segment %d of a disk that is nearly full, %s, has %d bytes, not %d", i, name, n, most)
		}
	}
	f.SetCapacity(1 << 30)
	most = 2 * cfg.SegmentSize
	full.Store(true)
	fill(200)
	fill(2) // when all of it is written there may be room for one more
	if l.FitsPut(size) || !l.Full() {
		t.Error("without a next segment puts go on")
	}
	if !l.FitsChange(0) {
		t.Error("without a next segment there is no room for a change")
	}
	full.Store(false)
	eventually(t, "puts are accepted again", func() bool { l.Segment(); return l.FitsPut(size) })
	fill(200)
	s.close()
}

// TestDropWithoutRoomInItsBatch: a segment is not removed before it is written
// that it is dropped, also where that has no place in the batch any more.
func TestDropWithoutRoomInItsBatch(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.SegmentSize = 64 << 20
	serve(t, cfg).close()
	s := serve(t, cfg)
	l := s.logs[0]
	var removed atomic.Bool
	blocks := 0
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		switch {
		case op == faultfs.OpRemove:
			removed.Store(true)
		case op == faultfs.OpWriteAt:
			if blocks++; blocks == 2 {
				time.Sleep(50 * time.Millisecond)
				if removed.Load() {
					t.Error("it is removed")
				}
			}
		}
		return nil
	})
	// All but the lengths of names takes as much as it may.
	const n = 1 << 31
	big := binlog.Job{
		Meta: binlog.Meta{ID: 1 << 62, State: binlog.Buried, Pri: n, Delay: n, Reserves: n, Timeouts: n, Releases: n, Buries: n, Kicks: n},
		TTR:  n, Tube: "a", Created: 1,
	}
	big.Body = []byte(noise(4<<20 - binlog.BlockOverhead - mostPut(&big)))
	l.Put(&big)
	l.Drop(l.Settled())
	if err := wait(l); err != nil || blocks != 2 {
		t.Errorf("%d blocks are written: %v", blocks, err)
	}
	s.close()
}

// TestDropAfterAHeader: a header tells of no drop that is recorded only in the
// blocks behind it. A crash in between leaves the segments that were to be
// dropped needed, and a start would not miss one of them, nor keep its gap.
func TestDropAfterAHeader(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	l := s.logs[0]
	s.rolls(0, 1)
	s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "b")) })
	eventually(t, "the next segment is ready", l.Ready)
	goOn := make(chan struct{})
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpWriteAt {
			<-goOn
		}
		return nil
	})
	full, dropped := make(held, 1), make(held, 1)
	l.Put(job(3, "filler", noise(binlog.MinSegment)))
	l.Commit(full, 1)
	if third := l.Segment(); third != 3 {
		t.Fatalf("the shard goes on in segment %d", third)
	}
	l.Drop(2)
	l.Commit(dropped, 1)
	close(goOn)
	if err := errors.Join(<-full, <-dropped); err != nil {
		t.Fatal(err)
	}
	s.rolls(0, 4)
	s.does(0, func(l *binlog.Log) { l.Put(job(5, "a", "b")) })
	s.close()
	for index, oldest := range map[int]uint64{3: 1, 4: 2} {
		header := f.Read(filepath.Join(dir, fmt.Sprintf("segment.1.0.%08d", index)))
		if got := binary.LittleEndian.Uint64(header[48:]); got != oldest {
			t.Errorf("segment %d says that %d is the oldest, want %d", index, got, oldest)
		}
	}
}

// TestDropWhenTheDiskFails: where the janitor is to remove segments and to make the
// next one, and that fails, they stay. What they wait for was not synced, and is not
// any more.
func TestDropWhenTheDiskFails(t *testing.T) {
	for _, fail := range []faultfs.Op{faultfs.OpCreate, faultfs.OpSyncDir, faultfs.OpAllocate} {
		t.Run(fail.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDropWhenTheDiskFails(t, fail) })
		})
	}
}

func testDropWhenTheDiskFails(t *testing.T, fail faultfs.Op) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.Sync = time.Millisecond
	s := serve(t, cfg)
	l := s.logs[0]
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", noise(binlog.MinSegment))) })
	synctest.Wait()
	first := segments(t, f)[0]
	// There is no third segment, so that is tried again and again.
	fails(f, faultfs.OpCreate, syscall.EMFILE)
	s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "b")) })
	synctest.Wait()
	if l.Settled() == 1 || l.Ready() {
		t.Fatalf("the shard is in segment %d, and there is a next one: %t", l.Settled(), l.Ready())
	}
	var failing atomic.Bool
	syncing, open := make(chan struct{}), make(chan struct{})
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		switch {
		case failing.Load() && op == fail:
			return syscall.EIO
		case failing.Load() && op == faultfs.OpSync:
			t.Errorf("%s is synced", name)
		case failing.Load():
		case op == faultfs.OpCreate:
			return syscall.EMFILE
		case op == faultfs.OpSync:
			close(syncing)
			<-open
		}
		return nil
	})
	s.does(0, func(l *binlog.Log) { l.Put(job(3, "a", "b")) })
	<-syncing
	time.Sleep(time.Second) // then it is time to try
	// While it does, both come to be done next.
	failing.Store(true)
	s.does(0, func(l *binlog.Log) {
		l.Put(job(1, "a", noise(binlog.MinSegment)))
		l.Drop(l.Settled())
	})
	synctest.Wait()
	close(open)
	synctest.Wait()
	if err := l.Err(); !errors.Is(err, syscall.EIO) {
		t.Errorf("the log has failed with %v", err)
	}
	if f.Read(filepath.Join(dir, first)) == nil {
		t.Errorf("%s is removed", first)
	}
	s.store.Close()
}
