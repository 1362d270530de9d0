package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A segment: its name, its header, and the file as it is written.

// Version is the version of the format that is written, and the newest that is
// read; all before it are read as well. Version 2 brought the jobs of Gearman.
//
// A later one has to keep the sums of the header and the manifest as they are,
// or it is taken for this one with a flipped bit, see fromFuture.
const Version = 2

// minSegment is the smallest size of a segment, in bytes.
const minSegment = 4096

// segmentName is the name of a segment's file: who wrote it, and its place among
// all segments of the directory.
type segmentName struct {
	epoch uint32 // of the directory; a new one begins when streams are rearranged
	shard uint32 // whose stream it belongs to
	index uint64 // from 1, never used again
}

func (n segmentName) String() string {
	return fmt.Sprintf("segment.%d.%d.%08d", n.epoch, n.shard, n.index)
}

// maxIndex is the highest index of a segment. No directory gets that far, so a file
// with a higher one is not ours.
const maxIndex = 1<<31 - 1

// farOff tells whether a name has a number so high that it is hardly ours: the file
// needs an intact header to be believed.
func (n segmentName) farOff() bool { return max(uint64(n.epoch), n.index) > maxIndex/2 }

// parseSegmentName is the inverse of segmentName.String.
func parseSegmentName(s string) (n segmentName, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return n, false
	}
	epoch, err1 := strconv.ParseUint(parts[1], 10, 32)
	shard, err2 := strconv.ParseUint(parts[2], 10, 32)
	index, err3 := strconv.ParseUint(parts[3], 10, 64)
	n = segmentName{uint32(epoch), uint32(shard), index}
	return n, errors.Join(err1, err2, err3) == nil && index <= maxIndex && n.String() == s
}

// header begins a segment; the package comment draws it.
type header struct {
	segmentName
	version  uint32 // as it was read; Version is written
	shards   uint32 // streams in the epoch
	previous uint64 // segment of the stream, 0 for none
	oldest   uint64 // segment of the stream that was needed when this one began
	first    uint64 // sequence number of its first block
	lastID   uint64 // at least as high as any job id in the segments before it
	id       uint64 // of the directory
	created  int64  // nanoseconds of Unix time
}

const (
	segmentMagic  = "sheaflog"
	segmentHeader = 88
)

func (h *header) encode() []byte {
	b := make([]byte, segmentHeader)
	le := binary.LittleEndian
	copy(b, segmentMagic)
	le.PutUint32(b[8:], Version)
	le.PutUint64(b[16:], h.index)
	le.PutUint32(b[24:], h.epoch)
	le.PutUint32(b[28:], h.shard)
	le.PutUint32(b[32:], h.shards)
	le.PutUint64(b[40:], h.previous)
	le.PutUint64(b[48:], h.oldest)
	le.PutUint64(b[56:], h.first)
	le.PutUint64(b[64:], h.lastID)
	le.PutUint64(b[72:], h.id)
	le.PutUint64(b[80:], uint64(h.created))
	le.PutUint32(b[12:], headerSum(b))
	return b
}

// headerSum covers all but the magic and itself.
func headerSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[8:12], castagnoli), castagnoli, b[16:segmentHeader])
}

var errHeader = fmt.Errorf("the header, %d bytes, is damaged", segmentHeader)

// versionError says that a file is of a format that this program does not know.
type versionError struct {
	file    string
	version uint64
}

func (e versionError) Error() string {
	return fmt.Sprintf("%s has format %d, and this sheafd knows formats up to %d: use the newer sheafd that wrote it", e.file, e.version, Version)
}

// fromFuture tells whether the version in a file is a later one than this program
// knows; intact is whether the sum over it is right. If the sum is wrong, a version
// that is one bit away from a known one is taken for damage.
func fromFuture(version uint64, intact bool) bool {
	if version <= Version {
		return false
	}
	for known := uint64(1); known <= Version && !intact; known++ {
		if bits.OnesCount64(version^known) == 1 {
			return false
		}
	}
	return true
}

// decodeHeader reads the header of the file of that name. The error is a
// versionError if the format is newer than ours, errHeader if the header is
// damaged, and another one if it is that of another segment.
func decodeHeader(b []byte, name segmentName) (header, error) {
	h := header{segmentName: name}
	if len(b) < segmentHeader || string(b[:8]) != segmentMagic {
		return h, errHeader
	}
	le := binary.LittleEndian
	version := le.Uint32(b[8:])
	intact := le.Uint32(b[12:]) == headerSum(b)
	if fromFuture(uint64(version), intact) {
		return h, versionError{name.String(), uint64(version)}
	}
	if !intact || version == 0 {
		return h, errHeader
	}
	h = header{
		segmentName: segmentName{le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint64(b[16:])},
		version:     version,
		shards:      le.Uint32(b[32:]),
		previous:    le.Uint64(b[40:]),
		oldest:      le.Uint64(b[48:]),
		first:       le.Uint64(b[56:]),
		lastID:      le.Uint64(b[64:]),
		id:          le.Uint64(b[72:]),
		created:     int64(le.Uint64(b[80:])),
	}
	if h.segmentName != name {
		return h, fmt.Errorf("it is %s under another name", h.segmentName)
	}
	return h, nil
}

// tornHeader tells whether a crash may leave a file that begins with b: its header
// is not there, or cut off. A whole header ends with the highest byte of a
// present-day time, which is not zero.
func tornHeader(b []byte) bool {
	if len(b) >= segmentHeader && b[segmentHeader-1] != 0 {
		return false
	}
	magic := bytes.TrimRight(b[:min(len(b), len(segmentMagic))], "\x00")
	return strings.HasPrefix(segmentMagic, string(magic))
}

// segmentSeed is what the sums of the block headers in a segment begin with. It
// depends on the directory's id, which no client knows: so a job's body that looks
// like a block is not taken for one when a search for the next block comes by it.
func segmentSeed(id uint64, name segmentName) uint32 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[0:], id)
	binary.LittleEndian.PutUint64(b[8:], name.index)
	return crc32.Checksum(b[:], castagnoli)
}

// segment is a segment that is being written, with its file.
type segment struct {
	name segmentName
	file File
	seed uint32 // see segmentSeed
	// begun says that it may have a header, or part of one. The writer sets it; Close
	// reads it when the writer has ended.
	begun bool
	// room is how many bytes are set aside and not yet spoken for. The shard takes
	// from it when it commits, the writer gives back what compression has saved, and
	// whoever sets more aside adds that.
	room atomic.Int64
	// surplus is how many bytes the shard has taken out of room for the janitor to give
	// back, see Log.shed. The shard adds to it; who takes from it holds mu.
	surplus atomic.Int64
	// size is how many bytes are written; the writer writes it.
	size atomic.Int64

	mu        sync.Mutex   // held while space is set aside or given back
	allocated atomic.Int64 // how many bytes of the file are set aside, used or not; written under mu
	end       atomic.Int64 // the file ends there or behind, once it has a block; written under mu
	sealed    bool         // nothing more is set aside; under mu

	// syncing keeps the janitor's sync and the closing of the file apart. It is
	// held for as long as a sync takes, so the shard never takes it.
	syncing sync.Mutex
	closed  bool // under syncing
}

// create makes the file of a new segment.
func (l *Log) create() (*segment, error) {
	st := l.store
	name := segmentName{l.stream.epoch, l.stream.shard, st.lastIndex.Add(1)}
	if name.index > maxIndex { // it would not be known again
		return nil, fmt.Errorf("there is a segment with a number close to %d, the highest that there can be: move it elsewhere if it is foreign", maxIndex)
	}
	path := filepath.Join(st.cfg.Dir, name.String())
	f, err := st.fs.Create(path)
	if isFull(err) || isScarce(err) {
		// No file was made, so the next try may have the number, unless somebody has taken
		// one behind it: there may be fifty tries a second until there is room.
		st.lastIndex.CompareAndSwap(name.index, name.index-1)
	}
	if err != nil {
		return nil, err
	}
	return &segment{name: name, file: f, seed: segmentSeed(st.id, name)}, nil
}

// abandon closes and removes a segment that has nothing in it.
func (l *Log) abandon(seg *segment) error {
	return errors.Join(seg.file.Close(), l.store.remove(seg.name.String()))
}

// overhead is what a segment takes beside its blocks: its header, and the block
// that says where the stream goes on.
const overhead = segmentHeader + blockOverhead + 1 + 10

// SegmentOverhead is how many bytes of room are lost at most when the log goes on
// in the next segment: that has a header, and files take whole pages.
const SegmentOverhead = minSegment + overhead

// allocate sets n more bytes aside, and the first time the overhead as well. It
// does nothing if the segment is sealed. Any goroutine may call it.
func (s *segment) allocate(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return nil
	}
	at := s.allocated.Load()
	if at == 0 {
		n += overhead
	}
	if err := s.file.Allocate(at, n); err != nil {
		return err
	}
	if at == 0 {
		s.room.Add(-overhead)
	}
	s.allocated.Add(n)
	s.room.Add(n)
	return nil
}

// zeros are what extend fills up with, at most as many at a time.
var zeros [256 << 10]byte

// extend moves the end of the file to an offset of at least least. A sync after that has
// to write the new size, too; so the end moves seldom, and then further bytes more, with
// zeros behind the last block. But it does not move beyond what is set aside, since zero
// takes all that the file has for set aside.
//
// If fill, it writes the zeros, so that later syncs have nothing to write but blocks over
// them: the file system notes which of the space set aside is in use, and a sync that has
// to write such a note, too, takes half as long again, or longer if it goes to a journal.
// The price is that each byte is written twice. If there is no room for zeros, the block
// itself moves the end.
func (s *segment) extend(least, further int64, fill bool) error {
	s.mu.Lock() // allocate may move it as well
	defer s.mu.Unlock()
	end, err := s.file.Size()
	if err == nil && (end < least || fill) { // cut may have moved it, without zeros
		if fill {
			further = min(further, int64(len(zeros)))
		}
		end = max(least, min(least+further, s.allocated.Load()))
		if !fill {
			err = s.file.Truncate(end)
		} else if end > least {
			if _, err = s.file.WriteAt(zeros[:end-least], least); isFull(err) {
				end, err = least, nil
			}
		}
	}
	if err == nil {
		s.end.Store(end)
	}
	return err
}

// giveBack gives back what is set aside and not spoken for, and returns how many
// bytes that was. If forGood, nothing is set aside later.
func (s *segment) giveBack(forGood bool) (given int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return 0, nil
	}
	s.sealed = forGood
	s.room.Add(s.surplus.Swap(0))
	if given = s.room.Load(); given <= 0 {
		return 0, nil
	}
	if err := s.cut(given); err != nil {
		return 0, err
	}
	s.room.Add(-given)
	return given, nil
}

// giveSurplus gives back what the shard has left for that.
func (s *segment) giveSurplus() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := s.surplus.Load()
	if given == 0 || s.sealed {
		return nil
	}
	if err := s.cut(given); err != nil {
		return err
	}
	s.surplus.Add(-given) // last: meanwhile spokenFor is not too high
	return nil
}

// cut gives back the last bytes that are set aside, of which none may be spoken for.
// The caller holds mu.
func (s *segment) cut(given int64) error {
	end := s.allocated.Load() - given
	// Cutting a file off where it ends gives back the space behind its end. So the
	// first call moves the file's end behind what is spoken for, and the second cuts
	// off there. Zeros that extend has put behind that point go, too: the writer then
	// has to move the end again. Those before it stay, and end with them.
	if err := errors.Join(s.file.Truncate(end), s.file.Truncate(end)); err != nil {
		return err
	}
	s.end.Store(min(s.end.Load(), end))
	s.allocated.Add(-given)
	return nil
}

// spokenFor is how many bytes are written, or have been promised to be.
func (s *segment) spokenFor() int64 {
	return s.allocated.Load() - s.room.Load() - s.surplus.Load()
}

// close closes the file, and gives back what was set aside and not used.
func (s *segment) close() error {
	s.mu.Lock()
	s.sealed = true
	s.mu.Unlock()
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.closed = true
	return errors.Join(s.file.Truncate(s.size.Load()), s.file.Close())
}
