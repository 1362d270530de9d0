package perf

// The check finds what it is for.

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkBroken checks fakes with these flaws until the report has those words, or,
// if that is "", there is an error: on a machine that is busy, a moment may be too
// short for a flaw to show, or answers may be late as well.
func checkBroken(t *testing.T, f flaws, scenario, words string) (v Verdict, err error) {
	t.Helper()
	for moment := 60 * time.Millisecond; moment < 10*time.Second; moment *= 3 {
		v, err = checkFake(t, newFake(t, f), scenario, moment)
		if words == "" && err != nil || words != "" && strings.Contains(v.Report, words) {
			break
		}
	}
	return v, err
}

// checkFake checks a fake for a moment.
func checkFake(t *testing.T, f *fake, scenario string, moment time.Duration) (Verdict, error) {
	t.Helper()
	sc, err := Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sc.Config.with(func(c *Config) {
		c.WarmUp, c.Duration = 0, moment
		if f.flaws != (flaws{}) && f.hangup == 0 && f.nonsens == 0 {
			c.Grace = 200 * time.Millisecond // there is something that will not come
		}
		c.Body, c.Priority = Dist{shape: uniform, lo: 20, hi: 2000}, Dist{shape: uniform, lo: 0, hi: 2000}
		c.Threads = 2
		if c.Connections > 0 {
			c.Connections, c.Jobs = 6, min(c.Jobs, 2000)
		}
	})
	return Check(t.Context(), sc, cfg, &Target{Name: "fake", Addr: f.addr()}, nil)
}

func TestCheckOfAServerThatIsRight(t *testing.T) {
	for _, scenario := range []string{"cycle", "mixed", "fanin", "handoff", "delayed", "produce", "consume"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			var f *fake
			var v Verdict
			var err error
			// On a machine that is busy nothing may be answered in a moment.
			for moment := 60 * time.Millisecond; moment < 10*time.Second; moment *= 3 {
				f = newFake(t, flaws{})
				if v, err = checkFake(t, f, scenario, moment); err == nil || v.Faults != 0 {
					break
				}
			}
			if err != nil || v.Faults != 0 || !strings.Contains(v.Report, "no job was lost, damaged or mixed up") {
				t.Errorf("%v\n%s", err, v.Report)
			}
			if strings.HasPrefix(v.Report, "0 jobs") {
				t.Errorf("nothing was checked: %s", v.Report)
			}
			if n := f.left(); n != 0 {
				t.Errorf("%d jobs were left on the server", n)
			}
		})
	}
}

// Where jobs are delayed, reserves wait, and nothing gets stuck.
func TestCheckWithDelays(t *testing.T) {
	t.Parallel()
	sc, err := Find("mixed")
	if err != nil {
		t.Fatal(err)
	}
	cfg := sc.Config.with(func(c *Config) {
		c.WarmUp, c.Duration, c.Delay = 0, 1200*time.Millisecond, Dist{shape: listed, list: []int64{0, 0, 1}}
	})
	v, err := Check(t.Context(), sc, cfg, &Target{Name: "fake", Addr: newFake(t, flaws{}).addr()}, nil)
	if err != nil || v.Faults != 0 || strings.HasPrefix(v.Report, "0 jobs") {
		t.Errorf("%v\n%s", err, v.Report)
	}
}

func TestCheckOfABrokenServer(t *testing.T) {
	for _, tt := range []struct {
		name     string
		flaws    flaws
		scenario string
		want     string
	}{
		{"loses a job", flaws{lose: 20}, "handoff", "; lost: "},
		{"loses a job", flaws{lose: 20}, "cycle", "; lost: "},
		{"gives a job twice", flaws{twice: 20}, "handoff", "; delivered twice: "},
		{"gives a job twice", flaws{twice: 20}, "cycle", "; delivered twice: "},
		{"gives a job after its delete", flaws{again: 20}, "fanin", "; delivered twice: "},
		{"changes a byte", flaws{damage: 20}, "cycle", "; bodies damaged: "},
		{"leaves the end of a body out", flaws{cut: 20}, "fanin", "; bodies damaged: "},
		{"mixes bodies up", flaws{swap: 20}, "mixed", "; under the id of another: "},
		{"gives an id twice", flaws{sameID: 20}, "produce", "; ids given twice: "},
		{"shows another job", flaws{peek: 2}, "mixed", "; under the id of another: "},
		{"gives jobs of tubes that are not watched", flaws{strange: 2}, "mixed", "; from tubes not watched: "},
		{"gives jobs of tubes that are not watched", flaws{strange: 2}, "consume", "; from tubes not watched: "},
		{"ignores priorities", flaws{queue: 2}, "consume", "; before a more urgent job: "},
		{"ignores some priorities", flaws{queue: 10}, "cycle", "; before a more urgent job: "},
		{"ignores some priorities", flaws{queue: 10}, "mixed", "; before a more urgent job: "},
		{"does not find jobs", flaws{hide: 7}, "mixed", "; NOT_FOUND for a job that exists: "},
		{"says that there are no jobs", flaws{shut: 50}, "consume", "; TIMED_OUT while a job was ready: "},
		{"ignores delays", flaws{hasty: 20}, "delayed", "; before their delay was over: "},
	} {
		t.Run(tt.name+" in "+tt.scenario, func(t *testing.T) {
			t.Parallel()
			v, err := checkBroken(t, tt.flaws, tt.scenario, tt.want)
			if v.Faults == 0 || !strings.Contains(v.Report, tt.want) {
				t.Errorf("%d faults, no %q; error %v:\n%s", v.Faults, tt.want, err, v.Report)
			}
		})
	}
}

// What is no fault of jobs is an error.
func TestCheckOfAServerThatFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flaws flaws
		want  []string
	}{
		{"hangs up", flaws{hangup: 20}, []string{"the server closed the connection", "waiting for the answer to"}},
		{"talks nonsense", flaws{nonsens: 20}, []string{`sent "put `, ` 0 600 `, `got "PARDON"`}},
		{"hurries who has nothing", flaws{soon: 1}, []string{`sent "reserve", got "DEADLINE_SOON"`}},
		{"says nothing", flaws{mute: 20}, []string{"answer"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := checkBroken(t, tt.flaws, "handoff", "")
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
		})
	}
}

// A job that is there and does not come to the workers that wait for it is not
// lost, since it comes once it is kicked; but all is not well.
func TestCheckOfAServerThatKeepsJobs(t *testing.T) {
	for _, scenario := range []string{"handoff", "fanin", "delayed"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			v, err := checkBroken(t, flaws{keep: 20}, scenario, "")
			if err == nil || !strings.HasPrefix(err.Error(), "of the jobs that were put, ") || !strings.Contains(err.Error(), " did not come within ") || v.Faults != 0 {
				t.Errorf("%v\n%s", err, v.Report)
			}
		})
	}
}

// Nothing is called right that was not looked at.
func TestCheckOfNothing(t *testing.T) {
	l := newLedger(0, 0)
	if got := l.report(); !strings.HasSuffix(got, "; nothing was checked") {
		t.Error(got)
	}
	p := pending{op: opPut, number: l.next("t", 0, 0)}
	l.answered(nil, &p, &reply{kind: inserted, id: []byte("1")}, 0)
	if got := l.report(); got != "1 job put, 0 deliveries, 0 deleted; whether jobs were lost is not known" {
		t.Error(got)
	}
	if l.close(); !strings.Contains(l.report(), "; lost: 1") {
		t.Error(l.report())
	}
}

// A client that has a job for longer than its TTR loses it to another, and the
// server is right.
func TestCheckOfJobsThatOutliveTheirTTR(t *testing.T) {
	for _, tt := range []struct {
		scenario string
		flaws    flaws
	}{
		{"handoff", flaws{late: 1300 * time.Millisecond, lateOf: 5}},
		{"fanin", flaws{late: 1300 * time.Millisecond, lateOf: 5}},
		{"cycle", flaws{late: 50 * time.Millisecond, lateOf: 1}},
		{"mixed", flaws{late: 50 * time.Millisecond, lateOf: 1}},
		{"consume", flaws{late: 50 * time.Millisecond, lateOf: 1}},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			sc, err := Find(tt.scenario)
			if err != nil {
				t.Fatal(err)
			}
			cfg := sc.Config.with(func(c *Config) {
				c.WarmUp, c.Duration, c.Grace, c.Threads, c.TTR = 0, 3*time.Second, 20*time.Second, 2, 1
				c.Tubes, c.Watch, c.Depth, c.Priority = 1, 1, 2, Dist{shape: uniform, lo: 0, hi: 2000}
				if c.Workers > 0 { // there are more of them than jobs
					c.Producers, c.Workers = 2, 6
				} else {
					c.Connections, c.Depth, c.Jobs = 4, 64, min(c.Jobs, 200)
				}
			})
			v, err := Check(t.Context(), sc, cfg, &Target{Name: "fake", Addr: newFake(t, tt.flaws).addr()}, nil)
			if err != nil || v.Faults > 0 || !strings.Contains(v.Report, " came again because a TTR was over") {
				t.Errorf("%v\n%s", err, v.Report)
			}
		})
	}
}

// What may be said of a job that comes again depends on when its TTR was over at
// the earliest.
func TestJobsThatComeAgain(t *testing.T) {
	const ttr = int64(10e9)
	for _, tt := range []struct {
		name           string
		touched        int64 // when it was
		deleted        int64 // when DELETED was read
		asked, came    int64 // of the second delivery
		twice, forgone bool  // that is a fault; the first client's release may be NOT_FOUND
	}{
		{"within its TTR", 0, 0, 8e9, 9e9, true, false},
		{"when that is over", 0, 0, 8e9, 11e9, false, true},
		{"when it would be over but for a touch", 5e9, 0, 8e9, 14e9, true, true},
		{"when it is over since the touch", 5e9, 0, 8e9, 16e9, false, true},
		{"after its delete", 0, 2e9, 3e9, 30e9, true, false},
		{"and was deleted when that TTR was over, too", 0, 25e9, 14e9, 30e9, false, true},
		{"and was deleted within that TTR", 0, 25e9, 16e9, 30e9, true, true},
	} {
		l, a, b := newLedger(0, ttr), &conn{watched: map[string]bool{"t": true}}, &conn{watched: map[string]bool{"t": true}}
		body, id := make([]byte, headerCheck), []byte("1")
		p := pending{op: opPut, number: l.next("t", 0, 0)}
		stampCheck(body, p.number)
		at := clock()
		p.began = at
		l.answered(a, &p, &reply{kind: inserted, id: id}, at)
		p.op, p.due = opReserve, at
		l.answered(a, &p, &reply{kind: reserved, id: id, body: body}, at+1e6)
		if tt.touched > 0 {
			p.op, p.due = opTouch, at+tt.touched
			l.answered(a, &p, &reply{kind: touched}, at+tt.touched+1e6)
		}
		if tt.deleted > 0 {
			l.sending(a, opDelete, p.number)
			l.answered(a, &p, &reply{kind: deleted}, at+tt.deleted)
		}
		l.answered(b, &pending{op: opReserve, due: at + tt.asked}, &reply{kind: reserved, id: id, body: body}, at+tt.came)
		if twice := l.faults[deliveredTwice] == 1; twice != tt.twice || l.sum() != btoi(twice) {
			t.Errorf("again %s: %s", tt.name, l.report())
		}
		if tt.deleted > 0 {
			continue
		}
		p.op = opRelease
		if got := l.excused(a, &p, &reply{kind: notFound}, at+tt.came); got != tt.forgone {
			t.Errorf("again %s: that the first client's release is NOT_FOUND is right: %v", tt.name, got)
		}
	}
}

// What others do with a job that its first client has lost is no fault.
func TestJobsThatSeveralHave(t *testing.T) {
	l, clients := newLedger(0, 1e9), [3]conn{}
	body, id := make([]byte, headerCheck), []byte("1")
	number := l.next("t", 0, 0)
	stampCheck(body, number)
	at := clock()
	l.answered(nil, &pending{op: opPut, number: number}, &reply{kind: inserted, id: id}, at)
	reserve := func(c *conn, asked, now int64) {
		c.watched = map[string]bool{"t": true}
		l.answered(c, &pending{op: opReserve, due: at + asked}, &reply{kind: reserved, id: id, body: body}, at+now)
	}
	a, b, c := &clients[0], &clients[1], &clients[2]
	reserve(a, 0, 1)
	l.sending(a, opDelete, number) // which comes too late
	reserve(b, 2e9, 2e9+1)
	l.sending(b, opRelease, number)
	if !l.excused(a, &pending{op: opDelete, number: number, began: at}, &reply{kind: notFound}, at+2e9+2) {
		t.Error("NOT_FOUND of the first delete is a mistake")
	}
	reserve(c, 2e9+3, 2e9+4)
	l.sending(a, opRelease, number) // from a second script, and c has it
	l.sending(c, opDelete, number)
	l.answered(c, &pending{op: opDelete, number: number}, &reply{kind: deleted}, at+2e9+5)
	l.connsClosed()
	if l.close(); l.sum() > 0 || l.deleted != 1 {
		t.Error(l.report())
	}
}

// A page is dropped when its jobs have gone, and remembered.
func TestLedgerForgets(t *testing.T) {
	l, c := newLedger(0, 0), &conn{watched: map[string]bool{"t": true}}
	for range 3 * pageSize {
		body := make([]byte, headerCheck)
		p := pending{op: opPut, number: l.next("t", 0, 0)}
		stampCheck(body, p.number)
		id := strconv.AppendUint(nil, p.number, 10)
		l.answered(c, &p, &reply{kind: inserted, id: id}, 0)
		l.answered(c, &p, &reply{kind: reserved, id: id, body: body}, 0)
		l.sending(c, opDelete, p.number)
		l.answered(c, &p, &reply{kind: deleted}, 0)
	}
	if len(l.pages) > 2 { // the first has no job 0, the last is not full
		t.Errorf("%d pages are kept", len(l.pages))
	}
	if l.close(); l.sum() != 0 {
		t.Errorf("faults: %s", l.report())
	}
	body := make([]byte, headerCheck)
	stampCheck(body, pageSize+7)
	l.answered(c, &pending{op: opReserve}, &reply{kind: reserved, id: []byte("9"), body: body}, 0)
	if l.faults[deliveredTwice] != 1 {
		t.Errorf("a job of a page that was dropped: %s", l.report())
	}
}

// Only what is beyond doubt is said of the order of jobs.
func TestJobsThatArePassedOver(t *testing.T) {
	for _, tt := range []struct {
		name               string
		told, asked, again int64  // of the urgent job: when it was INSERTED, its reserve sent, and another job's
		conns              string // who put the urgent job, who reserved the other, and who the urgent one
		fault              int64
	}{
		{"was there, and had to wait", 10, 31, 20, "abc", 1},
		{"was there at the same clock reading, and had to wait", 20, 30, 20, "abc", 1},
		{"may have been given first", 10, 29, 20, "abc", 0},
		{"may have come too late", 21, 31, 20, "abc", 0},
		{"was asked for behind it by the same connection", 10, 29, 20, "abb", 1},
		{"was put by the connection that asked for the other", 21, 31, 20, "aac", 1},
		{"was put and asked for by the connection that asked for the other", 21, 29, 20, "aaa", 1},
		{"was put and asked for by a connection, and not the other", 21, 29, 20, "aba", 0},
	} {
		l, conns := newLedger(0, 0), make(map[byte]*conn)
		for name := range byte(4) {
			conns['a'+name] = &conn{watched: map[string]bool{"t": true}}
		}
		reserve := func(c byte, p *pending, asked, now int64) {
			body := make([]byte, headerCheck)
			stampCheck(body, p.number)
			l.answered(conns[c], &pending{op: opReserve, due: asked}, &reply{kind: reserved, id: strconv.AppendUint(nil, p.number, 10), body: body}, now)
		}
		// The other one is less urgent, or it is as urgent and was put later.
		for pri, fault := range map[uint32]fault{9: wrongOrder, 5: outOfTurn} {
			l = newLedger(0, 0)
			urgent, other := &pending{op: opPut, number: l.next("t", 0, 5)}, &pending{op: opPut, number: l.next("t", 0, pri)}
			l.answered(conns[tt.conns[0]], urgent, &reply{kind: inserted, id: []byte("1")}, tt.told)
			l.answered(conns['d'], other, &reply{kind: inserted, id: []byte("2")}, 5)
			reserve(tt.conns[1], other, tt.again, 30)
			reserve(tt.conns[2], urgent, tt.asked, 40)
			if l.faults[fault] != tt.fault || l.sum() != tt.fault {
				t.Errorf("one that %s, before one with priority %d: %s", tt.name, pri, l.report())
			}
		}

		// The same where there is no other one, but a TIMED_OUT.
		l = newLedger(0, 0)
		urgent := &pending{op: opPut, number: l.next("t", 0, 5)}
		l.answered(conns[tt.conns[0]], urgent, &reply{kind: inserted, id: []byte("1")}, tt.told)
		for name, c := range conns {
			c.group = &group{name: "conn " + string(name)}
		}
		l.answered(conns[tt.conns[1]], &pending{op: opReserveNow, due: tt.again}, &reply{kind: timedOut}, 30)
		reserve(tt.conns[2], urgent, tt.asked, 40)
		if l.faults[falseTimeout] != tt.fault || l.sum() != tt.fault {
			t.Errorf("one that %s, and TIMED_OUT: %s", tt.name, l.report())
		}
	}
}

// NOT_FOUND is right as soon as a delete was sent.
func TestJobsThatAreNotFound(t *testing.T) {
	for _, o := range []op{opPeek, opStatsJob, opKickJob} {
		l, c := newLedger(0, 0), &conn{watched: map[string]bool{"t": true}}
		body, p := make([]byte, headerCheck), pending{op: opPut, number: l.next("t", 0, 0)}
		stampCheck(body, p.number)
		ask := func(when string, want int64) {
			p.op = o
			before := l.faults[jobNotFound]
			l.answered(c, &p, &reply{kind: notFound}, 0)
			if got := l.faults[jobNotFound] - before; got != want || l.sum() != l.faults[jobNotFound] {
				t.Errorf("%s of a job %s: %d faults, want %d: %s", ops[o].name, when, got, want, l.report())
			}
		}
		p.op = opPut
		l.answered(c, &p, &reply{kind: inserted, id: []byte("1")}, 0)
		ask("that is there", 1)
		l.answered(c, &p, &reply{kind: reserved, id: []byte("1"), body: body}, 0)
		ask("that a client has", 1)
		l.sending(c, opDelete, p.number)
		ask("that may be gone", 0)
		l.answered(c, &p, &reply{kind: deleted}, 0)
		ask("that is gone", 0)
	}
}

// Of connections that are closed before they have read which job they have, that
// job comes back.
func TestOrderBehindConnectionsThatAreClosed(t *testing.T) {
	l, c := newLedger(0, 0), &conn{watched: map[string]bool{"t": true}, ring: make([]pending, 2)}
	for i := range 2 {
		p := pending{op: opPut, number: l.next("t", 0, uint32(i))}
		l.answered(c, &p, &reply{kind: inserted, id: strconv.AppendUint(nil, p.number, 10)}, 10)
	}
	gone := &conn{ring: make([]pending, 2)}
	gone.push(&pending{op: opReserve})
	l.connsClosing([]*conn{gone})
	for _, number := range []uint64{2, 1} {
		body := make([]byte, headerCheck)
		stampCheck(body, number)
		l.answered(c, &pending{op: opReserve, due: 20}, &reply{kind: reserved, id: strconv.AppendUint(nil, number, 10), body: body}, 30)
	}
	if l.sum() > 0 {
		t.Error(l.report())
	}
}
