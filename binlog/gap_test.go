package binlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// What could not be read at one start, and can at a later one: everything that was
// acknowledged in between is there then, and all that was before.

// startAndPut starts a server, puts some jobs, and ends it or kills it.
func startAndPut(t *testing.T, cfg binlog.Config, killed bool, ids ...uint64) {
	t.Helper()
	s := serve(t, cfg)
	for _, id := range ids {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "body")) })
	}
	if killed {
		s.halt(cfg.FS.(*faultfs.FS))
	} else {
		s.close()
	}
}

// has wants those jobs, and no damage.
func has(t *testing.T, cfg binlog.Config, what string, ids ...uint64) {
	t.Helper()
	got, damages := readBack(t, cfg)
	for _, id := range ids {
		if got.of[id].ID != id {
			t.Errorf("%s: job %d is lost", what, id)
		}
	}
	if len(got.of) != len(ids) || len(damages) > 0 {
		t.Errorf("%s: %d jobs, want %d; %v", what, len(got.of), len(ids), damages)
	}
}

var everySync = []time.Duration{0, time.Millisecond, binlog.SyncNever}

// TestUnreadOneAfterTheOther: at each start it is another segment that cannot be
// read.
func TestUnreadOneAfterTheOther(t *testing.T) {
	for _, sync := range everySync {
		for first := range 2 {
			for _, full := range []bool{false, true} { // when the manifest is to say it
				f := faultfs.New()
				cfg := config(f, 1)
				cfg.Sync = sync
				startAndPut(t, cfg, true, 1, 2, 3, 4)
				want := []uint64{1, 2, 3, 4}
				for n := range uint64(4) {
					op := []faultfs.Op{faultfs.OpOpen, faultfs.OpReadAt}[(first+int(n))%2] // more is hidden by the first
					list := segments(t, f)
					last := list[len(list)-1]
					f.SetFault(func(o faultfs.Op, name string, _ int64, _ int) error {
						switch {
						case o == op && filepath.Base(name) == last:
							return syscall.EIO
						case full && o == faultfs.OpCreate && strings.HasSuffix(name, "manifest.new"):
							return syscall.ENOSPC
						}
						return nil
					})
					ids := []uint64{1000*n + 1e7, 1000*n + 1e7 + 1, 1000*n + 1e7 + 2}
					startAndPut(t, cfg, true, ids...)
					want = append(want, ids...)
					f.SetFault(nil)
				}
				got, damages := readBack(t, cfg)
				if len(got.of) != len(want) || !full && len(damages) > 0 {
					t.Errorf("sync %v, first %d, full %t: %d jobs, want %d; %v", sync, first, full, len(got.of), len(want), damages)
				}
			}
		}
	}
}

// TestUnreadHadManyBlocks: more than its size tells, or than the settings of this
// start would let a segment have.
func TestUnreadHadManyBlocks(t *testing.T) {
	for _, how := range []string{"unread", "missing"} {
		f := faultfs.New()
		cfg := config(f, 1)
		cfg.Sync = binlog.SyncNever
		cfg.SegmentSize = 1 << 20
		var many, few []uint64
		for id := uint64(1); id <= 1000; id++ {
			many = append(many, id)
		}
		first, second, want := many[:1], many[1:], many
		if how == "unread" {
			few = []uint64{2000, 2001}
			first, second, want = many, few, few
		}
		startAndPut(t, cfg, false, first...)
		s := serve(t, cfg)
		for _, id := range second {
			s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "body")) })
		}
		if how == "unread" { // all that is left does not say how many blocks were before it
			s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
			eventually(t, "the first segment is gone", func() bool { return len(segments(t, f)) == 1 })
		}
		s.halt(f)
		list := segments(t, f)
		last := filepath.Join(dir, list[len(list)-1])
		data := slices.Clone(f.Read(last))
		if how == "unread" {
			unreadable(f, filepath.Base(last))
		} else if err := f.Remove(last); err != nil {
			t.Fatal(err)
		}
		cfg.SegmentSize = 4096
		startAndPut(t, cfg, true, 1e12, 1e12+1)
		f.SetFault(nil)
		f.Write(last, data)
		has(t, cfg, how, append(want, 1e12, 1e12+1)...)
	}
}

// TestCutWhileUnread: what the manifest knew of the end of a segment is not
// forgotten because that cannot be read at one start.
func TestCutWhileUnread(t *testing.T) {
	for _, sync := range everySync[:2] {
		for _, op := range []faultfs.Op{faultfs.OpOpen, faultfs.OpReadAt} {
			f := faultfs.New()
			cfg := config(f, 1)
			cfg.Sync = sync
			startAndPut(t, cfg, false, 1, 2, 3, 4, 5)
			name := segments(t, f)[0]
			refuse(f, op, name)
			startAndPut(t, cfg, false, 1e7)
			f.SetFault(nil)
			has(t, cfg, "as it was", 1, 2, 3, 4, 5, 1e7)
			data := f.Read(filepath.Join(dir, name))
			cut := binlog.Blocks(data)[1].At
			f.Write(filepath.Join(dir, name), data[:cut])
			for range 2 {
				if _, damages := readBack(t, cfg); at(damages) != place(name, cut) {
					t.Errorf("sync %v, %v: cut off at %d: %v", sync, op, cut, damages)
				}
				startAndPut(t, cfg, false)
			}
		}
	}
}

// TestGapWithoutManifest: the server went down, or the disk was full, when the
// manifest was to say what is begun; where numbers are left out it has said before.
func TestGapWithoutManifest(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	startAndPut(t, cfg, true, 1, 2, 3)
	refuse(f, faultfs.OpOpen, segments(t, f)[0]) // until the next fault is set
	st := open(t, cfg)
	replay(t, st)
	created := 0
	f.SetFault(func(op faultfs.Op, name string, _ int64, _ int) error {
		if op == faultfs.OpCreate && strings.HasSuffix(name, "manifest.new") {
			if created++; created == 2 {
				return syscall.EROFS
			}
		}
		return nil
	})
	if _, err := st.Begin(); !errors.Is(err, syscall.EROFS) {
		t.Fatal(err)
	}
	if n := len(segments(t, f)); n != 2 {
		t.Fatalf("there are %d segments", n)
	}
	st.Close()
	f = f.Kill()
	cfg.FS = f
	for range 2 {
		has(t, cfg, "the next start", 1, 2, 3)
		startAndPut(t, cfg, false)
	}
}

// emptyNext makes files that a start may leave that was killed before it wrote any of
// its segment: behind the last one.
func emptyNext(t *testing.T, f *faultfs.FS, data ...[]byte) (names []string) {
	t.Helper()
	list := segments(t, f)
	var index int
	if _, err := fmt.Sscanf(list[len(list)-1], "segment.1.0.%d", &index); err != nil {
		t.Fatal(err)
	}
	for i, b := range data {
		names = append(names, fmt.Sprintf("segment.1.0.%08d", index+1+i))
		f.Write(filepath.Join(dir, names[i]), b)
	}
	return names
}

// TestUnreadBeforeUnbegun: a segment that had not begun and cannot be read at one
// start is not named by the next one, also if there is another behind it that had not
// begun, and goes.
func TestUnreadBeforeUnbegun(t *testing.T) {
	for _, sync := range everySync {
		for _, size := range []int{0, 4096} {
			f := faultfs.New()
			cfg := config(f, 1)
			cfg.Sync = sync
			startAndPut(t, cfg, true, 1)
			refuse(f, faultfs.OpOpen, emptyNext(t, f, nil, make([]byte, size))[0])
			startAndPut(t, cfg, true, 1e7)
			f.SetFault(nil)
			for range 2 {
				has(t, cfg, fmt.Sprintf("sync %v, %d bytes", sync, size), 1, 1e7)
				startAndPut(t, cfg, false)
			}
		}
	}
}

// TestGapBehindUnbegun: where numbers are left out is known when the segment is gone
// that they were left out behind, also if the disk was full when the manifest was to
// say that it is behind another.
func TestGapBehindUnbegun(t *testing.T) {
	for _, sync := range everySync {
		f := faultfs.New()
		cfg := config(f, 1)
		cfg.Sync = sync
		startAndPut(t, cfg, true, 1)
		name := emptyNext(t, f, nil)[0]
		refuse(f, faultfs.OpOpen, name)
		startAndPut(t, cfg, true, 1e7)
		f.SetFault(func(op faultfs.Op, name string, _ int64, _ int) error {
			if op == faultfs.OpCreate && strings.HasSuffix(name, "manifest.new") {
				return syscall.ENOSPC
			}
			return nil
		})
		startAndPut(t, cfg, true, 2e7)
		f.SetFault(nil)
		if slices.Contains(names(t, f), name) {
			t.Errorf("%s is there", name)
		}
		for range 2 {
			has(t, cfg, fmt.Sprint("sync ", sync), 1, 1e7, 2e7)
			startAndPut(t, cfg, false)
		}
	}
}

// TestGapBeforeADamagedHeader: the number that comes next is not missed where the
// header cannot say it.
func TestGapBeforeADamagedHeader(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	startAndPut(t, cfg, true, 1, 2, 3)
	refuse(f, faultfs.OpOpen, segments(t, f)[0])
	startAndPut(t, cfg, true, 1e7)
	f.SetFault(nil)
	name := segments(t, f)[1]
	f.Flip(filepath.Join(dir, name), 8*40)
	if got, damages := readBack(t, cfg); at(damages) != place(name, 0) || len(got.of) != 4 {
		t.Errorf("%d jobs, %v", len(got.of), damages)
	}
}

// badInode has all fail that needs the inode of a file, as ext4 has it where the
// sum of an inode is wrong.
func badInode(f *faultfs.FS, name string) {
	f.SetFault(func(op faultfs.Op, file string, _ int64, _ int) error {
		switch op {
		case faultfs.OpOpen, faultfs.OpOpenWrite, faultfs.OpRename, faultfs.OpRemove:
			if base := filepath.Base(file); base == name || op == faultfs.OpRename && base == name+".new" {
				return syscall.EBADMSG
			}
		}
		return nil
	})
}

// TestBadInode: a segment that can neither be opened nor taken away keeps no server
// from starting, nor from writing all again.
func TestBadInode(t *testing.T) {
	all := history(t)
	for name := range all {
		if name == "manifest" {
			continue
		}
		f := disk(all)
		badInode(f, name)
		want := without(all, func(file string, _ binlog.Block) bool { return file == name })
		for _, shards := range []int{2, 3, 3, 1} {
			s := serve(t, config(f, shards))
			s.found.same(t, want)
			s.close()
		}
	}
}

// TestBadInodeOfTheManifest: it cannot be replaced, and so nothing is written.
func TestBadInodeOfTheManifest(t *testing.T) {
	all := history(t)
	f := disk(all)
	badInode(f, "manifest")
	for range 3 {
		st := open(t, config(f, 2))
		replay(t, st)
		if _, err := st.Begin(); err == nil || !strings.Contains(err.Error(), "check the file system") {
			t.Error(err)
		}
		st.Close()
		if n := len(segments(t, f)); n != len(all)-1 {
			t.Errorf("there are %d segments, and were %d", n, len(all)-1)
		}
	}
}

// TestEpochOfTheUnread: a segment that was left behind in an epoch that never
// counted, and could not be read meanwhile, is not a part of one that does.
func TestEpochOfTheUnread(t *testing.T) {
	f := faultfs.New()
	startAndPut(t, config(f, 2), false, 1, 2, 3)
	st := rearranged(t, config(f, 3)) // and killed before it counts
	left := f.Kill()
	st.Close()
	f = left
	list := segments(t, f)
	var newer []string
	for _, name := range list {
		if strings.HasPrefix(name, "segment.2.") {
			newer = append(newer, name)
		}
	}
	if len(newer) == 0 {
		t.Fatal(list)
	}
	refuse(f, faultfs.OpOpen, newer...)
	s := serve(t, config(f, 2))
	for id := uint64(1); id <= 3; id++ {
		s.does(0, func(l *binlog.Log) { l.Delete(id) })
	}
	s.close()
	serve(t, config(f, 3)).close()
	f.SetFault(nil)
	if got, _ := readBack(t, config(f, 3)); len(got.of) > 0 {
		t.Errorf("deleted jobs are back:\n%s", got)
	}
}

// TestClosedCostsNoReads: segments that cannot be opened leave those their share of
// reads that may fail which can.
func TestClosedCostsNoReads(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	for range 8 {
		startAndPut(t, cfg, false, 1)
	}
	cfg.SegmentSize = 1 << 20
	s := serve(t, cfg)
	for id := uint64(1); id <= 40; id++ {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", noise(500))) })
	}
	s.halt(f)
	list := segments(t, f)
	last := list[len(list)-1]
	closed := list[:len(list)-1]
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		switch base := filepath.Base(name); {
		case op == faultfs.OpOpen && slices.Contains(closed, base),
			op == faultfs.OpReadAt && base == last && off < 2*pageSize && off+int64(n) > pageSize:
			return syscall.EIO
		}
		return nil
	})
	if got, damages := readBack(t, config(f, 1)); len(got.of) < 25 {
		t.Errorf("%d of 40 jobs, %v", len(got.of), damages)
	}
}

// TestUnreadAtRandom: at each of several starts some segments cannot be read, all of
// them or a page, in whatever mode; and then all can.
func TestUnreadAtRandom(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := faultfs.New()
		what := fmt.Sprintf("seed %d", seed)
		startAndPut(t, config(f, 1), false)
		var ids []uint64
		for n := range 2 + rng.Uint64N(6) {
			cfg := config(f, 1)
			cfg.Sync = everySync[rng.IntN(3)]
			cfg.SegmentSize = []int64{4096, 1 << 20}[rng.IntN(2)]
			fails := make(map[string]int64) // at which offset, or -1 to open it
			for _, name := range segments(t, f) {
				if rng.IntN(3) == 0 {
					fails[name] = rng.Int64N(3)*pageSize - 1
				}
			}
			f.SetFault(func(op faultfs.Op, path string, off int64, size int) error {
				at, is := fails[filepath.Base(path)]
				if is && (at < 0 && op == faultfs.OpOpen || at >= 0 && op == faultfs.OpReadAt && off <= at && at < off+int64(size)) {
					return syscall.EIO
				}
				return nil
			})
			var some []uint64
			for i := range rng.Uint64N(20) {
				some = append(some, (n+1)*1e7+i)
			}
			startAndPut(t, cfg, rng.IntN(2) == 0, some...)
			ids = append(ids, some...)
			what += fmt.Sprintf("; sync %v, -s %d, fails %v, %d jobs", cfg.Sync, cfg.SegmentSize, fails, len(some))
		}
		f.SetFault(nil)
		has(t, config(f, 1), what, ids...)
	}
}
