package main_test

// Compressions, which a directory may have several of, and jobs larger than a
// segment.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A directory that was written with one compression opens with any other.
func TestBinlogCompression(t *testing.T) {
	t.Parallel()
	const size, jobs = 500, 400
	dir := t.TempDir()
	var bodies [][]byte // job 1 has the first
	wrote := make(map[string]int64)
	for round, how := range []string{"none", "s2", "zstd", "none"} {
		// The number of shards stays: what was written by others stays, too.
		args := []string{"--binlog-compression", how, "--shards", "1", "-s", "64K", "--binlog-strict"}
		s := withBinlog(t, dir, args...)
		c := s.talk()
		before := c.number("binlog-current-index")
		for i := range jobs {
			text := []byte(strings.Repeat(fmt.Sprintf("job %d of round %d; ", i, round), 100)[:size])
			if i%10 == 0 {
				text = body(uint64(i), size)
			}
			bodies = append(bodies, text)
		}
		c.all(jobs,
			func(b []byte, i int) []byte {
				return fmt.Appendf(b, "put 0 0 60 %d\r\n%s\r\n", size, bodies[round*jobs+i])
			},
			func(i int, line string, _ []byte) {
				if line != fmt.Sprintf("INSERTED %d", round*jobs+i+1) {
					t.Fatal(line)
				}
			})
		s.end([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[round%2])
		s = withBinlog(t, dir, "--binlog-compression", []string{"zstd", "none", "s2"}[round%3], "--shards", "1", "-s", "64K", "--binlog-strict")
		c = s.talk()
		c.all(len(bodies),
			func(b []byte, i int) []byte { return fmt.Appendf(b, "peek %d\r\n", i+1) },
			func(i int, line string, got []byte) {
				if line != fmt.Sprintf("FOUND %d %d", i+1, size) || !bytes.Equal(got, bodies[i]) {
					t.Fatalf("round %d, job %d: %s, %q, want %q", round, i+1, line, got, bodies[i])
				}
			})
		s.stop()
		for _, path := range segmentsOf(t, dir) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := strconv.Atoi(filepath.Ext(path)[1:]); n > before-1 && round < 3 {
				wrote[how] += info.Size()
			}
		}
	}
	if plain := wrote["none"]; plain < size*jobs || wrote["s2"] > plain/2 || wrote["zstd"] > plain/2 {
		t.Errorf("bytes written: %v", wrote)
	}
}

// Jobs as large as -z allows go into segments that are smaller than they are.
func TestBinlogLargeJobs(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"none", "s2", "zstd"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := []string{"-z", "20M", "-s", "4096", "--binlog-compression", how, "--shards", "2"}
			s := withBinlog(t, dir, args...)
			c := s.talk()
			bodies := make(map[uint64][]byte)
			put := func(b []byte) {
				t.Helper()
				c.says(fmt.Sprintf("USING t%d", len(bodies)%3), "use t%d", len(bodies)%3)
				bodies[c.put(0, b)] = b
			}
			switch how {
			case "none":
				put(body(1, 20<<20))
			case "s2": // around the size up to which blocks are compressed
				put(body(2, 8<<20-100))
				put(body(3, 8<<20))
			case "zstd":
				put(bytes.Repeat([]byte("large "), 20<<20/6))
			}
			put(body(4, 5000))
			put(nil)
			put(bytes.Repeat([]byte{0}, 1<<20+1))
			id := c.put(0, body(5, 1<<20))
			c.says("DELETED", "delete %d", id)
			for id := range bodies {
				line, _ := c.ask("reserve-job %d", id)
				if !strings.HasPrefix(line, "RESERVED ") {
					t.Fatal(line)
				}
				c.says("RELEASED", "release %d 1 0", id)
			}
			for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
				s.end(sig)
				// The limit is for new jobs, not for those that are there.
				s = withBinlog(t, dir, "-s", "4096", "--shards", strconv.Itoa(2-i), "--binlog-strict")
				c = s.talk()
				for id, b := range bodies {
					if line, got := c.ask("peek %d", id); !bytes.Equal(got, b) {
						t.Fatalf("job %d: %s, and %d bytes that are not those %d", id, line, len(got), len(b))
					}
				}
				c.says("JOB_TOO_BIG", "put 0 0 60 65536\r\n%s", body(0, 65536))
			}
			// They go as others do.
			for id := range bodies {
				c.says("DELETED", "delete %d", id)
			}
			until(t, "the disk is given back", func() bool {
				c.says("DELETED", "delete %d", c.put(0, nil))
				return diskUse(t, dir) < 1<<20
			})
			s.stop()
		})
	}
}
