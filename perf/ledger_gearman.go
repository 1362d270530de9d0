package perf

// The ledger's side of jobs that are submitted to a Gearman server. Such a job is
// put when it is submitted, reserved when a worker has it, and deleted when its
// result has come, or for a background job when the server has read the
// WORK_COMPLETE. All times are given as 0, so neither order nor TTRs are checked.

// created is called with each JOB_CREATED.
func (l *ledger) created(number uint64, handle []byte) error {
	id, err := handleID(handle)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inserted(nil, number, id, 0)
	return nil
}

// assigned is called with each JOB_ASSIGN that c gets, and returns the number of
// the job; 0 if that is not known.
func (l *ledger) assigned(c *conn, handle, function, workload []byte) (number uint64, err error) {
	id, err := handleID(handle)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	number = l.reserved(c, &reply{kind: reserved, id: id, body: workload}, 0, 0)
	if p, i := l.find(number); p != nil && number > 0 && p.tube[i] != string(function) {
		l.fault(wrongFunction, "job %d, handle %s, of %s was assigned as one of %s", number, handle, p.tube[i], quote(function))
	}
	return number, nil
}

// completed is called with background jobs whose WORK_COMPLETE the server has
// read.
func (l *ledger) completed(numbers []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, number := range numbers {
		l.complete(number)
	}
}

func (l *ledger) complete(number uint64) {
	if p, i := l.find(number); p != nil && p.state[i] == leaving {
		l.markGone(number, p, i, 0)
	}
}

// result is called with the WORK_COMPLETE of the foreground job of that number;
// right says whether the result is as it should be in all that the ledger does
// not check.
func (l *ledger) result(number uint64, handle, result []byte, right bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !right || len(result) < headerCheck || !intactBody(result) || numberOf(result) != number {
		l.fault(wrongResult, "job %d, handle %s: %s", number, handle, quote(result))
	}
	l.complete(number)
}

// completedAgain is called with a WORK_COMPLETE to a client that has no such job
// under way.
func (l *ledger) completedAgain(handle []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault(completedTwice, "handle %s, of which its client waits for nothing", handle)
}

// unfinished is called for a foreground job whose result had not come when its
// client left; cut says that the load was ended early. A job without a handle was
// never acknowledged.
func (l *ledger) unfinished(number uint64, handle []byte, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !cut && len(handle) > 0 {
		l.fault(lostJob, "job %d, handle %s, was submitted, and no result came", number, handle)
	}
	if p, i := l.find(number); p != nil && p.state[i] != goneJob {
		p.state[i] = leftOpen
	}
}
