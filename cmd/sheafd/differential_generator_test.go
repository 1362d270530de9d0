package main_test

// What is sent: random steps, from the seed and what the model knows.

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// A diffMood is what a run has most of. A run's mood follows from its seed.
type diffMood struct {
	name    string
	garbage float64 // of the commands: refused lines, in any way
	glued   float64 // of the steps: several commands in one write
	torn    float64 // of the steps: sent in segments
	part    float64 // of the steps: a client leaves, in any way
	rest    int     // commands after which time goes by, or 0
	short   float64 // of the times given: a few seconds, so that they run out
	reserve int     // weight of reserve against the other commands
	share   bool    // clients watch the same tubes, so that few may wait
}

var diffMoods = []diffMood{
	{name: "plain", garbage: .06, glued: .25, torn: .1, part: .02, reserve: 20, share: true},
	{name: "time", garbage: .02, glued: .15, torn: .05, part: .02, rest: 25, short: .3, reserve: 25},
	{name: "parser", garbage: .4, glued: .5, torn: .4, part: .04, reserve: 8, share: true},
	{name: "waiting", garbage: .02, glued: .2, torn: .1, part: .08, rest: 80, short: .03, reserve: 50},
}

// diffTubes are the tubes of a run; few, so that clients meet. The last is as
// long as a name can be.
var diffTubes = []string{"default", "a", "b", "c", "d-_.$()+/;0", strings.Repeat("t", 200)}

func diffPick[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

// diffHello is the first request of a client.
func diffHello(rng *rand.Rand) string {
	return diffPick(rng, []string{"list-tubes-watched\r\n", "list-tube-used\r\n", "stats-tube default\r\n", "peek 0\r\n", "hello\r\n"})
}

// step does one random step.
func (r *diffRun) step() error {
	for _, c := range r.clients {
		if c.waiting() {
			c.waited++
		}
	}
	for len(r.clients) < 4 {
		if err := r.connect(); err != nil {
			return err
		}
		if c := r.clients[len(r.clients)-1]; !r.mood.share && r.rng.IntN(4) > 0 {
			tube := diffPick(r.rng, diffTubes[1:])
			if err := r.send(c, "watch "+tube+"\r\nignore default\r\n"); err != nil {
				return err
			}
		}
	}
	c := diffPick(r.rng, r.clients)
	if c.waiting() && (c.waited < 60 && r.rng.IntN(8) > 0) {
		return nil // leave it; another one's turn
	}
	switch p := r.rng.Float64(); {
	case (p < r.mood.part || c.waiting() && r.rng.IntN(2) == 0) && r.queued(c) == nil:
		return r.part(c)
	case r.mood.rest > 0 && r.commands >= r.restAt:
		r.restAt = r.commands + r.mood.rest/2 + r.rng.IntN(r.mood.rest)
		return r.rest(time.Duration(r.rng.IntN(1500)) * time.Millisecond)
	}
	if len(c.asked) > 20 {
		return nil // nothing of it is read before the wait is over
	}
	text, ok := r.compose(c)
	if !ok {
		return nil
	}
	var segments []string
	if r.rng.Float64() < r.mood.torn {
		segments = r.tear(text)
	} else {
		segments = []string{text}
	}
	return r.send(c, segments...)
}

// part makes c leave: it closes, closes its sending side, or quits, perhaps in
// the middle of something.
func (r *diffRun) part(c *diffClient) error {
	unfinished := diffPick(r.rng, []string{
		"", "", "pu", "put 0 0 10 20\r\nabc", "put 0 0 10 5\r\nabcde", "put 0 0 10 5\r\nabcde\r", "put 1 2 3 5000\r\nabc",
		"put 0 0 10 5\r", strings.Repeat("x", 300), "stats", "reserve\r",
	})
	if r.scatters(c) {
		return nil
	}
	how := r.rng.IntN(4)
	if how == 2 && c.waiting() {
		how = 3 // or it would be gone when another one is looked at
	}
	switch how {
	case 0: // the server may be anywhere in what is unfinished
		return r.leave(c, unfinished)
	case 1:
		text, ok := "", true
		if r.rng.IntN(2) == 0 && r.waiting() == 0 { // it may reserve jobs, see scatters
			text, ok = r.compose(c)
		}
		if !ok {
			return nil
		}
		return r.sendWith(c, true, []string{text + unfinished})
	case 2:
		quit := diffPick(r.rng, []string{"quit\r\n", "quit now\r\n", "quitting\r\n", "quit\r\nstats\r\n"})
		if text, ok := r.compose(c); ok && r.allowed(c, c.frame.clone().feed([]byte(text+quit))) {
			quit = text + quit
		}
		return r.send(c, quit)
	}
	return r.leave(c, "")
}

// leave sends what is unfinished on c's connections and closes them.
func (r *diffRun) leave(c *diffClient, unfinished string) error {
	if err := r.wakeful(nil); err != nil {
		return err
	}
	if c.sock[0].fd < 0 {
		return nil
	}
	if unfinished != "" {
		r.logf("%s> %s", c.name, diffShow(unfinished))
		for _, s := range c.sock {
			if err := s.send([]byte(unfinished)); err != nil {
				return &diffFound{fmt.Sprintf("sending: %v", err)}
			}
		}
		if !c.waiting() && r.rng.IntN(2) == 0 {
			for _, s := range c.sock {
				s.drained(20 * time.Millisecond)
			}
		}
	}
	r.logf("%s closes", c.name)
	return r.hangUp(c)
}

// tear cuts text into segments.
func (r *diffRun) tear(text string) (segments []string) {
	for n := 1 + r.rng.IntN(4); n > 0 && len(text) > 1; n-- {
		cut := 1 + r.rng.IntN(len(text)-1)
		// Half the cuts are where a line or a body ends, or within its CRLF.
		if i := strings.Index(text, "\r\n"); r.rng.IntN(2) == 0 && i > 0 {
			cut = min(i+r.rng.IntN(4), len(text)-1)
		}
		segments = append(segments, text[:cut])
		text = text[cut:]
	}
	return append(segments, text)
}

// compose makes the text of one or several commands for c, whole requests all
// of them, that may be sent now.
func (r *diffRun) compose(c *diffClient) (text string, ok bool) {
	for range 20 {
		n := 1
		if r.rng.Float64() < r.mood.glued {
			n = 2 + r.rng.IntN(6)
			if r.rng.IntN(10) == 0 {
				n = 30
			}
		}
		var b strings.Builder
		for range n {
			if r.rng.Float64() < r.mood.garbage {
				b.WriteString(r.garbage(c))
			} else {
				b.WriteString(r.command(c))
			}
		}
		text = b.String()
		f := c.frame.clone()
		requests := f.feed([]byte(text))
		for i := 0; !f.rest() && !f.quit && f.need < 4*diffMaxJob && i < 500; i++ {
			text += "zz\r\n"
			requests = append(requests, f.feed([]byte("zz\r\n"))...)
		}
		if (f.rest() || f.quit) && len(requests) > 0 && r.allowed(c, requests) {
			return text, true
		}
	}
	return "", false
}

// allowed says whether requests may be sent by c now.
func (r *diffRun) allowed(c *diffClient, requests []diffRequest) bool {
	if (len(requests) > 1 || c.waiting()) && r.queued(c) != nil {
		return false
	}
	shown, waits := 0, false
	for i, q := range requests {
		if q.unpauses() && (i+1 < len(requests) || c.waiting()) {
			return false // what is behind it may find the tube paused
		}
		if n := q.body(); r.progs[0].binlog != nil && (n == diffMaxJob+1 || n == diffMaxJob+2) {
			return false
		}
		if arg, ok := strings.CutPrefix(q.line, "reserve-with-timeout "); ok {
			n, rest, ok := diffNumber(arg)
			if !ok || rest != "" || n >= 1<<31 {
				return false
			}
			if r.holdsShort(c, time.Duration(n)*time.Second) {
				return false
			}
		}
		if q.quits() && (waits || c.waiting() || r.scatters(c)) {
			return false // it would be gone when another one is looked at
		}
		if q.verb() == "stats" && (waits || c.waiting()) {
			return false // it would count what only just ends the wait
		}
		if len(r.model.phases(q)) > 0 {
			shown++
		}
		waits = waits || q.mayWait()
	}
	if shown > 2 || shown > 0 && c.waiting() {
		return false
	}
	if !waits {
		return true
	}
	mine := c.mayWatch(requests)
	free := 0
	for _, o := range r.clients {
		if o == c {
			continue
		}
		if !o.waiting() {
			free++
			continue
		}
		for tube := range o.mayWatch(nil) {
			if mine[tube] {
				return false
			}
		}
	}
	return free > 0
}

// holdsShort says whether c holds a job, or may get one, whose TTR has its
// last second within d.
func (r *diffRun) holdsShort(c *diffClient, d time.Duration) bool {
	end := time.Now().Add(d + 2*time.Second)
	for _, j := range r.model.jobs {
		if j.holder == c && j.deadline.set() && j.deadline.lo.Before(end) {
			return true
		}
	}
	return false
}

// seconds is a time to give: mostly too long to run out, at times short.
func (r *diffRun) seconds() int {
	if r.rng.Float64() < r.mood.short {
		return 1 + r.rng.IntN(3)
	}
	return diffPick(r.rng, []int{60, 100, 3600, 4294967295})
}

func (r *diffRun) pri() uint64 {
	return diffPick(r.rng, []uint64{0, 0, 1, 5, 5, 1023, 1024, 5000, 4294967295})
}

// id is the id of a job, preferably of one in that state, held by c if
// reserved; at times of any, or of none.
func (r *diffRun) id(c *diffClient, states ...diffState) string {
	m := r.model
	if p := r.rng.IntN(100); p < 80 {
		var fit []*diffJob
		for _, j := range m.jobs {
			for _, s := range states {
				if j.state == s && (s != diffReserved || j.holder == c) {
					fit = append(fit, j)
				}
			}
		}
		if len(fit) > 0 {
			return fmt.Sprint(diffPick(r.rng, fit).id)
		}
	}
	switch p := r.rng.IntN(20); {
	case p < 14 && len(m.jobs) > 0:
		return fmt.Sprint(diffPick(r.rng, m.jobs).id)
	case p < 17 && len(m.dead) > 0:
		return fmt.Sprint(diffPick(r.rng, m.dead))
	}
	return diffPick(r.rng, []string{"0", "1", "9999999", "18446744073709551615", "007"})
}

// body is a put's body.
func (r *diffRun) body() string {
	switch r.rng.IntN(8) {
	case 0:
		return ""
	case 1:
		return "a\r\nb\r\n\r\n"
	case 2:
		return "\x00\r\x00\n\xff\x00"
	case 3:
		return "put 0 0 1 1\r\nx\r\ndelete 1\r\n"
	case 4:
		return strings.Repeat("x", diffPick(r.rng, []int{diffMaxJob, diffMaxJob - 1, 222, 223, 224, 225, 500}))
	}
	return strings.Repeat("o", r.rng.IntN(30))
}

// command is one command, valid in form, mostly sensible.
func (r *diffRun) command(c *diffClient) string {
	rng := r.rng
	tube := func() string { return diffPick(rng, diffTubes) }
	type choice struct {
		weight int
		line   func() string
	}
	// Fewer jobs come than go when there are many.
	puts := 22
	if len(r.model.jobs) > 40 {
		puts = 6
	}
	choices := []choice{
		{puts, func() string {
			delay, ttr := 0, r.seconds()
			if rng.IntN(4) == 0 {
				delay = r.seconds()
			}
			if rng.IntN(20) == 0 && r.mood.short > 0 {
				ttr = 0
			}
			body := r.body()
			return fmt.Sprintf("put %d %d %d %d\r\n%s", r.pri(), delay, ttr, len(body), body)
		}},
		{r.mood.reserve / 2, func() string { return "reserve" }},
		{r.mood.reserve / 2, func() string {
			n := diffPick(rng, []int{0, 0, 0, 0, 1000})
			if rng.Float64() < r.mood.short {
				n = 1 + rng.IntN(2)
			}
			return fmt.Sprintf("reserve-with-timeout %d", n)
		}},
		{4, func() string { return "reserve-job " + r.id(c, diffReady, diffDelayed, diffBuried) }},
		{9, func() string {
			return "delete " + r.id(c, diffReserved, diffReserved, diffReady, diffDelayed, diffBuried)
		}},
		{7, func() string {
			delay := 0
			if rng.IntN(3) == 0 {
				delay = r.seconds()
			}
			return fmt.Sprintf("release %s %d %d", r.id(c, diffReserved), r.pri(), delay)
		}},
		{6, func() string { return fmt.Sprintf("bury %s %d", r.id(c, diffReserved), r.pri()) }},
		{4, func() string { return "touch " + r.id(c, diffReserved) }},
		{4, func() string { return fmt.Sprintf("kick %d", diffPick(rng, []uint64{0, 1, 1, 2, 3, 100, 4294967295})) }},
		{3, func() string { return "kick-job " + r.id(c, diffBuried, diffDelayed) }},
		{3, func() string { return "peek " + r.id(c, diffReady, diffDelayed, diffReserved, diffBuried) }},
		{2, func() string { return "peek-ready" }},
		{2, func() string { return "peek-delayed" }},
		{2, func() string { return "peek-buried" }},
		{6, func() string { return "stats-job " + r.id(c, diffReady, diffDelayed, diffReserved, diffBuried) }},
		{4, func() string { return "stats-tube " + tube() }},
		{3, func() string { return "stats" }},
		{5, func() string { return "use " + tube() }},
		{3, func() string { return "watch " + tube() }},
		{3, func() string { return "ignore " + tube() }},
		{2, func() string { return "list-tubes" }},
		{1, func() string { return "list-tube-used" }},
		{1, func() string { return "list-tubes-watched" }},
		{2, func() string {
			n := r.seconds()
			if r.mood.short == 0 || n > 3 {
				n = diffPick(rng, []int{0, 0, 0, 1}) // a tube paused for good would be dull
			}
			return fmt.Sprintf("pause-tube %s %d", tube(), n)
		}},
	}
	total := 0
	for _, ch := range choices {
		total += ch.weight
	}
	n := rng.IntN(total)
	for _, ch := range choices {
		if n -= ch.weight; n < 0 {
			return ch.line() + "\r\n"
		}
	}
	panic("not reached")
}

// garbage is something that is refused, or nearly: a command changed at
// random, a put whose body does not fit, a line of anything.
func (r *diffRun) garbage(c *diffClient) string {
	rng := r.rng
	switch rng.IntN(12) {
	case 0: // a wrong trailer
		n := rng.IntN(20)
		return fmt.Sprintf("put 0 0 60 %d\r\n%s%s", n, strings.Repeat("w", n), diffPick(rng, []string{"xx", "\nx", "\r\r", "\n\r", "\x00\n"}))
	case 1: // a size that is too small, or too big
		return fmt.Sprintf("put 0 0 60 %d\r\n%s\r\n", rng.IntN(20), strings.Repeat("s", rng.IntN(20)))
	case 2: // an oversized job
		n := diffMaxJob + 1 + rng.IntN(2*diffMaxJob)
		tail := diffPick(rng, []string{"", "", "x", " 5"})
		return fmt.Sprintf("put 0 0 60 %d%s\r\n%s\r\n", n, tail, strings.Repeat("b\r\n", n)[:n])
	case 3: // a line of about the greatest length, or far over it
		n := diffPick(rng, []int{220, 221, 222, 223, 224, 225, 446, 447, 448, 449, 1000})
		return diffPick(rng, []string{"", "put ", "use ", "stats"}) + strings.Repeat("l", n) + "\r\n"
	case 4: // a name that is no name
		verb := diffPick(rng, []string{"use", "watch", "ignore", "stats-tube", "pause-tube"})
		name := diffPick(rng, []string{"", "-a", "a b", "ä", "a,b", strings.Repeat("n", 201), "a\tb", " a", "a "})
		return verb + " " + name + diffPick(rng, []string{"", " 0"}) + "\r\n"
	case 5: // a number that is no number
		verb := diffPick(rng, []string{"delete", "peek", "reserve-job", "kick", "kick-job", "touch", "stats-job", "release", "bury"})
		number := diffPick(rng, []string{"", "-1", "+1", "1x", "1 ", " 1", "0x1", "18446744073709551616", "99999999999999999999999", "1 2", "1 2 3", "1.5", "٣", "\t1"})
		return verb + " " + number + "\r\n"
	case 6: // a put with odd numbers
		odd := func() string {
			return diffPick(rng, []string{"0", "1", "  7", "-1", "4294967295", "4294967296", "1e3", "", "x", "007"})
		}
		return "put " + odd() + " " + odd() + " " + odd() + " " + diffPick(rng, []string{"3", "3", "3 ", "3x", "-3", ""}) + "\r\nabc\r\n"
	case 7: // any bytes
		var b []byte
		for range rng.IntN(40) {
			b = append(b, byte(rng.IntN(256)))
		}
		return string(b) + "\r\n"
	case 8:
		return diffPick(rng, []string{"\r\n", "\n", "\r", "\n\r\n", "\r\r\n", " stats\r\n", "STATS\r\n", "stats \r\n", "statsx\r\n", "peek\r\n", "delete\r\n",
			"list-tubes \r\n", "list-tube\r\n", "reserve \r\n", "reserve-job\r\n", "pause-tubea 0\r\n", "pause-tube a\r\n", "pause-tube -a 1\r\n", "reserved\r\n", "kick -1\r\n", "kick 1 x\r\n"})
	}
	// A command with a byte or two changed.
	b := []byte(r.command(c))
	for range 1 + rng.IntN(2) {
		i := rng.IntN(len(b))
		switch rng.IntN(5) {
		case 0:
			b[i] = byte(rng.IntN(256))
		case 1:
			b = append(b[:i], b[i+1:]...)
		case 2:
			b = append(b[:i], append([]byte{diffPick(rng, []byte("\x00 \r\n\t-0x"))}, b[i:]...)...)
		case 3:
			b[i] ^= 0x20
		case 4:
			b = append(b[:i], append([]byte(strconv.Itoa(rng.IntN(10))), b[i:]...)...)
		}
		if len(b) == 0 {
			return "\r\n"
		}
	}
	return string(b)
}
