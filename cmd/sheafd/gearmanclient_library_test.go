package main_test

// libgearman against sheafd and against the reference: a program in C, which
// prints what its client and its workers hear. It is in testdata, and so is what
// it has to print.

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// gearFaults are the parts in which the reference goes wrong.
var gearFaults = map[string]string{
	"exceptions that nobody asked for":          "the WORK_FAIL that it makes of an exception has a NUL behind the handle, so that libgearman does not know the job",
	"a job whose time comes":                    "a worker that sleeps is not told (its issue 101)",
	"a worker that is too slow for its timeout": "its job does not fail",
}

// gearTasks compiles the program and returns its path.
func gearTasks(t *testing.T) string {
	t.Helper()
	path, err := gearTasksOnce()
	if err != nil {
		gearMissing(t, err.Error()+"\napt-get install gcc libc6-dev libgearman-dev")
	}
	return path
}

var gearTasksOnce = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(os.TempDir(), "gearman_tasks")
	out, err := exec.Command("cc", "-Wall", "-o", path, "testdata/gearman_tasks.c", "-lgearman", "-lpthread").CombinedOutput()
	if err != nil {
		return "", &gearCompileError{err, string(out)}
	}
	return path, nil
})

type gearCompileError struct {
	error
	output string
}

func (e *gearCompileError) Error() string {
	return "compiling testdata/gearman_tasks.c: " + e.error.Error() + "\n" + e.output
}

// gearPart is a part's head in the transcript.
var gearPart = regexp.MustCompile(`(?m)^== (.*)\n`)

func TestGearmanLibrary(t *testing.T) {
	path := gearTasks(t)
	transcript, err := os.ReadFile("testdata/gearman_tasks.txt")
	if err != nil {
		t.Fatal(err)
	}
	heads := gearPart.FindAllStringSubmatchIndex(string(transcript), -1)
	if len(heads) < 12 {
		t.Fatalf("the transcript has %d parts", len(heads))
	}
	t.Parallel()
	// They wait more than they work, and each is alone with its server.
	var all sync.WaitGroup
	defer all.Wait()
	for i, head := range heads {
		name, end := string(transcript[head[2]:head[3]]), len(transcript)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		want := string(transcript[head[1]:end])
		s := startGearman(t, "-z", "8M")
		all.Go(func() { gearTasksSay(t, path, "sheafd", s.gearmanAddr(), name, want, 1) })
		if _, err := exec.LookPath("gearmand"); gearFaults[name] == "" && (err == nil || os.Getenv("CI") == "true") {
			addr := gearmand(t)
			// With it libgearman loses a result now and then on a busy machine.
			all.Go(func() { gearTasksSay(t, path, "gearmand", addr, name, want, 3) })
		}
	}
}

// gearTasksSay runs a part of the program against a server, more than once if it
// goes wrong.
func gearTasksSay(t *testing.T, path, server string, addr net.Addr, name, want string, tries int) {
	at := addr.(*net.TCPAddr)
	for ; ; tries-- {
		cmd := exec.Command(path, at.IP.String(), strconv.Itoa(at.Port), name)
		var out output
		cmd.Stdout, cmd.Stderr = &out, &out
		prepare(cmd)
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return
		}
		timer := time.AfterFunc(2*patience, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		got := out.String()
		if err == nil && got == want {
			return
		}
		if tries == 1 {
			t.Errorf("%s, %s: it ends with %v and hears:\n%s\nwant:\n%s\nthe first difference: %s",
				server, name, err, got, want, gearDifference(got, want))
			return
		}
	}
}

// gearDifference returns the first lines that differ.
func gearDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return strconv.Quote(a[i]) + ", want " + strconv.Quote(b[i])
		}
	}
	return "one is the beginning of the other"
}
