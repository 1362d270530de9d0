package perf

// The first bytes of a body: what the client that gets a job wants to know of
// the one that put it.
//
//	 0      8      12       20      24
//	| ready | from | number | crc32c | words or whatever Config.Content says
//
//	ready   when the job was to be ready: the intended time of its put and its
//	        delay, in nanoseconds of the client's clock
//	from    the connection that put it
//	number  of the job, counted over all connections, from 1; only with a ledger
//	crc32c  of all of the body but these four bytes; only with a ledger
//
// Little endian. Bodies that are too short for a field do not have it.

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	headerReady = 8
	headerFrom  = 12
	headerCheck = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func stampReady(body []byte, ready int64) { binary.LittleEndian.PutUint64(body, uint64(ready)) }
func stampFrom(body []byte, from int32)   { binary.LittleEndian.PutUint32(body[8:], uint32(from)) }

// stampCheck numbers a body that is complete and seals it.
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
