package main_test

// In which order the server writes to its log, syncs it, and answers: strace
// sees it.

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A call is a system call of the server: when it began and ended.
type call struct {
	name       string
	on         string // "segment", "socket", "directory" or another
	begin, end int    // places in the order of all that happened
	at         time.Duration
}

var (
	straceLine    = regexp.MustCompile(`^\[pid +(\d+)\] (\d+\.\d+) (\w+)\(\d+<([^>]*)>(.*)$`)
	straceClosed  = regexp.MustCompile(`close\(\d+<(socket|TCP):`)
	straceResumed = regexp.MustCompile(`^\[pid +(\d+)\] \d+\.\d+ <\.\.\. (\w+) resumed>`)
)

// traced returns what a server with that binlog calls during f.
func traced(t *testing.T, f func(c *talker), args ...string) (calls []*call) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	dir := t.TempDir()
	s := withBinlog(t, dir, args...)
	c := s.talk()
	c.says("USING t", "use t") // the connection is set up
	c.says("WATCHING 2", "watch t")
	cmd := exec.Command(strace, "-f", "-q", "-y", "-ttt", "-s", "0",
		"-e", "trace=pwrite64,fdatasync,fsync,sync_file_range,write,writev,sendto,sendmsg,close",
		"-p", strconv.Itoa(s.pid()))
	var out output
	cmd.Stderr = &out
	ended := startBeside(t, cmd)
	// It is there once a call is seen.
	probe := s.talk()
	until(t, "strace is attached", func() bool {
		select {
		case <-ended:
			t.Skipf("strace may not attach here: %s", out.String())
		default:
		}
		probe.says("USING t", "use t")
		return strings.Contains(out.String(), "write(") || strings.Contains(out.String(), "sendto(")
	})
	// What it has seen of the probe comes before the close of that.
	probe.Close()
	until(t, "strace has seen the last of the probe", func() bool { return straceClosed.MatchString(out.String()) })
	seen := len(out.String())
	f(c)
	s.stop()
	<-ended

	open := make(map[string]*call)
	for n, line := range strings.Split(out.String()[seen:], "\n") {
		if m := straceResumed.FindStringSubmatch(line); m != nil {
			if c := open[m[1]]; c != nil && c.name == m[2] {
				c.end = n
			}
			continue
		}
		m := straceLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		seconds, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		c := &call{name: m[3], begin: n, end: n, at: time.Duration(seconds * float64(time.Second))}
		switch {
		case strings.HasPrefix(filepath.Base(m[4]), "segment."):
			c.on = "segment"
		case strings.HasPrefix(m[4], "socket:"), strings.HasPrefix(m[4], "TCP:"):
			c.on = "socket"
		case m[4] == dir:
			c.on = "directory"
		default:
			continue
		}
		if strings.HasSuffix(m[5], "<unfinished ...>") {
			c.end = 1 << 30
			open[m[1]] = c
		}
		calls = append(calls, c)
	}
	return calls
}

// lifeOfJobs is a session of n jobs with six commands each, all of which are in
// the log. It returns how many answers there are.
func lifeOfJobs(c *talker, n int) (answers int) {
	for range n {
		id := c.put(1, body(1, 300))
		if line, _ := c.ask("reserve-with-timeout 0"); line != fmt.Sprintf("RESERVED %d 300", id) {
			c.t.Fatal(line)
		}
		c.says("BURIED", "bury %d 2", id)
		c.says("KICKED", "kick-job %d", id)
		if line, _ := c.ask("reserve-job %d", id); line != fmt.Sprintf("RESERVED %d 300", id) {
			c.t.Fatal(line)
		}
		c.says("DELETED", "delete %d", id)
	}
	return 6 * n
}

func of(calls []*call, name, on string) (some []*call) {
	for _, c := range calls {
		if c.name == name && c.on == on {
			some = append(some, c)
		}
	}
	return some
}

// written checks that before each answer, and after the one before, something
// was written to a segment, and synced if that is asked for.
func written(t *testing.T, calls []*call, answers int, synced bool) {
	t.Helper()
	sent := of(calls, "sendto", "socket")
	if len(sent) == 0 {
		sent = of(calls, "write", "socket") // with the race detector
	}
	if len(sent) != answers {
		t.Fatalf("%d writes to a socket, want %d", len(sent), answers)
	}
	before := -1
	for i, answer := range sent {
		ok := false
		for _, w := range of(calls, "pwrite64", "segment") {
			if w.begin < before || w.end >= answer.begin {
				continue
			}
			if !synced {
				ok = true
			}
			for _, s := range of(calls, "fdatasync", "segment") {
				ok = ok || w.end < s.begin && s.end < answer.begin
			}
		}
		if !ok {
			t.Errorf("answer %d was sent before its record was written (and synced: %v)", i, synced)
		}
		before = answer.begin // the client has it before the call has ended
	}
}

func TestBinlogSyncsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	answers := 0
	calls := traced(t, func(c *talker) { answers = lifeOfJobs(c, 10) }, "-f", "0", "--shards", "2", "-s", "4096")
	written(t, calls, answers, true)
	if n := len(of(calls, "fdatasync", "segment")); n > answers+answers/2+4 {
		t.Errorf("%d syncs for %d answers", n, answers)
	}
}

func TestBinlogSyncsNowAndThen(t *testing.T) {
	t.Parallel()
	const every = 50 * time.Millisecond
	answers := 0
	calls := traced(t, func(c *talker) {
		for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
			answers += lifeOfJobs(c, 1)
		}
		time.Sleep(3 * every) // nothing happens, nothing is to be synced but the last
	}, "-f", "50", "--shards", "1")
	written(t, calls, answers, false)
	syncs := of(calls, "fdatasync", "segment")
	if len(syncs) < 3 {
		t.Fatalf("%d syncs in half a second", len(syncs))
	}
	// The shortest time in which there may be so many. It begins with what made
	// the first due, since that may have been late, for strace or another
	// process, when the next ones were not; the last is that of the end.
	last := len(syncs) - 2
	if took, least := syncs[last].at-of(calls, "pwrite64", "segment")[0].at, time.Duration(last-1)*every; took < least {
		t.Errorf("%d syncs in %v, want at least %v", last+1, took, least)
	}
}

func TestBinlogNeverSyncs(t *testing.T) {
	t.Parallel()
	answers := 0
	calls := traced(t, func(c *talker) { answers = lifeOfJobs(c, 60) }, "-F", "--shards", "1", "-s", "4096")
	written(t, calls, answers, false)
	for _, c := range calls {
		if strings.Contains(c.name, "sync") {
			t.Errorf("%s was called on a %s", c.name, c.on)
		}
	}
}
