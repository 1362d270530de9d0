package router

import (
	"bytes"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// command returns a random command of a client that uses a tube on shard s. It
// concerns that shard only.
func (d *durRun) command(c *durClient, s int) shard.Request {
	var here, held, shelved, others []*durJob
	for _, j := range d.model.alive {
		if j.shard != s {
			continue
		}
		here = append(here, j)
		switch {
		case j.holder == c:
			held = append(held, j)
		case j.state == "buried", j.state == "delayed":
			shelved = append(shelved, j)
		default:
			others = append(others, j)
		}
	}
	some := func(lists ...[]*durJob) uint64 {
		for _, l := range lists {
			if len(l) > 0 {
				return l[d.rng.IntN(len(l))].id
			}
		}
		last := d.router.directory.LastID()
		if id := 1 + d.rng.Uint64N(last+1); !d.isPending(id) && (d.model.jobs[id] == nil || d.model.jobs[id].shard == s) {
			return id
		}
		return last + 1
	}
	pri, delay := d.pri(), uint32(0)
	if d.rng.IntN(4) == 0 {
		delay = d.delay()
	}
	n := d.rng.IntN(100)
	if len(d.model.alive) > d.most && d.rng.IntN(3) > 0 {
		n = 84 + d.rng.IntN(8) // a delete
	}
	switch {
	case n < 28:
		return d.put(c, delay)
	case n < 40:
		if c.one == s {
			return shard.Request{Op: shard.Reserve}
		}
		return shard.Request{Op: shard.ReserveJob, ID: some(here)}
	case n < 46:
		return shard.Request{Op: shard.ReserveJob, ID: some(shelved, here)}
	case n < 58:
		return shard.Request{Op: shard.Release, ID: some(held, here), Pri: pri, Delay: delay}
	case n < 70:
		return shard.Request{Op: shard.Bury, ID: some(held, here), Pri: pri}
	case n < 73:
		return shard.Request{Op: shard.Kick, N: uint64(d.rng.IntN(4))}
	case n < 78:
		return shard.Request{Op: shard.KickJob, ID: some(shelved, here)}
	case n < 81:
		return shard.Request{Op: shard.Touch, ID: some(held, here)}
	case n < 84:
		return shard.Request{Op: shard.Peek, ID: some(here)}
	case n < 86:
		return shard.Request{Op: shard.Delete, ID: some(here)}
	case n < 92: // so that there are old ones among the buried
		return shard.Request{Op: shard.Delete, ID: some(others, here)}
	case n < 99:
		return shard.Request{Op: shard.Delete, ID: some(held, here)}
	}
	return shard.Request{Op: shard.Delete, ID: some()}
}

func (d *durRun) put(c *durClient, delay uint32) shard.Request {
	r := shard.Request{Op: shard.Put, Pri: d.pri(), Delay: delay, TTR: d.ttr(), Body: d.body()}
	c.Begin(&r)
	return r
}

func (d *durRun) pri() uint32 {
	switch d.rng.IntN(3) {
	case 0:
		return uint32(d.rng.IntN(3))
	case 1:
		return 1<<32 - 1
	}
	return d.rng.Uint32()
}

func (d *durRun) ttr() uint32 {
	if d.rng.IntN(3) == 0 {
		return uint32(1 + d.rng.IntN(4))
	}
	return uint32(1 + d.rng.IntN(1<<20))
}

// delay returns one that ends when no other does.
func (d *durRun) delay() uint32 {
	s := uint32(1 + d.rng.IntN(5))
	if d.rng.IntN(3) == 0 {
		s = 1 + uint32(d.rng.IntN(1<<20))
	}
	for d.model.delayed(d.now() + int64(s)*int64(time.Second)) {
		s++
	}
	return s
}

// body returns one that may look like anything, a part of a binlog as well.
func (d *durRun) body() []byte {
	n := d.rng.IntN(100)
	switch d.rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6:
		n = d.rng.IntN(2000)
	case 7:
		if !d.full && d.rng.IntN(3) == 0 {
			n = 50_000
		}
	}
	b := make([]byte, n, n+2)
	switch d.rng.IntN(5) {
	case 0: // all zeros
	case 1:
		copy(b, bytes.Repeat([]byte("\x5b\xee\x73\x66sheaflog"), n/12+1))
	case 2:
		copy(b, bytes.Repeat([]byte("words and words\r\n"), n/17+1))
	default:
		for i := range b {
			b[i] = byte(d.rng.Uint32())
		}
		if n > 0 && d.rng.IntN(2) == 0 {
			clear(b[d.rng.IntN(n):])
		}
	}
	return append(b, '\r', '\n')
}
