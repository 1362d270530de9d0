package main_test

// What is the same answer of two Gearman servers, and the tables of all that is
// not compared, each with its reason. netio/gearman/REFERENCE.md has what the
// reference does, in full.
//
// Known faults of the reference that its answers are cleared of before they are
// compared (gdiffClear):
//
//   - WORK_FAIL that stands for a WORK_EXCEPTION has a NUL behind the handle.
//   - A job that will never run, since its clients have gone or since it was
//     cancelled while it was queued (a ghost), is in all tables, and in the counts
//     of its function, until a worker comes to its place. sheaf drops it at once.
//
// Known faults and differences that random runs avoid, and transcripts show:
//
//   - The reference gives out jobs function by function, the latest CAN_DO first.
//     In sheaf priority is global. A worker only asks when both orders have the
//     same job first (gdiffModel.offers).
//   - A job put back goes to the end of the reference's queue, and keeps its place
//     in sheaf's. The same.
//   - A job submitted in the foreground and in the background ends with its
//     clients in the reference, and stays in sheaf. Its last client does not
//     leave, and show jobs is not asked whether it is in the background.
//   - A submit that is one with a ghost, or with a marked job (gdiffJob.marked), is
//     lost in the reference. It is not made. Ghosts are not asked for, nor
//     cancelled again.
//   - A ghost counts for maxqueue. No job becomes one where there is a limit, and
//     no limit is set where there is one.
//   - When a job that will not run is put back, the reference wakes workers to no
//     end. It is not put back where one sleeps. A client does not leave that both
//     has a job and is its only listener.
//   - After a NOOP, a worker that says PRE_SLEEP again without having asked for a
//     job is not woken by the reference again. It asks first. For a worker that
//     is asleep and says CAN_DO of a function that has a job the same.
//   - CAN_DO twice makes the connection two workers. It is not said twice.
//   - CANT_DO and RESET_ABILITIES put back jobs of the worker in the reference.
//     They are not said while it has some.
//   - A worker that sends a grab and the end of that job in one write: the reference
//     frees the workload before it is sent, and sends what is there then.
//   - cancel job of a running job with listeners: the reference tells them twice.
//   - drop function with jobs: the reference strands them. It is only said where
//     there are none, or workers.
//   - Names that differ in upper and lower case only: drop function takes them for
//     one. There are no such.
//   - create function without a CR: the reference cuts the name, or ends.
//   - A unique of 64 bytes: the reference cuts it. 63 and 65 are sent.
//   - Uniques that are in two functions are not asked for by GET_STATUS_UNIQUE: the
//     reference takes any.
//   - A job of the future is in functions that no worker can do: the reference
//     wakes workers for it, and gives out none of lower priority while it waits.
//   - ALL_YOURS, SUBMIT_JOB_SCHED, shutdown: the reference does not know them.
//   - Packets that are none, have too few arguments or are too long, admin lines of
//     more than five words: the reference is silent, closes, or ends. Numbers that
//     are no numbers, and too large ones, the same.
//
// Not compared for other reasons:
//
//   - The handles themselves: they are named by the order in which they come, and
//     their form is checked.
//   - The order of the lines of tables: that of a hash in the reference.
//   - Descriptors in the answer to workers, and the values of version, getpid and
//     verbose: two programs, two processes. Their form is checked.
//   - How what belongs to several streams is mixed on a connection: answers to
//     requests, what is said of each job, NOOP. Each stream is compared.
//   - When something comes that nobody has asked for just then: sheafd has some
//     time for it, the reference is asked by an echo whether that was all.

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gdiffClear takes the known faults out of a packet.
func gdiffClear(i gdiffItem, p gdiffProgram) gdiffItem {
	if p.reference && i.typ == gearWorkFail {
		i.args = []string{strings.TrimSuffix(i.args[0], "\x00")}
	}
	return i
}

// gdiffForms are the answers whose value is not compared.
var gdiffForms = map[string]*regexp.Regexp{
	"version": regexp.MustCompile(`^OK \S+$`),
	"getpid":  regexp.MustCompile(`^OK [1-9][0-9]*$`),
	"verbose": regexp.MustCompile(`^OK (FATAL|ALERT|CRITICAL|ERROR|WARNING|NOTICE|INFO|DEBUG)$`),
}

var gdiffWorker = regexp.MustCompile(`^[0-9]+ `)

// gdiffNormal returns the answer to an admin line in the form in which those of
// two servers must be the same. The jobs that the server keeps without need are
// ghosts.
func (m *gdiffModel) gdiffNormal(line string, answer []string, ghosts []*gdiffJob, p gdiffProgram) ([]string, error) {
	if form := gdiffForms[line]; form != nil {
		if len(answer) != 1 || !form.MatchString(answer[0]) {
			return nil, fmt.Errorf("%s: %q is not %s", p.name, answer, form)
		}
		return []string{"*"}, nil
	}
	var lines []string
	for _, l := range answer {
		var err error
		switch line {
		case "workers":
			if !gdiffWorker.MatchString(l) {
				return nil, fmt.Errorf("%s: no descriptor: %q", p.name, l)
			}
			l = gdiffWorker.ReplaceAllString(l, "* ")
		case "status":
			l, err = m.gdiffStatus(l, ghosts)
		case "prioritystatus":
			l, err = m.gdiffPriorities(l, ghosts)
		case "show jobs":
			l, err = m.gdiffShowJob(l, ghosts)
		case "show unique jobs":
			if i := slices.IndexFunc(ghosts, func(j *gdiffJob) bool { return j.unique == l }); i >= 0 {
				ghosts = slices.Delete(slices.Clone(ghosts), i, i+1)
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if l == gdiffNone {
			continue
		}
		lines = append(lines, l)
	}
	slices.Sort(lines)
	return lines, nil
}

// gdiffNone is no line.
const gdiffNone = "\x00"

// gdiffRow cuts the numbers off a line of a table.
func gdiffRow(line string, n int) (name string, numbers []int, err error) {
	f := strings.Split(line, "\t")
	if len(f) <= n {
		return "", nil, fmt.Errorf("%q has not %d numbers", line, n)
	}
	for _, d := range f[len(f)-n:] {
		v, err := strconv.Atoi(d)
		if err != nil || d != strconv.Itoa(v) {
			return "", nil, fmt.Errorf("%q: %q is no number", line, d)
		}
		numbers = append(numbers, v)
	}
	return strings.Join(f[:len(f)-n], "\t"), numbers, nil
}

func (m *gdiffModel) gdiffStatus(line string, ghosts []*gdiffJob) (string, error) {
	name, n, err := gdiffRow(line, 3)
	if err != nil {
		return "", err
	}
	for _, j := range ghosts {
		if j.function == name {
			n[0]--
		}
	}
	return fmt.Sprintf("%s\t%v", name, n), nil
}

func (m *gdiffModel) gdiffPriorities(line string, ghosts []*gdiffJob) (string, error) {
	name, n, err := gdiffRow(line, 4)
	if err != nil {
		return "", err
	}
	for _, j := range ghosts {
		if j.function == name {
			n[j.pri]--
		}
	}
	return fmt.Sprintf("%s\t%v", name, n), nil
}

func (m *gdiffModel) gdiffShowJob(line string, ghosts []*gdiffJob) (string, error) {
	name, n, err := gdiffRow(line, 3)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(ghosts, func(j *gdiffJob) bool { return j.name == name }) {
		return gdiffNone, nil
	}
	i := slices.IndexFunc(m.jobs, func(j *gdiffJob) bool { return j.name == name })
	if i < 0 {
		return "", fmt.Errorf("show jobs has %q, which is done", line)
	}
	if m.jobs[i].mixed {
		n = n[:2]
	}
	return fmt.Sprintf("%s\t%v", name, n), nil
}
