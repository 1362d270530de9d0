package perf

// The server under load: one that runs already, or one that is started here, and ended whatever happens.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Target is a server to put a load on. The name stands in reports.
type Target struct {
	Name string `json:"name"`
	Addr string `json:"addr,omitempty"` // HOST:PORT or unix:PATH; of a server that is started here, while it runs
	Pid  int    `json:"pid,omitempty"`  // whose CPU and memory are measured; 0 if that is not known

	// Version is what the server says of itself, once it was started.
	Version string `json:"version,omitempty"`

	// Command is how the server is started, with {port} and {dir} in it; empty if it runs already.
	Command []string `json:"command,omitempty"`
	// TempDir is where {dir} is made; empty is the system's.
	TempDir string `json:"-"`
	// StartTimeout is how long the server may take until it answers.
	StartTimeout time.Duration `json:"-"`

	argv    []string
	dir     string
	process *process
}

// ParseServer reads 'NAME=COMMAND ARGUMENT…'. Without a name it is that of the program. Words may be quoted as in a shell;
// no shell is started.
func ParseServer(text string) (*Target, error) {
	name, command := "", strings.TrimSpace(text)
	if i := strings.IndexAny(command, "= \t'\""); i > 0 && command[i] == '=' {
		name, command = command[:i], command[i+1:]
	}
	argv, err := splitWords(command)
	switch {
	case err != nil:
		return nil, fmt.Errorf("server %q: %w", text, err)
	case len(argv) == 0:
		return nil, fmt.Errorf("server %q: there is no command", text)
	case !strings.Contains(command, "{port}"):
		return nil, fmt.Errorf("server %q: the command does not say {port}, so it cannot be told where to listen", text)
	}
	if name == "" {
		name = filepath.Base(argv[0])
	}
	return &Target{Name: name, Command: argv}, nil
}

// splitWords cuts a command line into words, which may be quoted with ' or " or \.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'':
			if i++; i == len(line) {
				return nil, errors.New("the command ends with a backslash")
			}
			word.WriteByte(line[i])
			in = true
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// local reports whether the server is started here.
func (t *Target) local() bool { return len(t.Command) > 0 }

// askVersion asks the server for its version, which only stands in reports.
func (t *Target) askVersion(ctx context.Context) {
	if t.Version != "" {
		return
	}
	c, err := dialText(ctx, t.Addr)
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

// start starts the server, unless it runs already, and waits until it answers. binlog is appended to a command that does not
// say {dir}.
func (t *Target) start(ctx context.Context, binlog []string) (err error) {
	if !t.local() {
		return t.answering(ctx, nil)
	}
	if t.dir, err = os.MkdirTemp(t.TempDir, "sheafperf-"); err != nil {
		return fmt.Errorf("making a directory for %s: %w", t.Name, err)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	t.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	t.argv = t.argv[:0]
	command := t.Command
	if !strings.Contains(strings.Join(command, " "), "{dir}") {
		command = append(command[:len(command):len(command)], binlog...)
	}
	placeholders := strings.NewReplacer("{port}", strconv.Itoa(port), "{dir}", t.dir)
	for _, word := range command {
		t.argv = append(t.argv, placeholders.Replace(word))
	}
	return t.launch(ctx)
}

// launch starts the process, maybe again with the directory that it has.
func (t *Target) launch(ctx context.Context) error {
	p, err := startProcess(t.argv)
	if err != nil {
		return fmt.Errorf("starting %s: %w", t.Name, err)
	}
	t.process, t.Pid = p, p.cmd.Process.Pid
	return t.answering(ctx, p)
}

// answering waits until the server answers a command. One that reads a binlog first may take long.
func (t *Target) answering(ctx context.Context, p *process) error {
	give := t.StartTimeout
	if give == 0 {
		give = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, give)
	defer cancel()
	for {
		err := ping(ctx, t.Addr)
		switch {
		case err == nil:
			return nil
		case p == nil:
			return fmt.Errorf("no server at %s: %w", t.Addr, err)
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended as soon as it was started: %s\n%s", t.Name, p.state(), p.tail.String())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer after %v: %w\n%s", strings.Join(t.argv, " "), give, err, p.tail.String())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// ping asks the server something that costs it nothing, and waits for as long as ctx says.
func ping(ctx context.Context, addr string) error {
	c, err := dialText(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write([]byte("list-tube-used\r\n")); err != nil {
		return err
	}
	line, err := c.r.ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "USING ") {
		err = fmt.Errorf("sent %q, got %s", "list-tube-used", quote([]byte(line)))
	}
	return err
}

// kill ends the server at once and keeps its directory.
func (t *Target) kill() {
	if t.process != nil {
		t.process.kill()
		t.process, t.Pid = nil, 0
	}
}

// mayDie gives a server that may be dying the time to do so, so that stop can tell.
func (t *Target) mayDie() {
	if t.process == nil {
		return
	}
	select {
	case <-t.process.ended:
	case <-time.After(200 * time.Millisecond):
	}
}

// stop ends the server that start has started, and removes its directory. It may be called at any time.
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

// freePort returns a port of the loopback interface that is free now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// A process is a running server. It has a process group of its own, so that a Ctrl-C that is meant for us does not reach
// it, and the kernel kills it when we die.
type process struct {
	cmd   *exec.Cmd
	tail  tail
	ended chan struct{}
}

func startProcess(argv []string) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.tail, &p.tail
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = 100 * time.Millisecond // a child of it may keep its output open
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// state tells how the process has ended.
func (p *process) state() string { return p.cmd.ProcessState.String() }

// kill ends the process, and what it has started, at once.
func (p *process) kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// stop lets the process end by itself first. One that was gone already has failed under the load.
func (p *process) stop() error {
	select {
	case <-p.ended:
		p.kill()
		return fmt.Errorf("the server has ended by itself: %s\n%s", p.state(), p.tail.String())
	default:
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
	}
	p.kill()
	return nil
}

// A tail keeps the end of what a server says.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const longestTail = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - longestTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
