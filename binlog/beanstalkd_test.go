package binlog

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// The fixtures in testdata/beanstalkd were written by Debian's beanstalkd 1.12
// on amd64, driven by this test:
//
//	go test ./binlog -run TestBeanstalkdFixtures -beanstalkd.make
//
// states was left by SIGKILL after beanstalkdPlay, torn by a limit on the size of
// files, at which the system ended it in the middle of a write. want.json is what
// stats-job and peek said right before.
var beanstalkdMake = flag.Bool("beanstalkd.make", false, "write testdata/beanstalkd anew")

const beanstalkdFixtures = "testdata/beanstalkd"

func TestBeanstalkdFixtures(t *testing.T) {
	if *beanstalkdMake {
		makeBeanstalkdFixtures(t)
	}
	for name, files := range map[string]int{"states": 3, "torn": 3} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(beanstalkdFixtures, name)
			b, err := os.ReadFile(filepath.Join(dir, "want.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want beanstalkdSaid
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			if names, _, err := beanstalkdFiles(OS, dir); err != nil || len(names) < files {
				t.Errorf("files %v, %v: want %d at least", names, err, files)
			}
			want.check(t, importBeanstalkd(t, OS, dir))
		})
	}
}

func makeBeanstalkdFixtures(t *testing.T) {
	save := func(name, dir string, said *beanstalkdSaid) {
		to := filepath.Join(beanstalkdFixtures, name)
		must(t, os.RemoveAll(to))
		must(t, os.MkdirAll(to, 0o755))
		names, _, err := beanstalkdFiles(OS, dir)
		must(t, err)
		for _, n := range names {
			b, err := os.ReadFile(filepath.Join(dir, n))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(to, n), b, 0o644))
		}
		b, err := json.MarshalIndent(said, "", "\t")
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, "want.json"), append(b, '\n'), 0o644))
	}

	dir := t.TempDir()
	s := startBeanstalkd(t, dir, "-s", "4096")
	said := beanstalkdPlay(s, 3000, 16)
	s.kill()
	save("states", dir, said)

	dir = t.TempDir()
	s = limitBeanstalkd(t, dir, 8192, "-s", "4096")
	c := s.dial()
	for range 3 {
		c.put("torn", 5, 0, 10, "before")
	}
	said = s.said()
	fmt.Fprintf(c.conn, "put 5 0 10 20000\r\n%s\r\n", strings.Repeat("x", 20000))
	if line, err := c.r.ReadString('\n'); err == nil {
		t.Fatalf("it is not torn: %s", line)
	}
	s.kill()
	save("torn", dir, said)
}

// TestBeanstalkdLive has the reader read what beanstalkd writes here and now,
// and compares with what it said before it was killed, and with what it makes
// of its files itself. Its faults, which the reader does not share:
//
//   - a job of more bytes than the limit less 2, which it took, it does not
//     restore, nor what follows in that file: hence -z here;
//   - jobs that it finds buried it counts as buried once more;
//   - and orders them as they were put, not as they were buried.
func TestBeanstalkdLive(t *testing.T) {
	dir := t.TempDir()
	s := startBeanstalkd(t, dir, "-s", "4096")
	said := beanstalkdPlay(s, math.MaxUint16, 1000)
	stats := s.dial().say("stats")
	s.kill()
	if strings.Contains(stats, "binlog-records-migrated: 0\n") {
		t.Error("nothing was migrated")
	}
	jobs := importBeanstalkd(t, OS, dir)
	said.check(t, jobs)

	again := t.TempDir()
	must(t, os.CopyFS(again, os.DirFS(dir)))
	s = startBeanstalkd(t, again, "-z", "65537")
	theirs := s.said()
	for i := range theirs.Jobs {
		j := &theirs.Jobs[i]
		if j.State == "buried" {
			j.Buries--
		}
		j.Written = nil
	}
	theirs.Buried = said.Buried
	theirs.check(t, jobs)
	c := s.dial()
	c.say("use buried")
	var order []uint64
	for {
		var id uint64
		if n, _ := fmt.Sscanf(c.say("peek-buried"), "FOUND %d", &id); n == 0 {
			break
		}
		order = append(order, id)
		c.say("delete %d", id)
	}
	t.Logf("buried in the order %v; beanstalkd restored %v", said.Buried, order)
	s.kill()
}

// TestBeanstalkdRestarted: beanstalkd wrote the files in two lives. What it counts
// too much in the second one comes with the next record of a job.
func TestBeanstalkdRestarted(t *testing.T) {
	dir := t.TempDir()
	s := startBeanstalkd(t, dir)
	c := s.dial()
	a, b := c.put("t", 1, 0, 60, "a"), c.put("t", 1, 0, 60, "b")
	for _, id := range []uint64{b, a} {
		c.say("reserve-job %d", id)
		c.say("bury %d 1", id)
	}
	s.kill()
	s = startBeanstalkd(t, dir)
	c = s.dial()
	c.say("kick-job %d", b)
	c.say("reserve-job %d", b)
	c.say("bury %d 1", b)
	said, _ := c.job(b)
	t.Logf("beanstalkd says that a job which it buried twice was buried %d times", said.Buries)
	s.kill()
	jobs := importBeanstalkd(t, OS, dir)
	if len(jobs) != 2 || jobs[0].Buries != 1 || jobs[0].At != 1 || jobs[1].Buries != 2 || jobs[1].At != 2 {
		t.Errorf("jobs %+v", jobs)
	}
}

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
		"binlog.3": {5, 0, 0, 0}, "binlog.4": nil, "binlog.05": v7, "binlog.": v7, "binlog.-1": v7, "binlog.99999999999": v7,
		"binlog.6.bak": v7, "lock": nil, "segment.1": nil,
	}
	names, foreign, err := beanstalkdFiles(files, "")
	must(t, err)
	if got := strings.Join(names, " "); got != "binlog.1 binlog.2 binlog.10" {
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
				if recs != nil {
					files[fmt.Sprint("binlog.", i+1)] = beanstalkdWrite(recs...)
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

// TestBeanstalkdBuried: the order of burials and their number come out of copies,
// restarts and files that are gone.
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
		jobs, err := readBeanstalkd(files, "", names, func(Damage) { reports++ })
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
func (beanstalkdFS) Writable(string) error          { panic("asked") }

type beanstalkdFile struct{ *bytes.Reader }

func (f beanstalkdFile) Size() (int64, error)             { return f.Reader.Size(), nil }
func (beanstalkdFile) WriteAt([]byte, int64) (int, error) { panic("written to") }
func (beanstalkdFile) Sync() error                        { panic("written to") }
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
	jobs, err := readBeanstalkd(fsys, dir, names, report)
	must(t, err)
	return jobs
}

// beanstalkdPlay has a beanstalkd use all commands that change a job, and tells
// what it said of the jobs in the end. They are in all states; the largest body
// has that many bytes, and so many other jobs come and go.
func beanstalkdPlay(s *beanstalkdServer, largest, churn int) *beanstalkdSaid {
	c := s.dial()
	ready := c.put("plain", 100, 0, 60, "ready")
	timedOut := c.put("slow", 100, 0, 1, "its ttr passes")
	late := c.put("slow", 100, 0, 1, "its ttr passes, then it is released")
	slow := s.dial()
	slow.say("watch slow")
	slow.say("ignore default")
	slow.say("reserve")
	slow.say("reserve")

	c.put("plain", 0, 0, 60, "urgent")
	c.put("plain", math.MaxUint32, 0, math.MaxUint32, "the largest numbers")
	c.put("plain", 100, math.MaxUint32, 60, "delayed for an age")
	c.put(strings.Repeat("long", 50), 100, 0, 60, "")
	c.put("x", 100, 1000, 4000, "delayed")
	c.put("0-+/;.$_()z", 100, 0, 60, strings.Repeat("\x00\r\n\xff", (largest+3)/4)[:largest])

	reserved := c.put("work", 100, 0, 4000, "reserved")
	touched := c.put("work", 100, 0, 4000, "reserved and touched")
	c.say("watch work")
	c.say("ignore default")
	c.say("reserve-with-timeout 0")
	c.say("reserve-with-timeout 0")
	c.say("touch %d", touched)
	lost := c.put("work", 100, 0, 4000, "its worker goes")
	goes := s.dial()
	goes.say("reserve-job %d", lost)
	goes.conn.Close()

	// Buried, in an order other than that of the ids.
	var ids []uint64
	for i := range 6 {
		ids = append(ids, c.put("buried", 100, 0, 60, fmt.Sprint("buried ", i)))
	}
	bury := func(id uint64, pri int) {
		c.say("reserve-job %d", id)
		c.write(id, "bury %d %d", id, pri)
		s.order = append(slices.DeleteFunc(s.order, func(b uint64) bool { return b == id }), id)
	}
	bury(ids[4], 1)
	bury(ids[1], 2000)
	bury(ids[3], 100)
	bury(ids[0], 100)
	bury(ids[5], 100)
	c.write(ids[1], "kick-job %d", ids[1])
	bury(ids[1], 3)
	bury(ids[3], 4) // reserve-job takes a buried job too, and nothing is written

	kicked := c.put("kicked", 100, 0, 60, "kicked")
	bury(kicked, 100)
	c.say("use kicked")
	c.write(kicked, "kick 1")
	s.order = s.order[:len(s.order)-1]
	early := c.put("kicked", 100, 1000, 60, "kicked out of a delay")
	c.say("use kicked")
	c.write(early, "kick 1")

	released := c.put("released", 100, 0, 60, "released")
	c.say("reserve-job %d", released)
	c.say("release %d 17 0", released) // nothing is written
	c.say("reserve-job %d", released)
	c.write(released, "release %d 18 500", released)

	for i, state := range []string{"ready", "delayed", "reserved", "buried"} {
		id := c.put("deleted", 100, i%2*1000, 60, "deleted, "+state)
		if i >= 2 {
			c.say("reserve-job %d", id)
		}
		if state == "buried" {
			c.say("bury %d 1", id)
		}
		c.say("delete %d", id)
	}

	for _, id := range []uint64{timedOut, late} {
		// Deadlines that pass together are seen when the connection speaks again.
		for !strings.Contains(slow.say("stats-job %d", id), "timeouts: 1\n") {
			time.Sleep(50 * time.Millisecond)
		}
	}
	c.say("reserve-job %d", late)
	c.write(late, "release %d 102 1000", late)
	c.say("reserve-job %d", late)
	c.say("release %d 103 0", late)
	c.churn(churn)

	// After compaction too.
	bury(ids[2], 100)
	after := c.put("plain", 100, 0, 60, "the last")
	said := s.said()
	for id, state := range map[uint64]string{reserved: "reserved", touched: "reserved", lost: "ready", ready: "ready", kicked: "ready", early: "ready", released: "delayed", after: "ready"} {
		if got := said.job(id).State; got != state {
			s.t.Errorf("job %d is %q, want %s", id, got, state)
		}
	}
	return said
}

// beanstalkdSaid is what a beanstalkd said of all its jobs.
type beanstalkdSaid struct {
	Jobs   []beanstalkdJobSaid
	Buried []uint64 // in the order they were buried
}

// beanstalkdJobSaid is what it said of one job.
type beanstalkdJobSaid struct {
	ID                                          uint64
	Tube, State                                 string
	Pri, Delay, TTR                             uint32
	Age, Left                                   int64 // seconds
	Reserves, Timeouts, Releases, Buries, Kicks uint32
	Length                                      int
	Sum                                         string    // of the body
	Asked                                       time.Time // when this was said
	// Written is what it said at the job's last record. What came later may be
	// in the files by compaction.
	Written *beanstalkdJobSaid `json:",omitempty"`
}

func (s *beanstalkdSaid) job(id uint64) *beanstalkdJobSaid {
	i, ok := slices.BinarySearchFunc(s.Jobs, id, func(j beanstalkdJobSaid, id uint64) int { return cmp.Compare(j.ID, id) })
	if !ok {
		return &beanstalkdJobSaid{}
	}
	return &s.Jobs[i]
}

// check compares with jobs that were read from its files.
func (s *beanstalkdSaid) check(t *testing.T, jobs []*Job) {
	t.Helper()
	got := make(map[uint64]*Job)
	for _, j := range jobs {
		got[j.ID] = j
	}
	for i := range s.Jobs {
		want := &s.Jobs[i]
		j := got[want.ID]
		if j == nil {
			t.Errorf("job %d is missing", want.ID)
			continue
		}
		delete(got, want.ID)
		want.check(t, j)
		if place := slices.Index(s.Buried, want.ID) + 1; j.State == Buried && j.At != int64(place) {
			t.Errorf("job %d was buried as the %d-th, want %d-th", j.ID, j.At, place)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		t.Errorf("job %d is not one of those: %+v", id, got[id])
	}
}

func (s *beanstalkdJobSaid) check(t *testing.T, j *Job) {
	t.Helper()
	if s.Written != nil && s.Written.same(j) {
		s = s.Written
	}
	if !s.same(j) {
		got := *j
		got.Body = nil
		t.Errorf("job %d is\n%+v, want\n%+v", s.ID, got, *s)
	}
	if len(j.Body) != s.Length || beanstalkdSum(j.Body) != s.Sum {
		t.Errorf("job %d has another body, of %d bytes", s.ID, len(j.Body))
	}
	// They say whole seconds.
	near := func(what string, at, after int64) {
		t.Helper()
		const slack = 500 * time.Millisecond
		if d := time.Unix(0, at).Sub(s.Asked) - time.Duration(after)*time.Second; d < -time.Second-slack || d > time.Second+slack {
			t.Errorf("job %d: %s is off by %s", s.ID, what, d)
		}
	}
	near("the time of its put", j.Created, -s.Age)
	if j.State == Delayed {
		near("the end of its delay", j.At, s.Left)
	}
	if j.State == Ready && j.At != 0 {
		t.Errorf("job %d is ready at %d", s.ID, j.At)
	}
}

// same compares all but the times and the body.
func (s *beanstalkdJobSaid) same(j *Job) bool {
	state := map[string]State{"delayed": Delayed, "buried": Buried}[s.State]
	want := Meta{s.ID, state, s.Pri, s.Delay, j.At, s.Reserves, s.Timeouts, s.Releases, s.Buries, s.Kicks}
	return j.Meta == want && j.TTR == s.TTR && j.Tube == s.Tube
}

func beanstalkdSum(b []byte) string {
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:8])
}

// beanstalkdServer is a beanstalkd that runs for the test.
type beanstalkdServer struct {
	t       *testing.T
	socket  string
	cmd     *exec.Cmd
	written map[uint64]beanstalkdJobSaid // at the last record of each job
	order   []uint64                     // of burials, of the jobs that are buried
}

const beanstalkdPath = "/usr/bin/beanstalkd"

// startBeanstalkd starts one on a unix socket with a binlog in a directory.
// Where it is not installed the test is skipped, and fails in CI.
func startBeanstalkd(t *testing.T, dir string, args ...string) *beanstalkdServer {
	return limitBeanstalkd(t, dir, 0, args...)
}

// limitBeanstalkd starts one that can write files up to a size in bytes. Where
// one goes over it the system ends it, once the part that fits is written.
func limitBeanstalkd(t *testing.T, dir string, size int, args ...string) *beanstalkdServer {
	t.Helper()
	if _, err := os.Stat(beanstalkdPath); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("beanstalkd is not installed: %v", err)
		}
		t.Skipf("not compared with beanstalkd: %v (Debian's package beanstalkd has it)", err)
	}
	s := &beanstalkdServer{t: t, socket: filepath.Join(t.TempDir(), "s"), written: make(map[uint64]beanstalkdJobSaid)}
	line := `exec "$0" "$@"`
	if size > 0 {
		line = fmt.Sprintf("ulimit -f %d; ", size/512) + line
	}
	s.cmd = exec.Command("/bin/sh", slices.Concat([]string{"-c", line, beanstalkdPath, "-l", "unix:" + s.socket, "-b", dir}, args)...)
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	defer stderr.Close()
	s.cmd.Stderr = stderr
	must(t, s.cmd.Start())
	t.Cleanup(func() {
		s.kill()
		if said, _ := os.ReadFile(stderr.Name()); size == 0 && len(said) > 0 {
			t.Logf("beanstalkd said: %s", said)
		}
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("unix", s.socket)
		if err == nil {
			conn.Close()
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("beanstalkd does not listen: %v", err)
		}
	}
}

// kill sends SIGKILL.
func (s *beanstalkdServer) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// said asks about all jobs.
func (s *beanstalkdServer) said() *beanstalkdSaid {
	c := s.dial()
	said := &beanstalkdSaid{Buried: s.order}
	// The next put tells how many ids there are. Since it is deleted the reader
	// must not know it.
	last := c.put("last", 0, 0, 1, "")
	c.say("delete %d", last)
	for id := range last {
		j, ok := c.job(id)
		if !ok {
			continue
		}
		if w := s.written[id]; w.Pri != j.Pri || w.State != j.State || w.Reserves != j.Reserves || w.Timeouts != j.Timeouts || w.Releases != j.Releases {
			j.Written = &w
		}
		said.Jobs = append(said.Jobs, j)
	}
	return said
}

func (s *beanstalkdServer) dial() *beanstalkdConn {
	conn, err := net.Dial("unix", s.socket)
	must(s.t, err)
	must(s.t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	s.t.Cleanup(func() { conn.Close() })
	return &beanstalkdConn{s, conn, bufio.NewReader(conn)}
}

type beanstalkdConn struct {
	s    *beanstalkdServer
	conn net.Conn
	r    *bufio.Reader
}

// say sends a line and returns the answer, with its body in a second line.
func (c *beanstalkdConn) say(format string, args ...any) string {
	c.s.t.Helper()
	if _, err := fmt.Fprintf(c.conn, format+"\r\n", args...); err != nil {
		c.s.t.Fatal(err)
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		c.s.t.Fatalf("answer to %.40q: %v", format, err)
	}
	f := strings.Fields(line)
	switch f[0] {
	case "OK", "FOUND", "RESERVED":
		n, _ := strconv.Atoi(f[len(f)-1])
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			c.s.t.Fatal(err)
		}
		return line + string(b[:n])
	case "INSERTED", "USING", "WATCHING", "BURIED", "KICKED", "RELEASED", "DELETED", "TOUCHED", "NOT_FOUND":
		return line
	}
	c.s.t.Fatalf("the answer to %.40q is %s", fmt.Sprintf(format, args...), line)
	return ""
}

// write says something that beanstalkd writes a record of.
func (c *beanstalkdConn) write(id uint64, format string, args ...any) {
	c.s.t.Helper()
	c.say(format, args...)
	c.s.written[id], _ = c.job(id)
}

func (c *beanstalkdConn) put(tube string, pri, delay, ttr int, body string) (id uint64) {
	c.s.t.Helper()
	c.say("use %s", tube)
	answer := c.say("put %d %d %d %d\r\n%s", pri, delay, ttr, len(body), body)
	if _, err := fmt.Sscanf(answer, "INSERTED %d", &id); err != nil {
		c.s.t.Fatalf("the answer to a put is %s", answer)
	}
	c.s.written[id], _ = c.job(id)
	return id
}

// churn puts and deletes jobs, so that there is something to compact.
func (c *beanstalkdConn) churn(count int) {
	c.say("use churn")
	for range count {
		answer := strings.Fields(c.say("put 1 0 1 100\r\n%0100d", 0))
		c.say("delete %s", answer[1])
	}
}

// job asks about a job.
func (c *beanstalkdConn) job(id uint64) (j beanstalkdJobSaid, ok bool) {
	head, body, _ := strings.Cut(c.say("peek %d", id), "\n")
	if !strings.HasPrefix(head, "FOUND") {
		return j, false
	}
	said := make(map[string]string)
	for line := range strings.Lines(c.say("stats-job %d", id)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		said[key] = strings.Trim(value, `"`)
	}
	num := func(key string) int64 {
		n, err := strconv.ParseInt(said[key], 10, 64)
		if err != nil {
			c.s.t.Errorf("%s of job %d is %q", key, id, said[key])
		}
		return n
	}
	num32 := func(key string) uint32 { return uint32(num(key)) }
	return beanstalkdJobSaid{
		ID: id, Tube: said["tube"], State: said["state"], Pri: num32("pri"), Delay: num32("delay"), TTR: num32("ttr"),
		Age: num("age"), Left: num("time-left"), Reserves: num32("reserves"), Timeouts: num32("timeouts"),
		Releases: num32("releases"), Buries: num32("buries"), Kicks: num32("kicks"),
		Length: len(body), Sum: beanstalkdSum([]byte(body)), Asked: time.Now(),
	}, true
}
