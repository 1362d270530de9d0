package binlog

import (
	"encoding/binary"
	"slices"
)

// What tests of package binlog_test need of the format.
const (
	SegmentHeader = segmentHeader
	BlockHeader   = blockHeader
	MinSegment    = minSegment
	MaxMeta       = maxMeta
	MaxDamages    = maxDamages
)

// Block is a block in the file of a segment.
type Block struct {
	At, End int64
	Seq     uint64
	plain   []byte
	seed    uint32
}

// Blocks returns the blocks of a segment's file, up to damage.
func Blocks(file []byte) (all []Block) {
	var u unpacker
	defer u.close()
	if len(file) < segmentHeader {
		return nil
	}
	seed := segmentSeed(binary.LittleEndian.Uint64(file[72:]), segmentName{index: binary.LittleEndian.Uint64(file[16:])})
	for at := int64(segmentHeader); at+blockHeader <= int64(len(file)); {
		k, ok := decodeBlock(file[at:], seed)
		b := Block{seed: seed, At: at, End: at + blockHeader + int64(k.stored), Seq: k.seq}
		if !ok || b.End > int64(len(file)) {
			return all
		}
		plain, err := u.unpack(&k, file[at+blockHeader:b.End])
		if err != nil {
			return all
		}
		b.plain = slices.Clone(plain)
		all = append(all, b)
		at = b.End
	}
	return all
}

// Roll tells whether the block says no more than where the stream goes on.
func (b Block) Roll() bool { return kind(b.plain[0]&kindMask) == kindRoll }

// Replay hands the records of a block to a sink.
func (b Block) Replay(sink Sink, segment uint64) {
	r := replayer{stream: new(stream), sink: sink}
	if err := r.apply(b.plain, segment); err != nil {
		panic(err)
	}
}

// Reseal returns the block with another sequence number and the checksum for
// that.
func (b Block) Reseal(file []byte, seq uint64) []byte {
	data := slices.Clone(file[b.At:b.End])
	k, ok := decodeBlock(data, b.seed)
	if !ok {
		panic("it is no block")
	}
	k.seq = seq
	k.encode(data, b.seed)
	return data
}

// WithVersion returns the bytes of a segment with another version of the format
// in its header; intact is that its sum is right.
func WithVersion(file []byte, version uint32, intact bool) []byte {
	b := slices.Clone(file)
	binary.LittleEndian.PutUint32(b[8:], version)
	if intact {
		binary.LittleEndian.PutUint32(b[12:], headerSum(b))
	}
	return b
}

// Renamed returns the bytes of a segment with another number in its header.
func Renamed(file string, index uint64) string {
	b := []byte(file)
	binary.LittleEndian.PutUint64(b[16:], index)
	binary.LittleEndian.PutUint32(b[12:], headerSum(b))
	return string(b)
}

// WithoutSynced returns a manifest that does not say what was on the disk, as a
// server writes it that does not sync.
func WithoutSynced(file []byte) []byte {
	m, err := decodeManifest(file)
	if err != nil {
		panic(err)
	}
	m.synced = nil
	return m.encode()
}

// BeanstalkdFile returns a file of beanstalkd's: a put for each number, or the
// delete of a job if it is negative, and space that was set aside.
func BeanstalkdFile(ids ...int) []byte {
	var recs []beanstalkdRec
	for _, id := range ids {
		if id < 0 {
			recs = append(recs, beanstalkdRec{id: uint64(-id)})
		} else {
			recs = append(recs, beanstalkdRec{id: uint64(id), name: "t", state: beanstalkdReady})
		}
	}
	return append(beanstalkdWrite(recs...), make([]byte, 5000)...)
}

// Logs are those that Begin has returned.
func (st *Store) Logs() []*Log { return st.logs }

// Room is how many bytes are set aside and not spoken for, as the shard sees
// it.
func (l *Log) Room() int64 { return l.unspoken() }

// Excess has the shard give back what is far too much at the next call of Segment.
func (l *Log) Excess() { l.excess.Store(true) }

// Tight tells whether the disk is nearly full.
func (l *Log) Tight() bool { return l.tight.Load() }

// Promised is how many bytes deletes may take.
func (l *Log) Promised() int64 { return l.owedNow() }

// Zero sets space aside by writing zeros.
var Zero = zero

// Ready tells whether there is a next segment.
func (l *Log) Ready() bool { return l.next.ready.Load() }

// Settled is the index of the segment that the shard writes to, without going
// on in the next.
func (l *Log) Settled() uint64 { return l.to.name.index }
