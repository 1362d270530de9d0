package main_test

// What is done between the rounds: jobs are deleted, and the directory has to
// follow; TTRs end; and the test of the ledger itself.

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shrink deletes most jobs or all, and waits for the directory to follow.
func (t *crashTest) shrink() {
	t.Helper()
	c := t.dial()
	defer c.Close()
	all := t.random.IntN(3) == 0
	dead := func(id uint64) bool {
		if !all && t.random.IntN(10) == 0 {
			return false
		}
		if err := c.says("DELETED", "delete %d", id); err != nil {
			t.fail(err.Error())
		}
		return true
	}
	live := 0
	count := func(j *crashJob) { live += len(j.tube) + j.size + crashOverhead }
	for _, o := range t.owners {
		for _, j := range slices.Clone(o.model.jobs) {
			if dead(j.id) {
				o.model.remove(j)
			} else {
				count(j)
			}
		}
	}
	for _, e := range slices.Clone(t.ledger.entries) {
		if dead(e.job.id) {
			t.ledger.forget(e)
		} else {
			count(e.job)
		}
	}
	// A segment is as large as it was to be, or as the last block in it.
	most := 2*live + 2*t.shards*(t.segment+1<<16) + 1<<16
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		size, list := t.size()
		if size <= most {
			t.logf("%d bytes in the directory, %d live", size, live)
			return
		}
		if time.Now().After(end) {
			t.fail(fmt.Sprintf("the directory has %d bytes, want at most %d: %d live, %d shards, segments of %d\n%s", size, most, live, t.shards, t.segment, list))
		}
	}
}

// crashOverhead is what a job takes beside its tube's name and its body, at
// most, in bytes.
const crashOverhead = 64

// size returns how much disk the directory takes, and a list of its files.
func (t *crashTest) size() (size int, list string) {
	filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it may be gone
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		n := int(info.Sys().(*syscall.Stat_t).Blocks) * 512
		size += n
		list += fmt.Sprintf("%9d %9d %s\n", n, info.Size(), path)
		return nil
	})
	return size, list
}

// expire lets the TTRs of some jobs run out, and has the server say so.
func (t *crashTest) expire() {
	t.Helper()
	c := t.dial()
	defer c.Close()
	var held []*crashEntry
	var ids []uint64
	for _, e := range t.ledger.entries {
		if e.job.ttr != 1 {
			continue
		}
		if err := c.says(fmt.Sprintf("RESERVED %d %d", e.job.id, e.job.size), "reserve-job %d", e.job.id); err != nil {
			t.fail(err.Error() + crashPast(e.job))
		}
		e.placeBy, e.place = t.ledger.tick(), crashReady
		e.reserves++
		e.timeouts++
		e.job.note("reserved until its TTR ends")
		held, ids = append(held, e), append(ids, e.job.id)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		found, err := c.look(ids)
		if err != nil || len(found) != len(ids) {
			t.Fatalf("of %d jobs %d are there: %v", len(ids), len(found), err)
		}
		i := slices.IndexFunc(found, func(f *crashFound) bool { return f.state.place == crashReserved })
		if i < 0 {
			return
		}
		if time.Now().After(end) {
			t.fail("its TTR does not end: " + found[i].String() + crashPast(held[i].job))
		}
	}
}

// tamper does something to a job in that state behind the ledger's back. If
// there is one, the ledger must notice; then it is made good.
func (t *crashTest) tamper(place, commands string) {
	t.Helper()
	c := t.dial()
	defer c.Close()
	found, err := c.look(t.liveIDs())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(f *crashFound) bool { return f.state.place.String() == place })
	if i < 0 {
		t.logf("no job is %s", place)
		return
	}
	f := found[i]
	text := strings.NewReplacer("ID", strconv.FormatUint(f.id, 10), "PRI", fmt.Sprint(f.state.pri), "DELAY", fmt.Sprint(f.state.delay)).Replace(commands)
	c.send([]byte(text + "\r\n"))
	for range strings.Count(text, "\r\n") + 1 {
		if line, _, err := c.answer(); err != nil || strings.Contains(line, "NOT") {
			t.Fatalf("%q: %q %v", text, line, err)
		}
	}
	problems, err := t.check(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	about := fmt.Sprintf("job %d", f.id)
	if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, about) }) {
		t.Fatalf("nobody noticed that a job that was %s (%s) was told %q:\n%s", place, f, text, strings.Join(problems, "\n"))
	}
	// Forget the job.
	c.ask("delete %d", f.id)
	for _, o := range t.owners {
		for _, j := range slices.Clone(o.model.jobs) {
			if j.id == f.id {
				o.model.remove(j)
			}
		}
	}
	for _, e := range slices.Clone(t.ledger.entries) {
		if e.job.id == f.id {
			t.ledger.forget(e)
			delete(t.ledger.byOrder, e.job.order)
		}
	}
}
