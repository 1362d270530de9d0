package binlog_test

// Dump beside all kinds of directories and servers.

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

var moments = regexp.MustCompile(`created=\S+`)

// dumps compares a dump with what it is to be, created=T for all times.
func dumps(t *testing.T, f binlog.FS, damages int, want string) {
	t.Helper()
	var b strings.Builder
	n, err := binlog.Dump(&b, f, dir)
	if got := moments.ReplaceAllString(b.String(), "created=T"); got != want || n != damages || err != nil {
		t.Errorf("%d damages, %v, got\n%swant\n%s", n, err, got, want)
	}
}

// readOnly fails the test if anything is changed.
func readOnly(t *testing.T, f *faultfs.FS) {
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op < faultfs.OpOpen || op == faultfs.OpOpenWrite {
			t.Errorf("%v %s", op, name)
		}
		return nil
	})
}

func TestDumpOfDamage(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	for id := uint64(1); id <= 4; id++ {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "b")) })
	}
	s.close()
	path := dir + "/segment.1.0.00000001"
	data := f.Read(path)
	blocks := binlog.Blocks(data)
	f.Flip(path, 8*blocks[1].At)
	f.Write(dir+"/a file", nil)
	f.Write(dir+"/segment.9.0.00000007", nil)
	f.Write(dir+"/segment.1.0.00000009", make([]byte, 5000))
	readOnly(t, f)
	const header = "segment.1.0.00000001 0 segment version=2 shard=0 of=1 epoch=1 previous=0 oldest=1 first-block=1 last-id=0 created=T\n"
	block := func(n int) string {
		size, task := 17, ""
		if n == 3 {
			size, task = 22, ` unique="\xff\n3" reducer=""`
		}
		return fmt.Sprintf(`segment.1.0.00000001 %d block seq=%d records=1 stored=%d plain=%d compression=none
segment.1.0.00000001 %d put id=%d tube=a%s state=ready pri=%d delay=0 ttr=60 created=T body="b"
`, blocks[n-1].At, n, size+1, size, blocks[n-1].At, n, task, n)
	}
	const first = `"a file" 0 damage: a foreign file: it is left alone, and should be moved elsewhere
manifest 0 epoch=1 shards=1
segment.9.0.00000007 0 leftover: it does not count and is removed when a server starts
`
	dumps(t, f, 2, first+header+block(1)+
		fmt.Sprintf("segment.1.0.00000001 %d damage: %d bytes are damaged: the jobs and changes recorded there are lost\n", blocks[1].At, blocks[1].End-blocks[1].At)+
		block(3)+block(4)+"segment.1.0.00000009 0 unbegun: nothing is in it yet\n")
	f.SetFault(nil)

	f = faultfs.New()
	f.Write(path, data[:len(data)-1])
	f.Write(dir+"/lock", nil)
	readOnly(t, f)
	dumps(t, f, 1, "manifest 0 damage: it is missing: the newest state of each job in any segment counts\n"+
		header+block(1)+block(2)+block(3)+fmt.Sprintf("segment.1.0.00000001 %d torn: a block was cut off here; bytes=%d\n", blocks[3].At, blocks[3].End-blocks[3].At-1))
	f.SetFault(nil)
	f.Write(path, append(data, make([]byte, 100)...))
	f.Write(dir+"/manifest", []byte("rubbish"))
	dumps(t, f, 1, "manifest 0 damage: it is damaged: the newest state of each job in any segment counts\n"+
		header+block(1)+block(2)+block(3)+block(4)+fmt.Sprintf("segment.1.0.00000001 %d zeros bytes=100\n", len(data)))
}

// TestDumpOfTasks: names of any bytes stay words in their lines.
func TestDumpOfTasks(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	for i, j := range []binlog.Job{
		{Tube: "resize", Unique: "a.jpg", Reducer: "sum"},
		{Tube: "", Unique: "", Reducer: ""},
		{Tube: "a b", Unique: "x=y", Reducer: `"quoted"`},
		{Tube: "a\nb\x00", Unique: "\xff\xfe", Reducer: "é…\u202e"},
		{Tube: "\x1b[31m", Unique: "\\", Reducer: "-"},
	} {
		j.Meta = binlog.Meta{ID: uint64(i + 1)}
		j.Task, j.Body = true, []byte("b")
		s.does(0, func(l *binlog.Log) { l.Put(&j) })
	}
	s.does(0, func(l *binlog.Log) { l.Put(&binlog.Job{Meta: binlog.Meta{ID: 6}, Tube: "tube", Unique: "unused"}) })
	s.close()
	var got []string
	for line := range strings.Lines(dump(t, f, dir)) {
		if _, rest, ok := strings.Cut(line, " put id="); ok {
			what, _, _ := strings.Cut(rest, " state=")
			got = append(got, what)
		}
	}
	want := []string{
		`1 tube=resize unique=a.jpg reducer=sum`,
		`2 tube="" unique="" reducer=""`,
		`3 tube="a b" unique="x=y" reducer="\"quoted\""`,
		`4 tube="a\nb\x00" unique="\xff\xfe" reducer="\u00e9\u2026\u202e"`,
		`5 tube="\x1b[31m" unique="\\" reducer=-`,
		`6 tube=tube`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDumpOfNothing(t *testing.T) {
	f := faultfs.New()
	if _, err := binlog.Dump(new(strings.Builder), f, dir); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "binlog "+dir) {
		t.Errorf("no directory: %v", err)
	}
	if err := f.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	readOnly(t, f)
	dumps(t, f, 0, "manifest 0 none: nothing was written here\n")
	f.SetFault(nil)
	serve(t, config(f, 1)).close()
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpOpen && strings.Contains(name, "segment") {
			return syscall.EACCES
		}
		return nil
	})
	if _, err := binlog.Dump(new(strings.Builder), f, dir); !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "segment.1.0.00000001") {
		t.Errorf("no permission: %v", err)
	}
	f.SetFault(nil)
	if _, err := binlog.Dump(full{}, f, dir); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("nowhere to print: %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestDumpBesideAServer: whatever it does meanwhile is no damage.
func TestDumpBesideAServer(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 2))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		id := uint64(0)
		for {
			select {
			case <-stop:
				return
			default:
			}
			id++
			l := s.logs[id%2]
			before := l.Segment()
			l.Put(job(id, "a", noise(500)))
			if id%20 < 2 {
				l.Drop(before)
			}
			if err := wait(l); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	defer s.close()
	defer func() { <-ended }()
	defer close(stop)
	for range 100 {
		var b strings.Builder
		if n, err := binlog.Dump(&b, f, dir); n > 0 || err != nil {
			t.Fatalf("%d damages, %v: %s", n, err, regexp.MustCompile(".*damage:.*").FindAllString(b.String(), 3))
		}
	}
}

// TestDumpOfWhatIsWritten: what a server writes between any two reads of a dump
// makes no damage of what was read before, and hides none.
func TestDumpOfWhatIsWritten(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 1)
	cfg.SegmentSize = 16 << 20 // so that more is set aside ahead than is read at a time
	s := serve(t, cfg)
	defer s.close()
	rng := rand.New(rand.NewPCG(1, 2))
	id, drops, body := uint64(0), true, noise(1<<19)
	writes := func(most int) {
		id++
		segment := s.logs[0].Segment()
		s.does(0, func(l *binlog.Log) {
			l.Put(job(id, "a", body[:1+rng.IntN(most)]))
			if drops && id%50 == 0 {
				l.Drop(segment)
			}
		})
	}
	dumps := func() []string {
		f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
			if op == faultfs.OpReadAt && strings.Contains(name, "segment") {
				for range rng.IntN(3) {
					writes(1 << (4 + rng.IntN(16)))
				}
			}
			return nil
		})
		defer f.SetFault(nil)
		var b strings.Builder
		n, err := binlog.Dump(&b, f, dir)
		found := regexp.MustCompile(".*damage:.*").FindAllString(b.String(), -1)
		if n != len(found) || err != nil {
			t.Fatalf("%d damages, %v", n, err)
		}
		return found
	}
	for n := range 30 {
		if found := dumps(); len(found) > 0 {
			t.Fatalf("dump %d: %q", n, found[:min(3, len(found))])
		}
	}

	drops = false
	writes(1 << 10)
	all := segments(t, f)
	for ; all[len(all)-1] == "segment.1.0.00000001"; all = segments(t, f) {
		writes(1 << 19)
	}
	last := all[len(all)-1]
	path := filepath.Join(dir, last)
	blocks := binlog.Blocks(f.Read(path))
	first := blocks[0]
	f.Flip(path, 8*first.At+8*(first.End-first.At)-1)
	want := fmt.Sprintf("%s %d damage: %d bytes are damaged: the jobs and changes recorded there are lost", last, first.At, first.End-first.At)
	if len(blocks) == 1 {
		writes(1 << 10)
	}
	for range 3 {
		if found := dumps(); !slices.Equal(found, []string{want}) {
			t.Fatalf("got %q, want %q", found, want)
		}
	}
}

// TestDumpBesideAStart: a server may start between any two looks at the
// directory.
func TestDumpBesideAStart(t *testing.T) {
	for _, before := range []int{0, 1, 2} {
		for n := 0; ; n++ {
			f := faultfs.New()
			if err := f.Mkdir(dir); err != nil {
				t.Fatal(err)
			}
			if before > 0 {
				s := serve(t, config(f, before))
				s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "b")) })
				s.close()
			}
			seen, started := 0, false
			f.SetFault(func(op faultfs.Op, name string, off int64, _ int) error {
				if started || op < faultfs.OpOpen {
					return nil
				}
				if started = seen == n; started {
					s := serve(t, config(f, 2))
					s.does(1, func(l *binlog.Log) { l.Put(job(2, "a", "b")) })
					s.close()
				}
				seen++
				return nil
			})
			var b strings.Builder
			if damages, err := binlog.Dump(&b, f, dir); damages > 0 || err != nil {
				t.Errorf("%d shards before, start before operation %d: %d damages, %v:\n%s", before, n, damages, err, b.String())
			}
			if !started {
				break
			}
		}
	}
}

// TestDumpOfARearrangement that was cut short names the segments that do not
// count.
func TestDumpOfARearrangement(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "b")) })
	s.close()
	st := open(t, config(f, 2))
	replay(t, st)
	if _, err := st.Begin(); err != nil {
		t.Fatal(err)
	}
	f = f.Kill()
	got := dump(t, f, dir)
	for _, name := range []string{"segment.2.0.00000002", "segment.2.1.00000003"} {
		if !strings.Contains(got, name+" 0 leftover: ") || f.Read(filepath.Join(dir, name)) == nil {
			t.Errorf("the dump says nothing of %s:\n%s", name, got)
		}
	}
	st.Close()
}
