package main

// The command line: options, their defaults, and the types of their values.

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

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/netio/beanstalk"
	"github.com/sheafq/sheaf/router"
)

// options is what the command line says.
type options struct {
	listen     string
	port       int
	listenSet  bool // -l or -p was given
	gearman    string
	user       string
	maxJobSize size
	verbosity  int
	logFormat  string

	binlog      string
	fsync       int // milliseconds
	noFsync     bool
	segmentSize size
	compression string
	strict      bool

	shards          int
	maxConnections  int
	maxMemory       size
	idleTimeout     time.Duration
	shutdownTimeout time.Duration

	help, version bool
	warnings      []string // to be logged once there is a logger
}

// A usageError is a mistake on the command line.
type usageError struct{ error }

// parseFlags reads the command line. All its errors are usageErrors.
func parseFlags(args []string) (*options, error) {
	o := new(options)
	fs := o.flagSet()
	if err := fs.Parse(args); err != nil {
		return nil, usageError{plainly(err)}
	}
	switch {
	case o.help, o.version:
		return o, nil
	case fs.Arg(0) == "binlog":
		return nil, usageError{errors.New("binlog dump takes no flags and must come first: sheafd binlog dump DIR")}
	case fs.NArg() > 0:
		return nil, usageError{fmt.Errorf("unknown argument: %s", fs.Arg(0))}
	case o.binlog == "" && fs.Changed("binlog"):
		return nil, usageError{errors.New("invalid binlog directory: it has no name")}
	case o.user == "" && fs.Changed("user"): // perhaps a variable that is not set: do not stay root
		return nil, usageError{errors.New("invalid user: it has no name")}
	case o.listen == "":
		return nil, usageError{errors.New("invalid listen address: it is missing; give one, such as 0.0.0.0 for all of IPv4")}
	case o.listen == "unix:":
		return nil, usageError{errors.New(`invalid listen address "unix:": the path is missing; give one, such as unix:/run/sheafd.sock`)}
	case o.logFormat != "text" && o.logFormat != "json":
		return nil, usageError{fmt.Errorf("invalid log format %q: must be text or json", o.logFormat)}
	}
	if _, err := binlog.ParseCompression(o.compression); err != nil {
		return nil, usageError{err}
	}
	if fs.Changed("gearman") {
		if err := checkGearmanAddr(o.gearman); err != nil {
			return nil, usageError{fmt.Errorf("invalid Gearman address %q: %w", o.gearman, err)}
		}
	}
	for _, name := range []string{"compact", "no-compact"} {
		if fs.Changed(name) {
			o.warnings = append(o.warnings, fmt.Sprintf("-%s has no effect: sheafd always compacts its binlog by itself", fs.Lookup(name).Shorthand))
		}
	}
	if o.maxJobSize > beanstalk.LargestMaxJobSize {
		o.maxJobSize = beanstalk.LargestMaxJobSize
		o.warnings = append(o.warnings, fmt.Sprintf("the maximum job size was set to %d, the largest that there is", o.maxJobSize))
	}
	o.listenSet = fs.Changed("listen") || fs.Changed("port")
	return o, nil
}

// plainly words pflag's error for a flag without an argument that was given one, which
// would show how strconv has tried to read that.
func plainly(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && errors.As(err, new(*strconv.NumError)) {
		return fmt.Errorf("--%s takes no argument; leave out \"=%s\"", invalid.GetFlag().Name, invalid.GetValue())
	}
	return err
}

// flagSet sets o to the defaults and returns the flags that change it.
func (o *options) flagSet() *pflag.FlagSet {
	o.maxJobSize = beanstalk.DefaultMaxJobSize
	o.port = 11300
	o.shards = min(runtime.GOMAXPROCS(0), router.MaxShards)
	o.fsync, o.segmentSize = 50, binlog.DefaultSegmentSize // beanstalkd's
	o.shutdownTimeout = 5 * time.Second

	fs := pflag.NewFlagSet("sheafd", pflag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported once, by main
	fs.SortFlags = false
	fs.StringVarP(&o.listen, "listen", "l", "0.0.0.0", "listen on `ADDR`: an IP address, a host name, or unix:PATH")
	fs.VarP(number{&o.port, 0, math.MaxUint16}, "port", "p", "listen on `PORT`; 0 takes any free one")
	fs.StringVar(&o.gearman, "gearman", "", "speak Gearman on `ADDR`, such as 0.0.0.0:4730 or unix:PATH (default not at all)")
	fs.StringVarP(&o.user, "user", "u", "", "become `USER`, a name or an id, and its groups once the sockets are bound; it must be able to write to -b")
	fs.VarP(&o.maxJobSize, "max-job-size", "z", "refuse jobs larger than `SIZE`; at most 1073741824")
	fs.Var(number{&o.shards, 1, router.MaxShards}, "shards", "spread tubes over `N` shards, 1 to 1024")
	fs.Var(number{&o.maxConnections, 0, math.MaxInt}, "max-connections", "serve at most `N` connections at once (default no limit)")
	fs.Var(&o.maxMemory, "max-memory", "answer OUT_OF_MEMORY to puts when all jobs together take `SIZE` (default no limit)")
	fs.Var((*duration)(&o.idleTimeout), "idle-timeout", "close connections that say nothing for `DURATION`, such as 90s or 10m, unless they wait, or are Gearman workers asleep or at work (default never)")
	fs.Var((*duration)(&o.shutdownTimeout), "shutdown-timeout", "on SIGTERM, let commands in flight finish for `DURATION`")
	fs.CountVarP(&o.verbosity, "verbose", "V", "log more; twice for more still")
	fs.StringVar(&o.logFormat, "log-format", "text", "log as `FORMAT`: text or json")
	fs.StringVarP(&o.binlog, "binlog", "b", "", "keep jobs in `DIR`, through crashes and restarts (default in memory only)")
	fs.VarP(fsync{number{&o.fsync, 0, math.MaxInt32}, &o.noFsync}, "fsync", "f", "sync the binlog at most every `MS` milliseconds; with 0, before each answer")
	fs.BoolVarP(&o.noFsync, "no-fsync", "F", false, "never sync the binlog: what a power failure takes is the system's choice")
	fs.VarP(&o.segmentSize, "segment-size", "s", "begin a new file of the binlog about every `BYTES`")
	fs.StringVar(&o.compression, "binlog-compression", "s2", "compress the binlog with `HOW`: none, s2 or zstd")
	fs.BoolVar(&o.strict, "binlog-strict", false, "refuse to start on a damaged binlog, instead of saving what can be saved")
	fs.BoolP("compact", "c", false, "accepted for old scripts; no effect")
	fs.BoolP("no-compact", "n", false, "accepted for old scripts; no effect")
	fs.BoolVarP(&o.version, "version", "v", false, "print the version and exit")
	fs.BoolVarP(&o.help, "help", "h", false, "print this help and exit")
	return fs
}

// usage is what --help prints.
func usage() string {
	return "Usage: sheafd [OPTIONS]\n       sheafd binlog dump DIR\n\nA work queue that speaks beanstalkd's protocol, on every core.\n\nOptions:\n" +
		new(options).flagSet().FlagUsages() +
		"\nSizes are in bytes, or with a suffix: 512K, 64M, 2G (powers of 1024).\n" +
		"Signals: SIGUSR1 drains (puts are refused); SIGTERM and SIGINT shut down, a second one exits at once\n" +
		"if it comes a second or more after the first.\n"
}

// binlogConfig returns the binlog's configuration, nil without -b.
func (o *options) binlogConfig(log *slog.Logger) *binlog.Config {
	if o.binlog == "" {
		return nil
	}
	c := &binlog.Config{
		Dir: o.binlog, SegmentSize: int64(o.segmentSize), Sync: time.Duration(o.fsync) * time.Millisecond,
		Strict: o.strict, Log: log,
	}
	if o.noFsync {
		c.Sync = binlog.SyncNever
	}
	c.Compression, _ = binlog.ParseCompression(o.compression) // parseFlags has checked it
	return c
}

// level returns the log level that the verbosity asks for.
func (o *options) level() slog.Level {
	if o.verbosity > 0 {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// number is a decimal number on the command line, from least to most. pflag's own type
// would read 011300 as octal.
type number struct {
	to          *int
	least, most int
}

// String implements pflag.Value.
func (n number) String() string { return strconv.Itoa(*n.to) }

// Type implements pflag.Value.
func (n number) Type() string { return "number" }

// Set implements pflag.Value.
func (n number) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 63)
	switch {
	case err == nil && uint64(n.least) <= v && v <= uint64(n.most):
		*n.to = int(v)
		return nil
	case n.most == math.MaxInt:
		return fmt.Errorf("must be a number, %d or more", n.least)
	}
	return fmt.Errorf("must be a number from %d to %d", n.least, n.most)
}

// fsync is the number of -f. It revokes an earlier -F: the last of the two counts, as
// with beanstalkd.
type fsync struct {
	number
	never *bool
}

// Set implements pflag.Value.
func (f fsync) Set(text string) error {
	if err := f.number.Set(text); err != nil {
		return err
	}
	*f.never = false
	return nil
}

// duration is a duration on the command line.
type duration time.Duration

// String implements pflag.Value. 0 is "0", which pflag recognises as a zero value and
// does not print as a default.
func (d *duration) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }

// Set implements pflag.Value. A number without a unit, which other servers take for
// seconds, is an error.
func (d *duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	switch {
	case err == nil && v < 0:
		return errors.New("must not be negative")
	case err == nil:
		*d = duration(v)
		return nil
	}
	if _, err := time.ParseDuration(text + "s"); err == nil {
		return fmt.Errorf("missing unit: write %ss for seconds", text)
	}
	zeros := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '0'
		}
		return r
	}, text)
	if _, err := time.ParseDuration(zeros); err == nil { // so nothing is wrong but the number
		return errors.New("out of range: must be 2562047h or less")
	}
	return errors.New("must be a number and a unit, such as 5s or 10m")
}

// size is a number of bytes on the command line.
type size int64

// String implements pflag.Value.
func (s *size) String() string { return strconv.FormatInt(int64(*s), 10) }

// Type implements pflag.Value.
func (s *size) Type() string { return "size" }

// sizeUnits has what may follow the digits of a size, with the power of 2 that it stands
// for.
var sizeUnits = map[string]int{
	"": 0, "B": 0,
	"K": 10, "KB": 10, "KI": 10, "KIB": 10,
	"M": 20, "MB": 20, "MI": 20, "MIB": 20,
	"G": 30, "GB": 30, "GI": 30, "GIB": 30,
	"T": 40, "TB": 40, "TI": 40, "TIB": 40,
}

// Set implements pflag.Value: decimal digits and one of sizeUnits, in upper or lower case.
func (s *size) Set(text string) error {
	digits := strings.TrimRight(text, "BbIiKkMmGgTt")
	shift, known := sizeUnits[strings.ToUpper(text[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !known || err != nil || n > math.MaxInt64>>shift {
		return errors.New("must be a number of bytes, such as 65535, 512K or 2G")
	}
	*s = size(n << shift)
	return nil
}
