// Package faultfs is a file system in memory for tests of package binlog. It
// loses what a power cut loses, runs full, and fails when it is told to.
//
// # What is durable
//
// The model is a POSIX disk and, where systems differ, the harshest of them:
//
//   - What was written to a file, and its size, are durable once File.Sync
//     has returned nil.
//   - That a name was created, renamed or removed is durable once SyncDir of
//     its directory has returned nil. A file whose name is not durable goes
//     with all its data, even if those were synced. (On ext4 an fsync of a
//     new file happens to save its name.) The same holds for a new directory
//     in its parent; "/" and "." are always there.
//   - A Sync that fails marks dirty data as clean, as Linux does: they read as
//     before, and a later Sync succeeds, but they are not on the disk and a
//     power loss loses them. A SyncDir that fails changes nothing.
//
// # What a crash leaves
//
// Kill is what a killed process leaves: all that was written, durable or not.
// Crash is what a power loss leaves: all that was durable, and of the rest
//
//   - of each directory, the first so many of its operations, at random. A
//     rename is never halfway, not even between directories;
//   - of each file, each sector of 512 bytes as it was after a random one of
//     the writes to it, whatever became of other sectors. So zeros, or what
//     was there before, may stand in front of later data. The last sector that
//     was kept may be torn at any byte. Cutting a file off counts as writing
//     zeros behind its new end;
//   - of each file, any size between the durable one and the present one.
//
// Both return a new file system, as of one moment between operations, each of
// which is atomic. The old one stays as it is: goroutines of the crashed server
// may go on using it, and cannot touch the new one. Locks, open files and faults
// are not taken over. In what Kill returns, what is durable is still told apart
// from what is not, so that it can lose power in turn. That is also how to try
// many outcomes of one moment.
//
// # Space
//
// Space is counted in blocks of 4096 bytes, of file contents only. Parts of a file
// that were never written take none; parts set aside with Allocate take theirs at
// once and keep them over a crash. A removed file keeps its blocks until its last
// handle is closed, and can be read until then.
//
// # What is not there
//
// Directories cannot be removed or renamed. There are no links, no permissions
// and no times.
package faultfs
