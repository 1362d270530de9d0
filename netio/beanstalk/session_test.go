package beanstalk

import (
	"fmt"
	"strings"
	"testing"
)

// What the commands answer, as transcripts; see play for how to read them.

func TestPutReserveDelete(t *testing.T) {
	play(t, `
a put 10 0 60 5 / hello
	INSERTED 1
a put 5 0 60 2 / hi
	INSERTED 2
a put 5 0 60 0 /
	INSERTED 3
b reserve
	RESERVED 2 2 / hi
b reserve-with-timeout 0
	RESERVED 3 0 /
b reserve-with-timeout 7 and whatever
	RESERVED 1 5 / hello
b reserve-with-timeout 0
	TIMED_OUT
a delete 1
	NOT_FOUND
b delete 1
	DELETED
b delete 1
	NOT_FOUND
b delete 3 / delete 2 / delete 77
	DELETED / DELETED / NOT_FOUND
a stats-tube default | total-jobs current-jobs-ready current-jobs-reserved cmd-delete
	3 0 0 3
`)
}

// delete works on ready, delayed and buried jobs of anyone, on reserved ones
// only for their holder.
func TestDelete(t *testing.T) {
	play(t, `
a put 0 0 60 1 / r
	INSERTED 1
a put 1 60 60 1 / d
	INSERTED 2
a put 0 0 60 1 / b
	INSERTED 3
a put 0 0 60 1 / h
	INSERTED 4
a reserve-job 3 / bury 3 9
	RESERVED 3 1 / b / BURIED
a reserve-job 4
	RESERVED 4 1 / h
b delete 1 / delete 2 / delete 3 / delete 4
	DELETED / DELETED / DELETED / NOT_FOUND
a delete 4
	DELETED
a stats | current-jobs-ready current-jobs-delayed current-jobs-buried current-jobs-reserved cmd-delete total-jobs
	0 0 0 0 5 4
`)
}

func TestUse(t *testing.T) {
	play(t, `
a list-tube-used
	USING default
a use x
	USING x
a use x / use default / use x
	USING x / USING default / USING x
a list-tube-used
	USING x
a list-tubes |
	default x
# a tube is there while it is used, watched or has a job
a use z / put 0 0 9 1 / j / use y
	USING z / INSERTED 1 / USING y
b list-tubes |
	default z y
b delete 1
	DELETED
b list-tubes |
	default y
b stats-tube y | name current-using current-watching
	"y" 1 0
a closes
b list-tubes |
	default
b stats-tube y
	NOT_FOUND
`)
}

func TestWatchAndIgnore(t *testing.T) {
	play(t, `
a list-tubes-watched |
	default
a watch y
	WATCHING 2
a watch y / watch z / watch w
	WATCHING 2 / WATCHING 3 / WATCHING 4
a list-tubes-watched |
	default y z w
# the last takes the place of the one that goes
a ignore default
	WATCHING 3
a list-tubes-watched |
	w y z
a ignore nosuch
	WATCHING 3
a ignore w / ignore y / ignore z / ignore z / ignore y
	WATCHING 2 / WATCHING 1 / NOT_IGNORED / NOT_IGNORED / WATCHING 1
a list-tubes-watched |
	z
b list-tubes |
	default z
b stats-tube z | current-using current-watching
	0 1
a watch default / ignore z
	WATCHING 2 / WATCHING 1
b stats-tube z
	NOT_FOUND
`)
	inBubble(t, Config{}, 0, func(b *bench) {
		a := b.connect()
		a.want("watch a-long-name\r\nlist-tubes-watched\r\n",
			"WATCHING 2\r\nOK 28\r\n---\n- default\n- a-long-name\n\r\n")
		a.want("use b\r\nlist-tubes\r\n", "USING b\r\nOK 32\r\n---\n- default\n- a-long-name\n- b\n\r\n")
	})
}

// A reserve takes the lowest (pri, id) over all watched tubes.
func TestReserveOrder(t *testing.T) {
	play(t, `
a use t1 / put 9 0 60 1 / a / use t2 / put 8 0 60 1 / b / use t3 / put 9 0 60 1 / c / put 7 0 60 1 / d
	USING t1 / INSERTED 1 / USING t2 / INSERTED 2 / USING t3 / INSERTED 3 / INSERTED 4
a use default / put 4294967295 0 60 1 / e / use t5 / put 0 0 60 1 / n / use t2 / put 8 0 60 1 / f
	USING default / INSERTED 5 / USING t5 / INSERTED 6 / USING t2 / INSERTED 7
b watch t1 / watch t2 / watch t3
	WATCHING 2 / WATCHING 3 / WATCHING 4
b reserve / reserve / reserve
	RESERVED 4 1 / d / RESERVED 2 1 / b / RESERVED 7 1 / f
b reserve / reserve-with-timeout 0 / reserve-with-timeout 1 / reserve-with-timeout 0
	RESERVED 1 1 / a / RESERVED 3 1 / c / RESERVED 5 1 / e / TIMED_OUT
# a connection that goes puts back what it held, in its old order
b closes
c watch t1 / watch t2 / watch t3 / ignore default
	WATCHING 2 / WATCHING 3 / WATCHING 4 / WATCHING 3
c reserve / reserve / reserve / reserve / reserve / reserve-with-timeout 0
	RESERVED 4 1 / d / RESERVED 2 1 / b / RESERVED 7 1 / f / RESERVED 1 1 / a / RESERVED 3 1 / c / TIMED_OUT
c stats-job 1 | state reserves timeouts releases
	reserved 2 0 0
`)
}

func TestReserveJob(t *testing.T) {
	play(t, `
a put 0 0 60 1 / r / put 0 50 60 1 / d / put 0 0 60 1 / b
	INSERTED 1 / INSERTED 2 / INSERTED 3
a reserve-job 3 / bury 3 5
	RESERVED 3 1 / b / BURIED
a pause-tube default 100
	PAUSED
b reserve-job 1 / reserve-job 2 / reserve-job 3 / reserve-job 4
	RESERVED 1 1 / r / RESERVED 2 1 / d / RESERVED 3 1 / b / NOT_FOUND
a reserve-job 1 / delete 1 / release 1 0 0 / bury 1 0 / touch 1 / kick-job 1
	NOT_FOUND / NOT_FOUND / NOT_FOUND / NOT_FOUND / NOT_FOUND / NOT_FOUND
b reserve-job 1
	NOT_FOUND
b stats-job 3 | state pri reserves buries
	reserved 5 2 1
b delete 1 / delete 2 / delete 3
	DELETED / DELETED / DELETED
`)
}

// Who asks for a job by its id is a worker once he got one, as in the
// reference.
func TestReserveJobMakesAWorker(t *testing.T) {
	play(t, `
a put 0 0 60 1 / r
	INSERTED 1
b reserve-job 99
	NOT_FOUND
a stats | current-producers current-workers
	1 0
b reserve-job 1
	RESERVED 1 1 / r
a stats | current-producers current-workers
	1 1
`)
}

func TestRelease(t *testing.T) {
	play(t, `
a put 5 0 60 1 / x / put 6 0 60 1 / y
	INSERTED 1 / INSERTED 2
a release 1 0 0
	NOT_FOUND
b reserve
	RESERVED 1 1 / x
a release 1 0 0
	NOT_FOUND
b release 1 7 0
	RELEASED
b reserve
	RESERVED 2 1 / y
b reserve
	RESERVED 1 1 / x
b stats-job 1 | state pri delay releases reserves
	reserved 7 0 1 2
b release 1 2 30
	RELEASED
b stats-job 1 | state pri delay time-left
	delayed 2 30 29
b reserve-with-timeout 0
	TIMED_OUT
wait 30s
b reserve-with-timeout 0
	RESERVED 1 1 / x
b stats-job 1 | state pri delay ttr time-left releases
	reserved 2 30 60 59 2
b release 1 1
	BAD_FORMAT
b release 99 0 0
	NOT_FOUND
`)
}

func TestBuryAndKick(t *testing.T) {
	play(t, `
a put 5 0 60 1 / 1 / put 5 0 60 1 / 2 / put 5 0 60 1 / 3 / put 5 40 60 1 / 4 / put 5 30 60 1 / 5
	INSERTED 1 / INSERTED 2 / INSERTED 3 / INSERTED 4 / INSERTED 5
a bury 1 0
	NOT_FOUND
a reserve / reserve / reserve
	RESERVED 1 1 / 1 / RESERVED 2 1 / 2 / RESERVED 3 1 / 3
b bury 2 0
	NOT_FOUND
a bury 2 9 / bury 1 8 / bury 3 7 / bury 3 7
	BURIED / BURIED / BURIED / NOT_FOUND
a stats-job 2 | state pri buries time-left
	buried 9 1 0
b peek-buried
	FOUND 2 1 / 2
# buried ones first, in the order of burying
b kick 2
	KICKED 2
b reserve / reserve / reserve-with-timeout 0
	RESERVED 1 1 / 1 / RESERVED 2 1 / 2 / TIMED_OUT
b stats-job 2 | state pri kicks
	reserved 9 1
b kick 100
	KICKED 1
# then the delayed ones, soonest first
b kick 1
	KICKED 1
b stats-job 5 | state kicks
	ready 1
b kick 0
	KICKED 0
b kick 5
	KICKED 1
b kick 5
	KICKED 0
b kick-job 4 / kick-job 99
	NOT_FOUND / NOT_FOUND
b bury 1 0 / kick-job 1
	BURIED / KICKED
b release 2 0 10 / kick-job 2
	RELEASED / KICKED
b stats-job 2 | state kicks
	ready 2
`)
}

func TestPeek(t *testing.T) {
	play(t, `
a peek-ready / peek-delayed / peek-buried / peek 1
	NOT_FOUND / NOT_FOUND / NOT_FOUND / NOT_FOUND
a use p / put 5 0 60 2 / aa / put 4 0 60 2 / bb / put 0 50 60 2 / cc / put 9 20 60 2 / dd
	USING p / INSERTED 1 / INSERTED 2 / INSERTED 3 / INSERTED 4
a peek-ready / peek-delayed / peek-buried
	FOUND 2 2 / bb / FOUND 4 2 / dd / NOT_FOUND
a peek 1 / peek 4 / peek 5
	FOUND 1 2 / aa / FOUND 4 2 / dd / NOT_FOUND
b peek-ready / peek 1
	NOT_FOUND / FOUND 1 2 / aa
b reserve-job 1 / peek 1 / bury 1 0
	RESERVED 1 2 / aa / FOUND 1 2 / aa / BURIED
a pause-tube p 9 / peek-ready / peek-buried
	PAUSED / FOUND 2 2 / bb / FOUND 1 2 / aa
a delete 2 / peek-ready
	DELETED / NOT_FOUND
`)
}

// stats-job, whole.
func TestStatsJob(t *testing.T) {
	inBubble(t, Config{}, 0, func(b *bench) {
		a := b.connect()
		a.want("use tt\r\nput 1024 5 0 3\r\nabc\r\n", "USING tt\r\nINSERTED 1\r\n")
		job := func(state string, pri, age, delay, ttr, left, reserves, timeouts, releases, buries, kicks int) string {
			body := fmt.Sprintf("---\nid: 1\ntube: \"tt\"\nstate: %s\npri: %d\nage: %d\ndelay: %d\nttr: %d\ntime-left: %d\n"+
				"file: 0\nreserves: %d\ntimeouts: %d\nreleases: %d\nburies: %d\nkicks: %d\n",
				state, pri, age, delay, ttr, left, reserves, timeouts, releases, buries, kicks)
			return fmt.Sprintf("OK %d\r\n%s\r\n", len(body), body)
		}
		a.want("stats-job 1\r\n", job("delayed", 1024, 0, 5, 1, 4, 0, 0, 0, 0, 0))
		b.play("wait 2500ms")
		a.want("stats-job 1\r\n", job("delayed", 1024, 2, 5, 1, 2, 0, 0, 0, 0, 0))
		b.play("wait 2500ms")
		a.want("stats-job 1\r\n", job("ready", 1024, 5, 5, 1, 0, 0, 0, 0, 0, 0))
		a.want("reserve-job 1\r\nstats-job 1\r\n", "RESERVED 1 3\r\nabc\r\n"+job("reserved", 1024, 5, 5, 1, 0, 1, 0, 0, 0, 0))
		b.play("wait 1s")
		a.want("stats-job 1\r\n", job("ready", 1024, 6, 5, 1, 0, 1, 1, 0, 0, 0))
		a.want("reserve-job 1\r\nbury 1 3\r\nstats-job 1\r\n",
			"RESERVED 1 3\r\nabc\r\nBURIED\r\n"+job("buried", 3, 6, 5, 1, 0, 2, 1, 0, 1, 0))
		a.want("kick-job 1\r\nreserve-job 1\r\nrelease 1 2 0\r\nstats-job 1\r\nstats-job 2\r\n",
			"KICKED\r\nRESERVED 1 3\r\nabc\r\nRELEASED\r\n"+job("ready", 2, 6, 0, 1, 0, 3, 1, 1, 1, 1)+"NOT_FOUND\r\n")
	})
}

// stats-tube, whole.
func TestStatsTube(t *testing.T) {
	inBubble(t, Config{}, 0, func(b *bench) {
		a, c, w := b.connect(), b.connect(), b.connect()
		a.want("use tt\r\n", "USING tt\r\n")
		puts := ""
		for pri := range 4 {
			puts += fmt.Sprintf("put %d 0 60 1\r\nx\r\n", 1022+pri)
		}
		a.want(puts+"put 0 9 60 1\r\nx\r\nput 9999 0 60 1\r\nx\r\n",
			"INSERTED 1\r\nINSERTED 2\r\nINSERTED 3\r\nINSERTED 4\r\nINSERTED 5\r\nINSERTED 6\r\n")
		c.want("watch tt\r\nreserve-job 6\r\nbury 6 0\r\nreserve\r\ndelete 1\r\nreserve-job 4\r\n",
			"WATCHING 2\r\nRESERVED 6 1\r\nx\r\nBURIED\r\nRESERVED 1 1\r\nx\r\nDELETED\r\nRESERVED 4 1\r\nx\r\n")
		c.want("pause-tube tt 7\r\n", "PAUSED\r\n")
		w.want("watch tt\r\nignore default\r\nreserve\r\n", "WATCHING 2\r\nWATCHING 1\r\n")
		b.play("wait 3s")
		body := "---\nname: \"tt\"\ncurrent-jobs-urgent: 1\ncurrent-jobs-ready: 2\ncurrent-jobs-reserved: 1\n" +
			"current-jobs-delayed: 1\ncurrent-jobs-buried: 1\ntotal-jobs: 6\ncurrent-using: 1\ncurrent-watching: 2\n" +
			"current-waiting: 1\ncmd-delete: 1\ncmd-pause-tube: 1\npause: 7\npause-time-left: 3\n"
		a.want("stats-tube tt\r\n", fmt.Sprintf("OK %d\r\n%s\r\n", len(body), body))
		b.play("wait 4s")
		if got := w.got(); got != "RESERVED 2 1\r\nx\r\n" {
			t.Fatalf("when the pause was over: %q", got)
		}
		a.want("stats-tube nosuch\r\n", "NOT_FOUND\r\n")
	})
}

// The counters count what is served, NOT_FOUND included, and not what is
// refused.
func TestStats(t *testing.T) {
	play(t, `
a list-tubes |
	default
a stats | current-connections current-producers current-workers current-waiting total-connections current-tubes
	1 0 0 0 1 1
b put 1 0 60 1 / x / put 1 0 60 1 / x / put 1 0 60
	INSERTED 1 / INSERTED 2 / BAD_FORMAT
# this one is counted, and refused
b put 1 0 60 1 x
	BAD_FORMAT
# the second byte of the body is where its CR should be
b put 1 0 60 1 / xyz
	EXPECTED_CRLF / UNKNOWN_COMMAND
b peek 1 / peek 9 / peek x / peek-ready / peek-ready x / peek-delayed / peek-buried / peek-buried
	FOUND 1 1 / x / NOT_FOUND / BAD_FORMAT / FOUND 1 1 / x / BAD_FORMAT / NOT_FOUND / NOT_FOUND / NOT_FOUND
c reserve / reserve-with-timeout 0 / reserve-with-timeout 0 / reserve-with-timeout -1 / reserve-job 9
	RESERVED 1 1 / x / RESERVED 2 1 / x / TIMED_OUT / BAD_FORMAT / NOT_FOUND
c touch 1 / touch 2 / touch 3 / release 1 0 0 / release 1 0 0 / bury 2 0 / bury 2 0 / bury 2 / kick 9 / kick-job 9
	TOUCHED / TOUCHED / NOT_FOUND / RELEASED / NOT_FOUND / BURIED / NOT_FOUND / BAD_FORMAT / KICKED 1 / NOT_FOUND
c delete 1 / delete 1 / delete x / delete 2
	DELETED / NOT_FOUND / BAD_FORMAT / DELETED
c use u / use - / watch w / watch w / ignore w / ignore w / ignore
	USING u / BAD_FORMAT / WATCHING 2 / WATCHING 2 / WATCHING 1 / WATCHING 1 / UNKNOWN_COMMAND
c list-tube-used / list-tube-usedx
	USING u / BAD_FORMAT
c list-tubes-watched |
	default
c pause-tube u 5 / pause-tube nosuch 5 / pause-tube u
	PAUSED / NOT_FOUND / BAD_FORMAT
c stats-job 1 / stats-job x / stats-tube nosuch / stats-tube -
	NOT_FOUND / BAD_FORMAT / NOT_FOUND / BAD_FORMAT
c stats | cmd-put cmd-peek cmd-peek-ready cmd-peek-delayed cmd-peek-buried
	4 2 1 1 2
c stats | cmd-reserve cmd-reserve-with-timeout cmd-delete cmd-release cmd-use cmd-watch cmd-ignore
	1 2 3 2 1 2 2
c stats | cmd-bury cmd-kick cmd-touch cmd-stats cmd-stats-job cmd-stats-tube cmd-list-tubes cmd-list-tube-used
	2 1 3 4 1 1 1 1
c stats | cmd-list-tubes-watched cmd-pause-tube job-timeouts total-jobs max-job-size current-tubes
	1 2 0 2 65535 2
c stats | current-connections current-producers current-workers current-waiting total-connections
	3 1 1 0 3
c closes
b stats | current-connections current-producers current-workers current-waiting total-connections draining
	2 1 0 0 3 false
`)
}

func TestPauseTube(t *testing.T) {
	play(t, `
a pause-tube nosuch 1
	NOT_FOUND
a put 0 0 60 1 / x
	INSERTED 1
a pause-tube default 3
	PAUSED
b reserve-with-timeout 0
	TIMED_OUT
b reserve
wait 2s
a stats-tube default | pause pause-time-left current-waiting current-jobs-ready cmd-pause-tube
	3 0 1 1 1
wait 1s
	b: RESERVED 1 1 / x
a stats-tube default | pause pause-time-left current-waiting current-jobs-ready cmd-pause-tube
	0 0 0 0 1
# a put into a paused tube goes to nobody, and another pause takes the place of the first
a pause-tube default 50 / pause-tube default 2
	PAUSED / PAUSED
c reserve
a put 0 0 60 1 / y
	INSERTED 2
wait 1999ms
wait 1ms
	c: RESERVED 2 1 / y
`)
}

// A pause of 0 seconds ends a pause: the reference makes a nanosecond of it.
func TestPauseTubeOfNothing(t *testing.T) {
	play(t, `
a put 0 0 60 1 / x
	INSERTED 1
a pause-tube default 0
	PAUSED
b reserve-with-timeout 0
	RESERVED 1 1 / x
a put 0 0 60 1 / y / pause-tube default 9
	INSERTED 2 / PAUSED
b reserve
c watch t1 / watch t2 / watch t3
	WATCHING 2 / WATCHING 3 / WATCHING 4
c reserve
a pause-tube default 0 / put 0 0 60 1 / z
	PAUSED / INSERTED 3
	b: RESERVED 2 1 / y
	c: RESERVED 3 1 / z
a stats-tube default | pause pause-time-left cmd-pause-tube
	0 0 3
`)
}

// A tube that is paused is left out of a reserve over several.
func TestPauseOneOfMany(t *testing.T) {
	play(t, `
a use p / put 0 0 60 1 / p / use q / put 9 0 60 1 / q / pause-tube p 5
	USING p / INSERTED 1 / USING q / INSERTED 2 / PAUSED
b watch p / watch q / watch r
	WATCHING 2 / WATCHING 3 / WATCHING 4
b reserve
	RESERVED 2 1 / q
b reserve
wait 5s
	b: RESERVED 1 1 / p
`)
}

func TestRefused(t *testing.T) {
	long := strings.Repeat("x", 300)
	play(t, `
a sends "\r\n\r\n"
	UNKNOWN_COMMAND / UNKNOWN_COMMAND
a nosuch / PUT 0 0 0 0 / delete / put
	UNKNOWN_COMMAND / UNKNOWN_COMMAND / UNKNOWN_COMMAND / UNKNOWN_COMMAND
a statsx / stats-tube / reserve 1 / peek-ready 1 / list-tubesx / quitx
	BAD_FORMAT / BAD_FORMAT / BAD_FORMAT / BAD_FORMAT / BAD_FORMAT
	closed
b delete x / delete -1 / delete 18446744073709551616 / delete 18446744073709551615 / delete    7 / delete 7 7
	BAD_FORMAT / BAD_FORMAT / BAD_FORMAT / NOT_FOUND / NOT_FOUND / BAD_FORMAT
b release 1 4294967296 0 / release 1 0 4294967296 / release 1 4294967295 4294967295
	BAD_FORMAT / BAD_FORMAT / NOT_FOUND
b reserve-with-timeout 2147483648 / reserve-with-timeout x / reserve-with-timeout
	BAD_FORMAT / BAD_FORMAT / BAD_FORMAT
b put 4294967296 0 0 0 / put 0 0 0 x / put 0 0 0
	BAD_FORMAT / BAD_FORMAT / BAD_FORMAT
b use `+long[:200]+` / use `+long[:201]+`
	USING `+long[:200]+` / BAD_FORMAT
b use a b / use -a / use a* / use
	BAD_FORMAT / BAD_FORMAT / BAD_FORMAT / UNKNOWN_COMMAND
b `+long+`
	BAD_FORMAT
b delete `+strings.Repeat("0", 214)+`9
	NOT_FOUND
b sends "list-tube-\x00used\r\n"
	BAD_FORMAT
b list-tubes |
	default `+long[:200]+`
`)
}

func TestQuit(t *testing.T) {
	play(t, `
a put 0 0 1 1 / x / quit / put 0 0 1 1 / y
	INSERTED 1
	closed
b peek 1 / peek 2
	FOUND 1 1 / x / NOT_FOUND
c reserve / quit
	RESERVED 1 1 / x
	closed
b reserve-with-timeout 0
	RESERVED 1 1 / x
b stats-job 1 | timeouts
	0
`)
}

func TestDraining(t *testing.T) {
	play(t, `
a put 0 0 60 1 / x
	INSERTED 1
a sends "put 0 0 60 3\r\nab"
drain
a sends "c\r\n"
	DRAINING
a put 0 0 60 1 / x / put 0 0 60 1 / xyz
	DRAINING / EXPECTED_CRLF / UNKNOWN_COMMAND
a put 0 0 60 1
a sends "x\r"
a sends "\n"
	DRAINING
b reserve / release 1 0 0 / reserve / bury 1 0 / kick 1 / reserve / delete 1
	RESERVED 1 1 / x / RELEASED / RESERVED 1 1 / x / BURIED / KICKED 1 / RESERVED 1 1 / x / DELETED
b stats | draining total-jobs cmd-put
	true 1 5
`)
}

// More commands than are queued at once, of one kind and mixed, over shards.
func TestLongPipelines(t *testing.T) {
	inBubble(t, Config{}, 0, func(b *bench) {
		a := b.connect()
		var send, want strings.Builder
		id := 0
		for i := range 2000 {
			switch {
			case i < 600: // one shard
			case i < 1200 && i%50 == 0, i%3 == 0:
				fmt.Fprintf(&send, "use t%d\r\n", i%5)
				fmt.Fprintf(&want, "USING t%d\r\n", i%5)
			case i%7 == 0:
				send.WriteString("nosuch\r\n")
				want.WriteString("UNKNOWN_COMMAND\r\n")
				continue
			}
			id++
			fmt.Fprintf(&send, "put %d 0 60 4\r\n%04d\r\n", id, id)
			fmt.Fprintf(&want, "INSERTED %d\r\n", id)
			if i%2 == 0 {
				fmt.Fprintf(&send, "peek %d\r\n", id)
				fmt.Fprintf(&want, "FOUND %d 4\r\n%04d\r\n", id, id)
			}
		}
		for i := range 5 {
			fmt.Fprintf(&send, "watch t%d\r\n", i)
			fmt.Fprintf(&want, "WATCHING %d\r\n", i+2)
		}
		for i := range id {
			fmt.Fprintf(&send, "reserve\r\ndelete %d\r\n", i+1)
			fmt.Fprintf(&want, "RESERVED %d 4\r\n%04d\r\nDELETED\r\n", i+1, i+1)
		}
		all := send.String()
		for len(all) > 0 {
			n := min(64<<10, len(all))
			a.send(all[:n])
			all = all[n:]
		}
		if got := a.got(); got != want.String() {
			for i := range got {
				if i >= want.Len() || got[i] != want.String()[i] {
					t.Fatalf("at byte %d: got %.100q", i, got[max(0, i-50):])
				}
			}
			t.Fatal("too little came back")
		}
	})
}
