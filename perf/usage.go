package perf

// What the kernel tells of a process, and of this machine.

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A procUsage is what a process has used. The zero value means not known.
type procUsage struct {
	known bool
	cpu   time.Duration // user and system, of all threads, with those that have ended
	rss   int64         // bytes
	peak  int64         // the largest rss there was
}

// since returns the CPU used between before and u; rss and peak are those of u.
func (u procUsage) since(before procUsage) procUsage {
	u.known = u.known && before.known
	u.cpu -= before.cpu
	return u
}

// usageOf reads what pid has used; a pid of 0 is not known.
func usageOf(pid int) (u procUsage) {
	if pid <= 0 {
		return u
	}
	cpu, err := cpuOf(pid)
	if err != nil {
		return u
	}
	u.cpu = cpu
	u.rss, u.peak, err = memoryOf(pid)
	u.known = err == nil
	return u
}

// cpuOf returns the CPU time of a process from its clock, which counts
// nanoseconds. /proc/PID/stat, which counts hundredths of a second, is read
// where that clock is refused.
func cpuOf(pid int) (time.Duration, error) {
	var ts unix.Timespec
	// See clock_getcpuclockid(3) for how the clock of a process is numbered:
	// CPUCLOCK_SCHED is 2.
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err == nil {
		return time.Duration(ts.Nano()), nil
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(b))
}

// parseStat reads utime and stime, in ticks of 1/100 s, from /proc/PID/stat.
func parseStat(stat string) (time.Duration, error) {
	// The name may have spaces and brackets.
	_, rest, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat has too few fields: %q", stat)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/PID/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil
}

// memoryOf reads the resident memory of a process, now and at most, in bytes.
func memoryOf(pid int) (rss, peak int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		to := map[string]*int64{"VmRSS": &rss, "VmHWM": &peak}[name]
		if to == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/status: %w", pid, err)
		}
		*to = kib << 10
	}
	return rss, peak, nil
}

// A Machine is what the figures were measured on.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"` // bytes
	Kernel string `json:"kernel"`
}

// ThisMachine describes the machine that this process runs on. What the kernel
// does not tell stays empty.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU()}
	m.CPU = valueIn("/proc/cpuinfo", "model name")
	if kib, err := strconv.ParseInt(strings.TrimSuffix(valueIn("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = kib << 10
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// valueIn returns the value of the first line "name : value" in a file; empty if
// there is none.
func valueIn(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, is := strings.Cut(lines.Text(), ":"); is && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
