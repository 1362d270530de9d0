package shard

import "slices"

// roster is the list of all tubes of all shards, kept by the first shard in
// the order of the reference: the default tube is the first, a new tube comes
// last, and the last one takes the place of one that goes. The other shards
// send word before they answer the command that made or ended a tube, so
// whoever has seen that answer finds it in the list.
type roster struct {
	names []string
	index map[string]int
	most  int // how many there were, see removeKey
}

func newRoster() *roster {
	r := &roster{index: make(map[string]int)}
	r.add(DefaultTube)
	return r
}

func (r *roster) add(name string) {
	r.index[name] = len(r.names)
	r.names = append(r.names, name)
}

func (r *roster) remove(name string) {
	i, last := r.index[name], len(r.names)-1
	r.names[i] = r.names[last]
	r.index[r.names[i]] = i
	r.names[last] = ""
	r.names = clipped(r.names[:last])
	removeKey(&r.index, &r.most, name)
}

func (r *roster) list() []string { return slices.Clone(r.names) }

// tellRoster tells the roster of a tube that was made or is gone. The default tube is
// always in the list, as the first: it may be made after others, which the log or Gearman
// has named.
func (s *Shard) tellRoster(op Op, name string) {
	switch {
	case name == DefaultTube:
	case s.roster == nil:
		s.cfg.First.Send(&Request{Op: op, Name: name})
	case op == tubeBorn:
		s.roster.add(name)
	default:
		s.roster.remove(name)
	}
}
