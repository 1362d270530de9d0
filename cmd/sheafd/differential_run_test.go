package main_test

// One run: a fresh pair of servers and one seed. Each step is sent to both,
// all that it brings about is awaited on both, and the answers are compared.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// diffPatience is how long a server may take for anything before that is a
// difference.
const diffPatience = 10 * time.Second

// errDiffInconclusive ends a run in which the machine was too slow for the
// clock's guard.
var errDiffInconclusive = errors.New("inconclusive, for a deadline came at a bad moment")

// A diffFound is the first difference of a run.
type diffFound struct{ what string }

func (e *diffFound) Error() string { return e.what }

// A diffRun is the state of one run.
type diffRun struct {
	test     string // that it is part of
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
	commands int           // answered on both
	restarts int           // of both
	restAt   int           // commands after which time goes by next
	calm     time.Time     // all that has happened by itself until then is compared
	slow     time.Duration // how long steps take now
	draining bool
	log      []string
	names    int
}

func (r *diffRun) logf(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func newDiffRun(test string, progs [2]diffProgram, seed uint64) *diffRun {
	return &diffRun{
		test:  test,
		progs: progs,
		seed:  seed,
		rng:   rand.New(rand.NewPCG(seed, 0)),
		model: newDiffModel(),
		mood:  diffMoods[seed%uint64(len(diffMoods))],
		calm:  time.Now(),
	}
}

// diffRandom does one run: steps until commands of them are answered or the
// time is over. The transcript is for the failure message.
func diffRandom(progs [2]diffProgram, seed uint64, commands int, limit time.Duration) (r *diffRun, err error) {
	r = newDiffRun("TestDifferential/random", progs, seed)
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

// scatters says whether c's leaving would put back jobs of several tubes of those
// on which one other client waits.
func (r *diffRun) scatters(c *diffClient) bool {
	held := r.model.held(c)
	for _, o := range r.clients {
		if o == c || !o.waiting() {
			continue
		}
		n := 0
		for tube := range o.mayWatch(nil) {
			if held[tube] {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
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

// leaver returns one of those clients who can leave, nil if there is none: the
// one who waits and has sent more (see queued), or one who does not release that
// one by leaving.
func (r *diffRun) leaver(those func(*diffClient) bool) (c *diffClient) {
	q := r.queued(nil)
	for _, o := range r.clients {
		switch {
		case !those(o) || r.scatters(o):
		case o == q:
			return o
		case c == nil && (q == nil || !r.model.feeds(o, q)):
			c = o
		}
	}
	return c
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
	var phases diffDeadlines
	now := time.Now()
	for _, q := range requests {
		for _, s := range r.model.phases(q) {
			phases = append(phases, s.phase(now))
		}
	}
	return r.guarded(phases, func(lo time.Time) error {
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
		if c.half || slices.ContainsFunc(requests, diffRequest.quits) {
			return r.ended(c, lo)
		}
		return r.settle(lo)
	})
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

// gone closes c's connections on this side, waits until both servers have
// done so too, and forgets c. That happened after lo.
func (r *diffRun) gone(c *diffClient, lo time.Time) error {
	r.acts = c
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
	return r.guarded(nil, func(lo time.Time) error {
		if len(c.asked) > 1 {
			c.half = true
			for _, s := range c.sock {
				s.halfClose()
			}
			return r.ended(c, lo)
		}
		c.asked = nil
		return r.gone(c, lo)
	})
}

// drain sends both servers into drain mode.
func (r *diffRun) drain() error {
	if err := r.wakeful(nil); err != nil {
		return err
	}
	return r.guarded(nil, func(time.Time) error {
		r.logf("SIGUSR1")
		r.draining = true
		for _, s := range r.servers {
			if err := s.drain(); err != nil {
				return err
			}
		}
		return r.agree("draining", "true")
	})
}

// leaveAll closes all clients.
func (r *diffRun) leaveAll() error {
	for len(r.clients) > 0 {
		if err := r.wakeful(nil); err != nil {
			return err
		}
		if len(r.clients) > 0 {
			c := r.leaver(func(*diffClient) bool { return true })
			if c == nil {
				return fmt.Errorf("%w: nobody can leave", errDiffInconclusive)
			}
			if err := r.leave(c, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish closes all clients and compares everything that can be asked for,
// then deletes all jobs and compares again.
func (r *diffRun) finish() error {
	if err := r.leaveAll(); err != nil {
		return err
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
	fmt.Fprintf(&b, "again: go test ./cmd/sheafd -run %s -diff.seed %d", r.test, r.seed)
	if _, n, ok := strings.Cut(r.progs[1].name, "--shards "); ok && r.restarts == 0 {
		fmt.Fprintf(&b, " -diff.shards %s", strings.Fields(n)[0])
	}
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
