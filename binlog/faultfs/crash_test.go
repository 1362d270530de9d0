package faultfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// outcomes calls check with many outcomes of a power loss.
func outcomes(f *FS, check func(*FS)) {
	for seed := range uint64(2000) {
		check(f.Crash(rand.New(rand.NewPCG(seed, 1))))
	}
}

// TestSynced: what was synced is there, in full, whatever else happened.
func TestSynced(t *testing.T) {
	f := New()
	no(t, f.Mkdir("d"))
	no(t, f.SyncDir("."))
	h := create(t, f, "d/x")
	no(t, f.SyncDir("d"))
	put(t, h, 0, fill('a', 3000))
	put(t, h, 1000, fill('b', 100))
	no(t, h.Truncate(2000))
	no(t, h.Truncate(2500))
	no(t, h.Sync())
	want := slices.Concat(fill('a', 1000), fill('b', 100), fill('a', 900), fill(0, 500))
	if !bytes.Equal(f.Read("d/x"), want) {
		t.Fatal("it does not read as written")
	}
	put(t, h, 2500, fill('c', 3000))
	outcomes(f, func(c *FS) {
		if got := c.Read("d/x"); len(got) < 2500 || len(got) > 5500 || !bytes.Equal(got[:2500], want) {
			t.Fatalf("of 2500 bytes synced and 3000 not, %d are left", len(got))
		}
	})
}

// TestUnsynced: all that the model allows for data does happen, and no more.
func TestUnsynced(t *testing.T) {
	f := New()
	h := durable(t, f, "x", fill('a', 1024))
	put(t, h, 1024, fill('b', 2048)) // four sectors
	put(t, h, 600, fill('c', 8))     // and over what was synced
	put(t, h, 600, fill('d', 8))
	var all, none, hole, torn, between, first, old int
	outcomes(f, func(c *FS) {
		b := c.Read("x")
		if len(b) < 1024 || len(b) > 3072 {
			t.Fatalf("the size is %d", len(b))
		}
		if len(b) != 1024 && len(b) != 3072 {
			between++
		}
		tears := 0
		switch word := string(b[600:608]); word {
		case "aaaaaaaa":
			old++
		case "cccccccc":
			first++
		case "dddddddd":
		default:
			tears++
		}
		copy(b[600:], fill('a', 8))
		if !bytes.Equal(b[:1024], fill('a', 1024)) {
			t.Fatal("what was synced is gone")
		}
		kept, zero := 0, false
		for at := 1024; at < len(b); at += sectorSize {
			s := b[at:min(at+sectorSize, len(b))]
			got := bytes.Count(s, []byte("b"))
			if !bytes.Equal(s, append(fill('b', got), fill(0, len(s)-got)...)) {
				t.Fatalf("sector at %d is no prefix of what was written", at)
			}
			switch {
			case got == 0:
				zero = true
				continue
			case got < len(s):
				tears++
			}
			if zero {
				hole++
			}
			kept++
		}
		if tears > 1 {
			t.Fatalf("%d sectors are torn", tears)
		}
		torn += tears
		switch {
		case kept == 4 && tears == 0:
			all++
		case kept == 0:
			none++
		}
		if again := c.Crash(rand.New(rand.NewPCG(7, 7))); !bytes.Equal(again.Read("x"), c.Read("x")) {
			t.Fatal("another crash loses what is left of the first")
		}
	})
	for what, n := range map[string]int{
		"all": all, "none": none, "hole": hole, "torn": torn, "between": between, "first": first, "old": old,
	} {
		if n < 20 {
			t.Errorf("%s: %d of 2000 outcomes", what, n)
		}
	}
	if k := f.Kill(); !bytes.Equal(k.Read("x"), f.Read("x")) || len(k.Read("x")) != 3072 {
		t.Error("a killed process has lost data")
	}
}

// TestTruncated: a file that was cut off may come back, until it is synced.
func TestTruncated(t *testing.T) {
	f := New()
	h := durable(t, f, "x", fill('a', 2000))
	no(t, h.Truncate(100))
	sizes := make(map[int]bool)
	outcomes(f, func(c *FS) { sizes[len(c.Read("x"))] = true })
	if !sizes[100] || !sizes[2000] || len(sizes) < 100 {
		t.Errorf("%d sizes were seen", len(sizes))
	}
	no(t, h.Sync())
	outcomes(f, func(c *FS) {
		if !bytes.Equal(c.Read("x"), fill('a', 100)) {
			t.Fatal("a synced size is not durable")
		}
	})
}

// TestDirectories: names are lost in reverse order, until they are synced.
func TestDirectories(t *testing.T) {
	f := New()
	f.Write("d/old", []byte("old"))
	h := create(t, f, "d/new")
	put(t, h, 0, []byte("new"))
	no(t, h.Sync())
	no(t, f.Rename("d/new", "d/old"))
	create(t, f, "d/third")
	no(t, f.Remove("d/old"))
	seen := make(map[string]int)
	outcomes(f, func(c *FS) { seen[fmt.Sprintf("%v %s", list(t, c, "d"), c.Read("d/old"))]++ })
	for _, want := range []string{"[old] old", "[new old] old", "[old] new", "[old third] new", "[third] "} {
		if seen[want] < 100 {
			t.Errorf("%s: %d of 2000 outcomes", want, seen[want])
		}
	}
	if len(seen) != 5 {
		t.Errorf("the outcomes are %v", seen)
	}
	no(t, f.SyncDir("d"))
	outcomes(f, func(c *FS) {
		if got := list(t, c, "d"); !slices.Equal(got, []string{"third"}) {
			t.Fatalf("after SyncDir there is %v", got)
		}
	})
}

// TestMoved: a rename between directories is never halfway, and what it hangs
// on becomes durable with it.
func TestMoved(t *testing.T) {
	f := New()
	f.Write("a/x", []byte("x"))
	f.Write("b/y", []byte("y"))
	no(t, f.Rename("b/y", "b/z"))
	no(t, f.Rename("a/x", "b/x"))
	no(t, f.Rename("b/z", "a/z"))
	seen := make(map[string]bool)
	outcomes(f, func(c *FS) { seen[fmt.Sprint(list(t, c, "a"), list(t, c, "b"))] = true })
	for _, want := range []string{"[x] [y]", "[x] [z]", "[] [x z]", "[z] [x]"} {
		if !seen[want] {
			t.Errorf("never seen: %s", want)
		}
	}
	if len(seen) != 4 {
		t.Errorf("the outcomes are %v", seen)
	}
	no(t, f.SyncDir("a"))
	outcomes(f, func(c *FS) {
		if a, b := list(t, c, "a"), list(t, c, "b"); !slices.Equal(a, []string{"z"}) || !slices.Equal(b, []string{"x"}) {
			t.Fatalf("after SyncDir there are %v and %v", a, b)
		}
	})
}

// TestNewDirectory: a file is lost with its directory.
func TestNewDirectory(t *testing.T) {
	f := New()
	no(t, f.Mkdir("/d"))
	no(t, f.Mkdir("/d/e"))
	h := create(t, f, "/d/e/x")
	no(t, h.Sync())
	no(t, f.SyncDir("/d/e"))
	no(t, f.SyncDir("/d"))
	lost, kept := 0, 0
	outcomes(f, func(c *FS) {
		if c.Read("/d/e/x") != nil {
			kept++
		} else if _, err := c.ReadDir("/d/e"); errors.Is(err, fs.ErrNotExist) {
			_ = c.Mkdir("/d") // which may be lost, too
			if c.Mkdir("/d/e") == nil {
				lost++
			}
		}
	})
	if lost < 500 || kept < 500 || lost+kept != 2000 {
		t.Errorf("the file was lost %d times and kept %d times", lost, kept)
	}
	no(t, f.SyncDir("/"))
	outcomes(f, func(c *FS) {
		if c.Read("/d/e/x") == nil {
			t.Fatal("a directory is lost that was durable")
		}
	})
}

// TestFailedSync: what a failed Sync did not write, no later one does.
func TestFailedSync(t *testing.T) {
	f := New()
	h := durable(t, f, "x", []byte("old"))
	put(t, h, 0, []byte("lost"))
	f.SetFault(func(Op, string, int64, int) error { return syscall.EIO })
	is(t, h.Sync(), syscall.EIO)
	f.SetFault(nil)
	no(t, h.Sync())
	put(t, h, 4, []byte("safe"))
	no(t, h.Sync())
	if got := string(f.Read("x")); got != "lostsafe" {
		t.Errorf("it reads %q", got)
	}
	outcomes(f, func(c *FS) {
		if got := string(c.Read("x")); got != "old\x00safe" {
			t.Fatalf("a power loss leaves %q", got)
		}
	})
}

// TestFullAfterCrash: removed files come back only if there is room for them.
func TestFullAfterCrash(t *testing.T) {
	f := New()
	f.SetCapacity(4 * blockSize)
	f.Write("x", fill('x', 3*blockSize))
	no(t, f.Remove("x"))
	y := create(t, f, "y")
	put(t, y, 0, fill('y', blockSize))
	back := false
	outcomes(f, func(c *FS) { back = back || c.Read("x") != nil })
	if !back {
		t.Error("a removed file never comes back")
	}
	put(t, y, blockSize, fill('y', blockSize))
	no(t, y.Sync())
	outcomes(f, func(c *FS) {
		if c.Used() > 4*blockSize {
			t.Fatalf("of %d bytes %d are used", 4*blockSize, c.Used())
		}
	})
}

// TestApart: what goes on in a file system does not show in one taken of it.
func TestApart(t *testing.T) {
	f := New()
	h := durable(t, f, "x", fill('a', 5000))
	put(t, h, 0, fill('b', 100))
	killed := f.Kill()
	crashed := f.Crash(rand.New(rand.NewPCG(1, 2)))
	k, c := killed.Read("x"), crashed.Read("x")
	put(t, h, 0, fill('z', 9000))
	no(t, h.Sync())
	no(t, f.Remove("x"))
	no(t, f.SyncDir("."))
	if !bytes.Equal(killed.Read("x"), k) || !bytes.Equal(crashed.Read("x"), c) {
		t.Error("a write shows in what was taken before")
	}
	used(t, killed, 2)
	used(t, crashed, 2)
	outcomes(killed, func(c *FS) { // which keeps apart what is durable
		if b := c.Read("x"); len(b) != 5000 || !bytes.Equal(b[100:], fill('a', 4900)) {
			t.Fatal("the durable data of a killed process are lost")
		}
	})
	one, two := killed.Crash(rand.New(rand.NewPCG(5, 5))), killed.Crash(rand.New(rand.NewPCG(5, 5)))
	if !bytes.Equal(one.Read("x"), two.Read("x")) {
		t.Error("the same numbers give different outcomes")
	}
}

// TestCut: each moment of a run can be had.
func TestCut(t *testing.T) {
	for count, want := range map[int]string{1: "", 2: "", 3: "a", 4: "ab", 5: "none"} {
		f := New()
		cut := f.Cut(count)
		h := create(t, f, "x")
		put(t, h, 0, []byte("a"))
		_, _ = h.Size() // changes nothing
		put(t, h, 1, []byte("b"))
		no(t, h.Sync())
		got := "none"
		select {
		case c := <-cut:
			got = string(c.Read("x"))
			if (c.Read("x") == nil) != (count == 1) {
				t.Errorf("cut %d: the file is there or not as it should not be", count)
			}
		default:
		}
		if got != want {
			t.Errorf("cut %d left %q, want %q", count, got, want)
		}
	}
}

// TestTogether: many goroutines at once, and of those that were told that their
// data are durable, none finds them lost.
func TestTogether(t *testing.T) {
	f := New()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		acked = make(map[string]int64)
		stop  = make(chan struct{})
	)
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("d", i%3, "/", i)
			_ = f.Mkdir(fmt.Sprint("d", i%3))
			_ = f.SyncDir(".")
			h, err := f.Create(name)
			if err != nil || f.SyncDir(fmt.Sprint("d", i%3)) != nil {
				t.Error(name, err)
				return
			}
			defer h.Close()
			for off := int64(0); off < 1<<20; off += 100 {
				select {
				case <-stop:
					return
				default:
				}
				if _, err = h.WriteAt(fill('a'+byte(i), 100), off); err == nil {
					err = h.Sync()
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acked[name] = off + 100
				mu.Unlock()
				_, _ = f.ReadDir("d0")
			}
		})
	}
	for seed := range uint64(100) {
		mu.Lock()
		want := make(map[string]int64)
		for name, size := range acked {
			want[name] = size
		}
		mu.Unlock()
		c := f.Crash(rand.New(rand.NewPCG(seed, 3)))
		for name, size := range want {
			if b := c.Read(name); int64(len(b)) < size || bytes.IndexByte(b[:size], 0) >= 0 {
				t.Errorf("of %d durable bytes of %s, some of %d are lost", size, name, len(b))
			}
		}
	}
	close(stop)
	wg.Wait()
}
