package perf

// A load: groups of connections that run scripts for a while, and what was
// measured meanwhile.

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A group is connections that all do the same.
type group struct {
	name     string // of one of its connections, in errors
	n        int
	depth    int   // scripts at once
	mix      mix   // what they do
	counted  op    // a job counts when this is answered
	quota    int64 // scripts that all of them together begin; negative is no limit
	repeats  bool  // a script that ends is followed by another
	isWorker bool  // these wait in reserve until the load is over
	starts   bool  // the timetable, or a worker that is done, begins their scripts

	use   func(i int) string   // the tube that connection i uses; nil is none
	watch func(i int) []string // what it watches; nil is default

	first int     // scripts that each begins at the start
	order []uint8 // in which scripts of the mix are begun: indices in mix
}

// A plan describes a load before it begins.
type plan struct {
	name         string // in the report
	groups       []*group
	rate         float64 // 0 is a closed loop
	timesHandoff bool    // the latency from put to RESERVED is recorded
	warmUp       time.Duration
	duration     time.Duration // 0: until the quotas are used up
}

// A load is a plan being carried out. Before run starts the drivers everything is
// set; while they run, only stop and quit change, which any goroutine may set and
// read. Each conn belongs to its driver. The ledger has its own lock.
type load struct {
	plan
	cfg        *Config
	wire       *wire
	ledger     *ledger // nil unless everything is checked
	gearman    bool    // Gearman is spoken instead of beanstalkd's protocol
	conns      []*conn
	starters   []*conn // those of all drivers, by connection number
	drivers    []*driver
	hasWorkers bool        // a group has isWorker
	stop       atomic.Bool // begin nothing more
	quit       atomic.Bool // return

	longestDelay time.Duration // of a job
}

// A measurement is what was measured of a load.
type measurement struct {
	rec        recorder
	answers    int64         // all the time, not only while it was measured
	elapsed    time.Duration // that was measured
	clientCPU  time.Duration
	threads    int           // of the client
	busiest    time.Duration // CPU of its busiest thread
	server     serverUsage
	series     []Sample
	unanswered string // which commands had no answer at the end; empty if none
	missing    string // which jobs did not come; empty if none
	cut        bool   // the load was interrupted
}

// ringSize returns a power of two that is larger than n.
func ringSize(n int) int {
	size := 2
	for size <= n {
		size *= 2
	}
	return size
}

// threads returns the number of drivers: what the configuration says, or one for
// each CPU, so that the client is not what limits the server. If the server is on
// this machine, the client gets half of the CPUs: with a thread on each it would
// measure how the kernel lets client and server take turns. There are no more
// drivers than the largest group has connections. The i-th connections of all
// groups share a driver, so a producer and the worker on its tube do.
func (l *load) threads(target *Target) int {
	n := l.cfg.Threads
	switch {
	case n > 0:
	case target.local():
		n = cpus / 2
	default:
		n = cpus
	}
	widest := 0
	for _, g := range l.groups {
		widest = max(widest, g.n)
	}
	return max(1, min(n, widest))
}

// connect makes the connections and deals them out to the drivers.
func (l *load) connect(ctx context.Context, target *Target) error {
	for range l.threads(target) {
		d := &driver{load: l}
		if err := d.inbox.open(); err != nil {
			return err
		}
		l.drivers = append(l.drivers, d)
	}
	lines := len(l.wire.puts)
	for _, g := range l.groups {
		g.order = shuffled(g.mix)
		g.first = g.depth
		if g.starts && l.rate > 0 {
			g.first = 0
		}
		l.hasWorkers = l.hasWorkers || g.isWorker
		for i := range g.n {
			number := len(l.conns)
			d := l.drivers[i%len(l.drivers)]
			c := &conn{number: int32(number), group: g, driver: d, ring: make([]pending, ringSize(g.depth)), quota: -1}
			c.nextPut = number * 997 % lines
			c.nextBody = number * 7 * stride % variety
			c.nextScript = number * 37 % len(g.order)
			if g.quota >= 0 {
				c.quota = g.quota/int64(g.n) + btoi(int64(i) < g.quota%int64(g.n))
			}
			if err := c.connect(ctx, target.Addr, i); err != nil {
				return fmt.Errorf("%s %d: %w", g.name, number, explainLimit(err, number))
			}
			l.conns = append(l.conns, c)
			d.conns = append(d.conns, c)
			if g.starts {
				d.starters = append(d.starters, c)
				l.starters = append(l.starters, c)
			}
		}
	}
	return nil
}

func (c *conn) connect(ctx context.Context, addr string, i int) error {
	t, err := dialPlain(ctx, addr)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { t.Close() })() // so that Ctrl-C need not wait for an answer
	var watch []string
	if c.group.use != nil {
		c.tube = c.group.use(i)
	}
	if c.group.watch != nil {
		watch = c.group.watch(i)
	}
	if c.driver.load.ledger != nil {
		c.watched = make(map[string]bool)
		for _, tube := range watch {
			c.watched[tube] = true
		}
	}
	talk := t.subscribe
	if c.driver.load.gearman {
		c.gearman = newGearmanConn(c.group, c.tube, c.driver.load.cfg.Unique, c.number)
		talk = t.register
	}
	if err := talk(c.tube, watch); err != nil {
		t.Close()
		return err
	}
	c.fd, err = t.raw()
	return err
}

// quota returns how many jobs all groups may do, or 0 if one has no limit.
func (l *load) quota() (sum int64) {
	for _, g := range l.groups {
		if g.quota < 0 {
			return 0
		}
		sum += g.quota
	}
	return sum
}

func (l *load) close() {
	if l.ledger != nil {
		l.ledger.connsClosing(l.conns)
	}
	for _, c := range l.conns {
		unix.Close(c.fd)
	}
	for _, d := range l.drivers {
		d.inbox.close()
	}
}

// shuffled lays out a mix as 1000 scripts in random order, the same each time.
func shuffled(m mix) (order []uint8) {
	if len(m) == 1 {
		return []uint8{0}
	}
	for i, s := range m {
		for range s.share {
			order = append(order, uint8(i))
		}
	}
	r := rand.New(rand.NewPCG(5, 7))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// run carries the plan out and closes the connections. It is no error if ctx ends
// the load: what was measured until then is returned.
func (l *load) run(ctx context.Context, target *Target, watch func(stage)) (*measurement, error) {
	defer l.close()
	l.longestDelay = l.cfg.longestDelay()
	if err := l.connect(ctx, target); err != nil {
		return nil, err
	}
	begin := clock()
	from, to := begin+int64(l.warmUp), int64(math.MaxInt64)
	if l.duration > 0 {
		to = from + int64(l.duration)
	}
	ended := make(chan struct{})
	// A driver that fails ends all. Errors of the others are consequences.
	var failed error
	var first sync.Once
	var wg sync.WaitGroup
	takeProcessors(len(l.drivers))
	defer takeProcessors(-len(l.drivers))
	for i, d := range l.drivers {
		d.recorder.from, d.recorder.to = from, to
		// A driver without producers has no share of the timetable.
		share := float64(len(d.starters)) / float64(max(1, len(l.starters)))
		d.arrivals = newArrivals(begin, l.rate, share, i, l.cfg.Poisson)
		wg.Go(func() {
			if err := d.run(); err != nil {
				first.Do(func() { failed = err })
				l.quit.Store(true)
			}
		})
	}
	go func() { wg.Wait(); close(ended) }()

	o := observer{load: l, target: target, watch: watch, from: from, to: to}
	o.observe(ctx, ended)
	l.quit.Store(true)
	<-ended
	if l.gearman && l.ledger != nil {
		l.unfinished(failed != nil || o.m.cut)
	}
	if failed != nil {
		return nil, failed
	}
	m := &o.m
	m.threads = len(l.drivers)
	l.recordUnanswered(o.end, clock())
	for _, d := range l.drivers {
		if !d.exhausted() {
			d.recordMissed(o.end)
		}
		m.rec.merge(&d.recorder)
		m.answers += d.answers
		used := d.clientCPU[1] - d.clientCPU[0]
		m.clientCPU += used
		m.busiest = max(m.busiest, used)
	}
	m.elapsed = time.Duration(o.end - from)
	if o.end < to && !m.cut && m.rec.last > 0 {
		// The quotas were used up. The time until that was noticed does not count.
		m.elapsed = time.Duration(m.rec.last - from)
		m.server.span = m.elapsed
	}
	return m, nil
}

// A brokenError tells what a server has done wrong that the figures do not show.
// The load was carried out all the same.
type brokenError struct{ what string }

func (e *brokenError) Error() string { return e.what }

// broken returns a brokenError, or nil.
func (m *measurement) broken() error {
	var what []string
	if m.rec.early > 0 {
		what = append(what, fmt.Sprintf("%s came before the delay was over, by up to %s", plural(m.rec.early, "job"), micros(float64(m.rec.earliest)/1e3)))
	}
	for _, s := range []string{m.unanswered, m.missing} {
		if s != "" {
			what = append(what, s)
		}
	}
	if len(what) == 0 {
		return nil
	}
	return &brokenError{strings.Join(what, "; ")}
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
