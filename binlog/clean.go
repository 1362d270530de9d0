package binlog

import (
	"path/filepath"
)

// ReadPuts reads a segment back that is no longer written, for cleaning: it
// calls step with the ids of the jobs that were put in it, some at a time:
// together their records have about that many bytes. Any goroutine may call it.
// Damage, and what cannot be read, is passed over: jobs of which it does not tell
// may be in there.
func (l *Log) ReadPuts(segment uint64, bytes int, step func(ids []uint64) error) error {
	name := segmentName{l.stream.epoch, l.stream.shard, segment}
	f, err := l.store.fs.Open(filepath.Join(l.store.cfg.Dir, name.String()))
	if err != nil {
		return err
	}
	defer f.Close()
	failures := mostFailures
	file, err := newHoled(f, &failures)
	if err != nil {
		return err
	}
	sc := newScanner(file, segmentSeed(l.store.id, name), func(from, to int64) {})
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
		return step(ids)
	}
	return nil
}
