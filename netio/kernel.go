package netio

// What Linux has counted for the process and the machine, and the runtime's number of threads.

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A kernel tells what Linux has counted.
type kernel struct {
	// io is /proc/self/io. It is kept open, since a process that has become another user may not open it.
	io *os.File
}

func newKernel() (k *kernel, err error) {
	k = new(kernel)
	if k.io, err = os.Open("/proc/self/io"); err != nil {
		return nil, err
	}
	if _, err := k.counts(); err != nil {
		k.io.Close()
		return nil, err
	}
	return k, nil
}

// processors returns how many threads run Go code at a time.
func (*kernel) processors() int { return runtime.GOMAXPROCS(0) }

// setProcessors has n threads do so, or, if n is 0, as many as there are cores for, which the runtime finds out by itself from
// then on. All stop for a moment when it changes.
func (*kernel) setProcessors(n int) {
	if n == 0 {
		runtime.SetDefaultGOMAXPROCS()
	} else {
		runtime.GOMAXPROCS(n)
	}
}

// usage returns the CPU time that the process has used: getrusage(2).
func (*kernel) usage() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}

// counts returns the rest: of proc_pid_schedstat(5), proc_stat(5), proc_pid_io(5).
func (k *kernel) counts() (c counts, err error) {
	tasks, _ := filepath.Glob("/proc/self/task/*/schedstat") // fails for bad patterns only
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		n, err := field(text, 1)
		if err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
		c.waited += time.Duration(n)
	}
	if c.waited == 0 {
		return c, fmt.Errorf("/proc/self/task/*/schedstat: no thread ever waited (%d threads)", len(tasks))
	}
	stat, err := os.Open("/proc/stat")
	if err != nil {
		return c, err
	}
	defer stat.Close()
	if c.idle, err = idleTime(stat); err != nil {
		return c, fmt.Errorf("/proc/stat: %w", err)
	}
	if c.written, err = written(k.io); err != nil {
		return c, fmt.Errorf("/proc/self/io: %w", err)
	}
	return c, nil
}

// tick is the unit of /proc/stat, which is the same on all architectures that Go runs on.
const tick = 10 * time.Millisecond

// idleTime returns for how long all cores together were idle or waited for disks, as the first line of /proc/stat has it:
// cpu user nice system idle iowait and more.
func idleTime(stat io.Reader) (time.Duration, error) {
	head := make([]byte, 256)
	n, err := stat.Read(head)
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	idle, err := field(line, 4)
	if err != nil {
		return 0, err
	}
	iowait, err := field(line, 5)
	return time.Duration(idle+iowait) * tick, err
}

// written returns how many bytes the process has written, which is the second line of /proc/self/io: wchar: number.
func written(file io.ReaderAt) (int64, error) {
	text := make([]byte, 256)
	n, err := file.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	_, after, found := bytes.Cut(text[:n], []byte("wchar:"))
	if !found {
		return 0, fmt.Errorf("no wchar in %q", text[:n])
	}
	return field(after, 0)
}

// field returns the number in one of a text's words, counted from 0.
func field(text []byte, i int) (int64, error) {
	words := bytes.Fields(text)
	if i >= len(words) {
		return 0, fmt.Errorf("%q has no word %d", text, i)
	}
	return strconv.ParseInt(string(words[i]), 10, 64)
}
