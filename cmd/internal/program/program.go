package program

import (
	"runtime/debug"
	"syscall"
)

// Version returns the version to show: the one that the linker has set, which
// may be empty, else the one that the module was built at, else "devel".
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// RaiseFileLimit raises the limit on open files to what the system allows, for
// this process and those that it starts. It returns the limit in force, also with
// an error; 0 if it is not known. Go raises it at start, too, but gives children
// the old one unless it was set by hand.
func RaiseFileLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	raised := syscall.Rlimit{Cur: limit.Max, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
		return limit.Cur, err
	}
	return raised.Cur, nil
}
