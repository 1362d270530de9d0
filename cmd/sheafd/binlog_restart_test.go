package main_test

// What a restart keeps: everything, whether the server was shut down or killed,
// and whatever number of shards goes on.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A snapshot is what a server tells of its jobs, by id.
type snapshot struct {
	from, to time.Time
	jobs     map[uint64]map[string]string
	bodies   map[uint64]string
}

func takeSnapshot(c *talker, last uint64) *snapshot {
	c.t.Helper()
	s := &snapshot{from: time.Now(), jobs: make(map[uint64]map[string]string), bodies: make(map[uint64]string)}
	for id := range last {
		id++
		m := c.yaml(fmt.Sprintf("stats-job %d", id))
		line, body := c.ask("peek %d", id)
		if (m == nil) != (line == "NOT_FOUND") {
			c.t.Fatalf("job %d: stats-job %v, peek %s", id, m, line)
		}
		if m != nil {
			s.jobs[id], s.bodies[id] = m, string(body)
		}
	}
	s.to = time.Now()
	return s
}

// sameAs compares with an earlier snapshot, of another server: what was
// reserved is ready now, and time has passed. Whether the segments are the same
// ones is not compared.
func (s *snapshot) sameAs(t *testing.T, old *snapshot) {
	t.Helper()
	if len(s.jobs) != len(old.jobs) {
		t.Errorf("there are %d jobs, there were %d", len(s.jobs), len(old.jobs))
	}
	least, most := int(s.from.Sub(old.to)/time.Second), int(s.to.Sub(old.from)/time.Second)+1
	number := func(m map[string]string, key string) int {
		n, err := strconv.Atoi(m[key])
		if err != nil {
			t.Fatalf("%s: %q", key, m[key])
		}
		return n
	}
	for id, was := range old.jobs {
		now := s.jobs[id]
		if now == nil {
			t.Errorf("job %d is gone: %v", id, was)
			continue
		}
		if s.bodies[id] != old.bodies[id] {
			t.Errorf("job %d has another body", id)
		}
		state := was["state"]
		if state == "reserved" || state == "delayed" && number(was, "time-left") < least {
			state = "ready"
		}
		if state == "delayed" && number(was, "time-left") <= most && now["state"] == "ready" {
			state = "ready"
		}
		if now["state"] != state {
			t.Errorf("job %d is %s, want %s; it was %v", id, now["state"], state, was)
		}
		for _, key := range []string{"id", "tube", "pri", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks"} {
			if now[key] != was[key] {
				t.Errorf("job %d: %s is %s, it was %s; %v", id, key, now[key], was[key], was)
			}
		}
		if d := number(now, "age") - number(was, "age"); d < least || d > most {
			t.Errorf("job %d: its age is %s, it was %s; %d to %d s have passed", id, now["age"], was["age"], least, most)
		}
		switch left := number(now, "time-left"); {
		case state != "delayed" && left != 0:
			t.Errorf("job %d is %s and has %d s left", id, state, left)
		case state == "delayed" && (number(was, "time-left")-left < least || number(was, "time-left")-left > most):
			t.Errorf("job %d: %d s are left, they were %s; %d to %d s have passed", id, left, was["time-left"], least, most)
		}
		if n := number(now, "file"); n <= 0 {
			t.Errorf("job %d is in file %d", id, n)
		}
	}
}

// variedJobs puts jobs into some tubes and gives each a history of its own. It
// returns the highest id, and the ids that were buried in each tube, in order.
// Some are still reserved, for as long as c is there.
func variedJobs(c *talker) (last uint64, graves map[string][]uint64) {
	c.t.Helper()
	graves = make(map[string][]uint64)
	tubes := []string{"default", "a", "b-2", "c/d", "e", strings.Repeat("x", 200)}
	var timeouts []uint64
	serial := uint64(0)
	put := func(tube string, pri, delay, ttr uint32, size int) uint64 {
		serial++
		c.says("USING "+tube, "use %s", tube)
		line, _ := c.ask("put %d %d %d %d\r\n%s", pri, delay, ttr, size, body(serial, size))
		if _, err := fmt.Sscanf(line, "INSERTED %d", &last); err != nil {
			c.t.Fatal(line)
		}
		return last
	}
	reserve := func(id uint64) {
		c.t.Helper()
		if line, _ := c.ask("reserve-job %d", id); !strings.HasPrefix(line, "RESERVED ") {
			c.t.Fatalf("reserve-job %d: %s", id, line)
		}
	}
	bury := func(tube string, ids []uint64) {
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids {
			reserve(id)
			c.says("BURIED", "bury %d %d", id, id*7)
		}
		graves[tube] = append(graves[tube], ids...)
	}
	for i, tube := range tubes {
		put(tube, 0, 0, 0, 0)
		put(tube, 1<<32-1, 0, 1<<32-1, 65535)
		put(tube, 10, 1<<32-1, 60, 1)
		put(tube, 11, 3600, 60, 100)
		put(tube, 12, 2, 60, 100) // becomes ready on the way
		reserve(put(tube, 13, 0, 1000, 200))
		reserve(put(tube, 13, 5000, 1000, 200))

		id := put(tube, 14, 0, 60, 300)
		for n := range uint32(i + 1) {
			reserve(id)
			c.says("RELEASED", "release %d %d 0", id, 100+n)
		}
		id = put(tube, 15, 0, 60, 300)
		reserve(id)
		c.says("RELEASED", "release %d 2 7200", id)
		id = put(tube, 16, 7200, 60, 300)
		c.says("KICKED", "kick-job %d", id)
		id = put(tube, 17, 7200, 60, 300)
		reserve(id)
		c.says("TOUCHED", "touch %d", id)
		c.says("RELEASED", "release %d 5 0", id)
		c.says("DELETED", "delete %d", put(tube, 17, 0, 60, 300))
		c.says("DELETED", "delete %d", put(tube, 17, 100, 60, 300))
		id = put(tube, 17, 0, 60, 300)
		reserve(id)
		c.says("DELETED", "delete %d", id)

		var ids []uint64
		for range 9 {
			ids = append(ids, put(tube, 20, 0, 60, 10))
		}
		bury(tube, ids[:7])
		for range 3 {
			c.says("KICKED 1", "kick 1")
		}
		back := slices.Clone(graves[tube][:3])
		graves[tube] = graves[tube][3:]
		bury(tube, append(back, ids[7:]...))
		c.says("DELETED", "delete %d", graves[tube][4])
		graves[tube] = slices.Delete(graves[tube], 4, 5)
		c.says("KICKED", "kick-job %d", graves[tube][2])
		graves[tube] = slices.Delete(graves[tube], 2, 3)

		id = put(tube, 18, 0, 1, 30)
		reserve(id)
		timeouts = append(timeouts, id)
	}
	for _, id := range timeouts {
		until(c.t, "its TTR has run out", func() bool {
			return c.yaml(fmt.Sprintf("stats-job %d", id))["timeouts"] == "1"
		})
	}
	return last, graves
}

// exhume checks the order of the buried jobs, which are deleted.
func exhume(c *talker, graves map[string][]uint64) {
	c.t.Helper()
	for tube, want := range graves {
		c.says("USING "+tube, "use %s", tube)
		var got []uint64
		for {
			line, _ := c.ask("peek-buried")
			var id uint64
			if _, err := fmt.Sscanf(line, "FOUND %d", &id); err != nil {
				break
			}
			got = append(got, id)
			c.says("DELETED", "delete %d", id)
		}
		if !slices.Equal(got, want) {
			c.t.Errorf("tube %.10s: buried jobs %v, want %v", tube, got, want)
		}
	}
}

func TestBinlogRestart(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := withBinlog(t, dir, "--shards", "1", "-s", "16K")
			c := s.talk()
			last, graves := variedJobs(c)
			was := takeSnapshot(c, last)
			for _, args := range [][]string{
				{"--shards", "3", "-s", "16K"}, {"--shards", "3"}, {"--shards", "2"}, {"--shards", "2", "-s", "8K"}, {"--shards", "1"},
			} {
				s.end(sig)
				s = withBinlog(t, dir, args...)
				c = s.talk()
				now := takeSnapshot(c, last)
				now.sameAs(t, was)
				was = now
				if id := c.put(0, nil); id != last+1 {
					t.Errorf("the next id is %d, want %d", id, last+1)
				}
				last++
				c.says("DELETED", "delete %d", last)
				if t.Failed() {
					t.Fatalf("after a restart with %q", args)
				}
			}
			// One more is buried, behind the others.
			tube := "a"
			c.says("USING "+tube, "use %s", tube)
			id := c.put(0, nil)
			c.ask("reserve-job %d", id)
			c.says("BURIED", "bury %d 0", id)
			graves[tube] = append(graves[tube], id)
			s.end(sig)
			c = withBinlog(t, dir, "--shards", "2").talk()
			exhume(c, graves)
			for id, job := range was.jobs { // those with a delay of two seconds are ready
				if job["pri"] == "12" {
					until(t, "its delay is over", func() bool {
						return c.yaml(fmt.Sprintf("stats-job %d", id))["state"] == "ready"
					})
				}
			}
			// What is ready comes in its order.
			c.says("WATCHING 2", "watch a")
			var before [2]uint64
			for {
				line, _ := c.ask("reserve-with-timeout 0")
				var id uint64
				if _, err := fmt.Sscanf(line, "RESERVED %d", &id); err != nil {
					break
				}
				pri, _ := strconv.ParseUint(c.yaml(fmt.Sprintf("stats-job %d", id))["pri"], 10, 32)
				if now := [2]uint64{pri, id}; slices.Compare(before[:], now[:]) >= 0 {
					t.Errorf("job %d of priority %d comes after %v", id, pri, before)
				} else {
					before = now
				}
				// One has a second to run, and would come again on a slow machine.
				c.says("DELETED", "delete %d", id)
			}
		})
	}
}

// An id is never given again, though no job and no segment tells of it.
func TestBinlogIDsAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last := uint64(0)
	for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		s := withBinlog(t, dir, "--shards", strconv.Itoa([]int{1, 3, 2}[i/2]), "-s", "4096")
		c := s.talk()
		n := 1
		if i%3 == 0 {
			n = 1500 // so that segments go
		}
		oldest := c.number("binlog-oldest-index")
		for range n {
			id := c.put(0, []byte("x"))
			if id <= last {
				t.Fatalf("id %d was given after %d", id, last)
			}
			last = id
			c.says("DELETED", "delete %d", id)
		}
		if n > 1 && c.number("binlog-oldest-index") == oldest {
			t.Error("no segment was dropped")
		}
		s.end(sig)
		// Nothing happens but that it is started and ended.
		withBinlog(t, dir, "--shards", "2").end(sig)
	}
}

func TestBinlogStats(t *testing.T) {
	t.Parallel()
	keys := []string{"binlog-oldest-index", "binlog-current-index", "binlog-records-migrated", "binlog-records-written", "binlog-max-size"}
	numbers := func(c *talker) (n [5]int) {
		for i, key := range keys {
			n[i] = c.number(key)
		}
		return n
	}
	c := start(t).talk()
	id := c.put(0, nil)
	if got, want := numbers(c), [5]int{0, 0, 0, 0, 10485760}; got != want {
		t.Errorf("without -b: %v: %v, want %v", keys, got, want)
	}
	if file := c.yaml(fmt.Sprintf("stats-job %d", id))["file"]; file != "0" {
		t.Errorf("without -b: file: %s", file)
	}

	dir := t.TempDir()
	c = withBinlog(t, t.TempDir()).talk()
	if got := numbers(c); got[4] != 10485760 {
		t.Errorf("with -b: %v: %v", keys, got)
	}
	s := withBinlog(t, dir, "-s", "16384", "--shards", "1")
	c = s.talk()
	first := numbers(c)
	if first[0] < 1 || first[1] < first[0] || first[2] != 0 || first[4] != 16384 {
		t.Errorf("at the start: %v: %v", keys, first)
	}
	before := first
	var ids []uint64
	for i := range 400 {
		ids = append(ids, c.put(0, body(uint64(i), 200)))
		now := numbers(c)
		file, _ := strconv.Atoi(c.yaml(fmt.Sprintf("stats-job %d", ids[i]))["file"])
		if now[3] < before[3]+1 || now[1] < before[1] || now[0] < before[0] || now[1] < now[0] ||
			file < now[0] || file > now[1]+1 || file < before[1] {
			t.Fatalf("put %d: file %d, %v: %v, before %v", i, file, keys, now, before)
		}
		before = now
	}
	if before[0] != first[0] || before[1] < first[1]+3 || before[2] != 0 {
		t.Errorf("after puts: %v: %v, at first %v", keys, before, first)
	}
	// One in twenty stays, so the others' segments are cleaned.
	for i, id := range ids {
		if i%20 != 0 {
			c.says("DELETED", "delete %d", id)
		}
	}
	until(t, "segments are cleaned", func() bool {
		c.says("TOUCHED", "touch %d", func() uint64 {
			id := c.put(0, nil)
			c.ask("reserve-job %d", id)
			return id
		}())
		now := numbers(c)
		return now[0] > before[0]+2 && now[2] > 5
	})
	for i, id := range ids {
		if i%20 == 0 {
			now := numbers(c)
			if file, _ := strconv.Atoi(c.yaml(fmt.Sprintf("stats-job %d", id))["file"]); file < now[0] || file > now[1]+1 {
				t.Errorf("job %d is in file %d; %v: %v", id, file, keys, now)
			}
		}
	}
	// Indexes go on after a restart; what is counted begins anew.
	before = numbers(c)
	s.stop()
	now := numbers(withBinlog(t, dir, "-s", "16384", "--shards", "1").talk())
	if now[0] < before[0] || now[1] <= before[1] || now[2] > now[3] || now[3] > before[3] {
		t.Errorf("after a restart: %v: %v, before %v", keys, now, before)
	}
}

// What is no file of ours, and has the name of one that is still to come, is not in
// its way.
func TestBinlogNamesAreTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"-b", dir, "--shards", "1", "-s", "65536", "--binlog-compression", "none"}
	s := start(t, args...)
	s.dial().says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	s.signal(syscall.SIGKILL)
	<-s.ended
	for i := range 3 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("segment.1.0.%08d", 4+i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	body := strings.Repeat("x", 30_000)
	for first := 2; first < 60; first += 30 {
		s = start(t, args...)
		c := s.dial()
		for id := first; id < first+30; id++ {
			c.says("put 0 0 60 30000\n"+body+"\n", fmt.Sprintf("INSERTED %d\n", id))
		}
		s.stop()
	}
}

// A pipe or a directory where a file of the binlog should be ends the start at
// once, with a line that says what to do, and stays.
func TestBinlogFileIsAPipe(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(name string) error{
		"a pipe":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a directory": func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		dir := t.TempDir()
		manifest := filepath.Join(dir, "manifest")
		if err := make(manifest); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"-l", "127.0.0.1", "-p", "0", "-b", dir}, {"binlog", "dump", dir}} {
			r := finish(t, exec.Command(binary(t), args...))
			if r.code != 1 || !strings.Contains(r.stderr, manifest+": it is no regular file: move it elsewhere\n") || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%s, %s: exit status %d, %q", name, args, r.code, r.stderr)
			}
		}
		if st, err := os.Lstat(manifest); err != nil || st.Mode().IsRegular() {
			t.Errorf("%s is %v now, %v", name, st, err)
		}
	}
}

// The default tube is the first in list-tubes, though the binlog names others, or
// names it later.
func TestRestartBeginsWithTheDefaultTube(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := withBinlog(t, dir, "--shards", "3")
	c := s.dial()
	for i, tube := range []string{"a", "b", "c", "d", "default", "e"} {
		c.says(fmt.Sprintf("use %s\nput 0 0 60 1\nx\n", tube), fmt.Sprintf("USING %s\nINSERTED %d\n", tube, i+1))
	}
	for _, shards := range []string{"3", "1", "5"} {
		s.stop()
		s = withBinlog(t, dir, "--shards", shards)
		if tubes := s.dial().list("list-tubes"); len(tubes) != 6 || tubes[0] != "default" {
			t.Errorf("%s shards: %q", shards, tubes)
		}
	}
	s.stop()
}
