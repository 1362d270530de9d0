package router

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// TestDurableMany: many clients at once do anything to the same jobs. After a
// crash each job is as its commands have left it, in one of the orders in which
// they may have taken effect: of those that were answered before the crash all,
// of those that were under way any.
func TestDurableMany(t *testing.T) {
	points, jobs := 0, 0
	durable(t, 60, func(d *durRun) {
		end := d.begin(durSyncs[d.rng.IntN(len(durSyncs))], 1+d.rng.IntN(5))
		for _, c := range d.clients {
			c.close()
		}
		m := &durCrowd{run: d}
		d.trap.take = m.take
		d.trap.every(d.gaps(60))
		m.play(2 + d.rng.IntN(6))
		m.take("at rest")
		if err := end(); err != nil {
			d.fatalf("closing: %v", err)
		}
		d.rng.Shuffle(len(m.points), func(i, j int) { m.points[i], m.points[j] = m.points[j], m.points[i] })
		for _, p := range m.points[:min(len(m.points), 6)] {
			points++
			jobs += m.check(p)
		}
	})
	t.Logf("%d points, %d jobs", points, jobs)
}

// durCrowd is many clients, and what each has done.
type durCrowd struct {
	run   *durRun
	clock atomic.Int64 // counts what happens

	mu     sync.Mutex // over what follows
	ops    []*durOp
	points []*durMoment
}

// durOp is one command. Nobody looks at it before all have been answered.
type durOp struct {
	op        shard.Op // shard.GiveBack for a client that goes
	client    int      // counted from 1
	id        uint64
	pri       uint32
	delay     uint32
	tube      string // that is used
	body      []byte
	call, ret int64 // on the clock
	ok        bool
}

// durMoment is a crash: what was answered by from had happened, what was called
// after to had not.
type durMoment struct {
	*durPoint
	from, to int64
}

func (m *durCrowd) take(when string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.points) < durMostPoints {
		from := m.clock.Load()
		p := m.run.point(when)
		m.points = append(m.points, &durMoment{p, from, m.clock.Load()})
	}
}

// play has some clients go on at once, and returns when all have ended.
func (m *durCrowd) play(clients int) {
	var wg sync.WaitGroup
	var lives atomic.Int64
	for i := range clients {
		rng := rand.New(rand.NewPCG(m.run.seed, uint64(i)+1000))
		wg.Go(func() {
			for range 1 + rng.IntN(3) {
				m.life(rng, int(lives.Add(1)))
			}
		})
	}
	wg.Wait()
}

// durLife is one client, from its beginning to its end.
type durLife struct {
	*durCrowd
	*Client
	rng    *rand.Rand
	random *durRun // for bodies
	me     int
	held   []uint64
	queued []*durOp
}

func (m *durCrowd) life(rng *rand.Rand, me int) {
	l := &durLife{durCrowd: m, Client: m.run.router.NewClient(), rng: rng, random: &durRun{rng: rng}, me: me}
	var tubes [3]string
	for i := range tubes {
		tubes[i] = durTubes[rng.IntN(3)]
		l.Watch(tubes[i])
	}
	for range rng.IntN(60) {
		l.Use(tubes[rng.IntN(len(tubes))])
		for range 1 + rng.IntN(4) {
			l.command()
		}
		l.await()
	}
	var gone []*durOp
	for _, id := range l.held {
		gone = append(gone, &durOp{op: shard.GiveBack, client: me, id: id, ok: true, call: m.clock.Add(1)})
	}
	l.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range gone {
		o.ret = m.clock.Add(1)
		m.ops = append(m.ops, o)
	}
}

// durTTR is too long to run out, in seconds.
const durTTR = 1 << 20

// command queues a random command.
func (l *durLife) command() {
	last := l.run.router.directory.LastID()
	some := func() uint64 { return 1 + last - min(last, l.rng.Uint64N(20)) }
	mine := some()
	if len(l.held) > 0 && l.rng.IntN(8) > 0 {
		mine = l.held[l.rng.IntN(len(l.held))]
	}
	o := &durOp{client: l.me, pri: uint32(l.rng.IntN(5)), tube: l.Used().Name}
	if l.rng.IntN(5) == 0 {
		o.delay = 1 << 20
	}
	var r shard.Request
	switch n := l.rng.IntN(20); {
	case n < 4:
		o.op, o.body = shard.Put, l.random.body()
	case n < 6:
		o.op = shard.Reserve
	case n < 7:
		o.op, r.Timeout = shard.ReserveTimeout, l.rng.Int64N(int64(time.Second))
	case n < 9:
		o.op, o.id = shard.ReserveJob, some()
	case n < 12:
		o.op, o.id = shard.Release, mine
	case n < 15:
		o.op, o.id = shard.Bury, mine
	case n < 16:
		o.op, r.N = shard.Kick, 1+l.rng.Uint64N(3)
	case n < 18:
		o.op, o.id = shard.KickJob, some()
	case n < 19:
		o.op, o.id = shard.Delete, mine
	default:
		o.op, o.id = shard.Delete, some()
	}
	r.Op, r.ID, r.Pri, r.Delay, r.TTR, r.Body = o.op, o.id, o.pri, o.delay, durTTR, o.body
	for queued := false; !queued; {
		q := l.New(r.Op)
		*q = r
		o.call = l.clock.Add(1)
		if queued = l.Queue(q); !queued {
			l.await()
		}
	}
	l.queued = append(l.queued, o)
	l.mu.Lock()
	l.ops = append(l.ops, o)
	l.mu.Unlock()
}

// await has what is queued answered.
func (l *durLife) await() {
	for done := l.Await(false); done != nil; done = l.Await(false) {
		for _, r := range done {
			o := l.queued[0]
			l.queued = l.queued[1:]
			o.ok, o.ret = r.Status == shard.OK, l.clock.Add(1)
			switch o.op {
			case shard.Put:
				o.id = r.ID
			case shard.Reserve, shard.ReserveTimeout, shard.ReserveJob:
				if o.ok {
					o.id = r.ID
					l.held = append(l.held, o.id)
				}
			case shard.Delete, shard.Release, shard.Bury:
				if o.ok {
					l.held = slices.DeleteFunc(l.held, func(id uint64) bool { return id == o.id })
				}
			}
		}
	}
}
