package gearman

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sheafq/sheaf/netio"
)

// A waiter is a client that waits for its jobs, with a worker of its own.
type waiter struct {
	*peer
	w        *peer
	function string
	jobs     *int   // of all waiters
	handle   string // of the last one's job
}

func (b *bench) waiters(n int) []*waiter {
	all, jobs := make([]*waiter, n), new(int)
	for i := range all {
		c := &waiter{peer: b.connect(), w: b.connect(), function: fmt.Sprint("f", i), jobs: jobs}
		c.w.ask(typeCanDo, c.function)
		all[i] = c
	}
	return all
}

// submit submits a job and reports whether JOB_CREATED is held.
func (c *waiter) submit() (held bool) {
	c.b.t.Helper()
	*c.jobs++
	c.handle = fmt.Sprintf("H:host:%d", *c.jobs)
	got := c.ask(typeSubmitJob, c.function, "", "x")
	if got != "" && got != c.created() {
		c.b.t.Fatalf("SUBMIT_JOB: %s", got)
	}
	return got == ""
}

func (c *waiter) created() string   { return fmt.Sprintf("JOB_CREATED[%q]", c.handle) }
func (c *waiter) completed() string { return fmt.Sprintf("WORK_COMPLETE[%q \"r\"]", c.handle) }

// work has the last job done.
func (c *waiter) work() {
	c.b.t.Helper()
	c.w.asks(fmt.Sprintf("JOB_ASSIGN[%q %q \"x\"]", c.handle, c.function), typeGrabJob)
	c.w.asks(``, typeWorkComplete, c.handle, "r")
}

// does has a job done, waits for it, and reports whether JOB_CREATED was held.
func (c *waiter) does(takes time.Duration) (held bool) {
	c.b.t.Helper()
	held = c.submit()
	time.Sleep(takes)
	c.work()
	if held {
		c.expect(c.created() + " " + c.completed())
	} else {
		c.expect(c.completed())
	}
	return held
}

// do has n jobs done and returns in which JOB_CREATED was held: a bit string.
func (c *waiter) do(n int, takes time.Duration) string {
	c.b.t.Helper()
	var held strings.Builder
	for range n {
		if c.does(takes) {
			held.WriteByte('1')
		} else {
			held.WriteByte('0')
		}
	}
	return held.String()
}

const quick = moment / 8

// gain has jobs done until JOB_CREATED is held, the next times too.
func gain(clients ...*waiter) {
	for range trustAtFirst + 2*pairs + 1 {
		for _, c := range clients {
			c.does(quick)
		}
	}
}

// JOB_CREATED is held back and said with the result: when there were enough jobs,
// every other time, and then until it is not for once.
func TestCreatedIsHeld(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.waiters(1)[0]
		want := strings.Repeat("0", trustAtFirst) + strings.Repeat("10", pairs-1) + strings.Repeat(strings.Repeat("1", holdsInRow)+"0", 3)
		if got := c.do(len(want), quick); got != want {
			t.Errorf("held %s\nwant %s", got, want)
		}
		time.Sleep(2 * moment)
		if c.s.hold.state.Load() != 0 {
			t.Error("what was said was held for too long")
		}
		// Of a job in the background there is nothing more to say.
		c.asks(fmt.Sprintf(`JOB_CREATED["H:host:%d"]`, *c.jobs+1), typeSubmitJobBG, c.function, "", "x")
	})
}

// It is held for a moment and no longer, whoever else holds something; and then
// not for a while.
func TestHoldEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := b.waiters(3)
		gain(all...)
		for _, c := range all {
			if !c.submit() {
				t.Error("it is not held")
			}
			time.Sleep(moment / 4)
		}
		all[1].work() // in time
		all[1].expect(all[1].created() + " " + all[1].completed())
		time.Sleep(moment/4 - 1)
		all[0].expect(``)
		time.Sleep(time.Nanosecond)
		all[0].expect(all[0].created())
		time.Sleep(moment/2 - 1)
		all[2].expect(``)
		time.Sleep(time.Nanosecond)
		all[2].expect(all[2].created())
		for i := range 2 {
			c := all[2*i]
			c.work()
			c.expect(c.completed())
			if got, want := c.do(5, quick), "00001"; got != want {
				t.Errorf("after that held %s, want %s", got, want)
			}
		}
	})
}

// Whatever comes goes behind it, and takes it along; whatever the client says has
// it said. Then its holding was wrong.
func TestHoldIsReleased(t *testing.T) {
	says := func(packet []byte) func(*waiter) { return func(c *waiter) { c.send(packet) } }
	works := func(typ uint32, args ...string) func(*waiter) {
		return func(c *waiter) {
			c.w.ask(typeGrabJob)
			c.w.asks(``, typ, append([]string{c.handle}, args...)...)
		}
	}
	for _, test := range []struct {
		name, want string
		do         func(*waiter)
		wrong      int
	}{
		{"by a part of the result", ` WORK_DATA[HANDLE "d"]`, works(typeWorkData, "d"), 0},
		{"by a failure", ` WORK_FAIL[HANDLE]`, works(typeWorkFail), 0},
		{"by a packet", ` ECHO_RES["echo"]`, says(req(typeEchoReq, "echo")), 1},
		{"by a packet without an answer", ``, says(req(typeAllYours)), 1},
		{"by a part of a packet", ``, says(req(typeEchoReq, "echo")[:3]), 1},
		{"by the next submit", ` JOB_CREATED["H:host:51"]`, says(req(typeSubmitJob, "f", "", "x")), 1},
		{"by a line", ` "OK test\n"`, says([]byte("version\n")), 1},
		{"by a fault", ` ERROR["INVALID_MAGIC" "Request magic expected"]`, says([]byte("\x00FOO12345678")), 1},
		{"by the end", ``, (*waiter).close, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				c := b.waiters(1)[0]
				gain(c)
				if !c.submit() {
					t.Error("it is not held")
				}
				test.do(c)
				c.expect(c.created() + strings.ReplaceAll(test.want, "HANDLE", strconv.Quote(c.handle)))
				if p := &c.s.pace; p.wrong != test.wrong || p.submit.IsZero() != (p.wrong > 0) {
					t.Errorf("it was wrong to hold %d times, want %d; submitted at %v", p.wrong, test.wrong, p.submit)
				}
				time.Sleep(2 * moment)
				c.expect(``)
			})
		})
	}
}

// What comes behind a submit at once has JOB_CREATED said at once.
func TestBusyClient(t *testing.T) {
	large := req(typeSubmitJob, "g", "", strings.Repeat("x", 2*netio.ReadSize))
	for _, test := range []struct{ behind, answer string }{
		{string(req(typeSubmitJob, "g", "", "x")), ` JOB_CREATED["H:host:51"]`},
		{string(req(typeEchoReq, "echo")), ` ECHO_RES["echo"]`},
		{string(req(typeEchoReq, "echo")[:3]), ``},
		{string(large[:2*headerSize]), ``},
	} {
		inBubble(t, func(b *bench) {
			c := b.waiters(1)[0]
			gain(c)
			c.send(slices.Concat(req(typeSubmitJob, c.function, "", "x"), []byte(test.behind)))
			c.expect(`JOB_CREATED["H:host:50"]` + test.answer)
		})
	}
}

// Who says something now and then while its job is under way is not made to wait
// for JOB_CREATED; and for much longer so if it was, wrongly.
func TestUntrustedClient(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.waiters(1)[0]
		echo := func() {
			t.Helper()
			want := `ECHO_RES["echo"]`
			if c.submit() {
				want = c.created() + " " + want
			}
			c.asks(want, typeEchoReq, "echo")
			c.work()
			c.expect(c.completed())
		}
		for range 10 {
			if got := c.do(trustAtFirst-1, quick); strings.Contains(got, "1") {
				t.Errorf("held %s", got)
			}
			echo()
		}
		gain(c)
		for n := trustAtFirst * distrustFactor; n <= trustAtFirst*distrustFactor*distrustFactor; n *= distrustFactor {
			echo()
			if got := c.do(n, quick); strings.Contains(got, "1") {
				t.Errorf("held again in less than %d jobs", n)
			}
			if got := c.do(4, quick); got != "1010" {
				t.Errorf("held %s after that, want 1010", got)
			}
		}
	})
}

// Who is slow, or whose jobs are, gains nothing.
func TestSlowClient(t *testing.T) {
	for _, slow := range []time.Duration{moment + 1, time.Second} {
		inBubble(t, func(b *bench) {
			c := b.waiters(1)[0]
			if got := c.do(5*trustAtFirst, slow); strings.Contains(got, "1") {
				t.Errorf("jobs of %v: held %s", slow, got)
			}
			for range 5 * trustAtFirst {
				if c.does(quick) {
					t.Errorf("a pause of %v: held", slow)
				}
				time.Sleep(slow)
			}
			// Most jobs have to be fast.
			for range 5 * trustAtFirst {
				if got := c.do(3, quick) + c.do(1, slow); got != "0000" {
					t.Errorf("a job of %v in four: held %s", slow, got)
				}
			}
		})
	}
}

// A client that waits for JOB_CREATED and submits some time later comes later when
// it is held, which is seen.
func TestPacedClient(t *testing.T) {
	inBubble(t, func(b *bench) {
		const takes, thinks = moment / 5, moment / 2
		paced := func(c *waiter, n int) (held int) {
			for range n {
				if c.does(takes) {
					held++
					time.Sleep(thinks)
				} else {
					time.Sleep(thinks - takes)
				}
			}
			return held
		}
		all := b.waiters(2)
		if held := paced(all[0], trustAtFirst*distrustFactor); held != pairs {
			t.Errorf("it had to wait %d times, want %d", held, pairs)
		}
		// Also if it waited for its jobs before.
		gain(all[1])
		if held := paced(all[1], (pairs+1)*(holdsInRow+1)); held == 0 {
			t.Error("JOB_CREATED was not held any more")
		}
		if held := paced(all[1], trustAtFirst*distrustFactor/2); held > 0 {
			t.Errorf("then it had to wait %d times", held)
		}
	})
}

// A client that is often late by itself is not taken for one that had to wait.
func TestUnsteadyClient(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.waiters(1)[0]
		random := rand.New(rand.NewPCG(1, 2))
		held := 0
		const n = 5000
		for range n {
			if c.does(quick) {
				held++
			}
			time.Sleep(time.Duration(random.IntN(int(2 * quick))))
		}
		if c.s.pace.wrong > 0 || held < n*8/10 {
			t.Errorf("held %d times, which was wrong %d times", held, c.s.pace.wrong)
		}
	})
}
