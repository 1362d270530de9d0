package router

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// waitCase has a client wait over as many shards as the name says: one of
// several, or all.
type waitCase struct {
	name   string
	shards int
	watch  []int // shards with a watched tube
}

var waitCases = []waitCase{
	{"one shard", 1, []int{0}},
	{"one of three shards", 3, []int{2}},
	{"two of seven shards", 7, []int{4, 6}},
	{"three of three shards", 3, []int{0, 1, 2}},
}

// eachWait runs a test for each kind of wait, in a bubble of its own. The
// waiting client watches the tube work of each shard and nothing else; the
// other one is for whatever is to happen meanwhile.
func eachWait(t *testing.T, test func(t *testing.T, r *Router, work []string, p, q *peer)) {
	for _, c := range waitCases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEngine(t, c.shards)
				p, q := newPeer(t, r), newPeer(t, r)
				var work []string
				for _, i := range c.watch {
					work = append(work, r.tubeOn(i, 0))
					p.Watch(r.tubeOn(i, 0))
				}
				p.Ignore(shard.DefaultTube)
				test(t, r, work, p, q)
				p.close()
				q.close()
				idleEngine(t, r)
			})
		})
	}
}

// says has the peer say a line, and fails unless it is answered so, after so
// long.
func (p *peer) says(line, want string, after time.Duration) {
	p.t.Helper()
	began := time.Now()
	if got := p.say(line); got != want || time.Since(began) != after {
		p.t.Errorf("%s: got %s after %v, want %s after %v", line, got, time.Since(began), want, after)
	}
}

// heard does the same for a line that was begun at that time.
func (p *peer) heard(answer <-chan string, began time.Time, want string, after time.Duration) {
	p.t.Helper()
	if got := <-answer; got != want || time.Since(began) != after {
		p.t.Errorf("got %s after %v, want %s after %v", got, time.Since(began), want, after)
	}
}

// TestTimeout: a wait ends with its timeout, to the nanosecond, and another
// may begin at once.
func TestTimeout(t *testing.T) {
	eachWait(t, func(t *testing.T, r *Router, work []string, p, q *peer) {
		p.says("reserve-with-timeout 0s", "TIMED_OUT", 0)
		p.says("reserve-with-timeout 2s", "TIMED_OUT", 2*time.Second)
		p.says("reserve-with-timeout 1ns", "TIMED_OUT", 1)
		p.says("reserve-with-timeout 1h | reserve-with-timeout 1m", "TIMED_OUT | TIMED_OUT", time.Hour+time.Minute)
		for _, tube := range work {
			q.session("stats-tube %s -> ready 0 reserved 0 using 0 watching 1 waiting 0", tube)
		}
	})
}

// TestWaitEnds: a job that becomes ready in any of the tubes, in any way, ends
// the wait at that moment.
func TestWaitEnds(t *testing.T) {
	eachWait(t, func(t *testing.T, r *Router, work []string, p, q *peer) {
		for _, tube := range work {
			q.Use(tube)
			q.Watch(tube)
			job := 0
			began := time.Now()
			answer := p.begin("reserve")
			wait := func() { time.Sleep(5 * time.Second); synctest.Wait() }
			done := func(after time.Duration) {
				t.Helper()
				p.heard(answer, began, sprint("RESERVED ", job, " x"), after)
				began, answer = time.Now(), nil
			}
			again := func(line string) {
				t.Helper()
				if line != "" {
					p.say(line)
				}
				began = time.Now()
				answer = p.begin("reserve")
				wait()
			}
			wait()
			job = scan(t, q.say("put 1 0 60 x"), "INSERTED %d")
			done(5 * time.Second)

			again(sprint("bury ", job, " 1"))
			q.session("kick 1 -> KICKED 1")
			done(5 * time.Second)

			again(sprint("release ", job, " 1 7"))
			done(7 * time.Second)

			again(sprint("release ", job, " 1 100"))
			q.session("kick-job %d -> KICKED", job)
			done(5 * time.Second)

			p.say(sprint("release ", job, " 1 0"))
			q.session("reserve -> RESERVED %d x", job)
			again("")
			q.session("release %d 1 0 -> RELEASED", job)
			done(5 * time.Second)

			p.say(sprint("release ", job, " 1 0"))
			q.session("reserve -> RESERVED %d x", job)
			again("")
			time.Sleep(55 * time.Second) // the TTR
			done(60 * time.Second)

			p.say(sprint("release ", job, " 1 0"))
			q.session("pause-tube %s 9 -> PAUSED", tube)
			again("")
			done(9 * time.Second)

			p.say(sprint("release ", job, " 1 0"))
			gone := newPeer(t, r)
			gone.Watch(tube)
			gone.session("reserve -> RESERVED %d x", job)
			again("")
			gone.close()
			done(5 * time.Second)
			p.say(sprint("delete ", job))
			q.Ignore(tube)
		}
	})
}

// TestWaitersInTurn: those who wait are served first come first served, also
// if they wait for several shards.
func TestWaitersInTurn(t *testing.T) {
	eachWait(t, func(t *testing.T, r *Router, work []string, p, q *peer) {
		answers := []<-chan string{p.begin("reserve")}
		synctest.Wait()
		for range 4 {
			w := newPeer(t, r)
			defer w.close()
			for _, tube := range work {
				w.Watch(tube)
			}
			answers = append(answers, w.begin("reserve"))
			synctest.Wait()
		}
		for i, answer := range answers {
			q.Use(work[i%len(work)])
			q.session("put %d 0 60 x -> INSERTED %d", 9-i, i+1)
			if got, want := <-answer, sprint("RESERVED ", i+1, " x"); got != want {
				t.Errorf("waiter %d got %s", i, got)
			}
		}
	})
}

// TestHangup: after a hang-up no reserve waits, but one that finds a job gets
// it; what was granted before is delivered.
func TestHangup(t *testing.T) {
	for _, phase := range []string{"before", "while", "granted", "after"} {
		for _, abort := range []bool{false, true} {
			hangup, gone := (*Client).Hangup, "TIMED_OUT"
			if abort {
				hangup, gone = (*Client).Abort, "aborted"
			}
			t.Run(sprint(phase, " ", gone), func(t *testing.T) {
				eachWait(t, func(t *testing.T, r *Router, work []string, p, q *peer) {
					last := work[len(work)-1]
					q.Use(last)
					switch phase {
					case "before":
						hangup(p.Client)
						p.says("reserve", gone, 0)
					case "while":
						began := time.Now()
						answer := p.begin("reserve")
						time.Sleep(3 * time.Second)
						hangup(p.Client)
						p.heard(answer, began, gone, 3*time.Second)
					case "granted":
						p.queue("reserve")
						p.await("", true)
						q.session("put 1 0 60 first | stats-job 1 -> INSERTED 1 | %s reserved pri 1 reserves 1", last)
						hangup(p.Client)
						p.await("RESERVED 1 first", false)
						p.await("nothing left", false)
					case "after":
						answer := p.begin("reserve")
						synctest.Wait()
						q.say("put 1 0 60 first")
						<-answer
						hangup(p.Client)
					}
					// From now on: what is there is given, and else nothing
					// waits, be it first, in the middle or after a put of its
					// own.
					p.says("reserve-with-timeout 10s", gone, 0)
					id := scan(t, q.say("put 1 0 60 x"), "INSERTED %d")
					p.says("reserve", sprint("RESERVED ", id, " x"), 0)
					p.Use(last)
					p.says(sprint("peek-ready | reserve | put 1 0 60 y | reserve | delete ", id, " | reserve"),
						sprint("NOT_FOUND | ", gone, " | INSERTED ", id+1, " | RESERVED ", id+1, " y | DELETED | ", gone), 0)
					p.session("delete %d -> DELETED", id+1)
				})
			})
		}
	}
}

// TestEndWaits: who waits is answered without a job, and nobody gets one any more,
// be it ready or not.
func TestEndWaits(t *testing.T) {
	eachWait(t, func(t *testing.T, r *Router, work []string, p, q *peer) {
		began := time.Now()
		answer := p.begin("reserve")
		time.Sleep(3 * time.Second)
		r.EndWaits()
		p.heard(answer, began, "aborted", 3*time.Second)
		for i, tube := range work {
			q.session("use %s | put 1 0 60 x | stats-tube %[1]s -> USING %[1]s | INSERTED %[2]d | ready 1 reserved 0 using 1 watching 1 waiting 0", tube, i+1)
		}
		for i := range work {
			p.says("reserve", "aborted", 0)
			p.says("reserve-with-timeout 2s", "aborted", 0)
			p.says("reserve-with-timeout 0s", "aborted", 0) // there is a job
			q.session("delete %d -> DELETED", i+1)
		}
		p.says("reserve", "aborted", 0)
		p.session("reserve-with-timeout 0s | delete 99 -> TIMED_OUT | NOT_FOUND")
	})
}

// TestAbortOutranksHangup, whichever comes first.
func TestAbortOutranksHangup(t *testing.T) {
	eachWait(t, func(t *testing.T, r *Router, work []string, p, q *peer) {
		p.Hangup()
		p.says("reserve", "TIMED_OUT", 0)
		p.Abort()
		p.says("reserve", "aborted", 0)
		p.says("reserve-with-timeout 0s", "TIMED_OUT", 0)
		p.Hangup()
		p.says("reserve", "aborted", 0)
	})
}

// TestHangupRaces: a hang-up at any moment of a reserve, quiet or not, leaves
// the client fit for more commands.
func TestHangupRaces(t *testing.T) {
	watchdog(t, time.Minute)
	rounds := 4000
	if testing.Short() {
		rounds = 400
	}
	for _, shards := range []int{1, 2} {
		r := newEngine(t, shards)
		for i := range rounds {
			p := newPeer(t, r)
			if i%4 == 0 {
				p.Watch(r.tubeOn(shards-1, 0))
			}
			p.Use("mine")
			hungUp := make(chan struct{})
			go func() {
				for range i % 7 {
					runtime.Gosched()
				}
				p.Hangup()
				close(hungUp)
			}()
			if i%2 == 0 {
				p.session("reserve -> TIMED_OUT") // quiet
			} else {
				p.queue("reserve")
				if p.Await(false); p.Waiting() {
					p.Await(false)
				}
				p.await("nothing left", false)
			}
			p.session("peek-ready | kick 1 -> NOT_FOUND | KICKED 0")
			p.session("stats-tube mine -> ready 0 reserved 0 using 1 watching 0 waiting 0")
			<-hungUp
			p.close()
		}
		idleEngine(t, r)
	}
}

// TestDeadlineSoon: a job that is held on any shard ends a wait one second
// before its TTR runs out, and refuses one in that second, if nothing is
// ready. When the TTR has run out it does so no more.
func TestDeadlineSoon(t *testing.T) {
	for on := range 3 {
		t.Run(sprint("held on shard ", on), func(t *testing.T) {
			eachWait(t, func(t *testing.T, r *Router, work []string, p, q *peer) {
				if on >= len(r.shards) {
					return
				}
				p.Use(r.tubeOn(on, 5))
				p.session("put 1 0 10 held | reserve-job 1 -> INSERTED 1 | RESERVED 1 held")
				p.says("reserve-with-timeout 2s", "TIMED_OUT", 2*time.Second)
				p.says("reserve", "DEADLINE_SOON", 7*time.Second)
				p.says("reserve", "DEADLINE_SOON", 0)
				p.says("reserve-with-timeout 0s", "DEADLINE_SOON", 0)
				q.Use(work[0])
				q.session("put 1 0 60 x -> INSERTED 2")
				p.says("reserve", "RESERVED 2 x", 0)
				p.session("delete 2 -> DELETED")

				// A touch begins the TTR again.
				time.Sleep(500 * time.Millisecond)
				p.session("touch 1 -> TOUCHED")
				p.says("reserve", "DEADLINE_SOON", 9*time.Second)

				// When it has run out the job is held no more: a wait lasts.
				time.Sleep(1500 * time.Millisecond)
				p.says("reserve-with-timeout 20s", "TIMED_OUT", 20*time.Second)
				p.session("reserve-job 1 -> RESERVED 1 held")
				time.Sleep(20 * time.Second)
				p.says("reserve-with-timeout 0s", "TIMED_OUT", 0)
				p.session("reserve-job 1 -> RESERVED 1 held")
				time.Sleep(20 * time.Second)
				p.says("put 1 0 60 y | reserve-with-timeout 20s | delete 3", "INSERTED 3 | TIMED_OUT | DELETED", 20*time.Second)

				// A job that is given back warns no more either.
				p.session("reserve-job 1 | release 1 1 0 -> RESERVED 1 held | RELEASED")
				p.says("reserve-with-timeout 20s", "TIMED_OUT", 20*time.Second)
				p.session("delete 1 -> DELETED")
			})
		})
	}
}

// TestDeadlineOfSoonest: of several held jobs on several shards the soonest
// counts, then the next.
func TestDeadlineOfSoonest(t *testing.T) {
	eachWait(t, func(t *testing.T, r *Router, work []string, p, q *peer) {
		for i, ttr := range []int{30, 10, 20} {
			p.Use(r.tubeOn(i%len(r.shards), 5))
			p.session("put 1 0 %d x | reserve-job %d -> INSERTED %[2]d | RESERVED %[2]d x", ttr, i+1)
		}
		p.says("reserve", "DEADLINE_SOON", 9*time.Second)
		p.session("bury 2 1 -> BURIED")
		p.says("reserve", "DEADLINE_SOON", 10*time.Second)
		time.Sleep(time.Second) // job 3 is gone
		p.says("reserve", "DEADLINE_SOON", 9*time.Second)
		p.session("delete 1 | delete 2 | delete 3 -> DELETED | DELETED | DELETED")
	})
}

// TestDeadlineWhileTalking: the second reserve of a pipeline is posted when
// the caller has got rid of the answer to the first, which may take long. It
// must not be warned of a job that is not held any more.
func TestDeadlineWhileTalking(t *testing.T) {
	for on := range 2 {
		synctest.Test(t, func(t *testing.T) {
			r := newEngine(t, 2)
			p := newPeer(t, r)
			p.Watch(r.tubeOn(0, 0))
			p.Ignore(shard.DefaultTube)
			p.Use(r.tubeOn(on, 0))
			p.session("put 1 0 10 held | reserve-job 1 -> INSERTED 1 | RESERVED 1 held")
			p.Use(r.tubeOn(0, 1))
			p.queue("reserve")
			p.queue("put 1 0 60 y")
			p.queue("reserve-with-timeout 1s")
			p.await("", true)
			p.await("DEADLINE_SOON", false)
			time.Sleep(2 * time.Second)
			if on == 0 { // the job is ready again in a watched tube
				p.await("INSERTED 2 | RESERVED 1 held", false)
				return
			}
			p.await("INSERTED 2", true)
			p.await("TIMED_OUT", false)
			p.await("nothing left", false)
		})
	}
}
