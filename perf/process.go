package perf

// A process that is started here, and ended whatever happens.

import (
	"bytes"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A process is a running server. It has its own process group, so that a Ctrl-C
// meant for sheafperf does not reach it, and the kernel kills it when sheafperf
// dies.
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

// state says how the process has ended. It may be called once ended is closed.
func (p *process) state() string { return p.cmd.ProcessState.String() }

// kill ends the process and everything that it has started, at once.
func (p *process) kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// stop asks the process to end, and kills it after 10 s. The error is of one that
// has ended before: it failed under the load.
func (p *process) stop() error {
	select {
	case <-p.ended:
		p.kill()
		return fmt.Errorf("the server has ended by itself: %s%s", p.state(), p.said())
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

// said returns the end of the process's output, to be put behind an error: on lines
// of its own, or nothing.
func (p *process) said() string {
	if s := p.tail.String(); s != "" {
		return "\n" + s
	}
	return ""
}

// A tail keeps the last 4 KiB of a server's output. The process's writer and
// readers may be different goroutines.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const maxTail = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
