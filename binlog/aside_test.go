package binlog_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sheafq/sheaf/binlog"
	"github.com/sheafq/sheaf/binlog/faultfs"
)

// TestDamagedIsPutAside: a segment with damage that is needed no more, because
// all was written again or cleaned, is kept in a folder; the others go.
func TestDamagedIsPutAside(t *testing.T) {
	for _, rearranged := range []bool{true, false} {
		t.Run(fmt.Sprint("rearranged ", rearranged), func(t *testing.T) {
			all := history(t)
			f := disk(all)
			name := streams(all)[0][0]
			path := filepath.Join(dir, name)
			f.Flip(path, binlog.Blocks([]byte(all[name]))[1].At*8)
			damaged := string(f.Read(path))
			cfg := config(f, 2)
			if rearranged {
				cfg.Shards = 3
			}
			s := serve(t, cfg)
			if !rearranged {
				s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
				eventually(t, "the segments are gone", func() bool { return f.Read(path) == nil })
			}
			s.close()
			if got := string(f.Read(filepath.Join(dir, "damaged", name))); got != damaged {
				t.Errorf("%d bytes are put aside, of %d", len(got), len(damaged))
			}
			if kept := f.Read(filepath.Join(dir, "damaged", streams(all)[0][1])); kept != nil {
				t.Error("a segment without damage is put aside, too")
			}
			if list := names(t, f); slices.ContainsFunc(list, func(n string) bool { return strings.HasSuffix(n, name) }) {
				t.Errorf("it is still in the directory: %q", list)
			}
			if _, damages := readBack(t, cfg); len(damages) > 0 {
				t.Errorf("then there is damage: %v", damages)
			}
		})
	}
}

// TestDamagedIsPutAsideTogether: two shards make the folder at the same time.
func TestDamagedIsPutAsideTogether(t *testing.T) {
	all := history(t)
	f := disk(all)
	name := streams(all)[0][0]
	path := filepath.Join(dir, name)
	f.Flip(path, binlog.Blocks([]byte(all[name]))[1].At*8)
	s := serve(t, config(f, 2))
	f.SetFault(func(op faultfs.Op, name string, off int64, n int) error {
		if op == faultfs.OpMkdir {
			f.Write(name+"/segment.1.1.00000099", []byte("the other's"))
		}
		return nil
	})
	s.does(0, func(l *binlog.Log) { l.Drop(l.Segment()) })
	eventually(t, "the segment is put aside", func() bool { return f.Read(filepath.Join(dir, "damaged", name)) != nil })
	s.close()
}
