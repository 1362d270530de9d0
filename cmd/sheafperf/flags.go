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

// flagSet returns the flags that change o and c. Their defaults are what c has.
func (o *options) flagSet(c *perf.Config) *pflag.FlagSet {
	fs := pflag.NewFlagSet("sheafperf "+o.command, pflag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported once, by main
	fs.SortFlags = false
	o.serverFlags(fs)
	loadFlags(fs, c)
	return fs
}

// serverFlags are about what is measured and how it is told.
func (o *options) serverFlags(fs *pflag.FlagSet) {
	if o.command != "compare" {
		fs.StringVar(&o.addr, "addr", "", "load the server at `HOST:PORT` or unix:PATH, which runs already")
		fs.IntVar(&o.pid, "pid", 0, "`PID` of the server at --addr, whose CPU and memory are then measured")
	}
	fs.StringArrayVar(&o.servers, "server", nil, "start a server: `NAME=COMMAND`, with {port} where its port stands and {dir} for a fresh directory")
	fs.StringVar(&o.tempDir, "temp-dir", "", "make {dir} in `DIR`, which decides on the disk (default the system's)")
	fs.DurationVar(&o.startTimeout, "start-timeout", 5*time.Minute, "how long a server may take until it answers")
	if o.command != "check" {
		rounds := 1
		if o.command == "compare" {
			rounds = 5
			fs.StringVar(&o.baseline, "baseline", "", "the server that ratios are to, by `NAME` (default the last)")
		}
		fs.IntVar(&o.rounds, "rounds", rounds, "run `N` times; with several servers in turn, A B A B")
		fs.BoolVar(&o.json, "json", false, "print everything as JSON")
		fs.BoolVar(&o.markdown, "markdown", false, "print tables as Markdown")
		fs.StringVar(&o.html, "html", "", "also write a page with plots to `FILE`")
	} else {
		o.rounds = 1
	}
	fs.BoolVarP(&o.help, "help", "h", false, "print this help and exit; with a scenario, its numbers")
}

// loadFlags are about the load.
func loadFlags(fs *pflag.FlagSet, c *perf.Config) {
	fs.IntVarP(&c.Connections, "connections", "c", c.Connections, "connections that put and take (`N`)")
	fs.IntVar(&c.Producers, "producers", c.Producers, "connections that put, where others take (`N`)")
	fs.IntVar(&c.Workers, "workers", c.Workers, "connections that wait in reserve (`N`)")
	fs.IntVarP(&c.Depth, "depth", "d", c.Depth, "commands in flight on a connection; of a producer with workers, jobs (`N`)")
	fs.IntVar(&c.Tubes, "tubes", c.Tubes, "tubes, which connections use in turn (`N`)")
	fs.IntVar(&c.Watch, "watch", c.Watch, "tubes that a connection watches (`N`)")
	fs.Var(&c.Body, "body", "bytes of a body: a number, uniform:64-4096, exp:512, list:16,128,4096")
	fs.StringVar(&c.Content, "content", c.Content, "what bodies are made of: text, random or zero")
	fs.Var(&c.Priority, "priority", "priorities, as a number or distribution")
	fs.Var(&c.Delay, "delay", "delays in seconds, as a number or distribution")
	fs.IntVar(&c.TTR, "ttr", c.TTR, "time to run, in `SECONDS`")
	fs.VarP(&c.Rate, "rate", "r", "open loop: `N` jobs a second, or a part, such as 70%, of what a closed loop did just before; latency from when each was due; 0 is a closed loop")
	fs.BoolVar(&c.Poisson, "poisson", c.Poisson, "arrivals of the open loop at random distances")
	fs.IntVar(&c.Jobs, "jobs", c.Jobs, "jobs waiting (backlog, restart) or in a round (produce, consume) (`N`)")
	fs.IntVar(&c.Beside, "beside", c.Beside, "other tubes (manytubes) or idle connections (idle) (`N`)")
	fs.StringVar(&c.Sync, "sync", c.Sync, "durable, restart: the binlog's sync in `MS`, or never; ignored if the command says {dir}")
	fs.DurationVar(&c.WarmUp, "warm-up", c.WarmUp, "load for `DURATION` before it is measured")
	fs.DurationVarP(&c.Duration, "duration", "t", c.Duration, "measure for `DURATION`")
	fs.DurationVar(&c.Grace, "grace", c.Grace, "how long answers are waited for at the end (`DURATION`)")
	fs.IntVar(&c.Threads, "threads", c.Threads, "`N` threads of the client, at most one a connection (default one a CPU)")
}

const overview = `Usage: sheafperf run SCENARIO… [FLAGS] --addr HOST:PORT | --server 'NAME=COMMAND … {port}'
       sheafperf compare --server 'A=…' --server 'B=…' [SCENARIO…] [FLAGS]
       sheafperf check [SCENARIO…] [FLAGS] --addr HOST:PORT | --server 'NAME=COMMAND … {port}'
       sheafperf list

Loads servers that speak beanstalkd's protocol, and says what it takes.

  run       throughput, latency, CPU and memory of a server
  compare   the same of several, in turn A B A B, with ratios
  check     whether every job comes once, intact, and none is lost; exit status 1 if not
  list      the scenarios, their presets and their numbers

sheafperf COMMAND --help shows the flags, sheafperf COMMAND SCENARIO --help also a scenario's numbers.

  sheafperf run cycle --addr 127.0.0.1:11300 --pid $(pidof sheafd)
  sheafperf run handoff --rate 5000 --body uniform:64-4096 --server 'sheafd -l 127.0.0.1 -p {port}'
  sheafperf compare --server 'sheafd=bin/sheafd -l 127.0.0.1 -p {port}' \
                    --server 'beanstalkd=beanstalkd -l 127.0.0.1 -p {port}' --html report.html
`

// usage is what --help prints behind a command.
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
	lines := strings.SplitAfter(overview, "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "sheafperf "+o.command) })
	use := strings.TrimSpace(strings.TrimPrefix(lines[first], "Usage:"))
	return fmt.Sprintf("Usage: %s\n\nThe server and the report:\n%s\nThe load:\n%s\n%s\n", use, server.FlagUsages(), load.FlagUsages(), title)
}
