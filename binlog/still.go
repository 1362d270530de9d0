package binlog

import (
	"bytes"
	"io"
)

// stills opens files as stills, for a reader beside a server that goes on to write
// them.
type stills struct{ FS }

func (s stills) Open(name string) (File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &still{File: f, size: size, end: written(f, size)}, nil
}

// still is a segment as it was when it was opened. A server writes one block after
// the other, into zeros or behind the end of the file. So once a byte that is not
// zero has been seen, everything before it has been written, except for the block
// that the byte is in. That is why the end is looked for first, and what comes
// before it is read later. In the other order zeros might be read, and then blocks
// behind them that were written after that, which would look like damage. What a
// server adds later reads as zeros. So does what it cuts off: what was set aside
// behind the last block of a finished segment, or a block that a crash has torn.
type still struct {
	File
	size int64
	end  int64 // of what was written by then
}

// written returns where the zeros begin that a file ends with. What cannot be read
// counts as written.
func written(f File, size int64) (end int64) {
	b := make([]byte, 64<<10)
	for end = size; end > 0; {
		b := b[:min(end, int64(len(b)))]
		at := end - int64(len(b))
		n, err := f.ReadAt(b, at)
		if err != nil && err != io.EOF {
			return end
		}
		if n = len(bytes.TrimRight(b[:n], "\x00")); n > 0 {
			return at + int64(n)
		}
		end = at
	}
	return 0
}

func (s *still) Size() (int64, error) { return s.size, nil }

func (s *still) ReadAt(p []byte, off int64) (n int, err error) {
	n = int(max(0, min(int64(len(p)), s.size-off)))
	got := int(max(0, min(int64(n), s.end-off)))
	if got > 0 {
		got, err = s.File.ReadAt(p[:got], off)
		if err != nil && err != io.EOF {
			return got, err
		}
	}
	clear(p[got:n])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// moved tells whether something was written to the file, or cut off, since it was
// opened.
func (s *still) moved() bool {
	size, err := s.File.Size()
	return err == nil && (size != s.size || written(s.File, size) != s.end)
}
