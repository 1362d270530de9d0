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
	// First is the shard with index 0, which keeps the roster of tubes; nil
	// says that this is the one.
	First *Shard
	// Log is where changes are written; nil is nowhere. Stop does not close it.
	Log *binlog.Log
	// Recovery is what the shard begins with; nil is nothing.
	Recovery *Recovery
}

// Shard is one actor. Post, Send and Stop may be called from any goroutine; all
// else runs on the one goroutine whose turn it is.
type Shard struct {
	// These never change once New has returned.
	mailbox *mailbox
	cfg     Config
	stopped chan struct{} // closed when the shard's goroutine has ended

	// What follows belongs to who has the turn, but where it says otherwise.

	now       int64  // of the batch being served, on cfg.Clock
	deadlines uint64 // how many have been given out, see Shard.deadline
	jobStore
	jobs  int // how many there are
	tubes map[string]*Tube
	// mostTubes is how many there were, see remove.
	mostTubes int
	keyed     []*function // that have uniques, in any order
	memory    ration

	dues  dueHeap
	timer *time.Timer
	armed int64 // when the timer fires; 0 when it is not set
	// alarm is what the timer posts, to have the shard look what has come due.
	// ringing is true while it is in the mailbox: the timer's goroutine sets
	// it, whoever serves it clears it.
	alarm   Request
	ringing atomic.Bool

	observers []*Client // with observing set, each at its observerAt
	roster    *roster   // on the first shard only

	// told are the clients to be told at the end of the batch that their chains
	// are answered, whatever becomes of the log; those that wait for it are in
	// held.
	atOnce []*Waiter

	journal

	// unfinished are the chains that go on in the next turn, see steps.go. quota is
	// how much may still come due in this one. looked is how many tubes the reserves
	// of the chain that is served have looked through.
	unfinished []*Request
	quota      int
	looked     int
	following  *Request // what is served behind the request that is being served
	stalls

	// Sums over all tubes.
	urgent, ready, reserved, delayed, buried int
	total, timeouts                          uint64

	ending bool // after EndWaits
	ended  bool // after stop; the mailbox is not parked any more
	// waits are the clients that wait and have this shard count them. Some may
	// have been answered by another shard since.
	waitingClients []*Client
	queued         int // watches in the queues of tubes
	served         [NumOps]uint64
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
	go s.run()
	return s
}

// Post hands over a chain of commands of one client, which has said Expect.
// They are served in order, with no other in between unless they take long (see
// steps.go); when all are answered the client's Waiter is told, once. If a reserve
// comes to wait, the client is told at once (unless the reserve is Quiet) and the
// rest of the chain is left Unserved. If nobody serves the shard, the caller does,
// for one turn; see post.
func (s *Shard) Post(chain []*Request) {
	w := chain[0].Client.waiter
	for _, r := range chain {
		r.Status, r.last, r.seq = Unserved, false, w.seq
	}
	chain[len(chain)-1].last = true
	s.post(chain)
}

// Send hands over a request whose answer nobody awaits.
func (s *Shard) Send(r *Request) {
	r.last = false
	s.post([]*Request{r})
}

// Stop ends the shard once all that was posted before is served, and returns
// when it has ended. Nothing may be posted after.
func (s *Shard) Stop() {
	if s.log != nil {
		s.cleaner.stop()
	}
	s.Send(&Request{Op: stop})
	<-s.stopped
}

// post posts a chain. The goroutine that finds the shard idle has its turn, in
// place of the shard's own: waking that one, and being woken by it, costs more
// than most commands. If more has come meanwhile, the shard's own goes on.
//
// With a log the answers have to be waited for anyway, and each turn costs a
// record's write: then it is better that the shard's own goroutine comes a
// moment later and finds more.
func (s *Shard) post(chain []*Request) {
	switch {
	case !s.mailbox.post(chain):
	case s.log != nil, chain[0].Op == Attach:
		// A client that has only come may stay idle for ever. A turn would leave
		// its goroutine with twice the stack.
		s.mailbox.poke()
	default:
		if s.turnOfAnother(); s.ended || len(s.unfinished) > 0 || !s.mailbox.park() {
			s.mailbox.poke()
		}
	}
}

// turnOfAnother is a turn on a goroutine that is not the shard's. Whoever
// recovers from panics there must not go on with half a shard.
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

// crash ends the process, as a panic does that nobody recovers from.
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
			// Whoever else is about to post may do so first: one more command in
			// the batch costs less than one more batch.
			runtime.Gosched()
		}
	}
}

// turn serves what is in the mailbox, and a step of what is unfinished. It reports
// whether there was anything. Only one goroutine at a time may call it: see mailbox.
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
		// Not behind a reserve that has come to wait, which appends nothing: its
		// client is told, and what follows it in the chain is not served, nor this
		// goroutine's any more.
		for s.filled() {
			s.endBatch()
			s.beginBatch()
			s.expire() // it may have taken long
		}
		next, last := r.next, r.last // r may be the client's again once it is answered
		// An answered request leads to no other: it may be that of a client which is
		// idle, and would keep all of that other's client alive when that is gone, and
		// those behind it.
		r.next, s.following = nil, next
		switch {
		case s.serve(r):
			r.next = next
			next = s.putOff(r)
		case last:
			s.looked = 0
		case s.looked > stepWatches:
			s.lacksRoom = false // that was r's
			next = s.putOff(next)
		}
		r = next
	}
	s.following = nil
}
