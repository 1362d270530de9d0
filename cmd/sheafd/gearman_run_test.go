package main_test

// One random run of the Gearman differential test: each step is sent to both
// servers, all that it brings about is awaited, and the two are compared.
//
// How both are known to be done: whoever has sent something sends an ECHO_REQ
// behind it and waits for the answer. Then so do all others. The reference does
// everything in one thread and in order, so that whatever the step made it say
// has come before. sheafd answers its requests before the echo, too, but NOOP and
// what is said of jobs come by another way. So where it has said less than the
// reference, it has time to say the rest.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// gdiffPatience is how long a server may take for anything before that is a
// failure. Nothing ever takes so long.
const gdiffPatience = 30 * time.Second

// A gdiffClient is a connection to both servers.
type gdiffClient struct {
	name string // and the beginning of its SET_CLIENT_ID
	conn [2]*gdiffConn
	got  [2]map[string][]gdiffItem // what has come and has not been compared, by lane

	can    []string    // the latest first
	held   []*gdiffJob // the latest first
	asleep bool        // PRE_SLEEP was said, and nothing asked for since
	woken  bool        // NOOP came, and nothing was asked for since
}

// A gdiffPlan is a request with the answer that the reference is expected to
// give: none, one, or, for an admin line, any.
type gdiffPlan struct {
	gdiffRequest
	want string
}

// A gdiffRun is the state of one run.
type gdiffRun struct {
	progs   [2]gdiffProgram
	seed    uint64
	rng     *rand.Rand
	servers [2]*gdiffServer
	admin   *gdiffClient // the test's own
	clients []*gdiffClient
	model   *gdiffModel
	mood    gdiffMood
	names   int
	fresh   int // jobs from this serial on have no handles yet
	echoes  int
	done    int // requests that were compared
	log     []string
}

func (r *gdiffRun) logf(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// gdiffRandom does one run of so many requests, or fewer if the time is over.
func gdiffRandom(progs [2]gdiffProgram, seed uint64, requests int, limit time.Duration) (r *gdiffRun, err error) {
	r = &gdiffRun{
		progs: progs, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		model: newGdiffModel(), mood: gdiffMoods[seed%uint64(len(gdiffMoods))],
	}
	for i := range r.servers {
		if r.servers[i], err = gdiffStart(progs[i]); err != nil {
			return r, err
		}
		defer r.servers[i].kill()
	}
	if err := r.all(requests, limit); err != nil {
		for i, s := range r.servers {
			if len(s.exited) > 0 {
				err = fmt.Errorf("%w\n%s has ended:\n%s", err, r.progs[i].name, s.output.String())
			}
		}
		return r, err
	}
	for _, s := range r.servers {
		if err := s.stop(); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *gdiffRun) all(requests int, limit time.Duration) (err error) {
	start := time.Now()
	if r.admin, err = r.dial("admin"); err != nil {
		return err
	}
	for range 3 {
		if err := r.connect(); err != nil {
			return err
		}
	}
	if err := r.agree(); err != nil { // those that were there to find the servers ready are gone
		return err
	}
	for r.done < requests && time.Since(start) < limit {
		if err := r.step(); err != nil {
			return err
		}
	}
	return r.finish()
}

// dial makes a client and tells both servers its name.
func (r *gdiffRun) dial(name string) (*gdiffClient, error) {
	c := &gdiffClient{name: name}
	for i, s := range r.servers {
		var err error
		if c.conn[i], err = gdiffDial(s.addr); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		c.got[i] = map[string][]gdiffItem{}
	}
	r.logf("%s connects", c.name)
	return c, r.send(c, gdiffPlan{gdiffRequest: gdiffAsk("SET_CLIENT_ID", name)})
}

// connect has one more client.
func (r *gdiffRun) connect() error {
	c, err := r.dial(fmt.Sprintf("c%d", r.names))
	r.names++
	r.clients = append(r.clients, c)
	if err == nil && r.chance(2) {
		err = r.send(c, gdiffOne("OPTION_RES exceptions", "OPTION_REQ", "exceptions")...)
	}
	return err
}

// everyone is all clients, c first.
func (r *gdiffRun) everyone(c *gdiffClient) []*gdiffClient {
	all := []*gdiffClient{c}
	for _, o := range append(r.clients, r.admin) {
		if o != nil && o != c {
			all = append(all, o)
		}
	}
	return all
}

// send sends requests of c to both servers, in one write, and compares all that
// they bring about.
func (r *gdiffRun) send(c *gdiffClient, plans ...gdiffPlan) error {
	for i, s := range r.servers {
		var b []byte
		for _, p := range plans {
			b = append(b, p.bytes(s.handles)...)
		}
		if err := c.conn[i].send(b); err != nil {
			return fmt.Errorf("%s: sending for %s: %w", s.name, c.name, err)
		}
	}
	for _, p := range plans {
		r.logf("%s> %s", c.name, p)
	}
	if err := r.settle(c); err != nil {
		return err
	}
	for _, p := range plans {
		if err := r.answer(c, p); err != nil {
			return fmt.Errorf("%s> %s\n%w", c.name, p, err)
		}
		r.done++
	}
	return r.compare(c)
}

// settle waits for both servers to have done what c has sent, and then for what
// that has made them say to others.
func (r *gdiffRun) settle(c *gdiffClient) error {
	all := r.everyone(c)
	if err := r.echo(all[:1]); err != nil {
		return err
	}
	return r.echo(all[1:])
}

// echo waits until all that both servers have said so far to these clients has
// come.
func (r *gdiffRun) echo(clients []*gdiffClient) error {
	r.echoes++
	echo := fmt.Sprintf("echo %d", r.echoes)
	for i, s := range r.servers {
		for _, o := range clients {
			if err := o.conn[i].send(gearAppend(nil, gearEchoReq, echo)); err != nil {
				return fmt.Errorf("%s: sending for %s: %w", s.name, o.name, err)
			}
		}
	}
	for i, s := range r.servers {
		for _, o := range clients {
			for end := time.Now().Add(gdiffPatience); ; {
				item, err := o.conn[i].next(end)
				if err != nil {
					return fmt.Errorf("%s: %s, waiting for an echo: %w", s.name, o.name, err)
				}
				if item.typ == gearEchoRes && item.args[0] == echo {
					break
				}
				r.keep(o, i, item)
			}
		}
	}
	return nil
}

// keep keeps what has come until it is compared.
func (r *gdiffRun) keep(c *gdiffClient, side int, item gdiffItem) {
	item = gdiffClear(r.servers[side].handles.said(item), r.progs[side])
	lane := item.lane()
	c.got[side][lane] = append(c.got[side][lane], item)
}

// answer compares the answers to a request.
func (r *gdiffRun) answer(c *gdiffClient, p gdiffPlan) error {
	if p.typ == 0 {
		return r.answerLine(c, p)
	}
	if p.want == "" {
		return nil
	}
	var said [2]gdiffItem
	for i, s := range r.servers {
		lane := c.got[i][""]
		if len(lane) == 0 {
			return fmt.Errorf("%s does not answer", s.name)
		}
		item := s.handles.said(lane[0]) // a request before it may have made a name
		c.got[i][""] = lane[1:]
		if item.typ == gearJobCreated {
			// A new job's name is known now. (A handle with a name has it already.)
			_, name, _ := strings.Cut(p.want, " ")
			if _, named := s.handles.handles[name]; !named && !strings.HasPrefix(item.args[0], "#") {
				if err := s.handles.name(item.args[0], name); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				item.args = []string{name}
			}
		}
		said[i] = item
	}
	r.logf("%s< %v", c.name, said[0])
	if !said[0].is(said[1]) {
		return r.differ(said[0], said[1])
	}
	if want := gdiffItem(gdiffParse(p.want)); !said[0].is(want) {
		return fmt.Errorf("both say   %s\nthe test expects %s", said[0], want)
	}
	return nil
}

func (r *gdiffRun) differ(a, b any) error {
	return fmt.Errorf("%-18s %v\n%-18s %v", r.progs[0].name, a, r.progs[1].name, b)
}

// answerLine compares the answers to an admin line.
func (r *gdiffRun) answerLine(c *gdiffClient, p gdiffPlan) error {
	var said, normal [2][]string
	for i, s := range r.servers {
		for {
			lane := c.got[i][""]
			if len(lane) == 0 || lane[0].typ != 0 {
				return fmt.Errorf("%s does not answer: %q %v", s.name, said[i], lane)
			}
			c.got[i][""] = lane[1:]
			if l := lane[0].args[0]; p.table() && l == "." {
				break
			}
			said[i] = append(said[i], s.handles.said(lane[0]).args[0])
			if !p.table() {
				break
			}
		}
	}
	r.logf("%s< %q", c.name, said[0])
	for i, s := range r.servers {
		ghosts, err := r.ghosts(i, p.table() && p.args[0] != "workers")
		if err != nil {
			return err
		}
		if normal[i], err = r.model.gdiffNormal(p.args[0], said[i], ghosts, s.gdiffProgram); err != nil {
			return err
		}
	}
	if !slices.Equal(normal[0], normal[1]) {
		return fmt.Errorf("%w\nwithout the jobs that will never run:\n%w", r.differ(fmt.Sprintf("%q", said[0]), fmt.Sprintf("%q", said[1])),
			r.differ(fmt.Sprintf("%q", normal[0]), fmt.Sprintf("%q", normal[1])))
	}
	if p.want != "" && said[0][0] != p.want {
		return fmt.Errorf("both say   %q\nthe test expects %q", said[0], p.want)
	}
	return nil
}

// ghosts returns the jobs that a server keeps without need: those of the model
// that are there. Where they are asked for, this is when the model forgets what
// the reference has thrown away.
func (r *gdiffRun) ghosts(side int, ask bool) (ghosts []*gdiffJob, err error) {
	if !ask || !r.progs[side].reference || len(r.model.ghosts) == 0 {
		return nil, nil
	}
	lines, err := r.admin.conn[side].table("show jobs")
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		l = r.servers[side].handles.said(gdiffItem{args: []string{l}}).args[0]
		name, _, _ := strings.Cut(l, "\t")
		if j := r.model.ghosts[name]; j != nil {
			ghosts = append(ghosts, j)
		}
	}
	return ghosts, nil
}

// exorcise has the model forget the ghosts that are gone.
func (r *gdiffRun) exorcise() error {
	left := map[string]*gdiffJob{}
	for i := range r.servers {
		ghosts, err := r.ghosts(i, true)
		if err != nil {
			return err
		}
		for _, j := range ghosts {
			left[j.name] = j
		}
	}
	r.model.ghosts = left
	return nil
}

// compare compares what everybody has heard without an answer being due.
func (r *gdiffRun) compare(c *gdiffClient) error {
	for _, o := range r.everyone(c) {
		for i, s := range r.servers {
			if lane := o.got[i][""]; len(lane) > 0 {
				return fmt.Errorf("%s sends %s what nobody asked for: %v", s.name, o.name, lane)
			}
		}
		if err := r.compareLanes(o); err != nil {
			return fmt.Errorf("%s hears:\n%w", o.name, err)
		}
	}
	return nil
}

func (r *gdiffRun) compareLanes(o *gdiffClient) error {
	for end := time.Now().Add(gdiffPatience); ; {
		short := false
		for lane, want := range o.got[0] {
			got := o.got[1][lane]
			for k := range want {
				if k < len(got) && !got[k].is(want[k]) {
					return r.differ(want, got)
				}
			}
			short = short || len(got) < len(want)
		}
		for lane, got := range o.got[1] {
			if want := o.got[0][lane]; len(got) > len(want) {
				return r.differ(want, got)
			}
		}
		if !short {
			break
		}
		item, err := o.conn[1].next(end)
		if err != nil {
			return fmt.Errorf("%w\n%w", r.differ(o.got[0], o.got[1]), err)
		}
		r.keep(o, 1, item)
	}
	for lane, heard := range o.got[0] {
		for _, item := range heard {
			r.logf("%s< %s", o.name, item)
			o.woken = o.woken || lane == "NOOP"
		}
	}
	for i := range o.got {
		clear(o.got[i])
	}
	return nil
}

// leave has c go, and waits until both servers have noticed and made the same
// of it.
func (r *gdiffRun) leave(c *gdiffClient) error {
	r.logf("%s closes", c.name)
	for _, conn := range c.conn {
		conn.Close()
	}
	r.clients = slices.DeleteFunc(r.clients, func(o *gdiffClient) bool { return o == c })
	held := slices.Clone(c.held)
	r.model.leave(c)
	if err := r.agree(); err != nil {
		return err
	}
	// What it had has begun anew.
	var plans []gdiffPlan
	for _, j := range held {
		if r.model.ghosts[j.name] == nil {
			plans = append(plans, gdiffOne("STATUS_RES "+j.name+j.status(), "GET_STATUS", j.name)...)
		}
	}
	return r.send(r.admin, plans...)
}

// agree waits until both have as many connections as the test, and jobs running
// as the model says.
func (r *gdiffRun) agree() error {
	for i, s := range r.servers {
		why := ""
		for end := time.Now().Add(gdiffPatience); ; time.Sleep(200 * time.Microsecond) {
			workers, err := r.admin.conn[i].table("workers")
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			status, err := r.admin.conn[i].table("status")
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if why = r.disagree(workers, status, s.gdiffProgram); why == "" {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s, after %v it is not as it must be: %s", s.name, gdiffPatience, why)
			}
		}
	}
	return nil
}

// disagree says what of a server is not yet as the model has it.
func (r *gdiffRun) disagree(workers, status []string, p gdiffProgram) string {
	if want := len(r.clients) + 1; len(workers) != want {
		return fmt.Sprintf("it has %d connections, want %d: %q", len(workers), want, workers)
	}
	for _, l := range status {
		name, n, err := gdiffRow(l, 3)
		if err != nil {
			return err.Error()
		}
		able := 0
		for _, c := range r.clients {
			if slices.Contains(c.can, name) {
				able++
			}
		}
		total := r.model.count(name, func(*gdiffJob) bool { return true })
		running := r.model.count(name, (*gdiffJob).running)
		if n[1] != running || n[2] != able || n[0] != total && !p.reference {
			return fmt.Sprintf("%q, want %d jobs, %d running, %d workers", l, total, running, able)
		}
	}
	return ""
}

// report is the failure message.
func (r *gdiffRun) report(err error) string {
	log := r.log
	if n := *gdiffLast; n > 0 && len(log) > n {
		log = append([]string{fmt.Sprintf("… %d lines; -gearman.last 0 shows them", len(log)-n)}, log[len(log)-n:]...)
	}
	again := ""
	if _, shards, ok := strings.Cut(r.progs[1].name, "--shards "); ok {
		again = " -gearman.shards " + shards
	}
	return fmt.Sprintf("%v\nafter\n\t%s\nagain: go test ./cmd/sheafd -run TestGearmanDifferential/random -gearman.seed %d%s",
		err, strings.Join(log, "\n\t"), r.seed, again)
}
