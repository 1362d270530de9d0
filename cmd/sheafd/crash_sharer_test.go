package main_test

// Sharers: connections that put into and reserve from the same tubes, some of
// them watching one and some several, and do to what they get whatever can be
// done to it. See crashLedger for how it is known who did what.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// crashShared are the tubes that are shared.
var crashShared = []string{"all-0", "all-1", "all-2", "all-3"}

// A crashSharer is one sharer. Its fields are its goroutine's while that runs.
type crashSharer struct {
	name    string
	ledger  *crashLedger
	orders  *atomic.Uint64 // see crashJob.order
	watches map[string]bool
	holds   []*crashHold
	flying  []*crashCommand
}

func (s *crashSharer) connect(r *crashRound, random *rand.Rand) (*crashConn, error) {
	c, err := r.dial()
	if err != nil {
		return nil, err
	}
	s.watches = make(map[string]bool)
	for i, n := range random.Perm(len(crashShared))[:1+random.IntN(len(crashShared))] {
		s.watches[crashShared[n]] = true
		if err := c.says(fmt.Sprintf("WATCHING %d", i+2), "watch %s", crashShared[n]); err != nil {
			return nil, err
		}
	}
	return c, c.says(fmt.Sprintf("WATCHING %d", len(s.watches)), "ignore default")
}

// leave takes down that the jobs held are given back, if no TTR ends before the
// server hears of it.
func (s *crashSharer) leave() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for _, h := range s.holds {
		if time.Now().Add(3 * time.Second).After(h.ends) {
			h.entry.maybe++
		}
		h.entry.job.note("%s: left", s.name)
	}
	s.holds = nil
}

// run is the sharer's load. It ends when the server does.
func (s *crashSharer) run(r *crashRound, random *rand.Rand) error {
	c, err := s.connect(r, random)
	for err == nil {
		s.flying = s.batch(random)
		var ok bool
		ok, err = r.exchange(c, &s.flying, func(c *crashCommand, line string, body []byte) error {
			return s.settle(r, c, line, body)
		})
		if err != nil || !ok {
			return err
		}
		if random.IntN(30) == 0 {
			c.Close()
			s.leave()
			c, err = s.connect(r, random)
		}
	}
	return r.over(err)
}

// batch draws the commands to be sent next. A reserve comes last: what is sent
// behind it would not be in order with what others do.
func (s *crashSharer) batch(random *rand.Rand) (batch []*crashCommand) {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	add := func(c crashCommand) {
		c.sent, c.seq = now, l.tick()
		if c.op == crashPut {
			l.enter(&c)
		}
		batch = append(batch, &c)
	}
	depth := 1 + random.IntN(3)
	if random.IntN(8) == 0 {
		depth = 4 + random.IntN(20)
	}
	few := len(l.entries) < 300
	holds := slices.Clone(s.holds)
	for range depth {
		switch n := random.IntN(100); {
		case n < 20 && few || n < 8:
			tube := crashShared[random.IntN(len(crashShared))]
			add(crashCommand{op: crashUse, tube: tube})
			add(s.put(random, tube))
		case n < 75 && len(holds) > 0:
			i := random.IntN(len(holds))
			e := holds[i].entry
			ends := holds[i].ends
			holds = slices.Delete(holds, i, i+1)
			if e.short() && random.IntN(4) > 0 {
				if now.After(ends) {
					add(crashCommand{op: crashStats, job: e.job})
				}
				continue // let it run out
			}
			for _, c := range s.work(random, e, few) {
				add(c)
			}
		case n < 85:
			if e := l.claim(random); e != nil {
				add(crashCommand{op: crashKickJob, job: e.job})
			}
		case n < 87 || n < 92 && !few:
			if e := l.pick(random, func(e *crashEntry) bool { return true }); e != nil {
				e.mortal = true
				add(crashCommand{op: crashDelete, job: e.job})
			}
		case n == 99:
			tube := crashShared[random.IntN(len(crashShared))]
			add(crashCommand{op: crashUse, tube: tube}) // so that it is there
			add(crashCommand{op: crashPause, tube: tube, delay: 1})
			add(crashCommand{op: crashPause, tube: tube})
		}
	}
	switch n := random.IntN(100); {
	case len(batch) == 0 && len(s.holds) > 20, n < 40 && len(batch) > 0:
	case n < 45:
		if e := l.claim(random); e != nil {
			add(crashCommand{op: crashReserveJob, job: e.job})
		}
	default:
		add(crashCommand{op: crashReserve, n: []int{0, 0, 0, 1, 1, -1}[random.IntN(6)]})
	}
	if len(batch) == 0 {
		add(crashCommand{op: crashUse, tube: crashShared[0]})
	}
	return batch
}

// put draws a put. Bodies tell which job they are of: another connection may
// see it before the answer to the put is read.
func (s *crashSharer) put(random *rand.Rand, tube string) crashCommand {
	j := &crashJob{order: s.orders.Add(1), tube: tube, size: max(crashSize(random), crashMinTag)}
	j.ttr = uint32(crashLong + j.order)
	if random.IntN(12) == 0 {
		j.ttr = 1 + uint32(random.IntN(2))
	}
	return crashCommand{op: crashPut, job: j, pri: crashPri(random), delay: crashDelay(random)}
}

// work draws what to do to a job that is held.
func (s *crashSharer) work(random *rand.Rand, e *crashEntry, few bool) (list []crashCommand) {
	c := crashCommand{job: e.job, pri: crashPri(random)}
	if random.IntN(10) == 0 {
		list = append(list, crashCommand{op: crashTouch, job: e.job})
	}
	switch n := random.IntN(10); {
	case n < 3:
		c.op, c.delay = crashRelease, crashDelay(random)
	case n < 6:
		c.op = crashBury
	case n < 9 || !few:
		c.op = crashDelete
	default:
		c.op = crashTouch
	}
	return append(list, c)
}

// crashDelay draws a delay: none, one that runs out during the test, or one
// that does not.
func crashDelay(random *rand.Rand) uint32 {
	switch n := random.IntN(10); {
	case n < 6:
		return 0
	case n < 8:
		return 1 + uint32(random.IntN(4))
	}
	return crashLongDelay(random)
}
