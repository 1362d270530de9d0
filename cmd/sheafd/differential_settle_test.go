package main_test

// How a run knows that a server is done with a step: it knows how many replies
// there must be (see diffFramer). Where a client is owed one to a reserve, it
// asks the server on a connection of its own: done is when as many clients wait
// (current-waiting) as are owed a reply. The reference is asked first; sheafd
// must then come to give the same number of replies to each client.

import (
	"fmt"
	"strings"
	"time"
)

// settle waits until both servers are done with all that was sent, compares
// what came and learns from it. All of it happened after lo.
func (r *diffRun) settle(lo time.Time) error {
	if r.waiting() == 0 {
		return nil
	}
	if err := r.gather(0, nil); err != nil {
		return fmt.Errorf("the reference: %w", err)
	}
	err := r.gather(1, func(c *diffClient) int { return len(c.got[0]) })
	if err := r.compare(diffSpan{lo, time.Now()}); err != nil {
		return err
	}
	if err != nil {
		return &diffFound{fmt.Sprintf("%s: %v", r.progs[1].name, err)}
	}
	// The same number of stats on both, or they would differ in cmd-stats.
	for r.asked[0] != r.asked[1] {
		i := 0
		if r.asked[1] < r.asked[0] {
			i = 1
		}
		if _, err := r.stats(i); err != nil {
			return err
		}
	}
	r.settled = r.asked
	return nil
}

// gather reads what server i sends until it is done. With expect, it also has
// to have given that many replies to each client.
func (r *diffRun) gather(i int, expect func(*diffClient) int) error {
	for end := time.Now().Add(diffPatience); ; {
		owed, last := 0, (*diffClient)(nil)
		blocked := true // every client owed a reply could be waiting
		for _, c := range r.clients {
			if !c.waiting() {
				continue
			}
			s := c.sock[i]
			for s.fill(0) {
			}
			for reply, ok := s.reply(); ok; reply, ok = s.reply() {
				c.got[i] = append(c.got[i], reply)
			}
			n := len(c.got[i])
			if s.eof || n >= len(c.asked) || n == len(c.asked)-1 && c.asked[n].quits() {
				continue
			}
			owed++
			last = c
			if !c.asked[n].mayWait() || c.half || expect != nil && n < expect(c) {
				blocked = false
			}
		}
		if owed == 0 {
			return nil
		}
		if blocked {
			stats, err := r.stats(i)
			if err != nil {
				return err
			}
			if diffStat(stats, "current-waiting") == fmt.Sprint(owed) && !r.more(i) {
				return nil
			}
			if owed == 1 {
				last.sock[i].fill(time.Millisecond)
			}
		} else if owed == 1 {
			last.sock[i].fill(time.Second)
		} else {
			time.Sleep(50 * time.Microsecond)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w to %s's %q in %v", errDiffSilent, last.name, last.asked[len(last.got[i])].line, diffPatience)
		}
	}
}

// more says whether anything has come from server i since it was looked for: a
// client may have been answered, and have begun to wait in a later reserve,
// before stats was.
func (r *diffRun) more(i int) (more bool) {
	for _, c := range r.clients {
		if c.waiting() && c.sock[i].fill(0) {
			more = true
		}
	}
	return more
}

// compare compares the replies that have come, client by client: first the one
// that acted, for it is what the others were given that it put or released.
func (r *diffRun) compare(at diffSpan) error {
	clients := make([]*diffClient, 0, len(r.clients))
	for _, c := range r.clients {
		if c == r.acts {
			clients = append([]*diffClient{c}, clients...)
		} else {
			clients = append(clients, c)
		}
	}
	for _, c := range clients {
		waited := len(c.asked)
		for len(c.asked) > 0 && (len(c.got[0]) > 0 || len(c.got[1]) > 0) {
			q := c.asked[0]
			for i := range c.got {
				if len(c.got[i]) == 0 {
					return &diffFound{fmt.Sprintf("%s's %q was answered by one server only:\n%-20s %q\n%-20s nothing",
						c.name, q.line, r.progs[1-i].name, c.got[1-i][0], r.progs[i].name)}
				}
			}
			a, b := c.got[0][0], c.got[1][0]
			c.asked, c.got[0], c.got[1] = c.asked[1:], c.got[0][1:], c.got[1][1:]
			if q.verb() == "stats" && r.asked != r.settled {
				// Asked while the test itself was asking: not to be told apart.
				a, b = diffMask(a, "cmd-stats"), diffMask(b, "cmd-stats")
			}
			if d := diffReplies(q.verb(), r.progs, [2]string{a, b}); d != "" {
				if r.model.ticks(q, at) {
					return fmt.Errorf("%w: it shows in the answer to %s", errDiffInconclusive, q.verb())
				}
				r.logf("%s< %s", c.name, diffShow(a))
				r.logf("%s< %s   <- the difference", c.name, diffShow(b))
				return &diffFound{fmt.Sprintf("%s's %q:\n%s", c.name, q.line, d)}
			}
			r.logf("%s< %s", c.name, diffShow(a))
			r.commands++
			r.model.learn(c, q, a, at)
		}
		if len(c.asked) == 0 || len(c.asked) != waited {
			c.waits, c.waited = diffSpan{}, 0
		}
		if len(c.asked) > 0 && !c.waits.set() {
			if arg, ok := strings.CutPrefix(c.asked[0].line, "reserve-with-timeout "); ok {
				n, _, _ := diffNumber(arg)
				c.waits = at.add(time.Duration(n) * time.Second)
			}
		}
		for i, s := range c.sock {
			if len(c.asked) == 0 && len(s.in) > 0 {
				return &diffFound{fmt.Sprintf("%s sent %s more than was asked for: %q", r.progs[i].name, c.name, s.in)}
			}
		}
	}
	return nil
}

// stats asks server i for its stats, on a connection of the test's own.
func (r *diffRun) stats(i int) (string, error) {
	s := r.servers[i].first
	r.asked[i]++
	if err := s.send([]byte("stats\r\n")); err != nil {
		return "", &diffFound{fmt.Sprintf("%s: asking for stats: %v", r.progs[i].name, err)}
	}
	reply, err := s.wait(diffPatience)
	if err != nil {
		return "", &diffFound{fmt.Sprintf("%s: asking for stats: %v", r.progs[i].name, err)}
	}
	return reply, nil
}

// diffStat is the value of key in a YAML reply.
func diffStat(yaml, key string) string {
	_, after, _ := strings.Cut(yaml, "\n"+key+": ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// diffMask replaces the value of key in a YAML reply.
func diffMask(yaml, key string) string {
	value := diffStat(yaml, key)
	return strings.Replace(yaml, "\n"+key+": "+value+"\n", "\n"+key+": *\n", 1)
}

// agree waits until both servers' stats are the same and say want of key. A TTR
// that the reference has overlooked (see nudge) may keep them apart, but must
// not have been overlooked by sheafd.
func (r *diffRun) agree(key, want string) error {
	start := time.Now()
	timeouts := ""   // of the second server, when the clients were nudged
	var early string // what differs once it should not; later, deadlines will have come
	for ; ; time.Sleep(200 * time.Microsecond) {
		var got [2]string
		for i := range got {
			var err error
			if got[i], err = r.stats(i); err != nil {
				return err
			}
		}
		if r.waiting() == 0 {
			r.settled = r.asked
		}
		d := diffReplies("stats", r.progs, got)
		if now := diffStat(got[1], "job-timeouts"); timeouts != "" && timeouts != now {
			return &diffFound{fmt.Sprintf("%s overlooked a TTR: job-timeouts: %s, then %s", r.progs[1].name, timeouts, now)}
		}
		if d == "" && diffStat(got[0], key) == want {
			return nil
		}
		if d == "" {
			d = fmt.Sprintf("both say %s: %s, want %s", key, diffStat(got[0], key), want)
		}
		if early == "" && time.Since(start) > 300*time.Millisecond {
			early = d
			timeouts = diffStat(got[1], "job-timeouts")
			if err := r.nudge(r.clients, start); err != nil {
				return err
			}
		}
		if time.Since(start) > diffPatience {
			return &diffFound{fmt.Sprintf("stats do not come to be the same:\n%s", early)}
		}
	}
}
