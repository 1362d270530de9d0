package main

import (
	"testing"
	"time"

	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

// whenIdle waits for jobs that are with workers. When it is stopped, be it before
// their end or after, the engine has no client of its any more.
func TestWhenIdle(t *testing.T) {
	for _, works := range []bool{true, false} {
		engine, err := router.New(router.Config{Shards: 3})
		if err != nil {
			t.Fatal(err)
		}
		c := engine.NewClient()
		if works {
			c.Queue(reserveOf(c))
			for c.Await(false) != nil {
			}
		}
		idle, stop := whenIdle(engine)
		wait := time.Duration(0)
		if !works {
			wait = time.Minute
		}
		select {
		case <-idle:
			if works {
				t.Error("a job is with a worker, and it is idle")
			}
		case <-time.After(wait):
			if !works {
				t.Error("it is never idle")
			}
		}
		stop()
		if n := c.Stats().Connections; n != 1 {
			t.Errorf("there are %d clients", n)
		}
		c.Close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
}

// reserveOf queues a put and returns a reserve, which gets the job.
func reserveOf(c *router.Client) *shard.Request {
	put := c.New(shard.Put)
	put.TTR, put.Body = 60, []byte("x\r\n")
	c.Queue(put)
	return c.New(shard.Reserve)
}
