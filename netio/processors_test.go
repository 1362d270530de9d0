package netio

// How many threads there are, on machines that tests describe, and what Linux really says.

import (
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A machine is a system whose process uses, waits for and leaves idle what load says, for that many threads.
type machine struct {
	cores   int
	load    func(threads int) moment
	now     time.Time
	threads int
	used    time.Duration
	free    time.Duration
	total   counts
	written atomic.Int64
	asked   int   // how often for total
	sets    []int // what was set
	err     error
}

// moment is what a machine does in a second.
type moment struct {
	used, waited, idle float64 // in cores
	written            float64 // bytes
}

func (m *machine) usage() time.Duration         { return m.used }
func (m *machine) idle() (time.Duration, error) { return m.free, nil }
func (m *machine) processors() int              { return m.threads }

func (m *machine) counts() (counts, error) {
	m.asked++
	return m.total, m.err
}

func (m *machine) setProcessors(n int) {
	m.sets = append(m.sets, n)
	if n == 0 {
		n = m.cores
	}
	m.threads = n
}

// run has it run for that long, looked at each beat.
func (m *machine) run(p *Processors, long time.Duration) {
	for range long / beat {
		at := m.load(m.threads)
		part := func(cores float64) time.Duration { return time.Duration(cores * float64(beat)) }
		m.now = m.now.Add(beat)
		m.used += part(at.used)
		m.total.waited += part(at.waited)
		m.free += part(at.idle)
		m.written.Add(int64(at.written * beat.Seconds()))
		p.look(m.now)
	}
}

func newMachine(cores int, load func(threads int) moment) (*machine, *Processors) {
	m := &machine{cores: cores, threads: cores, load: load, now: time.Unix(1e9, 0)}
	p := &Processors{least: 1, system: m, log: slog.New(slog.DiscardHandler)}
	p.watch(&m.written)
	return m, p
}

// greedy is a client that keeps one of two cores busy: one thread does more than two.
func greedy(threads int) moment {
	if threads == 1 {
		return moment{used: 0.98, waited: 0.02, written: 1.1e6}
	}
	return moment{used: 1, waited: 1, written: 1e6}
}

// hogs are other processes that take what they get: a thread less leaves them more.
func hogs(threads int) moment {
	if threads == 1 {
		return moment{used: 0.67, waited: 0.33, written: 0.67e6}
	}
	return moment{used: 1, waited: 1, written: 1e6}
}

func TestFewerThreadsForGreedyClients(t *testing.T) {
	m, p := newMachine(2, greedy)
	p.wake()
	m.run(p, 2*time.Second)
	if m.threads != 1 || !slices.Equal(m.sets, []int{1}) {
		t.Fatalf("%d threads after two seconds; set: %v", m.threads, m.sets)
	}
	begin := m.now
	var ends []int // in seconds
	for fewer := true; m.now.Sub(begin) < 110*time.Second; fewer = m.threads == 1 {
		m.run(p, beat)
		if fewer && m.threads != 1 {
			ends = append(ends, int(m.now.Sub(begin)/time.Second))
		}
	}
	// After 4, 8, 16 and then each 30 seconds, with a moment between.
	if !slices.Equal(ends, []int{2, 11, 27, 58, 88}) {
		t.Errorf("looked whether it still is of use after %v s", ends)
	}
	p.wake() // another server
	p.rest()
	if m.threads != 1 {
		t.Errorf("%d threads when one of two servers does nothing", m.threads)
	}
	p.rest()
	if m.threads != 2 {
		t.Errorf("%d threads when nothing is done", m.threads)
	}
	p.wake()
	m.run(p, 2*time.Second)
	if m.threads != 1 {
		t.Errorf("%d threads two seconds after a rest", m.threads)
	}
}

// What comes does not wait for one thread that can do nearly all, for long: what is left over shows when there are two.
func TestAsManyThreadsForMoreThanOneCanDo(t *testing.T) {
	for _, demand := range []float64{1.02, 1.05, 1.08} {
		var left, most float64 // seconds of work
		m, p := newMachine(2, func(threads int) moment {
			left += demand * beat.Seconds()
			done := min(left, []float64{1, 1.5}[threads-1]*beat.Seconds())
			left -= done
			most = max(most, left)
			used := done / beat.Seconds()
			return moment{used: used, waited: used, written: used * 1e6}
		})
		m.run(p, 10*time.Minute)
		if limit := 1.05 * (demand - 1) * leastTerm.Seconds(); most > limit {
			t.Errorf("%v cores wanted: %.2f s of work left over, more than %.2f", demand, most, limit)
		}
		var tries int
		for _, n := range m.sets {
			tries += n
		}
		if tries < 2 || tries > 16 {
			t.Errorf("%v cores wanted: tried %d times in ten minutes", demand, tries)
		}
	}
}

// A load that is just becoming more makes an experiment look good, which is found out soon.
func TestAsManyThreadsForALoadThatGrows(t *testing.T) {
	for small := range 12 {
		var fewer time.Duration
		n := 0
		m, p := newMachine(2, func(threads int) moment {
			if threads == 1 {
				fewer += beat
			}
			at := hogs(threads)
			if n++; n <= small { // beats
				at = moment{used: 0.7, waited: 0.7, written: 0.6e6}
			}
			return at
		})
		m.run(p, 30*time.Second)
		if fewer > leastTerm+4*trial*beat {
			t.Errorf("more after %d beats: fewer threads for %v of 30 s", small, fewer)
		}
	}
}

// Very many threads are counted more seldom, and none while cores are idle.
func TestLooksAtManyThreads(t *testing.T) {
	m, p := newMachine(2, hogs)
	m.total.threads = 500
	m.run(p, 20*time.Second)
	if m.asked < 20 || m.asked > 40 {
		t.Errorf("counted %d times in 20 s, each time %d threads", m.asked, m.total.threads)
	}
	m, p = newMachine(64, func(int) moment { return moment{used: 30, waited: 15, idle: 1, written: 1e6} })
	m.run(p, time.Minute)
	if m.asked > 0 {
		t.Errorf("counted %d times while a core was idle", m.asked)
	}
}

// Where less is done with fewer threads there are as many as before, and it is tried more and more seldom.
func TestAsManyThreadsBesideHogs(t *testing.T) {
	m, p := newMachine(2, hogs)
	var tries []time.Duration
	begin, last := m.now, 0
	var fewer time.Duration
	for m.now.Sub(begin) < 10*time.Minute {
		m.run(p, beat)
		if m.threads == 1 {
			fewer += beat
		}
		if n := len(m.sets); n > last && m.sets[n-1] == 1 {
			tries = append(tries, m.now.Sub(begin))
		}
		last = len(m.sets)
	}
	var gaps []time.Duration
	for i := range tries[1:] {
		gaps = append(gaps, tries[i+1]-tries[i])
	}
	sooner := func(a, b time.Duration) int { return int((a - b) / (2 * beat)) } // but for a look or two
	if len(tries) < 10 || len(tries) > 16 || !slices.IsSortedFunc(gaps, sooner) || gaps[0] > 6*time.Second || gaps[len(gaps)-1] < mostDelay {
		t.Errorf("tried after %v", tries)
	}
	if most := time.Duration(len(tries)) * trial * beat; fewer > most {
		t.Errorf("fewer threads for %v, of %d tries", fewer, len(tries))
	}
}

func TestAsManyThreads(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cores int
		least int
		load  moment
	}{
		{"a core is idle", 2, 1, moment{used: 1, waited: 0.5, idle: 0.4, written: 1e6}},
		{"nobody waits", 2, 1, moment{used: 1, waited: 0.1, written: 1e6}},
		{"all are needed", 2, 1, moment{used: 1.3, waited: 0.7, written: 1e6}},
		{"little is done", 2, 1, moment{used: 0.4, waited: 0.4, written: 1e6}},
		{"one core", 1, 1, moment{used: 0.6, waited: 0.4, written: 1e6}},
		{"two are the least", 2, 2, moment{used: 1, waited: 1, written: 1e6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, p := newMachine(tt.cores, func(int) moment { return tt.load })
			p.least = tt.least
			m.run(p, time.Minute)
			if m.sets != nil {
				t.Errorf("set: %v", m.sets)
			}
		})
	}
}

// As many as are used, and not fewer than are to be.
func TestHowManyThreads(t *testing.T) {
	for _, tt := range []struct {
		used  float64
		least int
		want  int
	}{{1, 1, 1}, {1.05, 1, 1}, {1.2, 1, 2}, {5.05, 1, 5}, {5.5, 1, 6}, {0.6, 2, 2}} {
		m, p := newMachine(16, func(int) moment { return moment{used: tt.used, waited: tt.used, written: 1e6} })
		p.least = tt.least
		m.run(p, 3*time.Second)
		if m.threads != tt.want {
			t.Errorf("%d threads where %v cores were used, %d at least; want %d", m.threads, tt.used, tt.least, tt.want)
		}
	}
}

// Linux counts idle time in steps of a tenth of what there is between two looks, and a
// little idle time comes in no order: what counts is the average.
func TestIdleTimeComesInSteps(t *testing.T) {
	n := 0
	m, p := newMachine(2, func(threads int) moment {
		at := greedy(threads)
		if threads > 1 {
			at.idle = []float64{0, 0.1, 0.1, 0.4, 0.2, 0, 0.5, 0.2}[n%8] // as seen
		}
		n++
		return at
	})
	m.run(p, 2*time.Second)
	if !slices.Equal(m.sets, []int{1}) {
		t.Errorf("set: %v", m.sets)
	}
}

// A core is idle when one was for a while, and the process does something.
func TestIdleCore(t *testing.T) {
	at := moment{used: 1, idle: 1, written: 1e6}
	m, p := newMachine(2, func(int) moment { return at })
	for _, tt := range []struct {
		used, idle float64
		is         bool
	}{{1, 1, true}, {1.5, 0.5, false}, {0.6, 0.9, true}, {0.3, 1.7, false}, {0.6, 0.9, true}, {1, 0, false}} {
		at.used, at.idle = tt.used, tt.idle
		m.run(p, time.Second)
		if p.hasIdleCore() != tt.is {
			t.Errorf("%v cores used, %v idle: a core is said to be idle: %t", tt.used, tt.idle, !tt.is)
		}
	}
	at.used, at.idle = 1, 1
	m.run(p, time.Second)
	p.fail("the test says so") // and none is tried for seconds
	m.run(p, time.Second)
	if !p.hasIdleCore() {
		t.Error("after an experiment no core is idle")
	}
	if (*Processors)(nil).hasIdleCore() {
		t.Error("a core is idle though nobody looks")
	}
}

// Moments in which no thread waits, or a core is idle, do not add up to a reason.
func TestWaitingHasToLast(t *testing.T) {
	n := 0
	m, p := newMachine(2, func(threads int) moment {
		if n++; n%looksBefore == 0 {
			return moment{used: 1, idle: 1, written: 1e6}
		}
		return greedy(threads)
	})
	m.run(p, time.Minute)
	if m.sets != nil {
		t.Errorf("set: %v", m.sets)
	}
}

func TestThreadsComeBack(t *testing.T) {
	t.Run("cores are idle", func(t *testing.T) {
		m, p := newMachine(2, greedy)
		m.run(p, 3*time.Second)
		m.load = func(int) moment { return moment{used: 0.9, idle: 1, written: 1e6} }
		m.run(p, time.Second)
		if !slices.Equal(m.sets, []int{1, 0}) {
			t.Errorf("set: %v", m.sets)
		}
		m, p = newMachine(64, func(int) moment { return moment{used: 4, waited: 4, written: 1e6} })
		m.run(p, 2*time.Second)
		m.load = func(int) moment { return moment{used: 4, idle: 1, written: 1e6} }
		m.run(p, time.Second)
		if !slices.Equal(m.sets, []int{4, 0}) {
			t.Errorf("set, of 64: %v", m.sets)
		}
	})
	t.Run("Linux does not tell any more", func(t *testing.T) {
		m, p := newMachine(2, greedy)
		m.run(p, 3*time.Second)
		m.err = errors.New("no")
		m.run(p, time.Minute)
		if !slices.Equal(m.sets, []int{1, 0}) {
			t.Errorf("set: %v", m.sets)
		}
		m.err = nil
		m.run(p, 2*mostDelay)
		if m.threads != 1 {
			t.Errorf("set, after it tells again: %v", m.sets)
		}
	})
}

// Several servers may have one look: those within a moment are one.
func TestLooksAtOnce(t *testing.T) {
	m, p := newMachine(2, greedy)
	for range 40 {
		m.run(p, beat)
		for range 3 {
			p.look(m.now.Add(time.Millisecond))
		}
	}
	if !slices.Equal(m.sets, []int{1}) {
		t.Errorf("set: %v", m.sets)
	}
	var none *Processors
	none.wake()
	none.look(m.now)
	none.rest()
}

// A server has it look while connections are awake, and rest when they sleep.
func TestServerLooks(t *testing.T) {
	m, p := newMachine(2, greedy)
	m.run(p, 3*time.Second)
	if !p.reduced {
		t.Fatal("no experiment goes on")
	}
	h := newHarness(t, Config{Processors: p})
	ask(t, blockingClient(t, h), []byte("hello\n"), make([]byte, 6))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(beat) {
		p.mu.Lock()
		looked, rests := time.Since(p.at) < time.Hour, !p.reduced
		p.mu.Unlock()
		if looked && rests {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("looked: %v, rests: %v", looked, rests)
		}
	}
}

func TestNewProcessors(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if p := NewProcessors(0, log); p != nil && p.least != 1 {
		t.Errorf("at least %d", p.least)
	}
	t.Setenv("GOMAXPROCS", "3")
	if NewProcessors(1, log) != nil {
		t.Error("GOMAXPROCS is 3, and may become less")
	}
}

// Two threads that want the same core wait for it.
func TestKernelCounts(t *testing.T) {
	k, err := newKernel()
	if err != nil {
		t.Skip("Linux does not tell:", err)
	}
	before, err := k.counts()
	if err != nil {
		t.Fatal(err)
	}
	idleBefore, err := k.idle()
	if err != nil {
		t.Fatal(err)
	}
	usedBefore := k.usage()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	core := 0
	for !all.IsSet(core) {
		core++
	}
	const spin = 200 * time.Millisecond
	done := make(chan error)
	for range 2 {
		go func() {
			runtime.LockOSThread() // and never unlocks: the thread ends with its affinity
			var one unix.CPUSet
			one.Set(core)
			err := unix.SchedSetaffinity(0, &one)
			for begin := time.Now(); time.Since(begin) < spin; {
			}
			done <- err
		}()
	}
	// Before the threads end, which are not counted any more then.
	time.Sleep(spin * 9 / 10)
	after, err := k.counts()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if waited := after.waited - before.waited; waited < spin/4 {
		t.Errorf("two threads on one core for %v waited %v", spin, waited)
	}
	if idle, err := k.idle(); err != nil || idle < idleBefore {
		t.Errorf("idle for %v, before %v; %v", idle, idleBefore, err)
	}
	if used := k.usage() - usedBefore; used < spin/4 || used > time.Minute {
		t.Errorf("used %v", used)
	}
}

// What a server writes is counted, however it does so: soon, and all of it once the connection
// has gone.
func TestWhatIsWrittenIsCounted(t *testing.T) {
	_, p := newMachine(2, nil) // which does nothing by itself
	h := newHarness(t, Config{Processors: p})
	want, big := int64(0), int64(len(bigBody)+1)
	for range 3 {
		c := h.dial()
		for range 2 * tellEvery {
			c.send("hello\n") // copied
			c.want("hello")
		}
		want += 2 * tellEvery * int64(len("hello\n"))
		eventually(t, "half of it is counted", func() bool { return p.total() >= want/2 })
		c.send("big %d\n", len(bigBody)) // by reference, and in several writes
		if _, err := io.CopyN(io.Discard, c.r, big); err != nil {
			t.Fatal(err)
		}
		want += big
		c.Close()
		eventually(t, "it has gone", func() bool { return h.s.Connections() == 0 })
		if n := p.total(); n != want {
			t.Errorf("%d bytes are counted, %d were read", n, want)
		}
	}
}

func TestKernelWords(t *testing.T) {
	idle, err := idleTime([]byte("cpu  100 2 300 4000 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"))
	if err != nil || idle != 40500*time.Millisecond {
		t.Errorf("idle for %v, %v", idle, err)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu 1 2 3 four 5"} {
		if _, err := idleTime([]byte(text)); err == nil {
			t.Errorf("idle time of %q", text)
		}
	}
}
