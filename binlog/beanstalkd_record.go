package binlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// How one file of beanstalkd's is taken apart into records. beanstalkd.go has their
// format, and what becomes of them.

// beanstalkdRecord is one record.
type beanstalkdRecord struct {
	id                                          uint64
	pri                                         uint32
	delay, ttr                                  int64
	size                                        int32 // of the body, with its CRLF
	created, deadline                           int64
	reserves, timeouts, releases, buries, kicks uint32
	state                                       uint8

	name []byte // of the tube, as read: none in a change; memory of the scanner
	tube string // the same, in a beanstalkdJob
	body []byte // without its CRLF
}

// decode reads all but the name and the body.
func (rec *beanstalkdRecord) decode(b []byte) {
	le := binary.LittleEndian
	*rec = beanstalkdRecord{
		id: le.Uint64(b), pri: le.Uint32(b[8:]), delay: int64(le.Uint64(b[16:])), ttr: int64(le.Uint64(b[24:])),
		size: int32(le.Uint32(b[32:])), created: int64(le.Uint64(b[40:])), deadline: int64(le.Uint64(b[48:])),
		reserves: le.Uint32(b[56:]), timeouts: le.Uint32(b[60:]), releases: le.Uint32(b[64:]),
		buries: le.Uint32(b[68:]), kicks: le.Uint32(b[72:]), state: b[beanstalkdState],
	}
}

// mostBeanstalkdID is above all ids that beanstalkd can have come to. The ids above
// it are left for new jobs.
const mostBeanstalkdID = 1 << 62

// nonsense says what in a record beanstalkd cannot have written, and nothing if it
// can have written all of it.
func (rec *beanstalkdRecord) nonsense() string {
	switch {
	case rec.id == 0:
		return "a record without a job id"
	case rec.id > mostBeanstalkdID:
		return fmt.Sprintf("a record of job %d, more than a server can have come to", rec.id)
	case rec.state > beanstalkdDelayed:
		return fmt.Sprintf("a record of job %d with state %d", rec.id, rec.state)
	case rec.size < 2 || rec.size > maxBeanstalkdBody:
		return fmt.Sprintf("a record of job %d with a body of %d bytes", rec.id, rec.size)
	case !beanstalkdSeconds(rec.delay) || !beanstalkdSeconds(rec.ttr):
		return fmt.Sprintf("a record of job %d with a delay of %d ns and a ttr of %d ns", rec.id, rec.delay, rec.ttr)
	case rec.created <= 0 || rec.deadline < 0 || rec.state == beanstalkdDelayed && rec.deadline == 0:
		return fmt.Sprintf("a record of job %d with times %d and %d", rec.id, rec.created, rec.deadline)
	case len(rec.name) > 0 && !beanstalkdName(rec.name):
		return fmt.Sprintf("a record of job %d in tube %q", rec.id, rec.name)
	}
	return ""
}

// beanstalkdSeconds tells whether a time can be what a client has given.
func beanstalkdSeconds(ns int64) bool {
	return ns >= 0 && ns%int64(time.Second) == 0 && ns/int64(time.Second) <= math.MaxUint32
}

func beanstalkdName(name []byte) bool {
	for _, c := range name {
		if ('0' > c || c > '9') && ('A' > c || c > 'Z') && ('a' > c || c > 'z') && strings.IndexByte("-+/;.$_()", c) < 0 {
			return false
		}
	}
	return name[0] != '-'
}

// beanstalkdFault is a record that makes no sense.
type beanstalkdFault struct {
	what string
	torn bool // from some byte of it on nothing was ever written
}

func (f *beanstalkdFault) Error() string { return f.what }

// beanstalkdScanner goes through the records of one file.
type beanstalkdScanner struct {
	file File
	size int64
	r    *bufio.Reader
	at   int64 // where the record begins that was last looked at
	off  int64 // what was read so far ends there
	name []byte
}

func newBeanstalkdScanner(f File) (*beanstalkdScanner, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return &beanstalkdScanner{file: f, size: size, r: bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 1<<16)}, nil
}

// foreign says why the file is not one of beanstalkd's that can be read, and
// nothing if it is one. It is called before anything is read.
func (s *beanstalkdScanner) foreign() (what string, err error) {
	head, err := s.peek(4)
	if err != nil {
		return "", err
	}
	what = "too short to be a file of beanstalkd's"
	if len(head) == 4 {
		v := int32(binary.LittleEndian.Uint32(head))
		if v == beanstalkdVersion {
			return "", nil
		}
		what = fmt.Sprintf("version %d of beanstalkd's format, only %d is known", v, beanstalkdVersion)
	}
	if unused, err := s.zeros(0); unused || err != nil {
		return "", err
	}
	return what, nil
}

// next reads one record. The error is io.EOF at the end, a *beanstalkdFault if what
// is there makes no sense, or else one of the file system.
func (s *beanstalkdScanner) next(rec *beanstalkdRecord) error {
	if s.off == 0 {
		what, err := s.foreign()
		if err != nil {
			return err
		}
		if what != "" {
			return &beanstalkdFault{what: what}
		}
		s.skip(int(min(4, s.size)))
	}
	s.at = s.off
	head, err := s.peek(4)
	if err != nil {
		return err
	}
	name := 0
	if len(head) == 4 {
		if n := int32(binary.LittleEndian.Uint32(head)); n >= 0 && n <= maxBeanstalkdName {
			name = int(n)
		} else {
			return &beanstalkdFault{what: fmt.Sprintf("a tube's name of %d bytes", n)}
		}
	}
	whole := 4 + name + beanstalkdFixed
	if head, err = s.peek(whole); err != nil {
		return err
	}
	if len(head) < whole {
		if end, err := s.zeros(s.at); err != nil || end {
			return cmp.Or(err, io.EOF)
		}
		return &beanstalkdFault{"the file ends within a record", true}
	}
	rec.decode(head[4+name:])
	if rec.id == 0 {
		if end, err := s.zeros(s.at); err != nil || end {
			return cmp.Or(err, io.EOF)
		}
	}
	// head is in the reader's buffer, which reading the body overwrites.
	s.name = append(s.name[:0], head[4:4+name]...)
	rec.name = s.name
	if what := rec.nonsense(); what != "" {
		return s.fault(s.at+int64(whole)-beanstalkdFixed+beanstalkdState, what)
	}
	s.skip(whole)
	if name == 0 {
		return nil
	}
	return s.body(rec)
}

// body reads the body that follows the record.
func (s *beanstalkdScanner) body(rec *beanstalkdRecord) error {
	if int64(rec.size) > s.size-s.off {
		// A record that goes on behind the end of its file was torn there; unless the file
		// ends with zeros that were set aside, for then all of the record has been written
		// and its size is wrong.
		f := &beanstalkdFault{fmt.Sprintf("the body of job %d, of %d bytes, ends outside of the file", rec.id, rec.size), true}
		if s.size-s.off >= beanstalkdFixed {
			aside, err := s.zeros(s.size - beanstalkdFixed)
			if err != nil {
				return err
			}
			f.torn = !aside
		}
		return f
	}
	b := make([]byte, rec.size)
	if _, err := io.ReadFull(s.r, b); err != nil {
		return unexpected(err)
	}
	s.off += int64(rec.size)
	var ok bool
	if rec.body, ok = bytes.CutSuffix(b, []byte("\r\n")); !ok {
		return s.fault(s.off-1, fmt.Sprintf("the body of job %d does not end where it should", rec.id))
	}
	return nil
}

// fault returns a fault that is torn if from that byte on there are only zeros.
func (s *beanstalkdScanner) fault(from int64, what string) error {
	torn, err := s.zeros(from)
	if err != nil {
		return err
	}
	return &beanstalkdFault{what, torn}
}

// peek returns the next n bytes, fewer at the end of the file.
func (s *beanstalkdScanner) peek(n int) ([]byte, error) {
	b, err := s.r.Peek(int(min(int64(n), s.size-s.off)))
	return b, unexpected(err)
}

func (s *beanstalkdScanner) skip(n int) {
	_, _ = s.r.Discard(n) // it was peeked at
	s.off += int64(n)
}

// zeros tells whether the file holds only zeros from that byte on.
func (s *beanstalkdScanner) zeros(from int64) (bool, error) {
	r := io.NewSectionReader(s.file, from, s.size-from)
	b := make([]byte, min(1<<16, max(0, s.size-from)))
	for {
		n, err := r.Read(b)
		for _, c := range b[:n] {
			if c != 0 {
				return false, nil
			}
		}
		if err == io.EOF || len(b) == 0 {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// unexpected turns io.EOF, where the file was larger a moment ago, into an error.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
