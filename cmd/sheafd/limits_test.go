package main_test

// Limits: open files, connections, memory, idleness. And how little is logged.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFileLimitIsRaised(t *testing.T) {
	s := run(t, underShell(t, "ulimit -S -n 64; ulimit -H -n 512", "-l", "127.0.0.1", "-p", "0"))
	s.waitLog(" open-files=512 ")
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(limits)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if f := strings.Fields(rest); f[0] != "512" || f[1] != "512" {
				t.Errorf("limits: %s", line)
			}
			return
		}
	}
	t.Errorf("no line on open files:\n%s", limits)
}

// With no descriptor left the server serves those it has, and accepts again
// when one has gone.
func TestOutOfFiles(t *testing.T) {
	s := run(t, underShell(t, "ulimit -n 32", "-l", "127.0.0.1", "-p", "0"))
	var clients []*client
	for range 40 { // the kernel completes the connections that are not accepted yet
		clients = append(clients, s.dial())
	}
	first, last := clients[0], clients[len(clients)-1]
	s.waitLog("cannot accept connections for now")
	first.says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	last.send("reserve\n")
	for _, c := range clients[1:20] {
		c.Close()
	}
	last.gets("RESERVED 1 1\nx\n")
	s.waitLog("accepting connections again")
	first.says("use a\n", "USING a\n")
	s.stop()
}

// However many clients there are, the binlog has the descriptors that it needs:
// jobs are put through one segment after the other, and cleaned.
func TestOutOfFilesWithBinlog(t *testing.T) {
	dir := t.TempDir()
	s := run(t, underShell(t, "ulimit -n 48", "-l", "127.0.0.1", "-p", "0", "-b", dir, "-s", "65536", "--shards", "2", "--binlog-compression", "none"))
	var clients []*client
	for range 60 {
		clients = append(clients, s.dial())
	}
	s.waitLog("cannot accept connections for now")
	body := strings.Repeat("x", 8<<10)
	c := clients[0]
	c.says(fmt.Sprintf("put 0 0 60 %d\n%s\n", len(body), body), "INSERTED 1\n") // stays
	for id := 2; id < 500; id++ {
		c.says(fmt.Sprintf("use t%d\n", id%8), fmt.Sprintf("USING t%d\n", id%8))
		c.says(fmt.Sprintf("put 0 0 60 %d\n%s\n", len(body), body), fmt.Sprintf("INSERTED %d\n", id))
		c.says(fmt.Sprintf("delete %d\n", id), "DELETED\n")
	}
	if strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("the binlog wants for descriptors:\n%s", s.log.String())
	}
	for _, c := range clients[1:] {
		c.Close()
	}
	s.stop()
}

func TestMaxConnections(t *testing.T) {
	s := start(t, "--max-connections", "2")
	a, b := s.dial(), s.dial()
	a.says("use a\n", "USING a\n")
	b.says("use b\n", "USING b\n")
	s.dial().closed()
	s.waitLog("connection refused: too many")
	a.Close()
	b.awaits("current-connections", "1")
	// stats does not count a any more, the server may for a moment.
	until(t, "a connection is accepted after one was closed", func() bool {
		c := s.dial()
		c.send("use c\n")
		c.SetReadDeadline(time.Now().Add(patience))
		n, _ := c.Read(make([]byte, 100))
		return n > 0
	})
	b.says("use b\n", "USING b\n")
}

// The limit is about the connections of both protocols.
func TestMaxConnectionsOfBothProtocols(t *testing.T) {
	s := startGearman(t, "--max-connections", "2")
	b, g := s.dial(), dial(t, s.gearmanAddr())
	b.says("use b\n", "USING b\n")
	answers := func(c *client) bool {
		c.send("version\n")
		c.SetReadDeadline(time.Now().Add(patience))
		n, _ := c.Read(make([]byte, 100))
		return n > 0
	}
	if !answers(g) {
		t.Fatal("the second connection is not served")
	}
	s.dial().closed()
	dial(t, s.gearmanAddr()).closed()
	b.Close()
	until(t, "a connection is accepted after one was closed", func() bool { return answers(dial(t, s.gearmanAddr())) })
	s.stop()
}

func TestMaxMemory(t *testing.T) {
	s := start(t, "--max-memory", "1M", "--shards", "1", "-z", "300K")
	c := s.dial()
	put := "put 0 0 60 300000\n" + strings.Repeat("x", 300000) + "\n"
	// 64 KiB more or less are nothing here: three go in, a fourth does not.
	c.says(put, "INSERTED 1\n")
	c.says(put, "INSERTED 2\n")
	c.says(put, "INSERTED 3\n")
	c.says(put, "OUT_OF_MEMORY\n")
	c.says(put, "OUT_OF_MEMORY\n")
	c.says("use a\n", "USING a\n")
	c.says("delete 2\n", "DELETED\n")
	c.send(put)
	c.gets("INSERTED ")
	s.waitLog("as much as --max-memory allows")
}

// Where the system has no memory for a small job, its put is refused, and the log says
// that it is not for a cap.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	// The race detector takes more memory than the limit allows.
	s := run(t, exec.Command("/bin/sh", "-c", `ulimit -d 250000 && exec "$@"`, "sh", plainBuild(t), "-l", "127.0.0.1", "-p", "0"))
	c := s.dial()
	answers := bufio.NewReader(c)
	puts := strings.Repeat("put 0 0 60 200\n"+strings.Repeat("x", 200)+"\n", 100)
	for full := false; !full; {
		c.send(puts)
		for range 100 {
			line, err := answers.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			full = full || line == "OUT_OF_MEMORY\r\n"
		}
	}
	s.waitLog("the system has none left")
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	s := start(t, "--idle-timeout", "1s") // a slow machine has to say hello within it
	waiting, idle, torn := s.dial(), s.dial(), s.dial()
	waiting.send("reserve-with-timeout 2\n")
	begin := time.Now()
	torn.send("put 0 0 60 5\nhe")
	idle.says("use a\n", "USING a\n")
	idle.closed()
	torn.closed()
	if took := time.Since(begin); took < time.Second {
		t.Errorf("closed after %v", took)
	}
	waiting.gets("TIMED_OUT\n") // who waits in reserve is not idle
	waiting.says("use a\n", "USING a\n")
}

// At the default level the log has what starts and stops, and nothing about
// commands and connections.
func TestLogIsQuiet(t *testing.T) {
	s := start(t)
	before := s.log.String()
	for range 20 {
		c := s.dial()
		c.says("put 0 0 60 1\nx\n", "INSERTED ")
		c.send("nonsense\n\nput x\n")
		c.Close()
	}
	c := s.dial()
	c.awaits("current-connections", "1")
	c.Close()
	s.signal(syscall.SIGTERM)
	s.exits(0)
	if n := strings.Count(before, "\n"); n != 2 {
		t.Errorf("%d lines at the start, want 2:\n%s", n, before)
	}
	if n := strings.Count(s.log.String(), "\n"); n != 4 {
		t.Errorf("%d lines in all, want 4:\n%s", n, s.log.String())
	}
}

func TestVerbosity(t *testing.T) {
	for _, tc := range []struct {
		flag          string
		debug, source bool
	}{
		{"--log-format=text", false, false},
		{"-V", true, false},
		{"-VV", true, true},
		{"-VVVV", true, true},
		{"--verbose", true, false},
	} {
		s := start(t, tc.flag)
		c := s.dial()
		c.says("use a\n", "USING a\n")
		c.send("nonsense\n")
		c.gets("UNKNOWN_COMMAND\n")
		c.Conn.(interface{ SetLinger(int) error }).SetLinger(0) // a reset is a reason to tell
		c.Close()
		s.stop()
		if got := strings.Contains(s.log.String(), "level=DEBUG"); got != tc.debug {
			t.Errorf("%s: debug lines %v, want %v:\n%s", tc.flag, got, tc.debug, s.log.String())
		}
		if got := strings.Contains(s.log.String(), " source="); got != tc.source {
			t.Errorf("%s: sources %v, want %v:\n%s", tc.flag, got, tc.source, s.log.String())
		}
	}
}

// A duration is text in the log, also as JSON.
func TestDurationsInTheLog(t *testing.T) {
	for format, key := range map[string]string{"text": "timeout=5s", "json": `"timeout":"5s"`} {
		s := start(t, "--log-format", format)
		s.stop()
		s.waitLog(key)
	}
}

func TestLogFormatJSON(t *testing.T) {
	s := start(t, "--log-format", "json", "-c")
	s.dial().says("use a\n", "USING a\n")
	s.stop()
	lines := 0
	for line := range strings.Lines(s.log.String()) {
		lines++
		var event struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Time == "" || event.Level == "" || event.Msg == "" {
			t.Errorf("%q: %+v, %v", line, event, err)
		}
	}
	if lines != 5 {
		t.Errorf("%d lines, want 5:\n%s", lines, s.log.String())
	}
}
