package main_test

// How transcripts are read and run. They themselves are in
// differential_sessions_test.go and differential_sessions_jobs_test.go. Line by
// line:
//
//	# a remark
//	-> put 0 0 10 3\r\nabc\r\n  sent, these bytes; ¦ is where a segment ends
//	<- INSERTED 1               the next reply, without its last CRLF
//	<- OK                       the next reply is YAML …
//	<: state: ready             … and has this line
//	<~ age: [1-4]               … or one that is like this, where it may take long
//	<- (nothing)                no reply for now
//	<- (closed)                 the server closes the connection
//	close                       the client closes, until the server has, too
//	half-close                  the client closes its sending side only
//	wait 1.2s                   time goes by
//	waiting 2                   until so many clients wait in reserve
//	drain                       SIGUSR1, until the server has it
//	restart                     SIGKILL, and a new server on the same binlog
//
// A letter before -> <- <: <~ close half-close names the connection; each is made
// when it is first named. After close, the name may be used again.

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A diffTranscript is a session with a server, and what it shows.
type diffTranscript struct {
	name string
	// sheafdOnly is set where sheaf follows 1.13 and the reference, 1.12,
	// differs, or where the reference has a fault; referenceOnly shows the
	// fault.
	sheafdOnly, referenceOnly bool
	session                   string
}

// diffTranscripts are the doubtful cases of the protocol, one by one. All of
// them are what the reference does, unless they say otherwise.
var diffTranscripts = slices.Concat(diffLineTranscripts, diffJobTranscripts)

// diffSilence is how long nothing must come for there to be no reply.
const diffSilence = 60 * time.Millisecond

var diffSessionLine = regexp.MustCompile(`^([A-Z]?) ?(->|<-|<:|<~|close|half-close|waiting|wait|drain|restart)(?: (.*))?$`)

// diffTranscribe runs all transcripts on all programs, as many at once as there
// are places.
func diffTranscribe(t *testing.T, places chan struct{}, programs []diffProgram, transcripts []diffTranscript) {
	var all sync.WaitGroup
	for _, p := range programs {
		for _, tr := range transcripts {
			if tr.sheafdOnly && !p.asIs || tr.referenceOnly && p.asIs {
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

const (
	// diffLag is how much longer than it says a session may take for its seconds
	// to be what it says: what it waits for, it waits for at least half a second
	// before or behind the next second.
	diffLag = 500 * time.Millisecond
	// diffPlays is how often a session that takes longer is played.
	diffPlays = 5
)

// diffTimed is what shows seconds in a session, or depends on them.
var diffTimed = regexp.MustCompile(`\bwait [0-9]|<: (age|time-left|pause-time-left): |DEADLINE_SOON|reserve-with-timeout [1-9]`)

// run plays the session on p. A session with seconds in it that was held up by a
// slow machine says nothing if it fails: it is played again. A difference fails
// each time.
func (tr diffTranscript) run(t *testing.T, p diffProgram) {
	for n := 1; ; n++ {
		lag, err := tr.play(p)
		if err == nil {
			return
		}
		if n == diffPlays || lag < diffLag || !diffTimed.MatchString(tr.session) {
			t.Fatal(err)
		}
		t.Logf("played again, for it was held up for %v: %v", lag, err)
	}
}

// play plays the session with a server of its own and stops at the first line
// that is not as it says. It also returns how much longer that took than the
// session says.
func (tr diffTranscript) play(p diffProgram) (lag time.Duration, err error) {
	s, err := diffStart(p)
	if err != nil {
		return 0, err
	}
	play := diffPlay{server: s, conns: map[string]*diffSocket{"": s.first}}
	defer func() { play.server.kill() }()
	begun := time.Now()
	for i, line := range strings.Split(strings.TrimSpace(tr.session), "\n") {
		if err := play.line(strings.TrimSpace(line)); err != nil {
			return time.Since(begun) - play.waited, fmt.Errorf("line %d of %q on %s: %s\n%w", i+1, tr.name, p.name, strings.TrimSpace(line), err)
		}
	}
	for _, c := range play.conns {
		c.close()
	}
	return 0, play.server.stop()
}

// diffPlay is a session that is going on.
type diffPlay struct {
	server *diffServer
	conns  map[string]*diffSocket
	yaml   string        // the last YAML reply
	waited time.Duration // as the session says
}

func (p *diffPlay) line(line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	m := diffSessionLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("not a line of a transcript")
	}
	name, what, arg := m[1], m[2], m[3]
	c := p.conns[name]
	if c == nil {
		var err error
		if c, err = diffDial(p.server.path()); err != nil {
			return err
		}
		p.conns[name] = c
	}
	switch what {
	case "->":
		for i, segment := range strings.Split(arg, "¦") {
			b, err := strconv.Unquote(`"` + strings.ReplaceAll(segment, `"`, `\"`) + `"`)
			if err != nil {
				return fmt.Errorf("%q: %w", segment, err)
			}
			if i > 0 {
				c.drained(20 * time.Millisecond)
			}
			if err := c.send([]byte(b)); err != nil {
				return err
			}
		}
	case "<-":
		return p.reply(c, arg)
	case "<:":
		if !strings.Contains(p.yaml, "\n"+arg+"\n") {
			return fmt.Errorf("not in %q", p.yaml)
		}
	case "<~":
		if ok, err := regexp.MatchString("\n"+arg+"\n", p.yaml); !ok || err != nil {
			return fmt.Errorf("not in %q (%v)", p.yaml, err)
		}
	case "close":
		delete(p.conns, name)
		return p.server.hangUp(c)
	case "half-close":
		c.halfClose()
	case "wait":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return err
		}
		time.Sleep(d)
		p.waited += d
	case "waiting":
		for end := time.Now().Add(5 * time.Second); ; {
			if err := c.send([]byte("stats\r\n")); err != nil {
				return err
			}
			got, err := c.wait(5 * time.Second)
			if err != nil {
				return err
			}
			if strings.Contains(got, "\ncurrent-waiting: "+arg+"\n") {
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("there are never %s clients that wait: %s", arg, got)
			}
		}
	case "drain":
		return p.server.drain()
	case "restart":
		p.server.crash()
		for _, c := range p.conns {
			c.close()
		}
		s, err := diffStartIn(p.server.dir, p.server.diffProgram)
		if err != nil {
			return err
		}
		p.server, p.conns = s, map[string]*diffSocket{"": s.first}
	}
	return nil
}

// reply reads a reply on c, which must be want.
func (p *diffPlay) reply(c *diffSocket, want string) error {
	switch want {
	case "(nothing)":
		p.waited += diffSilence
		if got, err := c.wait(diffSilence); err == nil {
			return fmt.Errorf("got %q", got)
		}
		if c.eof || len(c.in) > 0 {
			return fmt.Errorf("closed: %v, got %q", c.eof, c.in)
		}
		return nil
	case "(closed)":
		if !c.ended(5*time.Second) || len(c.in) > 0 {
			return fmt.Errorf("closed: %v, got %q", c.eof, c.in)
		}
		return nil
	}
	got, err := c.wait(5 * time.Second)
	if err != nil {
		return err
	}
	if strings.HasPrefix(got, "OK ") {
		// What the reply answers shows in it.
		verb := "stats"
		switch {
		case strings.Contains(got, "\ntube: "):
			verb = "stats-job"
		case strings.Contains(got, "\nname: "):
			verb = "stats-tube"
		case strings.Contains(got, "\n- "):
			verb = "list-tubes"
		}
		if got, err = diffNormal(verb, got, p.server.diffProgram); err != nil {
			return err
		}
		p.yaml = got
		if want == "OK" {
			return nil
		}
	}
	w, err := strconv.Unquote(`"` + strings.ReplaceAll(want, `"`, `\"`) + `"`)
	if err != nil {
		return err
	}
	if got != w+"\r\n" {
		return fmt.Errorf("got %q", got)
	}
	return nil
}
