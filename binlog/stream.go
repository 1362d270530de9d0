package binlog

import "slices"

// Sink takes what is read back of one stream, in the order in which it was
// written. Jobs and their bodies are good until the method returns; strings in
// them are for good.
type Sink interface {
	// Put brings a job, all of it, which may be known already. The segment is
	// the one that it is in.
	Put(j *Job, segment uint64)
	// Change brings what a job has become. It may not be known: then nothing is
	// known of it but that.
	Change(m *Meta)
	// Delete says that a job, which may not be known, is no more.
	Delete(id uint64)
	// Drop says that no job is in a segment before that one any more.
	Drop(segment uint64)
}

// Segment is a part of a stream that was read back.
type Segment struct {
	Index uint64
	Bytes int64 // of blocks, before compression
}

// stream is what one shard wrote in one epoch.
type stream struct {
	epoch, shard uint32
	names        []segmentName // of the segments that there are, in order
	begun        uint64        // the segment that was the newest when a server last started, 0 if not known
	synced       uint64        // all blocks before that one were on the disk, as the manifest says; 0 if not known

	// What reading it back has told.
	segments    []Segment
	last        uint64        // sequence number of the last block, or above it
	lastID      uint64        // the highest job id
	oldest      uint64        // the oldest segment that is needed
	tail        segmentName   // of the last segment that was read
	end         int64         // of the last block in it
	size        int64         // of its file
	cleanEnd    bool          // what follows it is nothing, or a block that was cut off
	unbegun     []segmentName // files that a crash has left before they were anything
	unread      []segmentName // those of which nothing can be read
	unsure      segmentName   // the last but for those, if it is unread and nothing tells that it had begun
	lostTail    uint64        // the last segment, if it is known to have been there and is not; else 0
	gaps        []gap         // that the manifest of this start has
	gapsChanged bool          // one of them is new
}

// previous returns the segment that the next one of the stream says is before it, 0
// for none. It does not say so of one that may never have begun: it would be missed
// when that is known, and the file is removed.
func (t *stream) previous() uint64 {
	names := t.names
	if n := len(names); n > 0 && names[n-1] == t.unsure {
		names = names[:n-1]
	}
	if len(names) == 0 {
		return t.lostTail
	}
	return max(names[len(names)-1].index, t.lostTail)
}

// drop takes the segments before that one off the list of the stream, and
// returns them.
func (t *stream) drop(before uint64) []segmentName {
	i := slices.IndexFunc(t.names, func(n segmentName) bool { return n.index >= before })
	if i < 0 {
		i = len(t.names)
	}
	gone := slices.Clone(t.names[:i])
	t.names = slices.Delete(t.names, 0, i)
	return gone
}
