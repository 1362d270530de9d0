package main_test

// The command line: what is understood, in which forms, and what is refused.

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestMistakesOnTheCommandLine(t *testing.T) {
	for _, tc := range []struct{ args, says string }{
		{"-x", "-x"},
		{"--nonsense", "--nonsense"},
		{"extra", "unknown argument: extra"},
		{"-p 0 extra", "unknown argument: extra"},
		{"-z", "-z"},
		{"-z abc", `"abc" for "-z, --max-job-size"`},
		{"-z 10x", `"10x"`},
		{"-z 0x10", `"0x10"`},
		{"-z -5", `"-5"`},
		{"-z 5I", `"5I"`},
		{"-z 1.5K", `"1.5K"`},
		{"--max-job-size=", `""`},
		{"-z 9223372036854775808", `"9223372036854775808"`},
		{"-z 8388608T", `"8388608T"`},
		{"-p abc", `"abc" for "-p, --port" flag: must be a number from 0 to 65535`},
		{"-p 65536", "from 0 to 65535"},
		{"-p -1", "from 0 to 65535"},
		{"-p +1", "from 0 to 65535"},
		{"-p 0x10", "from 0 to 65535"},
		{"--shards 0", "from 1 to 1024"},
		{"--shards 1025", "from 1 to 1024"},
		{"--shards two", "from 1 to 1024"},
		{"--max-connections -1", "--max-connections"},
		{"--max-memory lots", "--max-memory"},
		{"-p 1 binlog dump /x", "binlog dump takes no flags and must come first"},
		{"-l unix:", "the path is missing"},
		{"--listen=", "listen address: it is missing"},
		{"--user=", "user: it has no name"},
		{"--binlog=", "binlog directory: it has no name"},
		{"--gearman=", "Gearman address \"\": it is missing"},
		{"--gearman unix:", "it is missing"},
		{"--gearman 4730", "a port alone; give :4730"},
		{"--gearman 127.0.0.1:99999", "port \"99999\" is no number from 0 to 65535"},
		{"--idle-timeout 90", `"90" for "--idle-timeout" flag: missing unit: write 90s for seconds`},
		{"--idle-timeout soon", "a number and a unit, such as 5s"},
		{"--idle-timeout -1s", "negative"},
		{"--idle-timeout 9999999h", `"9999999h" for "--idle-timeout" flag: out of range: must be 2562047h or less`},
		{"--idle-timeout 99999999999", "a number and a unit"},
		{"--version=x", `--version takes no argument; leave out "=x"`},
		{"-F=no", `--no-fsync takes no argument; leave out "=no"`},
		{"-V=x", `--verbose takes no argument; leave out "=x"`},
		{"--shutdown-timeout 5", `"5" for "--shutdown-timeout" flag: missing unit: write 5s for seconds`},
		{"--shutdown-timeout -1s", "negative"},
		{"--log-format xml", "text or json"},
		{"-f abc", `"-f, --fsync"`},
		{"-s abc", `"-s, --segment-size"`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			fails(t, command(t, strings.Fields(tc.args)...), 2, tc.says, "see sheafd --help")
		})
	}
}

func TestVersionAndHelp(t *testing.T) {
	for _, flag := range []string{"-v", "--version", "-Vv"} {
		if r := finish(t, command(t, flag)); r != (result{0, "sheafd " + testVersion + "\n", ""}) {
			t.Errorf("%s: %+v", flag, r)
		}
	}
	for _, flag := range []string{"-h", "--help", "-hp0"} {
		r := finish(t, command(t, flag))
		if r.code != 0 || r.stderr != "" || !strings.HasPrefix(r.stdout, "Usage: sheafd [OPTIONS]\n") {
			t.Errorf("%s: %+v", flag, r)
		}
	}
	c := start(t).dial()
	if got, want := c.stats("version"), `"`+testVersion+`"`; got != want {
		t.Errorf("stats: version: %s, want %s", got, want)
	}
}

// Without the Makefile's -ldflags there is a version too.
func TestVersionOfAPlainBuild(t *testing.T) {
	r := finish(t, exec.Command(plainBuild(t), "-v"))
	version, ok := strings.CutPrefix(r.stdout, "sheafd ")
	if r.code != 0 || !ok || len(strings.TrimSpace(version)) == 0 {
		t.Errorf("%+v", r)
	}
}

// getopt's habits: values glued to their letters, letters glued together.
func TestWaysToWriteFlags(t *testing.T) {
	for _, tc := range []struct{ args, key, want string }{
		{"-p0 -l127.0.0.1 -z100", "max-job-size", "100"},
		{"-p 0 -l 127.0.0.1 -z 100", "max-job-size", "100"},
		{"-VVp0 -l 127.0.0.1 -Vz100", "max-job-size", "100"},
		{"--port=0 --listen=127.0.0.1 --max-job-size=100", "max-job-size", "100"},
		{"--port 0 --listen 127.0.0.1 --max-job-size 100", "max-job-size", "100"},
		{"-p 000 -l 127.0.0.1 -z 0100", "max-job-size", "100"},
		{"-p 0 -l 127.0.0.1 -z 1 -z 2", "max-job-size", "2"},
		{"-p 0 -l localhost", "max-job-size", "65535"},
		{"-p 0 -l localhost -z 0", "max-job-size", "0"},
		{"-p 0 -l localhost -z 512B", "max-job-size", "512"},
		{"-p 0 -l localhost -z 1K", "max-job-size", "1024"},
		{"-p 0 -l localhost -z 1kb", "max-job-size", "1024"},
		{"-p 0 -l localhost -z 2Mi", "max-job-size", "2097152"},
		{"-p 0 -l localhost -z 3MiB", "max-job-size", "3145728"},
		{"-p 0 -l localhost -z 1g", "max-job-size", "1073741824"},
		{"-p 0 -l localhost --shards 1024", "draining", "false"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			s := run(t, command(t, strings.Fields(tc.args)...))
			if got := s.dial().stats(tc.key); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.key, got, tc.want)
			}
			if n := strings.Count(s.log.String(), "level=WARN"); n > 0 {
				t.Errorf("%d warnings:\n%s", n, s.log.String())
			}
			s.stop()
		})
	}
}

// The only server of the tests that is not on loopback alone.
func TestListensOnAllAddresses(t *testing.T) {
	s := run(t, command(t, "-p", "0"))
	addr := s.addrs[0].(*net.TCPAddr)
	if !addr.IP.IsUnspecified() {
		t.Errorf("without -l it listens on %v", addr)
	}
	dial(t, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: addr.Port}).says("use a\n", "USING a\n")
}

func TestMaxJobSize(t *testing.T) {
	t.Parallel()
	c := start(t, "-z", "5").dial()
	c.says("put 0 0 60 5\nhello\n", "INSERTED 1\n")
	c.says("put 0 0 60 6\nhello!\n", "JOB_TOO_BIG\n")
	c.says("use a\n", "USING a\n")
}

// As the reference: too much is not a mistake, but cut down with a warning.
func TestMaxJobSizeHasALimit(t *testing.T) {
	for _, size := range []string{"1073741825", "99999999999", "2G", "8388607T"} {
		s := start(t, "-z", size)
		if got := s.dial().stats("max-job-size"); got != "1073741824" {
			t.Errorf("-z %s: max-job-size %s", size, got)
		}
		s.waitLog(`level=WARN msg="the maximum job size was set to 1073741824`)
	}
}

func TestCompactionFlagsAreAcceptedWithAWarning(t *testing.T) {
	for _, flag := range []string{"-c", "-n", "--compact", "--no-compact"} {
		s := start(t, flag)
		letter := strings.TrimPrefix(strings.TrimPrefix(flag, "--"), "-")[:1]
		s.waitLog(`level=WARN msg="-` + letter + ` has no effect`)
		s.dial().says("use a\n", "USING a\n")
	}
	s := start(t, "-cn")
	s.waitLog(`msg="-c has no effect`)
	s.waitLog(`msg="-n has no effect`)
}

// An address is a string in the log, also as JSON.
func TestAddressesInTheLog(t *testing.T) {
	for format, key := range map[string]string{"text": "remote=", "json": `"remote":"`} {
		s := start(t, "-V", "--log-format", format)
		c := s.dial()
		c.says("use a\n", "USING a\n")
		local := c.LocalAddr().String()
		c.Conn.(*net.TCPConn).SetLinger(0) // a reset is a reason to tell
		c.Close()
		s.waitLog(key + local)
	}
}

func TestShards(t *testing.T) {
	for _, n := range []int{1, 2, 7, 1024} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			s := start(t, "--shards", strconv.Itoa(n))
			s.waitLog(" shards=" + strconv.Itoa(n) + " ")
			c := s.dial()
			for i, tube := range []string{"a", "b", "c", "d"} {
				c.says("use "+tube+"\n", "USING "+tube+"\n")
				c.says("put 0 0 60 1\nx\n", "INSERTED "+strconv.Itoa(i+1)+"\n")
				c.says("watch "+tube+"\n", "WATCHING "+strconv.Itoa(i+2)+"\n")
			}
			for i := range 4 {
				c.says("reserve\n", "RESERVED "+strconv.Itoa(i+1)+" 1\nx\n")
			}
		})
	}
}

func TestDefaultShardsAreThoseThatGoUses(t *testing.T) {
	cmd := command(t, "-l", "127.0.0.1", "-p", "0")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=3")
	run(t, cmd).waitLog(" shards=3 procs=3 ")
	cmd = command(t, "-l", "127.0.0.1", "-p", "0")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1025") // there are 1024 at most
	run(t, cmd).waitLog(" shards=1024 procs=1025 ")
}
