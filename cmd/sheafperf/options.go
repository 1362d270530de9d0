package main

import (
	"errors"
	"fmt"
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

// comparison is what is compared when no scenario is named: what tells most
// within minutes.
var comparison = []string{"cycle-8x64", "cycle-64x1", "cycle-1x1", "cycle-16k", "handoff", "fanin", "mixed"}

// parse reads the command line. A flag of the load changes it in every scenario
// that is run; what no flag says is the scenario's own.
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
	if err := o.useless(fs, names); err != nil {
		return nil, err
	}
	return o, o.complete()
}

// useless finds a flag that was given and that no scenario has a use for.
func (o *options) useless(fs *pflag.FlagSet, names []string) (err error) {
	fs.Visit(func(f *pflag.Flag) {
		for _, l := range o.loads {
			if !slices.Contains(l.Unused(), f.Name) {
				return
			}
		}
		err = usageError{fmt.Errorf("--%s: there is no use for it in %s", f.Name, strings.Join(names, ", "))}
	})
	return err
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
