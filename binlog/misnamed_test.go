package binlog_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// named returns the files with other names: for each pair of names the file that has
// the first gets the second.
func named(files map[string]string, pairs ...[2]string) map[string]string {
	c := maps.Clone(files)
	for _, p := range pairs {
		delete(c, p[0])
	}
	for _, p := range pairs {
		c[p[1]] = files[p[0]]
	}
	return c
}

// TestMisnamed: segments whose files have names of others, or of none, are read as what
// they are, keep their jobs, and get their names back.
func TestMisnamed(t *testing.T) {
	all := history(t)
	a, b := streams(all)[0], streams(all)[1]
	for what, pairs := range map[string][][2]string{
		"first":             {{a[0], "segment.1.0.00000077"}},
		"middle":            {{b[1], "segment.1.1.00000077"}},
		"other shard":       {{a[1], "segment.1.1.00000077"}},
		"no shard":          {{a[1], "segment.1.9.00000077"}},
		"other epoch":       {{a[0], "segment.7.0.00000077"}},
		"swapped":           {{a[0], a[1]}, {a[1], a[0]}},
		"two shards":        {{a[0], b[1]}, {b[1], a[0]}},
		"circle":            {{a[0], a[1]}, {a[1], b[0]}, {b[0], a[0]}},
		"chain":             {{a[0], a[1]}, {a[1], "segment.1.0.00000099"}},
		"circle, cut short": {{a[0], "segment.1.0.00000099"}, {a[1], a[0]}},
	} {
		t.Run(what, func(t *testing.T) {
			var places []string
			for _, p := range pairs {
				places = append(places, place(p[1], 0))
			}
			files := named(all, pairs...)
			finds(t, disk(files), without(all, nothing), places...)

			strict := config(disk(files), 2)
			strict.Strict = true
			st := open(t, strict)
			replay(t, st)
			if _, err := st.Begin(); err == nil {
				t.Error("a strict start goes on")
			}
			st.Close()

			for _, shards := range []int{2, 3} {
				f := disk(files)
				serve(t, config(f, shards)).close()
				got, damages := readBack(t, config(f, shards))
				if len(damages) > 0 {
					t.Errorf("%d shards: then there is damage: %v", shards, damages)
				}
				got.same(t, without(all, nothing))
			}
		})
	}
}

// TestMisnamedCopies: a copy of a segment that is there, or was dropped, is ignored.
func TestMisnamedCopies(t *testing.T) {
	all := history(t)
	a := streams(all)[0]
	copied := "segment.1.0.00000077"
	finds(t, disk(with(all, copied, all[a[0]])), without(all, nothing), place(copied, 0))
}

// TestMisnamedCrash renames while each call fails.
func TestMisnamedCrash(t *testing.T) {
	all := history(t)
	a, b := streams(all)[0], streams(all)[1]
	files := named(all, [2]string{a[0], a[1]}, [2]string{a[1], b[0]}, [2]string{b[0], a[0]})
	for n := range 4 {
		f := &failingRename{FS: disk(files), left: n}
		st := open(t, config(f, 2))
		replay(t, st)
		if _, err := st.Begin(); err == nil {
			t.Fatalf("after %d renames: Begin does not fail", n)
		}
		st.Close()
		got, _ := readBack(t, config(f.FS, 2))
		got.same(t, without(all, nothing))
	}
}

type failingRename struct {
	*faultfs.FS
	left int
}

func (f *failingRename) Rename(from, to string) error {
	if filepath.Base(from) == "manifest.new" {
		return f.FS.Rename(from, to)
	}
	if f.left--; f.left < 0 {
		return errors.New("no rename")
	}
	return f.FS.Rename(from, to)
}

// TestMisnamedBehindAnother: a file does not get its name back where another one has that
// and stays. Neither is lost.
func TestMisnamedBehindAnother(t *testing.T) {
	all := history(t)
	a := streams(all)[0]
	const other = "segment.1.0.00000077"
	for what, now := range map[string]map[string]string{
		"a copy":                with(with(all, other, all[a[3]]), a[3], all[a[0]]),
		"one that is cut short": with(with(with(all, other, all[a[1]]), a[1], all[a[0]]), a[0], all[a[0]][:40]),
	} {
		f := disk(now)
		serve(t, config(f, 2)).close()
		once, _ := readBack(t, config(f, 2))
		serve(t, config(f, 2)).close()
		twice, _ := readBack(t, config(f, 2))
		twice.same(t, once)
		for name, data := range now {
			if name != "manifest" && len(data) > 40 && !kept(t, f, data) {
				t.Errorf("%s: what was %s is gone", what, name)
			}
		}
	}
}

// kept tells whether a file begins with that data, without the zeros behind it.
func kept(t *testing.T, f *faultfs.FS, data string) bool {
	t.Helper()
	for _, folder := range []string{dir, filepath.Join(dir, "damaged")} {
		entries, _ := f.ReadDir(folder)
		for _, e := range entries {
			if !e.IsDir() && strings.HasPrefix(string(f.Read(filepath.Join(folder, e.Name()))), strings.TrimRight(data, "\x00")) {
				return true
			}
		}
	}
	return false
}

// TestMisnamedAtRandom moves, copies, swaps and cuts segments at random. What the first
// start finds the next one finds as well, and a segment that was not read is kept.
func TestMisnamedAtRandom(t *testing.T) {
	all := history(t)
	segments := slices.Concat(streams(all)[0], streams(all)[1])
	names := append(slices.Clone(segments), "segment.1.0.00000077", "segment.1.1.00000078", "segment.1.9.00000079", "segment.3.0.00000080")
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		files := maps.Clone(all)
		for range 1 + rng.IntN(4) {
			from, to := names[rng.IntN(len(names))], names[rng.IntN(len(names))]
			data, ok := files[from]
			if !ok || from == to {
				continue
			}
			switch rng.IntN(5) {
			case 0, 1:
				delete(files, from)
				files[to] = data
			case 2:
				files[to] = data
			case 3:
				if was, ok := files[to]; ok {
					files[from], files[to] = was, data
				}
			case 4:
				files[from] = data[:min(40, len(data))]
			}
		}
		if rng.IntN(5) == 0 {
			delete(files, "manifest")
		}
		cfg := config(disk(files), 2+rng.IntN(2))
		f := cfg.FS.(*faultfs.FS)
		first, _ := readBack(t, cfg)
		serve(t, cfg).close()
		second, _ := readBack(t, cfg)
		if first.String() != second.String() {
			t.Errorf("seed %d: a start finds\n%s\nand the next one\n%s", seed, first, second)
		}
		for _, name := range segments {
			if !slices.Contains(slices.Collect(maps.Values(files)), all[name]) || kept(t, f, all[name]) {
				continue
			}
			one := noJobs()
			for _, b := range binlog.Blocks([]byte(all[name])) {
				b.Replay(one, 0)
			}
			for id := range one.of {
				if _, ok := first.of[id]; !ok && id != 2 && id != 5 { // these two are deleted later on
					t.Errorf("seed %d: %s, with job %d, was not read and is gone", seed, name, id)
				}
			}
		}
	}
}
