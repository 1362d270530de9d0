package router

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/sheafq/sheaf/shard"
)

// shardCounts are the numbers of shards that a test goes through if it should
// hold for any.
var shardCounts = []int{1, 2, 3, 7}

// TestChainOrder: commands glued together take effect and are answered in
// their order, whatever shards they concern.
func TestChainOrder(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p := newPeer(t, r)
		a, b := r.tubeOn(0, 0), r.tubeOn(n-1, 1)
		p.session(`
			use %[1]s -> USING %[1]s
			put 5 0 60 x | put 3 0 60 y | peek-ready | peek-delayed -> INSERTED 1 | INSERTED 2 | FOUND 2 y | NOT_FOUND
			use %[2]s | put 4 0 60 z | use %[1]s | peek-ready -> USING %[2]s | INSERTED 3 | USING %[1]s | FOUND 2 y
			watch %[1]s | watch %[2]s | ignore default -> WATCHING 2 | WATCHING 3 | WATCHING 2
			reserve | reserve | touch 3 | reserve-with-timeout 0s -> RESERVED 2 y | RESERVED 3 z | TOUCHED | RESERVED 1 x
			bury 1 9 | bury 3 9 | release 2 7 0 | kick 5 -> BURIED | BURIED | RELEASED | KICKED 1
			delete 1 | delete 2 | delete 3 | delete 1 -> DELETED | DELETED | DELETED | NOT_FOUND
			stats-tube %[1]s | stats-tube nowhere -> ready 0 reserved 0 using 1 watching 1 waiting 0 | NOT_FOUND
			reserve-with-timeout 0s | put 1 0 60 w | reserve -> TIMED_OUT | INSERTED 4 | RESERVED 4 w`, a, b)
	}
}

// TestLargeBodies: of a chain with large bodies in its answers only so much is served that
// a client that does not read its answers holds on to a few of them.
func TestLargeBodies(t *testing.T) {
	const size, jobs, most = 300 << 10, 20, 1<<20 + 300<<10
	for _, n := range shardCounts {
		r := newEngine(t, n)
		c := r.NewClient()
		next := func(op shard.Op, id uint64) {
			q := c.New(op)
			if q.ID, q.TTR = id, 60; op == shard.Put {
				q.ID, q.Body = 0, make([]byte, size)
			}
			if !c.Queue(q) {
				t.Fatalf("%d is not queued", id)
			}
		}
		for id := range uint64(jobs) {
			next(shard.Put, id)
		}
		for c.Await(false) != nil {
		}
		for _, op := range []shard.Op{shard.Peek, shard.ReserveJob, shard.Delete} {
			for id := range uint64(jobs) {
				next(op, id+1)
			}
			answered, portions := uint64(0), 0
			for {
				done := c.Await(false)
				if done == nil {
					break
				}
				bytes := 0
				for _, q := range done {
					if answered++; q.Status != shard.OK || q.ID != answered || op != shard.Delete && len(q.Body) != size {
						t.Errorf("answer %d is of job %d, with status %d and a body of %d bytes", answered, q.ID, q.Status, len(q.Body))
					}
					bytes += len(q.Body)
				}
				if portions++; bytes > most {
					t.Errorf("answers have %d bytes together", bytes)
				}
			}
			if answered != jobs || op == shard.Delete && portions != 1 {
				t.Errorf("%d requests are answered, in %d portions", answered, portions)
			}
		}
		c.Close()
	}
}

// TestQueueRefuses: what is for another shard has to wait until the earlier
// commands are answered, and is taken then. Everything else is taken.
func TestQueueRefuses(t *testing.T) {
	r := newEngine(t, 2)
	here, there := r.tubeOn(0, 0), r.tubeOn(1, 0)
	p := newPeer(t, r)
	p.session("use %s | put 1 0 60 x | use %s -> USING %[1]s | INSERTED 1 | USING %s", there, here, here)

	type step struct {
		cmd  string
		want bool
	}
	for _, steps := range [][]step{
		{{"put 1 0 60 a", true}, {"put 1 0 60 b", true}, {"touch 1", false}, {"peek-ready", true}},
		{{"peek 1", true}, {"touch 1", true}, {"peek-ready", false}, {"stats-tube " + here, false}, {"stats-tube " + there, true}},
		{{"delete 99", true}, {"touch 98", true}, {"peek 1", true}, {"delete 99", false}, {"bury 1 2", true}},
		{{"pause-tube " + there + " 1", true}, {"pause-tube " + here + " 1", false}},
	} {
		for _, s := range steps {
			if got := p.queue(s.cmd); got != s.want {
				t.Errorf("%v: Queue of %q reports %v", steps, s.cmd, got)
			}
		}
		if !p.pending() {
			t.Errorf("%v: nothing is queued", steps)
		}
		n := 0
		for done := p.Await(false); done != nil; done = p.Await(false) {
			n += len(done)
		}
		want := 0
		for _, s := range steps {
			if s.want {
				want++
			}
		}
		if n != want || p.pending() {
			t.Errorf("%v: %d answers, want %d", steps, n, want)
		}
		for _, s := range steps {
			if !s.want {
				if !p.queue(s.cmd) {
					t.Errorf("an empty queue refuses %q", s.cmd)
				}
				for p.Await(false) != nil {
				}
			}
		}
	}
}

// TestQueueIsBounded: a run is full at some length, and goes on after.
func TestQueueIsBounded(t *testing.T) {
	r := newEngine(t, 2)
	p := newPeer(t, r)
	for i := range maxRun {
		if !p.queue(fmt.Sprint("put 1 0 60 ", i)) {
			t.Fatal("refused after ", i)
		}
	}
	for range 3 {
		if p.queue("put 1 0 60 x") {
			t.Fatal("taken beyond the bound")
		}
	}
	i := 0
	for done := p.Await(false); done != nil; done = p.Await(false) {
		for _, req := range done {
			i++
			if got, want := render(req), fmt.Sprint("INSERTED ", i); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}
	if i != maxRun {
		t.Fatalf("%d answers", i)
	}
	p.Rest()
	for i := range maxRun {
		p.session("reserve | delete %d -> RESERVED %[1]d %d | DELETED", i+1, i)
	}
}

// TestByIDBehindPut: a pipeline may name the id that its own put is going to
// get.
func TestByIDBehindPut(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		p := newPeer(t, r)
		for i := range 2 * n {
			id := 2*i + 1
			p.session(`
				use %s -> USING %[1]s
				put 1 0 60 x | delete %[2]d | delete %[2]d -> INSERTED %[2]d | DELETED | NOT_FOUND
				delete %[3]d | put 1 0 60 y | reserve-job %[3]d | bury %[3]d 1 | kick-job %[3]d | delete %[3]d -> NOT_FOUND | INSERTED %[3]d | RESERVED %[3]d y | BURIED | KICKED | DELETED`,
				r.tubeOn(i%n, i/n), id, id+1)
		}
	}
}

// TestByIDBehindWait: a command by id that is glued to a reserve is served
// after it, so it finds the job that the reserve has waited for, although
// nobody knew of that job when the command was queued.
func TestByIDBehindWait(t *testing.T) {
	for _, n := range shardCounts {
		synctest.Test(t, func(t *testing.T) {
			r := newEngine(t, n)
			a, b := newPeer(t, r), newPeer(t, r)
			answer := a.begin("reserve | delete 1 | delete 1")
			synctest.Wait()
			b.session("put 1 0 60 x -> INSERTED 1")
			if got, want := <-answer, "RESERVED 1 x | DELETED | NOT_FOUND"; got != want {
				t.Errorf("%d shards: got %s, want %s", n, got, want)
			}
		})
	}
}

// TestAnswersWithoutShard: commands that have their answer already keep their
// place, before, between and after those that are posted.
func TestAnswersWithoutShard(t *testing.T) {
	r := newEngine(t, 2)
	p := newPeer(t, r)
	none := func() {
		t.Helper()
		if !p.Queue(p.New(shard.None)) {
			t.Fatal("refused")
		}
	}
	check := func(want ...shard.Op) {
		t.Helper()
		var got []shard.Op
		for done := p.Await(false); done != nil; done = p.Await(false) {
			for _, req := range done {
				got = append(got, req.Op)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("answers %v, want %v", got, want)
		}
	}
	none()
	none()
	check(shard.None, shard.None)
	none()
	p.queue("put 1 0 60 x")
	none()
	p.queue("peek-ready")
	none()
	check(shard.None, shard.Put, shard.None, shard.PeekReady, shard.None)
	check()
}

// await takes one step of Await and compares what it returns.
func (p *peer) await(want string, waiting bool) {
	p.t.Helper()
	done := p.Await(false)
	got := "nothing left"
	if done != nil {
		got = ""
		for i, r := range done {
			if i > 0 {
				got += " | "
			}
			got += render(r)
		}
	}
	if got != want || p.Waiting() != waiting {
		p.t.Fatalf("Await returns %q, waiting %v; want %q, waiting %v", got, p.Waiting(), want, waiting)
	}
}

// TestWaitInTheMiddle: what comes before a reserve that waits is answered
// while it waits, what comes after it is served when it is answered.
func TestWaitInTheMiddle(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		a, b := newPeer(t, r), newPeer(t, r)
		work, out := r.tubeOn(n-1, 0), r.tubeOn(n-1, 1)
		a.session("watch %s | ignore default | use %s -> WATCHING 2 | WATCHING 1 | USING %[2]s", work, out)
		b.session("use %s -> USING %[1]s", work)

		a.queue("put 1 0 60 x")
		a.queue("peek-ready")
		a.queue("reserve")
		a.queue("put 1 0 60 y")
		a.queue("reserve")
		a.queue("peek-ready")
		a.await("INSERTED 1 | FOUND 1 x", true)
		b.session("stats-tube %s | stats-tube %s -> ready 0 reserved 0 using 1 watching 1 waiting 1 | ready 1 reserved 0 using 1 watching 0 waiting 0", work, out)
		b.session("put 1 0 60 job -> INSERTED 2")
		a.await("RESERVED 2 job", false)
		a.await("INSERTED 3", true)
		b.session("put 1 0 60 more -> INSERTED 4")
		a.await("RESERVED 4 more", false)
		a.await("FOUND 1 x", false)
		a.await("nothing left", false)

		// With nothing before it and nothing after.
		a.queue("reserve")
		a.await("", true)
		b.session("put 1 0 60 last -> INSERTED 5")
		a.await("RESERVED 5 last", false)
		a.await("nothing left", false)
	}
}

// TestReserveOverShardsIsAlone: a reserve over several shards is queued by
// itself, and waits as any other does.
func TestReserveOverShardsIsAlone(t *testing.T) {
	r := newEngine(t, 3)
	a, b := newPeer(t, r), newPeer(t, r)
	for i := range 3 {
		a.session("watch %s -> WATCHING %d", r.tubeOn(i, 0), i+2)
	}
	if a.queue("put 1 0 60 x"); a.queue("reserve") {
		t.Error("taken behind another")
	}
	a.await("INSERTED 1", false)
	a.await("nothing left", false)
	a.session("delete 1 -> DELETED")
	if !a.queue("reserve") || a.queue("put 1 0 60 x") || a.queue("delete 99") || a.queue("reserve") {
		t.Error("another taken behind it")
	}
	if !a.Blocking() || !a.pending() {
		t.Error("not known to block")
	}
	a.await("", true)
	b.session("use %s | put 1 0 60 y -> USING %[1]s | INSERTED 2", r.tubeOn(2, 0))
	a.await("RESERVED 2 y", false)
	a.await("nothing left", false)
}

// TestReserveOverShards: the lowest (pri, id) over all watched tubes comes
// first, whatever shard it is on.
func TestReserveOverShards(t *testing.T) {
	for _, n := range shardCounts {
		r := newEngine(t, n)
		a, b := newPeer(t, r), newPeer(t, r)
		// Tubes and priorities in an order that has nothing to do with each
		// other.
		for i := range 4 * n {
			tube := r.tubeOn(i%n, i/n)
			a.Watch(tube)
			b.session("use %s | put %d 0 60 x -> USING %[1]s | INSERTED %[3]d", tube, (i*5+3)%4, i+1)
		}
		for pri := range 4 {
			for i := range 4 * n {
				if (i*5+3)%4 == pri {
					a.session("reserve-with-timeout 1s -> RESERVED %d x", i+1)
				}
			}
		}
		a.session("reserve-with-timeout 0s -> TIMED_OUT")
	}
}

// TestQueueAfter: a request that was refused is queued when what was there has been
// answered, with what it had of the queue's own memory; or not, if the client ends.
func TestQueueAfter(t *testing.T) {
	r := newEngine(t, 2)
	c := r.NewClient()
	defer c.Close()
	put := func(body string) *shard.Request {
		q := c.New(shard.Put)
		q.TTR, q.Body = 60, c.Keep([]byte(body), "\r\n")
		return q
	}
	c.Use(r.tubeOn(0, 0))
	for range maxRun {
		if !c.Queue(put("early")) {
			t.Fatal("refused")
		}
	}
	answered := 0
	flush := func() bool {
		for done := c.Await(false); done != nil; done = c.Await(false) {
			answered += len(done)
		}
		c.Keep([]byte("overwritten"), "\r\n")
		return true
	}
	late := put("late")
	if c.Queue(late) {
		t.Fatal("taken")
	}
	c.QueueAfter(flush, late)
	if answered != maxRun || !c.pending() {
		t.Errorf("%d were answered before, pending: %v", answered, c.pending())
	}
	flush()
	peek := c.New(shard.Peek)
	peek.ID = maxRun + 1
	c.Queue(peek)
	if done := c.Await(false); len(done) != 1 || string(done[0].Body) != "late\r\n" {
		t.Errorf("it is put as %+v", done)
	}
	flush()
	c.QueueAfter(func() bool { return false }, c.New(shard.PeekReady))
	if c.pending() {
		t.Error("it is queued, and the client ends")
	}
}
