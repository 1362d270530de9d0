package shard

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
)

// idle tells whether it is nobody's turn at the first shard.
func (g *rig) idle() bool { return g.shards[0].mailbox.top.Load() == &parked }

// bomb is a directory that has the shard panic.
type bomb struct{ counter }

func (b *bomb) Enter(uint64, int) { panic("boom") }

// TestPanicIsFatal: a fault in a shard ends the process, also when it happens
// on the goroutine of a client, which recovers from its own.
func TestPanicIsFatal(t *testing.T) {
	if os.Getenv("SHEAF_TEST_PANIC") != "" {
		g := newRig(1, new(bomb), 0)
		p := g.newPerson()
		for !g.idle() {
			runtime.Gosched()
		}
		defer func() { recover() }() // as netio does
		p.do(0, Request{Op: Put, Tube: p.used, Body: []byte("\r\n")})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanicIsFatal$", "-test.timeout="+patience.String())
	cmd.Env = append(os.Environ(), "SHEAF_TEST_PANIC=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: boom in a shard") || !strings.Contains(string(out), "TestPanicIsFatal") {
		t.Errorf("the process ends with %v:\n%s", err, out)
	}
}

// TestTurns: an idle shard is served by who posts, before Post returns, and is
// idle again then. What comes while somebody else has the turn is left to the
// shard's goroutine, so nobody is kept from going on by others' commands.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}), make(chan struct{})
		d := &gated{entered: entered, leave: leave}
		g := newRig(1, d, 0)
		defer g.stop()
		a, b := g.newPerson(), g.newPerson()
		synctest.Wait()
		put := func(p *person) *Request {
			return &Request{Op: Put, Tube: p.used, TTR: 1, Body: []byte("\r\n")}
		}
		a.post(0, put(a))
		if !a.waiter.Answered() {
			t.Error("an idle shard does not answer before Post returns")
		}
		if !g.idle() {
			t.Error("a shard that has answered is not idle")
		}
		d.closed.Store(true)
		done := make(chan bool)
		go func() {
			a.post(0, put(a))
			done <- a.waiter.Answered()
		}()
		<-entered
		b.post(0, put(b), put(b)) // does not wait for a's turn to end
		if b.waiter.Answered() {
			t.Error("two goroutines have turns at once")
		}
		leave <- struct{}{}
		if !<-done {
			t.Error("Post returns before the turn that it has taken has ended")
		}
		<-entered // b's, on another goroutine: a has gone on
		d.closed.Store(false)
		leave <- struct{}{}
		b.await()
	})
}

// gated is a directory that holds up a shard that enters a job, if closed.
type gated struct {
	counter
	closed         atomic.Bool
	entered, leave chan struct{}
}

func (d *gated) Enter(uint64, int) {
	if d.closed.Load() {
		d.entered <- struct{}{}
		<-d.leave
	}
}
