package router

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// backlog is an engine whose memory grows and shrinks.
type backlog struct {
	*peer
	r   *Router
	log journal
	ids []uint64
}

func newBacklog(t *testing.T) *backlog {
	b := new(backlog)
	b.r = newRouter(Config{Shards: 1, Log: b.log.logger(slog.LevelDebug)})
	b.peer = newPeer(t, b.r)
	return b
}

func (b *backlog) end() {
	b.close()
	b.r.Close()
}

// put puts jobs of about that many megabytes.
func (b *backlog) put(megabytes int) {
	for range megabytes {
		r := b.New(shard.Put)
		r.TTR, r.Body = 60, bytes.Repeat([]byte{'x'}, 1<<20) // not 0, so that the system has to give memory
		b.Queue(r)
		for done := b.Await(false); done != nil; done = b.Await(false) {
			b.ids = append(b.ids, done[0].ID)
		}
	}
}

// deleteAll deletes all but some jobs.
func (b *backlog) deleteAll(but int) {
	for _, id := range b.ids[but:] {
		b.session("delete %d -> DELETED", id)
	}
	b.ids = b.ids[:but]
}

const (
	givenBack = `msg="memory: given back`
	collected = `msg="memory: collected`
)

// TestMemoryIsGivenBack: when a backlog of large bodies has gone, the process is about as
// small as before.
func TestMemoryIsGivenBack(t *testing.T) { synctest.Test(t, testMemoryIsGivenBack) }

func testMemoryIsGivenBack(t *testing.T) {
	b := newBacklog(t)
	defer b.end()
	b.put(150)
	full := resident(t)
	b.deleteAll(0)
	time.Sleep(settled / 2)
	b.log.reads(t, "too early")
	time.Sleep(settled)
	b.log.reads(t, "when it has settled", givenBack)
	if freed := full - resident(t); freed < 120 {
		t.Errorf("of 150 MB %d were given back", freed)
	}
	time.Sleep(time.Hour)
	b.log.reads(t, "an hour later")
	b.put(70)
	b.deleteAll(10)
	time.Sleep(time.Hour)
	b.log.reads(t, "when little has gone")
	b.put(200)
	b.deleteAll(10)
	time.Sleep(time.Hour)
	b.log.reads(t, "the next time", givenBack)
}

// TestMemoryInUseIsNotGivenBack: while a backlog comes and goes, or the process is busy with
// something else.
func TestMemoryInUseIsNotGivenBack(t *testing.T) { synctest.Test(t, testMemoryInUseIsNotGivenBack) }

func testMemoryInUseIsNotGivenBack(t *testing.T) {
	b := newBacklog(t)
	defer b.end()
	for range 10 {
		b.put(100)
		time.Sleep(settled / 10)
		b.deleteAll(0)
		time.Sleep(settled * 8 / 10)
	}
	b.log.reads(t, "while it comes and goes")
	for range 3 {
		for before := usedCPU(); usedCPU()-before <= idleCPU; {
		}
		time.Sleep(settled)
	}
	b.log.reads(t, "while the process is busy", collected)
	time.Sleep(2 * settled)
	b.log.reads(t, "when it is idle", givenBack)
}

// resident returns how much memory the process has, in MB.
func resident(t *testing.T) (megabytes int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	var size, pages int
	if _, err2 := fmt.Sscan(string(text), &size, &pages); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return pages * os.Getpagesize() >> 20
}
