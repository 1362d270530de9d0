package shard

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog/faultfs"
)

// What is in the mailbox at once may be more than one batch: where a segment of
// the log is to be left in time, and the disk is slow to make the next.

// slowRig is a shard with small segments, which has one to go on in, and the next
// ones are made when allowed says so.
func slowRig(t *testing.T, prepare func(g *rig)) (g *rig, allowed chan struct{}, stop func()) {
	f := faultfs.New()
	g, _, stop = newLoggedRig(t, f, 1, 4096)
	prepare(g)
	synctest.Wait()
	allowed = make(chan struct{})
	f.SetFault(func(op faultfs.Op, name string, _ int64, _ int) error {
		if op == faultfs.OpCreate && strings.Contains(name, "segment.") {
			<-allowed
		}
		return nil
	})
	return g, allowed, stop
}

// filler puts a job that takes as much as several segments.
func filler(p *person) *Request {
	return &Request{Op: Put, Tube: p.used, TTR: 1, Body: []byte(strings.Repeat("x", 24<<10) + "\r\n")}
}

// TestWaitEndsItsChain: a client may be told that its reserve waits only when the
// shard has passed what is behind it in the chain: that is the client's again
// then, which may have its wait ended and post it anew.
func TestWaitEndsItsChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var holder *person
		g, allowed, stop := slowRig(t, func(g *rig) {
			holder = g.newPerson().settleIn("held")
			for range 2000 {
				holder.do(0, Request{Op: Put, Tube: holder.used, Pri: PriLow, TTR: 1, Body: []byte("\r\n")})
			}
			for range 2000 {
				holder.do(0, Request{Op: Reserve})
			}
		})
		a, b, c := g.newPerson().settleIn("a"), g.newPerson().settleIn("b"), g.newPerson()
		c.do(0, *filler(c))
		last := filler(c)
		c.post(0, last) // and the shard waits for a segment, if it does not for cleaning's already
		synctest.Wait()
		put := func(p *person) *Request {
			return &Request{Op: Put, Tube: p.used, TTR: 1, Body: []byte("\r\n")}
		}
		rest := []*Request{put(a), put(a)}
		a.post(0, &Request{Op: Reserve, Timeout: NoTimeout}, rest[0], rest[1])
		b.post(0, put(b))
		time.Sleep(2 * time.Second) // the jobs come back, which fills a segment
		allowed <- struct{}{}
		synctest.Wait()
		early := a.waiter.Answered()
		if early {
			a.waiter.Cancel() // it hangs up
			a.send(0, Cancel)
			a.post(0, rest...)
		}
		close(allowed)
		synctest.Wait()
		if !b.waiter.Answered() {
			t.Error("a command that came behind the chain is lost")
		}
		if !early {
			a.await()
			a.waiter.Cancel()
			a.send(0, Cancel)
			a.post(0, rest...)
		}
		a.await()
		c.await()
		for _, r := range append(rest, last) {
			if r.Status != OK {
				t.Errorf("a command is answered %d", r.Status)
			}
		}
		for _, p := range []*person{holder, a, b, c} {
			p.detach()
		}
		stop()
	})
}

// TestBatchesOfATurn: what comes due while a shard waits for a segment does so
// before the next command.
func TestBatchesOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p, q *person
		var id uint64
		g, allowed, stop := slowRig(t, func(g *rig) {
			p, q = g.newPerson(), g.newPerson()
			id = p.do(0, Request{Op: Put, Tube: p.used, TTR: 1, Body: []byte("\r\n")}).ID
			p.do(0, Request{Op: ReserveJob, ID: id})
		})
		q.do(0, *filler(q))
		stats := Request{Op: StatsJob, ID: id}
		q.post(0, filler(q), &stats)
		synctest.Wait()
		time.Sleep(5 * time.Second)
		close(allowed)
		q.await()
		if s := stats.Job; s.State != "ready" || s.TimeLeft != 0 || s.Timeouts != 1 {
			t.Errorf("of a job whose TTR has run out 4s ago it is said %+v", s)
		}
		p.detach()
		q.detach()
		g.gather()
		stop()
	})
}
