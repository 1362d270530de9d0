package beanstalk

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
	"github.com/sheafq/sheaf/router"
)

// What time and waits do, as transcripts; see play for how to read them.

func TestTTR(t *testing.T) {
	play(t, `
a put 5 0 3 1 / x
	INSERTED 1
b reserve
	RESERVED 1 1 / x
wait 2999ms
a peek-ready
	NOT_FOUND
wait 1ms
a peek-ready
	FOUND 1 1 / x
b delete 2 / touch 1 / release 1 0 0 / bury 1 0
	NOT_FOUND / NOT_FOUND / NOT_FOUND / NOT_FOUND
a stats-job 1 | state pri reserves timeouts releases
	ready 5 1 1 0
a stats | job-timeouts
	1
# who waits gets it at once
b reserve-job 1
	RESERVED 1 1 / x
c reserve
wait 3s
	c: RESERVED 1 1 / x
# a ttr of 0 is 1
a put 5 0 0 1 / y
	INSERTED 2
b reserve
	RESERVED 2 1 / y
b stats-job 2 | ttr time-left
	1 0
wait 1s
a peek-ready
	FOUND 2 1 / y
`)
}

func TestTouch(t *testing.T) {
	play(t, `
a put 5 0 10 1 / x
	INSERTED 1
a touch 1
	NOT_FOUND
b reserve
	RESERVED 1 1 / x
a touch 1
	NOT_FOUND
wait 9s
b stats-job 1 | time-left
	0
b reserve
	DEADLINE_SOON
b touch 1
	TOUCHED
b stats-job 1 | time-left
	9
b reserve-with-timeout 0
	TIMED_OUT
wait 9999ms
a peek-ready
	NOT_FOUND
wait 1ms
a peek-ready
	FOUND 1 1 / x
b touch 1
	NOT_FOUND
`)
}

// DEADLINE_SOON: a job that the connection holds is within a second of its TTR,
// and there is none for it.
func TestDeadlineSoon(t *testing.T) {
	play(t, `
a put 5 0 5 1 / x
	INSERTED 1
b reserve
	RESERVED 1 1 / x
b reserve
wait 3999ms
wait 1ms
	b: DEADLINE_SOON
b reserve / reserve-with-timeout 0 / reserve-with-timeout 100
	DEADLINE_SOON / DEADLINE_SOON / DEADLINE_SOON
a reserve-with-timeout 0
	TIMED_OUT
b reserve-job 1 / peek-ready
	NOT_FOUND / NOT_FOUND
a put 5 0 5 1 / y
	INSERTED 2
b reserve
	RESERVED 2 1 / y
b reserve
	DEADLINE_SOON
b touch 1
	TOUCHED
b reserve-with-timeout 1
wait 1s
	b: TIMED_OUT
# the job that ran out comes back to the one who was warned
b release 2 0 60
	RELEASED
wait 3s
b reserve
	DEADLINE_SOON
wait 1s
b reserve
	RESERVED 1 1 / x
b stats-job 1 | timeouts reserves
	1 2
b delete 1
	DELETED
b reserve-with-timeout 3
wait 3s
	b: TIMED_OUT
# a job with a TTR of 1 is soon from the beginning
a put 5 0 1 1 / z
	INSERTED 3
b reserve / reserve
	RESERVED 3 1 / z / DEADLINE_SOON
`)
}

// The job that is soon need not be on the shard of the tube that is watched.
func TestDeadlineSoonOverShards(t *testing.T) {
	for _, tubes := range []string{"b c", "c d", "d e", "e f"} {
		held, watched, _ := strings.Cut(tubes, " ")
		play(t, strings.NewReplacer("HELD", held, "WATCHED", watched).Replace(`
a use HELD / put 5 0 5 1 / x / put 5 0 8 1 / y / use WATCHED
	USING HELD / INSERTED 1 / INSERTED 2 / USING WATCHED
b watch WATCHED / ignore default
	WATCHING 2 / WATCHING 1
b reserve-job 1 / reserve-job 2
	RESERVED 1 1 / x / RESERVED 2 1 / y
b reserve
wait 4s
	b: DEADLINE_SOON
b touch 1
	TOUCHED
# now the other is the soonest, at 7
b reserve-with-timeout 100
wait 2s
wait 1s
	b: DEADLINE_SOON
b delete 2 / reserve-with-timeout 0
	DELETED / TIMED_OUT
wait 1s
# touched at 4, so it is soon at 8
b reserve
	DEADLINE_SOON
a put 0 0 9 1 / z
	INSERTED 3
b reserve
	RESERVED 3 1 / z
# released at 9; nothing is held there then
wait 1s
a peek 1
	FOUND 1 1 / x
b reserve-with-timeout 2
wait 2s
	b: TIMED_OUT
b watch HELD / reserve / delete 1 / reserve
	WATCHING 2 / RESERVED 1 1 / x / DELETED
wait 5s
	b: DEADLINE_SOON
`))
	}
}

func TestDelay(t *testing.T) {
	play(t, `
a put 9 3 60 1 / x / put 1 2 60 1 / y
	INSERTED 1 / INSERTED 2
a peek-delayed / peek-ready
	FOUND 2 1 / y / NOT_FOUND
b reserve-with-timeout 0
	TIMED_OUT
b reserve
wait 1999ms
wait 1ms
	b: RESERVED 2 1 / y
b reserve
wait 1s
	b: RESERVED 1 1 / x
b release 1 3 4
	RELEASED
b stats-job 1 | state pri delay time-left
	delayed 3 4 3
c watch nosuch
	WATCHING 2
c reserve
wait 4s
	c: RESERVED 1 1 / x
a stats-job 1 | delay state time-left reserves
	4 reserved 59 2
`)
}

func TestReserveWithTimeout(t *testing.T) {
	for _, watch := range []string{"", "b watch t1 / watch t2 / watch t3 / watch t4\n\tWATCHING 2 / WATCHING 3 / WATCHING 4 / WATCHING 5\n"} {
		play(t, watch+`
b reserve-with-timeout 0
	TIMED_OUT
b reserve-with-timeout 2
wait 1999ms
wait 1ms
	b: TIMED_OUT
b reserve-with-timeout 2147483647
wait 1000h
a stats | current-waiting current-workers
	1 1
a put 0 0 60 1 / x
	INSERTED 1
	b: RESERVED 1 1 / x
b reserve-with-timeout 1 / reserve-with-timeout 1 / reserve-with-timeout 0 / list-tube-used
wait 1s
	b: TIMED_OUT
wait 1s
	b: TIMED_OUT / TIMED_OUT / USING default
a stats | current-waiting cmd-reserve-with-timeout
	0 6
`)
	}
}

// Waiting clients are served first come, first served.
func TestFirstComeFirstServed(t *testing.T) {
	play(t, `
a reserve
b watch t1 / watch t2
	WATCHING 2 / WATCHING 3
b reserve
c reserve-with-timeout 5
d put 9 0 60 1 / 1
	INSERTED 1
	a: RESERVED 1 1 / 1
d put 9 0 60 1 / 2 / put 9 0 60 1 / 3 / put 9 0 60 1 / 4
	INSERTED 2 / INSERTED 3 / INSERTED 4
	b: RESERVED 2 1 / 2
	c: RESERVED 3 1 / 3
a reserve
	RESERVED 4 1 / 4
`)
	play(t, `
a reserve
b reserve
c reserve
a closes
d put 9 0 60 1 / 1 / put 9 0 60 1 / 2
	INSERTED 1 / INSERTED 2
	b: RESERVED 1 1 / 1
	c: RESERVED 2 1 / 2
b reserve
c closes
	b: RESERVED 2 1 / 2
d stats | current-waiting current-connections
	0 2
`)
}

// What ends a wait other than a put.
func TestWaitEnds(t *testing.T) {
	play(t, `
h put 0 0 100 1 / 1 / put 0 0 100 1 / 2 / put 0 5 100 1 / 3 / reserve / reserve
	INSERTED 1 / INSERTED 2 / INSERTED 3 / RESERVED 1 1 / 1 / RESERVED 2 1 / 2
a reserve
h release 1 0 0
	RELEASED
	a: RESERVED 1 1 / 1
a reserve
h bury 2 0
	BURIED
h kick 1
	KICKED 1
	a: RESERVED 2 1 / 2
a reserve
h kick-job 3
	KICKED
	a: RESERVED 3 1 / 3
b reserve
a closes
	b: RESERVED 1 1 / 1
b reserve / reserve / reserve
	RESERVED 2 1 / 2 / RESERVED 3 1 / 3
c reserve-job 1
	NOT_FOUND
# b would be warned at 99
wait 99s
	b: DEADLINE_SOON
c reserve
wait 1s
	c: RESERVED 1 1 / 1
`)
}

// A client that half-closes while it waits gets TIMED_OUT; what it had sent
// before is answered.
func TestHalfCloseDuringWait(t *testing.T) {
	play(t, `
a reserve
a half-closes
	TIMED_OUT
b put 0 0 60 1 / x
	INSERTED 1
a reserve
	RESERVED 1 1 / x
a reserve / reserve-with-timeout 100 / list-tube-used
	TIMED_OUT / TIMED_OUT / USING default
c watch t1 / watch t2 / watch t3 / reserve / put 0 0 60 1 / y / reserve / reserve / list-tube-used
	WATCHING 2 / WATCHING 3 / WATCHING 4
c half-closes
	TIMED_OUT / INSERTED 2 / RESERVED 2 1 / y / TIMED_OUT / USING default
b stats | current-waiting current-connections
	0 3
b stats-tube default | current-waiting
	0
`)
}

// A wait that the shutdown ends is not answered, nor is what stands behind it:
// its answer would be taken for that of the reserve. What stands before it is.
func TestAbort(t *testing.T) {
	for _, watch := range []string{"watch default", "watch t1 / watch t2 / watch t3 / watch t4 / ignore t4"} {
		answer := "WATCHING 1"
		if watch != "watch default" {
			answer = "WATCHING 2 / WATCHING 3 / WATCHING 4 / WATCHING 5 / WATCHING 4"
		}
		play(t, strings.NewReplacer("WATCH", watch, "ANSWER", answer).Replace(`
a WATCH
	ANSWER
a reserve
a aborts
	closed
b WATCH
	ANSWER
b list-tube-used / reserve / list-tube-used
	USING default
b aborts
	closed
c WATCH
	ANSWER
c aborts
c list-tube-used / put 0 0 60 1 / x / reserve / delete 1
	USING default / INSERTED 1 / RESERVED 1 1 / x / DELETED
c put 0 99 60 1 / y / reserve / peek-delayed / list-tube-used
	INSERTED 2
	closed
d peek 2
	FOUND 2 1 / y
d stats | current-waiting current-connections
	0 1
`))
	}
}

// What stands behind a reserve that waits is served when that is answered.
func TestGluedBehindAWait(t *testing.T) {
	play(t, `
a reserve / delete 1 / put 3 0 60 1 / n / reserve / reserve / delete 3 / quit
b put 0 0 60 1 / x
	INSERTED 1
	a: RESERVED 1 1 / x / DELETED / INSERTED 2 / RESERVED 2 1 / n
b put 0 0 60 1 / y
	INSERTED 3
	a: RESERVED 3 1 / y / DELETED
	a: closed
b reserve
	RESERVED 2 1 / n
`)
}

// Also when the job that the wait is for was not there when they were sent.
func TestGluedIDsBehindAWait(t *testing.T) {
	for _, cmd := range []struct{ send, answer string }{
		{"delete 1", "DELETED"},
		{"peek 1", "FOUND 1 1 / x"},
		{"release 1 0 9", "RELEASED"},
		{"bury 1 0", "BURIED"},
		{"touch 1", "TOUCHED"},
	} {
		play(t, "a reserve / "+cmd.send+"\nb put 0 0 60 1 / x\n\tINSERTED 1\n\ta: RESERVED 1 1 / x / "+cmd.answer+"\n")
		play(t, "a watch b / watch c / watch d\n\tWATCHING 2 / WATCHING 3 / WATCHING 4\na reserve / "+cmd.send+
			"\nb put 0 0 60 1 / x\n\tINSERTED 1\n\ta: RESERVED 1 1 / x / "+cmd.answer+"\n")
	}
	// Nor need it be the job that comes of the wait.
	for _, tube := range []string{"t1", "t2", "t3", "t4"} {
		play(t, "a reserve / peek 1\nb use "+tube+" / put 0 0 60 1 / y / use default / put 0 0 60 1 / x\n"+
			"\tUSING "+tube+" / INSERTED 1 / USING default / INSERTED 2\n\ta: RESERVED 2 1 / x / FOUND 1 1 / y\n")
	}
}

// A client may use the id of its put before it has seen it.
func TestPutAndItsID(t *testing.T) {
	play(t, `
a put 0 0 60 1 / x / delete 1 / put 0 0 60 1 / x / delete 2 / delete 2 / delete 3 / put 0 0 60 1 / x / peek 3
	INSERTED 1 / DELETED / INSERTED 2 / DELETED / NOT_FOUND / NOT_FOUND / INSERTED 3 / FOUND 3 1 / x
a use t1 / put 0 0 60 1 / y / use t2 / peek 4 / reserve-job 4 / use t3 / stats-job 5 / release 4 1 0 / delete 4
	USING t1 / INSERTED 4 / USING t2 / FOUND 4 1 / y / RESERVED 4 1 / y / USING t3 / NOT_FOUND / RELEASED / DELETED
`)
}

// What is owed before a reserve that waits leaves before it waits, and the
// buffers are given back.
func TestOwedAnswersLeaveBeforeAWait(t *testing.T) {
	for _, watch := range []string{"", "watch t1\r\nwatch t2\r\nwatch t3\r\nwatch t4\r\n"} {
		answer := strings.NewReplacer("t1", "2", "t2", "3", "t3", "4", "t4", "5", "watch", "WATCHING").Replace(watch)
		inBubble(t, Config{}, 0, func(b *bench) {
			a := b.connect()
			a.want(watch, answer)
			before := a.idled()
			a.want("put 0 0 60 1\r\nx\r\nnosuch\r\nreserve\r\nreserve-with-timeout 60\r\nlist-tube-used\r\ndelete",
				"INSERTED 1\r\nUNKNOWN_COMMAND\r\nRESERVED 1 1\r\nx\r\n")
			if a.idled() == before {
				t.Error("Idle was not called before the wait")
			}
			time.Sleep(58 * time.Second)
			a.want(" 1\r\n", "")
			time.Sleep(time.Second)
			if got := a.got(); got != "DEADLINE_SOON\r\nUSING default\r\nDELETED\r\n" {
				t.Errorf("after the wait: %q", got)
			}
		})
	}
}

// idled returns how often Idle was called.
func (p *peer) idled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idles
}

// A clock that was set back while the server was down makes nobody wait for longer than
// the delay, and no job younger than new.
func TestClockSetBack(t *testing.T) {
	disk := faultfs.New()
	engine := router.Config{Shards: 1, Binlog: &binlog.Config{Dir: "/binlog", FS: disk}}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1000 * time.Hour)
		b := newBench(t, Config{}, engine)
		defer b.close()
		p := b.connect()
		p.want("put 0 0 60 1\r\nx\r\nput 0 100 60 1\r\ny\r\n", "INSERTED 1\r\nINSERTED 2\r\n")
		time.Sleep(10 * time.Second)
	})
	synctest.Test(t, func(t *testing.T) { // which begins at the same time as the other
		b := newBench(t, Config{}, engine)
		defer b.close()
		p := b.connect()
		for _, line := range []string{"\nage: 0\n", "\nstate: ready\n"} {
			if got := p.ask("stats-job 1\r\n"); !strings.Contains(got, line) {
				t.Errorf("no %q in %q", line, got)
			}
		}
		for _, line := range []string{"\nage: 0\n", "\nstate: delayed\n", "\ntime-left: 99\n"} {
			if got := p.ask("stats-job 2\r\n"); !strings.Contains(got, line) {
				t.Errorf("no %q in %q", line, got)
			}
		}
		time.Sleep(100 * time.Second)
		p.want("peek-ready\r\ndelete 1\r\npeek-ready\r\n", "FOUND 1 1\r\nx\r\nDELETED\r\nFOUND 2 1\r\ny\r\n")
	})
}

// Where each answer costs a sync that takes long the first of a pipeline leave before
// the last are there.
func TestPipelineOnASlowDisk(t *testing.T) {
	for _, n := range shardCounts {
		synctest.Test(t, func(t *testing.T) {
			disk := faultfs.New()
			b := newBench(t, Config{}, router.Config{Shards: n, Binlog: &binlog.Config{Dir: "/binlog", FS: disk}})
			defer b.close()
			p := b.connect()
			const jobs = 300
			p.ask(strings.Repeat("put 0 0 60 1\r\nx\r\n", jobs))
			disk.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
				if op == faultfs.OpSync {
					time.Sleep(time.Second)
				}
				return nil
			})
			var deletes strings.Builder
			for id := range jobs {
				fmt.Fprintf(&deletes, "delete %d\r\n", 1+id)
			}
			for _, tt := range []struct{ send, first, all string }{
				// So many go to a shard at once.
				{deletes.String(), strings.Repeat("DELETED\r\n", 128), strings.Repeat("DELETED\r\n", jobs)},
				{"put 0 0 60 1\r\nx\r\nuse a\r\nput 0 0 60 1\r\nx\r\n", "INSERTED 301\r\n", "INSERTED 301\r\nUSING a\r\nINSERTED 302\r\n"},
			} {
				p.send(tt.send)
				time.Sleep(time.Second + time.Second/2)
				first := p.got()
				if first != tt.first {
					t.Errorf("%d shards: when the first sync is done %d bytes have come, want %d", n, len(first), len(tt.first))
				}
				time.Sleep(time.Minute)
				if all := first + p.got(); all != tt.all {
					t.Errorf("%d shards: got %q, want %q", n, all, tt.all)
				}
			}
			disk.SetFault(nil)
		})
	}
}
