package beanstalk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sheafq/sheaf/router"
)

// fuzzed is what the fuzz tests allow: small, so that the limits are met often.
var fuzzed = Config{MaxJobSize: 100}

// sessions are where the fuzzer begins. What they say has answers by the
// hundred elsewhere; here it must have the same whatever the cuts.
var sessions = []string{
	"put 5 0 10 3\r\nabc\r\nreserve\r\ndelete 1\r\n",
	"put 0 0 0 0\r\n\r\nput 1 2 3 4\r\nabcdxxput 0 0 1 101\r\nput 0 0 1 1\r\nx\r\n",
	"use a\r\nput 9 0 60 2\r\n\r\n\r\nuse b\r\nput 8 0 60 1\r\n\x00\r\nwatch a\r\nwatch b\r\nreserve\r\nreserve\r\nreserve\r\n",
	"watch a\r\nwatch b\r\nwatch c\r\nignore default\r\nignore a\r\nlist-tubes-watched\r\nlist-tubes\r\nreserve-with-timeout 9\r\nlist-tube-used\r\n",
	"put 0 0 1 1\r\nx\r\nreserve\r\nreserve\r\ntouch 1\r\nrelease 1 7 0\r\nreserve-job 1\r\nbury 1 2\r\npeek-buried\r\nkick 10\r\npeek-ready\r\n",
	"put 0 50 10 1\r\nx\r\npeek-delayed\r\nkick-job 1\r\nstats-job 1\r\nstats-tube default\r\nstats\r\nreserve\r\nstats-job 1\r\nquit\r\nstats\r\n",
	"pause-tube default 10\r\nput 0 0 9 1\r\nx\r\nreserve-with-timeout 0\r\nreserve-job 1\r\nrelease 1 0 1\r\npause-tube default 0\r\n",
	"put 0 0 1\r\nquit", "put 0 0 1 5 x\r\nhello\r\n", "put 0 0 1 5\r\nhel", "\r\n\r\r\n\n", strings.Repeat("x", 230) + "\r\nlist-tube-used\r\n",
	"reserve\r\nreserve\r\nreserve-with-timeout 1\r\nput 0 0 1 1\r\nx\r\nreserve\r\ndelete 1\r\ndelete 1\r\ndelete 2\r\n",
	strings.Repeat("put 1 0 60 8\r\npipeline\r\n", 300) + strings.Repeat("reserve\r\n", 301),
	strings.Repeat("peek 1\r\nuse t\r\nput 0 0 1 0\r\n\r\nuse u\r\n", 20),
}

// Whatever a client sends, and however it is cut: no panic, no hang, nothing
// left behind; only replies of the protocol come back, and the same ones as to
// the same bytes in one piece and another number of shards.
func FuzzSession(f *testing.F) {
	for i, s := range sessions {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, in []byte, cuts uint64) {
		if len(in) > 8<<10 {
			t.Skip("long enough to be slow")
		}
		synctest.Test(t, func(t *testing.T) {
			whole := converse(t, 1, in, nil)
			if err := checkReplies(whole); err != nil {
				t.Fatalf("%v\nsent %q\ngot  %q", err, in, whole)
			}
			for _, shards := range []int{1, 3} {
				rnd := rand.New(rand.NewPCG(cuts, uint64(shards)))
				if got := converse(t, shards, in, rnd); !bytes.Equal(got, whole) {
					t.Fatalf("%d shards, cuts %d\nsent  %q\nwhole %q\ncut   %q", shards, cuts, in, whole, got)
				}
			}
		})
	})
}

// converse sends in to a new server, in one piece or cut at random,
// half-closes, and returns what comes back, without what differs from one
// server to the next. It does not let time pass.
func converse(t *testing.T, shards int, in []byte, rnd *rand.Rand) []byte {
	b := newBench(t, fuzzed, router.Config{Shards: shards})
	defer b.close()
	p := b.connect()
	most := 1
	if rnd != nil {
		most = 1 << rnd.IntN(10)
	}
	for rest := in; len(rest) > 0; {
		n := len(rest)
		if rnd != nil && len(p.in) < cap(p.in)-1 {
			n = min(n, rnd.IntN(most)+1)
		}
		p.send(string(rest[:n]))
		rest = rest[n:]
		if rnd != nil && rnd.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	synctest.Wait()
	select {
	case <-p.ended: // quit
	default:
		p.s.Hangup()
	}
	out := p.got()
	p.close()

	st := b.engineStats()
	if jobs := st.Ready + st.Delayed + st.Buried + st.Reserved; uint64(jobs) > st.Total {
		t.Errorf("%d jobs of %d", jobs, st.Total)
	}
	if st.Ready+st.Delayed+st.Buried == 0 && st.Memory != 0 {
		t.Errorf("no job takes %d bytes", st.Memory)
	}
	if st.Connections != 1 || st.Tubes > 1+st.Ready+st.Delayed+st.Buried {
		t.Errorf("%d clients and %d tubes are left", st.Connections-1, st.Tubes)
	}
	return []byte(varying.ReplaceAllString(out, "OK n\r\n---\n$1"))
}

// varying finds the answers to stats, and keeps what does not vary.
var varying = regexp.MustCompile(`OK \d+\r\n---\n(current-jobs-urgent(?s:.*?)\n)rusage-utime(?s:.*?)\n\r\n`)

// Replies without a body, and those with one.
var (
	bareReply = regexp.MustCompile(`^(INSERTED [1-9]\d*|USING [A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}|WATCHING [1-9]\d*|` +
		`KICKED( \d+)?|BURIED|DEADLINE_SOON|DELETED|NOT_FOUND|NOT_IGNORED|PAUSED|RELEASED|TIMED_OUT|TOUCHED|` +
		`BAD_FORMAT|EXPECTED_CRLF|JOB_TOO_BIG|UNKNOWN_COMMAND|OUT_OF_MEMORY|DRAINING|OK n)$`)
	bodyReply = regexp.MustCompile(`^(?:RESERVED [1-9]\d*|FOUND [1-9]\d*|OK) (\d+)$`)
)

// checkReplies tells what of a server's output is not a reply.
func checkReplies(out []byte) error {
	for len(out) > 0 {
		line, rest, ok := bytes.Cut(out, []byte("\r\n"))
		if !ok {
			return fmt.Errorf("no end of line: %.100q", out)
		}
		out = rest
		if m := bodyReply.FindSubmatch(line); m != nil {
			n, err := strconv.Atoi(string(m[1]))
			if err != nil || len(out) < n+2 || string(out[n:n+2]) != "\r\n" {
				return fmt.Errorf("%s: no such body: %.100q", line, out)
			}
			if bytes.HasPrefix(line, []byte("OK")) && (!bytes.HasPrefix(out, []byte("---\n")) || out[n-1] != '\n') {
				return fmt.Errorf("%s: not YAML: %.100q", line, out)
			}
			out = out[n+2:]
			continue
		}
		if !bareReply.Match(line) {
			return fmt.Errorf("not a reply: %.100q", line)
		}
		if string(line) == "OK n" { // of stats, as converse leaves it
			if i := bytes.Index(out, []byte("binlog")); i >= 0 {
				return fmt.Errorf("stats: %.100q", out[i:])
			}
			i := bytes.Index(out, []byte("version: \"test\"\n"))
			if i < 0 {
				return fmt.Errorf("stats: %.100q", out)
			}
			out = out[i+len("version: \"test\"\n"):]
		}
	}
	return nil
}
