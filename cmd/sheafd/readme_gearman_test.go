package main_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// What README's section on Gearman shows is what happens: the commands with
// Debian's gearman, and the session in beanstalkd's protocol beside them.
func TestGearmanInREADME(t *testing.T) {
	if _, err := exec.LookPath("gearman"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("gearman is not installed; apt-get install gearman-tools")
		}
		t.Skip("gearman is not installed")
	}
	_, section, ok := strings.Cut(readme(t), "\n## Gearman\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, session, ok2 := strings.Cut(section, "```telnet\n")
	session, _, _ = strings.Cut(session, "```\n")
	if !ok || !ok2 {
		t.Fatal("README.md has no section on Gearman with a session")
	}
	for _, line := range []string{"gearman -w -f rev -- rev &", "echo hello | gearman -f rev ", "gearman -b -f rev 'some day'", "gearadmin --status", "gearman -f greet Bob"} {
		if !strings.Contains(section, line) {
			t.Errorf("README.md does not show %q any more", line)
		}
	}

	s := start(t, "--gearman", "127.0.0.1:0")
	host, port, err := net.SplitHostPort(s.gearmanAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	tool := func(stdin string, name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, append([]string{"-h", host, "-p", port}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		return cmd
	}
	says := func(want string, cmd *exec.Cmd) {
		t.Helper()
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%q prints %q and ends with %v, want %q", cmd.Args[5:], out, err, want)
		}
	}
	worker := tool("", "gearman", "-w", "-f", "rev", "--", "rev")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		worker.Process.Kill()
		worker.Wait()
	}()
	says("olleh\n", tool("hello\n", "gearman", "-f", "rev"))
	says("", tool("", "gearman", "-b", "-f", "rev", "some day"))
	done := false
	for end := time.Now().Add(10 * time.Second); !done && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		out, _ := tool("", "gearadmin", "--status").Output()
		done = string(out) == "rev\t0\t0\t1\n.\n"
	}
	if !done {
		t.Error("gearadmin --status does not come to say that all jobs are done")
	}

	greet := tool("", "gearman", "-f", "greet", "Bob")
	c := s.dial()
	for line := range strings.Lines(session) {
		if command, yours := strings.CutPrefix(line, "> "); yours {
			if command == "watch greet\n" {
				if err := greet.Start(); err != nil {
					t.Fatal(err)
				}
			}
			c.send(command)
		} else if got := strings.ReplaceAll(readLines(c, 1), "\r\n", "\n"); got != line {
			t.Fatalf("the server answers %q, README.md says %q", got, line)
		}
	}
	if err := greet.Wait(); err != nil {
		t.Errorf("gearman -f greet Bob: %v", err)
	}
}
