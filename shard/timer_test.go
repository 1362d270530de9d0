package shard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestShortWaitsEnd: waits of microseconds end on shards that were about to sleep for long.
// Many timers are made earlier at once, while the runtime looks through them, and nothing
// else happens that would wake a shard.
func TestShortWaitsEnd(t *testing.T) {
	const shards, waits = 7, 4
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for range rounds {
		g := newRig(shards, NewDirectory(), 0)
		var clients sync.WaitGroup
		for i := range shards {
			clients.Go(func() {
				p := g.newStranger()
				work := p.do(i, Request{Op: Watch, Name: fmt.Sprint("work", i)}).Tube
				p.do(i, Request{Op: Put, Tube: work, TTR: 1000, Body: []byte("\r\n")})
				p.do(i, Request{Op: Reserve}) // the shard would sleep for its TTR now
				for range waits {
					p.post(i, &Request{Op: ReserveTimeout, Timeout: 1 + rand.Int64N(300_000), Quiet: true})
					p.granted()
				}
				p.send(i, Detach)
			})
		}
		done := make(chan struct{})
		go func() {
			clients.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(patience):
			// The shards cannot be stopped.
			fmt.Fprintf(os.Stderr, "a wait of less than a millisecond goes on after %v\n", patience)
			os.Exit(1)
		}
		g.stop()
	}
}

// TestTimersThatTheRuntimeOverlooks is TestShortWaitsEnd in a process whose runtime takes
// its time at the place that Shard.arm tells of, for a tenth of a millisecond. Without the
// Stop there one of the first hundred waits never ends. With the runtime as it is that
// takes millions, but it has happened.
func TestTimersThatTheRuntimeOverlooks(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the runtime")
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal("go env GOROOT: ", err)
	}
	file := filepath.Join(strings.TrimSpace(string(goroot)), "src", "runtime", "time.go")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal("reading the runtime: ", err)
	}
	const place = "if min := t.ts.minWhenModified.Load(); min == 0 || when < min {\n"
	if strings.Count(string(source), place) != 1 {
		t.Skip("this runtime has timers of another kind")
	}
	slow := strings.Replace(string(source), place, `min := t.ts.minWhenModified.Load()
		if min != 0 && when >= min && cheaprandn(2) == 0 {
			usleep(100)
		}
		if min == 0 || when < min {
`, 1)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: write("time.go.slow", []byte(slow))}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-overlay", write("overlay.json", replace), "-run", "^TestShortWaitsEnd$", "-count", "1", ".")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd, err, out)
	}
}
