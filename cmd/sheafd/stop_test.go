package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

// slowLog is a log that takes a second to write that it shuts down. Its reader
// sends a second signal as soon as that is there.
type slowLog struct {
	slog.Handler
	signals chan os.Signal
	said    string // at the second signal
}

func (l *slowLog) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "shutting down":
		time.Sleep(secondSignalAfter)
		l.signals <- syscall.SIGTERM
	case "stopped":
	default:
		l.said = r.Message
		runtime.Goexit() // the process would end
	}
	return nil
}

// The second that has to pass between two signals does not begin when the first
// one has been logged, but before.
func TestSecondSignalAfterASlowLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := router.New(router.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		signals := make(chan os.Signal, 1)
		l := &slowLog{slog.NewTextHandler(io.Discard, nil), signals, ""}
		p := &process{log: slog.New(l), engine: engine, signals: signals}
		if err := p.stop("terminated", time.Hour); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if want := "exiting at once: second signal"; l.said != want {
			t.Errorf("it says %q, want %q", l.said, want)
		}
	})
}

// lateSession is a session that hangs: it puts a job, and another one when the server
// goes on without it. Then it closes its client.
type lateSession struct {
	client *router.Client
	first  chan<- shard.Status
	late   <-chan struct{}
}

func (s lateSession) Serve(in []byte) (int, error) {
	put := func() shard.Status {
		r := s.client.New(shard.Put)
		r.TTR, r.Body = 1, []byte("x\r\n")
		s.client.Queue(r)
		return s.client.Await(false)[0].Status
	}
	s.first <- put()
	<-s.late
	put()
	return len(in), nil
}
func (s lateSession) Hangup() { s.client.Hangup() }
func (s lateSession) Abort()  { s.client.Abort() }
func (s lateSession) Close()  { s.client.Close() }

// A connection that does not end when it is cut off does not keep the binlog from being
// closed. What it asks of the engine after that is not answered, and does no harm.
func TestStopWithASessionThatHangs(t *testing.T) {
	dir := t.TempDir()
	engine, err := router.New(router.Config{Shards: 2, Binlog: &binlog.Config{Dir: dir, Sync: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	first, late := make(chan shard.Status), make(chan struct{})
	server, err := netio.NewServer(netio.Config{NewSession: func(*netio.Conn) netio.Session {
		return lateSession{engine.NewClient(), first, late}
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := netio.Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "x")
	if got := <-first; got != shard.OK {
		t.Fatal(got)
	}

	var log strings.Builder
	p := &process{log: slog.New(slog.NewTextHandler(&log, nil)), engine: engine, services: []*service{{server: server}}}
	if err := p.stop("terminated", 0); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("no error is logged:\n%s", log.String())
	}
	if m, err := os.ReadFile(filepath.Join(dir, "manifest")); err != nil || strings.Contains(string(m), "boot") {
		t.Errorf("the binlog was not closed: %v\n%s", err, m)
	}
	close(late)
	time.Sleep(100 * time.Millisecond) // a panic of its would end the test
	engine, err = router.New(router.Config{Shards: 2, Binlog: &binlog.Config{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	client := engine.NewClient()
	if n := client.Stats().Ready; n != 1 {
		t.Errorf("%d jobs are there, want 1", n)
	}
	client.Close()
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
}
