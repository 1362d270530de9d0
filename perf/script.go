package perf

// The commands of a load, and the scripts that string them together.

// An op is a command that is sent while the clock runs.
type op uint8

const (
	opPut op = iota
	opReserve
	opReserveNow // reserve-with-timeout 0
	opDelete
	opRelease
	opBury
	opKick // kick 1
	opKickJob
	opTouch
	opPeek
	opStatsJob
	opStatsTube
	opStats

	// Gearman's.
	opSubmit   // SUBMIT_JOB
	opResult   // its WORK_COMPLETE, which comes by itself
	opSubmitBG // SUBMIT_JOB_BG
	opGrab     // GRAB_JOB, and WORK_COMPLETE of what it is answered
	numOps
)

// ops has for each command its name in reports, the answer that it wants, and
// another that is no error, since other clients may have taken what it asks for;
// unexpected if there is none.
var ops = [numOps]struct {
	name  string
	want  answer
	other answer
}{
	opPut:        {"put", inserted, 0},
	opReserve:    {"reserve", reserved, 0},
	opReserveNow: {"reserve", reserved, timedOut},
	opDelete:     {"delete", deleted, 0},
	opRelease:    {"release", released, 0},
	opBury:       {"bury", buried, 0},
	opKick:       {"kick", kicked, 0},
	opKickJob:    {"kick-job", kicked, notFound},
	opTouch:      {"touch", touched, 0},
	opPeek:       {"peek", found, notFound},
	opStatsJob:   {"stats-job", ok, notFound},
	opStatsTube:  {"stats-tube", ok, 0},
	opStats:      {"stats", ok, 0},

	// What answers these: packetArrived (driver_gearman.go).
	opSubmit:   {name: "submit"},
	opResult:   {name: "result"},
	opSubmitBG: {name: "submit"},
	opGrab:     {name: "grab"},
}

// A script is what is done with one job: each command is sent when the one before
// it has been answered. A connection runs as many scripts at once as its depth
// says, and so has that many commands in flight.
//
// In every script, at any point, there were at least as many commands that make a
// job ready as reserves. And all connections of a load that watch a tube also put
// into it. So a reserve never waits: when it arrives, more jobs have been made
// ready than taken. This is what allows reserves to be pipelined.
type script []op

var (
	scriptCycle   = script{opPut, opReserve, opDelete}
	scriptProduce = script{opPut}
	scriptDrain   = script{opReserveNow, opDelete}
	scriptWork    = script{opReserve, opDelete} // the one that waits

	scriptForeground = script{opSubmit, opResult}
	scriptBackground = script{opSubmitBG}
	scriptGrab       = script{opGrab}
)

// A mix is scripts, with how often each is run, in thousandths of all.
type mix []struct {
	share int
	script
}

// mixDay is a day in the life of a queue: every command, in plausible
// proportions.
var mixDay = mix{
	{700, scriptCycle},
	{70, script{opPut, opReserve, opRelease, opReserve, opDelete}},
	{50, script{opPut, opReserve, opBury, opKick, opReserve, opDelete}},
	{70, script{opPut, opPeek, opReserve, opDelete}},
	{70, script{opPut, opReserve, opTouch, opDelete}},
	{30, script{opPut, opStatsJob, opReserve, opDelete}},
	{8, script{opStatsTube}},
	{2, script{opStats}},
}

func always(s script) mix { return mix{{1000, s}} }
