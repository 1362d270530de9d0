package perf

// Gearman's packets, and its scenarios: against a fake, and against gearmand.

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestPackets(t *testing.T) {
	submit := appendPacket(nil, packetSubmit, "f", "", "work\x00load")
	if want := "\x00REQ\x00\x00\x00\x07\x00\x00\x00\x0cf\x00\x00work\x00load"; string(submit) != want {
		t.Errorf("SUBMIT_JOB is %q, want %q", submit, want)
	}
	answer := func(kind packetType, args ...string) []byte {
		p := appendPacket(nil, kind, args...)
		copy(p, magicResponse)
		return p
	}
	// Two packets, which come a byte at a time.
	in := append(answer(packetAssign, "H:a:1", "f", "w\x00x"), answer(packetNoop)...)
	for cut := range in {
		var p packet
		n, want, err := p.cut(in[:cut])
		whole := len(in) - packetHeader
		switch {
		case err != nil:
			t.Fatal(err)
		case cut < whole && n != 0, cut >= whole && n != whole:
			t.Errorf("of %d bytes %d are a packet", cut, n)
		case n == 0 && cut >= packetHeader && want != whole:
			t.Errorf("with %d bytes it is known that %d are to come, want %d", cut, want, whole)
		}
	}
	var p packet
	if n, _, err := p.cut(in); err != nil || n != len(in)-packetHeader {
		t.Fatal(n, err)
	}
	if handle, function, workload, err := p.job(); string(handle) != "H:a:1" || string(function) != "f" || string(workload) != "w\x00x" || err != nil {
		t.Errorf("JOB_ASSIGN has %q, %q, %q, %v", handle, function, workload, err)
	}
	for _, tt := range []struct{ in, want string }{
		{"OK 1.1.20\n", "is no Gearman packet"},
		{"\x00R", ""},
		{"\x00REQ", "is no Gearman packet"},
		{"\x00RES\x00\x00\x00\x0d\xff\xff\xff\xff", "a WORK_COMPLETE of 4294967295 bytes"},
	} {
		_, _, err := p.cut([]byte(tt.in))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.in, err, tt.want)
		}
	}
	for _, body := range []string{"", "\x00f\x00w", strings.Repeat("h", 64) + "\x00f\x00w", "H:a:1\x00f"} {
		if h, f, w, err := (&packet{packetAssign, []byte(body)}).job(); err == nil {
			t.Errorf("JOB_ASSIGN %q is taken as %q, %q, %q", body, h, f, w)
		}
	}
	if id, err := handleID([]byte("H:host:42")); string(id) != "42" || err != nil {
		t.Errorf("the id is %q, %v", id, err)
	}
	if _, err := handleID([]byte("H:host:x")); err == nil {
		t.Error("a handle without a number is taken")
	}
}

// runGearman runs a scenario for a moment, and longer on a machine on which nothing
// comes of that.
func runGearman(t *testing.T, target *Target, scenario string, change func(*Config)) Result {
	t.Helper()
	sc, err := Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	var res Result
	for moment := 200 * time.Millisecond; moment < 10*time.Second; moment *= 3 {
		cfg := sc.Config.with(func(c *Config) {
			c.WarmUp, c.Duration, c.Jobs = 10*time.Millisecond, moment, min(c.Jobs, 2000)
		})
		res, err = runSession(t.Context(), sc, cfg.with(change), target, nil, nil)
		if err == nil && len(res.Loads) > 0 && res.Loads[0].Jobs >= 10 && res.Loads[0].Latency[0].P50 > 0 {
			return res
		}
	}
	t.Fatalf("%s: %v: %+v", scenario, err, res)
	return res
}

func TestGearmanScenarios(t *testing.T) {
	for _, tt := range []struct {
		scenario, latency string
		change            func(*Config)
	}{
		{"gearman-foreground", "round trip", func(c *Config) { c.Threads = 2 }},
		{"gearman-foreground", "round trip", func(c *Config) { c.Depth, c.Body = 4, Dist{shape: uniform, lo: 0, hi: 100_000} }},
		{"gearman-foreground", "round trip", func(c *Config) { c.Tubes, c.Watch, c.Workers = 4, 2, 2 }},
		{"gearman-foreground", "round trip", func(c *Config) { c.Rate = Rate{jobs: 1000} }},
		{"gearman-background", "submit", func(c *Config) { c.Tubes = 3 }},
		{"gearman-background", "submit", func(c *Config) { c.Body, c.Rate = Fixed(0), Rate{jobs: 2000} }},
		{"gearman-background", "submit", func(c *Config) { c.Unique = 0 }},
		{"gearman-background", "submit", func(c *Config) { c.Unique = 64 }},
		{"gearman-foreground", "round trip", func(c *Config) { c.Unique = 16 }},
		{"gearman-grab", "grab", func(c *Config) { c.Depth = 8 }},
		{"gearman-grab", "grab", func(c *Config) { c.Tubes = 20 }},
	} {
		f := newGearmanFake(t, gearmanFlaws{})
		c := Config{Unique: f.unique}
		tt.change(&c)
		f.unique = c.Unique
		res := runGearman(t, &Target{Name: "fake", Addr: f.addr()}, tt.scenario, tt.change)
		l := &res.Loads[0]
		if l.Latency[0].Name != tt.latency || l.Answers != l.Jobs {
			t.Errorf("%s: the first latency is %s; %d operations, %d jobs", tt.scenario, l.Latency[0].Name, l.Answers, l.Jobs)
		}
		if functions, jobs := f.left(); functions+jobs > 0 {
			t.Errorf("%s left %d functions with %d jobs", tt.scenario, functions, jobs)
		}
	}
}

// A job is counted when the server has read that it is done, and there are no
// more of these than were put.
func TestGearmanGrabCountsEachJobOnce(t *testing.T) {
	f := newGearmanFake(t, gearmanFlaws{})
	s := newTestSession(t, f.addr(), "gearman-grab", func(c *Config) { c.Threads = 2 })
	if _, err := s.drive(s.fill(1000), ""); err != nil {
		t.Fatal(err)
	}
	m, err := s.drive(s.drain(0), "")
	if err != nil || m.rec.jobs != 1000 || m.rec.hist[opGrab].TotalCount() != 1000 {
		t.Errorf("of 1000 jobs %d were counted, %v", m.rec.jobs, err)
	}
}

// checkGearman checks a server for a moment.
func checkGearman(t *testing.T, target *Target, scenario string, moment time.Duration, broken bool) (Verdict, error) {
	t.Helper()
	sc, err := Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	return Check(t.Context(), sc, sc.Config.with(func(c *Config) {
		c.WarmUp, c.Duration, c.Jobs, c.Threads = 0, moment, min(c.Jobs, 2000), 2
		c.Body = Dist{shape: uniform, lo: 20, hi: 2000}
		if broken {
			c.Grace = 200 * time.Millisecond // there is something that will not come
		}
	}), target, nil)
}

func TestGearmanCheckOfAServerThatIsRight(t *testing.T) {
	for _, scenario := range []string{"gearman-foreground", "gearman-foreground-deep", "gearman-background", "gearman-grab-8x16"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			var v Verdict
			var err error
			f := newGearmanFake(t, gearmanFlaws{})
			for moment := 200 * time.Millisecond; moment < 10*time.Second; moment *= 3 {
				v, err = checkGearman(t, &Target{Name: "fake", Addr: f.addr()}, scenario, moment, false)
				if err == nil {
					break
				}
			}
			// Of each worker's last job the end may not be known, since it asks for no
			// other.
			if scenario == "gearman-grab-8x16" {
				var put, deliveries, deleted, more int
				report := strings.ReplaceAll(v.Report, ",", "")
				n, _ := fmt.Sscanf(report, "%d jobs put %d deliveries %d deleted and %d more", &put, &deliveries, &deleted, &more)
				if n < 3 || deleted+more != put {
					t.Errorf("what became of all jobs is not told: %s", v.Report)
				}
			}
			if err != nil || v.Faults > 0 || strings.HasPrefix(v.Report, "0 jobs") {
				t.Errorf("%v\n%s", err, v.Report)
			}
			if functions, jobs := f.left(); functions+jobs > 0 {
				t.Errorf("left %d functions with %d jobs", functions, jobs)
			}
		})
	}
}

func TestGearmanCheckOfABrokenServer(t *testing.T) {
	for _, tt := range []struct {
		name     string
		flaws    gearmanFlaws
		scenario string
		want     string
	}{
		{"loses a job", gearmanFlaws{lose: 20}, "gearman-foreground", "; lost: "},
		{"loses a job", gearmanFlaws{lose: 20}, "gearman-background", "; lost: "},
		{"gives a job twice", gearmanFlaws{twice: 20}, "gearman-foreground", "; delivered twice: "},
		{"gives a job twice", gearmanFlaws{twice: 20}, "gearman-grab", "; delivered twice: "},
		{"changes a workload", gearmanFlaws{damage: 20}, "gearman-foreground", "; bodies damaged: "},
		{"gives a handle twice", gearmanFlaws{sameID: 20}, "gearman-background", "; ids given twice: "},
		{"names another function", gearmanFlaws{rename: 20}, "gearman-foreground", "; under the name of another function: "},
		{"names another function", gearmanFlaws{rename: 20}, "gearman-background", "; under the name of another function: "},
		{"names another function", gearmanFlaws{rename: 20}, "gearman-grab", "; under the name of another function: "},
		{"keeps a result", gearmanFlaws{forget: 20}, "gearman-foreground", "; lost: "},
		{"answers with the workload", gearmanFlaws{echo: 20}, "gearman-foreground", "; results wrong: "},
		{"answers with another job's result", gearmanFlaws{swap: 20}, "gearman-foreground", "; results wrong: "},
		{"answers twice", gearmanFlaws{again: 20}, "gearman-foreground", "; completed twice: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var v Verdict
			var err error
			for moment := 60 * time.Millisecond; moment < 10*time.Second; moment *= 3 {
				f := newGearmanFake(t, tt.flaws)
				if v, err = checkGearman(t, &Target{Name: "fake", Addr: f.addr()}, tt.scenario, moment, true); strings.Contains(v.Report, tt.want) {
					break
				}
			}
			if v.Faults == 0 || !strings.Contains(v.Report, tt.want) {
				t.Errorf("%d faults, no %q; error %v:\n%s", v.Faults, tt.want, err, v.Report)
			}
		})
	}
}

// What is no fault of jobs is an error; without a ledger, all is.
func TestGearmanServerThatFails(t *testing.T) {
	for _, tt := range []struct {
		flaws    gearmanFlaws
		scenario string
		want     string
	}{
		{gearmanFlaws{hangup: 20}, "gearman-foreground", "the server closed the connection"},
		{gearmanFlaws{nonsense: 20}, "gearman-background", `sent SUBMIT_JOB_BG, got ERROR "PARDON\x00what was that?"`},
		{gearmanFlaws{fail: 20}, "gearman-foreground", "WORK_FAIL"},
		{gearmanFlaws{mute: 20}, "gearman-foreground", `commands had no answer`},
		{gearmanFlaws{forget: 20}, "gearman-foreground", "had no answer 200ms after the load; client "},
		{gearmanFlaws{echo: 20}, "gearman-foreground", "is not the result of a job of this client"},
		{gearmanFlaws{swap: 20}, "gearman-foreground", "is not the result of a job of this client"},
		{gearmanFlaws{again: 20}, "gearman-foreground", "is not the result of a job of this client"},
	} {
		sc, err := Find(tt.scenario)
		if err != nil {
			t.Fatal(err)
		}
		for moment := 300 * time.Millisecond; moment < 10*time.Second; moment *= 3 {
			f := newGearmanFake(t, tt.flaws)
			cfg := sc.Config.with(func(c *Config) { c.WarmUp, c.Duration, c.Grace = 0, moment, 200*time.Millisecond })
			_, err = runSession(t.Context(), sc, cfg, &Target{Name: "fake", Addr: f.addr()}, nil, nil)
			if err != nil && strings.Contains(err.Error(), tt.want) {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.flaws, err, tt.want)
		}
	}
}

// A load that is cut has jobs under way of which nobody knows what becomes.
func TestGearmanCheckThatIsCut(t *testing.T) {
	f := newGearmanFake(t, gearmanFlaws{})
	sc, err := Find("gearman-foreground-deep")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	v, err := Check(ctx, sc, sc.Config.with(func(c *Config) { c.Duration = time.Hour }), &Target{Name: "fake", Addr: f.addr()}, nil)
	if err != nil || v.Faults > 0 || !v.Interrupted {
		t.Errorf("%+v, %v", v, err)
	}
}

// A server of the other protocol is not waited for.
func TestServerOfAnotherProtocol(t *testing.T) {
	for addr, gearman := range map[string]bool{newFake(t, flaws{}).addr(): true, newGearmanFake(t, gearmanFlaws{}).addr(): false} {
		target := &Target{Name: "it", Addr: addr, gearman: gearman}
		if err := target.start(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "it does not speak the scenario's protocol") {
			t.Errorf("gearman %v: %v", gearman, err)
		}
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := freePorts()
	if err != nil || ports[0] == ports[1] || ports[1] == "" {
		t.Errorf("%v, %v", ports, err)
	}
}

// gearmand returns the reference, to be started. Where it is not installed the
// test is skipped, and fails in CI.
func gearmand(t *testing.T) *Target {
	t.Helper()
	path, err := exec.LookPath("gearmand")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/gearmand") // not in everybody's PATH
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("gearmand is not installed: %v", err)
		}
		t.Skipf("not tried with gearmand: %v (Debian's package gearman-job-server has it)", err)
	}
	target, err := ParseServer("gearmand=" + path + " -p {port} -L 127.0.0.1 -l stderr -P {dir}/pid")
	if err != nil {
		t.Fatal(err)
	}
	target.TempDir = t.TempDir()
	return target
}

func TestGearmand(t *testing.T) {
	target := gearmand(t)
	for _, tt := range []struct {
		scenario string
		change   func(*Config)
	}{
		{"gearman-foreground", func(c *Config) { c.Depth, c.Tubes, c.Watch = 2, 2, 2 }},
		{"gearman-foreground", func(c *Config) { c.Rate = Rate{part: 0.5} }},
		{"gearman-background", func(c *Config) {}},
		{"gearman-grab-8x16", func(c *Config) {}},
	} {
		res := runGearman(t, target, tt.scenario, tt.change)
		for _, l := range res.Loads {
			if l.Server.CPUPerJob <= 0 || l.Server.RSS < 1<<20 {
				t.Errorf("%s: %+v", tt.scenario, l)
			}
		}
		if target.process != nil {
			t.Errorf("%s has left its server", tt.scenario)
		}
	}
	if !strings.HasPrefix(target.Version, "1.") {
		t.Errorf("its version is %q", target.Version)
	}
	for _, scenario := range []string{"gearman-foreground", "gearman-foreground-deep", "gearman-grab"} {
		v, err := checkGearman(t, target, scenario, 300*time.Millisecond, false)
		if err != nil || v.Faults > 0 || strings.HasPrefix(v.Report, "0 jobs") {
			t.Errorf("%s: %v\n%s", scenario, err, v.Report)
		}
	}
	if left, _ := os.ReadDir(target.TempDir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// gearmand goes on after a run, with nothing of it left.
func TestGearmandThatRuns(t *testing.T) {
	target := gearmand(t)
	target.gearman = true
	if err := target.start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer target.stop()
	for _, scenario := range []string{"gearman-foreground", "gearman-background"} {
		runGearman(t, &Target{Name: "it", Addr: target.Addr, Pid: target.Pid}, scenario, func(*Config) {})
	}
	if line, err := askOnce(t.Context(), target.Addr, "status\n"); err != nil || line != "." {
		t.Errorf("its status begins with %q, %v", line, err)
	}
}

// newGearmanReplier answers packets with others that are always the same; see
// newReplier.
func newGearmanReplier(tb testing.TB, size int) *replier {
	created, assign, echoed := appendPacket(nil, packetCreated, "H:replier:1"), appendPacket(nil, packetAssign, "H:replier:1", "f", strings.Repeat("x", size)),
		appendPacket(nil, packetEchoed, "sheafperf")
	for _, p := range [][]byte{created, assign, echoed} {
		copy(p, magicResponse)
	}
	return startReplier(tb, func(c net.Conn) {
		in, out := make([]byte, 0, 1<<20), make([]byte, 0, 1<<20)
		for {
			n, err := c.Read(in[len(in):cap(in)])
			if err != nil {
				return
			}
			in = in[:len(in)+n]
			rest := in
			for len(rest) >= packetHeader {
				copy(rest, magicResponse) // what cut cuts
				var p packet
				n, _, _ := p.cut(rest)
				if n == 0 {
					break
				}
				rest = rest[n:]
				switch p.kind {
				case packetSubmitBG:
					out = append(out, created...)
				case packetGrab:
					out = append(out, assign...)
				case packetEcho:
					out = append(out, echoed...)
				}
			}
			in = in[:copy(in[:cap(in)], rest)]
			if _, err := c.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	})
}

// BenchmarkClient's like.
func BenchmarkGearmanClient(b *testing.B) {
	for _, tt := range []struct {
		scenario           string
		connections, depth int
	}{
		{"gearman-background", 1, 200}, {"gearman-background", 8, 25}, {"gearman-grab", 8, 16}, {"gearman-grab", 16, 1},
	} {
		for threads := range 2 {
			if threads++; threads > tt.connections {
				continue
			}
			b.Run(fmt.Sprintf("%s-%dx%dby%d", tt.scenario, tt.connections, tt.depth, threads), func(b *testing.B) {
				r := newGearmanReplier(b, 128)
				s := newTestSession(b, r.l.Addr().String(), tt.scenario, func(c *Config) {
					c.Connections, c.Depth, c.Threads = tt.connections, tt.depth, threads
				})
				benchmarkPlan(b, s, gearmanPlan(s, int64(b.N)))
			})
		}
	}
}

// gearmanPlan does jobs that the replier has an answer for.
func gearmanPlan(s *session, jobs int64) plan {
	mix := always(s.vocabulary().putJob)
	if s.scenario.Name == "gearman-grab" {
		mix = always(s.vocabulary().takeJob)
	}
	return plan{groups: []*group{{
		name: "connection", n: s.cfg.Connections, depth: s.cfg.Depth, mix: mix, counted: mix[0].script[0], quota: jobs, repeats: true,
		use: s.tube, watch: s.tubeBlock,
	}}}
}

func TestGearmanDriverAllocatesNothing(t *testing.T) {
	r := newGearmanReplier(t, 128)
	for _, scenario := range []string{"gearman-background", "gearman-grab"} {
		allocations := func(jobs int64) uint64 {
			s := newTestSession(t, r.l.Addr().String(), scenario, func(c *Config) { c.Connections, c.Depth = 2, 32 })
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := s.drive(gearmanPlan(s, jobs), ""); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		allocations(1000)
		if few, many := allocations(1000), allocations(31_000); many > few+300 {
			t.Errorf("%s: 30,000 more jobs allocate %d times more", scenario, many-few)
		}
	}
}

// A result says that it is one, and of which job.
func TestResultsOfGearmanJobs(t *testing.T) {
	workload := bytes.Repeat([]byte("x"), 40)
	stampWorkload(workload, 7, 3)
	stampCheck(workload, 1234)
	d := &driver{load: &load{ledger: newLedger(0, 0)}}
	c := &conn{}
	d.complete(c, []byte("H:a:1"), workload)
	copy(c.out, magicResponse)
	var p packet
	if _, _, err := p.cut(c.out); err != nil {
		t.Fatal(err)
	}
	handle, result, err := p.handle()
	if err != nil || p.kind != packetWorkComplete || string(handle) != "H:a:1" {
		t.Fatalf("%v, %v", p, err)
	}
	if len(result) != len(workload) || submitterOf(result) != 7 || slotOf(result) != 3 || markOf(result) != markResult || !intactBody(result) || numberOf(result) != 1234 {
		t.Errorf("the result is %q", result)
	}
	if markOf(workload) != markWorkload || !intactBody(workload) {
		t.Error("the workload was changed")
	}
}
