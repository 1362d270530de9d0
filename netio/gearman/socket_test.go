package gearman

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
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
			dial := startServer(t)
			before := liveHeap()
			for range clients {
				c := dial()
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

// A client that reads more slowly than its results come gets them all, though more
// waits for it than for one who does not read.
func TestSlowReader(t *testing.T) {
	const part, parts, each = 1 << 20, 3 * maxBacklog >> 20, 4
	dial := startServer(t)
	client, worker := dial(), dial()
	client.(*net.TCPConn).SetReadBuffer(part / 4) // so that the server sees that a part was read
	write := func(c net.Conn, p []byte) {
		if _, err := c.Write(p); err != nil {
			t.Error(err)
		}
	}
	write(client, req(typeSubmitJob, "f", "", ""))
	results := bufio.NewReader(client)
	readPacket(t, results) // JOB_CREATED
	write(worker, append(req(typeCanDo, "f"), req(typeGrabJob)...))
	r := bufio.NewReader(worker)
	assigned := readPacket(t, r)
	handle, _, _ := bytes.Cut(assigned[headerSize:], []byte{0})
	data := req(typeWorkData, string(handle), strings.Repeat("x", part-1))
	read := func() {
		t.Helper()
		if got := readPacket(t, results); len(got) != len(data) {
			t.Fatalf("a part has %d bytes, want %d", len(got), len(data))
		}
	}
	for i := range parts {
		write(worker, data)
		if i%each == 0 {
			read() // as often as that, for who reads nothing for a time is cut off
		}
	}
	write(worker, req(typeWorkComplete, string(handle), "end"))
	write(worker, req(typeEchoReq, "done"))
	readPacket(t, r) // all of it was taken
	for range parts - parts/each {
		read()
	}
	if got := readPacket(t, results); !bytes.HasSuffix(got, []byte("\x00end")) {
		t.Errorf("%.100q comes at the end", got)
	}
}

// readPacket reads one packet.
func readPacket(t *testing.T, r io.Reader) []byte {
	t.Helper()
	p := make([]byte, headerSize)
	_, err := io.ReadFull(r, p)
	if err == nil {
		p = append(p, make([]byte, binary.BigEndian.Uint32(p[8:]))...)
		_, err = io.ReadFull(r, p[headerSize:])
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// startServer starts a server with sockets; what it returns dials it.
func startServer(t *testing.T) (dial func() net.Conn) {
	engine, err := router.New(router.Config{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	srv, err := netio.NewServer(netio.Config{NewSession: New(Config{Router: engine, MaxJobSize: 1 << 20}).NewSession})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Shutdown(context.Background()) })
	return func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
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
