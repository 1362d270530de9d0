package router

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/sheafq/sheaf/binlog"
)

// TestDurableOS: the same history on the file system of the machine and on that
// in memory leaves the same, if the server is closed and if it is killed.
func TestDurableOS(t *testing.T) {
	runs := 8
	if *durRuns != 0 {
		runs = *durRuns
	}
	for range runs {
		seed := durDraw()
		var found [2][2]*durState
		for i := range found {
			synctest.Test(t, func(t *testing.T) {
				d := newDurRun(t, seed)
				if i == 1 {
					d.dir, d.disk = filepath.Join(t.TempDir(), "binlog"), binlog.OS
				}
				found[i] = d.stopped()
			})
			if t.Failed() {
				return
			}
		}
		if !reflect.DeepEqual(found[0], found[1]) {
			t.Fatalf("-durable.seed %d: in memory %+v, on disk %+v", seed, found[0], found[1])
		}
	}
}

// stopped returns what is found when a server is killed, and when it is closed,
// after the same history.
func (d *durRun) stopped() (found [2]*durState) {
	end := d.begin(durSyncs[d.rng.IntN(len(durSyncs))], 1+d.rng.IntN(5))
	for range 20 + d.rng.IntN(60) {
		d.round()
	}
	synctest.Wait()
	killed := d.point("killed")
	cfg, shards := d.config(0), 1+d.rng.IntN(5)
	as := cfg // of the killed server
	disk, closed := binlog.FS(killed.fs), binlog.FS(d.fs)
	if d.disk != nil {
		disk, closed = d.disk, d.disk
		as.Dir = d.dir + ".killed"
		if err := os.CopyFS(as.Dir, os.DirFS(d.dir)); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := end(); err != nil {
		d.fatalf("closing: %v", err)
	}
	found[0] = d.find(killed, disk, as, shards)
	found[1] = d.find(killed, closed, cfg, shards)
	for _, s := range found {
		if _, err := killed.compare(s); err != nil {
			d.fatalf("%v", err)
		}
		for _, f := range s.jobs {
			f.File = 0 // it goes with what cleaning had done by then
		}
	}
	return found
}
