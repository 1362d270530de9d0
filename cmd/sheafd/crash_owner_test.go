package main_test

// Owners: connections that each have tubes of their own and change them in deep
// pipelines. Nobody else touches these, no delay and no TTR runs out in them,
// so every answer is known before it comes; and after a crash all of the
// owner's tubes together are as after the answered commands and some of those
// in flight: the first k of them, for one k.

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A crashModel is what an owner's tubes hold.
type crashModel struct {
	jobs   []*crashJob // by order
	state  map[*crashJob]crashState
	paused map[string]bool
	buries uint64 // the last buriedAt
}

func (m *crashModel) clone() *crashModel {
	return &crashModel{slices.Clone(m.jobs), maps.Clone(m.state), maps.Clone(m.paused), m.buries}
}

// apply does what a command does at that time and returns its answer. The id
// of a job that is not known is missing from it.
func (m *crashModel) apply(c *crashCommand, at diffSpan) (answer string) {
	j := c.job
	s, there := m.state[j]
	if c.op == crashReserve {
		if j, there = m.best(), true; j == nil {
			return "TIMED_OUT"
		}
		s = m.state[j]
	}
	delay := func() {
		if s.place, s.delay = crashReady, c.delay; c.delay > 0 {
			s.place, s.due = crashDelayed, at.add(time.Duration(c.delay)*time.Second)
		}
	}
	held := there && s.place == crashReserved
	switch c.op {
	case crashUse:
		return "USING " + c.tube
	case crashPause:
		m.paused[c.tube] = c.delay > 0
		return "PAUSED"
	case crashKick:
		return fmt.Sprintf("KICKED %d", m.kick(c.tube, c.n))
	case crashPut:
		m.jobs = append(m.jobs, j)
		j.born = at
		s.pri = c.pri
		delay()
		answer = "INSERTED"
	case crashReserve, crashReserveJob:
		if !there || c.op == crashReserveJob && held {
			return "NOT_FOUND"
		}
		s.place = crashReserved
		s.reserves++
		if answer = "RESERVED"; j.id != 0 {
			answer = fmt.Sprintf("RESERVED %d %d", j.id, j.size)
		}
	case crashDelete:
		if !there {
			return "NOT_FOUND"
		}
		m.remove(j)
		return "DELETED"
	case crashKickJob:
		if s.place != crashBuried && s.place != crashDelayed {
			return "NOT_FOUND"
		}
		s.place = crashReady
		s.kicks++
		answer = "KICKED"
	default:
		if !held {
			return "NOT_FOUND"
		}
		switch c.op {
		case crashTouch:
			answer = "TOUCHED"
		case crashRelease:
			s.pri = c.pri
			s.releases++
			delay()
			answer = "RELEASED"
		case crashBury:
			m.buries++
			s.pri, s.place, s.buriedAt = c.pri, crashBuried, m.buries
			s.buries++
			answer = "BURIED"
		}
	}
	m.state[j] = s
	return answer
}

func (m *crashModel) remove(j *crashJob) {
	delete(m.state, j)
	m.jobs = slices.DeleteFunc(m.jobs, func(o *crashJob) bool { return o == j })
}

// best returns the job that a reserve gets, nil if there is none.
func (m *crashModel) best() (best *crashJob) {
	for _, j := range m.jobs {
		s := m.state[j]
		if s.place == crashReady && !m.paused[j.tube] && (best == nil || s.pri < m.state[best].pri) {
			best = j
		}
	}
	return best
}

// kick kicks up to n buried jobs of a tube, or if there is none, n delayed
// ones.
func (m *crashModel) kick(tube string, n int) (kicked int) {
	list := m.buried(tube)
	if len(list) == 0 {
		list = m.in(tube, crashDelayed)
		slices.SortStableFunc(list, func(a, b *crashJob) int { return m.state[a].due.lo.Compare(m.state[b].due.lo) })
	}
	for _, j := range list[:min(n, len(list))] {
		s := m.state[j]
		s.place = crashReady
		s.kicks++
		m.state[j] = s
		kicked++
	}
	return kicked
}

// in returns the jobs of a tube, any for "", in a place.
func (m *crashModel) in(tube string, places ...crashPlace) (list []*crashJob) {
	for _, j := range m.jobs {
		if (tube == "" || j.tube == tube) && slices.Contains(places, m.state[j].place) {
			list = append(list, j)
		}
	}
	return list
}

// buried returns the buried jobs of a tube in the order of burying.
func (m *crashModel) buried(tube string) []*crashJob {
	list := m.in(tube, crashBuried)
	slices.SortFunc(list, func(a, b *crashJob) int { return int(int64(m.state[a].buriedAt - m.state[b].buriedAt)) })
	return list
}

// A crashOwner is one owner.
type crashOwner struct {
	name   string
	tubes  []string
	orders *atomic.Uint64 // see crashJob.order
	model  *crashModel    // as of the answered commands
	flying []*crashCommand
	sent   time.Time // when they were
}

func newCrashOwner(n int, orders *atomic.Uint64) *crashOwner {
	o := &crashOwner{name: fmt.Sprintf("owner %d", n), orders: orders}
	for i := range 2 {
		o.tubes = append(o.tubes, fmt.Sprintf("own-%d-%d", n, i))
	}
	o.model = &crashModel{state: make(map[*crashJob]crashState)}
	return o
}

// connect begins a round, or goes on after a disconnect once the server has
// seen that: then what was held is ready again.
func (o *crashOwner) connect(r *crashRound) (*crashConn, error) {
	c, err := r.dial()
	if err != nil {
		return nil, err
	}
	for i, tube := range o.tubes {
		if err := c.says(fmt.Sprintf("WATCHING %d", i+2), "watch %s", tube); err != nil {
			return nil, err
		}
		if err := c.says("PAUSED", "pause-tube %s 0", tube); err != nil {
			return nil, err
		}
		for {
			stats, err := c.stats("stats-tube " + tube)
			if err != nil {
				return nil, err
			}
			if stats["current-jobs-reserved"] == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := c.says("WATCHING 2", "ignore default"); err != nil {
		return nil, err
	}
	for _, j := range o.model.in("", crashReserved) {
		s := o.model.state[j]
		s.place = crashReady
		o.model.state[j] = s
	}
	o.model.paused = make(map[string]bool)
	return c, nil
}

// run is the owner's load. It ends when the server does.
func (o *crashOwner) run(r *crashRound, random *rand.Rand) error {
	c, err := o.connect(r)
	for err == nil {
		o.flying, o.sent = o.batch(random), time.Now()
		var ok bool
		ok, err = r.exchange(c, &o.flying, func(c *crashCommand, line string, body []byte) error {
			return o.answered(r, c, line, body)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		} else if !ok {
			return nil
		}
		// Only what is still to be asked for is gone with a connection.
		if random.IntN(40) == 0 {
			c.Close()
			c, err = o.connect(r)
		}
	}
	return r.over(err)
}

// answered takes an answer down, which must be the one expected.
func (o *crashOwner) answered(r *crashRound, c *crashCommand, line string, body []byte) error {
	j := c.job
	if c.op == crashReserve {
		j = o.model.best()
	}
	want := o.model.apply(c, diffSpan{o.sent, time.Now()})
	if c.op == crashPut {
		if _, err := fmt.Sscanf(line, "INSERTED %d", &j.id); err != nil {
			return fmt.Errorf("%s: answered %q", c.line(), line)
		}
		if err := r.given(j.id); err != nil {
			return err
		}
		want = fmt.Sprintf("INSERTED %d", j.id)
	}
	if j != nil {
		j.note("%s: %s -> %s", o.name, c.line(), line)
	}
	if line != want {
		for _, o := range o.model.jobs {
			if strings.HasPrefix(line, fmt.Sprintf("RESERVED %d ", o.id)) {
				j = o // more is to be learned from what it got
			}
		}
		return fmt.Errorf("%s: answered %q, want %q%s", c.line(), line, want, crashPast(j))
	}
	if strings.HasPrefix(line, "RESERVED") && string(body) != string(j.body()) {
		return fmt.Errorf("%s: answered %q with a wrong body%s", c.line(), line, crashPast(j))
	}
	return nil
}

// batch draws the commands to be sent next.
func (o *crashOwner) batch(random *rand.Rand) (batch []*crashCommand) {
	depth := 1
	switch random.IntN(5) {
	case 0, 1:
		depth = 2 + random.IntN(8)
	case 2:
		depth = 10 + random.IntN(50)
	}
	future := o.model.clone()
	now := time.Now()
	for len(batch) < depth {
		for _, c := range o.draw(random, future) {
			future.apply(c, diffSpan{now, now})
			batch = append(batch, c)
		}
	}
	return batch
}

// draw draws a command that makes sense, mostly, with m as it will be then; and
// a use before it if it needs one.
func (o *crashOwner) draw(random *rand.Rand, m *crashModel) []*crashCommand {
	tube := o.tubes[random.IntN(len(o.tubes))]
	c := &crashCommand{tube: tube, pri: crashPri(random)}
	// pick draws a job in one of those places; only one whose id is known.
	pick := func(places ...crashPlace) bool {
		list := slices.DeleteFunc(m.in("", places...), func(j *crashJob) bool { return j.id == 0 })
		if len(list) > 0 {
			c.job = list[random.IntN(len(list))]
		}
		return c.job != nil
	}
	many := len(m.jobs) > 120
	for {
		switch n := random.IntN(100); {
		case n < 25 && !many:
			c.op = crashPut
			c.job = &crashJob{order: o.orders.Add(1), tube: tube, size: crashSize(random)}
			c.job.ttr = uint32(crashLong + c.job.order)
			if random.IntN(3) == 0 {
				c.delay = crashLongDelay(random)
			}
			return []*crashCommand{{op: crashUse, tube: tube}, c}
		case n < 25 && pick(crashReserved, crashReady):
			c.op = crashDelete
		case n < 45:
			c.op = crashReserve
			if m.best() != nil {
				c.n = random.IntN(4) - 1
			}
			return []*crashCommand{c}
		case n < 50 && pick(crashReady, crashDelayed, crashBuried, crashReserved):
			c.op = crashReserveJob
		case n < 60 && pick(crashReserved):
			c.op = crashRelease
			if random.IntN(3) == 0 {
				c.delay = crashLongDelay(random)
			}
		case n < 70 && pick(crashReserved):
			c.op = crashBury
		case n < 73 && pick(crashReserved):
			c.op = crashTouch
		case n < 82 && pick(crashReserved), n < 86 && pick(crashReady, crashDelayed, crashBuried, crashReserved):
			c.op = crashDelete
		case n < 90 && pick(crashBuried, crashDelayed):
			c.op = crashKickJob
		case n < 95:
			c.op = crashKick
			// Which of the delayed ones come first is not known to the
			// millisecond.
			if c.n = 1000; len(m.buried(tube)) > 0 {
				c.n = 1 + random.IntN(8)
			}
			return []*crashCommand{{op: crashUse, tube: tube}, c}
		case n < 96:
			c.op = crashPause
			if !m.paused[tube] {
				c.delay = 1000
			}
		default:
			continue
		}
		return []*crashCommand{c}
	}
}

// crashPri draws a priority: few values, so that ids matter, and the ends.
func crashPri(random *rand.Rand) uint32 {
	return []uint32{0, 1, 7, 1023, 1024, 100000, 1<<31 - 1, 1<<32 - 1}[random.IntN(8)]
}

// crashLongDelay draws a delay that does not end.
func crashLongDelay(random *rand.Rand) uint32 {
	if random.IntN(10) == 0 {
		return 1<<32 - 1 - uint32(random.IntN(100))
	}
	return crashLong + uint32(random.IntN(crashLong))
}

// crashSize draws the size of a body.
func crashSize(random *rand.Rand) int {
	switch n := random.IntN(100); {
	case n < 10:
		return random.IntN(crashMinTag)
	case n < 90:
		return crashMinTag + random.IntN(300)
	case n < 97:
		return random.IntN(8 << 10)
	}
	return random.IntN(65536)
}
