package perf

// The loop that drives connections: one thread, one poller. What is done with an
// answer is in driver_scripts.go, or driver_gearman.go.

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// readSize is how many bytes a driver reads at once, into one buffer for all
	// its connections, so that it stays in the cache.
	readSize = 256 << 10
	// maxUnwritten is how many bytes a connection may have to write and still begin
	// another script. Beyond it the connection waits, as a client would that writes
	// its commands one by one; else all bodies of a load could be in memory before
	// the first byte is sent. Ordinary loads stay below it.
	maxUnwritten = 4 << 20
	// maxWait bounds how long a driver sleeps, and so how late it sees that it is
	// to stop.
	maxWait = 20 * time.Millisecond
)

// A driver owns its connections. All its fields belong to the goroutine of run,
// but for two: inbox, by which other drivers reach it, and published. Before run
// begins and after it has returned they are the load's. While a load runs nothing
// is allocated.
type driver struct {
	load     *load
	conns    []*conn
	starters []*conn // those that begin scripts when a job is due, or a worker done
	starter  int     // index of the starter whose turn it is
	inbox    inbox   // producers that other drivers let put another job
	arrivals arrivals
	recorder recorder
	epfd     int
	buf      []byte
	dirty    []*conn // connections with something to write
	started  bool    // the measured time has begun
	ended    bool    // and is over
	stopping bool    // nothing more is begun
	active   int     // scripts in flight, without those of workers

	// Counted all the time, not only while it is measured.
	answers, jobs int64
	put, done     int64 // jobs put and jobs deleted

	clientCPU [2]time.Duration // the thread's, at the beginning and end of the measured time

	// published is written by this driver and read by the observer, at any time.
	// The padding keeps it off the cache lines of the driver's own fields.
	published struct {
		_             [64]byte
		answers, jobs atomic.Int64
		active        atomic.Int64
		put, done     atomic.Int64
		_             [64]byte
	}
}

// run drives until the load is over. The recorder's window and the timetable must
// be set before.
func (d *driver) run() (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// By default Linux lets timers be 50 µs late, which would delay what the
	// timetable has due.
	slack, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)

	if d.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("making a poller: %w", err)
	}
	defer unix.Close(d.epfd)
	if err := d.watch(); err != nil {
		return err
	}
	d.buf = make([]byte, readSize)
	events := make([]unix.EpollEvent, 256)
	defer d.finish()
	d.beginFirst(clock())
	for {
		if err := d.flush(); err != nil {
			return err
		}
		now := clock()
		d.noteWindow(now)
		d.publish()
		if d.over() {
			return nil
		}
		n, err := d.wait(events, d.sleepTime(now))
		if err != nil {
			return err
		}
		for _, ev := range events[:n] {
			if err := d.handleEvent(ev); err != nil {
				return err
			}
		}
		d.pace(clock())
	}
}

// watch has the poller report on the connections and the inbox.
func (d *driver) watch() error {
	for i, c := range d.conns {
		c.index = int32(i)
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: c.index}
		if err := unix.EpollCtl(d.epfd, unix.EPOLL_CTL_ADD, c.fd, &ev); err != nil {
			return fmt.Errorf("watching a connection: %w", err)
		}
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: inboxIndex}
	if err := unix.EpollCtl(d.epfd, unix.EPOLL_CTL_ADD, d.inbox.fd, &ev); err != nil {
		return fmt.Errorf("watching other threads: %w", err)
	}
	return nil
}

// beginFirst begins the scripts that a load starts with.
func (d *driver) beginFirst(now int64) {
	for _, c := range d.conns {
		for range c.group.first {
			if c.quota != 0 {
				d.begin(c, now)
			}
		}
	}
}

// noteWindow notes when the measured time begins and ends, and whether nothing
// more is to be begun.
func (d *driver) noteWindow(now int64) {
	if !d.started && now >= d.recorder.from {
		d.started, d.clientCPU[0] = true, threadCPU()
	}
	if !d.ended && now >= d.recorder.to {
		d.ended, d.clientCPU[1] = true, threadCPU()
		d.stopping = true
	}
	if d.load.stop.Load() {
		d.stopping = true
	}
}

// over reports whether there is nothing left to do.
func (d *driver) over() bool {
	return d.load.quit.Load() || d.active == 0 && !d.load.hasWorkers && (d.stopping || d.exhausted())
}

// handleEvent does what an event of the poller asks for.
func (d *driver) handleEvent(ev unix.EpollEvent) error {
	if ev.Fd == inboxIndex {
		d.beginOwed()
		return nil
	}
	c := d.conns[ev.Fd]
	if ev.Events&unix.EPOLLOUT != 0 {
		if err := d.write(c); err != nil {
			return err
		}
	}
	if ev.Events&^unix.EPOLLOUT != 0 {
		if err := d.read(c); err != nil {
			return err
		}
		// Written at once, before the next connection is read, so that the server
		// does not wait for the client.
		return d.flush()
	}
	return nil
}

// finish takes the last readings of a load that ends before its measured time
// does.
func (d *driver) finish() {
	if d.started && !d.ended {
		d.clientCPU[1] = threadCPU()
	}
	d.publish()
}

// publish publishes the counters. A script is shown as ended only after the job
// that it put is shown as put: else settle could find nothing in flight and
// every job done, and end the load before that job was.
func (d *driver) publish() {
	d.published.answers.Store(d.answers)
	d.published.jobs.Store(d.jobs)
	d.published.put.Store(d.put)
	d.published.done.Store(d.done)
	d.published.active.Store(int64(d.active))
}

// exhausted reports whether no connection may begin another script.
func (d *driver) exhausted() bool {
	for _, c := range d.conns {
		if c.quota != 0 {
			return false
		}
	}
	return true
}

// sleepTime returns how long to wait if nothing arrives.
func (d *driver) sleepTime(now int64) time.Duration {
	until := now + int64(maxWait)
	if !d.stopping && d.room() {
		until = min(until, d.arrivals.next)
	}
	for _, edge := range [...]int64{d.recorder.from, d.recorder.to} {
		if edge > now {
			until = min(until, edge)
		}
	}
	return time.Duration(max(until-now, 0))
}

// wait waits for events, with epoll_pwait2, since epoll_wait's milliseconds are
// too coarse for a timetable. It is a raw system call that the Go runtime does
// not see: otherwise the runtime's monitor would take the processor away from
// this thread each time and give it to others that find nothing to do. With 64
// connections that do not pipeline that took a third of a core, from the server
// as well. See processors (gomaxprocs.go). Whatever stops the world, such as the
// collector, interrupts the wait by a signal; without those signals
// (GODEBUG=asyncpreemptoff=1) it is held up for up to maxWait.
func (d *driver) wait(events []unix.EpollEvent, timeout time.Duration) (int, error) {
	ts := unix.NsecToTimespec(int64(timeout))
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(d.epfd), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	case unix.ENOSYS: // Linux before 5.11
		n, err := unix.EpollWait(d.epfd, events, int(timeout/time.Millisecond))
		if err == unix.EINTR {
			n, err = 0, nil
		}
		return n, err
	}
	return 0, fmt.Errorf("waiting for the server: %w", errno)
}

// room reports whether a starter may begin a script; if so, d.starter is its
// index.
func (d *driver) room() bool {
	for range d.starters {
		if c := d.starters[d.starter]; c.running < c.group.depth && c.quota != 0 && len(c.out) < maxUnwritten {
			return true
		}
		if d.starter++; d.starter == len(d.starters) {
			d.starter = 0
		}
	}
	return false
}

// pace begins the jobs that are due by the timetable. Their scripts count from
// when they were due, not from now.
func (d *driver) pace(now int64) {
	for d.arrivals.next <= now && d.arrivals.next < d.recorder.to && !d.stopping && d.room() {
		c := d.starters[d.starter]
		if d.starter++; d.starter == len(d.starters) {
			d.starter = 0
		}
		d.begin(c, d.arrivals.take())
	}
}

// read takes what has arrived on c and handles the answers in it.
func (d *driver) read(c *conn) error {
	held := len(c.partial)
	buf := d.buf
	if held > 0 {
		buf = c.partial[:cap(c.partial)]
	}
	// recv and send are for sockets alone, and take less time than read and write.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&buf[held])), uintptr(len(buf)-held), 0, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return nil
	case errno != 0:
		return d.connLost(c, errno)
	case n == 0:
		return d.connLost(c, unix.ECONNRESET)
	}
	in := buf[:held+int(n)]
	if len(in) < c.want {
		c.partial = in // the rest of a long body is read in place
		return nil
	}
	now := clock()
	if c.gearman != nil {
		rest, err := d.readPackets(c, in, now)
		if err == nil {
			d.keep(c, rest)
		}
		return err
	}
	var r reply
	for {
		n, want, err := r.cut(in)
		if err != nil {
			return d.connError(c, err)
		}
		if n == 0 {
			c.want = want
			break
		}
		if err := d.answered(c, &r, now); err != nil {
			return err
		}
		in = in[n:]
	}
	d.keep(c, in)
	return nil
}

// keep stores the beginning of an answer until the rest of it arrives.
func (d *driver) keep(c *conn, rest []byte) {
	const least = 4096
	if len(rest) == 0 {
		c.partial, c.want = c.partial[:0], 0
		return
	}
	if size := max(c.want, 2*len(rest), least); cap(c.partial) < size {
		c.partial = append(make([]byte, 0, size), rest...)
		return
	}
	c.partial = c.partial[:copy(c.partial[:cap(c.partial)], rest)]
}

// flush writes the output of all connections that have some.
func (d *driver) flush() error {
	for i := 0; i < len(d.dirty); i++ {
		c := d.dirty[i]
		c.dirty = false
		if c.blocked {
			continue
		}
		if err := d.write(c); err != nil {
			return err
		}
	}
	d.dirty = d.dirty[:0]
	return nil
}

// write writes c's output, as far as the socket takes it.
func (d *driver) write(c *conn) error {
	for c.written < len(c.out) {
		left := c.out[c.written:]
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&left[0])), uintptr(len(left)), unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			c.written += int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			if c.written > len(c.out)/2 {
				c.out, c.written = c.out[:copy(c.out, c.out[c.written:])], 0
			}
			return d.watchWritable(c, true)
		default:
			return d.connLost(c, errno)
		}
	}
	c.out, c.written = c.out[:0], 0
	if c.heldBack > 0 {
		d.beginHeld(c)
	}
	return d.watchWritable(c, false)
}

// watchWritable has the poller report, or no longer report, when c can be written
// to.
func (d *driver) watchWritable(c *conn, full bool) error {
	if c.blocked == full {
		return nil
	}
	c.blocked = full
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: c.index}
	if full {
		ev.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(d.epfd, unix.EPOLL_CTL_MOD, c.fd, &ev)
}

// connLost returns the error of a connection that the server has closed.
func (d *driver) connLost(c *conn, errno unix.Errno) error {
	what := "nothing was asked"
	if n, first := d.load.unanswered(c); n > 0 {
		what = "waiting for the answer to " + fmt.Sprintf("%q", first)
	}
	return d.connError(c, closedError(errno, what))
}

// connError adds to an error which connection it happened on.
func (d *driver) connError(c *conn, err error) error {
	return fmt.Errorf("%s %d: %w", c.group.name, c.number, err)
}

var clockBase = time.Now()

// clock returns the time on the client's clock, in nanoseconds. It is monotonic.
func clock() int64 { return int64(time.Since(clockBase)) }

// threadCPU returns the CPU time that this thread has used.
func threadCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}
