package perf

// Answers of the server, cut from what was read.

import (
	"bytes"
	"fmt"
)

// An answer is the kind of a reply, told by its first word.
type answer uint8

const (
	unexpected answer = iota // any other, such as an error
	inserted
	reserved
	deleted
	released
	buried
	kicked
	kickedNone // KICKED 0
	touched
	found
	notFound
	ok
	timedOut
	deadlineSoon
)

// maxBody is the largest body of beanstalkd's protocol, in bytes. A server that
// announces more has gone wrong, and memory is not set aside for what it says.
const maxBody = 1 << 30

// maxLine is longer than any server's line, in bytes.
const maxLine = 4096

// A reply is one answer. Its slices are parts of the bytes it was cut from, and
// valid as long as those are.
type reply struct {
	kind answer
	line []byte // without its line end
	id   []byte // of INSERTED, RESERVED and FOUND
	body []byte // of RESERVED, FOUND and OK
}

// cut cuts the answer that begins at in[0] and returns its length, with the body.
// If in ends before the answer does, n is 0, and want is the whole length if that
// is known. An answer that no load expects is no error here: its kind is
// unexpected.
func (r *reply) cut(in []byte) (n, want int, err error) {
	end := bytes.IndexByte(in, '\n')
	if end < 0 {
		if len(in) > maxLine {
			return 0, 0, fmt.Errorf("the server answers with a line that does not end: %s", quote(in))
		}
		return 0, 0, nil
	}
	n = end + 1
	if end > 0 && in[end-1] == '\r' {
		end--
	}
	line := in[:end]
	r.line, r.id, r.body = line, nil, nil
	r.kind = unexpected
	if len(line) < 2 {
		return n, n, nil
	}
	// The first letter tells the expected answers apart, nearly; each case then
	// looks at the whole word.
	switch line[0] {
	case 'I':
		if id, is := bytes.CutPrefix(line, wordInserted); is && isID(id) {
			r.kind, r.id = inserted, id
		}
	case 'R':
		if len(line) == len("RELEASED") && string(line) == "RELEASED" {
			r.kind = released
		} else if rest, is := bytes.CutPrefix(line, wordReserved); is {
			return r.cutBody(reserved, in, n, rest, true)
		}
	case 'D':
		switch string(line) {
		case "DELETED":
			r.kind = deleted
		case "DEADLINE_SOON":
			r.kind = deadlineSoon
		}
	case 'B':
		if string(line) == "BURIED" {
			r.kind = buried
		}
	case 'T':
		switch string(line) {
		case "TOUCHED":
			r.kind = touched
		case "TIMED_OUT":
			r.kind = timedOut
		}
	case 'K': // KICKED 1 of kick, KICKED of kick-job
		switch string(line) {
		case "KICKED", "KICKED 1":
			r.kind = kicked
		case "KICKED 0":
			r.kind = kickedNone
		}
	case 'F':
		if rest, is := bytes.CutPrefix(line, wordFound); is {
			return r.cutBody(found, in, n, rest, true)
		}
	case 'O':
		if rest, is := bytes.CutPrefix(line, wordOK); is {
			return r.cutBody(ok, in, n, rest, false)
		}
	case 'N':
		if string(line) == "NOT_FOUND" {
			r.kind = notFound
		}
	}
	return n, n, nil
}

var (
	wordInserted = []byte("INSERTED ")
	wordReserved = []byte("RESERVED ")
	wordFound    = []byte("FOUND ")
	wordOK       = []byte("OK ")
)

// cutBody goes on after a line of n bytes that ends with "ID BYTES" or "BYTES",
// which is rest.
func (r *reply) cutBody(kind answer, in []byte, n int, rest []byte, hasID bool) (int, int, error) {
	if hasID {
		space := bytes.IndexByte(rest, ' ')
		if space < 0 || !isID(rest[:space]) {
			return n, n, nil
		}
		r.id, rest = rest[:space], rest[space+1:]
	}
	size, valid := decimal(rest)
	if !valid {
		return n, n, nil
	}
	if size > maxBody {
		return 0, 0, fmt.Errorf("the server announces a body of %d bytes with %q", size, r.line)
	}
	want := n + size + 2
	if len(in) < want {
		return 0, want, nil
	}
	// beanstalkd answers peek from memory that it may have freed meanwhile
	// (job_copy keeps a pointer to the original's body). So a damaged FOUND is the
	// ledger's business, and no reason to end a load.
	if kind != found && (in[want-2] != '\r' || in[want-1] != '\n') {
		return 0, 0, fmt.Errorf("the body after %q does not end with CR LF but with %q", r.line, in[want-2:want])
	}
	r.kind, r.body = kind, in[n:want-2]
	return want, want, nil
}

// isID reports whether text can be the id of a job.
func isID(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 20
}

// decimal reads a number of up to ten digits, such as the length of a body.
func decimal(text []byte) (n int, valid bool) {
	if len(text) == 0 || len(text) > 10 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// hint returns advice to put after an answer that ends a load; empty if there is
// none.
func hint(line string) string {
	if line == "JOB_TOO_BIG" {
		return "; start the server with a larger -z, or lower --body"
	}
	return ""
}

// quote shows up to 80 bytes of what was received or sent, in an error.
func quote(b []byte) string {
	const most = 80
	if len(b) > most {
		return fmt.Sprintf("%q… (%d bytes)", b[:most], len(b))
	}
	return fmt.Sprintf("%q", b)
}
