package binlog

import "sync/atomic"

// reserve works out how much of the space that is set aside is kept for what, from the
// jobs that there are; room.go says who leaves what alone. It only counts: what is set
// aside, and what the disk has, is not known here. Any goroutine may call its methods,
// except for those that count fresh.
type reserve struct {
	segmentSize int64        // about how many bytes a segment is to have; never changes
	jobs        atomic.Int64 // how many there are, as of the last commit; the shard writes it
	live        atomic.Int64 // about how many bytes they take; the shard writes it
	fresh       int          // puts that FitsPut has accepted for this batch; the shard's goroutine only
	// tight says that the disk is nearly full; the shard and the janitor write it,
	// each what it has just seen.
	tight atomic.Bool
}

// maxReserve bounds, in bytes, the parts of the reserve that go with the size of
// segments.
const maxReserve = 256 << 20

// What is set aside for each job, in bytes. Only as many as fewJobs get room for a
// change, and for a delete in a block of its own: when that is used up there is a
// segment to clean.
const (
	owedDelete = 16                       // its record
	owedBlock  = 32                       // around the record, if it comes alone
	owedChange = 2 * (40 + blockOverhead) // to reserve it, and to release, bury or kick it
	fewJobs    = 1 << 16
	owedPut    = owedDelete + owedBlock + owedChange
)

// owedDeletes is how many bytes all but deletes leave alone.
func owedDeletes(jobs int64) int64 { return jobs*owedDelete + min(jobs, fewJobs)*owedBlock }

// owedChanges is how many bytes puts leave alone for changes.
func owedChanges(jobs int64) int64 { return min(jobs, fewJobs) * owedChange }

// Reserve is how many bytes puts leave alone: for changes of the present jobs,
// for their deletes, and for cleaning. Any goroutine may call it.
func (r *reserve) Reserve() int64 {
	n := r.spare() + SegmentOverhead + owedDeletes(r.jobs.Load())
	if r.tight.Load() {
		return n + r.extraIfTight()
	}
	return n + r.Extra()
}

// extraIfTight is how much of the reserve is for changes of jobs, and for what
// cleaning copies, while the disk is nearly full.
func (r *reserve) extraIfTight() int64 { return r.mostCopies() + owedChanges(r.jobs.Load()) }

// Extra is how many bytes of the reserve are for the same while the disk is not
// nearly full: another program can fill it within a moment. It is at most half of
// what the jobs take. The shard keeps as much less of what is of no use, see its
// tooLarge. Any goroutine may call it.
func (r *reserve) Extra() int64 { return min(r.extraIfTight(), r.live.Load()/2) }

// spare is how many bytes are always set aside for cleaning: a segment's worth.
func (r *reserve) spare() int64 { return min(r.segmentSize, maxReserve) }

// mostCopies is how many bytes cleaning may have to write again before it can give
// back: one of the largest segments.
func (r *reserve) mostCopies() int64 { return min(r.largestIfTight()+r.Step(), maxReserve) }

// largestIfTight is how many bytes a segment may reach while the disk is nearly
// full.
func (r *reserve) largestIfTight() int64 { return r.segmentSize + r.segmentSize/4 }

// Step is how many bytes are set aside at a time, and about how many cleaning
// may copy at a time on a full disk. Any goroutine may call it.
func (r *reserve) Step() int64 { return max(r.segmentSize/8, minSegment) }

// needForPut is how many bytes have to be set aside for one more put of n bytes in this
// batch. The shard's goroutine only.
func (r *reserve) needForPut(n int) int64 {
	return int64(n) + blockOverhead + r.Reserve() + int64(r.fresh+1)*owedPut
}

// owedNow is how many bytes deletes may take, also those of jobs put in this batch. The
// shard's goroutine only.
func (r *reserve) owedNow() int64 {
	return owedDeletes(r.jobs.Load()) + int64(r.fresh)*(owedDelete+owedBlock)
}

// leftByChanges is how many bytes changes and cleaning leave alone: for deletes, and
// for going on in the next segment. The shard's goroutine only.
func (r *reserve) leftByChanges() int64 { return r.owedNow() + SegmentOverhead }
