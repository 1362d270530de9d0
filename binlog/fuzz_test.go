package binlog_test

// Any bytes in any file: reading them ends, takes little, and serves nothing
// that was not written.

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
)

// readAnything opens a directory and reads it, and then has a server start and
// end there, which must leave a directory that is not damaged any more, but for
// what it cannot mend.
func readAnything(t testing.TB, all map[string]string) {
	size := 0
	for _, data := range all {
		size += len(data)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f := disk(all)
	st, err := binlog.Open(config(f, 2))
	if err != nil {
		return // from the future
	}
	got := replay(t, st)
	runtime.ReadMemStats(&after)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v to read %d bytes", took, size)
	}
	// A block of 8 MiB unpacked, buffers of compressors, and the tests' own.
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20+100*uint64(size) {
		t.Errorf("it took %d bytes of memory to read %d", n, size)
	}
	n := 0
	for _, j := range got.of {
		n += len(j.Tube) + len(j.Body) + len(j.Unique) + len(j.Reducer)
	}
	if n > 64<<20+100*size {
		t.Errorf("%d bytes have jobs with %d", size, n)
	}
	st.Close()
	if _, err := binlog.Dump(new(bytes.Buffer), f, dir); err != nil {
		t.Errorf("the dump of it: %v", err)
	}
}

// FuzzReplay reads any bytes as a segment in the middle of a stream, and as the
// manifest, in a directory that the newest version has written, or an old one.
func FuzzReplay(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	golden := map[bool]map[string]string{true: goldenFiles(f, 1), false: goldenFiles(f, binlog.Version)}
	for old, all := range golden {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			data := []byte(all[name])
			f.Add(old, data, []byte(all["manifest"]))
			for range 3 {
				b := bytes.Clone(data)
				for range 1 + rng.IntN(4) {
					b[rng.IntN(len(b))] = byte(rng.Uint32())
				}
				f.Add(old, b, []byte(all["manifest"]))
			}
			f.Add(old, data[:rng.IntN(len(data))], []byte("sheaf binlog 1\nepoch 1\nshards 2\nsum 00000000\n"))
		}
		f.Add(old, []byte{}, []byte{})
		f.Add(old, []byte(noise(1000)), []byte(noise(50)))
		// Headers that promise much, one at every step.
		whole := []byte(all["segment.1.0.00000001"])
		first := binlog.Blocks(whole)[4]
		f.Add(old, append(whole[:binlog.SegmentHeader:binlog.SegmentHeader], bytes.Repeat(whole[first.At:first.At+binlog.BlockHeader], 2000)...), []byte(all["manifest"]))
	}
	f.Fuzz(func(t *testing.T, old bool, segment, manifest []byte) {
		if len(segment) > 1<<20 {
			return
		}
		rest := maps.Clone(golden[old])
		rest["segment.1.0.00000003"] = string(segment)
		rest["manifest"] = string(manifest)
		readAnything(t, rest)
	})
}

// FuzzSplice takes the files of a history, and cuts, doubles, moves and flips
// what is in them as it is told, four bytes a step. A job that is still served
// is as one that was put under its id.
func FuzzSplice(f *testing.F) {
	all := history(f)
	put := puts{make(map[uint64][]string)}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, b := range binlog.Blocks([]byte(all[name])) {
			b.Replay(put, 0)
		}
	}
	f.Add([]byte{})
	for op := range byte(opsOfSplice) {
		for i := range byte(6) {
			f.Add([]byte{op, i, i + 1, 3 * i, op, 5 - i, i, 77})
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		steps := make([]byte, 4*(1+rng.IntN(5)))
		for i := range steps {
			steps[i] = byte(rng.Uint32())
		}
		f.Add(steps)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 100 {
			return
		}
		rest := maps.Clone(all)
		for ; len(steps) >= 4; steps = steps[4:] {
			splice(rest, steps)
		}
		readAnything(t, rest)
		st, err := binlog.Open(config(disk(rest), 2))
		if err != nil {
			return
		}
		defer st.Close()
		for id, j := range replay(t, st).of {
			if !slices.Contains(put.of[id], unchanging(&j)) {
				t.Errorf("job %d is served as %.200s", id, unchanging(&j))
			}
		}
		// And so it is for the server that goes on there.
		f := disk(rest)
		serve(t, config(f, 2)).close()
		readBack(t, config(f, 2))
	})
}

// puts are those of each id.
type puts struct{ of map[uint64][]string }

func (p puts) Put(j *binlog.Job, _ uint64) {
	p.of[j.ID] = append(p.of[j.ID], unchanging(j))
}
func (puts) Change(*binlog.Meta) {}
func (puts) Delete(uint64)       {}
func (puts) Drop(uint64)         {}

// unchanging is what of a job never changes.
func unchanging(j *binlog.Job) string {
	c := *j
	c.Meta, c.Body = binlog.Meta{ID: j.ID}, nil
	return fmt.Sprintf("%q %+v", j.Body, c)
}

const opsOfSplice = 8

// splice does one step.
func splice(all map[string]string, step []byte) {
	names := slices.Sorted(maps.Keys(all))
	name, other := names[int(step[1])%len(names)], names[int(step[2])%len(names)]
	data, n := all[name], int(step[3])
	cut := len(data) * n / 256
	switch step[0] % opsOfSplice {
	case 0: // a flipped bit
		if len(data) > 0 {
			b := []byte(data)
			b[cut%len(b)] ^= 1 << (step[2] % 8)
			all[name] = string(b)
		}
	case 1: // the end is gone
		all[name] = data[:cut]
	case 2: // something in the middle is gone
		all[name] = data[:cut] + data[min(cut+int(step[2]), len(data)):]
	case 3: // zeros
		all[name] = data[:cut] + string(make([]byte, 512)) + data[min(cut+512, len(data)):]
	case 4: // a file under another's name
		all[name], all[other] = all[other], all[name]
	case 5: // one behind another
		all[name] += all[other]
	case 6: // a block of another segment, with a number that fits, or without
		blocks := binlog.Blocks([]byte(all[other]))
		if len(blocks) == 0 || len(data) < binlog.SegmentHeader {
			return
		}
		k := blocks[n%len(blocks)]
		b := []byte(all[other])[k.At:k.End]
		if n%2 == 0 {
			b = k.Reseal([]byte(all[other]), uint64(n%16))
		}
		all[name] = data[:binlog.SegmentHeader] + string(b) + data[binlog.SegmentHeader:]
	case 7: // a file is gone
		delete(all, name)
		if len(all) == 0 {
			all["manifest"] = ""
		}
	}
}
