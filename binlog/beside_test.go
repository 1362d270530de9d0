package binlog_test

// Files that beanstalkd has written beside our own: without jobs they are out of
// the way, with jobs they are refused, and in no case is anything lost.

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// withJob is a directory of ours with one job in it.
func withJob(t *testing.T) *faultfs.FS {
	t.Helper()
	f := faultfs.New()
	s := serve(t, config(f, 2))
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "ours")) })
	s.close()
	return f
}

// theirs returns beanstalkd's files in the directory and its folders.
func theirs(t testing.TB, f *faultfs.FS) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, folder := range []string{"", "beanstalkd", "beanstalkd.2"} {
		entries, _ := f.ReadDir(filepath.Join(dir, folder))
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "binlog.") {
				path := filepath.Join(folder, e.Name())
				all[path] = string(f.Read(filepath.Join(dir, path)))
			}
		}
	}
	return all
}

// TestIdleBeanstalkd: somebody has started beanstalkd on our directory, and no
// job came of that.
func TestIdleBeanstalkd(t *testing.T) {
	const imported = "an original that was imported"
	for name, written := range map[string][]string{
		"no bytes":           {""},
		"zeros":              {strings.Repeat("\x00", 5000)},
		"part of a version":  {"\x00\x00"},
		"a version":          {string(binlog.BeanstalkdFile()[:4])},
		"set aside":          {string(binlog.BeanstalkdFile())},
		"several":            {string(binlog.BeanstalkdFile()), "", string(binlog.BeanstalkdFile())},
		"jobs are deleted":   {string(binlog.BeanstalkdFile(1, 2, -1, -2))},
		"in a file of later": {string(binlog.BeanstalkdFile(1)), string(binlog.BeanstalkdFile(-1))},
	} {
		for _, shards := range []int{2, 3} {
			for _, before := range []string{"", "original", "no manifest"} {
				t.Run(fmt.Sprint(name, shards, before), func(t *testing.T) {
					f := withJob(t)
					folder := "beanstalkd"
					want := make(map[string]string)
					switch before {
					case "original":
						f.Write(dir+"/beanstalkd/binlog.1", []byte(imported))
						want["beanstalkd/binlog.1"] = imported
						folder = "beanstalkd.2"
					case "no manifest":
						if err := f.Remove(dir + "/manifest"); err != nil {
							t.Fatal(err)
						}
					}
					for i, data := range written {
						file := fmt.Sprint("binlog.", i+1)
						f.Write(filepath.Join(dir, file), []byte(data))
						want[filepath.Join(folder, file)] = data
					}
					var log complaints
					cfg := config(f, shards)
					cfg.Log = slog.New(&log)
					cfg.Strict = before != "no manifest"
					for range 2 {
						s := serve(t, cfg)
						s.found.same(t, &jobs{of: map[uint64]binlog.Job{1: *job(1, "a", "ours")}})
						s.close()
						if got := theirs(t, f); !maps.Equal(got, want) {
							t.Errorf("beanstalkd's files are now %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
						}
					}
					const said = "binlog: beanstalkd's own files have no jobs in them and were put aside"
					if n := strings.Count(strings.Join(log.list, "\n"), said); n != 1 {
						t.Errorf("it is said %d times: %q", n, log.list)
					}
				})
			}
		}
	}
}

// TestIdleBeanstalkdKilled: wherever a server is killed while it puts files
// aside, they are there, once each, and the next one goes on with that.
func TestIdleBeanstalkdKilled(t *testing.T) {
	want := []string{"first", string(binlog.BeanstalkdFile()), string(binlog.BeanstalkdFile(1, -1))}
	slices.Sort(want)
	for n := 1; ; n++ {
		f := withJob(t)
		f.Write(dir+"/beanstalkd/binlog.1", []byte("first"))
		f.Write(dir+"/binlog.1", binlog.BeanstalkdFile())
		f.Write(dir+"/binlog.2", binlog.BeanstalkdFile(1, -1))
		killed := f.Cut(n)
		serve(t, config(f, 2)).close()
		select {
		case left := <-killed:
			for range 2 {
				if got := slices.Sorted(maps.Values(theirs(t, left))); !slices.Equal(got, want) {
					t.Fatalf("killed before operation %d: files %q", n, slices.Sorted(maps.Keys(theirs(t, left))))
				}
				serve(t, config(left, 2)).close()
			}
			if string(left.Read(dir+"/beanstalkd/binlog.1")) != "first" {
				t.Fatalf("killed before operation %d: an original is overwritten", n)
			}
		default:
			if n < 10 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
}

// TestBusyBeanstalkd: where there are jobs in its files, or may be, nothing is
// touched, and it is said what is known and what there is to do.
func TestBusyBeanstalkd(t *testing.T) {
	for name, tc := range map[string]struct {
		written []string
		said    string
	}{
		"a job":   {[]string{string(binlog.BeanstalkdFile(1))}, "(binlog.1) are there beside those of sheafd, with 1 job that is not known to have been imported; "},
		"jobs":    {[]string{string(binlog.BeanstalkdFile(1, 2, 3)), string(binlog.BeanstalkdFile(-2))}, "(binlog.1 to binlog.2) are there beside those of sheafd, with 2 jobs that are not known to have been imported; "},
		"damaged": {[]string{string(binlog.BeanstalkdFile(1, -1)) + "\xff"}, "(binlog.1) are there beside those of sheafd, with damage, so that it is not known whether there are jobs in them (binlog.1 at offset "},
	} {
		t.Run(name, func(t *testing.T) {
			f := withJob(t)
			for i, data := range tc.written {
				f.Write(fmt.Sprintf("%s/binlog.%d", dir, i+1), []byte(data))
			}
			f.Write(dir+"/lock", nil)
			before := files(t, f)
			_, err := binlog.Open(config(f, 2))
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "binlog "+dir+": files of beanstalkd "+tc.said) ||
				!strings.Contains(err.Error(), "may have given the same job ids") || !strings.HasSuffix(err.Error(), ": move them to a directory of their own, which another sheafd can serve") {
				t.Errorf("%v", err)
			}
			if !maps.Equal(files(t, f), before) {
				t.Error("the directory has changed")
			}
		})
	}
}

// TestBeanstalkdGoesOn: files were imported, and before they were put aside
// beanstalkd was started there: it may have served their jobs.
func TestBeanstalkdGoesOn(t *testing.T) {
	for _, changed := range []bool{true, false} {
		f := faultfs.New()
		f.Write(dir+"/binlog.1", binlog.BeanstalkdFile(1, 2))
		f.Write(dir+"/beanstalkd", nil) // is in the way
		st := open(t, config(f, 1))
		found := replay(t, st)
		logs, err := st.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range found.of {
			logs[0].Put(&j)
		}
		if err := logs[0].Flush(); err != nil {
			t.Fatal(err)
		}
		if err := st.Commit(); err == nil {
			t.Fatal("the file is not in the way")
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Remove(dir + "/beanstalkd"); err != nil {
			t.Fatal(err)
		}
		if changed {
			f.Write(dir+"/binlog.2", binlog.BeanstalkdFile(-1))
			if _, err := binlog.Open(config(f, 1)); err == nil || !strings.Contains(err.Error(), "(binlog.2) are there beside those of sheafd, with changes of jobs that may have been imported") {
				t.Errorf("with a changed job: %v", err)
			}
			continue
		}
		f.Write(dir+"/binlog.2", binlog.BeanstalkdFile())
		s := serve(t, config(f, 1))
		s.found.same(t, found)
		s.close()
		if got := slices.Sorted(maps.Keys(theirs(t, f))); !slices.Equal(got, []string{"beanstalkd/binlog.1", "beanstalkd/binlog.2"}) {
			t.Errorf("beanstalkd's files are now %q", got)
		}
	}
}
