package shard

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// play has people talk to an engine as a script says, and compares what is
// answered. The lines of a script are
//
//	ann: put 5 0 60 hello -> INSERTED 1   a command of beanstalkd's, its answer
//	ann: put 5 0 60 x; reserve -> …; …    several, posted as one chain
//	bob: reserve -> ...                   the answer is still to come
//	bob <- RESERVED 1 hello               and there it is
//	+1.5s                                 time passes
//	# …                                   a remark
//
// Whoever is named is there from then on; on several shards the last digit of a
// tube's name says where it lives. Beside beanstalkd's commands there are stats
// commands that name the fields wanted, cancel (the client ends its wait), hup
// (from now on its reserves do not wait), quit, drain, and end-waits (the
// server goes down). What just succeeds is answered OK.
func play(t *testing.T, shards int, script string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := NewDirectory()
		p := &player{t: t, rig: newRig(shards, d, 0), directory: d, cast: make(map[string]*role)}
		defer p.rig.stop()
		var want, got []string
		for line := range strings.Lines(script) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			want = append(want, strings.Join(strings.Fields(line), " "))
			if strings.Contains(line, " <- ") {
				continue // comes by itself or not at all
			}
			got = append(got, p.line(line))
			synctest.Wait()
			got = append(got, p.arrivals()...)
		}
		if got, want := strings.Join(got, "\n"), strings.Join(want, "\n"); got != want {
			t.Errorf("got:\n%s\n\nwant:\n%s", got, want)
		}
	})
}

type player struct {
	t         *testing.T
	rig       *rig
	directory *Directory
	cast      map[string]*role
}

type role struct {
	*person
	name    string
	blocked bool
	hup     bool
	peer    *fakePeer // of a Gearman client
}

// line plays one line of the script, and returns it with the answers that came.
func (p *player) line(line string) string {
	p.t.Helper()
	if line[0] == '#' {
		return strings.Join(strings.Fields(line), " ")
	}
	if line[0] == '+' {
		d, err := time.ParseDuration(line[1:])
		if err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(d)
		return line
	}
	said, _, _ := strings.Cut(line, "->")
	name, commands, ok := strings.Cut(said, ":")
	if !ok {
		p.t.Fatalf("who says %q?", line)
	}
	who := p.cast[name]
	if who == nil {
		who = p.newRole(name, strings.Fields(commands)[0])
		p.cast[name] = who
	}
	if answer, ok := p.aside(who, strings.Fields(commands)); ok {
		return fmt.Sprintf("%s: %s -> %s", name, strings.Join(strings.Fields(commands), " "), answer)
	}
	var echo, answers []string
	var chain []*Request
	var fields [][]string
	shard := 0
	for command := range strings.SplitSeq(commands, ";") {
		f := strings.Fields(command)
		echo = append(echo, strings.Join(f, " "))
		var r *Request
		r, shard = p.request(who, f)
		chain, fields = append(chain, r), append(fields, f)
	}
	who.waiter.Begin(!who.hup)
	who.postOn(shard, chain...)
	who.await()
	for i, r := range chain {
		answers = append(answers, answer(r, fields[i]))
		who.blocked = who.blocked || r.Status == Waiting
	}
	return fmt.Sprintf("%s: %s -> %s", name, strings.Join(echo, "; "), strings.Join(answers, "; "))
}

// arrivals returns the answers of waits that have come, by name.
func (p *player) arrivals() (lines []string) {
	for _, who := range p.cast {
		if g, ok := who.waiter.Granted(); ok && who.blocked {
			who.blocked = false
			r := &Request{Op: Reserve, Status: g.Status, ID: g.ID, Body: g.Body}
			lines = append(lines, who.name+" <- "+answer(r, nil))
		}
	}
	slices.Sort(lines)
	return append(lines, p.events()...)
}

// aside does what is not a command for a chain.
func (p *player) aside(who *role, f []string) (answer string, ok bool) {
	switch f[0] {
	case "use":
		who.use(f[1])
	case "watch":
		who.watch(f[1])
	case "ignore":
		who.ignore(f[1])
	case "hup":
		who.hup = true
	case "cancel":
		ended := who.waiter.Cancel()
		if who.blocked = who.blocked && !ended; ended {
			who.send(who.watched[0].Shard, Cancel)
		}
		return strconv.FormatBool(ended), true
	case "quit":
		who.detach()
		delete(p.cast, who.name)
	case "drain":
		p.rig.draining.Store(true)
	case "end-waits":
		for i := range p.rig.shards {
			who.send(i, EndWaits)
		}
	case "list-tubes":
		return strings.Join(p.rig.newStranger().do(0, Request{Op: Tubes}).Lists.Names, " "), true
	case "stats":
		st := p.rig.gather()
		return values(st, f[1:]), true
	default:
		return p.gearmanAside(who, f)
	}
	return "OK", true
}

// request turns a command into a request, and says for which shard.
func (p *player) request(who *role, f []string) (r *Request, shard int) {
	p.t.Helper()
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		return n
	}
	op := slices.Index(commandNames[:], f[0])
	if op <= 0 {
		p.t.Fatalf("what is %q?", f)
	}
	r = &Request{Op: Op(op), Tube: who.used}
	if who.peer != nil {
		return r, p.gearmanRequest(who, r, f)
	}
	shard = who.used.Shard
	switch r.Op {
	case Put:
		r.Pri, r.Delay, r.TTR, r.Body = uint32(number(1)), uint32(number(2)), uint32(number(3)), []byte(f[4])
	case Reserve, ReserveTimeout:
		shard = who.watched[0].Shard
		if r.Timeout = NoTimeout; r.Op == ReserveTimeout {
			seconds, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				p.t.Fatal(err)
			}
			r.Timeout = int64(seconds * float64(second))
		}
		for i := range p.rig.shards { // the router knows; here one asks
			if i != shard {
				r.Soonest = earlier(r.Soonest, who.do(i, Request{Op: Soonest}).Soonest)
			}
		}
	case ReserveJob, Delete, Release, Bury, Touch, Peek, KickJob, StatsJob:
		r.ID = number(1)
		shard = max(p.directory.Lookup(r.ID), 0)
		if r.Op == Release || r.Op == Bury {
			r.Pri = uint32(number(2))
		}
		if r.Op == Release {
			r.Delay = uint32(number(3))
		}
	case Kick:
		r.N = number(1)
	case StatsTube, PauseTube:
		r.Name = f[1]
		shard = p.rig.shardOf(r.Name)
		if r.Op == PauseTube {
			r.Delay = uint32(number(2))
		}
	}
	return r, shard
}

var commandNames = [...]string{
	Put: "put", Reserve: "reserve", ReserveTimeout: "reserve-with-timeout", ReserveJob: "reserve-job",
	Delete: "delete", Release: "release", Bury: "bury", Touch: "touch", Peek: "peek", PeekReady: "peek-ready",
	PeekDelayed: "peek-delayed", PeekBuried: "peek-buried", Kick: "kick", KickJob: "kick-job",
	StatsJob: "stats-job", StatsTube: "stats-tube", PauseTube: "pause-tube",
	Submit: "submit", Grab: "grab", Report: "report", Inquire: "inquire",
}

// answer writes an answer down as beanstalkd does, more or less.
func answer(r *Request, f []string) string {
	switch r.Status {
	case OK:
	case Unserved, Waiting:
		return map[Status]string{Unserved: "unserved", Waiting: "..."}[r.Status]
	default:
		return map[Status]string{NotFound: "NOT_FOUND", OutOfMemory: "OUT_OF_MEMORY", Draining: "DRAINING",
			TimedOut: "TIMED_OUT", DeadlineSoon: "DEADLINE_SOON", Aborted: "aborted", Retry: "retry",
			QueueFull: "QUEUE_FULL", Busy: "BUSY", Failed: "FAILED"}[r.Status]
	}
	switch r.Op {
	case Submit:
		return fmt.Sprintf("CREATED %d", r.ID)
	case Grab:
		unique := "put"
		if r.Task != nil {
			unique = cmp.Or(r.Task.Unique, "_")
		}
		return fmt.Sprintf("ASSIGNED %d %s %s %s", r.ID, r.Tube.Name, unique, text(r.Body))
	case Inquire:
		return fmt.Sprintf("running %d, %d of %d, %d wait", r.N&1, r.Pri, r.Delay, r.N>>1)
	case Put:
		return fmt.Sprintf("INSERTED %d", r.ID)
	case Reserve, ReserveTimeout, ReserveJob:
		return fmt.Sprintf("RESERVED %d %s", r.ID, text(r.Body))
	case Peek, PeekReady, PeekDelayed, PeekBuried:
		return fmt.Sprintf("FOUND %d %s", r.ID, text(r.Body))
	case Kick:
		return fmt.Sprintf("KICKED %d", r.N)
	case StatsJob:
		return values(*r.Job, f[2:])
	case StatsTube:
		return values(*r.TubeStats, f[2:])
	}
	return "OK"
}

// text is a body without the CRLF that those of Gearman have here.
func text(body []byte) string { return strings.TrimSuffix(string(body), "\r\n") }

// values shows some fields of a struct.
func values(of any, fields []string) string {
	var shown []string
	for _, f := range fields {
		shown = append(shown, fmt.Sprintf("%s=%v", f, reflect.ValueOf(of).FieldByName(f)))
	}
	return cmp.Or(strings.Join(shown, " "), "OK")
}
