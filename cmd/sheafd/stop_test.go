package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/router"
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
