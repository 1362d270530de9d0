package perf

// Plain conversation with a server, command by command, while nothing is
// measured.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds connecting, and each answer outside of a load.
const dialTimeout = 10 * time.Second

// dialPlain connects to addr, which is HOST:PORT or unix:PATH.
func dialPlain(ctx context.Context, addr string) (*plainConn, error) {
	t, err := dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return t, nil
}

// dial is dialPlain for callers whose errors say themselves what they connect to.
func dial(ctx context.Context, addr string) (*plainConn, error) {
	network := "tcp"
	if path, is := strings.CutPrefix(addr, "unix:"); is {
		network, addr = "unix", path
	}
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: false}}
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		var where *net.OpError
		if errors.As(err, &where) {
			err = where.Err
		}
		return nil, err
	}
	return &plainConn{Conn: nc, r: bufio.NewReaderSize(nc, 256), patience: dialTimeout}, nil
}

// A plainConn is a connection on which one goroutine sends commands and reads
// their answers, while nothing is measured.
type plainConn struct {
	net.Conn
	r        *bufio.Reader
	patience time.Duration // for all answers to one ask
}

// ask sends commands and returns the first lines of their answers, which must
// have no bodies unless there is one command. With an error, it returns the lines
// until then.
func (t *plainConn) ask(commands ...string) ([]string, error) {
	t.SetDeadline(time.Now().Add(t.patience))
	sent := make(chan error, 1)
	all := strings.Join(commands, "\r\n") + "\r\n"
	go func() { // while answers are read, so that a long list of commands cannot get stuck
		_, err := io.WriteString(t.Conn, all)
		sent <- err
	}()
	answers := make([]string, 0, len(commands))
	var err error
	for _, command := range commands {
		var line string
		if line, err = t.line(); err != nil {
			err = closedError(err, "sent "+quote([]byte(command)))
			t.Close() // ends the writer as well
			break
		}
		answers = append(answers, line)
	}
	if werr := <-sent; err == nil && werr != nil {
		err = fmt.Errorf("writing to the server: %w", werr)
	}
	return answers, err
}

// errEndless means that the other side sends much and no end of a line. No server
// of ours does that.
var errEndless = errors.New("the server answers with a line that does not end")

// line reads a line and returns it without its end. It does not let an endless
// line fill the memory.
func (t *plainConn) line() (string, error) {
	var line []byte
	for {
		part, err := t.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return strings.TrimRight(string(line), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		case len(line) > maxLine:
			return "", fmt.Errorf("%w: %s", errEndless, quote(line))
		}
	}
}

// expect is ask for answers that all must begin with word.
func (t *plainConn) expect(word string, commands ...string) ([]string, error) {
	answers, err := t.ask(commands...)
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		if !strings.HasPrefix(a, word) {
			return nil, fmt.Errorf("sent %s, got %s instead of %s%s", quote([]byte(commands[i])), quote([]byte(a)), word, hint(a))
		}
	}
	return answers, nil
}

// stats sends a command whose answer is a body of lines "name: value".
func (t *plainConn) stats(command string) (map[string]string, error) {
	answers, err := t.expect("OK ", command)
	if err != nil {
		return nil, err
	}
	return t.values(command, answers[0])
}

// maxStats is more bytes than any server has to say of itself or of a tube.
const maxStats = 1 << 20

// values reads the body that follows the answer "OK BYTES".
func (t *plainConn) values(command, answer string) (map[string]string, error) {
	size, valid := decimal([]byte(strings.TrimPrefix(answer, "OK ")))
	if !valid || size > maxStats {
		return nil, fmt.Errorf("sent %q, got %q", command, answer)
	}
	body := make([]byte, size+2)
	if _, err := io.ReadFull(t.r, body); err != nil {
		return nil, closedError(err, "reading the answer to "+command)
	}
	values := make(map[string]string)
	for line := range strings.Lines(string(body)) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), ": "); is {
			values[name] = strings.Trim(value, `"`)
		}
	}
	return values, nil
}

// subscribe uses a tube, and watches those given and no others.
func (t *plainConn) subscribe(use string, watch []string) error {
	if use != "" {
		if _, err := t.expect("USING ", "use "+use); err != nil {
			return err
		}
	}
	if len(watch) == 0 {
		return nil
	}
	commands := make([]string, 0, len(watch)+1)
	for _, tube := range watch {
		commands = append(commands, "watch "+tube)
	}
	_, err := t.expect("WATCHING ", append(commands, "ignore default")...)
	return err
}

// raw returns a bare, non-blocking descriptor for the connection and closes t;
// nothing may be unread. The runtime's poller does not know the descriptor, as it
// would an os.File's: there, each arrival would wake a thread for nothing.
func (t *plainConn) raw() (fd int, err error) {
	defer t.Close()
	t.SetDeadline(time.Time{})
	sys, is := t.Conn.(syscall.Conn)
	if !is {
		return -1, fmt.Errorf("a %T has no descriptor", t.Conn)
	}
	c, err := sys.SyscallConn()
	if err != nil {
		return -1, err
	}
	if failed := c.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); failed != nil {
		return -1, failed
	}
	if err != nil {
		return -1, fmt.Errorf("duplicating a descriptor: %w", err)
	}
	return fd, nil
}

// How a server fails to serve a connection.
var (
	errClosed = errors.New("the server closed the connection")
	errSilent = errors.New("the server does not answer")
)

// closedError is err, said plainly if the server has closed the connection or
// does not answer; doing says what was being done.
func closedError(err error, doing string) error {
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE):
		return fmt.Errorf("%w (%s)", errClosed, doing)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w within %v (%s)", errSilent, dialTimeout, doing)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// explainLimit adds the most likely reason to the error of a connection that is
// not served, if others were served before.
func explainLimit(err error, served int) error {
	var slow net.Error
	late := errors.As(err, &slow) && slow.Timeout()
	if served == 0 || !errors.Is(err, errClosed) && !errors.Is(err, errSilent) && !late {
		return err
	}
	return fmt.Errorf("%w; it has answered on %s before, so this may be its limit on open files (ulimit -n where it is started) or on connections",
		err, plural(served, "connection"))
}
