package binlog

// A beanstalkd that runs for the tests, and what it is told.

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

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
