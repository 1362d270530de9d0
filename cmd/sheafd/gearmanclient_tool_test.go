package main_test

// gearman and gearadmin, Gearman's command line tools, against sheafd and
// against the reference, which have to say the same. They are in Debian's
// gearman-tools.

import (
	"crypto/sha1"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onBoth runs a test against the reference, if it is installed, and against
// sheafd; reference tells which.
func onBoth(t *testing.T, args []string, test func(t *testing.T, addr net.Addr, reference bool)) {
	t.Parallel()
	for _, name := range []string{"gearmand", "sheafd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "gearmand" {
				test(t, gearmand(t), true)
				return
			}
			s := startGearman(t, args...)
			test(t, s.gearmanAddr(), false)
		})
	}
}

// A gearTool is a run of the tool gearman.
type gearTool struct {
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
}

// gearToolPid is what in the tool's words is not the same twice.
var gearToolPid = regexp.MustCompile(`pid\(\d+\)`)

// kill ends it, and the command that it may have started.
func (g *gearTool) kill() { syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) }

func (g *gearTool) errors() string { return gearToolPid.ReplaceAllString(g.stderr.String(), "pid()") }

// wait waits for its end and returns the exit status.
func (g *gearTool) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-g.ended:
	case <-time.After(patience):
		t.Fatalf("%q does not end; it says %q and %q", g.cmd.Args, g.stdout.String(), g.stderr.String())
	}
	return g.cmd.ProcessState.ExitCode()
}

// gearman starts the tool. It and what it starts end with the test, for without
// a server it would complain for ever.
func gearman(t *testing.T, addr net.Addr, stdin string, args ...string) *gearTool {
	t.Helper()
	path := gearNeed(t, "gearman", "gearman-tools")
	g := &gearTool{ended: make(chan struct{})}
	at := addr.(*net.TCPAddr)
	g.cmd = exec.Command(path, append([]string{"-h", at.IP.String(), "-p", strconv.Itoa(at.Port)}, args...)...)
	g.cmd.Stdin, g.cmd.Stdout, g.cmd.Stderr = strings.NewReader(stdin), &g.stdout, &g.stderr
	g.cmd.Dir = t.TempDir()
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	prepare(g.cmd)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		g.cmd.Wait()
		close(g.ended)
	}()
	t.Cleanup(func() {
		g.kill()
		<-g.ended
	})
	return g
}

// gearStatus returns the line of a function in the answer to status, or
// prioritystatus, without its name.
func gearStatus(t *testing.T, addr net.Addr, command, function string) string {
	t.Helper()
	c := gearClientOf(t, addr)
	defer c.Close()
	for _, line := range c.admin(command, true) {
		if rest, ok := strings.CutPrefix(line, function+"\t"); ok {
			return strings.ReplaceAll(rest, "\t", " ")
		}
	}
	return ""
}

// gearWorkers waits until a function has that many workers.
func gearWorkers(t *testing.T, addr net.Addr, function string, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%s has %d workers", function, n), func() bool {
		return strings.HasSuffix(gearStatus(t, addr, "status", function), fmt.Sprint(" ", n))
	})
}

// A gearRun is a client and what it says, and a worker, started before it or
// after it, and what that says. The function is in $f.
type gearRun struct {
	name   string
	worker string // blanks part the arguments; none: there is no worker
	late   bool   // the worker is started when the client has ended
	client string
	stdin  string

	stdout, stderr string
	code           int
	// What the worker says, which ends.
	workerStdout, workerStderr string
	workerCode                 int
	left                       string // status of the function at the end: jobs, running, workers

	// fault is what is wrong with the reference: it is not run.
	fault string
}

const (
	gearFailed   = "gearman: gearman_worker_work : GEARMAN_UNKNOWN_STATE\n"
	gearTimedOut = "gearman: gearman_client_run_tasks : gearman_wait(GEARMAN_TIMEOUT) timeout reached, 1 servers were poll(), no servers were available, pipe:false -> libgearman/universal.cc:346: pid()\n"
)

// gearScripts are what workers run by the name of a shell script: blanks part
// the arguments of a run.
var gearScripts = map[string]string{
	"$exit3": "exit 3",
	"$both":  "echo out; echo err >&2; exit 1",
	"$tell":  "cat >&2; echo >&2", // where it can be seen, of a background job too
	// The tool reads a result in pieces and copies all it has for each: larger ones
	// take it minutes.
	"$xs":     "cat >/dev/null; head -c 200000 /dev/zero | tr '\\0' x",
	"$file":   "cat >f; cat f",
	"$killed": "kill -9 $$",
}

// gearLarge is a large workload of all sorts of bytes.
var gearLarge = func() string {
	b := make([]byte, 1_000_000)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return string(b)
}()

var gearRuns = []gearRun{
	{name: "argument", worker: "-c 1 rev", client: "hello", stdout: "olleh", left: "0 0 0"},
	{name: "stdin", worker: "-c 1 rev", stdin: "hello\n", stdout: "olleh\n", left: "0 0 0"},
	{name: "nothing", worker: "-c 1 -- wc -c", stdout: "0\n", left: "0 0 0"},
	{name: "two arguments", worker: "-c 2 rev", client: "hello world", stdout: "ollehdlrow", left: "0 0 0"},
	{name: "worker later", late: true, worker: "-c 1 $tell", client: "-b hello", workerStderr: "hello\n", left: "0 0 0"},
	{name: "no command", worker: "-c 1", client: "hello", workerStdout: "hello", left: "0 0 0"},
	{name: "-n", worker: "-c 3 rev", client: "-n", stdin: "ab\nc\nd\n", stdout: "ba\nc\nd\n", left: "0 0 0"},
	{name: "-N", worker: "-c 3 rev", client: "-N", stdin: "ab\nc\nd\n", stdout: "bacd", left: "0 0 0"},
	{name: "-P", worker: "-c 1 rev", client: "-P hello", stdout: "$f: olleh", left: "0 0 0"},
	{name: "-P -n", worker: "-c 2 rev", client: "-P -n", stdin: "ab\nc\n", stdout: "$f: ba\n$f: c\n", left: "0 0 0"},
	{name: "-s", worker: "-c 1 -- wc -c", client: "-s", stdin: "not read", stdout: "0\n", left: "0 0 0"},
	{name: "-t", client: "-t 100 hello", stderr: gearTimedOut, left: "0 0 0", fault: "keeps a job that nobody waits for"},
	{name: "-u", worker: "-c 1 rev", client: "-u mine hello", stdout: "olleh", left: "0 0 0"},
	{name: "-I", worker: "-c 1 rev", client: "-I hello", stdout: "olleh", left: "0 0 0"},
	{name: "-L", worker: "-c 1 rev", client: "-L hello", stdout: "olleh", left: "0 0 0"},
	{name: "-b", worker: "-c 1 $tell", client: "-b hello", workerStderr: "hello\n", left: "0 0 0"},
	{name: "-b stdin", worker: "-c 1 $tell", client: "-b", stdin: "hello\n", workerStderr: "hello\n\n", left: "0 0 0"},
	{name: "-b -s", worker: "-c 1 $tell", client: "-b -s", stdin: "not read", workerStderr: "\n", left: "0 0 0"},
	{name: "-b -n", worker: "-c 2 $tell", client: "-b -n", stdin: "ab\nc\n", workerStderr: "ab\n\nc\n\n", left: "0 0 0"},
	{name: "-b -I", worker: "-c 1 $tell", client: "-b -I hello", workerStderr: "hello\n", left: "0 0 0"},
	{name: "-b -L", worker: "-c 1 $tell", client: "-b -L hello", workerStderr: "hello\n", left: "0 0 0"},
	{name: "-b -u", worker: "-c 1 $tell", client: "-b -u mine hello", workerStderr: "hello\n", left: "0 0 0"},
	{name: "-b without a worker", client: "-b hello", left: "1 0 0"},
	// The same workload is the same job.
	{name: "-b -u -", late: true, worker: "-c 1 $tell", client: "-b -u - hello hello hello", workerStderr: "hello\n", left: "0 0 0"},
	{name: "worker -n", worker: "-c 1 -n -- printf a\\nb\\n", client: "x", stdout: "a\na\nb\n", left: "0 0 0"},
	{name: "worker -N", worker: "-c 1 -N -- printf a\\nb\\n", client: "x", stdout: "aa\nb", left: "0 0 0"},
	{name: "false", worker: "-c 1 false", client: "x", stderr: "Job failed\n", code: 1, workerStderr: gearFailed, left: "0 0 0"},
	{name: "exit 3", worker: "-c 1 $exit3", client: "x", stderr: "Job failed\n", code: 1, workerStderr: gearFailed, left: "0 0 0"},
	{name: "output and exit 1", worker: "-c 1 $both", client: "x", stdout: "out\n", stderr: "Job failed\n", code: 1, workerStderr: "err\n" + gearFailed, left: "0 0 0"},
	{name: "a command that is killed", worker: "-c 1 $killed", client: "x", left: "0 0 0"},
	{name: "-b false", worker: "-c 1 false", client: "-b x", workerStderr: gearFailed, left: "0 0 0"},
	{name: "large workload", worker: "-c 1 -- sha1sum", stdin: gearLarge, stdout: "$sha1  -\n", left: "0 0 0"},
	{name: "result", worker: "-c 1 $xs", client: "x", stdout: strings.Repeat("x", 200_000), left: "0 0 0"},
	{name: "both", worker: "-c 1 $file", stdin: gearLarge[:200_000], stdout: gearLarge[:200_000], left: "0 0 0"},
	{name: "large -b", worker: "-c 1 $tell", client: "-b", stdin: gearLarge[:200_000], workerStderr: gearLarge[:200_000] + "\n", left: "0 0 0"},
	{name: "binary", worker: "-c 1", stdin: "\x00REQ\x00\xff\r\n.\r\n\x00", workerStdout: "\x00REQ\x00\xff\r\n.\r\n\x00", left: "0 0 0"},
}

func TestGearmanTool(t *testing.T) {
	gearNeed(t, "gearman", "gearman-tools")
	onBoth(t, []string{"-z", "8M"}, func(t *testing.T, addr net.Addr, reference bool) {
		for i, r := range gearRuns {
			if reference && r.fault != "" {
				continue
			}
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				r.run(t, addr, fmt.Sprint("f", i))
			})
		}
	})
}

// run does what r says, with that function.
func (r *gearRun) run(t *testing.T, addr net.Addr, function string) {
	var worker *gearTool
	startWorker := func() {
		if r.worker == "" {
			return
		}
		args := strings.Fields(r.worker)
		if script, ok := gearScripts[args[len(args)-1]]; ok {
			args = append(args[:len(args)-1], "--", "sh", "-c", script)
		}
		worker = gearman(t, addr, "", append([]string{"-w", "-f", function}, args...)...)
	}
	if !r.late {
		startWorker()
	}
	if worker != nil {
		gearWorkers(t, addr, function, 1)
	}
	client := gearman(t, addr, r.stdin, append([]string{"-f", function}, strings.Fields(r.client)...)...)
	code := client.wait(t)
	if r.late {
		startWorker()
	}
	if worker != nil {
		if code := worker.wait(t); code != r.workerCode {
			t.Errorf("the worker's exit status is %d, want %d", code, r.workerCode)
		}
		is(t, "the worker's output", worker.stdout.String(), r.workerStdout)
		is(t, "the worker's errors", worker.errors(), r.workerStderr)
	}
	want := strings.NewReplacer("$f", function, "$sha1", fmt.Sprintf("%x", sha1.Sum([]byte(gearLarge)))).Replace(r.stdout)
	is(t, "output", client.stdout.String(), want)
	is(t, "errors", client.errors(), r.stderr)
	if code != r.code {
		t.Errorf("exit status %d, want %d", code, r.code)
	}
	var left string
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		// That a connection has ended takes a moment to be known.
		if left = gearStatus(t, addr, "status", function); left == r.left || left == "" && r.left == "0 0 0" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left are %q, want %q", left, r.left)
		}
	}
}

// is compares two texts, which may be long.
func is(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d bytes %.200q, want %d bytes %.200q", what, len(got), got, len(want), want)
	}
}

// Jobs that wait are done by their priorities, and then as they came.
func TestGearmanToolPriorities(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, addr net.Addr, _ bool) {
		for _, args := range []string{"-L low1", "normal1", "-I high1", "-I high2", "-L low2", "normal2"} {
			if code := gearman(t, addr, "", append([]string{"-b", "-f", "f"}, strings.Fields(args)...)...).wait(t); code != 0 {
				t.Errorf("exit status %d", code)
			}
		}
		is(t, "prioritystatus", gearStatus(t, addr, "prioritystatus", "f"), "2 2 2 0")
		w := gearman(t, addr, "", "-w", "-c", "6", "-f", "f", "--", "sh", "-c", gearScripts["$tell"])
		w.wait(t)
		is(t, "the worker's errors", w.errors(), "high1\nhigh2\nnormal1\nnormal2\nlow1\nlow2\n")
	})
}

// Clients that come with the same unique before it is done share a job.
func TestGearmanToolUnique(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, addr net.Addr, _ bool) {
		var clients []*gearTool
		c := gearClientOf(t, addr)
		for i := range 3 {
			clients = append(clients, gearman(t, addr, "", "-f", "f", "-u", "same", "hello"))
			want := fmt.Sprintf("STATUS_RES_UNIQUE same|1|0|0|0|%d", i+1)
			until(t, want, func() bool {
				c.send("GET_STATUS_UNIQUE same")
				return c.next().String() == want
			})
		}
		if code := gearman(t, addr, "", "-b", "-f", "f", "-u", "same", "other").wait(t); code != 0 {
			t.Errorf("exit status %d", code)
		}
		is(t, "status", gearStatus(t, addr, "status", "f"), "1 0 0")
		w := gearman(t, addr, "", "-w", "-c", "1", "-f", "f", "--", "sh", "-c", "tee /dev/stderr")
		w.wait(t)
		is(t, "the worker's errors", w.errors(), "hello")
		for _, c := range clients {
			if code := c.wait(t); code != 0 {
				t.Errorf("exit status %d", code)
			}
			is(t, "output", c.stdout.String(), "hello")
		}
	})
}

// A worker that is killed in the middle of a job has not done it.
func TestGearmanToolWorkerIsKilled(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, addr net.Addr, _ bool) {
		first := gearman(t, addr, "", "-w", "-f", "f", "--", "sh", "-c", "cat >&2; exec sleep 30")
		client := gearman(t, addr, "", "-f", "f", "hello")
		until(t, "it is at work", func() bool { return first.errors() == "hello" })
		is(t, "status", gearStatus(t, addr, "status", "f"), "1 1 1")
		second := gearman(t, addr, "", "-w", "-c", "1", "-f", "f", "rev")
		gearWorkers(t, addr, "f", 2)
		first.kill()
		client.wait(t)
		second.wait(t)
		is(t, "output", client.stdout.String(), "olleh")
	})
}

// What the tool's other options do.
func TestGearmanToolOptions(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, addr net.Addr, _ bool) {
		t.Run("functions", func(t *testing.T) {
			w := gearman(t, addr, "", "-w", "-c", "2", "-f", "one", "-f", "two", "--", "sh", "-c", "cat; echo")
			gearWorkers(t, addr, "two", 1)
			c := gearman(t, addr, "", "-P", "-f", "one", "-f", "two", "x")
			if code := c.wait(t); code != 0 {
				t.Errorf("exit status %d", code)
			}
			lines := strings.Split(c.stdout.String(), "\n")
			slices.Sort(lines)
			is(t, "output", strings.Join(lines, "\n"), "\none: x\ntwo: x")
			w.wait(t)
		})
		t.Run("-v", func(t *testing.T) {
			c := gearman(t, addr, "", "-v", "-b", "-f", "verbose", "x")
			c.wait(t)
			words, handle, _ := strings.Cut(strings.TrimSpace(c.stdout.String()), ": ")
			if words != "Task created" || !gearHandle.MatchString(handle) {
				t.Errorf("it says %q", c.stdout.String())
			}
		})
		t.Run("-i", func(t *testing.T) {
			w := gearman(t, addr, "", "-w", "-i", "pid", "-f", "pid", "rev")
			gearWorkers(t, addr, "pid", 1)
			b, err := os.ReadFile(filepath.Join(w.cmd.Dir, "pid"))
			if strings.TrimSpace(string(b)) != strconv.Itoa(w.cmd.Process.Pid) {
				t.Errorf("the file has %q, %v", b, err)
			}
		})
		t.Run("GEARMAN_SERVER", func(t *testing.T) {
			cmd := exec.Command(gearNeed(t, "gearman", "gearman-tools"), "-b", "-f", "env", "x")
			cmd.Env = append(os.Environ(), "GEARMAN_SERVER="+addr.String())
			prepare(cmd)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%q, %v", out, err)
			}
			is(t, "status", gearStatus(t, addr, "status", "env"), "1 0 0")
		})
		t.Run("-H", func(t *testing.T) {
			c := gearman(t, addr, "", "-H")
			if code := c.wait(t); code != 0 || !strings.Contains(c.stderr.String()+c.stdout.String(), "Print this help menu") {
				t.Errorf("exit status %d, %q", code, c.stderr.String())
			}
		})
	})
}

// What is larger than -z is refused, and said so to the tool, unless the end of
// the connection is faster.
func TestGearmanToolTooLarge(t *testing.T) {
	t.Parallel()
	gearNeed(t, "gearman", "gearman-tools")
	s := startGearman(t)
	for _, size := range []int{65536, 65535 + 32<<10, 100_000, 1 << 20} {
		for _, background := range []string{"-b", "-I"} {
			c := gearman(t, s.gearmanAddr(), strings.Repeat("x", size), "-f", "f", background)
			c.wait(t)
			if said := c.errors(); !strings.Contains(said, "ARGUMENT_TOO_LARGE") && !strings.Contains(said, "LOST_CONNECTION") &&
				!strings.Contains(said, "lost connection") {
				t.Errorf("%d bytes: exit status %d, %q", size, c.cmd.ProcessState.ExitCode(), said)
			}
		}
	}
	s.dial().awaits("total-jobs", "0")
}

// gearadmin runs gearadmin.
func gearadmin(t *testing.T, addr net.Addr, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	at := addr.(*net.TCPAddr)
	cmd := exec.Command(gearNeed(t, "gearadmin", "gearman-tools"), append([]string{"-h", at.IP.String(), "-p", strconv.Itoa(at.Port)}, args...)...)
	var out, errs output
	cmd.Stdout, cmd.Stderr = &out, &errs
	prepare(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	cmd.Wait()
	timer.Stop()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// gearAdmins are calls of gearadmin in their order, and what they say. Lines of
// tables have no order, and workers no known descriptors. The state that they
// find is made by TestGearmanAdminTool.
var gearAdmins = []struct {
	args, stdout, stderr string
	// fault is what the reference says instead, which goes on counting a job that
	// was called off.
	fault string
}{
	{args: "--status", stdout: "a\t4\t1\t2\nb\t1\t0\t1\nc\t1\t0\t0\n.\n"},
	{args: "--priority-status", stdout: "a\t1\t1\t1\t2\nb\t0\t1\t0\t1\nc\t0\t1\t0\t0\n.\n"},
	{args: "--workers", stdout: "FD 127.0.0.1 - :\nFD 127.0.0.1 - :\nFD 127.0.0.1 - : a\nFD 127.0.0.1 two : b a\n.\n"},
	{args: "--show-jobs", stdout: "#1\t0\t0\t0\n#2\t0\t0\t1\n#3\t0\t0\t1\n#4\t0\t0\t1\n#5\t0\t0\t1\n#6\t0\t0\t1\n.\n"},
	{args: "--show-unique-jobs", stdout: "five\nfour\none\nsix\nthree\ntwo\n.\n"},
	{args: "--server-verbose", stdout: "LEVEL\n"},
	{args: "--create-function new", stdout: "OK\n"},
	{args: "--create-function new", stdout: "OK\n"},
	{args: "--drop-function a", stderr: "Error: there are still connected workers or executing clients\r\n"},
	{args: "--drop-function new", stdout: "OK\n"},
	{args: "--drop-function new", stderr: "Error: function not found\r\n"},
	{args: "--cancel-job #5", stdout: "OK\n"},
	{args: "--cancel-job #99", stderr: "Error: UNKNOWN_JOB\r\n"},
	{args: "--cancel-job nonsense", stderr: "Error: UNKNOWN_JOB\r\n"},
	{args: "--show-unique-jobs", stdout: "four\none\nsix\nthree\ntwo\n.\n", fault: "five\nfour\none\nsix\nthree\ntwo\n.\n"},
	{args: "--priority-status", stdout: "a\t1\t1\t1\t2\nb\t0\t0\t0\t1\nc\t0\t1\t0\t0\n.\n", fault: "a\t1\t1\t1\t2\nb\t0\t1\t0\t1\nc\t0\t1\t0\t0\n.\n"},
}

// gearFD is a line of workers up to the address.
var gearFD = regexp.MustCompile(`(?m)^\d+ `)

func TestGearmanAdminTool(t *testing.T) {
	gearNeed(t, "gearadmin", "gearman-tools")
	onBoth(t, nil, func(t *testing.T, addr net.Addr, reference bool) {
		g, one, two := gearClientOf(t, addr), gearClientOf(t, addr), gearClientOf(t, addr)
		g.says("SUBMIT_JOB a|one|x", "JOB_CREATED #1")
		one.send("CAN_DO a")
		one.works("JOB_ASSIGN_UNIQ #1|a|one|x")
		two.send("SET_CLIENT_ID two")
		two.send("CAN_DO a")
		two.send("CAN_DO b")
		two.settle()
		g.says("SUBMIT_JOB_BG a|two|x", "JOB_CREATED #2")
		g.says("SUBMIT_JOB_HIGH_BG a|three|x", "JOB_CREATED #3")
		g.says("SUBMIT_JOB_LOW_BG a|four|x", "JOB_CREATED #4")
		g.says("SUBMIT_JOB_BG b|five|x", "JOB_CREATED #5")
		g.says("SUBMIT_JOB_BG c|six|x", "JOB_CREATED #6")
		for _, a := range gearAdmins {
			args := strings.Fields(a.args)
			if len(args) > 1 && args[1][0] == '#' {
				args[1] = "H:" + gearHost + ":" + args[1][1:]
			}
			// That the one before has gone takes a moment to be known.
			until(t, "we are alone", func() bool { return len(g.admin("workers", true)) == 3 })
			stdout, stderr, code := gearadmin(t, addr, args...)
			if a.args == "--server-verbose" {
				stdout = regexp.MustCompile(`^[A-Z]+\n$`).ReplaceAllString(stdout, "LEVEL\n")
			}
			stdout = strings.ReplaceAll(gearFD.ReplaceAllString(stdout, "FD "), "H:"+gearHost+":", "#")
			if rows, ok := strings.CutSuffix(stdout, ".\n"); ok {
				lines := slices.Sorted(strings.Lines(rows))
				stdout = strings.Join(lines, "") + ".\n"
			}
			if reference && a.fault != "" {
				a.stdout = a.fault
			}
			is(t, "gearadmin "+a.args+": output", stdout, a.stdout)
			is(t, "gearadmin "+a.args+": errors", stderr, a.stderr)
			if code != 0 {
				t.Errorf("gearadmin %s: exit status %d", a.args, code)
			}
		}
		stdout, _, _ := gearadmin(t, addr, "--getpid")
		if pid, err := strconv.Atoi(strings.TrimSpace(stdout)); err != nil || pid <= 1 {
			t.Errorf("--getpid: %q", stdout)
		}
		stdout, _, _ = gearadmin(t, addr, "--server-version")
		if version := strings.TrimSpace(stdout); version != testVersion && !strings.HasPrefix(version, "1.") {
			t.Errorf("--server-version: %q", stdout)
		}
		// The one that was called off does not come, the others do.
		for _, want := range []string{"#3|a|three", "#2|a|two", "#4|a|four"} {
			two.works("JOB_ASSIGN_UNIQ " + want + "|x")
			two.send("WORK_COMPLETE " + want[:2] + "|")
		}
		two.says("GRAB_JOB", "NO_JOB")
	})
}
