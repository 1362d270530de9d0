package main_test

// How transcripts of the Gearman differential test are read and run. They
// themselves are in gearman_sessions_*_test.go. Line by line:
//
//	# a remark
//	c> SUBMIT_JOB f|u|work     sent, a packet; #1 is the handle of the first job
//	c> status                  sent, an admin line: its first word is in lower case
//	c>> \x00REQ…               sent, these bytes
//	c>>> \x00RE                the same, where that is not all of something
//	c< JOB_CREATED #1          what comes next; of a table, one of its lines
//	c< (closed)                the server closes the connection
//	c closes                   the client closes
//	c gone                     … until no list of workers has it any more
//	c sees status: f\t1\t0\t0   until that is a line of the answer to status; so
//	                           with other tables, * for a descriptor
//
// A word before < or > names the connection; each is made when it is first
// named. Before the next line is sent all that has come must have been told, on
// all connections. Lines of one connection that stand together are in order,
// but for NOOP and what is said of jobs: those are streams of their own.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A gdiffTranscript is a session with a server, and what it shows.
type gdiffTranscript struct {
	name string
	// sheafdOnly is set where sheaf knowingly differs; referenceOnly shows what
	// the reference does there.
	sheafdOnly, referenceOnly bool
	session                   string
}

// gdiffTranscribe runs all transcripts on all programs, as many at once as there
// are places.
func gdiffTranscribe(t *testing.T, places chan struct{}, programs []gdiffProgram, transcripts []gdiffTranscript) {
	var all sync.WaitGroup
	for _, p := range programs {
		for _, tr := range transcripts {
			if tr.sheafdOnly && p.reference || tr.referenceOnly && !p.reference {
				continue
			}
			all.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				t.Run(tr.name+" on "+p.name, func(t *testing.T) { tr.run(t, p) })
			})
		}
	}
	all.Wait()
}

// run plays the session with a server of its own and stops at the first line
// that is not as it says.
func (tr gdiffTranscript) run(t *testing.T, p gdiffProgram) {
	s, err := gdiffStart(p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.kill()
	play := gdiffPlay{server: s, conns: map[string]*gdiffPlayed{}}
	lines := strings.Split(strings.TrimSpace(tr.session), "\n")
	for i, line := range append(lines, "(end)") {
		if err := play.line(strings.TrimSpace(line)); err != nil {
			t.Fatalf("line %d: %s\n%v", i+1, strings.TrimSpace(line), err)
		}
	}
	for _, c := range play.conns {
		c.Close()
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// gdiffPlay is a session that is going on.
type gdiffPlay struct {
	server *gdiffServer
	conns  map[string]*gdiffPlayed
	sent   bool // something was, and what it brings about has not been waited for
	echoes int
}

// A gdiffPlayed is a connection of a transcript, with what came and has not been
// told.
type gdiffPlayed struct {
	*gdiffConn
	got    []gdiffItem
	closed bool // by the server, and told
}

var gdiffSession = regexp.MustCompile(`^([a-z]+)(>>>|>>|>|<| closes$| gone$| sees) ?(.*)$`)

func (p *gdiffPlay) line(line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	m := gdiffSession.FindStringSubmatch(line)
	if m == nil && line != "(end)" {
		return fmt.Errorf("not a line of a transcript")
	}
	if m == nil || m[2] != "<" {
		if err := p.told(); err != nil || m == nil {
			return err
		}
	}
	name, what, arg := m[1], m[2], m[3]
	c := p.conns[name]
	if c == nil {
		conn, err := gdiffDial(p.server.addr)
		if err != nil {
			return err
		}
		c = &gdiffPlayed{gdiffConn: conn}
		p.conns[name] = c
	}
	switch what {
	case "<":
		return p.expect(c, arg)
	case " closes":
		delete(p.conns, name)
		return c.Close()
	case " gone":
		return p.gone(name, c)
	case " sees":
		table, want, _ := strings.Cut(arg, ": ")
		return diffUntil(want, func() (bool, error) {
			lines, err := c.table(table)
			for i, l := range lines {
				if table == "workers" {
					l = gdiffWorker.ReplaceAllString(l, "* ")
				}
				lines[i] = p.server.handles.said(gdiffItem{args: []string{l}}).String()
			}
			return slices.Contains(lines, want), err
		})
	}
	p.sent = what != ">>>"
	b := []byte(gdiffSpoken(arg))
	if what == ">" {
		b = gdiffParse(string(b)).bytes(p.server.handles)
	}
	return c.send(b)
}

// gdiffParse reads a request of a transcript.
func gdiffParse(s string) gdiffRequest {
	name, rest, _ := strings.Cut(s, " ")
	typ, ok := gearTypes[name]
	if !ok {
		return gdiffLine(s)
	}
	q := gdiffRequest{typ: typ}
	if n := gearNames[typ].args; n > 0 {
		q.args = strings.SplitN(rest, "|", n)
	}
	return q
}

// told waits until all is there that was brought about, and complains if not
// all of it was told.
func (p *gdiffPlay) told() error {
	if err := p.settle(); err != nil {
		return err
	}
	for name, c := range p.conns {
		if c.gdiffConn.closed != nil && !c.closed {
			return fmt.Errorf("before it, and not told: %s< (closed); %v", name, c.got)
		}
		if len(c.got) > 0 {
			return fmt.Errorf("before it, and not told: %s< %v", name, c.got)
		}
	}
	return nil
}

// settle waits until the server has done what was sent.
func (p *gdiffPlay) settle() error {
	if !p.sent {
		return nil
	}
	p.sent = false
	// Twice: what the first round makes happen on one connection may have to be
	// told on another.
	for range 2 {
		p.echoes++
		echo := fmt.Sprintf("echo %d", p.echoes)
		for name, c := range p.conns {
			if c.gdiffConn.closed != nil {
				continue
			}
			c.send(gearAppend(nil, gearEchoReq, echo))
			for end := time.Now().Add(gdiffPatience); ; {
				i, err := c.next(end)
				if c.gdiffConn.closed != nil {
					break
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if i.typ == gearEchoRes && i.args[0] == echo {
					break
				}
				c.got = append(c.got, i)
			}
		}
	}
	return nil
}

// expect takes what is told off what has come, or waits for it.
func (p *gdiffPlay) expect(c *gdiffPlayed, want string) error {
	if want == "(closed)" {
		items, err := c.ends()
		if got := append(c.got, items...); len(got) > 0 {
			return fmt.Errorf("first came %v", got)
		}
		c.closed = true
		return err
	}
	w := gdiffParse(gdiffSpoken(want))
	lane := gdiffItem(w).lane()
	if err := p.settle(); err != nil {
		return err
	}
	// A job's first JOB_CREATED gives it its name.
	match := func(i gdiffItem) bool {
		if i.typ == gearJobCreated && w.typ == gearJobCreated {
			if _, known := p.server.handles.handles[w.args[0]]; !known {
				if _, named := p.server.handles.names[i.args[0]]; !named && p.server.handles.name(i.args[0], w.args[0]) == nil {
					return true
				}
			}
		}
		return gdiffItem(w).is(p.server.handles.said(i))
	}
	for end := time.Now().Add(gdiffPatience); ; {
		for at, i := range c.got {
			if p.server.handles.said(i).lane() != lane {
				continue
			}
			if !match(i) {
				return fmt.Errorf("got %s", p.server.handles.said(i))
			}
			c.got = slices.Delete(c.got, at, at+1)
			return nil
		}
		i, err := c.next(end)
		if err != nil {
			return err
		}
		c.got = append(c.got, i)
	}
}

// gone closes c, which has told its id, and waits until the server has noticed.
// What that brings about may take longer, and is waited for by who expects it.
func (p *gdiffPlay) gone(name string, c *gdiffPlayed) error {
	id := "gone-" + name
	if err := c.send(gearAppend(nil, gearTypes["SET_CLIENT_ID"], id)); err != nil {
		return err
	}
	p.sent = true
	if err := p.told(); err != nil {
		return err
	}
	delete(p.conns, name)
	c.Close()
	conn, err := gdiffDial(p.server.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	p.sent = true
	return diffUntil("the server closes its end", func() (bool, error) {
		workers, err := conn.table("workers")
		return !strings.Contains(strings.Join(workers, "\n"), " "+id+" :"), err
	})
}

// table asks for a table and returns its lines, without the dot.
func (c *gdiffConn) table(line string) (lines []string, err error) {
	if err := c.send([]byte(line + "\n")); err != nil {
		return nil, err
	}
	for end := time.Now().Add(gdiffPatience); ; {
		i, err := c.next(end)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		if i.typ != 0 {
			return nil, fmt.Errorf("%s: %v", line, i)
		}
		if i.args[0] == "." {
			return lines, nil
		}
		lines = append(lines, i.args[0])
	}
}
