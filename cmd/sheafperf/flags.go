package main

// The flags, and how they are explained.

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sheafq/sheaf/perf"
)

// flagSet returns flags that set o and c; c has their defaults.
func (o *options) flagSet(c *perf.Config) *pflag.FlagSet {
	fs := pflag.NewFlagSet("sheafperf "+o.command, pflag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported once, by main
	fs.SortFlags = false
	o.serverFlags(fs)
	loadFlags(fs, c)
	return fs
}

// serverFlags adds the flags about what is measured and how it is reported.
func (o *options) serverFlags(fs *pflag.FlagSet) {
	if o.command != "compare" {
		fs.StringVar(&o.addr, "addr", "", "load the server at `HOST[:PORT]` or unix:PATH, which runs already; without a port, 11300, or 4730 for Gearman")
		fs.IntVar(&o.pid, "pid", 0, "`PID` of the server at --addr, whose CPU and memory are then measured")
	}
	fs.StringArrayVar(&o.servers, "server", nil, "start a server with `NAME=COMMAND`; in it {port} stands for its port, {port2} for another free one and {dir} for a fresh directory")
	fs.StringVar(&o.tempDir, "temp-dir", "", "make {dir} in `DIR`, which decides on the disk (default the system's)")
	fs.DurationVar(&o.startTimeout, "start-timeout", 5*time.Minute, "wait up to `DURATION` for a server to answer")
	if o.command != "check" {
		if o.command == "compare" {
			fs.StringVar(&o.baseline, "baseline", "", "compute ratios to the server called `NAME` (default the last)")
			fs.IntVar(&o.rounds, "rounds", 5, "run each server `N` times, in turn, A B A B; each ratio is of two runs in one round")
		} else {
			fs.IntVar(&o.rounds, "rounds", 1, "run `N` times")
		}
		fs.BoolVar(&o.json, "json", false, "print everything as JSON")
		fs.BoolVar(&o.markdown, "markdown", false, "print tables as Markdown")
		fs.StringVar(&o.html, "html", "", "also write a page with plots to `FILE`")
	} else {
		o.rounds = 1
	}
	fs.BoolVarP(&o.help, "help", "h", false, "print this help and exit; with a scenario, its numbers")
}

// loadFlags adds the flags about the load.
func loadFlags(fs *pflag.FlagSet, c *perf.Config) {
	fs.IntVarP(&c.Connections, "connections", "c", c.Connections, "`N` connections that put and take")
	fs.IntVar(&c.Producers, "producers", c.Producers, "`N` connections that put, where others take")
	fs.IntVar(&c.Workers, "workers", c.Workers, "`N` connections that wait in reserve")
	fs.IntVarP(&c.Depth, "depth", "d", c.Depth, "`N` commands in flight on a connection; for producers with workers, jobs under way")
	fs.IntVar(&c.Tubes, "tubes", c.Tubes, "`N` tubes, which connections use in turn")
	fs.IntVar(&c.Watch, "watch", c.Watch, "`N` tubes that a connection watches")
	fs.Var(&c.Body, "body", "bodies of `BYTES`: a number, or a distribution such as uniform:64-4096, exp:512, list:16,128,4096;\n"+
		"at least 12 where workers wait, and 24 in check: room for what the client writes into them")
	fs.StringVar(&c.Content, "content", c.Content, "make bodies of `WHAT`: text, random or zero")
	fs.Var(&c.Priority, "priority", "put with priority `PRI`, a number or a distribution")
	fs.Var(&c.Delay, "delay", "put with a delay of `SECONDS`, a number or a distribution")
	fs.IntVar(&c.TTR, "ttr", c.TTR, "put with a time to run of `SECONDS`")
	fs.IntVar(&c.Unique, "unique", c.Unique, "submit Gearman's jobs with uniques of `BYTES`, each another; 0 for none, or 16 to 64")
	fs.VarP(&c.Rate, "rate", "r", "open loop: `N` jobs a second, or a share, such as 70%, of what a closed loop does just before,\n"+
		"then with 8 times its depth if that is 2 or more; latencies count from when jobs were due; 0 is a closed loop alone")
	fs.BoolVar(&c.Poisson, "poisson", c.Poisson, "let jobs of the open loop arrive at random intervals")
	fs.IntVar(&c.Jobs, "jobs", c.Jobs, "`N` jobs waiting (backlog, restart) or in a round (produce, consume, gearman-background, gearman-grab)")
	fs.IntVar(&c.Beside, "beside", c.Beside, "`N` other tubes (manytubes) or idle connections (idle)")
	fs.StringVar(&c.Sync, "sync", c.Sync, "sync the binlog (durable, restart) every `MS`, or never; not with --addr, or if the command has {dir}")
	fs.DurationVar(&c.WarmUp, "warm-up", c.WarmUp, "load for `DURATION` before measuring")
	fs.DurationVarP(&c.Duration, "duration", "t", c.Duration, "measure for `DURATION`")
	fs.DurationVar(&c.Grace, "grace", c.Grace, "wait up to `DURATION` for answers at the end")
	fs.IntVar(&c.Threads, "threads", c.Threads, "use `N` client threads, at most one per connection (default one per CPU, or per two CPUs if the server is on this machine)")
}

const overview = `Usage: sheafperf run SCENARIO… [FLAGS] --addr HOST[:PORT] | --server 'NAME=COMMAND … {port}'
       sheafperf compare --server 'A=…' --server 'B=…' [SCENARIO…] [FLAGS]
       sheafperf check [SCENARIO…] [FLAGS] --addr HOST[:PORT] | --server 'NAME=COMMAND … {port}'
       sheafperf list
       sheafperf --version

Loads servers that speak beanstalkd's protocol or Gearman's, and measures or checks them.

  run       throughput, latency, CPU and memory of a server
  compare   the same of several, in turn, A B A B, with ratios of neighbouring runs
  check     that no job is lost, damaged, mixed up with another or early, and that none comes
            again except after a release or a kick; exit status 1 if one is. Of the order of
            jobs, only that none is passed over for a less urgent or a younger one of its tube
  list      the scenarios, their presets and their numbers

sheafperf COMMAND --help shows the flags, sheafperf COMMAND SCENARIO --help also a scenario's numbers.

  sheafperf run cycle --addr 127.0.0.1:11300 --pid $(pidof sheafd)
  sheafperf run handoff --rate 5000 --body uniform:64-4096 --server 'sheafd -l 127.0.0.1 -p {port}'
  sheafperf compare --server 'sheafd=bin/sheafd -l 127.0.0.1 -p {port}' \
                    --server 'beanstalkd=beanstalkd -l 127.0.0.1 -p {port}' --html report.html
  sheafperf run gearman --server 'gearmand -L 127.0.0.1 -p {port} -l stderr -P {dir}/pid'
`

const listUsage = `Usage: sheafperf list

Shows the scenarios, each followed by its presets, and their numbers. It takes no arguments; sheafperf run SCENARIO
--help shows the flags that change the numbers of one.
`

// usage is what COMMAND --help prints: the flags that the command takes, and only
// those that the named scenarios use.
func (o *options) usage() string {
	c := perf.Scenarios()[0].Config // what all have in common is shown
	title := "Numbers that are not given are the scenario's own; sheafperf list shows them."
	if len(o.loads) > 0 {
		c = o.loads[0].Scenario.Config
		title = fmt.Sprintf("The defaults are those of %s: %s.", o.loads[0].Name, o.loads[0].About)
	} else {
		c.Connections, c.Depth, c.Tubes, c.Watch = 0, 0, 0, 0
	}
	server := pflag.NewFlagSet("", pflag.ContinueOnError)
	server.SortFlags = false
	(&options{command: o.command}).serverFlags(server)
	load := pflag.NewFlagSet("", pflag.ContinueOnError)
	load.SortFlags = false
	loadFlags(load, &c)
	for _, flag := range o.unused() {
		load.Lookup(flag).Hidden = true
	}
	lines := strings.SplitAfter(overview, "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "sheafperf "+o.command) })
	use := strings.TrimSpace(strings.TrimPrefix(lines[first], "Usage:"))
	return fmt.Sprintf("Usage: %s\n\nThe server and the report:\n%s\nThe load:\n%s\n%s\n", use, server.FlagUsages(), load.FlagUsages(), title)
}
