package beanstalk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// x returns a line of n bytes, its CR LF included.
func x(n int) string { return strings.Repeat("x", n-2) + "\r\n" }

// used is a command whose answer never varies on a new connection.
const used = "list-tube-used\r\n"

// streams are inputs with what the session answers them, reserved for commands
// whose answers need no engine.
var streams = []struct {
	name, in, want string
}{
	{"empty line", "\r\n\r\n" + used, "UNKNOWN_COMMAND UNKNOWN_COMMAND USING"},
	{"bare LF is part of the line", "list-tube-used\n\r\n" + used, "BAD_FORMAT USING"},
	{"bare LF ends nothing", "list-tube-used\n" + used, "BAD_FORMAT"},
	{"NUL", "li\x00st\r\n\x00\r\nlist-tube-used\x00\r\n" + used, "BAD_FORMAT BAD_FORMAT BAD_FORMAT USING"},
	{"incomplete", used + "list-tube-used", "USING"},
	{"incomplete CR", used + "list-tube-used\r", "USING"},

	{"224 bytes", x(224) + used, "UNKNOWN_COMMAND USING"},
	{"225 bytes, CR LF torn by the window", x(225) + used, "BAD_FORMAT"},
	{"225 bytes and one line more", x(225) + used + used, "BAD_FORMAT USING"},
	{"226 bytes", x(226) + used, "BAD_FORMAT USING"},
	{"448 bytes", x(448) + used, "BAD_FORMAT USING"},
	{"449 bytes, torn by the second window", x(449) + used, "BAD_FORMAT"},
	{"450 bytes", x(450) + used, "BAD_FORMAT USING"},
	{"10000 bytes", x(10000) + used, "BAD_FORMAT USING"},
	{"over-long without end", strings.Repeat("x", 10000), ""},
	{"two over-long lines", x(300) + x(300) + used, "BAD_FORMAT BAD_FORMAT USING"},
	{"NUL in an over-long line", "\x00" + x(300) + used, "BAD_FORMAT USING"},

	{"CR in the line", "use a\rb\r\n" + used, ""},
	{"CR CR LF", "list-tube-used\r\r\n" + used, ""},
	{"CR in the line, window filled later", "x\ry\r\n" + strings.Repeat(used, 30), "BAD_FORMAT" + strings.Repeat(" USING", 16)},
	{"CR in the first window only", x(224)[:200] + "\r" + x(200) + used, "BAD_FORMAT USING"},
	{"CR in the second window", x(300)[:298] + "\ry\r\n" + used, ""},
	{"CRs without end", strings.Repeat("\r", 1000) + "\n\r\n" + used, ""},
}

// serve answers what it has scanned and parsed, as far as no engine is needed
// for it. The cuts are the lengths of the pieces in which the input arrives,
// repeated as often as need be; nil is the whole at once.
func serve(t testing.TB, in string, cuts []int) string {
	var (
		s       scanner
		c       command
		pending []byte
		out     []string
	)
	for i := 0; len(in) > 0; i++ {
		piece := len(in)
		if len(cuts) > 0 {
			piece = min(piece, max(1, cuts[i%len(cuts)]))
		}
		pending = append(pending, in[:piece]...)
		in = in[piece:]
		for {
			line, n, st := s.next(pending)
			if n > len(pending) {
				t.Fatalf("consumed %d of %d bytes", n, len(pending))
			}
			if st == lineReady && string(pending[:n]) != string(line)+"\r\n" {
				t.Fatalf("line %q from %q", line, pending[:n])
			}
			if st == lineReady && n > maxLine {
				t.Fatalf("a line of %d bytes", n)
			}
			verdict := badFormat
			if st == lineReady {
				verdict = parse(line, &c)
			}
			pending = pending[n:]
			if st == needMore {
				if len(pending) >= maxLine {
					t.Fatalf("%d bytes left over", len(pending))
				}
				break
			}
			switch {
			case verdict == badFormat:
				out = append(out, "BAD_FORMAT")
			case verdict == unknownCommand:
				out = append(out, "UNKNOWN_COMMAND")
			case c.verb == cmdListTubeUsed:
				out = append(out, "USING")
			default:
				out = append(out, fmt.Sprintf("%+v", c))
			}
		}
	}
	return strings.Join(out, " ")
}

// words reduces replies to the first word of each.
func words(replies string) string {
	var out []string
	for line := range strings.Lines(replies) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), " ")
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestScan(t *testing.T) {
	for _, s := range streams {
		for _, cuts := range [][]int{nil, {1}, {2}, {3, 1}, {223, 1}, {224}, {225}, {7, 100}} {
			if got := serve(t, s.in, cuts); got != s.want {
				t.Errorf("%s, cut %v: %q, want %q", s.name, cuts, got, s.want)
			}
		}
	}
}

// A line that is not complete stays with the caller, untouched.
func TestScanLeavesTheIncompleteLine(t *testing.T) {
	var s scanner
	in := []byte(x(224))
	for i := range in {
		if line, n, st := s.next(in[:i]); line != nil || n != 0 || st != needMore {
			t.Fatalf("next of %d bytes: %q, %d, %d", i, line, n, st)
		}
	}
	if line, n, st := s.next(in); len(line) != 222 || n != 224 || st != lineReady {
		t.Fatalf("next: %d bytes, %d, %d", len(line), n, st)
	}
}

func TestReferenceScan(t *testing.T) {
	socket := startReference(t)
	for _, s := range streams {
		if got := words(ask(t, socket, s.in)); got != s.want {
			t.Errorf("%s: the reference says %q, the table %q", s.name, got, s.want)
		}
		if got := words(ask(t, socket, slices.Collect(chunks(s.in, 5))...)); got != s.want {
			t.Errorf("%s in segments: the reference says %q, the table %q", s.name, got, s.want)
		}
	}
}

// chunks cuts s into pieces of n bytes.
func chunks(s string, n int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(s) > 0 {
			k := min(n, len(s))
			if !yield(s[:k]) {
				return
			}
			s = s[k:]
		}
	}
}

// Random streams of what matters to the scanner, in random segments, to the
// reference and to the scanner.
func TestReferenceScanRandom(t *testing.T) {
	socket := startReference(t)
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var in bytes.Buffer
		for range 1 + rnd.IntN(12) {
			switch rnd.IntN(12) {
			case 0:
				in.WriteByte('\r')
			case 1:
				in.WriteByte('\n')
			case 2:
				in.WriteByte(0)
			case 3, 4:
				in.WriteString("\r\n")
			case 5:
				in.WriteString(strings.Repeat("x", rnd.IntN(500)))
			case 6, 7:
				in.WriteString(strings.Repeat("x", 218+rnd.IntN(10)))
			default:
				in.WriteString(used)
			}
		}
		var cuts []int
		for range 1 + rnd.IntN(5) {
			cuts = append(cuts, 1+rnd.IntN(1<<rnd.IntN(9)))
		}
		whole := serve(t, in.String(), nil)
		if got := serve(t, in.String(), cuts); got != whole {
			t.Errorf("seed %d: cut %v %q, whole %q", seed, cuts, got, whole)
		}
		if got := words(ask(t, socket, in.String())); got != whole {
			t.Errorf("seed %d: the reference says %q, we %q, to %q", seed, got, whole, in.String())
		}
		if got := words(ask(t, socket, slices.Collect(chunks(in.String(), cuts[0]))...)); got != whole {
			t.Errorf("seed %d, segments of %d: the reference says %q, we %q, to %q", seed, cuts[0], got, whole, in.String())
		}
	}
}

// However the input is cut, the same lines come out.
func FuzzScan(f *testing.F) {
	for _, s := range streams {
		f.Add(s.in, []byte{1})
		f.Add(s.in, []byte{5, 223, 1})
	}
	f.Fuzz(func(t *testing.T, in string, cuts []byte) {
		var lengths []int
		for _, c := range cuts {
			lengths = append(lengths, int(c))
		}
		whole := serve(t, in, nil)
		if got := serve(t, in, lengths); got != whole {
			t.Errorf("cut %v: %q, whole: %q", lengths, got, whole)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	in := []byte(strings.Repeat("delete 1234567\r\n", 64))
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	var s scanner
	for b.Loop() {
		for rest := in; len(rest) > 0; {
			_, n, _ := s.next(rest)
			rest = rest[n:]
		}
	}
}
