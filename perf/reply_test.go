package perf

import (
	"fmt"
	"strings"
	"testing"
)

func TestReplies(t *testing.T) {
	for _, tt := range []struct {
		in       string
		kind     answer
		id, body string
	}{
		{"INSERTED 12\r\n", inserted, "12", ""},
		{"RESERVED 7 5\r\nhello\r\n", reserved, "7", "hello"},
		{"RESERVED 7 0\r\n\r\n", reserved, "7", ""},
		{"RESERVED 7 4\r\n\r\n\r\n\r\n", reserved, "7", "\r\n\r\n"},
		{"RELEASED\r\n", released, "", ""},
		{"DELETED\r\n", deleted, "", ""},
		{"BURIED\r\n", buried, "", ""},
		{"TOUCHED\r\n", touched, "", ""},
		{"TIMED_OUT\r\n", timedOut, "", ""},
		{"KICKED\r\n", kicked, "", ""},
		{"KICKED 1\r\n", kicked, "", ""},
		{"NOT_FOUND\r\n", notFound, "", ""},
		{"FOUND 18446744073709551615 1\r\nx\r\n", found, "18446744073709551615", "x"},
		{"OK 3\r\nabc\r\n", ok, "", "abc"},
		{"KICKED 0\r\n", kickedNone, "", ""},
		{"OUT_OF_MEMORY\r\n", unexpected, "", ""},
		{"DEADLINE_SOON\r\n", deadlineSoon, "", ""},
		{"DRAINING\r\n", unexpected, "", ""},
		{"BURIED 12\r\n", unexpected, "", ""},
		{"RESERVED 7\r\n", unexpected, "", ""},
		{"RESERVED 7 x\r\n", unexpected, "", ""},
		{"INSERTED -5\r\n", unexpected, "", ""},
		{"INSERTED \r\n", unexpected, "", ""},
		{"INSERTED 5 \r\n", unexpected, "", ""},
		{"INSERTED 184467440737095516150\r\n", unexpected, "", ""},
		{"RESERVED x 0\r\n", unexpected, "", ""},
		{"FOUND  0\r\n", unexpected, "", ""},
		{"OK\r\n", unexpected, "", ""},
		{"OK 99999999999\r\n", unexpected, "", ""},
		{"\r\n", unexpected, "", ""},
		{"hello\r\n", unexpected, "", ""},
	} {
		in := tt.in + "DELETED\r\n" // which must not be touched
		var r reply
		for cut := range len(tt.in) {
			if n, want, err := r.cut([]byte(in)[:cut]); n != 0 || err != nil || want != 0 && want != len(tt.in) {
				t.Errorf("%q of %q: %d bytes, %d wanted, %v", in[:cut], tt.in, n, want, err)
			}
		}
		n, _, err := r.cut([]byte(in))
		if err != nil || n != len(tt.in) || r.kind != tt.kind || string(r.id) != tt.id && tt.kind != unexpected || string(r.body) != tt.body {
			t.Errorf("%q: %d bytes, kind %d, id %q, body %q, %v", tt.in, n, r.kind, r.id, r.body, err)
		}
	}
}

func TestRepliesThatAreNone(t *testing.T) {
	for in, want := range map[string]string{
		strings.Repeat("x", maxLine+1): "does not end",
		"RESERVED 1 3\r\nabcde\r\n":    "does not end with CR LF",
		"OK 3\r\nab\r\n\r\n":           "does not end with CR LF",
		"RESERVED 1 1073741825\r\n":    "a body of 1073741825 bytes",
	} {
		var r reply
		if _, _, err := r.cut([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", quote([]byte(in)), err, want)
		}
	}
}

func TestCommands(t *testing.T) {
	c := base.with(func(c *Config) { c.Body, c.Delay, c.Priority = Fixed(3), Fixed(2), Fixed(7) })
	w := newWire(&c)
	out, body := w.put(nil, 0, 0)
	if want := "put 7 2 600 3\r\n" + string(body) + "\r\n"; string(out) != want || len(body) != 3 {
		t.Errorf("%q, want %q", out, want)
	}
	if _, other := w.put(nil, 0, stride); string(other) == string(body) {
		t.Error("all bodies are the same")
	}
	copy(body, "abc")
	if !strings.HasSuffix(string(out), "abc\r\n") {
		t.Errorf("the body is not where it is said to be: %q", out)
	}
	for o, want := range map[op]string{
		opReserve: "reserve", opReserveNow: "reserve-with-timeout 0", opDelete: "delete 12", opRelease: "release 12 7 0", opBury: "bury 12 7",
		opKick: "kick 1", opKickJob: "kick-job 12", opTouch: "touch 12", opPeek: "peek 12", opStatsJob: "stats-job 12",
		opStatsTube: "stats-tube tt", opStats: "stats",
	} {
		if got := string(w.command(nil, o, []byte("12"), "tt")); got != want+"\r\n" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	c.Body, c.LeastBody = Dist{shape: exponential, lo: 10}, headerCheck
	for _, p := range newWire(&c).puts {
		if p.size < headerCheck || !strings.HasSuffix(string(p.line), fmt.Sprintf(" %d\r\n", p.size)) {
			t.Fatalf("%q with a body of %d", p.line, p.size)
		}
	}
}

func TestHeader(t *testing.T) {
	body := []byte(strings.Repeat("x", 100))
	stampReady(body, -5)
	stampFrom(body, 77)
	stampCheck(body, 1<<40)
	if readyOf(body) != -5 || fromOf(body) != 77 || numberOf(body) != 1<<40 || !intactBody(body) {
		t.Errorf("% x", body[:headerCheck])
	}
	for i := range body {
		body[i] ^= 4
		if intactBody(body) {
			t.Errorf("a change of byte %d is not seen", i)
		}
		body[i] ^= 4
	}
}
