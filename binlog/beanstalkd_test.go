package binlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestBeanstalkdCut: wherever the end of the last file is missing, all records
// before that count, and nothing is said.
func TestBeanstalkdCut(t *testing.T) {
	dir := filepath.Join(beanstalkdFixtures, "states")
	names, _, err := beanstalkdFiles(OS, dir)
	must(t, err)
	all := make(beanstalkdFS)
	last := ""
	var ends []int64 // of records in the last file that has any
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		all[name] = b
		if e := beanstalkdEnds(b); len(e) > 0 {
			last, ends = name, e
		}
	}
	whole := all[last]
	read := func(b []byte) []*Job {
		all[last] = b
		return importBeanstalkd(t, all, "")
	}
	before, i := read(whole[:4]), 0
	for at := int64(4); at <= ends[len(ends)-1]; at++ {
		if at == ends[i] {
			before = read(whole[:at])
			i++
		}
		if at%7 == 0 || at-ends[max(0, i-1)] < 4 { // all of them take a while
			if got := read(whole[:at]); !reflect.DeepEqual(got, before) {
				t.Fatalf("%s cut at %d is not as if cut at the end of the record before", last, at)
			}
		}
		if i == len(ends) {
			break
		}
		// Zeros from there on: as a power loss leaves it. Where only the state
		// and counters are missing the record is one of a delete.
		if name := int64(binary.LittleEndian.Uint32(whole[append([]int64{4}, ends...)[i]:])); at%7 == 0 && at < append([]int64{4}, ends...)[i]+4+name+48 {
			b := append(slices.Clone(whole[:at]), make([]byte, len(whole)-int(at))...)
			if got := read(b); !reflect.DeepEqual(got, before) {
				t.Fatalf("%s with zeros from %d on is not as if cut at the end of the record before", last, at)
			}
		}
	}
}

// beanstalkdEnds returns where the records of a file end.
func beanstalkdEnds(b []byte) (ends []int64) {
	s := &beanstalkdScanner{file: beanstalkdFile{bytes.NewReader(b)}, size: int64(len(b)), r: bufio.NewReaderSize(bytes.NewReader(b), 1<<16)}
	var rec beanstalkdRecord
	for s.next(&rec) == nil {
		ends = append(ends, s.off)
	}
	return ends
}

func TestBeanstalkdFiles(t *testing.T) {
	v7 := beanstalkdWrite()
	files := beanstalkdFS{
		"binlog.2": v7, "binlog.10": v7, "binlog.1": v7,
		"binlog.3": {5, 0, 0, 0}, "binlog.4": {7, 0}, "binlog.5": nil, "binlog.6": make([]byte, 70000), "binlog.05": v7, "binlog.": v7, "binlog.-1": v7, "binlog.99999999999": v7,
		"binlog.6.bak": v7, "lock": nil, "segment.1": nil,
	}
	names, foreign, err := beanstalkdFiles(files, "")
	must(t, err)
	if got := strings.Join(names, " "); got != "binlog.1 binlog.2 binlog.5 binlog.6 binlog.10" {
		t.Errorf("files %s", got)
	}
	var got []string
	for _, d := range foreign {
		got = append(got, d.String())
	}
	const name = " at offset 0: a foreign file, of a name that beanstalkd does not give: it is left alone"
	want := []string{
		"binlog." + name, "binlog.-1" + name, "binlog.05" + name,
		"binlog.3 at offset 0: version 5 of beanstalkd's format, only 7 is known: it is left alone",
		"binlog.4 at offset 0: too short to be a file of beanstalkd's: it is left alone",
		"binlog.6.bak" + name, "binlog.99999999999" + name,
	}
	if !slices.Equal(got, want) {
		t.Errorf("foreign files:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// beanstalkdRec is a record to be written: of a put, of 1 s, with a body of 3
// bytes, unless it says otherwise.
type beanstalkdRec struct {
	id                               uint64
	name                             string
	state                            byte
	reserves, buries, kicks, tooLong uint32
	deadline, created                int64
	body                             string
	raw                              string // these bytes instead
}

// beanstalkdWrite makes a file.
func beanstalkdWrite(recs ...beanstalkdRec) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 7)
	for _, r := range recs {
		if r.raw != "" {
			b = append(b, r.raw...)
			continue
		}
		body := cmp.Or(r.body, "abc\r\n")
		b = le.AppendUint32(b, uint32(len(r.name)))
		b = append(b, r.name...)
		b = le.AppendUint64(b, r.id)
		b = le.AppendUint64(b, 5)
		b = le.AppendUint64(b, 0)
		b = le.AppendUint64(b, 1e9)
		b = le.AppendUint64(b, uint64(uint32(len(body))+r.tooLong))
		b = le.AppendUint64(b, uint64(cmp.Or(r.created, 1e18)))
		b = le.AppendUint64(b, uint64(r.deadline))
		for _, n := range []uint32{r.reserves, 0, 0, r.buries, r.kicks, uint32(r.state)} {
			b = le.AppendUint32(b, n)
		}
		if r.name != "" {
			b = append(b, body...)
		}
	}
	return b
}

// TestBeanstalkdDamage: what makes no sense is told, and costs no more than the
// rest of its file.
func TestBeanstalkdDamage(t *testing.T) {
	type recs = []beanstalkdRec
	put := func(id uint64) beanstalkdRec { return beanstalkdRec{id: id, name: "t", state: 1} }
	change := func(id uint64, state byte) beanstalkdRec { return beanstalkdRec{id: id, state: state} }
	raw := func(s string) beanstalkdRec { return beanstalkdRec{raw: s} }
	zeros := raw(strings.Repeat("\x00", 500))
	broken := func(change func(*beanstalkdRec)) beanstalkdRec {
		r := put(2)
		change(&r)
		return r
	}
	tests := map[string]struct {
		files []recs
		want  string // the jobs and the damage
	}{
		"nothing":                {[]recs{{}}, ""},
		"no version":             {[]recs{{put(1)}, {raw("nothing")}, {raw("zero")}, {put(2)}}, "1 2"},
		"zeros":                  {[]recs{{put(1), zeros}, {zeros}}, "1"},
		"a file of its own each": {[]recs{{put(1)}, {put(2)}, {change(1, 0)}}, "2"},
		"a change of a job in a file that is gone": {[]recs{{change(9, 3), put(1)}}, "1"},
		"a copy of one":                      {[]recs{{change(9, 1), put(1), put(9)}}, "1 9"},
		"a copy of one, deleted":             {[]recs{{change(9, 1), put(1), put(9), change(9, 0)}}, "1"},
		"a long name":                        {[]recs{{put(1), raw("\xc9\x00\x00\x00"), put(2)}, {put(3)}}, "1 3; binlog.1 at offset 94: a tube's name of 201 bytes"},
		"a negative name":                    {[]recs{{raw("\xff\xff\xff\xff"), put(2)}, {put(3)}}, "3; binlog.1 at offset 4: a tube's name of -1 bytes"},
		"a bad name":                         {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.name = "a b" }), put(3)}}, `1; binlog.1 at offset 94: a record of job 2 in tube "a b"`},
		"a name like an option":              {[]recs{{broken(func(r *beanstalkdRec) { r.name = "-a" })}}, `; binlog.1 at offset 4: a record of job 2 in tube "-a"`},
		"a state":                            {[]recs{{put(1), change(1, 5), put(3)}}, "1; binlog.1 at offset 94: a record of job 1 with state 5"},
		"no id":                              {[]recs{{put(1), put(0), put(3)}}, "1; binlog.1 at offset 94: a record without a job id"},
		"an id":                              {[]recs{{put(1), put(1<<62 + 1), put(3)}}, "1; binlog.1 at offset 94: a record of job 4611686018427387905, more than a server can have come to"},
		"a hole":                             {[]recs{{put(1), zeros, put(3)}}, "1; binlog.1 at offset 94: a record without a job id"},
		"no time":                            {[]recs{{broken(func(r *beanstalkdRec) { r.created = -1 })}}, "; binlog.1 at offset 4: a record of job 2 with times -1 and 0"},
		"no time to be ready":                {[]recs{{broken(func(r *beanstalkdRec) { r.state = 4 })}}, "; binlog.1 at offset 4: a record of job 2 with times 1000000000000000000 and 0"},
		"a body of one byte":                 {[]recs{{broken(func(r *beanstalkdRec) { r.body = "a" })}}, "; binlog.1 at offset 4: a record of job 2 with a body of 1 bytes"},
		"a body without an end":              {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.body = "abcde" }), put(3)}}, "1; binlog.1 at offset 94: the body of job 2 does not end where it should"},
		"a body of 4 GB":                     {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.tooLong = 1 << 31 })}}, "1; binlog.1 at offset 94: a record of job 2 with a body of -2147483643 bytes"},
		"a body longer than the file":        {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.tooLong = 1000 }), put(3), zeros}}, "1; binlog.1 at offset 94: the body of job 2, of 1005 bytes, ends outside of the file"},
		"a body cut":                         {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.tooLong = 10 })}, {zeros}}, "1"},
		"a body cut, and another file":       {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.tooLong = 10 })}, {put(3)}}, "1 3; binlog.1 at offset 94: the body of job 2, of 15 bytes, ends outside of the file"},
		"a body not written":                 {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.body = "\x00\x00\x00" }), zeros}}, "1"},
		"a body not written, then a restart": {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.body = "\x00\x00\x00" }), zeros}, {put(3)}}, "1 3; binlog.1 at offset 94: the body of job 2 does not end where it should"},
		"only the name written":              {[]recs{{put(1), raw("\x03\x00\x00\x00abc"), zeros}}, "1"},
		"cut in the head":                    {[]recs{{put(1), raw("\x03\x00\x00\x00abc\x01")}}, "1"},
		"cut in the head, and another file":  {[]recs{{put(1), raw("\x00")}, {}, {raw("\x00\x00\x00\x00\x01")}, {put(2)}}, "1 2; binlog.3 at offset 4: the file ends within a record"},
		"another job of that id":             {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.id, r.created = 1, 5 }), put(3)}}, "1; binlog.1 at offset 94: a record of job 1 that does not agree with the one before it"},
		"another size":                       {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.id, r.body = 1, "\r\n" })}}, "1; binlog.1 at offset 94: a record of job 1 that does not agree with the one before it"},
		"another tube":                       {[]recs{{put(1), broken(func(r *beanstalkdRec) { r.id, r.name = 1, "u" })}}, "1; binlog.1 at offset 94: a record of job 1 that does not agree with the one before it"},
		"a counter goes back":                {[]recs{{{id: 1, name: "t", state: 1, kicks: 2}, change(1, 0), put(3)}}, "1; binlog.1 at offset 4+90: a record of job 1 that does not agree with the one before it"},
		"a missing file":                     {[]recs{{put(1)}, nil, nil, {put(2)}}, "1 2; binlog.2 at offset 0: a file of beanstalkd's is missing, or cannot be read, before binlog.4"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := make(beanstalkdFS)
			for i, recs := range test.files {
				switch name := fmt.Sprint("binlog.", i+1); {
				case recs == nil:
				case len(recs) == 1 && recs[0].raw == "nothing":
					files[name] = nil
				case len(recs) == 1 && recs[0].raw == "zero":
					files[name] = make([]byte, 3)
				default:
					files[name] = beanstalkdWrite(recs...)
				}
			}
			var got []string
			jobs := readBeanstalkdIn(t, files, "", func(d Damage) {
				got = append(got, strings.TrimSuffix(d.String(), ": the rest of the file is passed over"))
			})
			var ids []string
			for _, j := range jobs {
				ids = append(ids, fmt.Sprint(j.ID))
			}
			got = append([]string{strings.Join(ids, " ")}, got...)
			if got, want := strings.Join(got, "; "), strings.ReplaceAll(test.want, "4+90", "94"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// TestBeanstalkdBuried: the order of burials and their number come out of
// copies, restarts and files that are gone.
func TestBeanstalkdBuried(t *testing.T) {
	put := func(id uint64) beanstalkdRec { return beanstalkdRec{id: id, name: "t", state: 1} }
	bury := func(id uint64, reserves, buries uint32) beanstalkdRec {
		return beanstalkdRec{id: id, state: 3, reserves: reserves, buries: buries, deadline: 9}
	}
	whole := func(r beanstalkdRec, deadline int64) beanstalkdRec {
		r.name, r.deadline = "t", deadline
		return r
	}
	tests := map[string]struct {
		recs []beanstalkdRec
		want string // id:buries of the buried, in order
	}{
		"in order":                  {[]beanstalkdRec{put(1), put(2), bury(2, 1, 1), bury(1, 1, 1)}, "2:1 1:1"},
		"a copy":                    {[]beanstalkdRec{put(1), put(2), bury(2, 1, 1), bury(1, 1, 1), whole(bury(2, 1, 1), 9)}, "2:1 1:1"},
		"a copy while reserved":     {[]beanstalkdRec{put(1), put(2), bury(1, 1, 1), {id: 2, name: "t", state: 2, reserves: 1}, bury(2, 1, 1)}, "1:1 2:1"},
		"kicked and again":          {[]beanstalkdRec{put(1), put(2), bury(2, 1, 1), bury(1, 1, 1), {id: 2, state: 1, reserves: 1, buries: 1, kicks: 1}, {id: 2, state: 3, reserves: 2, buries: 2, kicks: 1}}, "1:1 2:2"},
		"reserve-job and again":     {[]beanstalkdRec{put(1), put(2), bury(2, 1, 1), bury(1, 1, 1), bury(2, 2, 2)}, "1:1 2:2"},
		"a restart, then a copy":    {[]beanstalkdRec{put(1), put(2), bury(2, 1, 1), bury(1, 1, 1), whole(bury(2, 1, 2), 9)}, "2:1 1:1"},
		"two restarts, and again":   {[]beanstalkdRec{put(1), bury(1, 1, 1), whole(bury(1, 1, 2), 9), whole(bury(1, 1, 3), 9), bury(1, 2, 4)}, "1:2"},
		"only the last bury is old": {[]beanstalkdRec{bury(2, 1, 1), put(1), bury(1, 1, 1), whole(bury(2, 1, 1), 9)}, "2:1 1:1"},
		"all but copies is gone":    {[]beanstalkdRec{put(1), bury(1, 1, 1), whole(bury(3, 1, 1), 20), whole(bury(2, 2, 2), 10)}, "2:2 3:1 1:1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			jobs := importBeanstalkd(t, beanstalkdFS{"binlog.1": beanstalkdWrite(test.recs...)}, "")
			slices.SortFunc(jobs, func(a, b *Job) int { return int(a.At - b.At) })
			var got []string
			for i, j := range jobs {
				got = append(got, fmt.Sprint(j.ID, ":", j.Buries))
				if j.State != Buried || j.At != int64(i)+1 {
					t.Errorf("job %d is %s at %d", j.ID, j.State, j.At)
				}
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("buried are %s, want %s", got, test.want)
			}
		})
	}
}

// FuzzReadBeanstalkd: any bytes in two files give jobs that can be, in bounded
// memory.
func FuzzReadBeanstalkd(f *testing.F) {
	seeds, _ := filepath.Glob(filepath.Join(beanstalkdFixtures, "*", "binlog.*"))
	var before []byte
	for _, name := range seeds {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(before, b)
		before = b
	}
	f.Add(beanstalkdWrite(beanstalkdRec{id: 1, state: 3}), beanstalkdWrite(beanstalkdRec{id: 1, name: "t", state: 3}))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		files := beanstalkdFS{"binlog.1": a, "binlog.3": b}
		names, _, err := beanstalkdFiles(files, "")
		must(t, err)
		reports := 0
		var from, to runtime.MemStats
		runtime.ReadMemStats(&from)
		jobs, _, err := readBeanstalkd(files, "", names, func(Damage) { reports++ })
		runtime.ReadMemStats(&to)
		must(t, err)
		if got, most := to.TotalAlloc-from.TotalAlloc, uint64(1<<20+16*(len(a)+len(b))); got > most {
			t.Errorf("reading %d bytes takes %d of memory, more than %d", len(a)+len(b), got, most)
		}
		if reports > 3 {
			t.Errorf("%d reports about two files", reports)
		}
		bodies, last, places := 0, uint64(0), make(map[int64]bool)
		for _, j := range jobs {
			if j.ID <= last {
				t.Errorf("job %d after %d", j.ID, last)
			}
			last = j.ID
			bodies += len(j.Body)
			if n := len(j.Tube); n == 0 || n > 200 || j.State > Buried || j.Created <= 0 {
				t.Errorf("no job is like that: %+v", j)
			}
			if j.State == Buried && (j.At < 1 || places[j.At]) || j.State == Delayed && j.At <= 0 || j.State == Ready && j.At != 0 {
				t.Errorf("a %s job at %d", j.State, j.At)
			}
			if j.State == Buried {
				places[j.At] = true
			}
		}
		if bodies > len(a)+len(b) {
			t.Errorf("%d bytes of bodies in files of %d", bodies, len(a)+len(b))
		}
	})
}

// beanstalkdFS is a file system of the files of one directory, to be read.
type beanstalkdFS map[string][]byte

func (m beanstalkdFS) Open(name string) (File, error) {
	return beanstalkdFile{bytes.NewReader(m[name])}, nil
}

func (m beanstalkdFS) ReadDir(string) ([]fs.DirEntry, error) {
	f := make(fstest.MapFS)
	for name, b := range m {
		f[name] = &fstest.MapFile{Data: b}
	}
	return f.ReadDir(".")
}

// Only Open and ReadDir are called.
func (beanstalkdFS) OpenWrite(string) (File, error) { panic("written to") }
func (beanstalkdFS) Create(string) (File, error)    { panic("written to") }
func (beanstalkdFS) Mkdir(string) error             { panic("written to") }
func (beanstalkdFS) Rename(string, string) error    { panic("written to") }
func (beanstalkdFS) Remove(string) error            { panic("written to") }
func (beanstalkdFS) SyncDir(string) error           { panic("written to") }
func (beanstalkdFS) Lock(string) (Unlocker, error)  { panic("locked") }
func (beanstalkdFS) Size(string) (int64, error)     { panic("measured") }
func (beanstalkdFS) Free(string) (int64, error)     { panic("measured") }
func (beanstalkdFS) Boot() string                   { panic("asked") }
func (beanstalkdFS) InPlace(string) bool            { panic("asked") }
func (beanstalkdFS) Writable(string) error          { panic("asked") }

type beanstalkdFile struct{ *bytes.Reader }

func (f beanstalkdFile) Size() (int64, error)             { return f.Reader.Size(), nil }
func (beanstalkdFile) WriteAt([]byte, int64) (int, error) { panic("written to") }
func (beanstalkdFile) Sync() error                        { panic("written to") }
func (beanstalkdFile) SyncInPlace() error                 { panic("written to") }
func (beanstalkdFile) Allocate(int64, int64) error        { panic("written to") }
func (beanstalkdFile) Truncate(int64) error               { panic("written to") }
func (beanstalkdFile) Close() error                       { return nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// importBeanstalkd reads the files of a directory without damage.
func importBeanstalkd(t *testing.T, fsys FS, dir string) []*Job {
	t.Helper()
	return readBeanstalkdIn(t, fsys, dir, func(d Damage) { t.Error(d) })
}

func readBeanstalkdIn(t *testing.T, fsys FS, dir string, report func(Damage)) []*Job {
	t.Helper()
	names, foreign, err := beanstalkdFiles(fsys, dir)
	must(t, err)
	for _, d := range foreign {
		report(d)
	}
	jobs, _, err := readBeanstalkd(fsys, dir, names, report)
	must(t, err)
	return jobs
}

// TestBeanstalkdLastID: ids go on above those of jobs that are deleted, or that
// are not there for other reasons.
func TestBeanstalkdLastID(t *testing.T) {
	put := func(id uint64) beanstalkdRec { return beanstalkdRec{id: id, name: "t", state: 1} }
	for _, last := range []beanstalkdRec{put(7), {id: 7}, {id: 7, state: 3}, {id: 7, name: "t", state: 1, created: 5}} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "binlog.1"), beanstalkdWrite(put(3), put(7), last, put(5)), 0o600))
		st, err := Open(Config{Dir: dir, Shards: 1})
		must(t, err)
		if _, err := st.Replay(0, nowhere{}); err != nil || st.LastID() != 7 {
			t.Errorf("with %+v the last id is %d: %v", last, st.LastID(), err)
		}
		must(t, st.Close())
	}
}
