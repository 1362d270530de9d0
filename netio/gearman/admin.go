package gearman

// The text admin protocol's format: parsing lines, and appending lines and tables. The
// commands are served in admin_session.go.

import (
	"bytes"
	"strconv"
)

// maxLine is the longest admin line, in bytes, including its LF. The reference's input
// buffer has this size, and a connection that fills it without an LF is closed.
const maxLine = 8192

// cutLine cuts off the admin line that in begins with. It returns the line without its
// LF or CR LF, and n, how many bytes of in it takes. n is 0 if the line is not complete
// yet or, when in has maxLine bytes or more, if it is too long.
func cutLine(in []byte) (line []byte, n int) {
	i := bytes.IndexByte(in[:min(len(in), maxLine)], '\n')
	if i < 0 {
		return nil, 0
	}
	line, n = in[:i], i+1
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, n
}

// A verb is one of the admin commands, or the reason why a line is not one.
type verb uint8

const (
	adminStatus verb = iota
	adminPriorityStatus
	adminWorkers
	adminMaxQueue
	adminVersion
	adminGetPID
	adminVerbose
	adminShowJobs
	adminShowUniqueJobs
	adminCancelJob
	adminCreateFunction
	adminDropFunction
	adminShutdown
	adminShutdownGraceful

	// The verbs from here on are answered by refusal.
	adminUnknown
	adminIncomplete
	adminUnknownShow
	adminOther // the reference has no better word than UNKNOWN_ERROR

	verbs
)

// The priorities, in the order in which the protocol lists them and in which jobs are
// given out.
const (
	high = iota
	normal
	low

	priorities
)

// An admin is a parsed admin line. Its slices are parts of the line, and valid only as
// long as the line is.
type admin struct {
	verb verb
	word []byte             // the first word as it was sent, for a refusal
	name []byte             // the function, or cancel job's handle; may be empty
	max  [priorities]uint32 // maxqueue: jobs that the function may have; 0 is no limit
}

// parseAdmin reads an admin line, given without its LF or CR LF.
//
// Words are separated by blanks, not by tabs; a blank at the line's end starts one more
// word, an empty one, which is too many for some commands. Commands are recognised in
// upper and lower case. One-word commands, except shutdown, ignore further words. To
// the reference words are C strings, so a word ends at its first NUL.
func parseAdmin(line []byte) (a admin) {
	const most = 5
	var buf [most][]byte
	w := buf[:0]
	words := 0
	for rest, more := line, true; more; words++ {
		var word []byte
		word, rest, more = bytes.Cut(rest, []byte(" "))
		rest = bytes.TrimLeft(rest, " ")
		if len(w) < most {
			word, _, _ = bytes.Cut(word, []byte{0})
			w = append(w, word)
		}
	}
	a.word = w[0]
	is := func(i int, s string) bool { return bytes.EqualFold(w[i], []byte(s)) }
	switch {
	case is(0, "status"):
		a.verb = adminStatus
	case is(0, "prioritystatus"):
		a.verb = adminPriorityStatus
	case is(0, "workers"):
		a.verb = adminWorkers
	case is(0, "version"):
		a.verb = adminVersion
	case is(0, "getpid"):
		a.verb = adminGetPID
	case is(0, "verbose"):
		a.verb = adminVerbose
	case is(0, "show") && words >= 2:
		switch {
		case words == 2 && is(1, "jobs"):
			a.verb = adminShowJobs
		case words == 3 && is(1, "unique") && is(2, "jobs"):
			a.verb = adminShowUniqueJobs
		default:
			a.verb = adminUnknownShow
		}
	case is(0, "cancel") && words >= 3:
		a.verb = adminOther
		if words == 3 && is(1, "job") {
			a.verb, a.name = adminCancelJob, w[2]
		}
	case is(0, "create"), is(0, "drop"):
		a.verb = adminIncomplete
		if words == 3 && is(1, "function") {
			a.verb, a.name = adminCreateFunction, w[2]
			if is(0, "drop") {
				a.verb = adminDropFunction
			}
		}
	case is(0, "maxqueue"):
		a.verb = adminIncomplete
		if words >= 2 {
			a.verb, a.name = adminMaxQueue, w[1]
			a.max = limits(w[2:])
		}
	case is(0, "shutdown") && words == 1:
		a.verb = adminShutdown
	case is(0, "shutdown") && words == 2 && is(1, "graceful"):
		a.verb = adminShutdownGraceful
	default:
		a.verb = adminUnknown
	}
	return a
}

// limits reads the words behind maxqueue's function: one limit for all priorities, or
// one for each, where a priority whose word is missing has no limit.
func limits(w [][]byte) (most [priorities]uint32) {
	if len(w) == 0 {
		return most
	}
	for i := range w[:min(len(w), priorities)] {
		most[i] = atoi(w[i])
	}
	if len(w) == 1 {
		most[normal], most[low] = most[high], most[high]
	}
	return most
}

// atoi reads a number as C's atoi does, modulo 2^32. It returns 0 for a negative number
// and for no number at all.
func atoi(word []byte) uint32 { return uint32(max(int32(strtoll(word)), 0)) }

// The admin answers that never vary. A plain OK and errors end with CR LF; tables, and
// an OK with a value, end with LF.
const (
	adminOK         = "OK\r\n"
	adminNoJob      = "ERR UNKNOWN_JOB\r\n"
	adminNoFunction = "ERR function not found\r\n"
	// gearmand creates a function of any name. One that no client may use is of no use.
	adminBadFunction = "ERR INVALID_ARGUMENTS A+function+has+a+name+of+1+to+512+bytes\r\n"
	adminBusy        = "ERR there are still connected workers or executing clients\r\n"
	adminNoRoom      = "ERR OUT_OF_SPACE The+disk+is+full\r\n"
	adminFailed      = "ERR BINLOG_FAILED The+binlog+has+failed\r\n"
	adminTooLong     = "ERR INVALID_COMMAND Line+too+long\r\n"
	adminEnd         = ".\n" // of a table
)

// refusal appends the answer to a line that is not a command.
func (a *admin) refusal(b []byte) []byte {
	switch a.verb {
	case adminIncomplete:
		b = append(b, "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+"...)
		b = append(b, a.word...)
	case adminUnknownShow:
		b = append(b, "ERR UNKNOWN_SHOW_ARGUMENTS"...)
	case adminOther:
		b = append(b, "ERR UNKNOWN_ERROR"...)
	default:
		b = append(b, "ERR UNKNOWN_COMMAND Unknown+server+command"...)
		b = append(b, a.word...)
	}
	return append(b, "\r\n"...)
}

// appendOK appends the answer to version and verbose.
func appendOK(b []byte, value string) []byte {
	b = append(b, "OK "...)
	b = append(b, value...)
	return append(b, '\n')
}

// appendOKNumber appends the answer to getpid.
func appendOKNumber(b []byte, n int) []byte {
	b = append(b, "OK "...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\n')
}

// A functionStatus is a function's line in the answers to status and
// prioritystatus.
type functionStatus struct {
	name    string
	total   int             // jobs, including running ones
	running int             // jobs that a worker has
	queued  [priorities]int // jobs that no worker has
	workers int             // connections that can do the function
}

// appendStatus appends the answer to status, with the functions in the order given.
func appendStatus(b []byte, functions []functionStatus) []byte {
	for i := range functions {
		f := &functions[i]
		b = appendRow(append(b, f.name...), f.total, f.running, f.workers)
	}
	return append(b, adminEnd...)
}

// appendPriorityStatus appends the answer to prioritystatus.
func appendPriorityStatus(b []byte, functions []functionStatus) []byte {
	for i := range functions {
		f := &functions[i]
		b = appendRow(append(b, f.name...), f.queued[high], f.queued[normal], f.queued[low], f.workers)
	}
	return append(b, adminEnd...)
}

// A worker is a connection's line in the answer to workers, which lists every
// connection, whether it is a worker or not.
type worker struct {
	fd        int
	addr      string   // without the port
	id        string   // from SET_CLIENT_ID; - until then
	functions []string // the latest CAN_DO first
}

// appendWorkers appends the answer to workers.
func appendWorkers(b []byte, workers []worker) []byte {
	for i := range workers {
		w := &workers[i]
		b = strconv.AppendInt(b, int64(w.fd), 10)
		b = append(b, ' ')
		b = append(b, w.addr...)
		b = append(b, ' ')
		b = append(b, w.id...)
		b = append(b, " :"...)
		for _, f := range w.functions {
			b = append(b, ' ')
			b = append(b, f...)
		}
		b = append(b, '\n')
	}
	return append(b, adminEnd...)
}

// appendRow appends the rest of a table's line: a tab and a number for each of numbers.
func appendRow(b []byte, numbers ...int) []byte {
	for _, n := range numbers {
		b = append(b, '\t')
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, '\n')
}
