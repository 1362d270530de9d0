package router

import (
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/sheafq/sheaf/binlog"
)

// TestGoneClientsAreForgotten: requests of many clients are served in one batch, one
// linked to the next. A client that is idle from then on does not keep those alive
// that are gone.
func TestGoneClientsAreForgotten(t *testing.T) {
	r := newRouter(Config{Shards: 1, Binlog: &binlog.Config{Dir: t.TempDir(), Sync: time.Hour}}) // with a log a batch is of many
	defer r.Close()
	var idle []*Client
	var gone []weak.Pointer[Client]
	var mu sync.Mutex // guards both
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			var ids []uint64
			for i := range 20 {
				c := r.NewClient()
				for range 3 {
					ids = cycle(t, c, 1, ids)
				}
				mu.Lock()
				if i == 3 && len(idle) < 5 {
					idle = append(idle, c)
				} else {
					gone = append(gone, weak.Make(c))
					c.Close()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	idle[0].Stats() // the shard has served all that came before
	runtime.GC()
	n := 0
	for _, c := range gone {
		if c.Value() != nil {
			n++
		}
	}
	if n > 0 {
		t.Errorf("%d of %d clients are gone and in memory still", n, len(gone))
	}
	for _, c := range idle {
		c.Close()
	}
}
