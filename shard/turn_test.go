package shard

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// idle tells whether it is nobody's turn at the first shard.
func (g *rig) idle() bool { return g.shards[0].mailbox.top.Load() == &parked }

// TestPanicIsFatal: a fault in a shard ends the process, also when it happens
// on the goroutine of a client, which recovers from its own.
func TestPanicIsFatal(t *testing.T) {
	if os.Getenv("SHEAF_TEST_PANIC") != "" {
		g := newRig(1, NewDirectory(), 0)
		p := g.newPerson()
		for !g.idle() {
			runtime.Gosched()
		}
		defer func() { recover() }() // as netio does
		for id := range uint64(2) {  // what no client can bring about
			p.do(0, Request{Op: Put, Tube: p.used, ID: 1 + id/2, Body: []byte("\r\n")})
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanicIsFatal$", "-test.timeout="+patience.String())
	cmd.Env = append(os.Environ(), "SHEAF_TEST_PANIC=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: two jobs with one id in a shard") || !strings.Contains(string(out), "TestPanicIsFatal") {
		t.Errorf("the process ends with %v:\n%s", err, out)
	}
}

// TestTurns: an idle shard is served by who posts, before Post returns, and is
// idle again then. What comes while somebody else has the turn is left to the
// shard's goroutine, so nobody is kept from going on by others' commands.
func TestTurns(t *testing.T) {
	d := NewDirectory()
	g := newRig(1, d, 0)
	defer g.stop()
	a, b := g.newPerson(), g.newPerson()
	put := func(p *person) *Request {
		return &Request{Op: Put, Tube: p.used, TTR: 1, Body: []byte("\r\n")}
	}
	for !g.idle() { // the shard's own goroutine has begun
		runtime.Gosched()
	}
	a.post(0, put(a))
	if !a.waiter.Answered() || !g.idle() {
		t.Error("an idle shard has not answered, or is not idle again, when Post returns")
	}
	d.Skip(groupSize - 1)
	d.mu.Lock() // which the next job needs, for a page
	done := make(chan bool)
	go func() {
		a.post(0, put(a))
		done <- a.waiter.Answered()
	}()
	for g.idle() {
		runtime.Gosched()
	}
	b.post(0, put(b), put(b)) // returns, though it is a's turn
	select {
	case <-done:
		t.Error("Post returns in the middle of the turn that it has taken")
	default:
	}
	if b.waiter.Answered() {
		t.Error("two goroutines have turns at once")
	}
	d.mu.Unlock()
	if !<-done {
		t.Error("Post returns before the turn that it has taken has ended")
	}
	b.await()
}
