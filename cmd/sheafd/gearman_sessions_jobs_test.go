package main_test

// gdiffJobTranscripts are those of a job, from submit to its end.
var gdiffJobTranscripts = []gdiffTranscript{
	{name: "a job's life", session: `
		c> SUBMIT_JOB f|u|work
		c< JOB_CREATED #1
		c> GET_STATUS #1
		c< STATUS_RES #1|1|0|0|0
		a> show jobs
		a< #1\t0\t0\t0
		a< .
		a> show unique jobs
		a< u
		a< .
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|work
		a> status
		a< f\t1\t1\t1
		a< .
		a> prioritystatus
		a< f\t0\t0\t0\t1
		a< .
		c> GET_STATUS_UNIQUE u
		c< STATUS_RES_UNIQUE u|1|1|0|0|1
		w> WORK_STATUS #1|1|3
		c< WORK_STATUS #1|1|3
		w> WORK_DATA #1|some\x00data
		c< WORK_DATA #1|some\x00data
		w> WORK_WARNING #1|
		c< WORK_WARNING #1|
		c> GET_STATUS #1
		c< STATUS_RES #1|1|1|1|3
		w> WORK_COMPLETE #1|all of it
		c< WORK_COMPLETE #1|all of it
		c> GET_STATUS #1
		c< STATUS_RES #1|0|0|0|0
		w> WORK_COMPLETE #1|again
		w< ERROR JOB_NOT_FOUND|Job given in work result not found
		w> GRAB_JOB
		w< NO_JOB
	`},
	{name: "one connection is client and worker", session: `
		c> CAN_DO f
		c> PRE_SLEEP
		c> SUBMIT_JOB f||x
		c< JOB_CREATED #1
		c< NOOP
		c> GRAB_JOB
		c< JOB_ASSIGN #1|f|x
		c> WORK_DATA #1|y
		c< WORK_DATA #1|y
		c> WORK_COMPLETE #1|z
		c< WORK_COMPLETE #1|z
	`},
	{name: "who does not have the job", session: `
		c> SUBMIT_JOB f||x
		c< JOB_CREATED #1
		v> WORK_COMPLETE #1|
		v< ERROR JOB_NOT_FOUND|Job given in work result not found
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|x
		v> WORK_COMPLETE #1|
		v< ERROR JOB_NOT_FOUND|Job given in work result not found
		v> WORK_FAIL #1
		v< ERROR JOB_NOT_FOUND|Job given in work result not found
		v> WORK_STATUS #1|1|2
		v< ERROR JOB_NOT_FOUND|Job given in work result not found
		v> WORK_DATA #1|x
		v< ERROR JOB_NOT_FOUND|Job does not exist on server
		v> WORK_WARNING #1|x
		v< ERROR JOB_NOT_FOUND|Job does not exist on server
		v> WORK_EXCEPTION #1|x
		v< ERROR JOB_NOT_FOUND|An exception was received for a job that does not exist
		v> WORK_DATA H:x:1|x
		v< ERROR JOB_NOT_FOUND|Job does not exist on server
		v> WORK_EXCEPTION |x
		v< ERROR JOB_NOT_FOUND|An exception was received for a job that does not exist
		v> WORK_FAIL 
		v< ERROR JOB_NOT_FOUND|Job given in work result not found
		w> WORK_COMPLETE #1|
		c< WORK_COMPLETE #1|
	`},
	{name: "assignments", session: `
		c> SUBMIT_JOB_BG f|u1|w\x001
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|u2|
		c< JOB_CREATED #2
		c> SUBMIT_JOB_BG f||3
		c< JOB_CREATED #3
		c> SUBMIT_REDUCE_JOB f|u4|reducer|aggregator|w\x004
		c< JOB_CREATED #4
		c> SUBMIT_REDUCE_JOB_BACKGROUND f|u5|reducer||5
		c< JOB_CREATED #5
		c> SUBMIT_REDUCE_JOB_BACKGROUND f||reducer||6
		c< JOB_CREATED #6
		c> SUBMIT_REDUCE_JOB_BACKGROUND f|u7||aggregator|7
		c< JOB_CREATED #7
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|w\x001
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #2|f|u2|
		w> GRAB_JOB_ALL
		w< JOB_ASSIGN_UNIQ #3|f||3
		w> GRAB_JOB_ALL
		w< JOB_ASSIGN_ALL #4|f|u4|reducer|w\x004
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #5|f|u5|5
		w> GRAB_JOB
		w< JOB_ASSIGN #6|f|6
		w> GRAB_JOB_ALL
		w< JOB_ASSIGN_UNIQ #7|f|u7|7
		# Any number at once, in any order.
		w> WORK_COMPLETE #4|four
		c< WORK_COMPLETE #4|four
		w> WORK_FAIL #1
		w> WORK_COMPLETE #7|
		a> status
		a< f\t4\t4\t1
		a< .
	`},
	{name: "priorities in one function", session: `
		c> SUBMIT_JOB_LOW_BG f||l1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f||n1
		c< JOB_CREATED #2
		c> SUBMIT_JOB_HIGH_BG f||h1
		c< JOB_CREATED #3
		c> SUBMIT_JOB_LOW f||l2
		c< JOB_CREATED #4
		c> SUBMIT_JOB f||n2
		c< JOB_CREATED #5
		c> SUBMIT_JOB_HIGH f||h2
		c< JOB_CREATED #6
		a> prioritystatus
		a< f\t2\t2\t2\t0
		a< .
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #3|f|h1
		w> GRAB_JOB
		w< JOB_ASSIGN #6|f|h2
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|n1
		w> GRAB_JOB
		w< JOB_ASSIGN #5|f|n2
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|l1
		w> GRAB_JOB
		w< JOB_ASSIGN #4|f|l2
	`},
	{name: "priorities of several functions", referenceOnly: true, session: `
		# The latest CAN_DO goes first, whatever the jobs.
		c> SUBMIT_JOB_HIGH_BG f||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_LOW_BG g||2
		c< JOB_CREATED #2
		w> CAN_DO f
		w> CAN_DO g
		w> GRAB_JOB
		w< JOB_ASSIGN #2|g|2
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
	`},
	{name: "priorities of several functions", sheafdOnly: true, session: `
		c> SUBMIT_JOB_LOW_BG g||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG h||2
		c< JOB_CREATED #2
		c> SUBMIT_JOB_BG f||3
		c< JOB_CREATED #3
		c> SUBMIT_JOB_HIGH_BG f||4
		c< JOB_CREATED #4
		w> CAN_DO f
		w> CAN_DO g
		w> CAN_DO h
		w> GRAB_JOB
		w< JOB_ASSIGN #4|f|4
		w> GRAB_JOB
		w< JOB_ASSIGN #2|h|2
		w> GRAB_JOB
		w< JOB_ASSIGN #3|f|3
		w> GRAB_JOB
		w< JOB_ASSIGN #1|g|1
	`},

	// Coalescing.

	{name: "coalescing", session: `
		c> SUBMIT_JOB f|u|first
		c< JOB_CREATED #1
		d> SUBMIT_JOB_HIGH f|u|second
		d< JOB_CREATED #1
		c> SUBMIT_JOB f|u|once more
		c< JOB_CREATED #1
		# Another function, another job.
		d> SUBMIT_JOB g|u|third
		d< JOB_CREATED #2
		a sees prioritystatus: f\t0\t1\t0\t0
	`},
	{name: "coalescing: results", session: `
		c> SUBMIT_JOB f|u|first
		c< JOB_CREATED #1
		c> SUBMIT_JOB f|u|once more
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #1|f|u|first
		# Also while it runs.
		d> SUBMIT_JOB_LOW f|u|second
		d< JOB_CREATED #1
		d> GET_STATUS_UNIQUE u
		d< STATUS_RES_UNIQUE u|1|1|0|0|3
		w> WORK_DATA #1|x
		c< WORK_DATA #1|x
		c< WORK_DATA #1|x
		d< WORK_DATA #1|x
		w> WORK_STATUS #1|1|2
		c< WORK_STATUS #1|1|2
		c< WORK_STATUS #1|1|2
		d< WORK_STATUS #1|1|2
		w> WORK_COMPLETE #1|y
		c< WORK_COMPLETE #1|y
		c< WORK_COMPLETE #1|y
		d< WORK_COMPLETE #1|y
		# That was that job.
		d> SUBMIT_JOB f|u|x
		d< JOB_CREATED #2
	`},
	{name: "coalescing by nothing and by the workload", session: `
		c> SUBMIT_JOB_BG f||same
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f||same
		c< JOB_CREATED #2
		c> SUBMIT_JOB_BG f|-|same
		c< JOB_CREATED #3
		c> SUBMIT_JOB_BG f|-|same
		c< JOB_CREATED #3
		c> SUBMIT_JOB_BG f|-|other
		c< JOB_CREATED #4
		c> SUBMIT_JOB_BG f|-|
		c< JOB_CREATED #5
		c> SUBMIT_JOB_BG f|-|
		c< JOB_CREATED #6
		c> SUBMIT_JOB_BG f|same|x
		c< JOB_CREATED #7
		c> SUBMIT_JOB_BG f|-|same
		c< JOB_CREATED #3
		c> GET_STATUS_UNIQUE -
		c< STATUS_RES_UNIQUE -|0|0|0|0|0
		w> CAN_DO f
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #1|f||same
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #2|f||same
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #3|f|-|same
		c> SUBMIT_JOB_BG f|-|same
		c< JOB_CREATED #3
	`},
	{name: "background, then foreground, and its client goes", referenceOnly: true, session: `
		c> SUBMIT_JOB_BG f|u|x
		c< JOB_CREATED #1
		d> SUBMIT_JOB f|u|x
		d< JOB_CREATED #1
		d gone
		a sees show jobs: #1\t0\t1\t0
		w> CAN_DO f
		w> GRAB_JOB
		w< NO_JOB
	`},
	{name: "background, then foreground, and its client goes", sheafdOnly: true, session: `
		c> SUBMIT_JOB_BG f|u|x
		c< JOB_CREATED #1
		d> SUBMIT_JOB f|u|x
		d< JOB_CREATED #1
		d gone
		a sees show jobs: #1\t0\t0\t1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|x
	`},
	{name: "foreground, then background, and its client goes", referenceOnly: true, session: `
		d> SUBMIT_JOB f|u|x
		d< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|u|x
		c< JOB_CREATED #1
		d gone
		a sees show jobs: #1\t0\t1\t0
		w> CAN_DO f
		w> GRAB_JOB
		w< NO_JOB
	`},
	{name: "foreground, then background, and its client goes", sheafdOnly: true, session: `
		d> SUBMIT_JOB f|u|x
		d< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|u|x
		c< JOB_CREATED #1
		a sees show jobs: #1\t0\t0\t1
		d gone
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|x
	`},

	// Ends.

	{name: "exceptions", session: `
		c> OPTION_REQ exceptions
		c< OPTION_RES exceptions
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> WORK_EXCEPTION #1|bo\x00om
		c< WORK_EXCEPTION #1|bo\x00om
		# That was the end of it.
		w> WORK_FAIL #1
		w< ERROR JOB_NOT_FOUND|Job given in work result not found
		# The option counts when the exception comes.
		d> SUBMIT_JOB f||2
		d< JOB_CREATED #2
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|2
		d> OPTION_REQ exceptions
		d< OPTION_RES exceptions
		w> WORK_EXCEPTION #2|
		d< WORK_EXCEPTION #2|
	`},
	{name: "exceptions without the option", referenceOnly: true, session: `
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> WORK_EXCEPTION #1|boom
		c< WORK_FAIL #1\x00
	`},
	{name: "exceptions without the option", sheafdOnly: true, session: `
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> WORK_EXCEPTION #1|boom
		c< WORK_FAIL #1
	`},
	{name: "a queued job is cancelled", session: `
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
		c> SUBMIT_JOB_BG f||3
		c< JOB_CREATED #3
		a> cancel job #1
		a< OK\r
		c< WORK_FAIL #1
		a> cancel job #2
		a< OK\r
		a> cancel job H:x:99
		a< ERR UNKNOWN_JOB\r
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #3|f|3
		a> cancel job #2
		a< ERR UNKNOWN_JOB\r
		a> status
		a< f\t1\t1\t1
		a< .
	`},
	{name: "a running job is cancelled", referenceOnly: true, session: `
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		a> cancel job #1
		a< OK\r
		c< WORK_FAIL #1
		w> WORK_COMPLETE #1|x
		c< WORK_COMPLETE #1|x
	`},
	{name: "a running job is cancelled", sheafdOnly: true, session: `
		c> SUBMIT_JOB f|u|1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		a> cancel job #1
		a< OK\r
		c< WORK_FAIL #1
		w> WORK_COMPLETE #1|x
		w> GRAB_JOB
		w< NO_JOB
	`},
	{name: "a running job is cancelled, and submitted again", session: `
		c> SUBMIT_JOB_BG f|u|1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		a> cancel job #1
		a< OK\r
		a> GET_STATUS_UNIQUE u
		a< STATUS_RES_UNIQUE u|1|1|0|0|0
		# It is the one that runs.
		c> SUBMIT_JOB f|u|2
		c< JOB_CREATED #1
		w> WORK_COMPLETE #1|x
		c< WORK_COMPLETE #1|x
	`},
	{name: "a running job is cancelled, and its worker goes", session: `
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		a> cancel job #1
		a< OK\r
		w gone
		v> CAN_DO f
		v> GRAB_JOB
		v< NO_JOB
		a sees status: f\t0\t0\t1
	`},
	{name: "a function is dropped with its jobs", referenceOnly: true, session: `
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		a> drop function f
		a< OK\r
		# It is not there, and not gone.
		a> status
		a< .
		a> GET_STATUS #1
		a< STATUS_RES #1|1|0|0|0
		w> CAN_DO f
		w> GRAB_JOB
		w< NO_JOB
	`},
	{name: "a function is dropped with its jobs", sheafdOnly: true, session: `
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
		a> drop function f
		a< OK\r
		c< WORK_FAIL #1
		a> GET_STATUS #2
		a< STATUS_RES #2|0|0|0|0
		a> status
		a< .
	`},

	// Times. The suite of sheafd's own tests lets time pass; here it does not.

	{name: "SUBMIT_JOB_EPOCH", session: `
		c> SUBMIT_JOB_EPOCH f|u|0|1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_EPOCH f||1000000000|2
		c< JOB_CREATED #2
		a sees show jobs: #1\t0\t0\t1
		w> CAN_DO f
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #1|f|u|1
		w> PRE_SLEEP
		w< NOOP
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|2
	`},
	{name: "SUBMIT_JOB_EPOCH with what is no number, or more than one", session: `
		w> CAN_DO f
		c> SUBMIT_JOB_EPOCH f||x|1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_EPOCH f|||2
		c< JOB_CREATED #2
		c> SUBMIT_JOB_EPOCH f||-1|3
		c< JOB_CREATED #3
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|2
		w> GRAB_JOB
		w< JOB_ASSIGN #3|f|3
		c> SUBMIT_JOB_EPOCH f|| 4102444800|4
		c< JOB_CREATED #4
		c> SUBMIT_JOB_EPOCH f||4102444800.5|5
		c< JOB_CREATED #5
		w> GRAB_JOB
		w< NO_JOB
	`},
	{name: "SUBMIT_JOB_EPOCH in the future", session: `
		c> SUBMIT_JOB_EPOCH f|u|4102444800|1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|u|2
		c< JOB_CREATED #1
		c> GET_STATUS #1
		c< STATUS_RES #1|1|0|0|0
		c> GET_STATUS_UNIQUE u
		c< STATUS_RES_UNIQUE u|1|0|0|0|0
		a> status
		a< f\t1\t0\t0
		a< .
		a> prioritystatus
		a< f\t0\t1\t0\t0
		a< .
		a> show jobs
		a< #1\t0\t0\t1
		a< .
		w> CAN_DO f
		w> GRAB_JOB
		w< NO_JOB
		w> PRE_SLEEP
	`},
	{name: "a job of the future in front of others", referenceOnly: true, session: `
		w> CAN_DO f
		w> PRE_SLEEP
		c> SUBMIT_JOB_EPOCH f||4102444800|1
		c< JOB_CREATED #1
		w< NOOP
		c> SUBMIT_JOB_LOW_BG f||2
		c< JOB_CREATED #2
		w> GRAB_JOB
		w< NO_JOB
		w> PRE_SLEEP
		w< NOOP
	`},
	{name: "a job of the future in front of others", sheafdOnly: true, session: `
		w> CAN_DO f
		w> PRE_SLEEP
		c> SUBMIT_JOB_EPOCH f||4102444800|1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_LOW_BG f||2
		c< JOB_CREATED #2
		w< NOOP
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|2
		w> PRE_SLEEP
	`},
}
