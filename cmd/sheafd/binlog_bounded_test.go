package main_test

// How much disk the binlog uses: in proportion to the jobs that there are,
// whatever has passed through, and however old the oldest is.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A gauge watches a directory.
type gauge struct {
	dir  string
	quit chan struct{}
	done sync.WaitGroup
	most int64
}

// watchDisk watches a directory until stop is called.
func watchDisk(t *testing.T, dir string) *gauge {
	g := &gauge{dir: dir, quit: make(chan struct{})}
	g.done.Go(func() {
		for {
			g.most = max(g.most, diskUse(t, dir))
			select {
			case <-g.quit:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return g
}

// stop returns the most that there was, in bytes.
func (g *gauge) stop() int64 {
	close(g.quit)
	g.done.Wait()
	return g.most
}

// bound is how many bytes a directory may take: about twice the live data plus
// two segments a shard. What is added is for the header of each job; a segment
// for being about that, for deletes, and for batches that run over; one for what
// is written before cleaning has its turn; what is set aside in the next segment
// as well while a shard goes over to it, for deletes and, up to half of the live
// data, for changes; and, on a disk that is busy with other tests, two for what is
// written while the janitor waits for a sync: segments become twice their size
// before a shard waits for it. Segments are tiny here.
func bound(jobs, size, segment, shards int) int64 {
	live := jobs * (size + 64)
	return int64(2*live + 6*segment*shards + 48*jobs + live/2)
}

// manyJobs is how many jobs pass through: SHEAFD_TEST_JOBS says if it is to be
// a million or so.
func manyJobs(t *testing.T, usual int) int {
	if v := os.Getenv("SHEAFD_TEST_JOBS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if raced() {
		return usual / 6
	}
	return usual
}

// One buried job for ever, and a great many come and go.
func TestBinlogOldJobPinsNothing(t *testing.T) {
	t.Parallel()
	const segment, shards, size, atOnce = 256 << 10, 2, 50, 1000
	dir := t.TempDir()
	s := withBinlog(t, dir, "-s", strconv.Itoa(segment), "--shards", strconv.Itoa(shards), "--binlog-compression", "none")
	c := s.talk()
	jobs := known{}
	for i := range 2 { // on a shard each, for all that is known
		tube := fmt.Sprintf("grave-%d", i)
		c.says("USING "+tube, "use %s", tube)
		c.says(fmt.Sprintf("WATCHING %d", i+2), "watch %s", tube)
		id := c.put(5, body(uint64(i), 100))
		c.says(fmt.Sprintf("RESERVED %d 100", id), "reserve")
		c.says("BURIED", "bury %d 5", id)
		jobs[id] = &knownJob{tube, "buried", 5, uint64(i), 100}
	}
	g := watchDisk(t, dir)
	ids := make([]uint64, atOnce)
	junk := body(9, size)
	for n := 0; n < manyJobs(t, 300_000); n += atOnce {
		tube := fmt.Sprintf("tube-%d", n/atOnce%16)
		c.says("USING "+tube, "use %s", tube)
		c.all(atOnce,
			func(b []byte, i int) []byte {
				return append(append(fmt.Appendf(b, "put 0 0 60 %d\r\n", size), junk...), "\r\n"...)
			},
			func(i int, line string, _ []byte) {
				if _, err := fmt.Sscanf(line, "INSERTED %d", &ids[i]); err != nil {
					t.Fatalf("put: answered %q", line)
				}
			})
		c.repeat(ids, "delete #", "DELETED")
	}
	most := g.stop()
	t.Logf("at most %d bytes", most)
	if b := bound(atOnce, size, segment, shards); most > b {
		t.Errorf("the directory took up to %d bytes, want %d at most", most, b)
	}
	if n := c.number("binlog-records-migrated"); n == 0 {
		t.Error("nothing was migrated")
	}
	last := ids[atOnce-1]
	s.stop()
	if n, b := diskUse(t, dir), bound(0, 0, segment, shards); n > b {
		t.Errorf("after the end it takes %d bytes, want %d at most", n, b)
	}
	s = withBinlog(t, dir)
	c = s.talk()
	jobs.check(c)
	if id := c.put(0, nil); id <= last {
		t.Errorf("id %d is given, which is not above %d", id, last)
	}
}

// A steady number of jobs, each of which lives for a random time.
func TestBinlogOfSteadySize(t *testing.T) {
	t.Parallel()
	const segment, shards, size, steady, atOnce = 512 << 10, 2, 100, 20_000, 2000
	dir := t.TempDir()
	s := withBinlog(t, dir, "-s", strconv.Itoa(segment), "--shards", strconv.Itoa(shards), "--binlog-compression", "none")
	c := s.talk()
	jobs := known{}
	serial := uint64(0)
	for i := 0; len(jobs) < steady; i++ {
		jobs.putAll(c, fmt.Sprintf("tube-%d", i%16), size, atOnce, &serial)
	}
	g := watchDisk(t, dir)
	ids := jobs.ids()
	for n := 0; n < manyJobs(t, 120_000); n += atOnce {
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		c.repeat(ids[:atOnce], "delete #", "DELETED")
		for _, id := range ids[:atOnce] {
			delete(jobs, id)
		}
		jobs.putAll(c, fmt.Sprintf("tube-%d", n/atOnce%16), size, atOnce, &serial)
		if ids = jobs.ids(); len(ids) != steady {
			t.Fatalf("%d jobs", len(ids))
		}
	}
	most := g.stop()
	t.Logf("at most %d bytes", most)
	if b := bound(steady, size, segment, shards); most > b {
		t.Errorf("the directory took up to %d bytes, want %d at most", most, b)
	}
	s.kill()
	s = withBinlog(t, dir)
	jobs.check(s.talk())
}
