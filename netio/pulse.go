package netio

// Keeping the runtime's monitor (sysmon) awake while connections are served.

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// beat is how long the monitor may sleep while there is something to do, and so
	// about how long a connection may have to wait because another takes its time.
	// (A monitor that is awake polls the network every 10 ms.)
	beat = 100 * time.Millisecond
	// beats is how many beats after a connection was last awake a pulse ends. Each beat
	// costs the wake-up of a thread or two. Beginning a pulse costs as much as a few
	// beats, since a monitor that was woken looks around every 20 µs at first.
	beats = 10
)

// A pulse makes up for what the calls in syscall.go do not tell the runtime. A
// thread that the poller has woken for one connection wakes no other to poll in its
// place; it polls again itself, when the connection parks. If that takes long, the
// monitor polls instead, and makes connections share a processor. But when all
// processors are idle the monitor goes to sleep, until the next timer or for up to a
// minute, and only a system call that the runtime knows of ends that sleep early.
// Until then nobody else would be served, although a processor is free.
//
// So a timer runs as long as connections wake up, which bounds that sleep, and the
// first connection that wakes up after a pause makes such a call. That costs a server
// that has something to do now and then some 0.2 % of a core, an idle server nothing,
// and a connection no more than reading a word that is seldom written.
type pulse struct {
	// left is how many beats remain, 0 when the pulse has ended. Connections set it to
	// beats, the timer counts it down. The timer is set again by the connection that
	// found it 0, and otherwise only by the timer itself, so never by two at once.
	left  atomic.Int32
	timer *time.Timer // set unless left is 0

	processors *Processors // looks at each beat
}

func newPulse(processors *Processors) *pulse {
	p := &pulse{processors: processors}
	p.timer = time.AfterFunc(time.Hour, p.beat)
	p.timer.Stop()
	return p
}

// awake is called by connections' goroutines before each read.
func (p *pulse) awake() {
	if p.left.Load() == beats || p.left.Swap(beats) != 0 {
		return
	}
	p.processors.wake()
	p.timer.Reset(beat)
	unix.Syscall(unix.SYS_GETPID, 0, 0, 0) // the cheapest call that the runtime is told of; it is not told of unix.Getpid
}

// beat is called by the timer.
func (p *pulse) beat() {
	if p.left.Add(-1) > 0 {
		p.timer.Reset(beat) // before look, which may have to wait for a garbage collection to end
		p.processors.look(time.Now())
	} else {
		p.processors.rest()
	}
}
