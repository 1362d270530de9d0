// Package binlog keeps jobs on disk: one stream of records for each shard, in
// segments, in one directory.
//
// # What is promised
//
//   - What waits for a batch (Held) is released when the batch and all before
//     it are written with write(2) and, with Config.Sync 0, synced. A killed
//     process loses nothing that it has answered. A machine that loses its power
//     loses at most what was answered in the last Config.Sync: with 0, nothing.
//   - Reading back gives each job as it was last changed, in every field.
//   - A block is whole or ignored. What is damaged is reported with file and
//     offset, the rest is read, and nothing is served whose checksum is wrong.
//     A block at the end that was cut off in the middle is no damage, since its
//     changes were never confirmed; unless the manifest says that the block was
//     synced, or the header of the next segment that one had that number.
//   - Where the disk cannot read some pages, those are damage; what is around them
//     is read. While such a file is needed it stays as it is, and each start tries
//     to read it again: what was written meanwhile fits in behind it.
//   - A full disk keeps puts out, and nothing else: space for the rest is set
//     aside before it is needed. A failed write or sync is final: nothing more is
//     written (see Log.Err), even if the next sync would succeed.
//   - Before Store.Begin nothing in the directory is changed but its lock.
//
// What is assumed of the disk: that a sync makes durable what was written
// before it; that a rename is either done or not; that what was set aside can
// be written (where that is not so, a full disk makes answers wait); and that
// it writes sectors of at least 512 bytes, each as a whole or not.
//
// # How a batch gets there
//
//	shard ──Put, Change, Delete──▶ batch ──Commit──▶ queue ──▶ writer ──▶ file
//	                                                             │ Release
//	clients ◀── the shard's answers, in the order of commits ◀──┘
//
// The shard's goroutine appends to a buffer and does not wait for the disk. The
// writer takes all that was committed while it was busy as one block, writes
// and maybe syncs it, and releases what waits: so the slower the disk, the more
// answers share a sync. The janitor, a third goroutine, syncs from time to time
// (Config.Sync above 0), makes the next segment ready, sets space aside and
// removes segments. Each shard has such a log, and they sync side by side.
//
// With Config.Sync 0 nearly all the time goes into syncs and what surrounds them. So
// the writer fills the file with zeros in advance, after which a sync has to write only
// the blocks (segment.extend); and where syncs are short it waits for them in place
// (writer.sync).
//
// The shard waits for the file system in two cases. When a segment has become twice as
// large as it should be (on a disk that is nearly full, a quarter larger), and the next
// one is still not made, the shard waits for it (Log.Segment): otherwise the segment
// would grow by all that clients send meanwhile, and on a full disk cleaning would have
// no room for its jobs. And when the janitor has not set space aside in time, the shard
// does so itself, which is a call of the file system, and may wait for another log that
// is doing the same.
//
// # Cleaning
//
// The shard knows how many of its jobs are in which segment. When more than about
// half of its log is records that no longer matter, it has the oldest segment read
// (Log.ReadPuts), puts the jobs that are still in it once more, at the end, and
// drops it (Log.Drop). It is always the oldest, so its deletes are of no job that is
// still in another segment. So a directory holds at most about twice what
// its jobs take, and two segments a shard: the one that is written and the space set
// aside. (For many jobs more is set aside, and as much less of what no longer
// matters is kept, see Log.Extra. It is given back when they have been gone for a
// second or two.) On a full disk that space is all there is for the
// copies: no segment is cleaned before the file of the last one is gone, and changes
// that find no room wait for the shard to clean. A server that never syncs leaves
// it to the system when the copies come to the disk, though what they were copied
// from may have been there for long.
//
// # The directory
//
//	lock                    locked while a server has the directory
//	manifest                which epoch counts, of how many streams, what is synced, what is damaged, gaps,
//	                        the highest job id, and whether a server has come to a good end
//	segment.E.S.00000017    segment 17, of shard S in epoch E
//	beanstalkd/             beanstalkd's own files, after their import or if they have no jobs
//	damaged/                segments with damage that are needed no more
//
// Segments are numbered from 1 over all shards, and no number is used again. A
// new epoch begins when a directory is opened for another number of shards, or
// with files of beanstalkd's in it: all jobs are written to segments of that
// epoch, and when they are synced the manifest is replaced. Until then the old
// epoch counts, from then on the new one, and the next start removes what is left
// of the other. (If there is no room for all jobs once more, Close removes what was
// written of them.)
//
// A manifest does not count, and is reported as damage, if it is
//   - damaged, or missing though there are segments;
//   - of another directory: no segment has its id, and some have another;
//   - an old one: there are segments of a newer epoch, and none of its own that is
//     as new as it says;
//   - one that the disk cannot read: it is moved into the folder damaged.
//
// A segment under the name of another, or with a number of no segment, is read as what
// its header says it is, and renamed in Begin, unless another file may be that segment,
// or has its name and stays, or it is needed no more.
//
// All segments are then read, those of newer epochs last, and a new epoch begins.
// The directory has the id that most of its segments have. Segments with another id
// are damage as well; they and other foreign files are left alone. A file with the
// name of a segment is foreign, too, if it has neither the header of one nor what a
// crash leaves of that, and is of an epoch that does not count, or has a number
// beyond 2³⁰. No number goes beyond 2³¹-1. Names that begin with a dot, as .nfs… and
// .snapshot, are passed over.
//
// Job ids go on where they were when a server came to its good end, even if damage
// has taken the jobs with the last of them. After a power failure, which shows as a
// kernel's boot id that is not the manifest's, very many ids are left out: those
// that were given out last may be in nothing that was synced.
//
// A segment with damage may have jobs in it that nobody knows of, so it is never
// removed. When it is needed no more it is moved into the folder damaged, which is
// logged. Its jobs do not come back by themselves then: the segments behind it that
// would say what became of them may be gone. The manifest names the segments that
// are still to be moved, so that after a crash the next server moves them, whatever
// it finds in them.
//
// # The format, version 2
//
// Numbers are little-endian, or varints as in package encoding/binary. Sums are
// CRC-32C. A segment is a header, blocks, and zeros to its end.
//
//	header of a segment         header of a block
//	 0  8  "sheaflog"            0  4  5b ee 73 66
//	 8  4  version, 2            4  4  sum of S and bytes 8 to 32
//	12  4  sum of 8‥12, 16‥88    8  4  length of what follows the header
//	16  8  number of segment    12  4  the same before compression
//	24  4  epoch                16  8  number of block
//	28  4  shard                24  4  sum of what follows the header
//	32  4  shards               28  4  compression: 0 none, 1 s2, 2 zstd
//	36  4  0                    32     records, and a byte ed
//	40  8  segment before it, 0 for none
//	48  8  oldest segment that is needed
//	56  8  number of its first block
//	64  8  highest job id before it
//	72  8  id of the directory
//	80  8  when it was begun, Unix time in ns
//	88     blocks
//
// S is the id of the directory, which is random, and the number of the segment: so
// what looks like a block in the body of a job is not taken for one.
//
// The blocks of a stream are numbered without gaps over all of its segments, so that
// a missing one is noticed. There are three exceptions. A block with a roll has the
// same number as the one behind it. Behind what could not be read numbers are left
// out, up to the Unix time in ns; the manifest says where, so that they are not
// reported as missing once it can be read. And a segment does not name the one
// before it if that could not be read, and nothing says that it had begun.
//
// A block of more than 8 MiB before compression is not compressed. The byte at the
// end is never compressed; it is there because zeros at the end are taken for what
// a power failure has left unwritten.
//
// A record is a byte that says what it is, and fields:
//
//	bits 0‥3  kind        4‥5  state: 0 ready, 1 delayed, 2 buried        6  with counters
//	     7    of a put: submitted by Gearman
//
//	1 put     id pri delay [at] [reserves timeouts releases buries kicks] ttr created tube body
//	  of Gearman: as above, but … created function unique reducer body
//	2 change  id pri delay [at] [reserves timeouts releases buries kicks]
//	3 delete  id of a job, or of none, to say that ids up to it were given out
//	4 drop    number of the oldest segment that is needed from now on
//	5 roll    number of the segment in which the stream goes on
//
// All are varints but: at, 8 bytes, if the job is not ready: the Unix time in
// ns when its delay ends, or its place among buried jobs; created, 8 bytes,
// Unix time in ns; tube, a byte for its length, and its name; function, which is
// the tube, unique and reducer, the length of each as a varint, at most 65535,
// and its bytes; body, its length as a varint, and its bytes without the CRLF.
// Delay and ttr are seconds. A put of a job that is known already is a copy made
// by cleaning, and replaces what is known. Reserved jobs are written as ready. A
// change has all that may change, so that it makes up for changes lost before it.
//
// Version 1 has no jobs of Gearman: bit 7 is damage there. All else is the same,
// and a stream may begin with segments of version 1. The first line of the
// manifest has the version, too; lines of it that are not known are passed over.
package binlog
