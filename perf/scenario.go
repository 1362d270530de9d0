package perf

// The table of scenarios and presets. A scenario is what is done; a preset is a scenario with other numbers.

import (
	"fmt"
	"slices"
	"time"
)

// A Scenario is a kind of load with the numbers that it is run with unless flags say otherwise.
type Scenario struct {
	Name   string
	About  string
	Of     string // of a preset: the scenario that it is a variant of
	Config Config

	binlog   bool      // the server is to keep its jobs on disk
	restarts bool      // the server is to be started here
	least    int       // bytes that bodies must have
	names    [2]string // in reports: of the latency from hand to hand, and of a whole script
	run      func(*session) error
}

// Fit returns c without what the scenario has no use for.
func (s *Scenario) Fit(c Config) Config {
	for _, n := range []struct {
		it  *int
		own int
	}{
		{&c.Connections, s.Config.Connections}, {&c.Producers, s.Config.Producers}, {&c.Workers, s.Config.Workers},
		{&c.Jobs, s.Config.Jobs}, {&c.Beside, s.Config.Beside},
	} {
		if n.own == 0 {
			*n.it = 0
		}
	}
	if s.Config.Sync == "" {
		c.Sync = ""
	}
	return c
}

// base is what all scenarios begin with.
var base = Config{
	Depth: 1, Tubes: 1, Watch: 1, Body: Fixed(128), Content: ContentText, Priority: Fixed(1024), TTR: 600,
	WarmUp: time.Second, Duration: 5 * time.Second, Grace: 5 * time.Second, Threads: 1,
}

// with changes a copy of c.
func (c Config) with(change func(*Config)) Config {
	change(&c)
	return c
}

// scenarios is in the order of lists and reports; a preset comes behind its scenario.
var scenarios = func() []*Scenario {
	all := []*Scenario{
		{Name: "cycle", About: "put, reserve, delete on each connection", run: runCycle,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes = 8, 16, 8 })},
		{Name: "produce", About: "put alone", run: runProduce,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Jobs = 8, 64, 8, 200_000 })},
		{Name: "consume", About: "reserve and delete of jobs that were put before", run: runConsume,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Jobs = 8, 64, 8, 200_000 })},
		{Name: "handoff", About: "latency from put to RESERVED: each producer has a worker blocked in reserve", run: runPairs,
			least: headerFrom, names: [2]string{"handoff"},
			Config: base.with(func(c *Config) { c.Producers, c.Workers, c.Tubes = 32, 32, 32 })},
		{Name: "fanin", About: "workers that watch all of many tubes", run: runPairs,
			least: headerFrom, names: [2]string{"handoff"},
			Config: base.with(func(c *Config) { c.Producers, c.Workers, c.Tubes, c.Watch = 32, 16, 32, 32 })},
		{Name: "delayed", About: "how late delayed jobs come, under load", run: runPairs,
			least: headerFrom, names: [2]string{"lateness"},
			Config: base.with(func(c *Config) {
				c.Producers, c.Workers, c.Tubes, c.Watch, c.Depth = 8, 16, 8, 8, 256
				c.Rate, c.Delay = 5000, Dist{shape: uniform, lo: 1, hi: 2}
			})},
		{Name: "manytubes", About: "a cycle beside tubes that have a job each", run: runManyTubes,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Beside = 8, 16, 8, 10_000 })},
		{Name: "backlog", About: "jobs waiting: memory of each, and whether a cycle slows down", run: runBacklog,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Jobs = 8, 16, 8, 1_000_000 })},
		{Name: "idle", About: "connections that do nothing: memory of each, and whether a cycle slows down", run: runIdle,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Beside = 8, 16, 8, 10_000 })},
		{Name: "durable", About: "a cycle with the server's binlog and its sync mode (--sync)", run: runCycle, binlog: true,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Sync = 64, 1, 64, "0" })},
		{Name: "restart", About: "time to recover jobs from the binlog after kill -9", run: runRestart, binlog: true, restarts: true,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Tubes, c.Jobs, c.Sync = 8, 64, 8, 1_000_000, "50" })},
		{Name: "mixed", About: "a day in the life: 70 % cycle; release, bury and kick, peek, touch, stats", run: runMixed,
			Config: base.with(func(c *Config) {
				c.Connections, c.Depth, c.Tubes = 32, 4, 8
				c.Body, c.Priority = Dist{shape: exponential, lo: 512}, Dist{shape: uniform, lo: 0, hi: 2048}
			})},
	}
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
	return all
}()

// Scenarios returns all scenarios, each followed by its presets.
func Scenarios() []*Scenario { return slices.Clone(scenarios) }

// Find returns a scenario or preset by its name.
func Find(name string) (*Scenario, error) {
	for _, s := range scenarios {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no scenario %q; sheafperf list shows those that there are", name)
}
