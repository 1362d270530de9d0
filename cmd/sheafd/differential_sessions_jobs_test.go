package main_test

// diffJobTranscripts are those of what becomes of a job, and of its tube.
var diffJobTranscripts = []diffTranscript{
	// Reserve.

	{name: "lowest pri, then lowest id, over all tubes", session: `
		-> use a\r\nput 5 0 10 1\r\na\r\nput 3 0 10 1\r\nb\r\nuse b\r\nput 3 0 10 1\r\nc\r\nput 1 0 10 1\r\nd\r\nput 3 0 10 1\r\ne\r\n
		<- USING a
		<- INSERTED 1
		<- INSERTED 2
		<- USING b
		<- INSERTED 3
		<- INSERTED 4
		<- INSERTED 5
		-> watch b\r\nwatch a\r\nreserve\r\nreserve\r\nreserve\r\nreserve\r\nreserve\r\nreserve-with-timeout 0\r\n
		<- WATCHING 2
		<- WATCHING 3
		<- RESERVED 4 1\r\nd
		<- RESERVED 2 1\r\nb
		<- RESERVED 3 1\r\nc
		<- RESERVED 5 1\r\ne
		<- RESERVED 1 1\r\na
		<- TIMED_OUT
	`},
	{name: "a client that waits is not served", session: `
		B-> reserve\r\nlist-tube-used\r\nreserve\r\nlist-tube-used\r\n
		B<- (nothing)
		waiting 1
		-> stats\r\n
		<- OK
		<: current-waiting: 1
		<: current-workers: 1
		<: cmd-list-tube-used: 0
		-> put 0 0 10 1\r\nx\r\n
		<- INSERTED 1
		B<- RESERVED 1 1\r\nx
		B<- USING default
		B<- (nothing)
		-> put 0 0 10 1\r\ny\r\n
		<- INSERTED 2
		B<- RESERVED 2 1\r\ny
		B<- USING default
	`},
	{name: "what ends a wait", session: `
		-> use q\r\nput 0 100 10 1\r\nx\r\n
		<- USING q
		<- INSERTED 1
		B-> watch q\r\nreserve\r\n
		B<- WATCHING 2
		B<- (nothing)
		-> kick 1\r\n
		<- KICKED 1
		B<- RESERVED 1 1\r\nx
		C-> watch q\r\nreserve\r\n
		C<- WATCHING 2
		B-> release 1 0 0\r\n
		B<- RELEASED
		C<- RESERVED 1 1\r\nx
		C-> bury 1 0\r\nreserve\r\n
		C<- BURIED
		C<- (nothing)
		-> kick-job 1\r\n
		<- KICKED
		C<- RESERVED 1 1\r\nx
		B-> reserve-with-timeout 1\r\n
		B<- (nothing)
		C close
		B<- RESERVED 1 1\r\nx
		C-> watch q\r\nreserve\r\n
		C<- WATCHING 2
		B-> release 1 0 1\r\n
		B<- RELEASED
		C<- (nothing)
		# The delay runs out.
		wait 1.2s
		C<- RESERVED 1 1\r\nx
		B-> reserve-with-timeout 1\r\n
		B<- (nothing)
		wait 1.1s
		B<- TIMED_OUT
	`},
	{name: "a job kicked first is a waiting client's, though another is better", session: `
		-> use q\r\nput 9 100 10 1\r\na\r\nput 1 101 10 1\r\nb\r\n
		<- USING q
		<- INSERTED 1
		<- INSERTED 2
		B-> watch q\r\nreserve\r\n
		B<- WATCHING 2
		B<- (nothing)
		-> kick 2\r\n
		<- KICKED 2
		B<- RESERVED 1 1\r\na
	`},
	{name: "clients that wait are served in the order in which they came", sheafdOnly: true, session: `
		B-> reserve\r\n
		waiting 1
		C-> reserve\r\n
		waiting 2
		D-> reserve\r\n
		waiting 3
		-> put 0 0 10 1\r\nx\r\nput 0 0 10 1\r\ny\r\nput 0 0 10 1\r\nz\r\n
		<- INSERTED 1
		<- INSERTED 2
		<- INSERTED 3
		B<- RESERVED 1 1\r\nx
		C<- RESERVED 2 1\r\ny
		D<- RESERVED 3 1\r\nz
	`},
	{name: "a half-closed client does not wait", session: `
		B-> reserve\r\n
		B<- (nothing)
		B half-close
		B<- TIMED_OUT
		B<- (closed)
		# It gets the answers to everything that it had sent.
		C-> reserve\r\nreserve\r\nput 0 0 10 1\r\nx\r\nreserve\r\nlist-tube-used\r\nput 0 0 10 5\r\nab
		C half-close
		C<- TIMED_OUT
		C<- TIMED_OUT
		C<- INSERTED 1
		C<- RESERVED 1 1\r\nx
		C<- USING default
		C<- (closed)
		-> stats-job 1\r\n
		<- OK
		<: state: ready
		<: reserves: 1
		<: timeouts: 0
		<: releases: 0
	`},
	{name: "reserve-job", session: `
		-> use q\r\nput 0 100 10 1\r\nx\r\npause-tube q 100\r\n
		<- USING q
		<- INSERTED 1
		<- PAUSED
		# From any tube, delayed, buried or ready, paused or not; not if reserved, be it by oneself.
		B-> reserve-job 1\r\nreserve-job 1\r\nbury 1 0\r\nreserve-job 1\r\nrelease 1 0 0\r\nreserve-job 1\r\nreserve-job 2\r\n
		B<- RESERVED 1 1\r\nx
		B<- NOT_FOUND
		B<- BURIED
		B<- RESERVED 1 1\r\nx
		B<- RELEASED
		B<- RESERVED 1 1\r\nx
		B<- NOT_FOUND
		-> reserve-job 1\r\nstats\r\n
		<- NOT_FOUND
		<- OK
		<: current-workers: 1
		<: cmd-reserve: 0
	`},

	// Deadlines.

	{name: "DEADLINE_SOON", session: `
		-> put 0 0 2 1\r\nx\r\n
		<- INSERTED 1
		B-> reserve\r\nreserve\r\n
		B<- RESERVED 1 1\r\nx
		B<- (nothing)
		# It ends a wait a second before the TTR does …
		wait 1.1s
		B<- DEADLINE_SOON
		B-> reserve-with-timeout 0\r\nreserve-job 7\r\n
		B<- DEADLINE_SOON
		B<- NOT_FOUND
		# … but is not said while there is a job to be had.
		-> put 5 0 10 1\r\ny\r\n
		<- INSERTED 2
		B-> reserve\r\n
		B<- RESERVED 2 1\r\ny
		B-> touch 1\r\nreserve-with-timeout 0\r\n
		B<- TOUCHED
		B<- TIMED_OUT
	`},
	{name: "DEADLINE_SOON with a job in a paused tube", session: `
		-> put 0 0 1 1\r\nx\r\n
		<- INSERTED 1
		B-> reserve\r\n
		B<- RESERVED 1 1\r\nx
		-> put 0 0 10 1\r\ny\r\npause-tube default 100\r\n
		<- INSERTED 2
		<- PAUSED
		B-> reserve\r\n
		B<- DEADLINE_SOON
	`},
	{name: "a TTR that runs out", session: `
		-> put 7 0 1 1\r\nx\r\n
		<- INSERTED 1
		B-> reserve\r\n
		B<- RESERVED 1 1\r\nx
		wait 1.2s
		# The holder says something, for 1.12 at times overlooks the deadline until then.
		B-> list-tube-used\r\n
		B<- USING default
		-> stats-job 1\r\nstats\r\n
		<- OK
		<: state: ready
		<: pri: 7
		<: timeouts: 1
		<: reserves: 1
		<: releases: 0
		<- OK
		<: job-timeouts: 1
		<: current-jobs-reserved: 0
		B-> release 1 0 0\r\ntouch 1\r\nbury 1 0\r\ndelete 1\r\n
		B<- NOT_FOUND
		B<- NOT_FOUND
		B<- NOT_FOUND
		B<- DELETED
	`},
	{name: "touch restarts the TTR in full", session: `
		-> put 0 0 2 1\r\nx\r\nreserve\r\n
		<- INSERTED 1
		<- RESERVED 1 1\r\nx
		wait 1.2s
		-> stats-job 1\r\ntouch 1\r\nstats-job 1\r\n
		<- OK
		<: time-left: 0
		<- TOUCHED
		<- OK
		<: time-left: 1
		wait 1.2s
		-> stats-job 1\r\n
		<- OK
		<: state: reserved
		<: timeouts: 0
		B-> touch 1\r\ntouch 2\r\n
		B<- NOT_FOUND
		B<- NOT_FOUND
	`},
	{name: "a client that leaves gives its jobs back, and nothing is counted", session: `
		-> put 7 0 10 1\r\nx\r\nput 8 0 10 1\r\ny\r\n
		<- INSERTED 1
		<- INSERTED 2
		B-> reserve\r\nreserve\r\n
		B<- RESERVED 1 1\r\nx
		B<- RESERVED 2 1\r\ny
		B close
		-> stats-job 1\r\nstats\r\n
		<- OK
		<: state: ready
		<: pri: 7
		<: reserves: 1
		<: timeouts: 0
		<: releases: 0
		<- OK
		<: job-timeouts: 0
		<: current-jobs-ready: 2
		<: current-jobs-reserved: 0
		<: current-connections: 1
		<: total-connections: 2
		<: current-workers: 0
	`},

	// The rest.

	{name: "delete", session: `
		-> put 0 0 10 1\r\na\r\nput 0 100 10 1\r\nb\r\nput 0 0 10 1\r\nc\r\nput 0 0 10 1\r\nd\r\n
		<- INSERTED 1
		<- INSERTED 2
		<- INSERTED 3
		<- INSERTED 4
		B-> reserve-job 3\r\nbury 3 0\r\nreserve-job 4\r\n
		B<- RESERVED 3 1\r\nc
		B<- BURIED
		B<- RESERVED 4 1\r\nd
		# Ready, delayed and buried jobs are anyone's to delete, reserved ones their holder's.
		-> delete 1\r\ndelete 2\r\ndelete 3\r\ndelete 4\r\n
		<- DELETED
		<- DELETED
		<- DELETED
		<- NOT_FOUND
		B-> delete 4\r\nstats-tube default\r\n
		B<- DELETED
		B<- OK
		B<: cmd-delete: 4
		B<: total-jobs: 4
	`},
	{name: "kick", session: `
		-> put 0 0 10 1\r\na\r\nput 0 0 10 1\r\nb\r\nput 0 200 10 1\r\nc\r\nput 0 100 10 1\r\nd\r\nreserve\r\nreserve\r\nbury 2 0\r\nbury 1 0\r\n
		<- INSERTED 1
		<- INSERTED 2
		<- INSERTED 3
		<- INSERTED 4
		<- RESERVED 1 1\r\na
		<- RESERVED 2 1\r\nb
		<- BURIED
		<- BURIED
		# Buried jobs first, in the order of their burial, and delayed ones only if none is buried; those soonest first.
		-> peek-buried\r\npeek-delayed\r\nkick 1\r\npeek-buried\r\nkick 100\r\npeek-buried\r\nkick 1\r\npeek-delayed\r\n
		<- FOUND 2 1\r\nb
		<- FOUND 4 1\r\nd
		<- KICKED 1
		<- FOUND 1 1\r\na
		<- KICKED 1
		<- NOT_FOUND
		<- KICKED 1
		<- FOUND 3 1\r\nc
		-> kick-job 3\r\nkick-job 3\r\nkick-job 9\r\nstats-job 3\r\n
		<- KICKED
		<- NOT_FOUND
		<- NOT_FOUND
		<- OK
		<: kicks: 1
		<: state: ready
		<: delay: 200
		<: time-left: 0
	`},
	{name: "delayed jobs that are due together leave in the order in which they came", session: `
		# In one write, so that a server may see both in one instant; job 1 is delayed after job 2.
		-> put 0 0 60 1\r\na\r\nreserve\r\n
		<- INSERTED 1
		<- RESERVED 1 1\r\na
		-> put 0 100 60 1\r\nb\r\nrelease 1 0 100\r\npeek-delayed\r\nkick 1\r\npeek-delayed\r\n
		<- INSERTED 2
		<- RELEASED
		<- FOUND 2 1\r\nb
		<- KICKED 1
		<- FOUND 1 1\r\na
	`},
	{name: "release and bury", session: `
		-> put 1 0 10 1\r\nx\r\nreserve\r\nrelease 1 2000 3\r\nstats-job 1\r\n
		<- INSERTED 1
		<- RESERVED 1 1\r\nx
		<- RELEASED
		<- OK
		<: state: delayed
		<: pri: 2000
		<: delay: 3
		<: releases: 1
		-> reserve-job 1\r\nbury 1 5\r\nstats-job 1\r\n
		<- RESERVED 1 1\r\nx
		<- BURIED
		<- OK
		<: state: buried
		<: pri: 5
		<: delay: 3
		<: buries: 1
		-> kick 1\r\nreserve\r\nrelease 1 6 0\r\nstats-job 1\r\n
		<- KICKED 1
		<- RESERVED 1 1\r\nx
		<- RELEASED
		<- OK
		<: pri: 6
		<: delay: 0
		<: releases: 2
		<: reserves: 3
		<: kicks: 1
	`},
	{name: "pause-tube", session: `
		-> pause-tube none 1\r\nput 0 0 10 1\r\nx\r\npause-tube default 1\r\nreserve-with-timeout 0\r\npeek-ready\r\nstats-tube default\r\n
		<- NOT_FOUND
		<- INSERTED 1
		<- PAUSED
		<- TIMED_OUT
		<- FOUND 1 1\r\nx
		<- OK
		<: pause: 1
		<: pause-time-left: 0
		<: cmd-pause-tube: 1
		-> reserve\r\n
		<- (nothing)
		wait 1.1s
		<- RESERVED 1 1\r\nx
		-> stats-tube default\r\n
		<- OK
		<: pause: 0
		<: pause-time-left: 0
	`},
	{name: "a pause of 0 seconds is over at once, and ends another", session: `
		-> put 0 0 10 1\r\nx\r\npause-tube default 100\r\nreserve-with-timeout 0\r\npause-tube default 0\r\n
		<- INSERTED 1
		<- PAUSED
		<- TIMED_OUT
		<- PAUSED
		-> stats-tube default\r\nreserve-with-timeout 0\r\n
		<- OK
		<: pause: 0
		<: cmd-pause-tube: 2
		<- RESERVED 1 1\r\nx
	`},
	{name: "ignore and watch", session: `
		-> ignore none\r\nignore default\r\nwatch a\r\nwatch a\r\nwatch b\r\nwatch c\r\nlist-tubes-watched\r\n
		<- WATCHING 1
		<- NOT_IGNORED
		<- WATCHING 2
		<- WATCHING 2
		<- WATCHING 3
		<- WATCHING 4
		<- OK 26\r\n---\n- default\n- a\n- b\n- c\n
		# The last of the list takes the place of the one that goes.
		-> ignore a\r\nlist-tubes-watched\r\n
		<- WATCHING 3
		<- OK 22\r\n---\n- default\n- c\n- b\n
	`},
	{name: "the life of a tube, and their order", session: `
		-> list-tubes\r\nuse a\r\nlist-tubes\r\nuse b\r\nwatch c\r\nwatch d\r\nlist-tubes\r\n
		<- OK 14\r\n---\n- default\n
		<- USING a
		<- OK 18\r\n---\n- default\n- a\n
		<- USING b
		<- WATCHING 2
		<- WATCHING 3
		<- OK 26\r\n---\n- default\n- b\n- c\n- d\n
		-> put 0 0 10 1\r\nx\r\nuse default\r\nignore c\r\nlist-tubes\r\ndelete 1\r\nlist-tubes\r\nstats-tube b\r\n
		<- INSERTED 1
		<- USING default
		<- WATCHING 2
		<- OK 22\r\n---\n- default\n- b\n- d\n
		<- DELETED
		<- OK 18\r\n---\n- default\n- d\n
		<- NOT_FOUND
		# A client that leaves: its watch list from the front, the last taking the place of each, then the used tube.
		B-> watch x\r\nwatch y\r\nwatch z\r\nuse w\r\n
		B<- WATCHING 2
		B<- WATCHING 3
		B<- WATCHING 4
		B<- USING w
		C-> watch v\r\n
		C<- WATCHING 2
		B close
		-> list-tubes\r\n
		<- OK 22\r\n---\n- default\n- d\n- v\n
	`},
	{name: "the order in which a client's tubes go when it leaves", session: `
		B-> watch p\r\nwatch q\r\nwatch r\r\n
		B<- WATCHING 2
		B<- WATCHING 3
		B<- WATCHING 4
		-> watch x\r\nwatch y\r\nwatch z\r\nlist-tubes\r\n
		<- WATCHING 2
		<- WATCHING 3
		<- WATCHING 4
		<- OK 38\r\n---\n- default\n- p\n- q\n- r\n- x\n- y\n- z\n
		# Its watch list goes from the front, the last taking the place of each: default, r, q, p. So do the tubes.
		B close
		-> list-tubes\r\n
		<- OK 26\r\n---\n- default\n- x\n- y\n- z\n
		B-> watch p\r\nwatch q\r\nwatch r\r\n
		B<- WATCHING 2
		B<- WATCHING 3
		B<- WATCHING 4
		C-> watch v\r\nwatch w\r\n
		C<- WATCHING 2
		C<- WATCHING 3
		-> list-tubes\r\n
		<- OK 46\r\n---\n- default\n- x\n- y\n- z\n- p\n- q\n- r\n- v\n- w\n
		B close
		-> list-tubes\r\n
		<- OK 34\r\n---\n- default\n- x\n- y\n- z\n- w\n- v\n
	`},
	{name: "stats-job in full", session: `
		-> use q\r\nput 1024 60 100 3\r\nabc\r\nstats-job 1\r\n
		<- USING q
		<- INSERTED 1
		<- OK 148\r\n---\nid: 1\ntube: "q"\nstate: delayed\npri: 1024\nage: 0\ndelay: 60\nttr: 100\ntime-left: 59\nfile: 0\nreserves: 0\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n
		-> stats-job 2\r\n
		<- NOT_FOUND
	`},
	{name: "stats-tube in full", session: `
		-> use q\r\nput 0 0 100 3\r\nabc\r\nstats-tube q\r\n
		<- USING q
		<- INSERTED 1
		<- OK 261\r\n---\nname: "q"\ncurrent-jobs-urgent: 1\ncurrent-jobs-ready: 1\ncurrent-jobs-reserved: 0\ncurrent-jobs-delayed: 0\ncurrent-jobs-buried: 0\ntotal-jobs: 1\ncurrent-using: 1\ncurrent-watching: 0\ncurrent-waiting: 0\ncmd-delete: 0\ncmd-pause-tube: 0\npause: 0\npause-time-left: 0\n
	`},
}
