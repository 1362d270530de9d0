package router

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/shard"
)

// MaxShards is the largest number of shards.
const MaxShards = 1024

// Config says how a Router is made.
type Config struct {
	// Shards is how many shards there are, 1 to MaxShards.
	Shards int
	// MaxMemory caps the memory of all jobs, in bytes: bodies and what is kept
	// beside them. 0 is no cap.
	MaxMemory int64
	// Binlog is the directory in which jobs are kept, nil for none. Its Shards
	// and LastID are set by New.
	Binlog *binlog.Config
	// Log is told when memory is lacking, nil for none. The binlog has its own.
	Log *slog.Logger
}

// Router is the engine: the shards, and what leads to them. Its methods may be
// called from any goroutine.
type Router struct {
	// These never change once New has returned.
	shards    []*shard.Shard
	clock     shard.Clock
	directory *shard.Directory
	budget    *shard.Budget
	store     *binlog.Store // nil if there is none
	log       *slog.Logger
	ended     chan struct{} // closed by Close
	// draining is set once, by Drain; the shards read it at each put.
	draining atomic.Bool

	// counted are the commands that no shard serves. Each client counts in one of as
	// many places as there are shards, so that they seldom share a cache line: some
	// clients send a use before each put. Stats adds them up.
	counted []counters

	background sync.WaitGroup // the goroutines that end with ended

	// Clients write these when they come and go, Stats reads them. They are not on the
	// cache lines above, which every put reads.
	_                             [64]byte
	connections, totalConnections atomic.Int64
	producers, workers            atomic.Int64
}

// counters are what some of the clients count, on cache lines of their own.
type counters struct {
	of [numCommands]atomic.Uint64
	_  [64]byte
}

// Commands that are answered without a shard, counted beside the operations.
const (
	ListTubeUsed = shard.NumOps + iota
	ListTubesWatched
	numCommands
)

// New starts the engine, with the jobs that the binlog has. Close ends it. The error is
// about the binlog's directory, and worded for whoever starts a server.
func New(cfg Config) (*Router, error) {
	r := &Router{
		shards:    make([]*shard.Shard, cfg.Shards),
		clock:     shard.NewClock(),
		directory: shard.NewDirectory(),
		budget:    shard.NewBudget(cfg.MaxMemory, cfg.Shards),
		counted:   make([]counters, cfg.Shards),
		log:       cfg.Log,
		ended:     make(chan struct{}),
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.directory.ChargeTo(r.budget)
	found, err := r.recover(cfg)
	if err != nil {
		return nil, err
	}
	for i := range r.shards {
		r.shards[i] = shard.New(shard.Config{
			Index:     i,
			Clock:     r.clock,
			Directory: r.directory,
			Budget:    r.budget,
			Draining:  &r.draining,
			First:     r.shards[0],
			Log:       found[i].log,
			Recovery:  found[i].jobs,
		})
	}
	r.background.Go(r.logRefusals)
	r.background.Go(r.giveMemoryBack)
	return r, nil
}

// Close ends the shards and closes the binlog. All clients should have been closed before:
// one that is left gets no answer any more, and what it sent is not done. Nothing else may
// be called after. The error says what may not be in the binlog, and why.
func (r *Router) Close() error {
	close(r.ended)
	r.background.Wait()
	// The first shard goes last: it keeps the roster, of which the others tell it.
	for i := len(r.shards) - 1; i >= 0; i-- {
		r.shards[i].Stop()
	}
	if r.store == nil {
		return nil
	}
	return r.store.Close()
}

// Drain refuses puts from now on.
func (r *Router) Drain() { r.draining.Store(true) }

// EndWaits answers all reserves as Aborted, those that wait and those that come from now
// on, except that a reserve without a wait that finds no job is answered so. It is for a
// server that is about to close its connections: their jobs should not go to other
// clients for the moment that is left. A Grab gets no job either.
func (r *Router) EndWaits() {
	for _, s := range r.shards {
		s.Send(&shard.Request{Op: shard.EndWaits})
	}
}

// shardOf returns the index of the shard that owns the tube of that name.
func (r *Router) shardOf(name string) int { return shardOf(name, len(r.shards)) }

// shardOf is the same for any number of shards.
func shardOf(name string, shards int) int {
	if shards == 1 {
		return 0
	}
	return int(xxhash.Sum64String(name) % uint64(shards))
}

// Stats are the statistics of the engine.
type Stats struct {
	shard.Stats // the sums over all shards
	// Counted is how many commands were served, by Op or one of the constants of this
	// package; unlike Served it has those that no shard has served.
	Counted                       [numCommands]uint64
	Connections, TotalConnections int64
	Producers, Workers            int64
	Draining                      bool
	// Binlog is zero if there is none.
	Binlog binlog.Stats
}
