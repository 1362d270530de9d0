package perf

// The line that tells a waiting user how far it is.

import (
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"
)

// A Progress is a line on a terminal that is written over and over. A nil
// *Progress shows nothing, which is what a pipe gets.
type Progress struct {
	w     io.Writer
	width func() int // of the terminal

	mu    sync.Mutex
	last  time.Time
	shown bool
}

// progressEvery is often enough for a number that can be read.
const progressEvery = 200 * time.Millisecond

// NewProgress shows progress on w, a terminal as wide as width says.
func NewProgress(w io.Writer, width func() int) *Progress { return &Progress{w: w, width: width} }

// showing returns a function that shows how far a session is.
func (p *Progress) showing(scenario, server string, round, rounds int) func(string, stage) {
	if p == nil {
		return nil
	}
	what := scenario + " on " + server
	if rounds > 1 {
		what = fmt.Sprintf("%s, round %d of %d", what, round, rounds)
	}
	return func(doing string, s stage) { p.show(what+": "+doing, s) }
}

func (p *Progress) show(what string, s stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := s == stage{} // something else begins
	if !fresh && time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	line := what
	if s.warming {
		line += " (warm-up)"
	}
	if s.answers > 0 {
		line += fmt.Sprintf(", %s ops/s", count(s.answers))
	}
	if left, known := s.left(); known {
		line += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	if most := p.width() - 1; most > 0 && utf8.RuneCountInString(line) > most {
		line = string([]rune(line)[:most])
	}
	p.shown = true
	io.WriteString(p.w, "\r\x1b[K"+line)
}

// Clear removes the line, so that something else can be printed.
func (p *Progress) Clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		io.WriteString(p.w, "\r\x1b[K")
		p.shown = false
	}
	p.last = time.Time{}
}
