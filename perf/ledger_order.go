package perf

// What the ledger can tell of the order of jobs: that a ready one was passed
// over, for a less urgent one, for a younger one or for a TIMED_OUT.

import "math"

// A reserveHistory is the latest answers to those who reserved from a tube. With
// more than 64 since a job was passed over, that is not found.
type reserveHistory struct {
	last [64]servedReserve
	next int
}

type servedReserve struct {
	asked, came int64 // when the reserve was sent, and the answer read
	conn        *conn
	turn        uint64
	pri         uint64 // of the job
	number      uint64 // its id
	id          string
}

// noJob is the priority of TIMED_OUT in a history: any job is more urgent.
const noJob = math.MaxUint64

func (l *ledger) history(tube string) *reserveHistory {
	r := l.reserves[tube]
	if r == nil {
		r = new(reserveHistory)
		l.reserves[tube] = r
	}
	return r
}

func (r *reserveHistory) add(c *conn, turn uint64, asked, came int64, pri, number uint64, id []byte) {
	r.last[r.next%len(r.last)] = servedReserve{asked, came, c, turn, pri, number, string(id)}
	r.next++
}

// checkOrder finds out whether a job that had no delay, and now comes to c for the
// first time, was passed over: for a less urgent job, for an equally urgent one
// with a higher id, or for a TIMED_OUT. That is certain if the job's INSERTED was
// read before the other reserve was sent, and this reserve was sent after the answer
// to the other was read: so the job was ready all the time while the server chose.
// Equal times count, too, since an answer is read before the clock is, and a command
// is sent after it. Commands of one connection take effect in the order of sending,
// also if they were sent together: there the turns decide.
func (l *ledger) checkOrder(c *conn, p *page, i int, id []byte, asked, now int64) {
	r, pri := l.history(p.tube[i]), uint64(p.pri[i])
	for k := range r.last {
		other := &r.last[k]
		wasReady := p.insertedAt[i] != 0 &&
			(p.insertedAt[i] <= other.asked || p.putter[i] == other.conn && p.insertedTurn[i] < other.turn)
		askedLater := other.came <= asked || c == other.conn
		behind := other.pri > pri || other.pri == pri && other.number > p.id[i]
		if !behind || !wasReady || !askedLater {
			continue
		}
		switch other.pri {
		case noJob:
			l.fault(falseTimeout, "%s %d, when id %s of %s was ready", other.conn.group.name, other.conn.number, id, p.tube[i])
		case pri:
			l.fault(outOfTurn, "id %s came before id %s, which was ready; both have priority %d", other.id, id, pri)
		default:
			l.fault(wrongOrder, "id %s, with priority %d, came before id %s with priority %d, which was ready", other.id, other.pri, id, pri)
		}
		break // one fault a job
	}
	r.add(c, l.turns, asked, now, pri, p.id[i], id)
}
