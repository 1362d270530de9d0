package beanstalk

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// A line is a command line with what parse makes of it.
type line struct {
	in   string
	want rejection
	cmd  command // if accepted
	// old marks what 1.12 accepts and 1.13 does not: reserve-with-timeout with
	// what only strtol takes for a number.
	old bool
}

func yes(in string, c command) line { return line{in: in, cmd: c} }
func bad(in string) line            { return line{in: in, want: badFormat} }
func unknown(in string) line        { return line{in: in, want: unknownCommand} }
func old(in string) line            { return line{in: in, want: badFormat, old: true} }

func id(v verb, n uint64) command      { return command{verb: v, id: n} }
func tube(v verb, name string) command { return command{verb: v, tube: []byte(name)} }
func pause(name string, n uint32) command {
	return command{verb: cmdPauseTube, tube: []byte(name), pause: n}
}
func timeout(n uint32) command { return command{verb: cmdReserveTimeout, timeout: n} }
func kick(n uint32) command    { return command{verb: cmdKick, count: n} }
func put(pri, delay, ttr, size uint32) command {
	return command{verb: cmdPut, pri: pri, delay: delay, ttr: ttr, size: size}
}
func putTrailing(size uint32) command { return command{verb: cmdPut, trailing: true, size: size} }

const maxU32 = math.MaxUint32

var (
	name200 = strings.Repeat("n", 200)
	name201 = strings.Repeat("n", 201)
)

// lines are commands of all sorts, good and bad. Every one was asked of the
// reference, and TestReferenceParse asks again.
var lines = []line{
	yes("put 1 2 3 4", put(1, 2, 3, 4)),
	yes("put   1  2    3 4", put(1, 2, 3, 4)),
	yes("put 01 002 0003 00004", put(1, 2, 3, 4)),
	yes("put "+strings.Repeat("0", 100)+"1 2 3 4", put(1, 2, 3, 4)),
	yes("put 4294967295 0 0 1", put(maxU32, 0, 0, 1)),
	yes("put 0 4294967295 0 1", put(0, maxU32, 0, 1)),
	yes("put 0 0 4294967295 1", put(0, 0, maxU32, 1)),
	yes("put 0 0 0 65535", put(0, 0, 0, 65535)),
	yes("put 0 0 0 65536", put(0, 0, 0, 65536)),
	yes("put 0 0 0 4294967295", put(0, 0, 0, maxU32)),
	// Bytes after the size are BAD_FORMAT, but JOB_TOO_BIG comes first: the
	// session decides.
	yes("put 0 0 0 4 ", putTrailing(4)),
	yes("put 0 0 0 4x", putTrailing(4)),
	yes("put 0 0 0 4 5", putTrailing(4)),
	yes("put 0 0 0 4\t", putTrailing(4)),
	yes("put 0 0 0 65535 ", putTrailing(65535)),
	yes("put 0 0 0 65536 ", putTrailing(65536)),
	yes("put 0 0 0 4294967295-", putTrailing(maxU32)),
	bad("put "),
	bad("put  "),
	bad("put 1"),
	bad("put 1 2 3"),
	bad("put 1 2 3 "),
	bad("put 1 2 3 x"),
	bad("put a 2 3 4"),
	bad("put 1x 2 3 4"),
	bad("put 1,2,3,4"),
	bad("put 1\t2 3 4"),
	bad("put \t1 2 3 4"),
	bad("put -1 2 3 4"),
	bad("put +1 2 3 4"),
	bad("put 1 -2 3 4"),
	bad("put 1 2 -3 4"),
	bad("put 1 2 3 -4"),
	bad("put 1 2 3 +4"),
	bad("put 1-2 3 4"),
	bad("put 4294967296 0 0 1"),
	bad("put 0 4294967296 0 1"),
	bad("put 0 0 4294967296 1"),
	bad("put 0 0 0 4294967296"),
	bad("put 0 0 0 18446744073709551616"),
	bad("put 0 0 0 99999999999999999999999"),
	bad("put 18446744073709551616 0 0 1"),
	bad("put 0 0 0 65536 \x00"),
	unknown("put"),
	unknown("put\t1 2 3 4"),
	unknown("PUT 1 2 3 4"),
	unknown("Put 1 2 3 4"),
	unknown(" put 1 2 3 4"),
	unknown("pu"),
	unknown("p"),

	yes("reserve", command{verb: cmdReserve}),
	bad("reserve "),
	bad("reserve x"),
	bad("reservex"),
	unknown("reserv"),

	yes("reserve-with-timeout 0", timeout(0)),
	yes("reserve-with-timeout   5", timeout(5)),
	yes("reserve-with-timeout 2147483647", timeout(math.MaxInt32)),
	yes("reserve-with-timeout 0 ", timeout(0)),
	yes("reserve-with-timeout 0 x", timeout(0)),
	yes("reserve-with-timeout 12x", timeout(12)),
	yes("reserve-with-timeout 0\t7", timeout(0)),
	old("reserve-with-timeout "),
	old("reserve-with-timeout x"),
	old("reserve-with-timeout -1"),
	old("reserve-with-timeout -0"),
	old("reserve-with-timeout +0"),
	old("reserve-with-timeout \t0"),
	old("reserve-with-timeout 2147483648"),
	old("reserve-with-timeout 4294967295"),
	old("reserve-with-timeout 4294967296"),
	old("reserve-with-timeout 9223372036854775807"),
	bad("reserve-with-timeout 9223372036854775808"),
	bad("reserve-with-timeout 99999999999999999999"),
	bad("reserve-with-timeout 0\x00"),
	bad("reserve-with-timeout"),
	bad("reserve-with-timeout\t0"),

	yes("reserve-job 1", id(cmdReserveJob, 1)),
	yes("reserve-job   1", id(cmdReserveJob, 1)),
	bad("reserve-job 1 "),
	bad("reserve-job x"),
	bad("reserve-job "),
	bad("reserve-job"),
	bad("reserve-job\t1"),

	yes("delete 1", id(cmdDelete, 1)),
	yes("delete 0", id(cmdDelete, 0)),
	yes("delete   0007", id(cmdDelete, 7)),
	yes("delete 4294967296", id(cmdDelete, 1<<32)),
	yes("delete 18446744073709551615", id(cmdDelete, math.MaxUint64)),
	yes("delete 018446744073709551615", id(cmdDelete, math.MaxUint64)),
	bad("delete 18446744073709551616"),
	bad("delete 18446744073709551620"),
	bad("delete 99999999999999999999"),
	bad("delete 184467440737095516150"),
	bad("delete "),
	bad("delete x"),
	bad("delete 1 "),
	bad("delete 1x"),
	bad("delete 1 2"),
	bad("delete +1"),
	bad("delete -1"),
	bad("delete 0x1"),
	bad("delete \t1"),
	bad("delete 1\n"),
	unknown("delete"),
	unknown("delete\t1"),
	unknown("deletex"),

	yes("release 1 2 3", command{verb: cmdRelease, id: 1, pri: 2, delay: 3}),
	yes("release 18446744073709551615 4294967295 4294967295", command{verb: cmdRelease, id: math.MaxUint64, pri: maxU32, delay: maxU32}),
	yes("release  1  2  3", command{verb: cmdRelease, id: 1, pri: 2, delay: 3}),
	bad("release 18446744073709551616 1 1"),
	bad("release 1 4294967296 3"),
	bad("release 1 2 4294967296"),
	bad("release 1 2 3 "),
	bad("release 1 2 3x"),
	bad("release 1x 2 3"),
	bad("release 1 2x 3"),
	bad("release -1 2 3"),
	bad("release 1 2"),
	bad("release 1"),
	bad("release "),
	unknown("release"),
	unknown("releas"),

	yes("bury 1 2", command{verb: cmdBury, id: 1, pri: 2}),
	yes("bury  1  4294967295", command{verb: cmdBury, id: 1, pri: maxU32}),
	bad("bury 1 4294967296"),
	bad("bury 18446744073709551616 1"),
	bad("bury 1 2 "),
	bad("bury 1 2x"),
	bad("bury 1"),
	bad("bury x"),
	bad("bury "),
	unknown("bury"),

	yes("touch 1", id(cmdTouch, 1)),
	bad("touch 1 "),
	bad("touch x"),
	bad("touch "),
	unknown("touch"),

	yes("kick 1", kick(1)),
	yes("kick 0", kick(0)),
	yes("kick    12", kick(12)),
	yes("kick 1 ", kick(1)),
	yes("kick 1x", kick(1)),
	yes("kick 1 2", kick(1)),
	yes("kick +1", kick(1)),
	yes("kick -0", kick(0)),
	yes("kick -1", kick(maxU32)),
	yes("kick \t\n\v\f 1", kick(1)),
	yes("kick 0x10", kick(0)),
	yes("kick 4294967295", kick(maxU32)),
	yes("kick 4294967296", kick(0)),
	yes("kick 4294967298", kick(2)),
	yes("kick 18446744073709551615", kick(maxU32)),
	yes("kick -18446744073709551615", kick(1)),
	yes("kick -4294967296", kick(0)),
	yes("kick -4294967295", kick(1)),
	bad("kick 18446744073709551616"),
	bad("kick -18446744073709551616"),
	bad("kick 99999999999999999999x"),
	bad("kick "),
	bad("kick x"),
	bad("kick +"),
	bad("kick -"),
	bad("kick -x"),
	bad("kick - 1"),
	bad("kick +-1"),
	bad("kick \xa01"),
	bad("kick \b1"),
	bad("kick \x0e1"),
	bad("kick 1\x00"),
	unknown("kick"),
	unknown("kick\t1"),

	yes("kick-job 1", id(cmdKickJob, 1)),
	yes("kick-job  1", id(cmdKickJob, 1)),
	bad("kick-job 1 "),
	bad("kick-job 1x"),
	bad("kick-job -1"),
	bad("kick-job x"),
	bad("kick-job "),
	unknown("kick-job"),
	unknown("kick-jobx"),

	yes("peek 1", id(cmdPeek, 1)),
	yes("peek  1", id(cmdPeek, 1)),
	bad("peek 1 "),
	bad("peek 1x"),
	bad("peek -1"),
	bad("peek x"),
	bad("peek "),
	unknown("peek"),
	unknown("peekx"),
	unknown("peek-"),
	unknown("peek-x"),
	yes("peek-ready", command{verb: cmdPeekReady}),
	yes("peek-delayed", command{verb: cmdPeekDelayed}),
	yes("peek-buried", command{verb: cmdPeekBuried}),
	bad("peek-ready "),
	bad("peek-readyx"),
	bad("peek-delayed "),
	bad("peek-delayed x"),
	bad("peek-buried "),
	bad("peek-buriedx"),
	unknown("peek-read"),
	unknown("peek-delaye"),
	unknown("peek-burie"),

	yes("use a", tube(cmdUse, "a")),
	yes("use a-", tube(cmdUse, "a-")),
	yes("use 123", tube(cmdUse, "123")),
	yes("use +/;.$_()-azAZ09", tube(cmdUse, "+/;.$_()-azAZ09")),
	yes("use "+name200, tube(cmdUse, name200)),
	bad("use " + name201),
	bad("use "),
	bad("use  a"),
	bad("use a "),
	bad("use a b"),
	bad("use -a"),
	bad("use -"),
	bad("use a\n"),
	bad("use a\tb"),
	bad("use a\x7f"),
	bad("use a\x80"),
	bad("use é"),
	unknown("use"),
	unknown("us"),
	yes("watch a", tube(cmdWatch, "a")),
	yes("watch "+name200, tube(cmdWatch, name200)),
	bad("watch " + name201),
	bad("watch "),
	bad("watch a "),
	bad("watch  a"),
	bad("watch -"),
	unknown("watch"),
	yes("ignore a", tube(cmdIgnore, "a")),
	yes("ignore default", tube(cmdIgnore, "default")),
	yes("ignore "+name200, tube(cmdIgnore, name200)),
	bad("ignore " + name201),
	bad("ignore "),
	bad("ignore a b"),
	bad("ignore -a"),
	unknown("ignore"),

	yes("stats", command{verb: cmdStats}),
	bad("stats "),
	bad("statsx"),
	bad("stats-"),
	bad("stats-x"),
	unknown("stat"),
	yes("stats-job 1", id(cmdStatsJob, 1)),
	yes("stats-job  1", id(cmdStatsJob, 1)),
	bad("stats-job 1 "),
	bad("stats-job x"),
	bad("stats-job "),
	bad("stats-job"),
	bad("stats-jobx"),
	yes("stats-tube default", tube(cmdStatsTube, "default")),
	yes("stats-tube nope", tube(cmdStatsTube, "nope")),
	yes("stats-tube "+name200, tube(cmdStatsTube, name200)),
	bad("stats-tube " + name201),
	bad("stats-tube  default"),
	bad("stats-tube default "),
	bad("stats-tube -x"),
	bad("stats-tube "),
	bad("stats-tube"),
	bad("stats-tubes"),

	yes("list-tubes", command{verb: cmdListTubes}),
	yes("list-tube-used", command{verb: cmdListTubeUsed}),
	yes("list-tubes-watched", command{verb: cmdListTubesWatched}),
	bad("list-tubes "),
	bad("list-tubesx"),
	bad("list-tubes-watche"),
	bad("list-tubes-watched "),
	bad("list-tubes-watchedx"),
	bad("list-tube-used "),
	bad("list-tube-usedx"),
	unknown("list-tube"),
	unknown("list-tube-use"),
	unknown("list"),

	yes("pause-tube default 0", pause("default", 0)),
	yes("pause-tube default 4294967295", pause("default", maxU32)),
	yes("pause-tube   p   07", pause("p", 7)),
	yes("pause-tubep 1", pause("p", 1)),
	yes("pause-tube1 2", pause("1", 2)),
	yes("pause-tube p-1 1", pause("p-1", 1)),
	yes("pause-tube "+name200+" 1", pause(name200, 1)),
	{in: "pause-tube " + name201 + " 1", want: badName},
	bad("pause-tube default 4294967296"),
	bad("pause-tube default -1"),
	bad("pause-tube default +1"),
	bad("pause-tube default x"),
	bad("pause-tube default 1 "),
	bad("pause-tube default 1x"),
	bad("pause-tube default 0 0"),
	bad("pause-tube default "),
	bad("pause-tube default"),
	bad("pause-tube default1"),
	bad("pause-tube default\t1"),
	bad("pause-tube\tdefault 1"),
	bad("pause-tube a!b 1"),
	bad("pause-tube a! 1"),
	{in: "pause-tube -a 1", want: badName},
	bad("pause-tubep p 1"),
	bad("pause-tube 1"),
	bad("pause-tube "),
	bad("pause-tube"),
	unknown("pause-tub"),

	yes("quit", command{verb: cmdQuit}),
	yes("quit ", command{verb: cmdQuit}),
	yes("quitx", command{verb: cmdQuit}),
	yes("quit now\t", command{verb: cmdQuit}),
	bad("quit\x00"),
	unknown("qui"),
	unknown("Quit"),

	unknown(""),
	unknown(" "),
	unknown("x"),
	unknown("\n"),
	unknown("\xff\xfe"),
	unknown("hello"),
	bad("\x00"),
	bad("hello\x00"),
	bad("stats\x00"),
}

func TestParse(t *testing.T) {
	seen := [verbs]bool{}
	for _, l := range lines {
		var c command
		got := parse([]byte(l.in), &c)
		if got != l.want {
			t.Errorf("%q: verdict %d, want %d", l.in, got, l.want)
			continue
		}
		if got == accepted {
			seen[c.verb] = true
			if !reflect.DeepEqual(c, l.cmd) {
				t.Errorf("%q: %+v, want %+v", l.in, c, l.cmd)
			}
		}
	}
	for v, ok := range seen {
		if !ok {
			t.Errorf("no good line for verb %d", v)
		}
	}
}

// Every byte in every tube name either is good everywhere or nowhere.
func TestParseNames(t *testing.T) {
	for b := range 256 {
		want := badFormat
		if regexp.MustCompile(`^[A-Za-z0-9+/;.$_()-]\z`).MatchString(string(rune(b))) {
			want = accepted
		}
		var c command
		for _, form := range []string{"use x%cx", "watch x%cx", "ignore x%cx", "stats-tube x%cx", "pause-tube x%cx 1"} {
			in := strings.Replace(form, "%c", string([]byte{byte(b)}), 1)
			if got := parse([]byte(in), &c); got != want {
				t.Errorf("%q: verdict %d, want %d", in, got, want)
			}
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	var c command
	for _, l := range lines {
		in := []byte(l.in)
		if n := testing.AllocsPerRun(10, func() { parse(in, &c) }); n != 0 {
			t.Errorf("%q: %v allocations", l.in, n)
		}
	}
}

// defaultMaxJobSize is the reference's limit without -z.
const defaultMaxJobSize = 65535

func TestReferenceParse(t *testing.T) {
	socket := startReference(t)
	for _, l := range lines {
		want := l.want
		if l.old || l.cmd.trailing && l.cmd.size > defaultMaxJobSize {
			want = accepted
		} else if l.cmd.trailing || want == badName {
			want = badFormat
		}
		reply := ask(t, socket, l.in+"\r\n")
		got := accepted
		switch reply {
		case "BAD_FORMAT\r\n":
			got = badFormat
		case "UNKNOWN_COMMAND\r\n":
			got = unknownCommand
		}
		if got != want {
			t.Errorf("%q: the reference says %q, want verdict %d", l.in, reply, want)
		}
	}
}

// The numbers and names that parse reads are those that the reference acts on.
func TestReferenceValues(t *testing.T) {
	socket := startReference(t)
	for i, l := range lines {
		if l.want != accepted {
			continue
		}
		c := l.cmd
		switch c.verb {
		case cmdPut:
			body := strings.Repeat("b", int(min(c.size, 1<<20)))
			reply := ask(t, socket, l.in+"\r\n", body+"\r\n")
			if c.size > defaultMaxJobSize {
				// One so big that its end never comes is swallowed without an
				// answer.
				if c.size < 1<<20 && reply != "JOB_TOO_BIG\r\n" {
					t.Errorf("%q: the reference says %q", l.in, reply)
				}
				continue
			}
			if c.trailing {
				continue
			}
			var id uint64
			if _, err := fmt.Sscanf(reply, "INSERTED %d\r\n", &id); err != nil {
				t.Errorf("%q: the reference says %.100q", l.in, reply)
				continue
			}
			stats := ask(t, socket, fmt.Sprintf("stats-job %d\r\n", id))
			for _, want := range []string{
				fmt.Sprintf("\npri: %d\n", c.pri), fmt.Sprintf("\ndelay: %d\n", c.delay), fmt.Sprintf("\nttr: %d\n", max(c.ttr, 1)),
			} {
				if !strings.Contains(stats, want) {
					t.Errorf("%q: no %q in the reference's %q", l.in, want, stats)
				}
			}
		case cmdKick:
			setup := fmt.Sprintf("use kick%d\r\n", i) + strings.Repeat("put 0 1000 1 0\r\n\r\n", 3)
			want := fmt.Sprintf("\r\nKICKED %d\r\n", min(c.count, 3))
			if reply := ask(t, socket, setup+l.in+"\r\n"); !strings.HasSuffix(reply, want) {
				t.Errorf("%q of 3 jobs: the reference says %q, want %q", l.in, reply, want)
			}
		case cmdPauseTube:
			if reply := ask(t, socket, "use "+string(c.tube)+"\r\n"+l.in+"\r\n"); !strings.HasSuffix(reply, "PAUSED\r\n") {
				t.Errorf("%q: the reference says %q", l.in, reply)
			}
			stats := ask(t, socket, "use "+string(c.tube)+"\r\n"+l.in+"\r\nstats-tube "+string(c.tube)+"\r\n")
			if want := fmt.Sprintf("\npause: %d\n", c.pause); !strings.Contains(stats, want) {
				t.Errorf("%q: no %q in the reference's %q", l.in, want, stats)
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, in := range []string{
		"put 1024 0 120 512",
		"reserve",
		"reserve-with-timeout 30",
		"delete 123456789",
		"release 123456789 1024 0",
		"use some-longer-tube-name",
		"list-tubes-watched",
		"unknown-command",
	} {
		word, _, _ := strings.Cut(in, " ")
		b.Run(word, func(b *testing.B) {
			line := []byte(in)
			var c command
			b.ReportAllocs()
			for b.Loop() {
				parse(line, &c)
			}
		})
	}
}
