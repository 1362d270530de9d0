package binlog

import (
	"errors"
	"fmt"
	"slices"
)

// Reading one stream back: segment after segment, block after block, record
// after record into the Sink. missing.go finds out what is missing.

// replay reads the stream back. Other streams may be read at the same time.
func (t *stream) replay(st *Store, sink Sink) error {
	r := &replayer{stream: t, store: st, sink: sink, failures: mostFailures}
	defer r.unpacker.close()
	if len(t.names) == 0 {
		r.report(segmentName{t.epoch, t.shard, t.begun}, 0, "this file and all others of its shard are missing: %s", recordsLost)
	}
	names := t.names // skipFile replaces t.names
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
	hiddenBlocks uint64   // how many blocks may be in what could not be read since the last one
	hiddenJobs   uint64   // how many jobs may have been put there
	rollsTo      uint64   // the segment in which the stream goes on, by the last roll
	lastPassed   uint64   // the last segment that is there, read or not
	headless     bool     // the header of the tail is damaged
	dump         *dumper  // nil but in Dump
	failures     int      // how many reads may still fail, see holed
	absent       []uint64 // segments that were named and are not there, see noteAbsent
}

// report reports a damage. If it is in a file of the stream, that file is put
// aside and not removed when it is needed no more: there may be jobs in it that
// nobody knows of.
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

// segment reads one segment back.
func (r *replayer) segment(name segmentName) (err error) {
	file, err := r.store.openHoled(name, &r.failures)
	if err != nil {
		return err
	}
	defer file.Close()
	defer func() {
		if err == nil {
			err = file.trouble
		}
	}()
	if f, ok := file.file.(closed); ok {
		file.err = f.err // there is nothing to try
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
	// Where the header is damaged h.version is 0, and records of any version are read.
	r.records.version1 = h.version == 1
	return true, nil
}

// blocks reads the blocks of a segment, and returns how many bytes they have
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
		// What the scanner had to skip in front of the block is reported already.
		if k.seq > r.next && at == r.end && r.hiddenBlocks == 0 && !(r.headless && at == segmentHeader && r.isGap(r.next, k.seq)) {
			r.report(name, at, "%s missing in front of this one: %s", blocksAre(k.seq-r.next), recordsLost)
		}
		r.next, r.end = k.seq+1, sc.pos
		r.hiddenBlocks = 0 // this number tells how many they were
		bytes += r.block(name, at, &k, stored)
	}
}

// block hands on what is in a block, and returns how many bytes it has before
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

// apply hands the records of a block to the sink.
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

// rest looks at what is behind the last block of a segment, and reports what of
// the whole segment could not be read.
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

// skipUnread goes on behind a segment of which nothing can be read. It stays a
// part of the stream, since the next start may be able to read it: nothing that
// was written behind it goes before it does, so it will fit in as if it had been
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

// skipFile takes a file off the stream that is none of its segments. The file
// stays where it is.
func (r *replayer) skipFile(name segmentName) {
	r.names = slices.DeleteFunc(slices.Clone(r.names), func(n segmentName) bool { return n == name })
}

func (r *replayer) isLast(name segmentName) bool { return name == r.names[len(r.names)-1] }
