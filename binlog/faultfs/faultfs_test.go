package faultfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/sheafq/sheaf/binlog"
)

// no fails the test if an operation that must work did not.
func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}

func create(t *testing.T, f *FS, name string) binlog.File {
	t.Helper()
	h, err := f.Create(name)
	no(t, err)
	return h
}

func put(t *testing.T, h binlog.File, off int64, data []byte) {
	t.Helper()
	if n, err := h.WriteAt(data, off); n != len(data) || err != nil {
		t.Fatalf("writing %d bytes: %d, %v", len(data), n, err)
	}
}

// durable makes a file in "." that is durable with that data.
func durable(t *testing.T, f *FS, name string, data []byte) binlog.File {
	t.Helper()
	f.Write(name, data)
	h, err := f.OpenWrite(name)
	no(t, err)
	return h
}

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func used(t *testing.T, f *FS, blocks int64) {
	t.Helper()
	if got := f.Used(); got != blocks*blockSize {
		t.Errorf("%d bytes are used, want %d blocks", got, blocks)
	}
}

func list(t *testing.T, f *FS, dir string) (names []string) {
	t.Helper()
	entries, err := f.ReadDir(dir)
	no(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// dirIn returns a new directory.
func dirIn(t *testing.T, f binlog.FS) string {
	t.Helper()
	if f == binlog.OS {
		return t.TempDir()
	}
	no(t, f.Mkdir("/dir"))
	return "/dir"
}

// TestNames: operations on names answer what those of the machine do.
func TestNames(t *testing.T) {
	for name, f := range map[string]binlog.FS{"faultfs": New(), "the machine": binlog.OS} {
		t.Run(name, func(t *testing.T) {
			dir := dirIn(t, f)
			is(t, f.Mkdir(dir+"/a/b"), fs.ErrNotExist)
			no(t, f.Mkdir(dir+"/a"))
			no(t, f.Mkdir(dir+"/a/b/"))
			is(t, f.Mkdir(dir+"/a/b"), fs.ErrExist)
			h, err := f.Create(dir + "/a/x")
			no(t, err)
			put(t, h, 3, []byte("abc"))
			_, err = f.Create(dir + "/a/x")
			is(t, err, fs.ErrExist)
			_, err = f.Create(dir + "/a/b")
			is(t, err, fs.ErrExist)
			is(t, f.Mkdir(dir+"/a/x"), fs.ErrExist)

			for _, missing := range []string{dir + "/a/y", dir + "/c/y"} {
				_, err = f.Open(missing)
				is(t, err, fs.ErrNotExist)
				_, err = f.OpenWrite(missing)
				is(t, err, fs.ErrNotExist)
				_, err = f.ReadDir(missing)
				is(t, err, fs.ErrNotExist)
				_, err = f.Size(missing)
				is(t, err, fs.ErrNotExist)
				is(t, f.Writable(missing), fs.ErrNotExist)
				is(t, f.SyncDir(missing), fs.ErrNotExist)
				is(t, f.Remove(missing), fs.ErrNotExist)
				is(t, f.Rename(missing, dir+"/z"), fs.ErrNotExist)
			}
			is(t, f.Rename(dir+"/a/x", dir+"/c/x"), fs.ErrNotExist)
			_, err = f.Create(dir + "/c/x")
			is(t, err, fs.ErrNotExist)
			_, err = f.Lock(dir + "/c/x")
			is(t, err, fs.ErrNotExist)
			no(t, f.SyncDir(dir+"/a"))
			no(t, f.Writable(dir+"/a"))
			if size, err := f.Size(dir); size <= 0 || err != nil {
				t.Errorf("the size is %d, %v", size, err)
			}

			y, err := f.Create(dir + "/a/y")
			no(t, err)
			no(t, f.Rename(dir+"/a/x", dir+"/a/y"))
			no(t, f.Rename(dir+"/a/y", dir+"/a/y"))
			entries, err := f.ReadDir(dir + "/a")
			no(t, err)
			if len(entries) != 2 || entries[0].Name() != "b" || entries[1].Name() != "y" ||
				!entries[0].IsDir() || !entries[1].Type().IsRegular() {
				t.Fatalf("the entries are %v", entries)
			}
			if info, err := entries[1].Info(); err != nil || info.Size() != 6 || info.Name() != "y" {
				t.Errorf("y is %v, %v", info, err)
			}

			no(t, f.Remove(dir+"/a/y"))
			b := make([]byte, 9)
			if n, err := h.ReadAt(b, 0); n != 6 || err != io.EOF || string(b[:n]) != "\x00\x00\x00abc" {
				t.Errorf("a removed file reads %q, %v", b[:n], err)
			}
			no(t, h.Close())
			no(t, y.Close())
		})
	}
}

// TestFile: operations on files answer what those of the machine do.
func TestFile(t *testing.T) {
	for name, f := range map[string]binlog.FS{"faultfs": New(), "the machine": binlog.OS} {
		t.Run(name, func(t *testing.T) {
			dir := dirIn(t, f)
			h, err := f.Create(dir + "/x")
			no(t, err)
			size := func(want int64) {
				t.Helper()
				if n, err := h.Size(); n != want || err != nil {
					t.Errorf("the size is %d, %v; want %d", n, err, want)
				}
			}
			p := []byte("abcdef")
			put(t, h, 0, p)
			clear(p) // it was copied
			no(t, h.Allocate(0, 10000))
			size(6)
			no(t, h.Truncate(2))
			no(t, h.Truncate(4))
			size(4)
			b := make([]byte, 4)
			if n, err := h.ReadAt(b, 0); n != 4 || err != nil || string(b) != "ab\x00\x00" {
				t.Errorf("it reads %q, %v", b[:n], err)
			}
			for off, want := range map[int64]int{3: 1, 4: 0, 1000: 0} {
				if n, err := h.ReadAt(b, off); n != want || err != io.EOF {
					t.Errorf("at %d it reads %d bytes, %v", off, n, err)
				}
			}
			_, err = h.ReadAt(b, -1)
			if err == nil {
				t.Error("one can read at -1")
			}
			no(t, h.Sync())

			r, err := f.Open(dir + "/x")
			no(t, err)
			if _, err = r.WriteAt(b, 0); err == nil {
				t.Error("what was opened for reading can be written")
			}
			if err = r.Truncate(0); err == nil {
				t.Error("what was opened for reading can be cut off")
			}
			no(t, r.Sync())
			size(4)
			w, err := f.OpenWrite(dir + "/x")
			no(t, err)
			put(t, w, 4, []byte("z"))
			size(5)

			for _, h := range []binlog.File{h, r, w} {
				no(t, h.Close())
				is(t, h.Close(), fs.ErrClosed)
			}
			_, err = h.WriteAt(b, 0)
			is(t, err, fs.ErrClosed)
			is(t, h.Truncate(0), fs.ErrClosed)
		})
	}
}

func TestLock(t *testing.T) {
	f := New()
	l, err := f.Lock("lock")
	no(t, err)
	if _, err = f.Lock("./lock"); err != binlog.ErrLocked {
		t.Errorf("a lock that is held is answered %v", err)
	}
	no(t, f.SyncDir("."))
	other, err := f.Kill().Lock("lock")
	no(t, err)
	no(t, other.Close())
	_, err = f.Crash(rand.New(rand.NewPCG(1, 1))).Lock("lock")
	no(t, err)

	no(t, l.Close())
	again, err := f.Lock("lock")
	no(t, err)
	_ = l.Close() // must not end another's
	_, err = f.Lock("lock")
	is(t, err, binlog.ErrLocked)
	no(t, again.Close())
}

func TestFaults(t *testing.T) {
	f := New()
	h := durable(t, f, "d/x", []byte("x"))
	asked := make(map[Op]string)
	f.SetFault(func(op Op, name string, off int64, n int) error {
		asked[op] = fmt.Sprintf("%v %s %d %d", op, name, off, n)
		f.Kill() // nothing is locked
		return syscall.EIO
	})
	b := make([]byte, 5)
	results := map[Op]error{
		OpMkdir: f.Mkdir("e"), OpRename: f.Rename("./d/x", "d/y"), OpRemove: f.Remove("d/x"),
		OpSyncDir: f.SyncDir("d"), OpWritable: f.Writable("d"),
		OpSync: h.Sync(), OpAllocate: h.Allocate(7, 5), OpTruncate: h.Truncate(9),
	}
	_, results[OpOpen] = f.Open("d/x")
	_, results[OpOpenWrite] = f.OpenWrite("d/x")
	_, results[OpCreate] = f.Create("d/y")
	_, results[OpReadDir] = f.ReadDir("d")
	_, results[OpLock] = f.Lock("d/x")
	_, results[OpStatfs] = f.Size("d")
	_, results[OpReadAt] = h.ReadAt(b, 7)
	_, results[OpWriteAt] = h.WriteAt(b, 7)
	_, results[OpSize] = h.Size()
	results[OpClose] = h.Close()
	for op := range OpClose + 1 {
		var path *fs.PathError
		if err := results[op]; !errors.Is(err, syscall.EIO) || !errors.As(err, &path) || path.Op != op.String() {
			t.Errorf("%v failed with %v", op, err)
		}
	}
	for op, want := range map[Op]string{
		OpRename: "rename d/x 0 0", OpWriteAt: "write d/x 7 5", OpReadAt: "read d/x 7 5",
		OpAllocate: "allocate d/x 7 5", OpTruncate: "truncate d/x 9 0",
	} {
		if asked[op] != want {
			t.Errorf("asked was %q, want %q", asked[op], want)
		}
	}
	f.SetFault(nil)
	if got := list(t, f, "d"); !slices.Equal(got, []string{"x"}) || string(f.Read("d/x")) != "x" {
		t.Error("something was done in spite of its fault")
	}
	is(t, h.Close(), fs.ErrClosed)
}

func TestShortWrite(t *testing.T) {
	f := New()
	h := create(t, f, "x")
	for fits, want := range map[int]string{0: "", 2: "ab", 9: "abc"} {
		no(t, h.Truncate(0))
		f.SetFault(func(op Op, _ string, _ int64, _ int) error { return Short{fits, syscall.EIO} })
		n, err := h.WriteAt([]byte("abc"), 0)
		is(t, err, syscall.EIO)
		f.SetFault(nil)
		if got := string(f.Read("x")); n != len(want) || got != want {
			t.Errorf("%d bytes were written, and it reads %q, want %q", n, got, want)
		}
	}
}

func TestSpace(t *testing.T) {
	f := New()
	f.SetCapacity(4*blockSize + 100)
	if size, err := f.Size("."); size != 4*blockSize || err != nil {
		t.Errorf("the size is %d, %v", size, err)
	}
	x := create(t, f, "x")
	y := create(t, f, "y")
	put(t, x, 0, []byte("x"))
	no(t, x.Allocate(1, 2*blockSize-1))
	used(t, f, 2)
	put(t, y, 3*blockSize+1, []byte("y")) // behind a hole
	used(t, f, 3)

	n, err := y.WriteAt(fill('z', 3*blockSize), 10)
	if n != blockSize-10 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("of a write %d bytes found room, %v", n, err)
	}
	var path *fs.PathError
	if !errors.As(err, &path) || path.Path != "y" {
		t.Errorf("the error is %#v", err)
	}
	used(t, f, 4)
	if n, err = y.WriteAt([]byte("z"), 2*blockSize); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("of a write %d bytes found room, %v", n, err)
	}
	is(t, y.Allocate(0, 5*blockSize), syscall.ENOSPC)
	put(t, x, blockSize, fill('x', blockSize)) // was set aside
	put(t, y, 3*blockSize, fill('y', blockSize))
	used(t, f.Kill(), 4)

	no(t, x.Allocate(0, 2*blockSize))
	no(t, x.Truncate(1))
	used(t, f, 3)
	no(t, x.Allocate(blockSize, blockSize))
	used(t, f, 4)
	no(t, x.Truncate(1)) // the same size
	used(t, f, 3)

	no(t, f.Remove("y"))
	used(t, f, 3)
	if free, err := f.Free("."); free != blockSize || err != nil {
		t.Errorf("%d bytes are free while a removed file is open, %v", free, err)
	}
	no(t, y.Close())
	used(t, f, 1)

	f.Leave(blockSize + 1)
	no(t, x.Allocate(0, 2*blockSize))
	is(t, x.Allocate(2*blockSize, 1), syscall.ENOSPC)
	used(t, f, 2)
	no(t, f.Rename("x", "z"))
	create(t, f, "w")
	no(t, x.Close())
	no(t, f.Rename("w", "z"))
	used(t, f, 0)
}

func TestDamage(t *testing.T) {
	f := New()
	if f.Read("d/x") != nil {
		t.Error("what does not exist can be read")
	}
	f.Write("d/x", nil)
	if b := f.Read("d/x"); b == nil || len(b) != 0 {
		t.Errorf("an empty file reads %v", b)
	}
	f.SetCapacity(0)
	f.Write("d/x", fill('a', 5000))
	used(t, f, 2)
	f.Write("d/x", []byte("abc"))
	used(t, f, 1)
	f.Flip("d/x", 8+1)
	f.Read("d/x")[0] = 'z'
	outcomes(f, func(c *FS) {
		if string(c.Read("d/x")) != "a`c" || string(f.Read("d/x")) != "a`c" {
			t.Fatalf("it reads %q, and after a crash %q", f.Read("d/x"), c.Read("d/x"))
		}
	})
}
