package router

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestNewClientCostStack: the goroutine of a client that has only come keeps the
// 2 KiB of stack that it began with. 10,000 of them do nothing all day, so a
// shard's turn is not served on one before it has asked for something.
func TestNewClientCostStack(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has larger frames")
	}
	r := newEngine(t, 2)
	const n = 2000
	come, gone := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	// The runtime has a goroutine begin with as much stack as those that its last
	// collection has seen were using on average, so that has to see many small ones.
	for range n {
		all.Go(func() {
			come <- struct{}{}
			<-gone
		})
		<-come
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		all.Go(func() {
			c := r.NewClient()
			come <- struct{}{}
			<-gone
			c.Close()
		})
		<-come
		time.Sleep(10 * time.Microsecond) // the shard is idle again
	}
	runtime.ReadMemStats(&after)
	close(gone)
	all.Wait()
	if got := (after.StackInuse - before.StackInuse) / n; got > 3<<10 {
		t.Errorf("%d bytes of stack a client", got)
	}
}
