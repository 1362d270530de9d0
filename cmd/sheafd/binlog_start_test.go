package main_test

// Directories that -b makes, shares with nobody, or refuses with one clear
// line and leaves alone.

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onLoopback are the arguments of a sheafd that is to refuse a directory.
func onLoopback(args ...string) []string {
	return append([]string{"-l", "127.0.0.1", "-p", "0"}, args...)
}

// refuses checks that sheafd does not start on a directory, says why in one
// line, and leaves it as it is.
func refuses(t *testing.T, dir string, cmd *exec.Cmd, parts ...string) {
	t.Helper()
	untouched(t, dir, func() {
		t.Helper()
		if r := finish(t, cmd); r.code != 1 || r.stdout != "" {
			t.Errorf("%q: exit status %d, stdout %q, want 1 and nothing", cmd.Args[1:], r.code, r.stdout)
		} else {
			line, rest, _ := strings.Cut(r.stderr, "\n")
			if rest != "" || !strings.HasPrefix(line, "sheafd: binlog "+dir) {
				t.Errorf("%q: stderr is not one line on the binlog:\n%s", cmd.Args[1:], r.stderr)
			}
			for _, part := range parts {
				if !strings.Contains(line, part) {
					t.Errorf("%q: stderr %q says nothing of %q", cmd.Args[1:], line, part)
				}
			}
		}
	})
}

// settled waits until a server that has nothing to do leaves its directory as
// it is: it syncs, and makes the next segments ready, in its own time.
func settled(t *testing.T, dir string) {
	t.Helper()
	var last string
	var since time.Time
	until(t, "the directory stays as it is", func() bool {
		var now strings.Builder
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if info, err := e.Info(); err == nil { // else it has just gone
				fmt.Fprintln(&now, e.Name(), info.Size(), info.ModTime())
			}
		}
		if now.String() != last {
			last, since = now.String(), time.Now()
		}
		return time.Since(since) > 200*time.Millisecond // the time of some syncs
	})
}

// filled returns a directory that a server has written: three jobs in it.
func filled(t *testing.T, dir string, args ...string) (k known) {
	t.Helper()
	s := withBinlog(t, dir, args...)
	k = known{}
	serial := uint64(0)
	k.putAll(s.talk(), "tube", 100, 3, &serial)
	s.stop()
	return k
}

func TestBinlogMakesItsDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, dir := range []string{"a", "e/", "./e/../g", "a/below"} {
		dir = top + "/" + dir
		jobs := filled(t, dir)
		info, err := os.Stat(dir)
		if err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
		jobs.check(withBinlog(t, dir).talk())
	}
	// A relative name, and one that is a symbolic link.
	for _, dir := range []string{"rel", "./rel/ative"} {
		cmd := command(t, onLoopback("-b", dir)...)
		cmd.Dir = top
		run(t, cmd).stop()
		if _, err := os.Stat(filepath.Join(top, dir, "manifest")); err != nil {
			t.Error(err)
		}
	}
	if err := os.Mkdir(filepath.Join(top, "target"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	filled(t, filepath.Join(top, "link"))
	if _, err := os.Stat(filepath.Join(top, "target/manifest")); err != nil {
		t.Error(err)
	}
}

// A mistake in the path makes no directories: the jobs would be missed.
func TestBinlogInAMissingDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "vra", "lib", "sheafd")
	untouched(t, top, func() {
		fails(t, command(t, onLoopback("-b", dir)...), 1, "sheafd: binlog "+dir+": ", filepath.Dir(dir)+", is not there", "create that one first, or correct the path")
		cmd := command(t, onLoopback("-b", "vra/sheafd")...)
		cmd.Dir = top
		fails(t, cmd, 1, "sheafd: binlog vra/sheafd: ", "vra, is not there")
	})
}

func TestBinlogDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := withBinlog(t, dir)
	c := s.talk()
	jobs, serial := known{}, uint64(0)
	jobs.putAll(c, "tube", 100, 10, &serial)
	settled(t, dir)
	for range 3 {
		refuses(t, dir, command(t, onLoopback("-b", dir)...), "in use by another server: stop that one first, or use another directory")
	}
	jobs.putAll(c, "tube", 100, 10, &serial)
	// That file is not all that keeps others out.
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, command(t, onLoopback("-b", dir)...), "its directory is locked", "end that one first")
	jobs.putAll(c, "tube", 100, 10, &serial)
	s.kill()
	// The lock goes with the process.
	s = withBinlog(t, dir)
	jobs.check(s.talk())
	s.stop()
}

// sheafd's lock and beanstalkd's stand against each other.
func TestBinlogAndBeanstalkdLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := runBeanstalkd(t, "-b", dir, "-s", "4096")
	b.talk().says("INSERTED 1", "put 0 0 60 1\r\nx")
	refuses(t, dir, command(t, onLoopback("-b", dir)...), "in use by another server")
	b.talk().says("INSERTED 2", "put 0 0 60 1\r\nx")
	b.end(syscall.SIGKILL)

	dir = t.TempDir()
	jobs := filled(t, dir)
	s := withBinlog(t, dir)
	settled(t, dir)
	untouched(t, dir, func() {
		cmd := beanstalkdCommand(t, "-b", dir)
		cmd.Stderr = new(output)
		prepare(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		cmd.Wait()
		if !timer.Stop() || cmd.ProcessState.ExitCode() == 0 {
			t.Errorf("beanstalkd served the directory of a running sheafd: %v\n%s", cmd.ProcessState, cmd.Stderr)
		}
	})
	jobs.check(s.talk())
}

func TestBinlogThatIsNoDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, []byte("dear diary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuse := func(dir string) {
		t.Helper()
		untouched(t, top, func() {
			fails(t, command(t, onLoopback("-b", dir)...), 1, "sheafd: binlog "+dir, "not a directory: correct the path, or move the file that is in the way")
		})
	}
	refuse(file)
	refuse(filepath.Join(file, "below"))
	if err := os.Symlink("file", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	refuse(filepath.Join(top, "link"))
}

func TestBinlogReadOnly(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 4)
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, "size=4m"); err != nil {
			t.Fatal(err)
		}
	}
	jobs := filled(t, filepath.Join(dir, "log"))
	remount(unix.MS_RDONLY)
	refuses(t, filepath.Join(dir, "log"), command(t, onLoopback("-b", filepath.Join(dir, "log"))...), "read-only file system")
	untouched(t, dir, func() {
		fails(t, command(t, onLoopback("-b", filepath.Join(dir, "new"))...), 1, filepath.Join(dir, "new"), "read-only file system")
	})
	remount(0)
	jobs.check(withBinlog(t, filepath.Join(dir, "log")).talk())
}

// A directory, or files in it, of somebody else.
func TestBinlogOfAnotherOwner(t *testing.T) {
	t.Parallel()
	needRoot(t)
	top := openDir(t)
	dir := filepath.Join(top, "log")
	jobs := filled(t, dir)
	nobody := func() *exec.Cmd { return command(t, onLoopback("-b", dir, "-u", "nobody")...) }
	for _, mode := range []os.FileMode{0o700, 0o755, 0o711} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		const todo = "permission denied: the user that sheafd runs as, with id 65534, must be able to read and write the directory and all that is in it"
		refuses(t, dir, nobody(), todo)
		refuses(t, dir, asNobody(command(t, onLoopback("-b", dir)...)), todo)
	}
	untouched(t, top, func() {
		fails(t, command(t, onLoopback("-b", top+"/new", "-u", "nobody")...), 1, top+"/new: permission denied: make it, and give it to the user that sheafd runs as, with id 65534 (mkdir, chown)")
	})
	// The directory is everybody's, the files are root's: first all, then but
	// one.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, nobody(), "permission denied")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range entries {
		for _, e := range entries {
			uid := 65534
			if e == odd {
				uid = 0
			}
			if err := os.Chown(filepath.Join(dir, e.Name()), uid, 65534); err != nil {
				t.Fatal(err)
			}
		}
		refuses(t, dir, nobody(), "permission denied")
	}
	for _, e := range entries {
		if err := os.Chown(filepath.Join(dir, e.Name()), 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	s := run(t, nobody())
	jobs.check(s.talk())
	s.stop()
}

// own gives a directory and what is in it to a user, and its group.
func own(t *testing.T, dir string, uid int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, uid, uid))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What root wrote into another user's directory that user's server could not
// read.
func TestBinlogOfAnotherOwnerAsRoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	top := openDir(t)
	dir := filepath.Join(top, "log")
	refused := func(parts ...string) {
		t.Helper()
		for _, args := range [][]string{{"-b", dir}, {"-b", dir, "-u", "root"}, {"-b", dir + "/"}, {"-b", dir, "--binlog-strict", "--shards", "5"}} {
			refuses(t, dir, command(t, onLoopback(args...)...), append(parts, "and sheafd runs as user root", "(chown -R)")...)
		}
	}
	nobody := func() *exec.Cmd { return command(t, onLoopback("-b", dir, "-u", "nobody")...) }
	// One with nothing in it does not even get a lock.
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	own(t, dir, 65534)
	refused("it belongs to user nobody", "start sheafd with -u nobody, or ")
	s := run(t, nobody())
	jobs, serial := known{}, uint64(0)
	jobs.putAll(s.talk(), "tube", 100, 3, &serial)
	s.stop()
	refused("it belongs to user nobody", "start sheafd with -u nobody, or ")
	if err := os.Symlink("log", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	refuses(t, top+"/link", command(t, onLoopback("-b", top+"/link")...), "it belongs to user nobody")
	untouched(t, dir, func() {
		if dump := dumped(t, dir, 0); strings.Count(dump, " put ") != len(jobs) {
			t.Errorf("root's dump of the directory:\n%s", dump)
		}
	})
	s = run(t, nobody())
	jobs.check(s.talk())
	s.stop()
	// There need not be a name for it.
	own(t, dir, 54321)
	refused("it belongs to the user with id 54321", "start sheafd with -u 54321, or ")
	s = run(t, command(t, onLoopback("-b", dir, "-u", "54321")...))
	jobs.check(s.talk())
	s.stop()
	if info, err := os.Stat(filepath.Join(dir, "manifest")); err != nil || info.Sys().(*syscall.Stat_t).Uid != 54321 || info.Sys().(*syscall.Stat_t).Gid != 54321 {
		t.Errorf("the manifest of the user with id 54321: %+v, %v", info, err)
	}
	own(t, dir, 0)
	jobs.check(withBinlog(t, dir).talk())
}

// Not only the directory may be another user's, but its files alone, or it alone.
func TestBinlogWithFilesOfAnotherOwnerAsRoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := filepath.Join(openDir(t), "log")
	groupVolume(t, dir)
	nobody := func() *exec.Cmd { return command(t, onLoopback("-b", dir, "-u", "nobody")...) }
	s := run(t, nobody())
	jobs, serial := known{}, uint64(0)
	jobs.putAll(s.talk(), "tube", 100, 3, &serial)
	s.stop()
	root := func(shards string) *exec.Cmd { return command(t, onLoopback("-b", dir, "--shards", shards)...) }
	for _, shards := range []string{"1", "3"} {
		refuses(t, dir, root(shards), "/lock belongs to user nobody", "could not use: start sheafd with -u nobody, or ", "(chown -R)")
	}
	s = run(t, nobody())
	jobs.check(s.talk())
	s.stop()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 3 {
		t.Fatal(entries, err)
	}
	const first = "could not use: give all that is in the directory to that user (chown -R nobody) and start sheafd with -u nobody, or "
	for _, odd := range entries { // all but one are root's
		own(t, dir, 0)
		path := filepath.Join(dir, odd.Name())
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		refuses(t, dir, root("2"), path+" belongs to user nobody", first)
	}
	own(t, dir, 0)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, root("2"), "it belongs to user nobody", first)
	own(t, dir, 0)
	jobs.check(run(t, root("2")).talk())
}

// openDir is shortDir, where others than root come to what is in it.
func openDir(t *testing.T) string {
	t.Helper()
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// groupVolume makes a directory that belongs to root, and to nobody's group.
func groupVolume(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 0, 65534), os.Chmod(dir, 0o775|fs.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
}

// A volume that a group shares, as Kubernetes has it, need not belong to the user.
func TestBinlogOfTheGroup(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := filepath.Join(openDir(t), "log")
	groupVolume(t, dir)
	jobs, serial := known{}, uint64(0)
	for _, cmd := range []*exec.Cmd{
		command(t, onLoopback("-b", dir, "-u", "nobody")...),
		asNobody(command(t, onLoopback("-b", dir)...)),
		asNobody(command(t, onLoopback("-b", dir, "--shards", "3")...)),
	} {
		s := run(t, cmd)
		jobs.check(s.talk())
		jobs.putAll(s.talk(), "tube", 100, 3, &serial)
		s.stop()
	}
}

// Root of a container that has not root's rights is a user as others are: a volume
// may belong to one that it knows nothing of, and be its group's.
func TestBinlogOfAnotherOwnerAsRootOfAContainer(t *testing.T) {
	t.Parallel()
	needRoot(t)
	top := openDir(t)
	for i, ids := range [][]syscall.SysProcIDMap{
		{{ContainerID: 0, HostID: 65534, Size: 1}},
		// The number that stands for all it does not know is somebody's.
		{{ContainerID: 0, HostID: 65534, Size: 1}, {ContainerID: 1, HostID: 100000, Size: 65536}},
	} {
		dir := filepath.Join(top, fmt.Sprint(i))
		groupVolume(t, dir)
		contained := func() *exec.Cmd {
			cmd := command(t, onLoopback("-b", dir)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
				Credential: &syscall.Credential{NoSetGroups: true}}
			cmd.Dir = "/"
			return cmd
		}
		if probe := contained(); i == 0 {
			probe.Path, probe.Args = "/bin/true", []string{"true"}
			if err := probe.Run(); err != nil {
				t.Skip("there are no user namespaces: ", err)
			}
		}
		jobs, serial := known{}, uint64(0)
		for range 2 {
			s := run(t, contained())
			jobs.check(s.talk())
			jobs.putAll(s.talk(), "tube", 100, 3, &serial)
			s.stop()
		}
	}
}

// Files of another user in a directory of ours are found before any is changed,
// also those that can be read, and before there is a lock.
func TestBinlogWithFilesOfAnotherOwner(t *testing.T) {
	t.Parallel()
	needRoot(t)
	top := openDir(t)
	dir := filepath.Join(top, "log")
	jobs := filled(t, dir, "--shards", "2")
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	own(t, dir, 65534)
	segments := segmentsOf(t, dir)
	odd := segments[len(segments)-1]
	if err := os.Chown(odd, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o600, 0o644} {
		if err := os.Chmod(odd, mode); err != nil {
			t.Fatal(err)
		}
		for _, shards := range []string{"2", "3"} {
			refuses(t, dir, command(t, onLoopback("-b", dir, "-u", "nobody", "--shards", shards)...), odd+": permission denied: the user that sheafd runs as, with id 65534, must")
		}
	}
	// The folders are written to last, when all jobs were written again.
	own(t, dir, 65534)
	for _, name := range []string{"damaged", "beanstalkd"} {
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, shards := range []string{"2", "3"} {
			refuses(t, dir, command(t, onLoopback("-b", dir, "-u", "nobody", "--shards", shards)...), folder+": permission denied: the user that sheafd runs as, with id 65534, must")
		}
		own(t, folder, 65534)
	}
	jobs.check(run(t, command(t, onLoopback("-b", dir, "-u", "nobody", "--shards", "3")...)).talk())
}

// sumOf is the checksum of the format.
func sumOf(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// rewrite changes a file.
func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A format from the future is not for this version to read, let alone to
// repair.
func TestBinlogFromTheFuture(t *testing.T) {
	t.Parallel()
	future := func(b []byte) []byte {
		text := strings.Replace(string(b), "sheaf binlog 2\n", "sheaf binlog 4\n", 1)
		if text == string(b) {
			t.Errorf("the manifest does not say its version:\n%s", b)
		}
		return []byte(text)
	}
	summed := func(b []byte) []byte {
		text, _, _ := strings.Cut(string(b), "sum ")
		return fmt.Appendf(nil, "%ssum %08x\n", text, sumOf([]byte(text)))
	}
	header := func(b []byte) []byte {
		b[8] = 3
		sum := crc32.Update(sumOf(b[8:12]), crc32.MakeTable(crc32.Castagnoli), b[16:88])
		b[12], b[13], b[14], b[15] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		return b
	}
	for _, tc := range []struct {
		name, file string
		change     func([]byte) []byte
	}{
		{"summed", "manifest", func(b []byte) []byte { return summed(future(b)) }},
		{"not summed", "manifest", future},
		{"much later", "manifest", func(b []byte) []byte {
			return summed([]byte(strings.Replace(string(future(b)), "sheaf binlog 4\n", "sheaf binlog 12\nnew things\n", 1)))
		}},
		{"another layout", "manifest", func([]byte) []byte { return []byte("sheaf binlog 4\nnothing that we know\n") }},
		{"a segment", "segment.1.0.00000001", header},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			jobs := filled(t, dir, "--shards", "1")
			path := filepath.Join(dir, tc.file)
			old, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err, segmentsOf(t, dir))
			}
			rewrite(t, path, tc.change)
			for _, args := range [][]string{{"--shards", "1"}, {"--shards", "3"}, {"--binlog-strict"}} {
				refuses(t, dir, command(t, onLoopback(append(args, "-b", dir)...)...), tc.file, "format", "newer sheafd")
			}
			rewrite(t, path, func([]byte) []byte { return old })
			jobs.check(withBinlog(t, dir).talk())
		})
	}
}

// A directory that is not to be used has not been made.
func TestBinlogAndMistakes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	s := start(t)
	taken := s.addrs[0].String()
	fails(t, command(t, "-l", "127.0.0.1", "-p", taken[strings.LastIndexByte(taken, ':')+1:], "-b", dir), 1, "listening")
	fails(t, command(t, onLoopback("-b", dir, "-u", "no-such-user")...), 1, "no such user")
	fails(t, command(t, onLoopback("-b", dir, "--binlog-compression", "lz4")...), 2, "lz4")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
}
