// Package beanstalk speaks beanstalkd's protocol: it turns the bytes of a
// connection into commands, has the engine serve them, and answers byte for
// byte as beanstalkd 1.13 does.
//
//	bytes ──scanner──▶ lines ──parse──▶ command ──session──▶ router.Client
//	      ◀──────────────────── reply, yaml ◀──────────────── answers
//
// A session takes all commands that are complete in what was read, queues them
// with the engine, and renders the answers in order, so that a pipeline costs
// one message to the shard, one wake-up and one write. It leaves the input
// alone while a reserve waits.
//
// A body of a put is read straight into the slice that its job keeps, but for two
// kinds. One that has come whole with its put line is in the read buffer already, and
// copied from there. One of more than 64 KiB is given memory as it comes, and copied
// each time that its slice has to double: its size alone is not a reason to hold so
// much. (The engine copies what is small enough to be behind the job: see shard.)
//
// What the protocol says is in doc/protocol.txt of beanstalkd; where that is
// silent or wrong, the running server was asked, and the tests ask it again:
// the differential test of cmd/sheafd, and those here that are named after the
// reference. Deliberate differences in what is answered are, of those that the
// README lists for the whole server:
//
//   - From beanstalkd 1.12: as in 1.13, strings in the three kinds of stats are in
//     quotes, and reserve-with-timeout reads its number strictly.
//   - Clients that wait for the same tube are served first come, first served.
//   - OUT_OF_MEMORY means that the server's memory cap is reached, or that the disk
//     of the binlog is full. On a disk that is full to the brim release, bury, kick,
//     and reserve-job of a job that is not ready are answered so, too.
//   - Commands of a client that has closed its connection without reading the
//     answers are still carried out, as far as they had arrived.
//   - SIGTERM lets commands in flight finish. version in stats is sheaf's.
//   - With a binlog, binlog-oldest-index and binlog-current-index count the files
//     of all shards, and file is one of them.
package beanstalk
