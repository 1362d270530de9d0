package shard

// Op says what a Request asks for.
type Op uint8

// The operations, each with the fields of Request that it reads -> and sets; those in
// brackets are optional. Those up to PauseTube are commands of a client that concern
// one shard; they may be chained, and the shard counts them. The rest are the
// router's, which counts the commands behind them itself.
const (
	None           Op = iota // already answered; never posted
	Put                      // Tube Pri Delay TTR Body [ID] -> ID
	Reserve                  // [Timeout] -> ID Body
	ReserveTimeout           // as Reserve; counted apart
	ReserveJob               // ID -> Body
	Delete                   // ID
	Release                  // ID Pri Delay
	Bury                     // ID Pri
	Touch                    // ID
	Peek                     // ID -> Body
	PeekReady                // Tube -> ID Body
	PeekDelayed              // Tube -> ID Body
	PeekBuried               // Tube -> ID Body
	Kick                     // Tube N -> N
	KickJob                  // ID
	Submit                   // Name Pri Body Task [N: Unix time in seconds] -> ID
	Grab                     // as Reserve, with a Timeout -> ID Tube Task Body
	Report                   // ID N (an EventKind) [Body] [for Progress: Pri done, of Delay in all]
	Inquire                  // ID -> N: 1 if a worker has it, plus 2 for each that waits for it; Pri, Delay as in Report
	StatsJob                 // ID -> Job
	StatsTube                // Name -> TubeStats
	PauseTube                // Name Delay

	Use      // Name -> Tube: the client's puts go there
	Unuse    // Tube
	Watch    // Name -> Tube
	Ignore   // Tube
	Attach   // Name -> Tube: Use and Watch in one, for a new client
	GiveBack // the client is going: its jobs are ready again
	Detach   // the client is gone: GiveBack, Ignore and Unuse of all that is left
	Probe    // N (the command to count): tell the best ready job over the watched tubes -> Pri ID
	Take     // Pri ID: reserve the best job if it is no worse than that -> ID Body
	Cancel   // the client no longer waits
	Soonest  // -> Soonest
	Holds    // ID: NotFound if the client does not have that job
	Gather   // -> Stats
	CanDo    // Name [TTR] N -> Tube: watch a function, whose jobs fail after TTR seconds; N is 1 if the client dozes, then an event tells of a job there
	Doze     // NotFound: there is no job, and an event will tell of the next one
	EndWaits // the server goes down: no job is given out any more, and all waits are answered Aborted
	Tubes    // -> Lists; only the first shard, which keeps the roster, knows

	// Gearman's administration.
	InquireUnique  // Name (a unique) -> ID N Pri Delay, as Inquire
	Functions      // -> Lists
	CreateFunction // Name
	DropFunction   // Name
	LimitFunction  // Name Lists
	CancelJob      // ID
	ListJobs       // ID (the first to list) -> Lists ID (the next one to ask for; 0 at the end)

	tubeBorn // Name: to the first shard, from the one that made the tube
	tubeGone // Name: likewise
	alarm    // the timer has fired
	failure  // the log has failed
	prepared // the log has its next segment ready
	clean    // ids N: write those of these jobs again that are in segment N
	cleaned  // N: clean was sent for all of segment N; 0 if it was not
	stop     // end the goroutine

	// NumOps is how many operations there are.
	NumOps
)

// Status is how a Request was answered.
type Status uint8

// The answers. OK stands for success of any kind.
const (
	Unserved     Status = iota // posted but not served: an earlier reserve of its chain waits, or much was answered already
	Waiting                    // a reserve waits; its answer will be in the Waiter
	OK                         //
	NotFound                   // no such job or tube, or not in the state for it; Probe: nothing ready
	OutOfMemory                // Put, Submit: over the memory cap, or the disk is full; another change: the disk is full
	Draining                   // Put, Submit: drain mode
	TimedOut                   // reserve
	DeadlineSoon               // reserve: a job of this client is within Margin of the end of its TTR
	Aborted                    // reserve, Probe, ReserveJob: the server is going down
	QueueFull                  // Submit: over the function's limit, or too many wait for the job
	Busy                       // DropFunction: it has workers, or some of its jobs are with clients
	Retry                      // Take: a better job has come, or this one has gone
	Failed                     // a change or a reserve: the log has failed
)

// NoTimeout is the Timeout of a reserve that waits for ever.
const NoTimeout = -1

// Request is one command on its way to a shard, and its answer on the way back. The
// connection owns it, fills it in, posts it, and must not touch it until its chain is
// answered; then it may use it again. While it is posted only the shard reads and
// writes it, and its log the Status. See Op for which fields an operation reads and
// which it sets.
type Request struct {
	next *Request // mailbox link

	Client *Client // the client's side at this shard
	Tube   *Tube
	Name   string // of a tube or a function; of InquireUnique, the unique
	// Body has its trailing CRLF. A put's body of at most Inline bytes is copied by the
	// shard; a larger one is the shard's from then on, and nobody changes it. The body
	// of an answer is such a large one, or one that the Waiter keeps: valid until its
	// Drop.
	Body []byte

	ID      uint64 // of a put: one that was taken for it before, and the put was counted; else 0
	Created int64  // of a put with an ID: when its line came, on the shards' Clock
	N       uint64 // a number; of Kick how many at most, then how many were; of Put 0, for the shard's use
	Timeout int64  // of a reserve: nanoseconds, 0 not to wait, NoTimeout to wait for ever

	// Soonest is a deadline on the shards' Clock, 0 for none. On the way in, for
	// Reserve and Probe: the soonest end of a TTR among the jobs that the client holds
	// on other shards. In the answer of any command of a client: the same among those
	// that it holds on this shard.
	Soonest int64

	seq   uint64 // of the Waiter's claim, for Reserve, Probe and Take
	Pri   uint32
	Delay uint32 // seconds
	TTR   uint32 // seconds, at least 1; of CanDo 0 is none

	Op     Op
	Status Status
	// last marks the end of a chain, which is answered when this request is.
	last bool
	// Quiet, on a reserve that is first in its chain, says that the client has
	// nothing to do before the reserve is answered: do not wake it to say that
	// the reserve waits.
	Quiet bool
	// Primary, on Probe, makes this shard the one that ends the client's wait in time
	// and counts it as waiting.
	Primary bool
	// Tag belongs to whoever made the request; the engine does not read it.
	Tag uint8

	ids []uint64 // clean

	progress *progress // of one that takes more than one step, while it is served

	// Task is what Submit submits, and in the answer of Grab the job's, nil if it was
	// not submitted by Gearman.
	Task *Task

	// Answers that are too rare to have their fields here.
	Job       *JobStats
	TubeStats *TubeStats
	Stats     *Stats
	Lists     *Lists
}

// Polls tells whether r is a reserve that does not wait. When the server goes down,
// such a reserve is still answered TimedOut if there is no job: what comes behind it in
// the client's pipeline may have been served already, on other shards, and is then
// answered, too. A reserve that waits holds up what comes behind it, so it may end
// unanswered.
func (r *Request) Polls() bool { return r.Op == ReserveTimeout && r.Timeout == 0 }
