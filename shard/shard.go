package shard

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/sheafq/sheaf/binlog"
)

// DefaultTube is the tube that every client uses and watches at first. It
// always exists.
const DefaultTube = "default"

// Config is what a shard shares with the process.
type Config struct {
	Index     int // of this shard, from 0
	Clock     Clock
	Directory *Directory
	Budget    *Budget
	// Draining is read at each put: when set, puts are refused.
	Draining *atomic.Bool
	// First is the shard with index 0, which keeps the roster of tubes; nil if this
	// is the first.
	First *Shard
	// Log is where changes are written; nil for none. Stop does not close it.
	Log *binlog.Log
	// Recovery is the jobs that the shard begins with, nil for none. New takes it over.
	Recovery *Recovery
}

// Shard is one actor. Post, Send and Stop may be called from any goroutine; all
// else runs on the goroutine that has the turn.
type Shard struct {
	// These never change once New has returned.
	mailbox *mailbox
	cfg     Config
	stopped chan struct{} // closed when the shard's goroutine has ended

	// What follows is read and written only by whoever has the turn, unless it says
	// otherwise. mailbox hands the turn over, so that cannot race.

	now       int64  // of the batch being served, on cfg.Clock
	deadlines uint64 // how many have been set, see Shard.deadline
	jobStore
	jobs      int // how many there are
	tubes     map[string]*Tube
	mostTubes int         // how many there were, see removeKey
	keyed     []*function // those with uniques, in any order
	clash     bool        // makes hashes of uniques be the same, for tests
	memory    ration

	dues  dueHeap
	timer *time.Timer
	armed int64 // when the timer fires; 0 when it is not set
	// alarm is what the timer posts, so that the next turn serves what has come due.
	// ringing is true while it is in the mailbox: the timer's goroutine sets it,
	// whoever serves alarm clears it. So it is never posted twice.
	alarm   Request
	ringing atomic.Bool

	observers []*Client // with observing set, each at its observerAt
	roster    *roster   // on the first shard only

	// atOnce are the clients to be told at the end of the batch that their chains are
	// answered. Those whose answers wait for the log are in outbox.
	atOnce []*Waiter

	journal

	// unfinished are the chains that go on in the next turn, see steps.go. quota is
	// how many jobs and owners of a due may still come due in this turn. effort is what
	// the chain being served has cost so far, see stepEffort.
	unfinished []*Request
	quota      int
	effort     int
	following  *Request // the one that is served after the one being served
	stalls

	// Sums over all tubes.
	urgent, ready, reserved, delayed, buried int
	total, timeouts                          uint64

	ending bool // after EndWaits
	ended  bool // after stop: nothing more is served, and the mailbox not parked
	// waitingClients are those that wait and that this shard counts, each at its
	// countedAt. Some may have been answered by another shard since.
	waitingClients []*Client
	queued         int            // watches in the queues of tubes
	served         [NumOps]uint64 // commands, by Op
}

// New starts a shard. Stop ends it.
func New(cfg Config) *Shard {
	s := &Shard{
		mailbox: newMailbox(),
		cfg:     cfg,
		stopped: make(chan struct{}),
		alarm:   Request{Op: alarm},
		tubes:   make(map[string]*Tube),
		memory:  ration{Budget: cfg.Budget},
		journal: journal{log: cfg.Log, outbox: new(outbox)},
	}
	if cfg.First == nil {
		s.cfg.First = s
		s.roster = newRoster()
	}
	s.timer = time.AfterFunc(time.Hour, s.ring)
	s.timer.Stop()
	s.begin()
	s.slab.spares.most = cfg.Budget.spare // after begin, which may take over another slab
	go s.run()
	return s
}

// Post hands over a chain of at least one command, all of one client, which has
// called Waiter.Expect before. They are served in order, with no other in between
// unless they take long (see steps.go); when all are answered the Waiter is told, once.
// If a reserve has to wait, the Waiter is told right then (unless the reserve is Quiet)
// and the rest of the chain is left Unserved. It is left so, too, when the chain is
// answered early since the bodies in the answers are large together, see mostGiven. If
// nobody serves the shard, the caller does, for one turn; see post.
func (s *Shard) Post(chain []*Request) {
	w := chain[0].Client.waiter
	for _, r := range chain {
		r.Status, r.last, r.seq = Unserved, false, w.seq
	}
	chain[len(chain)-1].last = true
	s.post(chain)
}

// Send hands over a request whose answer nobody awaits. The caller must not touch it
// until something that it posted later has been answered.
func (s *Shard) Send(r *Request) {
	r.last = false
	s.post([]*Request{r})
}

// Stop ends the shard once all that was posted before is served, and returns when it
// has ended. Nothing may be posted after that; only one goroutine may call it, once.
func (s *Shard) Stop() {
	if s.log != nil {
		s.cleaner.stop()
	}
	s.Send(&Request{Op: stop})
	<-s.stopped
}

// post posts a chain. A caller that finds the shard idle serves a turn in place of the
// shard's own goroutine: to wake that, and be woken by it, costs more than most
// commands. If more has come meanwhile, the shard's goroutine goes on.
//
// With a log the caller has to wait for its answers anyway, and each turn costs a
// write: it is better that the shard's goroutine comes a moment later and finds more.
func (s *Shard) post(chain []*Request) {
	switch {
	case !s.mailbox.post(chain):
	case s.log != nil, chain[0].Op == Attach:
		// A client that has only just come may stay idle for ever, and a turn would
		// leave its goroutine with twice the stack.
		s.mailbox.poke()
	default:
		if s.turnOfAnother(); s.ended || len(s.unfinished) > 0 || !s.mailbox.park() {
			s.mailbox.poke()
		}
	}
}

// turnOfAnother serves a turn on a goroutine that is not the shard's. A panic ends the
// process, even if the caller would recover from it: the shard may be half changed.
func (s *Shard) turnOfAnother() {
	whole := false
	defer func() {
		if !whole {
			crash(recover())
		}
	}()
	s.turn()
	whole = true
}

// crash ends the process, like a panic that nobody recovers from.
func crash(v any) {
	stack := debug.Stack()
	go func() { panic(fmt.Sprintf("%v in a shard\n\n%s", v, stack)) }()
	select {}
}

// run is the life of the shard's goroutine.
func (s *Shard) run() {
	defer close(s.stopped)
	defer s.timer.Stop()
	for {
		for s.turn() {
		}
		if s.ended {
			return
		}
		if !s.mailbox.park() {
			continue
		}
		<-s.mailbox.wake
		if s.log != nil {
			// Let others that are about to post do so first: one more command in the
			// batch costs less than one more batch.
			runtime.Gosched()
		}
	}
}

// turn serves what is in the mailbox, and a step of what is unfinished. It reports
// whether another turn may find something: false if there was nothing, or if the shard
// has ended. Only the mailbox's consumer may call it.
func (s *Shard) turn() bool {
	r := s.mailbox.take()
	if r == nil && len(s.unfinished) == 0 {
		return false
	}
	s.beginBatch()
	s.quota = stepJobs
	s.expire()
	s.goOn()
	s.serveAll(r)
	if s.stalls.recheck {
		s.tryAgain()
	}
	s.endBatch()
	if !s.ended {
		s.arm()
	}
	return !s.ended
}

// serveAll serves r and what is linked behind it.
func (s *Shard) serveAll(r *Request) {
	for r != nil && !s.ended {
		// This cannot come between a reserve that has to wait and the rest of its
		// chain, which is the client's again once the batch ends: such a reserve
		// appends nothing, so it does not fill the batch.
		for s.filled() {
			s.endBatch()
			s.beginBatch()
			s.expire() // it may have taken long
		}
		next, last, c := r.next, r.last, r.Client // r may be the client's again once it is answered
		// An answered request must not link to others: it may stay with an idle
		// client, and would keep alive the clients of those, though they are gone.
		r.next, s.following = nil, next
		switch {
		case s.serve(r):
			r.next = next
			next = s.putOff(r)
		case last:
			s.effort = 0
			if c != nil && c.given != 0 { // several shards may serve one client at once if they only read from it
				c.given = 0
			}
		case c != nil && c.given > mostGiven:
			next = s.cutShort(r, next)
		case s.effort > stepEffort:
			s.lacksRoom = false // that was about r
			next = s.putOff(next)
		}
		r = next
	}
	s.following = nil
}
