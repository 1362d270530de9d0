package gearman

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

func TestParseHeader(t *testing.T) {
	for _, c := range []struct {
		in string
		h  header
		d  direction
	}{
		{"\x00REQ\x00\x00\x00\x07\x00\x00\x00\x05", header{typeSubmitJob, 5}, request},
		{"\x00RES\x00\x00\x00\x08\x00\x00\x00\x00", header{typeJobCreated, 0}, response},
		{"\x00REQ\xff\xff\xff\xff\xff\xff\xff\xff", header{math.MaxUint32, math.MaxUint32}, request},
		{"\x00req\x00\x00\x00\x07\x00\x00\x00\x05", header{7, 5}, neither},
		{"\x00RET\x00\x00\x00\x07\x00\x00\x00\x05", header{7, 5}, neither},
		{"REQ\x00\x00\x00\x00\x07\x00\x00\x00\x05", header{7, 5}, neither},
		{"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", header{}, neither},
	} {
		for _, more := range []string{"", "more"} {
			h, d := parseHeader([]byte(c.in + more))
			if h != c.h || d != c.d {
				t.Errorf("%q: %v %d, want %v %d", c.in+more, h, d, c.h, c.d)
			}
		}
	}
}

// requestForms are all that a client may send, as the protocol says.
const requestForms = `
1 CAN_DO function
2 CANT_DO function
3 RESET_ABILITIES
4 PRE_SLEEP
7 SUBMIT_JOB function unique PAYLOAD
9 GRAB_JOB
12 WORK_STATUS handle numerator denominator
13 WORK_COMPLETE handle PAYLOAD
14 WORK_FAIL handle
15 GET_STATUS handle
16 ECHO_REQ PAYLOAD
18 SUBMIT_JOB_BG function unique PAYLOAD
21 SUBMIT_JOB_HIGH function unique PAYLOAD
22 SET_CLIENT_ID id
23 CAN_DO_TIMEOUT function timeout
24 ALL_YOURS
25 WORK_EXCEPTION handle PAYLOAD
26 OPTION_REQ option
28 WORK_DATA handle PAYLOAD
29 WORK_WARNING handle PAYLOAD
30 GRAB_JOB_UNIQ
32 SUBMIT_JOB_HIGH_BG function unique PAYLOAD
33 SUBMIT_JOB_LOW function unique PAYLOAD
34 SUBMIT_JOB_LOW_BG function unique PAYLOAD
35 SUBMIT_JOB_SCHED function unique minute hour day month weekday PAYLOAD
36 SUBMIT_JOB_EPOCH function unique epoch PAYLOAD
37 SUBMIT_REDUCE_JOB function unique reducer aggregator PAYLOAD
38 SUBMIT_REDUCE_JOB_BACKGROUND function unique reducer aggregator PAYLOAD
39 GRAB_JOB_ALL
41 GET_STATUS_UNIQUE unique
`

func TestForms(t *testing.T) {
	var want [types]form
	for line := range strings.Lines(strings.TrimSpace(requestForms)) {
		w := strings.Fields(line)
		var typ int
		for _, d := range w[0] {
			typ = typ*10 + int(d-'0')
		}
		want[typ] = form{w[1], len(w) - 2, w[len(w)-1] == "PAYLOAD"}
	}
	for typ := range uint32(types + 10) {
		f, ok := formOf(typ)
		w := form{}
		if typ < types {
			w = want[typ]
		}
		if f != w || ok != (w.name != "") {
			t.Errorf("type %d: %v %v, want %v", typ, f, ok, w)
		}
		if f.args > maxArgs {
			t.Errorf("%s has more than maxArgs arguments", f.name)
		}
	}
	if _, ok := formOf(math.MaxUint32); ok {
		t.Error("4294967295 is a request")
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want []string // nil for a failure
	}{
		{"", 0, []string{}},
		{"x\x00y", 0, []string{}}, // a packet without arguments may have some
		{"", 1, []string{""}},
		{"f", 1, []string{"f"}},
		{"f\x00g", 1, []string{"f\x00g"}},
		{"", 2, nil},
		{"h", 2, nil},
		{"h\x00", 2, []string{"h", ""}},
		{"\x00", 2, []string{"", ""}},
		{"h\x00a\x00b", 2, []string{"h", "a\x00b"}},
		{"f\x00u", 3, nil},
		{"f\x00u\x00", 3, []string{"f", "u", ""}},
		{"f\x00\x00body\x00", 3, []string{"f", "", "body\x00"}},
		{"f\x00u\x001\x002\x003\x004\x005\x00b", 8, []string{"f", "u", "1", "2", "3", "4", "5", "b"}},
	} {
		var out [maxArgs][]byte
		ok := split([]byte(c.in), c.n, &out)
		if ok != (c.want != nil) {
			t.Errorf("%q, %d: %v", c.in, c.n, ok)
			continue
		}
		for i, w := range c.want {
			if string(out[i]) != w {
				t.Errorf("%q, %d: argument %d is %q, want %q", c.in, c.n, i, out[i], w)
			}
		}
	}
}

// An argument that is appended to does not run over into the next.
func TestSplitCutsCapacity(t *testing.T) {
	in := []byte("f\x00u\x00body")
	var out [maxArgs][]byte
	split(in, 3, &out)
	_ = append(out[0], "XX"...)
	_ = append(out[1], "XX"...)
	if string(in) != "f\x00u\x00body" {
		t.Errorf("%q", in)
	}
}

func TestAppendPacket(t *testing.T) {
	const before = "before"
	h := newHandles("box")
	for _, c := range []struct {
		name, got, want string
	}{
		{"NOOP", string(appendPacket[string](nil, typeNoop)), "\x00RES\x00\x00\x00\x06\x00\x00\x00\x00"},
		{"JOB_CREATED", string(appendPacket(nil, typeJobCreated, "H:box:1")), "\x00RES\x00\x00\x00\x08\x00\x00\x00\x07H:box:1"},
		{"empty arguments", string(appendPacket(nil, typeJobAssign, "", "", "")), "\x00RES\x00\x00\x00\x0b\x00\x00\x00\x02\x00\x00"},
		{"ECHO_RES", string(appendPacket(nil, typeEchoRes, []byte("a\x00b"))), "\x00RES\x00\x00\x00\x11\x00\x00\x00\x03a\x00b"},
		{
			"ERROR", string(appendError([]byte(before), faultOption)),
			before + "\x00RES\x00\x00\x00\x13\x00\x00\x00\x35UNKNOWN_OPTION\x00Server does not recognize given option",
		},
		{"a header alone", string(appendHeader(nil, typeEchoRes, 258)), "\x00RES\x00\x00\x00\x11\x00\x00\x01\x02"},
		{"STATUS_RES", func() string {
			p := begin([]byte(before), typeStatusRes)
			p.id(h, 12)
			p.bool(true)
			p.bool(false)
			p.uint(7)
			p.uint(math.MaxUint32)
			return string(p.end())
		}(), before + "\x00RES\x00\x00\x00\x14\x00\x00\x00\x19H:box:12\x001\x000\x007\x004294967295"},
		{"JOB_ASSIGN_ALL", func() string {
			p := begin(nil, typeJobAssignAll)
			p.id(h, 1)
			p.string("f")
			p.bytes([]byte("u"))
			p.bytes(nil)
			return string(append(p.payload(4), "body"...))
		}(), "\x00RES\x00\x00\x00\x28\x00\x00\x00\x11H:box:1\x00f\x00u\x00\x00body"},
		{"nothing but a payload", string(func() []byte { p := begin(nil, typeEchoRes); return p.payload(3) }()), "\x00RES\x00\x00\x00\x11\x00\x00\x00\x03"},
		{"no argument", string(func() []byte { p := begin(nil, typeNoJob); return p.end() }()), "\x00RES\x00\x00\x00\x0a\x00\x00\x00\x00"},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, c.got, c.want)
		}
	}
}

// What a session does for each job allocates nothing.
func TestPacketAllocations(t *testing.T) {
	h := newHandles("box")
	buf := make([]byte, 0, 1024)
	in := []byte("function\x00unique\x00body")
	if n := testing.AllocsPerRun(100, func() {
		var out [maxArgs][]byte
		if !split(in, 3, &out) {
			t.Fatal("no arguments")
		}
		b := appendPacket(buf[:0], typeJobCreated, out[0])
		b = appendPacket(b, typeError, "CODE", "text")
		p := begin(b, typeJobAssign)
		p.id(h, math.MaxUint64)
		p.bytes(out[0])
		b = p.payload(len(out[2]))
		if _, ok := h.parse(b[len(b)-len("function")-2-20-len("H:box:") : len(b)-len("function")-2]); !ok {
			t.Fatalf("no handle in %q", b)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever comes: a header is what its bytes say, split finds what cutting at
// NULs finds, and a packet put together is the same when it is taken apart.
func FuzzPacket(f *testing.F) {
	f.Add([]byte("\x00REQ\x00\x00\x00\x07\x00\x00\x00\x08f\x00u\x00body"))
	f.Add([]byte("\x00REQ\xff\xff\xff\xff\xff\xff\xff\xff"))                         // a type and a size that lie
	f.Add([]byte("\x00REQ\x00\x00\x00\x07\xff\xff\xff\xfff\x00u\x00"))               // 4 GiB
	f.Add([]byte("\x00REQ\x00\x00\x00\x07\x00\x00\x00\x01f"))                        // too few arguments
	f.Add([]byte("\x00REQ\x00\x00\x00\x23\x00\x00\x00\x0f\x00\x00\x00\x00\x00\x00")) // no more than NULs
	f.Add([]byte("\x00RES\x00\x00\x00\x10\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < headerSize {
			return
		}
		h, d := parseHeader(in)
		if h.typ != binary.BigEndian.Uint32(in[4:]) || h.size != binary.BigEndian.Uint32(in[8:]) ||
			(d == request) != bytes.HasPrefix(in, []byte(magicRequest)) || (d == response) != bytes.HasPrefix(in, []byte(magicResponse)) {
			t.Fatalf("%q: %v %d", in, h, d)
		}
		data := in[headerSize:]
		form, ok := formOf(h.typ)
		n := form.args
		if !ok {
			n = int(h.typ % (maxArgs + 1))
		}
		var out [maxArgs][]byte
		good := split(data, n, &out)
		if want := n == 0 || bytes.Count(data, []byte{0}) >= n-1; good != want {
			t.Fatalf("%q in %d arguments: %v", data, n, good)
		}
		if !good || n == 0 {
			return
		}
		for i, want := range bytes.SplitN(data, []byte{0}, n) {
			if !bytes.Equal(out[i], want) {
				t.Fatalf("%q: argument %d of %d is %q, want %q", data, i, n, out[i], want)
			}
		}
		whole := appendPacket([]byte("x"), h.typ, out[:n]...)[1:]
		p := begin(nil, h.typ)
		for _, a := range out[:n-1] {
			p.bytes(a)
		}
		parts := append(p.payload(len(out[n-1])), out[n-1]...)
		if !bytes.Equal(whole, parts) || !bytes.Equal(whole[headerSize:], data) {
			t.Fatalf("%q\nwhole %q\nparts %q", in, whole, parts)
		}
		if h2, d2 := parseHeader(whole); d2 != response || h2.typ != h.typ || int(h2.size) != len(data) {
			t.Fatalf("%q: %v", whole, h2)
		}
	})
}
