package main_test

// A connection of the Gearman differential test: requests as text, what comes
// back cut into packets and lines, and handles that differ from server to
// server under names of their own.

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A gdiffItem is what a server sends: a packet, or a line of text.
type gdiffItem struct {
	typ  gearType // 0 is a line
	args []string // of a packet; of a line itself, without its LF
}

// lane says which of the streams that share a connection an item is of: the
// answers to requests, which are in the order of the requests; what is said of
// one job, in the order in which its worker said it; or NOOP. How the streams
// are mixed is left to the server.
func (i gdiffItem) lane() string {
	switch i.typ {
	case gearNoop:
		return "NOOP"
	case gearWorkData, gearWorkWarning, gearWorkStatus, gearWorkComplete, gearWorkFail, gearWorkException:
		return i.args[0]
	}
	return ""
}

func (i gdiffItem) String() string {
	if i.typ == 0 {
		return gdiffShow(i.args[0])
	}
	if len(i.args) == 0 {
		return i.typ.String()
	}
	return i.typ.String() + " " + gdiffShow(strings.Join(i.args, "|"))
}

// is tells whether two items are the same.
func (i gdiffItem) is(o gdiffItem) bool { return i.typ == o.typ && slices.Equal(i.args, o.args) }

// gdiffShow shows what may be long and have any bytes. gdiffSpoken is its
// inverse, where nothing is left out.
func gdiffShow(s string) string {
	if len(s) > 150 {
		s = fmt.Sprintf("%s…%d bytes…%s", s[:70], len(s)-100, s[len(s)-30:])
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

func gdiffSpoken(s string) string {
	u, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", s, err))
	}
	return u
}

// A gdiffRequest is something to send: a packet, or an admin line.
type gdiffRequest struct {
	typ  gearType // 0 is a line
	args []string // of a packet, where #1 is the handle of that name; the line, without its end
}

func gdiffAsk(name string, args ...string) gdiffRequest {
	typ, ok := gearTypes[name]
	if !ok {
		panic("no packet has the type " + name)
	}
	return gdiffRequest{typ, args}
}

func gdiffLine(line string) gdiffRequest { return gdiffRequest{args: []string{line}} }

func (q gdiffRequest) String() string {
	return gdiffItem(q).String()
}

// bytes is the request as it goes to one server.
func (q gdiffRequest) bytes(h *gdiffHandles) []byte {
	if q.typ == 0 {
		return []byte(h.real(q.args[0]) + "\r\n")
	}
	args := make([]string, len(q.args))
	for i, a := range q.args {
		args[i] = a
		if i == 0 {
			args[i] = h.real(a)
		}
	}
	return gearAppend(nil, q.typ, args...)
}

// table says whether the answer is a table.
func (q gdiffRequest) table() bool {
	if q.typ != 0 {
		return false
	}
	switch q.args[0] {
	case "status", "prioritystatus", "workers", "show jobs", "show unique jobs":
		return true
	}
	return false
}

// gdiffHandles are one server's handles, under the names that they have in the
// test. Jobs are named in the order in which they are created.
type gdiffHandles struct {
	names   map[string]string // by handle
	handles map[string]string // by name
}

func newGdiffHandles() *gdiffHandles {
	return &gdiffHandles{map[string]string{}, map[string]string{}}
}

var (
	gdiffHandle = regexp.MustCompile(`^H:[^:]*:[1-9][0-9]*$`)
	gdiffName   = regexp.MustCompile(`#[0-9]+`)
)

// name makes name that of handle.
func (h *gdiffHandles) name(handle, name string) error {
	if !gdiffHandle.MatchString(handle) || len(handle) > 63 {
		return fmt.Errorf("%q is no handle", handle)
	}
	h.names[handle], h.handles[name] = name, handle
	return nil
}

// real puts handles in the place of names. Names of nothing stay.
func (h *gdiffHandles) real(s string) string {
	return gdiffName.ReplaceAllStringFunc(s, func(name string) string {
		if handle, ok := h.handles[name]; ok {
			return handle
		}
		return name
	})
}

// gdiffHandled are the packets whose first argument is a handle.
var gdiffHandled = map[gearType]bool{
	gearJobCreated: true, gearJobAssign: true, gearJobAssignUniq: true, gearJobAssignAll: true,
	gearWorkData: true, gearWorkWarning: true, gearWorkStatus: true, gearWorkComplete: true, gearWorkFail: true,
	gearWorkException: true, gearStatusRes: true,
}

var gdiffHandleIn = regexp.MustCompile(`H:[^:\s]*:[1-9][0-9]*`)

// said puts names in the place of handles.
func (h *gdiffHandles) said(i gdiffItem) gdiffItem {
	if i.typ == 0 {
		return gdiffItem{args: []string{gdiffHandleIn.ReplaceAllStringFunc(i.args[0], func(handle string) string {
			if name, ok := h.names[handle]; ok {
				return name
			}
			return handle
		})}}
	}
	if !gdiffHandled[i.typ] {
		return i
	}
	if name, ok := h.names[strings.TrimSuffix(i.args[0], "\x00")]; ok {
		args := append([]string{name}, i.args[1:]...)
		if strings.HasSuffix(i.args[0], "\x00") {
			args[0] += "\x00"
		}
		i.args = args
	}
	return i
}

// A gdiffConn is the client's end of a connection.
type gdiffConn struct {
	net.Conn
	in     []byte
	closed error // why nothing more will come
}

func gdiffDial(addr string) (*gdiffConn, error) {
	c, err := net.DialTimeout("tcp", addr, gdiffPatience)
	if err != nil {
		return nil, err
	}
	return &gdiffConn{Conn: c}, nil
}

func (c *gdiffConn) send(b []byte) error {
	c.SetWriteDeadline(time.Now().Add(gdiffPatience))
	_, err := c.Write(b)
	return err
}

var errGdiffSilent = errors.New("nothing came")

// next returns the next item, waiting for it until then.
func (c *gdiffConn) next(end time.Time) (i gdiffItem, err error) {
	for {
		if i, ok, err := c.cut(); ok || err != nil {
			return i, err
		}
		if c.closed != nil {
			return i, fmt.Errorf("connection closed by the server: %w; %q left", c.closed, c.in)
		}
		var buf [16384]byte
		c.SetReadDeadline(end)
		n, err := c.Read(buf[:])
		c.in = append(c.in, buf[:n]...)
		if n == 0 {
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				return i, errGdiffSilent
			}
			c.closed = err
		}
	}
}

// cut takes an item off what has come.
func (c *gdiffConn) cut() (i gdiffItem, ok bool, err error) {
	if len(c.in) == 0 {
		return i, false, nil
	}
	if c.in[0] != 0 {
		at := bytes.IndexByte(c.in, '\n')
		if at < 0 {
			return i, false, nil
		}
		i.args = []string{string(c.in[:at])}
		c.in = c.in[at+1:]
		return i, true, nil
	}
	if len(c.in) < gearHeader {
		return i, false, nil
	}
	i.typ = gearType(gearUint32(c.in[4:]))
	size := gearUint32(c.in[8:])
	form, known := gearNames[i.typ]
	if string(c.in[:4]) != "\x00RES" || size > gearLargest || !known {
		return i, false, fmt.Errorf("no answer has the header %q", c.in[:gearHeader])
	}
	whole := gearHeader + int(size)
	if len(c.in) < whole {
		return i, false, nil
	}
	if data := string(c.in[gearHeader:whole]); form.args > 0 {
		i.args = strings.SplitN(data, "\x00", form.args)
		if len(i.args) != form.args {
			return i, false, fmt.Errorf("%s with %d arguments: %q", i.typ, len(i.args), data)
		}
	} else if size > 0 {
		return i, false, fmt.Errorf("%s with arguments: %q", i.typ, data)
	}
	c.in = c.in[whole:]
	return i, true, nil
}

// ends waits for the server to close the connection. What comes before is
// returned.
func (c *gdiffConn) ends() (items []gdiffItem, err error) {
	for end := time.Now().Add(gdiffPatience); ; {
		i, err := c.next(end)
		switch {
		case err == nil:
			items = append(items, i)
		case c.closed != nil:
			return items, nil
		default:
			return items, err
		}
	}
}
