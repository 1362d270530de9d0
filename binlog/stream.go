package binlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

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
	segments []Segment
	last     uint64        // sequence number of the last block, or above it
	lastID   uint64        // the highest job id
	oldest   uint64        // the oldest segment that is needed
	tail     segmentName   // of the last segment that was read
	end      int64         // of the last block in it
	size     int64         // of its file
	torn     bool          // what follows it is nothing, or a block that was cut off
	unbegun  []segmentName // files that a crash has left before they were anything
}

// replay reads the stream back. One stream may be read beside others.
func (t *stream) replay(st *Store, sink Sink) error {
	r := &replayer{stream: t, store: st, sink: sink}
	defer r.unpacker.close()
	if len(t.names) == 0 {
		r.report(segmentName{t.epoch, t.shard, t.begun}, 0, "this file and all others of its shard are missing: %s", recordsLost)
	}
	names := t.names
	for _, name := range names {
		if err := r.segment(name); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	r.finish()
	return nil
}

// replayer is the state of a replay.
type replayer struct {
	*stream
	store    *Store
	sink     Sink
	unpacker unpacker
	records  records
	record   record
	next     uint64  // the sequence number that comes next; 0 if not known
	hidden   uint64  // how many blocks there may be in what could not be read since
	rolled   uint64  // the segment in which the stream goes on, as last said
	headless bool    // the header of the tail is damaged
	dump     *dumper // nil but in Dump
}

func (r *replayer) report(name segmentName, off int64, format string, args ...any) {
	r.store.report(Damage{name.String(), off, fmt.Sprintf(format, args...)})
}

// recordsLost is what damage means to those who have jobs there.
const recordsLost = "the jobs and changes recorded there are lost"

func blocksAre(n uint64) string {
	if n == 1 {
		return "1 block is"
	}
	return fmt.Sprintf("%d blocks are", n)
}

func (r *replayer) segment(name segmentName) error {
	f, err := r.store.fs.Open(filepath.Join(r.store.cfg.Dir, name.String()))
	if err != nil {
		return err
	}
	defer f.Close()
	sc, err := newScanner(f, segmentSeed(r.store.id, name), func(from, to int64) {
		r.report(name, from, "%d bytes are damaged: %s", to-from, recordsLost)
	})
	if err != nil {
		return err
	}
	h, err := decodeHeader(sc.peek(0, segmentHeader), name)
	headless := false
	var future versionError
	switch {
	case errors.As(err, &future):
		return err
	case sc.err != nil:
		r.report(name, 0, "the file cannot be read: %v", sc.err)
		r.hide(sc.size)
		r.leave(name)
		return nil
	case err != nil && !errors.Is(err, errHeader):
		r.report(name, 0, "%v: the file is ignored", err)
		r.leave(name)
		return nil
	case err != nil && r.isLast(name) && !r.told(name) && unbegun(f, sc, r.next):
		// The server went down before anything in it counted.
		r.stream.unbegun = append(r.stream.unbegun, name)
		r.dump.unbegun(name)
		return nil
	case err != nil:
		r.report(name, 0, "%v: what follows it is read all the same", err)
		headless = true
	default:
		r.begin(&h)
		r.dump.segment(&h)
	}
	r.tail, r.end, r.size, r.headless = name, segmentHeader, sc.size, headless
	// Where the header is damaged the version is 0, and any record is read.
	r.records.old = h.version == 1
	seg := Segment{Index: name.index}
	for {
		k, at, stored, ok := sc.next()
		if !ok {
			break
		}
		if r.next == 0 {
			r.next = k.seq
		}
		if k.seq < r.next {
			r.report(name, at, "a block of %d bytes has been read before, or is out of place: it is ignored", sc.pos-at)
			continue
		}
		if k.seq > r.next && at == r.end {
			r.report(name, at, "%s missing in front of this one: %s", blocksAre(k.seq-r.next), recordsLost)
		}
		r.next = k.seq + 1
		r.end = sc.pos
		plain, err := r.unpacker.unpack(&k, stored)
		if err == nil {
			r.dump.block(name, at, &k, plain, r.records.old)
			err = r.apply(plain, name.index)
		}
		if err != nil {
			r.report(name, at, "a block of %d bytes is damaged (%v): %s", sc.pos-at, err, recordsLost)
		}
		seg.Bytes += int64(len(plain)) + blockOverhead
	}
	if sc.err != nil {
		r.report(name, sc.pos, "the rest of the file cannot be read: %v", sc.err)
		r.hide(sc.size - sc.pos)
	}
	r.torn = sc.tail()
	r.dump.tail(name, sc, r.torn)
	r.segments = append(r.segments, seg)
	return nil
}

// unbegun tells whether the header of a segment never came to the disk, all of
// it, nor any block that could come next. It ends with the highest byte of a
// time of this age, which is not zero.
func unbegun(f File, sc *scanner, next uint64) bool {
	b := sc.peek(0, segmentHeader)
	if len(b) == segmentHeader && b[segmentHeader-1] != 0 {
		return false
	}
	ahead, err := newScanner(f, sc.seed, func(from, to int64) {})
	if err != nil {
		return false
	}
	k, _, _, ok := ahead.next()
	return !ok && ahead.err == nil || ok && k.seq < next
}

// told tells whether it is known of a segment that its header came to the disk.
// A server that syncs has written and synced it before the manifest says that it
// was begun (see Store.begin), and before the segment in front of it says that
// the stream goes on there (see writer.roll): so a crash leaves no such segment
// without one. Where the server never syncs, the manifest and what is in front
// may be on the disk, and the header not.
func (r *replayer) told(name segmentName) bool {
	return r.synced != 0 && (name.index == r.begun || name.index == r.rolled)
}

// hide notes that so many bytes could not be read. The next server may be able
// to: what this one writes behind them must not have the numbers of their
// blocks, or it would be taken for what was there before.
func (r *replayer) hide(bytes int64) { r.hidden += uint64(bytes)/blockOverhead + 1 }

// leave takes a file off the stream: it stays where it is.
func (r *replayer) leave(name segmentName) {
	r.names = slices.DeleteFunc(slices.Clone(r.names), func(n segmentName) bool { return n == name })
}

func (r *replayer) isLast(name segmentName) bool { return name == r.names[len(r.names)-1] }

// begin compares the header of a segment with what came before it.
func (r *replayer) begin(h *header) {
	switch {
	case r.tail.index == 0:
	case h.previous != r.tail.index && h.previous > r.tail.index:
		r.missing(h.previous)
	case r.headless && r.end == segmentHeader: // it is told that all of it is lost
	case !r.torn && r.rolled != h.index:
		r.badEnd()
	case r.next != 0 && h.first > r.next:
		r.cutOff(h.first)
	}
	if h.first > r.next {
		r.next = h.first
	}
	r.hidden = 0 // it knows how many they were
	r.lastID = max(r.lastID, h.lastID)
	r.oldest = max(r.oldest, h.oldest)
}

// apply hands the records of a block on.
func (r *replayer) apply(plain []byte, segment uint64) error {
	r.records.rest, r.records.bad = plain, false
	for r.records.next(&r.record) {
		switch rec := &r.record; rec.kind {
		case kindPut:
			r.lastID = max(r.lastID, rec.job.ID)
			r.sink.Put(&rec.job, segment)
		case kindChange:
			r.lastID = max(r.lastID, rec.job.ID)
			r.sink.Change(&rec.job.Meta)
		case kindDelete:
			r.lastID = max(r.lastID, rec.number)
			r.sink.Delete(rec.number)
		case kindDrop:
			r.oldest = max(r.oldest, rec.number)
			r.sink.Drop(rec.number)
		case kindRoll:
			r.rolled = rec.number
			r.next-- // the next block has the same number, see writer.roll
		}
	}
	if r.records.bad {
		return errors.New("a record makes no sense")
	}
	return nil
}

// finish looks at how the stream begins and ends.
func (r *replayer) finish() {
	r.last = max(r.next, r.synced, 1) - 1 + r.hidden
	if len(r.names) == 0 {
		return
	}
	if first := r.names[0]; r.oldest != 0 && first.index > r.oldest {
		r.missing(r.oldest)
	}
	there := func(index uint64) bool {
		return slices.ContainsFunc(r.names, func(n segmentName) bool { return n.index == index })
	}
	last := uint64(0) // of those that had begun
	for _, n := range r.names {
		if !slices.Contains(r.unbegun, n) {
			last = n.index
		}
	}
	switch {
	case r.rolled > last && !there(r.rolled):
		r.missing(r.rolled)
	case r.begun > last && !there(r.begun):
		r.missing(r.begun)
	case r.headless && r.end == segmentHeader || r.hidden > 0: // that is told
	case r.torn && r.next != 0 && r.next < r.synced:
		r.cutOff(r.synced)
	}
	if !r.torn && r.tail.index != 0 {
		r.badEnd()
	}
}

// cutOff reports that the tail ends before a block that comes in front of that
// one.
func (r *replayer) cutOff(next uint64) {
	r.report(r.tail, r.end, "the end of the file is cut off, %s missing: %s", blocksAre(next-r.next), recordsLost)
}

// missing reports that a segment is not there.
func (r *replayer) missing(index uint64) {
	r.report(segmentName{r.epoch, r.shard, index}, 0, "the file is missing: %s", recordsLost)
}

// badEnd reports what is behind the last block of the tail, and is neither
// nothing nor what a crash leaves.
func (r *replayer) badEnd() {
	r.report(r.tail, r.end, "the last %d bytes are damaged: %s", r.size-r.end, recordsLost)
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
