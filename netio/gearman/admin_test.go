package gearman

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
)

// An adminLine is an admin line with what parseAdmin makes of it, and with the
// answer where that is the same always.
type adminLine struct {
	in     string // with its end
	want   admin
	answer string // of the reference, too, unless empty
}

func command(in string, v verb) adminLine { return adminLine{in: in, want: admin{verb: v}} }

// named is a command about a function or a handle.
func named(in string, v verb, name, answer string) adminLine {
	return adminLine{in: in, want: admin{verb: v, name: []byte(name)}, answer: answer}
}

func maxQueue(in, name string, high, normal, low uint32) adminLine {
	return adminLine{in: in, want: admin{verb: adminMaxQueue, name: []byte(name), max: [priorities]uint32{high, normal, low}}, answer: "OK\r\n"}
}

func unknownAdmin(in, word string) adminLine {
	return adminLine{
		in: in, want: admin{verb: adminUnknown, word: []byte(word)},
		answer: "ERR UNKNOWN_COMMAND Unknown+server+command" + word + "\r\n",
	}
}

func incomplete(in, word string) adminLine {
	return adminLine{
		in: in, want: admin{verb: adminIncomplete, word: []byte(word)},
		answer: "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+" + word + "\r\n",
	}
}

func badShow(in string) adminLine {
	return adminLine{in: in, want: admin{verb: adminUnknownShow}, answer: "ERR UNKNOWN_SHOW_ARGUMENTS\r\n"}
}

func other(in string) adminLine {
	return adminLine{in: in, want: admin{verb: adminOther}, answer: "ERR UNKNOWN_ERROR\r\n"}
}

// notReference takes the answer away where the reference has another.
func notReference(l adminLine) adminLine { l.answer = ""; return l }

// adminLines are commands of all sorts, good and bad. TestReferenceAdmin asks
// the reference about those that have an answer.
var adminLines = []adminLine{
	command("status\n", adminStatus),
	command("status\r\n", adminStatus),
	command("STATUS\r\n", adminStatus),
	command("sTaTuS x y\r\n", adminStatus),
	command("status \r\n", adminStatus),
	command("prioritystatus\r\n", adminPriorityStatus),
	command("workers\r\n", adminWorkers),
	command("workers x\r\n", adminWorkers),
	command("version\r\n", adminVersion),
	command("version  x\r\n", adminVersion),
	command("version\x00x\r\n", adminVersion),
	command("version a b c d e f g\r\n", adminVersion),
	command("getpid\n", adminGetPID),
	command("verbose\n", adminVerbose),
	command("show jobs\r\n", adminShowJobs),
	command("SHOW   Jobs\n", adminShowJobs),
	command("show unique jobs\r\n", adminShowUniqueJobs),
	command("shutdown\r\n", adminShutdown),
	command("shutdown graceful\r\n", adminShutdownGraceful),
	command("SHUTDOWN Graceful\n", adminShutdownGraceful),

	unknownAdmin("\r\n", ""),
	unknownAdmin("\n", ""),
	unknownAdmin(" \r\n", ""),
	unknownAdmin("   status\r\n", ""),
	unknownAdmin("foo\r\n", "foo"),
	unknownAdmin("Foo bar\n", "Foo"),
	unknownAdmin("foo\x00bar\r\n", "foo"),
	unknownAdmin("status\t\r\n", "status\t"),
	unknownAdmin("status\r\r\n", "status\r"),
	unknownAdmin("status\rx\r\n", "status\rx"),
	unknownAdmin("%s%n\r\n", "%s%n"),
	unknownAdmin("\xff\xfe\r\n", "\xff\xfe"),
	unknownAdmin("statu\r\n", "statu"),
	unknownAdmin("statusx\r\n", "statusx"),
	unknownAdmin("show\r\n", "show"),
	unknownAdmin("cancel\r\n", "cancel"),
	unknownAdmin("cancel job\r\n", "cancel"),
	unknownAdmin("shutdown x\r\n", "shutdown"),
	unknownAdmin("shutdown graceful x\r\n", "shutdown"),
	unknownAdmin("shutdown \r\n", "shutdown"),
	unknownAdmin(strings.Repeat("a", maxLine-2)+"\r\n", strings.Repeat("a", maxLine-2)),
	unknownAdmin(strings.Repeat("a", maxLine-1)+"\n", strings.Repeat("a", maxLine-1)),

	badShow("show x\r\n"),
	badShow("show \r\n"),
	badShow("show jobs x\r\n"),
	badShow("show jobs \r\n"),
	badShow("show unique\r\n"),
	badShow("show unique x\r\n"),
	badShow("show unique jobs x\r\n"),

	other("cancel x y\r\n"),
	other("cancel jobs H:x:1\r\n"),
	other("cancel job H:x:1 x\r\n"),
	named("cancel job H:x:1\r\n", adminCancelJob, "H:x:1", "ERR UNKNOWN_JOB\r\n"),
	named("Cancel JOB h:x\n", adminCancelJob, "h:x", "ERR UNKNOWN_JOB\r\n"),
	named("cancel job \r\n", adminCancelJob, "", "ERR UNKNOWN_JOB\r\n"),

	incomplete("create\r\n", "create"),
	incomplete("Create function\r\n", "Create"),
	incomplete("create functions f\r\n", "create"),
	incomplete("create function f x\r\n", "create"),
	incomplete("create function f \r\n", "create"),
	named("create function f\r\n", adminCreateFunction, "f", "OK\r\n"),
	named("CREATE  Function  F\r\n", adminCreateFunction, "F", "OK\r\n"),
	named("create function a\tb\xff\r\n", adminCreateFunction, "a\tb\xff", "OK\r\n"),
	// The reference takes off one byte too many where there is no CR, and ends by a
	// signal if there is none left.
	notReference(named("create function f\n", adminCreateFunction, "f", "")),
	notReference(named("create function \n", adminCreateFunction, "", "")),
	incomplete("drop\r\n", "drop"),
	incomplete("drop function\r\n", "drop"),
	incomplete("drop function f x\r\n", "drop"),
	incomplete("DROP it f\r\n", "DROP"),
	named("drop function nope\r\n", adminDropFunction, "nope", "ERR function not found\r\n"),
	named("drop function nope\n", adminDropFunction, "nope", "ERR function not found\r\n"),

	incomplete("maxqueue\r\n", "maxqueue"),
	maxQueue("maxqueue f\r\n", "f", 0, 0, 0),
	maxQueue("maxqueue \r\n", "", 0, 0, 0),
	maxQueue("maxqueue f 7\r\n", "f", 7, 7, 7),
	maxQueue("MaxQueue F 7\n", "F", 7, 7, 7),
	maxQueue("maxqueue f \r\n", "f", 0, 0, 0),
	maxQueue("maxqueue f 1 2\r\n", "f", 1, 2, 0),
	maxQueue("maxqueue f 1 2 3\r\n", "f", 1, 2, 3),
	maxQueue("maxqueue f 0 2 0\r\n", "f", 0, 2, 0),
	maxQueue("maxqueue f x\r\n", "f", 0, 0, 0),
	maxQueue("maxqueue f -5\r\n", "f", 0, 0, 0),
	maxQueue("maxqueue f +5\r\n", "f", 5, 5, 5),
	maxQueue("maxqueue f 5x\r\n", "f", 5, 5, 5),
	maxQueue("maxqueue f \t5\r\n", "f", 5, 5, 5),
	maxQueue("maxqueue f 007\r\n", "f", 7, 7, 7),
	maxQueue("maxqueue f 2147483647\r\n", "f", math.MaxInt32, math.MaxInt32, math.MaxInt32),
	maxQueue("maxqueue f 2147483648 4294967297 -4294967295\r\n", "f", 0, 1, 1),
	maxQueue("maxqueue f 99999999999999999999 1 -99999999999999999999\r\n", "f", 0, 1, 0),
	notReference(maxQueue("maxqueue f 1 2 3 4\r\n", "f", 1, 2, 3)), // it closes the connection
}

func TestParseAdmin(t *testing.T) {
	for _, l := range adminLines {
		line, n := cutLine([]byte(l.in))
		if n != len(l.in) {
			t.Errorf("%.60q: takes %d bytes", l.in, n)
			continue
		}
		got := parseAdmin(line)
		want := l.want
		if want.word == nil {
			got.word = nil
		}
		if got.name == nil && want.name != nil {
			got.name = []byte{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%.60q: %+v, want %+v", l.in, got, want)
		}
	}
}

func TestAdminRefusals(t *testing.T) {
	for _, l := range adminLines {
		if l.want.verb < adminUnknown {
			continue
		}
		line, _ := cutLine([]byte(l.in))
		a := parseAdmin(line)
		if got := string(a.refusal([]byte("before"))); got != "before"+l.answer {
			t.Errorf("%.60q: %q, want %q", l.in, got, l.answer)
		}
	}
}

func TestCutLine(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, c := range []struct {
		in, line string
		n        int
	}{
		{"", "", 0},
		{"status", "", 0},
		{"status\r", "", 0},
		{"status\n", "status", 7},
		{"status\r\n", "status", 8},
		{"status\r\r\n", "status\r", 9},
		{"\n", "", 1},
		{"\r\n", "", 2},
		{"\r", "", 0},
		{"a\nb\n", "a", 2},
		{"a\n\x00REQ", "a", 2},
		{long[1:] + "\n", long[1:], maxLine},
		{long[2:] + "\r\n", long[2:], maxLine},
		{long[1:] + "\r\n", "", 0},
		{long + "\n", "", 0},
		{long + long + "\n", "", 0},
	} {
		line, n := cutLine([]byte(c.in))
		if string(line) != c.line || n != c.n {
			t.Errorf("%.60q of %d: %.60q %d, want %.60q %d", c.in, len(c.in), line, n, c.line, c.n)
		}
	}
}

func TestTables(t *testing.T) {
	functions := []functionStatus{
		{name: "resize", total: 6, running: 2, queued: [priorities]int{1, 2, 1}, workers: 3},
		{name: "", total: 0},
		{name: "a b\xff"},
	}
	for _, c := range []struct{ name, got, want string }{
		{"status", string(appendStatus([]byte("x"), functions)), "xresize\t6\t2\t3\n\t0\t0\t0\na b\xff\t0\t0\t0\n.\n"},
		{"prioritystatus", string(appendPriorityStatus(nil, functions)), "resize\t1\t2\t1\t3\n\t0\t0\t0\t0\na b\xff\t0\t0\t0\t0\n.\n"},
		{"no functions", string(appendStatus(nil, nil)), ".\n"},
		{"no functions", string(appendPriorityStatus(nil, nil)), ".\n"},
		{
			"workers",
			string(appendWorkers(nil, []worker{
				{fd: 37, addr: "127.0.0.1", id: "-"},
				{fd: 40, addr: "127.0.0.1"},
				{fd: 38, addr: "::1", id: "a b", functions: []string{"g", "f"}},
			})),
			"37 127.0.0.1 - :\n40 127.0.0.1  :\n38 ::1 a b : g f\n.\n",
		},
		{"no workers", string(appendWorkers(nil, nil)), ".\n"},
		{"a line of show jobs", string(appendRow([]byte("H:box:1"), 2, bit(false), bit(true))), "H:box:1\t2\t0\t1\n"},
		{"version", string(appendOK(nil, "1.0")), "OK 1.0\n"},
		{"getpid", string(appendOKNumber(nil, 4711)), "OK 4711\n"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

// Whatever a line is, its parts are parts of it, and its refusal is one line
// that is not much longer.
func FuzzAdmin(f *testing.F) {
	for _, l := range adminLines {
		f.Add([]byte(l.in))
	}
	f.Add([]byte(strings.Repeat("a ", 5000) + "\r\n"))
	f.Add([]byte("maxqueue f 18446744073709551616 \x00 --1\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		line, n := cutLine(in)
		end := bytes.IndexByte(in, '\n')
		switch {
		case n == 0:
			if end >= 0 && end < maxLine {
				t.Fatalf("%q: no line", in)
			}
			return
		case n != end+1 || n > maxLine || !bytes.HasPrefix(in, line) || n-len(line) > 2:
			t.Fatalf("%q: line of %d is %q", in, n, line)
		}
		a := parseAdmin(line)
		if a.verb >= verbs || !bytes.HasPrefix(line, a.word) || !bytes.Contains(line, a.name) || bytes.ContainsAny(a.word, " \x00\n") || bytes.ContainsAny(a.name, " \x00\n") {
			t.Fatalf("%q: %+v", in, a)
		}
		for _, max := range a.max {
			if max > math.MaxInt32 || max != 0 && a.verb != adminMaxQueue {
				t.Fatalf("%q: %+v", in, a)
			}
		}
		if r := a.refusal(nil); len(r) > len(line)+100 || bytes.IndexByte(r, '\n') != len(r)-1 || !bytes.HasPrefix(r, []byte("ERR ")) {
			t.Fatalf("%q: %q", in, r)
		}
	})
}
