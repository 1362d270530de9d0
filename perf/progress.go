package perf

// The line that shows a waiting user how far a session is.

import (
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"
)

// A Progress is a line on a terminal that is written over and over. A nil
// *Progress shows nothing, as is right for a pipe. Sessions show from their own
// goroutine and from the observer's, so mu guards last and shown.
type Progress struct {
	w     io.Writer
	width func() int // of the terminal

	mu    sync.Mutex
	last  time.Time
	shown bool
}

// progressEvery is slow enough for numbers to be read.
const progressEvery = 200 * time.Millisecond

// NewProgress shows progress on w, a terminal; width returns its columns, or 0 if
// that is not known.
func NewProgress(w io.Writer, width func() int) *Progress { return &Progress{w: w, width: width} }

// showing returns a function that shows what a session does and how far it is;
// nil if nothing is shown.
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
	if s.warming {
		what += " (warm-up)"
	}
	news := ""
	if s.answers > 0 {
		news += fmt.Sprintf(", %s ops/s", count(s.answers))
	}
	if left, known := s.left(); known {
		news += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	if most := p.width() - 1; most > 0 { // what changes is what the line is for
		what = shorten(what, max(most-utf8.RuneCountInString(news), 0))
		news = shorten(news, most-utf8.RuneCountInString(what))
	}
	p.shown = true
	io.WriteString(p.w, "\r\x1b[K"+what+news)
}

// shorten cuts text to at most that many characters.
func shorten(text string, most int) string {
	switch runes := []rune(text); {
	case len(runes) <= most:
		return text
	case most == 0:
		return ""
	default:
		return string(runes[:most-1]) + "…"
	}
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
