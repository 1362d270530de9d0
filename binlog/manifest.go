package binlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// manifestName is the file that says which segments of a directory count. It is
// replaced as a whole, by a rename, so a crash leaves the old one or the new one.
const manifestName = "manifest"

// manifest is its content:
//
//	sheaf binlog 2
//	epoch 3
//	shards 8
//	id 4be1c5f0a90e7d33
//	highest 81772
//	boot 5b7f5d0e-5b1c-4bd5-8e0c-0b5f0e8c7a51
//	begun 17 18 19 20 21 22 23 24
//	synced 312 298 305 1 300 290 322 307
//	imported binlog.17 10485760
//	damaged segment.3.0.00000012
//	gap segment.3.0.00000012 298 415
//	sum 9ae0daaf
type manifest struct {
	epoch  uint32 // of the segments that count; others are leftovers
	shards int    // streams in it; 0 as long as nothing was ever written
	id     uint64 // of the directory, see segmentSeed
	// highest is a job id: no higher one had been given out when the manifest was
	// written.
	highest uint64
	// boot is FS.Boot while a server has the directory, and empty once it has come to a
	// good end: so a different one at the next start tells of a power failure. Older
	// servers do not write it.
	boot string
	// begun are the segments that the shards began when a server last started. For
	// each shard that segment or a newer one has to be there, or it is missing.
	begun []uint64
	// synced are the numbers of the blocks that came next in each stream when the
	// manifest was written, at a start or at a good end: all before them were on the
	// disk. It is empty if the server does not sync, or is an old one: then a power
	// failure may have taken anything, even the headers of segments that were begun.
	synced   []uint64
	imported []importedFile
	// damaged are segments, also of the epoch before, in which something could not be
	// read. When they are needed no more they are put aside, even by a server that can
	// read all of them: there may be jobs in them that were not known when they were
	// dropped, or when their epoch ended.
	damaged []string
	gaps    []gap
}

// gap is where a server has left out numbers of blocks: it could not read how a
// segment ends, and went on with a number above all that there may be. When the
// segment can be read again, nothing is missing between its last block and that one.
type gap struct {
	behind segmentName
	from   uint64 // the number after its last block, as far as it was ever read
	to     uint64 // the number of the next block in the stream
}

// importedFile is a file of beanstalkd's whose jobs are in the segments. It is still
// to be moved out of the way.
type importedFile struct {
	name string
	size int64
}

var errManifest = errors.New("it is damaged")

func (m *manifest) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "sheaf binlog %d\nepoch %d\nshards %d\nid %016x\n", Version, m.epoch, m.shards, m.id)
	if m.highest > 0 {
		b.WriteString(numbersLine("highest", []uint64{m.highest}))
	}
	if m.boot != "" {
		fmt.Fprintf(&b, "boot %s\n", m.boot)
	}
	b.WriteString(numbersLine("begun", m.begun))
	b.WriteString(numbersLine("synced", m.synced))
	for _, f := range m.imported {
		fmt.Fprintf(&b, "imported %s %d\n", f.name, f.size)
	}
	for _, name := range m.damaged {
		fmt.Fprintf(&b, "damaged %s\n", name)
	}
	for _, g := range m.gaps {
		fmt.Fprintf(&b, "gap %s %d %d\n", g.behind, g.from, g.to)
	}
	fmt.Fprintf(&b, "sum %08x\n", crc32.Checksum([]byte(b.String()), castagnoli))
	return []byte(b.String())
}

// numbersLine is a line with a number for each shard, or nothing if there are none.
func numbersLine(key string, all []uint64) string {
	if len(all) == 0 {
		return ""
	}
	for _, n := range all {
		key += " " + strconv.FormatUint(n, 10)
	}
	return key + "\n"
}

func decodeManifest(b []byte) (*manifest, error) {
	var version uint64
	text := string(b)
	if _, err := fmt.Sscanf(text, "sheaf binlog %d\n", &version); err != nil {
		return nil, errManifest
	}
	at := strings.LastIndex(text, "sum ")
	intact := at > 0 && text[at:] == fmt.Sprintf("sum %08x\n", crc32.Checksum(b[:at], castagnoli))
	// A flipped bit in the version leaves a digit that is one bit away, or no number.
	if fromFuture(version, intact) {
		return nil, versionError{manifestName, version}
	}
	if !intact || version == 0 {
		return nil, errManifest
	}
	m := new(manifest)
	lines := strings.Split(text[:at], "\n")[1:]
	for _, line := range lines {
		var f importedFile
		var g gap
		var name string
		switch key, _, _ := strings.Cut(line, " "); key {
		case "epoch":
			fmt.Sscanf(line, "epoch %d", &m.epoch)
		case "shards":
			fmt.Sscanf(line, "shards %d", &m.shards)
		case "id":
			fmt.Sscanf(line, "id %x", &m.id)
		case "highest":
			fmt.Sscanf(line, "highest %d", &m.highest)
		case "boot":
			fmt.Sscanf(line, "boot %s", &m.boot)
		case "begun":
			m.begun = parseNumbers(line)
		case "synced":
			m.synced = parseNumbers(line)
		case "imported":
			fmt.Sscanf(line, "imported %s %d", &f.name, &f.size)
			m.imported = append(m.imported, f)
		case "damaged":
			fmt.Sscanf(line, "damaged %s", &name)
			m.damaged = append(m.damaged, name)
		case "gap":
			fmt.Sscanf(line, "gap %s %d %d", &name, &g.from, &g.to)
			if g.behind, _ = parseSegmentName(name); g.from <= g.to && g.to < math.MaxInt64 {
				m.gaps = append(m.gaps, g)
			}
		}
	}
	if m.shards < 0 || m.shards > maxShards {
		return nil, errManifest
	}
	return m, nil
}

// parseNumbers is the inverse of numbersLine.
func parseNumbers(line string) (all []uint64) {
	for _, field := range strings.Fields(line)[1:] {
		n, _ := strconv.ParseUint(field, 10, 64) // it is one, since the sum is right
		all = append(all, n)
	}
	return all
}

// maxShards is how many shards a manifest can have and be believed.
const maxShards = 1 << 16

// readManifest returns nil and no error if there is no manifest. The error is
// errManifest if there is one that is damaged, or that the disk cannot read.
func readManifest(fsys FS, dir string) (*manifest, error) {
	name := filepath.Join(dir, manifestName)
	b, err := readFile(fsys, name, 1<<20)
	if isUnreadable(err) {
		b, err = readFile(fsys, name, 1<<20) // the error may have passed
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case isUnreadable(err):
		return nil, fmt.Errorf("%w, and cannot be read (%w)", errManifest, err)
	case err != nil:
		return nil, err
	}
	return decodeManifest(b)
}

// writeManifest replaces the manifest, durably.
func writeManifest(fsys FS, dir string, m *manifest) error {
	name := filepath.Join(dir, manifestName)
	temporary := name + ".new"
	if err := fsys.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(temporary)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(m.encode(), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := fsys.Rename(temporary, name); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// readFile returns the first bytes of a file, at most most.
func readFile(fsys FS, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, most))
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], err
}
