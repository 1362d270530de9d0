package main_test

// Directories that are not as they were written: each damage is told with file
// and offset, every job that can be saved is served with exactly its bytes, and
// with --binlog-strict the server does not start and leaves all as it is.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A damagedDir is a directory that was written properly, and whose jobs are
// known with the segments that they are in.
type damagedDir struct {
	dir   string
	jobs  known
	files map[uint64]string // the segment of each job, by id
	last  uint64            // id
}

// writeDir writes a directory of many segments. Each job is in a block of its
// own, and they are in all states.
func writeDir(t *testing.T, shards int) *damagedDir {
	t.Helper()
	d := &damagedDir{dir: t.TempDir(), jobs: known{}, files: make(map[uint64]string)}
	s := withBinlog(t, d.dir, "-s", "4096", "--shards", strconv.Itoa(shards), "-F")
	c := s.talk()
	for serial := range uint64(300) {
		j := &knownJob{fmt.Sprintf("tube-%d", serial%7), "ready", uint32(serial), serial, int(60 + serial)}
		c.says("USING "+j.tube, "use %s", j.tube)
		delay := uint32(0)
		if serial%5 == 1 {
			j.state, delay = "delayed", 100_000
		}
		id := c.putDelayed(j.pri, delay, body(serial, j.size))
		if serial%5 == 2 {
			j.state = "buried"
			c.ask("reserve-job %d", id)
			c.says("BURIED", "bury %d %d", id, j.pri)
		}
		d.jobs[id], d.last = j, id
	}
	for _, id := range d.jobs.ids() {
		n, err := strconv.Atoi(c.yaml(fmt.Sprintf("stats-job %d", id))["file"])
		if err != nil {
			t.Fatal(err)
		}
		paths, err := filepath.Glob(filepath.Join(d.dir, fmt.Sprintf("segment.*.%08d", n)))
		if err != nil || len(paths) != 1 {
			t.Fatal(n, paths, err)
		}
		d.files[id] = filepath.Base(paths[0])
	}
	s.stop()
	return d
}

// copy returns another directory with the same in it.
func (d *damagedDir) copy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(d.dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// middle returns a segment in the middle of a stream, and the one before.
func (d *damagedDir) middle(t *testing.T) (before, name string) {
	t.Helper()
	for shard := range 8 {
		paths, err := filepath.Glob(filepath.Join(d.dir, fmt.Sprintf("segment.*.%d.*", shard)))
		if n := len(paths) / 2; err == nil && n > 1 {
			return filepath.Base(paths[n-1]), filepath.Base(paths[n])
		}
	}
	t.Fatal("there are too few segments")
	return "", ""
}

// saved checks what a server has: all that is not in a damaged file, and of the
// rest all but most. It returns what it has, where a job is in the state that
// it was put in if the record of another may be in the damaged file.
func (d *damagedDir) saved(t *testing.T, c *talker, before, damaged string, most int) known {
	t.Helper()
	rest := known{}
	lost := 0
	for _, id := range d.jobs.ids() {
		line, got := c.ask("peek %d", id)
		j := *d.jobs[id]
		switch {
		case line != "NOT_FOUND":
			if !bytes.Equal(got, body(j.serial, j.size)) {
				t.Errorf("job %d has another body", id)
			}
			if j.state == "buried" && damaged != "" && (d.files[id] == damaged || d.files[id] == before) {
				if now := c.yaml(fmt.Sprintf("stats-job %d", id)); now["state"] == "ready" {
					j.state = "ready"
				}
			}
			rest[id] = &j
		case d.files[id] != damaged:
			t.Errorf("job %d, in %s, is lost", id, d.files[id])
		default:
			lost++
		}
	}
	if lost > most {
		t.Errorf("%d jobs are lost, want %d at most", lost, most)
	}
	return rest
}

// A damage is something that happens to a directory.
type damage struct {
	name string
	// do does it, to the segment of that name or beside it, and returns what is
	// told of: a file, and the least and the highest offset.
	do func(t *testing.T, dir, before, name string) (file string, from, to int)
	// most is how many jobs may be lost of that segment.
	most int
}

// allOfThem is more jobs than there are in a segment.
const allOfThem = 1000

var damages = []damage{
	{"flipped bit", func(t *testing.T, dir, _, name string) (string, int, int) {
		at := 0
		rewrite(t, filepath.Join(dir, name), func(b []byte) []byte {
			at = len(b) / 2
			b[at] ^= 4
			return b
		})
		return name, at - 500, at
	}, 1},
	{"header of a segment", func(t *testing.T, dir, _, name string) (string, int, int) {
		rewrite(t, filepath.Join(dir, name), func(b []byte) []byte { b[20] ^= 64; return b })
		return name, 0, 0
	}, 0},
	{"magic of a segment", func(t *testing.T, dir, _, name string) (string, int, int) {
		rewrite(t, filepath.Join(dir, name), func(b []byte) []byte { copy(b, "oopsoops"); return b })
		return name, 0, 0
	}, 0},
	{"missing segment", func(t *testing.T, dir, _, name string) (string, int, int) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return name, 0, 0
	}, allOfThem},
	{"empty segment", func(t *testing.T, dir, _, name string) (string, int, int) {
		rewrite(t, filepath.Join(dir, name), func(b []byte) []byte { return nil })
		return name, 0, 0
	}, allOfThem},
	{"truncated segment", func(t *testing.T, dir, _, name string) (string, int, int) {
		size := 0
		rewrite(t, filepath.Join(dir, name), func(b []byte) []byte { size = len(b); return b[:len(b)/2] })
		return name, size/2 - 500, size / 2
	}, allOfThem},
	{"zeroed page", func(t *testing.T, dir, _, name string) (string, int, int) {
		rewrite(t, filepath.Join(dir, name), func(b []byte) []byte { clear(b[1024:2048]); return b })
		return name, 1024 - 500, 1024
	}, 1024/90 + 2},
	{"rubbish in the middle", func(t *testing.T, dir, _, name string) (string, int, int) {
		rewrite(t, filepath.Join(dir, name), func(b []byte) []byte { copy(b[1500:], body(0, 1000)); return b })
		return name, 1500 - 500, 1500
	}, 1000/90 + 2},
	{"segment twice", func(t *testing.T, dir, _, name string) (string, int, int) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		copied := name[:strings.LastIndexByte(name, '.')] + ".00000777"
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, copied), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return copied, 0, 0
	}, 0},
	{"foreign file", func(t *testing.T, dir, _, _ string) (string, int, int) {
		if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("dear diary\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return "notes.txt", 0, 0
	}, 0},
	{"foreign segment", func(t *testing.T, dir, _, _ string) (string, int, int) {
		if err := os.WriteFile(filepath.Join(dir, "segment.old"), body(1, 5000), 0o600); err != nil {
			t.Fatal(err)
		}
		return "segment.old", 0, 0
	}, 0},
	{"foreign directory", func(t *testing.T, dir, _, _ string) (string, int, int) {
		if err := os.MkdirAll(filepath.Join(dir, "segment.1.0.00000002.bak", "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		return "segment.1.0.00000002.bak", 0, 0
	}, 0},
	{"damaged manifest", func(t *testing.T, dir, _, _ string) (string, int, int) {
		rewrite(t, filepath.Join(dir, "manifest"), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		return "manifest", 0, 0
	}, 0},
	{"missing manifest", func(t *testing.T, dir, _, _ string) (string, int, int) {
		if err := os.Remove(filepath.Join(dir, "manifest")); err != nil {
			t.Fatal(err)
		}
		return "manifest", 0, 0
	}, 0},
}

var damageInLog = regexp.MustCompile(`level=WARN msg="binlog: damage" file="?([^" ]+)"? offset=(\d+)`)

func TestBinlogDamage(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 3} {
		d := writeDir(t, shards)
		for _, dam := range damages {
			t.Run(fmt.Sprintf("%s, %d shards", dam.name, shards), func(t *testing.T) {
				t.Parallel()
				d.suffers(t, dam, strconv.Itoa(shards))
			})
		}
	}
}

// suffers does a damage to a copy of the directory and looks what becomes of
// it.
func (d *damagedDir) suffers(t *testing.T, dam damage, shards string) {
	dir := d.copy(t)
	before, name := d.middle(t)
	file, from, to := dam.do(t, dir, before, name)

	cmd := command(t, onLoopback("-b", dir, "--binlog-strict", "--shards", shards)...)
	untouched(t, dir, func() {
		r := finish(t, cmd)
		lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
		if last := lines[len(lines)-1]; r.code != 1 || !strings.HasPrefix(last, "sheafd: binlog "+dir+": it is damaged in ") || !strings.Contains(last, file) ||
			!strings.Contains(last, "; start without --binlog-strict to ") || !strings.Contains(last, "`sheafd binlog dump "+dir+"`") {
			t.Errorf("--binlog-strict: exit status %d, stderr:\n%s", r.code, r.stderr)
		}
		if strings.Contains(r.stderr, "read back") {
			t.Errorf("it is said that all was read back:\n%s", r.stderr)
		}
	})

	s := withBinlog(t, dir, "--shards", shards)
	told := false
	for _, m := range damageInLog.FindAllStringSubmatch(s.log.String(), -1) {
		at, _ := strconv.Atoi(m[2])
		told = told || m[1] == filepath.Join(dir, file) && from <= at && at <= to
	}
	if !told {
		t.Errorf("the log does not tell of %s at offset %d to %d:\n%s", file, from, to, s.log.String())
	}
	damaged := name
	if dam.most == 0 {
		damaged = ""
	}
	rest := d.saved(t, s.talk(), before, damaged, dam.most)
	if dam.name == "foreign file" {
		if b, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(b) != "dear diary\n" {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	c := s.talk()
	id := c.put(0, nil)
	if id <= d.last {
		t.Errorf("id %d was given, which is not above %d", id, d.last)
	}
	c.says("DELETED", "delete %d", id)
	rest.check(c) // in whole, states too
	if file == "manifest" && !t.Failed() {
		// With the new one all is well.
		s.stop()
		s = withBinlog(t, dir, "--binlog-strict")
		rest.check(s.talk())
	}
	// What could be saved stays, also on other shards.
	s.kill()
	s = withBinlog(t, dir, "--shards", "2")
	rest.check(s.talk())
}
