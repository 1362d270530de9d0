package main

// Standard error, on which nobody waits.

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	// mostUnwritten is how many bytes may wait to be written to standard error: enough for
	// the lines of ten thousand connections that end at the same time.
	mostUnwritten = 4 << 20
	// flushPatience is how long the end of the process waits for a reader of what is left.
	flushPatience = time.Second
)

// stderr is where everything goes that the process has to say, except what the runtime
// says of a panic.
var stderr = newWriteBehind(os.Stderr)

// exit ends the process, when the last lines are written or have had their time.
func exit(code int) {
	stderr.flush()
	os.Exit(code)
}

// writeBehind is a Writer that never blocks: a goroutine passes on what was written.
// Standard error may be a pipe that nobody reads, and shards write to the log. When too
// much waits, further writes are dropped, and a line at their place tells how many. Any
// goroutine may call its methods.
type writeBehind struct {
	to   io.Writer
	wake chan struct{} // has room for one token: there is something to pass on

	mu      sync.Mutex    // guards what follows; not held while to is written to
	own     *slog.Logger  // writes to to; says how many were dropped
	lines   [][]byte      // each one Write
	size    int           // of lines, in bytes
	dropped int           // after the last of lines
	passed  chan struct{} // closed when all is passed on; nil if nobody waits for that
}

func newWriteBehind(to io.Writer) *writeBehind {
	w := &writeBehind{to: to, wake: make(chan struct{}, 1), own: slog.New(slog.NewTextHandler(to, nil))}
	go w.run()
	return w
}

// logger returns a Logger that writes to w. What w has to say itself has the same form from
// then on.
func (w *writeBehind) logger(handler func(io.Writer) slog.Handler) *slog.Logger {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.own = slog.New(handler(w.to))
	return slog.New(handler(w))
}

// Write keeps a copy of p, a whole line. It always succeeds.
func (w *writeBehind) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.dropped > 0 || w.size+len(p) > mostUnwritten {
		w.dropped++
	} else {
		w.lines = append(w.lines, bytes.Clone(p))
		w.size += len(p)
	}
	w.mu.Unlock()
	w.poke()
	return len(p), nil
}

// flush returns when all is passed on that was written before, or flushPatience is over.
func (w *writeBehind) flush() {
	w.mu.Lock()
	if w.passed == nil {
		w.passed = make(chan struct{})
	}
	passed := w.passed
	w.mu.Unlock()
	w.poke()
	select {
	case <-passed:
	case <-time.After(flushPatience):
	}
}

func (w *writeBehind) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // one unread token says as much as two
	}
}

// run passes on what is written, one write for each line, so that the lines of several
// processes in one pipe stay whole. Errors are ignored: there is nobody to tell.
func (w *writeBehind) run() {
	for range w.wake {
		w.mu.Lock()
		lines, dropped, passed, own := w.lines, w.dropped, w.passed, w.own
		w.lines, w.size, w.dropped, w.passed = nil, 0, 0, nil
		w.mu.Unlock()
		for _, line := range lines {
			w.to.Write(line)
		}
		if dropped > 0 {
			own.Warn("lines of the log were dropped: nobody has read it", "lines", dropped)
		}
		if passed != nil {
			close(passed)
		}
	}
}
