package beanstalk

// Cutting the input into command lines.

import "bytes"

// maxLine is the longest command line, in bytes with its CR LF. The reference's buffer
// for a command has this size (LINE_BUF_SIZE in beanstalkd), which clients can see in
// more than the limit: see scanner.
const maxLine = 224

// A status says what scanner.next found.
type status uint8

const (
	// needMore: the input ends before the line does.
	needMore status = iota
	// lineReady: a command line is complete.
	lineReady
	// lineTooLong: the end of an over-long line was reached; the answer is one
	// BAD_FORMAT.
	lineTooLong
)

// A scanner cuts command lines from input that arrives in arbitrary pieces. The zero
// value is ready. A connection has one scanner for life; the bodies of jobs do not
// pass through it.
//
// It finds the same line ends as beanstalkd 1.12, which was asked about each of the
// cases below over a socket. The reference looks at the input through a window of
// maxLine bytes that starts where the last line (or body) ended. The line ends at the
// window's first CR, if an LF follows inside the window. If not, there is no line in
// this window, whatever comes after that CR: once full, the window is thrown away, and
// the next maxLine bytes are searched in the same way, until a window contains a line
// end. That is then answered with BAD_FORMAT. Hence, byte for byte and however the
// input was split into segments:
//
//   - 224 bytes with CR LF are a line; a bare LF is an ordinary byte of the
//     line; an empty line is a line.
//   - A CR without LF hides the line's true end: the reference says nothing
//     until the window is full, and answers BAD_FORMAT for everything up to the
//     first line end in a later window. CR CR LF does the same.
//   - A CR LF that is split between two windows is not seen: after a line of 225
//     bytes with CR LF (or 449, and so on) the reference swallows the next line
//     too, and answers one BAD_FORMAT for both.
//
// The last two may surprise, but clients see them in the reference, and they affect
// only clients that send such lines.
type scanner struct {
	skipping bool // a whole window of the present line has been thrown away
}

// next looks for the end of the line that begins at in[0]. With lineReady it returns
// the line, a part of in, without its CR LF. n is the number of bytes of in that were
// consumed, line ends included. With needMore the caller keeps in[n:], always less than
// maxLine bytes, and calls again with the same bytes and more behind them; n is then
// zero unless an over-long line is being thrown away.
func (s *scanner) next(in []byte) (line []byte, n int, st status) {
	for {
		window := in[n:]
		if len(window) > maxLine {
			window = window[:maxLine]
		}
		if i := bytes.IndexByte(window, '\r'); i >= 0 && i+1 < len(window) && window[i+1] == '\n' {
			n += i + 2
			if s.skipping {
				s.skipping = false
				return nil, n, lineTooLong
			}
			return window[:i], n, lineReady
		}
		if len(window) < maxLine {
			return nil, n, needMore
		}
		s.skipping = true
		n += maxLine
	}
}
