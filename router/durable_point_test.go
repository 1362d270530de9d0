package router

import (
	"fmt"
	"sync"

	"github.com/sheafq/sheaf/binlog/faultfs"
)

// durPoint is a moment at which everything stops.
type durPoint struct {
	when    string
	fs      *faultfs.FS // as it is then
	model   *durModel
	acked   []int64 // by shard: up to which change all is promised
	ackedID uint64
	issued  int64 // up to which change there may be any
	safe    bool  // what is acknowledged survives a power loss, not only a kill
}

// durTrap takes points at random changing operations of a file system, and
// makes operations fail.
type durTrap struct {
	run *durRun
	// fail, if it is not nil, is the fault of the file system; take, if it is
	// not nil, takes the points. Both are set before the engine does anything.
	fail faultfs.Fault
	take func(when string)
	// syncs has points taken before syncs only, when there is the most to lose.
	syncs bool

	mu     sync.Mutex // over what follows
	count  int        // changing operations
	next   int        // the count at which the next point is taken; 0 for none
	gap    func() int
	points []*durPoint
}

// durMostPoints is how many are taken before somebody asks for them.
const durMostPoints = 40

// every has a point taken again and again, after as many operations as gap
// says.
func (tr *durTrap) every(gap func() int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.gap, tr.next = gap, tr.count+gap()
}

func (tr *durTrap) fault(op faultfs.Op, name string, off int64, n int) error {
	if op == faultfs.OpSync || op < faultfs.OpOpen && !tr.syncs {
		tr.mu.Lock()
		if tr.count++; tr.count == tr.next {
			when := fmt.Sprintf("before operation %d, %v of %s at %d, %d bytes", tr.count, op, name, off, n)
			switch {
			case tr.take != nil:
				tr.take(when)
			case len(tr.points) < durMostPoints:
				tr.points = append(tr.points, tr.run.point(when))
			}
			tr.next += tr.gap()
		}
		tr.mu.Unlock()
	}
	if tr.fail != nil {
		return tr.fail(op, name, off, n)
	}
	return nil
}

// taken returns the points since the last call.
func (tr *durTrap) taken() []*durPoint {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	points := tr.points
	tr.points = nil
	return points
}

// point takes one now. Any goroutine may call it.
func (d *durRun) point(when string) *durPoint {
	m := d.model
	p := &durPoint{when: when, model: m, ackedID: m.ackedID.Load(), safe: d.cfg.Sync == 0}
	for i := range m.acked {
		p.acked = append(p.acked, m.acked[i].Load())
	}
	p.fs = d.fs.Kill()
	p.issued = m.issued.Load()
	return p
}
