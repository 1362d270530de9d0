//go:build race

package netio

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// With the race detector, the system calls are made through package unix, which
// tells the detector what they read and write, including bodies that are sent
// from the job's own memory. It does so for read and write, not for recv and send.

func sysRead(fd int, p []byte) (int, error)  { return unix.Read(fd, p) }
func sysWrite(fd int, p []byte) (int, error) { return unix.Write(fd, p) }

func sysReadv(fd int, iov []unix.Iovec) (int, error)  { return unix.Readv(fd, pieces(iov)) }
func sysWritev(fd int, iov []unix.Iovec) (int, error) { return unix.Writev(fd, pieces(iov)) }

func sysYield() { unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// pieces returns the byte slices that iov refers to.
func pieces(iov []unix.Iovec) [][]byte {
	p := make([][]byte, len(iov))
	for i, v := range iov {
		p[i] = unsafe.Slice(v.Base, v.Len)
	}
	return p
}
