package netio

// Whether others are served while a session takes its time. The server is a process of its own: system calls of a client in the
// same one would wake the runtime's monitor.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

const (
	spins    = 3 * time.Second // how long a spinner keeps its thread
	promptly = spins / 2       // far more than it takes, for the sake of busy machines
)

// A spinner echoes lines, but keeps its thread at work when the line is spin.
type spinner struct{ c *Conn }

func (s *spinner) Serve(in []byte) (int, error) {
	n := bytes.LastIndexByte(in, '\n') + 1
	if string(in[:n]) == "spin\n" {
		for end := time.Now().Add(spins); time.Now().Before(end); {
			for range 10_000 {
			}
		}
	}
	s.c.Write(in[:n])
	return n, nil
}

func (*spinner) Hangup() {}
func (*spinner) Abort()  {}
func (*spinner) Close()  {}

// spinChild is a server of spinners until its standard input ends.
func spinChild() {
	s, err := NewServer(Config{NewSession: func(c *Conn) Session { return &spinner{c} }})
	if err != nil {
		panic(err)
	}
	l, err := Listen("127.0.0.1", 0)
	if err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.Serve(l) })
	fmt.Println(l.Addr())
	io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Shutdown(ctx)
	wg.Wait()
}

// TestOthersBesideALongServe: a session that takes seconds keeps nobody from being answered where there is a processor to
// spare, and where there is none they share.
func TestOthersBesideALongServe(t *testing.T) {
	for _, tt := range []struct {
		name string
		spin int // connections that take their time
		busy bool
	}{
		{"one after a pause", 1, false},
		{"two after a pause", 2, false}, // one for each processor
		{"one beside little work", 1, true},
		{"two beside little work", 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, _ := startChild(t, "NETIO_SPIN_CHILD=1", "GOMAXPROCS=2")
			dial := func() *bufio.ReadWriter {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nc.Close() })
				nc.SetDeadline(time.Now().Add(patience))
				return bufio.NewReadWriter(bufio.NewReader(nc), bufio.NewWriter(nc))
			}
			ask := func(c *bufio.ReadWriter) time.Duration {
				begun := time.Now()
				c.WriteString("hello\n")
				c.Flush()
				if line, err := c.ReadString('\n'); line != "hello\n" {
					t.Fatalf("%q, %v", line, err)
				}
				return time.Since(begun)
			}
			other := dial()
			ask(other)
			var long []*bufio.ReadWriter
			for range tt.spin {
				long = append(long, dial())
				ask(long[len(long)-1])
			}
			// Time for the runtime's monitor to go to sleep, which it does as soon as it finds all processors idle for a while.
			for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; time.Sleep(5 * time.Millisecond) {
				if tt.busy {
					ask(other)
				}
			}
			for _, c := range long {
				c.WriteString("spin\n")
				c.Flush()
			}
			time.Sleep(20 * time.Millisecond) // they are at it
			for begun := time.Now(); time.Since(begun) < spins/6; time.Sleep(time.Millisecond) {
				if took := ask(other); took > promptly {
					t.Fatalf("answered after %v", took)
				}
			}
		})
	}
}
