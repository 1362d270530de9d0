package main_test

// The Gearman differential test: sheafd against Debian's gearmand 1.1.20, the
// reference. There are two halves, as in the test against beanstalkd.
//
// Transcripts are sessions written by hand, one for each doubtful case of the
// protocol. They are run on the reference and on sheafd, and say what comes
// back: see gearman_sessions_*_test.go.
//
// Random runs start one of each, send both the same long random sequences over
// several connections, and compare everything that comes back. Every run has a
// seed; a failure says how to run it again, and shows the steps that led to the
// first difference. Time plays no part in them. The parts:
//
//	gearman_servers_test.go      processes: start, stop
//	gearman_wire_test.go         a connection; requests and answers; handles
//	gearman_compare_test.go      what is the same; what is not compared, why
//	gearman_model_test.go        what is known of the servers' jobs
//	gearman_run_test.go          one run; waiting until both are done; comparing
//	gearman_generator_test.go    what is sent
//	gearman_transcripts_test.go  how transcripts are written and run
//
// All of it:        go test ./cmd/sheafd -run TestGearmanDifferential
// One run again:    … -run TestGearmanDifferential/random -gearman.seed 123 -gearman.shards 7 -gearman.last 0
// A long search:    … -run TestGearmanDifferential/random -gearman.runs 500 -timeout 0
// One transcript:   … -run 'TestGearmanDifferential/transcripts/coalescing'
//
// With SHEAF_DIFF_SELF=1 the reference runs against itself, which tests the
// test: any failure then is the harness's.

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	gdiffSeed     = flag.Uint64("gearman.seed", 0, "run only this seed of the Gearman differential test")
	gdiffShards   = flag.Int("gearman.shards", 0, "compare only with a sheafd of so many shards")
	gdiffRuns     = flag.Int("gearman.runs", 4, "random runs for each number of shards")
	gdiffRequests = flag.Int("gearman.requests", 700, "requests of a random run")
	gdiffLimit    = flag.Duration("gearman.limit", 15*time.Second, "a random run ends after so long, with fewer requests")
	gdiffLast     = flag.Int("gearman.last", 60, "lines of transcript in a failure; 0 for all")
)

const (
	// gdiffAtLeast is how many requests a whole test must have compared, lest its
	// time be over too soon each time and nobody notice: what one run of 12 does.
	gdiffAtLeast = 700
	// gdiffAtOnce is how many runs go on at once. They mostly wait.
	gdiffAtOnce = 4
)

// TestGearmanDifferential compares sheafd with the reference.
func TestGearmanDifferential(t *testing.T) {
	reference := gdiffReference(t)
	var programs []gdiffProgram
	if os.Getenv("SHEAF_DIFF_SELF") == "1" {
		self := reference
		self.name = "gearmand itself"
		programs = []gdiffProgram{self}
	} else {
		path := binary(t)
		shards := []int{1, 2, 7}
		if *gdiffShards > 0 {
			shards = []int{*gdiffShards}
		}
		for _, n := range shards {
			programs = append(programs, gdiffSheafd(path, n))
		}
	}

	places := make(chan struct{}, gdiffAtOnce)
	t.Run("transcripts", func(t *testing.T) {
		// Two numbers of shards are enough where nothing is left to chance.
		ends := slices.CompactFunc([]gdiffProgram{reference, programs[0], programs[len(programs)-1]}, func(a, b gdiffProgram) bool { return a.name == b.name })
		gdiffTranscribe(t, places, ends, gdiffTranscripts)
	})

	t.Run("random", func(t *testing.T) {
		base := uint64(time.Now().UnixNano()) / 1e6 % 1e9 * 1000
		seeds := []uint64{*gdiffSeed}
		if *gdiffSeed == 0 {
			seeds = nil
			for i := range *gdiffRuns {
				seeds = append(seeds, base+uint64(i))
			}
			if testing.Short() {
				seeds = seeds[:min(len(seeds), 1)]
			}
		}
		t.Logf("seeds from %d", seeds[0])
		var (
			all  sync.WaitGroup
			mu   sync.Mutex
			done int
		)
		for _, seed := range seeds {
			for _, p := range programs {
				all.Go(func() {
					places <- struct{}{}
					defer func() { <-places }()
					t.Run(fmt.Sprintf("%s seed %d", p.name, seed), func(t *testing.T) {
						r, err := gdiffRandom([2]gdiffProgram{reference, p}, seed, *gdiffRequests, *gdiffLimit)
						if err != nil {
							t.Fatal(r.report(err))
						}
						t.Logf("%d requests, %d jobs (%s)", r.done, r.model.serial, r.mood.name)
						mu.Lock()
						defer mu.Unlock()
						done += r.done
					})
				})
			}
		}
		all.Wait()
		t.Logf("%d requests compared", done)
		if whole := *gdiffSeed == 0 && len(programs) == 3 && !testing.Short(); whole && !t.Failed() && done < gdiffAtLeast {
			t.Errorf("only %d requests compared, want %d", done, gdiffAtLeast)
		}
	})
}

// gdiffTranscripts are the doubtful cases of the protocol, one by one.
var gdiffTranscripts = slices.Concat(gdiffWireTranscripts, gdiffJobTranscripts, gdiffWorkerTranscripts)
