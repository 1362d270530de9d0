package binlog

import "slices"

// Sink takes what is read back of one stream, in the order in which it was
// written. Jobs and their bodies are valid until the method returns; their
// strings may be kept.
type Sink interface {
	// Put brings a whole job, found in that segment. The job may be known already:
	// cleaning has then put it again.
	Put(j *Job, segment uint64)
	// Change brings the new state of a job. If the job is not known, nothing but
	// this is known of it.
	Change(m *Meta)
	// Delete says that a job, which may not be known, is no more.
	Delete(id uint64)
	// Drop says that no job is left in the segments before that one.
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
	names        []segmentName // of the files that are there, in order
	begun        uint64        // the newest segment when a server last started; 0 if not known
	synced       uint64        // all blocks before this number were on the disk, as the manifest says; 0 if not known

	// What reading it back has told.
	segments    []Segment
	last        uint64        // no block has a higher sequence number
	lastID      uint64        // no job has a higher id
	oldest      uint64        // the oldest segment that is needed
	tail        segmentName   // the last segment that could be read
	end         int64         // of the last block in the tail
	size        int64         // of the tail's file
	cleanEnd    bool          // behind the tail's last block is nothing, or a block that was cut off
	unbegun     []segmentName // files that a crash has left before anything in them counted
	unread      []segmentName // segments of which nothing can be read
	unsure      segmentName   // the last segment, unbegun ones aside, if it is unread and may never have begun
	lostTail    uint64        // the last segment, if it is known to have begun and its file is missing; else 0
	gaps        []gap         // for the manifest of this start
	gapsChanged bool          // they are not those of the last manifest
}

// previous returns the index of the segment that the header of the next one
// names as the one before it, 0 for none. That is not one that may never have
// begun: once that is known its file is removed, and would be missed.
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
