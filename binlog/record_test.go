package binlog

// Records and blocks come back as they were written, whatever is in them.

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// edgy numbers are often the least, the greatest, or where a varint grows.
func edgy32() *rapid.Generator[uint32] {
	return rapid.OneOf(rapid.Uint32(), rapid.SampledFrom([]uint32{0, 1, 127, 128, 1<<14 - 1, 1 << 31, 1<<32 - 1}))
}

func edgy64() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 127, 128, 1 << 32, 1<<63 - 1, 1<<64 - 1}))
}

func anyMeta(t *rapid.T) (m Meta) {
	m.ID = max(edgy64().Draw(t, "id"), 1)
	m.State = State(rapid.IntRange(0, 2).Draw(t, "state"))
	m.Pri = edgy32().Draw(t, "pri")
	m.Delay = edgy32().Draw(t, "delay")
	if m.State != Ready {
		m.At = int64(edgy64().Draw(t, "at"))
	}
	if rapid.Bool().Draw(t, "counted") {
		for _, n := range []*uint32{&m.Reserves, &m.Timeouts, &m.Releases, &m.Buries, &m.Kicks} {
			*n = edgy32().Draw(t, "counter")
		}
	}
	return m
}

func anyJob(t *rapid.T) *Job {
	j := &Job{
		Meta: anyMeta(t), TTR: edgy32().Draw(t, "ttr"), Created: int64(edgy64().Draw(t, "created")),
		Body: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"),
	}
	if j.Task = rapid.Bool().Draw(t, "task"); j.Task {
		j.Tube, j.Unique, j.Reducer = anyName(t, "function"), anyName(t, "unique"), anyName(t, "reducer")
	} else {
		j.Tube = string(rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "tube"))
	}
	return j
}

// anyName is of any bytes, or as long as it can be, or as where its length
// grows.
func anyName(t *rapid.T, label string) string {
	if rapid.IntRange(0, 3).Draw(t, label+" is long") == 0 {
		n := rapid.SampledFrom([]int{0, 127, 128, 255, 256, 1<<14 - 1, 1 << 14, MaxName}).Draw(t, label+" length")
		return strings.Repeat("\xfe", n)
	}
	return string(rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, label))
}

func TestRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b []byte
		var want []record
		for range rapid.IntRange(1, 8).Draw(t, "records") {
			r := record{kind: kind(rapid.IntRange(1, 5).Draw(t, "kind"))}
			before := len(b)
			switch r.kind {
			case kindPut:
				r.job = *anyJob(t)
				b = appendPut(b, &r.job)
				if n, most := len(b)-before, MostPut(len(r.job.Tube), len(r.job.Body), len(r.job.Unique)+len(r.job.Reducer)); n > most {
					t.Fatalf("a put takes %d bytes, more than %d", n, most)
				}
			case kindChange:
				r.job.Meta = anyMeta(t)
				b = appendMeta(b, kindChange, &r.job.Meta)
				if n := len(b) - before; n > maxMeta {
					t.Fatalf("a change takes %d bytes, more than %d", n, maxMeta)
				}
			default:
				r.number = edgy64().Draw(t, "number")
				b = appendNumber(b, r.kind, r.number)
			}
			want = append(want, r)
		}
		got := records{rest: slices.Clone(b)}
		for i := range want {
			var r record
			if !got.next(&r) {
				t.Fatalf("record %d of %d is not there", i, len(want))
			}
			if fmt.Sprintf("%+v", r) != fmt.Sprintf("%+v", want[i]) {
				t.Fatalf("record %d: got %+v, want %+v", i, r, want[i])
			}
		}
		if got.next(new(record)) || got.bad {
			t.Fatal("there is more than was written")
		}
		// Cut anywhere, it is as many records as are whole, and then bad.
		cut := records{rest: b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]}
		n, whole := 0, len(cut.rest)
		for cut.next(new(record)) {
			whole = len(cut.rest)
			n++
		}
		if n >= len(want) || cut.bad != (whole > 0) {
			t.Fatalf("cut off: %d records of %d, bad %v", n, len(want), cut.bad)
		}
	})
}

// TestRecordIsUsedAgain: nothing of one record shines through the next.
func TestRecordIsUsedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyJob(t), anyJob(t)
		d := records{rest: appendPut(appendPut(nil, a), b)}
		var r record
		d.next(&r)
		d.next(&r)
		r.job.Body, b.Body = append([]byte{}, r.job.Body...), append([]byte{}, b.Body...)
		if !reflect.DeepEqual(&r.job, b) {
			t.Fatalf("got %+v, want %+v", r.job, b)
		}
	})
}

// TestMostPut: it is enough for the longest record that there can be, and not
// much more. Here the body is short, which saves 4 bytes of its length.
func TestMostPut(t *testing.T) {
	const most = 1<<32 - 1
	long := strings.Repeat("x", MaxName)
	j := Job{
		Meta: Meta{ID: 1<<64 - 1, State: Buried, Pri: most, Delay: most, At: -1, Reserves: most, Timeouts: most, Releases: most, Buries: most, Kicks: most},
		TTR:  most, Created: -1, Tube: long, Body: []byte("b"), Task: true, Unique: long, Reducer: long,
	}
	if n, bound := len(appendPut(nil, &j)), MostPut(MaxName, 1, 2*MaxName); n != bound-4 {
		t.Errorf("the longest put takes %d bytes, MostPut says %d", n, bound)
	}
	j.Unique, j.Reducer, j.Task = "", "", false
	j.Tube = long[:255]
	if n, bound := len(appendPut(nil, &j)), MostPut(255, 1, 0); n > bound || n < bound-16 {
		t.Errorf("the longest put of another server's client takes %d bytes, MostPut says %d", n, bound)
	}
}

// TestRecordsAreWrittenAsTheyWere: what any version has written is written in
// the same bytes today.
func TestRecordsAreWrittenAsTheyWere(t *testing.T) {
	for version := 1; version <= Version; version++ {
		kinds := make(map[kind]int)
		paths, err := filepath.Glob(fmt.Sprintf("testdata/v%d/segment.*", version))
		must(t, err)
		for _, path := range paths {
			file, err := os.ReadFile(path)
			must(t, err)
			for _, b := range Blocks(file) {
				d := records{rest: b.plain, version1: version == 1}
				var r record
				for rest := d.rest; d.next(&r); rest = d.rest {
					var now []byte
					switch r.kind {
					case kindPut:
						now = appendPut(nil, &r.job)
					case kindChange:
						now = appendMeta(nil, kindChange, &r.job.Meta)
					default:
						now = appendNumber(nil, r.kind, r.number)
					}
					if then := rest[:len(rest)-len(d.rest)]; !bytes.Equal(now, then) {
						t.Errorf("%s, block at %d: a record is now %q, was %q", path, b.At, now, then)
					}
					kinds[r.kind]++
				}
				if d.bad {
					t.Errorf("%s, block at %d makes no sense", path, b.At)
				}
			}
		}
		if len(kinds) != 5 {
			t.Errorf("version %d: records %v", version, kinds)
		}
	}
}

func TestRecordsThatMakeNoSense(t *testing.T) {
	const task = "\x81\x01\x00\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00" // up to the function
	long := "\x80\x80\x04" + strings.Repeat("x", MaxName+1)
	for _, good := range []string{task + "\x01f\x01u\x01r\x01b", task + "\x00\x00\x00\x00"} {
		if d := (records{rest: []byte(good)}); !d.next(new(record)) || d.bad || len(d.rest) > 0 {
			t.Errorf("%q is taken for no record", good)
		}
		if d := (records{rest: []byte(good), version1: true}); d.next(new(record)) || !d.bad {
			t.Errorf("%q is taken for a record of version 1", good)
		}
	}
	for _, tc := range []struct{ what, bytes string }{
		{"a function that is not there", task + "\x05func"},
		{"a function that is too long", task + long + "\x00\x00\x00"},
		{"no length of a unique", task + "\x01f"},
		{"a unique that is not there", task + "\x01f\x05uniq"},
		{"a unique that is too long", task + "\x01f" + long + "\x00\x00"},
		{"a unique of 2^64-1 bytes", task + "\x01f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"no length of a reducer", task + "\x01f\x01u"},
		{"a reducer that is not there", task + "\x01f\x01u\x05redu"},
		{"a reducer that is too long", task + "\x01f\x01u" + long + "\x00"},
		{"a body of Gearman's that is not there", task + "\x01f\x01u\x01r\x05body"},
		{"a change by Gearman", "\x82\x01\x00\x00"},
		{"a delete by Gearman", "\x83\x01"},
		{"a drop by Gearman", "\x84\x01"},
		{"a roll by Gearman", "\x85\x01"},
		{"no kind", "\x00"},
		{"an unknown kind", "\x06\x01"},
		{"the last kind", "\x0f\x01"},
		{"an unknown state", "\x32\x01\x00\x00"},
		{"a delete with a flag", "\x13\x01"},
		{"a job without an id", "\x02\x00\x00\x00"},
		{"an endless number", "\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"a priority of 33 bits", "\x02\x01\x80\x80\x80\x80\x10\x00"},
		{"a body that is not there", "\x01\x01\x00\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x01t\x05body"},
		{"a body of 2^64-1 bytes", "\x01\x01\x00\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x01t\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"a tube that is not there", "\x01\x01\x00\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\xfft"},
	} {
		d := records{rest: []byte(tc.bytes)}
		if d.next(new(record)) || !d.bad {
			t.Errorf("%s is taken for a record", tc.what)
		}
	}
}

// TestNamesOfTubes: of each there is one string, and not more than that are
// kept.
func TestNamesOfTubes(t *testing.T) {
	var d records
	for i := range 1<<16 + 10 {
		d.rest = appendPut(nil, &Job{Meta: Meta{ID: 1}, Tube: fmt.Sprint(i)})
		var r record
		if !d.next(&r) || r.job.Tube != fmt.Sprint(i) {
			t.Fatalf("tube %d is %q", i, r.job.Tube)
		}
	}
	if len(d.names) > 1<<15 {
		t.Fatalf("%d names are kept", len(d.names))
	}
	// A few long ones are as much as many short ones.
	for i := range 1000 {
		reducer := fmt.Sprint(strings.Repeat("x", MaxName-10), i)
		d.rest = appendPut(nil, &Job{Meta: Meta{ID: 1}, Tube: "a", Task: true, Reducer: reducer})
		var r record
		if !d.next(&r) || r.job.Tube != "a" || r.job.Reducer != reducer {
			t.Fatalf("reducer %d is %q", i, r.job.Reducer)
		}
		kept := 0
		for name := range d.names {
			kept += len(name)
		}
		if kept > 1<<24 {
			t.Fatalf("%d bytes of names are kept", kept)
		}
	}
}

func TestBlocks(t *testing.T) {
	for _, c := range []Compression{None, S2, Zstd} {
		p, u := packer{compression: c}, unpacker{}
		rapid.Check(t, func(t *rapid.T) {
			var plain []byte
			switch rapid.IntRange(0, 2).Draw(t, "of") {
			case 0:
				plain = rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "bytes")
			case 1:
				plain = bytes.Repeat([]byte(rapid.String().Draw(t, "text")), rapid.IntRange(0, 2000).Draw(t, "times"))
			case 2:
				plain = make([]byte, rapid.SampledFrom([]int{0, 1, minCompressed - 1, minCompressed, 1 << 16, maxPlain, maxPlain + 1}).Draw(t, "zeros"))
			}
			seq := edgy64().Draw(t, "seq")
			b := p.pack(append(make([]byte, blockHeader), plain...), seq, 7)
			k, ok := decodeBlock(b, 7)
			if !ok || k.seq != seq || k.stored != len(b)-blockHeader || k.plain != len(plain) || k.stored > k.plain+1 {
				t.Fatalf("%d bytes as %s: %+v, %v", len(plain), c, k, ok)
			}
			if shrunk := k.stored <= k.plain; shrunk != (k.compression != None) {
				t.Fatalf("%d bytes are stored as %d with %s", k.plain, k.stored, k.compression)
			}
			got, err := u.unpack(&k, b[blockHeader:])
			if err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("%d bytes come back as %d: %v", len(plain), len(got), err)
			}
			// No flipped bit goes unseen.
			bit := rapid.IntRange(0, 8*len(b)-1).Draw(t, "flip")
			b[bit/8] ^= 1 << (bit % 8)
			if k, ok := decodeBlock(b, 7); ok && bit < 8*blockHeader {
				t.Fatalf("bit %d of the header can flip", bit)
			} else if _, err := u.unpack(&k, b[blockHeader:]); ok && err == nil {
				t.Fatalf("bit %d can flip", bit)
			}
		})
		u.close()
	}
}

func TestCompressionNames(t *testing.T) {
	for _, c := range []Compression{None, S2, Zstd} {
		if got, err := ParseCompression(c.String()); got != c || err != nil {
			t.Errorf("%s: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCompression("lz4"); err == nil || !strings.Contains(err.Error(), `"lz4"`) {
		t.Errorf("lz4: %v", err)
	}
}

func TestSegmentNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := segmentName{edgy32().Draw(t, "epoch"), edgy32().Draw(t, "shard"), edgy64().Draw(t, "index") >> 33}
		if got, ok := parseSegmentName(n.String()); got != n || !ok {
			t.Fatalf("%s is read as %s, %v", n, got, ok)
		}
	})
	for _, name := range []string{
		"", "segment", "segment.1.0", "segment.1.0.1", "segment.1.0.00000001.new", "segment.01.0.00000001", "segment.1.0.000000001",
		"segment.1.0.+0000001", "segment.4294967296.0.00000001", "segment.1.0.9223372036854775808", "segment.1.0.2147483648", "Segment.1.0.00000001", "segment.-1.0.00000001",
	} {
		if n, ok := parseSegmentName(name); ok {
			t.Errorf("%q is taken for %s", name, n)
		}
	}
}

// TestVersions: a header of any known version is read, of a later one refused,
// and one with a flipped bit is damaged, whichever it is.
func TestVersions(t *testing.T) {
	name := segmentName{1, 2, 3}
	whole := (&header{segmentName: name}).encode()
	for version := uint32(0); version < 20; version++ {
		b := WithVersion(whole, version, true)
		h, err := decodeHeader(b, name)
		switch {
		case version == 0:
			if err != errHeader {
				t.Errorf("version %d: %v", version, err)
			}
		case version > Version:
			if (err != versionError{name.String(), uint64(version)}) {
				t.Errorf("version %d: %v", version, err)
			}
		default:
			if err != nil || h.version != version {
				t.Errorf("version %d is read as %d, %v", version, h.version, err)
			}
			for bit := range 8 * segmentHeader {
				b[bit/8] ^= 1 << (bit % 8)
				if _, err := decodeHeader(b, name); err != errHeader {
					t.Errorf("version %d with bit %d flipped: %v", version, bit, err)
				}
				b[bit/8] ^= 1 << (bit % 8)
			}
		}
	}
}

func TestManifests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &manifest{epoch: edgy32().Draw(t, "epoch"), shards: rapid.IntRange(0, 1024).Draw(t, "shards")}
		for range rapid.IntRange(0, 3).Draw(t, "imported") {
			m.imported = append(m.imported, importedFile{fmt.Sprint("binlog.", edgy32().Draw(t, "name")), int64(edgy32().Draw(t, "size"))})
		}
		m.begun = rapid.SliceOfN(rapid.Uint64(), 0, 3).Draw(t, "begun")
		m.synced = rapid.SliceOfN(rapid.Uint64(), 0, 3).Draw(t, "synced")
		if len(m.begun) == 0 {
			m.begun = nil
		}
		if len(m.synced) == 0 {
			m.synced = nil
		}
		b := m.encode()
		version := func(version string) []byte {
			text, _, _ := strings.Cut(strings.Replace(string(b), "binlog 2", "binlog "+version, 1), "sum ")
			return fmt.Appendf(nil, "%ssum %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
		}
		if _, err := decodeManifest(version("0")); err != errManifest {
			t.Fatalf("version 0: %v", err)
		}
		if _, err := decodeManifest(version("3")); (err != versionError{manifestName, 3}) {
			t.Fatalf("version 3: %v", err)
		}
		if rapid.Bool().Draw(t, "old") {
			b = version("1")
		}
		if got, err := decodeManifest(b); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%s is read as %+v, %v", b, got, err)
		}
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			if _, err := decodeManifest(b); err != errManifest {
				t.Fatalf("with bit %d flipped: %v\n%q", bit, err, b)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
		for n := range b {
			if _, err := decodeManifest(b[:n]); err != errManifest {
				t.Fatalf("the first %d bytes: %v\n%q", n, err, b[:n])
			}
		}
	})
}
