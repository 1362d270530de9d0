package binlog

import (
	"math"
	"slices"
	"time"
)

// How a replay finds out what is missing of a stream. Blocks are numbered
// without gaps and each segment names the one before and the one behind it, so
// most losses show as a number that does not follow from the last. Where the
// disk cannot be read, nobody knows how many blocks and job ids are hidden
// there: the stream goes on with numbers above all that there may be, and the
// manifest remembers the gap.

// enter compares the header of a segment with what came before it, and goes on
// from there.
func (r *replayer) enter(h *header) {
	switch {
	case r.lastPassed == 0: // it is the first
	case h.previous > r.lastPassed:
		r.noteAbsent(h.previous)
	case r.lastPassed != r.tail.index: // skipUnread has looked at the end of the tail
	case r.headless && r.end == segmentHeader: // the tail is reported as lost
	case !r.cleanEnd && r.rollsTo != h.index:
		r.reportBadEnd()
	case r.hiddenBlocks == 0 && r.next != 0:
		r.checkEnd(h.first)
	}
	r.next = max(r.next, h.first)
	r.hiddenBlocks, r.hiddenJobs = 0, 0 // the header's numbers are above theirs
	r.lastID = max(r.lastID, h.lastID)
	r.oldest = max(r.oldest, h.oldest)
}

// pass goes on to a segment. If the one before it announced another, that one is
// not there.
func (r *replayer) pass(name segmentName) {
	if r.rollsTo > r.lastPassed && r.rollsTo < name.index {
		r.noteAbsent(r.rollsTo)
	}
	r.lastPassed = name.index
}

// noteAbsent notes that a segment is not there. That is no damage if it was
// dropped, which may be recorded only further on.
func (r *replayer) noteAbsent(index uint64) {
	if !slices.Contains(r.absent, index) {
		r.absent = append(r.absent, index)
	}
}

// hide notes that so many bytes could not be read. A later start may be able to
// read them. So the blocks that this server writes behind them must not have the
// numbers of theirs, or they would be ignored as blocks read before; nor may new
// jobs have the ids of jobs in there, or one of two would be lost. How many of
// each there are is not known, but a block takes at least blockOverhead and a
// put more than a byte, however well it is compressed.
func (r *replayer) hide(bytes int64) {
	r.hiddenBlocks += uint64(bytes)/blockOverhead + 1
	r.hiddenJobs += uint64(bytes)
}

// unbegun tells whether a crash came before the whole header of a segment was on
// the disk, and before any block numbered next or above. It is false if part of
// the file cannot be read. The header ends with the highest byte of a present-day
// time, which is not zero.
func unbegun(sc *scanner, next uint64) bool {
	b := sc.file.header()
	if len(b) == segmentHeader && b[segmentHeader-1] != 0 {
		return false
	}
	ahead := newScanner(sc.file, sc.seed, func(from, to int64) {})
	k, _, _, ok := ahead.next()
	return len(sc.file.holes) == 0 && (!ok || k.seq < next)
}

// knownBegun tells whether the header of a segment is known to have been on the
// disk. A server that syncs writes and syncs the header before the manifest says
// that the segment was begun (see Store.begin), and before the segment in front
// of it says that the stream goes on there (see writer.roll): no crash leaves
// such a segment without a header. Where the server never syncs, a power failure
// may keep what names the segment and lose the header.
func (r *replayer) knownBegun(name segmentName) bool {
	return r.synced != 0 && (name.index == r.begun || name.index == r.rollsTo)
}

// unnamed tells whether a segment may be unbegun although there is one behind it:
// an earlier start could not read it and went on, and since nothing told that it
// had begun, the segment behind it does not name it (see stream.previous).
func (r *replayer) unnamed(name segmentName) bool {
	if !r.store.wasDamaged(name) || r.isLast(name) {
		return false
	}
	next := r.names[slices.Index(r.names, name)+1]
	failures := 1
	file, err := r.store.openHoled(next, &failures)
	if err != nil {
		return false
	}
	defer file.Close()
	h, err := decodeHeader(file.header(), next)
	return err == nil && h.previous < name.index
}

// finish reports what is missing of the stream as a whole and at its end, and
// settles with which numbers it goes on.
func (r *replayer) finish() {
	if len(r.names) == 0 {
		r.loseTail(r.begun)
	} else {
		r.findAbsent()
		r.finishTail()
	}
	r.last = r.highest()
	r.lastID += min(r.hiddenJobs, math.MaxUint64-r.lastID)
	if r.hiddenBlocks > 0 {
		r.addGap()
	}
	r.gaps = slices.DeleteFunc(r.gaps, func(g gap) bool { return g.behind.index < r.oldest })
}

// findAbsent reports the segments in front of the last one that are not there
// though they are needed. Now it is known up to where they were dropped.
func (r *replayer) findAbsent() {
	for _, index := range r.absent {
		if index >= r.oldest {
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
}

// finishTail reports what is missing, or wrong, at the end of the stream.
func (r *replayer) finishTail() {
	last := r.lastBegun()
	switch {
	case r.announced(r.rollsTo, last):
		r.reportMissing(r.rollsTo)
		r.loseTail(r.rollsTo)
	case r.announced(r.begun, last):
		r.reportMissing(r.begun)
		r.loseTail(r.begun)
	case r.headless && r.end == segmentHeader || r.hiddenBlocks > 0: // that is reported already
	case r.cleanEnd && r.next != 0:
		r.checkEnd(r.synced)
	}
	if !r.cleanEnd && r.tail.index != 0 && r.lastPassed == r.tail.index {
		r.reportBadEnd()
	}
}

// lastBegun returns the last segment that is not unbegun, 0 if there is none,
// and notes whether it is unsure.
func (r *replayer) lastBegun() (last uint64) {
	for _, n := range slices.Backward(r.names) {
		if slices.Contains(r.stream.unbegun, n) {
			continue
		}
		if slices.Contains(r.unread, n) && !r.knownBegun(n) {
			r.unsure = n
		}
		return n.index
	}
	return 0
}

// announced tells whether a segment comes behind the last one that had begun, as
// the manifest or that one says, and has no file.
func (r *replayer) announced(index, last uint64) bool {
	return index > last && !slices.ContainsFunc(r.names, func(n segmentName) bool { return n.index == index })
}

// loseTail notes that the last segment is missing. Somebody may put it back. So
// no other segment may take its place in the stream, and the numbers of its
// blocks and the ids of its jobs must not be given again.
func (r *replayer) loseTail(index uint64) {
	r.lostTail = index
	r.hide(r.store.largestSegment())
}

// checkEnd reports the blocks that are missing between the end of the tail and
// the block with the number next, unless they were left out there.
func (r *replayer) checkEnd(next uint64) {
	for i := range r.gaps {
		// The manifest may have the gap behind a later segment, which never began and
		// is gone: a full disk has no room to say that the gap moved.
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

// reportBadEnd reports that what is behind the last block of the tail is neither
// nothing nor what a crash leaves.
func (r *replayer) reportBadEnd() {
	r.report(r.tail, r.end, "the last %d bytes are damaged: %s", r.size-r.end, recordsLost)
}

// highest returns a number that is at least that of any block ever written to the
// stream. If blocks are hidden that is the Unix time in nanoseconds, since nobody
// writes a block a nanosecond. That is above all of them even if a server left
// numbers out itself and found no room to say so, unless the clock was set back.
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

// isGap tells whether the numbers from that one up to that of a block were left
// out in front of it.
func (r *replayer) isGap(from, block uint64) bool {
	return slices.ContainsFunc(r.gaps, func(g gap) bool { return g.from <= from && g.to == block })
}

// moveGaps moves the gap behind a segment that never began, whose file is going
// to be removed, behind the segment before it.
func (r *replayer) moveGaps(name segmentName) {
	for i := range r.gaps {
		if g := &r.gaps[i]; g.behind == name && r.tail.index != 0 {
			g.behind = r.tail
			r.gapsChanged = true // the manifest has to say so before the file is gone
		}
	}
}
