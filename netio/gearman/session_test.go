package gearman

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
	"github.com/sheafq/sheaf/router"
	"github.com/sheafq/sheaf/shard"
)

func TestForeground(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		w.asks(``, typeCanDo, "f")
		w.asks(``, typePreSleep)
		c.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJob, "f", "u", "work")
		w.expect(`NOOP[""]`)
		w.asks(`JOB_ASSIGN["H:host:1" "f" "work"]`, typeGrabJob)
		w.asks(`NO_JOB[""]`, typeGrabJob)
		w.asks(``, typeWorkData, "H:host:1", "a\x00b")
		w.asks(``, typeWorkWarning, "H:host:1", "")
		w.asks(``, typeWorkStatus, "H:host:1", "3", "4")
		c.expect(`WORK_DATA["H:host:1" "a" "b"] WORK_WARNING["H:host:1" ""] WORK_STATUS["H:host:1" "3" "4"]`)
		c.asks(`STATUS_RES["H:host:1" "1" "1" "3" "4"]`, typeGetStatus, "H:host:1")
		c.asks(`STATUS_RES_UNIQUE["u" "1" "1" "3" "4" "1"]`, typeGetStatusUnique, "u")
		if !c.expects.Load() {
			t.Error("a client that waits for a result counts as idle")
		}
		w.asks(``, typeWorkComplete, "H:host:1", "done")
		c.expect(`WORK_COMPLETE["H:host:1" "done"]`)
		if c.expects.Load() {
			t.Error("a client whose jobs are done does not count as idle")
		}
		c.asks(`STATUS_RES["H:host:1" "0" "0" "0" "0"]`, typeGetStatus, "H:host:1")
		c.asks(`STATUS_RES_UNIQUE["u" "0" "0" "0" "0" "0"]`, typeGetStatusUnique, "u")
		w.asks(`ERROR["JOB_NOT_FOUND" "Job given in work result not found"]`, typeWorkComplete, "H:host:1", "")
	})
}

func TestPriorities(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		for _, f := range []string{"a", "b", "c"} {
			w.ask(typeCanDo, f)
		}
		c.ask(typeSubmitJobLowBG, "a", "", "low")
		c.ask(typeSubmitJobBG, "b", "", "normal")
		c.ask(typeSubmitJobHighBG, "c", "", "high")
		c.ask(typeSubmitJobHighBG, "a", "", "high too")
		for _, want := range []string{
			`JOB_ASSIGN["H:host:3" "c" "high"]`, `JOB_ASSIGN["H:host:4" "a" "high too"]`,
			`JOB_ASSIGN["H:host:2" "b" "normal"]`, `JOB_ASSIGN["H:host:1" "a" "low"]`, `NO_JOB[""]`,
		} {
			w.asks(want, typeGrabJob)
		}
	})
}

func TestAssignments(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		w.ask(typeCanDo, "f")
		c.ask(typeSubmitReduceBackground, "f", "u1", "red", "", "x\x00y")
		w.asks(`JOB_ASSIGN_ALL["H:host:1" "f" "u1" "red" "x" "y"]`, typeGrabJobAll)
		c.ask(typeSubmitJobBG, "f", "u2", "x")
		w.asks(`JOB_ASSIGN_UNIQ["H:host:2" "f" "u2" "x"]`, typeGrabJobUniq)
		if !w.expects.Load() {
			t.Error("a worker that has jobs counts as idle")
		}
		w.ask(typeWorkComplete, "H:host:1", "")
		w.ask(typeWorkComplete, "H:host:1", "") // which it has no more
		if !w.expects.Load() {
			t.Error("a worker that has a job counts as idle")
		}
		w.ask(typeWorkFail, "H:host:2")
		if w.expects.Load() {
			t.Error("a worker without jobs does not count as idle")
		}
		// Put by beanstalkd's put, it has neither.
		p := b.engine.NewClient()
		defer p.Close()
		put(t, p, "f", "y")
		w.asks(`JOB_ASSIGN_UNIQ["H:host:3" "f" "" "y"]`, typeGrabJobUniq)
		// Without an aggregator, which gearmand wants and nobody looks at.
		c.ask(typeSubmitReduceJob, "f", "", "red", "x")
		w.asks(`JOB_ASSIGN_ALL["H:host:4" "f" "" "red" "x"]`, typeGrabJobAll)
	})
}

func TestUniques(t *testing.T) {
	inBubble(t, func(b *bench) {
		c1, c2, w := b.connect(), b.connect(), b.connect()
		w.ask(typeCanDo, "f")
		c1.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJob, "f", "u", "x")
		c2.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJob, "f", "u", "other")
		c2.asks(`JOB_CREATED["H:host:2"]`, typeSubmitJob, "g", "u", "x")
		w.asks(`JOB_ASSIGN["H:host:1" "f" "x"]`, typeGrabJob)
		c1.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJob, "f", "u", "x") // also while it runs
		w.asks(``, typeWorkComplete, "H:host:1", "r")
		c1.expect(`WORK_COMPLETE["H:host:1" "r"] WORK_COMPLETE["H:host:1" "r"]`) // once for each
		c2.expect(`WORK_COMPLETE["H:host:1" "r"]`)
		c1.asks(`JOB_CREATED["H:host:3"]`, typeSubmitJobBG, "f", "u", "x") // it is done
		// The workload is the unique.
		c1.asks(`JOB_CREATED["H:host:4"]`, typeSubmitJobBG, "f", "-", "x")
		c1.asks(`JOB_CREATED["H:host:4"]`, typeSubmitJobBG, "f", "-", "x")
		c1.asks(`JOB_CREATED["H:host:5"]`, typeSubmitJobBG, "f", "-", "y")
		// None at all.
		c1.asks(`JOB_CREATED["H:host:6"]`, typeSubmitJobBG, "f", "", "x")
		c1.asks(`JOB_CREATED["H:host:7"]`, typeSubmitJobBG, "f", "", "x")
	})
}

func TestExceptions(t *testing.T) {
	inBubble(t, func(b *bench) {
		c1, c2, w := b.connect(), b.connect(), b.connect()
		c1.asks(`OPTION_RES["exceptions"]`, typeOptionReq, "exceptions")
		c2.asks(`ERROR["UNKNOWN_OPTION" "Server does not recognize given option"]`, typeOptionReq, "foo")
		c1.ask(typeSubmitJob, "f", "u", "x")
		c2.ask(typeSubmitJob, "f", "u", "x")
		w.ask(typeCanDo, "f")
		w.ask(typeGrabJob)
		w.asks(``, typeWorkException, "H:host:1", "why")
		c1.expect(`WORK_EXCEPTION["H:host:1" "why"]`)
		c2.expect(`WORK_FAIL["H:host:1"]`)
		w.asks(`NO_JOB[""]`, typeGrabJob)
	})
}

func TestTimes(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		w.ask(typeCanDoTimeout, "f", "5")
		w.asks(``, typePreSleep)
		now := time.Now().UTC() // a bubble's time begins on a whole second
		c.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJobEpoch, "f", "", time0(now.Add(10*time.Second)), "later")
		c.asks(`JOB_CREATED["H:host:2"]`, typeSubmitJobSched, "f", "", "1", "", "", "", "", "sched")
		c.asks(`STATUS_RES["H:host:1" "1" "0" "0" "0"]`, typeGetStatus, "H:host:1")
		time.Sleep(10*time.Second - time.Nanosecond)
		w.expect(``)
		time.Sleep(time.Nanosecond)
		w.expect(`NOOP[""]`)
		w.asks(`JOB_ASSIGN["H:host:1" "f" "later"]`, typeGrabJob)
		// It has five seconds, and then has failed.
		time.Sleep(5 * time.Second)
		c.asks(`STATUS_RES["H:host:1" "0" "0" "0" "0"]`, typeGetStatus, "H:host:1")
		w.asks(`ERROR["JOB_NOT_FOUND" "Job given in work result not found"]`, typeWorkComplete, "H:host:1", "")
		w.asks(``, typePreSleep)
		time.Sleep(time.Until(now.Add(time.Minute)))
		w.expect(`NOOP[""]`)
		w.asks(`JOB_ASSIGN["H:host:2" "f" "sched"]`, typeGrabJob)
		// In the foreground the client hears of it.
		w.ask(typeWorkComplete, "H:host:2", "")
		c.ask(typeSubmitJob, "f", "", "slow")
		w.ask(typeGrabJob)
		time.Sleep(4 * time.Second)
		c.expect(``)
		time.Sleep(time.Second)
		c.expect(`WORK_FAIL["H:host:3"]`)
	})
}

// A worker whose job was taken back, as its time was over, is not at work.
func TestWorkerWithoutItsJobIsIdle(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w, p := b.connect(), b.connect(), b.engine.NewClient()
		defer p.Close()
		expects := func(when string, want bool) {
			t.Helper()
			if synctest.Wait(); w.expects.Load() != want {
				t.Errorf("%s the worker may be silent: %v", when, w.expects.Load())
			}
		}
		w.ask(typeCanDoTimeout, "f", "5")
		w.ask(typeCanDo, "put")
		for i, job := range []func(){
			func() { c.ask(typeSubmitJobBG, "f", "", "x") },
			func() { put(t, p, "put", "x") },
		} {
			handle := fmt.Sprintf("H:host:%d", 2*i+1)
			job()
			w.ask(typeGrabJob)
			expects("with a job", true)
			time.Sleep(time.Minute)
			expects("past its time", false)
			if i == 1 {
				w.ask(typeGrabJob) // the same
				w.ask(typeWorkComplete, handle, "")
			}
			w.asks(`ERROR["JOB_NOT_FOUND" "Job given in work result not found"]`, typeWorkComplete, handle, "")
			expects("having said more of it", false)
			c.ask(typeSubmitJobBG, "f", "", "x")
			w.ask(typeGrabJob)
			expects("with another job", true)
			w.ask(typeWorkComplete, fmt.Sprintf("H:host:%d", 2*i+2), "")
			expects("having done it", false)
		}
	})
}

func TestWorkerGoes(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w1, w2 := b.connect(), b.connect(), b.connect()
		w1.ask(typeCanDo, "f")
		w2.ask(typeCanDo, "f")
		c.ask(typeSubmitJob, "f", "", "x")
		c.ask(typeSubmitJobBG, "f", "", "y")
		w1.ask(typeGrabJob)
		w1.ask(typeGrabJob)
		w2.ask(typePreSleep)
		w1.close()
		w2.expect(`NOOP[""]`)
		w2.asks(`JOB_ASSIGN["H:host:1" "f" "x"]`, typeGrabJob)
		c.close()
		// It runs on, but does not come again.
		w2.close()
		w3 := b.connect()
		w3.ask(typeCanDo, "f")
		w3.asks(`JOB_ASSIGN["H:host:2" "f" "y"]`, typeGrabJob)
		w3.asks(`NO_JOB[""]`, typeGrabJob)
	})
}

func TestClientGoes(t *testing.T) {
	inBubble(t, func(b *bench) {
		c1, c2, w := b.connect(), b.connect(), b.connect()
		c1.ask(typeSubmitJob, "f", "alone", "x")
		c1.ask(typeSubmitJob, "f", "both", "y")
		c2.ask(typeSubmitJob, "f", "both", "y")
		c1.ask(typeSubmitJob, "f", "kept", "z")
		c2.asks(`JOB_CREATED["H:host:3"]`, typeSubmitJobBG, "f", "kept", "z")
		c1.close()
		w.ask(typeCanDo, "f")
		w.asks(`JOB_ASSIGN["H:host:2" "f" "y"]`, typeGrabJob)
		w.asks(`JOB_ASSIGN["H:host:3" "f" "z"]`, typeGrabJob)
		w.asks(`NO_JOB[""]`, typeGrabJob)
		w.ask(typeWorkComplete, "H:host:2", "")
		c2.expect(`WORK_COMPLETE["H:host:2" ""]`)
	})
}

func TestRefusals(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.connect()
		p.asks(`ERROR["INVALID_COMMAND" "Command not expected"]`, typeJobCreated, "x")
		p.asks(`ERROR["INVALID_COMMAND" "Command not expected"]`, 99)
		p.asks(`ERROR["INVALID_PACKET" "Arguments are missing"]`, typeSubmitJob, "f", "u")
		p.asks(`ERROR["INVALID_FUNCTION_NAME" "Function names have 1 to 512 bytes"]`, typeSubmitJob, "", "u", "")
		p.asks(`ERROR["ARGUMENT_TOO_LARGE" "Unique value too large"]`, typeSubmitJob, "f", strings.Repeat("u", 65), "")
		p.asks(`ERROR["INVALID_PACKET" "Arguments are missing"]`, typeWorkComplete)
		p.asks(`ERROR["INVALID_PACKET" "Arguments are missing"]`, typeWorkStatus, "H:host:1")
		p.asks(`ERROR["JOB_NOT_FOUND" "Job given in work result not found"]`, typeWorkComplete, "H:host:1")
		p.asks(`ERROR["INVALID_ARGUMENT" "Time is invalid, or never comes"]`, typeSubmitJobEpoch, "f", "", "99999999999999999999", "")
		p.asks(`ERROR["INVALID_ARGUMENT" "Time is invalid, or never comes"]`, typeSubmitJobSched, "f", "", "", "", "31", "2", "", "")
		p.asks(`ERROR["JOB_NOT_FOUND" "Job given in work result not found"]`, typeWorkFail, "H:other:1")
		p.asks(``, typeAllYours)
		p.asks(`ECHO_RES["a" "" "b"]`, typeEchoReq, "a\x00\x00b")
		p.send(appendHeader(nil, typeEchoRes, 0))
		p.expect(`ERROR["INVALID_MAGIC" "Request magic expected"]`)
		p.send([]byte("\x00FOO12345678"))
		p.expect(`ERROR["INVALID_MAGIC" "Request magic expected"]`)
		<-p.ended
	})
}

// While the server waits for what is at work, nobody gets a job, or is told of one.
func TestNoNewWork(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		w.ask(typeCanDo, "f")
		c.ask(typeSubmitJob, "f", "", "x")
		c.ask(typeSubmitJobBG, "f", "", "y")
		w.asks(`JOB_ASSIGN["H:host:1" "f" "x"]`, typeGrabJob)
		b.engine.Drain()
		b.engine.EndWaits()
		w.asks(`NO_JOB[""]`, typeGrabJob)
		w.asks(``, typePreSleep)
		c.asks(`ERROR["QUEUE_ERROR" "Server takes no new jobs"]`, typeSubmitJobBG, "f", "", "z")
		w.asks(``, typeWorkComplete, "H:host:1", "done")
		c.expect(`WORK_COMPLETE["H:host:1" "done"]`)
	})
}

// A web page can have a browser send lines to any port.
func TestHTTP(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.connect()
		p.send([]byte("POST / HTTP/1.1\r\nHost: x\r\n\r\nshutdown\n"))
		p.expect("")
		<-p.ended
		if len(b.shutdowns) > 0 {
			t.Error("a line in the body of an HTTP request was served")
		}
		// What only looks a little like it.
		p = b.connect()
		for line, want := range map[string]string{
			"create function HTTP/1.1": adminOK,
			"drop function HTTP/1.1":   adminOK,
			"CREATE FUNCTION HTTP/1.1": adminOK,
			"cancel job HTTP/1.1":      adminNoJob,
			"version HTTP/1.1":         "OK test\n",
			"GET / HTTP/x":             "ERR UNKNOWN_COMMAND Unknown+server+commandGET\r\n",
			"GET HTTP/1.1":             "ERR UNKNOWN_COMMAND Unknown+server+commandGET\r\n",
			"get / HTTP/1.1":           "ERR UNKNOWN_COMMAND Unknown+server+commandget\r\n",
			"HTTP/1.1":                 "ERR UNKNOWN_COMMAND Unknown+server+commandHTTP/1.1\r\n",
		} {
			p.send([]byte("create function HTTP/1.1\n"))
			p.got()
			p.send([]byte(line + "\n"))
			if got := string(p.got()); got != want {
				t.Errorf("%s: got %q, want %q", line, got, want)
			}
		}
		for _, line := range []string{"GET / HTTP/1.1\r\n", "OPTIONS * HTTP/1.0\n", "PROPFIND /a b HTTP/2\n"} {
			p := b.connect()
			p.send([]byte(line))
			p.expect("")
			<-p.ended
		}
	})
}

// A full server can be emptied: results find room, whatever their size, and who
// submits too much is told, and heard again.
func TestMemoryIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{MaxJobSize: 1 << 20}, router.Config{Shards: 2, MaxMemory: 400 << 10})
		defer b.close()
		c, w := b.connect(), b.connect()
		w.ask(typeCanDo, "f")
		large := strings.Repeat("x", 300<<10)
		c.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJob, "f", "", large)
		c.asks(`ERROR["MEMORY_ALLOCATION_FAILURE" "Out of memory, or the disk is full"]`, typeSubmitJob, "f", "", large)
		c.asks(`ECHO_RES["on"]`, typeEchoReq, "on")
		w.ask(typeGrabJob)
		result := strings.Repeat("y", 1<<20)
		w.asks(``, typeWorkComplete, "H:host:1", result)
		c.expect(`WORK_COMPLETE["H:host:1" "` + result + `"]`)
		c.asks(`JOB_CREATED["H:host:2"]`, typeSubmitJobBG, "f", "", large)
		c.ask(typeSubmitJobBG, "f", "", large)
		// What is refused, be it large or not, makes no function.
		c.ask(typeSubmitJobBG, "g", "", large)
		for refused := false; !refused; {
			refused = strings.HasPrefix(c.ask(typeSubmitJobBG, "f", "", strings.Repeat("x", 50<<10)), "ERROR[")
		}
		c.asks(`ERROR["MEMORY_ALLOCATION_FAILURE" "Out of memory, or the disk is full"]`, typeSubmitJobBG, "f", "", strings.Repeat("x", 50<<10))
		c.asks(`ERROR["MEMORY_ALLOCATION_FAILURE" "Out of memory, or the disk is full"]`, typeSubmitJobBG, "h", "", strings.Repeat("x", 50<<10))
		c.send([]byte("status\n"))
		if got := string(c.got()); strings.Count(got, "\n") != 2 {
			t.Errorf("there are functions of which no job was taken:\n%s", got)
		}
	})
}

// What is too large is refused on the strength of its header, and a result that
// is makes its job fail, which would not fare better the next time.
func TestTooLarge(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w, p := b.connect(), b.connect(), b.connect()
		p.send([]byte("\x00REQ\x00\x00\x00\x07\xff\xff\xff\xff"))
		p.expect(`ERROR["ARGUMENT_TOO_LARGE" "Packet too large; see the server's option -z"]`)
		<-p.ended
		p = b.connect()
		p.asks(`ERROR["ARGUMENT_TOO_LARGE" "Packet too large; see the server's option -z"]`, typeSubmitJob, "f", "", strings.Repeat("x", 1<<20+1))
		<-p.ended
		w.ask(typeCanDo, "f")
		most := strings.Repeat("x", 1<<20)
		c.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJob, "f", "", most)
		w.asks(`JOB_ASSIGN["H:host:1" "f" "`+most+`"]`, typeGrabJob)
		w.asks(``, typeWorkData, "H:host:1", most)
		c.expect(`WORK_DATA["H:host:1" "` + most + `"]`)
		w.ask(typeWorkComplete, "H:host:1", most+"x")
		c.expect(`WORK_FAIL["H:host:1"]`)
		<-w.ended
		// Also when its header comes alone.
		w = b.connect()
		w.ask(typeCanDo, "f")
		c.ask(typeSubmitJob, "f", "", "x")
		w.ask(typeGrabJob)
		packet := req(typeWorkComplete, "H:host:2", strings.Repeat("x", 2<<20))
		for _, part := range [][]byte{packet[:headerSize], packet[headerSize : headerSize+5], packet[headerSize+5 : headerSize+2000]} {
			w.send(part)
			synctest.Wait()
		}
		c.expect(`WORK_FAIL["H:host:2"]`)
		w.expect(`ERROR["ARGUMENT_TOO_LARGE" "Packet too large; see the server's option -z"]`)
		w.send(packet[headerSize+2000:]) // is read to the end, so that the sender comes to read
		<-w.ended
	})
}

// A unique "-" is coalesced with who has the same workload, if the unique is that, too.
func TestWorkloadIsUnique(t *testing.T) {
	for _, tt := range []struct {
		first, second [2]string // unique and workload
		same          bool
	}{
		{[2]string{"-", "abc"}, [2]string{"-", "abc"}, true},
		{[2]string{"abc", "abc"}, [2]string{"-", "abc"}, true},
		{[2]string{"-", "abc"}, [2]string{"abc", "abc"}, false},
		{[2]string{"abc", "other"}, [2]string{"-", "abc"}, false},
		{[2]string{"-", "abc"}, [2]string{"abc", "other"}, false},
		{[2]string{"", "abc"}, [2]string{"-", "abc"}, false},
	} {
		inBubble(t, func(b *bench) {
			c := b.connect()
			c.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJobBG, "f", tt.first[0], tt.first[1])
			second := `JOB_CREATED["H:host:2"]`
			if tt.same {
				second = `JOB_CREATED["H:host:1"]`
			}
			c.asks(second, typeSubmitJobBG, "f", tt.second[0], tt.second[1])
		})
	}
}

// What a beanstalk client did to a job shows in the admin protocol.
func TestAdminOfPutJobs(t *testing.T) {
	inBubble(t, func(b *bench) {
		a := b.connect()
		line := func(want, text string) {
			t.Helper()
			a.send([]byte(text + "\n"))
			if got := string(a.got()); got != want {
				t.Errorf("%s: got %q, want %q", text, got, want)
			}
		}
		do := func(p *router.Client, op shard.Op, is func(r *shard.Request)) {
			t.Helper()
			r := p.New(op)
			is(r)
			one(t, p, r)
		}
		put := func(p *router.Client, pri, delay uint32) {
			t.Helper()
			do(p, shard.Put, func(r *shard.Request) { r.Pri, r.Delay, r.TTR, r.Body = pri, delay, 60, []byte("x\r\n") })
		}
		p := b.engine.NewClient()
		defer p.Close()
		p.Use("f")
		for pri, n := range map[uint32]int{0: 1, 1024: 2, 1<<32 - 1: 3} {
			for range n {
				put(p, pri, 3600)
			}
		}
		line("f\t1\t2\t3\t0\n.\n", "prioritystatus")
		do(p, shard.Kick, func(r *shard.Request) { r.N = 6 })
		line("f\t1\t2\t3\t0\n.\n", "prioritystatus")

		// A worker that is gone has put its job back, whatever it spoke.
		for id := range uint64(6) {
			do(p, shard.Delete, func(r *shard.Request) { r.ID = 1 + id })
		}
		q := b.engine.NewClient()
		defer q.Close()
		q.Use("g")
		put(q, 1024, 0)
		w := b.connect()
		w.ask(typeCanDo, "g")
		w.ask(typeGrabJob)
		w.close()
		worker := b.engine.NewClient()
		worker.Watch("g")
		do(worker, shard.ReserveTimeout, func(*shard.Request) {})
		line("H:host:7\t1\t0\t1\n.\n", "show jobs")
		worker.Close()
		line("H:host:7\t2\t0\t1\n.\n", "show jobs")
	})
}

func TestAdmin(t *testing.T) {
	inBubble(t, func(b *bench) {
		a, c, w := b.connect(), b.connect(), b.connect()
		line := func(want, text string) {
			t.Helper()
			a.send([]byte(text + "\n"))
			if got := string(a.got()); got != want {
				t.Errorf("%s: got %q, want %q", text, got, want)
			}
		}
		w.ask(typeSetClientID, "me")
		w.ask(typeCanDo, "f")
		w.ask(typeCanDo, "g")
		c.ask(typeSubmitJobBG, "f", "u1", "")
		c.ask(typeSubmitJobHigh, "f", "u2", "")
		c.ask(typeSubmitJobLowBG, "f", "", "")
		c.ask(typeSubmitJobEpoch, "f", "", time0(time.Now().Add(time.Hour)), "")
		w.ask(typeGrabJob)
		line("f\t4\t1\t1\ng\t0\t0\t1\n.\n", "status")
		line("f\t0\t2\t1\t1\ng\t0\t0\t0\t1\n.\n", "prioritystatus")
		line("1 127.0.0.1 - :\n2 127.0.0.1 - :\n3 127.0.0.1 me : g f\n.\n", "workers")
		line("H:host:1\t0\t0\t1\nH:host:2\t0\t0\t0\nH:host:3\t0\t0\t1\nH:host:4\t0\t0\t1\n.\n", "show jobs")
		line("u1\nu2\n\n\n.\n", "show unique jobs")
		line("OK test\n", "version")
		line("OK\r\n", "maxqueue f 4 0 3")
		c.asks(`ERROR["QUEUE_ERROR" "Job queue is full"]`, typeSubmitJobHigh, "f", "", "")
		c.asks(`JOB_CREATED["H:host:5"]`, typeSubmitJobBG, "f", "", "")
		c.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJobBG, "f", "u1", "") // that is no more job
		line("OK\r\n", "maxqueue f")
		line("OK\r\n", "cancel job H:host:1")
		line("ERR UNKNOWN_JOB\r\n", "cancel job H:host:1")
		line("OK\r\n", "cancel job H:host:2") // a worker has it, and may finish it
		c.expect(`WORK_FAIL["H:host:2"]`)
		w.asks(``, typeWorkComplete, "H:host:2", "r")
		c.expect(``)
		line("ERR there are still connected workers or executing clients\r\n", "drop function f")
		w.ask(typeResetAbilities)
		bury := b.engine.NewClient()
		defer bury.Close()
		bury.Watch("f")
		c.ask(typeSubmitJobHighBG, "f", "buried", "x")
		reserve := bury.New(shard.ReserveTimeout)
		one(t, bury, reserve)
		gone := bury.New(shard.Bury)
		gone.ID = 6
		one(t, bury, gone)
		bury.Ignore("f")
		line("OK\r\n", "drop function f")
		line("ERR function not found\r\n", "drop function f")
		kick := bury.New(shard.KickJob) // what was set aside is there
		kick.ID = 6
		one(t, bury, kick)
		line("H:host:6\t0\t0\t1\n.\n", "show jobs")
		line("OK\r\n", "cancel job H:host:6")
		line("OK\r\n", "create function new")
		line("f\t0\t0\t0\ng\t0\t0\t0\nnew\t0\t0\t0\n.\n", "status")
		line("ERR UNKNOWN_COMMAND Unknown+server+commandfoo\r\n", "foo")
		line("OK\r\n", "shutdown graceful")
		line("OK\r\n", "shutdown")
		if len(b.shutdowns) != 2 || !b.shutdowns[0] || b.shutdowns[1] {
			t.Errorf("shutdowns: %v", b.shutdowns)
		}
		a.send([]byte(strings.Repeat("x", maxLine)))
		if got := string(a.got()); got != "ERR INVALID_COMMAND Line+too+long\r\n" {
			t.Errorf("a line without end: %q", got)
		}
		<-a.ended
	})
}

// Where jobs come within a moment of the NO_JOB, a GRAB_JOB waits for the next one
// instead; where they do not, or when that was for nothing, it does not.
func TestGrabWaits(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		w.ask(typeCanDo, "f")
		w.ask(typeCanDo, "g")
		job := 0
		sleeps := func(pause time.Duration) {
			t.Helper()
			w.asks(`NO_JOB[""]`, typeGrabJob)
			time.Sleep(pause)
			w.asks(``, typePreSleep)
			job++
			c.ask(typeSubmitJobBG, []string{"f", "g"}[job%2], "", "x")
			w.expect(`NOOP[""]`)
			if got := w.ask(typeGrabJob); !strings.HasPrefix(got, "JOB_ASSIGN[") {
				t.Fatalf("GRAB_JOB after NOOP: %s", got)
			}
		}
		sleeps(0)
		sleeps(2 * moment) // slow: what was fast before does not count
		for range fastEnough {
			sleeps(moment / 2)
		}
		// It waits, and is given the job; on the shard of either function.
		for _, f := range []string{"f", "g"} {
			w.asks(``, typeGrabJob)
			time.Sleep(moment / 2)
			c.ask(typeSubmitReduceBackground, f, "u", "red", "", "y")
			job++
			w.expect(fmt.Sprintf(`JOB_ASSIGN["H:host:%d" %q "y"]`, job, f))
		}
		w.asks(``, typeGrabJobAll)
		c.ask(typeSubmitReduceBackground, "g", "v", "red", "", "y")
		job++
		w.expect(fmt.Sprintf(`JOB_ASSIGN_ALL["H:host:%d" "g" "v" "red" "y"]`, job))
		// What was said before is answered before it waits. It does not wait when
		// something has been said behind it.
		w.send(slices.Concat(req(typeGrabJob), req(typeEchoReq, "echo"), req(typeGrabJob)))
		w.expect(`NO_JOB[""] ECHO_RES["echo"]`)
		time.Sleep(moment)
		w.expect(`NO_JOB[""]`)
		// That was for nothing: it does not wait again.
		w.asks(`NO_JOB[""]`, typeGrabJob)
		if st := b.stats(); st.Waiting != 0 || st.Queued != 0 {
			t.Errorf("%d clients wait in %d queues", st.Waiting, st.Queued)
		}
		for range fastEnough {
			sleeps(0)
		}
		// Its own JOB_CREATED does not wait with it.
		w.send(slices.Concat(req(typeSubmitJob, "h", "", "x"), req(typeGrabJob)))
		job++
		w.expect(fmt.Sprintf(`JOB_CREATED["H:host:%d"]`, job))
		c.ask(typeSubmitJobBG, "f", "", "x")
		job++
		w.expect(fmt.Sprintf(`JOB_ASSIGN["H:host:%d" "f" "x"]`, job))
		// A connection that ends while it waits.
		w.asks(``, typeGrabJob)
		w.s.Hangup()
		w.expect(`NO_JOB[""]`)
	})
}

// Workers that have no data may leave out the NUL in front of it, too.
func TestResultsWithoutData(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		c.ask(typeOptionReq, "exceptions")
		w.ask(typeCanDo, "f")
		for i, typ := range []uint32{typeWorkComplete, typeWorkException} {
			handle := fmt.Sprintf("H:host:%d", i+1)
			c.ask(typeSubmitJob, "f", "", "x")
			w.ask(typeGrabJob)
			w.asks(``, typeWorkData, handle)
			w.asks(``, typeWorkWarning, handle)
			c.expect(fmt.Sprintf(`WORK_DATA[%q ""] WORK_WARNING[%[1]q ""]`, handle))
			w.asks(``, typ, handle)
			c.expect(fmt.Sprintf(`%s[%q ""]`, names[typ], handle))
		}
		if w.expects.Load() || c.expects.Load() {
			t.Error("the jobs have not ended")
		}
	})
}

// Numbers that are none, or negative, are what the reference takes them for.
func TestTimesThatAreNone(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.connect()
		for i, timeout := range []string{"0", "-1", "x", ""} {
			w, f := b.connect(), fmt.Sprint("f", i)
			w.asks(``, typeCanDoTimeout, f, timeout)
			c.ask(typeSubmitJobBG, f, "", "x")
			w.ask(typeGrabJob)
			time.Sleep(24 * time.Hour)
			w.asks(``, typeWorkComplete, fmt.Sprintf("H:host:%d", i+1), "")
			w.close()
		}
		w := b.connect()
		for _, timeout := range []string{"2", " 2", "+2", "2.9", "2s", "2\x00"} {
			w.asks(``, typeCanDoTimeout, "g", timeout)
			c.ask(typeSubmitJob, "g", "", "x")
			w.ask(typeGrabJob)
			c.got()
			time.Sleep(2*time.Second - time.Nanosecond)
			c.expect(``)
			time.Sleep(time.Nanosecond)
			if got := show(c.got()); !strings.HasPrefix(got, "WORK_FAIL[") {
				t.Errorf("past a timeout of %q: %s", timeout, got)
			}
		}
		w.asks(``, typeCanDoTimeout, "g", "99999999999999999999")
		now := time.Now().UTC()
		for _, at := range []string{"x", "", "-1", "- 5", "0", "1.5", "-99999999999999999999"} {
			if got := c.ask(typeSubmitJobEpoch, "g", "", at, "x"); !strings.HasPrefix(got, "JOB_CREATED[") {
				t.Errorf("SUBMIT_JOB_EPOCH at %q: %s", at, got)
			}
			if got := w.ask(typeGrabJob); !strings.HasPrefix(got, "JOB_ASSIGN[") {
				t.Errorf("SUBMIT_JOB_EPOCH at %q: its job is not there: %s", at, got)
			}
		}
		for i, at := range []string{" %s", "+%s", "%s.5", "%sx"} {
			c.ask(typeSubmitJobEpoch, "g", "", fmt.Sprintf(at, time0(now.Add(time.Duration(i+1)*time.Hour))), "x")
		}
		w.asks(``, typePreSleep)
		for range 4 {
			time.Sleep(time.Hour - time.Nanosecond)
			w.expect(``)
			time.Sleep(time.Nanosecond)
			w.expect(`NOOP[""]`)
			if got := w.ask(typeGrabJob); !strings.HasPrefix(got, "JOB_ASSIGN[") {
				t.Errorf("at its time a job is not there: %s", got)
			}
			w.asks(``, typePreSleep)
		}
	})
}

// What an argument is ends at its first NUL, but for a failure, which is passed on
// as it is; and numbers are atoi's.
func TestArguments(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		w.ask(typeCanDo, "f")
		c.asks(`JOB_CREATED["H:host:1"]`, typeSubmitJob, "f", "u", "x")
		w.asks(`JOB_ASSIGN["H:host:1" "f" "x"]`, typeGrabJob)
		for sent, told := range map[string]string{
			"-1": "4294967295", " 5": "5", "+7": "7", "\t9": "9", "4294967296": "0", "x": "0", "- 1": "0", "12x": "12",
			"99999999999999999999": "4294967295",
		} {
			w.asks(``, typeWorkStatus, "H:host:1", sent, "10")
			c.expect(fmt.Sprintf(`WORK_STATUS["H:host:1" %q "10"]`, sent))
			c.asks(fmt.Sprintf(`STATUS_RES["H:host:1" "1" "1" %q "10"]`, told), typeGetStatus, "H:host:1")
		}
		c.asks(`STATUS_RES["a" "0" "0" "0" "0"]`, typeGetStatus, "a\x00b")
		c.asks(`STATUS_RES_UNIQUE["a" "0" "0" "0" "0" "0"]`, typeGetStatusUnique, "a\x00b")
		w.asks(``, typeWorkFail, "H:host:1\x00because\x00of")
		c.expect(`WORK_FAIL["H:host:1" "because" "of"]`)
		for _, name := range []string{"", strings.Repeat("f", maxFunction+1)} {
			c.send([]byte("create function " + name + "\r\n"))
			c.expect(`"ERR INVALID_ARGUMENTS A+function+has+a+name+of+1+to+512+bytes\r\n"`)
		}
	})
}

// Where each answer costs a sync that takes long the first of a pipeline leave before
// the last are there.
func TestPipelineOnASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		b := newBench(t, Config{MaxJobSize: 1 << 20}, router.Config{Shards: 2, Binlog: &binlog.Config{Dir: "/binlog", FS: disk}})
		defer b.close()
		c := b.connect()
		disk.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
			if op == faultfs.OpSync {
				time.Sleep(time.Second)
			}
			return nil
		})
		const jobs = 300
		c.send(bytes.Repeat(req(typeSubmitJobBG, "f", "", "work"), jobs))
		time.Sleep(time.Second + time.Second/2)
		first := strings.Count(show(c.got()), "JOB_CREATED")
		if first != 128 { // so many go to a shard at once
			t.Errorf("when the first sync is done %d answers have come", first)
		}
		time.Sleep(time.Minute)
		if all := first + strings.Count(show(c.got()), "JOB_CREATED"); all != jobs {
			t.Errorf("%d answers have come, want %d", all, jobs)
		}
		disk.SetFault(nil)
	})
}
