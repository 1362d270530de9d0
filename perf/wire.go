package perf

// Commands as bytes, made before the load so that sending one is copying it.

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// samples is how many puts are prepared if sizes, priorities or delays vary; they
// are sent in turn.
const samples = 4096

// Bodies are cut from one payload of variety bytes and the longest body, each
// stride bytes after the one before: if all were the same, a server that compresses
// its log would store next to nothing. A larger payload would not stay in the
// client's cache.
const (
	variety = 256 << 10
	stride  = 4099 // a prime
)

// A wire makes commands. It does not change after newWire, so any goroutine may
// use it.
type wire struct {
	puts    []putLine
	payload []byte
	release []byte // what follows the id
	bury    []byte
}

// A putLine is a prepared put without its body.
type putLine struct {
	line  []byte
	size  int
	delay int64 // nanoseconds
	pri   uint32
}

// newWire prepares the commands for c.
func newWire(c *Config) *wire {
	random := rand.New(rand.NewPCG(1, 2)) // the same for every server and round
	n := 1
	if !c.Body.IsFixed() || !c.Priority.IsFixed() || !c.Delay.IsFixed() {
		n = samples
	}
	w := &wire{puts: make([]putLine, n)}
	longest := 0
	for i := range w.puts {
		size := max(int(c.Body.Sample(random)), c.LeastBody)
		delay, pri := c.Delay.Sample(random), c.Priority.Sample(random)
		w.puts[i] = putLine{
			line:  fmt.Appendf(nil, "put %d %d %d %d\r\n", pri, delay, c.TTR, size),
			size:  size,
			delay: delay * 1e9,
			pri:   uint32(pri),
		}
		longest = max(longest, size)
	}
	w.payload = payload(c.Content, variety+longest, random)
	pri, _ := c.Priority.Bounds()
	w.release = fmt.Appendf(nil, " %d 0\r\n", pri)
	w.bury = fmt.Appendf(nil, " %d\r\n", pri)
	return w
}

// payload returns size bytes of that kind of content.
func payload(content string, size int, random *rand.Rand) []byte {
	p := make([]byte, 0, size+16)
	switch content {
	case ContentRandom:
		for len(p) < size {
			p = append(p, byte(random.Uint32()))
		}
	case ContentZero:
		p = p[:size]
	default: // like what many put into queues: JSON
		for len(p) < size {
			p = fmt.Appendf(p, `{"user":%d,"mail":"%s@example.org","at":%d},`, random.IntN(1e6), word(random), random.IntN(1e9))
		}
	}
	return p[:size]
}

func word(random *rand.Rand) string {
	var b strings.Builder
	for range 4 + random.IntN(6) {
		b.WriteByte('a' + byte(random.IntN(26)))
	}
	return b.String()
}

// put appends a put to out and returns where its body is, for the caller to
// stamp. The body is the part of payload at offset cut, which must be less than
// variety.
func (w *wire) put(out []byte, line, cut int) (with []byte, body []byte) {
	l := &w.puts[line]
	out = append(out, l.line...)
	at := len(out)
	out = append(out, w.payload[cut:cut+l.size]...)
	out = append(out, '\r', '\n')
	return out, out[at : at+l.size]
}

// byID appends a command with an id, and tail after it.
func byID(out []byte, command string, id, tail []byte) []byte {
	out = append(out, command...)
	out = append(out, id...)
	return append(out, tail...)
}

var crlf = []byte("\r\n")

// command appends any command but put.
func (w *wire) command(out []byte, o op, id []byte, tube string) []byte {
	switch o {
	case opReserve:
		return append(out, "reserve\r\n"...)
	case opReserveNow:
		return append(out, "reserve-with-timeout 0\r\n"...)
	case opDelete:
		return byID(out, "delete ", id, crlf)
	case opRelease:
		return byID(out, "release ", id, w.release)
	case opBury:
		return byID(out, "bury ", id, w.bury)
	case opKick:
		return append(out, "kick 1\r\n"...)
	case opKickJob:
		return byID(out, "kick-job ", id, crlf)
	case opTouch:
		return byID(out, "touch ", id, crlf)
	case opPeek:
		return byID(out, "peek ", id, crlf)
	case opStatsJob:
		return byID(out, "stats-job ", id, crlf)
	case opStatsTube:
		return append(append(append(out, "stats-tube "...), tube...), crlf...)
	case opStats:
		return append(out, "stats\r\n"...)
	}
	panic("perf: no command " + strconv.Itoa(int(o)))
}

// sent returns the command as it was sent, without its body, for errors.
func (w *wire) sent(p *pending, tube string) string {
	if p.op == opPut {
		return strings.TrimSpace(string(w.puts[p.line].line))
	}
	return strings.TrimSpace(string(w.command(nil, p.op, p.id[:p.idLen], tube)))
}
