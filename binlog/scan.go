package binlog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// scanner goes through the blocks of one segment. Where something is not a
// block, or cannot be read, it looks for the next one.
type scanner struct {
	file *holed
	seed uint32 // of the segment
	size int64
	pos  int64 // of what comes next

	window []byte // of the file, from at on
	at     int64

	// damaged is called for bytes between two blocks that are no block.
	damaged func(from, to int64)
	// effort is how many more bytes may be summed up in vain: so a file full of
	// headers that promise long blocks costs time in proportion to its size.
	effort int64
}

// sector is the least that a disk writes or does not write, in bytes.
const sector = 512

var magicBytes = binary.LittleEndian.AppendUint32(nil, blockMagic)

func newScanner(f *holed, seed uint32, damaged func(from, to int64)) *scanner {
	return &scanner{file: f, seed: seed, size: f.size, pos: segmentHeader, damaged: damaged, effort: 4*f.size + 1<<20}
}

// next returns the next block: its header, its offset, and the bytes that follow
// the header, which are valid until the next call. It reports false when there are
// no more blocks; what begins at pos is then the tail.
func (s *scanner) next() (k block, at int64, stored []byte, ok bool) {
	at = s.pos
	for s.effort > 0 {
		b := s.peek(at, blockHeader)
		if len(b) < blockHeader {
			return k, s.pos, nil, false
		}
		k, ok := decodeBlock(b, s.seed)
		end := at + blockHeader + int64(k.stored)
		if !ok || end > s.size {
			if at = s.search(at + 1); at < 0 {
				return k, s.pos, nil, false
			}
			continue
		}
		stored := s.peek(at, blockHeader+k.stored)
		if len(stored) < blockHeader+k.stored {
			return k, s.pos, nil, false
		}
		stored = stored[blockHeader:]
		if crc32.Checksum(stored, castagnoli) != k.sum {
			s.effort -= int64(len(stored)) + blockHeader
			at = end // the header is right, so the next block is there
			continue
		}
		if at > s.pos {
			s.damaged(s.pos, at)
		}
		s.pos = end
		return k, at, stored, true
	}
	return k, s.pos, nil, false
}

// search returns where the magic of a block comes next, at or after from; -1
// for nowhere.
func (s *scanner) search(from int64) int64 {
	for {
		b := s.peek(from, 64<<10)
		if i := bytes.Index(b, magicBytes); i >= 0 {
			return from + int64(i)
		}
		if len(b) < 64<<10 {
			return -1
		}
		from += int64(len(b) - len(magicBytes) + 1)
	}
}

// peek returns n bytes of the file from at on, fewer at its end.
func (s *scanner) peek(at int64, n int) []byte {
	n = int(min(int64(n), s.size-at))
	if n <= 0 {
		return nil
	}
	if at < s.at || at+int64(n) > s.at+int64(len(s.window)) {
		size := min(max(int64(n), 1<<20), s.size-at)
		if int64(cap(s.window)) < size {
			s.window = make([]byte, size)
		}
		got, _ := s.file.ReadAt(s.window[:size], at) // less only if the file has become shorter
		s.window, s.at = s.window[:got], at
	}
	b := s.window[at-s.at:]
	return b[:min(n, len(b))]
}

// endsClean tells whether what is behind the last block is no damage: nothing, or
// zeros that were set aside, or a block that was being written when the power
// failed. It is false for anything else, and if some of it cannot be read.
func (s *scanner) endsClean() bool {
	end := s.pos  // of what is not zero
	hole := false // zero sectors, and then something again: not all of it was written
	zeros := 0    // sectors, or parts of one, since end
	for at := s.pos; at < s.size; {
		b := s.peek(at, sector-int(at%sector))
		if len(b) == 0 {
			return false // the file has become shorter
		}
		if something := bytes.TrimRight(b, "\x00"); len(something) > 0 {
			hole = hole || zeros > 0
			zeros = 0
			end = at + int64(len(something))
		} else if len(b) >= 8 {
			zeros++
		}
		at += int64(len(b))
	}
	if !s.file.intact(s.pos, s.size) {
		return false
	}
	switch k, ok := decodeBlock(s.peekHeader(s.pos), s.seed); {
	case hole, end-s.pos < blockHeader, s.peek(s.pos, 1)[0] == 0: // a block begins with something else
		return true
	case ok: // a whole block would end with a byte that is not zero
		return s.pos+blockHeader+int64(k.stored) > end
	}
	return false
}

// peekHeader returns as many bytes as a block's header has, with zeros behind the
// end of the file.
func (s *scanner) peekHeader(at int64) []byte {
	return append(make([]byte, 0, blockHeader), s.peek(at, blockHeader)...)[:blockHeader]
}
