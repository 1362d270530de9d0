package shard

import "testing"

// What people see, as sessions; see play for how to read them.

func TestDeadlineSoon(t *testing.T) {
	t.Run("at once within a second of the TTR", func(t *testing.T) {
		play(t, 1, `
			ann: put 1 0 3 a          -> INSERTED 1
			ann: reserve              -> RESERVED 1 a
			+1.999999999s
			# a second and a nanosecond are left
			ann: reserve-with-timeout 0 -> TIMED_OUT
			+1ns
			ann: reserve-with-timeout 0 -> DEADLINE_SOON
			ann: reserve              -> DEADLINE_SOON
			# a job that is ready goes before
			ann: put 1 0 60 b; reserve -> INSERTED 2; RESERVED 2 b
			ann: reserve-job 2        -> NOT_FOUND
			+1s
			ann: stats-job 1 State Timeouts -> State=ready Timeouts=1
			ann: reserve              -> RESERVED 1 a`)
	})
	t.Run("a TTR of a second is soon from the start", func(t *testing.T) {
		play(t, 1, `
			ann: put 1 0 1 a          -> INSERTED 1
			ann: reserve; reserve     -> RESERVED 1 a; DEADLINE_SOON`)
	})
	t.Run("ends a wait at the moment", func(t *testing.T) {
		play(t, 1, `
			ann: put 1 0 3 a          -> INSERTED 1
			ann: reserve; reserve     -> RESERVED 1 a; ...
			+1.999999999s
			+1ns
			ann <- DEADLINE_SOON
			ann: stats Waiting Queued Reserved Timeouts -> Waiting=0 Queued=0 Reserved=1 Timeouts=0`)
	})
	t.Run("goes before a timeout of the same moment", func(t *testing.T) {
		play(t, 1, `
			ann: put 1 0 3 a          -> INSERTED 1
			ann: reserve; reserve-with-timeout 2 -> RESERVED 1 a; ...
			+2s
			ann <- DEADLINE_SOON`)
	})
	t.Run("a touch puts it off", func(t *testing.T) {
		play(t, 1, `
			ann: put 1 0 3 a          -> INSERTED 1
			ann: reserve              -> RESERVED 1 a
			+1.5s
			ann: touch 1; reserve     -> OK; ...
			+1.999s
			+1ms
			ann <- DEADLINE_SOON`)
	})
	t.Run("of the soonest of several jobs", func(t *testing.T) {
		play(t, 1, `
			ann: put 1 0 60 a; put 1 0 2 b; put 1 0 9 c -> INSERTED 1; INSERTED 2; INSERTED 3
			ann: reserve; reserve; reserve; reserve -> RESERVED 1 a; RESERVED 2 b; RESERVED 3 c; ...
			+1s
			ann <- DEADLINE_SOON
			ann: delete 2; reserve    -> OK; ...
			+6.999s
			+1ms
			ann <- DEADLINE_SOON`)
	})
	t.Run("for a job held on another shard", func(t *testing.T) {
		play(t, 2, `
			ann: use a0               -> OK
			ann: put 1 0 3 a          -> INSERTED 1
			ann: reserve-job 1        -> RESERVED 1 a
			ann: watch b1             -> OK
			ann: ignore default       -> OK
			+1s
			ann: reserve-with-timeout 0 -> TIMED_OUT
			ann: reserve              -> ...
			+999ms
			+1ms
			ann <- DEADLINE_SOON
			ann: reserve              -> DEADLINE_SOON
			ann: stats Waiting Queued -> Waiting=0 Queued=0`)
	})
}

func TestTTR(t *testing.T) {
	t.Run("running out makes the job ready again and is counted", func(t *testing.T) {
		play(t, 1, `
			ann: put 7 0 2 a          -> INSERTED 1
			ann: reserve              -> RESERVED 1 a
			ann: stats-job 1 State TimeLeft -> State=reserved TimeLeft=1
			+1.999999999s
			ann: stats-job 1 State    -> State=reserved
			+1ns
			ann: stats-job 1 State Pri Timeouts Reserves Releases -> State=ready Pri=7 Timeouts=1 Reserves=1 Releases=0
			ann: stats Timeouts Ready Reserved Urgent -> Timeouts=1 Ready=1 Reserved=0 Urgent=1
			# it is not ann's any more
			ann: release 1 0 0        -> NOT_FOUND
			ann: touch 1              -> NOT_FOUND
			ann: bury 1 0             -> NOT_FOUND`)
	})
	t.Run("running out serves who waits", func(t *testing.T) {
		play(t, 1, `
			ann: put 7 0 2 a          -> INSERTED 1
			ann: reserve              -> RESERVED 1 a
			bob: reserve              -> ...
			ann: stats-tube default Waiting -> Waiting=1
			+2s
			bob <- RESERVED 1 a
			ann: delete 1             -> NOT_FOUND
			bob: stats-job 1 Timeouts Reserves -> Timeouts=1 Reserves=2
			bob: delete 1             -> OK`)
	})
	t.Run("touch begins it anew, in full", func(t *testing.T) {
		play(t, 1, `
			ann: put 7 0 2 a          -> INSERTED 1
			ann: reserve              -> RESERVED 1 a
			+1.5s
			ann: touch 1              -> OK
			+1.5s
			ann: stats-job 1 State    -> State=reserved
			+500ms
			ann: stats-job 1 State    -> State=ready`)
	})
	t.Run("is that of reserve-job too", func(t *testing.T) {
		play(t, 1, `
			ann: put 7 9 1 a; reserve-job 1 -> INSERTED 1; RESERVED 1 a
			ann: stats Delayed Reserved -> Delayed=0 Reserved=1
			+1s
			ann: stats-job 1 State Delay -> State=ready Delay=9`)
	})
}

func TestReserve(t *testing.T) {
	t.Run("takes the lowest priority, then the oldest, of all watched tubes", func(t *testing.T) {
		play(t, 1, `
			ann: use x                -> OK
			ann: put 5 0 9 a; put 3 0 9 b -> INSERTED 1; INSERTED 2
			ann: use y                -> OK
			ann: put 4 0 9 c; put 3 0 9 d; put 4294967295 0 9 e -> INSERTED 3; INSERTED 4; INSERTED 5
			bob: watch x              -> OK
			bob: watch y              -> OK
			bob: reserve; reserve; reserve; reserve; reserve -> RESERVED 2 b; RESERVED 4 d; RESERVED 3 c; RESERVED 1 a; RESERVED 5 e`)
	})
	t.Run("waits its time", func(t *testing.T) {
		play(t, 1, `
			ann: reserve-with-timeout 0 -> TIMED_OUT
			ann: reserve-with-timeout 2 -> ...
			+1.999s
			+1ms
			ann <- TIMED_OUT
			ann: stats Waiting Queued -> Waiting=0 Queued=0`)
	})
	t.Run("that waits ends its chain", func(t *testing.T) {
		play(t, 1, `
			ann: put 1 0 9 a; reserve; reserve; put 1 0 9 b; delete 1 -> INSERTED 1; RESERVED 1 a; ...; unserved; unserved
			ann: stats Total Waiting  -> Total=1 Waiting=1
			bob: put 1 0 9 c          -> INSERTED 2
			ann <- RESERVED 2 c
			ann: put 1 0 9 b; delete 1 -> INSERTED 3; OK`)
	})
	t.Run("does not wait for who has hung up, and the rest is served", func(t *testing.T) {
		play(t, 1, `
			ann: hup -> OK
			ann: reserve; put 1 0 9 a; reserve -> TIMED_OUT; INSERTED 1; RESERVED 1 a
			ann: stats Waiting Queued -> Waiting=0 Queued=0`)
	})
	t.Run("that is cancelled leaves the job to the next", func(t *testing.T) {
		play(t, 1, `
			ann: reserve              -> ...
			bob: reserve              -> ...
			ann: cancel               -> true
			ann: cancel               -> false
			eve: put 1 0 9 a          -> INSERTED 1
			bob <- RESERVED 1 a
			bob: cancel               -> false
			eve: stats Waiting Queued Reserved -> Waiting=0 Queued=0 Reserved=1`)
	})
}

// TestEndWaits: at a shutdown the jobs of those who are gone first stay where
// they are, for the next start, instead of going to those who are gone next.
func TestEndWaits(t *testing.T) {
	play(t, 2, `
		ann: reserve              -> ...
		bob: watch x1             -> OK
		bob: ignore default       -> OK
		bob: reserve-with-timeout 9 -> ...
		eve: put 1 0 60 a         -> INSERTED 1
		ann <- RESERVED 1 a
		ann: reserve              -> ...
		eve: end-waits            -> OK
		ann <- aborted
		bob <- aborted
		eve: stats Waiting Queued -> Waiting=0 Queued=0
		# from now on nobody gets a job
		bob: reserve              -> aborted
		bob: reserve-with-timeout 0 -> TIMED_OUT
		eve: use x1               -> OK
		eve: put 1 0 60 b         -> INSERTED 2
		bob: reserve; reserve     -> aborted; unserved
		bob: reserve-job 2        -> aborted
		eve: stats Waiting Queued -> Waiting=0 Queued=0`)
}

func TestFirstComeFirstServed(t *testing.T) {
	t.Run("in one tube", func(t *testing.T) {
		play(t, 1, `
			cat: reserve              -> ...
			ann: reserve              -> ...
			bob: reserve              -> ...
			eve: put 9 0 9 a          -> INSERTED 1
			cat <- RESERVED 1 a
			eve: put 1 0 9 b          -> INSERTED 2
			ann <- RESERVED 2 b
			# back in the queue, cat is behind bob
			cat: reserve              -> ...
			eve: put 5 0 9 c          -> INSERTED 3
			bob <- RESERVED 3 c`)
	})
	t.Run("over several tubes", func(t *testing.T) {
		play(t, 1, `
			ann: watch x              -> OK
			ann: reserve              -> ...
			bob: watch x              -> OK
			bob: ignore default       -> OK
			bob: reserve              -> ...
			cat: reserve              -> ...
			eve: use x                -> OK
			eve: put 1 0 9 a          -> INSERTED 1
			ann <- RESERVED 1 a
			# ann has left both queues
			eve: stats-tube default Waiting -> Waiting=1
			eve: put 1 0 9 b          -> INSERTED 2
			bob <- RESERVED 2 b
			eve: use default          -> OK
			eve: put 1 0 9 c          -> INSERTED 3
			cat <- RESERVED 3 c`)
	})
	t.Run("in a chain of puts, each with the best job at its turn", func(t *testing.T) {
		play(t, 1, `
			ann: reserve              -> ...
			bob: reserve              -> ...
			eve: put 9 0 9 a; put 1 0 9 b; put 0 0 9 c -> INSERTED 1; INSERTED 2; INSERTED 3
			ann <- RESERVED 1 a
			bob <- RESERVED 2 b`)
	})
}

func TestPause(t *testing.T) {
	t.Run("keeps jobs from reserve, and its end serves who waits", func(t *testing.T) {
		play(t, 1, `
			ann: put 5 0 9 a; put 3 0 9 b -> INSERTED 1; INSERTED 2
			ann: pause-tube default 2 -> OK
			ann: stats-tube default Pause PauseLeft Pauses -> Pause=2 PauseLeft=1 Pauses=1
			ann: reserve-with-timeout 0 -> TIMED_OUT
			ann: peek-ready           -> FOUND 2 b
			ann: reserve              -> ...
			bob: reserve-with-timeout 1.5 -> ...
			cat: reserve              -> ...
			+1.5s
			bob <- TIMED_OUT
			+500ms
			ann <- RESERVED 2 b
			cat <- RESERVED 1 a
			ann: stats-tube default Pause PauseLeft Waiting -> Pause=0 PauseLeft=0 Waiting=0`)
	})
	t.Run("does not keep a job from reserve-job", func(t *testing.T) {
		play(t, 1, `
			ann: put 5 0 9 a          -> INSERTED 1
			ann: pause-tube default 9; reserve-job 1 -> OK; RESERVED 1 a
			# released into the paused tube, it stays there
			bob: reserve              -> ...
			ann: release 1 5 0        -> OK
			+9s
			bob <- RESERVED 1 a`)
	})
	t.Run("can be made longer and shorter", func(t *testing.T) {
		play(t, 1, `
			ann: put 5 0 9 a          -> INSERTED 1
			ann: pause-tube default 2; reserve -> OK; ...
			bob: pause-tube default 5 -> OK
			+2s
			bob: pause-tube default 1 -> OK
			+999ms
			+1ms
			ann <- RESERVED 1 a
			# one of no time ends it
			ann: pause-tube default 9; release 1 5 0; reserve -> OK; OK; ...
			bob: pause-tube default 0 -> OK
			ann <- RESERVED 1 a`)
	})
	t.Run("of one tube does not hide the others", func(t *testing.T) {
		play(t, 1, `
			ann: put 1 0 9 a          -> INSERTED 1
			ann: pause-tube default 9 -> OK
			ann: watch x              -> OK
			ann: use x                -> OK
			ann: reserve              -> ...
			bob: use x                -> OK
			bob: put 2 0 9 b          -> INSERTED 2
			ann <- RESERVED 2 b
			ann: pause-tube y 1       -> NOT_FOUND`)
	})
}

func TestDelay(t *testing.T) {
	play(t, 1, `
		ann: put 1 3 9 a; put 1 2 9 b; put 9 2 9 c; put 1 0 9 d -> INSERTED 1; INSERTED 2; INSERTED 3; INSERTED 4
		ann: peek-delayed         -> FOUND 2 b
		ann: stats-job 1 State TimeLeft Delay -> State=delayed TimeLeft=2 Delay=3
		ann: reserve; reserve     -> RESERVED 4 d; ...
		+2s
		ann <- RESERVED 2 b
		ann: reserve; release 2 5 1; reserve -> RESERVED 3 c; OK; ...
		+999ms
		# both are due now, and ready in the order in which they were delayed
		+1ms
		ann <- RESERVED 1 a
		ann: stats-job 2 State Releases Pri -> State=ready Releases=1 Pri=5`)
}

func TestKick(t *testing.T) {
	play(t, 1, `
		ann: put 1 0 9 a; put 1 0 9 b; put 1 0 9 c -> INSERTED 1; INSERTED 2; INSERTED 3
		ann: put 1 8 9 d; put 1 7 9 e              -> INSERTED 4; INSERTED 5
		ann: reserve-job 2; reserve-job 3; reserve-job 1 -> RESERVED 2 b; RESERVED 3 c; RESERVED 1 a
		ann: bury 3 0; bury 1 5; bury 2 5; bury 2 5 -> OK; OK; OK; NOT_FOUND
		# buried ones go in the order of burying, whatever their priority
		ann: peek-buried; kick 2; peek-buried      -> FOUND 3 c; KICKED 2; FOUND 2 b
		ann: stats-job 3 Pri Kicks Buries          -> Pri=0 Kicks=1 Buries=1
		# as long as there is a buried one, no delayed one is kicked
		ann: kick 9; peek-delayed; kick 1; peek-delayed -> KICKED 1; FOUND 5 e; KICKED 1; FOUND 4 d
		ann: kick-job 4; kick-job 4                -> OK; NOT_FOUND
		ann: kick 9; stats-tube default Ready Delayed Buried -> KICKED 0; Ready=5 Delayed=0 Buried=0
		bob: reserve; reserve; reserve -> RESERVED 3 c; RESERVED 4 d; RESERVED 5 e`)
}

func TestDetach(t *testing.T) {
	t.Run("gives the jobs back in the order in which they were reserved", func(t *testing.T) {
		play(t, 1, `
			ann: put 3 0 5 a; put 2 0 9 b; put 1 0 7 c -> INSERTED 1; INSERTED 2; INSERTED 3
			ann: reserve-job 2; reserve-job 1; reserve-job 3 -> RESERVED 2 b; RESERVED 1 a; RESERVED 3 c
			bob: reserve              -> ...
			cat: reserve              -> ...
			eve: reserve              -> ...
			ann: quit                 -> OK
			bob <- RESERVED 2 b
			cat <- RESERVED 1 a
			eve <- RESERVED 3 c
			bob: stats-job 2 Releases Timeouts Reserves -> Releases=0 Timeouts=0 Reserves=2`)
	})
	t.Run("takes the client out of everything", func(t *testing.T) {
		play(t, 1, `
			ann: use x                -> OK
			ann: watch y              -> OK
			ann: put 1 0 2 a; reserve-job 1 -> INSERTED 1; RESERVED 1 a
			ann: quit                 -> OK
			bob: stats Reserved Ready Tubes -> Reserved=0 Ready=1 Tubes=2
			bob: stats-tube x Using Watching -> Using=0 Watching=0
			bob: stats-tube default Using Watching -> Using=1 Watching=1
			+2s
			bob: stats Timeouts       -> Timeouts=0
			bob: list-tubes           -> default x
			bob: delete 1             -> OK
			bob: list-tubes           -> default`)
	})
}

func TestTubesLive(t *testing.T) {
	play(t, 1, `
		ann: use x                -> OK
		ann: use y                -> OK
		ann: list-tubes           -> default y
		ann: put 1 0 9 a          -> INSERTED 1
		ann: use default          -> OK
		ann: stats-tube y Total Using -> Total=1 Using=0
		ann: pause-tube y 100; delete 1 -> OK; OK
		ann: stats-tube y         -> NOT_FOUND
		# what comes later by that name is another tube
		ann: watch y              -> OK
		ann: stats-tube y Total Pause Deletes -> Total=0 Pause=0 Deletes=0
		ann: quit                 -> OK
		eve: quit                 -> OK
		bob: list-tubes           -> default`)
}

func TestRoster(t *testing.T) {
	play(t, 2, `
		ann: watch a0             -> OK
		ann: watch b1             -> OK
		ann: watch c1             -> OK
		ann: watch d0             -> OK
		ann: list-tubes           -> default a0 b1 c1 d0
		# the last one takes the place of one that goes
		ann: ignore a0            -> OK
		ann: list-tubes           -> default d0 b1 c1
		ann: watch e1             -> OK
		ann: ignore e1            -> OK
		ann: ignore b1            -> OK
		ann: watch a0             -> OK
		ann: list-tubes           -> default d0 c1 a0`)
	t.Run("when a client leaves", func(t *testing.T) {
		play(t, 1, `
			ann: watch a              -> OK
			bob: watch c              -> OK
			ann: watch b              -> OK
			ann: watch d              -> OK
			bob: watch e              -> OK
			bob: watch f              -> OK
			ann: ignore default       -> OK
			bob: list-tubes           -> default a c b d e f
			# ann watches d, a, b; the first goes, and the last takes its place: d, b, a
			ann: quit                 -> OK
			bob: list-tubes           -> default f c e`)
	})
}

func TestIDs(t *testing.T) {
	play(t, 2, `
		ann: put 1 0 9 a          -> INSERTED 1
		bob: use x1               -> OK
		bob: put 1 0 9 b; put 1 0 9 c -> INSERTED 2; INSERTED 3
		ann: put 1 0 9 d          -> INSERTED 4
		ann: delete 4; put 1 0 9 e -> OK; INSERTED 5
		ann: peek 4; peek 2; peek 18446744073709551615 -> NOT_FOUND; NOT_FOUND; NOT_FOUND
		bob: peek 2               -> FOUND 2 b`)
}

func TestDraining(t *testing.T) {
	play(t, 1, `
		ann: put 1 0 9 a          -> INSERTED 1
		ann: drain                -> OK
		ann: put 1 0 9 b          -> DRAINING
		ann: reserve; release 1 2 0; peek 1; kick 1; reserve; delete 1 -> RESERVED 1 a; OK; FOUND 1 a; KICKED 0; RESERVED 1 a; OK
		ann: stats Total Ready    -> Total=1 Ready=0`)
}

func TestOwnership(t *testing.T) {
	play(t, 1, `
		ann: put 1 0 9 a; reserve -> INSERTED 1; RESERVED 1 a
		bob: delete 1; release 1 0 0; bury 1 0; touch 1; reserve-job 1; kick-job 1 -> NOT_FOUND; NOT_FOUND; NOT_FOUND; NOT_FOUND; NOT_FOUND; NOT_FOUND
		bob: peek 1               -> FOUND 1 a
		ann: bury 1 0             -> OK
		bob: reserve-job 1        -> RESERVED 1 a
		bob: release 1 0 5        -> OK
		ann: delete 1; delete 1   -> OK; NOT_FOUND
		ann: stats-tube default Deletes Total -> Deletes=1 Total=1`)
}
