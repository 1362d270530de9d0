package main_test

// What the Gearman differential test knows of the servers' jobs, functions and
// workers. It is a model of the reference, and says beforehand what that will
// answer: it knows where the reference and sheaf would go different ways.

import (
	"fmt"
	"slices"
)

// A gdiffJob is a job that is not done.
type gdiffJob struct {
	name       string // of its handle
	serial     int    // the order in which jobs come
	function   string
	unique     string
	reducer    string
	workload   string
	pri        int // 0 is high, 2 low
	background bool
	future     bool // its time does not come in this run
	numbers    [2]string

	listeners []*gdiffClient // once for each foreground submit
	holder    *gdiffClient

	// mixed says that it was submitted in the foreground and in the background.
	// The reference takes it for what it was last said to be in ways that sheaf
	// does not follow.
	mixed bool
	// marked says that the reference will throw it away where it would be put
	// back: its listeners have gone, or it was cancelled.
	marked bool
}

// A gdiffKey is what makes two jobs one.
type gdiffKey struct {
	function, text string
	workload       bool
}

func (j *gdiffJob) key() (k gdiffKey, ok bool) {
	switch {
	case j.unique == "", j.unique == "-" && j.workload == "":
		return k, false
	case j.unique == "-":
		return gdiffKey{j.function, j.workload, true}, true
	}
	return gdiffKey{j.function, j.unique, false}, true
}

// A gdiffFunction is a function that both servers know.
type gdiffFunction struct {
	// queues are the jobs of each priority that no worker has, in the order in
	// which the reference gives them out.
	queues [3][]*gdiffJob
	limits [3]int
}

func (f *gdiffFunction) limited() bool { return f.limits != [3]int{} }

// A gdiffModel is all of it.
type gdiffModel struct {
	jobs      []*gdiffJob
	functions map[string]*gdiffFunction
	// ghosts are the jobs that the reference still counts although they will
	// never run, by name. Some may be gone there by now.
	ghosts map[string]*gdiffJob
	ended  []string // names of jobs that are done
	serial int
}

func newGdiffModel() *gdiffModel {
	return &gdiffModel{functions: map[string]*gdiffFunction{}, ghosts: map[string]*gdiffJob{}}
}

// function returns a function, which comes by being named.
func (m *gdiffModel) function(name string) *gdiffFunction {
	f := m.functions[name]
	if f == nil {
		f = &gdiffFunction{}
		m.functions[name] = f
	}
	return f
}

// find returns the job that j would be one with.
func (m *gdiffModel) find(j *gdiffJob) *gdiffJob {
	k, ok := j.key()
	if !ok {
		return nil
	}
	for _, o := range m.jobs {
		if ok2, is := o.key(); is && ok2 == k {
			return o
		}
	}
	return nil
}

// ghostly says whether the reference may have a ghost that j would be one with.
func (m *gdiffModel) ghostly(j *gdiffJob) bool {
	k, ok := j.key()
	for _, o := range m.ghosts {
		if k2, is := o.key(); ok && is && k2 == k {
			return true
		}
	}
	return false
}

// count counts the jobs of a function for which is says so.
func (m *gdiffModel) count(function string, is func(*gdiffJob) bool) (n int) {
	for _, j := range m.jobs {
		if j.function == function && is(j) {
			n++
		}
	}
	return n
}

// haunted says whether the reference may have a ghost in function.
func (m *gdiffModel) haunted(function string) bool {
	for _, j := range m.ghosts {
		if j.function == function {
			return true
		}
	}
	return false
}

func (j *gdiffJob) running() bool { return j.holder != nil }

// submit has j submitted, by c in the foreground unless it is nil, and returns
// the answer.
func (m *gdiffModel) submit(j *gdiffJob, c *gdiffClient) string {
	f := m.function(j.function)
	old := m.find(j)
	if old == nil {
		if n := f.limits[j.pri]; n > 0 && m.count(j.function, func(*gdiffJob) bool { return true }) >= n {
			return "ERROR QUEUE_ERROR|Job queue is full"
		}
		m.serial++
		j.serial, j.name = m.serial, fmt.Sprintf("#%d", m.serial)
		j.background = c == nil
		j.numbers = [2]string{"0", "0"}
		m.jobs = append(m.jobs, j)
		if !j.future {
			f.queues[j.pri] = append(f.queues[j.pri], j)
		}
		old = j
	} else if old.background != (c == nil) {
		old.mixed = true
	}
	if c != nil {
		old.listeners = append(old.listeners, c)
	}
	return "JOB_CREATED " + old.name
}

// offers returns what a worker gets if it asks now: of the reference, and of
// sheaf, which has its own order. nil is nothing.
func (m *gdiffModel) offers(c *gdiffClient) (reference, sheaf *gdiffJob) {
	for _, name := range c.can {
		for _, q := range m.function(name).queues {
			for _, j := range q {
				if reference == nil {
					reference = j
				}
				if sheaf == nil || j.pri < sheaf.pri || j.pri == sheaf.pri && j.serial < sheaf.serial {
					sheaf = j
				}
			}
		}
	}
	return reference, sheaf
}

// take has c get j.
func (m *gdiffModel) take(c *gdiffClient, j *gdiffJob) {
	m.unqueue(j)
	j.holder = c
	c.held = slices.Insert(c.held, 0, j)
}

func (m *gdiffModel) unqueue(j *gdiffJob) {
	q := &m.function(j.function).queues[j.pri]
	*q = slices.DeleteFunc(*q, func(o *gdiffJob) bool { return o == j })
}

// end has j be done.
func (m *gdiffModel) end(j *gdiffJob) {
	m.unqueue(j)
	m.jobs = slices.DeleteFunc(m.jobs, func(o *gdiffJob) bool { return o == j })
	if c := j.holder; c != nil {
		c.held = slices.DeleteFunc(c.held, func(o *gdiffJob) bool { return o == j })
	}
	m.ended = append(m.ended, j.name)
}

// haunt is end for a job that the reference keeps.
func (m *gdiffModel) haunt(j *gdiffJob) {
	m.end(j)
	m.ended = slices.DeleteFunc(m.ended, func(name string) bool { return name == j.name })
	m.ghosts[j.name] = j
}

// leave has c go, as the reference does it: first what it holds is put back,
// then what it waits for is thrown away.
func (m *gdiffModel) leave(c *gdiffClient) {
	for _, name := range c.can {
		for _, j := range slices.Clone(c.held) {
			if j.function != name {
				continue
			}
			if j.marked {
				m.haunt(j)
				continue
			}
			j.holder, j.numbers = nil, [2]string{"0", "0"}
			f := m.function(name)
			f.queues[j.pri] = append(f.queues[j.pri], j)
		}
	}
	c.held = nil
	for _, j := range slices.Clone(m.jobs) {
		if !slices.Contains(j.listeners, c) {
			continue
		}
		j.listeners = slices.DeleteFunc(j.listeners, func(o *gdiffClient) bool { return o == c })
		switch {
		case len(j.listeners) > 0:
		case j.running():
			j.marked = true
		default:
			m.haunt(j)
		}
	}
}

// mayLeave says whether both servers will make the same of it if c goes. See
// the table in gearman_compare_test.go.
func (m *gdiffModel) mayLeave(c *gdiffClient, others []*gdiffClient) bool {
	for _, j := range m.jobs {
		if !slices.Contains(j.listeners, c) || slices.ContainsFunc(j.listeners, func(o *gdiffClient) bool { return o != c }) {
			continue
		}
		if j.mixed || j.background || j.holder == c || m.function(j.function).limited() {
			return false
		}
	}
	for _, j := range c.held {
		if !j.marked {
			continue
		}
		if m.function(j.function).limited() {
			return false
		}
		for _, o := range others {
			if o != c && o.asleep && !o.woken && slices.Contains(o.can, j.function) {
				return false
			}
		}
	}
	return true
}

// cancel has a job be called off. It returns who hears of it.
func (m *gdiffModel) cancel(j *gdiffJob) {
	j.listeners = nil
	if j.running() {
		j.marked = true
		return
	}
	m.haunt(j)
}

// mayCancel says whether both servers will make the same of it.
func (m *gdiffModel) mayCancel(j *gdiffJob) bool {
	if m.function(j.function).limited() {
		return false
	}
	return !j.running() || j.background && !j.mixed && !j.marked
}

// uniques returns the jobs with that unique.
func (m *gdiffModel) uniques(unique string) (jobs []*gdiffJob) {
	for _, j := range m.jobs {
		if j.unique == unique {
			jobs = append(jobs, j)
		}
	}
	return jobs
}
