package main

// The process: from the command line to a server that serves, and its end.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/sheafq/sheaf/cmd/internal/program"
	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
)

// version is set by the linker (see the Makefile).
var version = ""

func versionString() string { return program.Version(version) }

func main() {
	err := command(os.Args[1:])
	if err == nil {
		exit(0)
	}
	var mistake usageError
	if errors.As(err, &mistake) {
		fmt.Fprintf(stderr, "sheafd: %v; see sheafd --help\n", err)
		exit(2)
	}
	fmt.Fprintf(stderr, "sheafd: %v\n", err)
	if errors.Is(err, errDamaged) {
		exit(3)
	}
	exit(1)
}

// command carries out the command line.
func command(args []string) error {
	if len(args) > 0 && args[0] == "binlog" {
		return binlogCommand(os.Stdout, args[1:])
	}
	o, err := parseFlags(args)
	switch {
	case err != nil:
		return err
	case o.help:
		fmt.Print(usage())
	case o.version:
		fmt.Println("sheafd", versionString())
	default:
		return run(o)
	}
	return nil
}

// run serves until a signal ends it.
func run(o *options) error {
	defer runtime.KeepAlive(makeSlack(int64(o.maxMemory)))
	log := newLogger(o)
	slog.SetDefault(log)
	for _, w := range o.warnings {
		log.Warn(w)
	}
	files, err := program.RaiseFileLimit()
	if err != nil {
		log.Warn("the limit on open files could not be raised", "err", err, "limit", files)
	}
	// Before anything is bound or served, so that no signal is missed.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	signal.Ignore(syscall.SIGPIPE)

	processors := netio.NewProcessors(leastProcessors(o), log)
	listeners, err := bind(o, log)
	if err != nil {
		return err
	}
	stopEarly := exitOnSignal(log, listeners)
	engine, err := router.New(router.Config{Shards: o.shards, MaxMemory: int64(o.maxMemory), Binlog: o.binlogConfig(log), Log: log})
	if err != nil {
		listeners.close()
		return err
	}
	stopEarly()
	shutdownOrders := make(chan bool, 1)
	services, err := newServices(o, engine, log, listeners, files, processors, shutdownOrders)
	if err != nil {
		listeners.close()
		return errors.Join(err, engine.Close())
	}
	failed := make(chan error, listeners.count())
	for _, s := range services {
		s.start(log, failed)
	}
	log.Info("started", "version", versionString(), "shards", o.shards, "procs", runtime.GOMAXPROCS(0),
		"max-job-size", int64(o.maxJobSize), "open-files", files, "pid", os.Getpid())
	notify(log, daemon.SdNotifyReady)

	p := &process{log, engine, listeners, services, signals, shutdownOrders, failed}
	why, err := p.untilTold()
	if err != nil {
		why = "a listener failed"
	}
	return errors.Join(err, p.stop(why, o.shutdownTimeout))
}

// bind opens the sockets, and then becomes the user that the server is to be.
func bind(o *options, log *slog.Logger) (s sockets, err error) {
	var user *identity
	if o.user != "" {
		if user, err = findUser(o.user); err != nil {
			return s, err
		}
	}
	if s, err = listen(o, log); err != nil || user == nil {
		return s, err
	}
	if err := user.become(); err != nil {
		s.close()
		return s, err
	}
	return s, nil
}

// process is a server that has started.
type process struct {
	log       *slog.Logger
	engine    *router.Router
	listeners sockets
	services  []*service

	signals        <-chan os.Signal
	shutdownOrders <-chan bool  // Gearman's; see newServices
	failed         <-chan error // what ended a listener
}

// untilTold waits until the server is to stop, and returns why: a signal, Gearman's order
// to shut down, or, after an order to do so gracefully, that no worker has a job any more.
func (p *process) untilTold() (why string, err error) {
	var idle <-chan struct{} // in a graceful shutdown
	for {
		select {
		case err := <-p.failed:
			if idle != nil && errors.Is(err, net.ErrClosed) {
				continue // closed below
			}
			return "", err
		case graceful := <-p.shutdownOrders:
			switch {
			case !graceful:
				return "shutdown", nil
			case idle == nil:
				p.log.Info("shutting down when all jobs that are with workers are done")
				p.listeners.close()
				var stop func()
				idle, stop = whenIdle(p.engine)
				defer stop()
			}
		case <-idle:
			return "shutdown graceful", nil
		case sig := <-p.signals:
			if sig != syscall.SIGUSR1 {
				return sig.String(), nil
			}
			p.engine.Drain()
			p.log.Info("draining: puts are refused from now on")
		}
	}
}

// stop ends all connections, as soon as the commands in flight are done or timeout is
// over, and closes the engine.
func (p *process) stop(why string, timeout time.Duration) error {
	first := time.Now() // before the log line, so that a signal a second after that line counts as a second one
	go exitOnSecondSignal(p.log, p.signals, first)
	p.log.Info("shutting down", "signal", why, "connections", connections(p.services), "timeout", timeout)
	notify(p.log, daemon.SdNotifyStopping)
	p.engine.EndWaits()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if shutdown(ctx, p.services) != nil {
		p.log.Warn("connections were cut off in the middle of a command", "timeout", timeout)
		p.awaitCutOff()
	}
	if err := p.engine.Close(); err != nil {
		return err
	}
	p.log.Info("stopped")
	return nil
}

// cutOffPatience is how long connections that were cut off may take to end. Their sockets
// are shut, so nothing keeps them, unless they wait for a disk.
const cutOffPatience = time.Second

// awaitCutOff waits for the connections that were cut off to end, since they use the
// engine. If some do not, the engine can be closed all the same, and has to be, or what
// was answered before might not be on the disk: a shard that has ended takes what is sent
// to it and does not serve it, so such a connection hears no answer any more.
func (p *process) awaitCutOff() {
	ctx, cancel := context.WithTimeout(context.Background(), cutOffPatience)
	defer cancel()
	if shutdown(ctx, p.services) != nil {
		p.log.Error("connections that were cut off do not end; going on without them", "connections", connections(p.services))
	}
}

// exitOnSignal makes SIGTERM and SIGINT end the process at once, until stop is called.
// It is for the time in which the binlog is read, and its jobs are maybe written again for
// other shards: nobody is served and nothing can be lost.
func exitOnSignal(log *slog.Logger, listeners sockets) (stop func()) {
	c := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case <-done:
		case sig := <-c:
			listeners.close()
			log.Info("stopped at the start, before anybody was served", "signal", sig.String())
			exit(0)
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}

// secondSignalAfter is how long after the first signal another one counts. GNU timeout
// and some supervisors signal the process and then its group, so one order to stop
// arrives twice within milliseconds.
const secondSignalAfter = time.Second

// exitOnSecondSignal ends the process in the middle of a shutdown, which began at first,
// when somebody does not want to wait for it.
func exitOnSecondSignal(log *slog.Logger, signals <-chan os.Signal, first time.Time) {
	for sig := range signals {
		switch {
		case sig == syscall.SIGUSR1:
		case time.Since(first) < secondSignalAfter:
			log.Info("shutting down already: a signal so soon after the first is taken for the same", "signal", sig.String())
		default:
			log.Warn("exiting at once: second signal", "signal", sig.String())
			exit(1)
		}
	}
}

func newLogger(o *options) *slog.Logger {
	opts := &slog.HandlerOptions{Level: o.level(), AddSource: o.verbosity > 1, ReplaceAttr: asText}
	return stderr.logger(func(w io.Writer) slog.Handler {
		if o.logFormat == "json" {
			return slog.NewJSONHandler(w, opts)
		}
		return slog.NewTextHandler(w, opts)
	})
}

// asText makes addresses and durations be logged as text, such as 127.0.0.1:11300 and 5s.
// In JSON an address would be an object with the fields of its Go type, and a duration a
// number of nanoseconds.
func asText(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case net.Addr:
		a.Value = slog.StringValue(v.String())
	case time.Duration:
		a.Value = slog.StringValue(v.String())
	}
	return a
}

// notify tells systemd the server's state, if systemd has asked to be told.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd could not be notified", "err", err)
	}
}
