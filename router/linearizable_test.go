package router

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sheafq/sheaf/shard"
)

// TestLinearizablePerTube: clients that go from tube to tube, watching one at
// a time.
func TestLinearizablePerTube(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 7} {
		runHistories(t, historyConfig{shards: shards, clients: 6, commands: 10, tubes: 3, single: true})
	}
}

// TestLinearizableOverTubes: clients that watch several tubes, on as many
// shards as there are.
func TestLinearizableOverTubes(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 7} {
		runHistories(t, historyConfig{shards: shards, clients: 5, commands: 8, tubes: 4})
	}
}

// historyConfig says what histories are made of.
type historyConfig struct {
	shards, clients, commands, tubes int
	// single has every command concern one tube, which is known, so that the
	// history can be checked tube by tube.
	single bool
}

// runHistories makes and checks many short histories. More processors than
// there are make the system interrupt goroutines at places where the runtime
// would not.
func runHistories(t *testing.T, cfg historyConfig) {
	t.Helper()
	watchdog(t, 3*time.Minute)
	rounds := 250
	if testing.Short() {
		rounds = 25
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	base := rand.Uint64()
	unknown := 0
	for round := range rounds {
		seed := base + uint64(round)
		history := record(t, cfg, seed)
		checkIDs(t, history)
		m := model(cfg.clients)
		if cfg.single {
			m = perTube(cfg.clients)
		}
		switch porcupine.CheckOperationsTimeout(m, history, 20*time.Second) {
		case porcupine.Illegal:
			t.Fatalf("not linearizable: %+v, seed %d, round %d\n%s", cfg, seed, round, describe(history))
		case porcupine.Unknown:
			unknown++
		}
	}
	if unknown > rounds/50 {
		t.Errorf("%+v: the checker gave up on %d of %d histories", cfg, unknown, rounds)
	}
}

// checkIDs: ids are dense from 1, and in the order of the puts that did not
// overlap.
func checkIDs(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	seen := make(map[uint64]bool)
	for _, a := range history {
		if a.Input.(call).op != shard.Put {
			continue
		}
		seen[a.Output.(reply).id] = true
		for _, b := range history {
			if b.Input.(call).op == shard.Put && a.Return < b.Call && a.Output.(reply).id >= b.Output.(reply).id {
				t.Fatalf("ids out of order\n%s", describe(history))
			}
		}
	}
	for id := range uint64(len(seen)) {
		if !seen[id+1] {
			t.Fatalf("ids have gaps\n%s", describe(history))
		}
	}
}

// recorder is what the clients of one history share.
type recorder struct {
	cfg   historyConfig
	r     *Router
	names []string
	clock atomic.Int64 // counts moments
	mu    sync.Mutex
	known []known // jobs that somebody has been told of
	all   []porcupine.Operation
}

type known struct {
	id   uint64
	tube int
}

// record runs one history.
func record(t *testing.T, cfg historyConfig, seed uint64) []porcupine.Operation {
	rec := &recorder{cfg: cfg, r: newRouter(Config{Shards: cfg.shards})}
	for i := range cfg.tubes {
		rec.names = append(rec.names, rec.r.tubeOn(i%cfg.shards, i/cfg.shards))
	}
	clients := make([]*Client, cfg.clients)
	var ready, wg sync.WaitGroup
	ready.Add(cfg.clients)
	for i := range cfg.clients {
		wg.Go(func() {
			h := &historian{
				recorder: rec, me: i, Client: rec.r.NewClient(),
				rng: rand.New(rand.NewPCG(seed, uint64(i))),
			}
			h.Watch(rec.names[0])
			h.Ignore(shard.DefaultTube)
			ready.Done()
			ready.Wait()
			h.run()
			rec.mu.Lock()
			rec.all = append(rec.all, h.history...)
			rec.mu.Unlock()
			clients[i] = h.Client
		})
	}
	wg.Wait()
	// Not before: the jobs that a client holds are put back when it is closed.
	for _, c := range clients {
		c.Close()
	}
	idleEngine(t, rec.r)
	rec.r.Close()
	return rec.all
}

// historian is one client of a history.
type historian struct {
	*recorder
	*Client
	me      int
	rng     *rand.Rand
	history []porcupine.Operation
	queued  []pendingCall
	held    []known
}

type pendingCall struct {
	in    call
	began int64
}

func (h *historian) run() {
	for n := 0; n < h.cfg.commands; {
		h.dawdle()
		h.moveOn()
		length := 1
		if h.rng.IntN(3) == 0 {
			length = min(2+h.rng.IntN(3), h.cfg.commands-n)
		}
		for range length {
			h.give(h.invent())
			n++
		}
		h.flush()
	}
}

// dawdle makes the timing odd.
func (h *historian) dawdle() {
	switch h.rng.IntN(4) {
	case 0:
		for range h.rng.IntN(4) {
			runtime.Gosched()
		}
	case 1:
		for range h.rng.IntN(3000) {
			h.clock.Load()
		}
	}
}

// moveOn changes the tubes that are used and watched, now and then.
func (h *historian) moveOn() {
	if h.rng.IntN(2) == 0 {
		return
	}
	h.Use(h.names[h.rng.IntN(len(h.names))])
	if h.cfg.single {
		old := h.Watched()[0].Name
		if h.Used().Name != old {
			h.Watch(h.Used().Name)
			h.Ignore(old)
		}
		return
	}
	for _, name := range h.names {
		if h.rng.IntN(4) == 0 {
			h.Ignore(name)
		} else {
			h.Watch(name)
		}
	}
}

func (h *historian) watchedSet() (set uint64) {
	for _, t := range h.Watched() {
		set |= 1 << h.tubeIndex(t)
	}
	return set
}

func (h *historian) tubeIndex(t *shard.Tube) int {
	for i, name := range h.names {
		if name == t.Name {
			return i
		}
	}
	return len(h.names) // default, where nothing is put
}

// invent thinks of a command.
func (h *historian) invent() call {
	in := call{client: h.me, tube: h.tubeIndex(h.Used()), pri: uint32(h.rng.IntN(3))}
	switch n := h.rng.IntN(100); {
	case n < 30:
		in.op, in.delayed = shard.Put, h.rng.IntN(6) == 0
		if in.tube == len(h.names) {
			h.flush()
			h.Use(h.names[0])
			in.tube = 0
		}
	case n < 60:
		in.op, in.tubes = shard.Reserve, h.watchedSet()
	case n < 63:
		in.op, in.part = shard.Kick, 1+h.rng.IntN(2) // the last part
	case n < 66:
		in.op = shard.PeekReady
	case n < 67:
		in.op = shard.PeekDelayed
	case n < 68:
		in.op = shard.PeekBuried
	default:
		ops := []shard.Op{shard.Delete, shard.Delete, shard.Release, shard.Release, shard.Bury, shard.Touch,
			shard.ReserveJob, shard.KickJob, shard.Peek}
		in.op = ops[h.rng.IntN(len(ops))]
		job := h.someJob()
		in.id, in.tube = job.id, job.tube
	}
	return in
}

// someJob picks a job for a command by id: mostly one that is held, else one
// that somebody knows of; or, where its tube need not be known, one that is
// only just coming.
func (h *historian) someJob() known {
	if len(h.held) > 0 && h.rng.IntN(3) > 0 {
		return h.held[h.rng.IntN(len(h.held))]
	}
	if !h.cfg.single && h.rng.IntN(2) == 0 {
		return known{id: h.r.directory.LastID() + uint64(h.rng.IntN(2))}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) == 0 {
		return known{id: 250}
	}
	// The latest are the most contended.
	return h.known[len(h.known)-1-h.rng.IntN(min(4, len(h.known)))]
}

// give queues a command.
func (h *historian) give(in call) {
	began := h.clock.Add(1)
	for {
		r := h.New(in.op)
		r.ID, r.Pri, r.N = in.id, in.pri, uint64(in.part)
		switch in.op {
		case shard.Put:
			r.TTR, r.Body = 1000, []byte("x\r\n")
			if in.delayed {
				r.Delay = 1000
			}
		case shard.Reserve:
			// A third of the reserves wait, for 1 to 500 microseconds.
			if h.rng.IntN(3) == 0 {
				r.Timeout = int64(1 + h.rng.IntN(500_000))
			}
		}
		if h.Queue(r) {
			break
		}
		h.flush()
	}
	h.queued = append(h.queued, pendingCall{in, began})
}

// flush has all that is queued answered, and writes it down.
func (h *historian) flush() {
	for {
		done := h.Await(h.rng.IntN(2) == 0)
		if done == nil {
			return
		}
		now := h.clock.Add(1)
		for _, r := range done {
			p := h.queued[0]
			h.queued = h.queued[1:]
			h.note(&p.in, r)
			last := p.in.part
			for p.in.part = min(1, last); p.in.part <= last; p.in.part++ {
				p.in.seq = len(h.history)
				h.history = append(h.history, porcupine.Operation{
					ClientId: h.me, Input: p.in, Call: p.began, Output: reply{r.Status, r.ID, r.N}, Return: now,
				})
			}
		}
	}
}

// note remembers what an answer tells of jobs.
func (h *historian) note(in *call, r *shard.Request) {
	if r.Status != shard.OK {
		return
	}
	job := known{r.ID, in.tube}
	switch in.op {
	case shard.Put:
		h.mu.Lock()
		h.known = append(h.known, job)
		h.mu.Unlock()
	case shard.Reserve, shard.ReserveJob:
		if in.op == shard.Reserve && h.cfg.single {
			for job.tube = 0; in.tubes>>job.tube != 1; job.tube++ {
			}
		}
		h.held = append(h.held, job)
	case shard.Delete, shard.Release, shard.Bury:
		for i, j := range h.held {
			if j.id == in.id {
				h.held = append(h.held[:i], h.held[i+1:]...)
				break
			}
		}
	}
}

// TestCheckerHasTeeth: histories that are wrong in one thing are refused, and
// the same histories put right are accepted.
func TestCheckerHasTeeth(t *testing.T) {
	const clients = 3
	ok := func(id uint64) reply { return reply{status: shard.OK, id: id} }
	timedOut, notFound := reply{status: shard.TimedOut}, reply{status: shard.NotFound}
	put := func(client int, tube int, pri uint32) call {
		return call{client: client, op: shard.Put, tube: tube, pri: pri}
	}
	reserve := func(client int, tubes uint64) call {
		return call{client: client, op: shard.Reserve, tubes: tubes}
	}
	byID := func(client int, op shard.Op, id uint64) call { return call{client: client, op: op, id: id} }
	kick := func(client int) call { return call{client: client, op: shard.Kick, part: 1} }

	// Steps follow each other, but for those with the same moment, which
	// overlap.
	type step struct {
		at  int64
		in  call
		out reply
	}
	tests := []struct {
		name  string
		right bool
		steps []step
	}{
		{"the better job", true, []step{{1, put(0, 0, 2), ok(1)}, {2, put(0, 1, 1), ok(2)}, {3, reserve(1, 3), ok(2)}}},
		{"a worse job", false, []step{{1, put(0, 0, 2), ok(1)}, {2, put(0, 1, 1), ok(2)}, {3, reserve(1, 3), ok(1)}}},
		{"a worse job, while the better comes", true, []step{{1, put(0, 0, 2), ok(1)}, {3, put(0, 1, 1), ok(2)}, {3, reserve(1, 3), ok(1)}}},
		{"a job of the same priority out of turn", false, []step{{1, put(0, 0, 1), ok(1)}, {2, put(0, 0, 1), ok(2)}, {3, reserve(1, 1), ok(2)}}},
		{"nothing ready", true, []step{{1, put(0, 0, 1), ok(1)}, {2, reserve(1, 2), timedOut}}},
		{"timed out beside a ready job", false, []step{{1, put(0, 0, 1), ok(1)}, {2, reserve(1, 1), timedOut}}},
		{"timed out while a job comes", true, []step{{2, put(0, 0, 1), ok(1)}, {2, reserve(1, 1), timedOut}}},
		{"timed out while a job is held and put back", false, []step{
			{1, put(0, 0, 2), ok(1)}, {1, put(0, 1, 1), ok(2)},
			{3, reserve(1, 3), ok(2)}, {3, reserve(2, 1), timedOut},
		}},
		{"given twice", false, []step{{1, put(0, 0, 1), ok(1)}, {2, reserve(1, 1), ok(1)}, {3, reserve(2, 1), ok(1)}}},
		{"given again after release", true, []step{{1, put(0, 0, 1), ok(1)}, {2, reserve(1, 1), ok(1)}, {3, byID(1, shard.Release, 1), ok(1)}, {4, reserve(2, 1), ok(1)}}},
		{"released by another", false, []step{{1, put(0, 0, 1), ok(1)}, {2, reserve(1, 1), ok(1)}, {3, byID(2, shard.Release, 1), ok(1)}}},
		{"lost by release", false, []step{{1, put(0, 0, 1), ok(1)}, {2, reserve(1, 1), ok(1)}, {3, byID(1, shard.Release, 1), ok(1)}, {4, reserve(2, 1), timedOut}}},
		{"touched after delete", false, []step{{1, put(0, 0, 1), ok(1)}, {2, reserve(1, 1), ok(1)}, {3, byID(1, shard.Delete, 1), ok(1)}, {4, byID(1, shard.Touch, 1), ok(1)}}},
		{"deleted twice", false, []step{{1, put(0, 0, 1), ok(1)}, {2, byID(1, shard.Delete, 1), ok(1)}, {2, byID(2, shard.Delete, 1), ok(1)}}},
		{"not found though it is there", false, []step{{1, put(0, 0, 1), ok(1)}, {2, byID(1, shard.Delete, 1), notFound}}},
		{"kicked in the order of burying", true, []step{
			{1, put(0, 0, 1), ok(1)}, {2, put(0, 0, 1), ok(2)}, {3, byID(1, shard.ReserveJob, 1), ok(1)}, {4, byID(1, shard.ReserveJob, 2), ok(2)},
			{5, byID(1, shard.Bury, 2), ok(2)}, {6, byID(1, shard.Bury, 1), ok(1)}, {7, kick(2), reply{status: shard.OK, n: 1}}, {8, reserve(2, 1), ok(2)},
		}},
		{"kicked by id", false, []step{
			{1, put(0, 0, 1), ok(1)}, {2, put(0, 0, 1), ok(2)}, {3, byID(1, shard.ReserveJob, 1), ok(1)}, {4, byID(1, shard.ReserveJob, 2), ok(2)},
			{5, byID(1, shard.Bury, 2), ok(2)}, {6, byID(1, shard.Bury, 1), ok(1)}, {7, kick(2), reply{status: shard.OK, n: 1}}, {8, reserve(2, 1), ok(1)},
		}},
		{"a pipeline in order", true, []step{{1, put(0, 0, 1), ok(1)}, {1, byID(0, shard.Delete, 1), ok(1)}}},
		{"a pipeline out of order", false, []step{{1, byID(0, shard.Delete, 1), ok(1)}, {1, put(0, 0, 1), ok(1)}}},
	}
	for _, test := range tests {
		var history []porcupine.Operation
		var seq [clients]int
		for _, s := range test.steps {
			s.in.seq = seq[s.in.client]
			seq[s.in.client]++
			history = append(history, porcupine.Operation{Input: s.in, Call: 10 * s.at, Output: s.out, Return: 10*s.at + 5})
		}
		if got := porcupine.CheckOperations(model(clients), history); got != test.right {
			t.Errorf("%s: the checker says %v\n%s", test.name, got, describe(history))
		}
	}
}
