package main_test

// What README.md says is true.

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The session in README is played against the server, line by line.
func TestSessionInREADME(t *testing.T) {
	_, session, ok := strings.Cut(readme(t), "```telnet\n")
	session, _, closed := strings.Cut(session, "```\n")
	if !ok || !closed {
		t.Fatal("there is no session in README.md")
	}
	for _, shards := range []string{"1", "7"} {
		c := start(t, "--shards", shards).dial()
		var want strings.Builder
		answered := func() {
			t.Helper()
			// A body ends with a newline of its own before its CRLF.
			got := readLines(c, strings.Count(want.String(), "\n"))
			if got = strings.ReplaceAll(got, "\r\n", "\n"); got != want.String() {
				t.Fatalf("the server answers %q, README.md says %q", got, want.String())
			}
			want.Reset()
		}
		asked := 0
		for line := range strings.Lines(session) {
			if command, yours := strings.CutPrefix(line, "> "); yours {
				answered()
				c.send(command)
				asked++
			} else {
				want.WriteString(line)
			}
		}
		answered()
		c.closed() // it ends with quit
		if asked < 5 {
			t.Errorf("the session has only %d lines of the user's", asked)
		}
	}
}

var helpFlag = regexp.MustCompile(`(?m)^ +(?:(-\w), )?(--[a-z-]+)`)
var readmeFlag = regexp.MustCompile("(?m)^\\| (?:`(-\\w)`, )?`(--[a-z-]+)")

// README's table has the flags of --help, all of them and no other.
func TestFlagsInREADME(t *testing.T) {
	list := func(re *regexp.Regexp, text string) (flags []string) {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			flags = append(flags, m[1]+" "+m[2])
		}
		return flags
	}
	want := list(helpFlag, finish(t, command(t, "--help")).stdout)
	got := list(readmeFlag, readme(t))
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 15 || !slices.Equal(got, want) {
		t.Errorf("README.md has %q\n--help has    %q", got, want)
	}
}

// The links to files in README lead somewhere.
func TestLinksInREADME(t *testing.T) {
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(readme(t), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		if _, err := os.Stat("../../" + m[1]); err != nil {
			t.Errorf("README.md links to %s: %v", m[1], err)
		}
	}
}
