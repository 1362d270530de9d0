package gearman

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sheafq/sheaf/router"
)

// conversations are where the fuzzer begins: a client that is its own worker.
var conversations = [][]byte{
	slices.Concat(req(typeCanDo, "f"), req(typeSubmitJob, "f", "u", "x"), req(typeGrabJob), req(typeWorkStatus, "H:host:1", "1", "2"),
		req(typeGetStatus, "H:host:1"), req(typeWorkComplete, "H:host:1", "y"), req(typeGetStatusUnique, "u")),
	slices.Concat(req(typeOptionReq, "exceptions"), req(typeCanDoTimeout, "f", "9"), req(typePreSleep), req(typeSubmitJobHighBG, "f", "-", "x"),
		req(typeGrabJobUniq), req(typeWorkException, "H:host:1", ""), req(typeCantDo, "f"), req(typeGrabJobAll), req(typeResetAbilities)),
	slices.Concat(req(typeSubmitJobEpoch, "f", "", "9999999999", "x"), req(typeSubmitJobSched, "f", "", "1", "*", "", "", "6", "x"),
		req(typeSubmitReduceJob, "a", "u", "red", "", "x"), req(typeEchoReq, "\x00\x00"), []byte("status\nshow jobs\r\nshow unique jobs\nworkers\n")),
	[]byte("status\r\nmaxqueue f 1\nmaxqueue f 1 2 3\ncreate function f\ndrop function f\ncancel job H:host:1\nversion\nverbose\nprioritystatus\nfoo\n\n"),
	append(req(typeSubmitJobBG, "f", "", strings.Repeat("large ", 20000)), req(typeEchoReq, "after")...),
	[]byte("\x00REQ\x00\x00\x00\x07\xff\xff\xff\xffxxxx"), []byte("\x00RES\x00\x00\x00\x07\x00\x00\x00\x00"), []byte("\x00FOO"), {0}, []byte("\x00REQ"),
	bytes.Repeat(append(req(typeSubmitJobLowBG, "f", "", "x"), req(typeSubmitJobLowBG, "g", "u", "x")...), 300),
}

// Whatever comes, and however it is cut: no panic, no hang, nothing left behind;
// only packets and lines come back, and the same ones as to the same bytes in
// one piece and another number of shards.
func FuzzSession(f *testing.F) {
	for i, in := range conversations {
		f.Add(in, uint64(i))
	}
	f.Fuzz(func(t *testing.T, in []byte, cuts uint64) {
		if len(in) > 256<<10 {
			t.Skip("long enough to be slow")
		}
		synctest.Test(t, func(t *testing.T) {
			whole := converse(t, 1, in, nil)
			for _, shards := range []int{1, 3} {
				cut := converse(t, shards, in, rand.New(rand.NewPCG(cuts, uint64(shards))))
				// What a client would have been told goes with its connection.
				results := min(len(whole.results), len(cut.results))
				if !bytes.Equal(cut.answers, whole.answers) || cut.closed != whole.closed ||
					!bytes.Equal(cut.results[:results], whole.results[:results]) ||
					!whole.closed && len(cut.results) != len(whole.results) {
					t.Fatalf("%d shards, cuts %d\nsent  %.2000q\nwhole %.2000q\ncut   %.2000q", shards, cuts, in,
						[]string{string(whole.answers), string(whole.results)}, []string{string(cut.answers), string(cut.results)})
				}
			}
		})
	})
}

// conversation is what comes back: the answers, and the results, which come when
// they will. (A NOOP comes to who is asleep when there is a job; whether a client
// that is its own producer is depends on the cuts.)
type conversation struct {
	answers, results []byte
	closed           bool // by the session
}

// converse sends in to a new server, in one piece or cut at random, and returns
// what comes back.
func converse(t *testing.T, shards int, in []byte, rnd *rand.Rand) (out conversation) {
	b := newBench(t, Config{MaxJobSize: 150_000}, router.Config{Shards: shards})
	defer b.close()
	p := b.connect()
	most := 1
	if rnd != nil {
		most = 1 << rnd.IntN(18)
	}
	var all []byte
	for rest := in; len(rest) > 0; {
		n := min(len(rest), 60<<10)
		if rnd != nil {
			n = min(n, rnd.IntN(most)+max(1, len(in)/1000))
		}
		p.send(rest[:n])
		rest = rest[n:]
		if rnd == nil || rnd.IntN(2) == 0 {
			all = append(all, p.got()...)
		}
	}
	all = append(all, p.got()...)
	out.closed = p.err != nil
	p.close()

	st := b.stats()
	jobs := st.Ready + st.Delayed + st.Buried + st.Reserved
	if uint64(jobs) > st.Total || jobs == 0 && st.Memory != 0 || st.Connections != 1 {
		t.Errorf("%d jobs of %d, %d bytes, %d clients are left", jobs, st.Total, st.Memory, st.Connections-1)
	}
	for len(all) > 0 {
		if all[0] != 0 {
			line, rest, ok := bytes.Cut(all, []byte("\n"))
			if !ok {
				t.Fatalf("no end of line: %.100q", all)
			}
			if !bytes.HasPrefix(line, []byte("OK ")) || len(line) > 10 { // a process id varies
				out.answers = append(append(out.answers, line...), '\n')
			}
			all = rest
			continue
		}
		if len(all) < headerSize || string(all[:4]) != magicResponse || names[binary.BigEndian.Uint32(all[4:])] == "" {
			t.Fatalf("no packet: %.100q", all)
		}
		n := headerSize + int(binary.BigEndian.Uint32(all[8:]))
		if n > len(all) {
			t.Fatalf("half a packet: %.100q", all)
		}
		switch binary.BigEndian.Uint32(all[4:]) {
		case typeNoop:
		case typeWorkComplete, typeWorkData, typeWorkException, typeWorkFail, typeWorkStatus, typeWorkWarning:
			out.results = append(out.results, all[:n]...)
		default:
			out.answers = append(out.answers, all[:n]...)
		}
		all = all[n:]
	}
	return out
}
