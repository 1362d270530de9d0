package main

// parseFlags by itself: every flag in every form that getopt's users know.

import (
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// defaults are the options of an empty command line, changed by edit.
func defaults(edit func(*options)) *options {
	o := &options{
		listen:          "0.0.0.0",
		port:            11300,
		maxJobSize:      65535,
		fsync:           50,
		segmentSize:     10485760,
		compression:     "s2",
		logFormat:       "text",
		shards:          min(runtime.GOMAXPROCS(0), 1024),
		shutdownTimeout: 5 * time.Second,
	}
	if edit != nil {
		edit(o)
	}
	return o
}

func TestParseFlags(t *testing.T) {
	const (
		noCompact = "-c has no effect: sheafd always compacts its binlog by itself"
		noChoice  = "-n has no effect: sheafd always compacts its binlog by itself"
		clamped   = "the maximum job size was set to 1073741824, the largest that there is"
	)
	for _, tc := range []struct {
		edit  func(*options)
		forms string // command lines with this meaning, separated by |
	}{
		{nil, ""},
		{func(o *options) { o.listen, o.listenSet = "::1", true }, "-l ::1|-l::1|-l=::1|--listen ::1|--listen=::1"},
		{func(o *options) { o.gearman = "[::1]:4730" }, "--gearman [::1]:4730|--gearman=[::1]:4730"},
		{func(o *options) { o.listen, o.listenSet = "unix:/a/b", true }, "-l unix:/a/b|-lunix:/a/b|--listen=unix:/a/b"},
		{func(o *options) { o.port, o.listenSet = 11301, true }, "-p 11301|-p11301|-p=11301|--port 11301|--port=11301|-p 1 -p 11301|-p 011301"},
		{func(o *options) { o.listenSet = true }, "-p 11300|-l 0.0.0.0"},
		{func(o *options) { o.user = "nobody" }, "-u nobody|-unobody|--user nobody|--user=nobody"},
		{func(o *options) { o.maxJobSize = 5 }, "-z 5|-z5|--max-job-size 5|--max-job-size=5|-z 5B"},
		{func(o *options) { o.maxJobSize = 1 << 30 }, "-z 1073741824|-z 1G|-z 1024M|-z 1048576kib"},
		{func(o *options) { o.maxJobSize, o.warnings = 1<<30, []string{clamped} }, "-z 1073741825|-z2G|--max-job-size=4T"},
		{func(o *options) { o.verbosity = 1 }, "-V|--verbose"},
		{func(o *options) { o.verbosity = 2 }, "-VV|-V -V|--verbose --verbose|-V --verbose"},
		{func(o *options) { o.verbosity, o.port, o.listenSet = 2, 7, true }, "-VVp7|-VVp 7|-p7 -VV"},
		{func(o *options) { o.version = true }, "-v|--version"},
		{func(o *options) { o.help = true }, "-h|--help"},
		{func(o *options) { o.warnings = []string{noCompact} }, "-c|--compact|-cc"},
		{func(o *options) { o.warnings = []string{noChoice} }, "-n|--no-compact"},
		{func(o *options) { o.warnings = []string{noCompact, noChoice} }, "-c -n|-nc|-cn|--no-compact --compact"},
		{func(o *options) { o.shards = 1 }, "--shards 1|--shards=1"},
		{func(o *options) { o.shards = 1024 }, "--shards 1024"},
		{func(o *options) { o.maxConnections = 9 }, "--max-connections 9|--max-connections=9"},
		{func(o *options) { o.maxMemory = 3 << 30 }, "--max-memory 3G|--max-memory=3072MB"},
		{func(o *options) { o.idleTimeout = 90 * time.Second }, "--idle-timeout 90s|--idle-timeout=1m30s"},
		{func(o *options) { o.shutdownTimeout = 0 }, "--shutdown-timeout 0|--shutdown-timeout=0s"},
		{func(o *options) { o.logFormat = "json" }, "--log-format json|--log-format=json"},
		{func(o *options) { o.binlog = "/x" }, "-b /x|-b/x|--binlog /x|--binlog=/x"},
		{func(o *options) { o.fsync = 0 }, "-f 0|-f0|--fsync 0|--fsync=0"},
		{func(o *options) { o.noFsync = true }, "-F|--no-fsync|-f 50 -F|-Ff50 -F"},
		{func(o *options) { o.fsync = 20 }, "-F -f 20|-F --fsync=20|-Ff20|-f 10 -F -f 20"},
		{func(o *options) { o.segmentSize = 65536 }, "-s 65536|-s65536|--segment-size=64K"},
		{func(o *options) { o.compression = "zstd" }, "--binlog-compression zstd|--binlog-compression=zstd"},
		{func(o *options) { o.strict = true }, "--binlog-strict"},
	} {
		for form := range strings.SplitSeq(tc.forms, "|") {
			got, err := parseFlags(strings.Fields(form))
			if err != nil {
				t.Errorf("%s: %v", form, err)
			} else if want := defaults(tc.edit); !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", form, got, want)
			}
		}
	}
}

// Whoever asks for help or for the version gets it, whatever else is there.
func TestHelpComesBeforeMistakes(t *testing.T) {
	for _, args := range []string{"-h extra", "-hb /x", "-v -F", "--help --log-format=xml"} {
		if o, err := parseFlags(strings.Fields(args)); err != nil || !o.help && !o.version {
			t.Errorf("%s: %+v, %v", args, o, err)
		}
	}
}

func TestParseFlagsRefuses(t *testing.T) {
	for _, args := range []string{"-b", "-f x", "-s x", "-f", "-p", "-p -p", "-V=x", "-F=maybe", "--binlog=", "--binlog-compression lz4", "--por 1", "-", "-- -p", "-l unix:", "--listen=", "--user=", "--gearman=", "--gearman 4730", "-V binlog", "--idle-timeout 5"} {
		if _, err := parseFlags(strings.Fields(args)); !errors.As(err, new(usageError)) {
			t.Errorf("%s: %v, which is no usageError", args, err)
		}
	}
}

// Every flag is in TestParseFlags or in TestParseFlagsRefuses, and beanstalkd's
// are all there.
func TestUsageHasBeanstalkdsFlags(t *testing.T) {
	var letters []string
	for line := range strings.Lines(usage()) {
		if line = strings.TrimSpace(line); len(line) > 4 && line[0] == '-' && line[2] == ',' {
			letters = append(letters, line[1:2])
		}
	}
	slices.Sort(letters)
	if got, want := strings.Join(letters, ""), "FVbcfhlnpsuvz"; got != want {
		t.Errorf("short flags %s, want %s", got, want)
	}
}
