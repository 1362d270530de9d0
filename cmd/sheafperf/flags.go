package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sheafq/sheaf/perf"
)

// usageError is a mistake on the command line.
type usageError struct{ error }

// options is the command line behind the command.
type options struct {
	command string
	loads   []perf.Choice
	targets []*perf.Target

	addr         string
	pid          int
	servers      []string
	tempDir      string
	startTimeout time.Duration
	rounds       int
	baseline     string
	json         bool
	markdown     bool
	html         string
	help         bool
}

// comparison is what is compared when no scenario is named: what tells most within minutes.
var comparison = []string{"cycle-8x64", "cycle-64x1", "cycle-1x1", "cycle-16k", "handoff", "fanin", "mixed"}

// parse reads the command line. A flag of the load changes it in every scenario that is run; what no flag says is the
// scenario's own.
func parse(command string, args []string) (*options, error) {
	o := &options{command: command}
	var anything perf.Config
	fs := o.flagSet(&anything)
	if err := fs.Parse(args); err != nil {
		return nil, usageError{err}
	}
	names, err := o.names(fs.Args())
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		sc, err := perf.Find(name)
		if err != nil {
			return nil, usageError{err}
		}
		// The same flags once more, now over the scenario's numbers.
		choice := perf.Choice{Scenario: sc, Config: sc.Config}
		if err := (&options{command: command}).flagSet(&choice.Config).Parse(args); err != nil {
			return nil, usageError{err}
		}
		choice.Config = sc.Fit(choice.Config)
		o.loads = append(o.loads, choice)
		if o.help {
			continue
		}
		if err := choice.Config.Validate(); err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", name, err)}
		}
	}
	if o.help {
		return o, nil
	}
	return o, o.complete()
}

// names returns the scenarios that are meant.
func (o *options) names(args []string) ([]string, error) {
	switch {
	case o.help:
		return args, nil
	case slices.Equal(args, []string{"all"}):
		var all []string
		for _, s := range perf.Scenarios() {
			if s.Of == "" && !(o.command == "check" && s.Name == "restart") {
				all = append(all, s.Name)
			}
		}
		return all, nil
	case len(args) > 0:
		return args, nil
	case o.command == "compare":
		return comparison, nil
	case o.command == "check":
		return perf.DefaultChecks, nil
	}
	return nil, usageError{errors.New("which scenario? sheafperf list shows those that there are")}
}

// complete finds the servers, and what does not go together.
func (o *options) complete() error {
	switch {
	case o.addr == "" && len(o.servers) == 0:
		return usageError{errors.New("which server? --addr HOST:PORT is one that runs, --server 'NAME=COMMAND … {port}' is started")}
	case o.addr != "" && len(o.servers) > 0:
		return usageError{errors.New("--addr and --server do not go together")}
	case o.command == "compare" && len(o.servers) < 2:
		return usageError{errors.New("compare wants --server twice or more")}
	case o.command == "run" && len(o.servers) > 1:
		return usageError{errors.New("run wants one server; compare takes several")}
	case o.pid != 0 && o.addr == "":
		return usageError{errors.New("--pid is for --addr; of a server that is started here it is known")}
	case o.rounds < 1:
		return usageError{fmt.Errorf("--rounds %d: must be at least 1", o.rounds)}
	case o.json && o.markdown:
		return usageError{errors.New("--json and --markdown do not go together")}
	}
	if o.addr != "" {
		o.targets = []*perf.Target{{Name: o.addr, Addr: o.addr, Pid: o.pid, StartTimeout: o.startTimeout}}
		return nil
	}
	for _, text := range o.servers {
		t, err := perf.ParseServer(text)
		if err != nil {
			return usageError{err}
		}
		if slices.ContainsFunc(o.targets, func(other *perf.Target) bool { return other.Name == t.Name }) {
			return usageError{fmt.Errorf("two servers are called %s; give them names: --server 'NAME=COMMAND …'", t.Name)}
		}
		t.TempDir, t.StartTimeout = o.tempDir, o.startTimeout
		o.targets = append(o.targets, t)
	}
	if o.baseline != "" && !slices.ContainsFunc(o.targets, func(t *perf.Target) bool { return t.Name == o.baseline }) {
		return usageError{fmt.Errorf("--baseline %s: there is no such server", o.baseline)}
	}
	return nil
}

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
	fs.Float64VarP(&c.Rate, "rate", "r", c.Rate, "open loop: `N` jobs a second, latency from when each was due; 0 is a closed loop")
	fs.BoolVar(&c.Poisson, "poisson", c.Poisson, "arrivals of the open loop at random distances")
	fs.IntVar(&c.Jobs, "jobs", c.Jobs, "jobs waiting (backlog, restart) or in a round (produce, consume) (`N`)")
	fs.IntVar(&c.Beside, "beside", c.Beside, "other tubes (manytubes) or idle connections (idle) (`N`)")
	fs.StringVar(&c.Sync, "sync", c.Sync, "durable, restart: the binlog's sync in `MS`, or never; ignored if the command says {dir}")
	fs.DurationVar(&c.WarmUp, "warm-up", c.WarmUp, "load for `DURATION` before it is measured")
	fs.DurationVarP(&c.Duration, "duration", "t", c.Duration, "measure for `DURATION`")
	fs.DurationVar(&c.Grace, "grace", c.Grace, "how long answers are waited for at the end (`DURATION`)")
	fs.IntVar(&c.Threads, "threads", c.Threads, "`N` threads of the client; one serves several hundred thousand operations a second")
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
