package main_test

// sheafd binlog dump: a directory's records as text, with the server that
// writes them running, gone, or unable to.

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dumpTimes is what differs in a dump from run to run: times, and what is made
// ready for later.
var dumpTimes = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|zeros bytes=\d+|segment\S+ 0 unbegun: .*\n`)

// dumped is what "sheafd binlog dump" prints of dir, with T for each time.
func dumped(t *testing.T, dir string, code int) string {
	t.Helper()
	r := finish(t, command(t, "binlog", "dump", dir))
	said := ""
	if code == 3 {
		said = "sheafd: binlog " + dir + ": damage was found in 1 place: see the line with \"damage:\"\n"
	}
	if r.code != code || r.stderr != said {
		t.Fatalf("exit status %d, want %d; stderr %q", r.code, code, r.stderr)
	}
	return dumpTimes.ReplaceAllStringFunc(r.stdout, func(s string) string {
		switch s[0] {
		case 'z':
			return "zeros bytes=N"
		case 's':
			return ""
		}
		return "T"
	})
}

func TestBinlogDump(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	s := start(t, "--shards", "1", "-b", dir)
	c := s.dial()
	c.says("put 0 0 60 5\nhello\n", "INSERTED 1\n")
	c.says("use a\n", "USING a\n")
	c.says("put 7 100 60 100\n"+strings.Repeat("x", 100)+"\n", "INSERTED 2\n")
	c.says("reserve\n", "RESERVED 1 5\nhello\n")
	c.says("bury 1 9\n", "BURIED\n")
	c.says("delete 2\n", "DELETED\n")
	const want = `manifest 0 epoch=1 shards=1
segment.1.0.00000001 0 segment version=2 shard=0 of=1 epoch=1 previous=0 oldest=1 first-block=1 last-id=0 created=T
segment.1.0.00000001 88 block seq=1 records=1 stored=28 plain=27 compression=none
segment.1.0.00000001 88 put id=1 tube=default state=ready pri=0 delay=0 ttr=60 created=T body="hello"
segment.1.0.00000001 148 block seq=2 records=1 stored=125 plain=124 compression=none
segment.1.0.00000001 148 put id=2 tube=a state=delayed until=T pri=7 delay=100 ttr=60 created=T body="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…(100 bytes)
segment.1.0.00000001 305 block seq=3 records=1 stored=10 plain=9 compression=none
segment.1.0.00000001 305 change id=1 state=ready pri=0 delay=0 reserves=1 timeouts=0 releases=0 buries=0 kicks=0
segment.1.0.00000001 347 block seq=4 records=1 stored=18 plain=17 compression=none
segment.1.0.00000001 347 change id=1 state=buried place=1 pri=9 delay=0 reserves=1 timeouts=0 releases=0 buries=1 kicks=0
segment.1.0.00000001 397 block seq=5 records=1 stored=3 plain=2 compression=none
segment.1.0.00000001 397 delete id=2
`
	running := want + "segment.1.0.00000001 432 zeros bytes=N\n"
	if got := dumped(t, dir, 0); got != running {
		t.Errorf("beside a running server:\n%swant:\n%s", got, running)
	}
	s.stop()
	if got := dumped(t, dir, 0); got != want {
		t.Errorf("after its end:\n%swant:\n%s", got, want)
	}

	path := filepath.Join(dir, "segment.1.0.00000001")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[308] ^= 1
	if err := os.WriteFile(path, b, 0o400); err != nil {
		t.Fatal(err)
	}
	damaged := strings.Split(want, "\n")
	damaged[6] = "segment.1.0.00000001 305 damage: 42 bytes are damaged: the jobs and changes recorded there are lost"
	damaged = append(damaged[:7], damaged[8:]...)
	if got := dumped(t, dir, 3); got != strings.Join(damaged, "\n") {
		t.Errorf("with a flipped bit:\n%swant:\n%s", got, strings.Join(damaged, "\n"))
	}
	if err := os.Chmod(dir, 0o500); err != nil { // root reads and writes all the same
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700) // to be removed
	dumped(t, dir, 3)
}

func TestBinlogDumpMistakes(t *testing.T) {
	for _, args := range []string{"", "dump", "dump a b", "dump -x", "undump a", "a dump", "dump -b a"} {
		fails(t, command(t, append([]string{"binlog"}, strings.Fields(args)...)...), 2, "must be dump and a directory", "see sheafd --help")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, command(t, "binlog", "dump", file+"s"), 1, "binlog "+file+"s", "no such file")
	fails(t, command(t, "binlog", "dump", file), 1, "binlog "+file, "not a directory")
	for _, args := range []string{"-h", "--help", "dump -h", "dump --help", "dump a -h"} {
		r := finish(t, command(t, append([]string{"binlog"}, strings.Fields(args)...)...))
		if r.code != 0 || r.stderr != "" || !strings.HasPrefix(r.stdout, "Usage: sheafd binlog dump DIR\n") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if r := finish(t, command(t, "--help")); !strings.Contains(r.stdout, "sheafd binlog dump DIR") {
		t.Errorf("--help does not mention it:\n%s", r.stdout)
	}
}
