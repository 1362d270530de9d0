package perf

// A server for tests: enough of beanstalkd, and broken in the way that a test
// wants.

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// flaws say what a fake does wrong with every nth job; 0 is never.
type flaws struct {
	lose    int // says INSERTED and forgets
	twice   int // gives a job to two clients
	again   int // gives a job again after it was deleted
	damage  int // changes a byte of a body
	cut     int // leaves the end of a body out
	swap    int // gives the body of another job
	sameID  int // gives an id out again
	hangup  int // closes the connection instead of an answer
	nonsens int // answers what no server answers
	mute    int // does not answer any more
	keep    int // buries a job instead of having it ready
	hasty   int // has no patience with a delay
	strange int // gives a job of another tube to one who did not ask for it
	queue   int // has a job wait behind all others, however urgent it is
	peek    int // shows the body of another job
	full    int // takes no job from that one on
	crowd   int // serves no connection beyond that many
	refuse  int // deletes no job from that one on, by its id
	hide    int // says NOT_FOUND of a job that is there
	soon    int // says DEADLINE_SOON to who has nothing
	shut    int // says TIMED_OUT instead of giving a job

	stall   time.Duration // everything stands still that long, once
	stallAt int           // before that put
	late    time.Duration // so long is RESERVED on its way
	lateOf  int           // of every nth job when it is given first
}

type fakeJob struct {
	id    int
	pri   int
	tube  string
	body  []byte
	state string // ready, reserved, buried, delayed
	extra int    // deliveries in excess
	given int
	ttr   time.Duration
	end   *time.Timer // of its TTR
}

// A fake serves all connections under one lock.
type fake struct {
	flaws
	tb       testing.TB
	l        net.Listener
	mu       sync.Mutex
	change   *sync.Cond
	jobs     map[int]*fakeJob
	ready    map[string][]*fakeJob
	last     int
	puts     int
	reserves int
	conns    map[net.Conn]bool
	closed   bool
	wg       sync.WaitGroup
}

func newFake(tb testing.TB, f flaws) *fake {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &fake{flaws: f, tb: tb, l: l, jobs: make(map[int]*fakeJob), ready: make(map[string][]*fakeJob), conns: make(map[net.Conn]bool)}
	s.change = sync.NewCond(&s.mu)
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			over := s.crowd > 0 && len(s.conns) > s.crowd
			s.mu.Unlock()
			s.wg.Go(func() {
				if over {
					c.Close()
				}
				s.serve(c)
			})
		}
	})
	tb.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		s.closed = true
		for c := range s.conns {
			c.Close()
		}
		s.change.Broadcast()
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *fake) addr() string { return s.l.Addr().String() }

// left is how many jobs there are.
func (s *fake) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs)
}

// every reports whether this is the nth; 0 is never.
func every(n, i int) bool { return n > 0 && i%n == 0 }

// A fakeConn is one connection's state.
type fakeConn struct {
	use   string
	watch map[string]bool
	held  map[int]*fakeJob
	gone  bool
}

func (s *fake) serve(c net.Conn) {
	f := &fakeConn{use: "default", watch: map[string]bool{"default": true}, held: make(map[int]*fakeJob)}
	// Commands are read ahead, so that a hang-up is seen while a reserve waits.
	lines := make(chan func() string, 1<<16)
	s.wg.Go(func() {
		defer close(lines)
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				break
			}
			words := strings.Fields(line)
			var body []byte
			if words[0] == "put" {
				size, _ := strconv.Atoi(words[4])
				body = make([]byte, size+2)
				if _, err := io.ReadFull(r, body); err != nil {
					break
				}
				body = body[:size]
			}
			lines <- func() string { return s.command(f, words, body) }
		}
		s.mu.Lock()
		f.gone = true
		s.change.Broadcast()
		s.mu.Unlock()
	})
	w := bufio.NewWriter(c)
	for do := range lines {
		answer := do()
		if answer == "hang up" {
			break
		}
		if s.isLate(answer) {
			w.Flush()
			time.Sleep(s.late)
		}
		if answer != "mute" {
			w.WriteString(answer + "\r\n")
		}
		if len(lines) == 0 {
			w.Flush()
		}
	}
	c.Close()
	for range lines {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	for _, j := range f.held {
		s.makeReady(j)
	}
}

func (s *fake) makeReady(j *fakeJob) {
	if s.jobs[j.id] == j {
		j.state = "ready"
		ready := s.ready[j.tube]
		at := len(ready)
		if !every(s.queue, s.puts) {
			for at > 0 && ready[at-1].pri > j.pri {
				at--
			}
		}
		s.ready[j.tube] = slices.Insert(ready, at, j)
		s.change.Broadcast()
	}
}

// hurried reports whether f has a job that it has a second left for.
func (f *fakeConn) hurried() bool {
	for _, j := range f.held {
		if j.ttr <= time.Second {
			return true
		}
	}
	return false
}

func (s *fake) isLate(answer string) bool {
	var id int
	if n, _ := fmt.Sscanf(answer, "RESERVED %d", &id); n == 0 || !every(s.lateOf, id) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[id]
	return j != nil && j.given == 1
}

// timeTo has a job come again when its TTR is over and f still has it.
func (s *fake) timeTo(f *fakeConn, j *fakeJob) {
	j.given++
	if j.end != nil {
		j.end.Stop()
	}
	var end *time.Timer
	end = time.AfterFunc(j.ttr, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if j.end == end && f.held[j.id] == j && !s.closed {
			delete(f.held, j.id)
			s.makeReady(j)
		}
	})
	j.end = end
}

func (s *fake) command(f *fakeConn, words []string, body []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := 0
	if len(words) > 1 {
		id, _ = strconv.Atoi(words[1])
	}
	j := s.jobs[id]
	switch words[0] {
	case "put":
		return s.put(f, words, body)
	case "reserve", "reserve-with-timeout":
		return s.reserve(f, words[0] == "reserve")
	case "delete":
		if j == nil || j.state == "reserved" && f.held[id] == nil {
			return "NOT_FOUND"
		}
		if s.refuse > 0 && id >= s.refuse {
			return "INTERNAL_ERROR"
		}
		delete(f.held, id)
		if every(s.again, id) && j.extra == 0 {
			j.extra++
			s.makeReady(j)
			return "DELETED"
		}
		delete(s.jobs, id)
		s.ready[j.tube] = slices.DeleteFunc(s.ready[j.tube], func(other *fakeJob) bool { return other == j && j.extra == 0 })
		return "DELETED"
	case "release", "bury", "touch":
		if j = f.held[id]; j == nil {
			return "NOT_FOUND"
		}
		switch words[0] {
		case "touch":
			j.end.Reset(j.ttr)
			return "TOUCHED"
		case "bury":
			delete(f.held, id)
			j.state = "buried"
			return "BURIED"
		}
		delete(f.held, id)
		s.makeReady(j)
		return "RELEASED"
	case "kick":
		n := 0
		for _, state := range []string{"buried", "delayed"} { // the latter if there are none of the former
			for _, j := range s.jobs {
				if j.tube == f.use && j.state == state && n < id {
					s.makeReady(j)
					n++
				}
			}
			if n > 0 {
				break
			}
		}
		return fmt.Sprintf("KICKED %d", n)
	case "kick-job":
		if j == nil || j.state != "buried" || every(s.hide, id) {
			return "NOT_FOUND"
		}
		s.makeReady(j)
		return "KICKED"
	case "peek":
		if j == nil || every(s.hide, id) {
			return "NOT_FOUND"
		}
		body := j.body
		for _, other := range s.jobs {
			if every(s.peek, id) && other != j {
				body = other.body
			}
		}
		return fmt.Sprintf("FOUND %d %d\r\n%s", id, len(body), body)
	case "stats-tube":
		states := make(map[string]int)
		for _, j := range s.jobs {
			if j.tube == words[1] {
				states[j.state]++
			}
		}
		text := "---\n"
		for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
			text += fmt.Sprintf("current-jobs-%s: %d\n", state, states[state])
		}
		return fmt.Sprintf("OK %d\r\n%s", len(text), text)
	case "stats-job":
		if j == nil || every(s.hide, id) {
			return "NOT_FOUND"
		}
		return "OK 3\r\nabc"
	case "stats", "list-tubes":
		text := fmt.Sprintf("---\nversion: \"fake\"\ncurrent-jobs-ready: %d\n", len(s.jobs))
		return fmt.Sprintf("OK %d\r\n%s", len(text), text)
	case "use":
		f.use = words[1]
		return "USING " + f.use
	case "list-tube-used":
		return "USING " + f.use
	case "watch":
		f.watch[words[1]] = true
		return fmt.Sprintf("WATCHING %d", len(f.watch))
	case "ignore":
		delete(f.watch, words[1])
		return fmt.Sprintf("WATCHING %d", len(f.watch))
	}
	return "UNKNOWN_COMMAND"
}

func (s *fake) put(f *fakeConn, words []string, body []byte) string {
	s.puts++
	if s.puts == s.stallAt {
		time.Sleep(s.stall) // with the lock: nobody is served
	}
	switch {
	case s.full > 0 && s.puts >= s.full:
		return "DRAINING"
	case every(s.hangup, s.puts):
		return "hang up"
	case every(s.nonsens, s.puts):
		return "PARDON"
	case every(s.mute, s.puts):
		return "mute"
	}
	if !every(s.sameID, s.puts) || s.last == 0 {
		s.last++
	}
	j := &fakeJob{id: s.last, tube: f.use, body: body}
	j.pri, _ = strconv.Atoi(words[1])
	ttr, _ := strconv.Atoi(words[3])
	j.ttr = time.Duration(ttr) * time.Second
	if every(s.lose, s.puts) {
		return fmt.Sprintf("INSERTED %d", j.id)
	}
	if every(s.damage, s.puts) {
		j.body = bytes.Clone(body)
		j.body[len(body)-1] ^= 1
	}
	if every(s.cut, s.puts) {
		j.body = body[:len(body)-1]
	}
	if other := s.jobs[s.last-1]; every(s.swap, s.puts) && other != nil {
		j.body, other.body = other.body, j.body
	}
	s.jobs[j.id] = j
	if every(s.keep, s.puts) {
		j.state = "buried"
		return fmt.Sprintf("INSERTED %d", j.id)
	}
	if delay, _ := strconv.Atoi(words[2]); delay > 0 && !every(s.hasty, s.puts) {
		j.state = "delayed"
		time.AfterFunc(time.Duration(delay)*time.Second, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if j.state == "delayed" { // and has not been kicked
				s.makeReady(j)
			}
		})
	} else {
		s.makeReady(j)
	}
	return fmt.Sprintf("INSERTED %d", j.id)
}

func (s *fake) reserve(f *fakeConn, wait bool) string {
	for {
		var best *fakeJob
		for tube := range f.watch {
			if r := s.ready[tube]; len(r) > 0 && (best == nil || r[0].id < best.id) {
				best = r[0]
			}
		}
		for _, r := range s.ready {
			if best != nil && len(r) > 0 && every(s.strange, best.id) && !f.watch[r[0].tube] {
				best = r[0]
			}
		}
		s.reserves++
		switch {
		case every(s.soon, s.reserves):
			return "DEADLINE_SOON"
		case best != nil && !wait && every(s.shut, s.reserves):
			return "TIMED_OUT"
		case best != nil:
			s.ready[best.tube] = s.ready[best.tube][1:]
			if every(s.twice, best.id) && best.extra == 0 {
				best.extra++
				s.ready[best.tube] = append([]*fakeJob{best}, s.ready[best.tube]...)
			}
			best.state = "reserved"
			f.held[best.id] = best
			s.timeTo(f, best)
			return fmt.Sprintf("RESERVED %d %d\r\n%s", best.id, len(best.body), best.body)
		case !wait && f.hurried():
			return "DEADLINE_SOON"
		case !wait:
			return "TIMED_OUT"
		case f.gone || s.closed:
			return "hang up"
		}
		s.change.Wait()
	}
}
