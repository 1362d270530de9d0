package netio

// The hang-up watcher: one goroutine that learns which peers have shut down their sending side.
//
// Its epoll instance watches every connection for EPOLLRDHUP (EPOLLHUP and EPOLLERR come unasked), edge-triggered, so
// ordinary input costs nothing here. The instance is itself a descriptor that Go's poller can watch, so the goroutine parks
// and blocks no thread.

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// hangups is the watcher. watch is called from connections' goroutines, everything else by the Server.
type hangups struct {
	epfd int // valid until close, which comes after the last connection is gone
	file *os.File
	raw  syscall.RawConn
	done chan struct{} // closed when run has ended
}

func newHangups() (*hangups, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// os.NewFile hands only non-blocking descriptors to the poller.
	if err := unix.SetNonblock(epfd, true); err != nil {
		unix.Close(epfd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(epfd), "hangups")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &hangups{epfd: epfd, file: file, raw: raw, done: make(chan struct{})}, nil
}

// watch adds a connection. If its peer has hung up already, it is reported too. Closing the descriptor removes it.
func (h *hangups) watch(fd int, id uint64) error {
	ev := unix.EpollEvent{
		Events: unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     int32(uint32(id)), // to the kernel the two are 64 bits of user data
		Pad:    int32(uint32(id >> 32)),
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(h.epfd, unix.EPOLL_CTL_ADD, fd, &ev))
}

// run calls report for each connection whose peer hung up, until close. An event may be reported after its connection was
// closed and its descriptor reused; the id, which is never reused, tells them apart.
func (h *hangups) run(report func(id uint64)) {
	defer close(h.done)
	events := make([]unix.EpollEvent, 128)
	h.raw.Read(func(fd uintptr) bool {
		for {
			n, err := unix.EpollWait(int(fd), events, 0)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return true // cannot happen: the descriptor and the arguments are valid
			}
			for _, ev := range events[:n] {
				report(uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32)
			}
			if n < len(events) {
				return false // the kernel's list is empty; whatever comes next is an edge
			}
		}
	})
}

// close ends run. It must not be called from report.
func (h *hangups) close() { h.file.Close() }
