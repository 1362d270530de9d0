// Command sheafd is a work-queue server: a drop-in beanstalkd that uses every
// core of the machine, and answers Gearman clients from the same queues. Any
// beanstalkd client works with it unchanged.
//
//	sheafd [-l ADDR] [-p PORT] [--gearman ADDR] [-u USER] [-z SIZE] [-b DIR] [OPTIONS]
//	sheafd binlog dump DIR
//
// It takes beanstalkd's flags, with the same meaning, in getopt's forms (-p11300,
// -p 11300, -VV) and in long forms; sheafd --help lists them all. Numbers are decimal.
// A size may have a suffix, 512K or 2GiB, in powers of 1024. Like beanstalkd, it reduces
// a -z that is too large to the largest possible, with a warning. It accepts -c and -n,
// also with a warning.
//
// # Binlog
//
// With -b jobs are kept in a directory, see package binlog. It is opened, as the user
// of -u, after the sockets are bound and before any connection is accepted; clients that
// connect meanwhile wait. If the directory cannot be used, sheafd says why in one line
// and exits with status 1, without changing anything in it. That includes the case that
// sheafd is root and the directory, or a file in it, belongs to another user. "binlog
// dump" prints what is in a directory, one record per line, even while a server uses it.
//
// # Sockets
//
// sheafd listens on a TCP address or on a unix socket (-l unix:PATH). A socket file that
// no server answers on is removed first. If systemd passes sockets, one or several, they
// speak beanstalkd's protocol, and -l and -p have no effect. --gearman adds a socket that
// speaks Gearman. With -u, once sheafd has its sockets it becomes that user, with the
// user's groups and no others, for good.
//
// sheafd tells systemd when it is ready and when it stops (Type=notify); sheafd.service
// and sheafd.socket are in this directory. The limit on open files, which bounds the
// number of connections, is raised to the hard limit.
//
// # Signals
//
// SIGUSR1 starts drain mode, in which put answers DRAINING and everything else goes on.
// SIGTERM and SIGINT stop accepting connections, let commands in flight finish for at
// most --shutdown-timeout, and exit with status 0. A second one, a second or more after
// the first, exits at once with status 1. SIGPIPE is ignored. Gearman's admin command
// shutdown has the same effect as SIGTERM; shutdown graceful closes the listeners, gives
// out no more jobs, and shuts down when no worker has a job any more.
//
// # Log
//
// The log goes to standard error, as text or JSON (--log-format). It has starts, stops
// and warnings. -V adds the reasons why connections ended, -VV also the place in the
// source that a line comes from. Commands are never logged. A "listening" line has the
// real address, also with -p 0. Nothing waits for whoever reads the log: past 4 MiB lines
// are dropped, and a line says how many.
//
// # Exit status
//
// 0 after a shutdown, 1 if the server could not start or failed, 2 for a mistake on the
// command line, 3 if "binlog dump" found damage. An error is one line on standard error:
// what was being done, what went wrong, and what to do.
package main
