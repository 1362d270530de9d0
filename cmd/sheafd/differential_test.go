package main_test

// The differential test: sheafd against Debian's beanstalkd 1.12, the
// reference. There are two halves.
//
// Transcripts are sessions written by hand, one for each doubtful case of the
// protocol. They are run on the reference and on sheafd, and say what comes
// back: see differential_sessions_test.go.
//
// TestDifferentialRestart does both with a binlog and with restarts: see
// differential_restart_test.go.
//
// Random runs start one of each, send both the same long random sequences over
// several connections, and compare every reply byte for byte. Every run has a
// seed; a failure says how to run it again, and shows the steps that led to
// the first difference. The parts:
//
//	differential_servers_test.go     processes: build, start, stop
//	differential_wire_test.go        a connection; requests and replies in bytes
//	differential_compare_test.go     what is the same; what is not compared, why
//	differential_clock_test.go       keeping commands away from deadlines
//	differential_model_test.go       what is known of the servers' jobs and tubes
//	differential_run_test.go         one run: clients come, send and go
//	differential_settle_test.go      waiting until both are done; comparing
//	differential_generator_test.go   what is sent
//	differential_remains_test.go     all that a server has, and what of it a
//	                                 restart may change
//	differential_agree_test.go       making both agree after a restart
//
// All of it:        go test ./cmd/sheafd -run TestDifferential
// One run again:    … -run TestDifferential/random -diff.seed 123 -diff.shards 7 -diff.last 0
// A long search:    … -run TestDifferential/random -diff.runs 500 -timeout 0
// One transcript:   … -run 'TestDifferential/transcripts/kick_on'
//
// A seed makes the same choices each time, but for what it does to get out of
// the way of deadlines, which depends on when they come.
//
// With SHEAF_DIFF_SELF=1 the reference runs against itself, which tests the
// test: any failure then is the harness's.

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

var (
	diffSeed     = flag.Uint64("diff.seed", 0, "run only this seed of the differential test")
	diffShards   = flag.Int("diff.shards", 0, "compare only with a sheafd of so many shards")
	diffRuns     = flag.Int("diff.runs", 8, "random runs for each number of shards")
	diffCommands = flag.Int("diff.commands", 1500, "commands of a random run")
	diffLimit    = flag.Duration("diff.limit", 20*time.Second, "a random run ends after so long, with fewer commands")
	diffLast     = flag.Int("diff.last", 60, "lines of transcript in a failure; 0 for all")
)

const (
	// diffAtLeast is how many commands a whole test must have compared, lest it
	// be inconclusive each time and nobody notice: what one run of 24 does. A
	// slow machine does fewer than all.
	diffAtLeast = 1500
	// diffAtOnce is how many runs go on at once. They mostly wait.
	diffAtOnce = 8
)

// TestDifferential compares sheafd with the reference.
func TestDifferential(t *testing.T) {
	reference := diffReference(t)
	shards := []int{1, 2, 7}
	if *diffShards > 0 {
		shards = []int{*diffShards}
	}
	var programs []diffProgram
	if os.Getenv("SHEAF_DIFF_SELF") == "1" {
		self := reference
		self.name = "beanstalkd itself"
		programs = []diffProgram{self}
	} else {
		path := binary(t)
		for _, n := range shards {
			programs = append(programs, diffSheafd(path, n))
		}
	}

	places := make(chan struct{}, diffAtOnce)
	t.Run("transcripts", func(t *testing.T) {
		diffTranscribe(t, places, append([]diffProgram{reference}, programs...), diffTranscripts)
	})

	t.Run("random", func(t *testing.T) {
		runs, least := *diffRuns, diffAtLeast
		if testing.Short() {
			runs, least = min(runs, 2), 0
		}
		base := uint64(time.Now().UnixNano()) / 1e6 % 1e9 * 1000
		t.Logf("seeds from %d", base)
		var (
			mu                     sync.Mutex
			all                    sync.WaitGroup
			commands, inconclusive int
		)
		for i := range runs {
			for _, p := range programs {
				seed := base + uint64(i)
				if *diffSeed != 0 {
					if i > 0 {
						continue
					}
					seed = *diffSeed
				}
				all.Go(func() {
					places <- struct{}{}
					defer func() { <-places }()
					t.Run(fmt.Sprintf("%s seed %d", p.name, seed), func(t *testing.T) {
						r, err := diffRandom([2]diffProgram{reference, p}, seed, *diffCommands, *diffLimit)
						mu.Lock()
						defer mu.Unlock()
						commands += r.commands
						switch {
						case errors.Is(err, errDiffInconclusive):
							inconclusive++
							t.Logf("after %d commands: %v", r.commands, err)
						case err != nil:
							t.Error(r.report(err))
						default:
							t.Logf("%d commands (%s)", r.commands, r.mood.name)
						}
					})
				})
			}
		}
		all.Wait()
		t.Logf("%d commands compared; %d runs ended early as inconclusive", commands, inconclusive)
		whole := *diffSeed == 0 && len(programs) == 3
		if whole && !t.Failed() && commands < least {
			t.Errorf("only %d commands compared, want %d", commands, least)
		}
	})
}
