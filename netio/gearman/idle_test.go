package gearman

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
)

// Neither an idle client nor one that waits keeps the read buffer alive in which
// its last packet came. The pools are emptied all the time, so that each client
// would have one of its own.
func TestIdleClientsHoldNoBuffers(t *testing.T) {
	for name, packets := range map[string][]byte{
		"worker asleep":      append(req(typeCanDo, "f"), req(typePreSleep)...),
		"client that waits":  req(typeSubmitJob, "g", "", "workload"),
		"background":         req(typeSubmitJobBG, "g", "u", "workload"),
		"half a packet":      req(typeSubmitJob, "g", "", "workload")[:20],
		"unknown function":   req(typeGetStatus, "H:host:1"),
		"arguments missing":  req(typeSubmitJob, "g"),
		"text":               []byte("maxqueue f 10\n"),
		"half a line":        []byte("maxqueue f"),
		"result of no job's": req(typeWorkComplete, "H:host:1", "result"),
	} {
		t.Run(name, func(t *testing.T) {
			const clients = 20
			engine, err := router.New(router.Config{Shards: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Close()
			srv, err := netio.NewServer(netio.Config{NewSession: New(Config{Router: engine, MaxJobSize: 1 << 20}).NewSession})
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go srv.Serve(l)
			defer srv.Shutdown(context.Background())
			before := liveHeap()
			for range clients {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				echo := req(typeEchoReq, "hello")
				if _, err := c.Write(append(echo, packets...)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, make([]byte, len(echo))); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Millisecond) // most have parked then
				liveHeap()
			}
			for end := time.Now().Add(20 * time.Second); liveHeap()-before > clients*netio.ReadSize/4; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d bytes for %d clients", liveHeap()-before, clients)
				}
			}
		})
	}
}

// liveHeap returns how many bytes are in use, of which none are in a pool.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
