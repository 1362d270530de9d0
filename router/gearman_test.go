package router

import (
	"slices"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/shard"
)

// submit submits a job and returns its id.
func (w *wire) submit(function, unique string, background bool) uint64 {
	w.t.Helper()
	r := w.New(shard.Submit)
	r.Name, r.Pri, r.Body = function, shard.PriNormal, []byte("x\r\n")
	r.Task = &shard.Task{Unique: unique, Background: background}
	a := w.one(r)
	if a.Status != shard.OK {
		w.t.Errorf("submit to %s is answered %d", function, a.Status)
	}
	return a.ID
}

// TestGearmanLists: what asks all shards, some of them in several steps, names
// each job and function once.
func TestGearmanLists(t *testing.T) {
	r := newEngine(t, 3)
	w := newWire(t, r)
	defer w.Close()
	var functions []string
	for i := range 6 {
		functions = append(functions, r.tubeOn(i%3, i/3))
	}
	const n = 15_000 // some steps of each shard
	want := make(map[uint64]bool)
	for i := range n {
		want[w.submit(functions[i%6], "", true)] = true
		if i%6 == 5 { // so that there are gaps
			d := w.New(shard.Delete)
			d.ID = r.directory.LastID() - uint64(i/6%6)
			if w.one(d).Status == shard.OK {
				delete(want, d.ID)
			}
		}
	}
	left := len(want)
	w.Tasks(func(s shard.TaskStats) bool {
		if !want[s.ID] {
			t.Fatalf("job %d is named twice, or is not there", s.ID)
		}
		delete(want, s.ID)
		return true
	})
	if len(want) > 0 {
		t.Errorf("%d jobs of %d are not named", len(want), left)
	}
	calls := 0
	if w.Tasks(func(shard.TaskStats) bool { calls++; return calls < 5000 }); calls != 5000 {
		t.Errorf("ended after 5000, %d jobs are named", calls)
	}
	var names []string
	jobs := 0
	for _, f := range w.Functions() {
		names = append(names, f.Name)
		jobs += f.Normal
	}
	slices.Sort(functions)
	if !slices.Equal(names, functions) || jobs != left {
		t.Errorf("functions %v with %d jobs, want %v with %d", names, jobs, functions, left)
	}
	for _, f := range functions {
		if s := w.DropFunction(f); s != shard.OK {
			t.Errorf("drop of %s is answered %d", f, s)
		}
	}
	if s := w.Stats(); s.Ready != 0 || s.Memory != 0 {
		t.Errorf("left behind: %d jobs, %d bytes", s.Ready, s.Memory)
	}
}

// TestGearmanUniqueOverShards: of the jobs with a unique, in functions on several
// shards, the oldest is found.
func TestGearmanUniqueOverShards(t *testing.T) {
	r := newEngine(t, 3)
	w := newWire(t, r)
	defer w.Close()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		var ids []uint64
		for _, s := range order {
			ids = append(ids, w.submit(r.tubeOn(s, 0), "u", false))
		}
		for _, id := range ids {
			if a := w.InquireUnique("u"); a.Status != shard.OK || a.ID != id || a.N != 2 {
				t.Errorf("order %v: found %d (status %d, %d), want %d", order, a.ID, a.Status, a.N, id)
			}
			if s := w.CancelJob(id); s != shard.OK {
				t.Errorf("cancel is answered %d", s)
			}
		}
		if a := w.InquireUnique("u"); a.Status != shard.NotFound {
			t.Errorf("found %d, and there is none", a.ID)
		}
	}
	if s := w.CancelJob(12345); s != shard.NotFound {
		t.Errorf("cancel of a job that never was is answered %d", s)
	}
	var got strings.Builder
	w.inbox.Take(func(e *shard.Event) { got.WriteString(sprint(e.ID, ":", e.Kind, " ")) })
	if want := "1:5 2:5 3:5 4:5 5:5 6:5 7:5 8:5 9:5 "; got.String() != want {
		t.Errorf("heard %s, want %s", got.String(), want)
	}
}

// TestGearmanAbilities: a worker learns and forgets functions of all shards, and
// a grab over them ends its sleep.
func TestGearmanAbilities(t *testing.T) {
	r := newEngine(t, 3)
	w, c := newWire(t, r), newWire(t, r)
	defer w.Close()
	defer c.Close()
	can := func() string {
		var names []string
		for _, f := range c.Functions() {
			if f.Workers > 0 {
				names = append(names, sprint(f.Name, ":", f.Workers))
			}
		}
		return strings.Join(names, " ")
	}
	var functions []string
	for i := range 6 {
		functions = append(functions, r.tubeOn(i%3, i/3))
		w.CanDo(functions[i], 0)
		w.CanDo(functions[i], 5) // again, with another timeout
	}
	slices.Sort(functions)
	for len(functions) > 1 {
		if want := strings.Join(functions, ":1 ") + ":1"; can() != want {
			t.Fatalf("workers are %s, want %s", can(), want)
		}
		w.CantDo(functions[0])
		w.CantDo("what it never could")
		functions = functions[1:]
	}
	w.CanDo(r.tubeOn(0, 9), 0)
	if w.CantDoAny(); can() != "" || w.CanDoAny() {
		t.Fatalf("workers are %s, want none", can())
	}

	for i := range 3 {
		w.CanDo(r.tubeOn(i, 0), 0)
	}
	if w.Doze() {
		t.Fatal("there is no job")
	}
	if s := w.one(w.New(shard.Grab)).Status; s != shard.TimedOut {
		t.Fatalf("grab is answered %d", s)
	}
	for i := range 3 {
		c.submit(r.tubeOn(i, 0), "", true)
	}
	w.inbox.Take(func(*shard.Event) { t.Error("woken, and it does not sleep any more") })
	for range 3 {
		if s := w.one(w.New(shard.Grab)).Status; s != shard.OK {
			t.Fatalf("grab is answered %d", s)
		}
	}
}

// TestDefaultTubeIsTheFirst: it is where the reference has it, though Gearman has
// named functions before there was anybody to use it, and though it is one.
func TestDefaultTubeIsTheFirst(t *testing.T) {
	for shards := range 4 {
		r := newEngine(t, shards+1)
		w := newWire(t, r)
		want := []string{shard.DefaultTube}
		for i := range 2 * (shards + 1) {
			want = append(want, r.tubeOn(i%(shards+1), i/(shards+1)))
			w.CreateFunction(want[i+1])
		}
		w.CreateFunction(shard.DefaultTube)
		c := r.NewClient()
		tubes := c.Tubes()
		if c.Close(); !slices.Equal(tubes, want) {
			t.Errorf("tubes are %q, want %q", tubes, want)
		}
		w.DropFunction(shard.DefaultTube)
		for _, name := range want[1:] {
			w.DropFunction(name)
		}
		if tubes := w.Tubes(); !slices.Equal(tubes, want[:1]) {
			t.Errorf("of these tubes are left: %q", tubes)
		}
		w.Close()
	}
}
