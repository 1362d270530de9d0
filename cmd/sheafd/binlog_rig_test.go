package main_test

// What the tests of the binlog have in common: a connection that sends many
// commands at once, jobs that are known by their bodies, and directories that
// are looked at from outside.
//
//	binlog_full_test.go      a full disk
//	binlog_bounded_test.go   how much disk is used
//	binlog_start_test.go     directories that cannot be used, or are in use
//	binlog_damage_test.go    directories that are not as they were written
//	binlog_restart_test.go   what a restart keeps: everything
//	binlog_import_test.go    coming from beanstalkd
//	binlog_sync_test.go      in which order it writes, syncs and answers
//	binlog_forms_test.go     compressions, and jobs larger than a segment

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// withBinlog starts a sheafd with that binlog, and further arguments.
func withBinlog(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	return start(t, append([]string{"-b", dir}, args...)...)
}

// kill ends the server as a crash does.
func (s *server) kill() {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	<-s.ended
}

// end ends the server with SIGTERM or SIGKILL.
func (s *server) end(sig syscall.Signal) {
	s.t.Helper()
	if sig == syscall.SIGKILL {
		s.kill()
	} else {
		s.stop()
	}
}

// A talker is a connection that may send many commands before it reads.
type talker struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (s *server) talk() *talker {
	s.t.Helper()
	if len(s.addrs) == 0 {
		s.t.Fatalf("no address in the log:\n%s", s.log.String())
	}
	return talkTo(s.t, s.addrs[0])
}

func talkTo(t *testing.T, addr net.Addr) *talker {
	t.Helper()
	c := dial(t, addr)
	return &talker{c.Conn, t, bufio.NewReaderSize(c.Conn, 64<<10)}
}

// reply reads one answer: its line, and the body if it has one.
func (c *talker) reply() (line string, body []byte) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatalf("reading an answer: %v after %q", err, line)
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch word, _, _ := strings.Cut(line, " "); word {
	case "OK", "FOUND", "RESERVED":
		n, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
		if err != nil {
			c.t.Fatalf("an answer begins with %q", line)
		}
		body = make([]byte, n+2)
		if _, err := io.ReadFull(c.in, body); err != nil {
			c.t.Fatalf("reading the body of %q: %v", line, err)
		}
		if !bytes.HasSuffix(body, []byte("\r\n")) {
			c.t.Fatalf("the body of %q does not end there: %q", line, body)
		}
		body = body[:n]
	}
	return line, body
}

// all sends n commands while it reads their answers. command appends the i-th
// to b.
func (c *talker) all(n int, command func(b []byte, i int) []byte, answer func(i int, line string, body []byte)) {
	c.t.Helper()
	written := make(chan struct{})
	go func() { // what fails is answered by no one, which is noticed
		defer close(written)
		var b []byte
		for i := range n {
			if b = command(b, i); len(b) > 32<<10 || i == n-1 {
				if _, err := c.Write(b); err != nil {
					return
				}
				b = b[:0]
			}
		}
	}()
	for i := range n {
		line, body := c.reply()
		answer(i, line, body)
	}
	<-written
}

// repeat sends a command for each number, all at once. Each answer must begin
// with want.
func (c *talker) repeat(ids []uint64, format, want string) {
	c.t.Helper()
	c.all(len(ids),
		func(b []byte, i int) []byte {
			return append(strconv.AppendUint(append(b, format[:strings.IndexByte(format, '#')]...), ids[i], 10),
				format[strings.IndexByte(format, '#')+1:]+"\r\n"...)
		},
		func(i int, line string, _ []byte) {
			if !strings.HasPrefix(line, want) {
				c.t.Fatalf("%s, the %d. of %d, #=%d: answered %q, want %q", format, i+1, len(ids), ids[i], line, want)
			}
		})
}

// ask sends one command and reads its answer.
func (c *talker) ask(format string, args ...any) (line string, body []byte) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, format+"\r\n", args...); err != nil {
		c.t.Fatal(err)
	}
	return c.reply()
}

// says is ask for an answer that is known.
func (c *talker) says(want, format string, args ...any) {
	c.t.Helper()
	if line, _ := c.ask(format, args...); line != want {
		c.t.Fatalf("%.60s: answered %q, want %q", fmt.Sprintf(format, args...), line, want)
	}
}

// put puts a job with a delay of 0 into the tube that is used.
func (c *talker) put(pri uint32, body []byte) uint64 {
	c.t.Helper()
	return c.putDelayed(pri, 0, body)
}

func (c *talker) putDelayed(pri, delay uint32, body []byte) (id uint64) {
	c.t.Helper()
	line, _ := c.ask("put %d %d 60 %d\r\n%s", pri, delay, len(body), body)
	if _, err := fmt.Sscanf(line, "INSERTED %d", &id); err != nil {
		c.t.Fatalf("put of %d bytes: answered %q", len(body), line)
	}
	return id
}

// yaml returns the answer to a stats command; nil if it is NOT_FOUND.
func (c *talker) yaml(command string) map[string]string {
	c.t.Helper()
	line, body := c.ask("%s", command)
	if line == "NOT_FOUND" {
		return nil
	}
	return c.parse(command, line, body)
}

func (c *talker) parse(command, line string, body []byte) map[string]string {
	c.t.Helper()
	if !strings.HasPrefix(line, "OK ") {
		c.t.Fatalf("%s: answered %q", command, line)
	}
	m := make(map[string]string)
	for l := range strings.Lines(string(body)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(l), ": "); ok {
			m[k] = strings.Trim(v, `"`)
		}
	}
	return m
}

// number returns what stats has for key.
func (c *talker) number(key string) int {
	c.t.Helper()
	v, ok := c.yaml("stats")[key]
	n, err := strconv.Atoi(v)
	if !ok || err != nil {
		c.t.Fatalf("stats: %s: %q", key, v)
	}
	return n
}

// A knownJob is what a test knows of a job.
type knownJob struct {
	tube, state string
	pri         uint32
	serial      uint64 // of which the body is made
	size        int
}

// body returns size bytes that no other serial number has, and that do not
// shrink.
func body(serial uint64, size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d %d", serial, size))).Read(b)
	return b
}

// known are all jobs that a server has, by id.
type known map[uint64]*knownJob

func (k known) ids() []uint64 { return slices.Sorted(maps.Keys(k)) }

// set notes a new state of some jobs.
func (k known) set(ids []uint64, state string) {
	for _, id := range ids {
		k[id].state = state
	}
}

// check compares the server's jobs with those that are known: there is none
// that is not.
func (k known) check(c *talker) {
	c.t.Helper()
	ids := k.ids()
	bad := 0
	wrong := func(format string, args ...any) {
		if bad++; bad <= 10 {
			c.t.Errorf(format, args...)
		}
	}
	stats := ""
	c.all(2*len(ids),
		func(b []byte, i int) []byte {
			return fmt.Appendf(b, "%s %d\r\n", [...]string{"stats-job", "peek"}[i%2], ids[i/2])
		},
		func(i int, line string, got []byte) {
			id := ids[i/2]
			j := k[id]
			if i%2 == 0 {
				stats = line + "\n" + string(got)
				return
			}
			head, yaml, _ := strings.Cut(stats, "\n")
			if head == "NOT_FOUND" || line == "NOT_FOUND" {
				wrong("job %d (%+v) is not there: %q, %q", id, j, head, line)
				return
			}
			m := c.parse("stats-job", head, []byte(yaml))
			if m["tube"] != j.tube || m["state"] != j.state || m["pri"] != fmt.Sprint(j.pri) {
				wrong("job %d: tube %s, state %s, pri %s; want %+v", id, m["tube"], m["state"], m["pri"], j)
			}
			if !bytes.Equal(got, body(j.serial, j.size)) {
				wrong("job %d has another body", id)
			}
		})
	m := c.yaml("stats")
	n := 0
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		v, _ := strconv.Atoi(m["current-jobs-"+state])
		n += v
	}
	if n != len(ids) {
		wrong("there are %d jobs, want %d", n, len(ids))
	}
	if bad > 0 {
		c.t.FailNow()
	}
}

// putAll puts jobs until one is refused, or most are there.
func (k known) putAll(c *talker, tube string, size, most int, serial *uint64) (refused bool) {
	c.t.Helper()
	c.says("USING "+tube, "use %s", tube)
	first := *serial
	*serial += uint64(most)
	c.all(most,
		func(b []byte, i int) []byte {
			return append(append(fmt.Appendf(b, "put %d 0 60 %d\r\n", i, size), body(first+uint64(i), size)...), "\r\n"...)
		},
		func(i int, line string, _ []byte) {
			var id uint64
			switch _, err := fmt.Sscanf(line, "INSERTED %d", &id); {
			case line == "OUT_OF_MEMORY":
				refused = true
			case err != nil:
				c.t.Fatalf("put: answered %q", line)
			case k[id] != nil:
				c.t.Fatalf("id %d was given twice", id)
			default:
				k[id] = &knownJob{tube, "ready", uint32(i), first + uint64(i), size}
			}
		})
	return refused
}

// diskUse is what du says of a directory, in bytes.
func diskUse(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var st syscall.Stat_t // a file that goes meanwhile takes nothing
		if err == nil && d.Type().IsRegular() && syscall.Lstat(path, &st) == nil {
			bytes += st.Blocks * 512
		}
		return nil
	})
	return bytes
}

// fingerprint tells of all that is in a directory: names, modes, owners, times
// and contents.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %d.%d %d %d", path, info.Mode(), st.Uid, st.Gid, st.Ino, info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %x", len(content), sha256.Sum256(content))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// untouched runs f, which must leave the directory as it is.
func untouched(t *testing.T, dir string, f func()) {
	t.Helper()
	before := fingerprint(t, dir)
	f()
	if after := fingerprint(t, dir); after != before {
		t.Errorf("the directory was touched:\nbefore\n%s\nafter\n%s", before, after)
	}
}

// segmentsOf returns the paths of the segments in a directory, oldest first.
func segmentsOf(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "segment.*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(filepath.Ext(a), filepath.Ext(b)) })
	return paths
}
