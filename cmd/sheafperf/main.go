package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/sheafq/sheaf/cmd/internal/program"
	"github.com/sheafq/sheaf/perf"
)

// version is set by the linker, as sheafd's is (see the Makefile).
var version = ""

// interrupted is the exit status after SIGINT, as a shell has it.
const interrupted = 130

// errInterrupted is returned after an interruption, once what was measured has
// been printed.
var errInterrupted = errors.New("interrupted")

func main() {
	ctx := untilSignal()
	_, _ = program.RaiseFileLimit() // failing for lack of files is reported where it happens
	err := command(ctx, os.Args[1:], os.Stdout)
	var mistake usageError
	switch {
	case err == nil:
	case errors.As(err, &mistake):
		fmt.Fprintf(os.Stderr, "sheafperf: %v; see %s\n", err, helpOf(os.Args[1:]))
		os.Exit(2)
	case errors.Is(err, errInterrupted):
		os.Exit(interrupted)
	default:
		fmt.Fprintf(os.Stderr, "sheafperf: %v\n", err)
		os.Exit(1)
	}
}

// sameSignal is for how long a repeated signal counts as the same one: timeout(1)
// sends each to the process and then to its group.
const sameSignal = time.Second

// untilSignal returns a context that the first signal ends, and with it the load,
// which is then reported. A second signal, after sameSignal, ends the process;
// the kernel then kills the servers.
func untilSignal() context.Context {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	hangup := !signal.Ignored(syscall.SIGHUP) // as nohup has it
	if hangup {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() {
		if hangup { // A terminal that is closed may say so twice: the shell does, and the kernel.
			signal.Ignore(syscall.SIGHUP)
		}
		time.Sleep(sameSignal)
		stop()
	})
	return ctx
}

// helpOf returns the command that shows help on a command line with a mistake.
func helpOf(args []string) string {
	if len(args) > 0 && slices.Contains([]string{"run", "compare", "check", "list"}, args[0]) {
		return "sheafperf " + args[0] + " --help"
	}
	return "sheafperf --help"
}

// command carries out the command line, and prints to out.
func command(ctx context.Context, args []string, out io.Writer) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "run", "compare", "check":
	case "list":
		return list(out, args)
	case "help", "--help", "-h":
		_, err := io.WriteString(out, overview)
		return err
	case "--version", "-v":
		_, err := fmt.Fprintln(out, "sheafperf", program.Version(version))
		return err
	case "":
		return usageError{errors.New("no command given: use run, compare, check or list")}
	default:
		return usageError{fmt.Errorf("unknown command %q: use run, compare, check or list", name)}
	}
	o, err := parse(name, args)
	if err != nil {
		return err
	}
	if o.help {
		_, err := io.WriteString(out, o.usage())
		return err
	}
	if name == "check" {
		return check(ctx, o, out)
	}
	return measure(ctx, o, args, out)
}

// progress is nil unless standard error is a terminal.
func progress() *perf.Progress {
	fd := int(os.Stderr.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	return perf.NewProgress(os.Stderr, func() int {
		width, _, err := term.GetSize(fd)
		if err != nil {
			return 0
		}
		return width
	})
}

// measure carries out run and compare.
func measure(ctx context.Context, o *options, args []string, out io.Writer) error {
	var html *page
	if o.html != "" { // before all the work, since it may fail
		var err error
		if html, err = newPage(o.html); err != nil {
			return err
		}
		defer html.close()
	}
	b := perf.Bench{
		Loads: o.loads, Targets: o.targets, Rounds: o.rounds, Baseline: o.baseline, Progress: progress(),
		Command: "sheafperf " + o.command + " " + quoteArgs(args),
	}
	r, err := b.Run(ctx)
	var written error
	switch {
	case o.json:
		written = r.WriteJSON(out)
	case err != nil && !r.Measured(): // there is nothing to show but err
	case o.markdown:
		written = r.WriteMarkdown(out)
	default:
		written = r.WriteText(out)
	}
	if html != nil && written == nil && r.Measured() {
		written = errors.Join(html.write(r.WriteHTML), html.close())
	}
	switch {
	case err != nil || written != nil:
		return errors.Join(err, written)
	case r.Interrupted:
		return errInterrupted
	}
	return nil
}

// check carries out check: loads that account for every job.
func check(ctx context.Context, o *options, out io.Writer) error {
	p := progress()
	var failed []error
	for _, l := range o.loads {
		for _, t := range o.targets {
			if ctx.Err() != nil {
				return errors.Join(append(failed, errInterrupted)...)
			}
			v, err := perf.Check(ctx, l.Scenario, l.Config, t, p)
			if errors.Is(err, perf.ErrNoServer) { // nor will there be one for the other scenarios
				return errors.Join(append(failed, err)...)
			}
			how := "ok"
			switch {
			case v.Faults > 0:
				how = "BROKEN"
				failed = append(failed, broken(v))
			case err != nil:
				how = "FAILED"
			case v.Interrupted:
				how = "ok until it was interrupted"
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("%s on %s: %w", v.Scenario, v.Server, err))
			}
			if _, err := fmt.Fprintf(out, "%s on %s: %s: %s\n", v.Scenario, v.Server, how, v.Report); err != nil {
				return errors.Join(append(failed, err)...) // nobody would see the other verdicts
			}
		}
	}
	if len(failed) == 0 && ctx.Err() != nil {
		return errInterrupted
	}
	return errors.Join(failed...)
}

// broken is the error for a check that has found faults.
func broken(v perf.Verdict) error {
	faults := "faults"
	if v.Faults == 1 {
		faults = "fault"
	}
	return fmt.Errorf("%s breaks its promises in %s: %d %s", v.Server, v.Scenario, v.Faults, faults)
}

// list carries out list.
func list(out io.Writer, args []string) error {
	switch {
	case slices.Contains(args, "--help") || slices.Contains(args, "-h"):
		_, err := io.WriteString(out, listUsage)
		return err
	case len(args) > 0:
		return usageError{fmt.Errorf("unknown argument: %s; list takes none", args[0])}
	}
	var b strings.Builder
	for _, s := range perf.Scenarios() {
		name := s.Name
		if s.Of != "" {
			name = "  " + name
		}
		fmt.Fprintf(&b, "%-26s %s\n%-26s   %s\n", name, s.About, "", s.Config.Describe())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// quoteArgs quotes a command line so that a shell reads it back unchanged.
func quoteArgs(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsAny(a, " \t'\"\\$*?[]{}()<>|&;~#!`") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		quoted[i] = a
	}
	return strings.Join(quoted, " ")
}
