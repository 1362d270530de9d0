package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/netio/beanstalk"
	"github.com/sheafq/sheaf/netio/gearman"
	"github.com/sheafq/sheaf/router"
)

// service is a protocol on its sockets.
type service struct {
	protocol  string
	server    *netio.Server
	listeners []net.Listener
}

// newServices makes a service of each protocol that has sockets, with that limit
// on open files. Gearman's order to shut down is sent to ask: true for an end when
// all jobs at work are done.
func newServices(o *options, engine *router.Router, log *slog.Logger, s sockets, files uint64, p *netio.Processors, ask chan<- bool) ([]*service, error) {
	config := netio.Config{
		MaxConnections: o.maxConnections, Descriptors: descriptorsForClients(files, o), Count: new(atomic.Int64),
		IdleTimeout: o.idleTimeout, Processors: p, Logger: log,
	}
	config.NewSession = beanstalk.New(beanstalk.Config{
		Router: engine, MaxJobSize: int(o.maxJobSize), Version: versionString(),
	}).NewSession
	all := []*service{{protocol: "beanstalk", listeners: s.beanstalk}}
	var err error
	if all[0].server, err = netio.NewServer(config); err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	if len(s.gearman) == 0 {
		return all, nil
	}
	config.NewSession = gearman.New(gearman.Config{
		Router: engine, MaxJobSize: int(o.maxJobSize), Version: versionString(), Level: o.level(), Location: time.Local,
		Shutdown: func(graceful bool) {
			select {
			case ask <- graceful:
			default: // asked already
			}
		},
	}).NewSession
	srv, err := netio.NewServer(config)
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	return append(all, &service{protocol: "gearman", server: srv, listeners: s.gearman}), nil
}

// leastProcessors returns how many threads there have to be at least: with a log one
// more, since one that waits for the disk keeps its place for a while.
func leastProcessors(o *options) int {
	if o.binlog != "" {
		return 2
	}
	return 1
}

// start accepts connections until the server is shut down. What goes wrong is
// sent to failed, which has room for one error a listener.
func (s *service) start(log *slog.Logger, failed chan<- error) {
	for _, l := range s.listeners {
		log.Info("listening", "addr", l.Addr().String(), "net", l.Addr().Network(), "protocol", s.protocol)
		go func() {
			if err := s.server.Serve(l); !errors.Is(err, netio.ErrServerClosed) {
				failed <- fmt.Errorf("accepting connections on %s: %w", l.Addr(), err)
			}
		}()
	}
}

// shutdown ends all services at once, and returns an error if some connections
// had to be cut off when ctx ended.
func shutdown(ctx context.Context, services []*service) error {
	errs := make([]error, len(services))
	var all sync.WaitGroup
	for i, s := range services {
		all.Go(func() { errs[i] = s.server.Shutdown(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// connections counts those of all services.
func connections(services []*service) (n int) {
	for _, s := range services {
		n += s.server.Connections()
	}
	return n
}

// idlePoll is how often whenIdle looks.
const idlePoll = 100 * time.Millisecond

// whenIdle lets no new work begin and closes idle when no job is with a worker any
// more. Clients that wait in beanstalkd's reserve lose their connections. stop has
// it look no more, and returns when it does not: it has to be called, once, before
// the engine is closed.
func whenIdle(engine *router.Router) (idle <-chan struct{}, stop func()) {
	engine.Drain()
	engine.EndWaits()
	closed, stopped, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c := engine.NewClient()
		defer c.Close()
		for c.Stats().Reserved > 0 {
			select {
			case <-time.After(idlePoll):
			case <-stopped:
				return
			}
		}
		close(closed)
	}()
	return closed, func() {
		close(stopped)
		<-ended
	}
}
