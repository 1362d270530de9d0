package main

// sheafperf as its user meets it: the built binary, with a sheafd from the same
// tree.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sheafq/sheaf/perf"
)

// patience is how long a test waits for what should come at once, and for a run of
// all scenarios for the longest of moments each.
const patience = 2 * time.Minute

var binDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if binDir != "" {
		if pids := running(); len(pids) > 0 {
			fmt.Println("FAIL: servers are left:", pids)
			code = 1
		}
		os.RemoveAll(binDir)
	}
	os.Exit(code)
}

// build builds sheafperf, with the race detector if the tests have it, and
// sheafd, which has its own tests for races.
var build = sync.OnceValue(func() (err error) {
	if binDir, err = os.MkdirTemp("", "sheafperf-test-"); err != nil {
		return err
	}
	race := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				race = "-race"
			}
		}
	}
	for name, args := range map[string][]string{"sheafperf": {race, "."}, "sheafd": {"", "../sheafd"}} {
		argv := []string{"build", "-o", filepath.Join(binDir, name), args[1]}
		if args[0] != "" {
			argv = append([]string{"build", args[0]}, argv[1:]...)
		}
		if out, err := exec.Command("go", argv...).CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	return nil
})

// sheafd is a --server flag, whose process can be told from others by its name.
func sheafd(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return "--server=" + name + "=" + filepath.Join(binDir, "sheafd") + " -l 127.0.0.1 -p {port} --shards 2"
}

// A run is a finished sheafperf.
type run struct {
	code           int
	stdout, stderr string
}

// perform runs sheafperf to its end, and sees that it leaves nothing behind.
func perform(t *testing.T, during func(*os.Process), args ...string) run {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	cmd := exec.Command(filepath.Join(binDir, "sheafperf"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "GORACE=atexit_sleep_ms=10")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	if during != nil {
		during(cmd.Process)
	}
	err := cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("%q did not end\n%s%s", args, stdout.String(), stderr.String())
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	for _, bad := range []string{"DATA RACE", "panic:", "\x1b", "\r"} {
		if strings.Contains(stderr.String()+stdout.String(), bad) {
			t.Errorf("%q is in the output of %q:\n%s%s", bad, args, stdout.String(), stderr.String())
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("%q left %v", args, left)
	}
	return run{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// has looks for parts of the output.
func (r run) has(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit status %d, want %d\n%s%s", r.code, code, r.stdout, r.stderr)
	}
	for _, part := range parts {
		if !strings.Contains(r.stdout+r.stderr, part) {
			t.Errorf("there is no %q in\n%s%s", part, r.stdout, r.stderr)
		}
	}
}

// running returns the processes of the sheafd that the tests have built.
func running() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if exe, _ := os.Readlink("/proc/" + e.Name() + "/exe"); err == nil && exe == filepath.Join(binDir, "sheafd") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// started waits for a sheafd to be started.
func started(t *testing.T) (pid int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if pids := running(); len(pids) > 0 {
			return pids[0]
		}
	}
	t.Error("no server was started")
	return 0
}

// portOf returns what a sheafd was told by -p.
func portOf(pid int) string {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if words := strings.Split(string(argv), "\x00"); slices.Contains(words, "-p") {
			return words[slices.Index(words, "-p")+1]
		}
	}
	return ""
}

// underLoad waits until a server has many more jobs deleted than at first.
func underLoad(network, addr string) {
	first := -1
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial(network, addr)
		if err != nil {
			continue
		}
		c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "stats\r\nquit\r\n")
		stats, _ := io.ReadAll(c)
		c.Close()
		m := regexp.MustCompile(`(?m)^cmd-delete: (\d+)`).FindSubmatch(stats)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(string(m[1]))
		if first < 0 {
			first = n
		} else if n > first+500 {
			return
		}
	}
}

// short are flags for a run that takes no time, see measured.
var short = []string{"--warm-up=20ms", "--connections=4"}

// small is the same where something is to be remembered.
var small = append([]string{"--jobs=2000", "--beside=50"}, short...)

// moments are how long a run measures. On a machine that has other things to do
// nothing may come of a short time.
var moments = []string{"--duration=250ms", "--duration=1s", "--duration=3s"}

// measured performs a run that measures, for a longer time if nothing was answered
// in a short one.
func measured(t *testing.T, args ...string) (r run) {
	t.Helper()
	for _, moment := range moments {
		r = perform(t, nil, append(slices.Clone(args), moment)...)
		if !strings.Contains(r.stderr, "nothing was answered within") {
			break
		}
	}
	return r
}

// All scenarios, against a server of the tree; what they find is in the JSON.
func TestScenarios(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range perf.Scenarios() {
		if s.Of == "" && s.Name != "delayed" && !s.Gearman {
			names = append(names, s.Name)
		}
	}
	args := append([]string{"run", "--json", sheafd(t, "sheafd")}, names...)
	var problems []string
	for _, moment := range moments {
		r := perform(t, nil, append(append(args, small...), moment)...)
		if problems = problemsOf(t, r, len(names)); len(problems) == 0 {
			return
		}
	}
	t.Error(strings.Join(problems, "\n"))
}

// problemsOf tells what is wrong with the report of a run of all scenarios.
func problemsOf(t *testing.T, r run, scenarios int) (all []string) {
	t.Helper()
	problem := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if r.code != 0 {
		problem("exit status %d: %s", r.code, r.stderr)
		return all
	}
	if strings.Contains(r.stdout, "null") {
		problem("there is a null in %s", r.stdout)
	}
	var report perf.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	if len(report.Entries) != scenarios || report.Servers[0].Version == "" {
		problem("%d scenarios were run, want %d; version %q", len(report.Entries), scenarios, report.Servers[0].Version)
	}
	figures := make(map[string]bool)
	for _, e := range report.Entries {
		res := e.Results[0]
		for _, f := range res.Figures {
			figures[e.Scenario+": "+f.Name] = true
			if f.Value == 0 && f.Unit != "ms/s" {
				problem("%s: %s is 0", e.Scenario, f.Name)
			}
		}
		if len(res.Loads) == 0 && e.Scenario != "restart" {
			problem("%s measured nothing", e.Scenario)
		}
		for _, l := range res.Loads {
			if l.AnswerRate < 100 || l.Jobs == 0 || l.Server.CPUPerAnswer <= 0 || l.Server.RSS < 1<<20 || l.Client.CPUPerAnswer <= 0 || len(l.Latency) == 0 || l.Latency[0].P50 <= 0 ||
				len(report.Quantiles) == 0 || len(l.Latency[0].Values) != len(report.Quantiles) {
				problem("%s, load %q: %+v", e.Scenario, l.Name, l)
			}
		}
	}
	for _, want := range []string{"manytubes: throughput left", "backlog: memory per waiting job", "idle: memory per idle connection",
		"idle: CPU while all is idle", "restart: recovery", "restart: disk per job"} {
		if !figures[want] {
			problem("there is no figure %q, only %v", want, figures)
		}
	}
	return all
}

func TestDelayed(t *testing.T) {
	t.Parallel()
	measured(t, "run", "delayed", sheafd(t, "sheafd"), "--warm-up=0", "--delay=1", "--rate=1000").has(t, 0, "lateness", "open loop, 1,000 jobs/s")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "report.html")
	args := append([]string{"compare", sheafd(t, "new"), sheafd(t, "old"), "cycle", "handoff", "--rounds=2", "--html", page, "--rate=2000", "--poisson"}, short...)
	measured(t, args...).has(t, 0, "new / old", "throughput (ops/s)", "handoff p99.9", "Poisson")
	b, err := os.ReadFile(page)
	if err != nil || bytes.Count(b, []byte("<svg")) != 8 || !bytes.HasSuffix(bytes.TrimSpace(b), []byte("</html>")) {
		t.Errorf("the page: %v, %d bytes", err, len(b))
	}
	measured(t, append([]string{"compare", sheafd(t, "new"), sheafd(t, "old"), "cycle-1x1", "--markdown", "--rounds=1", "--baseline=new"}, short...)...).
		has(t, 0, "|  | new | old | old / new |")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	measured(t, append([]string{"check", sheafd(t, "sheafd"), "--threads=2", "--watch=3", "--body=uniform:0-3000"}, short...)...).
		has(t, 0, "mixed on sheafd: ok: ", "fanin on sheafd: ok: ", "handoff on sheafd: ok: ", "delayed on sheafd: ok: ", "no job was lost, damaged or mixed up, and none came again except after a release")
}

// A verdict that cannot be written is no good one.
func TestVerdictThatIsLost(t *testing.T) {
	t.Parallel()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	cmd := exec.Command(filepath.Join(binDir, "sheafperf"), "check", "handoff", sheafd(t, "sheafd"), "--duration=50ms", "--warm-up=0")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "no space left on device") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// A server that runs: it is left as it was.
func TestServerThatRuns(t *testing.T) {
	t.Parallel()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(t.TempDir(), "sock")
	cmd := exec.Command(filepath.Join(binDir, "sheafd"), "-l", "unix:"+sock)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var c net.Conn
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if c, err = net.Dial("unix", sock); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	defer c.Close()
	pid := strconv.Itoa(cmd.Process.Pid)
	args := append([]string{"run", "produce", "manytubes", "--addr=unix:" + sock, "--pid=" + pid}, small...)
	measured(t, args...).has(t, 0, "µs of CPU per operation", "beside 50 tubes")
	perform(t, func(p *os.Process) {
		underLoad("unix", sock)
		p.Signal(syscall.SIGINT)
	}, "run", "mixed", "--addr=unix:"+sock, "--duration=1h", "--warm-up=0").has(t, 130, "throughput", "interrupted")
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "list-tubes\r\n")
	b := make([]byte, 1000)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "OK 14\r\n---\n- default\n\r\n" {
		t.Errorf("what is left on the server: %q, %v", b[:n], err)
	}
	perform(t, nil, "run", "restart", "--addr=unix:"+sock).has(t, 2, "must be given with --server")
}

// Ctrl-C in the middle: what there is is printed, and the server is stopped.
func TestInterrupt(t *testing.T) {
	start := func(args ...string) run {
		return perform(t, func(p *os.Process) {
			underLoad("tcp", "127.0.0.1:"+portOf(started(t)))
			p.Signal(syscall.SIGINT)
		}, args...)
	}
	start("run", "cycle", sheafd(t, "sheafd"), "--duration=1h", "--warm-up=10ms").has(t, 130, "ops/s", "interrupted: the figures cover the time until then")
	start("run", "cycle", sheafd(t, "sheafd"), "--duration=1h", "--warm-up=1h").has(t, 130, "interrupted")
	start("check", "handoff", sheafd(t, "sheafd"), "--duration=1h").has(t, 130, "ok until it was interrupted")
	// A terminal that is closed, and timeout(1), send theirs twice: perform sees
	// that no {dir} is left.
	for _, twice := range []os.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		perform(t, func(p *os.Process) {
			underLoad("tcp", "127.0.0.1:"+portOf(started(t)))
			p.Signal(twice)
			time.Sleep(5 * time.Millisecond)
			p.Signal(twice)
		}, "run", "cycle", sheafd(t, "sheafd")+" -b {dir}", "--duration=1h", "--warm-up=10ms").has(t, 130, "ops/s", "interrupted")
	}
	// Killed outright: the kernel ends the server.
	perform(t, func(p *os.Process) {
		started(t)
		p.Kill()
	}, "run", "cycle", sheafd(t, "sheafd"), "--duration=1h", "--temp-dir="+t.TempDir())
	for end := time.Now().Add(patience); len(running()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("servers are left: %v", running())
		}
	}
}

// A server that dies under the load.
func TestServerThatDies(t *testing.T) {
	r := perform(t, func(*os.Process) {
		pid := started(t)
		underLoad("tcp", "127.0.0.1:"+portOf(pid))
		syscall.Kill(pid, syscall.SIGKILL)
	}, "run", "cycle", sheafd(t, "sheafd"), "--duration=1h", "--warm-up=0")
	r.has(t, 1, "the server has ended by itself: signal: killed", "the server closed the connection")
}

// What a report says of the sync mode is so: sheafperf decides on it or does not.
func TestSyncAsTold(t *testing.T) {
	for server, want := range map[string]string{
		sheafd(t, "sheafd"):               "sync 0;",
		sheafd(t, "sheafd") + " -b {dir}": "sync set by the server;",
	} {
		measured(t, "run", "durable", server, "--warm-up=0").has(t, 0, want)
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		want []string
	}{
		{nil, 2, []string{"no command given"}},
		{[]string{"help"}, 0, []string{"Usage: sheafperf run", "compare", "check", "list"}},
		{[]string{"--help"}, 0, []string{"Usage: sheafperf run"}},
		{[]string{"list"}, 0, []string{"cycle-8x64", "8 connections × 64 in flight", "backlog-10m", "mixed", "uniform:1-2 s"}},
		{[]string{"list", "extra"}, 2, []string{"unknown argument: extra", "see sheafperf list --help"}},
		{[]string{"list", "--help"}, 0, []string{"Usage: sheafperf list\n"}},
		{[]string{"--version"}, 0, []string{"sheafperf "}},
		{[]string{"run", "--help"}, 0, []string{"Usage: sheafperf run", "--rate", "--addr"}},
		{[]string{"compare", "handoff", "-h"}, 0, []string{"Usage: sheafperf compare", "--baseline", "(default 32)", "those of handoff"}},
		{[]string{"check", "-h"}, 0, []string{"Usage: sheafperf check", "--grace"}},
		{[]string{"dance"}, 2, []string{`unknown command "dance"`, "see sheafperf --help"}},
		{[]string{"run", "--addr=x"}, 2, []string{"no scenario given", "see sheafperf run --help"}},
		{[]string{"check", "--nonsense"}, 2, []string{"see sheafperf check --help"}},
		{[]string{"run", "cycle", "--addr=x:y"}, 2, []string{"--addr x:y: must be HOST, HOST:PORT or unix:PATH"}},
		{[]string{"run", "cycle", "--addr=unix:"}, 2, []string{"--addr unix:: the path is missing"}},
		{[]string{"run", "durable", "--addr=x", "--sync=50"}, 2, []string{"--sync has no effect with --addr"}},
		{[]string{"run", "durable", "--server=x {port} {dir}", "--sync=50"}, 2, []string{"--sync has no effect where the command has {dir}"}},
		{[]string{"run", "durable-never", "--server=x {port} {dir}"}, 2, []string{"durable-never: it cannot set how the binlog is synced", "; use durable"}},
		{[]string{"run", "durable", "--server=x {port}", "--sync=set by the server"}, 2, []string{"--sync set by the server: must be a number"}},
		{[]string{"compare", "cycle", "durable", "--server=a=x {port} -b{dir}", "--server=b=y {port}"}, 2, []string{"durable: the binlog of a is synced", "that of b as --sync says"}},
		{[]string{"run", "consume", "--addr=x", "--delay=1"}, 2, []string{"--delay has no effect in consume"}},
		{[]string{"run", "cycle"}, 2, []string{"no server given"}},
		{[]string{"run", "nix", "--addr=x"}, 2, []string{`no scenario "nix"`}},
		{[]string{"run", "cycle", "--addr=x", "--server=y {port}"}, 2, []string{"cannot be used together"}},
		{[]string{"run", "cycle", "--server=y"}, 2, []string{"has no {port}"}},
		{[]string{"compare", "--server=y {port}"}, 2, []string{"at least twice"}},
		{[]string{"compare", "--server=y {port}", "--server=y {port}"}, 2, []string{"two servers are called y"}},
		{[]string{"run", "cycle", "--addr=x", "--body=foo:1"}, 2, []string{"--body", `unknown distribution "foo"`}},
		{[]string{"run", "cycle", "--addr=x", "--depth=0", "--watch=9"}, 2, []string{"--depth 0: must be at least 1", "--watch 9: must be at most --tubes, which is 8"}},
		{[]string{"run", "cycle", "--addr=x", "--body=1G", "-c=4096"}, 2, []string{"cycle: --body 1073741824: with 4,096 connections at once the client takes about 16386.0 GiB of memory, and it may have", "lower --body"}},
		{[]string{"run", "cycle", "--addr=x", "--ttr=5000000000"}, 2, []string{"cycle: --ttr 5000000000: must be below 2^32"}},
		{[]string{"run", "cycle", "--addr=x", "--pid=-5"}, 2, []string{"--pid -5: must be the number of a process"}},
		{[]string{"run", "cycle", "--addr=x", "--tubes=0"}, 2, []string{"sheafperf: cycle: --tubes 0: must be at least 1; see"}},
		{[]string{"run", "handoff", "--addr=x", "-c", "3"}, 2, []string{"--connections has no effect in handoff"}},
		{[]string{"run", "cycle", "--addr=x", "-c", "0"}, 2, []string{"--connections 0: must be at least 1"}},
		{[]string{"run", "handoff", "--addr=x", "--workers=0"}, 2, []string{"--workers 0: must be at least 1"}},
		{[]string{"run", "handoff", "--addr=x", "--producers=16", "--workers=4"}, 2, []string{"4 workers, each of which watches 1 tube, leave some of 16 tubes unwatched; --watch 4 would be enough"}},
		{[]string{"run", "backlog", "--addr=x", "--jobs=0"}, 2, []string{"--jobs 0: must be at least 1"}},
		{[]string{"run", "restart", "--addr=x"}, 2, []string{"it must be given with --server"}},
		{[]string{"check", "restart", "--server=x {port}"}, 2, []string{"restart cannot be checked"}},
		{[]string{"run", "restart", "--server=x {port}", "--rate=5"}, 2, []string{"--rate has no effect in restart"}},
		{[]string{"run", "restart", "--server=x {port}", "-t", "3s"}, 2, []string{"--duration has no effect in restart"}},
		{[]string{"run", "produce", "--addr=x", "--watch=2"}, 2, []string{"--watch has no effect in produce"}},
		{[]string{"run", "cycle", "--addr=x", "--poisson"}, 2, []string{"--poisson has no effect without --rate"}},
		{[]string{"run", "cycle", "--addr=x", "--temp-dir=/tmp"}, 2, []string{"--temp-dir is for --server"}},
		{[]string{"run", "cycle", "--addr=x", "--rate=70%%"}, 2, []string{"--rate", `"70%%" is neither`}},
		{[]string{"run", "cycle", "--addr=127.0.0.1:1", "--pid=2147483647"}, 1, []string{"process 2147483647"}},
		{[]string{"run", "cycle", "--addr=127.0.0.1:1"}, 1, []string{"no server at 127.0.0.1:1"}},
		{[]string{"run", "cycle", "--addr=x", "--html=/no/such/dir/x"}, 1, []string{"/no/such/dir/x"}},
	} {
		perform(t, nil, tt.args...).has(t, tt.code, tt.want...)
	}
}

// Whatever fails in every round, and on both threads, is said once.
func TestFailuresAreSaidOnce(t *testing.T) {
	t.Parallel()
	args := append([]string{"run", "cycle", sheafd(t, "sheafd") + " -z 10", "--rounds=2", "--threads=2"}, short...)
	r := measured(t, args...)
	r.has(t, 1, "cycle on sheafd failed in 2 of 2 rounds: connection ", `got "JOB_TOO_BIG"; start the server with a larger -z`)
	if strings.Count(r.stdout+r.stderr, "JOB_TOO_BIG") != 1 {
		t.Errorf("it is said more than once:\n%s%s", r.stdout, r.stderr)
	}
	const nobody = "sheafperf: no server at 127.0.0.1:1: connect: connection refused\n"
	for _, command := range []string{"run cycle handoff --rounds=2", "run cycle --markdown", "check"} {
		if r := perform(t, nil, append(strings.Fields(command), "--addr=127.0.0.1:1")...); r != (run{1, "", nobody}) {
			t.Errorf("%s: %+v", command, r)
		}
	}
}

// Gearman's scenarios, against gearmand. Where it is not installed the test is
// skipped, and fails in CI.
func TestGearman(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("gearmand")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/gearmand") // not in everybody's PATH
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("gearmand is not installed: %v", err)
		}
		t.Skipf("not tried with gearmand: %v (Debian's package gearman-job-server has it)", err)
	}
	server := func(name string) string {
		return "--server=" + name + "=" + path + " -p {port} -L 127.0.0.1 -l stderr -P {dir}/pid-{port2}"
	}
	flags := []string{"--warm-up=20ms", "--jobs=2000"}
	page := filepath.Join(t.TempDir(), "report.html")
	measured(t, append([]string{"compare", "gearman", server("new"), server("old"), "--rounds=1", "--html", page}, flags...)...).
		has(t, 0, "gearman-foreground: ", "gearman-background: ", "gearman-grab: ", "new / old", "round trip p99.9", "submit p99.9", "grab p99.9", "NO_JOB per job")
	measured(t, append([]string{"check", "gearman", server("gearmand")}, flags...)...).
		has(t, 0, "gearman-foreground on gearmand: ok: ", "gearman-background on gearmand: ok: ", "gearman-grab on gearmand: ok: ")
	perform(t, nil, "run", "cycle", server("gearmand")).has(t, 1, "it does not speak the scenario's protocol")
	perform(t, nil, "run", "gearman-grab", sheafd(t, "sheafd")).has(t, 1, "it does not speak the scenario's protocol")
	perform(t, nil, "run", "gearman", server("gearmand"), "--priority=5").has(t, 2, "--priority has no effect in gearman-foreground, gearman-background, gearman-grab")
	perform(t, nil, "run", "gearman", "--addr=localhost").has(t, 1, "no server at localhost:4730")
}

// Help for a scenario has the flags that it takes.
func TestHelpOfAScenario(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ scenario, has, not string }{
		{"cycle", "--connections N", "--producers"},
		{"handoff", "--producers N", "--connections"},
		{"cycle handoff", "--producers N", "--beside"},
		{"consume", "--jobs N", "--delay"},
		{"restart", "--jobs N", "--rate"},
		{"restart", "--sync MS", "--duration"},
		{"", "--sync MS", "(N)"},
	} {
		r := perform(t, nil, append(append([]string{"run"}, strings.Fields(tt.scenario)...), "--help")...)
		if r.code != 0 || !strings.Contains(r.stdout, tt.has) || strings.Contains(r.stdout, tt.not) {
			t.Errorf("%q has no %q, or has %q:\n%s%s", tt.scenario, tt.has, tt.not, r.stdout, r.stderr)
		}
	}
}
