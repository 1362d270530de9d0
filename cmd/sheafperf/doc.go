// Command sheafperf puts a load on servers that speak beanstalkd's protocol or
// Gearman's, and says what it takes.
//
//	sheafperf run SCENARIO… [FLAGS] --addr HOST[:PORT] [--pid PID]
//	sheafperf run SCENARIO… [FLAGS] --server 'NAME=COMMAND … {port}'
//	sheafperf compare --server 'A=…' --server 'B=…' [SCENARIO…] [FLAGS]
//	sheafperf check [SCENARIO…] [FLAGS] --addr HOST[:PORT] | --server '…'
//	sheafperf list
//	sheafperf --version
//
// run measures throughput, latency, and of a server that it starts or whose
// --pid it is given, CPU and memory. compare does so with several servers in
// turn, A B A B, and prints medians, and medians of the ratios of neighbouring
// runs. check accounts for every job; package perf's documentation says what of
// their order it looks at. list shows the scenarios and their numbers, which
// flags change; "sheafperf run cycle --help" shows the flags that a scenario
// takes, with its numbers.
//
// # Servers
//
// A server is one that runs (--addr; without a port, 11300 or Gearman's 4730), or is
// started for each run (--server) with a free port of the loopback interface for
// {port} and a fresh directory for {dir}, and is ended after it. No shell is
// involved, but words may be quoted. The scenarios durable and restart append
// beanstalkd's -b {dir} -f MS to a command that does not say {dir}. Where a
// server listens elsewhere than on 127.0.0.1 is its own business, so say
// -l 127.0.0.1.
//
// {port} is the port that the load is for: of the scenarios gearman-… the one
// that speaks Gearman, and of all others beanstalkd's. A server that speaks both
// gets a second free port for {port2}:
//
//	sheafperf compare gearman \
//		--server 'sheafd=bin/sheafd -l 127.0.0.1 -p {port2} --gearman 127.0.0.1:{port}' \
//		--server 'gearmand=gearmand -L 127.0.0.1 -p {port} -l stderr -P {dir}/pid'
//
// "all" is all scenarios of beanstalkd's protocol without their presets, and
// "gearman" those of Gearman's. Where restart cannot be, in a check and on a
// server that runs, it is not among them.
//
// On a server that runs, tubes are called sheafperf-PID-N, and what is left in
// them is deleted at the end, however the load has ended; what could not be
// deleted is said on standard error.
//
// # Output
//
// The report goes to standard output: text, --json or --markdown. --html FILE
// writes a page beside it that can be read by itself, if something was measured;
// a page that was there is then replaced as a whole. What has failed is said on
// standard error, once for all rounds of a scenario; the report only says that
// it has, but as JSON and in the page also why. If there is no server, that is
// all that is said. Progress is shown on standard error if that is a terminal.
//
// As JSON each run has all its figures, its distributions and its throughput over
// time. Where there are several, the tables of the other reports stand beside them, in
// "compared" of each scenario: for each figure its "load" if there are several,
// "name", "unit", "more_is_better", and "servers", with "server", the "median",
// "least" and "most" of that many "rounds", and the same of the ratios of
// neighbouring runs in "ratio_to_baseline". Runs that have failed are in none of
// these.
//
// # Exit status
//
// 0 if all went well; 1 if something failed, or check found a fault; 2 for a
// mistake on the command line; 130 after SIGINT, SIGTERM or SIGHUP, when the load
// has been ended, what was measured until then been printed, and the servers been
// stopped; 1 then, too, if jobs may be left on a server that runs.
package main
