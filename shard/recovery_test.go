package shard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// What is read back although it cannot have been written by one server: shards
// are started on it all the same.

// odd is the binlog of two shards.
type odd struct {
	t   *testing.T
	dir string
}

// open returns the store, the logs that are to be written, and what each stream
// had in it.
func (s *odd) open() (*binlog.Store, []*binlog.Log, []*Recovery) {
	st, err := binlog.Open(binlog.Config{Dir: s.dir, Shards: 2})
	if err != nil {
		s.t.Fatal(err)
	}
	var read []*Recovery
	for i := range st.Streams() {
		r := NewRecovery()
		if err := r.Replay(st, i); err != nil {
			s.t.Fatal(err)
		}
		read = append(read, r)
	}
	logs, err := st.Begin()
	if err != nil {
		s.t.Fatal(err)
	}
	if !st.Rearranged() {
		if err := st.Commit(); err != nil {
			s.t.Fatal(err)
		}
	}
	return st, logs, read
}

// start starts shards on it, ends them, and calls f to look at them.
func (s *odd) start(f func(d *Directory, shards []*Shard)) {
	st, logs, read := s.open()
	d := NewDirectory()
	d.Skip(st.LastID())
	g := &rig{clock: NewClock(), budget: NewBudget(0, len(logs))}
	for i := range logs {
		cfg := Config{Index: i, Clock: g.clock, Directory: d, Budget: g.budget, Draining: &g.draining, Log: logs[i], Recovery: read[i]}
		if i > 0 {
			cfg.First = g.shards[0]
		}
		g.shards = append(g.shards, New(cfg))
	}
	g.stop()
	f(d, g.shards)
	if err := st.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// TestRecoveryOfTwins: two shards have jobs with the same ids. All are served,
// those of one with new ids, which they keep.
func TestRecoveryOfTwins(t *testing.T) {
	s := &odd{t: t, dir: t.TempDir()}
	st, logs, _ := s.open()
	const n = 30
	far := int64(1) << 62
	for i, l := range logs {
		for id := uint64(1); id <= n; id++ {
			j := &binlog.Job{
				Meta: binlog.Meta{ID: id, Pri: uint32(id), State: binlog.State(id % 3)},
				TTR:  60, Created: 1, Tube: fmt.Sprint("tube", i), Body: fmt.Append(nil, i, " ", id),
			}
			if id%2 == 0 {
				j.Task, j.Unique, j.Reducer = true, fmt.Sprint("unique ", id), fmt.Sprint("reducer ", id)
			}
			switch j.State {
			case binlog.Delayed:
				j.At, j.Delay = far, 1000
			case binlog.Buried:
				j.At = int64(n - id + 1) // the last first
			}
			l.Put(j)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	for start := range 3 {
		s.start(func(d *Directory, shards []*Shard) {
			if d.LastID() != 2*n {
				t.Errorf("start %d: the last id is %d", start, d.LastID())
			}
			for i, sh := range shards {
				var bodies []string
				for j := range sh.all() {
					old := j.id - uint64(i)*n // those of shard 1 have been renamed
					want := fmt.Append(nil, i, " ", old)
					if !bytes.Equal(sh.body(j), append(want, '\r', '\n')) || j.pri != uint32(old) || j.state == reserved {
						t.Errorf("start %d: job %d on shard %d is %q, %v, priority %d", start, j.id, i, sh.body(j), j.state, j.pri)
					}
					task := sh.taskOf(j)
					if tasked := old%2 == 0; tasked != (task != nil) || tasked &&
						(task.Unique != fmt.Sprint("unique ", old) || task.Reducer != fmt.Sprint("reducer ", old) || !task.Background) {
						t.Errorf("start %d: job %d on shard %d has the task %+v", start, j.id, i, task)
					}
					if got := d.Lookup(j.id); got != i {
						t.Errorf("start %d: job %d is on shard %d, want %d", start, j.id, got, i)
					}
					bodies = append(bodies, string(sh.body(j)))
				}
				slices.Sort(bodies)
				if m := len(slices.Compact(bodies)); m != n || sh.jobs != n || sh.ready != n/3 || sh.delayed != n/3 || sh.buried != n/3 {
					t.Errorf("start %d: shard %d has %d of %d jobs: %d ready, %d delayed, %d buried", start, i, m, sh.jobs, sh.ready, sh.delayed, sh.buried)
				}
				in, weighs := 0, int64(0)
				for _, seg := range sh.segments {
					in += seg.jobs
				}
				for j := range sh.all() {
					weighs += sh.weight(j)
				}
				if in != n || sh.live != weighs {
					t.Errorf("start %d: segments of shard %d have %d jobs, %d bytes of %d", start, i, in, sh.live, weighs)
				}
				last := uint64(n + 1)
				for j := sh.tubes[fmt.Sprint("tube", i)].buried.head; j != nil; j = j.next {
					if old := j.id - uint64(i)*n; old >= last {
						t.Errorf("start %d: job %d is buried behind one that was buried later", start, j.id)
					} else {
						last = old
					}
				}
			}
		})
	}
}

// TestRecoveryOfFarIDs: ids that are read back may be any.
func TestRecoveryOfFarIDs(t *testing.T) {
	s := &odd{t: t, dir: t.TempDir()}
	st, logs, _ := s.open()
	ids := []uint64{7, 1 << 40, 1 << 60, 1<<63 + 5}
	for _, id := range ids {
		logs[0].Put(&binlog.Job{Meta: binlog.Meta{ID: id}, TTR: 60, Created: 1, Tube: "tube"})
	}
	if err := logs[0].Flush(); err != nil {
		t.Fatal(err)
	}
	if err := st.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s.start(func(d *Directory, shards []*Shard) {
		for _, id := range ids {
			if d.Lookup(id) != 0 {
				t.Errorf("job %d is on shard %d", id, d.Lookup(id))
			}
		}
		if id := d.NextID(); id != 1<<63+6 {
			t.Errorf("the next id is %d", id)
		}
	})
}

// TestFullRestart: on a full disk what the deletes of a shard's jobs need is not
// given to the puts of others after a restart, though the shard has had nothing
// to do since.
func TestFullRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		f.SetCapacity(1 << 20)
		rng := rand.New(rand.NewPCG(1, 1))
		fill := func(p *person) (ids []uint64) {
			for refused := 0; refused < 50; {
				body := incompressible(rng, 50+rng.IntN(200))
				r := p.do(p.used.Shard, Request{Op: Put, Tube: p.used, TTR: 100, Body: body})
				if r.Status == OK {
					ids = append(ids, r.ID)
				} else if refused++; refused%10 == 0 {
					time.Sleep(time.Second)
				}
			}
			return ids
		}
		g, _, stop := newLoggedRig(t, f, 2, 32<<10)
		b := g.newPerson().settleIn("b1")
		ids := fill(b)
		b.detach()
		stop()
		g, _, stop = newLoggedRig(t, f, 2, 32<<10)
		a, b := g.newPerson().settleIn("a0"), g.newPerson().settleIn("b1")
		fill(a)
		for i, id := range ids {
			b.post(1, &Request{Op: Delete, ID: id})
			time.Sleep(time.Second)
			if !b.waiter.Answered() {
				t.Errorf("%d of %d deletes are answered", i, len(ids))
				break
			}
		}
		f.SetCapacity(1 << 30)
		b.await()
		a.detach()
		b.detach()
		stop()
	})
}

// TestStopOnAStuckDisk: a shard stops in the middle of cleaning although its
// answers wait for a disk that keeps nothing of what was set aside.
func TestStopOnAStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		g, _, stop := newLoggedRig(t, f, 1, 16<<10)
		p := g.newPerson().settleIn("a")
		rng := rand.New(rand.NewPCG(1, 1))
		job := func() Request {
			return Request{Op: Put, Tube: p.used, TTR: 1, Body: incompressible(rng, 2000)}
		}
		p.do(0, job()) // it stays, and is cleaned
		synctest.Wait()
		var stuck atomic.Bool
		f.SetFault(func(op faultfs.Op, name string, _ int64, _ int) error {
			switch {
			case op == faultfs.OpOpen && strings.Contains(name, "segment."):
				stuck.Store(true) // cleaning begins
			case op == faultfs.OpWriteAt && stuck.Load():
				return syscall.ENOSPC
			}
			return nil
		})
		for range 100 {
			put := job()
			if p.post(0, &put); !answered(p) {
				break
			}
			if p.post(0, &Request{Op: Delete, ID: put.ID}); !answered(p) {
				break
			}
		}
		if !stuck.Load() || p.waiter.Answered() {
			t.Fatal("nothing was cleaned")
		}
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-stopped:
		default:
			t.Error("the shard waits for the disk before it stops")
			f.SetFault(nil)
			<-stopped
		}
	})
}

// answered tells whether all that was posted is answered when nothing moves.
func answered(p *person) bool {
	synctest.Wait()
	return p.waiter.Answered()
}
