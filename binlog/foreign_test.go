package binlog_test

// Files of another directory, or of another time of this one, have come to be
// among a directory's own.

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// other is a directory of other jobs with as many shards and in the same epoch
// as a history, and with more segments.
func other(t testing.TB) map[string]string {
	t.Helper()
	f := faultfs.New()
	s := serve(t, config(f, 2))
	for range 8 {
		s.rolls(0, 101)
	}
	s.does(0, func(l *binlog.Log) { l.Put(job(100, "other", "other")) })
	s.halt(f)
	return files(t, f)
}

// stays fails the test if a server, of any number of shards, does not have these
// jobs, or a strict one starts or changes anything. It returns the directory as
// the server has left it, which the next one has to find without damage but for
// what stays there.
func stays(t *testing.T, rest map[string]string, want *jobs, shards int, left ...string) map[string]string {
	t.Helper()
	f := disk(rest)
	f.Write(dir+"/lock", nil)
	before := files(t, f)
	cfg := config(f, shards)
	cfg.Strict = true
	if err := refuses(t, cfg); err == nil {
		t.Error("a strict server starts")
	}
	st := open(t, cfg)
	replay(t, st)
	if _, err := st.Begin(); err == nil {
		t.Error("a strict server starts")
	}
	st.Close()
	if !maps.Equal(files(t, f), before) {
		t.Error("a strict server changes something")
	}
	cfg.Strict = false
	s := serve(t, cfg)
	s.found.same(t, want)
	s.does(0, func(l *binlog.Log) { l.Put(job(50, "a", "fifty")) })
	s.close()
	after := noJobs()
	maps.Copy(after.of, want.of)
	after.Put(job(50, "a", "fifty"), 0)
	got, damages := readBack(t, config(f, shards))
	var places []string
	for _, name := range left {
		places = append(places, place(name, 0))
		if string(f.Read(filepath.Join(dir, name))) != rest[name] {
			t.Errorf("%s is not left alone", name)
		}
	}
	slices.Sort(places)
	if at(damages) != strings.Join(places, ", ") {
		t.Errorf("then damage is found at %q, want %q", at(damages), places)
	}
	got.same(t, after)
	return files(t, f)
}

// TestManifestOfAnotherDirectory: it counts no more than one that is lost.
func TestManifestOfAnotherDirectory(t *testing.T) {
	all := history(t)
	rest := with(all, "manifest", other(t)["manifest"])
	want := without(all, nothing)
	finds(t, disk(rest), want, place("manifest", 0))
	for _, shards := range []int{1, 2, 3} {
		stays(t, rest, want, shards)
	}
	// A damaged header tells nothing of where it belongs.
	name := streams(all)[0][0]
	rest[name] = "X" + rest[name][1:]
	finds(t, disk(rest), want, place("manifest", 0), place(name, 0))
	// With a hole in them, blocks that are not known would look as if cut off.
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", string(make([]byte, 2000)))) })
	want = noJobs()
	want.Put(job(1, "a", string(make([]byte, 2000))), 0)
	s.halt(f)
	one := files(t, f)
	g := faultfs.New()
	serve(t, config(g, 1)).halt(g)
	stays(t, with(one, "manifest", files(t, g)["manifest"]), want, 1)
}

// TestSegmentOfAnotherDirectory: it is told, and left alone, wherever it is, and
// whether there is a manifest or not.
func TestSegmentOfAnotherDirectory(t *testing.T) {
	all, foreign := history(t), other(t)
	want := without(all, nothing)
	for _, manifest := range []bool{true, false} {
		n := 0
		for name, data := range foreign {
			if !strings.HasPrefix(data, "sheaflog") || all[name] != "" {
				continue
			}
			n++
			rest := with(all, name, data)
			places := []string{place(name, 0)}
			if !manifest {
				delete(rest, "manifest")
				places = append(places, place("manifest", 0))
			}
			finds(t, disk(rest), want, places...)
			for _, shards := range []int{2, 3} {
				stays(t, rest, want, shards, name)
			}
		}
		if n < 3 {
			t.Fatalf("%d segments", n)
		}
	}
	// Of another epoch it is no leftover.
	data := otherEpoch(t)
	for name := range data {
		if strings.HasPrefix(name, "segment.2.0.") {
			rest := with(all, name, data[name])
			finds(t, disk(rest), want, place(name, 0))
			stays(t, rest, want, 2, name)
		}
	}
}

// TestSegmentReplaced: in place of one of its own there is one of another
// directory: it is told that the own one is missing, too.
func TestSegmentReplaced(t *testing.T) {
	all := history(t)
	f := faultfs.New()
	s := serve(t, config(f, 2))
	s.rolls(0, 1)
	s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "two")) })
	s.halt(f)
	rolled := files(t, f) // to a segment that the manifest does not know of
	foreign := other(t)["segment.1.0.00000001"]
	for _, all := range []map[string]string{all, rolled} {
		for _, name := range streams(all)[0] {
			if !strings.HasPrefix(all[name], "sheaflog") {
				continue
			}
			index, err := strconv.ParseUint(name[len("segment.1.0."):], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			rest := with(all, name, binlog.Renamed(foreign, index))
			want := without(all, func(file string, _ binlog.Block) bool { return file == name })
			finds(t, disk(rest), want, place(name, 0), place(name, 0))
			f := disk(rest)
			serve(t, config(f, 2)).close()
			if string(f.Read(filepath.Join(dir, name))) != rest[name] {
				t.Errorf("%s is not left alone", name)
			}
		}
	}
}

// TestMostSegmentsCount: without a manifest, and as many of each directory, it is
// that of the oldest one.
func TestMostSegmentsCount(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
	s.halt(f)
	own := files(t, f)
	name := segments(t, f)[0]
	for n, data := range other(t) {
		if !strings.HasPrefix(data, "sheaflog") || n <= name {
			continue
		}
		rest := map[string]string{name: own[name], n: data}
		want := noJobs()
		want.Put(job(1, "a", "one"), 0)
		finds(t, disk(rest), want, place("manifest", 0), place(n, 0))
		stays(t, rest, want, 1, n)
	}
}

// otherEpoch is another directory in its second epoch.
func otherEpoch(t testing.TB) map[string]string {
	t.Helper()
	f := disk(other(t))
	serve(t, config(f, 1)).close()
	return files(t, f)
}

// TestOldManifest: one of an earlier epoch is put back.
func TestOldManifest(t *testing.T) {
	all := history(t)
	want := without(all, nothing)
	for _, shards := range []int{1, 3} {
		f := disk(all)
		serve(t, config(f, shards)).close()
		rest := with(files(t, f), "manifest", all["manifest"])
		got, damages := readBack(t, config(disk(rest), shards))
		if at(damages) != place("manifest", 0) {
			t.Errorf("damage is found at %q", at(damages))
		}
		got.same(t, want)
		for _, now := range []int{1, 2, 3} {
			stays(t, rest, want, now)
		}
	}
}

// TestManifestOfACrash: in a rearrangement that is cut short the segments of the
// new epoch are there before the manifest, also at the very first start, and where
// the segments that the manifest names were cleaned away since.
func TestManifestOfACrash(t *testing.T) {
	cleaned := faultfs.New()
	s := serve(t, config(cleaned, 1))
	s.rolls(0, 1)
	s.rolls(0, 1)
	s.does(0, func(l *binlog.Log) {
		l.Put(job(2, "a", "two"))
		l.Drop(l.Segment())
	})
	eventually(t, "the first segment is gone", func() bool { return cleaned.Read(dir+"/segment.1.0.00000001") == nil })
	s.halt(cleaned)
	for _, f := range []*faultfs.FS{faultfs.New(), cleaned, disk(history(t))} {
		want, _ := readBack(t, config(f, 3))
		st := rearranged(t, config(f, 3))
		crashed := f.Kill()
		st.Close()
		for _, shards := range []int{1, 2, 3} {
			f := crashed.Kill()
			cfg := config(f, shards)
			cfg.Strict = true
			got, damages := readBack(t, cfg)
			if len(damages) > 0 {
				t.Error(damages)
			}
			got.same(t, want)
			serve(t, cfg).close()
			got, damages = readBack(t, cfg)
			if len(damages) > 0 {
				t.Error(damages)
			}
			got.same(t, want)
		}
	}
}

// TestForeignHighNumber: a foreign file with a number that nobody comes to does
// not use up the numbers.
func TestForeignHighNumber(t *testing.T) {
	all := history(t)
	want := without(all, nothing)
	for _, name := range []string{"segment.1.0.2147483647", "segment.1.1.2147483646", "segment.9.9.2147483647", "segment.4294967295.0.00000099"} {
		for _, data := range []string{"", "hello", strings.Repeat("hello", 1000)} {
			for _, manifest := range []bool{true, false} {
				rest := with(all, name, data)
				places := []string{place(name, 0)}
				if !manifest {
					delete(rest, "manifest")
					places = append(places, place("manifest", 0))
				}
				finds(t, disk(rest), want, places...)
				after := stays(t, rest, want, 2, name)
				for n := range after {
					if strings.HasPrefix(n, "segment.") && n != name && len(n) != len("segment.1.0.00000001") {
						t.Errorf("%s: now there is %s", name, n)
					}
				}
			}
		}
	}
}

// TestHighestNumber: one that is taken by a segment leaves none for another, and
// no server starts that could not read back what it writes.
func TestHighestNumber(t *testing.T) {
	const name = "segment.1.0.2147483647"
	rest := with(history(t), name, binlog.Renamed(other(t)["segment.1.0.00000001"], 2147483647))
	f := disk(rest)
	for _, shards := range []int{2, 3} {
		st := open(t, config(f, shards))
		replay(t, st)
		if _, err := st.Begin(); err == nil || !strings.Contains(err.Error(), "2147483647") {
			t.Errorf("%d shards: %v", shards, err)
		}
		st.Close()
	}
	if err := f.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	finds(t, f, without(rest, nothing))
}

// TestForeignOfAnotherEpoch: a file with the name of a segment of another epoch
// is removed only if it is one, or what a crash may leave of one.
func TestForeignOfAnotherEpoch(t *testing.T) {
	all := history(t)
	want := without(all, nothing)
	header := all["segment.1.0.00000001"][:binlog.SegmentHeader]
	for i, data := range []string{"hello", strings.Repeat("hello", 1000), header, "X" + header[1:]} {
		name := fmt.Sprintf("segment.%d.0.00000099", 2*(i%2)) // of an epoch before it, or behind it
		rest := with(all, name, data)
		finds(t, disk(rest), want, place(name, 0))
		stays(t, rest, want, 2, name)
	}
	for _, data := range []string{"", "sheaf", header[:50], header[:50] + string(make([]byte, 1000)), string(make([]byte, 5000)), string(make([]byte, 512)) + noise(512)} {
		f := disk(with(all, "segment.2.0.00000099", data))
		finds(t, f, want)
		serve(t, config(f, 2)).close()
		if f.Read(dir+"/segment.2.0.00000099") != nil {
			t.Errorf("a leftover of %d bytes stays", len(data))
		}
	}
}

// TestTakenBackWithoutForeign: when a rearrangement is taken back, what was called
// foreign stays, though its name is of the epoch that was to begin.
func TestTakenBackWithoutForeign(t *testing.T) {
	const name, data = "segment.2.0.1500000000", "dear diary"
	all := history(t)
	f := disk(with(all, name, data))
	st := open(t, config(f, 3))
	replay(t, st)
	if _, err := st.Begin(); err != nil {
		t.Fatal(err)
	}
	if made(t, f) <= len(all) {
		t.Fatal("no segment was made")
	}
	st.Close()
	if got := f.Read(filepath.Join(dir, name)); string(got) != data {
		t.Errorf("a foreign file is %q", got)
	}
	if list := segments(t, f); len(list) != len(all)-1 {
		t.Errorf("there are segments %v", list)
	}
}
