package beanstalk

import (
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// slowForms are the commands in the order of BEANSTALK.md, with a regular
// expression for the arguments of each, whose groups are named for the fields
// of command.
var slowForms = []struct {
	prefix string
	verb   verb
	args   *regexp.Regexp
}{
	{"put ", cmdPut, args(`NUM(?P<pri>) +NUM(?P<delay>) +NUM(?P<ttr>) +NUM(?P<size>)(.*)`)},
	{"peek ", cmdPeek, args(`NUM(?P<id>)`)},
	{"peek-ready", cmdPeekReady, args(``)},
	{"peek-delayed", cmdPeekDelayed, args(``)},
	{"peek-buried", cmdPeekBuried, args(``)},
	{"reserve-with-timeout ", cmdReserveTimeout, args(`NUM(?P<timeout>).*`)},
	{"reserve-job ", cmdReserveJob, args(`NUM(?P<id>)`)},
	{"reserve", cmdReserve, args(``)},
	{"delete ", cmdDelete, args(`NUM(?P<id>)`)},
	{"release ", cmdRelease, args(`NUM(?P<id>) +NUM(?P<pri>) +NUM(?P<delay>)`)},
	{"bury ", cmdBury, args(`NUM(?P<id>) +NUM(?P<pri>)`)},
	{"kick ", cmdKick, args(`[ \t\n\v\f\r]*(?P<count>[+-]?[0-9]+).*`)},
	{"kick-job ", cmdKickJob, args(`NUM(?P<id>)`)},
	{"touch ", cmdTouch, args(`NUM(?P<id>)`)},
	{"stats-job ", cmdStatsJob, args(`NUM(?P<id>)`)},
	{"stats-tube ", cmdStatsTube, args(`NAME`)},
	{"stats", cmdStats, args(``)},
	{"use ", cmdUse, args(`NAME`)},
	{"watch ", cmdWatch, args(`NAME`)},
	{"ignore ", cmdIgnore, args(`NAME`)},
	{"list-tubes-watched", cmdListTubesWatched, args(``)},
	{"list-tube-used", cmdListTubeUsed, args(``)},
	{"list-tubes", cmdListTubes, args(``)},
	{"quit", cmdQuit, args(`.*`)},
	{"pause-tube", cmdPauseTube, args(` *NAME +NUM(?P<pause>)`)},
}

// args compiles a pattern in which NUM(?P<x>) is a number that goes to field x
// and NAME is a tube's name.
func args(pattern string) *regexp.Regexp {
	pattern = regexp.MustCompile(`NUM\(\?P<(\w+)>\)`).ReplaceAllString(pattern, ` *(?P<$1>[0-9]+)`)
	pattern = strings.ReplaceAll(pattern, "NAME", `(?P<tube>[A-Za-z0-9+/;.$$_()][-A-Za-z0-9+/;.$$_()]{0,199})`)
	return regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(pattern, "$$", "$") + `\z`)
}

// slowParse is parse once more, without regard to speed.
func slowParse(line string) (rejection, command) {
	var c command
	if strings.Contains(line, "\x00") {
		return badFormat, c
	}
	for _, form := range slowForms {
		rest, ok := strings.CutPrefix(line, form.prefix)
		if !ok {
			continue
		}
		c.verb = form.verb
		m := form.args.FindStringSubmatch(rest)
		if m == nil {
			if m := slowPause.FindStringSubmatch(line); m != nil {
				if _, err := strconv.ParseUint(m[1], 10, 32); err == nil {
					return badName, c
				}
			}
			return badFormat, c
		}
		for i, field := range form.args.SubexpNames() {
			bits, max := 32, uint64(math.MaxUint32)
			switch field {
			case "":
				c.trailing = i > 0 && m[i] != ""
				continue
			case "tube":
				c.tube = []byte(m[i])
				continue
			case "count":
				n, err := strconv.ParseUint(strings.TrimLeft(m[i], "+-"), 10, 64)
				if err != nil {
					return badFormat, c
				}
				if m[i][0] == '-' {
					n = -n
				}
				c.count = uint32(n)
				continue
			case "id":
				bits, max = 64, math.MaxUint64
			case "timeout":
				max = math.MaxInt32
			}
			n, err := strconv.ParseUint(m[i], 10, bits)
			if err != nil || n > max {
				return badFormat, c
			}
			switch field {
			case "id":
				c.id = n
			case "pri":
				c.pri = uint32(n)
			case "delay":
				c.delay = uint32(n)
			case "ttr":
				c.ttr = uint32(n)
			case "size":
				c.size = uint32(n)
			case "timeout":
				c.timeout = uint32(n)
			case "pause":
				c.pause = uint32(n)
			}
		}
		return accepted, c
	}
	return unknownCommand, c
}

// slowPause is a pause-tube whose name has nothing but bytes of names.
var slowPause = regexp.MustCompile(`^pause-tube *[-A-Za-z0-9+/;.$_()]+ +([0-9]+)$`)

// parse agrees with slowParse about any line.
func FuzzParse(f *testing.F) {
	for _, l := range lines {
		f.Add([]byte(l.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var c command
		got := parse(in, &c)
		want, slow := slowParse(string(in))
		if got != want {
			t.Fatalf("%q: verdict %d, slowly %d", in, got, want)
		}
		if got == accepted && !reflect.DeepEqual(c, slow) {
			t.Fatalf("%q: %+v, slowly %+v", in, c, slow)
		}
	})
}
