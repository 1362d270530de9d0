package netio

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func dialRaw(h *harness) (net.Conn, error) {
	return net.Dial(h.l.Addr().Network(), h.l.Addr().String())
}

func TestListenTCP(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "", "::1", "[::1]", "localhost"} {
		l, err := Listen(addr, 0)
		if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
			t.Logf("%q: %v", addr, err) // a machine without IPv6
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", addr, err)
		}
		if _, err := Listen(addr, l.Addr().(*net.TCPAddr).Port); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%q, a second time: %v", addr, err)
		}
		l.Close()
	}
	if _, err := Listen("not an address", 0); err == nil {
		t.Error("no error")
	}
}

func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	l, err := Listen("unix:"+path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:"+path, 0); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a live server's socket: %v", err)
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Error("the live server is harmed: ", err)
	}
	// A server that is killed leaves its socket behind.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	l, err = Listen("unix:"+path, 0)
	if err != nil {
		t.Fatal("a stale socket: ", err)
	}
	l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the file is left after Close: ", err)
	}
}

func TestListenUnixRemovesNothingElse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	datagram := filepath.Join(dir, "datagram")
	pc, err := net.ListenPacket("unixgram", datagram)
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	for _, path := range []string{file, link, dir, datagram} {
		if l, err := Listen("unix:"+path, 0); err == nil {
			l.Close()
			t.Errorf("%s: no error", path)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{"", filepath.Join(dir, "missing", "sock")} {
		if _, err := Listen("unix:"+path, 0); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
}
