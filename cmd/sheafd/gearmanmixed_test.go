package main_test

// Both protocols on the same jobs, one thing at a time. gearmanmixed_load_test.go
// has all of it at once.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// on has a beanstalkd connection use and watch one tube only.
func (c *client) on(tube string) *client {
	c.t.Helper()
	c.says("use "+tube+"\nwatch "+tube+"\nignore default\n", "USING "+tube+"\nWATCHING 2\nWATCHING 1\n")
	return c
}

// knows returns the value of a key of stats-job, and "" if there is no such job.
func (c *client) knows(id int, key string) string {
	c.t.Helper()
	c.send(fmt.Sprintf("stats-job %d\n", id))
	head := c.line()
	if head == "NOT_FOUND" {
		return ""
	}
	var n int
	if _, err := fmt.Sscanf(head, "OK %d", &n); err != nil {
		c.t.Fatalf("stats-job answered %q", head)
	}
	body := readBytes(c, n+2)
	_, rest, ok := strings.Cut(body, "\n"+key+": ")
	if !ok {
		c.t.Fatalf("stats-job has no %s:\n%s", key, body)
	}
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// readBytes reads that many bytes.
func readBytes(c *client, n int) string {
	c.t.Helper()
	b := make([]byte, n)
	c.SetReadDeadline(time.Now().Add(patience))
	for got := 0; got < n; {
		m, err := c.Read(b[got:])
		if err != nil {
			c.t.Fatalf("%v after %q", err, b[:got])
		}
		got += m
	}
	return string(b)
}

// list returns the lines of a list of tubes.
func (c *client) list(command string) []string {
	c.t.Helper()
	c.send(command + "\n")
	var n int
	if _, err := fmt.Sscanf(c.line(), "OK %d", &n); err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(readBytes(c, n+2)) {
		if name, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "- "); ok {
			names = append(names, name)
		}
	}
	return names
}

// What a beanstalkd worker does to a job is what its Gearman clients hear of it.
func TestGearmanJobWithBeanstalkWorker(t *testing.T) {
	onShards(t, func(t *testing.T, s *server) {
		g, b := s.gearman(), s.dial().on("f")

		// Deleted by who has it: done.
		g.says("SUBMIT_JOB f|u|hello", "JOB_CREATED #1")
		b.says("reserve\n", "RESERVED 1 5\nhello\n")
		g.says("GET_STATUS #1", "STATUS_RES #1|1|1|0|0")
		b.says("delete 1\n", "DELETED\n")
		g.gets("WORK_COMPLETE #1|")
		g.says("GET_STATUS #1", "STATUS_RES #1|0|0|0|0")

		// Deleted by somebody else, before anybody had it: called off.
		g.says("SUBMIT_JOB f|u|hello", "JOB_CREATED #2")
		b.says("delete 2\n", "DELETED\n")
		g.gets("WORK_FAIL #2")

		// Buried: failed. It is there for who looks what was wrong with it, but
		// it is nobody's unique any more.
		g.says("SUBMIT_JOB f|u|hello", "JOB_CREATED #3")
		b.says("reserve\nbury 3 7\n", "RESERVED 3 5\nhello\nBURIED\n")
		g.gets("WORK_FAIL #3")
		b.says("peek-buried\n", "FOUND 3 5\nhello\n")
		g.says("SUBMIT_JOB_BG f|u|other", "JOB_CREATED #4")
		b.says("kick 10\n", "KICKED 1\n")
		b.says("reserve\ndelete 3\n", "RESERVED 3 5\nhello\nDELETED\n")
		b.says("delete 4\n", "DELETED\n")

		// Released, or its worker has gone: it is to be done by somebody else.
		g.says("SUBMIT_JOB_HIGH f|u|hello", "JOB_CREATED #5")
		b.says("reserve\nrelease 5 9 0\n", "RESERVED 5 5\nhello\nRELEASED\n")
		b.says("reserve\nrelease 5 9 1\n", "RESERVED 5 5\nhello\nRELEASED\n")
		b.says("reserve\ntouch 5\n", "RESERVED 5 5\nhello\nTOUCHED\n")
		b.Close()
		w := s.gearman()
		w.says("CAN_DO f")
		w.works("JOB_ASSIGN_UNIQ #5|f|u|hello")
		w.send("WORK_DATA #5|part")
		w.send("WORK_STATUS #5|1|2")
		w.send("WORK_COMPLETE #5|all")
		g.gets("WORK_DATA #5|part", "WORK_STATUS #5|1|2", "WORK_COMPLETE #5|all")
		g.settle()
	})
}

// All who wait for a job hear of its end in the other protocol.
func TestGearmanCoalescedWithBeanstalkWorker(t *testing.T) {
	onShards(t, func(t *testing.T, s *server) {
		var all []*gearClient
		for range 3 {
			g := s.gearman()
			g.says("SUBMIT_JOB f|u|hello", "JOB_CREATED #1")
			all = append(all, g)
		}
		b := s.dial().on("f")
		b.says("reserve\n", "RESERVED 1 5\nhello\n")
		late := s.gearman()
		late.says("SUBMIT_JOB f|u|again", "JOB_CREATED #1")
		all[0].says("SUBMIT_JOB_BG f|u|again", "JOB_CREATED #1")
		b.says("reserve-with-timeout 0\n", "TIMED_OUT\n")
		b.says("delete 1\n", "DELETED\n")
		for _, g := range append(all, late) {
			g.gets("WORK_COMPLETE #1|")
			g.settle()
		}
	})
}

// A foreground job goes with its last client, unless somebody has it.
func TestGearmanClientsLeaveBeanstalkWorker(t *testing.T) {
	onShards(t, func(t *testing.T, s *server) {
		b, g := s.dial().on("f"), s.gearman()
		g.says("SUBMIT_JOB f||hello", "JOB_CREATED #1")
		b.says("reserve\n", "RESERVED 1 5\nhello\n")
		g.says("SUBMIT_JOB f||hello", "JOB_CREATED #2")
		g.says("SUBMIT_JOB_BG f||hello", "JOB_CREATED #3")
		g.Close()
		until(t, "the job that nobody waits for is gone", func() bool { return b.knows(2, "state") == "" })
		if state := b.knows(1, "state"); state != "reserved" {
			t.Errorf("the job with the worker is %q", state)
		}
		b.says("release 1 0 0\n", "RELEASED\n")
		if state := b.knows(1, "state"); state != "" {
			t.Errorf("given back, it is %q", state)
		}
		b.says("reserve\ndelete 3\n", "RESERVED 3 5\nhello\nDELETED\n")
		b.awaits("current-jobs-ready", "0")
	})
}

// What beanstalkd's put puts is a background job for Gearman's workers.
func TestBeanstalkJobWithGearmanWorker(t *testing.T) {
	onShards(t, func(t *testing.T, s *server) {
		b, w := s.dial().on("f"), s.gearman()
		w.send("CAN_DO f")
		w.says("GRAB_JOB", "NO_JOB")
		w.send("PRE_SLEEP")
		b.says("put 5 0 60 5\nhello\n", "INSERTED 1\n")
		w.gets("NOOP")
		w.says("GRAB_JOB", "JOB_ASSIGN #1|f|hello")
		w.says("GET_STATUS #1", "STATUS_RES #1|1|1|0|0")
		if state := b.knows(1, "state"); state != "reserved" {
			t.Errorf("it is %q", state)
		}
		b.says("delete 1\nrelease 1 0 0\nbury 1 0\ntouch 1\n", "NOT_FOUND\nNOT_FOUND\nNOT_FOUND\nNOT_FOUND\n")
		w.send("WORK_DATA #1|there is nobody to hear it")
		w.send("WORK_WARNING #1|so is this")
		w.send("WORK_STATUS #1|1|2")
		w.says("GET_STATUS #1", "STATUS_RES #1|1|1|1|2")
		w.send("WORK_COMPLETE #1|done")
		w.settle()
		if state := b.knows(1, "state"); state != "" {
			t.Errorf("after WORK_COMPLETE it is %q", state)
		}
		w.says("WORK_COMPLETE #1|again", "ERROR JOB_NOT_FOUND|Job given in work result not found")

		for id, end := range []string{2: "WORK_FAIL #2", 3: "WORK_EXCEPTION #3|why"} {
			if end == "" {
				continue
			}
			b.says("put 5 0 60 5\nhello\n", fmt.Sprintf("INSERTED %d\n", id))
			w.works(fmt.Sprintf("JOB_ASSIGN_UNIQ #%d|f||hello", id))
			w.send(end)
			w.settle()
			if state, pri := b.knows(id, "state"), b.knows(id, "pri"); state != "buried" || pri != "5" {
				t.Errorf("after %s it is %q with priority %s", end, state, pri)
			}
		}
		w.says("GRAB_JOB", "NO_JOB")
		w.send("PRE_SLEEP")
		b.says("kick 1\n", "KICKED 1\n")
		w.gets("NOOP")
		w.works("JOB_ASSIGN_UNIQ #2|f||hello")

		// A worker that goes has done nothing.
		w.Close()
		until(t, "the job is back", func() bool { return b.knows(2, "state") == "ready" })
		b.says("reserve\ndelete 2\n", "RESERVED 2 5\nhello\nDELETED\n")
		b.says("kick 1\nreserve\ndelete 3\n", "KICKED 1\nRESERVED 3 5\nhello\nDELETED\n")
	})
}

// The TTR of a put holds for Gearman's workers too, and what they say of a job
// is a touch.
func TestBeanstalkTTRWithGearmanWorker(t *testing.T) {
	t.Parallel()
	withShards(t, func(t *testing.T, s *server) {
		b, w, busy := s.dial().on("f"), s.gearman(), s.gearman()
		b.says("put 0 0 2 4\nbusy\n", "INSERTED 1\n")
		busy.send("CAN_DO f")
		busy.works("JOB_ASSIGN_UNIQ #1|f||busy")
		b.says("put 0 0 1 4\nlate\n", "INSERTED 2\n")
		w.send("CAN_DO f")
		begin := time.Now()
		w.works("JOB_ASSIGN_UNIQ #2|f||late")
		until(t, "the TTR has ended", func() bool {
			busy.send("WORK_STATUS #1|1|2")
			busy.settle()
			return b.knows(2, "state") == "ready"
		})
		if took := time.Since(begin); took < 900*time.Millisecond {
			t.Errorf("a TTR of 1 s has ended after %v", took)
		}
		w.says("WORK_COMPLETE #2|too late", "ERROR JOB_NOT_FOUND|Job given in work result not found")
		b.says("reserve\n", "RESERVED 2 4\nlate\n")
		until(t, "the other TTR would have ended too", func() bool {
			busy.send("WORK_STATUS #1|1|2")
			busy.settle()
			return time.Since(begin) > 2200*time.Millisecond
		})
		busy.send("WORK_COMPLETE #1|in time")
		busy.settle()
		if state := b.knows(1, "state"); state != "" {
			t.Errorf("a job of which its worker tells all the time is %q", state)
		}
	}, "3")
}

// Each way in which a job may become ready wakes a worker that sleeps.
func TestGearmanWorkerIsWoken(t *testing.T) {
	onShards(t, func(t *testing.T, s *server) {
		var awake []func() // all fall asleep first, and then wake
		for i, how := range []struct {
			what string
			// The job is ID in tube F, which a worker and b watch.
			before, after string // what b says before the worker sleeps, and then
			left          string // who leaves: a beanstalkd worker, or one of Gearman's
		}{
			{what: "put", after: "PUT 0 60"},
			{what: "a delay's end", after: "PUT 1 60"},
			{what: "release", before: "PUT 0 60, reserve-job ID", after: "release ID 0 0"},
			{what: "release with a delay", before: "PUT 0 60, reserve-job ID", after: "release ID 0 1"},
			{what: "a TTR's end", before: "PUT 0 2, reserve-job ID"},
			{what: "kick-job", before: "PUT 0 60, reserve-job ID, bury ID 0", after: "kick-job ID"},
			{what: "kick", before: "PUT 100 60", after: "kick 1"},
			{what: "a pause's end", before: "pause-tube F 1", after: "PUT 0 60"},
			{what: "a pause that is taken back", before: "pause-tube F 100, PUT 0 60", after: "pause-tube F 0"},
			{what: "a beanstalkd worker's end", before: "PUT 0 60", left: "beanstalk"},
			{what: "a Gearman worker's end", before: "PUT 0 60", left: "gearman"},
		} {
			tube := fmt.Sprint("f", i)
			b, w := s.dial().on(tube), s.gearman()
			var id int
			say := func(commands string) {
				t.Helper()
				if commands == "" {
					return
				}
				for c := range strings.SplitSeq(commands, ", ") {
					if put, ok := strings.CutPrefix(c, "PUT "); ok {
						b.send("put 0 " + put + " 1\nx\n")
						if _, err := fmt.Sscanf(b.line(), "INSERTED %d", &id); err != nil {
							t.Fatal(err)
						}
						continue
					}
					b.send(strings.NewReplacer("ID", fmt.Sprint(id), "F", tube).Replace(c) + "\n")
					if line := b.line(); strings.HasPrefix(line, "RESERVED") {
						b.gets("x\n")
					} else if strings.Contains(line, "NOT") {
						t.Fatalf("%s: %s", c, line)
					}
				}
			}
			say(how.before)
			leave := func() {}
			switch how.left {
			case "beanstalk":
				other := s.dial().on(tube)
				other.says("reserve\n", fmt.Sprintf("RESERVED %d 1\nx\n", id))
				leave = func() { other.Close() }
			case "gearman":
				other := s.gearman()
				other.send("CAN_DO " + tube)
				other.works(fmt.Sprintf("JOB_ASSIGN_UNIQ #%d|%s||x", id, tube))
				leave = func() { other.Close() }
			}
			w.send("CAN_DO " + tube)
			w.says("GRAB_JOB", "NO_JOB")
			w.send("PRE_SLEEP")
			w.settle()
			say(how.after)
			leave()
			awake = append(awake, func() {
				if p := w.next(); p.typ != gearNoop {
					t.Fatalf("%s: %s", how.what, p)
				}
				w.works(fmt.Sprintf("JOB_ASSIGN_UNIQ #%d|%s||x", id, tube))
				w.send(fmt.Sprintf("WORK_COMPLETE #%d|", id))
				w.settle()
			})
		}
		for _, f := range awake {
			f()
		}
	})
}

// Workers of both protocols wait for the same job: one gets it.
func TestGearmanMixedWorkersWait(t *testing.T) {
	onShards(t, func(t *testing.T, s *server) {
		b, w, g := s.dial().on("f"), s.gearman(), s.gearman()
		w.send("CAN_DO f")
		w.says("GRAB_JOB", "NO_JOB")
		w.send("PRE_SLEEP")
		w.settle()
		b.send("reserve\n")
		s.dial().awaits("current-waiting", "1")
		g.says("SUBMIT_JOB f||hello", "JOB_CREATED #1")
		b.gets("RESERVED 1 5\nhello\n")
		// Whether w was told is not said. But there is nothing for it.
		w.send("GRAB_JOB")
		p := w.next()
		if p.typ == gearNoop {
			p = w.next()
		}
		if p.typ != gearNoJob {
			t.Errorf("GRAB_JOB: %s", p)
		}
		b.says("delete 1\n", "DELETED\n")
		g.gets("WORK_COMPLETE #1|")
	})
}

// mixedOrder is what is submitted and put, and in which order it is done.
var mixedOrder = []struct {
	how   string // the packet's type, or the priority of a put
	tube  string
	place int
}{
	{"SUBMIT_JOB_LOW_BG", "a", 8}, {"SUBMIT_JOB_BG", "b", 4}, {"1024", "c", 5}, {"4294967295", "d", 9},
	{"1023", "e", 2}, {"SUBMIT_JOB_HIGH_BG", "f", 0}, {"1025", "g", 7}, {"0", "h", 1}, {"SUBMIT_JOB_BG", "a", 6},
	{"1023", "b", 3}, {"SUBMIT_JOB_LOW_BG", "c", 10},
}

// Whoever takes the jobs of several tubes, in either protocol, gets them in the
// same order.
func TestGearmanMixedPriorities(t *testing.T) {
	onShards(t, func(t *testing.T, s *server) {
		b, g, w := s.dial(), s.gearman(), s.gearman()
		tubes := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for _, tube := range tubes {
			b.send("watch " + tube + "\n")
			b.line()
			w.send("CAN_DO " + tube)
		}
		next := 0
		for _, protocol := range []string{"gearman", "beanstalk"} {
			want := make([]int, len(mixedOrder))
			for _, o := range mixedOrder {
				next++
				want[o.place] = next
				if strings.HasPrefix(o.how, "SUBMIT") {
					g.says(o.how+" "+o.tube+"||x", fmt.Sprintf("JOB_CREATED #%d", next))
				} else {
					b.says(fmt.Sprintf("use %s\nput %s 0 60 1\nx\n", o.tube, o.how), fmt.Sprintf("USING %s\nINSERTED %d\n", o.tube, next))
				}
			}
			var got []int
			for range mixedOrder {
				if protocol == "gearman" {
					w.send("GRAB_JOB")
					got = append(got, int(w.next().id()))
				} else {
					var id, size int
					b.send("reserve\n")
					if _, err := fmt.Sscanf(b.line(), "RESERVED %d %d", &id, &size); err != nil {
						t.Fatal(err)
					}
					readBytes(b, size+2)
					got = append(got, id)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: the jobs come in the order %d, want %d", protocol, got, want)
			}
		}
		w.says("GRAB_JOB", "NO_JOB")
	})
}

// Functions may have names that no tube has. Such a job is seen by all commands
// that take an id or none, under an escaped name.
func TestGearmanFunctionNamesThatAreNoTubeNames(t *testing.T) {
	onShards(t, func(t *testing.T, s *server) {
		b, g, w := s.dial(), s.gearman(), s.gearman()
		for i, tc := range []struct{ name, shown string }{
			{"plain", "plain"},
			{"-dash", "%2Ddash"},
			{"a-b", "a-b"},
			{"two words", "two%20words"},
			{"100%", "100%25"},
			{"tab\tand\r\nline", "tab%09and%0D%0Aline"},
			{"\x7f\xff\x01é", "%7F%FF%01%C3%A9"},
			{`quo"te`, "quo%22te"},
			{strings.Repeat("long", 100), strings.Repeat("long", 100)},
			{"+/;.$_()", "+/;.$_()"},
			{"[]{}:,", "%5B%5D%7B%7D%3A%2C"},
		} {
			id := i + 1
			g.says("SUBMIT_JOB "+tc.name+"|u|x", fmt.Sprintf("JOB_CREATED #%d", id))
			if got := b.list("list-tubes"); !slices.Contains(got, tc.shown) {
				t.Errorf("%q: list-tubes has %q", tc.name, got)
			}
			if got := b.knows(id, "tube"); got != `"`+tc.shown+`"` {
				t.Errorf("%q: stats-job says that its tube is %s", tc.name, got)
			}
			b.says(fmt.Sprintf("peek %d\n", id), fmt.Sprintf("FOUND %d 1\nx\n", id))
			b.says(fmt.Sprintf("reserve-job %d\nbury %d 0\n", id, id), fmt.Sprintf("RESERVED %d 1\nx\nBURIED\n", id))
			g.gets(fmt.Sprintf("WORK_FAIL #%d", id))
			b.says(fmt.Sprintf("kick-job %d\n", id), "KICKED\n")
			w.send("CAN_DO " + tc.name)
			w.works(fmt.Sprintf("JOB_ASSIGN_UNIQ #%d|%s|u|x", id, tc.name))
			w.send(fmt.Sprintf("WORK_COMPLETE #%d|", id))
			w.send("CANT_DO " + tc.name)
			w.settle()
			if state := b.knows(id, "state"); state != "" {
				t.Errorf("%q: after WORK_COMPLETE it is %s", tc.name, state)
			}
		}
	})
}
