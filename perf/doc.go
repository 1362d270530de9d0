// Package perf loads servers that speak beanstalkd's protocol, over sockets only, and says what it takes: throughput,
// latency, CPU and memory, alone or compared with other servers. Command sheafperf is its face.
//
// # How a load is made
//
// A scenario is an entry of a table (scenario.go) with numbers that flags change. It makes plans: groups of connections, each
// running scripts. A script is what is done with one job, put, reserve, delete, each command sent when the one before it has
// been answered; a connection runs as many scripts at once as its depth says, which is how it pipelines.
//
//	scenario ── plan ──▶ load ──▶ driver: a thread, its poller and its connections ──▶ sockets
//	                      │         └ recorder: histograms and counts, of this thread alone
//	                      └─ observer: usage of the server, progress, the end
//
// A driver shares nothing with others. It waits in epoll, reads what has arrived on a connection into one buffer for all of
// them, moves the scripts on, appends what follows to the connection's output, and writes that at once: a read and a write for
// all that was answered together. Commands are copied from what was made before the load; ids are copied, never parsed. Once
// a load runs, nothing is allocated a job, so there is no garbage to collect.
//
// # Closed and open loop
//
// In a closed loop a script that ends is followed by the next, so the server sets the pace. In an open loop (Config.Rate) jobs
// are due by a timetable, and every latency is counted from when the job was due, also if it could not be sent then: a
// server that stands still for a second is charged with all that should have been served meanwhile, and what was still not
// sent at the end is recorded with the time that it had waited by then. There is no coordinated omission. The depth remains
// a limit: what is due while a connection's depth is used up waits, and that wait counts.
//
// Latencies are those of commands and scripts that were due within the measured time, whenever their answers came. The time of
// a batch of answers is read once, after the read that brought it. In handoff and its like the body says when the job was due,
// which is compared with when a worker has it; both are the same clock.
//
// # What is measured of a server
//
// CPU is that of the process's clock (clock_getcpuclockid(3)), in nanoseconds, with threads that have ended; memory is VmRSS
// and VmHWM of /proc/PID/status. Of a command with a shell in front, that is the shell's, so let it exec. On a machine that is
// small or shared, CPU per operation is the figure that holds: time that others take does not count.
//
// Compared servers take turns, A B A B, and ratios are those of runs next to each other, with their median and extremes.
//
// # Where the client is
//
// BenchmarkClient loads a replier in the same process that answers lines that are always the same. On a 2-core AMD EPYC with
// Linux 6.18, with loopback TCP and 128-byte bodies, one thread of the client takes
//
//	connections × in flight     CPU an operation     so one core makes at most
//	 8 × 64                      0.15 µs              6,600,000 operations/s
//	 8 × 16 of 16 KiB            1.5 µs                 660,000
//	64 × 1                       6.7 µs                 150,000
//	 1 × 1                      10 µs                    97,000
//
// sheafd takes about 0.55 µs an operation in the first case, beanstalkd 5.5: there one core of the client drives several of
// the server's. Without pipelining each operation is a write, a read and a share of an epoll_wait for the client as for the
// server, nearly all of it the kernel's, and one core of the client drives about one and a half of beanstalkd's (9.5 µs). A
// server with more cores wants --threads; a report says so when a thread was busy for more than 90 % of the time.
//
// # Checking
//
// With a ledger (sheafperf check) each body has a number and a checksum (header.go), and every answer is compared with what can
// be true (ledger.go). beanstalkd 1.12 does not pass in scenario mixed: it answers peek from memory that may have been
// freed, when the job is deleted before the answer has left.
//
// # What is left behind
//
// Nothing. Servers that are started have a process group of their own, so that a Ctrl-C ends the load and not the server
// under it; the group is killed when the run ends, however it ends, and the kernel kills the server when this process dies.
// Directories are removed. On a server that was there before, tubes have names of their own and are emptied at the end.
package perf
