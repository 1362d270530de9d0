package main

// The file that --html writes.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A page is a file that is replaced as a whole once there is something to write.
// Until then an existing one stays as it is.
type page struct {
	path string      // with symbolic links followed
	mode fs.FileMode // 0: there is no file yet
	// in is the file itself, opened, if no temporary file can take its place: it is
	// a device or a pipe, or its directory cannot be written. Otherwise nil.
	in *os.File
}

// newPage finds out whether the page can be written. It writes nothing.
func newPage(path string) (*page, error) {
	p := &page{path: path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		p.path = real
	}
	was, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if p.in, err = os.OpenFile(p.path, os.O_WRONLY, 0); err != nil { // also where it is a directory
			return nil, err
		}
		if !was.Mode().IsRegular() {
			return p, nil
		}
		p.mode = was.Mode().Perm()
	}
	// The temporary file is removed again, so that none is left behind if the
	// process is killed during the load.
	beside, err := p.beside()
	switch {
	case err == nil:
		err = errors.Join(beside.Close(), os.Remove(beside.Name()))
		if p.in != nil {
			err = errors.Join(err, p.in.Close())
			p.in = nil
		}
	case p.in != nil:
		err = nil
	}
	return p, err
}

// beside makes a temporary file in the page's directory.
func (p *page) beside() (*os.File, error) {
	name := fmt.Sprintf(".%s.%x", filepath.Base(p.path), rand.Uint64())
	f, err := os.OpenFile(filepath.Join(filepath.Dir(p.path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		// The user knows the name that was given, not the temporary one.
		var why *fs.PathError
		if errors.As(err, &why) {
			err = &fs.PathError{Op: "create", Path: p.path, Err: why.Err}
		}
	}
	return f, err
}

// write calls write with the file, and puts the file in place.
func (p *page) write(write func(io.Writer) error) error {
	if p.in != nil {
		if err := p.in.Truncate(0); err != nil && p.mode != 0 {
			return err
		}
		return write(p.in)
	}
	f, err := p.beside()
	if err != nil {
		return err
	}
	err = write(f)
	if p.mode != 0 {
		err = errors.Join(err, f.Chmod(p.mode))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), p.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// close may be called at any time, and more than once.
func (p *page) close() error {
	if p == nil || p.in == nil {
		return nil
	}
	err := p.in.Close()
	p.in = nil
	return err
}
