package binlog

// What is read from files that a beanstalkd wrote, against what it said of its
// jobs.

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The fixtures in testdata/beanstalkd were written by Debian's beanstalkd 1.12
// on amd64, driven by this test:
//
//	go test ./binlog -run TestBeanstalkdFixtures -beanstalkd.make
//
// states was left by SIGKILL after beanstalkdPlay, torn by a limit on the size
// of files, at which the system ended it in the middle of a write. want.json is
// what stats-job and peek said right before.
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

// TestBeanstalkdRestarted: beanstalkd wrote the files in two lives. What it
// counts too much in the second one comes with the next record of a job.
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
