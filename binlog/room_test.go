package binlog_test

// Room on the disk: what was found to fit fits, and there is always some for
// deletes.

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// complaints are the messages that a log of slog's gets.
type complaints struct {
	mu   sync.Mutex
	list []string
}

func (c *complaints) Enabled(context.Context, slog.Level) bool { return true }
func (c *complaints) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *complaints) WithGroup(string) slog.Handler            { return c }
func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "refused" {
			line += ", " + a.String()
		}
		return true
	})
	c.list = append(c.list, line)
	return nil
}

func (c *complaints) have(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.list, func(s string) bool { return strings.Contains(s, text) })
}

// TestRoomIsPromisedOnce: on a disk that runs full, whatever was found to fit
// can be written, and so can the delete of each job that is there.
func TestRoomIsPromisedOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) { fill(rt) })
	})
}

func fill(t *rapid.T) {
	f := faultfs.New()
	f.SetCapacity(int64(rapid.IntRange(24, 200).Draw(t, "capacity")) << 10)
	var log complaints
	cfg := config(f, 1)
	cfg.Log = slog.New(&log)
	cfg.SegmentSize = int64(rapid.SampledFrom([]int{4096, 8192, 65536}).Draw(t, "segment"))
	store, err := binlog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := store.Begin()
	if err == nil {
		err = store.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	l := logs[0]
	var ids []uint64
	next := uint64(0)
	full := false
	commit := func() {
		h := make(held, 1)
		if !l.Commit(h, len(ids)) {
			synctest.Wait()
			select {
			case err := <-h:
				if err != nil {
					t.Fatalf("a batch is released with %v", err)
				}
			default:
				f.SetCapacity(1 << 30) // let it end
				<-h
				t.Errorf("what was found to fit has no room on the disk: %d jobs are there", len(ids))
			}
		}
		l.Segment()
	}
	put := func() {
		j := job(next+1, "t", noise(rapid.SampledFrom([]int{0, 10, 300, 3000}).Draw(t, "size")))
		if full = !l.FitsPut(mostPut(j)); full {
			return
		}
		next++
		ids = append(ids, next)
		l.Put(j)
	}
	change := func() {
		if len(ids) > 0 && l.FitsChange(0) {
			l.Change(&binlog.Meta{
				ID: rapid.SampledFrom(ids).Draw(t, "id"), State: binlog.Buried, At: 1 << 40,
				Pri: 1 << 31, Delay: 1 << 31, Reserves: 1 << 31, Timeouts: 1 << 31, Releases: 1 << 31, Buries: 1 << 31, Kicks: 1 << 31,
			})
		}
	}
	del := func() {
		if len(ids) > 0 {
			i := rapid.IntRange(0, len(ids)-1).Draw(t, "delete")
			l.Delete(ids[i])
			ids = slices.Delete(ids, i, i+1)
		}
	}
	many := func(what func()) {
		single := rapid.Bool().Draw(t, "single")
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			if what(); single {
				commit()
			}
		}
		commit()
	}
	for range rapid.IntRange(1, 8).Draw(t, "steps") {
		switch rapid.IntRange(0, 4).Draw(t, "step") {
		case 0, 1:
			many(put)
		case 2:
			many(change)
		case 3:
			many(del)
		case 4:
			time.Sleep(time.Second)
		}
	}
	for len(ids) > 0 {
		del()
		commit()
	}
	if log.have("answers wait") {
		t.Error("the disk was full for what had been found to fit")
	}
	f.SetCapacity(1 << 30)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPutsAgain: when there is room again, puts are accepted again.
func TestPutsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		f.SetCapacity(64 << 10)
		var log complaints
		cfg := config(f, 1)
		cfg.Log = slog.New(&log)
		s := serve(t, cfg)
		l := s.logs[0]
		id := uint64(0)
		for l.FitsPut(binlog.MostPut(1, 1000, 10)) {
			id++
			s.does(0, func(l *binlog.Log) { l.Put(job(id, "t", noise(1000))) })
			synctest.Wait()
			if id > 100 {
				t.Fatal("64 KiB have room for 100 KB")
			}
		}
		if !l.Full() || !log.have("the disk is full: puts are answered OUT_OF_MEMORY") {
			t.Errorf("full: %v, log: %q", l.Full(), log.list)
		}
		time.Sleep(time.Second)
		if l.FitsPut(binlog.MostPut(1, 1000, 10)) {
			t.Error("a put fits on a full disk")
		}
		if !l.FitsChange(0) || !l.FitsCopy(100) {
			t.Error("a change, or a copy, has no room although it was set aside")
		}
		f.SetCapacity(128 << 10)
		time.Sleep(time.Second)
		if !l.FitsPut(binlog.MostPut(1, 1000, 10)) || l.Full() {
			t.Errorf("there is room again, full: %v", l.Full())
		}
		s.close()
	})
}

// TestLastLineTells: on a full disk on which now and then a put fits, because jobs are
// deleted, the last line of the server's log says whether puts are refused.
func TestLastLineTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const refused, accepted = "the disk is full: puts are answered OUT_OF_MEMORY", "there is room again: puts are accepted"
		f := faultfs.New()
		f.SetCapacity(64 << 10)
		var log complaints
		cfg := config(f, 2)
		cfg.Log = slog.New(&log)
		s := serve(t, cfg)
		l := s.logs[0]
		says := func(when string, lines int, last string) {
			t.Helper()
			synctest.Wait()
			log.mu.Lock()
			defer log.mu.Unlock()
			if len(log.list) != lines || !strings.Contains(log.list[lines-1], last) {
				t.Errorf("%s: log %q, want %d lines, the last %q", when, log.list, lines, last)
			}
		}
		puts := func(fits bool) {
			t.Helper()
			if fits {
				f.Leave(256 << 10)
			} else {
				f.Leave(0)
			}
			time.Sleep(50 * time.Millisecond)
			size := 1000
			if !fits {
				size = 1 << 20 // more than is set aside
			}
			if l.FitsPut(binlog.MostPut(1, size, 10)) != fits {
				t.Fatalf("with room for it %v, a put fits %v", fits, !fits)
			}
			if fits {
				s.does(0, func(l *binlog.Log) { l.Put(job(1, "t", noise(1000))) })
			}
		}
		for end := time.Now().Add(59 * time.Second); time.Now().Before(end); {
			puts(false)
			puts(true)
			if len(log.list) > 1 {
				t.Fatalf("log: %q", log.list)
			}
		}
		says("after 59 s", 1, refused)
		time.Sleep(2 * time.Second)
		puts(false)
		says("after a minute", 2, refused+" until there is room, refused=")
		time.Sleep(time.Minute)
		says("while nobody puts", 2, refused)
		puts(true)
		says("a minute after a put was refused", 3, accepted)
		puts(false)
		says("a put is refused again", 4, refused)
		puts(true)
		time.Sleep(4 * time.Second)
		says("4 s after that, with a put that fits", 4, refused)
		time.Sleep(time.Second)
		says("5 s after that", 5, accepted+", refused=1")
		s.close()
	})
}

// TestDiskThatOthersFill: a log notices it, though nothing is appended, and sets
// aside what there should be on a disk that is nearly full: room for a change of
// each job, and for what is copied to clean.
func TestDiskThatOthersFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 500
		f := faultfs.New()
		s := serve(t, config(f, 1))
		l := s.logs[0]
		h := make(held, 1)
		for id := range uint64(jobs) {
			j := job(id+1, "a", noise(100))
			if !l.FitsPut(mostPut(j)) {
				t.Fatal("a put has no room")
			}
			l.Put(j)
		}
		l.Commit(h, jobs)
		if err := <-h; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		before := l.Reserve()
		f.Leave(512 << 10)
		time.Sleep(time.Second)
		synctest.Wait()
		f.Leave(0)
		if least := before + jobs*2*(binlog.BlockOverhead+30); l.Reserve() < least || l.Room() < l.Reserve() {
			t.Errorf("%d bytes are set aside, of a reserve of %d, which was %d, want %d", l.Room(), l.Reserve(), before, least)
		}
		s.close()
	})
}

// TestExtra: what is set aside for changes goes by the number of jobs, and is no
// more than half of what they take.
func TestExtra(t *testing.T) {
	for _, tc := range []struct{ segment, jobs, live, least, most int64 }{
		{4096, 0, 0, 0, 0},
		{4096, 1000, 1 << 20, 150_000, 256 << 10},
		{4096, 1000, 100 << 20, 150_000, 256 << 10},
		{4096, 1000, 100_000, 50_000, 50_000},
		{1 << 20, 1000, 1 << 20, 1 << 19, 1 << 19},
		{10 << 20, 1e6, 100 << 20, 20 << 20, 25 << 20},
	} {
		cfg := config(faultfs.New(), 1)
		cfg.SegmentSize = tc.segment
		s := serve(t, cfg)
		s.logs[0].Holds(int(tc.jobs), tc.live)
		if n := s.logs[0].Extra(); n < tc.least || n > tc.most {
			t.Errorf("segments of %d, %d jobs that take %d: %d, want %d to %d", tc.segment, tc.jobs, tc.live, n, tc.least, tc.most)
		}
		s.close()
	}
}

// TestPutsOfALargeBatch: the deletes of jobs that were put in one batch are
// promised room, also if it is so large that it goes to the disk in parts.
func TestPutsOfALargeBatch(t *testing.T) {
	f := faultfs.New()
	f.SetCapacity(20 << 20)
	s := serve(t, config(f, 1))
	l := s.logs[0]
	n, body := 0, noise(100)
	for {
		j := job(uint64(n+1), "a", body)
		if !l.FitsPut(mostPut(j)) {
			break
		}
		l.Put(j)
		n++
	}
	h := make(held, 1)
	l.Commit(h, n)
	if l.Room() < l.Reserve() {
		t.Errorf("for %d jobs %d bytes are left, want %d", n, l.Room(), l.Reserve())
	}
	if err := <-h; err != nil || n < 50_000 {
		t.Errorf("%d jobs: %v", n, err)
	}
	s.close()
}

// nearlyFull has a log with a segment that is full, a next one that is ready,
// and a disk on which others take all that is not set aside. Then jobs are put
// that leave that much of what is; below 0 there is a page for
// what is too much.
func nearlyFull(t *testing.T, f *faultfs.FS, s *server, left int64) {
	l := s.logs[0]
	s.does(0, func(l *binlog.Log) {
		l.FitsPut(6000)
		l.Put(job(1, "a", noise(3800)))
	})
	eventually(t, "the next segment is ready", func() bool { return made(t, f) == 2 && l.Ready() })
	f.Leave(0)
	if left < 0 {
		f.Leave(4096)
	}
	for _, left := range []int64{left + 2000, left} {
		h := make(held, 1)
		l.Put(job(2, "a", noise(int(l.Room()-left)-100)))
		l.Commit(h, 1)
		if err := <-h; err != nil {
			t.Fatal(err)
		}
	}
}

// TestRollWithoutRoom: where the next segment has no room on the disk, the one
// before has what it had, no less and no more.
func TestRollWithoutRoom(t *testing.T) {
	for left := int64(-200); left < 7000; left += 300 { // deletes may take too much
		f := faultfs.New()
		s := serve(t, config(f, 1))
		l := s.logs[0]
		nearlyFull(t, f, s, left)
		before, segment := l.Room(), l.Settled()
		// Meanwhile, the page that is left on the disk may have been set aside, too.
		if l.Segment() == segment && l.Room() != before && (left >= 0 || l.Room() != before+4096) {
			t.Errorf("of %d bytes set aside there are %d when the log has not gone on", before, l.Room())
		}
		f.SetCapacity(1 << 30)
		s.close()
	}
}

// TestStartTakesAPage: a server needs a page of the disk for each shard, no
// more, after any end of the one before.
func TestStartTakesAPage(t *testing.T) {
	for shards := 1; shards <= 4; shards++ {
		f := faultfs.New()
		cfg := config(f, shards)
		s := serve(t, cfg)
		killed := f.Kill()
		s.close()
		for _, f := range []*faultfs.FS{f, killed} {
			f.Leave(int64(shards) * 4096)
			cfg.FS = f
			serve(t, cfg).close()
		}
	}
}

// TestRollKeepsPromises: when the log goes on in the next segment on a full disk,
// there is room there for the deletes that were promised it, and hardly less
// than there was.
func TestRollKeepsPromises(t *testing.T) {
	rolled := 0
	for left := int64(0); left < 12000; left += 300 {
		f := faultfs.New()
		cfg := config(f, 1)
		cfg.SegmentSize = 128 << 10
		s := serve(t, cfg)
		l := s.logs[0]
		const jobs = 200
		l.FitsPut(400_000)
		writes(t, l, jobs, 128<<10)
		eventually(t, "the next segment is ready", func() bool { return made(t, f) == 2 && l.Ready() })
		f.Leave(0)
		writes(t, l, jobs, int(l.Room()-l.Promised()-left)-100)
		before, segment := l.Room(), l.Settled()
		if l.Segment() == segment {
			if left > 2*4096 {
				t.Errorf("with %d bytes more than was promised it does not go on", left)
			}
		} else if rolled++; l.Room() < l.Promised() || l.Room() < before-4096-200 {
			t.Errorf("of %d bytes set aside, %d of them promised, there are %d in the next segment", before, l.Promised(), l.Room())
		}
		f.SetCapacity(1 << 30)
		s.close()
	}
	if rolled == 0 {
		t.Error("it never goes on")
	}
}

// writes writes a record of about that size, after which there are so many jobs.
func writes(t *testing.T, l *binlog.Log, jobs, size int) {
	t.Helper()
	h := make(held, 1)
	l.Put(job(1, "a", noise(size)))
	l.Commit(h, jobs)
	if err := <-h; err != nil {
		t.Fatal(err)
	}
}

// TestRoomForLess: that there was no room for a put does not keep a change out
// that needs less.
func TestRoomForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		s := serve(t, config(f, 1))
		l := s.logs[0]
		s.does(0, func(l *binlog.Log) {
			l.FitsPut(20_000)
			l.Put(job(1, "a", noise(2000)))
		})
		synctest.Wait()
		f.Leave(0)
		writes(t, l, 1, int(l.Room()-l.Promised())-200)
		synctest.Wait()
		if l.FitsPut(10_000) || l.FitsChange(0) {
			t.Fatal("there is room on a full disk")
		}
		time.Sleep(time.Second)
		if l.FitsPut(10_000) {
			t.Fatal("there is room on a full disk")
		}
		f.Leave(3 * 4096)
		if !l.FitsChange(0) {
			t.Error("a change has no room, although the disk has")
		}
		f.SetCapacity(1 << 30)
		s.close()
	})
}

// TestScarceComesFirst: cleaning hears that room for changes is scarce while there is
// some yet, whatever the size of segments, and however much it has to copy.
func TestScarceComesFirst(t *testing.T) {
	for _, segment := range []int64{32 << 10, 64 << 10, 1 << 20} {
		for _, copies := range []int64{0, segment / 2, segment, 2 * segment} {
			f := faultfs.New()
			cfg := config(f, 1)
			cfg.SegmentSize = segment
			s := serve(t, cfg)
			l := s.logs[0]
			s.does(0, func(l *binlog.Log) {
				l.FitsPut(1000)
				l.Put(job(1, "a", noise(500)))
			})
			eventually(t, "all of the reserve is set aside", func() bool { return l.Room() > l.Reserve() && l.Ready() })
			f.Leave(0)
			for l.FitsPut(1000) {
				writes(t, l, 1, 1000)
			}
			scarce, most := l.Scarce(copies), 2*l.Reserve()
			for n := int64(0); l.FitsChange(copies); n++ {
				if n > most {
					t.Fatal("the disk does not become full")
				}
				scarce = l.Scarce(copies)
				s.does(0, func(l *binlog.Log) { l.Change(&binlog.Meta{ID: 1, State: binlog.Ready, Pri: uint32(n)}) })
			}
			if !scarce {
				t.Errorf("segments of %d bytes, %d to copy: before a change finds no room it is not called scarce", segment, copies)
			}
			f.SetCapacity(1 << 30)
			s.close()
		}
	}
}

// TestCleanedIsTheShards: on a full disk what a shard has dropped is its own
// again, as far as its reserve is used up, before others can take it; and it is
// told when it is there.
func TestCleanedIsTheShards(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 2)
	cfg.SegmentSize = 64 << 10
	s := serve(t, cfg)
	l, other := s.logs[0], s.logs[1]
	const jobs = 100
	l.FitsPut(200_000)
	writes(t, l, jobs, 64<<10)
	eventually(t, "it goes on in the next segment", func() bool { return l.Segment() != 1 && l.Segment() != 2 })
	writes(t, l, jobs, 100)
	other.FitsPut(1000) // what it wants for itself
	f.Leave(0)
	for l.FitsPut(1000) || other.FitsPut(1000) { // until both know that the disk is full
	}
	writes(t, l, jobs, int(l.Room()-l.Promised())-20_000) // as cleaning does
	before := l.Room()
	if before >= l.Reserve() || !l.Full() {
		t.Fatalf("%d bytes are set aside, of a reserve of %d", before, l.Reserve())
	}
	told := make(chan struct{}, 1)
	l.OnPrepared(func() { // it is told of a next segment as well
		select {
		case told <- struct{}{}:
		default:
		}
	})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // another shard takes what it can get
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				other.FitsPut(1)
			}
		}
	}()
	h := make(held, 1)
	l.Drop(l.Settled())
	if !l.Dropping() {
		t.Error("what was just dropped is gone at once")
	}
	l.Commit(h, jobs)
	if err := <-h; err != nil {
		t.Fatal(err)
	}
	for late := time.After(20 * time.Second); l.Dropping(); {
		select {
		case <-told:
		case <-late:
			t.Fatal("nobody is told that the segment is gone")
		}
	}
	close(stop)
	<-stopped
	if l.Room() < min(l.Reserve(), before+60<<10) {
		t.Errorf("with the space of 64 KiB back, %d bytes are set aside, before %d, of a reserve of %d", l.Room(), before, l.Reserve())
	}
	f.SetCapacity(1 << 30)
	s.close()
}

// TestNoDescriptors: where no next segment can be made for want of a descriptor,
// or of the kernel's memory, puts are refused and changes go on, until there is
// one.
func TestNoDescriptors(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.OpCreate, faultfs.OpSyncDir} {
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
			synctest.Test(t, func(t *testing.T) {
				f := faultfs.New()
				s := serve(t, config(f, 1))
				l := s.logs[0]
				s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "b")) })
				synctest.Wait()
				f.SetFault(func(o faultfs.Op, _ string, _ int64, _ int) error {
					if o == op {
						return errno
					}
					return nil
				})
				s.rolls(0, 2)
				s.does(0, func(l *binlog.Log) { l.Put(job(3, "a", noise(2*binlog.MinSegment))) })
				at := l.Segment() // without waiting for ever
				time.Sleep(time.Second)
				if l.FitsPut(100) {
					t.Errorf("%v of %v: a put fits, and there is no next segment", errno, op)
				}
				if !l.FitsChange(0) || l.Err() != nil {
					t.Errorf("%v of %v: no change fits: %v", errno, op, l.Err())
				}
				s.does(0, func(l *binlog.Log) { l.Delete(3) })
				f.SetFault(nil)
				time.Sleep(time.Second)
				if !l.FitsPut(100) || l.Segment() == at {
					t.Errorf("%v of %v: it does not go on in segment %d: %v", errno, op, l.Segment(), l.Err())
				}
				if op == faultfs.OpCreate && l.Segment() != at+1 {
					t.Errorf("%v: the segment behind %d is %d: fifty tries a second use numbers up", errno, at, l.Segment())
				}
				s.does(0, func(l *binlog.Log) { l.Put(job(4, "a", "b")) })
				want := s.store.Damages()
				s.close()
				got, damages := readBack(t, config(f, 1))
				if len(got.of) != 2 || got.of[4].ID != 4 || len(damages) != len(want) {
					t.Errorf("%v of %v: jobs\n%s%v", errno, op, got, damages)
				}
			})
		}
	}
}

// TestGivesBack: when the jobs are gone, so is nearly all that was set aside for them,
// also if the disk was nearly full for them; and blocks are written over zeros as before.
func TestGivesBack(t *testing.T) {
	for _, free := range []int64{1 << 32, 40 << 20} {
		synctest.Test(t, func(t *testing.T) {
			const jobs = 100_000
			f := faultfs.New()
			f.Leave(free)
			cfg := config(f, 1)
			cfg.SegmentSize = 1 << 20
			s := serve(t, cfg)
			l := s.logs[0]
			var prepared atomic.Int64
			l.OnPrepared(func() { prepared.Add(1) })
			commit := func(live int) {
				t.Helper()
				h := make(held, 1)
				if !l.Commit(h, live) {
					if err := <-h; err != nil {
						t.Fatal(err)
					}
				}
				l.Segment()
			}
			l.Put(job(1, "a", ""))
			l.Weigh(64 * jobs)
			commit(jobs)
			synctest.Wait()
			time.Sleep(10 * time.Second)
			l.Segment()
			synctest.Wait()
			if l.Room() < l.Reserve() || l.Reserve() < 3<<20 || l.Tight() != (free < 1<<32) {
				t.Fatalf("for %d jobs %d bytes are set aside, of a reserve of %d; tight %v", jobs, l.Room(), l.Reserve(), l.Tight())
			}
			most := f.Used()
			prepared.Store(0)
			l.Delete(1)
			l.Weigh(0)
			commit(0)
			time.Sleep(3 * time.Second)
			if prepared.Load() == 0 {
				t.Error("nobody calls the shard")
			}
			l.Segment()
			synctest.Wait()
			if l.Room() < l.Reserve() || l.Room() > l.Reserve()+2*l.Step() {
				t.Errorf("%d bytes are set aside, of a reserve of %d", l.Room(), l.Reserve())
			}
			if f.Used() > 3<<20 {
				t.Errorf("of %d bytes that the disk had there are still %d", most, f.Used())
			}
			writes := counts(f, faultfs.OpWriteAt)
			for range 300 {
				l.Put(job(1, "a", noise(1000)))
				commit(1)
			}
			if n := writes.Load(); n < 301 || n > 310 {
				t.Errorf("300 blocks and zeros in advance are %d writes", n)
			}
			time.Sleep(time.Hour)
			f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
				if op == faultfs.OpAllocate || op == faultfs.OpTruncate {
					t.Errorf("%v in a quiet hour", op)
				}
				return nil
			})
			time.Sleep(time.Hour)
			f.SetFault(nil)
			s.close()
		})
	}
}

// TestGivesBackNoPromise: giving back takes nothing from what was found to fit, whatever
// comes at the same time.
func TestGivesBackNoPromise(t *testing.T) {
	f := faultfs.New()
	var log complaints
	cfg := config(f, 1)
	cfg.Log, cfg.SegmentSize = slog.New(&log), 1<<20
	s := serve(t, cfg)
	l := s.logs[0]
	want := noJobs()
	given := 0
	for id := range uint64(100) {
		l.FitsPut(5 << 20) // so far too much is set aside
		before := l.Room()
		l.Excess()
		l.Segment()
		if l.Room() < before {
			given++
		}
		j := job(id+1, "t", noise(int(id*7919%200_000)))
		if !l.FitsPut(mostPut(j)) {
			t.Fatal("a put has no room")
		}
		f.Leave(0) // others take what is given back
		l.Put(j)
		want.Put(j, 0)
		if err := wait(l); err != nil {
			t.Fatal(err)
		}
		f.SetCapacity(1 << 40)
	}
	if given < 30 || log.have("answers wait") {
		t.Errorf("given back %d times, log: %q", given, log.list)
	}
	s.close()
	got, damages := readBack(t, cfg)
	got.same(t, want)
	if len(damages) > 0 {
		t.Error(damages)
	}
}
