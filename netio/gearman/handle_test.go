package gearman

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestHandles(t *testing.T) {
	h := newHandles("box")
	for _, id := range []uint64{1, 9, 10, 4294967296, math.MaxUint64} {
		s := string(h.append([]byte("x"), id))
		if s != "xH:box:"+strconv.FormatUint(id, 10) {
			t.Errorf("%d: %q", id, s)
		}
		if got, ok := h.parse([]byte(s[1:])); got != id || !ok {
			t.Errorf("%q: %d %v", s[1:], got, ok)
		}
	}
}

func TestForeignHandles(t *testing.T) {
	h := newHandles("box")
	for _, s := range []string{
		"", "H", "H:box", "H:box:", "H:box:0", "H:box:00", "H:box:01", "H:box:+1", "H:box:-1", "H:box: 1", "H:box:1 ",
		"H:box:1\x00", "H:box:1x", "h:box:1", "H:BOX:1", "H:boxx:1", "H:bo:1", "H:box:1:1", " H:box:1", "1", "0x1",
		"H:box:18446744073709551616", "H:box:28446744073709551615", "H:box:99999999999999999999",
		"H:box:100000000000000000000", "H:box:" + strings.Repeat("1", 1000),
	} {
		if id, ok := h.parse([]byte(s)); ok {
			t.Errorf("%q is %d", s, id)
		}
	}
}

func TestLongHostnames(t *testing.T) {
	for n := range 80 {
		host := strings.Repeat("h", n)
		h := newHandles(host)
		s := string(h.append(nil, math.MaxUint64))
		if len(s) > maxHandle {
			t.Errorf("hostname of %d: %q has %d bytes", n, s, len(s))
		}
		if n <= 40 && !strings.HasPrefix(s, "H:"+host+":") {
			t.Errorf("hostname of %d: %q", n, s)
		}
		if n >= 40 && len(s) != maxHandle {
			t.Errorf("hostname of %d: %q wastes room", n, s)
		}
		if id, ok := h.parse([]byte(s)); id != math.MaxUint64 || !ok {
			t.Errorf("%q: %d %v", s, id, ok)
		}
	}
}

// parse takes exactly what append makes.
func FuzzHandle(f *testing.F) {
	f.Add([]byte("H:box:1"))
	f.Add([]byte("H:box:18446744073709551615"))
	f.Add([]byte("H:box:18446744073709551616"))
	f.Add([]byte("H:box:007"))
	h := newHandles("box")
	f.Fuzz(func(t *testing.T, in []byte) {
		id, ok := h.parse(in)
		if ok && (id == 0 || string(h.append(nil, id)) != string(in)) {
			t.Fatalf("%q is %d", in, id)
		}
		digits, prefixed := strings.CutPrefix(string(in), "H:box:")
		n, err := strconv.ParseUint(digits, 10, 64)
		if want := prefixed && err == nil && n > 0 && digits[0] != '0' && digits[0] != '+'; ok != want || ok && id != n {
			t.Fatalf("%q: %d %v, slowly %d %v", in, id, ok, n, want)
		}
	})
}
