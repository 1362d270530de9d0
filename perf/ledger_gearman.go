package perf

// The ledger of jobs that are submitted to a Gearman server. Such a job is put
// when it is submitted, reserved when a worker has it, and deleted when its
// result has come, or when the server has read the WORK_COMPLETE of a
// background job.

// created is told of JOB_CREATED.
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

// assigned is told of the JOB_ASSIGN that c gets, and returns which job it is; 0
// is not known.
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

// completed is told of background jobs whose WORK_COMPLETE the server has read.
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

// result is told of the WORK_COMPLETE of a foreground job: of what it was
// submitted as, and whether the result looks right otherwise.
func (l *ledger) result(number uint64, handle, result []byte, right bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !right || len(result) < headerCheck || !intactBody(result) || numberOf(result) != number {
		l.fault(wrongResult, "job %d, handle %s: %s", number, handle, quote(result))
	}
	l.complete(number)
}

// completedAgain is told of a WORK_COMPLETE to a client that has no such job
// under way.
func (l *ledger) completedAgain(handle []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault(completedTwice, "handle %s, of which its client waits for nothing", handle)
}

// unfinished is told of a foreground job whose result had not come when its
// client left. What has no handle was never acknowledged.
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
