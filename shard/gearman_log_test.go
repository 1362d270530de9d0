package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// Gearman's jobs and the log.

// newLoggedRig starts shards with a log on a file system, and with what is in it.
func newLoggedRig(t *testing.T, fs binlog.FS, shards int, segment int64) (g *rig, d *Directory, stop func()) {
	t.Helper()
	st, err := binlog.Open(binlog.Config{Dir: "/binlog", Shards: shards, FS: fs, SegmentSize: segment})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	var read []*Recovery
	for i := range st.Streams() {
		read = append(read, NewRecovery())
		must(read[i].Replay(st, i))
	}
	logs, err := st.Begin()
	must(err)
	d = NewDirectory()
	d.Skip(st.LastID())
	g = &rig{clock: NewClock(), budget: NewBudget(0, shards)}
	if st.Rearranged() {
		all := make([]*Recovery, shards)
		for i := range all {
			all[i] = NewRecovery()
		}
		for _, r := range read {
			r.Move(func(tube string) *Recovery { return all[(&rig{shards: make([]*Shard, shards)}).shardOf(tube)] })
		}
		for i, r := range all {
			must(r.Write(logs[i]))
		}
		read = all
	}
	must(st.Commit())
	for i := range logs {
		cfg := Config{Index: i, Clock: g.clock, Directory: d, Budget: g.budget, Draining: &g.draining, Log: logs[i], Recovery: read[i]}
		if i > 0 {
			cfg.First = g.shards[0]
		}
		g.shards = append(g.shards, New(cfg))
	}
	return g, d, func() {
		g.stop()
		for _, s := range g.shards {
			s.armed = 1 // it has ended, and sets no timer any more
			if err := s.check(); err != nil {
				t.Errorf("shard %d: %v", s.cfg.Index, err)
			}
		}
		st.Close()
	}
}

func (p *person) submit(function, unique, body string, background bool) *Request {
	return p.do(p.rig.shardOf(function), Request{
		Op: Submit, Name: function, Pri: PriNormal, Body: []byte(body + "\r\n"),
		Task: &Task{Unique: unique, Reducer: "r of " + unique, Background: background},
	})
}

func (p *person) canDo(function string) {
	p.watched = append(p.watched, p.do(p.rig.shardOf(function), Request{Op: CanDo, Name: function}).Tube)
}

// TestGearmanForegroundAndCleaning: the log is cleaned while there are jobs that
// are not in it, among them those that were and have been cancelled.
func TestGearmanForegroundAndCleaning(t *testing.T) {
	fs := faultfs.New()
	g, _, stop := newLoggedRig(t, fs, 1, 8<<10)
	ann, _ := g.newWorker(1 << 30)
	wil, _ := g.newWorker(1 << 30)
	wil.canDo("f")
	body := strings.Repeat("x", 100)
	kept := make(map[uint64]bool)
	for i := range 400 {
		if i == 30 { // the oldest are with a worker, and cancelled
			for range 20 {
				r := wil.do(0, Request{Op: Grab})
				if r.Status != OK {
					t.Fatal(r.Status)
				}
				if s := ann.do(0, Request{Op: CancelJob, ID: r.ID}).Status; s != OK {
					t.Fatal(s)
				}
				delete(kept, r.ID)
			}
		}
		id := ann.submit("f", fmt.Sprint("u", i), body, true).ID
		ann.submit("f", fmt.Sprint("fg", i), body, false)
		if ann.submit("f", fmt.Sprint("both", i), body, false); i%3 == 0 {
			kept[ann.submit("f", fmt.Sprint("both", i), body, true).ID] = true
		}
		if kept[id] = true; i%4 > 0 {
			delete(kept, id)
			if s := ann.do(0, Request{Op: Delete, ID: id}).Status; s != OK {
				t.Fatal(s)
			}
		}
	}
	cleaned := func() bool {
		for id := range kept {
			if ann.do(0, Request{Op: StatsJob, ID: id}).Job.File == 1 {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(patience); !cleaned(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the log is not cleaned")
		}
	}
	stop()

	_, d, stop := newLoggedRig(t, fs, 1, 8<<10)
	stop()
	for id := range uint64(1500) {
		if there := d.Lookup(id) >= 0; there != kept[id] {
			t.Errorf("job %d is there: %t, want %t", id, there, kept[id])
		}
	}
}

// TestGearmanLogIsNotCleanedForNothing: small jobs with long uniques and reducers
// count with those, or a log with nothing to clean in it would be cleaned for
// ever.
func TestGearmanLogIsNotCleanedForNothing(t *testing.T) {
	fs := faultfs.New()
	g, _, stop := newLoggedRig(t, fs, 1, 8<<10)
	ann, _ := g.newWorker(1 << 30)
	for i := range 1000 {
		ann.submit("f", fmt.Sprintf("%064d", i), "x", true)
	}
	for range 100 {
		ann.do(0, Request{Op: Soonest})
	}
	stop()
	if s := g.shards[0]; s.segments[0].index != 1 || s.cleaning {
		t.Errorf("nothing was deleted, and the log is cleaned: the first segment is %d", s.segments[0].index)
	}
}

// TestGearmanRecovery: what was submitted in the background is there after a
// restart, with its unique, for other numbers of shards, too.
func TestGearmanRecovery(t *testing.T) {
	fs := faultfs.New()
	g, _, stop := newLoggedRig(t, fs, 2, 8<<10)
	ann, _ := g.newWorker(1 << 30)
	a := ann.submit("a0", "u", "x", true).ID
	b := ann.submit("b1", "u", "y", true).ID
	w := ann.submit("b1", "-", "z", true).ID
	f := ann.submit("b1", "v", "z", false).ID
	grave := ann.submit("b1", "grave", "z", true).ID
	bea := g.newPerson()
	bea.do(1, Request{Op: ReserveJob, ID: grave})
	if s := bea.do(1, Request{Op: Bury, ID: grave}).Status; s != OK {
		t.Fatal(s)
	}
	later := ann.submit("b1", "later", "z", false).ID // which is delayed before it is kept
	bea.do(1, Request{Op: ReserveJob, ID: later})
	bea.do(1, Request{Op: Release, ID: later, Pri: 7, Delay: 1000})
	if r := ann.submit("b1", "later", "z", true); r.Status != OK || r.ID != later {
		t.Fatal(r)
	}
	cancelled := ann.submit("a0", "gone", "x", true).ID
	bea.do(0, Request{Op: ReserveJob, ID: cancelled})
	if s := ann.do(0, Request{Op: CancelJob, ID: cancelled}).Status; s != OK {
		t.Fatal(s)
	}
	stop()

	for _, shards := range []int{2, 1, 2, 3, 2} {
		g, d, stop := newLoggedRig(t, fs, shards, 8<<10)
		ann, _ := g.newWorker(1 << 30)
		if d.Lookup(f) >= 0 || d.Lookup(cancelled) >= 0 {
			t.Errorf("%d shards: a job is there that is not in the log", shards)
		}
		for _, again := range []struct {
			id                     uint64
			function, unique, body string
		}{{a, "a0", "u", "other"}, {b, "b1", "u", "other"}, {w, "b1", "-", "z"}} {
			if r := ann.submit(again.function, again.unique, again.body, true); r.ID != again.id {
				t.Errorf("%d shards: %v submitted again is %d", shards, again, r.ID)
			}
		}
		wil, _ := g.newWorker(1 << 30)
		wil.canDo("a0")
		if r := wil.do(0, Request{Op: Grab}); r.ID != a || r.Task == nil || r.Task.Unique != "u" || r.Task.Reducer != "r of u" || string(r.Body) != "x\r\n" {
			t.Errorf("%d shards: grabbed %+v", shards, r)
		}
		at := g.shardOf("b1")
		if r := ann.do(at, Request{Op: StatsJob, ID: later}); r.Status != OK || r.Job.State != "delayed" || r.Job.Pri != 7 || r.Job.TimeLeft < 900 {
			t.Errorf("%d shards: job %d is %+v", shards, later, r.Job)
		}
		if r := ann.do(at, Request{Op: KickJob, ID: grave}); r.Status != OK {
			t.Errorf("%d shards: job %d is not buried", shards, grave)
		}
		if r := ann.submit("b1", "grave", "z", true); r.ID != grave {
			t.Errorf("%d shards: the kicked job %d is %d when it is submitted", shards, grave, r.ID)
		}
		bea := g.newPerson()
		bea.do(at, Request{Op: ReserveJob, ID: grave})
		bea.do(at, Request{Op: Bury, ID: grave})
		bea.detach()
		wil.detach()
		ann.detach()
		stop()
	}
}

// TestGearmanUniqueAfterRestart: of several jobs of one unique, the one that others are
// coalesced with is the same before and after.
func TestGearmanUniqueAfterRestart(t *testing.T) {
	fs := faultfs.New()
	g, _, stop := newLoggedRig(t, fs, 2, 8<<10)
	ann, _ := g.newWorker(1 << 30)
	bea := g.newPerson()
	bury := func(id uint64) {
		bea.do(1, Request{Op: ReserveJob, ID: id})
		if s := bea.do(1, Request{Op: Bury, ID: id}).Status; s != OK {
			t.Fatal(s)
		}
	}
	same := func(g *rig, p *person, unique string, want uint64) {
		t.Helper()
		if r := p.submit("b1", unique, "x", true); r.Status != OK || r.ID != want {
			t.Errorf("%d shards: submitted again %s is %d (status %d), want %d", len(g.shards), unique, r.ID, r.Status, want)
		}
	}
	ids := make(map[string][]uint64)
	for _, unique := range []string{"u", "-"} {
		for range 4 {
			id := ann.submit("b1", unique, "x", true).ID
			ids[unique] = append(ids[unique], id)
			bury(id)
		}
		for _, i := range []int{2, 0, 3, 1} { // the second was kicked last, and the third first
			bea.do(1, Request{Op: KickJob, ID: ids[unique][i]})
		}
		bury(ids[unique][0])
		same(g, ann, unique, ids[unique][1])
	}
	// What was cancelled while it ran has its unique still, but not after a restart;
	// unless it was submitted again in the background.
	heir, again := ann.submit("b1", "heir", "x", true).ID, ann.submit("b1", "again", "x", true).ID
	bury(heir)
	next := ann.submit("b1", "heir", "x", true).ID
	bea.do(1, Request{Op: KickJob, ID: heir})
	for _, id := range []uint64{heir, again} {
		bea.do(1, Request{Op: ReserveJob, ID: id})
		if s := ann.do(1, Request{Op: CancelJob, ID: id}).Status; s != OK {
			t.Errorf("the cancel is answered %d", s)
		}
	}
	same(g, ann, "again", again)
	bea.settleIn("b1")
	put := bea.do(1, Request{Op: Put, Tube: bea.used, Body: []byte("x\r\n"), TTR: 1000}).ID
	bea.do(1, Request{Op: ReserveJob, ID: put})
	if s := ann.do(1, Request{Op: CancelJob, ID: put}).Status; s != OK {
		t.Errorf("the cancel is answered %d", s)
	}
	stop()

	for _, shards := range []int{2, 1, 3, 2} {
		g, d, stop := newLoggedRig(t, fs, shards, 8<<10)
		ann, _ := g.newWorker(1 << 30)
		same(g, ann, "u", ids["u"][1])
		same(g, ann, "-", ids["-"][1])
		same(g, ann, "heir", next)
		same(g, ann, "again", again)
		if d.Lookup(put) >= 0 || d.Lookup(heir) >= 0 {
			t.Errorf("%d shards: a job is there that was cancelled", shards)
		}
		ann.detach()
		stop()
	}
	g, _, stop = newLoggedRig(t, fs, 2, 8<<10)
	ann, _ = g.newWorker(1 << 30)
	for _, unique := range []string{"u", "-"} {
		for _, id := range ids[unique][1:] {
			same(g, ann, unique, id)
			ann.do(1, Request{Op: Delete, ID: id})
		}
	}
	ann.detach()
	stop()
}

// TestGearmanDropOnFullDisk: a put job is not buried by a drop if the log has no room
// for that. The drop says so, and goes on when there is room.
func TestGearmanDropOnFullDisk(t *testing.T) { synctest.Test(t, testGearmanDropOnFullDisk) }

func testGearmanDropOnFullDisk(t *testing.T) {
	fs := faultfs.New()
	g, _, stop := newLoggedRig(t, fs, 1, 64<<10)
	bea := g.newPerson().settleIn("f")
	const n = 20000
	for range n {
		bea.do(0, Request{Op: Put, Tube: bea.used, Body: []byte("x\r\n"), TTR: 1000})
	}
	time.Sleep(time.Second)
	fs.Leave(0)
	fs.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
		if op == faultfs.OpRemove {
			return syscall.EPERM // so that cleaning makes no room
		}
		return nil
	})
	drop := func(want Status) (buried int) {
		t.Helper()
		if s := bea.do(0, Request{Op: DropFunction, Name: "f"}).Status; s != want {
			t.Errorf("the drop is answered %d, want %d", s, want)
		}
		return bea.do(0, Request{Op: StatsTube, Name: "f"}).TubeStats.Buried
	}
	before := drop(OutOfMemory)
	bea.detach()
	stop()

	fs.SetFault(nil)
	fs.SetCapacity(1 << 30)
	g, _, stop = newLoggedRig(t, fs, 1, 64<<10)
	bea = g.newPerson().settleIn("f")
	if after := bea.do(0, Request{Op: StatsTube, Name: "f"}).TubeStats.Buried; after != before || after == n {
		t.Errorf("%d jobs are buried, and %d after a restart", before, after)
	}
	if all := drop(OK); all != n {
		t.Errorf("%d jobs are buried, want %d", all, n)
	}
	bea.detach()
	stop()
}

// TestGearmanLogFails: whoever waits for what nobody will do any more is told so,
// what is with a worker may be finished if it is not in the log, and workers
// sleep.
func TestGearmanLogFails(t *testing.T) { synctest.Test(t, testGearmanLogFails) }

func testGearmanLogFails(t *testing.T) {
	fs := faultfs.New()
	g, _, stop := newLoggedRig(t, fs, 1, 1<<20)
	ann, annPeer := g.newWorker(1 << 30)
	wil, wilPeer := g.newWorker(1 << 30)
	zoe, _ := g.newWorker(1 << 30)
	wil.canDo("f")
	zoe.canDo("f")
	kinds := func(p *fakePeer) (all []string) {
		synctest.Wait()
		p.inbox.Take(func(e *Event) { all = append(all, fmt.Sprint("event ", e.Kind, " of ", e.ID)) })
		slices.Sort(all)
		return all
	}
	expect := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	running := ann.submit("f", "running", "x", false).ID
	lost := ann.submit("f", "lost", "x", false).ID
	kept := ann.submit("f", "kept", "x", true).ID
	ann.submit("f", "kept", "x", false)
	for _, p := range []*person{wil, zoe, wil} {
		if r := p.do(0, Request{Op: Grab}); r.Status != OK {
			t.Fatal(r.Status)
		}
	}
	ready := ann.submit("f", "ready", "x", false).ID
	both := ann.submit("f", "both", "x", true).ID
	ann.submit("f", "both", "x", false)

	fs.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
		if op == faultfs.OpWriteAt {
			return syscall.EIO
		}
		return nil
	})
	expect("the first change that is not written", ann.submit("f", "x", "x", true).Status, Failed)
	expect("who waits for what is ready", kinds(annPeer), []string{fmt.Sprint("event ", Fail, " of ", ready), fmt.Sprint("event ", Fail, " of ", both)})
	expect("background", ann.submit("f", "y", "x", true).Status, Failed)
	expect("foreground", ann.submit("f", "y", "x", false).Status, Failed)
	expect("what is there", ann.submit("f", "running", "x", false).Status, Failed)
	expect("doze, with a job that nobody gets", wil.do(0, Request{Op: Doze}).Status, NotFound)
	expect("grab", wil.do(0, Request{Op: Grab}).Status, Failed)
	expect("the end of a job of the foreground", wil.do(0, Request{Op: Report, ID: running, N: uint64(Complete)}).Status, OK)
	expect("that of one of the background", wil.do(0, Request{Op: Report, ID: kept, N: uint64(Complete)}).Status, Failed)
	expect("who waits", kinds(annPeer), []string{fmt.Sprint("event ", Complete, " of ", running)})
	wil.do(0, Request{Op: Doze})
	zoe.detach()
	expect("who waits, when the worker is gone", kinds(annPeer), []string{fmt.Sprint("event ", Fail, " of ", lost)})
	wil.detach()
	expect("who waits for one of the background", kinds(annPeer), []string{fmt.Sprint("event ", Fail, " of ", kept)})
	expect("who sleeps", kinds(wilPeer), []string{})
	ann.detach()
	stop()
}

// TestGearmanEndIsNotWritten: who waits for a job of the background is not told
// that it is done if the log does not have that.
func TestGearmanEndIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New()
		g, _, stop := newLoggedRig(t, fs, 1, 1<<20)
		ann, peer := g.newWorker(1 << 30)
		wil, _ := g.newWorker(1 << 30)
		wil.canDo("f")
		id := ann.submit("f", "u", "x", true).ID
		ann.submit("f", "u", "x", false)
		wil.do(0, Request{Op: Grab})
		fs.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
			if op == faultfs.OpWriteAt {
				return syscall.EIO
			}
			return nil
		})
		if s := wil.do(0, Request{Op: Report, ID: id, N: uint64(Complete), Body: []byte("result")}).Status; s != Failed {
			t.Errorf("the report is answered %d", s)
		}
		synctest.Wait()
		n := 0
		peer.inbox.Take(func(e *Event) {
			if n++; e.Kind != Fail || e.ID != id || e.Data != nil {
				t.Errorf("told %d of job %d, %q", e.Kind, e.ID, e.Data)
			}
		})
		if n != 1 {
			t.Errorf("told %d times", n)
		}
		stop()
	})
}

// TestGearmanForegroundIsNotNoted: a job of the foreground whose id does not get
// into the log is there all the same. Its client hears of it, and then that it has
// failed, as nobody will get it.
func TestGearmanForegroundIsNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New()
		g, _, stop := newLoggedRig(t, fs, 1, 1<<20)
		ann, peer := g.newWorker(1 << 30)
		fs.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
			if op == faultfs.OpWriteAt {
				return syscall.EIO
			}
			return nil
		})
		r := ann.submit("f", "u", "x", false)
		if r.Status != OK {
			t.Errorf("the submit is answered %d", r.Status)
		}
		synctest.Wait()
		var told []string
		peer.inbox.Take(func(e *Event) { told = append(told, fmt.Sprint(e.Kind, " of ", e.ID)) })
		if want := []string{fmt.Sprint(Fail, " of ", r.ID)}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		ann.detach()
		stop()
	})
}

// TestGearmanEventsWaitForTheLog: what a client is told comes in order, though
// some of it waits for the log and the rest need not.
func TestGearmanEventsWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New()
		g, _, stop := newLoggedRig(t, fs, 1, 1<<20)
		ann, peer := g.newWorker(1 << 30)
		wil, _ := g.newWorker(1 << 30)
		bob, _ := g.newWorker(1 << 30)
		wil.do(0, Request{Op: CanDo, Name: "f", TTR: 1})
		id := ann.submit("f", "u", "x", false).ID
		wil.do(0, Request{Op: Grab})
		gate := make(chan struct{})
		fs.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
			if op == faultfs.OpWriteAt {
				<-gate
			}
			return nil
		})
		bob.post(0, &Request{Op: Submit, Name: "g", Task: &Task{Background: true}, Body: []byte("x\r\n")})
		synctest.Wait()
		wil.post(0, &Request{Op: Report, ID: id, N: uint64(Data), Body: []byte("a")})
		time.Sleep(2 * time.Second) // the job fails
		synctest.Wait()
		close(gate)
		synctest.Wait()
		var told []EventKind
		peer.inbox.Take(func(e *Event) { told = append(told, e.Kind) })
		if !slices.Equal(told, []EventKind{Data, Fail}) {
			t.Errorf("told %d, want %d", told, []EventKind{Data, Fail})
		}
		bob.await()
		wil.await()
		stop()
	})
}

// TestGearmanCancelIsDurable: cancel and drop are not answered before the log has
// them.
func TestGearmanCancelIsDurable(t *testing.T) {
	for _, r := range []Request{{Op: CancelJob, ID: 1}, {Op: DropFunction, Name: "f"}} {
		fs := faultfs.New()
		g, _, stop := newLoggedRig(t, fs, 1, 1<<20)
		ann, _ := g.newWorker(1 << 30)
		ann.submit("f", "u", "x", true)
		fs.SetFault(func(op faultfs.Op, _ string, _ int64, _ int) error {
			if op == faultfs.OpWriteAt {
				return errors.New("the disk is gone")
			}
			return nil
		})
		if s := ann.do(0, r).Status; s != Failed {
			t.Errorf("op %d is answered %d, and the log has failed", r.Op, s)
		}
		stop()
	}
}

// TestGearmanMemory: tasks, and who waits for them, count in the memory budget.
func TestGearmanMemory(t *testing.T) {
	task := &Task{Unique: "u", Reducer: "r of u"}
	one := footprint(3) + task.footprint() + listenerFootprint
	g := newRig(1, NewDirectory(), one+listenerFootprint)
	defer g.stop()
	ann, _ := g.newWorker(1 << 30)
	expect := func(what string, got, want Status) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	expect("one slot too large", ann.submit("f", "u", "x"+strings.Repeat("x", int(listenerFootprint)+slotStep), false).Status, OutOfMemory)
	r := ann.submit("f", "u", "x", false)
	expect("the first", r.Status, OK)
	expect("one who waits, too", ann.submit("f", "u", "x", false).Status, OK)
	full := ann.submit("f", "u", "x", false)
	expect("one who waits too many", full.Status, OutOfMemory)
	if full.ID != 0 {
		t.Errorf("refused, it has the id %d", full.ID)
	}
	expect("in the background it takes nothing", ann.submit("f", "u", "x", true).Status, OK)
	expect("another", ann.submit("f", "v", "", true).Status, OutOfMemory)
	ann.do(0, Request{Op: Delete, ID: r.ID})
	if st := g.gather(); st.Memory != 0 {
		t.Errorf("%d bytes are left", st.Memory)
	}
	if f := ann.do(0, Request{Op: Functions}).Lists.Functions; len(f) != 1 {
		t.Errorf("functions are %+v", f)
	}
}

// TestManyListeners: there is a bound to how many are told of a job's progress in one go.
func TestManyListeners(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	ann, _ := g.newWorker(1 << 30)
	for i := range mostListeners + 2 {
		want := OK
		if i >= mostListeners {
			want = QueueFull
		}
		if r := ann.submit("f", "u", "x", false); r.Status != want {
			t.Fatalf("submit %d: %d", i, r.Status)
		}
	}
	if r := ann.submit("f", "u", "x", true); r.Status != OK {
		t.Errorf("in the background nobody waits, but: %d", r.Status)
	}
}

// TestDroppedFunctionStaysDropped: a buried job of a function that was dropped does not
// bring it back at a restart.
func TestDroppedFunctionStaysDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		names := func(g *rig) (all []string) {
			for _, f := range g.newPerson().do(0, Request{Op: Functions}).Lists.Functions {
				all = append(all, f.Name)
			}
			return all
		}
		g, _, stop := newLoggedRig(t, f, 1, 64<<10)
		p := g.newPerson().settleIn("a")
		p.submit("a", "u", "x", true)
		p.submit("b", "u", "x", true)
		p.do(0, Request{Op: Reserve})
		p.do(0, Request{Op: Bury, ID: 1})
		if r := p.do(0, Request{Op: DropFunction, Name: "a"}); r.Status != OK {
			t.Errorf("drop: %d", r.Status)
		}
		if got := names(g); !slices.Equal(got, []string{"b"}) {
			t.Errorf("functions are %q", got)
		}
		stop()
		g, _, stop = newLoggedRig(t, f, 1, 64<<10)
		if got := names(g); !slices.Equal(got, []string{"b"}) {
			t.Errorf("after a restart functions are %q", got)
		}
		g.newPerson().do(0, Request{Op: KickJob, ID: 1})
		if got := names(g); len(got) != 2 {
			t.Errorf("after a kick functions are %q", got)
		}
		stop()
	})
}

// TestDrainingSetsNothingAside: puts that are refused in drain mode take no space on
// the disk.
func TestDrainingSetsNothingAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New()
		g, _, stop := newLoggedRig(t, f, 1, 64<<10)
		p := g.newPerson().settleIn("a")
		p.do(0, Request{Op: Put, Tube: p.used, TTR: 1, Body: []byte("x\r\n")})
		time.Sleep(time.Second)
		before := f.Used()
		g.draining.Store(true)
		for range 10_000 {
			for _, r := range []Request{
				{Op: Put, Tube: p.used, TTR: 1, Body: []byte("x\r\n")},
				{Op: Submit, Name: "a", Body: []byte("x\r\n"), Task: &Task{Background: true}},
			} {
				if got := p.do(0, r); got.Status != Draining {
					t.Fatalf("operation %d is answered %d", r.Op, got.Status)
				}
			}
		}
		if n := f.Used(); n > before {
			t.Errorf("%d bytes were set aside", n-before)
		}
		p.detach()
		stop()
	})
}
