package perf

// The header in a body: what the client that gets a job wants to know from the
// one that put it. Gearman's foreground jobs have another (gearman_packet.go).
//
//	 0      8      12       20      24
//	| ready | from | number | crc32c | words or whatever Config.Content says
//
//	ready   when the job was to be ready: when its put was due, plus its delay,
//	        in nanoseconds of the client's clock
//	from    the connection that put it
//	number  of the job, counted over all connections, from 1; only with a ledger
//	crc32c  of the body without these four bytes; only with a ledger
//
// Little endian. Bodies that are too short for a field do not have it.

import (
	"encoding/binary"
	"hash/crc32"
)

// How long a body must be to hold the header up to each field.
const (
	headerReady = 8
	headerFrom  = 12
	headerCheck = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func stampReady(body []byte, ready int64) { binary.LittleEndian.PutUint64(body, uint64(ready)) }
func stampFrom(body []byte, from int32)   { binary.LittleEndian.PutUint32(body[8:], uint32(from)) }

// stampCheck writes the number and then the checksum, so the body must otherwise
// be complete.
func stampCheck(body []byte, number uint64) {
	binary.LittleEndian.PutUint64(body[12:], number)
	binary.LittleEndian.PutUint32(body[20:], checksum(body))
}

func readyOf(body []byte) int64   { return int64(binary.LittleEndian.Uint64(body)) }
func fromOf(body []byte) int32    { return int32(binary.LittleEndian.Uint32(body[8:])) }
func numberOf(body []byte) uint64 { return binary.LittleEndian.Uint64(body[12:]) }
func intactBody(body []byte) bool { return binary.LittleEndian.Uint32(body[20:]) == checksum(body) }
func checksum(body []byte) uint32 {
	return crc32.Update(crc32.Checksum(body[:20], castagnoli), castagnoli, body[24:])
}
