package shard

import "slices"

// Go's maps and slices never shrink. Those that may have had very many entries (tubes,
// uniques, what comes due) are replaced by a copy when at most fewEntries are left of
// more than manyEntries: so few that it takes no longer than a step, and so seldom that
// it costs nothing.
const (
	manyEntries = 16 << 10
	fewEntries  = stepJobs
)

// removeKey takes k out of *m, which it may replace. *most is the largest number of entries
// that removeKey has seen in it since it was made.
func removeKey[K comparable, V any](m *map[K]V, most *int, k K) {
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

// clipped returns l, which has become shorter, or a copy with less room.
func clipped[E any](l []E) []E {
	if cap(l) <= manyEntries || len(l) > fewEntries {
		return l
	}
	return slices.Clone(l)
}
