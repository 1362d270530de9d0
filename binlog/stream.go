package binlog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
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

// replay reads the stream back. One stream may be read beside others.
func (t *stream) replay(st *Store, sink Sink) error {
	r := &replayer{stream: t, store: st, sink: sink, failures: mostFailures}
	defer r.unpacker.close()
	if len(t.names) == 0 {
		r.report(segmentName{t.epoch, t.shard, t.begun}, 0, "this file and all others of its shard are missing: %s", recordsLost)
	}
	names := t.names // skipFile makes new ones
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
	store        *Store
	sink         Sink
	unpacker     unpacker
	records      records
	record       record
	next         uint64   // the sequence number that comes next; 0 if not known
	hiddenBlocks uint64   // how many blocks there may be in what could not be read since
	hiddenJobs   uint64   // how many jobs may have been put there
	rollsTo      uint64   // the segment in which the stream goes on, as last said
	lastPassed   uint64   // the last segment that is there, read or not
	headless     bool     // the header of the tail is damaged
	dump         *dumper  // nil but in Dump
	failures     int      // how many reads may still fail, see holed
	absent       []uint64 // segments that were not there when one behind them was read, see noteAbsent
}

// report reports a damage. If it is in a file of the stream, that is not removed
// when it is needed no more: there may be jobs in it that nobody knows of.
func (r *replayer) report(name segmentName, off int64, format string, args ...any) {
	if slices.Contains(r.names, name) {
		r.store.asideLater(name.String())
	}
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

// segment reads one back.
func (r *replayer) segment(name segmentName) (err error) {
	f, err := r.store.openSegment(name)
	if err != nil {
		return err
	}
	defer f.Close()
	file, err := newHoled(f, &r.failures)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = file.trouble
		}
	}()
	if f, ok := f.(closed); ok {
		file.err = f.err // without trying
		r.skipUnread(name, file)
		return nil
	}
	sc := newScanner(file, segmentSeed(r.store.id, name), func(from, to int64) {
		r.report(name, from, "%d bytes are damaged: %s", to-from, recordsLost)
		if !file.intact(from, to) {
			r.hide(to - from)
		}
	})
	if counts, err := r.header(name, sc); !counts {
		return err
	}
	bytes := r.blocks(name, sc)
	r.rest(name, sc)
	r.segments = append(r.segments, Segment{Index: name.index, Bytes: bytes})
	return nil
}

// header reads what a segment begins with. It reports false if the file is no
// part of what is read back.
func (r *replayer) header(name segmentName, sc *scanner) (counts bool, err error) {
	h, err := decodeHeader(sc.file.header(), name)
	var future versionError
	switch {
	case errors.As(err, &future):
		return false, err
	case err == nil:
		r.enter(&h)
		r.dump.segment(&h)
	case sc.file.allHoles():
		r.skipUnread(name, sc.file)
		return false, nil
	case !errors.Is(err, errHeader):
		r.skipFile(name)
		r.report(name, 0, "%v: the file is ignored", err)
		return false, nil
	case !r.knownBegun(name) && (r.isLast(name) || r.unnamed(name)) && unbegun(sc, r.next):
		// The server went down before anything in it counted.
		r.stream.unbegun = append(r.stream.unbegun, name)
		r.moveGaps(name)
		r.dump.unbegun(name)
		return false, nil
	default:
		r.report(name, 0, "%v: what follows it is read all the same", err)
	}
	r.pass(name)
	r.tail, r.end, r.size, r.headless = name, segmentHeader, sc.size, err != nil
	// Where the header is damaged the version is 0, and any record is read.
	r.records.version1 = h.version == 1
	return true, nil
}

// blocks reads the blocks of a segment, and returns how many bytes they have,
// before compression.
func (r *replayer) blocks(name segmentName, sc *scanner) (bytes int64) {
	for {
		k, at, stored, ok := sc.next()
		if !ok {
			return bytes
		}
		if r.next == 0 {
			r.next = k.seq
		}
		if k.seq < r.next {
			r.report(name, at, "a block of %d bytes has been read before, or is out of place: it is ignored", sc.pos-at)
			continue
		}
		if k.seq > r.next && at == r.end && r.hiddenBlocks == 0 && !(r.headless && at == segmentHeader && r.isGap(r.next, k.seq)) {
			r.report(name, at, "%s missing in front of this one: %s", blocksAre(k.seq-r.next), recordsLost)
		}
		r.next, r.end = k.seq+1, sc.pos
		r.hiddenBlocks = 0 // its number tells how many they were
		bytes += r.block(name, at, &k, stored)
	}
}

// block hands on what is in a block, and returns how many bytes it has, before
// compression.
func (r *replayer) block(name segmentName, at int64, k *block, stored []byte) (bytes int64) {
	plain, err := r.unpacker.unpack(k, stored)
	if err == nil {
		r.dump.block(name, at, k, plain, r.records.version1)
		err = r.apply(plain, name.index)
	}
	if err != nil {
		r.report(name, at, "a block of %d bytes is damaged (%v): %s", int64(len(stored))+blockHeader, err, recordsLost)
	}
	return int64(len(plain)) + blockOverhead
}

// rest looks at what is behind the last block of a segment, and tells what could
// not be read of all of it.
func (r *replayer) rest(name segmentName, sc *scanner) {
	r.cleanEnd = sc.endsClean()
	for _, h := range sc.file.holes {
		r.report(name, h.from, "%d bytes cannot be read: %v", h.to-h.from, sc.file.err)
	}
	if !sc.file.intact(sc.pos, sc.size) {
		r.hide(sc.size - sc.pos)
	}
	r.dump.tail(name, sc, r.cleanEnd)
}

// unbegun tells whether the header of a segment never came to the disk, all of
// it, nor any block that could come next; so far as all of the file can be read.
// The header ends with the highest byte of a time of this age, which is not zero.
func unbegun(sc *scanner, next uint64) bool {
	b := sc.file.header()
	if len(b) == segmentHeader && b[segmentHeader-1] != 0 {
		return false
	}
	ahead := newScanner(sc.file, sc.seed, func(from, to int64) {})
	k, _, _, ok := ahead.next()
	return len(sc.file.holes) == 0 && (!ok || k.seq < next)
}

// knownBegun tells whether it is known of a segment that its header came to the disk.
// A server that syncs has written and synced it before the manifest says that it
// was begun (see Store.begin), and before the segment in front of it says that
// the stream goes on there (see writer.roll): so a crash leaves no such segment
// without one. Where the server never syncs, the manifest and what is in front
// may be on the disk, and the header not.
func (r *replayer) knownBegun(name segmentName) bool {
	return r.synced != 0 && (name.index == r.begun || name.index == r.rollsTo)
}

// unnamed tells whether a segment is not the last any more for no other reason than
// that a start could not read it, and had nothing that tells that it had begun: then
// the segment behind it does not name it, see previous.
func (r *replayer) unnamed(name segmentName) bool {
	if !r.store.wasDamaged(name) || r.isLast(name) {
		return false
	}
	next := r.names[slices.Index(r.names, name)+1]
	f, err := r.store.openSegment(next)
	if err != nil {
		return false
	}
	defer f.Close()
	failures := 1
	file, err := newHoled(f, &failures)
	if err != nil {
		return false
	}
	h, err := decodeHeader(file.header(), next)
	return err == nil && h.previous < name.index
}

// moveGaps has what was left out behind a segment that had not begun, and goes, be
// behind the one before it.
func (r *replayer) moveGaps(name segmentName) {
	for i := range r.gaps {
		if g := &r.gaps[i]; g.behind == name && r.tail.index != 0 {
			g.behind = r.tail
			r.gapsChanged = true // the manifest has to say so before the file is gone
		}
	}
}

// hide notes that so many bytes could not be read. The next server may be able
// to: what this one writes behind them must not have the numbers of their
// blocks, or it would be taken for what was there before. Nor may new jobs have the
// ids of those in them, or one of two would be lost. How many there are is not
// known, but a put takes more than a byte, however it is compressed.
func (r *replayer) hide(bytes int64) {
	r.hiddenBlocks += uint64(bytes)/blockOverhead + 1
	r.hiddenJobs += uint64(bytes)
}

// skipUnread goes on behind a segment of which nothing can be read. It stays a
// part of the stream: the next start may be able to read it. Until it is needed no
// more nothing that was written behind it goes, so it is then as if it had been
// read all the time.
func (r *replayer) skipUnread(name segmentName, f *holed) {
	r.report(name, 0, "the file cannot be read (%v): the next start tries again", f.err)
	if r.tail.index != 0 && r.lastPassed == r.tail.index && !r.cleanEnd && r.rollsTo != name.index {
		r.reportBadEnd()
	}
	r.pass(name)
	r.unread = append(r.unread, name)
	r.hide(f.size)
}

// pass goes on to a segment. The one before it may have announced another, which
// is not there then.
func (r *replayer) pass(name segmentName) {
	if r.rollsTo > r.lastPassed && r.rollsTo < name.index {
		r.noteAbsent(r.rollsTo)
	}
	r.lastPassed = name.index
}

// noteAbsent notes that a segment is not there. That is no damage if it was dropped,
// which may be told further on.
func (r *replayer) noteAbsent(index uint64) {
	if !slices.Contains(r.absent, index) {
		r.absent = append(r.absent, index)
	}
}

// skipFile takes a file off the stream that is none of its segments: it stays
// where it is.
func (r *replayer) skipFile(name segmentName) {
	r.names = slices.DeleteFunc(slices.Clone(r.names), func(n segmentName) bool { return n == name })
}

func (r *replayer) isLast(name segmentName) bool { return name == r.names[len(r.names)-1] }

// enter compares the header of a segment with what came before it.
func (r *replayer) enter(h *header) {
	switch {
	case r.lastPassed == 0:
	case h.previous > r.lastPassed:
		r.noteAbsent(h.previous)
	case r.lastPassed != r.tail.index: // how that ends was looked at when one was skipped
	case r.headless && r.end == segmentHeader: // it is told that all of it is lost
	case !r.cleanEnd && r.rollsTo != h.index:
		r.reportBadEnd()
	case r.hiddenBlocks == 0 && r.next != 0:
		r.checkEnd(h.first)
	}
	if h.first > r.next {
		r.next = h.first
	}
	r.hiddenBlocks, r.hiddenJobs = 0, 0 // it knows how many they were
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
			r.rollsTo = rec.number
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
	defer func() {
		r.last = r.highest()
		r.lastID += min(r.hiddenJobs, math.MaxUint64-r.lastID)
		if r.hiddenBlocks > 0 {
			r.addGap()
		}
		r.gaps = slices.DeleteFunc(r.gaps, func(g gap) bool { return g.behind.index < r.oldest })
	}()
	if len(r.names) == 0 {
		r.loseTail(r.begun)
		return
	}
	for _, index := range r.absent {
		if index >= r.oldest { // it was not dropped since
			r.reportMissing(index)
		}
	}
	if first := r.names[0]; r.oldest != 0 && first.index > r.oldest {
		r.reportMissing(r.oldest)
	}
	for _, n := range r.names {
		if n.index < r.oldest && r.store.wasDamaged(n) {
			r.store.asideLater(n.String()) // it was dropped before all of it was read
		}
	}
	there := func(index uint64) bool {
		return slices.ContainsFunc(r.names, func(n segmentName) bool { return n.index == index })
	}
	last := uint64(0) // of those that had begun
	for _, n := range r.names {
		if slices.Contains(r.unbegun, n) {
			continue
		}
		last = n.index
		r.unsure = segmentName{}
		if slices.Contains(r.unread, n) && !r.knownBegun(n) {
			r.unsure = n
		}
	}
	switch {
	case r.rollsTo > last && !there(r.rollsTo):
		r.reportMissing(r.rollsTo)
		r.loseTail(r.rollsTo)
	case r.begun > last && !there(r.begun):
		r.reportMissing(r.begun)
		r.loseTail(r.begun)
	case r.headless && r.end == segmentHeader || r.hiddenBlocks > 0: // that is told
	case r.cleanEnd && r.next != 0:
		r.checkEnd(r.synced)
	}
	if !r.cleanEnd && r.tail.index != 0 && r.lastPassed == r.tail.index {
		r.reportBadEnd()
	}
}

// highest returns a number that no block is above which was written to the stream.
// If something is hidden that is the time in nanoseconds, which is above all that
// there may be, also of a server that left numbers out itself and could not say so:
// nobody writes a block a nanosecond. Only where the clock was set back it is not.
func (r *replayer) highest() uint64 {
	next := max(r.next, r.synced, 1)
	for _, g := range r.gaps {
		next = max(next, g.to)
	}
	if r.hiddenBlocks > 0 {
		if now := uint64(time.Now().UnixNano()); now > next {
			next = now
		} else {
			next += r.hiddenBlocks
		}
	}
	return next - 1
}

// addGap notes that the stream goes on behind what could not be read.
func (r *replayer) addGap() {
	r.gapsChanged = true
	g := gap{segmentName{r.epoch, r.shard, max(r.lastPassed, r.lostTail)}, max(r.next, r.synced), r.last + 1}
	for i, old := range r.gaps {
		if old.behind == g.behind {
			g.from = max(g.from, old.from)
			r.gaps[i] = g
			return
		}
	}
	r.gaps = append(r.gaps, g)
}

// isGap tells whether numbers from that one on were left out in front of a block.
func (r *replayer) isGap(from, block uint64) bool {
	return slices.ContainsFunc(r.gaps, func(g gap) bool { return g.from <= from && g.to == block })
}

// checkEnd compares where the tail ends with the number of the block that comes next.
func (r *replayer) checkEnd(next uint64) {
	for i := range r.gaps {
		// It may be behind one that had not begun, and is gone: a full disk has no room
		// to say that it moved.
		if g := &r.gaps[i]; g.behind.index >= r.tail.index && g.to == next {
			next = g.from
			g.from = max(g.from, r.next)
		}
	}
	if r.next < next {
		r.report(r.tail, r.end, "the end of the file is cut off, %s missing: %s", blocksAre(next-r.next), recordsLost)
	}
}

// reportMissing reports that a segment is not there.
func (r *replayer) reportMissing(index uint64) {
	r.report(segmentName{r.epoch, r.shard, index}, 0, "the file is missing: %s", recordsLost)
}

// loseTail notes that the last segment is missing. It may be put back: then it must be
// nobody's place, nor any number or id from it have been given again.
func (r *replayer) loseTail(index uint64) {
	r.lostTail = index
	r.hide(r.store.largestSegment())
}

// reportBadEnd reports what is behind the last block of the tail, and is neither
// nothing nor what a crash leaves.
func (r *replayer) reportBadEnd() {
	r.report(r.tail, r.end, "the last %d bytes are damaged: %s", r.size-r.end, recordsLost)
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
