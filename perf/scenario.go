package perf

// The table of scenarios and presets. A scenario says what is done; a preset is a
// scenario with other numbers.

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Scenario is a kind of load, with the numbers that it is run with unless flags
// change them. It must not be changed.
type Scenario struct {
	Name   string
	About  string
	Of     string // of a preset: the scenario that it is a variant of
	Config Config

	// Gearman says that the server is to speak Gearman's protocol instead of
	// beanstalkd's.
	Gearman bool
	// Restarts says that the server is killed and started again. So it must be one
	// that is started here; and Check refuses the scenario.
	Restarts bool

	binlog bool      // the server is to have a binlog
	puts   bool      // jobs are only put, so nothing is watched
	atOnce bool      // jobs are reserved with a timeout of 0, so they cannot have a delay
	names  [2]string // in reports, of two latencies: handoff, and wholeScript
	run    func(*session) error
}

// Unused returns the flags of sheafperf that have no effect on s, without dashes.
func (s *Scenario) Unused() (flags []string) {
	c := &s.Config
	for _, n := range []struct {
		flag string
		is   bool
	}{
		{"connections", c.Connections > 0}, {"producers", c.Producers > 0}, {"workers", c.Workers > 0},
		{"jobs", c.Jobs > 0}, {"beside", c.Beside > 0}, {"sync", c.Sync != ""},
		{"priority", !s.Gearman}, {"delay", !s.Gearman && !s.atOnce}, {"ttr", !s.Gearman}, {"unique", s.Gearman}, {"watch", !s.puts},
		{"rate", !s.Restarts}, {"poisson", !s.Restarts}, {"warm-up", !s.Restarts}, {"duration", !s.Restarts}, {"grace", !s.Restarts},
	} {
		if !n.is {
			flags = append(flags, n.flag)
		}
	}
	return flags
}

// Fit returns c with the scenario's own value, or none, for each number that it
// does not use.
func (s *Scenario) Fit(c Config) Config {
	for _, flag := range s.Unused() {
		switch flag {
		case "connections":
			c.Connections = 0
		case "producers":
			c.Producers = 0
		case "workers":
			c.Workers = 0
		case "jobs":
			c.Jobs = 0
		case "beside":
			c.Beside = 0
		case "sync":
			c.Sync = ""
		case "priority":
			c.Priority = s.Config.Priority
		case "delay":
			c.Delay = s.Config.Delay
		case "ttr":
			c.TTR = s.Config.TTR
		case "unique":
			c.Unique = 0
		case "watch":
			c.Watch = s.Config.Watch
		case "rate":
			c.Rate = s.Config.Rate
		case "poisson":
			c.Poisson = s.Config.Poisson
		case "warm-up":
			c.WarmUp = s.Config.WarmUp
		case "duration":
			c.Duration = s.Config.Duration
		case "grace":
			c.Grace = s.Config.Grace
		}
	}
	return c
}

// Validate returns what is wrong with c as the numbers of s, in terms of the
// flags of sheafperf.
func (s *Scenario) Validate(c *Config) error {
	errs := []error{c.Validate()}
	for _, n := range []struct {
		flag  string
		n     int
		needs bool
	}{
		{"connections", c.Connections, s.Config.Connections > 0}, {"producers", c.Producers, s.Config.Producers > 0},
		{"workers", c.Workers, s.Config.Workers > 0}, {"jobs", c.Jobs, s.Config.Jobs > 0},
	} {
		if n.needs && n.n == 0 {
			errs = append(errs, fmt.Errorf("--%s 0: must be at least 1", n.flag))
		}
	}
	if take, have := c.memoryNeeded(), clientMemory(); take > have && have > 0 {
		errs = append(errs, fmt.Errorf("--body %s: with %s at once the client takes about %s of memory, and it may have %s, half of this machine's; lower --body, or use fewer connections",
			c.Body, plural(c.Connections+c.Producers+c.Workers, "connection"), gibibytes(take), gibibytes(have)))
	}
	if used := min(c.Tubes, c.Producers); c.Workers > 0 && c.Watch > 0 && used > c.Workers*c.Watch {
		errs = append(errs, fmt.Errorf("%s, each of which watches %s, leave some of %s unwatched; --watch %d would be enough",
			plural(c.Workers, "worker"), plural(c.Watch, "tube"), plural(used, "tube"), (used+c.Workers-1)/c.Workers))
	}
	if s.atOnce && c.longestDelay() > 0 {
		errs = append(errs, fmt.Errorf("--delay %s: %s takes only jobs that are ready", c.Delay, s.Name))
	}
	return errors.Join(errs...)
}

// clientMemory is how many bytes a client may take: half of the machine's, since
// the server may be on it and has the same bodies. 0 if not known.
var clientMemory = sync.OnceValue(func() int64 { return ThisMachine().Memory / 2 })

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// fits returns what keeps s from being run on t, before anything is started.
func (s *Scenario) fits(c *Config, t *Target) error {
	if s.Restarts && !t.started() {
		return fmt.Errorf("%s restarts the server, so it must be one that is started here", s.Name)
	}
	return s.Validate(c)
}

// base is what the numbers of all scenarios are derived from.
var base = Config{
	Depth: 1, Tubes: 1, Watch: 1, Body: Fixed(128), Content: ContentText, Priority: Fixed(1024), TTR: 600,
	WarmUp: time.Second, Duration: 5 * time.Second, Grace: 5 * time.Second,
}

// with returns a changed copy of c.
func (c Config) with(change func(*Config)) Config {
	change(&c)
	return c
}

// scenarios is in the order of lists and reports; presets follow their scenario.
var scenarios = func() []*Scenario {
	all := []*Scenario{
		{Name: "cycle", About: "put, reserve, delete on each connection", run: runCycle,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes = 8, 16, 8 })},
		{Name: "produce", About: "put alone", run: runProduce, puts: true,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Jobs = 8, 64, 8, 200_000 })},
		{Name: "consume", About: "reserve and delete of jobs that were put before", run: runConsume, atOnce: true,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Jobs = 8, 64, 8, 200_000 })},
		{Name: "handoff", About: "latency from put to RESERVED: each producer has a worker blocked in reserve", run: runPairs,
			names:  [2]string{"handoff"},
			Config: base.with(func(c *Config) { c.Producers, c.Workers, c.Tubes, c.LeastBody = 32, 32, 32, headerFrom })},
		{Name: "fanin", About: "workers that watch all of many tubes", run: runPairs,
			names:  [2]string{"handoff"},
			Config: base.with(func(c *Config) { c.Producers, c.Workers, c.Tubes, c.Watch, c.LeastBody = 32, 16, 32, 32, headerFrom })},
		{Name: "delayed", About: "how late delayed jobs come, under load", run: runPairs,
			names: [2]string{"lateness"},
			Config: base.with(func(c *Config) {
				c.Producers, c.Workers, c.Tubes, c.Watch, c.Depth = 8, 16, 8, 8, 256
				c.LeastBody = headerFrom
				c.Rate, c.Delay = Rate{jobs: 5000}, Dist{shape: uniform, lo: 1, hi: 2}
			})},
		{Name: "manytubes", About: "a cycle beside tubes that have a job each", run: runManyTubes,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Beside = 8, 16, 8, 10_000 })},
		{Name: "backlog", About: "jobs waiting: memory of each, and whether a cycle slows down", run: runBacklog,
			Config: base.with(func(c *Config) {
				c.Connections, c.Depth, c.Tubes, c.Jobs, c.Rate = 8, 16, 8, 1_000_000, Rate{part: 0.7}
			})},
		{Name: "idle", About: "connections that do nothing: memory of each, and whether a cycle slows down", run: runIdle,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Beside = 8, 16, 8, 10_000 })},
		{Name: "durable", About: "a cycle with the server's binlog and its sync mode (--sync)", run: runCycle, binlog: true,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Sync = 64, 1, 64, "0" })},
		{Name: "restart", About: "time to recover jobs from the binlog after kill -9", run: runRestart, binlog: true, puts: true, Restarts: true,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Jobs, c.Sync = 8, 64, 8, 1_000_000, "50" })},
		{Name: "mixed", About: "a day in the life: 70 % cycle; release, bury and kick, peek, touch, stats", run: runMixed,
			Config: base.with(func(c *Config) {
				c.Connections, c.Depth, c.Tubes = 32, 4, 8
				c.Body, c.Priority = Dist{shape: exponential, lo: 512}, Dist{shape: uniform, lo: 0, hi: 2048}
			})},
	}
	all = append(all, gearmanScenarios()...)
	for i, s := range all {
		if s.names[1] == "" {
			all[i].names[1] = "cycle"
		}
	}
	preset := func(name, of, about string, change func(*Config)) {
		at := slices.IndexFunc(all, func(s *Scenario) bool { return s.Name == of })
		p := *all[at]
		p.Name, p.Of, p.About, p.Config = name, of, about, p.Config.with(change)
		for at++; at < len(all) && all[at].Of == of; at++ {
		}
		all = slices.Insert(all, at, &p)
	}
	preset("cycle-8x64", "cycle", "deep pipelines", func(c *Config) { c.Depth = 64 })
	preset("cycle-64x1", "cycle", "many connections that do not pipeline", func(c *Config) { c.Connections, c.Depth, c.Tubes = 64, 1, 64 })
	preset("cycle-1x1", "cycle", "one connection that does not pipeline", func(c *Config) { c.Connections, c.Depth, c.Tubes = 1, 1, 1 })
	preset("cycle-16k", "cycle", "bodies of 16 KiB", func(c *Config) { c.Body = Fixed(16 << 10) })
	preset("manytubes-1k", "manytubes", "beside 1,000 other tubes", func(c *Config) { c.Beside = 1000 })
	preset("manytubes-10k", "manytubes", "beside 10,000 other tubes", func(c *Config) { c.Beside = 10_000 })
	preset("manytubes-100k", "manytubes", "beside 100,000 other tubes", func(c *Config) { c.Beside = 100_000 })
	preset("backlog-1m", "backlog", "1 million jobs waiting", func(c *Config) { c.Jobs = 1_000_000 })
	preset("backlog-10m", "backlog", "10 million jobs waiting", func(c *Config) { c.Jobs = 10_000_000 })
	preset("handoff-1", "handoff", "one producer and its worker", func(c *Config) { c.Producers, c.Workers, c.Tubes = 1, 1, 1 })
	preset("durable-50ms", "durable", "synced at most every 50 ms", func(c *Config) { c.Sync = "50" })
	preset("durable-never", "durable", "never synced", func(c *Config) { c.Sync = "never" })
	gearmanPresets(preset)
	return all
}()

// Scenarios returns all scenarios, each followed by its presets.
func Scenarios() []*Scenario { return slices.Clone(scenarios) }

// Find returns a scenario or preset by its name. The error names the command that
// lists them.
func Find(name string) (*Scenario, error) {
	for _, s := range scenarios {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no scenario %q; sheafperf list shows all", name)
}
