package router

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// journal is what an engine has logged.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: level}))
}

// reads compares what was logged since the last call: for each line there is an expression.
func (j *journal) reads(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := slices.Collect(strings.Lines(j.b.String()))
	j.b.Reset()
	ok := len(lines) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = regexp.MustCompile(want[i]).MatchString(lines[i])
	}
	if !ok {
		t.Errorf("%s the log has\n%swant\n%s", when, strings.Join(lines, ""), strings.Join(want, "\n"))
	}
}

// TestRefusalsAreLogged: when they begin, each minute while they go on, and when none has
// come for a while and a put was accepted.
func TestRefusalsAreLogged(t *testing.T) { synctest.Test(t, testRefusalsAreLogged) }

func testRefusalsAreLogged(t *testing.T) {
	var log journal
	r := newRouter(Config{Shards: 2, MaxMemory: 100_000, Log: log.logger(slog.LevelInfo)})
	defer r.Close()
	p := newPeer(t, r)
	defer p.close()
	body := strings.Repeat("x", 40_000)
	put := func(answer string) { t.Helper(); p.session("put 1 0 60 %s -> %s", body, answer) }
	reached := func(n int) string {
		return fmt.Sprintf(`level=WARN msg="memory: .*--max-memory.*OUT_OF_MEMORY.*" refused=%d jobs-take=8\d{4} max-memory=100000`, n)
	}
	over := func(lasted string) string {
		return fmt.Sprintf(`level=INFO msg=".*accepted again" lasted=%s jobs-take=8\d{4}`, lasted)
	}

	put("INSERTED 1")
	put("INSERTED 2")
	log.reads(t, "without a refusal")
	put("OUT_OF_MEMORY")
	log.reads(t, "after the first", reached(1))
	time.Sleep(time.Second / 2) // so that no put comes at the moment of a look
	for range 64 {
		put("OUT_OF_MEMORY")
		time.Sleep(time.Second)
	}
	log.reads(t, "after a minute", reached(60))
	// One goes and one comes, but others are refused.
	p.session("delete 1 -> DELETED")
	put("INSERTED 3")
	put("OUT_OF_MEMORY")
	time.Sleep(20 * time.Second)
	p.session("delete 2 -> DELETED")
	time.Sleep(time.Hour)
	log.reads(t, "while nobody puts")
	put("INSERTED 4")
	log.reads(t, "after one was accepted", over("1h1m25s"))
	time.Sleep(time.Minute)
	p.session("delete 3 -> DELETED")
	put("INSERTED 5")
	log.reads(t, "when all is well")

	// Another time; what is refused before its body was read counts, too, and so do bodies
	// that come in parts.
	if !p.MemoryFull(40_000) || p.HoldMemory(40_000) {
		t.Error("there is said to be room")
	}
	log.reads(t, "the next time", reached(2))
	p.session("delete 4 -> DELETED")
	put("INSERTED 6")
	time.Sleep(9 * time.Second)
	log.reads(t, "too early")
	time.Sleep(2 * time.Second)
	log.reads(t, "after ten seconds", over("10s"))
}
