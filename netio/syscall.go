//go:build !race

package netio

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of the hot path. None of them blocks: whatever the listener is, Go
// accepts connections that do not, since its poller wants them so. Hence the
// runtime is not told of them: what it does so that other goroutines go on while
// a call blocks, here only has the processor taken away from a call that the
// kernel was slow in, with a thread woken each time.
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

// sysYield leaves the core to another thread that waits for it. The runtime is not told of this one either: the processor
// stays with the thread, so what it has still to do does not wake a third one, which would take the core back.
func sysYield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

func result(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
