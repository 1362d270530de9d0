package router

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/shard"
)

// durState is what an engine has.
type durState struct {
	now    int64 // nanoseconds of Unix time
	jobs   map[uint64]durFound
	buried map[string][]uint64 // by tube, in order
	last   uint64              // id that was given out
	stats  shard.Stats
}

type durFound struct {
	*shard.JobStats
	body    []byte
	task    *shard.Task
	grabbed bool // task is known
}

// durRead finds out what an engine has by asking it. The buried and the delayed
// jobs are kicked for that, and all grabbed.
func durRead(r *Router) *durState {
	s := &durState{
		now: time.Now().UnixNano(), jobs: make(map[uint64]durFound), buried: make(map[string][]uint64),
		last: r.directory.LastID(),
	}
	c := r.NewClient()
	defer c.Close()
	s.stats = c.Stats().Stats
	heard := func(q *shard.Request) {
		switch q.Op {
		case shard.StatsJob:
			s.jobs[q.ID] = durFound{JobStats: q.Job}
		case shard.Peek:
			s.jobs[q.ID] = durFound{JobStats: s.jobs[q.ID].JobStats, body: slices.Clone(q.Body)}
		case shard.PeekBuried:
			s.buried[c.Used().Name] = append(s.buried[c.Used().Name], q.ID)
		}
	}
	listen := func() {
		for done := c.Await(false); done != nil; done = c.Await(false) {
			for _, q := range done {
				if q.Status == shard.OK {
					heard(q)
				}
			}
		}
	}
	say := func(cmd shard.Request) {
		for q := c.New(cmd.Op); ; q = c.New(cmd.Op) {
			*q = cmd
			if c.Queue(q) {
				return
			}
			listen()
		}
	}
	for i := range r.shards {
		for id := uint64(1); id <= s.last+3; id++ {
			if r.directory.Lookup(id) == i {
				say(shard.Request{Op: shard.StatsJob, ID: id})
				say(shard.Request{Op: shard.Peek, ID: id})
			}
		}
		listen()
	}
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		if f := s.jobs[id]; f.State == "buried" {
			// As often in each tube as there are jobs buried.
			c.Use(f.Tube)
			say(shard.Request{Op: shard.PeekBuried})
			say(shard.Request{Op: shard.Kick, N: 1})
			listen()
		}
	}
	tubes := make(map[string]bool)
	for _, f := range s.jobs {
		tubes[f.Tube] = true
	}
	for tube := range tubes {
		c.Use(tube)
		say(shard.Request{Op: shard.Kick, N: 1 << 30})
		listen()
	}
	for id, task := range durGrab(r, tubes) {
		f := s.jobs[id]
		f.grabbed = true
		if task != nil {
			f.task = &shard.Task{Unique: task.Unique, Reducer: task.Reducer, Background: task.Background}
		}
		s.jobs[id] = f
	}
	return s
}

// wrong tells why what was found at some time is not version v of j.
func (j *durJob) wrong(v *durVersion, f durFound, now int64) error {
	switch there := f.JobStats != nil; {
	case v.gone && there:
		return fmt.Errorf("it is there: %+v", *f.JobStats)
	case v.gone:
		return nil
	case !there:
		return fmt.Errorf("it is not there")
	}
	want := shard.JobStats{
		ID: j.id, Tube: j.tube, State: v.state.String(), Pri: v.pri, Delay: v.delay, TTR: j.ttr,
		Age:      (now - j.created) / int64(time.Second),
		Reserves: v.reserves, Timeouts: v.timeouts, Releases: v.releases, Buries: v.buries, Kicks: v.kicks,
		File: f.File,
	}
	if v.state == binlog.Delayed {
		if v.at > now {
			want.TimeLeft = (v.at - now - 1) / int64(time.Second)
		} else {
			want.State = "ready"
		}
	}
	if j.brim && f.Reserves <= want.Reserves && f.Timeouts <= want.Timeouts {
		want.Reserves, want.Timeouts = f.Reserves, f.Timeouts
	}
	if want != *f.JobStats {
		return fmt.Errorf("it is %+v, want %+v", *f.JobStats, want)
	}
	if !bytes.Equal(j.body, f.body) {
		return fmt.Errorf("its body is %.80q… (%d bytes), want %.80q… (%d bytes)", f.body, len(f.body), j.body, len(j.body))
	}
	if f.grabbed && ((f.task == nil) != (j.task == nil) ||
		j.task != nil && (f.task.Unique != j.task.Unique || f.task.Reducer != j.task.Reducer || !f.task.Background)) {
		return fmt.Errorf("its task is %+v, want %+v", f.task, j.task)
	}
	return nil
}

// compare tells what is wrong with what was found after a crash at p. It
// returns the last change of each shard that is there: all before are, and none
// after.
func (p *durPoint) compare(s *durState) (cuts []int64, err error) {
	if s.last < p.ackedID {
		return nil, fmt.Errorf("the last id is %d, and %d was told to a client", s.last, p.ackedID)
	}
	if n := s.stats.Ready + s.stats.Delayed + s.stats.Buried; n != len(s.jobs) || s.stats.Reserved != 0 {
		return nil, fmt.Errorf("the statistics speak of %d jobs, and %d that are reserved; there are %d", n, s.stats.Reserved, len(s.jobs))
	}
	for id := range s.jobs {
		if p.model.jobs[id] == nil {
			return nil, fmt.Errorf("job %d was never put", id)
		}
	}
	of := make([][]*durJob, len(p.acked))
	for _, id := range slices.Sorted(maps.Keys(p.model.jobs)) {
		j := p.model.jobs[id]
		of[j.shard] = append(of[j.shard], j)
	}
	for i, acked := range p.acked {
		cut, err := p.compareShard(of[i], acked, s)
		if err != nil {
			return nil, fmt.Errorf("shard %d of %d: %w", i, len(p.acked), err)
		}
		cuts = append(cuts, cut)
	}
	return cuts, nil
}

// compareShard is compare for the jobs of one shard.
func (p *durPoint) compareShard(jobs []*durJob, acked int64, s *durState) (cut int64, err error) {
	candidates := []int64{acked}
	for _, j := range jobs {
		possible := false
		var first error
		for i := range j.versions {
			v := &j.versions[i]
			if v.seq > p.issued {
				break
			}
			if v.seq > acked {
				candidates = append(candidates, v.seq)
			} else if i+1 < len(j.versions) && j.versions[i+1].seq <= acked {
				continue
			}
			err := j.wrong(v, s.jobs[j.id], s.now)
			possible = possible || err == nil
			if first == nil {
				first = err
			}
		}
		if !possible {
			return 0, fmt.Errorf("job %d, with changes up to %d acknowledged: %w; %+v", j.id, acked, first, j.versions)
		}
	}
	slices.Sort(candidates)
	for _, cut := range slices.Compact(candidates) {
		wrong := p.compareCut(jobs, cut, s)
		if wrong == nil {
			return cut, nil
		}
		if err == nil {
			err = wrong
		}
	}
	return 0, fmt.Errorf("of the changes after %d, %d were under way, and no first few of them leave what is there: without any, %w", acked, candidates[1:], err)
}

// compareCut compares some jobs with what they were after a change.
func (p *durPoint) compareCut(jobs []*durJob, cut int64, s *durState) error {
	graves := make(map[string][]*durJob)
	for _, j := range jobs {
		v := j.at(cut)
		if err := j.wrong(v, s.jobs[j.id], s.now); err != nil {
			return fmt.Errorf("job %d: %w", j.id, err)
		}
		if !v.gone && v.state == binlog.Buried {
			graves[j.tube] = append(graves[j.tube], j)
		}
	}
	for tube, buried := range graves {
		slices.SortFunc(buried, func(a, b *durJob) int { return cmp.Compare(a.at(cut).at, b.at(cut).at) })
		var want []uint64
		for _, j := range buried {
			want = append(want, j.id)
		}
		if !slices.Equal(want, s.buried[tube]) {
			return fmt.Errorf("buried in tube %s are %d, want %d", tube, s.buried[tube], want)
		}
	}
	return nil
}
