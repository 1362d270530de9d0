package main_test

import "strings"

// diffRestartTranscripts are sessions with servers that have a binlog. Where
// the reference has a fault (see diffFaults) there are two of one name.
var diffRestartTranscripts = []diffTranscript{
	{name: "jobs of all states", session: `
		-> use q\r\nput 5 0 100 5\r\nready\r\nput 6 100 100 7\r\ndelayed\r\nput 7 0 100 8\r\nreserved\r\nput 8 0 100 6\r\nburied\r\nput 9 0 100 7\r\ndeleted\r\n
		<- USING q
		<- INSERTED 1
		<- INSERTED 2
		<- INSERTED 3
		<- INSERTED 4
		<- INSERTED 5
		-> reserve-job 3\r\nreserve-job 4\r\nbury 4 1000\r\ndelete 5\r\nwatch w\r\npause-tube q 100\r\n
		<- RESERVED 3 8\r\nreserved
		<- RESERVED 4 6\r\nburied
		<- BURIED
		<- DELETED
		<- WATCHING 2
		<- PAUSED
		# Those who are connected when the server dies get nothing more.
		B-> reserve\r\n
		B<- (nothing)
		restart
		-> list-tubes\r\nstats-tube q\r\n
		<- OK 18\r\n---\n- default\n- q\n
		<- OK
		<: current-jobs-ready: 2
		<: current-jobs-reserved: 0
		<: current-jobs-delayed: 1
		<: current-jobs-buried: 1
		# Counters are those of the process, but for a job's. A pause is over.
		<: total-jobs: 0
		<: cmd-delete: 0
		<: cmd-pause-tube: 0
		<: pause: 0
		-> stats\r\n
		<- OK
		<: cmd-put: 0
		<: cmd-stats: 1
		<: job-timeouts: 0
		<: total-jobs: 0
		<: current-producers: 0
		<: total-connections: 1
		<: draining: false
		-> peek 5\r\npeek 4\r\nstats-job 2\r\n
		<- NOT_FOUND
		<- FOUND 4 6\r\nburied
		<- OK
		<: state: delayed
		<: delay: 100
		<~ time-left: 9[0-9]
		-> watch q\r\nreserve\r\nreserve\r\n
		<- WATCHING 2
		<- RESERVED 1 5\r\nready
		<- RESERVED 3 8\r\nreserved
		-> use q\r\nkick 10\r\nreserve\r\nkick 10\r\nreserve\r\nput 0 0 100 0\r\n\r\n
		<- USING q
		<- KICKED 1
		<- RESERVED 4 6\r\nburied
		<- KICKED 1
		<- RESERVED 2 7\r\ndelayed
		<- INSERTED 6
	`},
	{name: "a delay ends while the server is down, or later", session: `
		-> put 0 1 100 1\r\na\r\nput 0 5 100 1\r\nb\r\n
		<- INSERTED 1
		<- INSERTED 2
		wait 1.1s
		restart
		-> stats-job 1\r\nstats-job 2\r\nreserve\r\n
		<- OK
		<: state: ready
		<~ age: [1-4]
		<- OK
		<: state: delayed
		<~ age: [1-4]
		<~ time-left: [0-3]
		<- RESERVED 1 1\r\na
		-> reserve-with-timeout 10\r\n
		<- RESERVED 2 1\r\nb
	`},
	{name: "a TTR that runs out", sheafdOnly: true, session: `
		-> put 0 0 1 1\r\na\r\nreserve\r\n
		<- INSERTED 1
		<- RESERVED 1 1\r\na
		wait 1.2s
		restart
		-> stats-job 1\r\n
		<- OK
		<: state: ready
		<: reserves: 1
		<: timeouts: 1
	`},
	{name: "drain mode ends", session: `
		drain
		-> put 0 0 100 1\r\na\r\n
		<- DRAINING
		restart
		-> put 0 0 100 1\r\na\r\n
		<- INSERTED 1
	`},

	// beanstalkd #668.

	{name: "buried jobs", referenceOnly: true, session: diffBuriedJobs + `
		restart
		-> peek-buried\r\nstats-job 3\r\n
		<- FOUND 1 1\r\na
		<- OK
		<: buries: 2
	` + diffKicked("1 1\\r\\na", "2 1\\r\\nb", "3 1\\r\\nc")},
	{name: "buried jobs", sheafdOnly: true, session: diffBuriedJobs + `
		restart
		restart
		-> peek-buried\r\nstats-job 3\r\n
		<- FOUND 3 1\r\nc
		<- OK
		<: reserves: 1
		<: buries: 1
	` + diffKicked("3 1\\r\\nc", "1 1\\r\\na", "2 1\\r\\nb")},

	// Not logged by the reference.

	{name: "a reserve, a TTR that runs out, a release without a delay", referenceOnly: true, session: diffReleasedJob + `
		restart
		-> stats-job 1\r\n
		<- OK
		<: pri: 5
		<: reserves: 0
		<: timeouts: 0
		<: releases: 0
	`},
	{name: "a reserve, a TTR that runs out, a release without a delay", sheafdOnly: true, session: diffReleasedJob + `
		restart
		-> stats-job 1\r\n
		<- OK
		<: pri: 9
		<: reserves: 2
		<: timeouts: 1
		<: releases: 1
	`},
	{name: "a delayed job and a buried one, reserved by id", referenceOnly: true, session: diffReservedJobs + `
		restart
		-> stats-job 1\r\nstats-job 2\r\n
		<- OK
		<: state: delayed
		<- OK
		<: state: buried
	`},
	{name: "a delayed job and a buried one, reserved by id", sheafdOnly: true, session: diffReservedJobs + `
		restart
		-> stats-job 1\r\nstats-job 2\r\n
		<- OK
		<: state: ready
		<: delay: 100
		<: reserves: 1
		<- OK
		<: state: ready
		<: reserves: 2
		<: buries: 1
	`},

	// Forgotten by the reference.

	{name: "the next id", referenceOnly: true, session: `
		-> put 0 0 100 1\r\na\r\ndelete 1\r\n
		<- INSERTED 1
		<- DELETED
		# Its file goes when it has been read, before anything is answered: nothing in it
		# is alive.
		restart
		-> list-tube-used\r\n
		<- USING default
		restart
		-> put 0 0 100 1\r\na\r\n
		<- INSERTED 1
	`},
	{name: "the next id", sheafdOnly: true, session: `
		-> put 0 0 100 1\r\na\r\ndelete 1\r\n
		<- INSERTED 1
		<- DELETED
		restart
		restart
		-> put 0 0 100 1\r\na\r\n
		<- INSERTED 2
	`},
	{name: "a job of the greatest size", referenceOnly: true, session: diffLargeJobs + `
		restart
		-> peek 1\r\npeek 2\r\npeek 3\r\n
		<- FOUND 1 1\r\na
		<- NOT_FOUND
		<- NOT_FOUND
	`},
	{name: "a job of the greatest size", sheafdOnly: true, session: diffLargeJobs + `
		restart
		-> peek 1\r\npeek 2\r\npeek 3\r\n
		<- FOUND 1 1\r\na
		<- FOUND 2 1000\r\n` + strings.Repeat("b", 1000) + `
		<- FOUND 3 1\r\nc
	`},
}

const (
	// diffBuriedJobs buries job 3 first, then 1, then 2.
	diffBuriedJobs = `
		-> put 0 0 100 1\r\na\r\nput 0 0 100 1\r\nb\r\nput 0 0 100 1\r\nc\r\n
		<- INSERTED 1
		<- INSERTED 2
		<- INSERTED 3
		-> reserve-job 3\r\nbury 3 0\r\nreserve-job 1\r\nbury 1 0\r\nreserve-job 2\r\nbury 2 0\r\n
		<- RESERVED 3 1\r\nc
		<- BURIED
		<- RESERVED 1 1\r\na
		<- BURIED
		<- RESERVED 2 1\r\nb
		<- BURIED
		-> peek-buried\r\n
		<- FOUND 3 1\r\nc
	`
	diffReleasedJob = `
		-> put 5 0 1 1\r\na\r\nreserve\r\n
		<- INSERTED 1
		<- RESERVED 1 1\r\na
		wait 1.2s
		-> list-tube-used\r\nreserve\r\nrelease 1 9 0\r\nstats-job 1\r\n
		<- USING default
		<- RESERVED 1 1\r\na
		<- RELEASED
		<- OK
		<: pri: 9
		<: reserves: 2
		<: timeouts: 1
		<: releases: 1
	`
	diffReservedJobs = `
		-> put 0 100 100 1\r\na\r\nput 0 0 100 1\r\nb\r\nreserve-job 2\r\nbury 2 0\r\n
		<- INSERTED 1
		<- INSERTED 2
		<- RESERVED 2 1\r\nb
		<- BURIED
		-> reserve-job 1\r\nreserve-job 2\r\n
		<- RESERVED 1 1\r\na
		<- RESERVED 2 1\r\nb
	`
)

// diffKicked kicks and reserves one buried job after the other, which must come
// in that order.
func diffKicked(jobs ...string) (session string) {
	for _, job := range jobs {
		session += `
		-> kick 1\r\nreserve\r\n
		<- KICKED 1
		<- RESERVED ` + job + "\n"
	}
	return session
}

// diffLargeJobs puts one that is as large as -z allows between two others.
var diffLargeJobs = `
		-> put 0 0 100 1\r\na\r\nput 0 0 100 1000\r\n` + strings.Repeat("b", 1000) + `\r\nput 0 0 100 1\r\nc\r\n
		<- INSERTED 1
		<- INSERTED 2
		<- INSERTED 3
	`
