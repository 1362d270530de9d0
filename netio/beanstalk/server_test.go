package beanstalk

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
)

// startServer starts a server on loopback, which ends with the test, and
// returns its address.
func startServer(t testing.TB, cfg router.Config) string {
	t.Helper()
	engine := router.New(cfg)
	p := New(Config{Router: engine, MaxJobSize: DefaultMaxJobSize, Version: "test"})
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
	return l.Addr().String()
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
