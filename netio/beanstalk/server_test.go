package beanstalk

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A testServer is a server on loopback, which ends with the test.
type testServer struct {
	addr   string
	engine *router.Router
	net    *netio.Server
}

// startServer starts a server on loopback, which ends with the test, and
// returns its address.
func startServer(t testing.TB, cfg router.Config) string {
	t.Helper()
	return newTestServer(t, cfg, Config{}).addr
}

func newTestServer(t testing.TB, cfg router.Config, protocol Config) *testServer {
	t.Helper()
	engine, err := router.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	protocol.Router, protocol.Version = engine, "test"
	if protocol.MaxJobSize == 0 {
		protocol.MaxJobSize = DefaultMaxJobSize
	}
	p := New(protocol)
	srv, err := netio.NewServer(netio.Config{NewSession: p.NewSession})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		<-served
		engine.Close()
	})
	return &testServer{l.Addr().String(), engine, srv}
}

// poll waits for what has no channel to wait for.
func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never happened: ", what)
		}
	}
}

// stats asks the engine. There are no clients but those over the network.
func (s *testServer) stats() *router.Stats {
	c := s.engine.NewClient()
	defer c.Close()
	st := c.Stats()
	st.Connections--
	return st
}

// client is a raw connection in a test.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return &client{t, c, bufio.NewReaderSize(c, 1<<16)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, s); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads exactly what is expected.
func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.r, got)
	if string(got[:n]) != want {
		c.t.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

func TestSmoke(t *testing.T) {
	for _, n := range []int{1, 7} {
		addr := startServer(t, router.Config{Shards: n})
		c := dial(t, addr)
		c.send("use a\r\nput 5 0 10 3\r\nabc\r\nuse b\r\nput 4 0 10 3\r\nabd\r\nwatch a\r\nwatch b\r\nreserve\r\nreserve\r\ndelete 1\r\ndelete 2\r\nreserve-with-timeout 0\r\n")
		c.expect("USING a\r\nINSERTED 1\r\nUSING b\r\nINSERTED 2\r\nWATCHING 2\r\nWATCHING 3\r\nRESERVED 2 3\r\nabd\r\nRESERVED 1 3\r\nabc\r\nDELETED\r\nDELETED\r\nTIMED_OUT\r\n")
		d := dial(t, addr)
		c.send("reserve\r\nlist-tube-used\r\n")
		d.send("use a\r\nput 0 0 1 3\r\nxyz\r\n")
		d.expect("USING a\r\nINSERTED 3\r\n")
		c.expect("RESERVED 3 3\r\nxyz\r\nUSING b\r\n")
		c.send("reserve\r\n")
		c.expect("DEADLINE_SOON\r\n")
		c.send("list-tubes\r\nstats-job 3\r\n")
		c.expect("OK 22\r\n---\n- default\n- a\n- b\n\r\nOK ")
		d.send("quit\r\n")
		io.ReadAll(d)
	}
}
