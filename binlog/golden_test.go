package binlog_test

// What version 1 of the format looks like: testdata/v1 was written by the first
// sheafd that had a binlog, and must open for ever.

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

var goldenMake = flag.Bool("golden.make", false, "write testdata/v1 anew: only as long as no server has used the format")

const (
	goldenDir  = "testdata/v1"
	goldenDump = "testdata/v1.dump"
)

// goldenJobs are those that must come out of it.
func goldenJobs() *jobs {
	const most = 1<<32 - 1
	all := noJobs()
	for _, j := range []binlog.Job{
		{Meta: binlog.Meta{ID: 1, Pri: 1024}, TTR: 60, Created: 1_800_000_000_000_000_001, Tube: "default", Body: []byte("hello")},
		{Meta: binlog.Meta{ID: 2, State: binlog.Buried, At: 2, Pri: 0, Reserves: 1, Buries: 1}, TTR: 1, Created: 1, Tube: "default", Body: []byte{}},
		{Meta: binlog.Meta{ID: 3, State: binlog.Delayed, At: 1_900_000_000_000_000_003, Pri: most, Delay: most, Releases: 3}, TTR: most, Created: 3, Tube: "default", Body: []byte("\x00\r\n\xff")},
		{Meta: binlog.Meta{ID: 4, State: binlog.Buried, At: 1, Reserves: most, Timeouts: most, Releases: most, Buries: most, Kicks: most}, TTR: 60, Created: 4, Tube: strings.Repeat("t", 200), Body: []byte("worn out")},
		{Meta: binlog.Meta{ID: 5, Kicks: 1}, TTR: 60, Created: 5, Tube: "zstd", Body: []byte(strings.Repeat("zstd ", 100))},
		{Meta: binlog.Meta{ID: 6}, TTR: 60, Created: 6, Tube: "s2", Body: []byte(strings.Repeat("s2 ", 100))},
		{Meta: binlog.Meta{ID: 7, Pri: 7}, TTR: 60, Created: 7, Tube: "none", Body: []byte(strings.Repeat("none ", 100))},
		{Meta: binlog.Meta{ID: 8, State: binlog.Delayed, At: 1_900_000_000_000_000_008, Delay: 8, Timeouts: 1}, TTR: 60, Created: 8, Tube: "copied", Body: []byte("by cleaning")},
		{Meta: binlog.Meta{ID: 1<<64 - 2}, TTR: 60, Created: 9, Tube: "default", Body: []byte("the last one")},
	} {
		all.of[j.ID] = j
	}
	return all
}

// goldenLastID is the highest id that was given out, to a job that is deleted.
const goldenLastID = 1<<64 - 1

// golden writes that directory: three lives of a server of two shards.
func golden(t testing.TB) map[string]string {
	f := faultfs.New()
	want := goldenJobs().of
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
		s.does(0, func(l *binlog.Log) {
			for id := uint64(2); id <= 4; id++ {
				j := want[id]
				j.Meta = binlog.Meta{ID: id, Pri: 1}
				l.Put(&j)
			}
		})
		s.does(0, func(l *binlog.Log) {
			for id := uint64(2); id <= 4; id++ {
				m := want[id].Meta
				l.Change(&m)
			}
		})
		s.does(0, func(l *binlog.Log) { put(l, 7) })
		s.does(1, func(l *binlog.Log) {
			j := want[8]
			j.Meta = binlog.Meta{ID: 8}
			l.Put(&j)
		})
		s.does(1, func(l *binlog.Log) { m := want[8].Meta; l.Change(&m) })
		s.rolls(0, 100)
		s.does(0, func(l *binlog.Log) { l.Delete(101) })
	})
	live(binlog.S2, func(s *server) {
		s.does(0, func(l *binlog.Log) { put(l, 6) })
		s.does(1, func(l *binlog.Log) { put(l, 8) })
		before := len(segments(t, f))
		s.does(1, func(l *binlog.Log) { l.Drop(l.Segment()) })
		eventually(t, "the dropped segment is gone", func() bool { return len(segments(t, f)) < before })
	})
	live(binlog.Zstd, func(s *server) {
		s.does(1, func(l *binlog.Log) { put(l, 5) })
		s.does(1, func(l *binlog.Log) { put(l, 1<<64-2) })
		s.does(0, func(l *binlog.Log) {
			l.Put(job(goldenLastID, "default", "deleted"))
			l.Delete(goldenLastID)
		})
	})
	return files(t, f)
}

func goldenFiles(t testing.TB) map[string]string {
	t.Helper()
	all := make(map[string]string)
	list, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(goldenDir, e.Name()))
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
	all := goldenFiles(t)
	want, err := os.ReadFile(goldenDump)
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(t, nil, goldenDir); got != string(want) {
		t.Errorf("the dump is now\n%swant what is in %s", got, goldenDump)
	}
	for _, kind := range []string{"put", "change", "delete", "drop", "roll", "compression=none", "compression=s2", "compression=zstd", "state=ready", "state=delayed", "state=buried"} {
		if !strings.Contains(string(want), " "+kind) {
			t.Errorf("it has nothing of %q", kind)
		}
	}
	for _, shards := range []int{2, 3} {
		f := disk(all)
		st := open(t, config(f, shards))
		replay(t, st).same(t, goldenJobs())
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
		got.same(t, goldenJobs())
	}
}

// TestGoldenIsWhatIsWritten: the code still writes version 1 as it was, but for
// what depends on the moment.
func TestGoldenIsWhatIsWritten(t *testing.T) {
	now, then := dump(t, disk(golden(t)), dir), dump(t, nil, goldenDir)
	if now, then := essence(now), essence(then); now != then {
		t.Errorf("now it is\n%swas\n%s", now, then)
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
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(goldenDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range golden(t) {
		if err := os.WriteFile(filepath.Join(goldenDir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(goldenDump, []byte(dump(t, nil, goldenDir)), 0o644); err != nil {
		t.Fatal(err)
	}
}
