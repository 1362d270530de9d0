package shard

import "slices"

// Go's maps and slices keep the room for all that they once had. Of those that may
// have had very many entries (tubes, uniques, what comes due) a new one is made when
// no more than few are left of many: so few that it takes no longer than a step, and
// so seldom that it costs nothing.
const (
	manyEntries = 16 << 10
	fewEntries  = stepJobs
)

// remove takes k out of m. most is how many entries that has had since it was made, as
// far as remove has seen.
func remove[K comparable, V any](m *map[K]V, most *int, k K) {
	*most = max(*most, len(*m))
	delete(*m, k)
	if *most <= manyEntries || len(*m) > fewEntries {
		return
	}
	left := make(map[K]V, len(*m))
	for k, v := range *m {
		left[k] = v
	}
	*m, *most = left, 0
}

// clipped returns l, which has become shorter, or a copy of it.
func clipped[E any](l []E) []E {
	if cap(l) <= manyEntries || len(l) > fewEntries {
		return l
	}
	return slices.Clone(l)
}
