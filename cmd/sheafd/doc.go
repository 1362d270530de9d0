// Command sheafd is a work-queue server: a drop-in beanstalkd that uses every
// core of the machine.
//
// It takes beanstalkd's flags with their meaning, and the same in long form;
// sheafd --help lists them. It listens on a TCP address or a unix socket, or on
// the sockets that systemd hands over.
//
// Signals: SIGUSR1 starts drain mode, in which put answers DRAINING and all else
// goes on. SIGTERM and SIGINT stop accepting, let commands in flight finish for
// at most --shutdown-timeout, and exit with status 0; a second one exits at
// once with status 1.
//
// Exit status: 0 after a shutdown, 1 if the server could not start or failed, 2
// for a mistake on the command line.
package main
