package router

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

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
}

// Router is the engine: the shards, and what leads to them. Its methods may be
// called from any goroutine.
type Router struct {
	shards    []*shard.Shard
	clock     shard.Clock
	directory *directory
	budget    *shard.Budget
	// draining is set once, by Drain; the shards read it at each put.
	draining atomic.Bool

	// What is counted here rather than on a shard is rare: commands that no
	// shard serves, and clients. Clients write these, stats reads them.
	counted                       [numCommands]atomic.Uint64
	connections, totalConnections atomic.Int64
	producers, workers            atomic.Int64
}

// Commands that are answered without a shard, counted beside the operations.
const (
	ListTubeUsed = shard.NumOps + iota
	ListTubesWatched
	numCommands
)

// New starts the engine. Close ends it.
func New(cfg Config) *Router {
	r := &Router{
		shards:    make([]*shard.Shard, cfg.Shards),
		clock:     shard.NewClock(),
		directory: newDirectory(),
		budget:    shard.NewBudget(cfg.MaxMemory, cfg.Shards),
	}
	for i := range r.shards {
		r.shards[i] = shard.New(shard.Config{
			Index:     i,
			Clock:     r.clock,
			Directory: r.directory,
			Budget:    r.budget,
			Draining:  &r.draining,
			First:     r.shards[0],
		})
	}
	return r
}

// Close ends the shards. All clients must have been closed before.
func (r *Router) Close() {
	// The first keeps the roster, and hears of it from the others to the end.
	for i := len(r.shards) - 1; i >= 0; i-- {
		r.shards[i].Stop()
	}
}

// Drain refuses puts from now on.
func (r *Router) Drain() { r.draining.Store(true) }

// Draining tells whether Drain has been called.
func (r *Router) Draining() bool { return r.draining.Load() }

// shardOf returns the index of the shard that owns the tube of that name.
func (r *Router) shardOf(name string) int {
	if len(r.shards) == 1 {
		return 0
	}
	return int(xxhash.Sum64String(name) % uint64(len(r.shards)))
}

// Stats are the statistics of the engine.
type Stats struct {
	shard.Stats
	// Counted is how many commands were served, by Op or one of the constants
	// of this package.
	Counted                       [numCommands]uint64
	Connections, TotalConnections int64
	Producers, Workers            int64
	Draining                      bool
}
