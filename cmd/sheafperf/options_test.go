package main

import "testing"

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
