package binlog

import (
	"bytes"
	"io"
)

// stills opens files as they are at that moment, for who reads beside a server
// that goes on to write them.
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

// still is a segment as it was when it was opened. What is written to one comes
// behind all that is there, where there are zeros or nothing, and a block is
// written when the one before it is. So what comes before a byte that is not
// zero has been written, all but the block that the byte is in; and it is read
// after that byte was. Read the other way round there may be zeros, and behind
// them what was written in their place and after them, which is what damage
// looks like. What a server adds later reads as zeros, and so does what it cuts
// off: what a segment has behind its last block when it is done, or a block that
// a crash has cut off.
type still struct {
	File
	size int64
	end  int64 // of what was written
}

// written returns where the zeros begin that a file ends with. What cannot be
// read is none.
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

// moved tells whether something was written to the file, or cut off it, since.
func (s *still) moved() bool {
	size, err := s.File.Size()
	return err == nil && (size != s.size || written(s.File, size) != s.end)
}
