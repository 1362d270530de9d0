package shard

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// BenchmarkMailbox is a post and a take, by one goroutine: what the queue
// itself costs a request.
func BenchmarkMailbox(b *testing.B) {
	for _, length := range []int{1, 64} {
		b.Run(fmt.Sprintf("chain=%d", length), func(b *testing.B) {
			m := newMailbox()
			chain := make([]*Request, length)
			for i := range chain {
				chain[i] = new(Request)
			}
			b.ReportAllocs()
			for n := 0; n < b.N; n += length {
				m.hand(chain...)
				for r := m.take(); r != nil; r = r.next {
				}
			}
		})
	}
}

// BenchmarkMailboxProducers is the same with producers on goroutines of their
// own and a consumer that parks. Each producer has its chain back before it
// posts it again, as a connection does.
func BenchmarkMailboxProducers(b *testing.B) {
	for _, producers := range []int{1, 4, 16} {
		for _, length := range []int{1, 64} {
			b.Run(fmt.Sprintf("producers=%d/chain=%d", producers, length), func(b *testing.B) {
				m := newMailbox()
				each := b.N/(producers*length) + 1
				back := make([]chan struct{}, producers)
				b.ReportAllocs()
				for p := range back {
					back[p] = make(chan struct{}, 1)
					chain := make([]*Request, length)
					for i := range chain {
						chain[i] = &Request{ID: uint64(p)}
					}
					chain[length-1].last = true
					go func() {
						for range each {
							m.hand(chain...)
							<-back[p]
						}
					}()
				}
				for got := 0; got < each*producers*length; {
					r := m.take()
					if r == nil {
						if m.park() {
							<-m.wake
						}
						continue
					}
					for r != nil {
						next := r.next
						if r.last {
							back[r.ID] <- struct{}{}
						}
						got++
						r = next
					}
				}
			})
		}
	}
}

// benchJobs returns jobs with keys: of one priority, as in most queues, or of
// random ones.
func benchJobs(n int, random bool) []*job {
	rnd := rand.New(rand.NewPCG(6, 0))
	jobs := newTestJobs(n)
	for i := range jobs {
		jobs[i].id = uint64(i + 1)
		if random {
			jobs[i].pri = rnd.Uint32()
		}
	}
	return jobs
}

// BenchmarkHeap has a heap of some size to which one job is pushed and from
// which one is removed: the first, or any. One operation is both.
func BenchmarkHeap(b *testing.B) {
	for _, n := range []int{1e3, 1e6} {
		for _, order := range []string{"fifo", "random"} {
			for _, which := range []string{"top", "middle"} {
				b.Run(fmt.Sprintf("jobs=%.0e/%s/%s", float64(n), order, which), func(b *testing.B) {
					jobs := benchJobs(n, order == "random")
					var h jobHeap
					for i := range jobs {
						h.push(jobs[i].readyKey(), jobs[i])
					}
					rnd := rand.New(rand.NewPCG(7, 0))
					id := uint64(n)
					b.ReportAllocs()
					for b.Loop() {
						j := h.top()
						if which == "middle" {
							j = h.at(rnd.IntN(h.n)).ref.job()
						}
						h.remove(j)
						id++
						j.id = id
						if order == "random" {
							j.pri = rnd.Uint32()
						}
						h.push(j.readyKey(), j)
					}
				})
			}
		}
	}
}

// BenchmarkShard is the life of a job, put, reserve and delete, through the
// mailbox: each command posted and awaited alone, or 64 lives in three chains
// of 64. ready is how many jobs of a better number wait already, so that the
// heap is deep and the jobs reserved are those.
func BenchmarkShard(b *testing.B) {
	for _, ready := range []int{0, 1e6} {
		for _, clients := range []int{1, 8} {
			for _, length := range []int{1, 64} {
				b.Run(fmt.Sprintf("ready=%.0e/clients=%d/chain=%d", float64(ready), clients, length), func(b *testing.B) {
					g := newRig(1, NewDirectory(), 0)
					defer g.stop()
					filler := newCycle(g.newPerson(), Put)
					for n := 0; n < ready; n++ {
						filler.single()
					}
					b.ReportAllocs()
					b.ResetTimer()
					var working sync.WaitGroup
					for range clients {
						l := newLives(g.newPerson(), length)
						working.Go(func() {
							for n := 0; n < b.N; n += clients * length {
								l.run()
							}
						})
					}
					working.Wait()
					b.StopTimer()
					b.ReportMetric(float64(3*b.N)/b.Elapsed().Seconds(), "cmds/s")
				})
			}
		}
	}
}

// lives are chains of puts, of reserves, and of deletes of what was reserved.
type lives struct {
	p     *person
	reqs  []Request
	chain []*Request
}

func newLives(p *person, n int) *lives {
	l := &lives{p: p, reqs: make([]Request, n)}
	for i := range l.reqs {
		l.chain = append(l.chain, &l.reqs[i])
	}
	return l
}

func (l *lives) run() {
	for _, op := range []Op{Put, Reserve, Delete} {
		for i := range l.reqs {
			l.reqs[i] = Request{Op: op, Tube: l.p.used, ID: l.reqs[i].ID, TTR: 60, Body: cycleBody}
			if op == Put {
				l.reqs[i].ID = 0
			}
		}
		l.p.post(0, l.chain...)
		l.p.await()
	}
}

func BenchmarkDirectory(b *testing.B) {
	b.Run("lookup", func(b *testing.B) {
		d := NewDirectory()
		const jobs = 1 << 20
		for range jobs {
			d.enter(newTestJob(d.NextID()), 3)
		}
		b.RunParallel(func(pb *testing.PB) {
			for id := uint64(1); pb.Next(); id = id*25214903917%jobs + 1 {
				if d.Lookup(id) != 3 {
					b.Error("not found")
				}
			}
		})
	})
	b.Run("enter and leave", func(b *testing.B) {
		d := NewDirectory()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			const window = 100
			jobs := newTestJobs(window)
			for i := 0; pb.Next(); i = (i + 1) % window {
				if jobs[i].id != 0 {
					d.leave(jobs[i].id)
				}
				jobs[i].id = d.NextID()
				d.enter(jobs[i], 3)
			}
		})
	})
}
