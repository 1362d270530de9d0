package main_test

// A client that says one thing at a time, and what the kernel tells of its
// connection. (A talker, of binlog_rig_test.go, says much at once.)

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A client is a connection to a server.
type client struct {
	net.Conn
	t *testing.T
}

func dial(t *testing.T, addr net.Addr) *client {
	t.Helper()
	c, err := net.DialTimeout(addr.Network(), addr.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{c, t}
}

// send sends text, with CRLF for each newline.
func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		c.t.Fatalf("sending %q: %v", text, err)
	}
}

// gets reads an answer, which must be want, with CRLF for each newline.
func (c *client) gets(want string) {
	c.t.Helper()
	want = strings.ReplaceAll(want, "\n", "\r\n")
	got := make([]byte, len(want))
	c.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		c.t.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

// says sends a command and reads its answer.
func (c *client) says(command, answer string) {
	c.t.Helper()
	c.send(command)
	c.gets(answer)
}

// isRead waits until the server has read what was sent over TCP and IPv4, as
// the kernel tells of the server's end: that its receive queue is empty.
func (c *client) isRead() {
	c.t.Helper()
	end := fmt.Sprintf(":%04X", c.RemoteAddr().(*net.TCPAddr).Port)
	ours := fmt.Sprintf(":%04X", c.LocalAddr().(*net.TCPAddr).Port)
	until(c.t, "the server has read what was sent", func() bool {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			c.t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			// sl local_address rem_address st tx_queue:rx_queue ...
			f := strings.Fields(line)
			if strings.HasSuffix(f[1], end) && strings.HasSuffix(f[2], ours) && strings.HasSuffix(f[4], ":00000000") {
				return true
			}
		}
		return false
	})
}

// closed reads the end of the connection: nothing more is answered. What the
// server had not read yet may make a reset of it.
func (c *client) closed() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(c)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("got %q (%v), want the end of the connection", rest, err)
	}
}

// stats returns the value that stats has for key.
func (c *client) stats(key string) string {
	c.t.Helper()
	c.send("stats\n")
	var head string
	c.SetReadDeadline(time.Now().Add(patience))
	for !strings.HasSuffix(head, "\r\n") {
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err != nil {
			c.t.Fatal(err)
		}
		head += string(b)
	}
	var n int
	if _, err := fmt.Sscanf(head, "OK %d\r\n", &n); err != nil {
		c.t.Fatalf("stats answered %q", head)
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(c, body); err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && k == key {
			return v
		}
	}
	c.t.Fatalf("stats has no %s:\n%s", key, body)
	return ""
}

// awaits waits until stats has that value for key.
func (c *client) awaits(key, want string) {
	c.t.Helper()
	until(c.t, "stats: "+key+": "+want, func() bool { return c.stats(key) == want })
}

// line reads an answer's first line.
func (c *client) line() string {
	c.t.Helper()
	return strings.TrimSuffix(readLines(c, 1), "\r\n")
}

// readLines reads that many newlines and what is before them.
func readLines(c *client, lines int) string {
	c.t.Helper()
	var got []byte
	c.SetReadDeadline(time.Now().Add(patience))
	for b := make([]byte, 1); lines > 0; got = append(got, b[0]) {
		if _, err := c.Read(b); err != nil {
			c.t.Fatalf("%v after %q", err, got)
		}
		if b[0] == '\n' {
			lines--
		}
	}
	return string(got)
}
