package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sheafq/sheaf/perf"
)

// usageError is a mistake on the command line.
type usageError struct{ error }

// options is the command line after the command, and what was made of it: loads
// and targets.
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

// comparison is what compare runs if no scenario is named: the most telling ones,
// in a few minutes.
var comparison = []string{"cycle-8x64", "cycle-64x1", "cycle-1x1", "cycle-16k", "handoff", "fanin", "mixed"}

// parse reads the command line. A flag of the load changes it in every scenario
// that is run; other numbers are the scenario's own.
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
		// Parsed once more, now with the scenario's numbers as defaults.
		choice := perf.Choice{Scenario: sc, Config: sc.Config}
		if err := (&options{command: command}).flagSet(&choice.Config).Parse(args); err != nil {
			return nil, usageError{err}
		}
		choice.Config = sc.Fit(choice.Config)
		o.loads = append(o.loads, choice)
		if o.help {
			continue
		}
		if err := sc.Validate(&choice.Config); err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", name, err)}
		}
	}
	if o.help {
		return o, nil
	}
	if err := o.rejectUnused(fs, names); err != nil {
		return nil, err
	}
	if err := o.resolveServers(); err != nil {
		return nil, err
	}
	return o, o.settleSync(fs.Changed("sync"))
}

// rejectUnused returns an error if a flag was given that no scenario uses.
func (o *options) rejectUnused(fs *pflag.FlagSet, names []string) (err error) {
	unused := o.unused()
	if fs.Changed("poisson") && !slices.ContainsFunc(o.loads, func(l perf.Choice) bool { return l.Config.Rate != perf.Rate{} }) && !slices.Contains(unused, "poisson") {
		return usageError{errors.New("--poisson has no effect without --rate")}
	}
	fs.Visit(func(f *pflag.Flag) {
		if slices.Contains(unused, f.Name) {
			err = usageError{fmt.Errorf("--%s has no effect in %s", f.Name, strings.Join(names, ", "))}
		}
	})
	return err
}

// unused returns the flags that none of the scenarios uses.
func (o *options) unused() (flags []string) {
	for i, l := range o.loads {
		if i == 0 {
			flags = l.Unused()
		} else {
			flags = slices.DeleteFunc(flags, func(f string) bool { return !slices.Contains(l.Unused(), f) })
		}
	}
	return flags
}

// names returns the scenarios that are meant.
func (o *options) names(args []string) ([]string, error) {
	switch {
	case len(args) > 0:
		var names []string
		for _, arg := range args {
			names = append(names, o.family(arg)...)
		}
		return names, nil
	case o.help:
		return nil, nil
	case o.command == "compare":
		return comparison, nil
	case o.command == "check":
		return perf.DefaultChecks, nil
	}
	return nil, usageError{errors.New("no scenario given; sheafperf list shows them")}
}

// family returns the scenarios that a name stands for. Those of "all" speak one
// protocol, since {port} and --addr are a port that speaks one. "all" leaves out
// what is impossible with the server.
func (o *options) family(name string) (names []string) {
	if name != "all" && name != "gearman" {
		return []string{name}
	}
	for _, s := range perf.Scenarios() {
		if s.Of == "" && s.Gearman == (name == "gearman") && !(s.Restarts && (o.command == "check" || o.addr != "")) {
			names = append(names, s.Name)
		}
	}
	return names
}

// resolveServers makes the targets, and rejects options that contradict each
// other.
func (o *options) resolveServers() error {
	switch {
	case o.addr == "" && len(o.servers) == 0:
		return usageError{errors.New("no server given: use --addr HOST[:PORT] for one that runs, or --server 'NAME=COMMAND … {port}' to start one")}
	case o.addr != "" && len(o.servers) > 0:
		return usageError{errors.New("--addr and --server cannot be used together")}
	case o.command == "compare" && len(o.servers) < 2:
		return usageError{errors.New("compare needs --server at least twice")}
	case o.command == "run" && len(o.servers) > 1:
		return usageError{errors.New("run takes one server; compare takes several")}
	case o.restarts() && o.command == "check":
		return usageError{errors.New("restart cannot be checked: it forgets what it has put")}
	case o.restarts() && o.addr != "":
		return usageError{errors.New("restart kills the server and starts it again, so it must be given with --server")}
	case o.tempDir != "" && o.addr != "":
		return usageError{errors.New("--temp-dir is for --server; a server that runs already has its directory")}
	case o.pid != 0 && o.addr == "":
		return usageError{errors.New("--pid is for --addr; that of a server which --server starts is known")}
	case o.pid < 0:
		return usageError{fmt.Errorf("--pid %d: must be the number of a process", o.pid)}
	case o.rounds < 1:
		return usageError{fmt.Errorf("--rounds %d: must be at least 1", o.rounds)}
	case o.json && o.markdown:
		return usageError{errors.New("--json and --markdown cannot be used together")}
	}
	if o.addr != "" {
		addr, err := address(o.addr, o.defaultPort())
		if err != nil {
			return usageError{fmt.Errorf("--addr %s: %w", o.addr, err)}
		}
		o.addr = addr
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

// settleSync rejects --sync where it would have no effect, and keeps reports from
// claiming a sync mode that may not be the server's: --sync is for servers that
// are started with a binlog by sheafperf. given says whether the flag was given.
func (o *options) settleSync(given bool) error {
	var with, without []string
	for _, t := range o.targets {
		if o.addr != "" || slices.ContainsFunc(t.Command, func(word string) bool { return strings.Contains(word, "{dir}") }) {
			with = append(with, t.Name)
		} else {
			without = append(without, t.Name)
		}
	}
	for i := range o.loads {
		l := &o.loads[i]
		switch {
		case l.Config.Sync == perf.SyncAsTold:
			return usageError{fmt.Errorf("--sync %s: must be a number of milliseconds, or never", l.Config.Sync)}
		case l.Config.Sync == "" || len(with) == 0:
			continue
		case l.Of != "":
			return usageError{fmt.Errorf("%s: it cannot set how the binlog is synced with --addr, or where the command has {dir}; use %s", l.Name, l.Of)}
		case len(without) > 0:
			return usageError{fmt.Errorf("%s: the binlog of %s is synced as its command says, which has {dir}, and that of %s as --sync says: use {dir} in all commands or in none",
				l.Name, strings.Join(with, ", "), strings.Join(without, ", "))}
		case given && o.addr != "":
			return usageError{fmt.Errorf("--sync has no effect with --addr: that server runs already")}
		case given:
			return usageError{fmt.Errorf("--sync has no effect where the command has {dir}: it must then also say how its binlog is synced")}
		}
		l.Config.Sync = perf.SyncAsTold
	}
	return nil
}

// restarts reports whether a scenario restarts its server.
func (o *options) restarts() bool {
	return slices.ContainsFunc(o.loads, func(l perf.Choice) bool { return l.Restarts })
}

// defaultPort is beanstalkd's, or Gearman's if all scenarios speak that.
func (o *options) defaultPort() string {
	if slices.ContainsFunc(o.loads, func(l perf.Choice) bool { return !l.Gearman }) {
		return "11300"
	}
	return "4730"
}

// address completes the value of --addr: unix:PATH as it is, or HOST:PORT, with
// the port added if it is missing.
func address(text, defaultPort string) (string, error) {
	if path, is := strings.CutPrefix(text, "unix:"); is {
		if path == "" {
			return "", errors.New("the path is missing")
		}
		return text, nil
	}
	if bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"); !strings.Contains(bare, ":") || net.ParseIP(bare) != nil {
		return net.JoinHostPort(bare, defaultPort), nil
	}
	_, port, err := net.SplitHostPort(text)
	if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || n == 0 {
		return "", errors.New("must be HOST, HOST:PORT or unix:PATH, with a port from 1 to 65535")
	}
	return text, nil
}
