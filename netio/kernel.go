package netio

// The real system under Processors: Linux's counters for the process and the machine, and the runtime's number of threads.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A kernel reads Linux's counters.
type kernel struct{}

// newKernel returns an error if Linux does not provide one of the counters.
func newKernel() (k kernel, err error) {
	if _, err = k.idle(); err == nil {
		_, err = k.counts()
	}
	return k, err
}

// processors returns how many threads run Go code at a time.
func (kernel) processors() int { return runtime.GOMAXPROCS(0) }

// setProcessors sets that number. If n is 0, the runtime chooses by the number of cores, and from then on adapts to it. A
// change stops all goroutines for a moment, and first waits for a running garbage collection to end.
func (kernel) setProcessors(n int) {
	if n == 0 {
		runtime.SetDefaultGOMAXPROCS()
	} else {
		runtime.GOMAXPROCS(n)
	}
}

// usage returns the CPU time that the process has used, from getrusage(2).
func (kernel) usage() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}

// idle returns how long all cores of the machine together had nothing to do, from proc_stat(5). It includes cores that this
// process may not use.
func (kernel) idle() (time.Duration, error) {
	var buf [256]byte
	text, err := head("/proc/stat", buf[:])
	if err != nil {
		return 0, err
	}
	d, err := idleTime(text)
	if err != nil {
		return 0, fmt.Errorf("/proc/stat: %w", err)
	}
	return d, nil
}

// counts returns what is known of threads, from proc_pid_schedstat(5), a file for each.
func (kernel) counts() (c counts, err error) {
	const tasks = "/proc/self/task"
	dir, err := os.Open(tasks)
	if err != nil {
		return c, err
	}
	defer dir.Close()
	threads, err := dir.Readdirnames(-1)
	if err != nil {
		return c, err
	}
	var buf [256]byte
	for _, thread := range threads {
		name := tasks + "/" + thread + "/schedstat"
		text, err := head(name, buf[:])
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return c, err
		}
		n, err := field(text, 1)
		if err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
		c.threads++
		c.waited += time.Duration(n)
	}
	if c.waited == 0 {
		return c, fmt.Errorf("%s/*/schedstat: no thread ever waited (%d threads)", tasks, len(threads))
	}
	return c, nil
}

// head reads the beginning of a file, as much as buf holds.
func head(name string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: name, Err: err}
	}
	return buf[:n], nil
}

// tick is the unit of /proc/stat, which is the same on all architectures that Go runs on.
const tick = 10 * time.Millisecond

// idleTime returns how long all cores together were idle or waited for disks, from the first line of /proc/stat: cpu, user,
// nice, system, idle, iowait and more.
func idleTime(stat []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	idle, err := field(line, 4)
	if err != nil {
		return 0, err
	}
	iowait, err := field(line, 5)
	return time.Duration(idle+iowait) * tick, err
}

// field returns word i of text, counted from 0, as a number.
func field(text []byte, i int) (int64, error) {
	for word := range bytes.FieldsSeq(text) {
		if i--; i < 0 {
			return strconv.ParseInt(string(word), 10, 64)
		}
	}
	return 0, fmt.Errorf("too few words in %q", text)
}
