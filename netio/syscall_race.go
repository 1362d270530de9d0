//go:build race

package netio

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// With the race detector the calls are those that tell it what they read and
// write.

func sysRead(fd int, p []byte) (int, error)  { return unix.Read(fd, p) }
func sysWrite(fd int, p []byte) (int, error) { return unix.Write(fd, p) }

func sysReadv(fd int, iov []unix.Iovec) (int, error)  { return vectored(unix.SYS_READV, fd, iov) }
func sysWritev(fd int, iov []unix.Iovec) (int, error) { return vectored(unix.SYS_WRITEV, fd, iov) }

func vectored(trap uintptr, fd int, iov []unix.Iovec) (int, error) {
	n, _, errno := unix.Syscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
