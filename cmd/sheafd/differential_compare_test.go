package main_test

// What is the same answer: normalising replies, and the tables of everything
// that is not compared, each with its reason.
//
// Avoided. Here the reference is not deterministic, or is knowingly not
// followed; the generator and the clock stay clear of each.
//
//   - Two clients that wait on one tube: sheaf serves first come first served,
//     the reference in a rotating order. A reserve that may wait is only sent
//     where the watch list shares no tube with a waiting client's.
//   - reserve-with-timeout with anything but digits, or from 2^31: 1.12 takes
//     what strtol takes, sheaf is strict as 1.13 is.
//   - Closing both directions with commands unanswered: how many of them are
//     served depends on when the server notices. A half-close is compared.
//   - End of stream or connection reset: a Unix socket closed with unread bytes
//     resets its peer, and what was unread depends on buffer sizes.
//   - A client that waits and has sent more, and another whose one write holds
//     the command that ends the wait and more: the two then act at once. Such a
//     client is only released by a command alone, and is the only one.
//   - A client that leaves with jobs of several tubes, while another waits on
//     several of them: the reference puts the jobs back one by one in the order in
//     which they were reserved, and the first that fits is given away at once;
//     over several shards there is no such order. Nobody waits when such a
//     client leaves.
//   - Two deadlines close to each other while a client waits, if both may end the
//     wait: which comes first decides what the client gets. It is hung up before.
//   - A TTR that runs out, until the holder's next command: 1.12 overlooks a
//     TTR when it looks in the very microsecond in which it ends, which it
//     often does, since it spins through the last millisecond; it looks again
//     after the client's next command. The holder sends one after each.
//   - reserve-with-timeout of a client that holds a job about to run out: when
//     DEADLINE_SOON ends the wait, 1.12 keeps the timeout, is woken by it for
//     nothing, and then does not look at that client's TTRs until its next
//     command.
//   - cmd-stats in an answer to stats that came while the test itself was
//     asking for stats (see diffRun): the two are not to be told apart.
//   - Jobs of the greatest size and of one byte less, where there is a binlog:
//     the reference takes them, but when it reads its files it holds the size
//     with the CRLF against -z, and skips the rest of the file.
//   - The order of tubes in list-tubes, where there is a binlog: after a
//     restart the reference's tubes are in the order in which its files, which
//     it rewrites, name them.
//   - Seconds in YAML near a second's boundary, and commands near a deadline:
//     two servers do not read their clocks at one instant. See the clock.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// diffVolatile names the YAML values that cannot be the same on two servers.
// Their form is checked, their value is not. Nothing else is exempt.
var diffVolatile = map[string]map[string]struct {
	form *regexp.Regexp
	why  string
}{
	"stats": {
		"pid":          {regexp.MustCompile(`^[0-9]+$`), "two processes"},
		"version":      {regexp.MustCompile(`^"[^"]+"$`), "sheaf's own"},
		"rusage-utime": {regexp.MustCompile(`^[0-9]+\.[0-9]{6}$`), "processor time used"},
		"rusage-stime": {regexp.MustCompile(`^[0-9]+\.[0-9]{6}$`), "processor time used"},
		"uptime":       {regexp.MustCompile(`^[0-9]+$`), "started at different instants"},
		"id":           {regexp.MustCompile(`^[0-9a-f]{16}$`), "random, of the process"},
	},
}

// diffVolatileBinlog is what more cannot be the same where there is a binlog:
// what the two write, and where, is their own.
var diffVolatileBinlog = map[string][]string{
	"stats":     {"binlog-oldest-index", "binlog-current-index", "binlog-records-migrated", "binlog-records-written", "binlog-max-size"},
	"stats-job": {"file"},
}

var diffCount = regexp.MustCompile(`^[0-9]+$`)

// diffQuoted names the YAML values that 1.13 quotes and 1.12 does not (it does
// quote version). The reference's answer is brought to 1.13's form.
var diffQuoted = map[string][]string{
	"stats":      {"hostname", "os", "platform"},
	"stats-tube": {"name"},
	"stats-job":  {"tube"},
}

// diffNormal returns reply in the form in which two servers' replies must be
// the same, given the verb that it answers and who gave it.
func diffNormal(verb, reply string, p diffProgram) (string, error) {
	if !diffYAML(verb) || !strings.HasPrefix(reply, "OK ") {
		return reply, nil
	}
	head, body, _ := strings.Cut(reply, "\r\n")
	body, ok := strings.CutSuffix(body, "\r\n")
	if !ok {
		return "", fmt.Errorf("no CRLF after the %s that was announced: %q", head, reply)
	}
	if !strings.HasPrefix(body, "---\n") || !strings.HasSuffix(body, "\n") {
		return "", fmt.Errorf("YAML must begin with --- and end with a newline: %q", reply)
	}
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	for i, line := range lines {
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		for _, q := range diffQuoted[verb] {
			if q == key && !p.asIs && !strings.HasPrefix(value, `"`) {
				value = `"` + value + `"`
			}
		}
		if v, ok := diffVolatile[verb][key]; ok {
			if !v.form.MatchString(value) {
				return "", fmt.Errorf("%s is not %s in %q", key, v.form, reply)
			}
			value = "*"
		}
		if p.binlog != nil && slices.Contains(diffVolatileBinlog[verb], key) {
			if !diffCount.MatchString(value) {
				return "", fmt.Errorf("%s is no number in %q", key, reply)
			}
			value = "*"
		}
		lines[i] = key + ": " + value
	}
	if p.binlog != nil && verb == "list-tubes" {
		slices.Sort(lines[1:])
	}
	body = strings.Join(lines, "\n") + "\n"
	return fmt.Sprintf("OK %d\r\n%s\r\n", len(body), body), nil
}

// diffYAML says whether verb is answered in YAML.
func diffYAML(verb string) bool {
	switch verb {
	case "stats", "stats-tube", "stats-job", "list-tubes", "list-tubes-watched":
		return true
	}
	return false
}

// diffReplies compares two replies to one request and shows the lines that
// differ; the empty string is none.
func diffReplies(verb string, progs [2]diffProgram, replies [2]string) string {
	var normal [2]string
	for i, r := range replies {
		var err error
		if normal[i], err = diffNormal(verb, r, progs[i]); err != nil {
			return fmt.Sprintf("%s: %v", progs[i].name, err)
		}
	}
	if normal[0] == normal[1] {
		return ""
	}
	a, b := strings.SplitAfter(normal[0], "\n"), strings.SplitAfter(normal[1], "\n")
	if strings.HasPrefix(normal[0], "OK ") && strings.HasPrefix(normal[1], "OK ") {
		a, b = a[1:], b[1:] // the length says less than the line that made it so
	}
	var diff strings.Builder
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			fmt.Fprintf(&diff, "%-20s %q\n%-20s %q\n", progs[0].name, x, progs[1].name, y)
		}
	}
	return strings.TrimSuffix(diff.String(), "\n")
}
