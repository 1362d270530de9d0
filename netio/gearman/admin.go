package gearman

// The text admin protocol: lines in, lines and tables out.

import (
	"bytes"
	"strconv"
)

// maxLine is the longest admin line, in bytes, its end of line counted. The
// reference's buffer for input has this size, and a connection that fills it
// without an end of line is closed.
const maxLine = 8192

// cutLine looks for the admin line that in begins with. It returns the line
// without its LF or CR LF and how many bytes it takes; n is 0 if there is no
// line yet, or, when in has maxLine bytes or more, none that is short enough.
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

// A verb is one of the admin commands, or the reason why a line is none.
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

// The priorities, in the order in which the protocol names them and in which
// jobs are given out.
const (
	high = iota
	normal
	low

	priorities
)

// An admin is a parsed admin line. Its slices are parts of the line and as
// short-lived.
type admin struct {
	verb verb
	word []byte             // the first word as it was sent, for a refusal
	name []byte             // the function, or cancel job's handle; may be empty
	max  [priorities]uint32 // maxqueue: jobs of one function; 0 is without limit
}

// parseAdmin reads an admin line, given without its end.
//
// Words are parted by blanks, not by tabs; a blank at the line's end starts one
// more word, an empty one, which is too many for some commands. Commands are
// recognised in upper and lower case. Those that are one word do not mind more
// behind it, but for shutdown. The reference takes words for C strings, so a
// word ends at its first NUL.
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

// limits reads what stands behind maxqueue's function: one limit for all
// priorities or one for each, where those that are missing are without limit.
func limits(w [][]byte) (most [priorities]uint32) {
	if len(w) == 0 {
		return most
	}
	for i := range w[:min(len(w), priorities)] {
		most[i] = limit(w[i])
	}
	if len(w) == 1 {
		most[normal], most[low] = most[high], most[high]
	}
	return most
}

// limit reads a number as C's atoi does, modulo 2^32, where what is negative is 0,
// and none at all.
func limit(word []byte) uint32 { return uint32(max(int32(integer(word)), 0)) }

// The admin answers that never vary. They end with CR LF, as errors do; tables
// and what stands behind an OK end with LF.
const (
	adminOK         = "OK\r\n"
	adminNoJob      = "ERR UNKNOWN_JOB\r\n"
	adminNoFunction = "ERR function not found\r\n"
	// gearmand makes any function. A name that no client may use would be in the way.
	adminBadFunction = "ERR INVALID_ARGUMENTS A+function+has+a+name+of+1+to+512+bytes\r\n"
	adminBusy        = "ERR there are still connected workers or executing clients\r\n"
	adminNoRoom      = "ERR OUT_OF_SPACE The+disk+is+full\r\n"
	adminFailed      = "ERR BINLOG_FAILED The+binlog+has+failed\r\n"
	adminTooLong     = "ERR INVALID_COMMAND Line+too+long\r\n"
	adminEnd         = ".\n" // of a table
)

// refusal appends the answer to a line that is no command.
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
	total   int             // jobs, running ones too
	running int             // jobs that a worker has
	queued  [priorities]int // jobs that no worker has
	workers int             // connections that can do it
}

// appendStatus appends the answer to status, the functions in the order given.
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

// A worker is a connection's line in the answer to workers, which names every
// connection, whatever it does.
type worker struct {
	fd        int
	addr      string   // without the port
	id        string   // of SET_CLIENT_ID; - until then
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

// appendRow appends the rest of a table's line, each number behind a tab.
func appendRow(b []byte, numbers ...int) []byte {
	for _, n := range numbers {
		b = append(b, '\t')
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, '\n')
}

func bit(v bool) int {
	if v {
		return 1
	}
	return 0
}
