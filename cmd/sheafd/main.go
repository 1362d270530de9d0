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

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/netio/beanstalk"
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
			for _, l := range listeners {
				l.Close() // removes the file of a unix socket
			}
			return err
		}
	}
	stopEarly := exitOnSignal(log, listeners)
	engine, err := router.New(router.Config{Shards: o.shards, MaxMemory: int64(o.maxMemory), Binlog: o.binlogConfig(log)})
	if err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return err
	}
	stopEarly()
	protocol := beanstalk.New(beanstalk.Config{Router: engine, MaxJobSize: int(o.maxJobSize), Version: versionString()})
	srv, err := netio.NewServer(netio.Config{
		NewSession:     protocol.NewSession,
		MaxConnections: o.maxConnections,
		IdleTimeout:    o.idleTimeout,
		Logger:         log,
	})
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		log.Info("listening", "addr", l.Addr().String(), "net", l.Addr().Network())
		go func() { failed <- serve(srv, l) }()
	}
	log.Info("started", "version", versionString(), "shards", o.shards, "procs", runtime.GOMAXPROCS(0),
		"max-job-size", int64(o.maxJobSize), "open-files", files, "pid", os.Getpid())
	notify(log, daemon.SdNotifyReady)

	for {
		select {
		case err := <-failed:
			return err
		case sig := <-signals:
			if sig == syscall.SIGUSR1 {
				engine.Drain()
				log.Info("draining: puts are refused from now on")
				continue
			}
			log.Info("shutting down", "signal", sig.String(), "connections", srv.Connections(), "timeout", o.shutdownTimeout)
			notify(log, daemon.SdNotifyStopping)
			go func() {
				for sig := range signals {
					if sig != syscall.SIGUSR1 {
						log.Warn("exiting at once: second signal", "signal", sig.String())
						os.Exit(1)
					}
				}
			}()
			engine.EndWaits()
			ctx, cancel := context.WithTimeout(context.Background(), o.shutdownTimeout)
			defer cancel()
			if err := srv.Shutdown(ctx); err != nil {
				log.Warn("connections were cut off in the middle of a command", "timeout", o.shutdownTimeout)
			} else if err := engine.Close(); err != nil {
				return err
			}
			log.Info("stopped")
			return nil
		}
	}
}

// exitOnSignal has SIGTERM and SIGINT end the process at once, until the answer
// is called: for as long as the binlog is read, when there is nobody to be
// served and nothing to be lost.
func exitOnSignal(log *slog.Logger, listeners []net.Listener) (stop func()) {
	c := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case <-done:
		case sig := <-c:
			for _, l := range listeners {
				l.Close()
			}
			log.Info("stopped before the binlog was read", "signal", sig.String())
			os.Exit(0)
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}

// serve accepts from l until the server is shut down.
func serve(srv *netio.Server, l net.Listener) error {
	if err := srv.Serve(l); !errors.Is(err, netio.ErrServerClosed) {
		return fmt.Errorf("accepting connections on %s: %w", l.Addr(), err)
	}
	return nil
}

func newLogger(o *options) *slog.Logger {
	opts := &slog.HandlerOptions{Level: o.level(), AddSource: o.verbosity > 1}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}

// notify tells systemd, if it is there and wants to know.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd could not be notified", "err", err)
	}
}
