package binlog_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sheafq/sheaf/binlog"
)

// TestWritableWhoseFilesAreNotKnown: where the file system does not say whose a new
// file would be, a directory of another user is not refused.
func TestWritableWhoseFilesAreNotKnown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	other := t.TempDir()
	if err := os.Chown(other, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := binlog.OS.Writable(other); err == nil {
		t.Error("root may write to a directory of another user")
	}
	dir := t.TempDir()
	if err := unix.Mount("devpts", dir, "devpts", 0, ""); err != nil { // it has no unnamed files
		t.Skip(err)
	}
	defer unix.Unmount(dir, 0)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := binlog.OS.Writable(dir); err != nil {
		t.Error(err)
	}
}
