package binlog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FS is the file system that a binlog lives in: that of the machine (OS), or in
// tests one that loses what was not synced, tears writes and runs full. Names are
// paths as in package os. Any goroutine may call the methods.
type FS interface {
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// Create makes a file that must not exist yet, for reading and writing.
	Create(name string) (File, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	// Mkdir makes a directory that must not exist yet, in one that must.
	Mkdir(name string) error
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes what was created, renamed and removed in a directory durable.
	SyncDir(name string) error
	// Lock takes an exclusive lock on the file of that name, which it makes if need be,
	// and on its directory, until the Unlocker is closed. The error is ErrLocked if
	// somebody else has locked the file, and errDirLocked if only the directory.
	Lock(name string) (Unlocker, error)
	// Size returns how many bytes the file system of that directory can hold in all,
	// and Free how many more; math.MaxInt64 if that is not known.
	Size(name string) (int64, error)
	Free(name string) (int64, error)
	// InPlace tells whether what is written over something else in a file of that
	// directory goes where that is, so that it takes no more space. (It does where files
	// share blocks, such as copies made by cp --reflink.)
	InPlace(name string) bool
	// Boot returns a name of this run of the machine. Once it has changed, what was not
	// synced is lost. It is empty if it is not known.
	Boot() string
	// Writable returns nil if that file can be read and written, or if files can be
	// made in that directory. The error is an *ownerError if we run as root and the
	// file or directory belongs to another user, who could not use what root makes.
	Writable(name string) error
}

// File is one file. Reads, writes and syncs may run at the same time.
type File interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	// Sync makes what was written durable, as fdatasync(2) does.
	Sync() error
	// SyncInPlace is Sync for when that most likely takes no more than some 100 µs: no
	// other goroutine gets the processor (in the sense of GOMAXPROCS) meanwhile, and what
	// stops the world, as the garbage collector does, waits for it.
	SyncInPlace() error
	// Allocate sets disk space aside for size bytes from off on. They may lie behind
	// the end of the file, and need not move it.
	Allocate(off, size int64) error
	Truncate(size int64) error
	Size() (int64, error)
	Close() error
}

// Unlocker ends what Lock began.
type Unlocker interface{ Close() error }

// OS is the file system of the machine.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Open(name string) (File, error)      { return osOpen(name, os.O_RDONLY) }
func (osFS) OpenWrite(name string) (File, error) { return osOpen(name, os.O_RDWR) }
func (osFS) Create(name string) (File, error) {
	return osOpen(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) Mkdir(name string) error                    { return os.Mkdir(name, 0o700) }
func (osFS) Rename(from, to string) error               { return os.Rename(from, to) }
func (osFS) Remove(name string) error                   { return os.Remove(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// locks are what Lock has taken.
type locks struct{ file, dir *os.File }

func (l locks) Close() error { return errors.Join(l.file.Close(), l.dir.Close()) }

// Lock uses a lock of the open file description, which excludes beanstalkd's own
// lock on a file of the same name; and one of the directory, which holds even if
// somebody removes the file.
func (osFS) Lock(name string) (Unlocker, error) {
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	// Where the file system cannot lock directories the file's lock has to do. Other
	// programs lock a directory for a moment, as systemd-tmpfiles does.
	begin := time.Now()
	for unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK {
		f, err := lockFile(name, 0)
		if err == nil {
			f.Close()
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = errDirLocked
		}
		if err != errDirLocked || time.Since(begin) > dirPatience {
			dir.Close()
			return nil, err
		}
		time.Sleep(dirPatience / 20)
	}
	f, err := lockFile(name, os.O_CREATE)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return locks{f, dir}, nil
}

// dirPatience is how long a start waits for another program's lock of the directory.
const dirPatience = time.Second

var errDirLocked = errors.New("its directory is locked (flock) by another program, or by a server whose file \"lock\" was removed: end that one first, which lslocks shows")

func lockFile(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	how := unix.Flock_t{Type: unix.F_WRLCK}
	for {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &how)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if err == unix.EAGAIN || err == unix.EACCES {
		return nil, ErrLocked
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}

func (osFS) Boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // see random(4)
	return strings.TrimSpace(string(b))
}

func (osFS) Size(name string) (int64, error) {
	st, err := statfs(name)
	if err != nil || st.Blocks == 0 { // it has no limit of its own, like ramfs, or does not know it
		return math.MaxInt64, err
	}
	return int64(st.Blocks) * st.Bsize, nil
}

func (osFS) Free(name string) (int64, error) {
	st, err := statfs(name)
	if err != nil || st.Blocks == 0 {
		return math.MaxInt64, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// InPlace knows the file systems that are most used for this and do so; others, as
// btrfs, write elsewhere.
func (osFS) InPlace(name string) bool {
	st, err := statfs(name)
	return err == nil && (st.Type == unix.EXT4_SUPER_MAGIC || st.Type == unix.XFS_SUPER_MAGIC)
}

func statfs(name string) (st unix.Statfs_t, err error) {
	if err := unix.Statfs(name, &st); err != nil {
		return st, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return st, nil
}

func (osFS) Writable(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	mode := uint32(unix.R_OK | unix.W_OK)
	if info.IsDir() {
		mode |= unix.X_OK
	}
	if err := unix.Faccessat(unix.AT_FDCWD, name, mode, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write to", Path: name, Err: err}
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if owner == 0 || os.Geteuid() != 0 {
		return nil
	}
	dir, what := name, "it"
	if !info.IsDir() {
		dir, what = filepath.Dir(name), name
	}
	if isOver(name) && keepsRoot(dir) {
		return &ownerError{what: what, owner: owner}
	}
	return nil
}

// isOver tells whether we, who run as root, have root's rights over a file. Root in
// a user namespace has none over a file whose owner the namespace does not know, as
// a rootless container may find it on a volume. It is tested with O_NOATIME, which
// only the owner and such a root may use.
func isOver(name string) bool {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOATIME|unix.O_NONBLOCK, 0)
	if err != nil {
		return !errors.Is(err, unix.EPERM)
	}
	f.Close()
	return true
}

// keepsRoot tells whether what root makes in a directory is root's. Some file
// systems give everything to one user, as NFS and CIFS may. It is tested with a file
// that has no name; where such files cannot be made it is false, so that nobody is
// refused.
func keepsRoot(dir string) bool {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && info.Sys().(*syscall.Stat_t).Uid == 0
}

// ownerError says that we run as root, and that a directory or a file in it belongs
// to another user. Root may write anywhere, but what it makes is its own, and that
// user's server could not start with it any more. (Other users need no such check:
// what they may not write the system refuses, and what they may, as on a volume that
// a group shares, they do.)
type ownerError struct {
	what  string // the file's name, or "it" for the directory
	owner uint32 // user id
	mixed bool   // some files are not that user's
}

func (e *ownerError) Error() string {
	name := strconv.FormatUint(uint64(e.owner), 10)
	who := "the user with id " + name
	if u, err := user.LookupId(name); err == nil {
		name, who = u.Username, "user "+u.Username
	}
	start := "start sheafd with -u " + name
	if e.mixed {
		start = fmt.Sprintf("give all that is in the directory to that user (chown -R %s) and %s", name, start)
	}
	return fmt.Sprintf("%s belongs to %s, and sheafd runs as user root, whose files that user's sheafd could not use: %s, or give the directory and all that is in it to root (chown -R)", e.what, who, start)
}

type osFile struct{ *os.File }

// osOpen opens regular files only, and does not wait: opening a pipe would, until
// somebody writes to it.
func osOpen(name string, flag int) (File, error) {
	f, err := os.OpenFile(filepath.Clean(name), flag|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is no regular file: move it elsewhere")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Sync() error { return f.fdatasync(unix.Fdatasync) }

// SyncInPlace does not tell the runtime of the system call. For those that it knows of
// its monitor wakes up each 20 µs and, where no processor is idle, gives that of the
// waiting thread to another one: with few cores that takes more time than the sync.
func (f osFile) SyncInPlace() error {
	return f.fdatasync(func(fd int) error {
		if _, _, err := unix.RawSyscall(unix.SYS_FDATASYNC, uintptr(fd), 0, 0); err != 0 {
			return err
		}
		return nil
	})
}

// fdatasync calls one that may be interrupted.
func (f osFile) fdatasync(call func(fd int) error) error {
	for {
		err := call(int(f.Fd()))
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}

// Allocate falls back on writing zeros where the file system has no fallocate.
func (f osFile) Allocate(off, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, size)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
			continue
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return zero(f, off, size)
		}
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
}

// zero sets space aside by writing zeros behind the end of the file, which moves
// it; readers take zeros for the end anyway. What is before the end stays, since it
// may have been written already.
func zero(f File, off, size int64) error {
	end := off + size
	at, err := f.Size()
	if err != nil {
		return err
	}
	zeros := make([]byte, max(0, min(size, 1<<20)))
	for at = max(at, off); at < end; {
		n, err := f.WriteAt(zeros[:min(end-at, int64(len(zeros)))], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
