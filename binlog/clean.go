package binlog

import (
	"fmt"
	"path/filepath"
	"slices"
)

// ReadPuts reads a segment back that is no longer written, for cleaning: it
// calls step with the ids of the jobs that were put in it, some at a time:
// together their records have about that many bytes. Any goroutine may call it.
// An error is one of step's. What cannot be read, or is damaged, is passed over, and
// logged if that says something of the disk: jobs of which step is not told may be in
// there.
func (l *Log) ReadPuts(segment uint64, bytes int, step func(ids []uint64) error) error {
	name := segmentName{l.stream.epoch, l.stream.shard, segment}
	f, err := l.store.fs.Open(filepath.Join(l.store.cfg.Dir, name.String()))
	if err != nil {
		l.unreadable(name, err)
		return nil
	}
	defer f.Close()
	failures := mostFailures
	file, err := newHoled(f, &failures)
	if err != nil {
		l.unreadable(name, err)
		return nil
	}
	damaged := int64(0)
	sc := newScanner(file, segmentSeed(l.store.id, name), func(from, to int64) { damaged += to - from })
	var u unpacker
	defer u.close()
	var d records
	var r record
	var ids []uint64
	sum := 0
	for {
		k, _, stored, ok := sc.next()
		if !ok {
			break
		}
		plain, err := u.unpack(&k, stored)
		if err != nil {
			continue
		}
		d.rest, d.bad = plain, false
		for before := len(plain); d.next(&r); before = len(d.rest) {
			if r.kind != kindPut {
				continue
			}
			ids = append(ids, r.job.ID)
			if sum += before - len(d.rest); sum >= bytes {
				if err := step(ids); err != nil {
					return err
				}
				ids, sum = ids[:0], 0
			}
		}
	}
	if len(ids) > 0 {
		if err := step(ids); err != nil {
			return err
		}
	}
	switch {
	case file.trouble != nil: // the file stays what it was
	case file.err != nil:
		l.unreadable(name, file.err)
	case damaged > 0:
		l.unreadable(name, fmt.Errorf("%d bytes are damaged", damaged))
	}
	return nil
}

// unreadable says that a segment that was written cannot be read, as far as that
// is news. Its file is put aside then and not removed: the disk may be dying.
func (l *Log) unreadable(name segmentName, err error) {
	known := slices.Contains(l.store.namesForAside(), name.String())
	if !isScarce(err) {
		l.store.asideLater(name.String())
	}
	if !known {
		l.store.log.Error("binlog: a segment cannot be read; its jobs, which are in memory, are written again", "file", name.String(), "err", err)
	}
}
