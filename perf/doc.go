// Package perf loads servers that speak beanstalkd's protocol or Gearman's, over
// sockets only, and says what it takes: throughput, latency, CPU and memory,
// alone or compared with other servers. Command sheafperf is its face.
//
// # How a load is made
//
// A scenario is an entry of a table (scenario.go) with numbers that flags
// change. It makes plans: groups of connections, each running scripts. A script
// is what is done with one job, put, reserve, delete, each command sent when
// the one before it has been answered; a connection runs as many scripts at
// once as its depth says, which is how it pipelines.
//
//	scenario ─ plan ─▶ load ─▶ drivers: thread, poller, connections ─▶ sockets
//	                    │        ├ recorder: histograms and counts of it alone
//	                    │        └ inbox: from workers of other drivers
//	                    └ observer: usage of the server, progress, the end
//
// There is a driver for each CPU, or for each second one if the server is on this
// machine, but not more than connections (--threads). It
// waits in epoll and never spins, reads what has arrived on a connection into
// one buffer for all of them, moves the scripts on, appends what follows to the
// connection's output, and writes that at once: a read and a write for all that
// was answered together. Drivers share nothing, but for one thing: in the
// closed loop of handoff and its like a worker that is done has the producer of
// its job put another, and where that is another driver's, it tells it
// (driver_inbox.go). A connection that has 4 MiB still to write begins nothing more until
// that is done, so large bodies are not heaped up here. Commands are copied from what was made before the load; ids are
// copied, never parsed. Once a load runs, nothing is allocated a job, so there
// is no garbage to collect.
//
// # Closed and open loop
//
// In a closed loop a script that ends is followed by the next, so the server
// sets the pace. In an open loop (Config.Rate) jobs are due by a timetable, and
// every latency is counted from when the job was due, also if it could not be
// sent then: a server that stands still for a second is charged with all that
// should have been served meanwhile, and what was still not sent at the end is
// recorded with the time that it had waited by then. So is in either loop what
// was sent and has no answer when nobody waits for it any longer, and a job that
// was put and did not come. There is no coordinated omission. The depth remains a limit: what is due while a connection's depth
// is used up waits, and that wait counts. The rate may be given as a part of
// a closed loop's: then that closed loop goes first and tells its rate, and in
// the open loop behind it a depth of 2 or more is eight times as large. So the
// part is one of what the closed loop did, not of the most that the open one
// could do.
//
// Latencies are those of commands and scripts that were due within the measured
// time, whenever their answers came. The time of a batch of answers is read
// once, after the read that brought it. In handoff and its like the body says
// when the job was due, which is compared with when a worker has it; both are
// the same clock.
//
// # What is measured of a server
//
// CPU is that of the process's clock (clock_getcpuclockid(3)), in nanoseconds,
// with threads that have ended; memory is VmRSS and VmHWM of /proc/PID/status.
// Of a command with a shell in front, that is the shell's, so let it exec. On a
// machine that is small or shared, CPU per operation is the figure that holds:
// time that others take does not count. Each reading stands beside what had been
// answered by then, as the one who reads may find no core to do it in time.
//
// Compared servers take turns, A B A B, and ratios are those of runs next to
// each other, with their median and extremes. A run that has failed is in none of
// these.
//
// # Gearman
//
// Its scenarios are described in scenarios_gearman.go. Where a server listens
// for it is {port} on the server's command line, as for all others; sheafd,
// which speaks both, gets {port2} for the other one. Drivers, loads, observers
// and reports know nothing of it, but for where a packet takes the place of a
// line (driver_gearman.go). A server is ready when it answers "version" in
// Gearman's text protocol.
//
// # Where the client is
//
// BenchmarkClient loads a replier in the same process that answers lines that
// are always the same. On a 2-core AMD EPYC with Linux 6.18, with loopback TCP
// and 128-byte bodies, the client takes
//
//	connections     threads    CPU an operation    so one core makes at most
//	× in flight
//	 8 × 64            1         0.15 µs           6,800,000 operations/s
//	 8 × 64            2         0.18 µs           5,600,000
//	 8 × 16, 16 KiB    1         1.4 µs              730,000
//	64 × 1             1         6.8 µs              147,000
//	64 × 1             2         6.8 µs              147,000
//	 1 × 1             1         9.4 µs              107,000
//
// and of Gearman's packets (BenchmarkGearmanClient)
//
//	SUBMIT_JOB_BG
//	 1 × 200           1         0.07 µs          13,500,000
//	 8 × 25            1         0.32 µs           3,100,000
//	 8 × 25            2         0.38 µs           2,600,000
//	GRAB_JOB and WORK_COMPLETE
//	 8 × 16            1         0.45 µs           2,200,000
//	16 × 1             1         6.7 µs              149,000
//
// sheafd takes about 0.3 µs an operation in the first case, beanstalkd 8: there
// one core of the client drives two of sheafd's, or many of beanstalkd's. Without
// pipelining each operation is a write, a read and a share of an epoll_wait for
// the client as for the server, nearly all of it the kernel's, and one core of
// the client drives about one and a half of beanstalkd's (9 µs), or one of
// sheafd's. So a server needs about as many cores of the client as it has itself,
// and that is what a server on the same machine gets.
//
// With a thread of the client on each core the client and the server would take
// turns on all of them, for milliseconds at a time, and the slowest answers would
// tell that. On a machine of its own the client has a thread for each CPU. A
// report says so when a thread was busy for more than 90 % of the time.
//
// # Checking
//
// With a ledger (sheafperf check) each body has a number and a checksum
// (body.go), and every answer is compared with what can be true (ledger.go,
// ledger_gearman.go): that a job comes once, as it was put, to a client that
// watches its tube, and not before its delay is over, and that peek shows the
// job that was asked for. While no delete of a job has been sent, peek, stats-job
// and kick-job do not say NOT_FOUND of it.
//
// Of the order of jobs it is checked what can be told from outside: one that was
// put before a reserve was sent is not passed over for one of its tube that is
// less urgent, if it has had no delay and was never released or kicked. What one
// connection sends is done in turn, so that can also be told of what it sends in
// one go. Where workers wait no job waits, so this is for mixed, cycle and
// consume, with priorities that differ (--priority; in mixed they do) and several
// jobs of a tube in flight. In the same way a TIMED_OUT is found that was said
// while a job was ready, once that job comes to one who surely asked later; if it
// never does, it is lost. The order of jobs that are as urgent, or of different
// tubes, is not checked; nor is what stats say.
//
// A job may come sooner than its delay says by 10 ms and a thousandth of the
// longest delay: clocks differ. A plain load looks at delays as well where it
// measures how late jobs come, and says when jobs that it put did not come.
//
// A job that a client has for longer than its TTR may come again, and what that
// client sends for it may be NOT_FOUND; then another goes on with it. Of such a job
// it is only checked that it is whole, is not lost and does not come after its
// delete. A TTR may be over sooner by as much as a delay.
//
// beanstalkd 1.12 does not pass in scenario mixed: it answers peek from memory
// that may have been freed, when the job is deleted before the answer has left.
//
// # What is left behind
//
// Nothing. Servers that are started have a process group of their own, so that
// a Ctrl-C ends the load and not the server under it; the group is killed when
// the run ends, however it ends, and the kernel kills the server when this
// process dies. Directories are removed. On a server that was there before,
// tubes have names of their own and are emptied at the end, also of a load that
// has failed: a server that refuses jobs still gives up those that it has.
// Functions of Gearman are dropped as well. Where that cannot be done, since the
// server says nothing any more, the run fails and the error names the tubes
// (session_cleanup.go).
package perf
