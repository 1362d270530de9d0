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

// SyncNever, as Config.Sync, leaves it to the system when to put on the disk what
// was written.
const SyncNever = time.Duration(-1)

// DefaultSegmentSize is beanstalkd's, in bytes.
const DefaultSegmentSize = 10 << 20

// Config says how a Store is kept.
type Config struct {
	Dir string
	FS  FS // nil is OS
	// Shards is how many logs are to be written, at least 1.
	Shards int
	// SegmentSize is about how many bytes a segment has, DefaultSegmentSize if
	// it is 0. On a small file system segments are smaller.
	SegmentSize int64
	// Sync is how much time may pass at most before what was written is synced
	// to the disk. With 0 nothing is answered before it is; see also SyncNever.
	Sync        time.Duration
	Compression Compression
	// Strict has Begin fail if there is damage.
	Strict bool
	Log    *slog.Logger // nil is none
	// LastID returns the highest job id that was given out, or that the next start is
	// to take for it. It is called from any goroutine. If it is nil the jobs in the log
	// decide.
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

	// What open has found in the directory.
	manifest           *manifest // nil if there is none that counts
	manifestLost       bool      // so, though there are segments
	manifestUnreadable bool      // so, because the disk cannot read it
	streams            []*stream
	leftovers          []string                    // files of our own that are of no use any more
	toImport           []string                    // files of beanstalkd that are read as one more stream
	imported           []string                    // files of beanstalkd that were imported before, to be put aside
	jobless            []string                    // files of beanstalkd beside our own, without jobs, to be put aside
	misnamed           map[segmentName]segmentName // segments and what their files are called until Begin
	occupied           map[segmentName]bool        // names of segments that something else than a file has
	newestEpoch        uint32                      // of all segments that are there
	id                 uint64                      // of the directory, chosen at random once
	segment            int64                       // about how many bytes a segment is to have

	rearranged bool   // what was read does not stay where it is: all jobs are written again
	importedID uint64 // the highest job id in toImport, also of a deleted job
	replayedID uint64 // LastID as of Begin

	epoch         uint32        // of the segments that count, and from Begin on of those that are written
	lastIndex     atomic.Uint64 // the highest index of a segment, of any stream
	headersSynced bool          // the header of a segment is made durable before anything names the segment
	fill          bool          // zeros are written before blocks are, see segment.extend
	inPlace       bool          // syncs may be in place, see File.SyncInPlace
	committed     bool          // the segments that are written count
	logs          []*Log
	// rewriting is true while all jobs are written again. If that fails nobody is
	// served, and the start reports why, not the logs.
	rewriting    atomic.Bool
	noRoomAdvice string // what to do if there is no room for that; set by Begin

	// space is held while space is set aside: on a full disk one shard gives space
	// back to take it again elsewhere, and no other may take it in between.
	space   sync.Mutex
	holding int // logs that have called Holds; under space

	refusals refusals

	mu      sync.Mutex      // since several streams may be replayed at once
	damages []Damage        // at most maxDamages; under mu
	damaged map[string]bool // files that they are in; under mu
	aside   map[string]bool // segments that are to be put aside; under mu
}

// Open locks a directory, and finds out what is in it. It makes the directory if
// there is none, but not those above it. The error is ErrLocked if another server
// has it.
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
	st.refusals.log = cfg.Log
	if err := st.open(); err != nil {
		st.unlock()
		return nil, st.wrapBegin(err)
	}
	return st, nil
}

// wrap says which directory an error is about and, where that is known, what to do.
func (st *Store) wrap(err error) error {
	switch {
	case errors.Is(err, ErrLocked):
		err = fmt.Errorf("%w: stop that one first, or use another directory", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: the user that sheafd runs as, with id %d, must be able to read and write the directory and all that is in it", err, os.Geteuid())
	case isFull(err) && st.rewriting.Load() && st.noRoomAdvice != "":
		err = fmt.Errorf("there is no room to write all jobs again, each for its shard: %w: %s; nothing is lost", err, st.noRoomAdvice)
	case errors.Is(err, syscall.EROFS):
		err = fmt.Errorf("%w: make the file system writable (mount -o remount,rw), or use a directory on another one; if nobody has made it read-only, the kernel's log (dmesg) may tell of an error of the disk", err)
	case errors.Is(err, syscall.EMFILE):
		err = fmt.Errorf("%w: raise the hard limit on open files (ulimit -Hn, or LimitNOFILE= of a systemd unit), or give fewer --shards", err)
	case errors.Is(err, syscall.ENFILE):
		err = fmt.Errorf("%w: all programs together have as many open as the system allows (fs.file-max): have that raised, or give fewer --shards", err)
	case errors.Is(err, syscall.ENOTDIR):
		err = fmt.Errorf("%w: correct the path, or move the file that is in the way", err)
	}
	return fmt.Errorf("binlog %s: %w", st.cfg.Dir, err)
}

// wrapBegin is wrap for an error that keeps a server from starting.
func (st *Store) wrapBegin(err error) error {
	if isFull(err) && !(st.rewriting.Load() && st.noRoomAdvice != "") {
		err = fmt.Errorf("%w: make room on the disk, which may also want for inodes; nothing is lost", err)
	}
	return st.wrap(err)
}

// adviseRoom returns what to do if there is no room to write all jobs again, or
// nothing if there are none.
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

// report logs a damage and keeps it for Damages. Any goroutine may call it.
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

// maxDamages is how many damages are reported: where there are more, nobody reads
// them all.
const maxDamages = 1000

// Damages returns what was found to be damaged so far. Any goroutine may call it.
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

// Rearranged tells whether all jobs have to be written again after Begin, since
// they do not stay on the shards that wrote them. If not, stream i is that of
// shard i.
func (st *Store) Rearranged() bool { return st.rearranged }

// Replay reads stream i back, from 0 to Streams()-1, and returns the segments that
// it consists of. If a job is in several streams, which happens only after damage,
// that in the last of them counts. Different streams may be replayed at the same
// time. Damage is no error, see Damages.
func (st *Store) Replay(i int, sink Sink) ([]Segment, error) {
	if i == len(st.streams) {
		return nil, st.replayBeanstalkd(sink)
	}
	if err := st.streams[i].replay(st, sink); err != nil {
		return nil, st.wrap(err)
	}
	return st.streams[i].segments, nil
}

// LastID returns the highest job id that was ever given out, or a higher one. It is
// known when all streams have been replayed.
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
// leaves no trace: more than a server gives out in the half minute for which Linux
// may keep back what nobody syncs.
const unsyncedIDs = 1 << 26

// highestID is like LastID, while logs are written. Any goroutine may call it.
func (st *Store) highestID() uint64 {
	if st.cfg.LastID != nil {
		return max(st.cfg.LastID(), st.replayedID)
	}
	return st.replayedID
}

// Stats are the figures that the stats command reports of a binlog, over all logs.
type Stats struct {
	Oldest, Current   uint64 // index of the oldest segment that is needed, and of the newest
	Written, Migrated uint64 // records since the start; jobs written again by cleaning
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

// Close ends the logs, has the manifest say how far they came, and unlocks the
// directory. Nothing may be appended any more. The error is why some of what was
// committed may not be there.
func (st *Store) Close() error {
	err := st.closeLogs()
	if err == nil {
		err = st.recordEnd()
	}
	st.unlock()
	return err
}

// closeLogs ends the logs. If they are those of a rearrangement that was not
// committed, their files are removed.
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
