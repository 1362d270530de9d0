package router

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
	"github.com/sheafq/sheaf/shard"
)

// TestGearmanUnderStress has Gearman's workers sleep and grab over functions on
// several shards while clients submit in the foreground, where they wait for the
// end, and in the background, often what is there already; beanstalkd's workers
// take from the same tubes; and everybody hangs up in the middle of it. Every
// job ends once, each client that stays is told of each end once, and whoever
// sleeps is woken: if one wake-up is lost, a client waits for ever.
//
// SHEAF_STRESS=10m makes it last as long.
func TestGearmanUnderStress(t *testing.T) {
	duration := stressFor(t, 2*time.Second)
	for _, logged := range []bool{false, true} {
		t.Run(fmt.Sprint("log ", logged), func(t *testing.T) {
			watchdog(t, duration+time.Minute)
			cfg := Config{Shards: 5}
			if logged {
				cfg.Binlog = &binlog.Config{Dir: "/binlog", FS: faultfs.New(), SegmentSize: 256 << 10, Sync: binlog.SyncNever}
			}
			gearmanUnderStress(t, cfg, duration)
		})
	}
}

func gearmanUnderStress(t *testing.T, cfg Config, duration time.Duration) {
	r := newRouter(cfg)
	defer r.Close()
	shards := cfg.Shards
	st := &gearmanStress{t: t, r: r, seed: rand.Uint64(), end: time.Now().Add(duration)}
	t.Logf("seed %d", st.seed)
	for i := range 2 * shards {
		st.functions = append(st.functions, r.tubeOn(i%shards, i/shards))
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))

	var clients, workers sync.WaitGroup
	stop := make(chan struct{})
	lives := func(wg *sync.WaitGroup, n int, base uint64, life func(*rand.Rand), over func() bool) {
		for i := range n {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(st.seed, base+uint64(i)))
				for !over() && !t.Failed() {
					life(rng)
				}
			})
		}
	}
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	lives(&clients, 12, 0, st.client, func() bool { return !time.Now().Before(st.end) })
	lives(&workers, 12, 1000, func(rng *rand.Rand) { st.worker(rng, stop) }, stopped)
	lives(&workers, 2, 2000, st.beanstalkWorker, stopped)
	clients.Wait()

	c := r.NewClient()
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s := c.Stats()
		if s.Ready+s.Reserved+s.Delayed == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("seed %d: all clients are gone, and nobody takes %d jobs; %d are reserved, %d delayed", st.seed, s.Ready, s.Reserved, s.Delayed)
		}
	}
	close(stop)
	workers.Wait()
	background, ended := 0, 0
	st.ledger.Range(func(id, v any) bool {
		e := v.(*gearmanEntry)
		if e.background.Load() {
			if background++; e.ended.Load() != 1 {
				st.failf("background job %d has ended %d times", id, e.ended.Load())
			}
		}
		ended += int(e.ended.Load())
		return true
	})
	t.Logf("%d submitted, %d of them there already, %d background jobs, %d ended, %d sleeps, %d hang-ups",
		st.submitted.Load(), st.coalesced.Load(), background, ended, st.sleeps.Load(), st.hangups.Load())
	for _, f := range st.functions {
		if status := c.DropFunction(f); status != shard.OK && status != shard.NotFound {
			t.Errorf("function %s cannot be dropped: %d", f, status)
		}
	}
	c.Close()
	idleEngine(t, r)
}

type gearmanStress struct {
	t         *testing.T
	r         *Router
	seed      uint64
	end       time.Time
	functions []string

	ledger sync.Map // of *gearmanEntry, by id

	submitted, coalesced, sleeps, hangups atomic.Int64
}

// gearmanEntry is what is known of a job.
type gearmanEntry struct {
	background atomic.Bool  // somebody was told that it is there, in the background
	held       atomic.Bool  // by a worker; cleared before that gives it up
	ended      atomic.Int32 // how often; counted before that is reported
}

func (st *gearmanStress) entry(id uint64) *gearmanEntry {
	e, _ := st.ledger.LoadOrStore(id, new(gearmanEntry))
	return e.(*gearmanEntry)
}

func (st *gearmanStress) failf(format string, args ...any) {
	st.t.Errorf("seed %d: "+format, append([]any{st.seed}, args...)...)
}

// wire is a connection of a Gearman client.
type wire struct {
	*Client
	inbox *shard.Inbox
	poked chan struct{}
	t     *testing.T
}

func newWire(t *testing.T, r *Router) *wire {
	w := &wire{poked: make(chan struct{}, 1), t: t}
	w.Client, w.inbox = r.NewGearmanClient(w, 1<<20)
	return w
}

func (w *wire) Poke() {
	select {
	case w.poked <- struct{}{}:
	default:
	}
}

func (w *wire) Unread() time.Duration { return time.Hour }

func (w *wire) Kill() { w.t.Error("a connection is killed that reads") }

// one has one request served.
func (w *wire) one(r *shard.Request) shard.Request {
	if !w.Queue(r) {
		w.t.Error("refused by an empty queue")
	}
	var last shard.Request
	for done := w.Await(r.Timeout != 0); done != nil; done = w.Await(true) {
		for _, r := range done {
			last = *r
			last.Body = slices.Clone(r.Body)
		}
	}
	return last
}

func (st *gearmanStress) someFunction(rng *rand.Rand) string {
	return st.functions[rng.IntN(len(st.functions))]
}

// client submits for a while, and stays until it is told the end of all that it
// waits for, or not.
func (st *gearmanStress) client(rng *rand.Rand) {
	w := newWire(st.t, st.r)
	defer w.Close()
	waits := make(map[uint64]int) // how many ends it is to be told
	take := func(e *shard.Event) {
		switch {
		case waits[e.ID] == 0:
			st.failf("an event of job %d, for which nobody waits here", e.ID)
		case e.Kind == shard.Complete, e.Kind == shard.Fail:
			if waits[e.ID]--; waits[e.ID] == 0 {
				delete(waits, e.ID)
			}
			if len(e.Data) > 0 && string(e.Data) != fmt.Sprint("end of ", e.ID) {
				st.failf("job %d has ended with %q", e.ID, e.Data)
			}
		}
	}
	for range 1 + rng.IntN(10) {
		for range 1 + rng.IntN(3) {
			r := w.New(shard.Submit)
			r.Name = st.someFunction(rng)
			r.Pri = [...]uint32{shard.PriHigh, shard.PriNormal, shard.PriLow}[rng.IntN(3)]
			r.Task = &shard.Task{Background: rng.IntN(3) == 0}
			if rng.IntN(2) == 0 {
				r.Task.Unique = fmt.Sprint("u", rng.IntN(4))
			}
			if r.Task.Background && r.Task.Unique == "" && rng.IntN(50) == 0 {
				r.N = uint64(time.Now().Unix() + 1)
			}
			r.Body = []byte("x\r\n")
			before := st.r.directory.LastID()
			background := r.Task.Background
			a := w.one(r)
			if a.Status != shard.OK {
				st.failf("submit is answered %d", a.Status)
				return
			}
			st.submitted.Add(1)
			if a.ID <= before {
				st.coalesced.Add(1)
			}
			if background {
				st.entry(a.ID).background.Store(true)
			} else {
				waits[a.ID]++
			}
		}
		if rng.IntN(10) == 0 {
			st.hangups.Add(1)
			return
		}
		for w.inbox.Take(take); len(waits) > 0; w.inbox.Take(take) {
			select {
			case <-w.poked:
			case <-time.After(20 * time.Second):
				s := w.Stats()
				st.failf("the ends of jobs %v do not come; %d are ready, %d reserved", waits, s.Ready, s.Reserved)
				return
			}
		}
	}
}

// worker is what a worker does from its connect to its hang-up.
func (st *gearmanStress) worker(rng *rand.Rand, stop <-chan struct{}) {
	w := newWire(st.t, st.r)
	defer w.Close()
	for range 1 + rng.IntN(4) {
		w.CanDo(st.someFunction(rng), 0)
	}
	woken := false
	take := func(e *shard.Event) { woken = woken || e.Kind == shard.Wake }
	for {
		grab := w.New(shard.Grab)
		if rng.IntN(2) == 0 {
			grab.Timeout = rng.Int64N(int64(2 * time.Millisecond))
		}
		if rng.IntN(64) == 0 {
			go w.Hangup() // it may come before, in or after the wait
		}
		a := w.one(grab)
		switch a.Status {
		case shard.OK:
			if a.Tube == nil || a.Task == nil || string(a.Body) != "x\r\n" {
				st.failf("job %d comes as %+v", a.ID, a)
				return
			}
			e := st.entry(a.ID)
			if e.held.Swap(true) {
				st.failf("job %d is with two workers", a.ID)
			}
			if e.ended.Load() != 0 {
				st.failf("job %d comes after its end", a.ID)
			}
			if rng.IntN(4) == 0 {
				runtime.Gosched()
			}
			if rng.IntN(8) == 0 {
				e.held.Store(false)
				st.hangups.Add(1)
				return
			}
			if rng.IntN(3) == 0 {
				r := w.New(shard.Report)
				r.ID, r.N, r.Body = a.ID, uint64(shard.Data), []byte("some")
				if s := w.one(r).Status; s != shard.OK {
					st.failf("a report of job %d is answered %d", a.ID, s)
				}
			}
			e.held.Store(false)
			e.ended.Add(1)
			r := w.New(shard.Report)
			r.ID, r.N, r.Body = a.ID, uint64(shard.Complete), fmt.Append(nil, "end of ", a.ID)
			if rng.IntN(8) == 0 {
				r.N, r.Body = uint64(shard.Fail), nil
			}
			if s := w.one(r).Status; s != shard.OK {
				st.failf("the end of job %d is answered %d", a.ID, s)
			}
			continue
		case shard.TimedOut:
		default:
			st.failf("grab is answered %d", a.Status)
			return
		}
		if rng.IntN(20) == 0 { // as a worker that learns and forgets
			w.CantDo(w.Watched()[0].Name)
			w.CanDo(st.someFunction(rng), 0)
			continue
		}
		if w.Doze() {
			continue
		}
		if rng.IntN(10) == 0 { // asleep, it learns something
			w.CanDo(st.someFunction(rng), 0)
		}
		st.sleeps.Add(1)
		for woken = false; !woken; w.inbox.Take(take) {
			select {
			case <-w.poked:
			case <-stop:
				return
			}
		}
		if rng.IntN(8) == 0 {
			st.hangups.Add(1)
			return
		}
	}
}

// beanstalkWorker takes a few jobs in beanstalkd's way.
func (st *gearmanStress) beanstalkWorker(rng *rand.Rand) {
	c := st.r.NewClient()
	defer c.Close()
	for range 1 + rng.IntN(4) {
		c.Watch(st.someFunction(rng))
	}
	one := func(r *shard.Request) (a shard.Request) {
		c.Queue(r)
		for done := c.Await(false); done != nil; done = c.Await(false) {
			for _, r := range done {
				a = *r
			}
		}
		return a
	}
	for range 5 {
		r := c.New(shard.ReserveTimeout)
		r.Timeout = rng.Int64N(3_000_000)
		a := one(r)
		if a.Status != shard.OK {
			continue
		}
		e := st.entry(a.ID)
		if e.held.Swap(true) || e.ended.Load() != 0 {
			st.failf("job %d is with two workers, or had ended", a.ID)
		}
		e.held.Store(false)
		switch rng.IntN(4) {
		case 0:
			st.hangups.Add(1)
			return
		case 1:
			r := c.New(shard.Release)
			r.ID, r.Pri = a.ID, shard.PriNormal
			one(r)
		default:
			e.ended.Add(1)
			r := c.New(shard.Delete)
			r.ID = a.ID
			if s := one(r).Status; s != shard.OK {
				st.failf("delete of job %d is answered %d", a.ID, s)
			}
		}
	}
}

// TestGearmanDozeMeetsSubmit: a job that comes while a worker asks one shard
// after the other whether there is any is not missed.
func TestGearmanDozeMeetsSubmit(t *testing.T) {
	watchdog(t, time.Minute)
	r := newEngine(t, 3)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	var functions []string
	for i := range 3 {
		functions = append(functions, r.tubeOn(i, 0))
	}
	w, c := newWire(t, r), newWire(t, r)
	defer w.Close()
	defer c.Close()
	for _, f := range functions {
		w.CanDo(f, 0)
	}
	rounds := 20_000
	if testing.Short() || raceDetector {
		rounds = 4000
	}
	go_, done := make(chan string), make(chan struct{})
	defer close(go_)
	go func() {
		for f := range go_ {
			s := c.New(shard.Submit)
			s.Name, s.Task, s.Body, s.Pri = f, &shard.Task{Background: true}, []byte("x\r\n"), shard.PriNormal
			c.one(s)
			done <- struct{}{}
		}
	}()
	for i := range rounds {
		go_ <- functions[i%3]
		if !w.Doze() {
			woken := false
			for !woken {
				select {
				case <-w.poked:
				case <-time.After(10 * time.Second):
					t.Fatalf("round %d: asleep, and a job is ready", i)
				}
				w.inbox.Take(func(e *shard.Event) { woken = woken || e.Kind == shard.Wake })
			}
		}
		<-done
		a := w.one(w.New(shard.Grab))
		if a.Status != shard.OK {
			t.Fatalf("round %d: told of a job, and there is none: %d", i, a.Status)
		}
		report := w.New(shard.Report)
		report.ID, report.N = a.ID, uint64(shard.Complete)
		if s := w.one(report).Status; s != shard.OK {
			t.Fatalf("round %d: %d", i, s)
		}
		w.inbox.Take(func(*shard.Event) {})
	}
}

// TestGearmanLearnsAsleep: a worker that has dozed is told of jobs in functions
// that it learns later, on whichever shard, before or after they come, and in
// those of before.
func TestGearmanLearnsAsleep(t *testing.T) {
	r := newEngine(t, 3)
	submit := func(c *wire, f string) {
		s := c.New(shard.Submit)
		s.Name, s.Task, s.Body = f, &shard.Task{Background: true}, []byte("x\r\n")
		c.one(s)
	}
	for _, first := range [][]string{nil, {r.tubeOn(0, 0)}, {r.tubeOn(1, 0)}, {r.tubeOn(0, 0), r.tubeOn(1, 0)}} {
		for which := range 3 {
			w, c := newWire(t, r), newWire(t, r)
			for _, f := range first {
				w.CanDo(f, 0)
			}
			if w.Doze() {
				t.Fatal("there is a job already")
			}
			f := r.tubeOn(1, 1)
			if which == 0 {
				submit(c, f)
			}
			w.CanDo(r.tubeOn(1, 1), 0)
			if which == 1 && first != nil {
				f = first[0]
			}
			if which > 0 {
				submit(c, f)
			}
			wakes := 0
			w.inbox.Take(func(e *shard.Event) { wakes++ })
			if wakes != 1 {
				t.Errorf("of %v and later %s, a job in %s wakes %d times", first, r.tubeOn(1, 1), f, wakes)
			}
			a := w.one(w.New(shard.Grab))
			report := w.New(shard.Report)
			report.ID, report.N = a.ID, uint64(shard.Complete)
			w.one(report)
			w.Close()
			c.Close()
		}
	}
	// What is gone leaves nothing behind.
	c := r.NewClient()
	for _, f := range c.Functions() {
		if f.Workers != 0 || c.DropFunction(f.Name) != shard.OK {
			t.Errorf("left behind: %+v", f)
		}
	}
	if tubes := strings.Join(c.Tubes(), " "); tubes != shard.DefaultTube {
		t.Errorf("left behind: %s", tubes)
	}
	c.Close()
}
