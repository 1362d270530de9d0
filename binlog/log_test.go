package binlog_test

// One log: when answers leave, what is on the disk by then, and what happens
// when the disk does not do its part.

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestLargeBatch: one that grows too large goes to the disk in parts, whatever
// of its jobs it is that takes the space.
func TestLargeBatch(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.Compression = binlog.None
	s := serve(t, cfg)
	long := strings.Repeat("x", binlog.MaxName)
	s.does(0, func(l *binlog.Log) {
		for id := uint64(1); id <= 50; id++ {
			j := job(id, "a", "b")
			j.Task, j.Unique, j.Reducer = true, long, long
			l.Put(j)
		}
	})
	s.close()
	var most int64
	for _, name := range segments(t, f) {
		for _, b := range binlog.Blocks(f.Read(filepath.Join(dir, name))) {
			most = max(most, b.End-b.At)
		}
	}
	if most > 4<<20+binlog.BlockOverhead {
		t.Errorf("a block has %d bytes", most)
	}
	got, damages := readBack(t, cfg)
	if len(damages) > 0 || len(got.of) != 50 || got.of[50].Unique != long || got.of[50].Reducer != long {
		t.Errorf("%v, %d jobs", damages, len(got.of))
	}
}
