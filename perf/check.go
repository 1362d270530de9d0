package perf

// sheafperf check: a load whose every job is accounted for.

import (
	"context"
	"fmt"
	"time"
)

// A Verdict is what a check has found.
type Verdict struct {
	Scenario string
	Server   string
	// Faults is how many jobs the server lost, gave twice, damaged or mixed up.
	Faults int64
	// Report says so in lines of text, with examples.
	Report      string
	Interrupted bool
}

// DefaultChecks are the scenarios that a check runs when none is named:
// together they use every command, waiting workers, many tubes, and delays.
var DefaultChecks = []string{"mixed", "fanin", "handoff", "delayed"}

// Check runs a scenario and accounts for every job: each is delivered once, under
// its id, with the body that was put, to a client that watches its tube, not
// before its delay is over; and none is lost. A job that was released, or buried
// and kicked, has to come once more. One that a client keeps for longer than its
// TTR may come again, and then that client's commands for it may be NOT_FOUND.
//
// Peek shows the job that was asked for. Peek, stats-job and kick-job do not say
// NOT_FOUND of a job that no client has begun to delete. There is no TIMED_OUT
// while a job is ready; this is found if the job comes later, to a client that
// asked after the TIMED_OUT or on the same connection. A job that was surely
// ready is not passed over for a less urgent one of its tube, nor for an equally
// urgent one with a higher id; nothing else of their order is checked.
//
// It is an error if a job does not come to workers that wait for it, though it is
// there.
//
// The error is of a load that could not be carried out; the verdict beside it
// says what was found until then.
func Check(ctx context.Context, sc *Scenario, cfg Config, t *Target, p *Progress) (Verdict, error) {
	v := Verdict{Scenario: sc.Name, Server: t.Name}
	if sc.Restarts {
		return v, fmt.Errorf("%s cannot be checked: it forgets what it has put", sc.Name)
	}
	ttr := time.Duration(cfg.TTR) * time.Second
	if sc.Gearman {
		ttr = 0 // a worker keeps its job until it is done
	}
	l := newLedger(int64(cfg.longestDelay()), int64(ttr))
	res, err := runSession(ctx, sc, cfg, t, l, p.showing(sc.Name, t.Name, 0, 0))
	p.Clear()
	v.Faults, v.Report, v.Interrupted = l.sum(), l.report(), res.Interrupted
	return v, err
}
