package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

// whenIdle waits for jobs that are with workers. When it is stopped, be it before
// their end or after, the engine has no client of its any more.
func TestWhenIdle(t *testing.T) {
	for name, c := range map[string]struct{ works, ends bool }{
		"no job is at work":            {},
		"a job is at work to the last": {works: true},
		"a job at work is done":        {works: true, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testWhenIdle(t, c.works, c.ends) })
		})
	}
}

func testWhenIdle(t *testing.T, works, ends bool) {
	engine, err := router.New(router.Config{Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	c := engine.NewClient()
	if works {
		put := c.New(shard.Put)
		put.TTR, put.Body = 60, []byte("x\r\n")
		c.Queue(put)
		do(c, c.New(shard.Reserve))
	}
	idle, stop := whenIdle(engine)
	is := func() bool {
		time.Sleep(3 * idlePoll) // it has looked a few times
		synctest.Wait()
		select {
		case <-idle:
			return true
		default:
			return false
		}
	}
	if is() == works {
		t.Errorf("it is idle: %v", !works)
	}
	if ends {
		r := c.New(shard.Delete)
		r.ID = 1
		do(c, r)
		if !is() {
			t.Error("the job is done, and it is not idle")
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

// do queues r and awaits all that is queued.
func do(c *router.Client, r *shard.Request) {
	c.Queue(r)
	for c.Await(false) != nil {
	}
}
