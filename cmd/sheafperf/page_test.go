package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// say is a page of a line.
func say(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func TestPage(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "page.html"), filepath.Join(dir, "link.html")
	if err := os.Symlink("page.html", link); err != nil {
		t.Fatal(err)
	}
	expect := func(what, want string, mode fs.FileMode) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil && want != "" || string(b) != want {
			t.Errorf("%s: %q, %v", what, b, err)
		}
		if of, err := os.Stat(path); err == nil && mode != 0 && of.Mode().Perm() != mode {
			t.Errorf("%s: its mode is %v, want %v", what, of.Mode(), mode)
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name() != "page.html" && e.Name() != "link.html" {
				t.Errorf("%s: %s is left", what, e.Name())
			}
		}
	}
	p, err := newPage(path)
	if err != nil {
		t.Fatal(err)
	}
	expect("before anything is written", "", 0)
	if err := p.write(say("a")); err != nil {
		t.Fatal(err)
	}
	expect("the first", "a", 0)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if p, err = newPage(link); err != nil {
		t.Fatal(err)
	}
	expect("before the second", "a", 0o640)
	if err := p.write(func(io.Writer) error { return errors.New("no") }); err == nil {
		t.Error("that it cannot be written is not told")
	}
	expect("one that failed", "a", 0o640)
	if err := p.write(say("b")); err != nil {
		t.Fatal(err)
	}
	expect("the second", "b", 0o640)
	if of, err := os.Lstat(link); err != nil || of.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", of, err)
	}
	if _, err := newPage(dir); err == nil {
		t.Error("a directory is taken")
	}
	if _, err := newPage(filepath.Join(dir, "no", "page.html")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	if p, err = newPage("/dev/null"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.write(say("c")), p.close(), p.close()); err != nil {
		t.Error(err)
	}
	if of, err := os.Stat("/dev/null"); err != nil || of.Mode()&fs.ModeDevice == 0 {
		t.Errorf("/dev/null is now %v, %v", of, err)
	}
	// A directory in which nothing can be made: the file is written in place.
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if p, err = newPage(path); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.write(say("")), p.close()); err != nil {
		t.Error(err)
	}
	expect("in place", "", 0o640)
	if _, err := newPage(filepath.Join(dir, "other.html")); os.Getuid() != 0 && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("in a directory that cannot be written: %v", err)
	}
}

// A page that is there is not lost where nothing was measured.
func TestPageOfNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"--addr=127.0.0.1:1", "--server=x=sh -c 'exit 3' {port}"} {
		perform(t, nil, "run", "cycle", server, "--html", path).has(t, 1)
		if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
			t.Errorf("%s: %q, %v", server, b, err)
		}
	}
}
