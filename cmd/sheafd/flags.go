package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sheafq/sheaf/netio/beanstalk"
	"github.com/sheafq/sheaf/router"
)

// options is the command line.
type options struct {
	listen     string
	port       int
	listenSet  bool // -l or -p was given
	user       string
	maxJobSize size
	verbosity  int
	logFormat  string

	shards          int
	maxConnections  int
	maxMemory       size
	idleTimeout     time.Duration
	shutdownTimeout time.Duration

	help, version bool
	warnings      []string // to be logged once there is a log
}

// usageError is a mistake on the command line.
type usageError struct{ error }

// errNoBinlog refuses the flags of the binlog, which sheafd does not have yet,
// rather than lose the jobs of somebody who relies on it.
var errNoBinlog = errors.New("-b, -f, -F and -s are refused: this sheafd keeps jobs in memory only; start it without them")

// parseFlags reads the command line. Errors of type usageError are mistakes.
func parseFlags(args []string) (*options, error) {
	o := &options{maxJobSize: beanstalk.DefaultMaxJobSize}
	fs := o.flagSet()
	if err := fs.Parse(args); err != nil {
		return nil, usageError{err}
	}
	switch {
	case o.help, o.version:
		return o, nil
	case fs.NArg() > 0:
		return nil, usageError{fmt.Errorf("unknown argument: %s", fs.Arg(0))}
	case o.port < 0 || o.port > math.MaxUint16:
		return nil, usageError{fmt.Errorf("invalid port %d: must be from 0 to %d", o.port, math.MaxUint16)}
	case o.shards < 1 || o.shards > router.MaxShards:
		return nil, usageError{fmt.Errorf("invalid number of shards %d: must be from 1 to %d", o.shards, router.MaxShards)}
	case o.maxConnections < 0:
		return nil, usageError{fmt.Errorf("invalid number of connections %d: must not be negative", o.maxConnections)}
	case o.idleTimeout < 0:
		return nil, usageError{fmt.Errorf("invalid idle timeout %v: must not be negative", o.idleTimeout)}
	case o.shutdownTimeout < 0:
		return nil, usageError{fmt.Errorf("invalid shutdown timeout %v: must not be negative", o.shutdownTimeout)}
	case o.logFormat != "text" && o.logFormat != "json":
		return nil, usageError{fmt.Errorf("invalid log format %q: must be text or json", o.logFormat)}
	}
	for _, name := range []string{"binlog", "fsync", "no-fsync", "segment-size"} {
		if fs.Changed(name) {
			return nil, errNoBinlog
		}
	}
	for _, name := range []string{"compact", "no-compact"} {
		if fs.Changed(name) {
			o.warnings = append(o.warnings, fmt.Sprintf("-%s has no effect: there is nothing to choose any more", fs.Lookup(name).Shorthand))
		}
	}
	if o.maxJobSize > beanstalk.LargestMaxJobSize {
		o.maxJobSize = beanstalk.LargestMaxJobSize
		o.warnings = append(o.warnings, fmt.Sprintf("the maximum job size was set to %d, the largest that there is", o.maxJobSize))
	}
	o.listenSet = fs.Changed("listen") || fs.Changed("port")
	return o, nil
}

func (o *options) flagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("sheafd", pflag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported once, by main
	fs.SortFlags = false
	fs.StringVarP(&o.listen, "listen", "l", "0.0.0.0", "listen on `ADDR`: an IP address, a host name, or unix:PATH")
	fs.IntVarP(&o.port, "port", "p", 11300, "listen on `PORT`; 0 takes any free one")
	fs.StringVarP(&o.user, "user", "u", "", "become `USER` and its groups once the sockets are bound")
	fs.VarP(&o.maxJobSize, "max-job-size", "z", "refuse jobs larger than `SIZE`; at most 1073741824")
	fs.IntVar(&o.shards, "shards", runtime.GOMAXPROCS(0), "spread tubes over `N` shards, 1 to 1024")
	fs.IntVar(&o.maxConnections, "max-connections", 0, "serve at most `N` connections at once (default no limit)")
	fs.Var(&o.maxMemory, "max-memory", "answer OUT_OF_MEMORY to puts when all jobs together take `SIZE` (default no limit)")
	fs.DurationVar(&o.idleTimeout, "idle-timeout", 0, "close connections that say nothing for `DURATION`, such as 90s or 10m (default never)")
	fs.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 5*time.Second, "on SIGTERM, let commands in flight finish for `DURATION`")
	fs.CountVarP(&o.verbosity, "verbose", "V", "log more; twice for more still")
	fs.StringVar(&o.logFormat, "log-format", "text", "log as `FORMAT`: text or json")
	fs.StringP("binlog", "b", "", "keep jobs in `DIR` (not there yet: refused)")
	fs.IntP("fsync", "f", 50, "sync the binlog at most every `MS` milliseconds (refused)")
	fs.BoolP("no-fsync", "F", false, "never sync the binlog (refused)")
	fs.IntP("segment-size", "s", 10485760, "size in `BYTES` of a binlog segment (refused)")
	fs.BoolP("compact", "c", false, "accepted for old scripts; no effect")
	fs.BoolP("no-compact", "n", false, "accepted for old scripts; no effect")
	fs.BoolVarP(&o.version, "version", "v", false, "print the version and exit")
	fs.BoolVarP(&o.help, "help", "h", false, "print this help and exit")
	return fs
}

// usage is what --help prints.
func usage() string {
	o := &options{maxJobSize: beanstalk.DefaultMaxJobSize}
	return "Usage: sheafd [OPTIONS]\n\nA work queue that speaks beanstalkd's protocol, on every core.\n\nOptions:\n" +
		o.flagSet().FlagUsages() +
		"\nSizes are in bytes, or with a suffix: 512K, 64M, 2G (powers of 1024).\n" +
		"Signals: SIGUSR1 drains (puts are refused); SIGTERM and SIGINT shut down.\n"
}

// level returns the log level that the verbosity asks for.
func (o *options) level() slog.Level {
	if o.verbosity > 0 {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// size is a number of bytes on the command line.
type size int64

// String is pflag.Value's.
func (s *size) String() string { return strconv.FormatInt(int64(*s), 10) }

// Type is pflag.Value's.
func (s *size) Type() string { return "size" }

// Set is pflag.Value's: a number with an optional suffix K, M, G or T, which
// may be followed by B or iB.
func (s *size) Set(text string) error {
	digits, shift := strings.ToUpper(text), 0
	digits = strings.TrimSuffix(strings.TrimSuffix(digits, "B"), "I")
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("KMGT", digits[n-1]); i >= 0 {
			digits, shift = digits[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt64>>shift {
		return errors.New("must be a number of bytes, such as 65535, 512K or 2G")
	}
	*s = size(n << shift)
	return nil
}
