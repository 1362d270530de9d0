package binlog_test

// Files that are missing, that have another name, or that are not of a binlog.

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// TestMissingSegment removes each segment in turn.
func TestMissingSegment(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		for _, name := range stream {
			rest := maps.Clone(all)
			delete(rest, name)
			finds(t, disk(rest), without(rest, nothing), place(name, 0))
		}
	}
}

// TestMissingLastSegmentAfterARoll: the one before says that it was there.
func TestMissingLastSegmentAfterARoll(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.rolls(0, 1)
	s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "two")) })
	s.close()
	list := segments(t, f)
	if err := f.Remove(filepath.Join(dir, list[1])); err != nil {
		t.Fatal(err)
	}
	if _, damages := readBack(t, config(f, 1)); at(damages) != place(list[1], 0) {
		t.Errorf("damage is found at %q", at(damages))
	}
}

// TestMissingBeforeUnbegun: a file that was made ready for later, behind it, does
// not hide that a segment is missing.
func TestMissingBeforeUnbegun(t *testing.T) {
	for _, rolls := range []int{0, 2} {
		f := faultfs.New()
		s := serve(t, config(f, 1))
		for range rolls {
			s.rolls(0, 1)
		}
		s.does(0, func(l *binlog.Log) { l.Put(job(9, "a", "nine")) })
		s.close()
		list := segments(t, f)
		last := list[len(list)-1]
		var epoch, shard, index int
		if _, err := fmt.Sscanf(last, "segment.%d.%d.%d", &epoch, &shard, &index); err != nil {
			t.Fatal(err)
		}
		f.Write(filepath.Join(dir, fmt.Sprintf("segment.%d.%d.%08d", epoch, shard, index+1)), nil)
		if err := f.Remove(filepath.Join(dir, last)); err != nil {
			t.Fatal(err)
		}
		if _, damages := readBack(t, config(f, 1)); at(damages) != place(last, 0) {
			t.Errorf("after %d rolls damage is found at %q, want %q", rolls, at(damages), place(last, 0))
		}
	}
}

func TestAllSegmentsOfAShardMissing(t *testing.T) {
	all := history(t)
	rest := maps.Clone(all)
	for _, name := range streams(all)[0] {
		delete(rest, name)
	}
	gone := streams(all)[0]
	finds(t, disk(rest), without(rest, nothing), place(gone[len(gone)-1], 0))
}

func TestForeignFiles(t *testing.T) {
	all := history(t)
	f := disk(all)
	foreign := []string{"README", "segment.1.0.1", "segment.1.0.00000001~", "segment.x", "segment.1.0.4294967295", "manifest.old"}
	var where []string
	for _, name := range foreign {
		f.Write(filepath.Join(dir, name), []byte("foreign"))
		where = append(where, place(name, 0))
	}
	hidden := []string{".keep", ".nfs0000000001", ".segment.1.0.00000001.swp"}
	for _, name := range hidden {
		f.Write(filepath.Join(dir, name), []byte("foreign"))
	}
	f.Write(dir+"/lost+found/x", nil)
	f.Write(dir+"/.snapshot/x", nil)
	f.Write(dir+"/folder/x", nil)
	where = append(where, place("folder", 0))
	finds(t, f, without(all, nothing), where...)
	serve(t, config(f, 3)).close()
	for _, name := range append(foreign, hidden...) {
		if string(f.Read(filepath.Join(dir, name))) != "foreign" {
			t.Errorf("%s is not left alone", name)
		}
	}
}

// TestRenamedSegment gives a segment the name of another place in its stream,
// or of one in the other shard's. It is told, and no job comes up that is not
// of this stream, or twice.
func TestRenamedSegment(t *testing.T) {
	all := history(t)
	for shard, stream := range streams(all) {
		for _, name := range stream {
			for _, to := range []string{
				fmt.Sprintf("segment.1.%d.00000099", shard), fmt.Sprintf("segment.1.%d.00000099", 1-shard), fmt.Sprintf("segment.1.%d.00000000", 1-shard),
			} {
				f := disk(all)
				if err := f.Rename(filepath.Join(dir, name), filepath.Join(dir, to)); err != nil {
					t.Fatal(err)
				}
				st := open(t, config(f, 2))
				for i := range st.Streams() {
					got := noJobs()
					if _, err := st.Replay(i, got); err != nil {
						t.Fatal(err)
					}
					for id := range got.of {
						if id%2 != uint64(i) {
							t.Errorf("%s is now %s: shard %d has job %d of the other", name, to, i, id)
						}
					}
				}
				st.Close()
				if !strings.Contains(at(st.Damages()), place(to, 0)) {
					t.Errorf("%s is now %s: damage is found at %q", name, to, at(st.Damages()))
				}
			}
		}
	}
}
