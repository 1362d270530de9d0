package binlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The files of beanstalkd 1.12 (see its file.c and walg.c). Numbers are
// little-endian:
//
//	binlog.N  int32 7, records, zeros to the size set with -s
//	record    int32 length of the tube's name; name; 80 bytes:
//	            0 uint64 id          40 int64  created_at   64 uint32 release_ct
//	            8 uint32 pri         48 int64  deadline_at  68 uint32 bury_ct
//	           16 int64  delay       56 uint32 reserve_ct   72 uint32 kick_ct
//	           24 int64  ttr         60 uint32 timeout_ct   76 byte   state
//	           32 int32  body_size
//	          and if there is a name: the body, with the CRLF that ends it
//
// Times are nanoseconds. A record with a name has the whole job: it is a put, or
// a copy made by compaction, in any state. One without a name has the state of a
// job after a release with a delay, a bury, a kick or a delete. A release without
// delay, a reserve, a touch, a timeout and the end of a delay write nothing: what
// they change comes with the job's next record.
//
// Files are removed in the order of their numbers, each when no job has its last
// whole record in it. So those that are left may begin with changes of jobs whose
// copies come only later, or of jobs that are gone. Behind the file that is written
// there may be empty ones. A restart begins a new file, so there may be files behind
// a record that a crash has torn. A crash may also leave a file that was only just
// made: without bytes, or with zeros in place of the version.
const (
	beanstalkdVersion = 7
	beanstalkdFixed   = 80 // of a record, without its name and body
	beanstalkdState   = 76 // offset of the state in those
	maxBeanstalkdName = 200
	maxBeanstalkdBody = 1<<30 + 2 // the most that its flag -z takes, and the CRLF
)

// The states of a job there.
const (
	beanstalkdInvalid = iota // deleted
	beanstalkdReady
	beanstalkdReserved
	beanstalkdBuried
	beanstalkdDelayed
)

// beanstalkdFiles lists beanstalkd's files in a directory, in the order in which
// they were written. foreign are the other files with a name like binlog.x, and why
// they are not beanstalkd's.
func beanstalkdFiles(fsys FS, dir string) (names []string, foreign []Damage, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, "binlog.") {
			continue
		}
		what := "a foreign file, of a name that beanstalkd does not give: it is left alone"
		if _, ok := beanstalkdNumber(name); ok {
			what = "not a file, though named as beanstalkd names its own: it is left alone"
			if e.Type().IsRegular() {
				if what, err = beanstalkdForeign(fsys, filepath.Join(dir, name)); err != nil {
					return nil, nil, err
				}
			}
		}
		if what == "" {
			names = append(names, name)
		} else {
			foreign = append(foreign, Damage{name, 0, what})
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		i, _ := beanstalkdNumber(a)
		j, _ := beanstalkdNumber(b)
		return cmp.Compare(i, j)
	})
	return names, foreign, nil
}

// beanstalkdNumber returns the N of binlog.N.
func beanstalkdNumber(name string) (int64, bool) {
	digits, _ := strings.CutPrefix(name, "binlog.")
	n, err := strconv.ParseInt(digits, 10, 32)
	return n, err == nil && name == fmt.Sprint("binlog.", n) && n >= 0
}

// beanstalkdForeign says why a file is not one of beanstalkd's that can be
// read, and nothing if it is one.
func beanstalkdForeign(fsys FS, path string) (what string, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s, err := newBeanstalkdScanner(f)
	if err != nil {
		return "", err
	}
	what, err = s.foreign()
	if what != "" {
		what += ": it is left alone"
	}
	return what, err
}

// readBeanstalkd returns the jobs that are alive at the end of beanstalkd's files,
// in the order of their ids, and the highest id that any record has. names are as
// beanstalkdFiles returns them. What makes no sense is reported, and the rest of its
// file is passed over: records have neither checksums nor marks by which to find the
// next one. The error is one of the file system.
func readBeanstalkd(fsys FS, dir string, names []string, report func(Damage)) (jobs []*Job, last uint64, err error) {
	p := beanstalkdReplay{jobs: make(map[uint64]*beanstalkdJob), names: make(map[string]string)}
	p.report = func(d Damage) {
		p.damaged = true
		report(d)
	}
	for i, name := range names {
		if i > 0 {
			p.gap(names[i-1], name)
		}
		if err := p.file(fsys, filepath.Join(dir, name)); err != nil {
			return nil, 0, err
		}
	}
	return p.alive(), p.last, nil
}

// beanstalkdReplay is the state of a replay: what was read so far.
type beanstalkdReplay struct {
	report  func(Damage)
	jobs    map[uint64]*beanstalkdJob
	names   map[string]string // of tubes, so that each is allocated once
	burials int64             // how many were read
	last    uint64            // the highest id
	damaged bool
	// torn is a record that the last file ends within. It is damage only if records
	// follow in a later file.
	torn *Damage
}

// beanstalkdJob is a job, or only the last change of one whose whole record has not
// come yet. Its record has the state and counters as last read.
type beanstalkdJob struct {
	beanstalkdRecord
	whole bool
	// burial is the number of the job's last burial among all that were read; 0 if that
	// was in a file that is gone.
	burial int64
	extra  uint32 // by how much bury_ct is too high
}

// gap reports files that are missing between two. beanstalkd only ever removes the
// first one.
func (p *beanstalkdReplay) gap(before, after string) {
	i, _ := beanstalkdNumber(before)
	j, _ := beanstalkdNumber(after)
	if j > i+1 {
		p.report(Damage{fmt.Sprint("binlog.", i+1), 0, fmt.Sprintf("a file of beanstalkd's is missing, or cannot be read, before %s", after)})
	}
}

// file replays one file.
func (p *beanstalkdReplay) file(fsys FS, path string) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := newBeanstalkdScanner(f)
	if err != nil {
		return err
	}
	var rec beanstalkdRecord
	for {
		err := s.next(&rec)
		if err == io.EOF {
			return nil
		}
		if p.torn != nil {
			p.report(*p.torn)
			p.torn = nil
		}
		if err == nil {
			if what := p.apply(&rec); what != "" {
				err = s.fault(s.at+4+int64(len(rec.name))+beanstalkdState, what)
			}
		}
		if err == nil {
			continue
		}
		fault, ok := errors.AsType[*beanstalkdFault](err)
		if !ok {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		d := Damage{filepath.Base(path), s.at, fault.what + ": the rest of the file is passed over"}
		if fault.torn {
			p.torn = &d
		} else {
			p.report(d)
		}
		return nil
	}
}

// apply applies one record. It returns what is wrong if the record does not agree
// with those before it. It keeps rec's body, but not its name.
func (p *beanstalkdReplay) apply(rec *beanstalkdRecord) (wrong string) {
	j := p.jobs[rec.id]
	if j != nil && !j.agrees(rec) {
		return fmt.Sprintf("a record of job %d that does not agree with the one before it", rec.id)
	}
	p.last = max(p.last, rec.id)
	if rec.state == beanstalkdInvalid {
		delete(p.jobs, rec.id)
		return ""
	}
	if j == nil {
		j = &beanstalkdJob{}
		p.jobs[rec.id] = j
		if rec.state == beanstalkdBuried && len(rec.name) == 0 {
			p.bury(j)
		}
	} else {
		p.change(j, rec)
	}
	tube, body := j.tube, j.body
	if len(rec.name) > 0 {
		j.whole = true
		tube, body = p.intern(rec.name), rec.body
	}
	j.beanstalkdRecord = *rec
	j.name, j.tube, j.body = nil, tube, body
	return ""
}

// change notes burials in the next record of a job that is known.
//
// Only a reserved job can be buried. So a record in the state buried is that of a
// bury if the job was not buried before, or has been reserved since; otherwise it is
// a copy.
//
// When beanstalkd starts it counts each job that it finds buried as buried once more
// (its issue 668), which shows in the job's next record.
func (p *beanstalkdReplay) change(j *beanstalkdJob, rec *beanstalkdRecord) {
	want := j.buries
	if rec.state == beanstalkdBuried && (j.state != beanstalkdBuried || rec.reserves > j.reserves) {
		want++
		p.bury(j)
	}
	// Where there was damage, the records of real burials may be missing.
	if rec.buries > want && !p.damaged {
		j.extra += rec.buries - want
	}
}

func (p *beanstalkdReplay) bury(j *beanstalkdJob) {
	p.burials++
	j.burial = p.burials
}

func (p *beanstalkdReplay) intern(name []byte) string {
	s, ok := p.names[string(name)]
	if !ok {
		s = string(name)
		p.names[s] = s
	}
	return s
}

// alive returns the jobs that are there at the end.
func (p *beanstalkdReplay) alive() []*Job {
	var buried []*beanstalkdJob
	for id, j := range p.jobs {
		switch {
		case !j.whole:
			// The file with the whole job is gone, which is so only if the job is, too.
			delete(p.jobs, id)
		case j.state == beanstalkdBuried:
			buried = append(buried, j)
		}
	}
	// Jobs whose burial was in a file that is gone were buried before all others, and
	// about in the order in which they were reserved.
	slices.SortFunc(buried, func(a, b *beanstalkdJob) int {
		return cmp.Or(cmp.Compare(a.burial, b.burial), cmp.Compare(a.reserved(), b.reserved()), cmp.Compare(a.id, b.id))
	})
	for i, j := range buried {
		j.burial = int64(i) + 1
	}
	list := make([]*Job, 0, len(p.jobs))
	for _, j := range p.jobs {
		list = append(list, j.job())
	}
	slices.SortFunc(list, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// reserved is when a job that is not delayed was last reserved or touched.
func (j *beanstalkdJob) reserved() int64 { return j.deadline - j.ttr }

// agrees tells whether rec can be a later record of the same job: nothing differs
// that never changes, and counters only go up.
func (j *beanstalkdJob) agrees(rec *beanstalkdRecord) bool {
	return rec.created == j.created && rec.ttr == j.ttr && rec.size == j.size &&
		rec.reserves >= j.reserves && rec.timeouts >= j.timeouts && rec.releases >= j.releases &&
		rec.buries >= j.buries && rec.kicks >= j.kicks &&
		(len(rec.name) == 0 || !j.whole || string(rec.name) == j.tube)
}

func (j *beanstalkdJob) job() *Job {
	out := &Job{
		Meta: Meta{
			ID: j.id, Pri: j.pri, Delay: uint32(j.delay / int64(time.Second)),
			Reserves: j.reserves, Timeouts: j.timeouts, Releases: j.releases, Buries: j.buries - j.extra, Kicks: j.kicks,
		},
		TTR: uint32(j.ttr / int64(time.Second)), Created: j.created, Tube: j.tube, Body: j.body,
	}
	switch j.state {
	case beanstalkdDelayed:
		out.State, out.At = Delayed, j.deadline
	case beanstalkdBuried:
		out.State, out.At = Buried, j.burial
	}
	return out
}
