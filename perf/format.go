package perf

// Numbers, formatted for people.

import (
	"math"
	"strconv"
	"strings"
)

// count formats a number with thousands set apart.
func count(v float64) string {
	s := strconv.FormatFloat(math.Round(math.Abs(v)), 'f', 0, 64)
	var b strings.Builder
	if v <= -0.5 {
		b.WriteByte('-')
	}
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// number formats a value with three significant digits, and all digits before the
// point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 99.95:
		return count(v)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.0995:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// perSecond formats a rate: as a whole number, unless that would hide too much.
func perSecond(v float64) string {
	if v < 9.995 && v != math.Trunc(v) {
		return number(v)
	}
	return count(v)
}

// micros formats microseconds in the unit that suits them.
func micros(us float64) string {
	switch {
	case us >= 1e6:
		return number(us/1e6) + " s"
	case us >= 1e3:
		return number(us/1e3) + " ms"
	}
	return number(us) + " µs"
}

// mebibytes formats bytes.
func mebibytes(n int64) string { return number(float64(n)/(1<<20)) + " MiB" }

// indent puts a margin before each line.
func indent(text, margin string) string {
	return margin + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+margin)
}
