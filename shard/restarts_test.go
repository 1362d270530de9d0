package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog/faultfs"
)

// TestManyRestarts: each restart leaves a file with next to nothing in it. Old jobs in
// the first file do not keep all others.
func TestManyRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		for i := range 100 {
			g, _, stop := newLoggedRig(t, f, 1, 32<<10)
			p := g.newPerson().settleIn("a")
			for range 20 * max(0, 1-i) {
				p.do(0, Request{Op: Put, Tube: p.used, TTR: 100, Body: make([]byte, 200)})
			}
			time.Sleep(5 * time.Second)
			p.detach()
			stop()
			if n := len(g.shards[0].segments); n > 32 {
				t.Fatalf("after %d restarts there are %d segments", i, n)
			}
		}
	})
}
