package shard

// Functions: what of a tube is Gearman's, and what Gearman's administration asks for.

// function is what a tube has for Gearman, from when Gearman has first named the tube. A
// tube with a function stays until DropFunction.
type function struct {
	keys     keyTable  // the jobs that others with their key are coalesced with
	place    int       // in Shard.keyed, if there are such jobs
	sleepers watchList // workers that doze until there is a job
	workers  int       // Gearman's, that watch the tube
	limits   [3]uint32 // of jobs, for PriHigh, PriNormal and PriLow; 0 is none
	dropped  bool      // it is being dropped, and was not named since
}

// asFunction returns t's function, made if need be. If it is being dropped, it stays.
func (t *Tube) asFunction() *function {
	if t.function == nil {
		t.function = &function{keys: newKeyTable()}
	}
	t.function.dropped = false
	return t.function
}

// bandOf returns which of Gearman's three priorities a priority counts as.
func bandOf(pri uint32) int {
	switch {
	case pri < PriNormal:
		return 0
	case pri < PriLow:
		return 1
	}
	return 2
}

// Lists is what some rare requests ask with, or are answered with.
type Lists struct {
	Names     []string        // of Tubes
	Functions []FunctionStats // of Functions
	Tasks     []TaskStats     // of ListJobs, which appends to it
	Limits    [3]uint32       // of LimitFunction: high, normal, low
}

// FunctionStats is a function in the answer of Functions.
type FunctionStats struct {
	Name string
	// The jobs that are not done: the ready ones of each priority, those with a worker,
	// and the delayed ones of high, normal and low priority.
	High, Normal, Low, Running int
	Delayed                    [3]int
	Workers                    int // Gearman's, dozing or not
}

// TaskStats is a job in the answer of ListJobs.
type TaskStats struct {
	ID         uint64
	Unique     string
	Retries    uint32
	Background bool
	Waiting    bool // somebody waits for it
}

// functions lists the functions: the tubes that Gearman has named, and those
// that have jobs for its workers.
func (s *Shard) functions() []FunctionStats {
	var all []FunctionStats
	for _, t := range s.tubes {
		if !t.listed() {
			continue
		}
		f := FunctionStats{
			Name: t.Name, High: t.urgent, Low: t.low, Normal: t.ready.len() - t.urgent - t.low,
			Running: t.reserved, Delayed: t.later,
		}
		if t.function != nil {
			f.Workers = t.function.workers
		}
		all = append(all, f)
	}
	return all
}

// limitFunction serves LimitFunction. A function that is not there has no limit.
func (s *Shard) limitFunction(r *Request) {
	if t := s.tubes[r.Name]; t != nil && t.listed() {
		t.asFunction().limits = r.Lists.Limits
	}
}

// dropFunction serves DropFunction: the function goes, and all its queued jobs fail.
// Those that Gearman submitted are discarded, those of beanstalkd's put are buried.
// (Buried jobs stay, in a tube that is no function.) It answers Busy if the function has
// workers, or some of its jobs are with clients.
//
// It does a step of that, and reports whether there is more to do. If somebody names the
// function between the steps it stays, with what is submitted from then on, and so do
// jobs that somebody reserves meanwhile.
func (s *Shard) dropFunction(r *Request) (more bool) {
	t := s.tubes[r.Name]
	switch {
	case r.progress != nil:
		if t == nil || t.function == nil {
			return false // another drop has ended
		}
	case t == nil || !t.listed():
		r.Status = NotFound
		return false
	case t.reserved > 0 || t.function != nil && t.function.workers > 0:
		r.Status = Busy
		return false
	default:
		r.progress = &progress{from: 1, last: s.cfg.Directory.LastID()}
		f := t.asFunction()
		f.dropped, f.limits = true, [3]uint32{}
	}
	if s.failed {
		r.Status = Failed
		return false
	}
	if s.failSome(t, r) || s.roomComes() {
		return true
	}
	if r.Status != OK {
		t.function.dropped = false // it stays
		return false
	}
	// A job that somebody has reserved may still have its unique in the function.
	if f := t.function; f.dropped && f.keys.len() == 0 {
		t.function = nil
		s.drop(t)
	}
	return false
}

// failSome does a step of dropping a function, and reports whether there is more to do.
// The jobs fail in the order of their ids. As long as there are many they are searched
// for among all jobs of the shard, since to sort them would take too long.
func (s *Shard) failSome(t *Tube, r *Request) (more bool) {
	p := r.progress
	if t.queued() <= stepJobs {
		for _, id := range t.queuedIDs() {
			if id <= p.last && !s.failQueued(s.job(id), r) {
				return r.Status == OK
			}
		}
		return false
	}
	left, past := stepJobs, false
	p.from = s.cfg.Directory.look(p.from, s.cfg.Index, func(j *job) bool {
		if past = j.id > p.last; past {
			return false
		}
		if j.inTube != t.number || j.state != ready && j.state != delayed {
			return true
		}
		left--
		return s.failQueued(j, r) && left > 0
	})
	return r.Status == OK && !past && p.from != 0
}

// failQueued fails j, which is ready or delayed, and reports whether the step may go on.
// If the log has no room it answers r, and reports false.
func (s *Shard) failQueued(j *job, r *Request) bool {
	switch {
	case j.tasked != 0:
		s.deleteJob(j, Fail, nil)
	case s.refused(r):
		return false
	default:
		s.remove(j)
		s.makeBuried(j)
	}
	return !s.filled()
}

// cancelJob serves CancelJob: the job is discarded, and the clients that wait for it are
// told that it failed. If a worker has it, that may finish it, but no other gets it: it
// becomes a job of the foreground that nobody waits for. (Unless it is submitted again
// meanwhile: then somebody waits for it, or it is one of the background again.)
func (s *Shard) cancelJob(r *Request) {
	switch j := s.job(r.ID); {
	case j == nil || j.state == buried:
		r.Status = NotFound
	case s.failed && s.logs(j):
		r.Status = Failed
	case j.state == reserved:
		s.tellEnd(j, Fail, nil)
		s.logDelete(j)
		j.foreground = true
		if task := s.taskOf(j); task != nil {
			task.Background = false
		}
	default:
		s.deleteJob(j, Fail, nil)
	}
}

// listJobs serves ListJobs, a step at a time: the asker goes on with the ID that is
// answered.
func (s *Shard) listJobs(r *Request) {
	if r.Lists == nil {
		r.Lists = new(Lists)
	}
	r.ID = s.cfg.Directory.look(r.ID, s.cfg.Index, func(j *job) bool {
		if j.state != buried {
			r.Lists.Tasks = append(r.Lists.Tasks, s.taskStats(j))
		}
		return true
	})
}

func (s *Shard) taskStats(j *job) TaskStats {
	st := TaskStats{ID: j.id, Background: !j.foreground}
	if task := s.taskOf(j); task != nil {
		st.Unique, st.Retries, st.Waiting = task.Unique, task.retries, task.listeners > 0
	} else {
		// Every reserve has ended with the job put back, except those that ended with its
		// burial, and the one that lasts. Clients that have gone are counted nowhere else.
		kept := j.buries
		if j.state == reserved {
			kept++
		}
		st.Retries = max(j.timeouts+j.releases, j.reserves-min(kept, j.reserves))
	}
	return st
}
