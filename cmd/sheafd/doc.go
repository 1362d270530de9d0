// Command sheafd is a work-queue server: a drop-in beanstalkd that uses every
// core of the machine, and answers Gearman clients from the same queues. Any
// beanstalkd client works with it unchanged.
//
//	sheafd [-l ADDR] [-p PORT] [--gearman ADDR] [-u USER] [-z SIZE] [-b DIR] [OPTIONS]
//	sheafd binlog dump DIR
//
// It takes beanstalkd's flags with their meaning, in getopt's forms (-p11300,
// -p 11300, -VV), and the same in long form; sheafd --help lists them all.
// Numbers are decimal. A size may have a suffix, 512K or 2GiB, in powers of
// 1024. As beanstalkd does, it cuts a -z that is too large down to the largest
// there is, and takes -c and -n, both with a warning.
//
// # Binlog
//
// With -b jobs are kept in a directory, see package binlog. It is opened, as the
// user of -u, when the sockets are bound and before anything is accepted:
// clients that connect meanwhile wait. If it cannot be used sheafd says why in
// one line and exits with status 1; nothing in it is changed then. That is so, too,
// if it or a file in it belongs to another user and sheafd is root. "binlog dump"
// prints what is in a directory, a record a line, also while a server uses it.
//
// # Sockets
//
// sheafd listens on a TCP address or on a unix socket (-l unix:PATH). A socket
// file that nobody answers is removed first. If systemd hands over sockets, one
// or several, those are served as beanstalkd's, and -l and -p have no effect.
// With --gearman one more speaks Gearman. With -u sheafd becomes that user once
// it has its sockets, with the user's groups and no other, for good.
//
// systemd is told when the server is ready and when it stops (Type=notify);
// sheafd.service and sheafd.socket are here. The limit on open files, which
// bounds the connections, is raised to the hard limit.
//
// # Signals
//
// SIGUSR1 starts drain mode, in which put answers DRAINING and all else goes
// on. SIGTERM and SIGINT stop accepting, let commands in flight finish for at
// most --shutdown-timeout, and exit with status 0; a second one, a second or more
// after the first, exits at once with status 1. SIGPIPE is ignored. Gearman's
// admin command shutdown does as SIGTERM; shutdown graceful closes the listeners,
// gives out no more jobs, and does so when none is with a worker.
//
// # Log
//
// The log goes to standard error, as text or JSON (--log-format). It says what
// starts and stops, and warns. -V adds why a connection ended, -VV also where
// in the source a line comes from. Commands are never logged. The address of a
// "listening" line is the real one, also with -p 0.
//
// # Exit status
//
// 0 after a shutdown, 1 if the server could not start or failed, 2 for a
// mistake on the command line, 3 if "binlog dump" found damage. What went wrong
// is one line on standard error that says what was being done and what to do.
package main
