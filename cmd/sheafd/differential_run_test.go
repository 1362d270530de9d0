package main_test

// One run: a fresh pair of servers and one seed. Each step is sent to both,
// all that it brings about is awaited on both, and the answers are compared.
//
// How a run knows that a server is done with a step: it knows how many replies
// there must be (see diffFramer). Where a client is owed one to a reserve, it
// asks the server on a connection of its own: done is when as many clients wait
// (current-waiting) as are owed a reply. The reference is asked first; sheafd
// must then come to give the same number of replies to each client.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// diffPatience is how long a server may take for anything before that is a
// difference.
const diffPatience = 10 * time.Second

// errDiffInconclusive ends a run in which the machine was too slow for the
// clock's guard.
var errDiffInconclusive = errors.New("inconclusive: a deadline came while a command was under way")

// A diffFound is the first difference of a run.
type diffFound struct{ what string }

func (e *diffFound) Error() string { return e.what }

// A diffRun is the state of one run.
type diffRun struct {
	progs    [2]diffProgram
	seed     uint64
	rng      *rand.Rand
	servers  [2]*diffServer
	asked    [2]int // stats asked on the servers' first connections
	settled  [2]int // as asked was when all was settled last
	model    *diffModel
	acts     *diffClient // who sent last
	clients  []*diffClient
	mood     diffMood
	commands int // answered on both
	restAt   int // commands after which time goes by next
	draining bool
	log      []string
	names    int
}

func (r *diffRun) logf(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// diffRandom does one run: steps until commands of them are answered or the
// time is over. The transcript is for the failure message.
func diffRandom(progs [2]diffProgram, seed uint64, commands int, limit time.Duration) (r *diffRun, err error) {
	r = &diffRun{
		progs: progs,
		seed:  seed,
		rng:   rand.New(rand.NewPCG(seed, 0)),
		model: newDiffModel(),
		mood:  diffMoods[seed%uint64(len(diffMoods))],
	}
	for i := range r.servers {
		if r.servers[i], err = diffStart(progs[i]); err != nil {
			return r, err
		}
		defer r.servers[i].kill()
	}
	if err := r.all(commands, limit); err != nil {
		return r, err
	}
	for _, s := range r.servers {
		if err := s.stop(); err != nil {
			return r, &diffFound{err.Error()}
		}
	}
	return r, nil
}

func (r *diffRun) all(commands int, limit time.Duration) error {
	start := time.Now()
	if err := r.agree("current-connections", "1"); err != nil {
		return err
	}
	for range 4 {
		if err := r.connect(); err != nil {
			return err
		}
	}
	// The last part of some runs is in drain mode.
	drain := commands * 9 / 10
	if r.rng.IntN(3) > 0 {
		drain = commands + 1
	}
	for r.commands < commands && time.Since(start) < limit {
		if r.commands >= drain && !r.draining {
			if err := r.drain(); err != nil {
				return err
			}
		}
		if err := r.step(); err != nil {
			return err
		}
	}
	return r.finish()
}

// connect opens a new client on both servers.
func (r *diffRun) connect() error {
	c := &diffClient{name: string(rune('A' + r.names%26)), used: "default", watch: []string{"default"}}
	if r.names >= 26 {
		c.name += fmt.Sprint(r.names / 26)
	}
	r.names++
	for i, s := range r.servers {
		var err error
		if c.sock[i], err = diffDial(s.path()); err != nil {
			return &diffFound{fmt.Sprintf("%s: %v", s.name, err)}
		}
	}
	r.clients = append(r.clients, c)
	r.logf("%s connects", c.name)
	// Its first answer says that both have accepted it.
	return r.send(c, diffHello(r.rng))
}

// wakeful waits until nothing is about to happen by itself, and what was has
// been compared. requests are those about to be sent.
func (r *diffRun) wakeful(requests []diffRequest) error {
	var from time.Time // of the first deadline that was waited for
	for tries := 0; ; tries++ {
		if err := r.uncrowd(); err != nil {
			return err
		}
		now := time.Now()
		l := r.model.deadlines(r.clients, now, now.Add(2*time.Second))
		if s, ok := l.within(now, now, diffGuard); ok {
			if from.IsZero() {
				from = s.lo
			}
			time.Sleep(s.clear(now) + time.Millisecond)
			continue
		}
		late := r.model.expire(now.Add(-diffGuard))
		if !from.IsZero() || len(late) > 0 {
			if from.IsZero() {
				from = now.Add(-diffGuard)
			}
			for _, c := range late {
				if err := r.nudge(c, from); err != nil {
					return err
				}
			}
			if err := r.settle(from); err != nil {
				return err
			}
			from = time.Time{}
			continue
		}
		var d time.Duration
		for _, q := range requests {
			for _, s := range r.model.phases(q) {
				d = max(d, s.phase(now).clear(now))
			}
		}
		if d == 0 {
			return nil
		}
		if tries > 50 {
			return errDiffInconclusive
		}
		time.Sleep(d)
	}
}

// nudge has c, whose job's TTR has just run out, send a command. The reference
// overlooks a TTR when it looks in the very microsecond in which it ends, which
// it often does, since it spins through the last millisecond; it looks again
// after the client's next command. All happened after from.
func (r *diffRun) nudge(c *diffClient, from time.Time) error {
	if c.waiting() || c.sock[0].fd < 0 {
		return nil
	}
	const line = "list-tube-used"
	r.logf("%s> %s", c.name, line)
	c.asked = append(c.asked, diffRequest{line: line})
	for _, s := range c.sock {
		if err := s.send([]byte(line + "\r\n")); err != nil {
			return &diffFound{fmt.Sprintf("sending: %v", err)}
		}
	}
	return r.settle(from)
}

// uncrowd hangs up waiting clients before several deadlines come at once.
func (r *diffRun) uncrowd() error {
	if r.waiting() == 0 {
		return nil
	}
	now := time.Now()
	l := r.model.deadlines(r.clients, now, now.Add(2*time.Second))
	s, ok := l.crowd(now, now.Add(600*time.Millisecond))
	if !ok {
		return nil
	}
	if s.near(now, now, diffGuard/2) {
		return errDiffInconclusive
	}
	c := r.queued(nil)
	for _, o := range r.clients {
		if c == nil && o.waiting() && !r.scatters(o) {
			c = o
		}
	}
	if c == nil || r.scatters(c) {
		return errDiffInconclusive
	}
	r.logf("%s closes, for deadlines are crowded", c.name)
	if err := r.hangUp(c); err != nil {
		return err
	}
	return r.uncrowd()
}

// scatters says whether c's leaving would put back jobs of several tubes while
// another client waits.
func (r *diffRun) scatters(c *diffClient) bool {
	tubes := map[string]bool{}
	for _, j := range r.model.jobs {
		if j.holder == c {
			tubes[j.tube] = true
		}
	}
	return len(tubes) > 1 && slices.ContainsFunc(r.clients, func(o *diffClient) bool { return o != c && o.waiting() })
}

// queued returns a client other than c that waits and has sent more behind
// its reserve. What that does will race with whatever follows what ends the
// wait.
func (r *diffRun) queued(c *diffClient) *diffClient {
	for _, o := range r.clients {
		if o != c && len(o.asked) > 1 {
			return o
		}
	}
	return nil
}

// rest lets d go by, one deadline after the other.
func (r *diffRun) rest(d time.Duration) error {
	r.logf("%v go by", d)
	end := time.Now().Add(d)
	for {
		if err := r.wakeful(nil); err != nil {
			return err
		}
		now := time.Now()
		left := end.Sub(now)
		if left <= 0 {
			return nil
		}
		// Short enough not to miss a crowd, which is looked for 600 ms ahead.
		nap := min(left, 200*time.Millisecond)
		for _, s := range r.model.deadlines(r.clients, now, now.Add(time.Second)) {
			if s.lo.After(now.Add(diffGuard)) {
				nap = min(nap, s.lo.Sub(now)-diffGuard/2)
				break
			}
		}
		time.Sleep(nap)
	}
}

// send sends segments on c's connections, each when the one before has been
// read, and compares all that follows.
func (r *diffRun) send(c *diffClient, segments ...string) error {
	return r.sendWith(c, false, segments)
}

// sendWith is send; with half, the sending side is shut down behind it.
func (r *diffRun) sendWith(c *diffClient, half bool, segments []string) error {
	requests := c.frame.clone().feed([]byte(strings.Join(segments, "")))
	if err := r.wakeful(requests); err != nil {
		return err
	}
	if c.sock[0].fd < 0 {
		return nil // hung up while the clock was waited for
	}
	lo := time.Now()
	due := r.model.deadlines(r.clients, lo, lo.Add(diffPatience+2*time.Second))
	var phases diffDeadlines
	for _, q := range requests {
		for _, s := range r.model.phases(q) {
			phases = append(phases, s.phase(lo))
		}
	}
	busy := c.waiting()
	r.logf("%s> %s", c.name, diffShow(strings.Join(segments, "¦")))
	if half {
		r.logf("%s closes its sending side", c.name)
	}
	r.acts = c
	c.asked = append(c.asked, requests...)
	c.frame.feed([]byte(strings.Join(segments, "")))
	for i, seg := range segments {
		for _, s := range c.sock {
			if err := s.send([]byte(seg)); err != nil && !c.frame.quit {
				return &diffFound{fmt.Sprintf("sending: %v", err)}
			}
		}
		if i+1 < len(segments) && !busy {
			for _, s := range c.sock {
				s.drained(20 * time.Millisecond)
			}
		}
	}
	if half {
		c.half = true
		for _, s := range c.sock {
			s.halfClose()
		}
	}
	var err error
	if c.half || slices.ContainsFunc(requests, diffRequest.quits) {
		err = r.ended(c, lo)
	} else {
		err = r.settle(lo)
	}
	hi := time.Now()
	if _, ok := append(due, phases...).within(lo, hi, diffGuard/8); ok {
		return errDiffInconclusive
	}
	return err
}

// waiting is how many clients are owed a reply.
func (r *diffRun) waiting() (n int) {
	for _, c := range r.clients {
		if c.waiting() {
			n++
		}
	}
	return n
}

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
			for _, c := range r.clients {
				if err := r.nudge(c, start); err != nil {
					return err
				}
			}
		}
		if time.Since(start) > diffPatience {
			return &diffFound{fmt.Sprintf("stats do not come to be the same:\n%s", early)}
		}
	}
}

// gone closes c's connections on this side, waits until both servers have
// done so too, and forgets c. That happened after lo.
func (r *diffRun) gone(c *diffClient, lo time.Time) error {
	for _, s := range c.sock {
		s.close()
	}
	if err := r.agree("current-connections", fmt.Sprint(len(r.clients))); err != nil { // c is one of them, the test's own is not
		return err
	}
	// c's last replies; and what it held may have gone to clients that wait.
	if err := r.settle(lo); err != nil {
		return err
	}
	for i, s := range c.sock {
		if len(s.in) > 0 {
			return &diffFound{fmt.Sprintf("%s sent %s more than was asked for: %q", r.progs[i].name, c.name, s.in)}
		}
	}
	r.clients = slices.DeleteFunc(r.clients, func(o *diffClient) bool { return o == c })
	c.asked = nil
	r.model.hangUp(c)
	return nil
}

// ended waits for both servers to answer what c has sent and to close its
// connection.
func (r *diffRun) ended(c *diffClient, lo time.Time) error {
	for i, s := range c.sock {
		if !s.ended(diffPatience) {
			return &diffFound{fmt.Sprintf("%s does not close %s's connection", r.progs[i].name, c.name)}
		}
		for reply, ok := s.reply(); ok; reply, ok = s.reply() {
			c.got[i] = append(c.got[i], reply)
		}
	}
	r.logf("%s is closed by both", c.name)
	return r.gone(c, lo)
}

// hangUp closes c's connections: their sending sides only, where c has sent
// more behind a reserve that waits.
func (r *diffRun) hangUp(c *diffClient) error {
	lo := time.Now()
	if len(c.asked) > 1 {
		c.half = true
		for _, s := range c.sock {
			s.halfClose()
		}
		return r.ended(c, lo)
	}
	c.asked = nil
	return r.gone(c, lo)
}

// drain sends both servers into drain mode.
func (r *diffRun) drain() error {
	if err := r.wakeful(nil); err != nil {
		return err
	}
	r.logf("SIGUSR1")
	r.draining = true
	for _, s := range r.servers {
		if err := s.signal(syscall.SIGUSR1); err != nil {
			return err
		}
	}
	return r.agree("draining", "true")
}

// finish compares everything that can be asked for, then closes all clients
// and compares again.
func (r *diffRun) finish() error {
	for len(r.clients) > 0 {
		if err := r.wakeful(nil); err != nil {
			return err
		}
		if len(r.clients) > 0 {
			c := r.queued(nil) // or it would race with what it is given
			for _, o := range r.clients {
				if c == nil && !r.scatters(o) {
					c = o
				}
			}
			if c == nil {
				return errDiffInconclusive
			}
			if err := r.leave(c, ""); err != nil {
				return err
			}
		}
	}
	if err := r.connect(); err != nil {
		return err
	}
	c := r.clients[0]
	for _, q := range []string{"stats", "list-tubes", "stats-tube default", "stats-tube a", "stats-tube b", "stats-tube c"} {
		if err := r.send(c, q+"\r\n"); err != nil {
			return err
		}
	}
	for _, j := range append([]*diffJob(nil), r.model.jobs...) {
		if err := r.send(c, fmt.Sprintf("stats-job %d\r\npeek %d\r\n", j.id, j.id)); err != nil {
			return err
		}
	}
	for range len(r.model.jobs) {
		if err := r.send(c, fmt.Sprintf("delete %d\r\n", r.model.jobs[0].id)); err != nil {
			return err
		}
		if len(r.model.jobs) == 0 {
			break
		}
	}
	return r.send(c, "stats\r\nlist-tubes\r\n")
}

// report is what a failure says: how to get there again, the first difference,
// and what led to it.
func (r *diffRun) report(err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", err)
	fmt.Fprintf(&b, "after %d commands of seed %d (%s), %s against %s\n", r.commands, r.seed, r.mood.name, r.progs[0].name, r.progs[1].name)
	shards := "1"
	if _, n, ok := strings.Cut(r.progs[1].name, "--shards "); ok {
		shards = n
	}
	fmt.Fprintf(&b, "again: go test ./cmd/sheafd -run TestDifferential/random -diff.seed %d -diff.shards %s", r.seed, shards)
	if os.Getenv("SHEAF_DIFF_SELF") == "1" {
		b.WriteString(" (with SHEAF_DIFF_SELF=1)")
	}
	fmt.Fprintf(&b, "\nthe last of it (¦ is where a segment ends):\n")
	log := r.log
	if *diffLast > 0 && len(log) > *diffLast {
		log = log[len(log)-*diffLast:]
	}
	for _, line := range log {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	if r.servers[1] != nil {
		if out := r.servers[1].output.String(); out != "" {
			fmt.Fprintf(&b, "%s printed:\n%s", r.progs[1].name, out)
		}
	}
	return b.String()
}

// diffShow is s for a transcript: quoted, on one line, and not too long.
func diffShow(s string) string {
	q := fmt.Sprintf("%q", s)
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	if len(q) > 400 {
		q = q[:300] + fmt.Sprintf(" … (%d bytes) … ", len(s)) + q[len(q)-60:]
	}
	return q
}
