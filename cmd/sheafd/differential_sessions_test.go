package main_test

import "strings"

// diffLineTranscripts are those of what a line may be, and of put.
var diffLineTranscripts = []diffTranscript{
	{name: "a job's life", session: `
		-> put 0 0 10 3\r\nabc\r\n
		<- INSERTED 1
		-> reserve\r\n
		<- RESERVED 1 3\r\nabc
		-> delete 1\r\n
		<- DELETED
		-> delete 1\r\n
		<- NOT_FOUND
	`},

	// Lines.

	{name: "commands are known by their beginning", session: `
		# Those that take no argument refuse any further byte, the others need their space.
		-> statsx\r\nstats \r\nlist-tubesx\r\nlist-tubes-watched \r\nlist-tube-used \r\npeek-ready \r\npeek-delayedx\r\npeek-buried \r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> reserved\r\nreserve \r\nreserve-job\r\nreserve-with-timeout\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> delete\r\nput\r\npeek\r\nuse\r\nkick\r\nkick-job\r\ntouch\r\nbury\r\nrelease\r\nwatch\r\nignore\r\n
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		# stats-job and stats-tube without their space are stats with more behind it.
		-> stats-job\r\nstats-tube\r\nSTATS\r\n stats\r\n\r\nlist-tub\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
		<- UNKNOWN_COMMAND
	`},
	{name: "pause-tube needs no space", session: `
		-> pause-tubedefault 0\r\npause-tube  default   0\r\npause-tube\r\npause-tube default\r\npause-tube default 0 \r\npause-tube default0\r\n
		<- PAUSED
		<- PAUSED
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
	`},
	{name: "quit does not mind what follows", session: `
		-> quit now\r\n
		<- (closed)
		B-> use a\r\nquit\r\n
		B<- USING a
		B<- (closed)
		C-> quitting\r\n
		C<- (closed)
	`},
	{name: "a line of 224 bytes is the longest", session: `
		-> ` + strings.Repeat("x", 222) + `\r\n
		<- UNKNOWN_COMMAND
		-> ` + strings.Repeat("x", 224) + `\r\nlist-tube-used\r\n
		<- BAD_FORMAT
		<- USING default
		-> ` + strings.Repeat("x", 1000) + `\r\nlist-tube-used\r\n
		<- BAD_FORMAT
		<- USING default
		-> ` + strings.Repeat("x", 225) + `¦\r¦\n
		<- BAD_FORMAT
		# It is looked at in windows of 224 bytes: a CRLF on the border of two is not seen.
		-> ` + strings.Repeat("x", 223) + `\r\n
		<- (nothing)
		-> list-tube-used\r\n
		<- BAD_FORMAT
		-> ` + strings.Repeat("x", 447) + `\r\n
		<- (nothing)
		-> list-tube-used\r\n
		<- BAD_FORMAT
		-> list-tube-used\r\n
		<- USING default
	`},
	{name: "a NUL in the line", session: `
		-> stats\x00\r\n\x00\r\nput 0 0 10 1\x00\r\nquit\x00\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> list-tube-used\r\n
		<- USING default
	`},
	{name: "LF alone does not end a line", session: `
		-> list-tubes\nlist-tube-used\r\n
		<- BAD_FORMAT
	`},
	{name: "a CR without LF hides the end of its line", session: `
		# The first CR of the 224 bytes is the only one that is looked at.
		-> list-tubes\rx\r\n
		<- (nothing)
		-> list-tube-used\r\n
		<- (nothing)
		-> ` + strings.Repeat("x", 300) + `\r\nlist-tube-used\r\n
		<- BAD_FORMAT
		<- USING default
	`},
	{name: "torn and glued", session: `
		-> pu¦t 0 0 1¦0 3¦\r¦\na¦bc\r¦\nlist-tube-u¦sed\r\nput 0 0 10 0\r\n¦\r\n
		<- INSERTED 1
		<- USING default
		<- INSERTED 2
	`},
	{name: "numbers", session: `
		# Spaces before a number do not matter, anything after the last one does.
		-> delete  7\r\ndelete 007\r\ndelete 7 \r\ndelete 7x\r\ndelete -7\r\ndelete +7\r\ndelete \r\ndelete \t7\r\n
		<- NOT_FOUND
		<- NOT_FOUND
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> delete 18446744073709551615\r\ndelete 18446744073709551616\r\npeek 18446744073709551616\r\n
		<- NOT_FOUND
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> release 1 4294967295 4294967295\r\nrelease 1 4294967296 0\r\nrelease 1 0 4294967296\r\nbury 1 4294967296\r\nbury 1\r\nrelease 1 2\r\n
		<- NOT_FOUND
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> pause-tube default 4294967296\r\npause-tube default -1\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> put 4294967296 0 10 1\r\nput 0 4294967296 10 1\r\nput 0 0 4294967296 1\r\nput 0 0 10 4294967296\r\nput -1 0 10 1\r\nput 0 0 10\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
	`},
	{name: "kick takes what strtoul takes", session: `
		-> kick 1x\r\nkick -1\r\nkick +1\r\nkick \t1\r\nkick 0\r\nkick 4294967296\r\nkick 18446744073709551615\r\n
		<- KICKED 0
		<- KICKED 0
		<- KICKED 0
		<- KICKED 0
		<- KICKED 0
		<- KICKED 0
		<- KICKED 0
		-> kick x\r\nkick \r\nkick 18446744073709551616\r\nkick -18446744073709551616\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		# The number is cut to 32 bits: of 2^32+1 jobs one is kicked, of -1 all.
		-> put 0 100 10 0\r\n\r\nput 0 100 10 0\r\n\r\nput 0 100 10 0\r\n\r\nput 0 100 10 0\r\n\r\n
		<- INSERTED 1
		<- INSERTED 2
		<- INSERTED 3
		<- INSERTED 4
		-> kick 4294967297\r\nkick 4294967296\r\nkick -1\r\n
		<- KICKED 1
		<- KICKED 0
		<- KICKED 3
	`},
	{name: "reserve-with-timeout ignores what follows its number", session: `
		-> reserve-with-timeout 0 x\r\nreserve-with-timeout  0\r\nreserve-with-timeout 0x\r\n
		<- TIMED_OUT
		<- TIMED_OUT
		<- TIMED_OUT
	`},
	{name: "reserve-with-timeout is strict since 1.13", sheafdOnly: true, session: `
		-> reserve-with-timeout -1\r\nreserve-with-timeout x\r\nreserve-with-timeout \r\nreserve-with-timeout 2147483648\r\nreserve-with-timeout +0\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
	`},
	{name: "tube names", session: `
		-> use a-+/;.$_()Z9\r\nuse -a\r\nuse \r\nuse  a\r\nuse a b\r\nuse a,b\r\nuse \xc3\xa4\r\n
		<- USING a-+/;.$_()Z9
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> use ` + strings.Repeat("n", 200) + `\r\nuse ` + strings.Repeat("n", 201) + `\r\nwatch ` + strings.Repeat("n", 201) + `\r\nignore ` + strings.Repeat("n", 201) + `\r\nstats-tube ` + strings.Repeat("n", 201) + `\r\n
		<- USING ` + strings.Repeat("n", 200) + `
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> pause-tube ` + strings.Repeat("n", 201) + ` 0\r\npause-tube -a 0\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
	`},
	{name: "what is counted", session: `
		# A refused line is not, one that was served is, NOT_FOUND included …
		-> delete x\r\ndelete 9\r\npeek x\r\npeek 9\r\nuse -\r\nuse a\r\nkick x\r\nkick 1\r\nstats-tube -\r\nstats-tube none\r\nlist-tubesx\r\n
		<- BAD_FORMAT
		<- NOT_FOUND
		<- BAD_FORMAT
		<- NOT_FOUND
		<- BAD_FORMAT
		<- USING a
		<- BAD_FORMAT
		<- KICKED 0
		<- BAD_FORMAT
		<- NOT_FOUND
		<- BAD_FORMAT
		# … but a put is once its numbers are read, and a pause-tube once its name's bytes and its number are.
		-> put 0 0 10 1x\r\nput 0 0 10 x\r\nput 0 0 10 2000\r\n` + strings.Repeat("x", 2000) + `\r\npause-tube -a 1\r\npause-tube , 1\r\n
		<- BAD_FORMAT
		<- BAD_FORMAT
		<- JOB_TOO_BIG
		<- BAD_FORMAT
		<- BAD_FORMAT
		-> stats\r\n
		<- OK
		<: cmd-put: 2
		<: cmd-pause-tube: 1
		<: cmd-delete: 1
		<: cmd-peek: 1
		<: cmd-use: 1
		<: cmd-kick: 1
		<: cmd-stats: 1
		<: cmd-stats-tube: 1
		<: cmd-list-tubes: 0
		<: total-jobs: 0
		<: current-producers: 0
	`},

	// Put.

	{name: "put is checked in this order", session: `
		# Size before trailing bytes; the body of a put that is too big is thrown away, of one that is refused is read as commands.
		-> put 0 0 10 1001x\r\n` + strings.Repeat("x", 1001) + `\r\n
		<- JOB_TOO_BIG
		-> put 0 0 10 3x\r\nabc\r\n
		<- BAD_FORMAT
		<- UNKNOWN_COMMAND
		-> put 0 0 10 3 \r\nlist-tube-used\r\n
		<- BAD_FORMAT
		<- USING default
		# Only then is an id taken, so that failing later leaves a gap.
		-> put 0 0 10 3\r\nabcde
		<- EXPECTED_CRLF
		-> put 0 0 10 1000\r\n` + strings.Repeat("x", 1000) + `\r\n
		<- INSERTED 2
	`},
	{name: "a wrong trailer", session: `
		# Exactly two bytes are taken for the trailer; what follows is a line.
		-> put 0 0 10 3\r\nabcd\r\n
		<- EXPECTED_CRLF
		-> \r\n
		<- UNKNOWN_COMMAND
		-> put 0 0 10 3\r\nabc\n\r
		<- EXPECTED_CRLF
		-> put 0 0 10 3\r\nabc\r\n
		<- INSERTED 3
	`},
	{name: "a body of any bytes", session: `
		-> put 0 0 10 12\r\n\x00\r\n\xffdelete 1\r\n
		<- INSERTED 1
		-> peek 1\r\n
		<- FOUND 1 12\r\n\x00\r\n\xffdelete 1
		-> put 0 0 10 0\r\n\r\n
		<- INSERTED 2
		-> peek 2\r\n
		<- FOUND 2 0\r\n
		-> put 0 0 10 2\r\n\r\n\r\n
		<- INSERTED 3
		-> peek 3\r\n
		<- FOUND 3 2\r\n\r\n
	`},
	{name: "a body cut off by a disconnect makes no job", session: `
		B-> put 0 0 10 5\r\nabc
		B<- (nothing)
		B close
		B-> put 0 0 10 5\r\nabcde\r
		B half-close
		B<- (closed)
		-> put 0 0 10 1\r\nx\r\n
		<- INSERTED 3
		-> stats\r\n
		<- OK
		<: cmd-put: 3
		<: total-jobs: 1
		<: current-jobs-ready: 1
	`},
	{name: "ttr 0 is 1, urgent is below 1024", session: `
		-> put 1023 0 0 0\r\n\r\nput 1024 0 0 0\r\n\r\n
		<- INSERTED 1
		<- INSERTED 2
		-> stats-job 1\r\nstats\r\nstats-tube default\r\n
		<- OK
		<: ttr: 1
		<- OK
		<: current-jobs-urgent: 1
		<- OK
		<: current-jobs-urgent: 1
	`},
	{name: "an age begins with the put's line", session: `
		-> put 0 0 10 3\r\n
		<- (nothing)
		wait 1.3s
		-> abc\r\n
		<- INSERTED 1
		-> stats-job 1\r\n
		<- OK
		<: age: 1
	`},
	{name: "drain mode", session: `
		-> put 0 0 10 1\r\nx\r\n
		<- INSERTED 1
		B-> put 0 0 10 1\r\n
		drain
		# The id is taken and the trailer checked first.
		-> put 0 0 10 1\r\nx\r\nput 0 0 10 1\r\nxyz
		<- DRAINING
		<- EXPECTED_CRLF
		B-> x\r\n
		B<- DRAINING
		-> put 0 0 10 1001\r\n` + strings.Repeat("x", 1001) + `\r\n
		<- JOB_TOO_BIG
		-> reserve\r\nrelease 1 0 0\r\n
		<- RESERVED 1 1\r\nx
		<- RELEASED
		-> stats\r\n
		<- OK
		<: draining: true
		<: total-jobs: 1
		<: cmd-put: 5
	`},

	{name: "a client is a producer from its first good put line on", session: `
		-> put 0 0 10 1001\r\n` + strings.Repeat("x", 1001) + `\r\nput 0 0 10 1x\r\nstats\r\n
		<- JOB_TOO_BIG
		<- BAD_FORMAT
		<- OK
		<: current-producers: 0
		B-> put 0 0 10 3\r\nabcxx
		B<- EXPECTED_CRLF
		-> stats\r\n
		<- OK
		<: current-producers: 1
		C-> put 0 0 10 3\r\nabc
		C<- (nothing)
		-> stats\r\n
		<- OK
		<: current-producers: 2
		drain
		-> put 0 0 10 1\r\nx\r\nstats\r\n
		<- DRAINING
		<- OK
		<: current-producers: 3
		B close
		C close
		-> stats\r\n
		<- OK
		<: current-producers: 1
	`},
	{name: "a client is a worker from its first reserve on", session: `
		-> reserve-with-timeout 0\r\nstats\r\n
		<- TIMED_OUT
		<- OK
		<: current-workers: 1
		B-> reserve-job 1\r\nreserve \r\n
		B<- NOT_FOUND
		B<- BAD_FORMAT
		-> put 0 0 10 1\r\nx\r\nstats\r\n
		<- INSERTED 1
		<- OK
		<: current-workers: 1
		B-> reserve-job 1\r\nstats\r\n
		B<- RESERVED 1 1\r\nx
		B<- OK
		B<: current-workers: 2
	`},
}
