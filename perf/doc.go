// Package perf puts load on servers that speak beanstalkd's protocol or Gearman's,
// over sockets only, and reports throughput, latency, CPU and memory: of one
// server, or of several compared. Command sheafperf is its user interface.
//
// # Where things are
//
//	bench, check            entry points: Bench.Run and Check
//	scenario*, config       what can be run, and the numbers that flags change;
//	dist, rate              two kinds of number: distributions, rates of open loops
//	session*                one run of one scenario on one server, and its cleanup
//	target*, process        the server: its command line, start, readiness, end
//	plainconn, gearman_plain  conversation with it while nothing is measured
//	load, script, wire      generating load: groups of connections, what each
//	body, gearman_packet    does, and the bytes that are sent
//	arrivals                the timetable of an open loop
//	driver*, conn, reply    the hot path: sockets, scripts, answers
//	gomaxprocs              room in Go's scheduler for drivers that block
//	recorder, observe       measuring: latencies and counts; the server's usage
//	unanswered, usage       and what the load's end leaves open
//	ledger*                 accounting for every job, for Check
//	result, report*         figures of a run, of all runs, and how they are shown
//	format, progress
//
// # How load is made
//
// A scenario is an entry of a table (scenario.go). It makes plans: groups of
// connections, each running scripts. A script is what is done with one job, such
// as put, reserve, delete; each command is sent once the one before it has been
// answered. A connection runs as many scripts at once as its depth says: that is
// how it pipelines.
//
//	scenario ─ plan ─▶ load ─▶ drivers: thread, poller, connections ─▶ sockets
//	                    │        ├ recorder: histograms and counts, its own
//	                    │        └ inbox: from workers of other drivers
//	                    └ observer: usage of the server, progress, the end
//
// There is one driver for each CPU, or for every second one if the server is on
// this machine, but no more than there are connections (--threads). A driver waits
// in epoll and never spins. It reads what has arrived on a connection into a
// buffer that all its connections share, advances the scripts, appends the next
// commands to the connection's output, and writes that at once: one read and one
// write for everything that was answered together.
//
// Drivers share nothing but their inboxes (driver_inbox.go): in the closed loop of
// handoff and the like, a worker that finishes a job lets the job's producer put
// another, and that producer may belong to another driver. A connection with 4 MiB
// still to write starts no new script until they are written, so large bodies do
// not pile up in the client. Commands are copied from bytes prepared before the
// load; ids are copied, never parsed. While a load runs nothing is allocated per
// job, so there is no garbage to collect.
//
// # Closed and open loop
//
// In a closed loop a script that ends is followed by the next, so the server sets
// the pace. In an open loop (Config.Rate) jobs are due by a timetable, and every
// latency is counted from when the job was due, even if it could not be sent then:
// a server that stalls for a second is charged with everything that should have
// been served in that second. Jobs still not sent at the end are recorded with the
// time they have waited. So, in either loop, are commands that have no answer when
// the load gives up waiting, and jobs that were put and did not come. Thus there is
// no coordinated omission.
//
// The depth remains a limit in an open loop: a job that is due while its
// connection's depth is used up waits, and that wait counts. A rate may be given
// as a share of a closed loop's; then that closed loop runs first to find its rate,
// and the open loop after it has eight times the depth, if the depth is 2 or more.
// So the share is of what the closed loop did, not of the most that the open loop
// could do.
//
// Latencies are those of commands and scripts that were due within the measured
// time, whenever their answers came. The clock is read once for a batch of answers,
// after the read that brought it. In handoff and the like the body says when the
// job was due, and a worker compares that with when it has the job; both times are
// from the same clock.
//
// # What is measured of a server
//
// CPU is read from the process's clock (clock_getcpuclockid(3)), in nanoseconds,
// and includes threads that have ended; memory is VmRSS and VmHWM of
// /proc/PID/status. If a shell runs the command, the figures are the shell's, so
// have it exec the server. On a machine that is small or shared, CPU per operation
// is the most reliable figure: time taken by others does not count. Each reading is
// stored with the number of answers until then, since the observer may not get a
// core at the moment it wants to read.
//
// Compared servers take turns, A B A B. Ratios are of runs next to each other, with
// their median and extremes. A run that has failed counts in none of these.
//
// # Gearman
//
// Its scenarios are described in scenarios_gearman.go. {port} on the server's
// command line is the port for Gearman, as it is for beanstalkd in all other
// scenarios; sheafd, which speaks both, gets {port2} for the other protocol.
// Drivers, loads, observers and reports know nothing of Gearman, except where a
// packet takes the place of a line (driver_gearman.go). A server is ready when it
// answers "version" in Gearman's text protocol.
//
// # What the client costs
//
// BenchmarkClient loads a responder in the same process whose answers are always
// the same. On a 2-core AMD EPYC with Linux 6.18, loopback TCP and 128-byte bodies,
// the client takes
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
// one core of the client can load two of sheafd's, or many of beanstalkd's. Without
// pipelining each operation is a write, a read and a share of an epoll_wait, for
// the client as for the server, and nearly all of it is the kernel's time; one core
// of the client can load about one and a half of beanstalkd's (9 µs), or one of
// sheafd's. So the client needs about as many cores as the server, and gets as many
// when both are on the same machine.
//
// With a client thread on every core, client and server would take turns on all of
// them, for milliseconds at a time, and the slowest answers would measure that. On
// a machine of its own the client has a thread for each CPU. A report says so when
// a thread was busy for more than 90 % of the time.
//
// # Checking
//
// With a ledger (sheafperf check) each body has a number and a checksum (body.go),
// and every answer is compared with what can be true (ledger.go): that a job comes
// once, as it was put, to a client that watches its tube, and not before its delay
// is over, and that peek shows the job that was asked for. Until a delete of a job
// has been sent, peek, stats-job and kick-job must not say NOT_FOUND of it.
//
// Of the order of jobs, only what can be told from outside is checked
// (ledger_order.go): a job that was put before a reserve was sent is not passed
// over for a less urgent one of its tube, nor for an equally urgent one with a
// higher id, if it has had no delay and was never released or kicked. What one
// connection sends takes effect in order, so this also holds for commands that it
// sends together. Where workers wait, no job waits; so this is for mixed, cycle and
// consume, where several jobs of a tube are in flight; for priorities they have to
// differ (--priority; in mixed they do). In the same way a TIMED_OUT that was said
// while a job was ready is found once that job comes to a client that surely asked
// later; if the job never comes, it is lost. The order of jobs of different tubes is
// not checked; nor is what stats say.
//
// A job that does not come to the workers that wait for it, until the load gives up
// waiting, is an error, even if it comes once all tubes are kicked at the end.
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
