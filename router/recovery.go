package router

import (
	"runtime/debug"
	"sync"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/shard"
)

// recovered is what a shard begins with: its log, and the jobs that are in it.
type recovered struct {
	log  *binlog.Log
	jobs *shard.Recovery
}

// recover opens the binlog, if there is one, and reads it back.
func (r *Router) recover(cfg Config) ([]recovered, error) {
	all := make([]recovered, cfg.Shards)
	if cfg.Binlog == nil {
		return all, nil
	}
	b := *cfg.Binlog
	b.Shards = cfg.Shards
	b.LastID = r.directory.LastNotedID
	store, err := binlog.Open(b)
	if err != nil {
		return nil, err
	}
	if err := r.recoverFrom(store, &b, all); err != nil {
		store.Close()
		return nil, err
	}
	r.store = store
	return all, nil
}

// recoveryGC is the garbage collector's percentage during recovery, unless a higher one
// is set.
const recoveryGC = 400

// recoverFrom reads all streams of the binlog back, and fills in what each shard begins
// with. If the streams are not one for each shard, their jobs are written again.
func (r *Router) recoverFrom(store *binlog.Store, cfg *binlog.Config, all []recovered) error {
	start := time.Now()
	// Nearly all that is allocated now stays, so to look for garbage as often as usual
	// would be in vain.
	if usual := debug.SetGCPercent(-1); usual >= 0 {
		debug.SetGCPercent(max(usual, recoveryGC))
		defer debug.SetGCPercent(usual)
	}
	streams := make([]*shard.Recovery, store.Streams())
	err := each(len(streams), func(i int) error {
		streams[i] = shard.NewRecovery()
		return streams[i].Replay(store, i)
	})
	if err != nil {
		return err
	}
	r.directory.Skip(store.LastID())
	jobs := 0
	for _, s := range streams {
		jobs += s.Jobs()
	}
	took := time.Since(start).Round(time.Millisecond)
	logs, err := store.Begin()
	if err != nil {
		return err // which may be of damage: nothing may say then that all was read back
	}
	if cfg.Log != nil {
		cfg.Log.Info("binlog: read back", "dir", cfg.Dir, "jobs", jobs, "streams", len(streams),
			"last-id", store.LastID(), "took", took)
	}
	for i := range all {
		all[i].log = logs[i]
		if store.Rearranged() {
			all[i].jobs = shard.NewRecovery()
		} else {
			all[i].jobs = streams[i]
		}
	}
	if store.Rearranged() {
		for _, s := range streams {
			s.Move(func(tube string) *shard.Recovery { return all[shardOf(tube, len(all))].jobs })
		}
		err = each(len(all), func(i int) error { return all[i].jobs.Write(all[i].log) })
		if err != nil {
			return err
		}
		if cfg.Log != nil && jobs > 0 {
			cfg.Log.Info("binlog: all jobs are written again, each for its shard", "dir", cfg.Dir, "shards", len(all))
		}
	}
	return store.Commit()
}

// each calls f for each number below n, all at once, and returns the first error by
// number, if there is any.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
