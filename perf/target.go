package perf

// The server under load: one that runs already, or one that is started here, and
// ended whatever happens.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// ErrNoServer means that there is no server to load, whatever the scenario:
// nobody answers at the address, or the program cannot be started.
var ErrNoServer = errors.New("no server")

// errOtherProtocol means that there is a server which does not understand the
// scenario's protocol, so waiting for it is of no use.
var errOtherProtocol = errors.New("it does not speak the scenario's protocol")

// A Target is a server to put load on. It is for one goroutine: a session starts
// and stops it, and sets Addr, Pid and Version.
type Target struct {
	Name string `json:"name"`
	// Addr is HOST:PORT or unix:PATH; of a server that is started here, while
	// it runs.
	Addr string `json:"addr,omitempty"`
	Pid  int    `json:"pid,omitempty"` // whose CPU and memory are measured; 0 if not known

	// Version is the version that the server reports, once it was started.
	Version string `json:"version,omitempty"`

	// Command is how the server is started, with {port} and {dir} in it; empty
	// if it runs already.
	Command []string `json:"command,omitempty"`
	// TempDir is where {dir} is made; empty is the system's.
	TempDir string `json:"-"`
	// StartTimeout is how long the server may take until it answers.
	StartTimeout time.Duration `json:"-"`

	gearman bool // the server is asked in Gearman's text protocol whether it is ready
	argv    []string
	dir     string
	process *process
}

// started reports whether the server is started here.
func (t *Target) started() bool { return len(t.Command) > 0 }

// local reports whether the server is on this machine, as far as that can be
// told.
func (t *Target) local() bool {
	if t.started() || t.Pid > 0 || strings.HasPrefix(t.Addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(t.Addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "" || host == "localhost" || ip.IsLoopback() || ip.IsUnspecified())
}

// askVersion asks the server for its version. It is only for reports, so a
// failure does not matter.
func (t *Target) askVersion(ctx context.Context) {
	if t.Version != "" {
		return
	}
	if t.gearman {
		t.Version, _ = gearmanVersion(ctx, t.Addr)
		return
	}
	c, err := dialPlain(ctx, t.Addr)
	if err != nil {
		return
	}
	defer c.Close()
	if stats, err := c.stats("stats"); err == nil {
		t.Version = stats["version"]
	}
}

// usage reads what the server has used.
func (t *Target) usage() procUsage { return usageOf(t.Pid) }

// start starts the server, unless it runs already, and waits until it answers.
// binlog is appended to a command without {dir}. The error may be ErrNoServer.
func (t *Target) start(ctx context.Context, binlog []string) (err error) {
	if !t.started() {
		if t.Pid != 0 && !t.usage().known {
			return fmt.Errorf("%w in process %d: its CPU and memory cannot be read", ErrNoServer, t.Pid)
		}
		return t.waitUntilReady(ctx, nil)
	}
	if t.dir, err = os.MkdirTemp(t.TempDir, "sheafperf-"); err != nil {
		return fmt.Errorf("%w: making a directory for %s: %w", ErrNoServer, t.Name, err)
	}
	ports, err := freePorts()
	if err != nil {
		return err
	}
	t.Addr = net.JoinHostPort("127.0.0.1", ports[0])
	t.argv = t.argv[:0]
	command := t.Command
	if !strings.Contains(strings.Join(command, " "), "{dir}") {
		command = append(command[:len(command):len(command)], binlog...)
	}
	placeholders := strings.NewReplacer("{port}", ports[0], "{port2}", ports[1], "{dir}", t.dir)
	for _, word := range command {
		t.argv = append(t.argv, placeholders.Replace(word))
	}
	return t.launch(ctx)
}

// launch starts the process, with the directory that start has made; after kill
// it may be called again.
func (t *Target) launch(ctx context.Context) error {
	p, err := startProcess(t.argv)
	if err != nil {
		return fmt.Errorf("%w: starting %s: %w", ErrNoServer, t.Name, err)
	}
	t.process, t.Pid = p, p.cmd.Process.Pid
	return t.waitUntilReady(ctx, p)
}

// waitUntilReady waits until the server answers a command, for at most
// StartTimeout. One that reads a binlog first may take long. p is nil for a
// server that was not started here: that one is asked once.
func (t *Target) waitUntilReady(ctx context.Context, p *process) error {
	give := t.StartTimeout
	if give == 0 {
		give = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, give)
	defer cancel()
	why := ""
	for {
		err := t.ping(ctx)
		if err != nil && ctx.Err() == nil {
			why = ": " + err.Error()
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errOtherProtocol) && t.Name == t.Addr:
			return fmt.Errorf("%s: %w", t.Addr, err)
		case errors.Is(err, errOtherProtocol):
			return fmt.Errorf("%s at %s: %w", t.Name, t.Addr, err)
		case p == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("%w at %s: it does not answer after %v", ErrNoServer, t.Addr, give)
		case p == nil:
			return fmt.Errorf("%w at %s: %w", ErrNoServer, t.Addr, err)
		}
		select {
		case <-p.ended:
			t.kill() // its children as well; and stop must not report its end once more
			return fmt.Errorf("%s ended as soon as it was started: %s%s", t.Name, p.state(), p.said())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer after %v%s%s", strings.Join(t.argv, " "), give, why, p.said())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// ping asks the server something that costs it nothing. It waits as long as ctx
// allows.
func (t *Target) ping(ctx context.Context) error {
	if t.gearman {
		_, err := gearmanVersion(ctx, t.Addr)
		return err
	}
	line, err := askOnce(ctx, t.Addr, "list-tube-used\r\n")
	if err == nil && !strings.HasPrefix(line, "USING ") {
		err = fmt.Errorf("sent %q, got %s: %w", "list-tube-used", quote([]byte(line)), errOtherProtocol)
	}
	return err
}

// askOnce sends a command over a connection of its own and returns the first line
// of the answer.
func askOnce(ctx context.Context, addr, command string) (string, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write([]byte(command)); err != nil {
		return "", err
	}
	line, err := c.line()
	switch {
	case err != nil && ctx.Err() != nil:
		err = ctx.Err() // rather than that the connection was closed above
	case errors.Is(err, errEndless):
		err = fmt.Errorf("%w: %w", err, errOtherProtocol)
	}
	return line, err
}

// kill ends the server at once and keeps its directory.
func (t *Target) kill() {
	if t.process != nil {
		t.process.kill()
		t.process, t.Pid = nil, 0
	}
}

// giveTimeToDie waits 200 ms for a server that may be dying, so that stop can
// report that it has.
func (t *Target) giveTimeToDie() {
	if t.process == nil {
		return
	}
	select {
	case <-t.process.ended:
	case <-time.After(200 * time.Millisecond):
	}
}

// stop ends a server that start has started and removes its directory. It may be
// called at any time. The error says if the server had ended by itself.
func (t *Target) stop() error {
	var err error
	if t.process != nil {
		err = t.process.stop()
		t.process, t.Pid = nil, 0
	}
	if t.dir != "" {
		if e := os.RemoveAll(t.dir); err == nil && e != nil {
			err = fmt.Errorf("removing the directory of %s: %w", t.Name, e)
		}
		t.dir = ""
	}
	return err
}

// freePorts returns two ports of the loopback interface that are free now.
func freePorts() (ports [2]string, err error) {
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports, fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close() // after the other is found, which would else be the same
		ports[i] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
