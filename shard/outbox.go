package shard

import "sync"

// outbox is what clients are told at the end of a batch, but with a log only once
// the log has the batch. The shard fills it during the batch. With a log it then
// hands it over to the log's goroutine, which delivers and empties it: only one of
// them has it at a time.
type outbox struct {
	changed           []*Request // for which something was appended; Failed if that is lost
	answered, granted []*Waiter
	events            []sent
}

// sent is an event on its way.
type sent struct {
	to     *Inbox
	event  *Event
	logged bool // true only if the log has the batch
}

var outboxes = sync.Pool{New: func() any { return new(outbox) }}

// Release implements binlog.Held: the log calls it once, when the batch is durable,
// or with an error when it never will be.
func (o *outbox) Release(err error) {
	o.deliver(err)
	outboxes.Put(o)
}

// empty tells whether nobody waits for the batch.
func (o *outbox) empty() bool {
	return len(o.answered) == 0 && len(o.granted) == 0 && len(o.events) == 0
}

// deliver tells the clients, and leaves o empty.
func (o *outbox) deliver(err error) {
	for i, r := range o.changed {
		if err != nil {
			r.Status = Failed
		}
		o.changed[i] = nil
	}
	for i, w := range o.answered {
		o.answered[i] = nil
		w.answered()
	}
	for i, w := range o.granted {
		if err != nil {
			w.grant = Grant{Status: Failed, Shard: w.grant.Shard, Soonest: w.grant.Soonest}
		}
		o.granted[i] = nil
		w.release()
	}
	for i, e := range o.events {
		if err != nil && e.logged && e.event.Kind == Complete {
			// It is not known whether the job is gone.
			e.event.Kind, e.event.Data = Fail, nil
		}
		o.events[i] = sent{}
		e.to.put(e.event)
	}
	o.changed, o.answered, o.granted, o.events = o.changed[:0], o.answered[:0], o.granted[:0], clipped(o.events[:0])
}

// answer notes that a client's chain is answered, with a request of kind op: it is
// told at the end of the batch, or when the log has the batch if op has to wait for
// that.
func (s *Shard) answer(w *Waiter, op Op) {
	if s.awaitsLog(op) {
		s.outbox.answered = append(s.outbox.answered, w)
	} else {
		s.atOnce = append(s.atOnce, w)
	}
}

// awaitsLog tells whether the answer of op waits for the log. Operations between
// router and shard need not: the client learns nothing from them before the command
// that they serve is answered.
func (s *Shard) awaitsLog(op Op) bool {
	return s.log != nil && (op <= PauseTube || op == Take || op == CancelJob || op == DropFunction || op == clean)
}
