package binlog_test

// A disk that cannot read some of what was written, once or for good: all else
// is saved, it is told where, and nothing is thrown away that another start may
// be able to read.

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// pageSize is how much a disk cannot read at least.
const pageSize = 4096

// badPages has all reads of a file fail that touch one of these pages. It
// returns how many have failed.
func badPages(f *faultfs.FS, name string, bad func(page int64) bool) *atomic.Int64 {
	failed, size := new(atomic.Int64), int64(len(f.Read(filepath.Join(dir, name))))
	f.SetFault(func(op faultfs.Op, file string, off int64, n int) error {
		if op != faultfs.OpReadAt || filepath.Base(file) != name {
			return nil
		}
		for page := off / pageSize; page*pageSize < min(off+int64(n), size); page++ {
			if bad(page) {
				failed.Add(1)
				return syscall.EIO
			}
		}
		return nil
	})
	return failed
}

// onlyPage is one bad page.
func onlyPage(bad int64) func(int64) bool { return func(page int64) bool { return page == bad } }

// long is a directory with jobs of many sizes in two segments of several pages
// each. The server that wrote it was killed.
func long(t testing.TB) map[string]string {
	t.Helper()
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.SegmentSize = 40 << 10
	s := serve(t, cfg)
	for id := uint64(1); id <= 24; id++ {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", noise(int(id*id*7)))) })
		if id == 12 {
			old := s.logs[0].Segment()
			s.does(0, func(l *binlog.Log) { l.Put(job(99, "a", noise(40<<10))); l.Delete(99) })
			eventually(t, "the next segment is ready", func() bool { return s.logs[0].Segment() != old })
		}
	}
	s.halt(f)
	return files(t, f)
}

// gone are the blocks of a file that lie in part in some of its bytes.
func gone(data string, from, to int64) (all []binlog.Block) {
	for _, b := range binlog.Blocks([]byte(data)) {
		if b.At < to && b.End > from {
			all = append(all, b)
		}
	}
	return all
}

// TestBadSector: a page that cannot be read costs the blocks in it and no others,
// also if the header is in it.
func TestBadSector(t *testing.T) {
	all := long(t)
	for name, data := range all {
		if name == "manifest" {
			continue
		}
		for page := int64(0); page*pageSize < int64(len(data)); page++ {
			from, to := page*pageSize, min((page+1)*pageSize, int64(len(data)))
			lost := gone(data, from, to)
			where := []string{place(name, from), place(name, lost[0].At)}
			if page == 0 {
				where = append(where, place(name, 0))
			}
			slices.Sort(where)
			want := noJobs()
			for _, file := range segments(t, disk(all)) {
				for _, b := range binlog.Blocks([]byte(all[file])) {
					if file != name || !slices.ContainsFunc(lost, func(g binlog.Block) bool { return g.At == b.At }) {
						b.Replay(want, 0)
					}
				}
			}
			f := disk(all)
			badPages(f, name, onlyPage(page))
			got, damages := readBack(t, config(f, 1))
			got.same(t, want)
			said := fmt.Sprintf("%d bytes cannot be read: input/output error", to-from)
			if at(damages) != strings.Join(where, ", ") || !slices.ContainsFunc(damages, func(d binlog.Damage) bool { return d.What == said && d.Offset == from }) {
				t.Errorf("page %d of %s is bad, want damage at %q: %v", page, name, where, damages)
			}
		}
	}
}

// shortReads is a file system that reads up to the bad byte of a file, as Linux
// does it, before it says that it cannot read on.
type shortReads struct {
	*faultfs.FS
	name string
	bad  int64
}

func (s shortReads) Open(name string) (binlog.File, error) {
	f, err := s.FS.Open(name)
	if err == nil && filepath.Base(name) == s.name {
		f = shortReadsFile{f, s.bad}
	}
	return f, err
}

type shortReadsFile struct {
	binlog.File
	bad int64
}

func (f shortReadsFile) ReadAt(p []byte, off int64) (int, error) {
	page := f.bad - f.bad%pageSize
	if off >= page+pageSize || off+int64(len(p)) <= page {
		return f.File.ReadAt(p, off)
	}
	n, err := f.File.ReadAt(p[:max(0, page-off)], off)
	if err == nil {
		err = &fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}
	}
	return n, err
}

// TestBadSectorAfterAShortRead finds the same as without what was read before it.
func TestBadSectorAfterAShortRead(t *testing.T) {
	all := long(t)
	for name, data := range all {
		for page := int64(0); page*pageSize < int64(len(data)) && name != "manifest"; page++ {
			f := disk(all)
			badPages(f, name, onlyPage(page))
			want, damages := readBack(t, config(f, 1))
			got, again := readBack(t, config(shortReads{disk(all), name, page * pageSize}, 1))
			if got.same(t, want); !slices.Equal(again, damages) {
				t.Errorf("%v, want %v", again, damages)
			}
		}
	}
}

// TestBadSectorThatCanBeReadAgain: a start with a bad page changes nothing of the
// segment, so that the next may find all of it.
func TestBadSectorThatCanBeReadAgain(t *testing.T) {
	all := long(t)
	want, _ := readBack(t, config(disk(all), 1))
	for name, data := range all {
		for page := int64(0); page*pageSize < int64(len(data)) && name != "manifest"; page++ {
			f := disk(all)
			badPages(f, name, onlyPage(page))
			s := serve(t, config(f, 1))
			s.does(0, func(l *binlog.Log) { l.Put(job(200, "a", "meanwhile")) })
			s.close()
			f.SetFault(nil)
			if string(f.Read(filepath.Join(dir, name))) != data {
				t.Errorf("page %d of %s was bad, and the file has changed", page, name)
			}
			got, damages := readBack(t, config(f, 1))
			if got.of[200].ID != 200 || len(damages) > 0 {
				t.Errorf("page %d of %s was bad: job %d of what was written then, %v", page, name, got.of[200].ID, damages)
			}
			got.Delete(200)
			got.same(t, want)
		}
	}
}

// TestCleaningWithABadSector: what is behind it is found all the same.
func TestCleaningWithABadSector(t *testing.T) {
	f := disk(long(t))
	name := segments(t, f)[0]
	s := serve(t, config(f, 1))
	defer s.close()
	data := string(f.Read(filepath.Join(dir, name)))
	badPages(f, name, onlyPage(1))
	want, got := noJobs(), make(map[uint64]bool)
	for _, b := range binlog.Blocks([]byte(data)) {
		if b.End <= pageSize || b.At >= 2*pageSize {
			b.Replay(want, 0)
		}
	}
	err := s.logs[0].ReadPuts(1, 1, func(ids []uint64) error {
		got[ids[0]] = true
		return nil
	})
	delete(got, 99) // is deleted at once
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want.of))) || len(got) < 8 {
		t.Errorf("%v: jobs %v, want those of\n%s", err, slices.Sorted(maps.Keys(got)), want)
	}
}

// TestReadErrorThatPasses: that one read fails, whichever it is, is no damage,
// and nothing is cut off.
func TestReadErrorThatPasses(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.SegmentSize = 16 << 20
	s := serve(t, cfg)
	for id := uint64(1); id <= 8; id++ {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", noise(300<<10))) })
	}
	s.halt(f)
	all := files(t, f)
	for n := 1; ; n++ {
		f := disk(all)
		cfg.FS = f
		reads := 0
		f.SetFault(func(op faultfs.Op, name string, off int64, _ int) error {
			if op == faultfs.OpReadAt && strings.Contains(name, "segment.") {
				if reads++; reads == n {
					return syscall.EIO
				}
			}
			return nil
		})
		s := serve(t, cfg)
		if d := s.store.Damages(); len(d) > 0 || len(s.found.of) != 8 {
			t.Errorf("read %d fails: %d jobs, %v", n, len(s.found.of), d)
		}
		s.close()
		for name, data := range all {
			if name != "manifest" && string(f.Read(filepath.Join(dir, name))) != data {
				t.Errorf("read %d fails, and %s has changed", n, name)
			}
		}
		if reads < n {
			break
		}
	}
}

// TestUnbegunWithABadSector: a segment whose header cannot be read is not taken
// for one that has none.
func TestUnbegunWithABadSector(t *testing.T) {
	all := long(t)
	all["manifest"] = string(binlog.WithoutSynced([]byte(all["manifest"])))
	list := segments(t, disk(all))
	last := list[len(list)-1]
	for _, blocks := range []bool{true, false} {
		data := all[last]
		if !blocks {
			data = data[:binlog.SegmentHeader] + strings.Repeat("\x00", 3*pageSize)
		}
		f := disk(with(all, last, data))
		badPages(f, last, onlyPage(0))
		if _, damages := readBack(t, config(f, 1)); !strings.Contains(at(damages), place(last, 0)) {
			t.Errorf("damage is found at %q", at(damages))
		}
		serve(t, config(f, 1)).close()
		if string(f.Read(filepath.Join(dir, last))) != data {
			t.Errorf("with blocks %v: the file has changed", blocks)
		}
	}
}

// TestManyBadSectors: a disk takes seconds for a read that fails, so not all are
// tried where there are many.
func TestManyBadSectors(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.SegmentSize = 16 << 20
	s := serve(t, cfg)
	for id := uint64(1); id <= 2000; id++ {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", noise(3000+int(id)))) })
	}
	s.halt(f)
	all := files(t, f)
	name := segments(t, f)[0]
	pages := int64(len(all[name])) / pageSize
	for what, tc := range map[string]struct {
		bad         func(page int64) bool
		most, least int // reads that fail, jobs that are there
	}{
		"all":           {func(int64) bool { return true }, 60, 0},
		"all but one":   {func(page int64) bool { return page != 0 }, 60, 0},
		"every second":  {func(page int64) bool { return page%2 == 0 }, 400, 0},
		"every tenth":   {func(page int64) bool { return page%10 == 0 }, 400, 700},
		"a large spot":  {func(page int64) bool { return page >= 100 && page < pages/3 }, 60, 700},
		"several spots": {func(page int64) bool { return page%200 < 3 }, 200, 1900},
	} {
		f := disk(all)
		cfg.FS = f
		failed := badPages(f, name, tc.bad)
		st := open(t, cfg)
		got, damages := replay(t, st), st.Damages()
		if n := int(failed.Load()); n > tc.most || len(got.of) < tc.least || len(damages) == 0 {
			t.Errorf("%s: %d reads fail, want %d at most; %d jobs, want %d; %v", what, n, tc.most, len(got.of), tc.least, damages)
		}
		st.Close()
		readBack(t, cfg) // a dump says the same
	}
}

// TestUnreadIsNotMissing: that a segment cannot be read is all that is said of it.
func TestUnreadIsNotMissing(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		for _, name := range stream {
			for _, op := range []faultfs.Op{faultfs.OpReadAt, faultfs.OpOpen} {
				f := disk(all)
				refuse(f, op, name)
				finds(t, f, without(all, func(file string, _ binlog.Block) bool { return file == name }), place(name, 0))
				serve(t, config(f, 2)).close()
				finds(t, f, without(all, func(file string, _ binlog.Block) bool { return file == name }), place(name, 0))
				f.SetFault(nil)
				finds(t, f, without(all, nothing))
			}
		}
	}
}

// TestUnreadThatCanBeReadAgain: when they can be read nothing is missing behind
// them, though there the next server has left numbers out, in whatever way it
// went down. But what is cut off them from then on is.
func TestUnreadThatCanBeReadAgain(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.rolls(0, 9)
	for id := uint64(1); id <= 3; id++ {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "body")) })
	}
	s.halt(f)
	all := files(t, f)
	list := segments(t, f)
	last := list[len(list)-1]
	for _, bad := range [][]string{{last}, list} {
		for starts := 1; starts <= 3; starts++ { // at which they cannot be read
			for _, killed := range []bool{false, true} {
				for _, writes := range []bool{false, true} {
					for _, sync := range []time.Duration{0, time.Millisecond, binlog.SyncNever} {
						f := disk(all)
						cfg := config(f, 1)
						cfg.Sync = sync
						what := fmt.Sprintf("%v, %d starts, killed %t, writes %t, sync %v", bad, starts, killed, writes, sync)
						once := func(id uint64) {
							s := serve(t, cfg)
							if writes {
								s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "meanwhile")) })
							}
							if killed {
								s.halt(f)
							} else {
								s.close()
							}
						}
						is := func(jobs int, damage string) {
							t.Helper()
							if got, damages := readBack(t, cfg); len(got.of) != jobs || at(damages) != damage {
								t.Errorf("%s: %d jobs, want %d: %v", what, len(got.of), jobs, damages)
							}
						}
						jobs := 3
						refuse(f, []faultfs.Op{faultfs.OpReadAt, faultfs.OpOpen}[starts%2], bad...)
						for i := range starts {
							once(uint64(1e6 + i))
						}
						f.SetFault(nil)
						if writes {
							jobs += starts
						}
						is(jobs, "")
						if text := dump(t, f, dir); !strings.Contains(text, "manifest 0 gap file="+last+": ") {
							t.Errorf("%s: the dump does not tell of the gap:\n%s", what, text)
						}
						once(2e6) // knows now how they end
						if writes {
							jobs++
						}
						is(jobs, "")
						path := filepath.Join(dir, last)
						data := f.Read(path)
						blocks := binlog.Blocks(data)
						f.Write(path, data[:blocks[len(blocks)-1].At])
						is(jobs-1, place(last, blocks[len(blocks)-1].At))
					}
				}
			}
		}
	}
}

// TestMissingBesideUnread: one that is not there is missed all the same.
func TestMissingBesideUnread(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	for range 4 {
		s.rolls(0, 1)
	}
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
	s.close()
	all := files(t, f)
	list := segments(t, f)
	for i, name := range list {
		for k, unread := range list {
			if i == k || i == len(list)-1 && k == i-1 { // nothing else names the last one
				continue
			}
			rest := maps.Clone(all)
			delete(rest, name)
			f := disk(rest)
			unreadable(f, unread)
			_, damages := readBack(t, config(f, 1))
			want := []string{place(name, 0), place(unread, 0)}
			slices.Sort(want)
			if at(damages) != strings.Join(want, ", ") {
				t.Errorf("without %s and with a bad %s: %v", name, unread, damages)
			}
		}
	}
}

// TestTwoUnread: what is in front of them has a good end, though there is
// something behind that.
func TestTwoUnread(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	for range 3 {
		s.rolls(0, 1)
	}
	s.close()
	list := segments(t, f)
	path := filepath.Join(dir, list[0])
	f.Write(path, append(f.Read(path), noise(100)...))
	unreadable(f, list[1], list[2])
	if _, damages := readBack(t, config(f, 1)); at(damages) != place(list[1], 0)+", "+place(list[2], 0) {
		t.Error(damages)
	}
}

// TestDroppedIsNotMissing: a segment that was dropped may be gone though one
// before it is still there.
func TestDroppedIsNotMissing(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.rolls(0, 1)
	s.rolls(0, 2)
	list := segments(t, f)
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpRemove && filepath.Base(name) == list[0] {
			return syscall.EIO
		}
		return nil
	})
	s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
	eventually(t, "the second is gone", func() bool { return f.Read(filepath.Join(dir, list[1])) == nil })
	s.close()
	f.SetFault(nil)
	if f.Read(filepath.Join(dir, list[0])) == nil {
		t.Error("the first is gone, too")
	}
	if _, damages := readBack(t, config(f, 1)); len(damages) > 0 {
		t.Error(damages)
	}
}

// TestIDsOfTheUnread: the ids of jobs that could not be read are not given again.
// Else one of two jobs would be lost when they can be read.
func TestIDsOfTheUnread(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		for _, name := range stream {
			f := disk(all)
			unreadable(f, name)
			st := open(t, config(f, 2))
			replay(t, st)
			if id := st.LastID(); id < 16 || id > 1<<20 {
				t.Errorf("without %s the last id is %d", name, id)
			}
			st.Close()
		}
	}
}

// TestUnbegunThatCouldNotBeRead: a segment that a crash has left before it was
// anything, and that starts could not read, is none when it can be read, and goes. But
// one that is known to have begun is damaged if it then is empty.
func TestUnbegunThatCouldNotBeRead(t *testing.T) {
	for _, begun := range []bool{false, true} {
		for _, content := range []string{"", strings.Repeat("\x00", 2*pageSize)} {
			for starts := 1; starts <= 3; starts++ {
				for _, killed := range []bool{false, true} {
					for _, before := range []bool{false, true} { // whether there is a segment in front of it
						testUnbegunThatCouldNotBeRead(t, begun, content, starts, killed, before)
					}
				}
			}
		}
	}
}

func testUnbegunThatCouldNotBeRead(t *testing.T, begun bool, content string, starts int, killed, before bool) {
	what := fmt.Sprintf("begun %t, %d bytes, %d starts, killed %t, one before it %t", begun, len(content), starts, killed, before)
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.Strict = true
	s := serve(t, cfg)
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "body")) })
	last := "segment.1.0.00000002"
	if begun {
		s.rolls(0, 2)
		s.does(0, func(l *binlog.Log) { l.Put(job(3, "a", "body")) })
	}
	s.halt(f)
	if !begun && !before {
		// A server that never synced has lost what it wrote.
		last = "segment.1.0.00000001"
		f.Write(dir+"/manifest", binlog.WithoutSynced(f.Read(dir+"/manifest")))
	}
	f.Write(dir+"/"+last, []byte(content))
	op := faultfs.OpOpen
	if content != "" {
		op = faultfs.OpReadAt
	}
	refuse(f, op, last)
	cfg.Strict = false
	jobs := 0
	if begun || before {
		jobs++
	}
	for i := range starts {
		s := serve(t, cfg)
		s.does(0, func(l *binlog.Log) { l.Put(job(uint64(1e6+i), "a", "meanwhile")) })
		jobs++
		if killed {
			s.halt(f)
		} else {
			s.close()
		}
	}
	f.SetFault(nil)
	want := ""
	if begun {
		want = place(last, 0)
	}
	is := func(cfg binlog.Config) {
		t.Helper()
		if got, damages := readBack(t, cfg); len(got.of) != jobs || at(damages) != want {
			t.Errorf("%s: %d jobs, want %d: %v", what, len(got.of), jobs, damages)
		}
	}
	for n, due := 1, before; due; n++ { // wherever that is cut short
		left := f.Kill()
		cut := left.Cut(n)
		serve(t, config(left, 1)).close()
		select {
		case left := <-cut:
			is(config(left, 1))
		default:
			due = false
		}
	}
	for range 3 {
		is(cfg)
		serve(t, cfg).close()
		if left := f.Read(dir+"/"+last) != nil; left != begun {
			t.Errorf("%s: the file is there: %t", what, left)
		}
	}
}
