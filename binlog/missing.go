package binlog

import (
	"math"
	"slices"
	"time"
)

// How a replay finds out that something of a stream is missing. Blocks and
// segments each name what comes next to them, so most loss shows as a number
// that does not follow from the one before. Where the disk cannot be read it is
// not known how many blocks and job ids there were, and the stream goes on with
// numbers above all that there may be: a gap, which the manifest remembers.

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

// hide notes that so many bytes could not be read. The next server may be able
// to: what this one writes behind them must not have the numbers of their
// blocks, or it would be taken for what was there before. Nor may new jobs have the
// ids of those in them, or one of two would be lost. How many there are is not
// known, but a put takes more than a byte, however it is compressed.
func (r *replayer) hide(bytes int64) {
	r.hiddenBlocks += uint64(bytes)/blockOverhead + 1
	r.hiddenJobs += uint64(bytes)
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

// loseTail notes that the last segment is missing. It may be put back: then it must be
// nobody's place, nor any number or id from it have been given again.
func (r *replayer) loseTail(index uint64) {
	r.lostTail = index
	r.hide(r.store.largestSegment())
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

// reportBadEnd reports what is behind the last block of the tail, and is neither
// nothing nor what a crash leaves.
func (r *replayer) reportBadEnd() {
	r.report(r.tail, r.end, "the last %d bytes are damaged: %s", r.size-r.end, recordsLost)
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
