package main_test

// What the random runs of the Gearman differential test send.

import (
	"fmt"
	"slices"
	"strings"
)

// A gdiffMood says how often a run does what.
type gdiffMood struct {
	name string
	// connections is the most that there are, the test's own not counted.
	connections int
	weights     map[string]int // of gdiffActs
}

var gdiffMoods = []gdiffMood{
	{"everything", 6, map[string]int{
		"submit": 16, "again": 3, "grab": 20, "work": 24, "sleep": 16, "can": 8, "cannot": 2, "status": 6, "admin": 6, "limit": 3,
		"cancel": 2, "functions": 3, "other": 4, "connect": 4, "leave": 4,
	}},
	{"many come and go", 8, map[string]int{
		"submit": 16, "again": 2, "grab": 20, "work": 14, "sleep": 14, "can": 12, "cannot": 2, "status": 3, "admin": 4, "connect": 12, "leave": 12, "cancel": 1,
	}},
	{"sleepers", 8, map[string]int{
		"submit": 12, "grab": 24, "work": 20, "sleep": 24, "can": 10, "cannot": 4, "connect": 4, "leave": 4, "admin": 2, "status": 2,
	}},
	{"the same again", 6, map[string]int{
		"again": 20, "submit": 8, "grab": 12, "work": 24, "sleep": 4, "can": 6, "status": 6, "admin": 3, "connect": 4, "leave": 4, "cancel": 2,
	}},
	{"full queues", 5, map[string]int{
		"submit": 30, "grab": 20, "work": 20, "limit": 8, "can": 6, "admin": 6, "functions": 4, "cancel": 3, "connect": 2, "leave": 2, "sleep": 3,
	}},
}

// gdiffActs are what a step can do. They return no plans if there is nothing of
// the kind to do just now.
var gdiffActs = map[string]func(r *gdiffRun, c *gdiffClient) []gdiffPlan{
	"submit":    (*gdiffRun).submits,
	"again":     (*gdiffRun).submitsAgain,
	"grab":      (*gdiffRun).grabs,
	"work":      (*gdiffRun).works,
	"sleep":     (*gdiffRun).sleeps,
	"can":       (*gdiffRun).can,
	"cannot":    (*gdiffRun).cannot,
	"status":    (*gdiffRun).asks,
	"admin":     (*gdiffRun).administers,
	"limit":     (*gdiffRun).limits,
	"cancel":    (*gdiffRun).cancels,
	"functions": (*gdiffRun).functions,
	"other":     (*gdiffRun).others,
}

var (
	// f is more popular than the others, so that several workers can do it.
	gdiffFunctions = []string{"f", "f", "g", "x y", "tab\tbed" + strings.Repeat("n", 200)}
	gdiffUniques   = []string{"u1", "u2", "u3", strings.Repeat("u", 63), "ü\xff"}
	gdiffWorkloads = []string{"", "work", "more work", "a\x00b\x00", "\r\n", strings.Repeat("w", 3000), strings.Repeat("\x00", 20000)}
)

func gdiffPick[T any](r *gdiffRun, from ...T) T { return from[r.rng.IntN(len(from))] }

// chance is true once in n times.
func (r *gdiffRun) chance(n int) bool { return r.rng.IntN(n) == 0 }

// step does one thing.
func (r *gdiffRun) step() error {
	if len(r.model.ghosts) > 0 && r.chance(4) {
		if err := r.exorcise(); err != nil {
			return err
		}
	}
	acts := []string{}
	for _, act := range gdiffActNames {
		for range r.mood.weights[act] {
			acts = append(acts, act)
		}
	}
	act := gdiffPick(r, acts...)
	c := r.choose(act)
	r.fresh = r.model.serial + 1
	switch act {
	case "connect":
		if len(r.clients) < r.mood.connections {
			return r.connect()
		}
	case "leave":
		if len(r.clients) > 2 && r.model.mayLeave(c, r.clients) {
			return r.leave(c)
		}
	default:
		plans := gdiffActs[act](r, c)
		// Some go in one write. (The same act, so never a grab and the end of that
		// job.)
		for len(plans) > 0 && len(plans) < 6 && act != "sleep" && r.chance(2) {
			more := gdiffActs[act](r, c)
			if len(more) == 0 {
				break
			}
			plans = append(plans, more...)
		}
		if len(plans) > 0 {
			return r.send(c, plans...)
		}
	}
	return nil
}

// choose returns who does something: mostly one of those for whom it is to some
// purpose.
func (r *gdiffRun) choose(act string) *gdiffClient {
	able := slices.DeleteFunc(slices.Clone(r.clients), func(c *gdiffClient) bool {
		job, sheaf := r.model.offers(c)
		switch act {
		case "grab":
			return job == nil || job != sheaf
		case "work":
			return len(c.held) == 0
		case "sleep":
			return len(c.can) == 0 || job != nil
		case "can":
			return len(c.can) > 1
		}
		return false
	})
	if len(able) == 0 || r.chance(6) {
		return gdiffPick(r, r.clients...)
	}
	return gdiffPick(r, able...)
}

// gdiffActNames is what a step can do, in an order that does not change.
var gdiffActNames = []string{
	"submit", "again", "grab", "work", "sleep", "can", "cannot", "status", "admin", "limit", "cancel", "functions", "other", "connect", "leave",
}

func gdiffOne(want, name string, args ...string) []gdiffPlan {
	return []gdiffPlan{{gdiffAsk(name, args...), want}}
}

// draw makes up a job.
func (r *gdiffRun) draw() *gdiffJob {
	j := &gdiffJob{function: gdiffPick(r, gdiffFunctions...), workload: gdiffPick(r, gdiffWorkloads...), pri: r.rng.IntN(3)}
	switch r.rng.IntN(4) {
	case 0:
		j.unique = "-"
	case 1:
		j.unique = gdiffPick(r, gdiffUniques...)
	}
	return j
}

func (r *gdiffRun) submits(c *gdiffClient) []gdiffPlan { return r.submit(c, r.draw()) }

// submitsAgain submits a job that is there.
func (r *gdiffRun) submitsAgain(c *gdiffClient) []gdiffPlan {
	if len(r.model.jobs) == 0 {
		return r.submit(c, r.draw())
	}
	o := gdiffPick(r, r.model.jobs...)
	if o.future {
		return nil
	}
	j := r.draw()
	j.function, j.unique = o.function, o.unique
	if j.unique == "-" {
		j.workload = o.workload
	}
	return r.submit(c, j)
}

func (r *gdiffRun) submit(c *gdiffClient, j *gdiffJob) []gdiffPlan {
	forms := [3][2]string{{"SUBMIT_JOB_HIGH", "SUBMIT_JOB_HIGH_BG"}, {"SUBMIT_JOB", "SUBMIT_JOB_BG"}, {"SUBMIT_JOB_LOW", "SUBMIT_JOB_LOW_BG"}}
	form := r.rng.IntN(2)
	name := forms[j.pri][form]
	args := []string{j.function, j.unique, j.workload}
	who := c
	if form == 1 {
		who = nil
	}
	switch {
	case r.chance(40):
		return gdiffOne("ERROR ARGUMENT_TOO_LARGE|Unique value too large", name, j.function, strings.Repeat("u", 65), j.workload)
	case j.pri == 1 && r.chance(2):
		name = [2]string{"SUBMIT_REDUCE_JOB", "SUBMIT_REDUCE_JOB_BACKGROUND"}[form]
		j.reducer = gdiffPick(r, "", "reducer", "f")
		args = []string{j.function, j.unique, j.reducer, gdiffPick(r, "", "aggregator"), j.workload}
	case j.pri == 1 && r.chance(4):
		name, who = "SUBMIT_JOB_EPOCH", nil
		at := gdiffPick(r, "0", "1", "1000000000")
		if r.chance(2) {
			at = "4102444800" // 2100
			j.future, j.function, j.unique = true, "later", ""
		}
		args = []string{j.function, j.unique, at, j.workload}
	}
	if r.model.ghostly(j) {
		return nil
	}
	if o := r.model.find(j); o != nil && o.marked {
		return nil
	}
	return gdiffOne(r.model.submit(j, who), name, args...)
}

func (r *gdiffRun) grabs(c *gdiffClient) []gdiffPlan {
	job, sheaf := r.model.offers(c)
	if job != sheaf {
		return nil
	}
	c.asleep, c.woken = false, false
	name := gdiffPick(r, "GRAB_JOB", "GRAB_JOB_UNIQ", "GRAB_JOB_ALL")
	if job == nil {
		return gdiffOne("NO_JOB", name)
	}
	r.model.take(c, job)
	answer, parts := "JOB_ASSIGN", []string{job.name, job.function}
	if name != "GRAB_JOB" {
		answer, parts = "JOB_ASSIGN_UNIQ", append(parts, job.unique)
	}
	if name == "GRAB_JOB_ALL" && job.reducer != "" {
		answer, parts = "JOB_ASSIGN_ALL", append(parts, job.reducer)
	}
	return gdiffOne(answer+" "+strings.Join(append(parts, job.workload), "|"), name)
}

// works says something of a job, mostly of one that c has.
func (r *gdiffRun) works(c *gdiffClient) []gdiffPlan {
	form := gdiffPick(r, "WORK_DATA", "WORK_WARNING", "WORK_STATUS", "WORK_COMPLETE", "WORK_COMPLETE", "WORK_COMPLETE", "WORK_FAIL", "WORK_EXCEPTION")
	result := gdiffPick(r, gdiffWorkloads...)
	numbers := [2]string{fmt.Sprint(r.rng.IntN(10)), gdiffPick(r, "0", "10", "2147483647")}
	args := func(name string) []string {
		switch form {
		case "WORK_FAIL":
			return []string{name}
		case "WORK_STATUS":
			return []string{name, numbers[0], numbers[1]}
		}
		return []string{name, result}
	}
	if len(c.held) == 0 || r.chance(12) {
		return r.worksWithout(c, form, args)
	}
	j := gdiffPick(r, c.held...)
	if j.serial >= r.fresh {
		return nil
	}
	switch form {
	case "WORK_STATUS":
		j.numbers = numbers
	case "WORK_COMPLETE", "WORK_FAIL", "WORK_EXCEPTION":
		r.model.end(j)
	}
	return gdiffOne("", form, args(j.name)...)
}

// worksWithout says something of a job that c does not have.
func (r *gdiffRun) worksWithout(c *gdiffClient, form string, args func(string) []string) []gdiffPlan {
	if !r.chance(3) {
		return nil
	}
	name := r.someName()
	if slices.ContainsFunc(c.held, func(j *gdiffJob) bool { return j.name == name }) {
		return nil
	}
	text := "Job given in work result not found"
	switch form {
	case "WORK_DATA", "WORK_WARNING":
		text = "Job does not exist on server"
	case "WORK_EXCEPTION":
		text = "An exception was received for a job that does not exist"
	}
	return gdiffOne("ERROR JOB_NOT_FOUND|"+text, form, args(name)...)
}

// someName returns a handle, mostly that of a job that is or was.
func (r *gdiffRun) someName() string {
	names := []string{"", "H:nowhere:1", "H:x:0", "#99999"}
	if len(r.model.ended) > 0 {
		names = append(names, gdiffPick(r, r.model.ended...))
	}
	for range 4 {
		if len(r.model.jobs) > 0 {
			if j := gdiffPick(r, r.model.jobs...); j.serial < r.fresh {
				names = append(names, j.name)
			}
		}
	}
	return gdiffPick(r, names...)
}

func (r *gdiffRun) sleeps(c *gdiffClient) []gdiffPlan {
	if c.woken {
		return nil
	}
	if job, _ := r.model.offers(c); job == nil {
		c.asleep = true
	}
	return gdiffOne("", "PRE_SLEEP")
}

func (r *gdiffRun) can(c *gdiffClient) []gdiffPlan {
	name := gdiffPick(r, gdiffFunctions...)
	if slices.Contains(c.can, name) {
		return nil
	}
	if c.asleep && slices.ContainsFunc(r.model.jobs, func(j *gdiffJob) bool { return j.function == name && !j.running() }) {
		return nil
	}
	r.model.function(name)
	c.can = slices.Insert(c.can, 0, name)
	if r.chance(4) {
		return gdiffOne("", "CAN_DO_TIMEOUT", name, gdiffPick(r, "0", "100000", "-1", "x"))
	}
	return gdiffOne("", "CAN_DO", name)
}

func (r *gdiffRun) cannot(c *gdiffClient) []gdiffPlan {
	if r.chance(3) {
		if len(c.held) > 0 {
			return nil
		}
		c.can = nil
		return gdiffOne("", "RESET_ABILITIES")
	}
	name := gdiffPick(r, gdiffFunctions...)
	if slices.ContainsFunc(c.held, func(j *gdiffJob) bool { return j.function == name }) {
		return nil
	}
	c.can = slices.DeleteFunc(c.can, func(f string) bool { return f == name })
	return gdiffOne("", "CANT_DO", name)
}

// status is what STATUS_RES says of a job; nil is one that is not there.
func (j *gdiffJob) status() string {
	if j == nil {
		return "|0|0|0|0"
	}
	running := "0"
	if j.running() {
		running = "1"
	}
	return "|1|" + running + "|" + j.numbers[0] + "|" + j.numbers[1]
}

func (r *gdiffRun) asks(c *gdiffClient) []gdiffPlan {
	var job *gdiffJob
	if r.chance(2) {
		name := r.someName()
		if i := slices.IndexFunc(r.model.jobs, func(j *gdiffJob) bool { return j.name == name }); i >= 0 {
			job = r.model.jobs[i]
		}
		return gdiffOne("STATUS_RES "+name+job.status(), "GET_STATUS", name)
	}
	unique := gdiffPick(r, append(gdiffUniques, "", "-", "nobody's")...)
	listeners := 0
	if unique != "" && unique != "-" {
		jobs := r.model.uniques(unique)
		if len(jobs) > 1 {
			return nil
		}
		for _, j := range r.model.ghosts {
			if j.unique == unique {
				return nil
			}
		}
		if len(jobs) == 1 {
			job, listeners = jobs[0], len(jobs[0].listeners)
		}
	}
	return gdiffOne(fmt.Sprintf("STATUS_RES_UNIQUE %s%s|%d", unique, job.status(), listeners), "GET_STATUS_UNIQUE", unique)
}

// line is an admin line with the answer that both must give; nothing is any.
func (r *gdiffRun) line(line, want string) []gdiffPlan { return []gdiffPlan{{gdiffLine(line), want}} }

func (r *gdiffRun) administers(*gdiffClient) []gdiffPlan {
	return r.line(gdiffPick(r,
		"status", "status", "prioritystatus", "prioritystatus", "workers", "show jobs", "show jobs", "show unique jobs",
		"version", "getpid", "verbose",
		"", "stats", "show", "show x", "cancel", "cancel job", "cancel x y", "create", "drop", "drop function", "maxqueue", "shutdown x", "foo bar",
	), "")
}

func (r *gdiffRun) limits(*gdiffClient) []gdiffPlan {
	name := gdiffPick(r, append(gdiffFunctions, "unheard")...)
	if strings.Contains(name, " ") || r.model.haunted(name) || r.model.count(name, func(j *gdiffJob) bool { return j.marked }) > 0 {
		return nil
	}
	var limits [3]int
	words := []string{"maxqueue", name}
	for i := range gdiffPick(r, 0, 1, 1, 2, 3) {
		limits[i] = r.rng.IntN(6)
		words = append(words, fmt.Sprint(limits[i]))
	}
	if len(words) == 3 {
		limits = [3]int{limits[0], limits[0], limits[0]}
	}
	if f := r.model.functions[name]; f != nil {
		f.limits = limits
	}
	return r.line(strings.Join(words, " "), "OK\r")
}

func (r *gdiffRun) cancels(*gdiffClient) []gdiffPlan {
	if len(r.model.jobs) == 0 || r.chance(4) {
		name := gdiffPick(r, "H:nowhere:1", "#99999", "x")
		return r.line("cancel job "+name, "ERR UNKNOWN_JOB\r")
	}
	j := gdiffPick(r, r.model.jobs...)
	if !r.model.mayCancel(j) || j.future || j.serial >= r.fresh {
		return nil
	}
	r.model.cancel(j)
	return r.line("cancel job "+j.name, "OK\r")
}

func (r *gdiffRun) functions(*gdiffClient) []gdiffPlan {
	name := gdiffPick(r, append(gdiffFunctions, "unheard")...)
	if strings.Contains(name, " ") {
		return nil
	}
	if r.chance(2) {
		r.model.function(name)
		return r.line("create function "+name, "OK\r")
	}
	jobs := r.model.count(name, func(*gdiffJob) bool { return true })
	running := r.model.count(name, (*gdiffJob).running)
	switch {
	case r.model.functions[name] == nil:
		return r.line("drop function "+name, "ERR function not found\r")
	case running > 0 || slices.ContainsFunc(r.clients, func(c *gdiffClient) bool { return slices.Contains(c.can, name) }):
		return r.line("drop function "+name, "ERR there are still connected workers or executing clients\r")
	case jobs > 0 || r.model.haunted(name):
		return nil
	}
	delete(r.model.functions, name)
	return r.line("drop function "+name, "OK\r")
}

func (r *gdiffRun) others(c *gdiffClient) []gdiffPlan {
	switch r.rng.IntN(4) {
	case 0:
		text := gdiffPick(r, gdiffWorkloads...)
		return gdiffOne("ECHO_RES "+text, "ECHO_REQ", text)
	case 1:
		option := gdiffPick(r, "exceptions", "Exceptions", "EXCEPTIONS")
		return gdiffOne("OPTION_RES "+option, "OPTION_REQ", option)
	case 2:
		return gdiffOne("ERROR UNKNOWN_OPTION|Server does not recognize given option", "OPTION_REQ", gdiffPick(r, "", "exception", "x\x00y"))
	}
	r.names++
	return gdiffOne("", "SET_CLIENT_ID", fmt.Sprintf("%s:%d %s", c.name, r.names, gdiffPick(r, "", "with blanks", strings.Repeat("i", 80))))
}

// finish does all jobs, and compares all there is again and again.
func (r *gdiffRun) finish() error {
	tables := func() error {
		for _, line := range []string{"status", "prioritystatus", "workers", "show jobs", "show unique jobs"} {
			if err := r.send(r.admin, gdiffPlan{gdiffRequest: gdiffLine(line)}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := tables(); err != nil {
		return err
	}
	for _, c := range r.clients {
		for _, j := range slices.Clone(c.held) {
			r.model.end(j)
			if err := r.send(c, gdiffOne("", "WORK_COMPLETE", j.name, "at last")...); err != nil {
				return err
			}
		}
	}
	if err := tables(); err != nil {
		return err
	}
	w, err := r.dial("last")
	if err != nil {
		return err
	}
	r.clients = append(r.clients, w)
	for _, f := range gdiffFunctions[1:] { // the first is there twice
		w.can = []string{f}
		r.model.function(f)
		if err := r.send(w, gdiffOne("", "CAN_DO", f)...); err != nil {
			return err
		}
		for r.model.count(f, func(*gdiffJob) bool { return true }) > 0 {
			job, sheaf := r.model.offers(w)
			if job != sheaf {
				break // the two have it in another order; what is left is compared below
			}
			r.model.take(w, job)
			r.model.end(job)
			want := "JOB_ASSIGN " + strings.Join([]string{job.name, job.function, job.workload}, "|")
			if err := r.send(w, gdiffOne(want, "GRAB_JOB")...); err != nil {
				return err
			}
			if err := r.send(w, gdiffOne("", "WORK_COMPLETE", job.name, "")...); err != nil {
				return err
			}
		}
		w.can = nil
		if err := r.send(w, gdiffOne("", "CANT_DO", f)...); err != nil {
			return err
		}
	}
	return tables()
}
