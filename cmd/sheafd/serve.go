package main

// The protocols' servers on their sockets, and ending them.

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

// service is a protocol's server with its listeners.
type service struct {
	protocol  string
	server    *netio.Server
	listeners []net.Listener
}

// newServices makes a service for each protocol that has sockets. files is the limit on
// open files. Gearman's orders to shut down are sent to shutdownOrders, which needs room
// for one: true to shut down only when no worker has a job any more.
func newServices(o *options, engine *router.Router, log *slog.Logger, s sockets, files uint64, p *netio.Processors, shutdownOrders chan<- bool) ([]*service, error) {
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
			case shutdownOrders <- graceful:
			default: // there is one already
			}
		},
	}).NewSession
	srv, err := netio.NewServer(config)
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	return append(all, &service{protocol: "gearman", server: srv, listeners: s.gearman}), nil
}

// leastProcessors returns how many threads netio.Processors must leave: with a binlog one
// more, since a thread that waits for the disk holds its processor for a while.
func leastProcessors(o *options) int {
	if o.binlog != "" {
		return 2
	}
	return 1
}

// start begins to accept connections, until the server is shut down. Errors are sent to
// failed, which needs room for one error per listener.
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

// shutdown ends all services at the same time. It returns an error if connections had to
// be cut off when ctx ended.
func shutdown(ctx context.Context, services []*service) error {
	errs := make([]error, len(services))
	var all sync.WaitGroup
	for i, s := range services {
		all.Go(func() { errs[i] = s.server.Shutdown(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// connections returns the number of connections of all services.
func connections(services []*service) (n int) {
	for _, s := range services {
		n += s.server.Connections()
	}
	return n
}

// idlePoll is how often whenIdle looks.
const idlePoll = 100 * time.Millisecond

// whenIdle lets no new work begin, and closes idle when no worker has a job any more.
// Clients that wait in beanstalkd's reserve lose their connections. stop ends the polling
// and waits for its goroutine to end; it has to be called exactly once, before the engine
// is closed.
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
