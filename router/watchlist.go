package router

import (
	"slices"

	"github.com/sheafq/sheaf/shard"
)

// watchList is what a client watches, in the order of the reference: a new tube
// comes last, and the last one takes the place of one that is ignored. A worker of
// Gearman may watch very many.
type watchList struct {
	tubes []*shard.Tube
	at    map[string]int // the index by name, if there are many; else nil
}

// fewTubes is how many tubes are searched without a map.
const fewTubes = 16

// index returns where the tube of that name is, -1 if it is not there.
func (l *watchList) index(name string) int {
	if l.at != nil {
		if i, ok := l.at[name]; ok {
			return i
		}
		return -1
	}
	for i, t := range l.tubes {
		if t.Name == name {
			return i
		}
	}
	return -1
}

// add enters t, which is not there.
func (l *watchList) add(t *shard.Tube) {
	l.tubes = append(l.tubes, t)
	switch {
	case l.at != nil:
		l.at[t.Name] = len(l.tubes) - 1
	case len(l.tubes) > fewTubes:
		l.at = make(map[string]int, 2*fewTubes)
		for i, t := range l.tubes {
			l.at[t.Name] = i
		}
	}
}

// remove takes out the tube with that index, and returns it.
func (l *watchList) remove(i int) *shard.Tube {
	t, last := l.tubes[i], len(l.tubes)-1
	l.tubes[i] = l.tubes[last]
	l.tubes[last] = nil
	l.tubes = l.tubes[:last]
	if l.at != nil {
		delete(l.at, t.Name)
		if i < last {
			l.at[l.tubes[i].Name] = i
		}
		if last <= fewTubes/2 {
			l.at, l.tubes = nil, slices.Clone(l.tubes)
		}
	}
	return t
}
