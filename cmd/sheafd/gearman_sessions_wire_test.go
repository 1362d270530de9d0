package main_test

import "strings"

// gdiffWireTranscripts are those of packets, options and admin lines.
var gdiffWireTranscripts = []gdiffTranscript{
	// Packets.

	{name: "echo", session: `
		c> ECHO_REQ hello
		c< ECHO_RES hello
		c> ECHO_REQ 
		c< ECHO_RES 
		c> ECHO_REQ a\x00b\r\n\x00
		c< ECHO_RES a\x00b\r\n\x00
	`},
	{name: "packets and lines on one connection, in any pieces", session: `
		c>> show x\r\n\x00REQ\x00\x00\x00\x10\x00\x00\x00\x01xfoo\n\x00REQ\x00\x00\x00\x10\x00\x00\x00\x01y
		c< ERR UNKNOWN_SHOW_ARGUMENTS\r
		c< ECHO_RES x
		c< ERR UNKNOWN_COMMAND Unknown+server+commandfoo\r
		c< ECHO_RES y
		c>>> \x00RE
		c>>> Q\x00\x00\x00\x10\x00\x00\x00\x03a
		c>> bc
		c< ECHO_RES abc
		c>>> show x
		c>> \r\n
		c< ERR UNKNOWN_SHOW_ARGUMENTS\r
	`},
	{name: "a response is no request", session: `
		c>> \x00RES\x00\x00\x00\x10\x00\x00\x00\x01x
		c< ERROR INVALID_MAGIC|Request magic expected
		c>> \x00RES\x00\x00\x00\x07\x00\x00\x00\x05f\x00u\x00x
		c< ERROR INVALID_MAGIC|Request magic expected
		c> ECHO_REQ still here
		c< ECHO_RES still here
	`},
	{name: "no magic, no more", referenceOnly: true, session: `
		c>>> \x00XEQ12345678
		c< (closed)
		d>>> \x00req\x00\x00\x00\x10\x00\x00\x00\x00
		d< (closed)
	`},
	{name: "no magic, no more", sheafdOnly: true, session: `
		# It says why.
		c>>> \x00XEQ12345678
		c< ERROR INVALID_MAGIC|Request magic expected
		c< (closed)
		d>>> \x00req\x00\x00\x00\x10\x00\x00\x00\x00
		d< ERROR INVALID_MAGIC|Request magic expected
		d< (closed)
	`},
	{name: "types that are no requests", session: `
		c>> \x00REQ\x00\x00\x00\x05\x00\x00\x00\x00
		c< ERROR INVALID_COMMAND|Command not expected
		c> NOOP
		c< ERROR INVALID_COMMAND|Command not expected
		c> JOB_CREATED H:x:1
		c< ERROR INVALID_COMMAND|Command not expected
		c> NO_JOB
		c< ERROR INVALID_COMMAND|Command not expected
		c> ECHO_RES x
		c< ERROR INVALID_COMMAND|Command not expected
		c> OPTION_RES x
		c< ERROR INVALID_COMMAND|Command not expected
		c> JOB_ASSIGN H:x:1|f|x
		c< ERROR INVALID_COMMAND|Command not expected
		c> ERROR CODE|text
		c< ERROR INVALID_COMMAND|Command not expected
	`},
	{name: "types that are none", referenceOnly: true, session: `
		# And 4294967295 is the end of the server.
		c>>> \x00REQ\x00\x00\x00\x00\x00\x00\x00\x00
		c< (closed)
		d>>> \x00REQ\x00\x00\x00\x2b\x00\x00\x00\x00
		d< (closed)
	`},
	{name: "types that are none", sheafdOnly: true, session: `
		c>> \x00REQ\x00\x00\x00\x00\x00\x00\x00\x00
		c< ERROR INVALID_COMMAND|Command not expected
		c>> \x00REQ\x00\x00\x00\x2b\x00\x00\x00\x01x
		c< ERROR INVALID_COMMAND|Command not expected
		c>> \x00REQ\xff\xff\xff\xff\x00\x00\x00\x00
		c< ERROR INVALID_COMMAND|Command not expected
	`},
	{name: "missing arguments", sheafdOnly: true, session: `
		# The reference waits for them, and takes the next packet for one.
		c>> \x00REQ\x00\x00\x00\x07\x00\x00\x00\x03f\x00u
		c< ERROR INVALID_PACKET|Arguments are missing
		c>> \x00REQ\x00\x00\x00\x0d\x00\x00\x00\x00
		c< ERROR INVALID_PACKET|Arguments are missing
		c> ECHO_REQ still here
		c< ECHO_RES still here
	`},
	{name: "results that are a handle alone", referenceOnly: true, session: `
		# The end of the handle is looked for in the next packet.
		w>>> \x00REQ\x00\x00\x00\x0d\x00\x00\x00\x05H:x:1\x00REQ\x00\x00\x00\x10\x00\x00\x00\x01x
		w< (closed)
	`},
	{name: "results that are a handle alone", sheafdOnly: true, session: `
		# They have no data.
		c> OPTION_REQ exceptions
		c< OPTION_RES exceptions
		w> CAN_DO f
		c> SUBMIT_JOB f||x
		c< JOB_CREATED #1
		c> SUBMIT_JOB f||y
		c< JOB_CREATED #2
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|x
		w> GRAB_JOB
		w< JOB_ASSIGN #2|f|y
		w> WORK_DATA #1
		c< WORK_DATA #1|
		w> WORK_WARNING #1
		c< WORK_WARNING #1|
		w> WORK_COMPLETE #1
		c< WORK_COMPLETE #1|
		w> WORK_EXCEPTION #2
		c< WORK_EXCEPTION #2|
		w> WORK_COMPLETE #2
		w< ERROR JOB_NOT_FOUND|Job given in work result not found
	`},
	{name: "arguments of packets that have none", session: `
		c>> \x00REQ\x00\x00\x00\x09\x00\x00\x00\x03xyz
		c< NO_JOB
		c>> \x00REQ\x00\x00\x00\x04\x00\x00\x00\x03x\x00z
		c>> \x00REQ\x00\x00\x00\x03\x00\x00\x00\x03xyz
	`},
	{name: "arguments that are long", session: `
		c> SUBMIT_REDUCE_JOB_BACKGROUND f||r|` + strings.Repeat("a", 8192-6) + `|x
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB_ALL
		w< JOB_ASSIGN_ALL #1|f||r|x
	`},
	{name: "arguments that are too long", referenceOnly: true, session: `
		c>>> \x00REQ\x00\x00\x00\x26\x00\x00\x23\x30f\x00\x00r\x00` + strings.Repeat("a", 9002) + `\x00x
		c< (closed)
		d>>> \x00REQ\x00\x00\x00\x01\x00\x00\x20\x01` + strings.Repeat("f", 8193) + `
		d< (closed)
	`},
	{name: "arguments that are too long", sheafdOnly: true, session: `
		c> SUBMIT_REDUCE_JOB_BACKGROUND f||r|` + strings.Repeat("a", 9002) + `|x
		c< ERROR ARGUMENT_TOO_LARGE|Arguments have at most 8192 bytes, a workload or result apart
		c> ECHO_REQ still here
		c< ECHO_RES still here
		d>>> \x00REQ\x00\x00\x00\x01\x00\x00\x20\x01` + strings.Repeat("f", 8193) + `
		d< ERROR ARGUMENT_TOO_LARGE|Arguments have at most 8192 bytes, a workload or result apart
		d< (closed)
	`},
	{name: "ALL_YOURS", referenceOnly: true, session: `
		c> ALL_YOURS
		c< ERROR INVALID_COMMAND|Command not expected
	`},
	{name: "ALL_YOURS", sheafdOnly: true, session: `
		c> ALL_YOURS
	`},
	{name: "SUBMIT_JOB_SCHED", referenceOnly: true, session: `
		c> SUBMIT_JOB_SCHED f||0|0|1|1||x
		c< ERROR INVALID_COMMAND|Command not expected
	`},
	{name: "SUBMIT_JOB_SCHED", sheafdOnly: true, session: `
		c> SUBMIT_JOB_SCHED f||0|0|1|1||x
		c< JOB_CREATED #1
		c> SUBMIT_JOB_SCHED f||0|0|31|2||x
		c< ERROR INVALID_ARGUMENT|Time is invalid, or never comes
		c> SUBMIT_JOB_SCHED f||60|0|1|2||x
		c< ERROR INVALID_ARGUMENT|Time is invalid, or never comes
		c> GET_STATUS #1
		c< STATUS_RES #1|1|0|0|0
		c> status
		c< f\t1\t0\t0
		c< .
	`},
	{name: "options", session: `
		c> OPTION_REQ exceptions
		c< OPTION_RES exceptions
		c> OPTION_REQ ExCeptions
		c< OPTION_RES ExCeptions
		c> OPTION_REQ exceptions\x00
		c< OPTION_RES exceptions\x00
		c> OPTION_REQ exception
		c< ERROR UNKNOWN_OPTION|Server does not recognize given option
		c> OPTION_REQ 
		c< ERROR UNKNOWN_OPTION|Server does not recognize given option
		c> OPTION_REQ ` + strings.Repeat("x", 1000) + `
		c< ERROR UNKNOWN_OPTION|Server does not recognize given option
	`},
	{name: "client ids", session: `
		c> SET_CLIENT_ID one
		c sees workers: * 127.0.0.1 one :
		c> SET_CLIENT_ID two words
		c sees workers: * 127.0.0.1 two words :
		c> SET_CLIENT_ID ` + strings.Repeat("i", 127) + `
		c sees workers: * 127.0.0.1 ` + strings.Repeat("i", 127) + ` :
		c> CAN_DO f
		c> CAN_DO g
		c> CAN_DO h
		c> CANT_DO g
		c> SET_CLIENT_ID able
		c sees workers: * 127.0.0.1 able : h f
		e> SET_CLIENT_ID 
		e sees workers: * 127.0.0.1  :
		d sees workers: * 127.0.0.1 - :
		c> RESET_ABILITIES
		c sees workers: * 127.0.0.1 able :
	`},

	// Names.

	{name: "function names of any bytes", session: `
		c> SUBMIT_JOB_BG a b||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG ` + strings.Repeat("n", 512) + `||2
		c< JOB_CREATED #2
		c> SUBMIT_JOB_BG \xff\t\x01||3
		c< JOB_CREATED #3
		w> CAN_DO a b
		w> GRAB_JOB
		w< JOB_ASSIGN #1|a b|1
		w> CAN_DO \xff\t\x01
		w> GRAB_JOB
		w< JOB_ASSIGN #3|\xff\t\x01|3
		w> CAN_DO ` + strings.Repeat("n", 512) + `
		w> GRAB_JOB
		w< JOB_ASSIGN #2|` + strings.Repeat("n", 512) + `|2
		w> CAN_DO A b
		w> GRAB_JOB
		w< NO_JOB
	`},
	{name: "no function name", referenceOnly: true, session: `
		c> SUBMIT_JOB_BG ||x
		c< JOB_CREATED #1
		c> CAN_DO 
		c> GRAB_JOB
		c< JOB_ASSIGN #1||x
	`},
	{name: "no function name", sheafdOnly: true, session: `
		c> SUBMIT_JOB_BG ||x
		c< ERROR INVALID_FUNCTION_NAME|Function names have 1 to 512 bytes
		c> CAN_DO 
		c< ERROR INVALID_FUNCTION_NAME|Function names have 1 to 512 bytes
		c> SUBMIT_JOB_BG ` + strings.Repeat("n", 513) + `||x
		c< ERROR INVALID_FUNCTION_NAME|Function names have 1 to 512 bytes
	`},
	{name: "the longest unique", session: `
		c> SUBMIT_JOB_BG f|` + strings.Repeat("u", 63) + `|1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|` + strings.Repeat("u", 63) + `|2
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|` + strings.Repeat("u", 65) + `|3
		c< ERROR ARGUMENT_TOO_LARGE|Unique value too large
		c> GET_STATUS_UNIQUE ` + strings.Repeat("u", 63) + `
		c< STATUS_RES_UNIQUE ` + strings.Repeat("u", 63) + `|1|0|0|0|0
	`},
	{name: "a unique of 64 bytes", referenceOnly: true, session: `
		c> SUBMIT_JOB_BG f|` + strings.Repeat("u", 64) + `|1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|` + strings.Repeat("u", 64) + `|2
		c< JOB_CREATED #2
		w> CAN_DO f
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #1|f|` + strings.Repeat("u", 63) + `|\x001
	`},
	{name: "a unique of 64 bytes", sheafdOnly: true, session: `
		c> SUBMIT_JOB_BG f|` + strings.Repeat("u", 64) + `|1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|` + strings.Repeat("u", 64) + `|2
		c< JOB_CREATED #1
		w> CAN_DO f
		w> GRAB_JOB_UNIQ
		w< JOB_ASSIGN_UNIQ #1|f|` + strings.Repeat("u", 64) + `|1
	`},

	// Status.

	{name: "handles that are none", session: `
		c> GET_STATUS H:x:1
		c< STATUS_RES H:x:1|0|0|0|0
		c> GET_STATUS 
		c< STATUS_RES |0|0|0|0
		c> GET_STATUS ` + strings.Repeat("H", 63) + `
		c< STATUS_RES ` + strings.Repeat("H", 63) + `|0|0|0|0
		c> GET_STATUS nonsense\x00
		c< STATUS_RES nonsense|0|0|0|0
		c> GET_STATUS_UNIQUE nobody
		c< STATUS_RES_UNIQUE nobody|0|0|0|0|0
		c> GET_STATUS_UNIQUE 
		c< STATUS_RES_UNIQUE |0|0|0|0|0
		c> GET_STATUS_UNIQUE -
		c< STATUS_RES_UNIQUE -|0|0|0|0|0
	`},
	{name: "handles that are too long", referenceOnly: true, session: `
		# With more than one thread it just says nothing.
		c>> \x00REQ\x00\x00\x00\x0f\x00\x00\x00\x40` + strings.Repeat("H", 64) + `
		c< (closed)
		d>> \x00REQ\x00\x00\x00\x29\x00\x00\x00\x40` + strings.Repeat("u", 64) + `
		d< (closed)
	`},
	{name: "handles that are too long", sheafdOnly: true, session: `
		c> GET_STATUS ` + strings.Repeat("H", 64) + `
		c< STATUS_RES ` + strings.Repeat("H", 64) + `|0|0|0|0
		c> GET_STATUS_UNIQUE ` + strings.Repeat("u", 64) + `
		c< STATUS_RES_UNIQUE ` + strings.Repeat("u", 64) + `|0|0|0|0|0
	`},

	// Admin lines. netio/gearman asks the reference about more of them.

	{name: "HTTP", referenceOnly: true, session: `
		c>> GET / HTTP/1.1\r\n
		c< ERR UNKNOWN_COMMAND Unknown+server+commandGET\r
	`},
	{name: "HTTP", sheafdOnly: true, session: `
		# What follows may be lines that a web page has a browser send.
		c>>> GET / HTTP/1.1\r\nversion\n
		c< (closed)
	`},
	{name: "lines that end as those of HTTP do", session: `
		c> create function HTTP/1.1
		c< OK\r
		c>> GET HTTP/1.1\r\n
		c< ERR UNKNOWN_COMMAND Unknown+server+commandGET\r
	`},
	{name: "admin lines that are no commands", session: `
		c> 
		c< ERR UNKNOWN_COMMAND Unknown+server+command\r
		c> foo bar
		c< ERR UNKNOWN_COMMAND Unknown+server+commandfoo\r
		c> show
		c< ERR UNKNOWN_COMMAND Unknown+server+commandshow\r
		c> show job
		c< ERR UNKNOWN_SHOW_ARGUMENTS\r
		c> create
		c< ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+create\r
		c> cancel x y
		c< ERR UNKNOWN_ERROR\r
		c> cancel job H:x:1
		c< ERR UNKNOWN_JOB\r
		c> drop function nope
		c< ERR function not found\r
	`},
	{name: "the longest admin line", session: `
		c> ` + strings.Repeat("x", 8190) + `
		c< ERR UNKNOWN_COMMAND Unknown+server+command` + strings.Repeat("x", 8190) + `\r
	`},
	{name: "five words and more", referenceOnly: true, session: `
		c> maxqueue f 1 2 3
		c< OK\r
		c>> maxqueue f 1 2 3 4\r\n
		c< (closed)
	`},
	{name: "five words and more", sheafdOnly: true, session: `
		c> maxqueue f 1 2 3 4 5 6 7
		c< OK\r
	`},
	{name: "functions are made and dropped", session: `
		a> status
		a< .
		a> create function f
		a< OK\r
		a> create function f
		a< OK\r
		a> status
		a< f\t0\t0\t0
		a< .
		a> prioritystatus
		a< f\t0\t0\t0\t0
		a< .
		w> CAN_DO f
		a> drop function f
		a< ERR there are still connected workers or executing clients\r
		w> CANT_DO f
		a> drop function f
		a< OK\r
		a> drop function f
		a< ERR function not found\r
		# They stay when nobody uses them any more.
		w> CAN_DO g
		w gone
		a sees status: g\t0\t0\t0
		c> SUBMIT_JOB h||
		c< JOB_CREATED #1
		w> CAN_DO h
		w> GRAB_JOB
		w< JOB_ASSIGN #1|h|
		w> WORK_COMPLETE #1|
		c< WORK_COMPLETE #1|
		w> RESET_ABILITIES
		a sees status: h\t0\t0\t0
	`},
	{name: "create function without a CR", referenceOnly: true, session: `
		a>> create function abc\n
		a< OK\r
		a sees status: ab\t0\t0\t0
	`},
	{name: "create function without a CR", sheafdOnly: true, session: `
		a>> create function abc\n
		a< OK\r
		a sees status: abc\t0\t0\t0
	`},
	{name: "drop function in upper and lower case", referenceOnly: true, session: `
		a> create function Ab
		a< OK\r
		a> create function aB
		a< OK\r
		a> drop function ab
		a< OK\r
		a< OK\r
		a> status
		a< .
	`},
	{name: "drop function in upper and lower case", sheafdOnly: true, session: `
		a> create function Ab
		a< OK\r
		a> drop function ab
		a< ERR function not found\r
		a> status
		a< Ab\t0\t0\t0
		a< .
	`},
	{name: "maxqueue", session: `
		a> maxqueue f 2
		a< OK\r
		# It is for functions that are there.
		c> SUBMIT_JOB_BG f||1
		c< JOB_CREATED #1
		c> SUBMIT_JOB_BG f|u|2
		c< JOB_CREATED #2
		c> SUBMIT_JOB_HIGH f||3
		c< JOB_CREATED #3
		a> maxqueue f 2
		a< OK\r
		c> SUBMIT_JOB f||4
		c< ERROR QUEUE_ERROR|Job queue is full
		c> SUBMIT_JOB_LOW_BG f||4
		c< ERROR QUEUE_ERROR|Job queue is full
		c> SUBMIT_JOB_EPOCH f||4102444800|4
		c< ERROR QUEUE_ERROR|Job queue is full
		c> SUBMIT_REDUCE_JOB_BACKGROUND f||r|a|4
		c< ERROR QUEUE_ERROR|Job queue is full
		# A job that is there already is no new one.
		c> SUBMIT_JOB_HIGH f|u|5
		c< JOB_CREATED #2
		# Those that run count.
		w> CAN_DO f
		w> GRAB_JOB
		w< JOB_ASSIGN #3|f|3
		c> SUBMIT_JOB_BG f||6
		c< ERROR QUEUE_ERROR|Job queue is full
		w> WORK_COMPLETE #3|
		c< WORK_COMPLETE #3|
		c> SUBMIT_JOB_BG f||7
		c< ERROR QUEUE_ERROR|Job queue is full
		w> GRAB_JOB
		w< JOB_ASSIGN #1|f|1
		w> WORK_COMPLETE #1|
		c> SUBMIT_JOB_BG f||8
		c< JOB_CREATED #4
		# Of each priority, all jobs count.
		a> maxqueue f 1 3 0
		a< OK\r
		c> SUBMIT_JOB_HIGH_BG f||9
		c< ERROR QUEUE_ERROR|Job queue is full
		c> SUBMIT_JOB_BG f||9
		c< JOB_CREATED #5
		c> SUBMIT_JOB_BG f||10
		c< ERROR QUEUE_ERROR|Job queue is full
		c> SUBMIT_JOB_LOW_BG f||10
		c< JOB_CREATED #6
		a> maxqueue f 1 2
		a< OK\r
		c> SUBMIT_JOB_LOW_BG f||11
		c< JOB_CREATED #7
		a> maxqueue f
		a< OK\r
		c> SUBMIT_JOB_HIGH_BG f||12
		c< JOB_CREATED #8
		a> prioritystatus
		a< f\t1\t3\t2\t1
		a< .
	`},
}
