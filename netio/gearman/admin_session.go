package gearman

// Serving the text admin protocol's commands, which parseAdmin has read.

import (
	"bytes"

	"github.com/sheafq/sheaf/shard"
)

// adminLine serves the admin line that the input begins with. It reports false if more
// input is needed first, or if the connection ends.
func (s *session) adminLine() bool {
	line, n := cutLine(s.rest)
	if n == 0 {
		if len(s.rest) >= maxLine {
			s.flush()
			b := s.buf()
			b.B = append(b.B, adminTooLong...)
			s.err = errTooLarge
		}
		return false
	}
	a := parseAdmin(line)
	if a.verb == adminUnknown && isHTTP(line) {
		s.err = errHTTP
		return false
	}
	s.flush()
	s.admin(&a)
	s.rest = s.rest[n:]
	return true
}

// isHTTP reports whether a line begins an HTTP request: a method, a target, the version.
// Any web page can make a browser send a request whose body consists of admin lines.
func isHTTP(line []byte) bool {
	method, target := bytes.IndexByte(line, ' '), bytes.LastIndexByte(line, ' ')
	if method <= 0 || target == method {
		return false
	}
	for _, c := range line[:method] {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	version, is := bytes.CutPrefix(line[target+1:], []byte("HTTP/"))
	return is && len(version) > 0 && '0' <= version[0] && version[0] <= '9'
}

// admin answers an admin command.
func (s *session) admin(a *admin) {
	var functions []functionStatus
	switch a.verb {
	case adminStatus, adminPriorityStatus:
		for _, f := range s.client.Functions() {
			queued := [priorities]int{f.High + f.Delayed[high], f.Normal + f.Delayed[normal], f.Low + f.Delayed[low]}
			functions = append(functions, functionStatus{
				name: f.Name, total: queued[high] + queued[normal] + queued[low] + f.Running, running: f.Running,
				queued: queued, workers: f.Workers,
			})
		}
	case adminShowJobs, adminShowUniqueJobs:
		s.showJobs(a.verb == adminShowUniqueJobs)
		return
	}
	name := string(a.name)
	b := s.buf()
	switch a.verb {
	case adminStatus:
		b.B = appendStatus(b.B, functions)
	case adminPriorityStatus:
		b.B = appendPriorityStatus(b.B, functions)
	case adminWorkers:
		b.B = appendWorkers(b.B, s.protocol.workers())
	case adminMaxQueue:
		s.client.LimitFunction(name, a.max)
		b.B = append(b.B, adminOK...)
	case adminVersion:
		b.B = appendOK(b.B, s.protocol.cfg.Version)
	case adminGetPID:
		b.B = appendOKNumber(b.B, pid)
	case adminVerbose:
		b.B = appendOK(b.B, s.protocol.cfg.Level.String())
	case adminCancelJob:
		b.B = append(b.B, s.cancelJob(a.name)...)
	case adminCreateFunction:
		if !validFunction(a.name) {
			b.B = append(b.B, adminBadFunction...)
			break
		}
		s.client.CreateFunction(name)
		b.B = append(b.B, adminOK...)
	case adminDropFunction:
		b.B = append(b.B, s.dropFunction(name)...)
	case adminShutdown, adminShutdownGraceful:
		b.B = append(b.B, adminOK...)
		s.protocol.cfg.Shutdown(a.verb == adminShutdownGraceful)
	default:
		b.B = a.refusal(b.B)
	}
}

func (s *session) cancelJob(handle []byte) string {
	if id, ok := s.protocol.handles.parse(handle); ok {
		switch s.client.CancelJob(id) {
		case shard.OK:
			return adminOK
		case shard.Failed:
			return adminFailed
		}
	}
	return adminNoJob
}

func (s *session) dropFunction(name string) string {
	switch s.client.DropFunction(name) {
	case shard.NotFound:
		return adminNoFunction
	case shard.Busy:
		return adminBusy
	case shard.OutOfMemory:
		return adminNoRoom
	case shard.Failed:
		return adminFailed
	}
	return adminOK
}

// showJobs answers show jobs and show unique jobs.
func (s *session) showJobs(uniques bool) {
	s.client.Tasks(func(t shard.TaskStats) bool {
		b := s.buf() // for each job, so that it is flushed when it has grown
		if uniques {
			b.B = append(append(b.B, t.Unique...), '\n')
		} else {
			b.B = s.protocol.handles.append(b.B, t.ID)
			b.B = appendRow(b.B, int(t.Retries), bit(!t.Background && !t.Waiting), bit(t.Background))
		}
		return true
	})
	b := s.buf()
	b.B = append(b.B, adminEnd...)
}

// bit returns v as the tables have it.
func bit(v bool) int {
	if v {
		return 1
	}
	return 0
}
