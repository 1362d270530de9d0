package binlog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
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
	// LastID returns the highest job id that was given out, or is to count as that
	// when the directory is read again. Any goroutine calls it. nil goes by the jobs
	// that are in the log.
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

	manifest     *manifest // nil if it is damaged
	streams      []*stream
	manifestLost bool // the manifest is damaged or missing, and there are segments
	// beanstalkd are its files that are to be imported: one more stream.
	toImport  []string
	leftovers []string // files of our own that are of no use any more
	imported  []string // files of beanstalkd that were imported and are to be moved
	jobless   []string // files of beanstalkd without jobs, beside our own, that are to be moved

	rearranged         bool          // what was read does not stay where it is
	committed          bool          // what is written counts from now on
	rewriting          atomic.Bool   // all jobs are being written again: if that fails nobody is served, and the start says why
	noRoomAdvice       string        // if there is no room for that, as of Begin
	headersSynced      bool          // what says that a segment is there is believed: its header is synced before
	epoch              uint32        // that is written
	newestEpoch        uint32        // epoch of any segment that there is
	manifestUnreadable bool          // the disk cannot read the manifest
	id                 uint64        // of the directory, at random
	segment            int64         // size of a segment, in bytes
	lastIndex          atomic.Uint64 // the highest of a segment
	replayedID         uint64        // as it was read back
	importedID         uint64        // the highest in the imported files, also of a deleted job
	logs               []*Log

	// space keeps shards from taking space on a full disk that one of them has
	// given back to take it again elsewhere. It is held while space is set aside.
	space   sync.Mutex
	holding int // logs that have said what they hold; under space

	mu      sync.Mutex // Replay may run for several streams at once
	damages []Damage
	damaged map[string]bool // files that they are in; under mu
	aside   map[string]bool // segments that are to be put aside; under mu
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
		return nil, st.wrapBegin(err)
	}
	return st, nil
}

// wrap says which directory an error is about, and what there is to do where
// that is known.
func (st *Store) wrap(err error) error {
	switch {
	case errors.Is(err, ErrLocked):
		err = fmt.Errorf("%w: stop that one first, or use another directory", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: the user that sheafd runs as, with id %d, must be able to read and write the directory and all that is in it", err, os.Geteuid())
	case isFull(err) && st.rewriting.Load() && st.noRoomAdvice != "":
		err = fmt.Errorf("there is no room to write all jobs again, each for its shard: %w: %s; nothing is lost", err, st.noRoomAdvice)
	case errors.Is(err, syscall.ENOTDIR):
		err = fmt.Errorf("%w: correct the path, or move the file that is in the way", err)
	}
	return fmt.Errorf("binlog %s: %w", st.cfg.Dir, err)
}

// wrapBegin is wrap of an error by which a server does not start.
func (st *Store) wrapBegin(err error) error {
	if isFull(err) && !(st.rewriting.Load() && st.noRoomAdvice != "") {
		err = fmt.Errorf("%w: make room on the disk, which may also want for inodes; nothing is lost", err)
	}
	return st.wrap(err)
}

// adviseRoom is what to do where there is no room to write all jobs again, nothing
// if there are none.
func (st *Store) adviseRoom() string {
	switch m := st.manifest; {
	case st.Streams() == 0:
		return ""
	case m == nil || m.shards == 0 || m.shards == st.cfg.Shards:
		return "make room on the disk"
	default:
		return fmt.Sprintf("make room on the disk, or start with --shards %d as before", m.shards)
	}
}

// report keeps and logs a damage. Any goroutine may call it.
func (st *Store) report(d Damage) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.damaged == nil {
		st.damaged = make(map[string]bool)
	}
	st.damaged[d.File] = true
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
	if len(st.toImport) > 0 {
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

// LastID returns the highest job id that was ever given out, or a higher one, when
// all streams have been replayed.
func (st *Store) LastID() uint64 {
	last := st.importedID
	for _, t := range st.streams {
		last = max(last, t.lastID)
	}
	m := st.manifest
	if m == nil {
		return last
	}
	last = max(last, m.highest)
	if boot := st.fs.Boot(); m.boot != "" && boot != "" && m.boot != boot {
		last += min(unsyncedIDs, math.MaxUint64-last)
	}
	return last
}

// unsyncedIDs is how many job ids may have been given out of which a power failure
// has left nothing: more than in half a minute, which is for how long Linux may keep
// what nobody syncs.
const unsyncedIDs = 1 << 26

// highestID is the same while logs are written.
func (st *Store) highestID() uint64 {
	if st.cfg.LastID != nil {
		return max(st.cfg.LastID(), st.replayedID)
	}
	return st.replayedID
}

// Stats are the figures of a binlog that stats reports, all together.
type Stats struct {
	Oldest, Current   uint64 // segments
	Written, Migrated uint64 // records; by cleaning
	MaxSize           int64  // about how many bytes a segment has, on this file system
}

// Stats may be called from any goroutine.
func (st *Store) Stats() Stats {
	s := Stats{Oldest: math.MaxUint64, MaxSize: st.segment}
	for _, l := range st.logs {
		s.Oldest = min(s.Oldest, l.oldest.Load())
		s.Current = max(s.Current, l.current.Load())
		s.Written += l.written.Load()
		s.Migrated += l.migrated.Load()
	}
	return s
}

// Close ends the logs, has the manifest say how far they came, and gives up the
// directory. Nothing may be appended any more.
func (st *Store) Close() error {
	err := st.closeLogs()
	if err == nil {
		err = st.recordEnd()
	}
	st.unlock()
	return err
}

// closeLogs ends the logs. If they were to be all that there is and never came to
// count, the disk has their room again.
func (st *Store) closeLogs() error {
	var errs []error
	for _, l := range st.logs {
		errs = append(errs, l.Close())
	}
	if len(st.logs) > 0 && st.rearranged && !st.committed {
		st.takeBack()
	}
	return errors.Join(errs...)
}

func (st *Store) unlock() {
	if st.lock != nil {
		st.lock.Close()
		st.lock = nil
	}
}
