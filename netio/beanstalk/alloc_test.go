package beanstalk

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/router"
)

// No command on the hot path allocates, with a binlog or without, nor does a put of a
// body that its job keeps inside. All allocations of the process are
// counted, over a real socket; the client makes none.
func TestAllocationsPerCommand(t *testing.T) {
	if raceDetector {
		t.Skip("not with the race detector")
	}
	fewProcessors(t)
	for _, shards := range []int{1, 7} {
		for _, depth := range []int{1, 64} {
			for name, log := range withAndWithoutBinlog(t) {
				if log != nil && log.Sync == 0 && depth == 1 {
					continue // a sync each: it takes too long
				}
				t.Run(fmt.Sprintf("shards=%d/pipelined=%d/%s", shards, depth, name), func(t *testing.T) {
					countCycle(t, router.Config{Shards: shards, Binlog: log}, depth)
				})
			}
		}
	}
}

// withAndWithoutBinlog returns what a router.Config may say of the binlog.
func withAndWithoutBinlog(t *testing.T) map[string]*binlog.Config {
	return map[string]*binlog.Config{
		"memory":    nil,
		"binlog":    {Dir: t.TempDir() + "/a", Sync: 50 * time.Millisecond, Compression: binlog.S2},
		"binlog f0": {Dir: t.TempDir() + "/b", Sync: 0, Compression: binlog.S2},
	}
}

func countCycle(t *testing.T, cfg router.Config, depth int) {
	if cfg.Binlog != nil {
		c := *cfg.Binlog
		c.Dir += strconv.Itoa(cfg.Shards*1000 + depth)
		cfg.Binlog = &c
	}
	addr := startServer(t, cfg)
	// A shard keeps 8192 deleted jobs to use them again: stay below.
	const jobs = 2048
	p := newPipeliner(t, addr, "tube", depth, 128, jobs)
	var counts [3][]uint64 // of each round
	phases := [3]func(){p.put, p.reserve, p.delete}
	const warmup, rounds = 3, 8
	for round := range warmup + rounds {
		for i, phase := range phases {
			n := mallocs(func() {
				for range jobs / depth {
					phase()
				}
			})
			if round >= warmup {
				counts[i] = append(counts[i], n)
			}
		}
	}
	for i, name := range []string{"put", "reserve", "delete"} {
		slices.Sort(counts[i]) // what others do in the background falls into some of them
		got := float64(counts[i][rounds/2]) / jobs
		most := 0.01 // a pool that the collector has emptied
		if name == "put" {
			most = 0.05 // a page of the directory for 32 ids
		}
		t.Logf("%s: %.4f allocations", name, got)
		if got > most {
			t.Errorf("%s: %.4f allocations a command", name, got)
		}
	}
}

// The same for a reserve over tubes on several shards, and for the other
// commands of a worker.
func TestAllocationsOfAWorker(t *testing.T) {
	if raceDetector {
		t.Skip("not with the race detector")
	}
	fewProcessors(t)
	addr := startServer(t, router.Config{Shards: 7})
	p := newPipeliner(t, addr, "tube", 1, 128, 1)
	p.write([]byte("watch t1\r\nwatch t2\r\nwatch t3\r\nwatch t4\r\n"))
	for range 4 {
		p.line("WATCHING ")
	}
	p.put()
	id := p.ids[0]
	commands := []struct {
		send, answer string
		body         bool
	}{
		{"reserve\r\n", "RESERVED ", true},
		{fmt.Sprintf("touch %d\r\n", id), "TOUCHED", false},
		{"reserve-with-timeout 0\r\n", "TIMED_OUT", false},
		{fmt.Sprintf("release %d 3 0\r\n", id), "RELEASED", false},
		{"peek-ready\r\n", "FOUND ", true},
		{"reserve-with-timeout 3\r\n", "RESERVED ", true},
		{fmt.Sprintf("bury %d 3\r\n", id), "BURIED", false},
		{"peek-buried\r\n", "FOUND ", true},
		{"kick 1\r\n", "KICKED ", false},
		{"delete 99999\r\n", "NOT_FOUND", false},
		{"nosuch\r\n", "UNKNOWN_COMMAND", false},
	}
	counts := make([]uint64, len(commands))
	sends := make([][]byte, len(commands))
	for i, c := range commands {
		sends[i] = []byte(c.send)
	}
	const warmup, rounds = 100, 1000
	for round := range warmup + rounds {
		for i := range commands {
			c := &commands[i]
			n := mallocs(func() {
				p.write(sends[i])
				p.line(c.answer)
				if c.body {
					p.r.Discard(p.size + 2)
				}
			})
			if round >= warmup {
				counts[i] += n
			}
		}
	}
	for i, c := range commands {
		if got := float64(counts[i]) / rounds; got > 0.05 {
			t.Errorf("%q: %.3f allocations", c.send, got)
		}
	}
}

// fewProcessors leaves Go as few processors as testing.AllocsPerRun does, or nearly:
// each has pools of its own to fill after a collection.
func fewProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// mallocs returns how many allocations the process makes while f runs.
func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}
