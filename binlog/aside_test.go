package binlog_test

// What becomes of segments with damage, and of those that could not be read,
// when they are needed no more.

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// TestDamagedIsPutAside: a segment with damage that is needed no more, because
// all was written again or cleaned, is kept in a folder; the others go.
func TestDamagedIsPutAside(t *testing.T) {
	for _, rearranged := range []bool{true, false} {
		t.Run(fmt.Sprint("rearranged ", rearranged), func(t *testing.T) {
			all := history(t)
			f := disk(all)
			name := streams(all)[0][0]
			path := filepath.Join(dir, name)
			f.Flip(path, binlog.Blocks([]byte(all[name]))[1].At*8)
			damaged := string(f.Read(path))
			cfg := config(f, 2)
			if rearranged {
				cfg.Shards = 3
			}
			s := serve(t, cfg)
			if !rearranged {
				s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
				eventually(t, "the segments are gone", func() bool { return f.Read(path) == nil })
			}
			s.close()
			if got := string(f.Read(filepath.Join(dir, "damaged", name))); got != damaged {
				t.Errorf("%d bytes are put aside, of %d", len(got), len(damaged))
			}
			if kept := f.Read(filepath.Join(dir, "damaged", streams(all)[0][1])); kept != nil {
				t.Error("a segment without damage is put aside, too")
			}
			if list := names(t, f); slices.ContainsFunc(list, func(n string) bool { return strings.HasSuffix(n, name) }) {
				t.Errorf("it is still in the directory: %q", list)
			}
			if _, damages := readBack(t, cfg); len(damages) > 0 {
				t.Errorf("then there is damage: %v", damages)
			}
		})
	}
}

// TestDamagedIsPutAsideTogether: two shards make the folder at the same time.
func TestDamagedIsPutAsideTogether(t *testing.T) {
	all := history(t)
	f := disk(all)
	name := streams(all)[0][0]
	path := filepath.Join(dir, name)
	f.Flip(path, binlog.Blocks([]byte(all[name]))[1].At*8)
	s := serve(t, config(f, 2))
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpMkdir {
			f.Write(name+"/segment.1.1.00000099", []byte("the other's"))
		}
		return nil
	})
	s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
	eventually(t, "the segment is put aside", func() bool { return f.Read(filepath.Join(dir, "damaged", name)) != nil })
	s.close()
}

// inThree is a directory with three jobs, each in a segment of its own, of which
// the second cannot be read by a server that starts with it.
func inThree(t *testing.T) (f *faultfs.FS, list []string) {
	t.Helper()
	f = faultfs.New()
	s := serve(t, config(f, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
	s.rolls(0, 10)
	s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "two")) })
	s.rolls(0, 11)
	s.does(0, func(l *binlog.Log) { l.Put(job(4, "a", "four")) })
	s.close()
	f = disk(files(t, f)) // all of it is durable
	list = segments(t, f)
	unreadable(f, list[1])
	return f, list
}

// onlyAside fails the test if a segment is not in the folder, as it was, or not
// only there.
func onlyAside(t *testing.T, f *faultfs.FS, name, data string) {
	t.Helper()
	if got := string(f.Read(filepath.Join(dir, "damaged", name))); got != data {
		t.Errorf("of %s %d bytes are put aside, of %d", name, len(got), len(data))
	}
	if f.Read(filepath.Join(dir, name)) != nil {
		t.Errorf("%s is still in the directory", name)
	}
}

// TestUnreadIsPutAside when it is dropped, or all is written again: what is in it
// is not known.
func TestUnreadIsPutAside(t *testing.T) {
	for _, shards := range []int{1, 2} {
		f, list := inThree(t)
		data := string(f.Read(filepath.Join(dir, list[1])))
		s := serve(t, config(f, shards))
		if shards == 1 {
			s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
			eventually(t, "the segments are gone", func() bool { return len(segments(t, f)) == 1 })
		}
		s.close()
		f.SetFault(nil)
		onlyAside(t, f, list[1], data)
		for _, name := range []string{list[0], list[2]} {
			if f.Read(filepath.Join(dir, "damaged", name)) != nil {
				t.Errorf("%s is put aside, too", name)
			}
		}
		if _, damages := readBack(t, config(f, shards)); len(damages) > 0 {
			t.Errorf("then there is damage: %v", damages)
		}
		// What is said then: this serves its jobs.
		alone := disk(map[string]string{list[1]: data})
		if got, _ := readBack(t, config(alone, 1)); got.of[2].ID != 2 {
			t.Errorf("by itself it has jobs\n%s", got)
		}
	}
}

// TestUnreadIsPutAsideByTheNext: the server was killed when it had dropped it, or
// had written all again, and the next one can read it. Its jobs may have been
// deleted elsewhere, so they are not served; but it is not removed either.
func TestUnreadIsPutAsideByTheNext(t *testing.T) {
	for _, shards := range []int{1, 2} {
		f, list := inThree(t)
		data := string(f.Read(filepath.Join(dir, list[1])))
		cfg := config(f, shards)
		st := rearranged(t, cfg)
		var killed atomic.Bool
		f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
			if op == faultfs.OpRename && filepath.Base(name) == list[1] {
				killed.Store(true)
				return syscall.EROFS
			}
			return nil
		})
		if err := st.Commit(); (err != nil) != (shards == 2) {
			t.Fatal(err)
		}
		if shards == 1 {
			l := st.Logs()[0]
			l.Drop(l.Segment())
			if err := wait(l); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "it is to be put aside", killed.Load)
		left := f.Kill()
		st.Close()
		cfg.FS = left
		if got, damages := readBack(t, cfg); got.of[2].ID != 0 || len(damages) > 0 {
			t.Errorf("%d shards: the next finds %v\n%s", shards, damages, got)
		}
		if shards == 2 && !strings.Contains(dump(t, left, dir), list[1]+" 0 leftover: it does not count and is moved into the folder damaged when a server starts\n") {
			t.Errorf("the dump says\n%s", dump(t, left, dir))
		}
		s := serve(t, cfg)
		if shards == 1 {
			s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
			eventually(t, "the segments are gone", func() bool { return len(segments(t, left)) == 1 })
		}
		s.close()
		onlyAside(t, left, list[1], data)
	}
}

// TestDamagedIsPutAsideByTheNext: wherever the server is killed that writes all
// again, or the power fails, no segment with damage is removed.
func TestDamagedIsPutAsideByTheNext(t *testing.T) {
	all := history(t)
	name := streams(all)[0][0]
	for what, off := range map[string]int64{"header": 20, "block": binlog.Blocks([]byte(all[name]))[1].At} {
		for n := 1; ; n++ {
			f := disk(all)
			f.Flip(filepath.Join(dir, name), off*8)
			data := string(f.Read(filepath.Join(dir, name)))
			killed := f.Cut(n)
			serve(t, config(f, 3)).close()
			var left *faultfs.FS
			select {
			case left = <-killed:
			default:
			}
			if left == nil {
				onlyAside(t, f, name, data)
				break
			}
			for _, left := range []*faultfs.FS{left, left.Crash(rand.New(rand.NewPCG(1, uint64(n))))} {
				serve(t, config(left, 3)).close()
				if t.Run(fmt.Sprint(what, n), func(t *testing.T) { onlyAside(t, left, name, data) }); t.Failed() {
					return
				}
			}
		}
	}
}

// TestUnreadIsNeverLost: wherever a server is killed, or the power fails, that
// cannot read a segment and drops it, the next one serves its jobs or puts it
// aside, and never both.
func TestUnreadIsNeverLost(t *testing.T) {
	served, aside := 0, 0
	for n := 1; ; n++ {
		f, list := inThree(t)
		data := string(f.Read(filepath.Join(dir, list[1])))
		killed := f.Cut(n)
		s := serve(t, config(f, 1))
		s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
		s.close()
		var left *faultfs.FS
		select {
		case left = <-killed:
		default:
			if n < 20 || served == 0 || aside == 0 {
				t.Errorf("only %d operations; its jobs are served %d times, and it is put aside %d times", n, served, aside)
			}
			return
		}
		for _, f := range []*faultfs.FS{left, left.Crash(rand.New(rand.NewPCG(1, uint64(n))))} {
			s := serve(t, config(f, 1))
			if s.found.of[2].ID == 2 {
				served++
				s.close()
				if f.Read(filepath.Join(dir, "damaged", list[1])) != nil || string(f.Read(filepath.Join(dir, list[1]))) != data {
					t.Errorf("killed before operation %d: its jobs are served, and it is put aside, too", n)
				}
				continue
			}
			aside++
			s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
			eventually(t, "the segments are gone", func() bool { return len(segments(t, f)) == 1 })
			s.close()
			if t.Run(fmt.Sprint(n), func(t *testing.T) { onlyAside(t, f, list[1], data) }); t.Failed() {
				return
			}
		}
	}
}

// TestReadAgainIsNotPutAside: a segment that could be read after all is as any
// other.
func TestReadAgainIsNotPutAside(t *testing.T) {
	f, list := inThree(t)
	serve(t, config(f, 1)).close()
	if !strings.Contains(string(f.Read(dir+"/manifest")), "\ndamaged "+list[1]+"\n") {
		t.Errorf("the manifest is\n%s", f.Read(dir+"/manifest"))
	}
	if text := dump(t, f, dir); !strings.Contains(text, "manifest 0 damaged file="+list[1]+": ") {
		t.Errorf("the dump is\n%s", text)
	}
	f.SetFault(nil)
	s := serve(t, config(f, 1))
	if s.found.of[2].ID != 2 {
		t.Errorf("the jobs are\n%s", s.found)
	}
	s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
	eventually(t, "the segments are gone", func() bool { return len(segments(t, f)) == 1 })
	s.close()
	if entries, err := f.ReadDir(dir + "/damaged"); err == nil {
		t.Errorf("put aside: %v", entries)
	}
}
