package netio

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever kind of socket it came in by, a connection never blocks in a system
// call: the calls of syscall.go would keep a processor for as long.
func TestConnectionsDoNotBlock(t *testing.T) {
	listen := func(addr string) func(*testing.T) net.Listener {
		return func(t *testing.T) net.Listener {
			l, err := Listen(addr, 0)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
	}
	unixAddr := "unix:" + filepath.Join(t.TempDir(), "sock")
	for _, tt := range []struct {
		name   string
		listen func(*testing.T) net.Listener
	}{
		{"tcp", listen("127.0.0.1")},
		{"tcp6", listen("")},
		{"unix", listen(unixAddr)},
		{"inherited, blocking", inheritedListener},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flags := make(chan int, 1)
			h := newHarness(t, Config{NewSession: func(c *Conn) Session {
				c.raw.Control(func(fd uintptr) {
					f, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
					if err != nil {
						t.Error(err)
					}
					flags <- f
				})
				return nil
			}})
			l := tt.listen(t)
			h.served.Go(func() { h.s.Serve(l) })
			c, err := net.Dial(l.Addr().Network(), l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if f := <-flags; f&unix.O_NONBLOCK == 0 {
				t.Errorf("the connection blocks: its flags are %#x", f)
			}
		})
	}
}

// inheritedListener is one that blocks, as whoever started the process may
// hand it over.
func inheritedListener(t *testing.T) net.Listener {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inherited")
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 16); err != nil {
		t.Fatal(err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
