package perf

// Plain conversation with a Gearman server, while nothing is measured.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// register tells the server which functions a worker can do, and waits until the
// server knows: CAN_DO has no answer, so an ECHO_REQ follows. For a client this
// does nothing but the echo, since a client names the function with each job.
func (t *plainConn) register(_ string, functions []string) error {
	t.SetDeadline(time.Now().Add(dialTimeout))
	var out []byte
	for _, f := range functions {
		out = appendPacket(out, packetCanDo, f)
	}
	const mark = "sheafperf"
	if _, err := t.Write(appendPacket(out, packetEcho, mark)); err != nil {
		return fmt.Errorf("writing to the server: %w", err)
	}
	in := make([]byte, packetHeader+len(mark))
	if _, err := io.ReadFull(t.r, in); err != nil {
		return closedError(err, "reading the answer to ECHO_REQ")
	}
	var p packet
	if n, _, err := p.cut(in); err != nil {
		return err
	} else if n == 0 || p.kind != packetEchoed || !bytes.Equal(p.body, []byte(mark)) {
		return fmt.Errorf("sent ECHO_REQ %q, got %s", mark, quote(in))
	}
	return nil
}

// gearmanVersion asks a server for its version in the text protocol, which costs
// it nothing. It waits as long as ctx allows.
func gearmanVersion(ctx context.Context, addr string) (string, error) {
	line, err := askOnce(ctx, addr, "version\r\n") // CR LF, so that a server of beanstalkd's protocol answers, too
	if err != nil {
		return "", err
	}
	version, is := strings.CutPrefix(line, "OK ")
	if !is {
		return "", fmt.Errorf("sent %q, got %s: %w", "version", quote([]byte(line)), errOtherProtocol)
	}
	return version, nil
}

// dropFunctions removes the session's functions from a server that goes on, since
// gearmand remembers each for good. gearmand refuses until it has seen that the
// workers have left, so this is tried for up to a second; a function that is then
// still there remains as an empty line in its status.
func (s *session) dropFunctions() {
	end := time.Now().Add(time.Second)
	for i := range s.cfg.Tubes {
		for {
			line, err := askOnce(s.ctx, s.target.Addr, "drop function "+s.tube(i)+"\r\n")
			if err == nil && strings.HasPrefix(line, "OK") || time.Now().After(end) || s.ctx.Err() != nil {
				break
			}
			s.sleep(10 * time.Millisecond)
		}
	}
}

// jobsOfFunctions counts the server's jobs of the session's functions, and
// returns the functions that have some.
func (s *session) jobsOfFunctions() (jobs int64, functions []string, err error) {
	t, err := dialPlain(s.ctx, s.target.Addr)
	if err != nil {
		return 0, nil, err
	}
	defer t.Close()
	ours := make(map[string]bool)
	for i := range s.cfg.Tubes {
		ours[s.tube(i)] = true
	}
	answers, err := t.ask("status")
	for err == nil && answers[0] != "." {
		// FUNCTION\tJOBS\tRUNNING\tWORKERS
		if fields := strings.Split(answers[0], "\t"); len(fields) > 1 && ours[fields[0]] {
			if n, _ := strconv.ParseInt(fields[1], 10, 64); n > 0 {
				jobs += n
				functions = append(functions, fields[0])
			}
		}
		answers[0], err = t.line()
	}
	return jobs, functions, err
}
