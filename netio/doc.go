// Package netio carries bytes between sockets and sessions: listeners, one goroutine per connection, buffers, limits,
// hang-ups and shutdown. It knows no commands; what the bytes mean is up to a [Session], which a protocol package
// implements and provides through Config.NewSession.
//
// # The read loop
//
// A connection lives inside one callback of [syscall.RawConn.Read]. Go's poller is edge-triggered and remembers an edge
// that arrives while the callback runs, so the callback may return as soon as it knows that the socket is drained:
//
//	         accept
//	           |
//	           v
//	+--> take a buffer from the pool, an incomplete command at its start
//	|          |
//	|      recv(2), or readv(2) into [ReadInto's destination, buffer]
//	|          |                                   \-- 0 bytes or an error --> close
//	|      Session.Serve: commands in, answers queued
//	|          |
//	|      send(2) or writev(2), once                (EAGAIN: park until the peer reads)
//	|          |
//	+---- the read filled its buffer, or the peer has hung up
//	|          | no: the socket is drained
//	|      buffers back to their pools
//	|          |
//	+----- return false: park in the poller          (woken by input, hang-up, shutdown, idle timeout)
//
// A request that arrives alone costs one read and one write; no read is made only to see EAGAIN. The tail of a body and
// the commands behind it arrive in one readv. The answers to what a pipelining client sent in one go leave in one write,
// unless serving it takes long (Conn.FlushOld), or a core is idle (Conn.FlushEarly).
//
// With clients on the same machine and under full load, a thread that never sleeps keeps clients from reading their
// answers until the kernel's scheduler takes the core from it. So a connection yields now and then (sched_yield(2), see
// Conn.giveWay), and the process runs on fewer threads while more would only compete with each other and with the clients
// for the cores (processors.go).
//
// The runtime is not told of the reads and writes. That saves a lot, but means that it does not always notice that there
// is work to do. pulse.go sees to it that a session that takes its time does not keep others from being served.
//
// A short read means that a stream socket is drained (epoll(7), "the amount of data read"), with one exception: a FIN that
// arrived with the data causes no second edge. So a second epoll instance (hangup.go) watches every connection for
// EPOLLRDHUP alone, and a connection that it has reported reads on to the end of the stream. It also triggers
// Session.Hangup while Serve is blocked and nobody reads the socket. (Urgent data, MSG_OOB, cuts a read short too. No
// protocol here uses it; a peer that sends it only delays its own answers until it sends more.)
//
// A session may also have something to say that is no answer: results, notices. Conn.Poke, called from any goroutine, makes
// the connection's goroutine call the session's method Poked: in the loop above if it is awake, otherwise by waking it.
//
// # Promises
//
//   - Answers leave in the order in which they were written, and all of them leave before a connection is closed by its
//     session, by a hang-up of the peer, or by a shutdown that ends in time. A half-closed client gets the answers to
//     everything it sent.
//   - When a shutdown or a session's error closes a connection, answers arrive even if the peer goes on sending: for up to
//     a second its input is read and thrown away, until it has closed its side (linger.go).
//   - A connection that waits for input holds no buffer, nor does one whose session waits after Conn.Idle. An incomplete
//     command is kept in a slice of exactly its size.
//   - Nothing is allocated per wake-up in steady state.
//   - A peer that does not read blocks only its own connection's goroutine, which then reads no more from it. At most
//     256 KiB and one answer are queued.
//   - A panic in a session closes its connection and is logged. Nothing else is affected.
//   - Running out of descriptors or memory delays new connections and does no harm to existing ones.
//   - After Shutdown has returned nil no goroutine of the server is left.
package netio
