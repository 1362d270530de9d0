package beanstalk

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	real "github.com/beanstalkd/go-beanstalk"

	"github.com/sheafq/sheaf/router"
)

// The tests of this file drive the server with the client library that most
// Go programs use.

// withRealClient runs f against servers of one shard and of several.
func withRealClient(t *testing.T, f func(t *testing.T, dial func() *real.Conn)) {
	t.Parallel() // they wait more than they work
	for _, n := range []int{1, 7} {
		t.Run(fmt.Sprintf("shards=%d", n), func(t *testing.T) {
			t.Parallel()
			addr := startServer(t, router.Config{Shards: n})
			f(t, func() *real.Conn {
				t.Helper()
				c, err := real.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			})
		})
	}
}

// must and must2 fail the test for an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must2[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// wantErr wants that error of the server's.
func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// wantValues wants those values in a server's statistics.
func wantValues(t testing.TB, got map[string]string, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %q, want %q", k, got[k], v)
		}
	}
}

func TestRealClientLifeOfAJob(t *testing.T) {
	withRealClient(t, func(t *testing.T, dial func() *real.Conn) {
		c := dial()
		id := must2(c.Put([]byte("hello"), 7, 0, time.Minute))(t)
		if id != 1 {
			t.Errorf("the first job is %d", id)
		}
		got, body, err := c.Reserve(time.Second)
		must(t, err)
		if got != id || string(body) != "hello" {
			t.Fatalf("reserved %d %q", got, body)
		}
		must(t, c.Touch(id))
		wantValues(t, must2(c.StatsJob(id))(t), map[string]string{
			"id": "1", "tube": `"default"`, "state": "reserved", "pri": "7", "ttr": "60", "reserves": "1",
		})
		must(t, c.Release(id, 9, 0))
		wantValues(t, must2(c.StatsJob(id))(t), map[string]string{"state": "ready", "pri": "9", "releases": "1"})
		body = must2(c.ReserveJob(id))(t)
		if string(body) != "hello" {
			t.Errorf("reserved %q", body)
		}
		must(t, c.Bury(id, 3))
		wantValues(t, must2(c.StatsJob(id))(t), map[string]string{"state": "buried", "pri": "3", "buries": "1"})
		if got, body, err = c.PeekBuried(); err != nil || got != id || string(body) != "hello" {
			t.Errorf("buried is %d %q, %v", got, body, err)
		}
		if n := must2(c.Kick(10))(t); n != 1 {
			t.Errorf("kicked %d", n)
		}
		if got, body, err = c.PeekReady(); err != nil || got != id || string(body) != "hello" {
			t.Errorf("ready is %d %q, %v", got, body, err)
		}
		must2(c.ReserveJob(id))(t)
		must(t, c.Release(id, 3, time.Hour))
		if got, body, err = c.PeekDelayed(); err != nil || got != id || string(body) != "hello" {
			t.Errorf("delayed is %d %q, %v", got, body, err)
		}
		must(t, c.KickJob(id))
		if body := must2(c.Peek(id))(t); string(body) != "hello" {
			t.Errorf("peeked %q", body)
		}
		must(t, c.Delete(id))

		for _, err := range []error{
			c.Delete(id), c.Release(id, 0, 0), c.Bury(id, 0), c.Touch(id), c.KickJob(id),
			second(c.Peek(id)), second(c.ReserveJob(id)), second(c.StatsJob(id)),
			third(c.PeekReady()), third(c.PeekDelayed()), third(c.PeekBuried()),
		} {
			wantErr(t, err, real.ErrNotFound)
		}
		_, err = c.Put(make([]byte, DefaultMaxJobSize+1), 0, 0, time.Minute)
		wantErr(t, err, real.ErrJobTooBig)
		big := make([]byte, DefaultMaxJobSize)
		for i := range big {
			big[i] = byte(i * i)
		}
		id = must2(c.Put(big, 0, 0, time.Minute))(t)
		if got, body, err = c.Reserve(0); err != nil || got != id || string(body) != string(big) {
			t.Errorf("reserved %d of %d bytes, %v", got, len(body), err)
		}
	})
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func TestRealClientTubes(t *testing.T) {
	withRealClient(t, func(t *testing.T, dial func() *real.Conn) {
		c, w := dial(), dial()
		var names []string
		for i := range 20 {
			tube := real.NewTube(c, fmt.Sprintf("tube-%d", i))
			names = append(names, tube.Name)
			// The later the tube, the more urgent; the second job of each comes
			// last.
			must2(tube.Put([]byte(tube.Name), uint32(100-i), 0, time.Minute))(t)
			must2(tube.Put([]byte("late "+tube.Name), 1000, 0, time.Minute))(t)
		}
		listed := must2(c.ListTubes())(t)
		if want := append([]string{"default"}, names...); !slices.Equal(listed, want) {
			t.Errorf("tubes %q, want %q", listed, want)
		}
		set := real.NewTubeSet(w, names...)
		var order []string
		for range 40 {
			id, body, err := set.Reserve(time.Second)
			must(t, err)
			order = append(order, string(body))
			must(t, w.Delete(id))
		}
		var want []string
		for i := range 20 {
			want = append(want, names[19-i])
		}
		for i := range 20 {
			want = append(want, "late "+names[i])
		}
		if !slices.Equal(order, want) {
			t.Errorf("order %q,\nwant %q", order, want)
		}
		wantErr(t, third(set.Reserve(0)), real.ErrTimeout)
		start := time.Now()
		wantErr(t, third(set.Reserve(time.Second)), real.ErrTimeout)
		if d := time.Since(start); d < 900*time.Millisecond {
			t.Errorf("timed out after %v", d)
		}

		// A reserve that waits gets what is put later, in whatever tube.
		for _, name := range []string{names[3], names[7], names[12], names[19]} {
			type result struct {
				body []byte
				id   uint64
				err  error
			}
			done := make(chan result)
			go func() {
				var r result
				r.id, r.body, r.err = set.Reserve(10 * time.Second)
				done <- r
			}()
			poll(t, "somebody waits", func() bool {
				return must2(c.Stats())(t)["current-waiting"] == "1"
			})
			id := must2(real.NewTube(c, name).Put([]byte(name), 0, 0, time.Minute))(t)
			if r := <-done; r.err != nil || r.id != id || string(r.body) != name {
				t.Errorf("reserved %d %q, %v", r.id, r.body, r.err)
			}
			must(t, w.Delete(id))
		}
		// c uses the last tube it has put to, w watches all and no longer the
		// default.
		wantValues(t, must2(real.NewTube(c, names[19]).Stats())(t), map[string]string{
			"name": `"tube-19"`, "current-jobs-ready": "0", "total-jobs": "3", "current-using": "1",
			"current-watching": "1", "cmd-delete": "3",
		})
		wantErr(t, second(real.NewTube(c, "nosuch").Stats()), real.ErrNotFound)
	})
}

func TestRealClientKickAndPause(t *testing.T) {
	withRealClient(t, func(t *testing.T, dial func() *real.Conn) {
		c := dial()
		tube, set := real.NewTube(c, "t"), real.NewTubeSet(c, "t")
		for i := range 10 {
			id := must2(tube.Put([]byte(strconv.Itoa(i)), 5, 0, time.Minute))(t)
			must2(c.ReserveJob(id))(t)
			must(t, c.Bury(id, 5))
			must2(tube.Put([]byte("delayed"), 5, time.Hour, time.Minute))(t)
		}
		for _, kick := range []struct{ bound, n int }{{3, 3}, {100, 7}, {4, 4}, {100, 6}, {1, 0}} {
			if n := must2(tube.Kick(kick.bound))(t); n != kick.n {
				t.Errorf("kick %d: %d were", kick.bound, n)
			}
		}
		wantValues(t, must2(tube.Stats())(t), map[string]string{
			"current-jobs-ready": "20", "current-jobs-buried": "0", "current-jobs-delayed": "0",
		})
		must(t, tube.Pause(time.Hour))
		wantErr(t, third(set.Reserve(0)), real.ErrTimeout)
		wantValues(t, must2(tube.Stats())(t), map[string]string{"pause": "3600", "cmd-pause-tube": "1"})
		must(t, tube.Pause(time.Second))
		start := time.Now()
		_, _, err := set.Reserve(10 * time.Second)
		must(t, err)
		if d := time.Since(start); d < 900*time.Millisecond || d > 5*time.Second {
			t.Errorf("paused for %v", d)
		}
		wantErr(t, real.NewTube(c, "nosuch").Pause(time.Second), real.ErrNotFound)
		wantValues(t, must2(c.Stats())(t), map[string]string{
			"current-jobs-ready": "19", "current-jobs-reserved": "1", "total-jobs": "20", "current-workers": "1",
			"current-producers": "1", "cmd-kick": "5", "cmd-bury": "10", "cmd-pause-tube": "3", "version": `"test"`,
		})
	})
}

func TestRealClientDeadlines(t *testing.T) {
	withRealClient(t, func(t *testing.T, dial func() *real.Conn) {
		c, other := dial(), dial()
		id := must2(c.Put([]byte("x"), 0, 0, 2*time.Second))(t)
		got, _, err := c.Reserve(0)
		must(t, err)
		if got != id {
			t.Fatalf("reserved %d", got)
		}
		set := real.NewTubeSet(c, "default", "t1", "t2", "t3")
		wantErr(t, third(set.Reserve(10*time.Second)), real.ErrDeadline)
		got, _, err = other.Reserve(10 * time.Second)
		must(t, err)
		if got != id {
			t.Errorf("reserved %d", got)
		}
		wantErr(t, c.Delete(id), real.ErrNotFound)
		wantValues(t, must2(other.StatsJob(id))(t), map[string]string{"timeouts": "1", "reserves": "2"})
		// Its holder goes, and it is there again.
		must(t, other.Close())
		got, _, err = c.Reserve(10 * time.Second)
		must(t, err)
		if got != id {
			t.Errorf("reserved %d", got)
		}
		must(t, c.Delete(id))
	})
}
