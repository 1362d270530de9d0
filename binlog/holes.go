package binlog

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
)

// Segments on a failing disk: what can be read of them is read, in bounded time,
// and it is known which parts could not be.

// isUnreadable tells whether an error says that the disk, or what the file system
// has on it, is damaged.
func isUnreadable(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EBADMSG, syscall.EUCLEAN, syscall.ENODATA, syscall.EILSEQ, syscall.EREMOTEIO} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// largestSegment is about how many bytes a segment may have whose file is missing
// or cannot be opened, and so how many jobs may be in it at most.
func (st *Store) largestSegment() int64 {
	return min(farBehind*max(min(st.cfg.SegmentSize, 1<<30), DefaultSegmentSize), 1<<31)
}

// openHoled opens a segment for reading. If it cannot be opened because its inode
// is damaged, its File is closed.
func (st *Store) openHoled(name segmentName, failures *int) (*holed, error) {
	f, err := st.fs.Open(filepath.Join(st.cfg.Dir, st.calledNow(name).String()))
	if isUnreadable(err) {
		f, err = closed{err: withoutName(err), size: st.largestSegment()}, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := newHoled(f, failures)
	if err != nil {
		f.Close()
	}
	return h, err
}

// closed is a file that is there and cannot be opened.
type closed struct {
	File
	err  error
	size int64 // that it may have, in bytes
}

func (f closed) ReadAt([]byte, int64) (int, error) { return 0, f.err }
func (f closed) Size() (int64, error)              { return f.size, nil }
func (f closed) Close() error                      { return nil }

// holed is a file of which the disk may not be able to read all: the parts that
// it cannot read are read as zeros, and noted as holes. A read that fails is done
// again page by page, so that a bad sector costs one page, and a passing error
// nothing.
//
// A disk takes seconds for each read that fails, so there are bounds. When
// several pages in a row cannot be read, more and more pages behind them are not
// tried: a large bad spot costs few failed reads, and at most as much again of
// what could have been read. And when failures has come to zero, the rest of a
// file is given up at the next failure.
type holed struct {
	file        File
	size        int64
	holes       []hole // in order; no two touch
	err         error  // why the last of them could not be read
	failures    *int   // how many more reads may fail, in all files that share it
	failedInRow int    // how many have failed since one that did not
	// trouble is an error that says nothing of the disk, such as a lack of memory:
	// what could not be read for that is not to be taken for damage.
	trouble error
}

// hole is a part of a file, in bytes from its beginning.
type hole struct{ from, to int64 }

// page is how many bytes of a file a system reads at least.
const page = 4096

// mostFailures is how many reads may fail in the segments of a stream.
const mostFailures = 128

// patience is how many reads fail in a row before pages are left out.
const patience = 8

func newHoled(f File, failures *int) (*holed, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return &holed{file: f, size: size, failures: failures}, nil
}

func (f *holed) Close() error { return f.file.Close() }

// ReadAt returns fewer bytes than were asked for, with io.EOF, only at the end of
// the file.
func (f *holed) ReadAt(p []byte, off int64) (n int, err error) {
	if f.intact(off, off+int64(len(p))) {
		n, err = f.file.ReadAt(p, off)
		if err == nil || err == io.EOF {
			return n, err
		}
	}
	for n < len(p) {
		got, err := f.piece(p[n:], off+int64(n))
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// piece reads up to the end of the page or hole that off is in, or nothing if it
// has made a hole there. The error is io.EOF or nil.
func (f *holed) piece(p []byte, off int64) (int, error) {
	if off >= f.size {
		return 0, io.EOF
	}
	if end := f.endOfHole(off); end > off {
		p = p[:min(int64(len(p)), end-off)]
		clear(p)
		return len(p), nil
	}
	p = p[:min(int64(len(p)), page-off%page)]
	n, err := f.file.ReadAt(p, off)
	if err != nil && err != io.EOF {
		f.fail(off, err)
		return 0, nil // the next piece is that hole
	}
	f.failedInRow = 0
	return n, err
}

// fail makes a hole of the page that could not be read, and of more behind it if
// many reads have failed.
func (f *holed) fail(off int64, err error) {
	if f.err = withoutName(err); !isUnreadable(err) {
		f.trouble = err
	}
	from := off - off%page
	to := from + page<<max(0, min(f.failedInRow-patience, 40))
	f.failedInRow++
	if *f.failures--; *f.failures <= 0 {
		to = f.size
	}
	f.dig(hole{from, min(to, f.size)})
}

// withoutName returns an error without the name of its file, with which the
// report of it begins anyway.
func withoutName(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// dig adds a hole, and joins those that touch.
func (f *holed) dig(h hole) {
	f.holes = append(f.holes, h)
	slices.SortFunc(f.holes, func(a, b hole) int { return cmp.Compare(a.from, b.from) })
	all := f.holes[:1]
	for _, h := range f.holes[1:] {
		if last := &all[len(all)-1]; h.from <= last.to {
			last.to = max(last.to, h.to)
		} else {
			all = append(all, h)
		}
	}
	f.holes = all
}

// intact tells whether no hole is known between two offsets.
func (f *holed) intact(from, to int64) bool {
	return !slices.ContainsFunc(f.holes, func(h hole) bool { return h.from < to && from < h.to })
}

// endOfHole returns where the hole ends that an offset is in; the offset itself
// if it is in none.
func (f *holed) endOfHole(off int64) int64 {
	for _, h := range f.holes {
		if h.from <= off && off < h.to {
			return h.to
		}
	}
	return off
}

// header returns the bytes of a segment's header, fewer if the file is shorter.
// It is read by itself, so that no bad spot behind it can make that fail.
func (f *holed) header() []byte {
	b := make([]byte, segmentHeader)
	n, _ := f.ReadAt(b, 0)
	return b[:n]
}

// allHoles tells whether nothing of the file can be read.
func (f *holed) allHoles() bool {
	b := make([]byte, 1)
	for at := int64(0); at < f.size; at = f.endOfHole(at) {
		if _, _ = f.ReadAt(b, at); f.intact(at, at+1) {
			return false
		}
	}
	return f.size > 0
}
