//go:build !race

package netio

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the hot path. None of them blocks: Go's poller needs
// non-blocking connections, so every listener accepts such. Hence the runtime is
// not told of the calls. What it does to let other goroutines go on while a call
// blocks would here only take the processor away from a call that is slow in the
// kernel, and wake a thread each time.
//
// The price: a call that copies some MB of a large body keeps its processor
// meanwhile, and a garbage collector that wants to stop the world waits for it.
// And the runtime's monitor has to be kept awake by other means: see pulse.go.

// sysRead and sysWrite are recv and send: the kernel finds the way to a socket's own
// functions some 70 ns sooner than with read and write, which are for any file.
func sysRead(fd int, p []byte) (int, error) {
	return result(unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0))
}

func sysWrite(fd int, p []byte) (int, error) {
	return result(unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0))
}

func sysReadv(fd int, iov []unix.Iovec) (int, error) {
	return result(unix.RawSyscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov))))
}

func sysWritev(fd int, iov []unix.Iovec) (int, error) {
	return result(unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov))))
}

// sysYield leaves the core to another thread that waits for it. The runtime is not told of this call either: the processor
// stays with this thread, so its remaining work does not wake a third thread, which would take the core back.
func sysYield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

func result(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
