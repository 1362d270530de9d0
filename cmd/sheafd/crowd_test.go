package main_test

// Limits as others feel them: clients that take without reading, too many
// clients, too many jobs. What one does costs nobody else anything.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// resident returns how many bytes of memory the process has.
func (s *server) resident() int {
	s.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid()))
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	if f := strings.Fields(rest); len(f) > 1 && f[1] == "kB" {
		if n, err := strconv.Atoi(f[0]); err == nil {
			return n << 10
		}
	}
	s.t.Fatalf("no VmRSS in\n%s", b)
	return 0
}

// stuff sends request over and over, reads nothing, and returns how often when
// the server has not taken any more for a while.
func (c *client) stuff(request string) (sent int) {
	c.t.Helper()
	for many := []byte(strings.Repeat(request, 64<<10/len(request))); ; {
		c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, err := c.Write(many)
		sent += n
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return sent / len(request)
		case err != nil:
			c.t.Fatalf("after %d bytes: %v", sent, err)
		case sent > 256<<20:
			c.t.Fatal("a client that does not read is never stopped")
		}
	}
}

func TestClientsThatNeverRead(t *testing.T) {
	const (
		size = 1 << 20
		jobs = 20
		most = 128 << 20 // what the process may grow by, race detector included
	)
	body := strings.Repeat("x", size)
	for _, tc := range []struct{ name, request string }{
		{"peek", "peek 1\r\n"},
		{"peek-ready", "peek-ready\r\n"},
		{"reserve", "reserve\r\n"},
		{"reserve-with-timeout", "reserve-with-timeout 0\r\n"},
		{"reserve and release", "reserve\r\nrelease 1 0 0\r\n"},
		{"stats", "stats\r\n"},
		{"nonsense", "nonsense\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "-z", "1M")
			other := s.dial()
			for i := range jobs {
				other.says(fmt.Sprintf("put %d 0 600 %d\n%s\n", i, size, body), fmt.Sprintf("INSERTED %d\n", i+1))
			}
			before, requests := s.resident(), 0
			var clients []*client
			for range 3 {
				c := s.dial()
				c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
				requests += c.stuff(tc.request)
				clients = append(clients, c)
			}
			if grown := s.resident() - before; grown > most {
				t.Errorf("%d unread requests: memory grew by %d MiB", requests, grown>>20)
			} else {
				t.Logf("%d unread requests: memory grew by %d MiB", requests, grown>>20)
			}
			worker := s.dial()
			worker.says("use a\nwatch a\n", "USING a\nWATCHING 2\n")
			worker.says("put 0 0 60 1\nx\n", "INSERTED 21\n")
			worker.says("peek 21\n", "FOUND 21 1\nx\n")

			// Their jobs come back when they go, if they have got any.
			for _, c := range clients {
				c.Conn.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
			worker.awaits("current-connections", "2")
			worker.awaits("current-jobs-ready", strconv.Itoa(jobs+1))
			s.stop()
		})
	}
}

// Thousands of connections that do nothing take at most 6 KiB each.
func TestIdleConnectionsAreSmall(t *testing.T) {
	const many, most = 10_000, 6 << 10
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil || lim.Cur < many+200 {
		t.Skipf("too few files may be open: %d, %v", lim.Cur, err)
	}
	s := run(t, exec.Command(plainBuild(t), "-l", "127.0.0.1", "-p", "0"))
	watcher := s.dial()
	watcher.awaits("current-connections", "1")
	before := s.resident()
	for range many {
		c, err := net.Dial("tcp", s.addrs[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	watcher.awaits("current-connections", strconv.Itoa(many+1))
	if each := (s.resident() - before) / many; each > most {
		t.Errorf("an idle connection takes %d bytes", each)
	} else {
		t.Logf("an idle connection takes %d bytes", each)
	}
	s.stop()
}

// 100 clients and 40 files: as many as fit in are served, and each that goes
// makes room for one that waits.
func TestMoreClientsThanFiles(t *testing.T) {
	t.Parallel()
	s := run(t, underShell(t, "ulimit -S -n 40; ulimit -H -n 40", "-l", "127.0.0.1", "-p", "0"))
	const all = 100
	clients := make([]*client, all)
	for i := range clients {
		clients[i] = s.dial()
		clients[i].send("use a\n")
	}
	s.waitLog("cannot accept connections for now")
	clients[0].gets("USING a\n")
	inside, err := strconv.Atoi(clients[0].stats("current-connections"))
	if err != nil || inside < 20 || inside > 40 {
		t.Fatalf("%d connections of 40 files, %v", inside, err)
	}
	for i, c := range clients {
		if i > 0 { // the first has said it already
			c.gets("USING a\n")
		}
		c.says("put 0 0 60 1\nx\n", fmt.Sprintf("INSERTED %d\n", i+1))
		c.Close()
	}
	c := s.dial()
	c.awaits("current-connections", "1")
	if got := c.stats("total-connections"); got != strconv.Itoa(all+1) {
		t.Errorf("%s connections were served, want %d", got, all+1)
	}
	// Each place that frees up may end one shortage and begin another, which is
	// worth two lines; but the wait is no loop that logs.
	if n := strings.Count(s.log.String(), "\n"); n > 2*all+10 {
		t.Errorf("%d lines in the log", n)
	}
	s.stop()
}

// At the memory cap only put is refused, of anyone; every job that goes makes
// room again.
func TestMaxMemoryRefusesPutsOnly(t *testing.T) {
	for _, shards := range []int{1, 7} {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			t.Parallel()
			const limit, size = 1 << 20, 10000
			s := start(t, "--max-memory", "1M", "--shards", strconv.Itoa(shards))
			body := strings.Repeat("x", size)
			fill := func(c *client) (jobs int) {
				t.Helper()
				for {
					c.send(fmt.Sprintf("put 0 0 60 %d\n%s\n", size, body))
					line := c.line()
					if line == "OUT_OF_MEMORY" {
						return jobs
					}
					if !strings.HasPrefix(line, "INSERTED ") {
						t.Fatalf("put: %s", line)
					}
					jobs++
				}
			}
			producer := s.dial()
			n := fill(producer)
			// Body and bookkeeping fit in the cap, to within a 16th of it for
			// all shards together.
			if taken := n * size; taken > limit+limit/16 || taken < limit*3/4 {
				t.Errorf("%d jobs of %d bytes were taken for %d", n, size, limit)
			}
			producer.says("use other\n", "USING other\n")
			if m := fill(producer); m > 1 {
				t.Errorf("%d more were taken in another tube", m)
			}
			worker := s.dial()
			worker.says(fmt.Sprintf("put 0 0 60 %d\n%s\n", size, body), "OUT_OF_MEMORY\n")
			reserved := fmt.Sprintf("RESERVED 1 %d\n%s\n", size, body)
			worker.says("reserve\n", reserved)
			worker.says("release 1 5 0\n", "RELEASED\n")
			worker.says("reserve-job 1\n", reserved)
			worker.says("bury 1 0\n", "BURIED\n")
			worker.says("kick 1\n", "KICKED 1\n")
			worker.says("peek 1\n", "FOUND"+strings.TrimPrefix(reserved, "RESERVED"))
			total, err := strconv.Atoi(worker.stats("total-jobs"))
			if err != nil {
				t.Fatal(err)
			}
			// Refused puts took ids or did not; all jobs are found by their
			// ids.
			deleted := 0
			for id := 1; deleted < total; id++ {
				if id > 10*total {
					t.Fatalf("only %d of %d jobs were found", deleted, total)
				}
				worker.send(fmt.Sprintf("delete %d\n", id))
				if worker.line() == "DELETED" {
					deleted++
				}
			}
			producer.says("use default\n", "USING default\n")
			if m := fill(producer); m < n-1 || m > n+1 {
				t.Errorf("after all jobs went, %d fit in; at first it were %d", m, n)
			}
			s.stop()
		})
	}
}

// A thousand commands, good ones and bad, leave no word in the log.
func TestThousandCommandsLeaveNoWord(t *testing.T) {
	t.Parallel()
	s := start(t, "-z", "10", "--shards", "3")
	before := s.log.String()
	long := strings.Repeat("y", 300)
	c, count := s.dial(), 0
	id := 0
	for range 50 {
		for _, tc := range []struct{ command, answer string }{
			{"use mail\n", "USING mail\n"},
			{"watch mail\n", "WATCHING 2\n"},
			{"put 0 0 60 2\nhi\n", "INSERTED %d\n"},
			{"reserve\n", "RESERVED %d 2\nhi\n"},
			{"touch %d\n", "TOUCHED\n"},
			{"release %d 1 0\n", "RELEASED\n"},
			{"reserve-with-timeout 0\n", "RESERVED %d 2\nhi\n"},
			{"bury %d 1\n", "BURIED\n"},
			{"kick 10\n", "KICKED 1\n"},
			{"delete %d\n", "DELETED\n"},
			{"delete %d\n", "NOT_FOUND\n"},
			{"reserve-with-timeout 0\n", "TIMED_OUT\n"},
			{"ignore mail\nignore default\n", "WATCHING 1\nNOT_IGNORED\n"},
			{"put 0 0 60 11\nhello world\n", "JOB_TOO_BIG\n"},
			{"put 0 0 x 1\n", "BAD_FORMAT\n"},
			{"put 0 0 60 2\nhi!!", "EXPECTED_CRLF\n"}, // takes an id
			{"nonsense\n", "UNKNOWN_COMMAND\n"},
			{"use -\n", "BAD_FORMAT\n"},
			{"\x00\xff\n", "UNKNOWN_COMMAND\n"},
			{long + "\n", "BAD_FORMAT\n"},
			{"pause-tube none 1\n", "NOT_FOUND\n"},
		} {
			if strings.HasPrefix(tc.command, "put 0 0 60 2\n") {
				id++
			}
			fill := func(text string) string { return strings.ReplaceAll(text, "%d", strconv.Itoa(id)) }
			answer := fill(tc.answer)
			if tc.command[0] == 0 {
				answer = "BAD_FORMAT\n" // a NUL goes before all else
			}
			c.says(fill(tc.command), answer)
			count++
		}
	}
	if count < 1000 {
		t.Errorf("only %d commands", count)
	}
	// Connections that end at all sorts of bad moments.
	for i, last := range []string{"", "put 0 0 60 5\nhe", "reserve", "reserve\n", "\r", long, "quit\n", strings.Repeat("stats\n", 500)} {
		d := s.dial()
		d.send(last)
		if i%2 == 0 {
			d.Conn.(*net.TCPConn).SetLinger(0)
		}
		d.Close()
	}
	c.awaits("total-connections", "9")
	c.awaits("current-connections", "1")
	if after := s.log.String(); after != before {
		t.Errorf("the log has grown by:\n%s", strings.TrimPrefix(after, before))
	}
	s.stop()
}

func TestManyTubes(t *testing.T) {
	const tubes = 150
	for _, shards := range []string{"1", "7", "1024"} {
		t.Run(shards, func(t *testing.T) {
			t.Parallel()
			s := start(t, "--shards", shards)
			producer, worker := s.dial(), s.dial()
			for i := range tubes {
				worker.says(fmt.Sprintf("watch tube-%d\n", i), fmt.Sprintf("WATCHING %d\n", i+2))
			}
			for i := range tubes {
				producer.says(fmt.Sprintf("use tube-%d\n", i), fmt.Sprintf("USING tube-%d\n", i))
				// Later jobs go first, so the order is not that of arrival.
				producer.says(fmt.Sprintf("put %d 0 60 1\nx\n", tubes-i), fmt.Sprintf("INSERTED %d\n", i+1))
			}
			for i := tubes; i > 0; i-- {
				worker.says("reserve\n", fmt.Sprintf("RESERVED %d 1\nx\n", i))
				worker.says(fmt.Sprintf("delete %d\n", i), "DELETED\n")
			}
			// One that waits in all of them is woken from any.
			worker.send("reserve\n")
			producer.awaits("current-waiting", "1")
			producer.says("use tube-70\n", "USING tube-70\n")
			producer.says("put 0 0 60 1\ny\n", fmt.Sprintf("INSERTED %d\n", tubes+1))
			worker.gets(fmt.Sprintf("RESERVED %d 1\ny\n", tubes+1))
			s.stop()
		})
	}
}

// A put that is under way when the server goes down takes the time that it
// needs, not all that it may have: its bytes are what the server waits for.
func TestShutdownEndsWithTheLastPut(t *testing.T) {
	t.Parallel()
	s := start(t, "--shutdown-timeout", "1h", "-z", "8M")
	const size = 5 << 20 // more than is taken on the word of a put line
	c, watcher := s.dial(), s.dial()
	body := strings.Repeat("x", size)
	c.send(fmt.Sprintf("put 0 0 60 %d\n%s", size, body[:size/2]))
	watcher.awaits("cmd-put", "1")
	s.signal(syscall.SIGTERM)
	watcher.closed()
	c.send(body[size/2:])
	c.says("\n", "INSERTED 1\n")
	c.closed()
	s.exits(0)
}

// As with the reference, -u with the user that the process already is needs no
// privileges.
func TestUserThatItIsAlready(t *testing.T) {
	t.Parallel()
	needRoot(t)
	cmd := asNobody(command(t, "-l", "127.0.0.1", "-p", "0", "-u", "nobody"))
	cmd.SysProcAttr.Credential.Groups = []uint32{65534}
	s := run(t, cmd)
	s.dial().says("use a\n", "USING a\n")
	checkUser(t, s, "nobody")
	s.stop()
}
