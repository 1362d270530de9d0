package main_test

// What a server has: everything that can be asked for without changing it, and
// what of it may be different after a restart.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// diffFields are the values of a YAML reply by key. A job's body is "body".
type diffFields map[string]string

func (f diffFields) number(key string) int {
	n, err := strconv.Atoi(f[key])
	if err != nil {
		return -1
	}
	return n
}

// diffRemains is what a server said it had.
type diffRemains struct {
	at    diffSpan // when it said so
	files [2]int   // binlog-oldest-index before, binlog-current-index after
	stats diffFields
	tubes map[string]diffFields
	jobs  map[uint64]diffFields
	front map[string][3]string // by tube: the ids that peek-ready, peek-delayed and peek-buried showed, "" for none
}

// ids are those of the jobs, in order.
func (m diffRemains) ids() []uint64 { return slices.Sorted(maps.Keys(m.jobs)) }

// in returns the ids of the jobs of tube in that state, in order.
func (m diffRemains) in(tube, state string) (ids []uint64) {
	for _, id := range m.ids() {
		if j := m.jobs[id]; j["tube"] == tube && j["state"] == state {
			ids = append(ids, id)
		}
	}
	return ids
}

// ask sends requests, each one line or a put, and returns the replies.
func (s *diffServer) ask(requests ...string) (replies []string, err error) {
	for chunk := range slices.Chunk(requests, 40) { // few enough for the replies to fit into the socket
		if err := s.first.send([]byte(strings.Join(chunk, "\r\n") + "\r\n")); err != nil {
			return nil, &diffFound{fmt.Sprintf("%s: %v", s.name, err)}
		}
		for _, request := range chunk {
			reply, err := s.first.wait(diffPatience)
			if err != nil {
				return nil, &diffFound{fmt.Sprintf("%s: %q: %v", s.name, request, err)}
			}
			replies = append(replies, reply)
		}
	}
	return replies, nil
}

// want is ask for one request, whose reply has to begin with word. It returns
// what follows.
func (s *diffServer) want(request, word string) (string, error) {
	replies, err := s.ask(request)
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(strings.TrimSuffix(replies[0], "\r\n"), word)
	if !ok {
		return "", &diffFound{fmt.Sprintf("%s: %q: got %q, want %s", s.name, request, replies[0], word)}
	}
	return strings.TrimPrefix(rest, " "), nil
}

// fields brings a reply in YAML to 1.13's form and parses it.
func (s *diffServer) fields(reply string) (diffFields, error) {
	f := diffFields{}
	_, body, ok := strings.Cut(strings.TrimSuffix(reply, "\r\n"), "\r\n---\n")
	if !ok || !strings.HasPrefix(reply, "OK ") {
		return nil, &diffFound{fmt.Sprintf("%s: got %q", s.name, reply)}
	}
	for line := range strings.Lines(body) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		f[key] = strings.Trim(value, `"`)
	}
	return f, nil
}

// remains asks for everything, jobs up to that id.
func (s *diffServer) remains(last uint64) (m diffRemains, err error) {
	m.tubes, m.jobs, m.front = map[string]diffFields{}, map[uint64]diffFields{}, map[string][3]string{}
	m.at.lo = time.Now()
	requests := []string{"stats"}
	for id := uint64(1); id <= last; id++ {
		requests = append(requests, fmt.Sprintf("stats-job %d", id), fmt.Sprintf("peek %d", id))
	}
	replies, err := s.ask(append(requests, "stats", "list-tubes")...)
	if err != nil {
		return m, err
	}
	oldest, err := s.fields(replies[0])
	if err != nil {
		return m, err
	}
	replies = replies[1:]
	for i := range int(last) {
		id, stats, peek := uint64(i+1), replies[2*i], replies[2*i+1]
		if stats == "NOT_FOUND\r\n" && peek == stats {
			continue
		}
		j, err := s.fields(stats)
		if err != nil {
			return m, err
		}
		head, body, _ := strings.Cut(peek, "\r\n")
		if word := strings.Fields(head); len(word) != 3 || word[0] != "FOUND" || word[1] != fmt.Sprint(id) || j["id"] != word[1] {
			return m, &diffFound{fmt.Sprintf("%s: peek %d: %q; stats-job: %q", s.name, id, peek, stats)}
		}
		j["body"] = body
		m.jobs[id] = j
	}
	replies = replies[2*last:]
	if m.stats, err = s.fields(replies[0]); err != nil {
		return m, err
	}
	m.files = [2]int{oldest.number("binlog-oldest-index"), m.stats.number("binlog-current-index")}
	for line := range strings.Lines(replies[1]) {
		tube, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			continue
		}
		replies, err := s.ask("stats-tube "+tube, "use "+tube, "peek-ready", "peek-delayed", "peek-buried", "use default")
		if err != nil {
			return m, err
		}
		if m.tubes[tube], err = s.fields(replies[0]); err != nil {
			return m, err
		}
		var front [3]string
		for i, reply := range replies[2:5] {
			if word := strings.Fields(reply); word[0] == "FOUND" {
				front[i] = word[1]
			}
		}
		m.front[tube] = front
	}
	m.at.hi = time.Now()
	return m, nil
}

// consistent compares what m says of the tubes and in sum with what it says of
// each job. p said it; model knows the deadlines and who was buried first.
func (m diffRemains) consistent(p diffProgram, model *diffModel) error {
	sum := map[string]int{}
	for tube, f := range m.tubes {
		counts := map[string]int{}
		for _, id := range m.ids() {
			if j := m.jobs[id]; j["tube"] == tube {
				counts["current-jobs-"+j["state"]]++
				if j["state"] == "ready" && j.number("pri") < 1024 {
					counts["current-jobs-urgent"]++
				}
			}
		}
		for _, state := range []string{"urgent", "ready", "reserved", "delayed", "buried"} {
			key := "current-jobs-" + state
			if f.number(key) != counts[key] {
				return &diffFound{fmt.Sprintf("%s: tube %.20s says %s: %s, but has %d", p.name, tube, key, f[key], counts[key])}
			}
			sum[key] += counts[key]
		}
		front := m.front[tube]
		ready := m.in(tube, "ready")
		slices.SortFunc(ready, m.byPri)
		if want := diffFirst(ready); front[0] != want {
			return &diffFound{fmt.Sprintf("%s: peek-ready of %.20s shows %q, want %q", p.name, tube, front[0], want)}
		}
		delayed := m.in(tube, "delayed")
		if (front[1] == "") != (len(delayed) == 0) {
			return &diffFound{fmt.Sprintf("%s: peek-delayed of %.20s shows %q of %d", p.name, tube, front[1], delayed)}
		}
		buried := m.in(tube, "buried")
		if (front[2] == "") != (len(buried) == 0) {
			return &diffFound{fmt.Sprintf("%s: peek-buried of %.20s shows %q of %d", p.name, tube, front[2], buried)}
		}
		if !p.asIs {
			continue // see diffFaults
		}
		if first, ok := model.soonest(delayed, front[1]); !ok {
			return &diffFound{fmt.Sprintf("%s: peek-delayed of %.20s shows %s, but %d is due before", p.name, tube, front[1], first)}
		}
		slices.SortFunc(buried, model.byBurial)
		if want := diffFirst(buried); front[2] != want {
			return &diffFound{fmt.Sprintf("%s: peek-buried of %.20s shows %q, want %q", p.name, tube, front[2], want)}
		}
	}
	for key, n := range sum {
		if m.stats.number(key) != n {
			return &diffFound{fmt.Sprintf("%s: stats says %s: %s, but the tubes have %d", p.name, key, m.stats[key], n)}
		}
	}
	oldest, current := m.files[0], m.files[1]
	if oldest < 1 || oldest > current {
		return &diffFound{fmt.Sprintf("%s: binlog-oldest-index: %d, binlog-current-index: %d", p.name, oldest, current)}
	}
	for _, id := range m.ids() {
		if file := m.jobs[id].number("file"); file < oldest || file > current {
			return &diffFound{fmt.Sprintf("%s: job %d is in file: %d, but there are %d to %d", p.name, id, file, oldest, current)}
		}
	}
	return nil
}

// diffFirst is the first id in words, or nothing.
func diffFirst(ids []uint64) string {
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprint(ids[0])
}

// byPri is the order in which ready jobs are reserved.
func (m diffRemains) byPri(a, b uint64) int {
	return cmp.Or(cmp.Compare(m.jobs[a].number("pri"), m.jobs[b].number("pri")), cmp.Compare(a, b))
}

// byBurial is the order in which buried jobs are kicked.
func (m *diffModel) byBurial(a, b uint64) int { return cmp.Compare(m.byID[a].buried, m.byID[b].buried) }

// soonest says whether no delay of ids is known to end before id's, or else
// which.
func (m *diffModel) soonest(ids []uint64, id string) (first uint64, ok bool) {
	n, _ := strconv.ParseUint(id, 10, 64)
	for _, other := range ids {
		if a, b := m.byID[other], m.byID[n]; a != nil && b != nil && a.deadline.hi.Before(b.deadline.lo) {
			return other, false
		}
	}
	return 0, true
}

// A diffFault is a difference that a restart makes to a job of the reference,
// and must not make to one of sheafd.
type diffFault struct {
	why    string
	fields []string                            // that it may change …
	is     func(before, after diffFields) bool // … where this is so
}

// diffFaults are the known ones, but for those that do not show in single jobs:
// buried jobs come to be in the order in which the reference's files, which it
// rewrites, name them first (#668, too; see consistent and reserveAll), so do
// tubes (see differential_compare_test.go), and the ids of jobs that are gone
// may be given again when their file is gone (see align).
var diffFaults = []diffFault{
	{
		why:    "#668: to put back a buried job counts as to bury it",
		fields: []string{"buries"},
		is: func(before, after diffFields) bool {
			return after["state"] == "buried" && after.number("buries") == before.number("buries")+1
		},
	},
	{
		why:    "a reserve is not logged; it shows when something else is, or when the job is written again to clean a file",
		fields: []string{"reserves"},
		is:     func(before, after diffFields) bool { return fewer("reserves", before, after) },
	},
	{
		why:    "a TTR that runs out is not logged",
		fields: []string{"timeouts"},
		is:     func(before, after diffFields) bool { return fewer("timeouts", before, after) },
	},
	{
		why:    "a release without a delay is not logged, nor what else it sets",
		fields: []string{"releases", "pri", "delay"},
		is:     func(before, after diffFields) bool { return fewer("releases", before, after) },
	},
	{
		why:    "so a buried or delayed job that was taken by reserve-job is buried or delayed again, though it was released",
		fields: []string{"state", "time-left"},
		is: func(before, after diffFields) bool {
			return fewer("reserves", before, after) && (before["state"] == "reserved" || before["state"] == "ready") &&
				(after["state"] == "buried" || after["state"] == "delayed" && after.number("time-left") < after.number("delay"))
		},
	},
}

// fewer says whether some of what key counts is forgotten.
func fewer(key string, before, after diffFields) bool { return after.number(key) < before.number(key) }

// diffKept are a job's fields that a restart leaves as they are.
var diffKept = []string{"id", "tube", "pri", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks", "body"}

// A diffStop is a stop of the servers, and the start after it.
type diffStop struct {
	ended time.Time
	ttrs  map[uint64]diffSpan // of the jobs that were reserved then
}

// kept compares what p has after a restart with what it had before, by model.
func (m diffRemains) kept(p diffProgram, before diffRemains, model *diffModel, stop diffStop) error {
	for _, id := range m.ids() {
		if before.jobs[id] == nil {
			return &diffFound{fmt.Sprintf("%s: job %d has come back: %v", p.name, id, m.jobs[id])}
		}
	}
	for _, id := range before.ids() {
		j, after := before.jobs[id], m.jobs[id]
		if after == nil {
			return &diffFound{fmt.Sprintf("%s: job %d is lost: %v", p.name, id, j)}
		}
		want := maps.Clone(j)
		known := model.byID[id]
		if known == nil {
			return &diffFound{fmt.Sprintf("%s: job %d should be gone: %v", p.name, id, j)}
		}
		due := known.deadline
		if j["state"] == "delayed" && !due.set() && !p.asIs { // delayed again by diffFaults, which the model does not know
			left := time.Duration(j.number("time-left")) * time.Second
			due = diffSpan{before.at.lo.Add(left), before.at.hi.Add(left + time.Second)}
		}
		if j["state"] == "reserved" {
			want["state"] = "ready"
			if ttr := stop.ttrs[id]; ttr.set() && ttr.lo.Before(stop.ended) && after.number("timeouts") == j.number("timeouts")+1 {
				want["timeouts"] = after["timeouts"] // while the server was being stopped
			}
		} else if j["state"] == "delayed" {
			switch {
			case !due.set() || due.hi.Before(m.at.lo):
				want["state"] = "ready"
			case !due.lo.After(m.at.hi):
				want["state"] = after["state"] // just now
			}
		}
		differ := func(field, want string) error {
			if !p.asIs {
				for _, fault := range diffFaults {
					if slices.Contains(fault.fields, field) && fault.is(j, after) {
						return nil
					}
				}
			}
			return &diffFound{fmt.Sprintf("%s: after the restart job %d says %s: %.60q, want %.60s\nbefore: %v\nafter:  %v", p.name, id, field, after[field], want, j, after)}
		}
		for _, field := range append(diffKept, "state") {
			if after[field] != want[field] {
				if err := differ(field, fmt.Sprintf("%q", want[field])); err != nil {
					return err
				}
			}
		}
		least, most := m.at.seconds(known.created)
		if n := after.number("age"); n < least || n > most {
			return differ("age", fmt.Sprintf("%d to %d", least, most))
		}
		least, most = 0, 0
		if after["state"] == "delayed" {
			least, most = due.seconds(m.at)
		}
		if n := after.number("time-left"); n < least || n > most {
			if err := differ("time-left", fmt.Sprintf("%d to %d", least, most)); err != nil {
				return err
			}
		}
	}
	return nil
}

// seconds says how many whole seconds s may be after t.
func (s diffSpan) seconds(t diffSpan) (least, most int) {
	const slack = time.Millisecond // the reference looks at its clock twice
	return int((s.lo.Sub(t.hi) - slack) / time.Second), int((s.hi.Sub(t.lo) + slack) / time.Second)
}

// diffTogether compares what both servers say of all but their jobs, which may
// be different by diffFaults.
func diffTogether(progs [2]diffProgram, m [2]diffRemains) error {
	differ := func(what, a, b string) error {
		return &diffFound{fmt.Sprintf("%s:\n%-20s %s\n%-20s %s", what, progs[0].name, a, progs[1].name, b)}
	}
	fields := func(verb, what string, a, b diffFields) error {
		for _, key := range slices.Sorted(maps.Keys(a)) {
			if _, volatile := diffVolatile[verb][key]; volatile || strings.HasPrefix(key, "current-jobs-") || slices.Contains(diffVolatileBinlog[verb], key) {
				continue
			}
			if key == "pause-time-left" && a[key] != "0" && b[key] != "0" {
				continue // asked at two instants
			}
			if a[key] != b[key] {
				return differ(what, key+": "+a[key], key+": "+b[key])
			}
		}
		return nil
	}
	a, b := slices.Sorted(maps.Keys(m[0].tubes)), slices.Sorted(maps.Keys(m[1].tubes))
	if !slices.Equal(a, b) {
		return differ("list-tubes", fmt.Sprintf("%.20q", a), fmt.Sprintf("%.20q", b))
	}
	for _, tube := range a {
		if err := fields("stats-tube", fmt.Sprintf("stats-tube %.20s", tube), m[0].tubes[tube], m[1].tubes[tube]); err != nil {
			return err
		}
	}
	return fields("stats", "stats", m[0].stats, m[1].stats)
}
