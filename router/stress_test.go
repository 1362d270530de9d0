package router

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// stressFor returns how long a test is to load an engine: as SHEAF_STRESS says,
// or as usual.
func stressFor(t *testing.T, usual time.Duration) time.Duration {
	t.Helper()
	if s := os.Getenv("SHEAF_STRESS"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal("SHEAF_STRESS: ", err)
		}
		return d
	}
	if testing.Short() {
		return time.Second
	}
	return usual
}

// TestHandshakeUnderStress has many clients reserve over overlapping sets of
// tubes on seven shards, with tiny timeouts, while others put, release, bury,
// kick and pause, TTRs run out, and clients hang up, are aborted and closed in
// every phase. A ledger knows who has which job. In the end every job is
// accounted for exactly once, and nothing is left behind.
//
// SHEAF_STRESS=10m makes it last as long.
func TestHandshakeUnderStress(t *testing.T) {
	duration := stressFor(t, 4*time.Second)
	watchdog(t, duration+time.Minute)
	const shards, clients = 7, 56
	st := &stress{t: t, r: newRouter(Config{Shards: shards}), seed: rand.Uint64(), end: time.Now().Add(duration)}
	defer st.r.Close()
	t.Logf("seed %d", st.seed)
	for i := range 2 * shards {
		st.tubes = append(st.tubes, st.r.tubeOn(i%shards, i/shards))
	}

	// More processors than there are: interruptions where the runtime has none.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(st.seed, uint64(i)))
			for time.Now().Before(st.end) && !t.Failed() {
				st.life(rng, i)
			}
		})
	}
	wg.Go(st.watch)
	wg.Wait()
	st.assassins.Wait()
	st.drain()
	idleEngine(t, st.r)
	if pages := st.r.directory.Groups(); pages > 1 {
		t.Errorf("%d groups in the directory without a job", pages)
	}
	t.Logf("%d lives, %d jobs, %d reserved (%d expired), answers of reserve: %d job, %d timed out, %d deadline soon, %d aborted",
		st.lives.Load(), st.next.Load(), st.reserved.Load(), st.expired.Load(), st.answers[shard.OK].Load(),
		st.answers[shard.TimedOut].Load(), st.answers[shard.DeadlineSoon].Load(), st.answers[shard.Aborted].Load())
}

// stress is what the clients share.
type stress struct {
	t         *testing.T
	r         *Router
	seed      uint64
	end       time.Time
	tubes     []string
	assassins sync.WaitGroup

	// The ledger has an entry for each put, by a number that is in the job's
	// body. A put may be done and never be answered, if the client is closed.
	ledger sync.Map // of *entry
	next   atomic.Int64
	alive  atomic.Int64 // jobs that are known to be there

	lives, reserved, expired atomic.Int64
	answers                  [shard.Retry]atomic.Int64
}

// entry is what is known of one job.
type entry struct {
	n        int64
	short    bool // its TTR is one second and may run out; else it is an hour
	id       atomic.Uint64
	inserted atomic.Bool
	deleted  atomic.Bool
	// holder is the life that has it, 0 for none. It is set when a reserve is
	// answered and cleared before the job is given up, so two at once are
	// wrong.
	holder atomic.Int64
	since  atomic.Int64 // when the reserve was begun, for a short one
}

func (st *stress) failf(format string, args ...any) {
	st.t.Errorf("seed %d: "+format, append([]any{st.seed}, args...)...)
}

// seen finds the entry of a job by its body, and checks that it has always
// had that id.
func (st *stress) seen(id uint64, body []byte) *entry {
	var n int64
	if _, err := fmt.Sscanf(string(body), "job %d\r\n", &n); err != nil {
		st.failf("job %d has the body %q", id, body)
		return nil
	}
	e, ok := st.ledger.Load(n)
	if !ok {
		st.failf("job %d was never put: %q", id, body)
		return nil
	}
	if was := e.(*entry).id.Swap(id); was != 0 && was != id {
		st.failf("body %q has id %d and %d", body, was, id)
	}
	return e.(*entry)
}

// holding is a job as one life has got it, and when it asked for it.
type holding struct {
	*entry
	began int64
}

// life is a client of the stress, from NewClient to Close.
type life struct {
	*stress
	*Client
	rng  *rand.Rand
	me   int64
	held []holding
	last shard.Request // answered
}

func (st *stress) life(rng *rand.Rand, i int) {
	l := &life{stress: st, Client: st.r.NewClient(), rng: rng, me: st.lives.Add(1)}
	if i%3 == 0 {
		l.MarkProducer()
	} else {
		l.MarkWorker()
	}
	for range 1 + rng.IntN(6) {
		l.Watch(l.someTube())
	}
	if rng.IntN(2) == 0 {
		l.Ignore(shard.DefaultTube)
	}
	l.Use(l.someTube())
	if rng.IntN(2) == 0 {
		// Somebody ends it at any moment, maybe after it is closed.
		c, abort, delay := l.Client, rng.IntN(3) == 0, time.Duration(rng.IntN(4_000_000))
		spin := rng.IntN(2) == 0
		st.assassins.Go(func() {
			if spin {
				for range delay / 1000 {
					runtime.Gosched()
				}
			} else {
				time.Sleep(delay)
			}
			if abort {
				c.Abort()
			} else {
				c.Hangup()
			}
		})
	}
	for range rng.IntN(60) {
		if !time.Now().Before(st.end) {
			break
		}
		l.act(i%3 == 0)
	}
	// Whatever it holds is anybody's from now on.
	for _, e := range l.held {
		l.letGo(e)
	}
	switch rng.IntN(4) {
	case 0: // in the middle of a wait, maybe already granted
		if l.reserve(int64(time.Hour)); l.Await(false) != nil && l.Waiting() {
			for range rng.IntN(3) {
				runtime.Gosched()
			}
		}
	case 1: // with commands that are never posted
		l.reserve(0)
		l.Queue(l.New(shard.None))
	}
	l.Close()
}

func (l *life) someTube() string { return l.tubes[l.rng.IntN(len(l.tubes))] }

// act does one thing.
func (l *life) act(producer bool) {
	for range l.rng.IntN(3) {
		runtime.Gosched()
	}
	n := l.rng.IntN(100)
	if producer {
		n -= 40
	}
	switch {
	case n < 15:
		// Times of plenty and times of need, when most reserves wait.
		if time.Now().UnixMilli()/200%2 == 0 && l.alive.Load() < 1000 || l.alive.Load() < 20 {
			l.put()
		}
	case n < 60:
		timeout := int64(0)
		if l.rng.IntN(2) == 0 {
			timeout = int64(l.rng.IntN(2_000_000)) + 1
		}
		if l.rng.IntN(50) == 0 {
			timeout = int64(20 * time.Millisecond)
		}
		l.reserve(timeout)
		l.flush()
	case n < 90:
		if len(l.held) > 0 {
			l.finish()
		}
	case n < 92:
		l.Watch(l.someTube())
	case n < 94:
		l.Ignore(l.someTube())
	case n < 95:
		l.Use(l.someTube())
	case n < 98:
		r := l.New(shard.Kick)
		r.N = 3
		l.one(r)
	case n < 99:
		r := l.New(shard.ReserveJob)
		r.ID = l.r.directory.LastID() - uint64(l.rng.IntN(50))
		l.one(r)
	default:
		switch l.rng.IntN(200) {
		case 0:
			r := l.New(shard.PauseTube)
			r.Name, r.Delay = l.someTube(), 1
			l.one(r)
		case 1, 2, 3: // longer than a short TTR
			time.Sleep(1200 * time.Millisecond)
		}
	}
}

func (l *life) put() {
	r := l.New(shard.Put)
	e := &entry{n: l.next.Add(1), short: l.rng.IntN(20) == 0}
	r.Pri, r.TTR = uint32(l.rng.IntN(5)), 3600
	if e.short {
		r.TTR = 1
	}
	if l.rng.IntN(30) == 0 {
		r.Delay = 1
	}
	body := fmt.Appendf(nil, "job %d\r\n", e.n)
	r.Body = body
	l.ledger.Store(e.n, e)
	if l.one(r) {
		e.inserted.Store(true)
		l.alive.Add(1)
		l.seen(l.last.ID, body)
	}
}

// reserve queues a reserve.
func (l *life) reserve(timeout int64) {
	r := l.New(shard.Reserve)
	r.Timeout = timeout
	l.Queue(r)
}

// one has one command served; last is its answer then.
func (l *life) one(r *shard.Request) bool {
	l.Queue(r)
	l.flush()
	return l.last.Status == shard.OK
}

// flush has what is queued answered.
func (l *life) flush() {
	began := time.Now().UnixNano()
	for {
		done := l.Await(l.rng.IntN(2) == 0)
		if done == nil {
			return
		}
		for _, r := range done {
			l.last = *r
			if r.Op == shard.Reserve {
				l.answers[r.Status].Add(1)
			}
			if (r.Op == shard.Reserve || r.Op == shard.ReserveJob) && r.Status == shard.OK {
				l.gotHold(r, began)
			}
			if r.Status == shard.Unserved || r.Status == shard.Waiting || r.Status == shard.Retry {
				l.failf("op %d is answered with status %d", r.Op, r.Status)
			}
		}
	}
}

// gotHold enters in the ledger that this life has a job.
func (l *life) gotHold(r *shard.Request, began int64) {
	e := l.seen(r.ID, r.Body)
	if e == nil {
		return
	}
	l.reserved.Add(1)
	since, now := e.since.Load(), time.Now().UnixNano()
	was := e.holder.Swap(l.me)
	e.since.Store(began)
	switch late := now-began > int64(time.Second); {
	case e.deleted.Load() && !(e.short && late):
		l.failf("job %d is given to %d after it was deleted", r.ID, l.me)
	case was != 0 && !e.short:
		l.failf("job %d is given to %d while %d has it", r.ID, l.me, was)
	case was != 0 && now-since < int64(time.Second):
		l.failf("job %d is given to %d, %v after %d got it", r.ID, l.me, time.Duration(now-since), was)
	case was != 0:
		l.expired.Add(1)
	}
	l.held = append(l.held, holding{e, began})
}

// letGo enters in the ledger that the job may be anybody's.
func (l *life) letGo(e holding) {
	if !e.holder.CompareAndSwap(l.me, 0) && !e.short {
		l.failf("job %d was with %d, though %d held it", e.id.Load(), e.holder.Load(), l.me)
	}
}

// finish gives up a job that it holds.
func (l *life) finish() {
	i := l.rng.IntN(len(l.held))
	e := l.held[i]
	r := l.New(shard.Delete)
	switch n := l.rng.IntN(10); {
	case n < 4:
		r.Op, r.Pri = shard.Release, uint32(l.rng.IntN(5))
		if l.rng.IntN(20) == 0 {
			r.Delay = 1
		}
	case n < 5:
		r.Op = shard.Bury
	case n < 6 && !e.short:
		r.Op = shard.Touch
	}
	r.ID = e.id.Load()
	op := r.Op
	if op != shard.Touch {
		l.held = append(l.held[:i], l.held[i+1:]...)
		l.letGo(e)
	}
	ok := l.one(r)
	now := time.Now().UnixNano()
	switch {
	case !ok && !e.short:
		l.failf("op %d of %d finds no job %d that it holds", op, l.me, e.id.Load())
	case !ok && now-e.began < int64(time.Second):
		l.failf("op %d of %d finds no job %d, %v after it was reserved", op, l.me, e.id.Load(), time.Duration(now-e.began))
	case ok && op == shard.Delete:
		if e.deleted.Swap(true) {
			l.failf("job %d is deleted twice", e.id.Load())
		}
		l.alive.Add(-1)
	}
}

// watch looks at the statistics all the time, from a client of its own.
func (st *stress) watch() {
	c := st.r.NewClient()
	defer c.Close()
	for time.Now().Before(st.end) {
		s := c.Stats()
		for _, n := range []int64{int64(s.Ready), int64(s.Reserved), int64(s.Delayed), int64(s.Buried),
			int64(s.Waiting), int64(s.Queued), int64(s.Observers), s.Memory} {
			if n < 0 {
				st.failf("negative statistics: %+v", s.Stats)
			}
		}
		if s.Waiting > int(s.Connections)*2 {
			st.failf("%d of %d clients wait", s.Waiting, s.Connections)
		}
		c.Tubes()
		time.Sleep(3 * time.Millisecond)
	}
}

// drain takes all that is there when everybody has gone, and compares it with
// the ledger.
func (st *stress) drain() {
	l := &life{stress: st, Client: st.r.NewClient(), rng: rand.New(rand.NewPCG(st.seed, 1000)), me: -1}
	defer l.Close()
	for _, tube := range st.tubes {
		l.Watch(tube)
	}
	if s := l.Stats(); s.Reserved != 0 || s.Waiting != 0 || s.Queued != 0 || s.Observers != 0 {
		st.failf("all clients are gone, but there are %d reserved, %d waiting, %d queued, %d observers",
			s.Reserved, s.Waiting, s.Queued, s.Observers)
	}
	for {
		for _, tube := range st.tubes {
			l.Use(tube)
			for range 2 { // the buried ones, then the delayed ones
				r := l.New(shard.Kick)
				r.N = 1 << 30
				l.one(r)
			}
		}
		n := len(l.held)
		r := l.New(shard.Reserve)
		r.Timeout = int64(1100 * time.Millisecond) // longer than a pause
		if !l.one(r) && len(l.held) == n {
			break
		}
		for len(l.held) > 0 {
			e := l.held[0]
			l.held = l.held[1:]
			l.letGo(e)
			r := l.New(shard.Delete)
			r.ID = e.id.Load()
			if !l.one(r) || e.deleted.Swap(true) {
				st.failf("job %d was deleted before, or is not there", e.id.Load())
			}
		}
	}
	st.ledger.Range(func(_, v any) bool {
		e := v.(*entry)
		if e.inserted.Load() && !e.deleted.Load() {
			st.failf("job %d is lost", e.id.Load())
		}
		if e.deleted.Load() && !e.inserted.Load() {
			st.failf("job %d was never answered to have been put", e.id.Load())
		}
		return true
	})
	if s := l.Stats(); s.Ready+s.Reserved+s.Delayed+s.Buried != 0 || s.Total != uint64(st.next.Load()) || s.Memory != 0 {
		st.failf("drained, but there are %d ready, %d reserved, %d delayed, %d buried, %d bytes, %d of %d put",
			s.Ready, s.Reserved, s.Delayed, s.Buried, s.Memory, s.Total, st.next.Load())
	}
}
