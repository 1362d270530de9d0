package router

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/shard"
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

// TestIdleClientsForgetTubes: a tube goes with its last client, and room for the jobs
// that it had goes with it: nobody has it who has left it.
func TestIdleClientsForgetTubes(t *testing.T) {
	for _, script := range []string{
		"use %[1]s -> USING %[1]s\n use default -> USING default",
		"watch %[1]s -> WATCHING 2\n ignore %[1]s -> WATCHING 1",
		"use %[1]s -> USING %[1]s\n put 0 0 60 x -> INSERTED 1\n delete 1 -> DELETED\n use default -> USING default",
		"use %[1]s | peek-ready | peek-ready | peek-ready -> USING %[1]s | NOT_FOUND | NOT_FOUND | NOT_FOUND\n use default -> USING default",
	} {
		for on := range 2 {
			r := newEngine(t, 2)
			name := r.tubeOn(on, 0)
			other, p := newPeer(t, r), newPeer(t, r)
			other.Use(name)
			tube := weak.Make(other.Used())
			p.session(script, name)
			p.Rest()
			other.Use("default")
			other.Rest()
			for range 2 {
				runtime.GC()
			}
			if tube.Value() != nil {
				t.Errorf("on shard %d after\n%s\nthe tube is in memory still", on, script)
			}
			runtime.KeepAlive(p)
			runtime.KeepAlive(other)
		}
	}
}

// TestWaitKeepsLittle: a client that waits has none of the bodies that it was given
// before, nor the pipeline in which it has asked for them.
func TestWaitKeepsLittle(t *testing.T) {
	for _, peeks := range []int{1, 2, maxRun - 1} {
		r := newEngine(t, 1)
		other, p := newPeer(t, r), newPeer(t, r)
		p.session("watch nothing | ignore default -> WATCHING 2 | WATCHING 1")
		body := putLarge(other)
		answered := p.begin(strings.Repeat("peek 1 | ", peeks) + "reserve")
		for !strings.Contains(other.say("stats-tube nothing"), "waiting 1") {
			runtime.Gosched()
		}
		other.session("delete 1 -> DELETED")
		for end := time.Now().Add(10 * time.Second); body.Value() != nil; runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("the body is in memory still, after %d peeks", peeks)
			}
		}
		other.session("use nothing | put 0 0 60 x -> USING nothing | INSERTED 2")
		if got := <-answered; !strings.HasSuffix(got, " | RESERVED 2 x") {
			t.Errorf("%d peeks and a reserve are answered %s", peeks, got)
		}
		if p.deep != nil {
			t.Errorf("after %d peeks it has waited with a pipeline", peeks)
		}
	}
}

// putLarge puts a job whose body is not copied.
func putLarge(p *peer) weak.Pointer[byte] {
	r := p.New(shard.Put)
	r.TTR, r.Body = 60, append(bytes.Repeat([]byte("x"), 2*shard.Inline), "\r\n"...)
	body := weak.Make(&r.Body[0])
	p.Queue(r)
	finish(p.t, p.Client, nil)
	return body
}
