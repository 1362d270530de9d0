package binlog_test

// The last segment of a stream is cut off: by a crash, which is no damage, or
// by something else. What the manifest says tells one from the other.

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// cutSyncs are modes of each kind.
var cutSyncs = []time.Duration{0, 50 * time.Millisecond, binlog.SyncNever}

// TestCutBegun: a segment is cut off in its header that was on the disk: that
// which the last server began with, and one that it went on in. It is damage,
// but where nothing was ever synced.
func TestCutBegun(t *testing.T) {
	for _, sync := range cutSyncs {
		for _, rolls := range []int{0, 1} {
			for _, killed := range []bool{true, false} {
				for _, size := range []int{0, 50, binlog.SegmentHeader - 1} {
					f := faultfs.New()
					cfg := config(f, 1)
					cfg.Sync = sync
					s := serve(t, cfg)
					s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
					s.close()
					s = serve(t, cfg)
					for range rolls {
						s.rolls(0, 9)
					}
					s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "two")) })
					if killed {
						s.halt(f)
					} else {
						s.close()
					}
					list := segments(t, f)
					name := list[len(list)-1]
					path := filepath.Join(dir, name)
					f.Write(path, f.Read(path)[:size])
					var want []string
					if sync != binlog.SyncNever {
						want = []string{place(name, 0)}
					}
					what := fmt.Sprintf("sync %v, %d rolls, killed %v, %d bytes", sync, rolls, killed, size)
					cfg.Strict = true
					if err := refuses(t, cfg); (err != nil) != (len(want) > 0) {
						t.Errorf("%s: strict: %v", what, err)
					}
					if got, damages := readBack(t, cfg); at(damages) != strings.Join(want, ", ") || got.of[1].ID != 1 {
						t.Errorf("%s: damage is found at %q, want %q", what, at(damages), want)
					}
				}
			}
		}
	}
}

// refuses returns why a server does not start. It changes nothing if it does not
// start.
func refuses(t *testing.T, cfg binlog.Config) error {
	cfg.FS = cfg.FS.(*faultfs.FS).Kill()
	st := open(t, cfg)
	defer st.Close()
	replay(t, st)
	_, err := st.Begin()
	return err
}

// TestCutAfterAGoodEnd: a server that syncs and has come to its end has left all
// on the disk, and so each byte that is missing is damage, and said until it is
// not needed any more.
func TestCutAfterAGoodEnd(t *testing.T) {
	for _, sync := range cutSyncs {
		f := faultfs.New()
		cfg := config(f, 1)
		cfg.Sync = sync
		s := serve(t, cfg)
		s.rolls(0, 9)
		for id := uint64(1); id <= 3; id++ {
			s.does(0, func(l *binlog.Log) { l.Put(job(id, "a", "body")) })
		}
		s.close()
		all := files(t, f)
		list := segments(t, f)
		name := list[len(list)-1]
		data := all[name]
		blocks := binlog.Blocks([]byte(data))
		for size := int64(binlog.SegmentHeader); size < int64(len(data)); size++ {
			end, left := int64(binlog.SegmentHeader), 0
			for _, b := range blocks {
				if b.End <= size {
					end, left = b.End, left+1
				}
			}
			f := disk(with(all, name, data[:size]))
			cfg.FS = f
			where, said := "", ""
			if sync != binlog.SyncNever {
				where, said = place(name, end), fmt.Sprintf("the end of the file is cut off, %d blocks are missing: the jobs and changes recorded there are lost", 3-left)
				said = strings.Replace(said, "1 blocks are", "1 block is", 1)
			}
			for range 2 {
				got, damages := readBack(t, cfg)
				if at(damages) != where || len(got.of) != left || said != "" && damages[0].What != said {
					t.Fatalf("sync %v, %d bytes: %d jobs, %q, want %q", sync, size, len(got.of), damages, said)
				}
				serve(t, cfg).close()
			}
		}
	}
}

// TestCutAfterAnotherMode: what one server knew of the disk is not true of what
// the next one wrote there, which does not sync, and the other way round.
func TestCutAfterAnotherMode(t *testing.T) {
	for _, last := range cutSyncs {
		f := faultfs.New()
		cfg := config(f, 1)
		for _, cfg.Sync = range append(cutSyncs, last) {
			s := serve(t, cfg)
			s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
			s.close()
		}
		list := segments(t, f)
		name := list[len(list)-1]
		f.Write(filepath.Join(dir, name), nil)
		if _, damages := readBack(t, cfg); (len(damages) > 0) != (last != binlog.SyncNever) {
			t.Errorf("the last one syncs after %v: %v", last, damages)
		}
	}
}

// TestCutAfterAFullDisk: a server that does not sync has to do with the manifest
// of one that does, since the disk is full. What a power failure leaves of it is
// no damage that would not be without that.
func TestCutAfterAFullDisk(t *testing.T) {
	for seed := range uint64(20) {
		f := faultfs.New()
		cfg := config(f, 1)
		s := serve(t, cfg)
		s.does(0, func(l *binlog.Log) { l.Put(job(1, "a", "one")) })
		s.close()
		f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
			if op == faultfs.OpWriteAt && strings.Contains(name, "manifest") {
				return syscall.ENOSPC
			}
			return nil
		})
		cfg.Sync = binlog.SyncNever
		s = serve(t, cfg)
		f.SetFault(nil)
		s.rolls(0, 9)
		s.does(0, func(l *binlog.Log) { l.Put(job(2, "a", "two")) })
		left := f.Kill()
		s.close()
		for n := range uint64(20) {
			c := left.Crash(rand.New(rand.NewPCG(seed, n)))
			cfg.FS = c
			_, damages := readBack(t, cfg)
			manifest := dir + "/manifest"
			c.Write(manifest, binlog.WithoutSynced(c.Read(manifest)))
			if _, without := readBack(t, cfg); !slices.Equal(damages, without) {
				t.Fatalf("seed %d, %d: %v, want %v", seed, n, damages, without)
			}
		}
	}
}

// TestCutByAnOldServer: old ones did not write down what was on the disk.
func TestCutByAnOldServer(t *testing.T) {
	all := history(t)
	all["manifest"] = string(binlog.WithoutSynced([]byte(all["manifest"])))
	for _, stream := range streams(all) {
		name := stream[len(stream)-1]
		for size := range binlog.SegmentHeader {
			finds(t, disk(with(all, name, all[name][:size])), without(all, func(file string, _ binlog.Block) bool { return file == name }))
		}
	}
}

// TestCutByPowerLoss: whatever a power failure leaves, at any moment of the lives
// of servers in any mode, what the manifest says was on the disk is there. So
// nothing is taken for damage that would not be without it.
func TestCutByPowerLoss(t *testing.T) {
	told := 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		f := faultfs.New()
		for range 4 {
			cfg := config(f, 1+rng.IntN(2))
			cfg.Sync = cutSyncs[rng.IntN(len(cutSyncs))]
			cut := f.Cut(1 + rng.IntN(60))
			s := serve(t, cfg)
			for id := range uint64(rng.IntN(4)) {
				s.does(0, func(l *binlog.Log) { l.Put(job(id+1, "a", noise(rng.IntN(2000)))) })
				if rng.IntN(3) == 0 {
					s.rolls(0, 9)
				}
			}
			left := f.Kill()
			s.close()
			select {
			case left = <-cut:
			default:
				if rng.IntN(2) == 0 {
					left = f.Kill()
				}
			}
			for n := range uint64(10) {
				c := left.Crash(rand.New(rand.NewPCG(seed, n)))
				cfg.FS = c
				manifest := c.Read(dir + "/manifest")
				if manifest == nil {
					continue
				}
				got, damages := readBack(t, cfg)
				c.Write(dir+"/manifest", binlog.WithoutSynced(manifest))
				want, without := readBack(t, cfg)
				if got.same(t, want); !slices.Equal(damages, without) {
					t.Fatalf("seed %d, sync %v: %v, want %v\n%s", seed, cfg.Sync, damages, without, manifest)
				}
				if strings.Contains(string(manifest), "synced") {
					told++
				}
			}
			f = left
		}
	}
	t.Logf("%d times the manifest told of it", told)
}
