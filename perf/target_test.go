package perf

// Servers that are started and ended, and what the kernel tells of them.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseServer(t *testing.T) {
	for text, want := range map[string]struct {
		name string
		argv []string
	}{
		"sheafd=./bin/sheafd -p {port}":             {"sheafd", []string{"./bin/sheafd", "-p", "{port}"}},
		"/usr/bin/beanstalkd -p {port}":             {"beanstalkd", []string{"/usr/bin/beanstalkd", "-p", "{port}"}},
		"a b --x=1 -p{port}":                        {"a", []string{"a", "b", "--x=1", "-p{port}"}},
		`n='a b' "c d" e\ f '' -p {port}`:           {"n", []string{"a b", "c d", "e f", "", "-p", "{port}"}},
		`x=y -o 'it'"'"'s' "a\"b" --listen=:{port}`: {"x", []string{"y", "-o", "it's", `a"b`, "--listen=:{port}"}},
	} {
		got, err := ParseServer(text)
		if err != nil || got.Name != want.name || !slices.Equal(got.Command, want.argv) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x=", "x=cmd", "x='cmd {port}", `x=cmd {port} \`} {
		if got, err := ParseServer(text); err == nil {
			t.Errorf("%q is taken as %+v", text, got)
		}
	}
}

// alive reports whether a process runs. One that has ended and that nobody has
// waited for yet does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// A server that is a shell, with children: nothing of it is left, nor its
// directory.
func TestNothingIsLeftOfAServer(t *testing.T) {
	temp := t.TempDir()
	for name, end := range map[string]func(*Target){"stop": func(s *Target) { s.stop() }, "kill": func(s *Target) { s.kill(); s.stop() }} {
		t.Run(name, func(t *testing.T) {
			server, err := ParseServer(`sh=sh -c 'sleep 1000 & echo $! > {dir}/child; trap "" TERM; echo {port} hello; kill -9 $$'`)
			if err != nil {
				t.Fatal(err)
			}
			server.TempDir = temp
			err = server.start(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), "ended as soon as it was started: signal: killed") || !strings.Contains(err.Error(), " hello") {
				t.Errorf("starting it: %v", err)
			}
			child, err := os.ReadFile(filepath.Join(server.dir, "child"))
			if err != nil {
				t.Fatal(err)
			}
			pid := 0
			for _, c := range strings.TrimSpace(string(child)) {
				pid = 10*pid + int(c-'0')
			}
			end(server)
			for give := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
				if time.Now().After(give) {
					t.Fatalf("the server's child %d is still there", pid)
				}
			}
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestServersThatDoNotStart(t *testing.T) {
	for _, tt := range []struct {
		command string
		within  time.Duration // to answer
		want    string
	}{
		{"x=/no/such/program {port}", time.Minute, "starting x"},
		{"x=sh -c 'echo sorry; exit 3' {port}", time.Minute, "exit status 3\nsorry"},
		{"x=sleep 1000{port}", 50 * time.Millisecond, "does not answer after 50ms"},
	} {
		server, err := ParseServer(tt.command)
		if err != nil {
			t.Fatal(err)
		}
		server.TempDir, server.StartTimeout = t.TempDir(), tt.within
		err = server.start(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.command, err, tt.want)
		}
		// One that has started may take to the flags of another scenario.
		if never := strings.Contains(tt.command, "/no/such"); errors.Is(err, ErrNoServer) != never {
			t.Errorf("%s: %v: no server in any scenario: %v", tt.command, err, !never)
		}
		server.stop()
	}
	// One that runs, and says nothing: that is told, and not how it was found out.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent := &Target{Name: "silent", Addr: l.Addr().String(), StartTimeout: 50 * time.Millisecond}
	if err := silent.start(t.Context(), nil); !errors.Is(err, ErrNoServer) || err.Error() != "no server at "+silent.Addr+": it does not answer after 50ms" {
		t.Errorf("one that says nothing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	nobody := &Target{Name: "nobody", Addr: "127.0.0.1:1"}
	if err := nobody.start(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("starting when it is over: %v", err)
	}
}

func TestUsage(t *testing.T) {
	before := usageOf(os.Getpid())
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
	}
	u := usageOf(os.Getpid()).since(before)
	if !u.known || u.cpu <= 0 || u.cpu > time.Minute || u.rss < 1<<20 || u.peak < u.rss/2 {
		t.Errorf("%+v", u)
	}
	if u := usageOf(0); u.known {
		t.Errorf("of nobody: %+v", u)
	}
	if cpu, err := parseStat("12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20"); err != nil || cpu != 3*time.Second {
		t.Errorf("stat: %v, %v", cpu, err)
	}
	if _, err := parseStat("12 (x) S 1"); err == nil {
		t.Error("a short stat is taken")
	}
	if m := ThisMachine(); m.Cores < 1 || m.Memory < 1<<20 || !strings.HasPrefix(m.Kernel, "Linux ") {
		t.Errorf("%+v", m)
	}
}

// That a server has ended is told once.
func TestServerThatEndsAtOnce(t *testing.T) {
	sc, err := Find("cycle")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ParseServer("x=sh -c 'echo sorry; exit 3' {port}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = runSession(t.Context(), sc, sc.Config, server, nil, nil)
	if err == nil || err.Error() != "x ended as soon as it was started: exit status 3\nsorry" {
		t.Error(err)
	}
}

// A failure is told once, however many rounds and threads have met it.
func TestFailuresAreToldOnce(t *testing.T) {
	choice := func(scenario string) Choice {
		sc, err := Find(scenario)
		if err != nil {
			t.Fatal(err)
		}
		return Choice{sc, sc.Config.with(func(c *Config) { c.WarmUp, c.Duration, c.Threads = 0, 100*time.Millisecond, 2 })}
	}
	f := newFake(t, flaws{nonsens: 1})
	b := Bench{Loads: []Choice{choice("cycle"), choice("handoff")}, Targets: []*Target{{Name: "fake", Addr: f.addr()}}, Rounds: 3}
	r, err := b.Run(t.Context())
	if err == nil || strings.Count(err.Error(), "PARDON") != 2 || strings.Count(err.Error(), "\n") != 1 ||
		!strings.HasPrefix(err.Error(), "cycle on fake failed in 3 of 3 rounds: connection ") || !strings.Contains(err.Error(), "\nhandoff on fake failed in 3 of 3 rounds: ") {
		t.Errorf("%v", err)
	}
	if len(r.Entries) != 2 || len(r.Entries[0].Results) != 3 || r.Measured() || r.Error != "" {
		t.Errorf("%+v", r)
	}
	b.Targets = []*Target{{Name: "nobody", Addr: "127.0.0.1:1"}}
	r, err = b.Run(t.Context())
	if err == nil || err.Error() != "no server at 127.0.0.1:1: connect: connection refused" || r.Error != err.Error() || len(r.Entries) != 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// Who says much and no line of it does not fill the memory.
func TestLineThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.Copy(c, endless{})
			c.Close()
		}
	}()
	addr := l.Addr().String()
	target := &Target{Name: addr, Addr: addr, StartTimeout: 2 * time.Second}
	err = target.start(t.Context(), nil)
	if want := addr + ": the server answers with a line that does not end: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%.200v, want %q", err, want)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
