package main_test

// Signals: drain, shut down, shut down now, and the one that means nothing.

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDrain(t *testing.T) {
	s := start(t)
	c := s.dial()
	c.says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	s.signal(syscall.SIGUSR1)
	s.waitLog("draining")
	c.says("put 0 0 60 1\ny\n", "DRAINING\n")
	if got := c.stats("draining"); got != "true" {
		t.Errorf("stats: draining: %s", got)
	}
	// The rest goes on, new connections included, and a second signal changes
	// nothing.
	s.signal(syscall.SIGUSR1)
	d := s.dial()
	d.says("reserve\n", "RESERVED 1 1\nx\n")
	d.says("release 1 0 0\n", "RELEASED\n")
	d.says("put 0 0 60 1\ny\n", "DRAINING\n")
	d.says("delete 1\n", "DELETED\n")
	s.stop()
}

func TestShutdown(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, "--shutdown-timeout", "1m")
			idle, waiting, putting := s.dial(), s.dial(), s.dial()
			idle.says("use a\n", "USING a\n")
			waiting.says("watch a\n", "WATCHING 2\n")
			waiting.send("reserve\n")
			putting.says("use b\n", "USING b\n")
			putting.send("put 0 0 60 5\nhe")
			putting.isRead()
			idle.awaits("current-waiting", "1")
			s.signal(sig)
			s.waitLog("shutting down")
			idle.closed()
			waiting.closed()
			refused(t, s.addrs[0])
			// The put was in flight. It is finished, answered, and the last.
			putting.send("llo\n")
			putting.gets("INSERTED 1\n")
			putting.closed()
			s.exits(0)
			s.waitLog("msg=stopped")
			if strings.Contains(s.log.String(), "level=WARN") {
				t.Errorf("warnings:\n%s", s.log.String())
			}
		})
	}
}

// refused checks that nobody accepts connections at addr any more.
func refused(t *testing.T, addr net.Addr) {
	t.Helper()
	until(t, fmt.Sprintf("no connections are accepted at %v", addr), func() bool {
		c, err := net.Dial(addr.Network(), addr.String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// The jobs of the connections that are closed first do not go to clients that
// wait on those that are closed after. A server that did not see to it would
// close them in an order of its own and on goroutines of their own: it passes
// only if the 20 that wait all come before the 20 that hold a job.
func TestShutdownGivesNoJobs(t *testing.T) {
	s := start(t, "--shards", "2")
	var waiting []*client
	for i := range 20 {
		holder, w := s.dial(), s.dial()
		holder.says("put 0 0 60 1\nx\n", fmt.Sprintf("INSERTED %d\n", i+1))
		holder.says("reserve\n", fmt.Sprintf("RESERVED %d 1\nx\n", i+1))
		w.says("watch a\nwatch b\nwatch c\n", "WATCHING 2\nWATCHING 3\nWATCHING 4\n")
		waiting = append(waiting, w)
	}
	for _, w := range waiting {
		w.send("reserve\n")
	}
	s.dial().awaits("current-waiting", "20")
	s.signal(syscall.SIGTERM)
	for _, w := range waiting {
		w.closed()
	}
	s.exits(0)
}

// A client that is in the middle of a long pipeline hears the answers to all that
// was done of it, though most of what it has sent is never read.
func TestShutdownInAPipeline(t *testing.T) {
	t.Parallel()
	const puts = 200_000
	dir := filepath.Join(t.TempDir(), "log")
	s := start(t, "-b", dir)
	c := s.dial()
	c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	go io.WriteString(c, strings.Repeat("put 0 0 60 1\r\nx\r\n", puts))
	c.gets("INSERTED 1\n")
	s.signal(syscall.SIGTERM)
	c.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %d bytes of answers: %v", len(rest), err)
	}
	c.Close()
	s.exits(0)
	answered := 1 + strings.Count(string(rest), "INSERTED ")
	s = start(t, "-b", dir)
	s.dial().awaits("current-jobs-ready", fmt.Sprint(answered))
	t.Logf("%d of %d puts were served", answered, puts)
	s.stop()
}

// Who has sent half a command, and nothing more, is not waited for: a line in
// either protocol, a header, a packet, a body.
func TestShutdownOfHalfACommand(t *testing.T) {
	t.Parallel()
	s := startGearman(t, "--shutdown-timeout", "1h", "-z", "1M")
	var clients []*client
	for i, half := range []string{"put 0 0 60", "put 0 0 60 5\nhe", "stat", "\x00REQ\x00\x00", "\x00REQ\x00\x00\x00\x07\x00\x00\x00\x08f\x00u", "\x00REQ\x00\x00\x00\x07\x00\x02\x00\x00f\x00u"} {
		addr := s.addrs[0]
		if i > 1 {
			addr = s.gearmanAddr()
		}
		c := dial(t, addr)
		c.send(half)
		c.isRead()
		clients = append(clients, c)
	}
	s.signal(syscall.SIGTERM)
	for _, c := range clients {
		c.closed()
	}
	s.exits(0)
}

// deaf puts a job, asks for it more often than the system has room for, and does not
// read the answers. The server is writing when deaf returns.
func (s *server) deaf() {
	s.t.Helper()
	const size, times = 60_000, 1000
	c := s.dial()
	c.send(fmt.Sprintf("put 0 0 60 %d\n%s\n", size, strings.Repeat("x", size)))
	var id uint64
	if _, err := fmt.Sscanf(c.line(), "INSERTED %d", &id); err != nil {
		s.t.Fatal(err)
	}
	c.send(strings.Repeat(fmt.Sprintf("peek %d\n", id), times))
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		s.t.Fatal(err)
	}
}

// What has to be cut off in the end does not keep the binlog from being synced and
// closed: the manifest says that the server came to a good end.
func TestShutdownDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	running := func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "manifest"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(b), "\nboot ")
	}
	s := withBinlog(t, dir, "-f", "60000", "--shutdown-timeout", "100ms")
	s.deaf()
	c := s.dial()
	c.says("use a\n", "USING a\n")
	c.send("put 0 0 60 5\nhe")
	c.isRead()
	if !running() {
		t.Error("the manifest does not say that a server has it")
	}
	s.signal(syscall.SIGTERM)
	s.exits(0)
	c.closed()
	s.waitLog("connections were cut off")
	if running() {
		t.Error("the binlog was not closed")
	}
	s = withBinlog(t, dir)
	s.dial().says("put 0 0 60 1\nx\n", "INSERTED 3\n") // the half put was the second
	s.stop()
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(second.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, "--shutdown-timeout", "1h")
			s.deaf()
			s.signal(syscall.SIGTERM)
			s.waitLog("shutting down")
			time.Sleep(time.Second)   // as the first was a second ago
			s.signal(syscall.SIGUSR1) // does not count
			s.signal(second)
			s.exits(1)
			s.waitLog(`msg="exiting at once: second signal" signal=` + second.String())
		})
	}
}

// GNU timeout signals its child, and then the group that the child is in.
func TestSignalThatComesTwice(t *testing.T) {
	t.Parallel()
	s := start(t, "--shutdown-timeout", "1h")
	c := s.dial()
	c.says("use a\n", "USING a\n")
	c.send("put 0 0 60 5\nhe")
	c.isRead()
	s.signal(syscall.SIGTERM)
	s.waitLog("shutting down") // else the two may be one
	s.signal(syscall.SIGTERM)
	s.waitLog("taken for the same")
	c.send("llo\n")
	c.gets("INSERTED 1\n")
	s.exits(0)
}

func TestBrokenPipesAreIgnored(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "-l", "127.0.0.1", "-p", "0", "-V")
	cmd.Stderr = w
	s := run(t, cmd)
	w.Close()
	// Read its log by hand up to the line that says it serves, then no more.
	var log strings.Builder
	r.SetReadDeadline(time.Now().Add(patience))
	for b := make([]byte, 4096); !strings.Contains(log.String(), "started"); {
		n, err := r.Read(b)
		if err != nil {
			t.Fatalf("%v after %q", err, log.String())
		}
		log.Write(b[:n])
	}
	s.addrs = listening(log.String())
	r.Close()

	s.signal(syscall.SIGPIPE)
	s.signal(syscall.SIGUSR1) // is logged, into the broken pipe
	s.dial().awaits("draining", "true")
	// A client that is gone when its answers come.
	c := s.dial()
	c.send(strings.Repeat("stats\n", 1000))
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	s.dial().says("use a\n", "USING a\n")
	s.stop()
}

// Standard error is a pipe that is full and that nobody reads: jobs are served as ever,
// and signals heard, the second one too.
func TestNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	for _, stuck := range []bool{false, true} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for err == nil {
			_, err = w.Write([]byte("x"))
		}
		path := filepath.Join(shortDir(t), "s")
		cmd := command(t, "-l", "unix:"+path, "-VV", "--shutdown-timeout", "1h")
		cmd.Stderr = w
		s := run(t, cmd)
		s.addrs = []net.Addr{&net.UnixAddr{Name: path, Net: "unix"}}
		until(t, "it listens", func() bool {
			c, err := net.Dial("unix", path)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
		c := s.dial()
		if stuck {
			s.deaf()
		}
		s.signal(syscall.SIGUSR1)
		c.awaits("draining", "true")
		s.signal(syscall.SIGTERM)
		if !stuck {
			s.exits(0)
			continue
		}
		c.closed()              // so the first one was heard
		time.Sleep(time.Second) // as that was a second ago
		s.signal(syscall.SIGTERM)
		s.exits(1)
	}
}
