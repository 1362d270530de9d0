package binlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Compression is how the records of blocks are compressed. These numbers are on
// disk.
type Compression uint8

// The compressions. A block that does not shrink is stored as it is.
const (
	None Compression = iota
	S2
	Zstd
)

var compressionNames = [...]string{"none", "s2", "zstd"}

func (c Compression) String() string { return compressionNames[c] }

// ParseCompression is the inverse of Compression.String.
func ParseCompression(name string) (Compression, error) {
	for i, n := range compressionNames {
		if n == name {
			return Compression(i), nil
		}
	}
	return 0, fmt.Errorf("unknown compression %q: must be none, s2 or zstd", name)
}

// The header of a block; the package comment draws it. Numbers are
// little-endian.
const (
	blockMagic  = 0x6673ee5b // 5b ee 73 66
	blockHeader = 32
	// endMark is the last byte of a block. It is not zero, so that a block that was
	// cut off can be told from one that is damaged.
	endMark = 0xed
	// blockOverhead is what a block takes beside its records.
	blockOverhead = blockHeader + 1
	// maxPlain is how many bytes a compressed block may have before compression, which
	// bounds the memory to unpack one.
	maxPlain = 8 << 20
	// maxStored is how many bytes may follow the header: a job of the largest size, and
	// some more.
	maxStored = 1<<30 + 1<<20
	// minCompressed is from how many bytes on compression is tried: fewer are a record
	// or two, and not worth the time.
	minCompressed = 256
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// block is the header of a block.
type block struct {
	seq         uint64 // of the block in its stream, which has no gaps
	stored      int    // bytes that follow the header, with the mark
	plain       int    // bytes of records, before compression
	sum         uint32 // CRC-32C of the stored bytes
	compression Compression
}

// encode writes the header. The seed is that of the segment, see segmentSeed.
func (k *block) encode(b []byte, seed uint32) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], blockMagic)
	le.PutUint32(b[8:], uint32(k.stored))
	le.PutUint32(b[12:], uint32(k.plain))
	le.PutUint64(b[16:], k.seq)
	le.PutUint32(b[24:], k.sum)
	le.PutUint32(b[28:], uint32(k.compression))
	le.PutUint32(b[4:], crc32.Update(seed, castagnoli, b[8:blockHeader]))
}

// decodeBlock reads a header. It reports false if b does not begin with one of a
// segment with that seed.
func decodeBlock(b []byte, seed uint32) (k block, ok bool) {
	le := binary.LittleEndian
	if le.Uint32(b) != blockMagic || le.Uint32(b[4:]) != crc32.Update(seed, castagnoli, b[8:blockHeader]) {
		return k, false
	}
	stored, plain, c := le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[28:])
	k = block{
		seq: le.Uint64(b[16:]), stored: int(stored), plain: int(plain),
		sum: le.Uint32(b[24:]), compression: Compression(c),
	}
	switch {
	case stored > maxStored || stored == 0 || c > uint32(Zstd):
		return k, false
	case c == uint32(None):
		return k, plain == stored-1
	}
	return k, plain <= maxPlain
}

// packer makes blocks. It belongs to one goroutine.
type packer struct {
	compression Compression
	zstd        *zstd.Encoder
	out         []byte
}

// pack makes a block of the records in b, which begins with blockHeader bytes of
// room. It returns a part of b, or memory that is valid until the next call.
func (p *packer) pack(b []byte, seq uint64, seed uint32) []byte {
	k := block{seq: seq, plain: len(b) - blockHeader}
	if p.compression != None && k.plain >= minCompressed && k.plain <= maxPlain {
		if packed := p.compress(b[blockHeader:]); len(packed) < len(b) {
			b, k.compression = packed, p.compression
		}
	}
	b = append(b, endMark)
	k.stored = len(b) - blockHeader
	k.sum = crc32.Checksum(b[blockHeader:], castagnoli)
	k.encode(b, seed)
	return b
}

// compress returns room for a header, and behind it the compressed form of plain.
func (p *packer) compress(plain []byte) []byte {
	if most := blockHeader + s2.MaxEncodedLen(len(plain)); cap(p.out) <= most {
		p.out = make([]byte, most+most/4)
	}
	out := p.out[:cap(p.out)]
	if p.compression == S2 {
		n := len(s2.Encode(out[blockHeader:], plain)) // which has room there for whatever comes
		return out[:blockHeader+n]
	}
	if p.zstd == nil {
		p.zstd, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false)) // these options are legal
	}
	p.out = p.zstd.EncodeAll(plain, out[:blockHeader]) // which may take a larger one
	return p.out
}

// unpacker reads blocks. It belongs to one goroutine.
type unpacker struct {
	zstd  *zstd.Decoder
	plain []byte
}

// unpack checks a block and returns its records: a part of stored, or memory that
// is valid until the next call.
func (u *unpacker) unpack(k *block, stored []byte) ([]byte, error) {
	if crc32.Checksum(stored, castagnoli) != k.sum || stored[len(stored)-1] != endMark {
		return nil, errChecksum
	}
	stored = stored[:len(stored)-1]
	switch k.compression {
	case None:
		return stored, nil
	case S2:
		if n, err := s2.DecodedLen(stored); err != nil || n != k.plain {
			return nil, errSize
		}
		if cap(u.plain) < k.plain {
			u.plain = make([]byte, k.plain)
		}
		return s2.Decode(u.plain[:cap(u.plain)], stored)
	}
	if u.zstd == nil {
		u.zstd, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPlain))
	}
	plain, err := u.zstd.DecodeAll(stored, u.plain[:0])
	if err == nil {
		u.plain = plain[:0]
		if len(plain) != k.plain {
			err = errSize
		}
	}
	return plain, err
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}
