package main_test

// One connection: sockets, cutting what a server sends into replies, and
// cutting what a client sends into requests, as the reference does.

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A diffSocket is the client's end of a connection. It is a bare descriptor:
// the test wants to know what the peer has read (see drained), and to look for
// bytes without waiting.
type diffSocket struct {
	fd  int
	in  []byte // received, not yet taken by reply
	eof bool
}

func diffDial(path string) (*diffSocket, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connecting to %s: %w", path, err)
	}
	return &diffSocket{fd: fd}, nil
}

// send writes all of b. It waits for a peer that does not read, but not for
// ever.
func (s *diffSocket) send(b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(s.fd, b, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			ms := int(diffPatience / time.Millisecond)
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}, ms)
			if n == 0 && err == nil {
				return fmt.Errorf("%d bytes are not taken in %v", len(b), diffPatience)
			}
		default:
			return err
		}
	}
	return nil
}

// drained waits until the peer has read all that was sent, at most for d. A
// server that does not read just now (its client waits in reserve) leaves it
// there; that is no error.
func (s *diffSocket) drained(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		if n, err := unix.IoctlGetInt(s.fd, unix.TIOCOUTQ); err != nil || n == 0 {
			return
		}
	}
}

// fill reads what there is, waiting for at most d for something to come, and
// says whether anything came. The end of the stream counts as something.
func (s *diffSocket) fill(d time.Duration) bool {
	if s.eof {
		return false
	}
	end := time.Now().Add(d)
	for {
		ts := unix.NsecToTimespec(max(int64(time.Until(end)), 0))
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, &ts, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return false
		}
		break
	}
	var buf [16384]byte
	n, err := unix.Read(s.fd, buf[:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return false
	case err != nil || n == 0: // a reset is an end too
		s.eof = true
	default:
		s.in = append(s.in, buf[:n]...)
	}
	return true
}

// reply takes one whole reply off what has been received, with its body.
func (s *diffSocket) reply() (reply string, ok bool) {
	i := bytes.Index(s.in, []byte("\r\n"))
	if i < 0 {
		return "", false
	}
	n := i + 2
	f := strings.Fields(string(s.in[:i]))
	if len(f) > 1 && (f[0] == "RESERVED" || f[0] == "FOUND" || f[0] == "OK") {
		if size, err := strconv.Atoi(f[len(f)-1]); err == nil && size >= 0 {
			n += size + 2
		}
	}
	if len(s.in) < n {
		return "", false
	}
	reply = string(s.in[:n])
	s.in = s.in[n:]
	return reply, true
}

var errDiffSilent = errors.New("no answer")

// wait returns the next reply, waiting for it for at most d.
func (s *diffSocket) wait(d time.Duration) (string, error) {
	end := time.Now().Add(d)
	for {
		if r, ok := s.reply(); ok {
			return r, nil
		}
		if s.eof {
			return "", fmt.Errorf("connection closed by the server; %q left", s.in)
		}
		left := time.Until(end)
		if left <= 0 {
			return "", fmt.Errorf("%w in %v; %q left", errDiffSilent, d, s.in)
		}
		s.fill(left)
	}
}

// ended waits for the server to close the connection, for at most d.
func (s *diffSocket) ended(d time.Duration) bool {
	for end := time.Now().Add(d); !s.eof && time.Now().Before(end); {
		s.fill(time.Until(end))
	}
	return s.eof
}

func (s *diffSocket) halfClose() { unix.Shutdown(s.fd, unix.SHUT_WR) }

func (s *diffSocket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
		s.eof = true
	}
}

// A diffRequest is what a server answers with one reply.
type diffRequest struct {
	line string // without its CRLF
	long bool   // an over-long line; line is its end
}

// verb is the word that the line begins with, as far as the tests care.
func (r diffRequest) verb() string {
	if r.long {
		return ""
	}
	verb, _, _ := strings.Cut(r.line, " ")
	return verb
}

// mayWait says whether the request can leave its client waiting: a reserve,
// but not with a timeout of 0, which never outlives the next look at a clock.
func (r diffRequest) mayWait() bool {
	if r.long || strings.ContainsRune(r.line, 0) {
		return false
	}
	if arg, ok := strings.CutPrefix(r.line, "reserve-with-timeout "); ok {
		n, _, ok := diffNumber(arg)
		return !ok || n != 0
	}
	return r.line == "reserve"
}

// quits says whether the server closes the connection instead of replying.
func (r diffRequest) quits() bool {
	return !r.long && strings.HasPrefix(r.line, "quit") && !strings.ContainsRune(r.line, 0)
}

// unpauses says whether the request may be a pause of 0 seconds. The reference
// pauses for a nanosecond, and its clock has microseconds: so in 1 of 10 times
// the command right behind in a pipeline still finds the tube paused.
func (r diffRequest) unpauses() bool {
	return !r.long && strings.HasPrefix(r.line, "pause-tube") && strings.HasSuffix(r.line, " 0")
}

// diffLineMax is the longest line, with its CRLF.
const diffLineMax = 224

// A diffFramer cuts a stream of bytes into requests exactly as the reference
// does, so that the test knows how many replies to wait for. It looks through
// windows of 224 bytes: the first CR in one either ends the line or, with no
// LF behind it, hides any CRLF in the rest of that window.
type diffFramer struct {
	buf  []byte
	skip bool         // within an over-long line
	put  *diffRequest // whose body is being read
	need int          // how much of it is to come, trailing CRLF included
	quit bool
}

// feed adds b to the stream and returns the requests that it completes.
func (f *diffFramer) feed(b []byte) (done []diffRequest) {
	f.buf = append(f.buf, b...)
	for !f.quit {
		if f.put != nil {
			n := min(f.need, len(f.buf))
			f.buf = f.buf[n:]
			if f.need -= n; f.need > 0 {
				return done
			}
			done = append(done, *f.put)
			f.put = nil
		}
		window := f.buf[:min(len(f.buf), diffLineMax)]
		i := bytes.IndexByte(window, '\r')
		if i >= 0 && i+1 < len(window) && window[i+1] == '\n' {
			r := diffRequest{line: string(window[:i]), long: f.skip}
			f.buf = f.buf[i+2:]
			f.skip = false
			if n := r.body(); n >= 0 {
				f.put, f.need = &r, n
				continue
			}
			f.quit = r.quits()
			done = append(done, r)
			continue
		}
		if len(window) < diffLineMax {
			return done
		}
		f.buf = f.buf[diffLineMax:]
		f.skip = true
	}
	f.buf = nil
	return done
}

// rest says whether the stream is between two requests.
func (f *diffFramer) rest() bool { return len(f.buf) == 0 && !f.skip && f.put == nil }

// clone is for asking what would be.
func (f *diffFramer) clone() *diffFramer {
	c := *f
	c.buf = bytes.Clone(f.buf)
	return &c
}

// body is how many bytes follow a put's line as its body, or -1 where none is
// read: any other command, and a put refused as BAD_FORMAT.
func (r diffRequest) body() int {
	args, ok := strings.CutPrefix(r.line, "put ")
	if !ok || r.long || strings.ContainsRune(args, 0) {
		return -1
	}
	var n uint64
	for range 4 {
		if n, args, ok = diffNumber(args); !ok || n >= 1<<32 {
			return -1
		}
	}
	if args != "" && n <= diffMaxJob {
		return -1
	}
	return int(n) + 2
}

// diffNumber reads a number as the reference does: spaces, then digits.
func diffNumber(s string) (n uint64, rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	n, err := strconv.ParseUint(s[:i], 10, 64)
	return n, s[i:], err == nil
}
