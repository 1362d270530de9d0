package perf

// A Gearman server for tests: enough of one, and broken in the way that a test
// wants.

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// gearmanFlaws say what a fake does wrong with every nth job; 0 is never.
type gearmanFlaws struct {
	lose     int // says JOB_CREATED and forgets
	twice    int // gives a job to two workers
	damage   int // changes a byte of a workload
	sameID   int // gives a handle out again
	rename   int // tells a worker the name of another function
	forget   int // does not tell the client that its job is done
	echo     int // gives the client its workload instead of the result
	swap     int // gives the client the result of another job
	again    int // tells the client twice
	fail     int // tells the client that its job has failed
	hangup   int // closes the connection instead of an answer
	nonsense int // answers what no server answers
	mute     int // does not answer any more
}

type gearmanJob struct {
	number   int
	handle   string
	function string
	workload []byte
	client   *gearmanFakeConn // nil: a background job
	extra    int              // assignments in excess
}

// A gearmanFake serves all connections under one lock, which it holds while it
// writes, too: its clients always read.
type gearmanFake struct {
	gearmanFlaws
	tb        testing.TB
	l         net.Listener
	mu        sync.Mutex
	conns     map[*gearmanFakeConn]bool
	functions map[string][]*gearmanJob // those that wait
	last      int
	result    []byte // of the job before
	unique    int    // how long uniques have to be
	uniques   map[string]bool
	wg        sync.WaitGroup
}

type gearmanFakeConn struct {
	net.Conn
	canDo  []string
	asleep bool
	held   []*gearmanJob
}

func newGearmanFake(tb testing.TB, f gearmanFlaws) *gearmanFake {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &gearmanFake{gearmanFlaws: f, tb: tb, l: l, conns: make(map[*gearmanFakeConn]bool),
		functions: make(map[string][]*gearmanJob), unique: 36, uniques: make(map[string]bool)}
	s.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c := &gearmanFakeConn{Conn: nc}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(c) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *gearmanFake) addr() string { return s.l.Addr().String() }

// left is how many functions and jobs there are.
func (s *gearmanFake) left() (functions, jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, waiting := range s.functions {
		jobs += len(waiting)
	}
	return len(s.functions), jobs
}

func (s *gearmanFake) serve(c *gearmanFakeConn) {
	for r := bufio.NewReader(c); ; {
		first, err := r.Peek(1)
		if err != nil {
			break
		}
		if first[0] != 0 {
			line, err := r.ReadString('\n')
			if err != nil {
				break
			}
			s.admin(c, strings.Fields(line))
			continue
		}
		var header [packetHeader]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			break
		}
		body := make([]byte, binary.BigEndian.Uint32(header[8:]))
		if _, err := io.ReadFull(r, body); err != nil {
			break
		}
		if !s.command(c, packetType(binary.BigEndian.Uint32(header[4:])), body) {
			break
		}
	}
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	for f, waiting := range s.functions { // nobody waits for these any more
		s.functions[f] = slices.DeleteFunc(waiting, func(j *gearmanJob) bool { return j.client == c })
	}
	for _, j := range c.held {
		if j.client == nil || s.conns[j.client] {
			s.enqueue(j)
		}
	}
}

func (s *gearmanFake) admin(c *gearmanFakeConn, words []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case slices.Equal(words, []string{"version"}):
		io.WriteString(c, "OK fake\n")
	case len(words) == 3 && words[0] == "drop":
		for other := range s.conns {
			if slices.Contains(other.canDo, words[2]) {
				io.WriteString(c, "ERR there are still connected workers or executing clients\r\n")
				return
			}
		}
		delete(s.functions, words[2])
		io.WriteString(c, "OK\r\n")
	case slices.Equal(words, []string{"status"}):
		for f, waiting := range s.functions {
			fmt.Fprintf(c, "%s\t%d\t0\t0\n", f, len(waiting))
		}
		io.WriteString(c, ".\n")
	default:
		io.WriteString(c, "ERR UNKNOWN_COMMAND Unknown+server+command\n")
	}
}

func (s *gearmanFake) enqueue(j *gearmanJob) {
	s.functions[j.function] = append(s.functions[j.function], j)
	for c := range s.conns { // all of them, as gearmand does
		if c.asleep && slices.Contains(c.canDo, j.function) {
			c.asleep = false
			c.tell(packetNoop)
		}
	}
}

// tell sends a packet.
func (c *gearmanFakeConn) tell(t packetType, args ...string) {
	p := appendPacket(nil, t, args...)
	copy(p, magicResponse)
	c.Write(p)
}

// command serves a packet and reports whether the connection goes on.
func (s *gearmanFake) command(c *gearmanFakeConn, t packetType, body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t {
	case packetEcho:
		c.tell(packetEchoed, string(body))
	case packetCanDo:
		c.canDo = append(c.canDo, string(body))
		s.functions[string(body)] = s.functions[string(body)]
	case packetPreSleep:
		c.asleep = true
		for _, f := range c.canDo {
			if c.asleep && len(s.functions[f]) > 0 {
				c.asleep = false
				c.tell(packetNoop)
			}
		}
	case packetSubmit, packetSubmitBG:
		return s.submit(c, t, body)
	case packetGrab:
		s.grab(c)
	case packetWorkComplete:
		handle, result, _ := bytes.Cut(body, []byte{0})
		at := slices.IndexFunc(c.held, func(j *gearmanJob) bool { return j.handle == string(handle) })
		if at < 0 {
			c.tell(packetError, "JOB_NOT_FOUND", "Job given in work result not found")
			return true
		}
		j := c.held[at]
		c.held = slices.Delete(c.held, at, at+1)
		s.complete(j, result)
	default:
		s.tb.Errorf("the fake got a %v", t)
	}
	return true
}

func (s *gearmanFake) submit(c *gearmanFakeConn, t packetType, body []byte) bool {
	args := bytes.SplitN(body, []byte{0}, 3)
	if len(args) != 3 || len(args[1]) != s.unique || s.uniques[string(args[1])] {
		s.tb.Errorf("the fake got a %v %.200q: want a unique of %d bytes that no other job has had", t, body, s.unique)
		return false
	}
	if s.unique > 0 {
		s.uniques[string(args[1])] = true
	}
	s.last++
	n := s.last
	switch {
	case every(s.hangup, n):
		return false
	case every(s.nonsense, n):
		c.tell(packetError, "PARDON", "what was that?")
		return true
	case every(s.mute, n):
		return true
	}
	j := &gearmanJob{number: n, function: string(args[0]), workload: args[2]}
	if t == packetSubmit {
		j.client = c
	}
	if every(s.damage, n) {
		j.workload[len(j.workload)-1] ^= 1
	}
	if j.handle = fmt.Sprintf("H:fake:%d", n); every(s.sameID, n) && n > 1 {
		j.handle = fmt.Sprintf("H:fake:%d", n-1)
	}
	c.tell(packetCreated, j.handle)
	if !every(s.lose, n) {
		s.enqueue(j)
	}
	return true
}

func (s *gearmanFake) grab(c *gearmanFakeConn) {
	for _, f := range c.canDo {
		if len(s.functions[f]) == 0 {
			continue
		}
		j := s.functions[f][0]
		if every(s.twice, j.number) && j.extra == 0 {
			j.extra++
		} else {
			s.functions[f] = s.functions[f][1:]
		}
		c.held = append(c.held, j)
		name := j.function
		if every(s.rename, j.number) {
			name += "-"
		}
		c.tell(packetAssign, j.handle, name, string(j.workload))
		return
	}
	c.tell(packetNoJob)
}

func (s *gearmanFake) complete(j *gearmanJob, result []byte) {
	if j.client == nil || !s.conns[j.client] {
		return
	}
	right := result
	switch {
	case every(s.forget, j.number):
		return
	case every(s.fail, j.number):
		j.client.tell(packetWorkFail, j.handle)
		return
	case every(s.echo, j.number):
		result = j.workload
	case every(s.swap, j.number) && s.result != nil:
		result = s.result
	}
	s.result = right
	j.client.tell(packetWorkComplete, j.handle, string(result))
	if every(s.again, j.number) {
		j.client.tell(packetWorkComplete, j.handle, string(result))
	}
}
