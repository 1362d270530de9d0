package beanstalk

// Parsing: a command line into a command.

import (
	"bytes"
	"math"
)

// maxName is the longest tube name, in bytes.
const maxName = 200

// maxTimeout is the longest timeout of reserve-with-timeout, in seconds: the
// reference keeps it in a C int.
const maxTimeout = math.MaxInt32

// A verb is one of the protocol's commands.
type verb uint8

const (
	cmdPut verb = iota
	cmdUse
	cmdReserve
	cmdReserveTimeout
	cmdReserveJob
	cmdDelete
	cmdRelease
	cmdBury
	cmdTouch
	cmdWatch
	cmdIgnore
	cmdPeek
	cmdPeekReady
	cmdPeekDelayed
	cmdPeekBuried
	cmdKick
	cmdKickJob
	cmdStatsJob
	cmdStatsTube
	cmdStats
	cmdListTubes
	cmdListTubeUsed
	cmdListTubesWatched
	cmdPauseTube
	cmdQuit

	verbs // the number of verbs
)

// A command is a parsed command line. Only the fields of its verb are meaningful; the
// others are left over from earlier lines, since a session parses every line into the
// same command without clearing it.
type command struct {
	verb     verb
	trailing bool   // put: bytes follow the size; BAD_FORMAT unless the job is too big
	pri      uint32 // put, release, bury
	delay    uint32 // put, release; seconds
	ttr      uint32 // put; seconds, as sent: 0 has yet to become 1
	size     uint32 // put; bytes of the body without its CR LF
	timeout  uint32 // reserve-with-timeout; seconds, at most maxTimeout
	pause    uint32 // pause-tube; seconds, as sent: the reference turns 0 into a nanosecond
	count    uint32 // kick
	id       uint64 // reserve-job, delete, release, bury, touch, peek, kick-job, stats-job
	tube     []byte // use, watch, ignore, stats-tube, pause-tube, if accepted; a part of the line, see takeTube
}

// takeTube returns a copy of the tube's name and clears c.tube, which is a part of the
// input: an idle connection would keep that buffer alive.
func (c *command) takeTube() string {
	name := string(c.tube)
	c.tube = nil
	return name
}

// A rejection is parse's verdict on a line.
type rejection uint8

const (
	accepted rejection = iota
	badFormat
	badName // of pause-tube only: BAD_FORMAT, but counted as if it had been served
	unknownCommand
)

// parse reads a command line, given without its CR LF, into c. It accepts what
// beanstalkd 1.13 accepts (prot.c, which_cmd and dispatch_cmd; the tests compare with
// a running 1.12) and allocates nothing.
//
// The reference recognises a command by the first prefix that matches, and the
// prefixes overlap. The cases below are in its order, which decides between
// BAD_FORMAT and UNKNOWN_COMMAND: `reserve-job` without a space is a `reserve` with
// something behind it. Anything else that is wrong with a line yields BAD_FORMAT, so
// the order of those checks does not show, except in put: a job that is too big is
// refused before bytes behind its size are. parse does not know that limit, hence
// command.trailing.
func parse(line []byte, c *command) rejection {
	// The reference works on C strings, and refuses a NUL before it looks for a
	// command.
	if bytes.IndexByte(line, 0) >= 0 {
		return badFormat
	}
	if len(line) == 0 {
		return unknownCommand
	}
	switch line[0] {
	case 'p':
		switch {
		case has(line, "put "):
			return c.parsePut(line[len("put "):])
		case has(line, "peek "):
			return c.parseID(cmdPeek, line[len("peek "):])
		case has(line, "peek-ready"):
			return c.parseBare(cmdPeekReady, line[len("peek-ready"):])
		case has(line, "peek-delayed"):
			return c.parseBare(cmdPeekDelayed, line[len("peek-delayed"):])
		case has(line, "peek-buried"):
			return c.parseBare(cmdPeekBuried, line[len("peek-buried"):])
		case has(line, "pause-tube"):
			return c.parsePauseTube(line[len("pause-tube"):])
		}
	case 'r':
		switch {
		case has(line, "reserve-with-timeout "):
			return c.parseReserveTimeout(line[len("reserve-with-timeout "):])
		case has(line, "reserve-job "):
			return c.parseID(cmdReserveJob, line[len("reserve-job "):])
		case has(line, "reserve"):
			return c.parseBare(cmdReserve, line[len("reserve"):])
		case has(line, "release "):
			return c.parseRelease(line[len("release "):])
		}
	case 'd':
		if has(line, "delete ") {
			return c.parseID(cmdDelete, line[len("delete "):])
		}
	case 'b':
		if has(line, "bury ") {
			return c.parseBury(line[len("bury "):])
		}
	case 'k':
		switch {
		case has(line, "kick "):
			return c.parseKick(line[len("kick "):])
		case has(line, "kick-job "):
			return c.parseID(cmdKickJob, line[len("kick-job "):])
		}
	case 't':
		if has(line, "touch ") {
			return c.parseID(cmdTouch, line[len("touch "):])
		}
	case 's':
		switch {
		case has(line, "stats-job "):
			return c.parseID(cmdStatsJob, line[len("stats-job "):])
		case has(line, "stats-tube "):
			return c.parseTube(cmdStatsTube, line[len("stats-tube "):])
		case has(line, "stats"):
			return c.parseBare(cmdStats, line[len("stats"):])
		}
	case 'u':
		if has(line, "use ") {
			return c.parseTube(cmdUse, line[len("use "):])
		}
	case 'w':
		if has(line, "watch ") {
			return c.parseTube(cmdWatch, line[len("watch "):])
		}
	case 'i':
		if has(line, "ignore ") {
			return c.parseTube(cmdIgnore, line[len("ignore "):])
		}
	case 'l':
		switch {
		case has(line, "list-tubes-watched"):
			return c.parseBare(cmdListTubesWatched, line[len("list-tubes-watched"):])
		case has(line, "list-tube-used"):
			return c.parseBare(cmdListTubeUsed, line[len("list-tube-used"):])
		case has(line, "list-tubes"):
			return c.parseBare(cmdListTubes, line[len("list-tubes"):])
		}
	case 'q':
		if has(line, "quit") {
			c.verb = cmdQuit // whatever follows
			return accepted
		}
	}
	return unknownCommand
}

// has reports whether line begins with prefix.
func has(line []byte, prefix string) bool {
	return len(line) >= len(prefix) && string(line[:len(prefix)]) == prefix
}

// verdict is badFormat unless ok.
func verdict(ok bool) rejection {
	if ok {
		return accepted
	}
	return badFormat
}

// parseBare reads the arguments of a command that takes none.
func (c *command) parseBare(v verb, args []byte) rejection {
	c.verb = v
	return verdict(len(args) == 0)
}

// parseID reads the arguments of a command that takes a job's id.
func (c *command) parseID(v verb, args []byte) rejection {
	c.verb = v
	n := numbers{rest: args}
	c.id = n.uint64()
	return verdict(n.end())
}

// parseTube reads the arguments of a command that takes a tube's name. No spaces are
// skipped, unlike before numbers.
func (c *command) parseTube(v verb, args []byte) rejection {
	c.verb = v
	if !nameIsOK(args) {
		return badFormat
	}
	c.tube = args
	return accepted
}

func (c *command) parsePut(args []byte) rejection {
	c.verb = cmdPut
	n := numbers{rest: args}
	c.pri = n.uint32()
	c.delay = n.uint32()
	c.ttr = n.uint32()
	c.size = n.uint32()
	c.trailing = len(n.rest) > 0
	return verdict(!n.bad)
}

// parseReserveTimeout follows 1.13, which reads the number like any other. (1.12 takes
// whatever strtol accepts: nothing, a sign, letters, a larger number modulo 2^32.) Both
// ignore what follows the number.
func (c *command) parseReserveTimeout(args []byte) rejection {
	c.verb = cmdReserveTimeout
	n := numbers{rest: args}
	c.timeout = n.uint32()
	return verdict(!n.bad && c.timeout <= maxTimeout)
}

func (c *command) parseRelease(args []byte) rejection {
	c.verb = cmdRelease
	n := numbers{rest: args}
	c.id = n.uint64()
	c.pri = n.uint32()
	c.delay = n.uint32()
	return verdict(n.end())
}

func (c *command) parseBury(args []byte) rejection {
	c.verb = cmdBury
	n := numbers{rest: args}
	c.id = n.uint64()
	c.pri = n.uint32()
	return verdict(n.end())
}

// parseKick accepts what strtoul accepts and ignores what follows the number. The
// reference stores the result, an unsigned long, in an unsigned int: -1 kicks every
// job, and 4294967296 kicks none.
func (c *command) parseKick(args []byte) rejection {
	c.verb = cmdKick
	n, ok := strtoul(args)
	c.count = uint32(n)
	return verdict(ok)
}

// parsePauseTube reads the arguments of pause-tube, whose prefix has no space:
// `pause-tubefoo 1` pauses foo. The name ends at the first byte that may not be in a
// name. The reference counts the command before it finds the name illegal.
func (c *command) parsePauseTube(args []byte) rejection {
	c.verb = cmdPauseTube
	args = skipSpaces(args)
	i := 0
	for i < len(args) && inName[args[i]] {
		i++
	}
	name := args[:i]
	n := numbers{rest: args[i:]}
	c.pause = n.uint32()
	switch {
	case !n.end() || len(name) == 0:
		return badFormat
	case !nameIsOK(name):
		return badName
	}
	c.tube = name
	return accepted
}

// inName says which bytes may be in a tube's name.
var inName = func() (in [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()") {
		in[b] = true
	}
	return in
}()

// nameIsOK reports whether name is a legal name of a tube.
func nameIsOK(name []byte) bool {
	if len(name) == 0 || len(name) > maxName || name[0] == '-' {
		return false
	}
	for _, b := range name {
		if !inName[b] {
			return false
		}
	}
	return true
}

// numbers reads the numbers of a command line one after the other: any number of
// spaces, then decimal digits, no sign. It need not check that spaces separate two
// numbers: a digit would belong to the first, and anything else is an error in the
// second. bad is set at the first error, and stays.
type numbers struct {
	rest []byte // what has not been read
	bad  bool
}

// end reports whether all numbers were good and nothing follows them.
func (n *numbers) end() bool {
	return !n.bad && len(n.rest) == 0
}

// uint32 reads a number below 2^32.
func (n *numbers) uint32() uint32 {
	v := n.uint64()
	if v > math.MaxUint32 {
		n.bad = true
	}
	return uint32(v)
}

// uint64 reads a number below 2^64.
func (n *numbers) uint64() uint64 {
	digits := skipSpaces(n.rest)
	v, i, ok := decimal(digits)
	if !ok {
		n.bad = true
	}
	n.rest = digits[i:]
	return v
}

// decimal reads the decimal digits that s begins with; i is their number. It fails if
// there are none or if their value is 2^64 or more.
func decimal(s []byte) (v uint64, i int, ok bool) {
	const cutoff = math.MaxUint64 / 10
	ok = true
	for ; i < len(s); i++ {
		d := uint64(s[i]) - '0'
		if d > 9 {
			break
		}
		if v >= cutoff && (v > cutoff || d > math.MaxUint64%10) {
			ok = false
		}
		v = v*10 + d
	}
	return v, i, ok && i > 0
}

// strtoul reads a number as the C function does in base 10 and the C locale: white
// space of any kind, a sign, digits. A minus negates modulo 2^64; only the digits
// decide whether the number is out of range.
func strtoul(s []byte) (v uint64, ok bool) {
	for len(s) > 0 && (s[0] == ' ' || '\t' <= s[0] && s[0] <= '\r') {
		s = s[1:]
	}
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	v, _, ok = decimal(s)
	if neg {
		v = -v
	}
	return v, ok
}

// skipSpaces returns s without the spaces it begins with. It skips no other white
// space.
func skipSpaces(s []byte) []byte {
	for len(s) > 0 && s[0] == ' ' {
		s = s[1:]
	}
	return s
}
