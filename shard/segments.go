package shard

// segment is what a shard knows of a segment of its log.
type segment struct {
	index uint64
	bytes int64 // of blocks, before compression
	jobs  int   // those whose last full record is in it; later segments may have changes of them
	live  int64 // the sum of their weights; counted since the shard began
}

// segments are those of a shard's log, oldest first. A job names its segment by
// the lower 32 bits of the index.
type segments []segment

// last returns the newest segment.
func (l segments) last() *segment { return &l[len(l)-1] }

// add adds a segment behind the others, if it is not there yet.
func (l *segments) add(index uint64) {
	if n := len(*l); n == 0 || (*l)[n-1].index < index {
		*l = append(*l, segment{index: index})
	}
}

// of returns the segment that a job names by file; it must be there.
func (l segments) of(file uint32) *segment {
	i, n := 0, len(l)-1
	if uint32(l[n].index) == file {
		return &l[n]
	}
	for i < n {
		if m := (i + n) / 2; uint32(l[m].index) < file {
			i = m + 1
		} else {
			n = m
		}
	}
	return &l[i]
}
