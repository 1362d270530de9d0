package beanstalk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sheafq/sheaf/router"
)

// cutEverywhere sends in, whole, cut in two at each byte, and byte for byte, to
// a new server each time, and wants the same back.
func cutEverywhere(t *testing.T, cfg Config, in, want string) {
	t.Helper()
	for _, n := range shardCounts {
		synctest.Test(t, func(t *testing.T) {
			try := func(what string, pieces ...string) {
				b := newBench(t, cfg, router.Config{Shards: n})
				defer b.close()
				p := b.connect()
				got := ""
				for _, piece := range pieces {
					got += p.ask(piece)
				}
				if got != want {
					t.Fatalf("%d shards, %s: sent %.200q\ngot  %.300q\nwant %.300q", n, what, in, got, want)
				}
			}
			for i := range len(in) {
				try(fmt.Sprint("cut at ", i), in[:i], in[i:])
			}
			try("byte for byte", strings.Split(in, "")...)
		})
	}
}

func TestTornPut(t *testing.T) {
	cutEverywhere(t, Config{},
		"put 7 0 60 5\r\nhello\r\npeek 1\r\nput 3 0 60 0\r\n\r\npeek-ready\r\nreserve\r\ndelete 2\r\ndelete 1\r\n",
		"INSERTED 1\r\nFOUND 1 5\r\nhello\r\nINSERTED 2\r\nFOUND 2 0\r\n\r\nRESERVED 2 0\r\n\r\nDELETED\r\nDELETED\r\n")
}

// A body is bytes: what looks like a command, a line end or a number in it is
// not.
func TestBodiesOfAnyBytes(t *testing.T) {
	for _, body := range []string{
		"\r\n", "\r\n\r\n", "\x00", "a\r\nquit\r\n", "\r", "\n\r", "put 0 0 1 3\r\nabc\r\n", "\xff\x00\r\n\r",
	} {
		cutEverywhere(t, Config{},
			fmt.Sprintf("put 0 0 60 %d\r\n%s\r\nreserve\r\nlist-tube-used\r\n", len(body), body),
			fmt.Sprintf("INSERTED 1\r\nRESERVED 1 %d\r\n%s\r\nUSING default\r\n", len(body), body))
	}
}

// All bytes of the size are taken, and the two behind them, whatever they are;
// what follows those two is read as a command. The id has been taken.
func TestWrongTrailer(t *testing.T) {
	for _, trailer := range []string{"xx", "\rx", "x\n", "\n\r", "\n\n", "\r\r", "\x00\x00"} {
		cutEverywhere(t, Config{},
			"put 0 0 60 3\r\nabc"+trailer+"list-tube-used\r\nput 0 0 60 3\r\nxyz\r\npeek 1\r\npeek-ready\r\n",
			"EXPECTED_CRLF\r\nUSING default\r\nINSERTED 2\r\nNOT_FOUND\r\nFOUND 2 3\r\nxyz\r\n")
	}
	// A body that is longer than announced.
	cutEverywhere(t, Config{}, "put 0 0 60 3\r\nabcdef\r\nlist-tube-used\r\n",
		"EXPECTED_CRLF\r\nUNKNOWN_COMMAND\r\nUSING default\r\n")
}

func TestJobTooBig(t *testing.T) {
	cfg := Config{MaxJobSize: 10}
	cutEverywhere(t, cfg,
		"put 0 0 60 10\r\n0123456789\r\nput 0 0 60 11\r\n01\r\nquit\r\n9\r\nput 0 0 60 12 x\r\n0123456789abxxpeek-ready\r\n",
		"INSERTED 1\r\nJOB_TOO_BIG\r\nJOB_TOO_BIG\r\nFOUND 1 10\r\n0123456789\r\n")
	playWith(t, cfg, 0, `
a put 0 0 60 4294967295
a 0123456789
a closes
# the numbers are looked at first, and no id was taken
b put 0 0 4294967296 11 / list-tube-used
	BAD_FORMAT / USING default
b put 0 0 60 11 / 0123456789a / put 0 0 60 1 / x
	JOB_TOO_BIG / INSERTED 1
b stats | cmd-put max-job-size current-producers total-jobs
	3 10 1 1
`)
}

// What is too big is thrown away as it comes, and keeps nothing waiting that
// was sent before.
func TestJobTooBigIsOwedLast(t *testing.T) {
	inBubble(t, Config{MaxJobSize: 10}, 0, func(b *bench) {
		a := b.connect()
		a.want("list-tube-used\r\nput 0 0 60 1000000\r\n", "USING default\r\n")
		for range 1000 {
			a.want(strings.Repeat("quit\r\n", 1000)[:1000], "")
		}
		a.want("\r", "")
		a.want("\nlist-tube-used\r\n", "JOB_TOO_BIG\r\nUSING default\r\n")
	})
}

// The body of a put whose line is refused is read as commands.
func TestPutRefused(t *testing.T) {
	for _, line := range []string{"put 0 0 60", "put 0 0 60 3 ", "put 0 0 60 3x", "put 0 0 60 -3", "put x 0 60 3", "put 0 0 60 4294967296"} {
		cutEverywhere(t, Config{}, line+"\r\nlist-tube-used\r\nabc\r\nput 0 0 60 1\r\nx\r\n",
			"BAD_FORMAT\r\nUSING default\r\nUNKNOWN_COMMAND\r\nINSERTED 1\r\n")
	}
}

// Ids are dense in the order in which the put lines come, whoever sends them,
// and a put that fails after its id was taken leaves a gap.
func TestIDs(t *testing.T) {
	play(t, `
a put 0 0 60 3
b use t1 / put 0 0 60 3
	USING t1
c use t2 / put 0 0 60 3 / abc
	USING t2 / INSERTED 3
b abc
	INSERTED 2
a abc
	INSERTED 1
# refused before the id is taken
a put 0 0 60 / put 0 0 60 1 x / put 0 0 60 1 / x
	BAD_FORMAT / BAD_FORMAT / INSERTED 4
# and after: a body that ends wrong,
a put 0 0 60 1 / xyz / put 0 0 60 1 / x
	EXPECTED_CRLF / UNKNOWN_COMMAND / INSERTED 6
# one that never comes,
b put 0 0 60 100 / x
b closes
a put 0 0 60 1 / x
	INSERTED 8
# and a server that drains.
drain
a put 0 0 60 1 / x
	DRAINING
c put 0 0 60 1
a peek 9
	NOT_FOUND
c x
	DRAINING
a peek 1 / peek 2 / peek 3 / peek 4 / peek 5
	FOUND 1 3 / abc / FOUND 2 3 / abc / FOUND 3 3 / abc / FOUND 4 1 / x / NOT_FOUND
`)
}

// A body that is cut off creates no job, and leaves nothing.
func TestBodyCutOff(t *testing.T) {
	const in = "put 0 0 60 5\r\nhello\r\n"
	inBubble(t, Config{}, 0, func(b *bench) {
		for i := range len(in) {
			p := b.connect()
			p.want(in[:i], "")
			p.close()
		}
		big := b.connect()
		big.want("put 0 0 60 65535\r\n"+strings.Repeat("x", 60000), "")
		big.close()
		st := b.engineStats()
		if st.Total != 0 || st.Ready != 0 || st.Memory != 0 || st.Producers != 0 {
			t.Errorf("%d jobs, %d bytes, %d producers are left", st.Total, st.Memory, st.Producers)
		}
		a := b.connect()
		gone := len("hello\r\n") + 1
		a.want("use x\r\n"+in, fmt.Sprintf("USING x\r\nINSERTED %d\r\n", gone+1))
	})
}

// A put that would go over the cap is read to its end and refused; nothing else
// is, and a smaller one has room.
func TestOutOfMemory(t *testing.T) {
	body := strings.Repeat("x", 5000)
	put := "put 0 0 60 5000\r\n" + body + "\r\n"
	inBubble(t, Config{}, 10000, func(b *bench) {
		a, c := b.connect(), b.connect()
		a.want("put 0 0 60 1\r\ns\r\n"+put, "INSERTED 1\r\nINSERTED 2\r\n")
		a.want(put+"list-tube-used\r\n", "OUT_OF_MEMORY\r\nUSING default\r\n")
		for _, cut := range []int{10, 17, 100, 5017, 5018} {
			a.want(put[:cut], "")
			a.want(put[cut:]+"list-tube-used\r\n", "OUT_OF_MEMORY\r\nUSING default\r\n")
		}
		a.want("put 0 0 60 60000\r\n", "")
		a.want(strings.Repeat("y", 60002)+"list-tube-used\r\n", "OUT_OF_MEMORY\r\nUSING default\r\n")
		c.want("reserve-job 1\r\nrelease 1 9 0\r\nreserve-job 1\r\nbury 1 0\r\nkick 1\r\npeek 2\r\n",
			"RESERVED 1 1\r\ns\r\nRELEASED\r\nRESERVED 1 1\r\ns\r\nBURIED\r\nKICKED 1\r\nFOUND 2 5000\r\n"+body+"\r\n")
		if got := c.ask("put 0 0 60 100\r\n" + body[:100] + "\r\n"); !strings.HasPrefix(got, "INSERTED ") {
			t.Errorf("a small job: %q", got)
		}
		c.want("delete 2\r\n", "DELETED\r\n")
		if got := c.ask(put); !strings.HasPrefix(got, "INSERTED ") {
			t.Errorf("with room again: %q", got)
		}
		c.want(put, "OUT_OF_MEMORY\r\n")
		if st := b.engineStats(); st.Total != 4 || st.Ready != 3 {
			t.Errorf("%d jobs were made, %d are ready", st.Total, st.Ready)
		}
	})
}

// A body for which there is surely no room is thrown away as it comes.
func TestOutOfMemoryTakesNone(t *testing.T) {
	inBubble(t, Config{MaxJobSize: LargestMaxJobSize}, 1<<20, func(b *bench) {
		a := b.connect()
		a.want("put 0 0 60 4194304\r\n", "")
		piece := strings.Repeat("x", 1<<16)
		for range 4194304 >> 16 {
			a.want(piece, "")
			if a.s.put != nil {
				t.Fatal("the body is kept")
			}
		}
		a.want("xx", "OUT_OF_MEMORY\r\n") // whatever stands behind it
		a.want("put 0 0 60 1\r\nx\r\n", "INSERTED 1\r\n")
	})
}

// allocated returns how many bytes are allocated while f runs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Memory is held by those who send, not by those who announce.
func TestAnnouncingCostsLittle(t *testing.T) {
	inBubble(t, Config{MaxJobSize: LargestMaxJobSize}, 0, func(b *bench) {
		for _, sent := range []int{0, 100, 1 << 20, 3 << 20} {
			a := b.connect()
			body := strings.Repeat("x", sent)
			grown := allocated(func() { a.want("put 0 0 60 1073741824\r\n"+body, "") })
			t.Logf("%d bytes sent, %d allocated", sent, grown)
			if most := uint64(2<<20 + 8*sent); grown > most {
				t.Errorf("%d bytes allocated for %d that were sent", grown, sent)
			}
			a.close()
		}
		for range 200 {
			p := b.connect()
			p.want("put 0 0 60 1073741823\r\nx", "")
		}
		if grown := liveHeap(); grown > 300<<20 {
			t.Errorf("%d bytes are held for 200 clients that sent one byte each", grown)
		}
	})
}

// liveHeap returns how many bytes are in use, of which none are in a pool.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Large bodies grow as they come, and come out as they went in.
func TestLargeBodies(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 10<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	inBubble(t, Config{MaxJobSize: 20 << 20}, 0, func(b *bench) {
		a, r := b.connect(), b.connect()
		const granted = DefaultMaxJobSize + 2 // at first, and twice that when it is full
		id := 0
		for _, size := range []int{granted - 3, granted - 2, granted - 1, granted, 2*granted - 2, 2*granted - 1, 3<<20 + 17, 9<<20 + 1} {
			body := noise[id : id+size]
			all := fmt.Appendf(nil, "put 0 0 60 %d\r\n%s\r\nlist-tube-used\r\n", size, body)
			got := ""
			for len(all) > 0 {
				n := min(len(all), rnd.IntN(300_000)+1)
				got += a.ask(string(all[:n]))
				all = all[n:]
			}
			id++
			if want := fmt.Sprintf("INSERTED %d\r\nUSING default\r\n", id); got != want {
				t.Fatalf("size %d: got %q", size, got)
			}
			if got := r.ask("reserve\r\n"); got != fmt.Sprintf("RESERVED %d %d\r\n%s\r\n", id, size, body) {
				t.Fatalf("size %d: another body came back", size)
			}
			r.want(fmt.Sprintf("delete %d\r\n", id), "DELETED\r\n")
		}
		if st := b.engineStats(); st.Memory != 0 {
			t.Errorf("%d bytes are left", st.Memory)
		}
	})
}

// The whole of a body arrives with its put line or in pieces: the job is the
// same.
func TestBodyIsNotTheBuffer(t *testing.T) {
	inBubble(t, Config{}, 0, func(b *bench) {
		a := b.connect()
		var want bytes.Buffer
		for i := range 100 {
			body := strings.Repeat(string(rune('a'+i%26)), i)
			line := fmt.Sprintf("put %d 0 60 %d\r\n%s\r\n", i, i, body)
			for _, piece := range []string{line[:len(line)*i/100], line[len(line)*i/100:]} {
				a.ask(piece)
			}
			fmt.Fprintf(&want, "RESERVED %d %d\r\n%s\r\n", i+1, i, body)
		}
		a.want(strings.Repeat("reserve\r\n", 100), want.String())
	})
}
