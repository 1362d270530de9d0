package binlog

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// refusals says in the server's log whether puts are refused for want of room, so that
// the last line about it tells. On a full disk that is in use single puts fit all the
// time, since others delete jobs, while most are refused. So puts are said to be accepted
// again only when one has fitted and for a while none was refused; and that they are
// refused is repeated from time to time. It is for all logs of a store, since one of them
// may refuse puts while others do not. Any goroutine may call the methods.
type refusals struct {
	log *slog.Logger
	// said is that puts were last said to be refused; written under mu.
	said atomic.Bool

	mu     sync.Mutex
	saidAt time.Time // when that was
	count  int       // puts refused that no line tells of yet
	last   time.Time // when one was last refused
	fitted bool      // one has fitted since
}

const (
	// calm is for how long no put was refused when puts are said to be accepted again.
	calm = 5 * time.Second
	// sayAgain is how often it is said that puts are refused.
	sayAgain = time.Minute
)

// begin says that puts are refused from now on, if that is not known.
func (r *refusals) begin(err error) {
	if r.said.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.said.Load() {
		r.last, r.fitted = time.Now(), false
		r.say(err)
	}
}

// refuse counts a put that was refused.
func (r *refusals) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.fitted = time.Now(), false
	r.count++
	if !r.said.Load() || r.last.Sub(r.saidAt) >= sayAgain {
		r.say(err)
	}
}

// say says that puts are refused. The caller holds mu.
func (r *refusals) say(err error) {
	what := "the disk is full"
	if isScarce(err) {
		what = "there is no next segment"
	}
	args := []any{"err", err}
	if r.said.Load() {
		args = append(args, "refused", r.count)
		r.count = 0
	}
	r.log.Error("binlog: "+what+": puts are answered OUT_OF_MEMORY until there is room", args...)
	r.saidAt = r.last
	r.said.Store(true)
}

// accept notes that a put has fitted, and reports whether settle is to be called now and
// then.
func (r *refusals) accept() bool {
	if !r.said.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.fitted
	r.fitted = true
	return !was
}

// settle says that puts are accepted again if that is so. Otherwise it returns after how
// long it may be so; 0 if a put has to fit first.
func (r *refusals) settle() (wait time.Duration) {
	if !r.said.Load() {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.fitted || !r.said.Load() {
		return 0
	}
	if wait = calm - time.Since(r.last); wait > 0 {
		return wait
	}
	r.log.Info("binlog: there is room again: puts are accepted", "refused", r.count)
	r.count = 0
	r.said.Store(false)
	return 0
}
