package binlog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// SyncNever, as Config.Sync, leaves it to the system when what was written
// comes to the disk.
const SyncNever = time.Duration(-1)

// DefaultSegmentSize is beanstalkd's.
const DefaultSegmentSize = 10 << 20

// Config says how a Store is kept.
type Config struct {
	Dir string
	FS  FS // nil is OS
	// Shards is how many logs will be written.
	Shards int
	// SegmentSize is about how many bytes a segment has, DefaultSegmentSize if
	// it is 0. On a small file system segments are smaller.
	SegmentSize int64
	// Sync is how much time may pass at most before what was written is synced
	// to the disk. With 0 nothing is answered before.
	Sync        time.Duration
	Compression Compression
	// Strict has damage refused.
	Strict bool
	Log    *slog.Logger // nil is none
	// LastID returns the highest job id that was given out. Any goroutine calls
	// it. nil goes by the jobs that are in the log.
	LastID func() uint64
}

// Store is the directory of a binlog: its lock, what is to be read back from
// it, and the logs that are written into it. It goes through these steps, one
// after the other:
//
//	Open ─▶ Replay each stream ─▶ Begin ─▶ Commit ─▶ Close
//
// Before Begin nothing in the directory is changed.
type Store struct {
	cfg  Config
	fs   FS
	log  *slog.Logger
	lock Unlocker

	manifest *manifest // nil if it is damaged
	streams  []*stream
	lost     bool // the manifest is damaged or missing, and there are segments
	// beanstalkd are its files that are to be imported: one more stream.
	beanstalkd []string
	leftovers  []string // files of our own that are of no use any more
	keep       []string // files of beanstalkd that were imported and are to be moved

	rearranged bool          // what was read does not stay where it is
	epoch      uint32        // that is written
	id         uint64        // of the directory, at random
	segment    int64         // size of a segment, in bytes
	index      atomic.Uint64 // the highest of a segment
	lastID     uint64        // as it was read back
	importedID uint64        // the highest of the imported jobs
	logs       []*Log

	// space keeps shards from taking space on a full disk that one of them has
	// given back to take it again elsewhere. It is held while space is set aside.
	space sync.Mutex

	mu      sync.Mutex // Replay may run for several streams at once
	damages []Damage
}

// Open takes hold of a directory, which is made if there is none.
func Open(cfg Config) (*Store, error) {
	if cfg.FS == nil {
		cfg.FS = OS
	}
	if cfg.SegmentSize == 0 {
		cfg.SegmentSize = DefaultSegmentSize
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	st := &Store{cfg: cfg, fs: cfg.FS, log: cfg.Log}
	if err := st.open(); err != nil {
		st.unlock()
		return nil, st.wrap(err)
	}
	return st, nil
}

func (st *Store) wrap(err error) error { return fmt.Errorf("binlog %s: %w", st.cfg.Dir, err) }

func (st *Store) open() error {
	dir := st.cfg.Dir
	if err := st.makeDir(dir); err != nil {
		return err
	}
	if err := st.fs.Writable(dir); err != nil {
		return err
	}
	var err error
	if st.lock, err = st.fs.Lock(filepath.Join(dir, "lock")); err != nil {
		return err
	}
	size, err := st.fs.Size(dir)
	if err != nil {
		return err
	}
	st.segment = max(minSegment, min(st.cfg.SegmentSize, size/int64(16*st.cfg.Shards)))
	if st.manifest, err = readManifest(st.fs, dir); err != nil && !errors.Is(err, errManifest) {
		return err
	}
	if err := st.list(err); err != nil {
		return err
	}
	return st.listBeanstalkd()
}

// makeDir makes a directory, and those above it, if they are not there.
func (st *Store) makeDir(dir string) error {
	_, err := st.fs.ReadDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(filepath.Clean(dir))
	if above != dir {
		if err := st.makeDir(above); err != nil {
			return err
		}
	}
	if err := st.fs.Mkdir(dir); err != nil {
		return err
	}
	return st.fs.SyncDir(above)
}

// minSegment is the smallest size of a segment, in bytes.
const minSegment = 4096

// list looks at what is in the directory. The error is that of reading the
// manifest.
func (st *Store) list(manifest error) error {
	entries, err := st.fs.ReadDir(st.cfg.Dir)
	if err != nil {
		return err
	}
	var names []segmentName
	var foreign []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == "lock", name == manifestName, e.IsDir() && (name == keptDir || strings.HasPrefix(name, keptDir+".") || name == "lost+found"):
		case name == manifestName+".new":
			st.leftovers = append(st.leftovers, name)
		case strings.HasPrefix(name, "segment."):
			if n, ok := parseSegmentName(name); ok && e.Type().IsRegular() {
				names = append(names, n)
				st.index.Store(max(st.index.Load(), n.index))
			} else {
				foreign = append(foreign, name)
			}
		case strings.HasPrefix(name, "binlog."):
		default:
			foreign = append(foreign, name)
		}
	}
	if err := st.checkVersions(names); err != nil {
		return err
	}
	st.lost = st.manifest == nil && len(names) > 0
	switch {
	case st.manifest != nil:
		st.id = st.manifest.id
	case st.id == 0:
		st.id = rand.Uint64()
	}
	for _, name := range foreign {
		st.report(Damage{name, 0, "a foreign file: it is left alone"})
	}
	switch {
	case manifest != nil:
		st.report(Damage{manifestName, 0, "it is damaged: the newest state of each job in any segment counts"})
	case st.lost:
		st.report(Damage{manifestName, 0, "it is missing: the newest state of each job in any segment counts"})
	}
	st.sortStreams(names)
	return nil
}

// checkVersions refuses a directory with segments from the future.
func (st *Store) checkVersions(names []segmentName) error {
	for _, n := range names {
		b, err := readFile(st.fs, filepath.Join(st.cfg.Dir, n.String()), segmentHeader)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Dump goes without the lock: a server may clean here
		}
		if err != nil {
			return err
		}
		var future versionError
		h, err := decodeHeader(b, n)
		switch {
		case errors.As(err, &future):
			return err
		case err == nil && st.manifest == nil:
			st.id = h.id
		}
	}
	return nil
}

// sortStreams finds out which streams there are to be read.
func (st *Store) sortStreams(names []segmentName) {
	slices.SortFunc(names, func(a, b segmentName) int {
		if a.epoch != b.epoch {
			return int(int64(a.epoch) - int64(b.epoch))
		}
		return int(int64(a.index) - int64(b.index))
	})
	if m := st.manifest; m != nil {
		st.epoch = m.epoch
		for i := range m.shards {
			t := &stream{epoch: m.epoch, shard: uint32(i)}
			if i < len(m.begun) {
				t.begun = m.begun[i]
			}
			st.streams = append(st.streams, t)
		}
	}
	for _, n := range names {
		switch {
		case st.lost:
			st.rearranged = true
			st.epoch = max(st.epoch, n.epoch)
			i := slices.IndexFunc(st.streams, func(t *stream) bool { return t.epoch == n.epoch && t.shard == n.shard })
			if i < 0 {
				i = len(st.streams)
				st.streams = append(st.streams, &stream{epoch: n.epoch, shard: n.shard})
			}
			st.streams[i].names = append(st.streams[i].names, n)
		case n.epoch != st.epoch || int(n.shard) >= len(st.streams):
			st.leftovers = append(st.leftovers, n.String())
		default:
			st.streams[n.shard].names = append(st.streams[n.shard].names, n)
		}
	}
	if len(st.streams) != st.cfg.Shards {
		st.rearranged = true
	}
}

// report keeps and logs a damage. Any goroutine may call it.
func (st *Store) report(d Damage) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.damages) < maxDamages {
		st.damages = append(st.damages, d)
		st.log.Warn("binlog: damage", "file", filepath.Join(st.cfg.Dir, d.File), "offset", d.Offset, "what", d.What)
	}
}

// maxDamages is how many damages are reported; more is a heap of rubbish.
const maxDamages = 1000

// Damages returns what was found to be damaged until now.
func (st *Store) Damages() []Damage {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.damages)
}

// Streams returns how many streams there are to be replayed.
func (st *Store) Streams() int {
	n := len(st.streams)
	if len(st.beanstalkd) > 0 {
		n++
	}
	return n
}

// Rearranged tells whether the jobs of the streams do not stay on the shards
// that wrote them, and have to be written again after Begin. If not, stream i
// is that of shard i.
func (st *Store) Rearranged() bool { return st.rearranged }

// Replay reads a stream back, of 0 to Streams()-1. Of jobs that are in several
// streams, which is so only after damage, the one in the last stream counts.
// Several goroutines may replay different streams. It returns the segments that
// the stream consists of.
func (st *Store) Replay(i int, sink Sink) ([]Segment, error) {
	if i == len(st.streams) {
		return nil, st.replayBeanstalkd(sink)
	}
	if err := st.streams[i].replay(st, sink); err != nil {
		return nil, st.wrap(err)
	}
	return st.streams[i].segments, nil
}

// LastID returns the highest job id that was ever given out, when all streams
// have been replayed.
func (st *Store) LastID() uint64 {
	last := st.importedID
	for _, t := range st.streams {
		last = max(last, t.lastID)
	}
	return last
}

// highestID is the same while logs are written.
func (st *Store) highestID() uint64 {
	if st.cfg.LastID != nil {
		return max(st.cfg.LastID(), st.lastID)
	}
	return st.lastID
}

// Begin makes the logs that are written from now on, one for each shard. If the
// directory is Rearranged, all jobs are to be written to them and synced (see
// Log.Flush) before Commit.
func (st *Store) Begin() ([]*Log, error) {
	if st.cfg.Strict && len(st.damages) > 0 {
		return nil, st.wrap(fmt.Errorf("%d damages were found, the first in %v: without --binlog-strict all jobs are served that can be saved", len(st.damages), st.damages[0]))
	}
	logs, err := st.begin()
	if err != nil {
		for _, l := range st.logs {
			l.Close()
		}
		st.logs = nil // Close comes, too
		return nil, st.wrap(err)
	}
	return logs, nil
}

func (st *Store) begin() ([]*Log, error) {
	if st.rearranged {
		if st.manifest == nil && !st.lost {
			// From here on a crash leaves segments that do not count.
			if err := writeManifest(st.fs, st.cfg.Dir, &manifest{id: st.id}); err != nil {
				return nil, err
			}
		}
		st.epoch++
	}
	st.lastID = st.LastID()
	for _, name := range st.leftovers {
		if err := st.remove(name); err != nil {
			return nil, err
		}
	}
	if !st.rearranged {
		// All of them first: on a full disk it is their space that the new ones need.
		for _, t := range st.streams {
			if err := st.trim(t); err != nil {
				return nil, err
			}
		}
	}
	for i := range st.cfg.Shards {
		t := &stream{epoch: st.epoch, shard: uint32(i)}
		if !st.rearranged {
			t = st.streams[i]
		}
		l, err := newLog(st, t)
		if err != nil {
			return nil, err
		}
		st.logs = append(st.logs, l)
	}
	if err := st.fs.SyncDir(st.cfg.Dir); err != nil || st.rearranged {
		return st.logs, err
	}
	m, err := st.newManifest()
	if err != nil {
		return nil, err
	}
	if err := writeManifest(st.fs, st.cfg.Dir, m); err != nil && !isFull(err) {
		return nil, err
	}
	// On a full disk the old one does: it says less, and nothing wrong.
	return st.logs, nil
}

// newManifest says what there is from now on.
func (st *Store) newManifest() (*manifest, error) {
	m := &manifest{epoch: st.epoch, shards: st.cfg.Shards, id: st.id}
	for _, l := range st.logs {
		m.begun = append(m.begun, l.begun)
	}
	for _, name := range slices.Concat(st.keep, st.beanstalkd) {
		f, err := st.imported(name)
		if err != nil {
			return nil, err
		}
		m.imported = append(m.imported, f)
	}
	return m, nil
}

// trim gives back the space that a crashed server had set aside, cuts off a torn
// block, removes what it had not begun, and makes the rest durable.
func (st *Store) trim(t *stream) error {
	for _, n := range t.unbegun {
		if err := st.remove(n.String()); err != nil {
			return err
		}
		t.names = slices.DeleteFunc(t.names, func(m segmentName) bool { return m == n })
	}
	if t.tail.index == 0 {
		return nil
	}
	f, err := st.fs.OpenWrite(filepath.Join(st.cfg.Dir, t.tail.String()))
	if err != nil {
		return err
	}
	defer f.Close()
	size := t.end
	if !t.torn {
		// Whatever it is, it stays for somebody to look at.
		if size, err = f.Size(); err != nil {
			return err
		}
	}
	if err := f.Truncate(size); err != nil || st.cfg.Sync == SyncNever {
		return err
	}
	// What was read back counts from now on, and may not be on the disk yet: the
	// server before may have been killed, or been told not to sync.
	for _, n := range t.names {
		if err := st.sync(n); err != nil {
			return err
		}
	}
	return nil
}

// sync makes a segment durable.
func (st *Store) sync(n segmentName) error {
	f, err := st.fs.OpenWrite(filepath.Join(st.cfg.Dir, n.String()))
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Commit ends the rearrangement, if there is one: what was read counts no
// longer. It is called once, after Begin.
func (st *Store) Commit() error {
	if !st.rearranged {
		return st.putAside(st.keep)
	}
	if err := st.commit(); err != nil {
		return st.wrap(err)
	}
	return nil
}

func (st *Store) commit() error {
	m, err := st.newManifest()
	if err != nil {
		return err
	}
	if err := writeManifest(st.fs, st.cfg.Dir, m); err != nil {
		return err
	}
	for _, t := range st.streams {
		for _, n := range t.names {
			if err := st.remove(n.String()); err != nil {
				return err
			}
		}
	}
	return st.putAside(slices.Concat(st.keep, st.beanstalkd))
}

func (st *Store) remove(name string) error {
	err := st.fs.Remove(filepath.Join(st.cfg.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Stats are the figures of a binlog that stats reports, all together.
type Stats struct {
	Oldest, Current   uint64 // segments
	Written, Migrated uint64 // records; by cleaning
	MaxSize           int64  // of a segment, in bytes
}

// Stats may be called from any goroutine.
func (st *Store) Stats() Stats {
	s := Stats{Oldest: math.MaxUint64, MaxSize: st.cfg.SegmentSize}
	for _, l := range st.logs {
		s.Oldest = min(s.Oldest, l.oldest.Load())
		s.Current = max(s.Current, l.current.Load())
		s.Written += l.written.Load()
		s.Migrated += l.migrated.Load()
	}
	return s
}

// Close ends the logs and gives up the directory. Nothing may be appended any
// more.
func (st *Store) Close() error {
	var errs []error
	for _, l := range st.logs {
		errs = append(errs, l.Close())
	}
	st.unlock()
	return errors.Join(errs...)
}

func (st *Store) unlock() {
	if st.lock != nil {
		st.lock.Close()
		st.lock = nil
	}
}
