// Package beanstalk speaks beanstalkd's protocol: it turns the bytes of a
// connection into commands, has the engine serve them, and answers byte for
// byte as beanstalkd 1.13 does.
//
//	bytes ──scanner──▶ lines ──parse──▶ command ──session──▶ router.Client
//	      ◀──────────────────── reply, yaml ◀──────────────── answers
//
// A session takes all complete commands from what was read, queues them with the
// engine (package router), and renders the answers in order, so that a pipeline
// costs one message to the shard, one wake-up and one write. While a reserve waits,
// it does not look at further input.
//
// The body of a put is read straight into the slice that its job keeps, with two
// exceptions. A body that came whole with its put line is already in the read buffer
// and is copied from there. A body of more than 64 KiB gets memory as it arrives, and
// is copied each time its slice doubles: a size that was only announced does not
// justify holding so much memory. (The engine copies bodies that are small enough to
// be stored right behind the job: see package shard.)
//
// The protocol is described in beanstalkd's doc/protocol.txt. Where that is silent or
// wrong, the running server, called the reference, was asked, and the tests ask it
// again: the differential test of cmd/sheafd, and the tests here that have Reference
// in their names. The README lists how the whole server differs from it; the
// deliberate differences in what is answered are:
//
//   - From beanstalkd 1.12: as in 1.13, strings in the three kinds of stats are in
//     quotes, and reserve-with-timeout reads its number strictly.
//   - Clients that wait for the same tube are served first come, first served.
//   - OUT_OF_MEMORY means that the server's memory cap is reached, or that the
//     binlog's disk is full. When not even the space set aside is left on it, release,
//     bury, kick, and reserve-job of a job that is not ready get that answer too.
//   - Commands of a client that has closed its connection without reading the
//     answers are still carried out, if they had arrived.
//   - SIGTERM lets commands in flight finish. version in stats is sheaf's.
//   - With a binlog, binlog-oldest-index and binlog-current-index count the files
//     of all shards, and file is one of them.
package beanstalk
