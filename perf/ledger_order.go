package perf

// What the ledger can tell of the order of jobs: that a ready one was passed
// over, for a less urgent one or for a TIMED_OUT.

import "math"

// A recent is the last answers to those who asked for jobs of a tube.
type reserveHistory struct {
	last [64]servedReserve
	next int
}

type servedReserve struct {
	asked, came int64 // when the reserve was sent, and the answer read
	conn        *conn
	turn        uint64
	pri         uint64 // of the job
	id          string
}

// noJob is the priority of TIMED_OUT: any job is more urgent.
const noJob = math.MaxUint64

func (l *ledger) history(tube string) *reserveHistory {
	r := l.reserves[tube]
	if r == nil {
		r = new(reserveHistory)
		l.reserves[tube] = r
	}
	return r
}

func (r *reserveHistory) add(c *conn, turn uint64, asked, came int64, pri uint64, id []byte) {
	r.last[r.next%len(r.last)] = servedReserve{asked, came, c, turn, pri, string(id)}
	r.next++
}

// passed looks whether a job, which had no delay and comes to c for the first
// time, should have come before others. It was passed over for one that is less
// urgent if it had been INSERTED before that was asked for, and was asked for
// after that had come: so it was ready all the time in which the server made its
// choice. A clock that stands at the same says so, too, as an answer is read before
// and a command is sent after the clock is. What one connection asks is answered
// in turn, also what was sent in one go: there it is the turns that tell. Nor may
// there have been a TIMED_OUT then.
func (l *ledger) checkOrder(c *conn, p *page, i int, id []byte, asked, now int64) {
	r, pri := l.history(p.tube[i]), uint64(p.pri[i])
	for k := range r.last {
		other := &r.last[k]
		if other.pri <= pri || p.insertedAt[i] == 0 {
			continue
		}
		there := p.insertedAt[i] <= other.asked || p.putter[i] == other.conn && p.insertedTurn[i] < other.turn
		behind := other.came <= asked || c == other.conn
		switch {
		case !there || !behind:
			continue
		case other.pri == noJob:
			l.fault(falseTimeout, "%s %d, when id %s of %s was", other.conn.group.name, other.conn.number, id, p.tube[i])
		default:
			l.fault(wrongOrder, "id %s, with priority %d, came before id %s with priority %d, which had been there", other.id, other.pri, id, pri)
		}
		break
	}
	r.add(c, l.turns, asked, now, pri, id)
}
