package main_test

// gdiffWorkerTranscripts are those of who comes and goes, and who sleeps.
var gdiffWorkerTranscripts = []gdiffTranscript{
	// Clients that go.

	{name: "the last client goes, the job is queued", referenceOnly: true, session: `
		c> SUBMIT_JOB f|u|1
		c< JOB_CREATED #1
		c gone
		a sees show jobs: #1\t0\t1\t0
		a sees status: f\t1\t0\t0
		# Who submits it again joins what will not run.
		d> SUBMIT_JOB f|u|2
		d< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< NO_JOB
		a> status
		a< f\t0\t0\t1
		a< .
	`},
	{name: "the last client goes, the job is queued", sheafdOnly: true, session: `
		c> SUBMIT_JOB f|u|1
		c< JOB_CREATED #1
		c gone
		a sees status: f\t0\t0\t0
		a> GET_STATUS #1
		a< STATUS_RES #1|0|0|0|0
		d> SUBMIT_JOB f|u|2
		d< JOB_CREATED #2
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|2
	`},
	{name: "one of two clients goes", session: `
		c> SUBMIT_JOB f|u|1
		c< JOB_CREATED #1
		d> SUBMIT_JOB f|u|1
		d< JOB_CREATED #1
		c gone
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		a> GET_STATUS_UNIQUE u
		a< STATUS_RES_UNIQUE u|1|1|0|0|1
		w> WORK_COMPLETE #1|x
		d< WORK_COMPLETE #1|x
	`},
	{name: "the last client goes, the job runs", session: `
		c> SUBMIT_JOB f|u|1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		c gone
		w> WORK_DATA #1|x
		w> WORK_STATUS #1|1|2
		a> GET_STATUS #1
		a< STATUS_RES #1|1|1|1|2
		# Another may wait for it now.
		d> SUBMIT_JOB f|u|2
		d< JOB_CREATED #1
		w> WORK_COMPLETE #1|y
		d< WORK_COMPLETE #1|y
	`},
	{name: "the last client goes, and then the worker", session: `
		c> SUBMIT_JOB f|u|1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		c gone
		w gone
		v> CAN_DO f
		v> GRAB_JOB
		v< NO_JOB
		a sees status: f\t0\t0\t1
	`},

	// Workers that go.

	{name: "a worker goes", session: `
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> WORK_STATUS #1|1|2
		c< WORK_STATUS #1|1|2
		w gone
		a sees show jobs: #1\t1\t0\t0
		c> GET_STATUS #1
		c< STATUS_RES #1|1|0|0|0
		v> CAN_DO f
		v> GRAB_JOB
		v< JOB_ASSIGN #1|f|1
		v gone
		a sees show jobs: #1\t2\t0\t0
	`},
	{name: "a worker goes, and another sleeps", session: `
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		v> CAN_DO f
		v> PRE_SLEEP
		w gone
		v< NOOP
		v> GRAB_JOB
		v< JOB_ASSIGN #1|f|1
	`},
	{name: "the order of jobs put back", referenceOnly: true, session: `
		# To the end, the one that was given out last first.
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
		c> SUBMIT_JOB_BG f||3
		c< JOB_CREATED #3
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|2
		w gone
		a sees status: f\t3\t0\t0
		v> CAN_DO f
		v> GRAB_JOB
		v< JOB_ASSIGN #3|f|3
		v> GRAB_JOB
		v< JOB_ASSIGN #2|f|2
		v> GRAB_JOB
		v< JOB_ASSIGN #1|f|1
	`},
	{name: "the order of jobs put back", sheafdOnly: true, session: `
		# A job keeps its place.
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
		c> SUBMIT_JOB_BG f||3
		c< JOB_CREATED #3
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|2
		w gone
		a sees status: f\t3\t0\t0
		v> CAN_DO f
		v> GRAB_JOB
		v< JOB_ASSIGN #1|f|1
		v> GRAB_JOB
		v< JOB_ASSIGN #2|f|2
		v> GRAB_JOB
		v< JOB_ASSIGN #3|f|3
	`},
	{name: "CANT_DO and RESET_ABILITIES with jobs at work", referenceOnly: true, session: `
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB g||2
		c< JOB_CREATED #2
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> CAN_DO g
		w> GRAB_JOB
		w< JOB_ASSIGN #2|g|2
		w> CANT_DO f
		w> WORK_COMPLETE #1|
		w< ERROR JOB_NOT_FOUND|Job given in work result not found
		w> RESET_ABILITIES
		w> WORK_COMPLETE #2|
		w< ERROR JOB_NOT_FOUND|Job given in work result not found
		a sees show jobs: #2\t1\t0\t0
	`},
	{name: "CANT_DO and RESET_ABILITIES with jobs at work", sheafdOnly: true, session: `
		# The worker is about to finish them.
		c> SUBMIT_JOB f||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB g||2
		c< JOB_CREATED #2
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> CAN_DO g
		w> GRAB_JOB
		w< JOB_ASSIGN #2|g|2
		w> CANT_DO f
		w> WORK_COMPLETE #1|
		c< WORK_COMPLETE #1|
		w> RESET_ABILITIES
		w> WORK_COMPLETE #2|
		c< WORK_COMPLETE #2|
	`},
	{name: "CAN_DO twice", referenceOnly: true, session: `
		w> CAN_DO f
		w> CAN_DO f
		a> status
		a< f\t0\t0\t2
		a< .
		w> CANT_DO f
		a> status
		a< f\t0\t0\t0
		a< .
	`},
	{name: "CAN_DO twice", sheafdOnly: true, session: `
		w> CAN_DO f
		w> CAN_DO f
		w> CAN_DO_TIMEOUT f|1000
		a> status
		a< f\t0\t0\t1
		a< .
		w> CANT_DO f
		a> status
		a< f\t0\t0\t0
		a< .
	`},
	{name: "CAN_DO_TIMEOUT with what is none", session: `
		w> CAN_DO_TIMEOUT f|-1
		w> CAN_DO_TIMEOUT g|x
		w> CAN_DO_TIMEOUT h|
		w> CAN_DO_TIMEOUT i|0
		a sees workers: * 127.0.0.1 - : i h g f
	`},

	// Sleep.

	{name: "PRE_SLEEP and NOOP", session: `
		w> CAN_DO f
		w> PRE_SLEEP
		v> CAN_DO f
		v> PRE_SLEEP
		u> CAN_DO f
		x> CAN_DO g
		x> PRE_SLEEP
		# All that sleep are woken, once.
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		w< NOOP
		v< NOOP
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		c> SUBMIT_JOB_BG f||3
		c< JOB_CREATED #3
		# Where there is a job, nobody sleeps.
		w> PRE_SLEEP
		w< NOOP
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|2
		v> GRAB_JOB
		v< JOB_ASSIGN #3|f|3
		v> GRAB_JOB
		v< NO_JOB
		w> PRE_SLEEP
		w> PRE_SLEEP
		c> SUBMIT_JOB_BG f||4
		c< JOB_CREATED #4
		w< NOOP
	`},
	{name: "asleep for several functions", session: `
		w> CAN_DO f
		w> CAN_DO g
		w> PRE_SLEEP
		c> SUBMIT_JOB_BG g||1
		c< JOB_CREATED #1
		w< NOOP
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
	`},
	{name: "a job that is there wakes nobody", session: `
		c> SUBMIT_JOB_BG f|u|1
		c< JOB_CREATED #1
		v> CAN_DO f
		v> GRAB_JOB
		v< JOB_ASSIGN #1|f|1
		w> CAN_DO f
		w> PRE_SLEEP
		c> SUBMIT_JOB f|u|1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|u|1
		c< JOB_CREATED #1
	`},
	{name: "abilities change while asleep", session: `
		w> CAN_DO f
		w> PRE_SLEEP
		w> CAN_DO g
		c> SUBMIT_JOB_BG g||1
		c< JOB_CREATED #1
		w< NOOP
		v> CAN_DO f
		v> PRE_SLEEP
		v> RESET_ABILITIES
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
		v> CAN_DO h
		c> SUBMIT_JOB_BG h||3
		c< JOB_CREATED #3
		v< NOOP
		# Also for one who could do nothing yet.
		x> PRE_SLEEP
		x> CAN_DO k
		c> SUBMIT_JOB_BG k||4
		c< JOB_CREATED #4
		x< NOOP
	`},
	{name: "woken, and asleep again", referenceOnly: true, session: `
		w> CAN_DO f
		w> PRE_SLEEP
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		w< NOOP
		v> CAN_DO f
		v> GRAB_JOB
		v< JOB_ASSIGN #1|f|1
		w> PRE_SLEEP
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
		# And there it sleeps.
	`},
	{name: "woken, and asleep again", sheafdOnly: true, session: `
		w> CAN_DO f
		w> PRE_SLEEP
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		w< NOOP
		v> CAN_DO f
		v> GRAB_JOB
		v< JOB_ASSIGN #1|f|1
		w> PRE_SLEEP
		c> SUBMIT_JOB_BG f||2
		c< JOB_CREATED #2
		w< NOOP
	`},
	{name: "a function with jobs, learnt while asleep", referenceOnly: true, session: `
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		w> PRE_SLEEP
		w> CAN_DO f
		# And there it sleeps.
	`},
	{name: "a function with jobs, learnt while asleep", sheafdOnly: true, session: `
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		w> PRE_SLEEP
		w> CAN_DO f
		w< NOOP
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
	`},
}
