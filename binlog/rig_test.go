package binlog_test

// What the tests share: a directory in memory, servers that come and go in it,
// and what is in it in the end.

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// dir is the directory of the binlog in a test's file system.
const dir = "/log"

// jobs are those that were read back: a binlog.Sink.
type jobs struct {
	of map[uint64]binlog.Job
	in map[uint64]uint64 // segments
}

func noJobs() *jobs { return &jobs{make(map[uint64]binlog.Job), make(map[uint64]uint64)} }

func (s *jobs) Put(j *binlog.Job, segment uint64) {
	c := *j
	c.Body = bytes.Clone(j.Body)
	s.of[j.ID], s.in[j.ID] = c, segment
}

func (s *jobs) Change(m *binlog.Meta) {
	if j, ok := s.of[m.ID]; ok {
		j.Meta = *m
		s.of[m.ID] = j
	}
}

func (s *jobs) Delete(id uint64) {
	delete(s.of, id)
	delete(s.in, id)
}

func (s *jobs) Drop(segment uint64) {
	for id, in := range s.in {
		if in < segment {
			s.Delete(id)
		}
	}
}

// String has a line for each job, in order.
func (s *jobs) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(s.of)) {
		j := s.of[id]
		fmt.Fprintf(&b, "%+v ttr=%d created=%d tube=%s body=%q task=%v unique=%q reducer=%q\n", j.Meta, j.TTR, j.Created, j.Tube, j.Body, j.Task, j.Unique, j.Reducer)
	}
	return b.String()
}

// same fails the test if jobs are not as they should be.
func (s *jobs) same(t testing.TB, want *jobs) {
	t.Helper()
	if got, want := s.String(), want.String(); got != want {
		t.Fatalf("got jobs\n%swant\n%s", got, want)
	}
}

// readBack opens the directory, reads it, and leaves it as it was. A dump has to
// find the same damage.
func readBack(t testing.TB, cfg binlog.Config) (*jobs, []binlog.Damage) {
	t.Helper()
	st := open(t, cfg)
	defer st.Close()
	got, damages := replay(t, st), st.Damages()
	var want []string
	for _, d := range damages {
		want = append(want, fmt.Sprintf("%s %d damage: %s", d.File, d.Offset, d.What))
	}
	var found []string
	for line := range strings.Lines(dump(t, cfg.FS, cfg.Dir)) {
		if strings.Contains(line, " damage: ") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(found, want) {
		t.Errorf("a dump finds\n%s\na server\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	return got, damages
}

// rearranged has all jobs of a directory written again, each to a log of the new
// number of shards. What comes next is Commit.
func rearranged(t testing.TB, cfg binlog.Config) *binlog.Store {
	t.Helper()
	st := open(t, cfg)
	found := replay(t, st)
	logs, err := st.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for id, j := range found.of {
		logs[id%uint64(len(logs))].Put(&j)
	}
	for _, l := range logs {
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func open(t testing.TB, cfg binlog.Config) *binlog.Store {
	t.Helper()
	st, err := binlog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// replay reads all streams, one after the other.
func replay(t testing.TB, st *binlog.Store) *jobs {
	t.Helper()
	all := noJobs()
	for i := range st.Streams() {
		one := noJobs()
		if _, err := st.Replay(i, one); err != nil {
			t.Fatal(err)
		}
		maps.Copy(all.of, one.of)
	}
	return all
}

// server is a life of a server, as far as the binlog goes.
type server struct {
	t     testing.TB
	store *binlog.Store
	logs  []*binlog.Log
	found *jobs
}

// config has a directory in f and small segments.
func config(f binlog.FS, shards int) binlog.Config {
	return binlog.Config{Dir: dir, FS: f, Shards: shards, SegmentSize: binlog.MinSegment, Sync: 0}
}

func serve(t testing.TB, cfg binlog.Config) *server {
	t.Helper()
	s := &server{t: t, store: open(t, cfg)}
	s.found = replay(t, s.store)
	var err error
	if s.logs, err = s.store.Begin(); err != nil {
		t.Fatal(err)
	}
	if s.store.Rearranged() {
		for id, j := range s.found.of {
			l := s.logs[id%uint64(len(s.logs))]
			if !l.FitsPut(mostPut(&j)) {
				t.Fatal("the disk is full")
			}
			l.Put(&j)
		}
		for _, l := range s.logs {
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.store.Commit(); err != nil {
		t.Fatal(err)
	}
	return s
}

// does writes a batch to a shard's log and waits until it is there.
func (s *server) does(shard int, batch func(l *binlog.Log)) {
	s.t.Helper()
	l := s.logs[shard]
	l.Segment()
	batch(l)
	if err := wait(l); err != nil {
		s.t.Fatal(err)
	}
}

// wait ends a batch and waits until it is safe.
func wait(l *binlog.Log) error {
	h := make(held, 1)
	if l.Commit(h, 0) {
		return nil
	}
	return <-h
}

// held is who waits for a batch.
type held chan error

func (h held) Release(err error) { h <- err }

func (s *server) close() {
	s.t.Helper()
	if err := s.store.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// rolls has a shard's log go on in the next segment, by filling it with a job
// that is deleted at once.
func (s *server) rolls(shard int, id uint64) {
	s.t.Helper()
	l := s.logs[shard]
	old := l.Segment()
	s.does(shard, func(l *binlog.Log) {
		l.Put(job(id, "filler", noise(binlog.MinSegment)))
		l.Delete(id)
	})
	eventually(s.t, "the next segment is ready", func() bool { return l.Segment() != old })
}

// halt is close, but the manifest does not tell of it: as if the server had been
// killed when it had nothing to do.
func (s *server) halt(f *faultfs.FS) {
	s.t.Helper()
	manifest := f.Read(dir + "/manifest")
	s.close()
	f.Write(dir+"/manifest", manifest)
}

// noise is text that does not compress.
func noise(n int) string {
	rng, b := rand.New(rand.NewPCG(1, uint64(n))), make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// job is one with a bit of everything in it. Of three in a row, one is of
// Gearman.
func job(id uint64, tube, body string) *binlog.Job {
	j := &binlog.Job{
		Meta: binlog.Meta{ID: id, Pri: uint32(id), Delay: 0},
		TTR:  60, Created: 1_800_000_000_000_000_000 + int64(id), Tube: tube, Body: []byte(body),
	}
	if id%3 == 0 {
		j.Task, j.Unique = true, fmt.Sprint("\xff\n", id)
		if id%2 == 0 {
			j.Reducer = "r"
		}
	}
	return j
}

// mostPut is how many bytes the put of a job takes at most.
func mostPut(j *binlog.Job) int {
	return binlog.MostPut(len(j.Tube), len(j.Body), len(j.Unique)+len(j.Reducer))
}

// eventually waits until something is so that happens at once.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("for 20s it is not so: %s", what)
		}
	}
}

// files returns the contents of the directory but for the lock, by name.
func files(t testing.TB, f *faultfs.FS) map[string]string {
	t.Helper()
	m := make(map[string]string)
	for _, name := range names(t, f) {
		if name != "lock" {
			m[name] = string(f.Read(filepath.Join(dir, name)))
		}
	}
	return m
}

func names(t testing.TB, f binlog.FS) (all []string) {
	t.Helper()
	list, err := f.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		all = append(all, e.Name())
	}
	return all
}

// segments returns the names of the segments that have begun, in order.
func segments(t testing.TB, f *faultfs.FS) []string {
	t.Helper()
	return slices.DeleteFunc(names(t, f), func(name string) bool {
		return !strings.HasPrefix(name, "segment.") || !bytes.HasPrefix(f.Read(filepath.Join(dir, name)), []byte("sheaflog"))
	})
}

// disk returns a new file system with these files in the directory.
func disk(files map[string]string) *faultfs.FS {
	f := faultfs.New()
	for name, data := range files {
		f.Write(filepath.Join(dir, name), []byte(data))
	}
	return f
}

// dump returns the dump of the directory.
func dump(t testing.TB, f binlog.FS, d string) string {
	t.Helper()
	var b strings.Builder
	if _, err := binlog.Dump(&b, f, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// fails has one operation fail, on all files.
func fails(f *faultfs.FS, fails faultfs.Op, err error) {
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == fails {
			return err
		}
		return nil
	})
}

// counts counts an operation on segments from now on.
func counts(f *faultfs.FS, what faultfs.Op) *atomic.Int64 {
	n := new(atomic.Int64)
	f.SetFault(func(op faultfs.Op, name string, off int64, _ int) error {
		if op == what && strings.Contains(name, "segment.") {
			n.Add(1)
		}
		return nil
	})
	return n
}

// ends fails the test if something does not come to its end.
func ends(t testing.TB, what string, does func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		does()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("it takes more than 20s: %s", what)
	}
}

// made returns how many files of segments there are, begun or not.
func made(t testing.TB, f *faultfs.FS) int {
	t.Helper()
	return strings.Count(fmt.Sprint(names(t, f)), "segment.")
}
