package binlog

import (
	"fmt"
	"path/filepath"
	"slices"
)

// ReadPuts reads back a segment that is no longer written, for cleaning: it calls
// step with the ids of the jobs that were put in it, a few at a time, whose records
// have about bytes bytes together. step must not keep ids. Any goroutine may call
// ReadPuts. The error is the first that step returns. What cannot be read, or is
// damaged, is passed over, so step may not be told of all jobs; it is logged if that
// says something of the disk.
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
	case file.trouble != nil: // that says nothing of the disk
	case file.err != nil:
		l.unreadable(name, file.err)
	case damaged > 0:
		l.unreadable(name, fmt.Errorf("%d bytes are damaged", damaged))
	}
	return nil
}

// unreadable logs that a segment that was written cannot be read, unless that is
// known. Its file will be put aside and not removed: the disk may be dying.
func (l *Log) unreadable(name segmentName, err error) {
	known := slices.Contains(l.store.namesForAside(), name.String())
	if !isScarce(err) {
		l.store.asideLater(name.String())
	}
	if !known {
		l.store.log.Error("binlog: a segment cannot be read; its jobs, which are in memory, are written again", "file", name.String(), "err", err)
	}
}
