package binlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dump prints what is in the directory of a binlog, a record a line, in the
// order in which a server reads it back:
//
//	FILE OFFSET WHAT KEY=VALUE ...
//	FILE OFFSET damage: WHAT IS WRONG
//
// The records of a block stand below it, with the offset of the block. Dump
// opens nothing for writing and takes no lock, so it runs on a directory that
// is read-only, and beside a server: then it shows each file as it was when it
// was opened. It needs memory for the largest block, and little more. A nil fsys
// is OS.
//
// Dump returns how many lines are damage; Open and Replay would report the same.
// The error is why not everything could be read, or printed.
func Dump(w io.Writer, fsys FS, dir string) (damages int, err error) {
	if fsys == nil {
		fsys = OS
	}
	d := &dumper{store: newDumped(fsys, dir), out: bufio.NewWriter(w)}
	err = d.directory()
	d.damage()
	if e := d.out.Flush(); err == nil {
		err = e
	}
	if err != nil {
		err = fmt.Errorf("binlog %s: %w", dir, err) // wrap's advice is for those who write
	}
	return len(d.store.damages), err
}

// newDumped returns a Store that is only looked at.
func newDumped(fsys FS, dir string) *Store {
	return &Store{cfg: Config{Dir: dir}, fs: fsys, log: slog.New(slog.DiscardHandler)}
}

// dumper is a Dump under way. A replayer tells it what it comes by: segment,
// unbegun, block and tail do nothing if the dumper is nil.
type dumper struct {
	store   *Store
	out     *bufio.Writer
	printed int // damages that were printed
	records records
	record  record
}

func (d *dumper) directory() error {
	if _, err := d.store.fs.ReadDir(d.store.cfg.Dir); err != nil {
		return err
	}
	if err := d.list(); err != nil {
		return err
	}
	st := d.store
	m := st.manifest
	switch {
	case m != nil:
		d.line(manifestName, 0, "epoch=%d shards=%d", m.epoch, m.shards)
		for _, f := range m.imported {
			d.line(manifestName, 0, "imported file=%s size=%d", word(f.name), f.size)
		}
		for _, name := range m.damaged {
			d.line(manifestName, 0, "damaged file=%s: it is put aside when it is needed no more", word(name))
		}
		for _, g := range m.gaps {
			d.line(manifestName, 0, "gap file=%s: behind it, which could not be read, no blocks have the numbers from=%d to=%d", g.behind, g.from, g.to-1)
		}
	case len(st.streams)+len(st.damages) == 0:
		d.line(manifestName, 0, "none: nothing was written here")
	}
	names, foreign, err := beanstalkdFiles(st.fs, st.cfg.Dir)
	if err != nil {
		return err
	}
	for _, f := range foreign {
		st.report(f)
	}
	for _, name := range names {
		f, err := st.describeImport(name)
		if err != nil {
			return err
		}
		d.line(name, 0, "beanstalkd size=%d: not imported yet", f.size)
	}
	for _, name := range st.leftovers {
		does := "removed"
		if st.aside[name] {
			does = "moved into the folder " + damagedDir
		}
		d.line(name, 0, "leftover: it does not count and is %s when a server starts", does)
	}
	return d.streams()
}

// list reads the manifest and looks at what is in the directory, again and again
// until the two belong together: a server that starts meanwhile may replace them.
func (d *dumper) list() error {
	fsys, dir := d.store.fs, d.store.cfg.Dir
	m, bad := readManifest(fsys, dir)
	for {
		if bad != nil && !errors.Is(bad, errManifest) {
			return bad
		}
		d.store = newDumped(fsys, dir)
		d.store.manifest = m
		if err := d.store.list(bad); err != nil {
			return err
		}
		again, worse := readManifest(fsys, dir)
		if reflect.DeepEqual(m, again) && errors.Is(worse, errManifest) == (bad != nil) {
			return nil
		}
		m, bad = again, worse
	}
}

func (d *dumper) streams() error {
	d.store.fs = stills{d.store.fs}
	// Which segments have begun is found out before any is read: then those
	// before them are complete, whatever a server does meanwhile.
	idle := make(map[segmentName]bool)
	for _, t := range d.store.streams {
		if n := len(t.names); n > 0 && !d.begun(t.names[n-1]) {
			idle[t.names[n-1]] = true
		}
	}
	for _, t := range d.store.streams {
		if err := d.stream(t, idle); err != nil {
			return err
		}
	}
	return nil
}

// begun tells whether there is anything in a segment.
func (d *dumper) begun(name segmentName) bool {
	failures := mostFailures
	file, err := d.store.openHoled(name, &failures)
	if err != nil {
		return true // reading it will meet the error again
	}
	defer file.Close()
	return !unbegun(newScanner(file, segmentSeed(d.store.id, name), func(from, to int64) {}), 0)
}

// stream does what stream.replay does, beside a server that may go on.
func (d *dumper) stream(t *stream, idle map[segmentName]bool) error {
	r := &replayer{stream: t, store: d.store, sink: nowhere{}, dump: d, failures: mostFailures}
	defer r.unpacker.close()
	if len(t.names) == 0 {
		return t.replay(d.store, nowhere{}) // it reports that
	}
	for _, name := range t.names {
		// A segment is announced only when it has a header. So one that is announced and
		// has none is damaged, not one that a server is about to begin.
		if idle[name] && !(r.knownBegun(name) && !d.begun(name)) {
			t.unbegun = append(t.unbegun, name)
			d.unbegun(name)
			continue
		}
		switch err := r.segment(name); {
		case errors.Is(err, fs.ErrNotExist):
			d.line(name.String(), 0, "gone: a server has removed it meanwhile")
			r.tail, r.next, r.oldest, r.cleanEnd = name, 0, max(r.oldest, name.index), true
			r.lastPassed = name.index
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	// What a server has done meanwhile is no damage.
	if d.hasSegment(t, r.rollsTo) {
		r.rollsTo = 0
	}
	r.finish()
	d.damage()
	return nil
}

// hasSegment tells whether a server has made that segment of a stream meanwhile, or
// a later one. A file that was reported as damaged is not of that server.
func (d *dumper) hasSegment(t *stream, index uint64) bool {
	entries, _ := d.store.fs.ReadDir(d.store.cfg.Dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		n, ok := parseSegmentName(e.Name())
		return ok && n.epoch == t.epoch && n.shard == t.shard && n.index >= index && !slices.Contains(t.names, n) && !d.store.damaged[e.Name()]
	})
}

// nowhere is the Sink of a Dump, which prints blocks instead.
type nowhere struct{}

func (nowhere) Put(*Job, uint64) {}
func (nowhere) Change(*Meta)     {}
func (nowhere) Delete(uint64)    {}
func (nowhere) Drop(uint64)      {}

// line prints a line, below the damage that was found on the way to it.
func (d *dumper) line(file string, at int64, format string, args ...any) {
	d.damage()
	fmt.Fprintf(d.out, "%s %d ", file, at)
	fmt.Fprintf(d.out, format, args...)
	d.out.WriteByte('\n')
}

// damage prints the damage that was found since it was last called.
func (d *dumper) damage() {
	for _, g := range d.store.damages[d.printed:] {
		fmt.Fprintf(d.out, "%s %d damage: %s\n", word(g.File), g.Offset, g.What)
		if d.printed++; d.printed == maxDamages {
			fmt.Fprintf(d.out, "damage beyond the first %d is not listed\n", maxDamages)
		}
	}
}

func (d *dumper) segment(h *header) {
	if d == nil {
		return
	}
	d.line(h.String(), 0, "segment version=%d shard=%d of=%d epoch=%d previous=%d oldest=%d first-block=%d last-id=%d created=%s",
		h.version, h.shard, h.shards, h.epoch, h.previous, h.oldest, h.first, h.lastID, moment(h.created))
}

// unbegun prints that a file is one that was made ready for later.
func (d *dumper) unbegun(name segmentName) {
	if d == nil {
		return
	}
	d.line(name.String(), 0, "unbegun: nothing is in it yet")
}

// block prints a block and the records in it, which are of version 1 of the
// format or of the present one.
func (d *dumper) block(name segmentName, at int64, k *block, plain []byte, version1 bool) {
	if d == nil {
		return
	}
	n := 0
	d.records.version1 = version1
	for d.records.rest = plain; d.records.next(&d.record); n++ {
	}
	file := name.String()
	d.line(file, at, "block seq=%d records=%d stored=%d plain=%d compression=%s", k.seq, n, k.stored, k.plain, k.compression)
	d.records.rest, d.records.bad = plain, false
	for d.records.next(&d.record) {
		switch r := &d.record; r.kind {
		case kindPut:
			d.line(file, at, "put id=%d tube=%s%s %s ttr=%d created=%s%s body=%s", r.job.ID, word(r.job.Tube), task(&r.job), place(&r.job.Meta), r.job.TTR,
				moment(r.job.Created), counters(&r.job.Meta, false), body(r.job.Body))
		case kindChange:
			d.line(file, at, "change id=%d %s%s", r.job.ID, place(&r.job.Meta), counters(&r.job.Meta, true))
		case kindDelete:
			d.line(file, at, "delete id=%d", r.number)
		default: // what is about segments
			d.line(file, at, "%s segment=%d", r.kind, r.number)
		}
	}
	d.records.bad = false
}

// tail prints what is behind the last block of a segment, if that is no damage.
func (d *dumper) tail(name segmentName, sc *scanner, clean bool) {
	if d == nil {
		return
	}
	f := sc.file.file.(*still)
	switch {
	case !clean || sc.pos >= sc.size:
	case f.end <= sc.pos:
		d.line(name.String(), sc.pos, "zeros bytes=%d", sc.size-sc.pos)
	case !f.moved(): // otherwise a server was writing the block
		d.line(name.String(), sc.pos, "torn: a block was cut off here; bytes=%d", sc.size-sc.pos)
	}
}

// task is what Gearman has said of a job, nothing if the job is not Gearman's.
func task(j *Job) string {
	if !j.Task {
		return ""
	}
	return fmt.Sprintf(" unique=%s reducer=%s", word(j.Unique), word(j.Reducer))
}

// place is where a job is, and how urgent it is there.
func place(m *Meta) string {
	s := "state=" + m.State.String()
	switch m.State {
	case Delayed:
		s += " until=" + moment(m.At)
	case Buried:
		s += fmt.Sprint(" place=", m.At)
	}
	return s + fmt.Sprintf(" pri=%d delay=%d", m.Pri, m.Delay)
}

// counters are those of a job. With all false they are left out if all are 0.
func counters(m *Meta, all bool) string {
	if !all && m.Reserves|m.Timeouts|m.Releases|m.Buries|m.Kicks == 0 {
		return ""
	}
	return fmt.Sprintf(" reserves=%d timeouts=%d releases=%d buries=%d kicks=%d", m.Reserves, m.Timeouts, m.Releases, m.Buries, m.Kicks)
}

func moment(unix int64) string {
	return time.Unix(0, unix).UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// body quotes a body, or its beginning if it is long.
func body(b []byte) string {
	const most = 64
	if len(b) <= most {
		return strconv.QuoteToASCII(string(b))
	}
	return fmt.Sprintf("%+q…(%d bytes)", b[:most], len(b))
}

// word is s, quoted if it would not read as one word.
func word(s string) string {
	if q := strconv.QuoteToASCII(s); s == "" || len(q) != len(s)+2 || strings.ContainsAny(s, " =") {
		return q
	}
	return s
}
