// Command sheafperf loads servers that speak beanstalkd's protocol or Gearman's,
// and reports throughput, latency, CPU and memory.
//
//	sheafperf run SCENARIO… [FLAGS] --addr HOST[:PORT] [--pid PID]
//	sheafperf run SCENARIO… [FLAGS] --server 'NAME=COMMAND … {port}'
//	sheafperf compare --server 'A=…' --server 'B=…' [SCENARIO…] [FLAGS]
//	sheafperf check [SCENARIO…] [FLAGS] --addr HOST[:PORT] | --server '…'
//	sheafperf list
//	sheafperf --version
//
// run measures throughput and latency, and also CPU and memory of a server that it
// starts or whose --pid it is given. compare does so with several servers in turn,
// A B A B, and prints medians, and medians of the ratios of neighbouring runs.
// check accounts for every job; package perf's documentation says what it checks
// of their order. list shows the scenarios and their numbers, which flags change;
// "sheafperf run cycle --help" shows the flags that a scenario takes, with its
// numbers as defaults.
//
// # Servers
//
// A server either runs already (--addr; the default port is 11300, or Gearman's
// 4730), or is started for each run and ended after it (--server), with a free port
// of the loopback interface for {port} and a fresh directory for {dir}. No shell is
// involved, but words may be quoted. The scenarios durable and restart append
// beanstalkd's -b {dir} -f MS to a command without {dir}. Which address a server
// listens on is up to its command, so say -l 127.0.0.1.
//
// {port} is the port that the load uses: in the scenarios gearman-… the one that
// speaks Gearman, in all others the one that speaks beanstalkd's protocol. A server
// that speaks both gets a second free port for {port2}:
//
//	sheafperf compare gearman \
//		--server 'sheafd=bin/sheafd -l 127.0.0.1 -p {port2} --gearman 127.0.0.1:{port}' \
//		--server 'gearmand=gearmand -L 127.0.0.1 -p {port} -l stderr -P {dir}/pid'
//
// As a scenario, "all" means all of beanstalkd's protocol without their presets, and
// "gearman" all of Gearman's. In a check, and on a server that runs already, "all"
// leaves out restart, which is impossible there.
//
// On a server that runs already, tubes are called sheafperf-PID-N, and what is left
// in them is deleted at the end, however the load has ended; what could not be
// deleted is reported on standard error.
//
// # Output
//
// The report goes to standard output: as text, --json or --markdown. --html FILE
// also writes a self-contained page, if anything was measured; an existing file is
// then replaced as a whole. Failures are reported on standard error, once for all
// rounds of a scenario. The report says only that there were some; JSON and the
// page also say why. If there is no server, that is all that is printed.
// Progress is shown on standard error if that is a terminal.
//
// JSON has for each run all figures, distributions and the throughput over time.
// A distribution's "at_quantiles" are its values at those of "quantiles", in order.
// If there are several runs, each scenario's "compared" has the tables of the other
// reports: for each figure its "load" if there are several, "name", "unit",
// "more_is_better", and "servers", with "server", the "median", "least" and "most"
// of so many "rounds", and the same of the ratios of neighbouring runs in
// "ratio_to_baseline". Runs that have failed are in none of these.
//
// # Exit status
//
// 0 if all went well; 1 if something failed, or check found a fault; 2 for a
// mistake on the command line; 130 after SIGINT, SIGTERM or SIGHUP: then the load is
// ended, what was measured so far is printed, and the servers are stopped. If jobs
// may be left on a server that runs already, it is 1 even then.
package main
