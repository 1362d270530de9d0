package main_test

// The crash test's connections: one that sends many commands at once and reads
// their answers, and one that looks at everything a server has.

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A crashConn is a connection of one goroutine.
type crashConn struct {
	net.Conn
	in *bufio.Reader
}

func crashDial(addr net.Addr) (*crashConn, error) {
	c, err := net.DialTimeout(addr.Network(), addr.String(), patience)
	if err != nil {
		return nil, err
	}
	return &crashConn{c, bufio.NewReaderSize(c, 64<<10)}, nil
}

// send sends commands while the caller reads answers already: a server does not
// read on from a client that does not read.
func (c *crashConn) send(commands []byte) {
	go c.Write(commands) // what fails is answered by no one, which is noticed
}

// answer reads one answer: its line, and the body if it has one.
func (c *crashConn) answer() (line string, body []byte, err error) {
	c.SetReadDeadline(time.Now().Add(patience))
	line, err = c.in.ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	f := strings.Fields(line)
	if len(f) > 1 && (f[0] == "RESERVED" || f[0] == "FOUND" || f[0] == "OK") {
		n, err := strconv.Atoi(f[len(f)-1])
		if err != nil || n < 0 || n > 1<<30 {
			return "", nil, fmt.Errorf("an answer begins with %q", line)
		}
		body = make([]byte, n+2)
		if _, err := io.ReadFull(c.in, body); err != nil {
			return "", nil, err
		}
		if string(body[n:]) != "\r\n" {
			return "", nil, fmt.Errorf("the body of %q is longer than that", line)
		}
		body = body[:n]
	}
	return line, body, nil
}

// ask sends one command and reads its answer.
func (c *crashConn) ask(format string, args ...any) (line string, body []byte, err error) {
	if _, err := fmt.Fprintf(c, format+"\r\n", args...); err != nil {
		return "", nil, err
	}
	return c.answer()
}

// says is ask for an answer that is known.
func (c *crashConn) says(want, format string, args ...any) error {
	line, _, err := c.ask(format, args...)
	if err == nil && line != want {
		err = fmt.Errorf("%s: answered %q, want %q", strings.SplitN(fmt.Sprintf(format, args...), "\r\n", 2)[0], line, want)
	}
	return err
}

// stats asks for stats, or for those of a tube.
func (c *crashConn) stats(command string) (map[string]int, error) {
	line, body, err := c.ask("%s", command)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "OK ") {
		return nil, fmt.Errorf("%s: answered %q", command, line)
	}
	m := make(map[string]int)
	for line := range strings.Lines(string(body)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			if n, err := strconv.Atoi(v); err == nil {
				m[k] = n
			}
		}
	}
	return m, nil
}

// look returns those of the jobs with these ids that there are.
func (c *crashConn) look(ids []uint64) (found []*crashFound, err error) {
	const atOnce = 64
	for len(ids) > 0 {
		some := ids[:min(len(ids), atOnce)]
		ids = ids[len(some):]
		var b []byte
		for _, id := range some {
			b = fmt.Appendf(b, "stats-job %d\r\npeek %d\r\n", id, id)
		}
		asked := time.Now()
		c.send(b)
		for _, id := range some {
			f, err := c.found(id)
			if err != nil {
				return nil, err
			}
			if f != nil {
				f.at = diffSpan{asked, time.Now()}
				found = append(found, f)
			}
		}
	}
	return found, nil
}

// found reads the answers to stats-job and peek; nil if there is no such job.
func (c *crashConn) found(id uint64) (*crashFound, error) {
	line, yaml, err := c.answer()
	if err != nil {
		return nil, err
	}
	peek, body, err := c.answer()
	switch {
	case err != nil:
		return nil, err
	case line == "NOT_FOUND" && peek == "NOT_FOUND":
		return nil, nil
	case !strings.HasPrefix(line, "OK "), peek != fmt.Sprintf("FOUND %d %d", id, len(body)):
		return nil, fmt.Errorf("job %d: stats-job answered %q, peek %q", id, line, peek)
	}
	f, err := crashParse(yaml)
	if err == nil && f.id != id {
		err = fmt.Errorf("stats-job %d answered of %d", id, f.id)
	}
	if err != nil {
		return nil, err
	}
	f.body = body
	if f.order == 0 {
		f.order, _ = crashTag(body)
	}
	return f, nil
}

// rotate returns the buried jobs of a tube in their order: each in turn is
// taken off the head, which only reserving it does, and buried again. Its
// reserves and buries count one more. pri knows the priorities of all.
func (c *crashConn) rotate(tube string, pri map[uint64]uint32) (ids []uint64, err error) {
	stats, err := c.stats("stats-tube " + tube)
	if err != nil {
		return nil, err
	}
	line, _, err := c.ask("use %s\r\npeek-buried", tube)
	if err == nil && line != "USING "+tube {
		err = fmt.Errorf("use %s: answered %q", tube, line)
	}
	for n := stats["current-jobs-buried"]; len(ids) < n && err == nil; {
		var id, size uint64
		if line, _, err = c.answer(); err != nil {
			break
		}
		if _, err = fmt.Sscanf(line, "FOUND %d %d", &id, &size); err != nil {
			return nil, fmt.Errorf("peek-buried in %s: answered %q", tube, line)
		}
		ids = append(ids, id)
		err = c.says(fmt.Sprintf("RESERVED %d %d", id, size), "reserve-job %d\r\nbury %d %d\r\npeek-buried", id, id, pri[id])
		if err == nil {
			if line, _, err = c.answer(); err == nil && line != "BURIED" {
				err = fmt.Errorf("bury %d: answered %q", id, line)
			}
		}
	}
	if err == nil {
		_, _, err = c.answer() // the last peek-buried
	}
	return ids, err
}
