package main_test

// What the crash test knows of one job, the commands that change it, and what
// a server that came back says of it.

import (
	"bytes"
	bin "encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

type crashPlace uint8

const (
	crashReady crashPlace = iota
	crashDelayed
	crashReserved
	crashBuried
)

var crashPlaces = []string{"ready", "delayed", "reserved", "buried"}

func (p crashPlace) String() string { return crashPlaces[p] }

// crashLong is where long delays and TTRs begin, in seconds: none of them runs
// out during a test. A long TTR is crashLong and the job's order, so it tells
// which job it is even where the id is not known.
const crashLong = 1_000_000

// crashMinTag is how long a body must be to tell which job it is.
const crashMinTag = 16

// A crashJob is what of a job never changes.
type crashJob struct {
	order uint64 // of all jobs ever put; two of one connection have ids in this order
	tube  string
	size  int
	ttr   uint32
	id    uint64   // 0 until an answer tells
	born  diffSpan // when it was put
	past  []string // what was done to it, for a failure's report
}

// crashState is what of a job does change.
type crashState struct {
	place         crashPlace
	pri, delay    uint32
	due           diffSpan // when delayed
	buriedAt      uint64   // when buried: the order among the buried of a tube
	reserves      int
	timeouts      int
	releases      int
	buries, kicks int
}

func (s *crashState) String() string {
	text := fmt.Sprintf("%s pri %d delay %d reserves %d timeouts %d releases %d buries %d kicks %d",
		s.place, s.pri, s.delay, s.reserves, s.timeouts, s.releases, s.buries, s.kicks)
	if s.place == crashDelayed {
		text += fmt.Sprintf(" until %s to %s", s.due.lo.Format(time.StampMilli), s.due.hi.Format(time.StampMilli))
	}
	return text
}

// note remembers something for the report.
func (j *crashJob) note(format string, args ...any) {
	const most = 40
	if len(j.past) >= most {
		j.past = slices.Delete(j.past, 0, most/4)
	}
	j.past = append(j.past, time.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

// body returns the job's body, which follows from its order and size: half of
// them random and half compressible, with a checksum if there is room.
func (j *crashJob) body() []byte {
	r := rand.New(rand.NewPCG(j.order, 0))
	b := make([]byte, 0, j.size+crashMinTag)
	b = fmt.Appendf(b, "%016x", j.order)
	for words := r.Uint64(); len(b) < j.size; {
		if j.order%2 == 0 {
			words = r.Uint64()
		}
		b = bin.LittleEndian.AppendUint64(b, words)
	}
	b = b[:j.size]
	if n := j.size - 4; n >= crashMinTag {
		bin.LittleEndian.PutUint32(b[n:], crc32.ChecksumIEEE(b[:n]))
	}
	return b
}

// crashTag returns the order of the job that has that body.
func crashTag(body []byte) (order uint64, ok bool) {
	if len(body) < crashMinTag {
		return 0, false
	}
	order, err := strconv.ParseUint(string(body[:crashMinTag]), 16, 64)
	return order, err == nil
}

// crashOp is a command's verb.
type crashOp string

const (
	crashPut        crashOp = "put"
	crashUse        crashOp = "use"
	crashReserve    crashOp = "reserve"
	crashReserveJob crashOp = "reserve-job"
	crashDelete     crashOp = "delete"
	crashRelease    crashOp = "release"
	crashBury       crashOp = "bury"
	crashTouch      crashOp = "touch"
	crashKick       crashOp = "kick"
	crashKickJob    crashOp = "kick-job"
	crashPause      crashOp = "pause-tube"
	crashStats      crashOp = "stats-job"
)

// A crashCommand is one command as it was sent.
type crashCommand struct {
	op         crashOp
	job        *crashJob // of put and of the commands by id
	tube       string    // of use, kick and pause-tube
	pri, delay uint32
	n          int // what to kick at most; how long to wait in reserve, -1 for ever

	sent time.Time
	seq  uint64 // when sent, in the order of a crashLedger
}

// line returns the command line.
func (c *crashCommand) line() string {
	switch c.op {
	case crashPut:
		return fmt.Sprintf("put %d %d %d %d", c.pri, c.delay, c.job.ttr, c.job.size)
	case crashUse:
		return "use " + c.tube
	case crashReserve:
		if c.n < 0 {
			return "reserve"
		}
		return fmt.Sprintf("reserve-with-timeout %d", c.n)
	case crashRelease:
		return fmt.Sprintf("release %d %d %d", c.job.id, c.pri, c.delay)
	case crashBury:
		return fmt.Sprintf("bury %d %d", c.job.id, c.pri)
	case crashKick:
		return fmt.Sprintf("kick %d", c.n)
	case crashPause:
		return fmt.Sprintf("pause-tube %s %d", c.tube, c.delay)
	}
	return fmt.Sprintf("%s %d", c.op, c.job.id)
}

// append appends what goes over the wire.
func (c *crashCommand) append(b []byte) []byte {
	b = append(b, c.line()...)
	b = append(b, "\r\n"...)
	if c.op == crashPut {
		b = append(b, c.job.body()...)
		b = append(b, "\r\n"...)
	}
	return b
}

// crashFound is a job as the server shows it.
type crashFound struct {
	id, order uint64 // order 0 where neither TTR nor body tells
	tube      string
	ttr       uint32
	age, left int64 // seconds
	state     crashState
	body      []byte
	at        diffSpan // when the server was asked
}

// crashParse reads the answer to stats-job.
func crashParse(yaml []byte) (*crashFound, error) {
	f := new(crashFound)
	value := make(map[string]string)
	for line := range strings.Lines(string(yaml)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			value[k] = strings.Trim(v, `"`)
		}
	}
	number := func(key string) int64 {
		n, err := strconv.ParseInt(value[key], 10, 64)
		if err != nil {
			n = math.MinInt64
		}
		return n
	}
	f.id, f.tube, f.ttr = uint64(number("id")), value["tube"], uint32(number("ttr"))
	f.age, f.left = number("age"), number("time-left")
	place := slices.Index(crashPlaces, value["state"])
	s := &f.state
	s.place, s.pri, s.delay = crashPlace(max(place, 0)), uint32(number("pri")), uint32(number("delay"))
	s.reserves, s.timeouts, s.releases = int(number("reserves")), int(number("timeouts")), int(number("releases"))
	s.buries, s.kicks = int(number("buries")), int(number("kicks"))
	if f.id == 0 || place < 0 || s.reserves < 0 || s.timeouts < 0 || s.releases < 0 || s.buries < 0 || s.kicks < 0 || f.left < 0 {
		return nil, fmt.Errorf("stats-job makes no sense:\n%s", yaml)
	}
	if f.ttr >= crashLong {
		f.order = uint64(f.ttr) - crashLong
	}
	return f, nil
}

func (f *crashFound) String() string {
	return fmt.Sprintf("%s, tube %s ttr %d age %d time-left %d body of %d bytes", &f.state, f.tube, f.ttr, f.age, f.left, len(f.body))
}

// crashSlop covers what a clock may be off when it is written down and read
// back, and between two processes.
const crashSlop = 20 * time.Millisecond

// differs compares what should be with what is. A job that was reserved is to
// be ready.
func (j *crashJob) differs(want *crashState, f *crashFound) (what []string) {
	is := func(name string, got, want any) {
		if got != want {
			what = append(what, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	got := &f.state
	is("tube", f.tube, j.tube)
	is("ttr", f.ttr, j.ttr)
	is("pri", got.pri, want.pri)
	is("delay", got.delay, want.delay)
	is("reserves", got.reserves, want.reserves)
	is("timeouts", got.timeouts, want.timeouts)
	is("releases", got.releases, want.releases)
	is("buries", got.buries, want.buries)
	is("kicks", got.kicks, want.kicks)
	if body := j.body(); !bytes.Equal(f.body, body) {
		at := 0
		for at < min(len(body), len(f.body)) && body[at] == f.body[at] {
			at++
		}
		what = append(what, fmt.Sprintf("body of %d bytes, want %d, is wrong from byte %d on", len(f.body), len(body), at))
	}
	place := want.place
	switch {
	case place == crashReserved:
		place = crashReady
	case place == crashDelayed && f.at.hi.After(want.due.lo.Add(-crashSlop)):
		// It is due about now, or was before: timers may be a little late.
		if f.at.lo.After(want.due.hi.Add(time.Second)) || got.place == crashReady {
			place = crashReady
		}
	}
	is("state", got.place, place)
	seconds := func(name string, got int64, lo, hi time.Duration) {
		least, most := int64(math.Floor((lo - crashSlop).Seconds())), int64(math.Floor((hi + crashSlop).Seconds()))
		if least, most = max(least, 0), max(most, 0); got < least || got > most {
			what = append(what, fmt.Sprintf("%s is %d, want %d to %d", name, got, least, most))
		}
	}
	seconds("age", f.age, f.at.lo.Sub(j.born.hi), f.at.hi.Sub(j.born.lo))
	if place == crashDelayed && got.place == crashDelayed {
		seconds("time-left", f.left, want.due.lo.Sub(f.at.hi), want.due.hi.Sub(f.at.lo))
	}
	return what
}
