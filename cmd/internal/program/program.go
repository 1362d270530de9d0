package program

import (
	"runtime/debug"
	"syscall"
)

// Version returns the version to show: linked, which the linker has set, unless it is
// empty; else the version of the module that was built; else "devel".
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// RaiseFileLimit raises the limit on open files to the hard limit, for this process and
// those that it starts. It returns the limit now in force, also with an error; 0 if that
// is not known. (Go raises the limit at the start, too, but children get the old one
// unless the program has set it itself.)
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
