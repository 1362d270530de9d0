package binlog_test

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"

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
