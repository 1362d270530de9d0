package shard

// What Gearman's administration asks for.

// Lists is what few requests are answered with, or ask with.
type Lists struct {
	Names     []string        // of Tubes
	Functions []FunctionStats // of Functions
	Tasks     []TaskStats     // of ListJobs, which appends to it
	Limits    [3]uint32       // of LimitFunction: high, normal, low
}

// FunctionStats is a function in the answer of Functions.
type FunctionStats struct {
	Name string
	// Jobs counts those that are not done: the ready ones of each priority,
	// those with a worker, and those whose time has not come.
	High, Normal, Low, Running, Delayed int
	Workers                             int // Gearman's, asleep or not
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
		if t.function == nil && t.jobs == t.buried.n {
			continue
		}
		f := FunctionStats{
			Name: t.Name, High: t.urgent, Low: t.low, Normal: t.ready.len() - t.urgent - t.low,
			Running: t.reserved, Delayed: t.delayed.len(),
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
	if t := s.tubes[r.Name]; t != nil {
		t.asFunction().limits = r.Lists.Limits
	}
}

// dropFunction serves DropFunction: the function goes, with all jobs that were
// submitted to it. (What beanstalkd's put has put there stays, in a tube that is
// no function, and so do buried jobs.) It is Busy while it has workers, or jobs are
// with some. It does a step of that, and reports whether there is more to do: who
// names the function after it has begun makes it anew, and what is submitted then
// stays, as does what somebody has reserved meanwhile.
func (s *Shard) dropFunction(r *Request) (more bool) {
	t := s.tubes[r.Name]
	switch {
	case r.progress != nil:
	case t == nil || t.function == nil:
		r.Status = NotFound
		return false
	case t.function.workers > 0 || t.reserved > 0:
		r.Status = Busy
		return false
	default:
		r.progress = &progress{ids: t.queued()}
		t.function.dropped, t.function.limits = true, [3]uint32{}
	}
	if s.failed {
		r.Status = Failed
		return false
	}
	if s.callOffSome(r.progress); len(r.progress.ids) > 0 {
		return true
	}
	// A job that somebody has reserved may still have its unique there.
	if t != nil && t.function != nil && t.function.dropped && len(t.function.uniques) == 0 {
		t.function = nil
		s.drop(t)
	}
	return false
}

// callOffSome does a step of dropping a function.
func (s *Shard) callOffSome(p *progress) {
	for range min(stepJobs, len(p.ids)) {
		j := s.job(p.ids[0])
		p.ids = p.ids[1:]
		if j != nil && j.tasked != 0 && (j.state == ready || j.state == delayed) {
			s.callOff(j)
		}
		if s.filled() {
			return
		}
	}
}

// cancelJob serves CancelJob: the job goes, and who waits for it hears so. If a
// worker has it, that may finish it, but it does not come again: it is one of the
// foreground that nobody waits for.
func (s *Shard) cancelJob(r *Request) {
	switch j := s.job(r.ID); {
	case j == nil || j.state == buried:
		r.Status = NotFound
	case j.state == reserved && j.tasked == 0:
		r.Status = Busy
	case s.failed && s.logs(j):
		r.Status = Failed
	case j.state == reserved:
		s.logDelete(j)
		j.foreground, s.taskOf(j).Background = true, false
		s.finish(j, Fail, nil)
	default:
		s.callOff(j)
	}
}

// callOff ends a job that no worker has.
func (s *Shard) callOff(j *job) {
	s.remove(j)
	s.finish(j, Fail, nil)
	s.tubeOf(j).deletes++
	s.discard(j)
}

// listJobs serves ListJobs, a step at a time: who asks goes on with the ID of the
// answer.
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
		st.Retries = j.timeouts + j.releases
	}
	return st
}
