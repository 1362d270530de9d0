package netio

// What keeps the runtime's monitor (sysmon) awake while connections are served.

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// beat is how long the monitor may sleep while there is something to do, and so
// about how long a connection may wait because another takes its time; when it is
// awake it polls the network every 10 ms. A pulse ends so many beats after a
// connection was last awake: each costs the wake-up of a thread or two, and to begin
// one costs as much as a few, since a monitor that was woken looks around every 20 µs
// at first.
const (
	beat  = 100 * time.Millisecond
	beats = 10
)

// A pulse makes up for what the calls in syscall.go do not tell the runtime. A
// thread that the poller has woken for one connection wakes no other to poll in its
// place; it polls itself, when the connection parks. If that takes long, it is the
// monitor that polls, and that has connections share a processor. But when all
// processors are idle the monitor goes to sleep, until the next timer and for up to a
// minute, and what ends that sleep early is a system call that the runtime knows of:
// then nobody else would be served, with a processor to spare.
//
// So a timer is set as long as connections wake up, which bounds that sleep; and the
// first that wakes up after a pause makes such a call. That costs a server that has
// something to do now and then some 0.2 % of a core, an idle one nothing, and a
// connection no more than to read a word that is seldom written.
type pulse struct {
	// left is how many beats there are until it ends, 0 when it has ended. Connections
	// set it to the most, the timer counts it down; who finds or makes it 0 knows that
	// nobody else sets the timer.
	left  atomic.Int32
	timer *time.Timer // set unless left is 0

	processors *Processors // which looks at each beat
}

func newPulse(processors *Processors) *pulse {
	p := &pulse{processors: processors}
	p.timer = time.AfterFunc(time.Hour, p.beat)
	p.timer.Stop()
	return p
}

// awake is called by connections before they read.
func (p *pulse) awake() {
	if p.left.Load() == beats || p.left.Swap(beats) != 0 {
		return
	}
	p.processors.wake()
	p.timer.Reset(beat)
	unix.Syscall(unix.SYS_GETPID, 0, 0, 0) // the least that the runtime is told of; unix.Getpid is not
}

// beat is called by the timer.
func (p *pulse) beat() {
	if p.left.Add(-1) > 0 {
		p.timer.Reset(beat) // first: what is found may take the time of a collector's cycle to change
		p.processors.look(time.Now())
	} else {
		p.processors.rest()
	}
}
