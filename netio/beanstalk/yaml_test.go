package beanstalk

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// The values below are all different and in the order of the reply, so that two
// that changed places would show.
var (
	someJobStats = shard.JobStats{ID: 1, Tube: "t", State: "buried", Pri: 3, Age: 4, Delay: 5, TTR: 6, TimeLeft: 7,
		Reserves: 9, Timeouts: 10, Releases: 11, Buries: 12, Kicks: 13}

	someTubeStats = shard.TubeStats{Name: "t.1", Urgent: 1, Ready: 2, Reserved: 3, Delayed: 4, Buried: 5, Total: 6,
		Using: 7, Watching: 8, Waiting: 9, Deletes: 10, Pauses: 11, Pause: 12, PauseLeft: 13}

	someServerStats = serverStats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
		27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, "sheaf 0.1", 1579 * time.Microsecond, 40*time.Second + 999999*time.Microsecond,
		41, 42, 43, 44, 45, 46, false, "abfacaef355360b3", "vm", "#1 SMP PREEMPT_DYNAMIC @0", "x86_64"}
)

func TestJobStats(t *testing.T) {
	want := "OK 144\r\n" + `---
id: 1
tube: "t"
state: buried
pri: 3
age: 4
delay: 5
ttr: 6
time-left: 7
file: 0
reserves: 9
timeouts: 10
releases: 11
buries: 12
kicks: 13
` + "\r\n"
	if got := string(appendJobStats([]byte("DELETED\r\n"), &someJobStats)); got != "DELETED\r\n"+want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTubeStats(t *testing.T) {
	want := "OK 267\r\n" + `---
name: "t.1"
current-jobs-urgent: 1
current-jobs-ready: 2
current-jobs-reserved: 3
current-jobs-delayed: 4
current-jobs-buried: 5
total-jobs: 6
current-using: 7
current-watching: 8
current-waiting: 9
cmd-delete: 10
cmd-pause-tube: 11
pause: 12
pause-time-left: 13
` + "\r\n"
	if got := string(appendTubeStats(nil, &someTubeStats)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestServerStats(t *testing.T) {
	got := string(appendServerStats(nil, &someServerStats))
	values := map[string]string{ // those that are not their place in the reply
		"version": `"sheaf 0.1"`, "rusage-utime": "0.001579", "rusage-stime": "40.999999", "draining": "false",
		"id": "abfacaef355360b3", "hostname": `"vm"`, "os": `"#1 SMP PREEMPT_DYNAMIC @0"`, "platform": `"x86_64"`,
	}
	for i, e := range entries(t, got) {
		want, ok := values[e.key]
		if !ok {
			want = fmt.Sprint(i + 1)
		}
		if e.value != want {
			t.Errorf("%s: %s, want %s", e.key, e.value, want)
		}
	}
}

func TestTubes(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"default"}, "OK 14\r\n---\n- default\n\r\n"},
		{[]string{"default", "a", "17"}, "OK 23\r\n---\n- default\n- a\n- 17\n\r\n"},
	} {
		if got := string(appendTubes(nil, tt.names)); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestCPU(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                              "k: 0.000000\n",
		999 * time.Nanosecond:          "k: 0.000000\n",
		time.Microsecond:               "k: 0.000001\n",
		100 * time.Millisecond:         "k: 0.100000\n",
		time.Second:                    "k: 1.000000\n",
		12345678901 * time.Microsecond: "k: 12345.678901\n",
	} {
		var y yaml
		if y.cpu("k", d); string(y.b) != want {
			t.Errorf("%v: %q, want %q", d, y.b, want)
		}
	}
}

// The reference's own answers have the same keys in the same order and values
// of the same form, but for 1.13's quotes.
func TestReferenceYAML(t *testing.T) {
	socket := startReference(t)
	if got, want := ask(t, socket, "use foo\r\nwatch foo\r\nlist-tubes-watched\r\n"), "USING foo\r\nWATCHING 2\r\n"+
		string(appendTubes(nil, []string{"default", "foo"})); got != want {
		t.Errorf("list-tubes-watched: the reference says %q, want %q", got, want)
	}
	const setup = "use foo\r\nput 1 0 5 3\r\nabc\r\n"
	for _, tt := range []struct {
		command string
		ours    []byte
	}{
		{"stats", appendServerStats(nil, &someServerStats)},
		{"stats-tube foo", appendTubeStats(nil, &someTubeStats)},
		{"stats-job 1", appendJobStats(nil, &someJobStats)},
	} {
		reply := ask(t, socket, setup+tt.command+"\r\n")
		ref, ours := entries(t, reply[strings.Index(reply, "OK "):]), entries(t, string(tt.ours))
		if len(ref) != len(ours) {
			t.Fatalf("%s: %d keys, the reference has %d", tt.command, len(ours), len(ref))
		}
		for i, r := range ref {
			if r.key != ours[i].key || form(r) != form(ours[i]) {
				t.Errorf("%s: %v, the reference has %v", tt.command, ours[i], r)
			}
		}
	}
}

type entry struct{ key, value string }

// entries returns the keys and values of a whole reply, having checked what
// surrounds them.
func entries(t *testing.T, reply string) (es []entry) {
	t.Helper()
	var size int
	if _, err := fmt.Sscanf(reply, "OK %d\r\n", &size); err != nil {
		t.Fatalf("%v in %q", err, reply)
	}
	_, body, _ := strings.Cut(reply, "\r\n")
	body, ok := strings.CutSuffix(body, "\n\r\n")
	if !ok || len(body)+1 != size {
		t.Fatalf("%d bytes announced, %d sent, ended well: %t, in %q", size, len(body)+1, ok, reply)
	}
	for i, line := range strings.Split(body, "\n") {
		if i == 0 {
			if line != "---" {
				t.Fatalf("%q begins the body", line)
			}
			continue
		}
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%q in the body", line)
		}
		es = append(es, entry{key, value})
	}
	return es
}

var (
	wholeForm   = regexp.MustCompile(`^-?[0-9]+$`)
	decimalForm = regexp.MustCompile(`^[0-9]+\.[0-9]{6}$`)
)

// form tells a number from a decimal from a string, quoted or not: quotes are
// where 1.12 and 1.13 differ. The id may be all digits by chance.
func form(e entry) string {
	switch {
	case e.key == "id" && len(e.value) == 16:
		return "hexadecimal"
	case wholeForm.MatchString(e.value):
		return "whole"
	case decimalForm.MatchString(e.value):
		return "decimal"
	}
	return "string"
}

func BenchmarkServerStats(b *testing.B) {
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendServerStats(buf[:0], &someServerStats)
	}
}

// Functions of Gearman are tubes and may have any name.
func TestNamesThatAreNoTubeNames(t *testing.T) {
	for name, want := range map[string]string{
		"resize":       "resize",
		"a-b+c/d;e.f$": "a-b+c/d;e.f$",
		"-x":           "%2Dx",
		"100%":         "100%25",
		"a b\n\"\x00é": "a%20b%0A%22%00%C3%A9",
	} {
		list := string(appendTubes(nil, []string{name}))
		if want := fmt.Sprintf("OK %d\r\n---\n- %s\n\r\n", len(want)+7, want); list != want {
			t.Errorf("list-tubes shows %q as %q, want %q", name, list, want)
		}
		stats := string(appendJobStats(nil, &shard.JobStats{Tube: name}))
		if !strings.Contains(stats, "\ntube: \""+want+"\"\n") {
			t.Errorf("stats-job shows %q in %q", name, stats)
		}
	}
}
