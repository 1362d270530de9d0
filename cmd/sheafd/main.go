package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/sheafq/sheaf/router"
)

// version is set by the linker (see the Makefile). Without it the version that
// the module was built at is shown, if there is one.
var version = ""

func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func main() {
	err := command(os.Args[1:])
	if err == nil {
		return
	}
	var mistake usageError
	if errors.As(err, &mistake) {
		fmt.Fprintf(os.Stderr, "sheafd: %v; see sheafd --help\n", err)
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "sheafd: %v\n", err)
	if errors.Is(err, errDamaged) {
		os.Exit(3)
	}
	os.Exit(1)
}

// command does what the command line says.
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
	defer runtime.KeepAlive(makeSlack())
	log := newLogger(o)
	slog.SetDefault(log)
	for _, w := range o.warnings {
		log.Warn(w)
	}
	files, err := raiseFileLimit()
	if err != nil {
		log.Warn("the limit on open files could not be raised", "err", err, "limit", files)
	}
	// Before anything is bound or served, so that no signal is missed.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	signal.Ignore(syscall.SIGPIPE)

	var user *identity
	if o.user != "" {
		if user, err = findUser(o.user); err != nil {
			return err
		}
	}
	listeners, err := listen(o, log)
	if err != nil {
		return err
	}
	if user != nil {
		if err := user.become(); err != nil {
			listeners.close()
			return err
		}
	}
	stopEarly := exitOnSignal(log, listeners)
	engine, err := router.New(router.Config{Shards: o.shards, MaxMemory: int64(o.maxMemory), Binlog: o.binlogConfig(log)})
	if err != nil {
		listeners.close()
		return err
	}
	stopEarly()
	ask := make(chan bool, 1)
	services, err := newServices(o, engine, log, listeners, files, ask)
	if err != nil {
		return err
	}
	failed := make(chan error, listeners.count())
	for _, s := range services {
		s.start(log, failed)
	}
	log.Info("started", "version", versionString(), "shards", o.shards, "procs", runtime.GOMAXPROCS(0),
		"max-job-size", int64(o.maxJobSize), "open-files", files, "pid", os.Getpid())
	notify(log, daemon.SdNotifyReady)

	var idle <-chan struct{} // in a graceful shutdown, until there is nothing at work
	for {
		why := ""
		select {
		case err := <-failed:
			if idle != nil && errors.Is(err, net.ErrClosed) {
				continue
			}
			return err
		case graceful := <-ask:
			if graceful {
				log.Info("shutting down when all jobs that are with workers are done")
				listeners.close()
				idle = whenIdle(engine)
				continue
			}
			why = "shutdown"
		case <-idle:
			why = "shutdown graceful"
		case sig := <-signals:
			if sig == syscall.SIGUSR1 {
				engine.Drain()
				log.Info("draining: puts are refused from now on")
				continue
			}
			why = sig.String()
		}
		log.Info("shutting down", "signal", why, "connections", connections(services), "timeout", o.shutdownTimeout)
		go exitOnSecondSignal(log, signals, time.Now())
		notify(log, daemon.SdNotifyStopping)
		engine.EndWaits()
		ctx, cancel := context.WithTimeout(context.Background(), o.shutdownTimeout)
		defer cancel()
		if err := shutdown(ctx, services); err != nil {
			log.Warn("connections were cut off in the middle of a command", "timeout", o.shutdownTimeout)
		} else if err := engine.Close(); err != nil {
			return err
		}
		log.Info("stopped")
		return nil
	}
}

// exitOnSignal has SIGTERM and SIGINT end the process at once, until the answer
// is called: for as long as the binlog is read, when there is nobody to be
// served and nothing to be lost.
func exitOnSignal(log *slog.Logger, listeners sockets) (stop func()) {
	c := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case <-done:
		case sig := <-c:
			listeners.close()
			log.Info("stopped before the binlog was read", "signal", sig.String())
			os.Exit(0)
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}

// secondSignalAfter is how long after the first signal another one is a second
// thought. GNU timeout and some supervisors signal the process and then its
// group, so that one order to stop comes twice within milliseconds.
const secondSignalAfter = time.Second

// exitOnSecondSignal ends the process, in the middle of a shutdown that began
// with a signal at first, when somebody does not want to wait for it.
func exitOnSecondSignal(log *slog.Logger, signals <-chan os.Signal, first time.Time) {
	for sig := range signals {
		switch {
		case sig == syscall.SIGUSR1:
		case time.Since(first) < secondSignalAfter:
			log.Info("shutting down already: a signal so soon after the first is taken for the same", "signal", sig.String())
		default:
			log.Warn("exiting at once: second signal", "signal", sig.String())
			os.Exit(1)
		}
	}
}

func newLogger(o *options) *slog.Logger {
	opts := &slog.HandlerOptions{Level: o.level(), AddSource: o.verbosity > 1, ReplaceAttr: addrAsText}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}

// addrAsText has an address be logged as text, ip:port. As JSON it would be an
// object with the fields of Go's type.
func addrAsText(_ []string, a slog.Attr) slog.Attr {
	if addr, is := a.Value.Any().(net.Addr); is {
		a.Value = slog.StringValue(addr.String())
	}
	return a
}

// notify tells systemd, if it is there and wants to know.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd could not be notified", "err", err)
	}
}
