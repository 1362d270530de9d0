package main

import (
	"testing"

	"github.com/sheafq/sheaf/perf"
)

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"localhost": "localhost:11300", "localhost:1": "localhost:1", "127.0.0.1": "127.0.0.1:11300", ":65535": ":65535",
		"::1": "[::1]:11300", "[::1]": "[::1]:11300", "[::1]:7": "[::1]:7", "unix:/a/b": "unix:/a/b",
	} {
		if got, err := address(text, "11300"); got != want || err != nil {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"unix:", "x:", "x:0", "x:65536", "x:http", "a:b:c", "[::1]:", "::1:70000000"} {
		if got, err := address(text, "11300"); err == nil {
			t.Errorf("%s is taken as %s", text, got)
		}
	}
}

func TestWordsForFaults(t *testing.T) {
	for n, want := range map[int64]string{1: "a breaks its promises in mixed: 1 fault", 2: "a breaks its promises in mixed: 2 faults"} {
		if got := broken(perf.Verdict{Server: "a", Scenario: "mixed", Faults: n}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
