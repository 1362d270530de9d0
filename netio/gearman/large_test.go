package gearman

// Packets that do not fit into a read buffer, and what of them is kept.

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
)

// A payload is kept where it was read, unless more than a little would stay with
// it.
func TestBodyKeepsNoHead(t *testing.T) {
	const size = 64 << 10
	for head, kept := range map[int]bool{0: true, 30: true, size / 64: true, size/64 + 1: false, maxHead: false} {
		for _, job := range []bool{false, true} {
			own := []byte(strings.Repeat("h", head) + strings.Repeat("x", size) + "??")
			want := strings.Repeat("x", size)
			if job {
				want += crlf
			}
			got := body(own[head:head+size], own, job)
			if string(got) != want {
				t.Errorf("behind %d bytes: got %d bytes, want %d", head, len(got), len(want))
			}
			if there := &got[0] == &own[head]; there != kept {
				t.Errorf("behind %d bytes: kept in place: %v", head, there)
			}
		}
	}
}

// What stands in front of a payload is bounded: nobody counts it.
func TestTooMuchInFront(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w := b.connect(), b.connect()
		const refused = `ERROR["ARGUMENT_TOO_LARGE" "Arguments have at most 8192 bytes, a workload or result apart"]`
		for _, size := range []int{10, netio.ReadSize} {
			payload := strings.Repeat("x", size)
			for front, want := range map[int]string{maxHead: "", maxHead + 1: refused, 96_000: refused} {
				rest := strings.Repeat("a", front-len("f\x00\x00red\x00\x00"))
				got := c.ask(typeSubmitReduceBackground, "f", "", "red", rest, payload)
				if want == "" && !strings.HasPrefix(got, "JOB_CREATED[") || want != "" && got != want {
					t.Errorf("%d bytes in front of %d: %s", front, size, got)
				}
			}
			zeros := strings.Repeat("0", maxHead)
			c.asks(refused, typeSubmitJobEpoch, "f", "", zeros, payload)
		}
		c.asks(`ECHO_RES["on"]`, typeEchoReq, "on")
		w.asks(refused, typeCanDo, strings.Repeat("f", maxHead+1))
		<-w.ended
	})
}

// A large result is read if its sender has the job, and else refused before it is
// given any memory.
func TestLargeResultOfNoJob(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, w, other := b.connect(), b.connect(), b.connect()
		w.ask(typeCanDo, "f")
		c.ask(typeSubmitJob, "f", "", "x")
		w.ask(typeGrabJob)
		result := strings.Repeat("r", 1<<20)
		for _, handle := range []string{"H:host:1", "H:host:99", "nonsense", strings.Repeat("x", 1000)} {
			packet := req(typeWorkComplete, handle, result)
			other.send(packet[:headerSize+4])
			other.expect(``)
			other.send(packet[headerSize+4 : 1500])
			other.expect(`ERROR["JOB_NOT_FOUND" "Job given in work result not found"]`)
			if other.s.large != nil {
				t.Errorf("the result of %.20q is read", handle)
			}
			other.send(packet[1500:])
			other.asks(`ECHO_RES["on"]`, typeEchoReq, "on")
		}
		// It may come with the GRAB_JOB by which its sender gets the job.
		w.asks(``, typeWorkComplete, "H:host:1", result)
		c.expect(fmt.Sprintf(`WORK_COMPLETE["H:host:1" %q]`, result))
		c.ask(typeSubmitJob, "f", "", "x")
		w.send(append(req(typeGrabJob), req(typeWorkComplete, "H:host:2", result)...))
		w.expect(`JOB_ASSIGN["H:host:2" "f" "x"]`)
		c.expect(fmt.Sprintf(`WORK_COMPLETE["H:host:2" %q]`, result))
	})
}

// A result that is being read counts as memory: over the cap, too, and it is new
// jobs that give way.
func TestLargeResultIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1 << 20
		b := newBench(t, Config{MaxJobSize: 4 * most}, router.Config{Shards: 2, MaxMemory: most})
		defer b.close()
		c, w := b.connect(), b.connect()
		w.ask(typeCanDo, "f")
		submit := func(want string) {
			t.Helper()
			if got := c.ask(typeSubmitJobBG, "g", "", "x"); !strings.HasPrefix(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		for _, end := range []func(packet []byte){
			func(packet []byte) { w.send(packet) },
			func([]byte) { w.close() },
		} {
			c.ask(typeSubmitJobBG, "f", "", "x")
			job := w.ask(typeGrabJob)
			_, rest, _ := strings.Cut(job, `"`)
			handle, _, _ := strings.Cut(rest, `"`)
			packet := req(typeWorkComplete, handle, strings.Repeat("r", 3*most))
			w.send(packet[:len(packet)/2])
			w.expect(``)
			submit("ERROR[")
			end(packet[len(packet)/2:])
			w.expect(``)
			submit("JOB_CREATED[")
		}
	})
}
