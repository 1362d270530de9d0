package binlog_test

// The directory: who may have it, and what becomes of it from life to life.

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// TestLocked: a directory has one server, in either file system.
func TestLocked(t *testing.T) {
	for name, cfg := range map[string]binlog.Config{
		"memory": config(faultfs.New(), 1),
		"disk":   {Dir: filepath.Join(t.TempDir(), "log"), Shards: 1},
	} {
		s := serve(t, cfg)
		_, err := binlog.Open(cfg)
		if !errors.Is(err, binlog.ErrLocked) || err.Error() != "binlog "+cfg.Dir+": in use by another server: stop that one first, or use another directory" {
			t.Errorf("%s: the second server gets %v", name, err)
		}
		s.close()
		serve(t, cfg).close()
	}
}

// TestLockedForAMoment: another program's lock of the directory is waited for, and told
// from a server's if it stays.
func TestLockedForAMoment(t *testing.T) {
	at := t.TempDir()
	other, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	cfg := config(binlog.OS, 1)
	cfg.Dir = at
	if _, err := binlog.Open(cfg); err == nil || errors.Is(err, binlog.ErrLocked) || !strings.Contains(err.Error(), "another program") {
		t.Errorf("in a directory that another program has locked: %v", err)
	}
	opened := make(chan error)
	go func() {
		st, err := binlog.Open(cfg)
		if err == nil {
			err = st.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Errorf("it does not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
		if err := syscall.Flock(int(other.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
}

// TestLockedByBeanstalkd: its lock is of the other kind.
func TestLockedByBeanstalkd(t *testing.T) {
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("the reference is missing: apt-get install beanstalkd")
	}
	d := t.TempDir()
	cmd := exec.Command(path, "-b", d, "-l", "unix:"+filepath.Join(d, "..", "socket"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	eventually(t, "beanstalkd has made its first file", func() bool {
		_, err := os.Stat(filepath.Join(d, "binlog.1"))
		return err == nil
	})
	if _, err := binlog.Open(binlog.Config{Dir: d, Shards: 1}); !errors.Is(err, binlog.ErrLocked) {
		t.Errorf("beside beanstalkd: %v", err)
	}
}

// TestOpenFails: one line that says which directory and why.
func TestOpenFails(t *testing.T) {
	d := t.TempDir()
	file := filepath.Join(d, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{file: syscall.ENOTDIR, filepath.Join(file, "log"): syscall.ENOTDIR, "/proc/log": fs.ErrNotExist} {
		_, err := binlog.Open(binlog.Config{Dir: dir, Shards: 1})
		if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "binlog "+dir+": ") || strings.Contains(err.Error(), "\n") ||
			want == syscall.ENOTDIR && !strings.HasSuffix(err.Error(), ": correct the path, or move the file that is in the way") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	// Only the last part of the path is made: a mistake in the others is told.
	missing := filepath.Join(d, "a", "b", "log")
	_, err := binlog.Open(binlog.Config{Dir: missing + "/", Shards: 1})
	if want := fmt.Sprintf("binlog %s/: the directory that it is to be made in, %s, is not there: create that one first, or correct the path", missing, filepath.Dir(missing)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(d, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("and yet it is made: %v", err)
	}
	f := faultfs.New()
	f.Write(dir+"/x", nil)
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpWritable {
			return syscall.EROFS
		}
		if op < faultfs.OpOpen {
			t.Errorf("%v of %s in a read-only directory", op, name)
		}
		return nil
	})
	if _, err := binlog.Open(config(f, 1)); !errors.Is(err, syscall.EROFS) {
		t.Errorf("read-only: %v", err)
	}
	for _, op := range []faultfs.Op{faultfs.OpReadDir, faultfs.OpWritable, faultfs.OpLock} {
		fails(f, op, syscall.EACCES)
		_, err := binlog.Open(config(f, 1))
		if !errors.Is(err, fs.ErrPermission) || !strings.HasSuffix(err.Error(), fmt.Sprintf(": the user that sheafd runs as, with id %d, must be able to read and write the directory and all that is in it", os.Geteuid())) {
			t.Errorf("%v is forbidden: %v", op, err)
		}
	}
}

// TestStartHints: a start that fails says what to do about it.
func TestStartHints(t *testing.T) {
	for errno, hint := range map[syscall.Errno]string{
		syscall.EROFS:  "make the file system writable",
		syscall.EMFILE: "raise the hard limit on open files (ulimit -Hn, or LimitNOFILE= of a systemd unit), or give fewer --shards",
		syscall.ENFILE: "fs.file-max",
	} {
		for _, op := range []faultfs.Op{faultfs.OpLock, faultfs.OpCreate} {
			f := faultfs.New()
			fails(f, op, errno)
			st, err := binlog.Open(config(f, 2))
			if err == nil {
				_, err = st.Begin()
				st.Close()
			}
			if !errors.Is(err, errno) || !strings.Contains(err.Error(), hint) {
				t.Errorf("%v fails with %v: %v", op, errno, err)
			}
		}
	}
}

// TestAnotherNumberOfShards: jobs survive any change, and ids go on.
func TestAnotherNumberOfShards(t *testing.T) {
	f := faultfs.New()
	want := noJobs()
	id := uint64(0)
	for _, shards := range []int{1, 3, 2, 2, 8, 1} {
		cfg := config(f, shards)
		cfg.LastID = func() uint64 { return id }
		s := serve(t, cfg)
		s.found.same(t, want)
		if last := s.store.LastID(); last != id {
			t.Errorf("the last id is %d, want %d", last, id)
		}
		for range 20 {
			id++
			j := job(id, "a", noise(int(id)))
			want.Put(j, 0)
			s.does(int(id)%shards, func(l *binlog.Log) { l.Put(j) })
		}
		id++ // is deleted at once
		s.does(0, func(l *binlog.Log) {
			l.Put(job(id, "a", ""))
			l.Delete(id)
		})
		s.close()
		if _, damages := readBack(t, config(f, shards)); len(damages) > 0 {
			t.Errorf("%d shards: %v", shards, damages)
		}
	}
}

// TestIDsGoOn: also if the last jobs were deleted and their segments are gone.
func TestIDsGoOn(t *testing.T) {
	f := faultfs.New()
	id := uint64(0)
	cfg := config(f, 1)
	cfg.LastID = func() uint64 { return id }
	s := serve(t, cfg)
	id = 77
	s.rolls(0, 77)
	s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
	eventually(t, "the segment is gone", func() bool { return len(segments(t, f)) == 1 })
	s.close()
	st := open(t, config(f, 1))
	defer st.Close()
	if replay(t, st); st.LastID() != 77 {
		t.Errorf("the last id is %d", st.LastID())
	}
}

// TestIDOfALostJob: a job whose put is damaged was given its id all the same.
func TestIDOfALostJob(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(5, "a", "b")) })
	s.does(0, func(l *binlog.Log) { l.Delete(5) })
	s.close()
	path := filepath.Join(dir, segments(t, f)[0])
	f.Flip(path, 8*(binlog.SegmentHeader+40))
	st := open(t, config(f, 1))
	defer st.Close()
	if replay(t, st); st.LastID() != 5 {
		t.Errorf("the last id is %d", st.LastID())
	}
}

// TestNewDirectorySurvives: it is there after a power loss, as what is in it was
// promised.
func TestNewDirectorySurvives(t *testing.T) {
	for _, d := range []string{"/log", "/a/log"} {
		f := faultfs.New()
		f.Write("/a/x", nil) // the directory above is there already
		cfg := config(f, 1)
		cfg.Dir = d
		s := serve(t, cfg)
		s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "b")) })
		for seed := range uint64(50) {
			cfg := cfg
			cfg.FS = f.Crash(rand.New(rand.NewPCG(seed, 1)))
			if got, damages := readBack(t, cfg); len(got.of) != 1 || len(damages) > 0 {
				t.Errorf("%s: after a power loss %d jobs are there: %v", d, len(got.of), damages)
				break
			}
		}
		s.close()
	}
}

// TestKilledAtTheStart: wherever a server is killed while its log goes on in
// the next segment, and the next one while it starts, no damage is found then.
func TestKilledAtTheStart(t *testing.T) {
	killedInARoll(t, func(n int, left *faultfs.FS) { starts(t, n, left) })
}

// TestKilledInARoll: the next start gives back what was set aside, also where
// the log had gone on already.
func TestKilledInARoll(t *testing.T) {
	killedInARoll(t, func(n int, left *faultfs.FS) {
		serve(t, config(left, 1)).close()
		pages := int64(0)
		for _, data := range files(t, left) {
			pages += (int64(len(data)) + 4095) / 4096
		}
		if left.Used() > pages*4096 {
			t.Errorf("killed before operation %d: %d bytes are used for files of %d pages", n, left.Used(), pages)
		}
	})
}

// killedInARoll kills a server at each operation while its log goes on in the
// next segment.
func killedInARoll(t *testing.T, then func(n int, left *faultfs.FS)) {
	for n := 1; ; n++ {
		f := faultfs.New()
		s := serve(t, config(f, 1))
		s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "b")) })
		killed := f.Cut(n)
		s.rolls(0, 2)
		s.does(0, func(l *binlog.Log) { l.Put(job(3, "a", "b")) })
		s.close()
		select {
		case left := <-killed:
			then(n, left)
		default:
			if n < 10 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
}

// starts kills a server at each operation of its start.
func starts(t *testing.T, killed int, f *faultfs.FS) {
	for n := 1; ; n++ {
		again := f.Kill()
		left := again.Cut(n)
		serve(t, config(again, 1)).close()
		select {
		case left := <-left:
			got, damages := readBack(t, config(left, 1))
			if len(damages) > 0 || got.of[1].ID != 1 {
				t.Errorf("killed before operation %d, and before operation %d of the next start: %v\n%s", killed, n, damages, got)
			}
		default:
			return
		}
	}
}

// TestStartsAndEnds: a server that has nothing to write leaves little behind,
// however often it starts.
func TestStartsAndEnds(t *testing.T) {
	f := faultfs.New()
	for range 5 {
		serve(t, config(f, 2)).close()
	}
	got, damages := readBack(t, config(f, 2))
	if len(got.of) > 0 || len(damages) > 0 {
		t.Errorf("%v\n%s", damages, got)
	}
}

// zeroing is a file system that cannot set space aside but by writing zeros, as
// OS does where fallocate(2) is not there.
type zeroing struct{ *faultfs.FS }

func (z zeroing) Create(name string) (binlog.File, error) {
	f, err := z.FS.Create(name)
	return zeroingFile{f}, err
}

type zeroingFile struct{ binlog.File }

func (f zeroingFile) Allocate(off, size int64) error { return binlog.Zero(f, off, size) }

// TestZeroing: what is set aside there stays set aside when the disk is full.
func TestZeroing(t *testing.T) {
	mem := faultfs.New()
	s := serve(t, config(zeroing{mem}, 1))
	l := s.logs[0]
	n := 0
	for ; l.FitsChange(0) && n < 1000; n++ {
		mem.Leave(0) // others take the rest
		h := make(held, 1)
		l.Put(job(uint64(n+1), "a", "b")) // is shorter than the longest change
		l.Commit(h, 0)
		select {
		case err := <-h:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("what was set aside is gone after %d batches", n)
			mem.SetCapacity(1 << 30)
			<-h
		}
	}
	s.close()
	got, damages := readBack(t, config(mem, 1))
	if len(damages) > 0 || len(got.of) != n {
		t.Errorf("%v, %d jobs", damages, len(got.of))
	}
}

// TestZeroingKeepsWhatIsWritten: more than was set aside may have been written
// there, when the disk was full.
func TestZeroingKeepsWhatIsWritten(t *testing.T) {
	mem := faultfs.New()
	cfg := config(zeroing{mem}, 1)
	serve(t, cfg).close()
	cfg.SegmentSize = 256 << 10
	st := open(t, cfg)
	replay(t, st)
	mem.Leave(4096) // enough for a header and little more
	logs, err := st.Begin()
	if err == nil {
		err = st.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	l := logs[0]
	put := func(j *binlog.Job) {
		l.Put(j)
		if err := wait(l); err != nil {
			t.Fatal(err)
		}
	}
	put(job(1, "a", "b"))
	mem.SetCapacity(2 << 20)
	put(job(3, "a", noise(5000))) // so the file grows
	if !l.FitsPut(100) {
		t.Error("there is no room again")
	}
	mem.Leave(0) // others take the rest
	ends(t, "writing what was set aside", func() { put(job(2, "a", noise(int(l.Room())/2))) })
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if got, damages := readBack(t, cfg); len(got.of) != 3 || len(damages) > 0 {
		t.Errorf("%v\n%s", damages, got)
	}
}

// TestStopOnAFullDisk: what is set aside stays so over a good end, or another program
// would have it before the next start.
func TestStopOnAFullDisk(t *testing.T) {
	for _, size := range []int64{64 << 10, 1 << 20} {
		f := faultfs.New()
		f.CountBoots()
		cfg := config(f, 2)
		cfg.SegmentSize = size
		s := serve(t, cfg)
		for i, l := range s.logs {
			if !l.FitsPut(1000) { // sets some aside
				t.Fatal("no room")
			}
			s.does(i, func(l *binlog.Log) { l.Put(job(uint64(1+i), "a", "b")) })
		}
		f.Leave(0)
		s.close()
		if m := string(f.Read(dir + "/manifest")); strings.Contains(m, "boot") {
			t.Errorf("-s %d: the manifest does not tell of the good end: %q", size, m)
		}
		f.Leave(0)
		s = serve(t, cfg)
		if len(s.found.of) != 2 || len(s.store.Damages()) > 0 {
			t.Errorf("-s %d: %d jobs, damages: %v", size, len(s.found.of), s.store.Damages())
		}
		f.SetCapacity(1 << 30)
		s.close()
		pages := int64(0)
		for _, data := range files(t, f) {
			pages += (int64(len(data)) + 4095) / 4096
		}
		if used := f.Used(); used != 4096*pages {
			t.Errorf("-s %d: where there is room again the directory takes %d bytes, for files of %d", size, used, 4096*pages)
		}
	}
}

// TestNoIDTwice: neither after damage nor after a power failure is an id given out
// that was given out before.
func TestNoIDTwice(t *testing.T) {
	const ids = 100
	given := uint64(0)
	begin := func(f *faultfs.FS) (*server, uint64) {
		cfg := config(f, 1)
		cfg.SegmentSize, cfg.Sync = 1<<20, time.Hour
		cfg.LastID = func() uint64 { return given }
		s := serve(t, cfg)
		return s, s.store.LastID()
	}
	puts := func(s *server) {
		for id := range uint64(ids) {
			given = 1 + id
			s.does(0, func(l *binlog.Log) { l.Put(job(given, "a", "b")) })
		}
	}
	t.Run("damage", func(t *testing.T) {
		f := faultfs.New()
		s, _ := begin(f)
		puts(s)
		s.close()
		name := dir + "/segment.1.0.00000001"
		f.Write(name, f.Read(name)[:500])
		s, last := begin(f)
		if len(s.store.Damages()) == 0 || len(s.found.of) == ids || last != ids {
			t.Errorf("the last id is %d of %d, %d jobs", last, ids, len(s.found.of))
		}
		s.close()
	})
	t.Run("power failure", func(t *testing.T) {
		f := faultfs.New()
		f.CountBoots()
		s, _ := begin(f)
		puts(s)
		for seed := range uint64(20) {
			after := f.Crash(rand.New(rand.NewPCG(seed, 0)))
			s, last := begin(after)
			if last < 1000*ids {
				t.Errorf("the last id is %d, of %d that were given out and may have been lost", last, ids)
			}
			s.close()
			s, next := begin(after.Crash(rand.New(rand.NewPCG(seed, 1)))) // while nobody serves it
			if next != last {
				t.Errorf("the last id is %d after a good end, it was %d", next, last)
			}
			s.close()
		}
		killed := f.Kill()
		s.close()
		s, last := begin(killed)
		if last != ids {
			t.Errorf("the last id is %d after kill -9, of %d", last, ids)
		}
		s.close()
	})
}

// TestStartOnAFullDisk that has no room for a header: one line says so, at
// once.
func TestStartOnAFullDisk(t *testing.T) {
	f := faultfs.New()
	serve(t, config(f, 2)).close()
	before := files(t, f)
	f.Leave(0)
	st := open(t, config(f, 2))
	replay(t, st)
	ends(t, "the start", func() {
		if _, err := st.Begin(); !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "make room") {
			t.Errorf("Begin: %v", err)
		}
	})
	st.Close()
	if !maps.Equal(files(t, f), before) {
		t.Error("something is left behind")
	}
}

// TestRearrangementWithoutRoom for all jobs once more: the start says so and what to
// do, and nothing of puts, of which there are none. What it has written goes, and the
// next start has all jobs, also with the number of shards from before.
func TestRearrangementWithoutRoom(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 2))
	for id := uint64(1); id <= 40; id++ {
		s.does(int(id%2), func(l *binlog.Log) { l.Put(job(id, "a", noise(2000))) })
	}
	s.close()
	before := files(t, f)
	want, _ := readBack(t, config(f, 2))
	const todo = ": no space left on device: make room on the disk, or start with --shards 2 as before; nothing is lost"
	enospc := func(op faultfs.Op, file string, from int64) func(*faultfs.FS) {
		return func(f *faultfs.FS) {
			f.SetFault(func(o faultfs.Op, name string, off int64, _ int) error {
				if o == op && strings.Contains(name, file) && off >= from {
					return syscall.ENOSPC
				}
				return nil
			})
		}
	}
	full := map[string]func(*faultfs.FS){
		"nothing kept of what was set aside": enospc(faultfs.OpWriteAt, "segment.", 1000),
		"not even for a header":              enospc(faultfs.OpWriteAt, "segment.", 0),
		"the manifest cannot be made":        enospc(faultfs.OpCreate, "manifest.new", 0),
		"the manifest cannot be written":     enospc(faultfs.OpWriteAt, "manifest.new", 0),
	}
	for pages := int64(0); pages < 40; pages++ {
		full[fmt.Sprint(pages, " pages")] = func(f *faultfs.FS) { f.Leave(pages * 4096) }
	}
	for what, fills := range full {
		f := disk(before)
		fills(f)
		var log strings.Builder
		cfg := config(f, 3)
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		st := open(t, cfg)
		found := replay(t, st)
		err := errors.New("it does not end")
		ends(t, what, func() { err = rewrites(st, found) })
		if err == nil || !strings.HasPrefix(err.Error(), "binlog "+dir+": there is no room to write all jobs again, each for its shard: ") || !strings.HasSuffix(err.Error(), todo) {
			t.Errorf("%s: %v", what, err)
		}
		st.Close()
		if log.Len() > 0 {
			t.Errorf("%s: it is logged\n%s", what, &log)
		}
		if !maps.Equal(files(t, f), before) {
			t.Errorf("%s: these are left: %s", what, names(t, f))
		}
		f.SetFault(nil)
		f.SetCapacity(1 << 30)
		for _, shards := range []int{2, 3} {
			s := serve(t, config(f, shards))
			s.found.same(t, want)
			s.close()
		}
	}
}

// rewrites writes jobs to the logs of a directory that is rearranged, as the shards
// do it.
func rewrites(st *binlog.Store, found *jobs) error {
	logs, err := st.Begin()
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(found.of)) {
		j, l := found.of[id], logs[id%uint64(len(logs))]
		l.Segment()
		if !l.FitsPut(mostPut(&j)) {
			return l.NoRoom()
		}
		l.Put(&j)
		if err := l.Flush(); err != nil {
			return err
		}
	}
	return st.Commit()
}

// TestRearrangementFails on a disk that does: nothing is lost, whatever it is that
// fails, and what was written goes if it does not count.
func TestRearrangementFails(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 2))
	for id := uint64(1); id <= 9; id++ {
		s.does(int(id%2), func(l *binlog.Log) { l.Put(job(id, "a", noise(900))) })
	}
	s.close()
	before := files(t, f)
	want, _ := readBack(t, config(f, 2))
	for n := 1; ; n++ {
		f := disk(before)
		var ops atomic.Int64
		var last atomic.Pointer[string]
		st := open(t, config(f, 3))
		found := replay(t, st)
		f.SetFault(func(op faultfs.Op, name string, _ int64, _ int) error {
			if op < faultfs.OpOpen && ops.Add(1) == int64(n) {
				what := op.String() + " " + name
				last.Store(&what)
				return syscall.EIO
			}
			return nil
		})
		err := rewrites(st, found)
		st.Close()
		if last.Load() == nil {
			break
		}
		if err != nil && strings.Count(err.Error(), "binlog "+dir) != 1 {
			t.Errorf("%s fails: %v", *last.Load(), err)
		}
		if err != nil && string(f.Read(dir+"/manifest")) == before["manifest"] && !strings.HasPrefix(*last.Load(), "remove") && !maps.Equal(files(t, f), before) {
			t.Errorf("%s fails: these are left: %s", *last.Load(), names(t, f))
		}
		for _, f := range []*faultfs.FS{f.Kill(), f.Crash(rand.New(rand.NewPCG(1, uint64(n))))} {
			got, damages := readBack(t, config(f, 2))
			if got.same(t, want); len(damages) > 0 {
				t.Errorf("%s fails: %v", *last.Load(), damages)
			}
			serve(t, config(f, 2)).close()
		}
	}
}

// TestMaxSize: stats tell how large segments really become.
func TestMaxSize(t *testing.T) {
	f := faultfs.New()
	cfg := config(f, 2)
	cfg.SegmentSize = 1 << 20
	for capacity, want := range map[int64]int64{1 << 30: 1 << 20, 8 << 20: 256 << 10} {
		f.SetCapacity(capacity)
		s := serve(t, cfg)
		if size := s.store.Stats().MaxSize; size != want {
			t.Errorf("of %d bytes a segment has %d, want %d", capacity, size, want)
		}
		s.close()
	}
}

// TestUnlimited: a file system that does not tell its size has enough.
func TestUnlimited(t *testing.T) {
	for what, f := range map[string]func(string) (int64, error){"size": binlog.OS.Size, "free": binlog.OS.Free} {
		if n, err := f("/proc"); n < 1<<40 || err != nil {
			t.Errorf("its %s is %d: %v", what, n, err)
		}
	}
}

// TestZeroingBesideTheWriter: space is set aside while more is written than was,
// behind what has been given back. No zeros come to lie over it.
func TestZeroingBesideTheWriter(t *testing.T) {
	mem := faultfs.New()
	cfg := config(zeroing{mem}, 1)
	cfg.SegmentSize, cfg.Sync = 64<<10, time.Hour // so the writer writes no zeros itself
	s := serve(t, cfg)
	l := s.logs[0]
	l.FitsPut(100_000)
	writes(t, l, 1, 64<<10)
	eventually(t, "the next segment is ready", func() bool { return made(t, mem) == 2 && l.Ready() })
	zeros := func(op faultfs.Op, n int) bool { return op == faultfs.OpWriteAt && n > 1000 }
	mem.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if zeros(op, n) {
			return syscall.ENOSPC
		}
		return nil
	})
	l.Segment() // which gives back, and others take that
	if l.Room() > 0 {
		t.Fatalf("%d bytes are set aside", l.Room())
	}
	known, written := make(chan struct{}), make(held, 1)
	mem.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		switch {
		case zeros(op, n): // where the file ends has been looked up
			close(known)
			select {
			case err := <-written:
				written <- err
			case <-time.After(100 * time.Millisecond):
			}
		case op == faultfs.OpWriteAt:
			<-known
		}
		return nil
	})
	l.Put(job(2, "a", "b"))
	l.Commit(written, 2)
	if !l.FitsChange(0) {
		t.Error("there is no room again")
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	mem.SetFault(nil)
	s.close()
	got, damages := readBack(t, config(mem, 1))
	if len(damages) > 0 || len(got.of) != 2 {
		t.Errorf("%v, %d jobs", damages, len(got.of))
	}
}
