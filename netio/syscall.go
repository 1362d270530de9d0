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

func sysRead(fd int, p []byte) (int, error) {
	return result(unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

func sysWrite(fd int, p []byte) (int, error) {
	return result(unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
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
