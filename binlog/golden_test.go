package binlog_test

// What the format looks like, in each of its versions: testdata/v1 was written
// by the first sheafd that had a binlog, v2 by the first that spoke Gearman, and
// they must open for ever.

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

var goldenMake = flag.Bool("golden.make", false, "write testdata of the newest version anew: only as long as no server has used it")

// goldenDir is the directory of a version, and with .dump behind it the dump of
// that.
func goldenDir(version int) string { return fmt.Sprint("testdata/v", version) }

// goldenJobs are those that must come out of that of a version.
func goldenJobs(version int) *jobs {
	const most = 1<<32 - 1
	all := noJobs()
	list := []binlog.Job{
		{Meta: binlog.Meta{ID: 1, Pri: 1024}, TTR: 60, Created: 1_800_000_000_000_000_001, Tube: "default", Body: []byte("hello")},
		{Meta: binlog.Meta{ID: 2, State: binlog.Buried, At: 2, Pri: 0, Reserves: 1, Buries: 1}, TTR: 1, Created: 1, Tube: "default", Body: []byte{}},
		{Meta: binlog.Meta{ID: 3, State: binlog.Delayed, At: 1_900_000_000_000_000_003, Pri: most, Delay: most, Releases: 3}, TTR: most, Created: 3, Tube: "default", Body: []byte("\x00\r\n\xff")},
		{Meta: binlog.Meta{ID: 4, State: binlog.Buried, At: 1, Reserves: most, Timeouts: most, Releases: most, Buries: most, Kicks: most}, TTR: 60, Created: 4, Tube: strings.Repeat("t", 200), Body: []byte("worn out")},
		{Meta: binlog.Meta{ID: 5, Kicks: 1}, TTR: 60, Created: 5, Tube: "zstd", Body: []byte(strings.Repeat("zstd ", 100))},
		{Meta: binlog.Meta{ID: 6}, TTR: 60, Created: 6, Tube: "s2", Body: []byte(strings.Repeat("s2 ", 100))},
		{Meta: binlog.Meta{ID: 7, Pri: 7}, TTR: 60, Created: 7, Tube: "none", Body: []byte(strings.Repeat("none ", 100))},
		{Meta: binlog.Meta{ID: 8, State: binlog.Delayed, At: 1_900_000_000_000_000_008, Delay: 8, Timeouts: 1}, TTR: 60, Created: 8, Tube: "copied", Body: []byte("by cleaning")},
		{Meta: binlog.Meta{ID: 1<<64 - 2}, TTR: 60, Created: 9, Tube: "default", Body: []byte("the last one")},
	}
	if version >= 2 {
		list = append(list, []binlog.Job{
			{Meta: binlog.Meta{ID: 20, Pri: 1024}, TTR: 60, Created: 20, Tube: "resize", Body: []byte("a.jpg\x00640"), Task: true, Unique: "a.jpg"},
			{Meta: binlog.Meta{ID: 21, State: binlog.Buried, At: 3, Reserves: 1, Buries: 1}, TTR: 1, Created: 21, Tube: everyByte(), Body: []byte{}, Task: true, Reducer: "sum"},
			{Meta: binlog.Meta{ID: 22, State: binlog.Delayed, At: 1_900_000_000_000_000_022, Pri: most, Delay: most}, TTR: most, Created: 22, Tube: "resize", Body: []byte("b.jpg"), Task: true, Unique: "\x00=\n\xff"},
			{Meta: binlog.Meta{ID: 23, Kicks: 1}, TTR: 60, Created: 23, Tube: strings.Repeat("f", 300), Body: []byte(strings.Repeat("zstd ", 100)), Task: true, Unique: strings.Repeat("u", 300), Reducer: strings.Repeat("r", 300)},
			{Meta: binlog.Meta{ID: 24}, TTR: 60, Created: 24, Tube: "s2", Body: []byte(strings.Repeat("s2 ", 100)), Task: true},
			{Meta: binlog.Meta{ID: 25, State: binlog.Delayed, At: 1_900_000_000_000_000_025, Delay: 25, Timeouts: 1}, TTR: 60, Created: 25, Tube: "copied", Body: []byte("by cleaning"), Task: true, Unique: "c", Reducer: "d"},
		}...)
	}
	for _, j := range list {
		all.of[j.ID] = j
	}
	return all
}

func everyByte() string {
	var b []byte
	for c := range 256 {
		b = append(b, byte(c))
	}
	return string(b)
}

// goldenLastID is the highest id that was given out, to a job that is deleted.
const goldenLastID = 1<<64 - 1

// golden writes that of the newest version: three lives of a server of two
// shards.
func golden(t testing.TB) map[string]string {
	f := faultfs.New()
	want := goldenJobs(binlog.Version).of
	put := func(l *binlog.Log, id uint64) { j := want[id]; l.Put(&j) }
	live := func(c binlog.Compression, work func(*server)) {
		cfg := config(f, 2)
		cfg.Compression = c
		s := serve(t, cfg)
		work(s)
		s.close()
	}
	live(binlog.None, func(s *server) {
		s.does(0, func(l *binlog.Log) { put(l, 1) })
		changed := []uint64{2, 3, 4, 21, 22}
		s.does(0, func(l *binlog.Log) {
			for _, id := range changed {
				j := want[id]
				j.Meta = binlog.Meta{ID: id, Pri: 1}
				l.Put(&j)
			}
		})
		s.does(0, func(l *binlog.Log) {
			for _, id := range changed {
				m := want[id].Meta
				l.Change(&m)
			}
		})
		s.does(0, func(l *binlog.Log) { put(l, 7) })
		s.does(0, func(l *binlog.Log) { put(l, 20) })
		for _, id := range []uint64{8, 25} {
			s.does(1, func(l *binlog.Log) {
				j := want[id]
				j.Meta = binlog.Meta{ID: id}
				l.Put(&j)
			})
			s.does(1, func(l *binlog.Log) { m := want[id].Meta; l.Change(&m) })
		}
		s.rolls(0, 100)
		s.does(0, func(l *binlog.Log) { l.Delete(101) })
	})
	live(binlog.S2, func(s *server) {
		s.does(0, func(l *binlog.Log) { put(l, 6) })
		s.does(0, func(l *binlog.Log) { put(l, 24) })
		s.does(1, func(l *binlog.Log) { put(l, 8) })
		s.does(1, func(l *binlog.Log) { put(l, 25) })
		before := len(segments(t, f))
		s.does(1, func(l *binlog.Log) { l.Drop(l.Segment()) })
		eventually(t, "the dropped segment is gone", func() bool { return len(segments(t, f)) < before })
	})
	live(binlog.Zstd, func(s *server) {
		s.does(1, func(l *binlog.Log) { put(l, 5) })
		s.does(1, func(l *binlog.Log) { put(l, 23) })
		s.does(1, func(l *binlog.Log) { put(l, 1<<64-2) })
		s.does(0, func(l *binlog.Log) {
			l.Put(job(goldenLastID, "default", "deleted"))
			l.Delete(goldenLastID)
		})
	})
	return files(t, f)
}

func goldenFiles(t testing.TB, version int) map[string]string {
	t.Helper()
	dir := goldenDir(version)
	all := make(map[string]string)
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func TestGolden(t *testing.T) {
	if *goldenMake {
		makeGolden(t)
	}
	said := []string{"put", "change", "delete", "drop", "roll", "compression=none", "compression=s2", "compression=zstd", "state=ready", "state=delayed", "state=buried"}
	testGolden(t, 1, append(said, "segment version=1"))
	testGolden(t, 2, append(said, "segment version=2", `unique=a.jpg reducer=""`, `unique="" reducer=sum`))
}

func testGolden(t *testing.T, version int, said []string) {
	all := goldenFiles(t, version)
	want, err := os.ReadFile(goldenDir(version) + ".dump")
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(t, nil, goldenDir(version)); got != string(want) {
		t.Errorf("the dump is now\n%swant what is in %s.dump", got, goldenDir(version))
	}
	for _, what := range said {
		if !strings.Contains(string(want), " "+what) {
			t.Errorf("version %d has nothing of %q", version, what)
		}
	}
	for _, shards := range []int{2, 3} {
		f := disk(all)
		st := open(t, config(f, shards))
		replay(t, st).same(t, goldenJobs(version))
		if id := st.LastID(); id != goldenLastID {
			t.Errorf("the last id is %d", id)
		}
		if d := st.Damages(); len(d) > 0 {
			t.Errorf("it is damaged: %v", d)
		}
		st.Close()
		if !maps.Equal(files(t, f), all) {
			t.Error("reading has changed it")
		}
		serve(t, config(f, shards)).close()
		got, _ := readBack(t, config(f, shards))
		got.same(t, goldenJobs(version))
	}
}

// TestGoldenIsWhatIsWritten: the code still writes the newest version as it was,
// but for what depends on the moment.
func TestGoldenIsWhatIsWritten(t *testing.T) {
	now, then := dump(t, disk(golden(t)), dir), dump(t, nil, goldenDir(binlog.Version))
	if now, then := essence(now), essence(then); now != then {
		t.Errorf("now it is\n%swas\n%s", now, then)
	}
}

// TestGoldenGoesOn: a stream that begins with segments of version 1 goes on in
// version 2, until all is written again.
func TestGoldenGoesOn(t *testing.T) {
	f := disk(goldenFiles(t, 1))
	want := goldenJobs(1)
	for id := uint64(30); id < 36; id += 3 {
		s := serve(t, config(f, 2))
		j := job(id, "resize", "c.jpg")
		want.Put(j, 0)
		s.does(0, func(l *binlog.Log) { l.Put(j) })
		s.close()
		got, damages := readBack(t, config(f, 2))
		got.same(t, want)
		if len(damages) > 0 || !got.of[id].Task {
			t.Errorf("%v\n%s", damages, got)
		}
		text := dump(t, f, dir)
		if first, last := strings.Index(text, "segment version=2"), strings.Index(text, "segment version=1"); last < 0 || first < last {
			t.Errorf("version 2 is at %d, version 1 at %d of\n%s", first, last, text)
		}
	}
	serve(t, config(f, 3)).close()
	got, damages := readBack(t, config(f, 3))
	got.same(t, want)
	if text := dump(t, f, dir); len(damages) > 0 || strings.Contains(text, "version=1") || !strings.Contains(text, "version=2") {
		t.Errorf("%v\n%s", damages, text)
	}
}

// TestTaskInVersion1: a record that a version did not have is no record of it.
func TestTaskInVersion1(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	for id := uint64(1); id <= 4; id++ {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "b")) })
	}
	s.close()
	name := segments(t, f)[0]
	path := filepath.Join(dir, name)
	data := f.Read(path)
	f.Write(path, binlog.WithVersion(data, 1, true))
	got, damages := readBack(t, config(f, 1))
	if at(damages) != place(name, binlog.Blocks(data)[2].At) || len(got.of) != 3 || got.of[3].ID != 0 {
		t.Errorf("%v\n%s", damages, got)
	}
	var text strings.Builder
	if n, err := binlog.Dump(&text, f, dir); n != 1 || err != nil || strings.Contains(text.String(), "unique=") {
		t.Errorf("%d damages, %v:\n%s", n, err, text.String())
	}
	// Where the header is damaged nobody knows, and so it is saved.
	f.Write(path, binlog.WithVersion(data, 1, false))
	if got, _ := readBack(t, config(f, 1)); len(got.of) != 4 || !got.of[3].Task {
		t.Errorf("with a damaged header:\n%s", got)
	}
}

// essence is a dump without segments and blocks.
func essence(dump string) string {
	var b strings.Builder
	for line := range strings.Lines(dump) {
		f := strings.SplitN(line, " ", 4)
		switch f[2] {
		case "segment", "block", "roll", "drop":
		default:
			b.WriteString(strings.Join(f[2:], " "))
		}
	}
	return b.String()
}

func makeGolden(t *testing.T) {
	to := goldenDir(binlog.Version)
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range golden(t) {
		if err := os.WriteFile(filepath.Join(to, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(to+".dump", []byte(dump(t, nil, to)), 0o644); err != nil {
		t.Fatal(err)
	}
}
