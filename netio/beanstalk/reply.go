package beanstalk

// Replies: the fixed ones, and appending those with numbers or names. Those in YAML
// are in yaml.go.

import "strconv"

// The replies that never vary.
const (
	replyBuried         = "BURIED\r\n"
	replyDeadlineSoon   = "DEADLINE_SOON\r\n"
	replyDeleted        = "DELETED\r\n"
	replyKicked         = "KICKED\r\n" // to kick-job; kick has a count
	replyNotFound       = "NOT_FOUND\r\n"
	replyNotIgnored     = "NOT_IGNORED\r\n"
	replyPaused         = "PAUSED\r\n"
	replyReleased       = "RELEASED\r\n"
	replyTimedOut       = "TIMED_OUT\r\n"
	replyTouched        = "TOUCHED\r\n"
	replyBadFormat      = "BAD_FORMAT\r\n"
	replyDraining       = "DRAINING\r\n"
	replyExpectedCRLF   = "EXPECTED_CRLF\r\n"
	replyJobTooBig      = "JOB_TOO_BIG\r\n"
	replyOutOfMemory    = "OUT_OF_MEMORY\r\n"
	replyInternalError  = "INTERNAL_ERROR\r\n" // the binlog has failed
	replyUnknownCommand = "UNKNOWN_COMMAND\r\n"
)

// The functions below append one reply line each to b and return it, like the
// appenders of strconv.

// appendInserted appends the answer to put.
func appendInserted(b []byte, id uint64) []byte {
	return appendNumber(b, "INSERTED ", id)
}

// appendReserved appends the line that announces a reserved job's body of size
// bytes, its CR LF not counted. The body and its CR LF follow.
func appendReserved(b []byte, id uint64, size int) []byte {
	return appendJob(b, "RESERVED ", id, size)
}

// appendFound is appendReserved for the answer to the peek commands.
func appendFound(b []byte, id uint64, size int) []byte {
	return appendJob(b, "FOUND ", id, size)
}

// appendUsing appends the answer to use and list-tube-used.
func appendUsing[T []byte | string](b []byte, tube T) []byte {
	b = append(b, "USING "...)
	b = append(b, tube...)
	return append(b, "\r\n"...)
}

// appendWatching appends the answer to watch and ignore: the number of tubes
// watched.
func appendWatching(b []byte, n int) []byte {
	return appendNumber(b, "WATCHING ", uint64(n))
}

// appendKicked appends the answer to kick: the number of jobs kicked.
func appendKicked(b []byte, n uint64) []byte {
	return appendNumber(b, "KICKED ", n)
}

// appendOK appends the line that announces size bytes of YAML, the CR LF behind
// them not counted.
func appendOK(b []byte, size int) []byte {
	return appendNumber(b, "OK ", uint64(size))
}

func appendNumber(b []byte, word string, n uint64) []byte {
	b = append(b, word...)
	b = strconv.AppendUint(b, n, 10)
	return append(b, "\r\n"...)
}

func appendJob(b []byte, word string, id uint64, size int) []byte {
	b = append(b, word...)
	b = strconv.AppendUint(b, id, 10)
	return appendNumber(b, " ", uint64(size))
}
