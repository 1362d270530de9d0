package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Gearman's part of play. Whoever's first command is one of these is a Gearman
// client from then on, and what comes to it by itself is shown as
//
//	ann <- COMPLETE 1 text
//
// Its commands, where F is a function and U a unique, _ for none:
//
//	submit F U high|normal|low fg|bg|+1.5s BODY
//	grab                                     of the functions of its first one's shard
//	report ID data|warning|progress|complete|fail|exception [TEXT]
//	inquire ID, inquire-unique U
//	can-do F [SECONDS], cant-do F, doze, leave
//	functions, jobs, create F, drop F, limit F HIGH NORMAL LOW, cancel-job ID
//	check                                    that all counts are right

var gearmanVerbs = strings.Fields("submit grab report inquire inquire-unique can-do cant-do doze functions jobs create drop limit cancel-job")

func (p *player) newRole(name, verb string) *role {
	if !slices.Contains(gearmanVerbs, verb) {
		return &role{person: p.rig.newPerson(), name: name}
	}
	person, peer := p.rig.newWorker(1 << 20)
	return &role{person: person, name: name, peer: peer}
}

// gearmanRequest fills in a request and says for which shard it is.
func (p *player) gearmanRequest(who *role, r *Request, f []string) (shard int) {
	switch r.Op {
	case Submit:
		r.Name = f[1]
		r.Task = &Task{Unique: strings.Trim(f[2], "_"), Reducer: "", Background: f[4] != "fg"}
		r.Pri = map[string]uint32{"high": PriHigh, "normal": PriNormal, "low": PriLow}[f[3]]
		if f[4][0] == '+' {
			d, err := time.ParseDuration(f[4][1:])
			if err != nil {
				p.t.Fatal(err)
			}
			r.N = uint64(time.Now().Add(d).Unix())
		}
		r.Body = []byte(f[5] + "\r\n")
		return p.rig.shardOf(r.Name)
	case Grab:
		return who.watched[0].Shard
	}
	r.ID = p.number(f[1])
	if r.Op == Report {
		kinds := []string{Data: "data", Warning: "warning", Progress: "progress", Complete: "complete", Fail: "fail", Exception: "exception"}
		r.N = uint64(slices.Index(kinds, f[2]))
		if len(f) > 3 {
			r.Body = []byte(f[3])
		}
		if EventKind(r.N) == Progress {
			fmt.Sscanf(f[3], "%d/%d", &r.Pri, &r.Delay)
		}
	}
	return max(p.directory.Lookup(r.ID), 0)
}

func (p *player) number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// gearmanAside does what is not a command for a chain.
func (p *player) gearmanAside(who *role, f []string) (answer string, ok bool) {
	ask := func(r Request) string {
		return statusWord(who.do(p.rig.shardOf(r.Name), r))
	}
	switch f[0] {
	case "can-do":
		r := Request{Op: CanDo, Name: f[1]}
		if len(f) > 2 {
			r.TTR = uint32(p.number(f[2]))
		}
		t := who.do(p.rig.shardOf(f[1]), r).Tube
		if !slices.Contains(who.watched, t) {
			who.watched = append(who.watched, t)
		}
	case "cant-do":
		who.ignore(f[1])
	case "doze":
		done := make(map[int]bool)
		for _, t := range who.watched {
			if !done[t.Shard] && who.do(t.Shard, Request{Op: Doze}).Status == OK {
				return "NOOP", true
			}
			done[t.Shard] = true
		}
		return "...", true
	case "leave":
		who.detach()
		delete(p.cast, who.name)
	case "create":
		return ask(Request{Op: CreateFunction, Name: f[1]}), true
	case "drop":
		return ask(Request{Op: DropFunction, Name: f[1]}), true
	case "limit":
		limits := [3]uint32{uint32(p.number(f[2])), uint32(p.number(f[3])), uint32(p.number(f[4]))}
		return ask(Request{Op: LimitFunction, Name: f[1], Lists: &Lists{Limits: limits}}), true
	case "cancel-job":
		id := p.number(f[1])
		return statusWord(who.do(max(p.directory.Lookup(id), 0), Request{Op: CancelJob, ID: id})), true
	case "inquire-unique":
		for i := range p.rig.shards {
			if r := who.do(i, Request{Op: InquireUnique, Name: f[1]}); r.Status == OK {
				r.Op = Inquire
				return fmt.Sprintf("%d ", r.ID) + answerOf(r), true
			}
		}
		return "NOT_FOUND", true
	case "functions":
		var all []string
		for i := range p.rig.shards {
			for _, s := range who.do(i, Request{Op: Functions}).Lists.Functions {
				all = append(all, fmt.Sprintf("%s:%d+%d+%d/%d/%d/%d", s.Name, s.High, s.Normal, s.Low, s.Running, s.Delayed[0]+s.Delayed[1]+s.Delayed[2], s.Workers))
			}
		}
		slices.Sort(all)
		return cmp.Or(strings.Join(all, " "), "none"), true
	case "jobs":
		var all []string
		for i := range p.rig.shards {
			r := &Request{Op: ListJobs}
			for more := true; more; more = r.ID != 0 {
				r.Lists = nil
				r = who.do(i, *r)
				for _, j := range r.Lists.Tasks {
					word := map[bool]string{true: "bg", false: "fg"}[j.Background]
					if j.Waiting {
						word += "+"
					}
					all = append(all, fmt.Sprintf("%d:%s:%d:%s", j.ID, cmp.Or(j.Unique, "_"), j.Retries, word))
				}
			}
		}
		return cmp.Or(strings.Join(all, " "), "none"), true
	case "check":
		for _, s := range p.rig.shards {
			if err := s.check(); err != nil {
				return err.Error(), true
			}
		}
	default:
		return "", false
	}
	return "OK", true
}

func statusWord(r *Request) string {
	r.Op = None
	return answerOf(r)
}

func answerOf(r *Request) string { return answer(r, nil) }

// events returns what has come to Gearman's clients, by name.
func (p *player) events() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(p.cast)) {
		who := p.cast[name]
		if who.peer == nil {
			continue
		}
		who.peer.inbox.Take(func(e *Event) {
			kind := []string{"NOOP", "DATA", "WARNING", "STATUS", "COMPLETE", "FAIL", "EXCEPTION", "EXPIRED"}[e.Kind]
			line := fmt.Sprintf("%s <- %s", name, kind)
			if e.Kind != Wake {
				line = strings.TrimSpace(fmt.Sprintf("%s %d %s", line, e.ID, e.Data))
			}
			lines = append(lines, line)
		})
	}
	return lines
}
