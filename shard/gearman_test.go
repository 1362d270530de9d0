package shard

import "testing"

// What Gearman's clients and beanstalkd's see of each other, as sessions; see
// play and play_gearman_test.go for how to read them.

func TestGearmanJob(t *testing.T) {
	t.Run("a foreground job, told from end to end", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			wil: doze                           -> ...
			cat: submit f u normal fg x         -> CREATED 1
			wil <- NOOP
			wil: grab                           -> ASSIGNED 1 f u x
			wil: report 1 data a; report 1 warning b; report 1 progress 3/7 -> OK; OK; OK
			cat <- DATA 1 a
			cat <- WARNING 1 b
			cat <- STATUS 1 3/7
			cat: inquire 1                      -> running 1, 3 of 7, 1 wait
			cat: inquire-unique u               -> 1 running 1, 3 of 7, 1 wait
			wil: check                          -> OK
			wil: report 1 complete c            -> OK
			cat <- COMPLETE 1 c
			cat: inquire 1                      -> NOT_FOUND
			wil: report 1 data late             -> NOT_FOUND
			cat: functions                      -> f:0+0+0/0/0/1
			wil: check                          -> OK`)
	})
	t.Run("it fails, with an exception or without", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			cat: submit f _ normal fg x; submit f _ normal fg y -> CREATED 1; CREATED 2
			wil: grab; grab; grab               -> ASSIGNED 1 f _ x; ASSIGNED 2 f _ y; TIMED_OUT
			wil: report 1 fail; report 2 exception why -> OK; OK
			cat <- FAIL 1
			cat <- EXCEPTION 2 why
			wil: jobs                           -> none
			wil: check                          -> OK`)
	})
	t.Run("high before normal before low, the older first, over all functions", func(t *testing.T) {
		play(t, 1, `
			cat: submit f _ low bg 1; submit f _ normal bg 2; submit g _ low bg 3; submit g _ high bg 4; submit f _ high bg 5 -> CREATED 1; CREATED 2; CREATED 3; CREATED 4; CREATED 5
			cat: functions                      -> f:1+1+1/0/0/0 g:1+0+1/0/0/0
			wil: can-do f                       -> OK
			wil: can-do g                       -> OK
			wil: grab; grab; grab; grab; grab   -> ASSIGNED 4 g _ 4; ASSIGNED 5 f _ 5; ASSIGNED 2 f _ 2; ASSIGNED 1 f _ 1; ASSIGNED 3 g _ 3
			wil: check                          -> OK
			wil: leave                          -> OK
			cat: functions                      -> f:1+1+1/0/0/0 g:1+0+1/0/0/0
			cat: check                          -> OK`)
	})
	t.Run("at its time, which wakes who sleeps", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			cat: submit f u normal +5s x        -> CREATED 1
			cat: submit f u normal fg y         -> CREATED 1
			wil: doze                           -> ...
			cat: functions                      -> f:0+0+0/0/1/1
			+4.999999999s
			wil: grab                           -> TIMED_OUT
			wil: doze                           -> ...
			+1ns
			wil <- NOOP
			wil: grab                           -> ASSIGNED 1 f u x
			wil: report 1 complete r            -> OK
			cat <- COMPLETE 1 r`)
	})
	t.Run("a time that has passed is now", func(t *testing.T) {
		play(t, 1, `
			cat: submit f _ normal +0s x        -> CREATED 1
			cat: functions                      -> f:0+1+0/0/0/0`)
	})
}

func TestGearmanUnique(t *testing.T) {
	t.Run("all who wait for it are told, once for each time they asked", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal fg x         -> CREATED 1
			bob: submit f u low fg other        -> CREATED 1
			bob: submit g u normal fg y         -> CREATED 2
			bob: submit f v normal fg y         -> CREATED 3
			wil: can-do f                       -> OK
			wil: grab                           -> ASSIGNED 1 f u x
			# while it runs, too
			bob: submit f u normal fg x         -> CREATED 1
			ann: inquire 1                      -> running 1, 0 of 0, 3 wait
			wil: report 1 complete r            -> OK
			ann <- COMPLETE 1 r
			bob <- COMPLETE 1 r
			bob <- COMPLETE 1 r
			ann: submit f u normal fg x         -> CREATED 4
			wil: check                          -> OK`)
	})
	t.Run("none is not the same as none, - is the workload", func(t *testing.T) {
		play(t, 1, `
			ann: submit f _ normal bg x; submit f _ normal bg x -> CREATED 1; CREATED 2
			ann: submit f - normal bg x; submit f - normal bg x; submit f - normal bg y -> CREATED 3; CREATED 3; CREATED 4
			ann: submit f x normal bg z         -> CREATED 5
			ann: inquire-unique x               -> 5 running 0, 0 of 0, 0 wait
			ann: inquire-unique -               -> NOT_FOUND
			ann: check                          -> OK`)
	})
	t.Run("of several functions the oldest is found", func(t *testing.T) {
		for range 20 { // it depends on the order of a map
			play(t, 1, `
				ann: submit f u normal bg x     -> CREATED 1
				ann: submit g u normal bg x     -> CREATED 2
				ann: submit h u normal bg x     -> CREATED 3
				ann: inquire-unique u           -> 1 running 0, 0 of 0, 0 wait`)
		}
	})
	t.Run("it is kept once it was submitted in the background", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal fg x         -> CREATED 1
			bob: submit f u normal bg x         -> CREATED 1
			ann: jobs                           -> 1:u:0:bg+
			ann: leave                          -> OK
			bob: jobs                           -> 1:u:0:bg
			cat: submit f u normal fg x         -> CREATED 1
			bob: jobs                           -> 1:u:0:bg+
			cat: leave                          -> OK
			bob: jobs                           -> 1:u:0:bg
			bob: check                          -> OK`)
	})
	t.Run("a buried job has none, a kicked one has it again", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal bg x         -> CREATED 1
			bea: watch f                        -> OK
			bea: reserve; bury 1 5              -> RESERVED 1 x; OK
			ann: inquire-unique u               -> NOT_FOUND
			ann: inquire 1                      -> NOT_FOUND
			ann: jobs                           -> none
			bea: kick-job 1                     -> OK
			ann: submit f u normal bg x         -> CREATED 1
			bea: reserve; bury 1 5              -> RESERVED 1 x; OK
			ann: submit f u normal bg y         -> CREATED 2
			bea: delete 2                       -> OK
			bea: kick-job 1                     -> OK
			ann: inquire-unique u               -> 1 running 0, 0 of 0, 0 wait
			ann: check                          -> OK`)
	})
	t.Run("of several that are kicked the oldest has it, and then the next", func(t *testing.T) {
		for _, unique := range []string{"u", "-"} {
			play(t, 1, `
				ann: submit f `+unique+` normal bg x -> CREATED 1
				bea: watch f                    -> OK
				bea: reserve; bury 1 5          -> RESERVED 1 x; OK
				ann: submit f `+unique+` normal bg x -> CREATED 2
				bea: reserve; bury 2 5          -> RESERVED 2 x; OK
				ann: submit f `+unique+` normal bg x -> CREATED 3
				bea: reserve; bury 3 5          -> RESERVED 3 x; OK
				ann: submit f `+unique+` normal fg x -> CREATED 4
				ann: check                      -> OK
				bea: kick-job 2                 -> OK
				# the jobs are two, and can run at once; what comes is one with the older
				ann: submit f `+unique+` normal bg x -> CREATED 2
				bea: kick-job 3; kick-job 1     -> OK; OK
				ann: submit f `+unique+` normal bg x -> CREATED 1
				ann: check                      -> OK
				bea: delete 3                   -> OK
				bea: reserve-job 1; bury 1 5    -> RESERVED 1 x; OK
				ann: submit f `+unique+` normal bg x -> CREATED 2
				ann: check                      -> OK
				bea: reserve-job 1              -> RESERVED 1 x
				ann: submit f `+unique+` normal bg x -> CREATED 1
				bea: delete 1; delete 2         -> OK; OK
				ann: submit f `+unique+` normal fg x -> CREATED 4
				ann: check                      -> OK
				bea: delete 4                   -> OK
				ann <- FAIL 4
				ann <- FAIL 4
				ann: submit f `+unique+` normal bg x -> CREATED 5
				ann: check                      -> OK`)
		}
	})
	t.Run("the next is found by its unique", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal bg one       -> CREATED 1
			bea: watch f                        -> OK
			bea: reserve; bury 1 1024           -> RESERVED 1 one; OK
			ann: submit f u high bg two         -> CREATED 2
			bea: kick-job 1                     -> OK
			wil: can-do f                       -> OK
			wil: grab                           -> ASSIGNED 2 f u two
			ann: inquire-unique u               -> 1 running 0, 0 of 0, 0 wait
			wil: grab                           -> ASSIGNED 1 f u one
			wil: report 1 complete              -> OK
			ann: inquire-unique u               -> 2 running 1, 0 of 0, 0 wait
			ann: submit f u normal fg three     -> CREATED 2
			wil: report 2 complete r            -> OK
			ann <- COMPLETE 2 r
			ann: inquire-unique u               -> NOT_FOUND
			ann: check                          -> OK`)
	})
	t.Run("a kicked job has it in a function that was dropped meanwhile", func(t *testing.T) {
		for _, way := range []string{"kick-job 1 -> OK", "reserve-job 1 -> RESERVED 1 x"} {
			play(t, 1, `
				ann: submit f u normal bg x     -> CREATED 1
				bea: reserve-job 1; bury 1 5    -> RESERVED 1 x; OK
				ann: drop f                     -> OK
				ann: functions                  -> none
				bea: `+way+`
				ann: submit f u normal bg y     -> CREATED 1
				ann: check                      -> OK
				bea: delete 1                   -> OK
				ann: functions                  -> f:0+0+0/0/0/0
				ann: check                      -> OK`)
		}
	})
}

func TestGearmanClientsLeave(t *testing.T) {
	t.Run("what nobody waits for goes, unless a worker has it", func(t *testing.T) {
		play(t, 1, `
			ann: submit f _ normal fg x; submit f _ normal fg y -> CREATED 1; CREATED 2
			wil: can-do f                       -> OK
			wil: grab                           -> ASSIGNED 1 f _ x
			ann: leave                          -> OK
			wil: jobs                           -> 1:_:0:fg
			wil: check                          -> OK
			wil: report 1 data a; report 1 complete r -> OK; OK
			wil: jobs                           -> none
			wil: check                          -> OK`)
	})
	t.Run("and then when the worker gives it up", func(t *testing.T) {
		for _, way := range []string{"release 1 0 0 -> OK", "release 1 0 5 -> OK", "bury 1 0 -> OK", "delete 1 -> OK", "quit -> OK"} {
			play(t, 1, `
				ann: submit f u normal fg x     -> CREATED 1
				bea: watch f                    -> OK
				bea: reserve                    -> RESERVED 1 x
				ann: leave                      -> OK
				bea: `+way+`
				wil: jobs                       -> none
				wil: functions                  -> f:0+0+0/0/0/0
				bob: stats Buried Delayed       -> Buried=0 Delayed=0
				wil: check                      -> OK`)
		}
	})
	t.Run("a worker that goes puts its jobs back", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			zoe: can-do f                       -> OK
			ann: submit f u normal fg x         -> CREATED 1
			wil: grab; report 1 progress 1/2    -> ASSIGNED 1 f u x; OK
			ann <- STATUS 1 1/2
			zoe: doze                           -> ...
			wil: leave                          -> OK
			zoe <- NOOP
			ann: inquire 1                      -> running 0, 0 of 0, 1 wait
			ann: jobs                           -> 1:u:1:fg+
			zoe: grab; report 1 complete r      -> ASSIGNED 1 f u x; OK
			ann <- COMPLETE 1 r
			zoe: check                          -> OK`)
	})
	t.Run("nobody is woken for what its own client worked on", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			zoe: can-do f                       -> OK
			bea: watch f                        -> OK
			wil: submit f u normal fg x; grab   -> CREATED 1; ASSIGNED 1 f u x
			zoe: doze                           -> ...
			bea: reserve                        -> ...
			wil: leave                          -> OK
			zoe: jobs                           -> none
			zoe: check                          -> OK`)
	})
	t.Run("what was submitted twice is waited for twice", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal fg x; submit f u normal fg x -> CREATED 1; CREATED 1
			bob: submit f u normal fg x         -> CREATED 1
			bob: leave                          -> OK
			ann: inquire 1                      -> running 0, 0 of 0, 2 wait
			ann: check                          -> OK
			ann: leave                          -> OK
			wil: jobs                           -> none
			wil: check                          -> OK`)
	})
}

func TestGearmanTimeout(t *testing.T) {
	t.Run("past it the job has failed", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f 2                     -> OK
			ann: submit f u normal fg x         -> CREATED 1
			wil: grab                           -> ASSIGNED 1 f u x
			+1.999999999s
			wil: report 1 data a                -> OK
			ann <- DATA 1 a
			+1ns
			ann <- FAIL 1
			wil <- EXPIRED 1
			wil: report 1 complete r            -> NOT_FOUND
			wil: jobs                           -> none
			bob: stats Timeouts                 -> Timeouts=1
			wil: check                          -> OK`)
	})
	t.Run("without one the job is the worker's", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f 2                     -> OK
			wil: can-do f                       -> OK
			ann: submit f u normal fg x         -> CREATED 1
			wil: grab                           -> ASSIGNED 1 f u x
			bob: stats-job 1 State TimeLeft TTR -> State=reserved TimeLeft=0 TTR=3600
			+100h
			wil: report 1 complete r            -> OK
			ann <- COMPLETE 1 r`)
	})
	t.Run("the TTR of what was put counts, and a report begins it anew", func(t *testing.T) {
		play(t, 1, `
			bea: use f                          -> OK
			bea: put 5 0 3 x                    -> INSERTED 1
			wil: can-do f                       -> OK
			wil: grab                           -> ASSIGNED 1 f put x
			+2.5s
			wil: report 1 data a                -> OK
			+2.999999999s
			bea: stats-job 1 State              -> State=reserved
			+1ns
			wil <- EXPIRED 1
			bea: stats-job 1 State Timeouts     -> State=ready Timeouts=1
			wil: check                          -> OK`)
	})
	t.Run("how far what was put has come is known as long as the worker has it", func(t *testing.T) {
		for _, way := range []string{"wil: leave -> OK", "bea: kick 1 -> KICKED 0\n+60s\nwil <- EXPIRED 2\nwil <- EXPIRED 1"} {
			play(t, 1, `
				bea: use f                          -> OK
				bea: put 5 0 60 x; put 5 0 60 y     -> INSERTED 1; INSERTED 2
				wil: can-do f 90                    -> OK
				wil: grab; grab                     -> ASSIGNED 1 f put x; ASSIGNED 2 f put y
				wil: report 1 progress 3/7          -> OK
				ann: inquire 1; inquire 2           -> running 1, 3 of 7, 0 wait; running 1, 0 of 0, 0 wait
				wil: report 1 data a; report 1 progress 4/7 -> OK; OK
				ann: inquire 1                      -> running 1, 4 of 7, 0 wait
				wil: check                          -> OK
				`+way+`
				ann: inquire 1                      -> running 0, 0 of 0, 0 wait
				zoe: can-do f                       -> OK
				zoe: grab                           -> ASSIGNED 1 f put x
				ann: inquire 1                      -> running 1, 0 of 0, 0 wait
				zoe: report 1 progress 1/2; report 1 fail -> OK; OK
				bea: stats-job 1 State              -> State=buried
				bea: watch f                        -> OK
				bea: kick 1                         -> KICKED 1
				bea: reserve                        -> RESERVED 1 x
				ann: inquire 1                      -> running 1, 0 of 0, 0 wait
				zoe: check                          -> OK`)
		}
	})
	t.Run("reports do not keep what was put from failing", func(t *testing.T) {
		play(t, 1, `
			bea: use f                          -> OK
			bea: put 5 0 2 x                    -> INSERTED 1
			wil: can-do f 3                     -> OK
			wil: grab                           -> ASSIGNED 1 f put x
			+1s
			wil: report 1 data a                -> OK
			+1s
			wil: report 1 data a                -> OK
			+0.999999999s
			wil: report 1 data a                -> OK
			bea: stats-job 1 State              -> State=reserved
			+1ns
			wil <- EXPIRED 1
			bea: stats-job 1 State Timeouts Buries -> State=buried Timeouts=1 Buries=1
			wil: check                          -> OK`)
	})
	t.Run("what was put is buried when it has failed", func(t *testing.T) {
		play(t, 1, `
			bea: use f                          -> OK
			bea: put 5 0 30 x                   -> INSERTED 1
			wil: can-do f 3                     -> OK
			wil: grab; report 1 data a          -> ASSIGNED 1 f put x; OK
			+3s
			wil <- EXPIRED 1
			bea: stats-job 1 State Timeouts Buries -> State=buried Timeouts=1 Buries=1
			bea: kick 1                         -> KICKED 1
			wil: grab; report 1 fail            -> ASSIGNED 1 f put x; OK
			bea: stats-job 1 State              -> State=buried
			bea: kick 1                         -> KICKED 1
			wil: grab; report 1 complete        -> ASSIGNED 1 f put x; OK
			bea: stats-job 1 State              -> NOT_FOUND
			wil: check                          -> OK`)
	})
}

func TestGearmanAndBeanstalk(t *testing.T) {
	for _, tt := range []struct{ name, command, event, left string }{
		{"delete completes", "delete 1 -> OK", "COMPLETE 1", "none"},
		{"bury fails", "bury 1 9 -> OK", "FAIL 1", "none"},
		{"release puts back", "release 1 9 0 -> OK", "", "1:u:1:fg+"},
		{"release with a delay puts back later", "release 1 9 7 -> OK", "", "1:u:1:fg+"},
		{"hanging up puts back", "quit -> OK", "", "1:u:1:fg+"},
		{"touch keeps", "touch 1 -> OK", "", "1:u:0:fg+"},
		{"a kick does nothing to it", "kick-job 1 -> NOT_FOUND", "", "1:u:0:fg+"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := `
				ann: submit f u normal fg x   -> CREATED 1
				bea: watch f                  -> OK
				bea: peek 1                   -> FOUND 1 x
				bea: reserve                  -> RESERVED 1 x
				wil: report 1 complete no     -> NOT_FOUND
				bea: ` + tt.command
			if tt.event != "" {
				script += "\nann <- " + tt.event
			}
			play(t, 1, script+`
				wil: jobs                     -> `+tt.left+`
				wil: check                    -> OK`)
		})
	}
	t.Run("the TTR of a beanstalkd worker is an hour", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal fg x         -> CREATED 1
			bea: watch f                        -> OK
			bea: reserve                        -> RESERVED 1 x
			+1h
			bea: stats-job 1 State Timeouts     -> State=ready Timeouts=1
			ann: jobs                           -> 1:u:1:fg+
			ann: check                          -> OK`)
	})
	t.Run("a delete of what nobody has calls it off", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal fg x; submit f v normal bg y; submit f v normal fg y -> CREATED 1; CREATED 2; CREATED 2
			bea: delete 1; delete 2             -> OK; OK
			ann <- FAIL 1
			ann <- FAIL 2
			ann: check                          -> OK`)
	})
	t.Run("a foreground job that is buried is kept, without those who waited", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal fg x         -> CREATED 1
			bea: watch f                        -> OK
			bea: reserve-job 1; bury 1 7        -> RESERVED 1 x; OK
			ann <- FAIL 1
			ann: leave                          -> OK
			bea: use f                          -> OK
			bea: peek-buried                    -> FOUND 1 x
			bea: kick 1                         -> KICKED 1
			wil: can-do f                       -> OK
			wil: grab; report 1 complete        -> ASSIGNED 1 f u x; OK
			wil: check                          -> OK`)
	})
	t.Run("a pause holds Gearman's workers too, and its end wakes them", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal fg x         -> CREATED 1
			bea: pause-tube f 3                 -> OK
			wil: can-do f                       -> OK
			wil: grab                           -> TIMED_OUT
			wil: doze                           -> ...
			bob: submit f v normal fg y         -> CREATED 2
			+3s
			wil <- NOOP
			wil: grab                           -> ASSIGNED 1 f u x`)
	})
	t.Run("who waits in reserve goes before who sleeps", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			wil: doze                           -> ...
			bea: watch f                        -> OK
			bea: reserve                        -> ...
			ann: submit f u normal fg x         -> CREATED 1
			bea <- RESERVED 1 x
			ann: submit f v normal fg y         -> CREATED 2
			wil <- NOOP
			wil: check                          -> OK`)
	})
	t.Run("after end-waits nobody is woken", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			ann: submit f u normal fg x         -> CREATED 1
			zoe: can-do f                       -> OK
			zoe: grab                           -> ASSIGNED 1 f u x
			wil: doze                           -> ...
			bea: end-waits                      -> OK
			zoe: leave                          -> OK`)
	})
	t.Run("drain mode", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal bg x         -> CREATED 1
			bea: drain                          -> OK
			ann: submit f v normal bg x         -> DRAINING
			ann: submit g v normal fg x         -> DRAINING
			ann: submit f u normal fg x         -> CREATED 1
			ann: functions                      -> f:0+1+0/0/0/0`)
	})
}

func TestGearmanSleep(t *testing.T) {
	t.Run("all who sleep are woken, once", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			wil: can-do g                       -> OK
			zoe: can-do g                       -> OK
			wil: doze                           -> ...
			zoe: doze                           -> ...
			ann: submit f _ normal bg x; submit g _ normal bg y; submit g _ normal bg z -> CREATED 1; CREATED 2; CREATED 3
			wil <- NOOP
			zoe <- NOOP
			wil: doze                           -> NOOP
			wil: check                          -> OK`)
	})
	t.Run("what came between is told", func(t *testing.T) {
		play(t, 2, `
			wil: can-do a0                      -> OK
			wil: can-do b1                      -> OK
			ann: submit b1 _ normal bg x        -> CREATED 1
			wil: doze                           -> NOOP
			# the first shard has been asked, and may tell for no reason
			ann: submit a0 _ normal bg x        -> CREATED 2
			wil <- NOOP
			wil: check                          -> OK`)
	})
	t.Run("functions come and go meanwhile", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			wil: doze                           -> ...
			wil: can-do g                       -> OK
			wil: cant-do f                      -> OK
			wil: check                          -> OK
			ann: submit f _ normal bg x         -> CREATED 1
			ann: submit g _ normal bg x         -> CREATED 2
			wil <- NOOP
			wil: check                          -> OK`)
	})
	t.Run("a grab ends it", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			wil: doze                           -> ...
			wil: grab                           -> TIMED_OUT
			ann: submit f _ normal bg x         -> CREATED 1
			wil: check                          -> OK`)
	})
	t.Run("released, kicked, and what was put wakes", func(t *testing.T) {
		play(t, 1, `
			wil: can-do f                       -> OK
			bea: use f                          -> OK
			wil: doze                           -> ...
			bea: put 1 0 60 x                   -> INSERTED 1
			wil <- NOOP
			bea: reserve-job 1                  -> RESERVED 1 x
			wil: doze                           -> ...
			bea: release 1 0 0                  -> OK
			wil <- NOOP
			bea: reserve-job 1; bury 1 0        -> RESERVED 1 x; OK
			wil: doze                           -> ...
			bea: kick 1                         -> KICKED 1
			wil <- NOOP`)
	})
}

func TestGearmanAdmin(t *testing.T) {
	t.Run("limits count what is not done, and not what is buried", func(t *testing.T) {
		play(t, 1, `
			ann: limit f 0 2 1                  -> OK
			ann: functions                      -> none
			bea: use f                          -> OK
			ann: limit f 0 2 1                  -> OK
			ann: functions                      -> none
			ann: create f                       -> OK
			ann: limit f 0 2 1                  -> OK
			ann: submit f u normal bg x; submit f _ low bg x; submit f _ normal bg x; submit f _ normal bg x -> CREATED 1; QUEUE_FULL; CREATED 2; QUEUE_FULL
			ann: submit f u normal fg x         -> CREATED 1
			ann: submit f _ high bg x           -> CREATED 3
			bea: watch f                        -> OK
			bea: reserve; bury 3 0              -> RESERVED 3 x; OK
			bea: reserve; bury 1 0              -> RESERVED 1 x; OK
			ann <- FAIL 1
			ann: submit f _ normal bg x         -> CREATED 4
			ann: submit f _ normal bg x         -> QUEUE_FULL
			ann: limit f 0 0 0                  -> OK
			ann: submit f _ normal bg x         -> CREATED 5
			ann: check                          -> OK`)
	})
	t.Run("drop", func(t *testing.T) {
		play(t, 1, `
			ann: drop f                         -> NOT_FOUND
			ann: submit f u normal fg x; submit f _ normal bg y; submit f _ normal +9s z; submit f b normal bg w -> CREATED 1; CREATED 2; CREATED 3; CREATED 4
			bea: use f                          -> OK
			bea: put 1 0 60 x                   -> INSERTED 5
			bea: reserve-job 4                  -> RESERVED 4 w
			ann: drop f                         -> BUSY
			bea: bury 4 0                       -> OK
			wil: can-do f                       -> OK
			ann: drop f                         -> BUSY
			wil: leave                          -> OK
			ann: drop f                         -> OK
			ann <- FAIL 1
			ann: functions                      -> none
			ann: jobs                           -> none
			ann: drop f                         -> NOT_FOUND
			ann: check                          -> OK
			bea: stats-job 5 State Buries       -> State=buried Buries=1
			bea: delete 5                       -> OK
			bea: peek 4 -> FOUND 4 w
			bea: delete 4 -> OK
			bea: use default                    -> OK
			bea: list-tubes                     -> default
			ann: create f                       -> OK
			bea: list-tubes                     -> default f
			ann: drop f                         -> OK
			bea: list-tubes                     -> default
			ann: check                          -> OK`)
	})
	t.Run("drop of what only has jobs that were put", func(t *testing.T) {
		play(t, 1, `
			bea: use f                          -> OK
			bea: put 1 0 60 x; put 0 9 60 y; put 0 0 60 z -> INSERTED 1; INSERTED 2; INSERTED 3
			bea: reserve-job 3                  -> RESERVED 3 z
			ann: functions                      -> f:1+0+0/1/1/0
			ann: drop f                         -> BUSY
			bea: delete 3                       -> OK
			ann: drop f                         -> OK
			ann: functions                      -> none
			ann: drop f                         -> NOT_FOUND
			ann: check                          -> OK
			bea: kick 5                         -> KICKED 2
			ann: functions                      -> f:2+0+0/0/0/0
			ann: check                          -> OK`)
	})
	t.Run("cancel", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal fg x; submit f v normal fg y -> CREATED 1; CREATED 2
			bea: use f                          -> OK
			bea: put 2000 0 60 x; put 2000 0 60 x -> INSERTED 3; INSERTED 4
			wil: can-do f                       -> OK
			wil: grab                           -> ASSIGNED 1 f u x
			ann: cancel-job 9                   -> NOT_FOUND
			ann: cancel-job 2                   -> OK
			ann <- FAIL 2
			ann: cancel-job 3                   -> OK
			wil: grab                           -> ASSIGNED 4 f put x
			ann: cancel-job 1                   -> OK
			ann <- FAIL 1
			ann: jobs                           -> 1:u:0:fg 4:_:0:bg
			wil: check                          -> OK
			wil: report 1 data late; report 1 complete late -> OK; OK
			ann: jobs                           -> 4:_:0:bg
			ann: submit f u normal fg z         -> CREATED 5
			wil: check                          -> OK`)
	})
	t.Run("what was put is cancelled while a worker has it", func(t *testing.T) {
		for _, way := range []string{
			"wil: report 1 complete r -> OK", "wil: report 1 fail -> OK", "wil: leave -> OK",
			"wil: report 1 progress 1/2 -> OK\n+60s\nwil <- EXPIRED 1",
		} {
			play(t, 1, `
				bea: use f                      -> OK
				bea: put 1 0 60 x               -> INSERTED 1
				wil: can-do f                   -> OK
				wil: grab                       -> ASSIGNED 1 f put x
				ann: cancel-job 1               -> OK
				ann: inquire 1                  -> running 1, 0 of 0, 0 wait
				ann: jobs                       -> 1:_:0:fg
				ann: check                      -> OK
				ann: cancel-job 1               -> OK
				`+way+`
				ann: jobs                       -> none
				bob: stats Ready Buried Delayed Reserved -> Ready=0 Buried=0 Delayed=0 Reserved=0
				ann: check                      -> OK`)
		}
		for _, way := range []string{"quit -> OK", "release 1 0 0 -> OK", "release 1 0 5 -> OK", "bury 1 0 -> OK", "touch 1; delete 1 -> OK; OK"} {
			play(t, 1, `
				bea: use f                      -> OK
				bea: watch f                    -> OK
				bea: put 1 0 60 x               -> INSERTED 1
				bea: reserve                    -> RESERVED 1 x
				ann: cancel-job 1               -> OK
				bea: `+way+`
				ann: jobs                       -> none
				bob: stats Ready Buried Delayed Reserved -> Ready=0 Buried=0 Delayed=0 Reserved=0
				ann: check                      -> OK`)
		}
	})
	t.Run("who submits a cancelled job again while it runs waits for it, or has it kept", func(t *testing.T) {
		play(t, 1, `
			ann: submit f u normal bg x         -> CREATED 1
			wil: can-do f                       -> OK
			wil: grab                           -> ASSIGNED 1 f u x
			ann: cancel-job 1                   -> OK
			ann: inquire-unique u               -> 1 running 1, 0 of 0, 0 wait
			bob: submit f u normal fg y         -> CREATED 1
			bob: check                          -> OK
			wil: report 1 complete r            -> OK
			bob <- COMPLETE 1 r
			bob: jobs                           -> none`)
		for _, form := range []string{"fg", "bg"} {
			play(t, 1, `
				ann: submit f u normal fg x     -> CREATED 1
				wil: can-do f                   -> OK
				wil: grab                       -> ASSIGNED 1 f u x
				bob: cancel-job 1               -> OK
				ann <- FAIL 1
				ann: submit f u normal `+form+` y -> CREATED 1
				bob: check                      -> OK
				wil: leave                      -> OK
				zoe: can-do f                   -> OK
				zoe: grab                       -> ASSIGNED 1 f u x
				bob: check                      -> OK`)
		}
	})
	t.Run("a cancelled job does not come again", func(t *testing.T) {
		for _, way := range []string{"quit -> OK", "release 1 0 0 -> OK", "release 1 0 5 -> OK", "bury 1 0 -> OK", "delete 1 -> OK"} {
			play(t, 1, `
				ann: submit f u normal bg x     -> CREATED 1
				ann: submit f u normal fg x     -> CREATED 1
				bea: watch f                    -> OK
				bea: reserve                    -> RESERVED 1 x
				ann: cancel-job 1               -> OK
				ann <- FAIL 1
				ann: cancel-job 1               -> OK
				bea: `+way+`
				ann: jobs                       -> none
				bob: stats Ready Buried Delayed -> Ready=0 Buried=0 Delayed=0
				ann: check                      -> OK`)
		}
	})
	t.Run("a refused submit makes no function", func(t *testing.T) {
		play(t, 1, `
			bea: drain                          -> OK
			ann: submit f u normal fg x         -> DRAINING
			ann: functions                      -> none
			bea: list-tubes                     -> default`)
	})
}
