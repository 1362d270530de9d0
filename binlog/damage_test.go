package binlog_test

// A directory that is not as it was written: what is wrong is told, with file
// and offset, all else is saved, and nothing is served that was not written.

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// history is the directory of two shards after three lives of a server, in
// which one log went on from one segment to another. The last one was killed.
func history(t testing.TB) map[string]string {
	t.Helper()
	f := faultfs.New()
	cfg := config(f, 2)
	cfg.Compression = binlog.S2
	s := serve(t, cfg)
	for id := uint64(1); id <= 6; id++ {
		s.does(int(id%2), func(l *binlog.Log) { l.Put(job(id, "a", fmt.Sprint("body ", id))) })
	}
	s.does(1, func(l *binlog.Log) {
		l.Change(&binlog.Meta{ID: 1, State: binlog.Buried, At: 1, Pri: 7, Reserves: 1, Buries: 1})
		l.Change(&binlog.Meta{ID: 3, State: binlog.Delayed, At: 1_900_000_000_000_000_000, Delay: 1000, Releases: 1})
	})
	s.rolls(0, 7)
	s.does(0, func(l *binlog.Log) { l.Delete(2) })
	s.does(0, func(l *binlog.Log) { l.Put(job(8, "b", strings.Repeat("eight", 200))) }) // is compressed
	s.does(0, func(l *binlog.Log) { l.Put(job(10, "b", noise(700))) })
	s.close()
	s = serve(t, cfg)
	s.does(0, func(l *binlog.Log) { l.Put(job(12, "b", "twelve")) })
	s.does(1, func(l *binlog.Log) { l.Put(job(9, "b", strings.Repeat("nine", 100))) })
	s.does(1, func(l *binlog.Log) { l.Put(job(11, "b", noise(600))) })
	s.does(1, func(l *binlog.Log) { l.Delete(5) })
	s.close()
	s = serve(t, cfg)
	s.does(0, func(l *binlog.Log) { l.Put(job(14, "b", "fourteen")) })
	s.does(0, func(l *binlog.Log) { l.Put(job(16, "b", "sixteen")) })
	s.does(1, func(l *binlog.Log) { l.Put(job(13, "b", noise(600))) })
	s.does(1, func(l *binlog.Log) { l.Put(job(15, "b", "fifteen")) })
	s.halt(f)
	return files(t, f)
}

// A stream's segments, by shard, in order.
func streams(files map[string]string) (all [2][]string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case strings.HasPrefix(name, "segment.1.0."):
			all[0] = append(all[0], name)
		case strings.HasPrefix(name, "segment.1.1."):
			all[1] = append(all[1], name)
		}
	}
	return all
}

// without returns the jobs of a history without some of its blocks.
func without(files map[string]string, lost func(file string, b binlog.Block) bool) *jobs {
	all := noJobs()
	for _, stream := range streams(files) {
		one := noJobs()
		for _, name := range stream {
			for _, b := range binlog.Blocks([]byte(files[name])) {
				if !lost(name, b) {
					b.Replay(one, 0)
				}
			}
		}
		maps.Copy(all.of, one.of)
	}
	return all
}

func nothing(string, binlog.Block) bool { return false }

// with returns a history with another content of a file.
func with(files map[string]string, name, data string) map[string]string {
	c := maps.Clone(files)
	c[name] = data
	return c
}

// at tells where damages are.
func at(damages []binlog.Damage) string {
	var all []string
	for _, d := range damages {
		all = append(all, fmt.Sprintf("%s at %d", d.File, d.Offset))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// finds reads a directory back that is damaged in these places, and has these
// jobs.
func finds(t testing.TB, f *faultfs.FS, want *jobs, places ...string) {
	t.Helper()
	got, damages := readBack(t, config(f, 2))
	slices.Sort(places)
	if where := at(damages); where != strings.Join(places, ", ") {
		t.Fatalf("damage is found at %q, it is at %q:\n%v", where, strings.Join(places, ", "), damages)
	}
	if !maps.EqualFunc(got.of, want.of, sameJob) {
		got.same(t, want)
	}
}

// sameJob is reflect.DeepEqual, but fast.
func sameJob(a, b binlog.Job) bool {
	return a.Meta == b.Meta && a.TTR == b.TTR && a.Created == b.Created && a.Tube == b.Tube && bytes.Equal(a.Body, b.Body) &&
		a.Task == b.Task && a.Unique == b.Unique && a.Reducer == b.Reducer
}

func place(file string, off int64) string { return fmt.Sprintf("%s at %d", file, off) }

func TestNoDamage(t *testing.T) {
	all := history(t)
	want := without(all, nothing)
	if ids := slices.Sorted(maps.Keys(want.of)); !slices.Equal(ids, []uint64{1, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
		t.Fatalf("the history has jobs %d", ids)
	}
	finds(t, disk(all), want)
}

// TestEveryFlippedBit flips one bit of each byte of each file.
func TestEveryFlippedBit(t *testing.T) {
	all := history(t)
	f := disk(all)
	whole := without(all, nothing)
	for name, data := range all {
		want, where := whole, place(name, 0)
		blocks := binlog.Blocks([]byte(data))
		for off := range int64(len(data)) {
			if len(blocks) > 0 && blocks[0].At == off {
				where = place(name, off)
				want = without(all, func(file string, b binlog.Block) bool { return file == name && b.At == off })
				blocks = blocks[1:]
			}
			bit := off*8 + off%8
			path := filepath.Join(dir, name)
			f.Flip(path, bit)
			finds(t, f, want, where)
			f.Flip(path, bit)
		}
	}
}

// TestFlippedBitInAChangeAtTheEnd: the last block ends with the zeros of
// counters, and yet it is no torn one.
func TestFlippedBitInAChangeAtTheEnd(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "body")) })
	s.does(0, func(l *binlog.Log) {
		l.Change(&binlog.Meta{ID: 1, State: binlog.Buried, At: 1, Reserves: 1, Buries: 1})
	})
	s.close()
	name := segments(t, f)[0]
	path := filepath.Join(dir, name)
	last := binlog.Blocks(f.Read(path))[1]
	for off := last.At; off < last.End; off++ {
		f.Flip(path, off*8)
		if _, damages := readBack(t, config(f, 1)); at(damages) != place(name, last.At) {
			t.Fatalf("with a bit flipped at %d of %d..%d damage is found at %q", off, last.At, last.End, at(damages))
		}
		f.Flip(path, off*8)
	}
}

// TestFlippedBitBeforeAnUnbegunSegment: a killed server has left the next one
// ready, and so the damaged one is not the last file.
func TestFlippedBitBeforeAnUnbegunSegment(t *testing.T) {
	all := history(t)
	name := streams(all)[0][len(streams(all)[0])-1]
	f := disk(with(all, "segment.1.0.00000099", strings.Repeat("\x00", 1000)))
	blocks := binlog.Blocks([]byte(all[name]))
	last := blocks[len(blocks)-1]
	f.Flip(filepath.Join(dir, name), 8*last.At+400)
	finds(t, f, without(all, func(file string, b binlog.Block) bool { return file == name && b.At == last.At }), place(name, last.At))
}

// TestTruncated cuts each segment off at each byte. At the end of a stream that
// is what a crash does, but for the header; elsewhere it is damage where the last
// whole block ends.
func TestTruncated(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		for i, name := range stream {
			data, f := all[name], disk(all)
			end := int64(binlog.SegmentHeader)
			left := func() *jobs {
				return without(all, func(file string, b binlog.Block) bool { return file == name && b.End > end })
			}
			want, blocks := left(), binlog.Blocks([]byte(data))
			for size := range int64(len(data)) {
				if len(blocks) > 0 && blocks[0].End == size {
					end, blocks = size, blocks[1:]
					want = left()
				}
				var where []string
				switch {
				case len(blocks) == 1 && blocks[0].Roll(): // nothing is lost
				case size < binlog.SegmentHeader:
					where = []string{place(name, 0)} // all of it
				case i == len(stream)-1:
				default:
					where = []string{place(name, end)}
				}
				f.Write(filepath.Join(dir, name), []byte(data[:size]))
				finds(t, f, want, where...)
			}
		}
	}
}

// TestTorn: a block at the end that was not written to its end is no damage,
// also if zeros are behind it.
func TestTorn(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		name := stream[len(stream)-1]
		data := all[name]
		blocks := binlog.Blocks([]byte(data))
		last := blocks[len(blocks)-1]
		want := without(all, func(file string, b binlog.Block) bool { return file == name && b.At == last.At })
		for size := last.At; size < last.End; size++ {
			for _, zeros := range []int64{last.End - size, 1, 500, 10000} {
				finds(t, disk(with(all, name, data[:size]+strings.Repeat("\x00", int(zeros)))), want)
			}
		}
		finds(t, disk(with(all, name, data+strings.Repeat("\x00", 10000))), without(all, nothing))
	}
}

// TestTornIsCutOff: the server goes on behind the last whole block, and what it
// writes is read back by the next.
func TestTornIsCutOff(t *testing.T) {
	all := history(t)
	name := streams(all)[0][len(streams(all)[0])-1]
	data := all[name]
	blocks := binlog.Blocks([]byte(data))
	last := blocks[len(blocks)-1]
	f := disk(with(all, name, data[:last.End-3]+strings.Repeat("\x00", 4000)))
	s := serve(t, config(f, 2))
	s.does(0, func(l *binlog.Log) { l.Put(job(20, "c", "twenty")) })
	s.close()
	cut := f.Read(filepath.Join(dir, name))
	if left := binlog.Blocks(cut); !bytes.HasPrefix(cut, []byte(data[:last.At])) || left[len(left)-1].End != int64(len(cut)) {
		t.Errorf("the torn segment has %d bytes now, which are not %d and whole blocks", len(cut), last.At)
	}
	got, damages := readBack(t, config(f, 2))
	if len(damages) > 0 || got.of[20].ID != 20 || got.of[16].ID != 0 {
		t.Errorf("after another life: %v\n%s", damages, got)
	}
}

// TestTornWithAHole: of a large block at the end any sectors may be missing.
func TestTornWithAHole(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
	s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", noise(3000))) })
	s.halt(f)
	path := filepath.Join(dir, segments(t, f)[0])
	data := f.Read(path)
	first := binlog.Blocks(data)[0]
	for from := 0; from < len(data); from += 512 {
		if torn := bytes.Clone(data); int64(from) < first.End {
			clear(torn[first.End:512]) // the rest of the sector was there before
			f.Write(path, torn)
		} else {
			clear(torn[from:min(from+512, len(torn))])
			f.Write(path, torn)
		}
		if got, damages := readBack(t, config(f, 1)); len(got.of) != 1 || len(damages) > 0 {
			t.Errorf("without the sector at %d %d jobs are there: %v", from, len(got.of), damages)
		}
	}
}

// TestBlockIsGone takes each block out of its segment, as if it had never been
// there.
func TestBlockIsGone(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		for i, name := range stream {
			data := all[name]
			blocks := binlog.Blocks([]byte(data))
			for n, b := range blocks {
				var where []string
				if n < len(blocks)-1 || i < len(stream)-1 && !b.Roll() {
					where = append(where, place(name, b.At))
				}
				want := without(all, func(file string, k binlog.Block) bool { return file == name && k.At == b.At })
				finds(t, disk(with(all, name, data[:b.At]+data[b.End:])), want, where...)
			}
		}
	}
}

// TestBlockTwice: what comes again, or too late, is not believed.
func TestBlockTwice(t *testing.T) {
	f := faultfs.New()
	s := serve(t, config(f, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
	s.does(0, func(l *binlog.Log) { l.Delete(1) })
	s.close()
	path := filepath.Join(dir, segments(t, f)[0])
	data := f.Read(path)
	put := binlog.Blocks(data)[0]
	f.Write(path, append(bytes.Clone(data), data[put.At:put.End]...))
	got, damages := readBack(t, config(f, 1))
	if len(got.of) > 0 || at(damages) != place(filepath.Base(path), int64(len(data))) {
		t.Errorf("damage is found at %q, and jobs\n%s", at(damages), got)
	}
}

// TestBlockInABody: whoever puts a job whose body looks like a block, with the
// number that comes next, does not get it read as one, whatever bit flips.
func TestBlockInABody(t *testing.T) {
	forged := faultfs.New()
	s := serve(t, config(forged, 1))
	s.does(0, func(l *binlog.Log) { l.Put(job(666, "a", "forged")) })
	s.close()
	data := forged.Read(filepath.Join(dir, segments(t, forged)[0]))
	k := binlog.Blocks(data)[0]
	body := "xxxxxxxx"
	for seq := range uint64(5) {
		body += string(k.Reseal(data, seq))
	}

	f := faultfs.New()
	s = serve(t, config(f, 1))
	for id := uint64(1); id <= 3; id++ {
		s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", body)) })
	}
	s.close()
	path := filepath.Join(dir, segments(t, f)[0])
	b := binlog.Blocks(f.Read(path))[1]
	for off := b.At; off < b.End; off++ {
		f.Flip(path, off*8)
		if got, _ := readBack(t, config(f, 1)); got.of[666].ID != 0 {
			t.Fatalf("with a bit flipped at %d of %d..%d a body is read as a block", off, b.At, b.End)
		}
		f.Flip(path, off*8)
	}
}

// TestZeroedSectors loses sectors that had been written.
func TestZeroedSectors(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		for i, name := range stream {
			data := all[name]
			for from := 0; from < len(data); from += 512 {
				to := min(from+512, len(data))
				zeroed := data[:from] + strings.Repeat("\x00", to-from) + data[to:]
				var gone []binlog.Block
				kept := false // something behind the hole
				for _, b := range binlog.Blocks([]byte(data)) {
					if b.At < int64(to) && b.End > int64(from) {
						gone = append(gone, b)
					} else if b.At >= int64(to) {
						kept = true
					}
				}
				var where []string
				switch {
				case kept && from == 0:
					where = []string{place(name, 0), place(name, gone[0].At)}
				case kept:
					where = []string{place(name, gone[0].At)}
				case from == 0:
					where = []string{place(name, 0)} // all of it
				case i < len(stream)-1:
					where = []string{place(name, gone[0].At)}
				}
				want := without(all, func(file string, b binlog.Block) bool {
					return file == name && slices.ContainsFunc(gone, func(g binlog.Block) bool { return g.At == b.At })
				})
				finds(t, disk(with(all, name, zeroed)), want, where...)
			}
		}
	}
}

func TestGarbageAtTheEnd(t *testing.T) {
	all := history(t)
	for _, stream := range streams(all) {
		for _, name := range stream {
			for _, garbage := range []string{noise(100), noise(5000), strings.Repeat("\xff", 32), strings.Repeat("\xff", 5000)} {
				f := disk(with(all, name, all[name]+garbage))
				blocks := binlog.Blocks([]byte(all[name]))
				if blocks[len(blocks)-1].Roll() {
					finds(t, f, without(all, nothing)) // it is known that nothing comes any more
				} else {
					finds(t, f, without(all, nothing), place(name, int64(len(all[name]))))
					_, damages := readBack(t, config(f, 2))
					if want := fmt.Sprintf("the last %d bytes are damaged: the jobs and changes recorded there are lost", len(garbage)); damages[0].What != want {
						t.Errorf("it is said that %s, want %s", damages[0].What, want)
					}
				}
			}
		}
	}
}

// TestDamageIsSaid in words that tell what is lost.
func TestDamageIsSaid(t *testing.T) {
	all := history(t)
	name := streams(all)[0][0]
	data := all[name]
	blocks := binlog.Blocks([]byte(data))
	first := blocks[0]
	missing := "1 block is missing"
	if n := len(blocks) - 2; n > 1 {
		missing = fmt.Sprintf("%d blocks are missing", n)
	}
	flip := func(off int64) string { return data[:off] + string([]byte{data[off] ^ 1}) + data[off+1:] }
	for what, tc := range map[string]struct{ data, said string }{
		"header":        {flip(20), "the header, 88 bytes, is damaged: what follows it is read all the same"},
		"block":         {flip(first.At + 40), fmt.Sprintf("%d bytes are damaged: the jobs and changes recorded there are lost", first.End-first.At)},
		"missing":       {"", "the file is missing: the jobs and changes recorded there are lost"},
		"block is gone": {data[:first.At] + data[first.End:], "1 block is missing in front of this one: the jobs and changes recorded there are lost"},
		"cut":           {data[:first.End], "the end of the file is cut off, " + missing + ": the jobs and changes recorded there are lost"},
		"twice":         {data + data[first.At:first.End], fmt.Sprintf("a block of %d bytes has been read before, or is out of place: it is ignored", first.End-first.At)},
		"another":       {all[streams(all)[1][0]], "it is " + streams(all)[1][0] + " under another name: the file is ignored"},
	} {
		f := disk(with(all, name, tc.data))
		if tc.data == "" {
			if err := f.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if _, damages := readBack(t, config(f, 2)); len(damages) == 0 || damages[0].What != tc.said {
			t.Errorf("%s: %q, want %q", what, damages, tc.said)
		}
	}
}

// TestShortHeader: a file that is too short for a header stays so. With zeros
// behind it, what stands where the version is would be taken for one.
func TestShortHeader(t *testing.T) {
	all := history(t)
	for shard, stream := range streams(all) {
		short, last := stream[len(stream)-2], stream[len(stream)-1]
		// The last one does not count: it is of the other shard.
		rest := with(all, last, all[streams(all)[1-shard][0]])
		rest[short] = "sheaflog" + strings.Repeat("x", binlog.SegmentHeader-11)
		f := disk(rest)
		told := func() {
			t.Helper()
			if _, damages := readBack(t, config(f, 2)); !strings.Contains(at(damages), place(short, 0)) {
				t.Errorf("damage is found at %q", at(damages))
			}
		}
		told()
		serve(t, config(f, 2)).close()
		told()
	}
}

// TestLastIsMissing: what a server writes that misses the last segment of a shard
// has a file, numbers and ids of its own, so that nothing is lost when that comes
// back; and until then each start says the same.
func TestLastIsMissing(t *testing.T) {
	for _, begun := range []bool{false, true} { // by a start, or by the server before
		f := faultfs.New()
		s := serve(t, config(f, 1))
		s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
		if begun {
			s.close()
			s = serve(t, config(f, 1))
		} else {
			s.rolls(0, 2)
		}
		s.does(0, func(l *binlog.Log) { l.Put(job(3, "a", "three")) })
		s.halt(f)
		all := segments(t, f)
		last := filepath.Join(dir, all[len(all)-1])
		data := f.Read(last)
		if err := f.Remove(last); err != nil {
			t.Fatal(err)
		}
		want := []string{all[len(all)-1] + " at offset 0: the file is missing: the jobs and changes recorded there are lost"}
		said := func() (got []string) {
			_, damages := readBack(t, config(f, 1))
			for _, d := range damages {
				got = append(got, d.String())
			}
			return got
		}
		next := uint64(0)
		for range 3 {
			if got := said(); !slices.Equal(got, want) {
				t.Errorf("begun by a start: %t: %q, want %q", begun, got, want)
			}
			s = serve(t, config(f, 1))
			next = max(next, s.store.LastID()) + 1
			s.does(0, func(l *binlog.Log) { l.Put(job(next, "a", "new")) })
			s.halt(f)
		}
		if next < 100 {
			t.Errorf("begun by a start: %t: id %d is given, and may have been given before", begun, next)
		}
		if f.Read(last) != nil {
			t.Fatalf("begun by a start: %t: %s was made again", begun, last)
		}
		f.Write(last, data)
		got, damages := readBack(t, config(f, 1))
		if len(got.of) != 5 || len(damages) > 0 {
			t.Errorf("begun by a start: %t: put back, there are\n%s\n%v", begun, got, damages)
		}
	}
}
