package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// blocked is a Writer like a full pipe: it takes what is received from it.
type blocked chan string

func (b blocked) Write(p []byte) (int, error) {
	b <- string(p)
	return len(p), nil
}

// Nobody reads, and no Write waits for that. Once somebody reads, all lines come, and in
// place of those that were too much a line that tells how many they were.
func TestWriteBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := make(blocked)
		w := newWriteBehind(pipe)
		defer close(w.wake)
		w.logger(func(w io.Writer) slog.Handler {
			return slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})
		})
		line := func(i int) string { return fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 1<<20)) }
		write := func(i int) { fmt.Fprint(w, line(i)) }
		reads := func(want string) {
			t.Helper()
			if got := <-pipe; got != want {
				t.Errorf("it says %.40q, want %.40q", got, want)
			}
		}
		write(1)
		synctest.Wait() // it is being written
		for i := 2; i <= 7; i++ {
			write(i) // three of them fit
		}
		fmt.Fprint(w, "short\n") // would fit, but not between two that do not

		began := time.Now()
		w.flush()
		if d := time.Since(began); d != flushPatience {
			t.Errorf("the flush took %v", d)
		}

		for i := 1; i <= 4; i++ {
			reads(line(i))
		}
		synctest.Wait() // the line about the others is being written
		write(8)
		reads(`{"level":"WARN","msg":"lines of the log were dropped: nobody has read it","lines":4}` + "\n")
		reads(line(8))

		write(9)
		go reads(line(9))
		began = time.Now()
		w.flush()
		if d := time.Since(began); d != 0 {
			t.Errorf("with a reader the flush took %v", d)
		}
	})
}
