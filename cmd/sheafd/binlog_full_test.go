package main_test

// A full disk: puts are refused, all else goes on, and so do puts when there
// is room again. The disk is a small tmpfs.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of that size until the end of the test.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sheafd-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=755", megabytes)); err != nil {
		t.Skipf("a tmpfs cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		// Cleanups run last in first out: servers have ended.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fullDisk is the kind of disk and server that a test runs on.
type fullDisk struct {
	megabytes int
	segment   string // -s, "" for the default
	shards    int
}

func (d fullDisk) String() string {
	return fmt.Sprintf("%dM-s%s-shards%d", d.megabytes, d.segment, d.shards)
}

func (d fullDisk) args() []string {
	args := []string{"--shards", strconv.Itoa(d.shards)}
	if d.segment != "" {
		args = append(args, "-s", d.segment)
	}
	return args
}

// fullDisks are some of each size; a disk of 16 MB takes four times as long.
var fullDisks = []fullDisk{{4, "65536", 1}, {4, "", 2}, {4, "", 8}, {16, "65536", 8}}

// A fullTest is a server on a full disk.
type fullTest struct {
	fullDisk
	*testing.T
	dir    string
	server *server
	talker *talker
	jobs   known
	serial uint64
}

// onFullDisks runs a test on all of them, which are full to begin with.
func onFullDisks(t *testing.T, run func(f *fullTest)) {
	for _, d := range fullDisks {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			f := &fullTest{fullDisk: d, T: t, dir: smallDisk(t, d.megabytes), jobs: known{}}
			f.serve()
			f.fill()
			run(f)
		})
	}
}

func (f *fullTest) serve() {
	f.Helper()
	f.server = withBinlog(f.T, filepath.Join(f.dir, "log"), f.args()...)
	f.talker = f.server.talk()
}

// tube returns the name of a tube; some are on each shard.
func (f *fullTest) tube(i int) string { return fmt.Sprintf("tube-%d", i) }

const fullTubes = 24

// fill puts jobs until every shard refuses them.
func (f *fullTest) fill() {
	f.Helper()
	for begin := time.Now(); ; {
		took := false
		for i := range fullTubes {
			n := len(f.jobs)
			f.jobs.putAll(f.talker, f.tube(i), 500+100*i, 20, &f.serial)
			took = took || len(f.jobs) > n
		}
		if !took {
			return
		}
		if time.Since(begin) > patience {
			f.Fatal("the disk does not become full")
		}
	}
}

// putsWork waits until puts are accepted in all tubes.
func (f *fullTest) putsWork() {
	f.Helper()
	for i := range fullTubes {
		until(f.T, "puts are accepted in "+f.tube(i)+" again", func() bool {
			return !f.jobs.putAll(f.talker, f.tube(i), 500, 1, &f.serial)
		})
	}
}

// deleteAll deletes jobs in random order.
func (f *fullTest) deleteSome(ids []uint64) {
	f.Helper()
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	f.talker.repeat(ids, "delete #", "DELETED")
	for _, id := range ids {
		delete(f.jobs, id)
	}
}

// Every command that changes a job goes on: there is space set aside to reserve
// each of them and to release, bury or kick it, and to delete it.
func TestBinlogFullDisk(t *testing.T) {
	t.Parallel()
	onFullDisks(t, func(f *fullTest) {
		c := f.talker
		f.server.waitLog("the disk is full")
		ids := f.jobs.ids()
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		some := ids[:min(len(ids), 2000)]
		half := len(some) / 2
		c.repeat(some[:half], "reserve-job #", "RESERVED ")
		c.repeat(some[:half], "touch #", "TOUCHED")
		c.repeat(some[:half], "release # 7 0", "RELEASED")
		for _, id := range some[:half] {
			f.jobs[id].pri = 7
		}
		for i := range fullTubes {
			c.ask("watch %s", f.tube(i))
		}
		for range 100 {
			line, _ := c.ask("reserve-with-timeout 0")
			var id uint64
			if _, err := fmt.Sscanf(line, "RESERVED %d", &id); err != nil {
				f.Fatalf("reserve: answered %q", line)
			}
			c.says("BURIED", "bury %d 9", id)
			c.says("USING "+f.jobs[id].tube, "use %s", f.jobs[id].tube)
			c.says("KICKED 1", "kick 10")
			f.jobs[id].pri = 9
		}
		buried, delayed := some[half:half+half/2], some[half+half/2:2*half]
		c.repeat(buried, "reserve-job #", "RESERVED ")
		c.repeat(buried, "bury # 8", "BURIED")
		f.jobs.set(buried, "buried")
		c.repeat(delayed, "reserve-job #", "RESERVED ")
		c.repeat(delayed, "release # 8 1000", "RELEASED")
		f.jobs.set(delayed, "delayed")
		for _, id := range some[half : 2*half] {
			f.jobs[id].pri = 8
		}
		f.jobs.check(c)
		f.deleteSome(f.jobs.ids())
		f.jobs.check(c)
		f.putsWork()
		f.fill()
		f.jobs.check(c)
		if n := strings.Count(f.server.log.String(), "\n"); n > 100 {
			f.Errorf("the server's log has %d lines", n)
		}
		f.server.stop()
	})
}

// Puts work again when some jobs were deleted, and when others have made room.
func TestBinlogRoomAgain(t *testing.T) {
	t.Parallel()
	for _, d := range fullDisks {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			f := &fullTest{fullDisk: d, T: t, dir: smallDisk(t, d.megabytes), jobs: known{}}
			filler := filepath.Join(f.dir, "filler")
			if err := os.WriteFile(filler, make([]byte, d.megabytes<<20/3), 0o600); err != nil {
				t.Fatal(err)
			}
			f.serve()
			f.fill()
			n := len(f.jobs)
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			f.putsWork()
			f.server.waitLog("there is room again")
			f.fill()
			if len(f.jobs) < n+n/5 {
				t.Errorf("with a third more disk there are %d jobs, before %d", len(f.jobs), n)
			}
			for range 3 {
				f.deleteSome(everySecond(f.jobs.ids()))
				f.putsWork()
				f.fill()
				f.jobs.check(f.talker)
			}
			f.server.stop()
		})
	}
}

func everySecond(ids []uint64) (half []uint64) {
	for i := 0; i < len(ids); i += 2 {
		half = append(half, ids[i])
	}
	return half
}

// A server that is restarted on a full disk has everything, and goes on.
func TestBinlogRestartOnFullDisk(t *testing.T) {
	t.Parallel()
	onFullDisks(t, func(f *fullTest) {
		for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
			f.server.end(sig)
			f.serve()
			f.jobs.check(f.talker)
			ids := f.jobs.ids()
			f.talker.repeat(ids, "reserve-job #", "RESERVED ")
			f.talker.repeat(ids, fmt.Sprintf("bury # %d", i), "BURIED")
			for _, j := range f.jobs {
				j.pri, j.state = uint32(i), "buried"
			}
			f.fill()
		}
		f.deleteSome(f.jobs.ids())
		f.server.kill()
		f.serve()
		f.jobs.check(f.talker)
		f.putsWork()
		f.server.stop()
	})
}

// All jobs are to be written again, and there is no room for that: the server says
// so, and nothing of puts, since there are none, and has the directory as it was.
func TestBinlogNoRoomForAnotherNumberOfShards(t *testing.T) {
	t.Parallel()
	f := &fullTest{fullDisk: fullDisk{4, "65536", 2}, T: t, dir: smallDisk(t, 4), jobs: known{}}
	f.serve()
	for i := range fullTubes {
		f.jobs.putAll(f.talker, f.tube(i), 1000, 80, &f.serial)
	}
	f.server.stop()
	dir := filepath.Join(f.dir, "log")
	list := func() (all []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			all = append(all, fmt.Sprintf("%s %x %v", e.Name(), sumOf(b), err))
		}
		return all
	}
	before := list()
	for range 2 {
		r := finish(t, command(t, onLoopback("-b", dir, "--shards", "3")...))
		lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
		last := lines[len(lines)-1]
		if r.code != 1 || len(lines) != 2 || !strings.Contains(lines[0], `msg="binlog: read back"`) ||
			!strings.HasPrefix(last, "sheafd: binlog "+dir+": there is no room to write all jobs again, each for its shard: ") ||
			!strings.HasSuffix(last, ": no space left on device: make room on the disk, or start with --shards 2 as before; nothing is lost") {
			t.Errorf("exit status %d:\n%s", r.code, r.stderr)
		}
		if after := list(); !slices.Equal(after, before) {
			t.Errorf("the directory had\n%s\nand has\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
	}
	f.serve()
	f.jobs.check(f.talker)
	f.server.stop()
	if err := unix.Mount("", f.dir, "", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	f.shards = 3
	f.serve()
	f.jobs.check(f.talker)
	f.server.stop()
}

// Another program takes all that is left of the disk, at once: that the disk was
// not nearly full a moment ago makes no difference to the jobs that there are.
func TestBinlogDiskTaken(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		fullDisk
		jobs, size int // size is of their bodies, on average
	}{
		{fullDisk{32, "65536", 1}, 10_000, 800},
		{fullDisk{32, "100000", 4}, 10_000, 800},
		{fullDisk{64, "", 2}, 20_000, 800},
		{fullDisk{96, "1000000", 3}, 50_000, 20},
	} {
		t.Run(fmt.Sprint(d.fullDisk, "-size", d.size), func(t *testing.T) {
			t.Parallel()
			f := &fullTest{fullDisk: d.fullDisk, T: t, dir: smallDisk(t, d.megabytes), jobs: known{}}
			f.serve()
			for i := 0; len(f.jobs) < d.jobs; i++ {
				f.jobs.putAll(f.talker, f.tube(i%fullTubes), d.size/2+i%(d.size+1), 100, &f.serial)
			}
			took := f.take()
			ids := f.jobs.ids()
			rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			for i := range 4 {
				f.talker.repeat(ids, "reserve-job #", "RESERVED ")
				f.talker.repeat(ids, fmt.Sprintf("release # %d 0", i), "RELEASED")
			}
			f.talker.repeat(ids, "reserve-job #", "RESERVED ")
			f.talker.repeat(ids, "bury # 7", "BURIED")
			for _, j := range f.jobs {
				j.pri, j.state = 7, "buried"
			}
			f.jobs.check(f.talker)
			f.server.kill()
			f.serve()
			f.jobs.check(f.talker)
			f.deleteSome(ids)
			if err := os.Remove(took); err != nil {
				t.Fatal(err)
			}
			f.putsWork()
			f.server.stop()
		})
	}
}

// take has another program take all that is left of the disk, and returns the
// path of its file.
func (f *fullTest) take() string {
	f.Helper()
	path := filepath.Join(f.dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size >= 4096; {
		switch _, err := file.Write(make([]byte, size)); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			f.Fatal(err)
		}
	}
	return path
}
