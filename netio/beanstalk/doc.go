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
// What the protocol says is in doc/protocol.txt of beanstalkd; where that is
// silent or wrong, the running server was asked, and the tests ask it again:
// the differential test of cmd/sheafd, and those here that are named after the
// reference. Deliberate differences:
//
//   - Clients that wait for the same tube are served first come, first served.
//   - reserve-with-timeout reads its number strictly, as 1.13 does.
//   - OUT_OF_MEMORY means that the server's memory cap is reached.
package beanstalk
