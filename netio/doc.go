// Package netio carries bytes between sockets and sessions: listeners, one goroutine a connection, buffers, limits,
// hang-ups and shutdown. It knows no command; what the bytes mean is the business of a [Session], which a protocol
// package implements and hands over by Config.NewSession.
//
// # The read loop
//
// A connection lives inside one callback of [syscall.RawConn.Read]. Go's poller is edge-triggered and remembers an edge
// that comes while the callback runs, so the callback may leave as soon as it knows the socket to be drained:
//
//	         accept
//	           |
//	           v
//	+--> take a buffer from the pool, the rest of a torn command at its start
//	|          |
//	|      read(2), or readv(2) into [ReadInto's destination, buffer]
//	|          |                                   \-- 0 bytes or an error --> close
//	|      Session.Serve: commands in, answers queued
//	|          |
//	|      write(2) or writev(2), once               (EAGAIN: park until the peer reads)
//	|          |
//	+---- the read filled its buffer, or the peer has hung up
//	|          | no: the socket is drained
//	|      buffers back to their pools
//	|          |
//	+----- return false: park in the poller          (woken by input, hang-up, shutdown, idle timeout)
//
// One request that arrives alone costs one read and one write; there is no read that only sees EAGAIN. The tail of a
// body and the commands behind it arrive in one readv. The answers to what a pipelining client sent in one go
// leave in one write, unless that takes long to serve: see Conn.FlushOld.
//
// A thread that never sleeps, under full load from the same machine, keeps clients from their answers until the kernel's
// scheduler takes the core from it. So a connection gives way now and then (sched_yield(2), see Conn.giveWay).
// And there are fewer threads while they would take the cores from each other and from the clients (processors.go).
//
// The runtime is not told of the reads and writes, which saves much, and so does not always notice that there is something
// to do. That a session which takes its time keeps no other from being served is seen to in pulse.go.
//
// A read that came up short has drained a stream socket (epoll(7), "the amount of data read"), with one exception: a FIN
// that came with the data leaves no second edge. So a second epoll instance (hangup.go) watches every connection for
// nothing but EPOLLRDHUP, and a connection that it has reported reads on to the end of the stream. The same instance tells
// Session.Hangup while Serve is blocked and nobody reads the socket. (Urgent data, MSG_OOB, cuts a read short too. No
// protocol here has a use for it; who sends it delays his own answers until he sends more.)
//
// A session may also have something to say that nobody has asked for just now: results, notices. Conn.Poke, from any
// goroutine, has the connection's goroutine call the session's method Poked, in the loop above if it is awake and else by
// waking it.
//
// # Promises
//
//   - Answers leave in the order in which they were written, and all of them leave before a connection is closed by its
//     session, by a hang-up of the peer or by a shutdown in time. A half-closed client gets the answer to everything it sent.
//   - Answers arrive although the peer goes on sending when a shutdown closes its connection, or its session does with an
//     error: for up to a second it is read on, to no effect, until the peer has closed its side (linger.go).
//   - A connection that waits for input holds no buffer, nor does one whose session waits after Conn.Idle. What was read of
//     a torn command is kept in a slice of exactly its size.
//   - Nothing is allocated per wake-up in steady state.
//   - A peer that does not read blocks its own goroutine, which then reads no more from it. At most 256 KiB and one
//     answer are queued.
//   - A panic in a session closes its connection and is logged. Nothing else is affected.
//   - Running out of descriptors or memory delays new connections and does no harm to those that are there.
//   - After Shutdown has returned nil no goroutine of the server is left.
package netio
