package router

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sheafq/sheaf/shard"
)

// The engine without sockets. Bodies are made before, as a connection does.

var benchBody = []byte("a body of some forty bytes, as jobs go\r\n")

// putOne queues a put.
func putOne(c *Client, pri uint32) {
	r := c.New(shard.Put)
	r.Pri, r.TTR, r.Body = pri, 60, benchBody
	c.Queue(r)
}

func reserveOne(c *Client, timeout int64) {
	r := c.New(shard.ReserveTimeout)
	r.Timeout = timeout
	c.Queue(r)
}

func deleteOne(c *Client, id uint64) {
	r := c.New(shard.Delete)
	r.ID = id
	c.Queue(r)
}

// finish has all that is queued answered, and fails if anything but OK comes
// back. It keeps the ids of what was reserved.
func finish(tb testing.TB, c *Client, ids []uint64) []uint64 {
	for done := c.Await(true); done != nil; done = c.Await(true) {
		for _, r := range done {
			if r.Status != shard.OK {
				tb.Errorf("op %d: status %d", r.Op, r.Status)
			}
			if r.Op == shard.ReserveTimeout {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

// cycle puts, reserves and deletes n jobs, each kind of command as one chain.
func cycle(tb testing.TB, c *Client, n int, ids []uint64) []uint64 {
	for range n {
		putOne(c, 100)
	}
	for range n {
		reserveOne(c, 0)
	}
	ids = finish(tb, c, ids[:0])
	for _, id := range ids {
		deleteOne(c, id)
	}
	finish(tb, c, nil)
	return ids
}

// worker returns a client with a tube of its own on a shard.
func worker(r *Router, i int) *Client {
	c := r.NewClient()
	name := fmt.Sprint("worker", i)
	for r.shardOf(name) != i%len(r.shards) {
		name += "x"
	}
	c.Use(name)
	c.Watch(name)
	c.Ignore(shard.DefaultTube)
	return c
}

// BenchmarkPutReserveDelete is per job: three commands. A chain of 1 posts each
// command alone, as a client does that waits for each answer.
func BenchmarkPutReserveDelete(b *testing.B) {
	for _, shards := range []int{1, 2, 4} {
		for _, chain := range []int{1, 64} {
			b.Run(fmt.Sprintf("shards=%d/chain=%d", shards, chain), func(b *testing.B) {
				r := newEngine(b, shards)
				var clients atomic.Int64
				b.ReportAllocs()
				b.SetParallelism(4)
				b.RunParallel(func(pb *testing.PB) {
					c := worker(r, int(clients.Add(1)))
					defer c.Close()
					ids := make([]uint64, 0, chain)
					if chain == 1 {
						for pb.Next() {
							putOne(c, 100)
							finish(b, c, nil)
							reserveOne(c, 0)
							ids = finish(b, c, ids[:0])
							deleteOne(c, ids[0])
							finish(b, c, nil)
						}
						return
					}
					for more := true; more; {
						n := 0
						for n < chain {
							if more = pb.Next(); !more {
								break
							}
							n++
						}
						ids = cycle(b, c, n, ids)
					}
				})
			})
		}
	}
}

// watchMany returns a client that watches 8 tubes, on all shards, and their
// names.
func watchMany(r *Router) (*Client, []string) {
	c := r.NewClient()
	var names []string
	for i := range 8 {
		names = append(names, r.tubeOn(i%len(r.shards), i/len(r.shards)))
		c.Watch(names[i])
	}
	c.Ignore(shard.DefaultTube)
	return c, names
}

// BenchmarkReserveOverShards reserves over 8 tubes on 7 shards with jobs ready
// in all of them, and gives the job back: a reserve and a release.
func BenchmarkReserveOverShards(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			r := newEngine(b, 7)
			feeder, names := watchMany(r)
			for _, name := range names {
				feeder.Use(name)
				for i := range 1000 {
					putOne(feeder, uint32(i%10))
					finish(b, feeder, nil)
				}
			}
			feeder.Close()
			b.ReportAllocs()
			loop := func(more func() bool) {
				c, _ := watchMany(r)
				defer c.Close()
				var ids []uint64
				for more() {
					reserveOne(c, 0)
					ids = finish(b, c, ids[:0])
					rel := c.New(shard.Release)
					rel.ID, rel.Pri = ids[0], 5
					c.Queue(rel)
					finish(b, c, nil)
				}
			}
			if clients == 1 {
				loop(b.Loop)
				return
			}
			b.SetParallelism(clients / 2)
			b.RunParallel(func(pb *testing.PB) { loop(pb.Next) })
		})
	}
}

// BenchmarkHandoff has a worker wait over 8 tubes on 7 shards, and a producer
// put a job into one of them when it does: from put to reserved, and deleted.
func BenchmarkHandoff(b *testing.B) {
	for _, shards := range []int{1, 7} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			r := newEngine(b, shards)
			c, names := watchMany(r)
			ready, got := make(chan struct{}, 1), make(chan struct{})
			go func() {
				defer close(got)
				defer c.Close()
				var ids []uint64
				for range ready {
					reserveOne(c, shard.NoTimeout)
					ids = finish(b, c, ids[:0])
					if len(ids) != 1 {
						return // hung up
					}
					deleteOne(c, ids[0])
					finish(b, c, nil)
					got <- struct{}{}
				}
			}()
			producers := make([]*Client, len(names))
			for i, name := range names {
				producers[i] = r.NewClient()
				producers[i].Use(name)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				ready <- struct{}{}
				p := producers[i%len(producers)]
				i++
				putOne(p, 1)
				finish(b, p, nil)
				<-got
			}
			close(ready)
			<-got
			for _, p := range producers {
				p.Close()
			}
		})
	}
}

// TestNoAllocations: in steady state no command allocates anything, but that the
// directory has a page more for 32 ids.
func TestNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, shards := range []int{1, 7} {
		r := newEngine(t, shards)
		c := worker(r, shards-1)
		defer c.Close()
		var ids []uint64
		one := func(req func(r *shard.Request), op shard.Op) {
			q := c.New(op)
			req(q)
			c.Queue(q)
			finish(t, c, nil)
		}
		reserve := func(c *Client, timeout int64) uint64 {
			reserveOne(c, timeout)
			ids = finish(t, c, ids[:0])
			return ids[0]
		}
		put := func() { putOne(c, 1); finish(t, c, nil) }
		measureSome := func(name string, most float64, f func()) {
			t.Helper()
			for range 200 { // steady state
				f()
			}
			if n := testing.AllocsPerRun(500, f); n > most {
				t.Errorf("%d shards: %s: %v allocations", shards, name, n)
			}
		}
		measure := func(name string, f func()) {
			t.Helper()
			measureSome(name, 0, f)
		}

		measure("put, reserve, delete", func() {
			put()
			id := reserve(c, 0)
			one(func(r *shard.Request) { r.ID = id }, shard.Delete)
		})
		measureSome("the same in chains of 64", 2, func() { ids = cycle(t, c, 64, ids) })
		put()
		measure("reserve, touch, release", func() {
			id := reserve(c, 0)
			one(func(r *shard.Request) { r.ID = id }, shard.Touch)
			one(func(r *shard.Request) { r.ID, r.Pri = id, 3 }, shard.Release)
		})
		measure("reserve-job, bury, kick, peek, kick-job", func() {
			id := reserve(c, 0)
			bury := func(r *shard.Request) { r.ID, r.Pri = id, 3 }
			one(bury, shard.Bury)
			one(func(r *shard.Request) { r.N = 10 }, shard.Kick)
			one(func(r *shard.Request) {}, shard.PeekReady)
			one(func(r *shard.Request) { r.ID = id }, shard.ReserveJob)
			one(bury, shard.Bury)
			one(func(r *shard.Request) { r.ID = id }, shard.Peek)
			one(func(r *shard.Request) { r.ID = id }, shard.KickJob)
		})
		measure("release with a delay, kick", func() {
			id := reserve(c, 0)
			one(func(r *shard.Request) { r.ID, r.Pri, r.Delay = id, 3, 100 }, shard.Release)
			one(func(r *shard.Request) { r.N = 1 }, shard.Kick)
		})
		measure("pause-tube", func() {
			one(func(r *shard.Request) { r.Name = c.Used().Name; r.Delay = 0 }, shard.PauseTube)
		})

		// Over all shards, with jobs on each.
		m, names := watchMany(r)
		defer m.Close()
		for _, name := range names {
			m.Use(name)
			putOne(m, 1)
			finish(t, m, nil)
		}
		for name, timeout := range map[string]int64{
			"reserve over tubes, release":                 0,
			"reserve over tubes willing to wait, release": 1e9,
		} {
			measure(name, func() {
				id := reserve(m, timeout)
				q := m.New(shard.Release)
				q.ID, q.Pri = id, 1
				m.Queue(q)
				finish(t, m, nil)
			})
		}

		// Over all shards, with nothing there but what comes while it waits.
		w := r.NewClient()
		defer w.Close()
		for i := range 8 {
			w.Watch(r.tubeOn(i%shards, 10+i/shards))
		}
		w.Ignore(shard.DefaultTube)
		c.Use(r.tubeOn(shards-1, 10))
		measure("wait over tubes, put, delete", func() {
			reserveOne(w, shard.NoTimeout)
			if w.Await(false); !w.Waiting() {
				t.Fatal("does not wait")
			}
			put()
			ids = finish(t, w, ids[:0])
			deleteOne(w, ids[0])
			finish(t, w, nil)
		})
		measure("timeout of 0 over tubes", func() {
			reserveOne(w, 0)
			for done := w.Await(true); done != nil; done = w.Await(true) {
				if done[0].Status != shard.TimedOut {
					t.Error("not timed out")
				}
			}
		})
	}
}
