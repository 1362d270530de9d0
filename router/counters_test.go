package router

import (
	"testing"
	"unsafe"

	"github.com/sheafq/sheaf/shard"
)

// TestCounters: whichever counters clients write, stats adds them up; and with as
// many shards as clients no two write the same.
func TestCounters(t *testing.T) {
	const shards = 4
	r := newEngine(t, shards)
	seen := make(map[uint16]bool)
	for range shards {
		c := r.NewClient()
		defer c.Close()
		c.Count(shard.Use)
		seen[c.counters] = true
	}
	if len(seen) != shards {
		t.Errorf("%d clients write %d counters", shards, len(seen))
	}
	c := r.NewClient()
	defer c.Close()
	if n := c.Stats().Counted[shard.Use]; n != shards {
		t.Errorf("%d commands were counted, not %d", n, shards)
	}
}

// TestClientSize: a client, with the allocator's word for an object that has
// pointers, just fills what it is given; with a byte more it would get 128 more.
func TestClientSize(t *testing.T) {
	if size := unsafe.Sizeof(Client{}); size+8 > 896 {
		t.Errorf("a client has %d bytes", size)
	}
}
