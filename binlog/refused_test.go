package binlog_test

// A directory as a whole: without its manifest, refused for its damage or for a
// later format, out of reach.

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// TestManifestGone: the jobs are there without it, and it is made anew.
func TestManifestGone(t *testing.T) {
	all := history(t)
	for _, data := range []string{"none", "", "rubbish", all["manifest"][1:], all["manifest"] + "\n"} {
		rest := with(all, "manifest", data)
		if data == "none" {
			delete(rest, "manifest")
		}
		f := disk(rest)
		finds(t, f, without(all, nothing), place("manifest", 0))
		serve(t, config(f, 2)).close()
		finds(t, f, without(all, nothing))
	}
}

// TestManifestUnreadable: where the disk cannot read it, it does not count; but a
// read that fails once is done again.
func TestManifestUnreadable(t *testing.T) {
	all := history(t)
	for _, op := range []faultfs.Op{faultfs.OpOpen, faultfs.OpReadAt} {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.EBADMSG, syscall.EUCLEAN} {
			for _, times := range []int{1, 1000} {
				f := disk(all)
				failed := 0
				f.SetFault(func(o faultfs.Op, name string, _ int64, _ int) error {
					if o == op && filepath.Base(name) == "manifest" && failed < times {
						failed++
						return errno
					}
					return nil
				})
				if times == 1 {
					got, damages := readBack(t, config(f, 2))
					got.same(t, without(all, nothing))
					if len(damages) > 0 || failed != 1 {
						t.Errorf("%v at the first %v: %v", errno, op, damages)
					}
					continue
				}
				finds(t, f, without(all, nothing), place("manifest", 0))
				serve(t, config(f, 2)).close()
				f.SetFault(nil)
				finds(t, f, without(all, nothing))
			}
		}
	}
}

// TestManifestGoneBetweenTwoEpochs: a rearrangement was cut short, before or
// after it counted, and then the manifest was lost.
func TestManifestGoneBetweenTwoEpochs(t *testing.T) {
	all := history(t)
	want := without(all, nothing)
	for _, op := range []faultfs.Op{faultfs.OpRename, faultfs.OpRemove} {
		f := disk(all)
		st := rearranged(t, config(f, 3))
		f.SetFault(func(o faultfs.Op, name string, off int64, n int) error {
			if o == op && name != dir+"/manifest.new" || o == op && o == faultfs.OpRename {
				return syscall.EROFS
			}
			return nil
		})
		if err := st.Commit(); !errors.Is(err, syscall.EROFS) {
			t.Fatalf("%v fails: %v", op, err)
		}
		f = f.Kill()
		if n := len(segments(t, f)); n != len(all)-1+3 {
			t.Fatalf("%d segments are there", n)
		}
		finds(t, f, want) // as long as there is a manifest, all is well
		if err := f.Remove(dir + "/manifest"); err != nil {
			t.Fatal(err)
		}
		got, damages := readBack(t, config(f, 2))
		// What comes next to it may be there, too.
		if at(damages) != place("manifest", 0) {
			t.Errorf("damage is found at %q", at(damages))
		}
		got.same(t, want)
		serve(t, config(f, 2)).close()
		finds(t, f, want)
	}
}

// TestStrict: damage is refused, and nothing in the directory changes.
func TestStrict(t *testing.T) {
	all := history(t)
	f := disk(all)
	cfg := config(f, 2)
	cfg.Strict = true
	serve(t, cfg).close() // no damage
	for name, data := range all {
		f := disk(with(all, name, "X"+data[1:]))
		f.Write(dir+"/lock", nil)
		before := files(t, f)
		for _, shards := range []int{2, 3} {
			cfg := config(f, shards)
			cfg.Strict = true
			st := open(t, cfg)
			replay(t, st)
			_, err := st.Begin()
			// It says what is damaged, where, and what there is to do.
			places := "1 place: "
			if n := len(st.Damages()); n > 1 {
				places = fmt.Sprint(n, " places, the first: ")
			}
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "binlog "+dir+": it is damaged in "+places+name+" at offset 0: ") ||
				!strings.Contains(err.Error(), "; start without --binlog-strict to ") || !strings.Contains(err.Error(), "`sheafd binlog dump "+dir+"`") {
				t.Errorf("damage in %s: %v", name, err)
			}
			st.Close()
		}
		if !maps.Equal(files(t, f), before) {
			t.Errorf("damage in %s: the directory has changed", name)
		}
	}
}

// TestFuture: what a later version has written is refused, and not touched.
func TestFuture(t *testing.T) {
	all := history(t)
	for name, data := range all {
		for _, intact := range []bool{true, false} {
			// If the sum is wrong, version 3 could be 2 with a flipped bit.
			later, version := "", 3
			if !intact {
				version = 4
			}
			if name == "manifest" {
				later = strings.Replace(data, "binlog 2", fmt.Sprint("binlog ", version), 1)
				if intact {
					text, _, _ := strings.Cut(later, "sum ")
					later = fmt.Sprintf("%ssum %08x\n", text, crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
				}
			} else {
				later = string(binlog.WithVersion([]byte(data), uint32(version), intact))
			}
			f := disk(with(all, name, later))
			f.Write(dir+"/lock", nil)
			before := files(t, f)
			_, err := binlog.Open(config(f, 2))
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) ||
				!strings.Contains(err.Error(), fmt.Sprintf("%s has format %d, and this sheafd knows formats up to 2", name, version)) {
				t.Errorf("%s of version %d: %v", name, version, err)
			}
			if !maps.Equal(files(t, f), before) {
				t.Errorf("%s of version %d: the directory has changed", name, version)
			}
			if _, err := binlog.Dump(new(bytes.Buffer), f, dir); err == nil || !strings.Contains(err.Error(), fmt.Sprint("has format ", version)) {
				t.Errorf("dump of %s of version %d: %v", name, version, err)
			}
		}
	}
}

// TestUnreadable: a disk that fails is told, not taken for a short file.
func TestUnreadable(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		for _, name := range stream {
			f := disk(all)
			st := open(t, config(f, 2))
			unreadable(f, name)
			failed := false
			for i := range st.Streams() {
				_, err := st.Replay(i, noJobs())
				failed = failed || errors.Is(err, syscall.EIO)
			}
			if len(st.Damages()) == 0 && !failed {
				t.Errorf("%s cannot be read, and nobody is told", name)
			}
			f.SetFault(nil)
			if !failed {
				if _, err := st.Begin(); err != nil {
					t.Fatal(err)
				}
			}
			st.Close()
			if f.Read(filepath.Join(dir, name)) == nil {
				t.Errorf("%s could not be read, and is gone", name)
			}
		}
	}
}

// TestTroubleIsNoDamage: what cannot be read because the system has no memory, say,
// is not taken for damage of the disk: the server does not start, and all is there
// when it does.
func TestTroubleIsNoDamage(t *testing.T) {
	all := history(t)
	want := without(all, nothing)
	for _, errno := range []syscall.Errno{syscall.ENOMEM, syscall.EAGAIN, syscall.ETIMEDOUT, syscall.ESTALE, syscall.EPERM} {
		for first := range 12 {
			f := disk(all)
			reads := 0
			f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
				if op == faultfs.OpReadAt && strings.Contains(name, "segment.") {
					if reads++; reads > first {
						return errno
					}
				}
				return nil
			})
			st, err := binlog.Open(config(f, 2))
			for i := 0; err == nil && i < st.Streams(); i++ {
				_, err = st.Replay(i, noJobs())
			}
			if !errors.Is(err, errno) && reads > first {
				t.Fatalf("%v from read %d on: %v", errno, first+1, err)
			}
			if st != nil {
				st.Close()
			}
			f.SetFault(nil)
			finds(t, f, want)
		}
	}
}

// unreadable has reads of files fail.
func unreadable(f *faultfs.FS, names ...string) { refuse(f, faultfs.OpReadAt, names...) }

// refuse has operations with files fail.
func refuse(f *faultfs.FS, refused faultfs.Op, names ...string) {
	f.SetFault(func(op faultfs.Op, file string, off int64, n int) error {
		if op == refused && slices.Contains(names, filepath.Base(file)) {
			return syscall.EIO
		}
		return nil
	})
}

// TestManyDamages: a heap of rubbish is not told of without end.
func TestManyDamages(t *testing.T) {
	f := disk(history(t))
	for i := range binlog.MaxDamages + 10 {
		f.Write(fmt.Sprintf("%s/rubbish%d", dir, i), nil)
	}
	if _, damages := readBack(t, config(f, 2)); len(damages) != binlog.MaxDamages {
		t.Errorf("%d damages", len(damages))
	}
	if text := dump(t, f, dir); !strings.Contains(text, "\ndamage beyond the first 1000 is not listed\n") {
		t.Error("the dump does not say that it lists not all")
	}
}

// TestReadableAgain: a segment that could not be read, and now can, does not
// stand in the way of what was written behind it meanwhile.
func TestReadableAgain(t *testing.T) {
	all := history(t)
	for shard, stream := range streams(all) {
		for i, name := range stream {
			readableAgain(t, all, shard, name, i == len(stream)-1)
		}
	}
}

func readableAgain(t *testing.T, all map[string]string, shard int, name string, last bool) {
	f := disk(all)
	st := open(t, config(f, 2))
	unreadable(f, name)
	replay(t, st)
	logs, err := st.Begin()
	if err == nil {
		err = st.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	want := without(all, nothing)
	for id := uint64(20); id < 23; id++ {
		want.Put(job(id, "c", "written meanwhile"), 0)
		logs[shard].Put(job(id, "c", "written meanwhile"))
		if err := wait(logs[shard]); err != nil {
			t.Fatal(err)
		}
	}
	f.SetFault(nil)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	got, damages := readBack(t, config(f, 2))
	got.same(t, want)
	if len(damages) > 0 && !last || len(damages) > 1 { // numbers were left out
		t.Errorf("%s could not be read: %v", name, damages)
	}
	serve(t, config(f, 2)).close()
	got, _ = readBack(t, config(f, 2))
	got.same(t, want)
}
