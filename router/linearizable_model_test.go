package router

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/sheafq/sheaf/shard"
)

// The sequential model that concurrent histories are checked against: one
// queue server that does one command at a time. It is strict: a reserve gets
// the lowest (pri, id) ready in the watched tubes, and times out only at a
// moment when nothing is ready there; a client's commands take effect in the
// order in which it gave them, also those of one pipeline, whose intervals
// overlap.

// call is a command of a history.
type call struct {
	client int
	seq    int // place among the client's commands, from 0
	op     shard.Op
	tube   int    // put, kick, peek-ready and its like: the tube used
	tubes  uint64 // reserve: a bit for each tube watched
	id     uint64
	pri    uint32
	// A kick of several jobs kicks one after the other, as in the reference,
	// and each goes at once to a client that waits, though a better one may be
	// kicked next. So it is as many calls in the history, of which this is the
	// part, from 1.
	part int
	// delayed says that a put is delayed for longer than the history lasts. All
	// have the same delay, and a release has none, so delayed jobs are due by
	// id.
	delayed bool
}

// reply is what came back.
type reply struct {
	status shard.Status
	id, n  uint64
}

// The state is a string, which the checker compares and hashes cheaply: for
// each client how many of its commands have been done and where its last kick
// takes jobs from, one byte each, then the jobs, four bytes each. Buried jobs
// come last, in the order of burying, the others before by id. So equal states
// have equal strings.
type world struct {
	clients []progress
	jobs    []item
}

type progress struct{ done, kicks byte }

type item struct{ id, tube, pri, place byte }

// place says where a job is: one of these, or with the client place-isHeld.
const (
	isReady byte = iota
	isDelayed
	isBuried
	isHeld
)

func decode(s string, clients int) world {
	w := world{clients: make([]progress, clients)}
	for i := range w.clients {
		w.clients[i] = progress{s[2*i], s[2*i+1]}
	}
	for s = s[2*clients:]; s != ""; s = s[4:] {
		w.jobs = append(w.jobs, item{s[0], s[1], s[2], s[3]})
	}
	return w
}

func (w world) encode() string {
	var b strings.Builder
	b.Grow(2*len(w.clients) + 4*len(w.jobs))
	for _, c := range w.clients {
		b.Write([]byte{c.done, c.kicks})
	}
	for _, bury := range []bool{false, true} {
		for _, j := range w.jobs {
			if (j.place == isBuried) == bury {
				b.Write([]byte{j.id, j.tube, j.pri, j.place})
			}
		}
	}
	return b.String()
}

// byID is the place of an id, -1 if there is no such job.
func (w world) byID(id uint64) int {
	return slices.IndexFunc(w.jobs, func(j item) bool { return uint64(j.id) == id })
}

// best is the place of the lowest (pri, id) ready in the tubes, -1 for none.
func (w world) best(tubes uint64) int {
	best := -1
	for i, j := range w.jobs {
		if j.place == isReady && tubes>>j.tube&1 == 1 &&
			(best < 0 || j.pri < w.jobs[best].pri || j.pri == w.jobs[best].pri && j.id < w.jobs[best].id) {
			best = i
		}
	}
	return best
}

// first is the first job of a tube that is there, by id or in the order of
// burying; -1 for none.
func (w world) first(tube int, place byte) int {
	return slices.IndexFunc(w.jobs, func(j item) bool { return int(j.tube) == tube && j.place == place })
}

// move puts a job somewhere else, behind all that are there.
func (w *world) move(i int, to byte) {
	j := w.jobs[i]
	w.jobs = slices.Delete(w.jobs, i, i+1)
	j.place = to
	if to == isBuried {
		w.jobs = append(w.jobs, j)
	} else {
		w.insert(j)
	}
}

func (w *world) insert(j item) {
	at, _ := slices.BinarySearchFunc(w.jobs, j, func(a, b item) int {
		if a.place == isBuried {
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
	w.jobs = slices.Insert(w.jobs, at, j)
}

// step does one command. It reports false if the answer cannot be right.
func (w *world) step(in call, out reply) bool {
	me := &w.clients[in.client]
	if int(me.done) != in.seq {
		return false
	}
	me.done++
	ok := out.status == shard.OK
	mine := isHeld + byte(in.client)
	switch in.op {
	case shard.Put:
		if !ok || w.byID(out.id) >= 0 {
			return false
		}
		place := isReady
		if in.delayed {
			place = isDelayed
		}
		w.insert(item{byte(out.id), byte(in.tube), byte(in.pri), place})
		return true
	case shard.Reserve:
		i := w.best(in.tubes)
		if i < 0 {
			return out.status == shard.TimedOut
		}
		if !ok || uint64(w.jobs[i].id) != out.id {
			return false
		}
		w.move(i, mine)
		return true
	case shard.PeekReady, shard.PeekDelayed, shard.PeekBuried:
		var i int
		switch in.op {
		case shard.PeekReady:
			i = w.best(1 << in.tube)
		case shard.PeekDelayed:
			i = w.first(in.tube, isDelayed)
		case shard.PeekBuried:
			i = w.first(in.tube, isBuried)
		}
		return ok == (i >= 0) && (!ok || uint64(w.jobs[i].id) == out.id)
	case shard.Kick:
		if in.part == 1 {
			me.kicks = isBuried
			if w.first(in.tube, isBuried) < 0 {
				me.kicks = isDelayed
			}
		}
		i := w.first(in.tube, me.kicks)
		kicked := in.part <= int(out.n)
		if kicked && i >= 0 {
			w.move(i, isReady)
		}
		return ok && kicked == (i >= 0)
	}
	// A command by id.
	i := w.byID(in.id)
	if i < 0 {
		return out.status == shard.NotFound
	}
	j := &w.jobs[i]
	may := false
	switch in.op {
	case shard.ReserveJob:
		may = j.place < isHeld
	case shard.Delete:
		may = j.place < isHeld || j.place == mine
	case shard.Release, shard.Bury, shard.Touch:
		may = j.place == mine
	case shard.KickJob:
		may = j.place == isBuried || j.place == isDelayed
	case shard.Peek:
		may = true
	}
	if !may {
		return out.status == shard.NotFound
	}
	if !ok {
		return false
	}
	switch in.op {
	case shard.ReserveJob:
		w.move(i, mine)
	case shard.Delete:
		w.jobs = slices.Delete(w.jobs, i, i+1)
	case shard.Release:
		j.pri = byte(in.pri)
		w.move(i, isReady)
	case shard.Bury:
		j.pri = byte(in.pri)
		w.move(i, isBuried)
	case shard.KickJob:
		w.move(i, isReady)
	}
	return true
}

var hashSeed = maphash.MakeSeed()

// model is the sequential server for histories of that many clients.
func model(clients int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return string(make([]byte, 2*clients)) },
		Step: func(state, in, out any) (bool, any) {
			w := decode(state.(string), clients)
			if !w.step(in.(call), out.(reply)) {
				return false, state
			}
			return true, w.encode()
		},
		Hash: func(state any) uint64 { return maphash.String(hashSeed, state.(string)) },
	}
}

// perTube is the model for histories in which every command concerns one tube:
// those of different tubes do not touch each other. The order of a client's
// commands is kept within each tube.
func perTube(clients int) porcupine.Model {
	m := model(clients)
	m.Partition = func(history []porcupine.Operation) [][]porcupine.Operation {
		var parts [][]porcupine.Operation
		tubes := make(map[int]int)
		history = slices.Clone(history)
		slices.SortStableFunc(history, func(a, b porcupine.Operation) int {
			return cmp.Compare(a.Input.(call).seq, b.Input.(call).seq)
		})
		for _, op := range history {
			in := op.Input.(call)
			if isReserveOp(in.op) {
				in.tube = bits.TrailingZeros64(in.tubes)
			}
			i, ok := tubes[in.tube]
			if !ok {
				i = len(parts)
				tubes[in.tube] = i
				parts = append(parts, nil)
			}
			in.seq = 0
			for _, earlier := range parts[i] {
				if earlier.Input.(call).client == in.client {
					in.seq++
				}
			}
			op.Input = in
			parts[i] = append(parts[i], op)
		}
		return parts
	}
	return m
}

func isReserveOp(op shard.Op) bool { return op == shard.Reserve || op == shard.ReserveTimeout }

// describe writes a history down as the sessions that it was, in the order in
// which the commands were given.
func describe(history []porcupine.Operation) string {
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b porcupine.Operation) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Input.(call).seq, b.Input.(call).seq))
	})
	var b strings.Builder
	for _, op := range history {
		in, out := op.Input.(call), op.Output.(reply)
		name := "reserve"
		for s, o := range opOf {
			if o == in.op && o != shard.Reserve {
				name = s
			}
		}
		fmt.Fprintf(&b, "[%4d,%4d] client %d #%d: %s", op.Call, op.Return, in.client, in.seq, name)
		switch in.op {
		case shard.Put:
			fmt.Fprintf(&b, " pri %d tube %d", in.pri, in.tube)
			if in.delayed {
				b.WriteString(" delayed")
			}
		case shard.Reserve:
			fmt.Fprintf(&b, " tubes %b", in.tubes)
		case shard.Kick:
			fmt.Fprintf(&b, " part %d tube %d", in.part, in.tube)
		case shard.PeekReady, shard.PeekDelayed, shard.PeekBuried:
			fmt.Fprintf(&b, " tube %d", in.tube)
		case shard.Release, shard.Bury:
			fmt.Fprintf(&b, " %d pri %d", in.id, in.pri)
		default:
			fmt.Fprintf(&b, " %d", in.id)
		}
		fmt.Fprintf(&b, " -> %s\n", render(&shard.Request{Op: in.op, Status: out.status, ID: out.id, N: out.n,
			Job: &shard.JobStats{}}))
	}
	return b.String()
}
